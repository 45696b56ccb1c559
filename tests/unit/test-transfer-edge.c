// SPDX-License-Identifier: Apache-2.0
/* Edge cases of transfers: nothing to send, existing files at the destination, channels that die,
 * more readers than blocks. Both sides run in one process, with control over a socket pair and data
 * over loopback. */
#include "tests/support/faults.h"
#include "tests/support/pair.h"
#include "transfer/source/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- nothing to send ---- */

/* Files without data: a big one, for which the source asks about a partial file, and a small one,
 * for which the policy asks. */
static void test_sparse_without_data(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b && mkdir a && truncate -s 100M a/big && truncate -s 100K a/small");
	pair_start(&p);
	pair_put_ok(&p, at("a"), at("b"));
	assert_int_equal(p.r.files, 2);
	assert_int_equal(p.r.bytes, 0);
	shell("cmp a/big b/big && cmp a/small b/small && test $(du -k b/big | cut -f1) -lt 100");
	shell("rm -r b");
	p.c.request.policy = POLICY_UPDATE;
	pair_put_ok(&p, at("a"), at("b"));
	assert_int_equal(p.r.bytes, 0);
	shell("cmp a/big b/big && cmp a/small b/small");
	pair_stop(&p);
}

/* Each of these empty files waits for a verdict, and is synced: exactly one job must commit it. */
static void test_many_empty_files_that_ask(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b && mkdir a && cd a && touch $(seq 3000)");
	pair_start(&p);
	p.c.request.policy = POLICY_SAME;
	p.c.request.offer.ack = ACK_SYNCED;
	pair_put_ok(&p, at("a"), at("b"));
	assert_int_equal(p.r.files, 3000);
	assert_int_equal(p.r.remote.files, 3000);
	shell("test $(ls b | wc -l) = 3000");
	pair_stop(&p);
}

/* ---- existing files ---- */

/* In a file written in place, holes become zeros, whatever the old content. */
static void test_sparse_in_place(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b && truncate -s 8M a && echo data | dd of=a bs=1 seek=3000000 "
	      "conv=notrunc 2>/dev/null && head -c 9000000 /dev/zero | tr '\\0' x > b");
	pair_start(&p);
	p.c.request.flags |= BULK_F_INPLACE;
	pair_put_ok(&p, at("a"), at("b"));
	shell("cmp a b");
	pair_stop(&p);
}

static void *stop_soon(void *arg)
{
	usleep(1200000);
	pair_interrupt(arg);
	return NULL;
}

static void stop_half_way(void *arg, const struct transfer_progress *p)
{
	if (p->bytes > 40000000)
		pair_interrupt(arg);
}

/* Puts from, 100 MB long, to to, and stops the transfer half way. */
static void interrupt(struct pair *p, const char *from, const char *to)
{
	pair_stoppable(p);
	p->c.request.rate = 50000000;
	p->c.events = (struct transfer_events){ .progress = stop_half_way, .arg = p };
	assert_int_equal(pair_put(p, from, to), -EINTR);
	p->c.events = (struct transfer_events){ 0 };
	pair_unstoppable(p);
	p->c.request.rate = 0;
}

/* The partial file of another source file with the same size and time: its bytes must not show
 * through the holes, for which no data is sent. */
static void test_resumed_holes(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b c && mkdir c && head -c 100000000 /dev/urandom > a && "
	      "truncate -s 100000000 b && dd if=a of=b bs=1M count=5 seek=1 skip=1 conv=notrunc "
	      "2>/dev/null && touch -d 2020-01-01 a b");
	pair_start(&p);
	interrupt(&p, at("a"), at("c/file"));
	shell("ls -A c | grep -q '^.rftp-'");
	pair_put_ok(&p, at("b"), at("c/file"));
	assert_true(p.r.resumed > 0);
	shell("cmp b c/file");
	pair_stop(&p);
}

/* On standard output holes are written as zeros. */
static void test_sparse_to_a_stream(void **state)
{
	struct transfer_item out = { .kind = ITEM_STDIO, .fd = STDOUT_FILENO };
	int old, fd, r;
	struct pair p;

	(void)state;
	shell("rm -rf a out && truncate -s 3M a && echo x | dd of=a bs=1 seek=1500000 "
	      "conv=notrunc 2>/dev/null");
	pair_start(&p);
	p.c.request.flags |= BULK_F_SEQUENTIAL;
	fflush(stdout);
	old = dup(STDOUT_FILENO);
	fd = open(at("out"), O_CREAT | O_WRONLY, 0600);
	dup2(fd, STDOUT_FILENO);
	r = pair_get_item(&p, at("a"), &out);
	dup2(old, STDOUT_FILENO);
	close(old);
	close(fd);
	if (r)
		fail_msg("%s", p.e.text);
	shell("cmp a out");
	pair_stop(&p);
}

