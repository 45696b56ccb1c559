// SPDX-License-Identifier: Apache-2.0
/* Transfers with damaged blocks, and with data channels that break one by one or all together. Both
 * sides run in one process, with control over a socket pair and data over loopback. */
#include "tests/support/faults.h"
#include "tests/support/pair.h"
#include "transfer/setup.h"
#include "transfer/sink/sink.h"
#include "transfer/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

static void start(struct pair *p)
{
	pair_start(p);
	p->c.request.flags = BULK_F_MODES | BULK_F_TIMES | BULK_F_RESUME;
	p->c.request.offer.channels = 3;
}

static void stop(struct pair *p)
{
	pair_stop(p);
	set_faults(NULL);
}

/* Copies file a to b, in either direction. */
static int move(struct pair *p, uint8_t op)
{
	shell("rm -rf b");
	return pair_move(p, op, at("a"), at("b"));
}

static const uint8_t both_ways[] = { BULK_PUT, BULK_GET };

static void socket_pair(int *a, int *b)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	*a = sv[0];
	*b = sv[1];
}

/* ---- damaged blocks ---- */

/* A damaged block closes its channel, whether head or payload is damaged and with every protection;
 * the other channels carry its blocks. */
static void test_damaged_block(void **state)
{
	static const char *const rules[] = { "corrupt:after=5M:count=1",
					     "corrupt-head:after=5M:count=1" };

	(void)state;
	need_faults();
	shell("head -c 30000000 /dev/urandom > a");
	for (int i = 0; i < 12; i++) {
		struct pair p;

		set_faults(rules[i % 2]);
		start(&p);
		p.c.request.offer.prot_min = (uint8_t)(i / 4); /* clear, safe, private */
		if (move(&p, both_ways[i / 2 % 2]))
			fail_msg("%d: %s", i, p.e.text);
		assert_int_equal(p.r.agreement.prot, i / 4);
		assert_int_equal(p.r.failed, 0);
		assert_int_equal(p.r.channels_lost, 1);
		shell("cmp a b");
		stop(&p);
	}
}

/* ---- no channel is left ---- */

/* The missing data comes over the control stream. */
static void test_all_channels_die(void **state)
{
	(void)state;
	need_faults();
	shell("head -c 30000000 /dev/urandom > a");
	for (int i = 0; i < 2; i++) {
		struct pair p;

		set_faults("cut:after=5M");
		start(&p);
		if (move(&p, both_ways[i]))
			fail_msg("%d: %s", i, p.e.text);
		assert_true(p.r.fell_back && p.v.r.fell_back);
		assert_in_range(p.r.channels_lost, 1, 3);
		assert_int_equal(p.r.failed, 0);
		assert_int_equal(p.r.bytes, 30000000);
		shell("cmp a b");
		stop(&p);
	}
}

/* With much data left the transfer fails, and the next attempt resumes it over new data
 * channels. */
static void early(uint8_t op)
{
	struct pair p;

	set_faults("cut:after=60M");
	start(&p);
	p.c.anew_from = 1 << 20;
	assert_int_equal(move(&p, op), -ECONNRESET);
	assert_non_null(strstr(p.e.text, "no data channel is left"));
	stop(&p);
	start(&p);
	p.c.anew_from = 1 << 20;
	if (pair_move(&p, op, at("a"), at("b")))
		fail_msg("%s", p.e.text);
	assert_false(p.r.fell_back);
	assert_in_range(p.r.resumed, 1, 199999999);
	assert_int_equal(p.r.bytes + p.r.resumed, 200000000);
	shell("cmp a b");
	stop(&p);
}

static void test_all_channels_die_early(void **state)
{
	(void)state;
	need_faults();
	shell("head -c 200000000 /dev/urandom > a");
	early(BULK_PUT);
	early(BULK_GET);
}

/* With little data left a new attempt is not worth while. */
static void test_all_channels_die_late(void **state)
{
	struct pair p;

	(void)state;
	need_faults();
	shell("head -c 30000000 /dev/urandom > a");
	set_faults("cut:after=5M");
	start(&p);
	p.c.anew_from = 30000001;
	if (move(&p, BULK_PUT))
		fail_msg("%s", p.e.text);
	assert_true(p.r.fell_back);
	shell("cmp a b");
	stop(&p);
}

/* Standard input and output cannot be restarted: the same stream continues over the control stream,
 * each byte once. */