/* Directories that are writable but not readable can be used and synced. */
static void test_unreadable_destination(void **state)
{
	bool root = !geteuid();
	struct pair p;

	(void)state;
	shell("rm -rf a d && mkdir -p a/sub d/sub && echo 1 > a/1 && echo 2 > a/sub/2 && "
	      "ln -s 1 a/3 && chmod 300 d/sub d && chmod 755 .");
	if (root) {
		shell("chown -R 65534 d");
		assert_int_equal(seteuid(65534), 0);
	}
	pair_start(&p);
	p.c.request.offer.ack = ACK_SYNCED;
	p.c.request.flags = BULK_F_RECURSIVE;
	pair_put_ok(&p, at("a"), at("d"));
	pair_put_ok(&p, at("a/1"), at("d/sub/"));
	pair_put_ok(&p, at("a"), at("d/new"));
	pair_stop(&p);
	assert_int_equal(seteuid(root ? 0 : geteuid()), 0);
	shell("chmod 755 d d/sub && cmp a/1 d/1 && cmp a/sub/2 d/sub/2 && cmp a/1 d/sub/1 && "
	      "diff -r a d/new");
}

/* Links are synced in groups: a sync for each of 2000 links would reach the injected fault. */
static void test_links_are_synced_together(void **state)
{
	struct pair p;

	(void)state;
	need_faults();
	shell("rm -rf a b && mkdir a && cd a && echo f > f && for i in $(seq 1000); do "
	      "ln -s f s$i && ln f h$i; done");
	pair_start(&p);
	p.c.request.offer.ack = ACK_SYNCED;
	set_faults("sync:EIO:after=700");
	pair_put_ok(&p, at("a"), at("b"));
	set_faults(NULL);
	pair_stop(&p);
	shell("diff -r --no-dereference a b && test $(stat -c %%h b/f) = 1001");
	/* A link that cannot be synced counts as failed. */
	pair_start(&p);
	p.c.request.offer.ack = ACK_SYNCED;
	shell("rm -r b && mkdir b && rm a/f a/h*");
	set_faults("sync:EIO");
	assert_int_equal(pair_put(&p, at("a"), at("b/")), 0);
	set_faults(NULL);
	assert_int_equal(p.r.failed, 1000);
	pair_stop(&p);
}

/* A created destination directory is not writable for all users. */
static void test_mode_of_the_destination(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a d && echo a > a");
	pair_start(&p);
	p.c.request.flags |= BULK_F_MKDIRS;
	pair_put_ok(&p, at("a"), at("d/e/f/"));
	shell("test $(stat -c %%a d) = 755 && test $(stat -c %%a d/e) = 755 && "
	      "test $(stat -c %%a d/e/f) = 755");
	pair_stop(&p);
}

/* If a file is skipped because its name exists, a hard link to it must not be made: it would be a
 * link to the other file. */
static void test_link_to_what_was_skipped(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b && mkdir -p a/d b && echo ours > a/1 && "
	      "ln a/1 a/d/2 && echo theirs > b/1");
	pair_start(&p);
	p.c.request.policy = POLICY_SKIP;
	assert_int_equal(pair_put(&p, at("a"), at("b")), 0);
	assert_int_equal(p.r.failed, 1);
	shell("grep -q theirs b/1 && ! test -e b/d/2");
	/* If the existing file is the same, the link is made. */
	shell("rm -rf b && mkdir b && cp -p a/1 b/1");
	pair_put_ok(&p, at("a"), at("b"));
	shell("test b/1 -ef b/d/2");
	pair_stop(&p);
}

/* More hard-linked files than the source remembers: all are copied, and the remembered ones stay
 * linked. */
static void test_many_hard_links(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b && mkdir -p a/1 a/2 && cd a && for i in 1 2 3; do echo $i > 1/$i && "
	      "ln 1/$i 2/$i; done");
	pair_start(&p);
	p.c.tuning.link_groups = 2;
	pair_put_ok(&p, at("a"), at("b"));
	pair_stop(&p);
	shell("diff -r a b && test $(for i in 1 2 3; do test b/1/$i -ef b/2/$i && echo; done | "
	      "wc -l) = 2");
	/* A complete group makes room for another, whatever the order of the names. */
	shell("rm -r a b && mkdir -p a/1 a/2 && for i in 1 2; do echo $i > a/$i/x && "
	      "ln a/$i/x a/$i/y && ln a/$i/x a/$i/z; done");
	pair_start(&p);
	p.c.tuning.link_groups = 1;
	pair_put_ok(&p, at("a"), at("b"));
	pair_stop(&p);
	shell("diff -r a b && for i in 1 2; do test b/$i/x -ef b/$i/y && test b/$i/x -ef b/$i/z || "
	      "exit 1; done");
}