static void test_all_channels_of_a_stream_die(void **state)
{
	struct transfer_item item = { .kind = ITEM_STDIO };

	(void)state;
	need_faults();
	shell("head -c 30000000 /dev/urandom > a");
	for (int i = 0; i < 2; i++) {
		int std = i ? STDOUT_FILENO : STDIN_FILENO, old = dup(std), r;
		int fd = open(at(i ? "b" : "a"), i ? O_CREAT | O_WRONLY | O_TRUNC : O_RDONLY, 0600);
		struct pair p;

		item.fd = std;
		set_faults("cut:after=5M");
		start(&p);
		fflush(stdout);
		assert_int_equal(dup2(fd, std), std);
		close(fd);
		p.c.request.flags |= i ? BULK_F_SEQUENTIAL : 0;
		r = i ? pair_get_item(&p, at("a"), &item) : pair_put_item(&p, &item, at("b"));
		dup2(old, std);
		close(old);
		if (r)
			fail_msg("%d: %s", i, p.e.text);
		assert_true(p.r.fell_back);
		assert_int_equal(p.r.failed, 0);
		shell("cmp a b");
		stop(&p);
	}
}

/* ---- a consumer that has stopped ---- */

enum ending { BY_SIGNAL, BY_PEER };

struct ender {
	struct pair *p;
	enum ending how;
	int flags;                 /* of standard output during the transfer */
	int listening;             /* listening sockets at that time */
};

static int count_listeners(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		int on = 0;
		socklen_t len = sizeof(on);

		if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &len))
			n += on;
	}
	return n;
}

static void *end_soon(void *arg)
{
	struct ender *n = arg;

	usleep(500000);
	n->flags = fcntl(STDOUT_FILENO, F_GETFL);
	n->listening = count_listeners();
	if (n->how == BY_SIGNAL)
		pair_interrupt(n->p);
	else
		shutdown(n->p->v.fd, SHUT_RDWR);
	return NULL;
}

/* Gets a to out, which fills up soon, and then ends the transfer. */
static int get_to_nobody(int out, enum ending how)
{
	struct transfer_item item = { .kind = ITEM_STDIO, .fd = STDOUT_FILENO };
	int old, r;
	struct ender n = { .how = how };
	struct pair p;
	pthread_t t;

	start(&p);
	fflush(stdout);
	old = dup(STDOUT_FILENO);
	dup2(out, STDOUT_FILENO);
	n.p = &p;
	pair_stoppable(&p);
	p.c.request.flags |= BULK_F_SEQUENTIAL;
	assert_int_equal(thread_start(&t, "ender", end_soon, &n), 0);
	alarm(30);
	r = pair_get_item(&p, at("a"), &item);
	alarm(0);
	pthread_join(t, NULL);
	dup2(old, STDOUT_FILENO);
	close(old);
	assert_int_equal(n.flags & O_NONBLOCK, 0);
	/* The data port is closed once all channels have come. */
	assert_int_equal(n.listening, 0);
	pair_unstoppable(&p);
	stop(&p);
	return r;
}

static void test_consumer_that_stopped(void **state)
{
	int fds[2];

	(void)state;
	shell("truncate -s 30M a");
	for (int i = 0; i < 4; i++) {
		bool by_signal = i % 2;
		int r;

		if (i < 2)
			assert_int_equal(pipe(fds), 0);
		else
			socket_pair(&fds[0], &fds[1]);
		r = get_to_nobody(fds[1], by_signal ? BY_SIGNAL : BY_PEER);
		if (by_signal ? r != -EINTR : !r)
			fail_msg("%d: %d", i, r);
		close(fds[0]);
		close(fds[1]);
	}
}

static void *wake_soon(void *arg)
{
	usleep(300000);
	stdout_wake(arg);
	return NULL;
}

/* A pipe that cannot be reopened, such as one of another user, is written in pieces that do not
 * block: the wake finds the writer in poll(). */
static void test_pipe_of_another_user(void **state)
{
	struct stdout_writer o = { .chunk = PIPE_BUF };
	char buf[5000] = { 0 };
	pthread_t t;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	o.fd = fds[1];
	o.wake = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(thread_start(&t, "wake", wake_soon, &o), 0);
	alarm(30);
	while (!stdout_write(&o, buf, sizeof(buf)))
		;
	assert_int_equal(stdout_write(&o, buf, 1), -ECANCELED);
	alarm(0);
	pthread_join(t, NULL);
	stdout_close(&o);
	close(fds[0]);
	close(fds[1]);
}

/* ---- two paths ---- */