/* ---- channels and blocks ---- */

/* When no data channel is left and no fallback was agreed, the transfer fails, although the control
 * connection works. */
static void test_all_channels_die(void **state)
{
	struct pair p;

	(void)state;
	need_faults();
	shell("rm -rf a b && truncate -s 1G a");
	pair_start(&p);
	p.c.request.flags &= ~(uint32_t)BULK_F_SPARSE;
	p.c.request.offer.transports = TRANSPORT_TCP;
	set_faults("cut:rate=0.05");
	assert_int_not_equal(pair_put(&p, at("a"), at("b")), 0);
	set_faults(NULL);
	shell("! test -e b");
	pair_stop(&p);
}

/* More readers than blocks: each fills a block with small files and needs another one for a piece
 * of a big file. */
static void test_readers_share_few_blocks(void **state)
{
	struct pair p;

	(void)state;
	shell("rm -rf a b && mkdir a && for d in $(seq 40); do mkdir a/$d; for i in $(seq 6); do "
	      "head -c 100 /dev/urandom > a/$d/s$i; head -c 200000 /dev/urandom > a/$d/b$i; "
	      "done; done");
	pair_start(&p);
	p.c.tuning.readers = 8;
	p.c.tuning.io = IO_POSIX;
	p.c.request.offer.inflight = 2;
	p.c.request.offer.channels = 1;
	p.c.request.offer.block = 65536;
	pair_put_ok(&p, at("a"), at("b"));
	shell("diff -r a b");
	pair_stop(&p);
}

/* A silent standard input does not delay a stop. */
static void test_stop_while_stdin_is_silent(void **state)
{
	struct transfer_item in = { .kind = ITEM_STDIO };
	int pipe_fds[2], old = dup(STDIN_FILENO);
	struct pair p;
	pthread_t t;

	(void)state;
	shell("rm -rf b");
	assert_int_equal(pipe(pipe_fds), 0);
	dup2(pipe_fds[0], STDIN_FILENO);
	pair_start(&p);
	pair_stoppable(&p);
	assert_int_equal(thread_start(&t, "stopper", stop_soon, &p), 0);
	assert_int_equal(pair_put_item(&p, &in, at("b")), -EINTR);
	pthread_join(t, NULL);
	pair_unstoppable(&p);
	pair_stop(&p);
	dup2(old, STDIN_FILENO);
	close(old);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	shell("! test -e b");
}

struct numbering {
	struct source *s;
	uint64_t number;
	int result;
	atomic_bool over;
};

static void *number_one(void *arg)
{
	struct numbering *n = arg;

	n->result = source_number(n->s, &n->number);
	atomic_store(&n->over, true);
	return NULL;
}

static void short_sleep(void)
{
	usleep(50000);
}

/* While one block is stalled, later blocks get no numbers beyond the sink's window. */
static void test_window_of_blocks(void **state)
{
	struct source *s = calloc(1, sizeof(*s));
	struct numbering n = { .s = s };
	uint64_t number;
	pthread_t t;

	(void)state;
	source_init(s);
	for (uint64_t i = 0; i < NUMBERS_WINDOW; i++) {
		assert_int_equal(source_number(s, &number), 0);
		assert_int_equal(number, i);
		if (i)
			source_acked(s, i); /* all but block 0 */
	}
	assert_int_equal(thread_start(&t, "number", number_one, &n), 0);
	short_sleep();
	assert_false(atomic_load(&n.over));
	source_acked(s, 0);
	pthread_join(t, NULL);
	assert_int_equal(n.result, 0);
	assert_int_equal(n.number, NUMBERS_WINDOW);
	atomic_store(&s->x.failed, true);
	assert_int_equal(source_number(s, &number), -ECANCELED);
	source_destroy(s);
	free(s);
}

/* A sink that cannot start all its threads reports it, and the next transfer works. This test is
 * the last one that needs many descriptors. */