/* Both ends of a transfer over two paths with one channel each, set up by hand: with one network
 * card the agreement would give one path. */
#define PATHS 2

struct two {
	struct source s;
	struct sink k;
	struct mstream *ms[2];
	struct transfer_config c[2];
	struct transfer_item from, to;
	struct root *root;
	struct transfer_result r[2];
	struct err e[2];
	int result[2];
	pthread_t source, sink;
};

static void *source_main(void *arg)
{
	struct two *t = arg;
	bool in_line;

	t->result[0] = setup_run(&t->s.x, &t->r[0], &in_line, &t->e[0]);
	return NULL;
}

static void *sink_main(void *arg)
{
	struct two *t = arg;
	bool in_line;

	t->result[1] = setup_run(&t->k.x, &t->r[1], &in_line, &t->e[1]);
	return NULL;
}

/* Adds a path with a connected socket. */
static void join_path(struct xfer *x, uint32_t i, int fd, struct err *e)
{
	struct pool_config pc = { .blocks = x->source ? x->agr.source_blocks : x->agr.sink_blocks,
				  .payload = x->agr.block };
	struct path_config c = { .source = x->source, .payload = x->agr.block,
				 .inflight = x->agr.inflight };

	c.pool = x->pools[i] = pool_new(&pc, e);
	if (c.pool)
		x->paths[i] = tcp_path_new(&c, &fd, 1, e);
	if (!x->paths[i])
		fail_msg("%s", e->text);
	x->npaths = x->nroutes = i + 1;
}

static void fill_end(struct two *t, struct xfer *x, int end, const int *fds)
{
	static const uint8_t master[KEY_BYTES], nonce[NONCE_BYTES];
	struct transfer_config *c = &t->c[end];

	c->ms = t->ms[end];
	c->root = t->root;
	c->items = end ? &t->to : &t->from;
	c->nitems = 1;
	c->stop = -1;
	transfer_tuning_default(&c->tuning);
	c->tuning.io = IO_POSIX;
	x->c = c;
	x->agr = (struct agreement){ .transport = TRANSPORT_TCP, .op = OP_WRITE, .crc = true,
				     .ack = ACK_WRITTEN, .paths = PATHS, .channels = 1,
				     .block = BLOCK_MIN, .inflight = 8, .source_blocks = 12,
				     .sink_blocks = 8, .entries_ahead = 100 };
	assert_int_equal(xkeys_init(&x->keys, master, nonce, nonce, 1), 0);
	x->dir = CLIENT_TO_SERVER;
	x->client = end == 0;
	for (uint32_t i = 0; i < PATHS; i++)
		join_path(x, i, fds[i], &t->e[end]);
}

static void two_start(struct two *t, const int *source_fds, const int *sink_fds)
{
	int sv[2];

	memset(t, 0, sizeof(*t));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	for (int i = 0; i < 2; i++)
		t->ms[i] = ms_new(stream_plain(sv[i], sv[i]));
	t->root = root_new("/", false, NULL);
	t->from = (struct transfer_item){ .kind = ITEM_PATH, .path = at("a") };
	t->to = (struct transfer_item){ .kind = ITEM_PATH, .path = at("b") };
	source_init(&t->s);
	fill_end(t, &t->s.x, 0, source_fds);
	sink_init(&t->k);
	fill_end(t, &t->k.x, 1, sink_fds);
	assert_int_equal(thread_start(&t->source, "source", source_main, t), 0);
	assert_int_equal(thread_start(&t->sink, "sink", sink_main, t), 0);
}

static void two_join(struct two *t)
{
	pthread_join(t->source, NULL);
	pthread_join(t->sink, NULL);
	source_destroy(&t->s);
	sink_destroy(&t->k);
	ms_free(t->ms[0]);
	ms_free(t->ms[1]);
	root_free(t->root);
}

static uint64_t path_bytes(const struct path *p)
{
	return __atomic_load_n(&p->channel_bytes[0], __ATOMIC_RELAXED);
}

/* The second path loses all its blocks, and dies when all others have been sent: its blocks go over
 * the first path, which must still be open. */
static void test_path_dies_at_the_end(void **state)
{
	int ours[PATHS], theirs[PATHS], swallow[2];
	struct two *t = calloc(1, sizeof(*t));
	uint64_t bytes = 0, before;
	struct buf *lost;

	(void)state;
	shell("rm -f b; head -c 8000000 /dev/urandom > a");
	socket_pair(&ours[0], &theirs[0]);
	/* The source's second path ends in a socket that is never read, and the sink's second path
	 * gets no data. */
	socket_pair(&ours[1], &swallow[0]);
	socket_pair(&swallow[1], &theirs[1]);
	two_start(t, ours, theirs);
	do {
		before = bytes;
		usleep(300000);
		bytes = path_bytes(t->s.x.paths[0]);
	} while (!bytes || bytes != before);
	/* The sink's end of the path gets EOF with no block outstanding, as at a clean end, until
	 * the source reports the channel lost. */
	close(swallow[1]);
	for (int i = 0; atomic_load(&t->k.x.paths[1]->alive); i++) {
		assert_true(i < 20000);
		usleep(1000);
	}
	lost = buf_new(64);
	assert_int_equal(bulk_pair_put(lost, 1, ECONNRESET), 0);
	assert_int_equal(xfer_on_lost(&t->k.x, lost), 0);
	buf_free(lost);
	close(swallow[0]);
	two_join(t);
	if (t->result[0] || t->result[1])
		fail_msg("%s, %s", t->e[0].text, t->e[1].text);
	assert_int_equal(t->r[0].channels_lost, 1);
	assert_int_equal(t->r[1].channels_lost, 1);
	assert_int_equal(t->r[0].files, 1);
	shell("cmp a b");
	free(t);
}

/* The peer's LOST and the local end of the channel come in either order: the local cause is
 * reported, and the channel counts once. */
static void test_lost_by_both(void **state)
{
	static const struct {
		bool peer_first, peer_last;
		int error, why;
	} t[] = {
		{ .peer_first = true, .error = -EBADMSG, .why = EBADMSG },
		{ .peer_last = true, .error = -EBADMSG, .why = EBADMSG },
		{ .peer_first = true, .why = -CHANNEL_GIVEN_UP },
		{ .peer_last = true, .why = -CHANNEL_GIVEN_UP },
		{ .peer_first = true, .peer_last = true, .why = -CHANNEL_GIVEN_UP },
		{ .error = -ECONNRESET, .why = ECONNRESET },
		{ .why = 0 },
	};
	static const struct path_ops none;
	struct path path = { .ops = &none, .nchannels = 2 };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(*t); i++) {
		struct xfer *x = calloc(1, sizeof(*x));

		assert_non_null(x);
		x->npaths = 1;
		x->agr.channels = 2;
		x->paths[0] = &path;
		for (int turn = 0; turn < 2; turn++) {
			struct buf *lost = buf_new(64);

			assert_int_equal(bulk_pair_put(lost, 1, ECONNRESET), 0);
			if (turn ? t[i].peer_last : t[i].peer_first)
				assert_int_equal(xfer_on_lost(x, lost), 0);
			buf_free(lost);
			if (!turn)
				xfer_channel_down(x, 0, 1, t[i].error);
		}
		assert_int_equal(x->lost_why[1], t[i].why);
		assert_int_equal(x->channels_lost, t[i].why ? 1 : 0);
		free(x);
	}
}

static int setup(void **state)
{
	(void)state;
	return pair_setup("/tmp");
}

/* A server that closes without reading the request has already sent its reason. */
static void test_refusal_before_the_request(void **state)
{
	struct pair p;
	int sv[2];

	(void)state;
	shell("mkdir refused");
	start(&p);
	pair_server_stop(&p.v, p.ms);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	p.c.ms = p.ms = ms_new(stream_plain(sv[0], sv[0]));
	assert_int_equal(write(sv[1], "550 no\r\n", 8), 8);
	assert_int_equal(shutdown(sv[1], SHUT_RD), 0);
	assert_int_equal(pair_put(&p, at("refused"), at("never")), -EPERM);
	assert_string_equal(p.e.text, "the server refuses: 550 no");
	ms_free(p.ms);
	root_free(p.c.root);
	close(sv[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_block),
		cmocka_unit_test(test_all_channels_die),
		cmocka_unit_test(test_all_channels_die_early),
		cmocka_unit_test(test_all_channels_die_late),
		cmocka_unit_test(test_all_channels_of_a_stream_die),
		cmocka_unit_test(test_path_dies_at_the_end),
		cmocka_unit_test(test_lost_by_both),
		cmocka_unit_test(test_refusal_before_the_request),
		cmocka_unit_test(test_consumer_that_stopped),
		cmocka_unit_test(test_pipe_of_another_user),
	};

	return cmocka_run_group_tests(tests, setup, pair_teardown);
}