static void test_sink_that_cannot_start(void **state)
{
	struct rlimit few = { 60, 60 };
	struct pair p;

	(void)state;
#ifndef HAVE_LIBURING
	skip(); /* only rings need that many descriptors */
#endif
	shell("rm -rf a b && echo a > a");
	pair_start(&p);
	p.c.tuning.io = IO_POSIX;
	p.c.tuning.readers = 1;
	p.v.tuning.io = IO_URING;
	p.v.tuning.writers = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	assert_int_not_equal(pair_put(&p, at("a"), at("b")), 0);
	assert_null(strstr(p.e.text, "closed the connection"));
	p.v.tuning.io = IO_POSIX;
	pair_put_ok(&p, at("a"), at("b"));
	pair_stop(&p);
}

/* Not below /tmp: there it may be tmpfs, which syncs nothing. */
static int setup(void **state)
{
	(void)state;
	return pair_setup("/var/tmp");
}

/* ---- a stream over several paths ---- */

static void stream_begin(struct source *s, struct transfer_config *c, struct path paths[2])
{
	const struct pool_config pc = { .blocks = 2, .payload = BLOCK_MIN };

	source_init(s);
	c->request.flags = BULK_F_SEQUENTIAL;
	s->x.c = c;
	s->x.npaths = s->x.nroutes = 2;
	for (int i = 0; i < 2; i++) {
		s->x.pools[i] = pool_new(&pc, NULL);
		s->x.paths[i] = &paths[i];
		atomic_store(&paths[i].alive, 1);
	}
}

static struct block *stream_block(struct source *s)
{
	struct block *b = source_try_block(s);

	if (b)
		assert_int_equal(source_number(s, &b->number), 0);
	return b;
}

/* When the path of a stream dies, the other path must not send newer blocks until the dead
 * path's blocks are acknowledged: the newer ones would fill the sink's buffers and block the
 * missing ones. */
static void test_stream_goes_by_one_path(void **state)
{
	struct path paths[2] = { 0 };
	struct transfer_config c = { .stop = -1 };
	struct block *b[3];
	struct source s;

	(void)state;
	memset(&s, 0, sizeof(s));
	stream_begin(&s, &c, paths);
	b[0] = stream_block(&s);
	b[1] = stream_block(&s);
	assert_true(b[0]->pool == s.x.pools[0] && b[1]->pool == s.x.pools[0]);
	assert_null(stream_block(&s));
	atomic_store(&paths[0].alive, 0);
	assert_null(stream_block(&s));
	source_acked(&s, 1);
	assert_null(stream_block(&s));
	source_acked(&s, 0);
	b[2] = stream_block(&s);
	assert_ptr_equal(b[2]->pool, s.x.pools[1]);
	for (int i = 0; i < 3; i++)
		pool_put(b[i]);
	s.x.paths[0] = s.x.paths[1] = NULL;
	source_destroy(&s);
}

/* ---- RDMA's addresses ---- */

/* Every address has this fake device; its data goes over TCP. */
static int any_device(const struct sockaddr_storage *a, const char *ifname,
		      char name[NIC_DEVICE_NAME], struct err *why)
{
	(void)a;
	(void)ifname;
	(void)why;
	snprintf(name, NIC_DEVICE_NAME, "phony0");
	return 1;
}

static const struct device_transport phony_rdma = { tcp_endpoint, any_device };

/* The server knows on which of its cards the client arrived; the client may not, if there is a
 * proxy in between. The server then tells the client. */
static void test_address_of_the_control_connection(void **state)
{
	struct sockaddr_in *local;
	struct pair p;

	(void)state;
	shell("rm -rf a b && mkdir a && echo x >a/x");
	pair_start(&p);
	local = (struct sockaddr_in *)&p.v.local;
	*local = *(struct sockaddr_in *)&p.c.peer;
	p.c.peer_len = 0;
	p.c.request.offer.transports = TRANSPORT_RDMA;
	p.c.tuning.rdma = p.v.tuning.rdma = &phony_rdma;
	p.c.tuning.nics = p.v.tuning.nics = "127.0.0.1";
	pair_put_ok(&p, at("a"), at("b"));
	assert_int_equal(p.r.agreement.transport, TRANSPORT_RDMA);
	shell("cmp a/x b/x");
	pair_stop(&p);
}

static unsigned registrations;

static int first_fails(void *arg, void *base, size_t bytes)
{
	(void)arg;
	(void)base;
	(void)bytes;
	return registrations++ ? 0 : -EIO;
}

static const struct pool_hooks *failing_hooks(struct endpoint *ep)
{
	static const struct pool_hooks hooks = { .reg = first_fails };

	(void)ep;
	return &hooks;
}

/* A TCP endpoint that fails to register its first memory. */
static struct endpoint *failing_endpoint(const struct endpoint_config *c, struct err *e)
{
	static struct endpoint_ops ops;
	struct endpoint *ep = tcp_endpoint(c, e);

	if (ep) {
		ops = *ep->ops;
		ops.hooks = failing_hooks;
		ep->ops = &ops;
	}
	return ep;
}

static const struct device_transport failing_rdma = { failing_endpoint, any_device };

static bool has_ipv6(void)
{
	struct err e = ERR_INIT;
	uint16_t port;
	int fd = tcp_listen("::1", AF_INET6, 0, 0, &port, &e);

	cleanup_close(&fd);
	return !e.code;
}

/* The client gives up the card that failed, not the other one. */
static void test_memory_that_one_card_cannot_have(void **state)
{
	struct pair p;

	(void)state;
	if (!has_ipv6())
		skip();
	shell("rm -rf a b && mkdir a && echo x >a/x");
	pair_start(&p);
	p.c.peer_len = 0;
	p.c.request.offer.transports = TRANSPORT_RDMA;
	p.c.tuning.rdma = &failing_rdma;
	p.v.tuning.rdma = &phony_rdma;
	p.c.tuning.nics = p.v.tuning.nics = "127.0.0.1,::1";
	registrations = 0;
	pair_put_ok(&p, at("a"), at("b"));
	assert_int_equal(p.c.request.offer.nnics, 1);
	assert_string_equal(p.c.request.offer.nics[0].addr, "::1");
	pair_stop(&p);
}

/* ---- a server that refuses ---- */

/* Refuses each request with the code that makes a client retry with less; ends after the third. */
static void *refuser_main(void *arg)
{
	struct bulk_failure f = { .code = -ENOLINK, .text = "no" };
	struct buf *p = buf_new(BULK_FRAME_MAX);
	struct pair_server *v = arg;
	uint8_t type;
	char line[100];
	size_t n;

	while (v->result < 3 && ms_read_line(v->ms, line, sizeof(line), PAIR_WAIT_MS) > 0 &&
	       sscanf(line, "BULK %zu", &n) == 1 && !ms_skip(v->ms, n, PAIR_WAIT_MS)) {
		v->result++;
		buf_reset(p);
		bulk_failure_put(p, &f);
		ms_write(v->ms, "150 go\r\n", 8);
		ms_write_frame(v->ms, BULK_ABORT, buf_ptr(p), buf_len(p));
		ms_write_frame(v->ms, BULK_END, NULL, 0);
		while (!ms_read_frame(v->ms, &type, p, BULK_FRAME_MAX, PAIR_WAIT_MS) &&
		       type != BULK_END)
			;
		ms_write(v->ms, "451 no\r\n", 8);
	}
	buf_free(p);
	shutdown(v->fd, SHUT_RDWR);
	return NULL;
}

static void test_refusal_is_no_reason_to_ask_again(void **state)
{
	struct pair p;
	int sv[2];

	(void)state;
	shell("rm -rf a && mkdir a");
	pair_start(&p);
	pair_server_stop(&p.v, p.ms);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	p.v.fd = sv[1];
	p.v.ms = ms_new(stream_plain(sv[1], sv[1]));
	p.c.ms = p.ms = ms_new(stream_plain(sv[0], sv[0]));
	p.v.result = 0;
	assert_int_equal(thread_start(&p.v.thread, "server", refuser_main, &p.v), 0);
	assert_int_equal(pair_put(&p, at("a"), at("b")), -ENOLINK);
	assert_string_equal(p.e.text, "no");
	pair_stop(&p);
	assert_int_equal(p.v.result, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sparse_without_data),
		cmocka_unit_test(test_many_empty_files_that_ask),
		cmocka_unit_test(test_sparse_in_place),
		cmocka_unit_test(test_resumed_holes),
		cmocka_unit_test(test_sparse_to_a_stream),
		cmocka_unit_test(test_unreadable_destination),
		cmocka_unit_test(test_links_are_synced_together),
		cmocka_unit_test(test_mode_of_the_destination),
		cmocka_unit_test(test_link_to_what_was_skipped),
		cmocka_unit_test(test_many_hard_links),
		cmocka_unit_test(test_all_channels_die),
		cmocka_unit_test(test_readers_share_few_blocks),
		cmocka_unit_test(test_window_of_blocks),
		cmocka_unit_test(test_stop_while_stdin_is_silent),
		cmocka_unit_test(test_sink_that_cannot_start),
		cmocka_unit_test(test_stream_goes_by_one_path),
		cmocka_unit_test(test_address_of_the_control_connection),
		cmocka_unit_test(test_memory_that_one_card_cannot_have),
		cmocka_unit_test(test_refusal_is_no_reason_to_ask_again),
	};

	return cmocka_run_group_tests(tests, setup, pair_teardown);
}
