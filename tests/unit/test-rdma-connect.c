// SPDX-License-Identifier: Apache-2.0
/* From an address to an RDMA path: each step fails once, and unauthenticated connections arrive. */
#include "tests/support/rdma-phony.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CHANNELS 3
#define INFLIGHT 6

/* ---- each call to the verbs layer fails ---- */

/* An end without a path reports an error; an end with a path reports none. */
static void check_told(const struct ends *x)
{
	for (int i = 0; i < 2; i++) {
		const struct end *n = &x->end[i];

		assert_int_equal(!n->e.code, !n->e.text[0]);
		if (n->tried)
			assert_int_equal(!n->path, n->e.code != 0);
	}
	if (!x->end[SERVER].path || !x->end[CLIENT].path)
		assert_true(x->end[SERVER].e.code || x->end[CLIENT].e.code);
}

/* Sends a few blocks. With an injected fault some may not arrive. */
static void try_blocks(struct ends *x)
{
	struct flow *f = flow_new(x, 12);

	flow_run(f);
	if (source_end(x)->path->alive)
		assert_int_equal(f->acked, f->numbers);
	else
		for (uint32_t i = 0; i < f->numbers; i++)
			assert_int_equal(f->posted[i], 0);
	source_end(x)->path->ops->finish(source_end(x)->path, 20);
	sink_end(x)->path->ops->finish(sink_end(x)->path, 20);
	flow_free(f);
}

static void start(struct ends *x, uint8_t op, bool put)
{
	fake_begin();
	ends_init(x, op, CHANNELS, INFLIGHT);
	x->put = put;
}

/* With a short timeout, for tests in which an end may wait in vain. */
static void start_brief(struct ends *x, uint8_t op, bool put)
{
	start(x, op, put);
	x->timeout_ms = 20;
}

static void count_calls(uint8_t op, bool put, unsigned calls[FAKE_CALLS])
{
	struct ends x;

	start(&x, op, put);
	ends_open_ok(&x);
	try_blocks(&x);
	ends_free(&x);
	for (int c = 0; c < FAKE_CALLS; c++)
		calls[c] = fake_calls((enum fake_call)c);
	fake_end();
}

static void fail_call(uint8_t op, bool put, enum fake_call call, unsigned nth, int error)
{
	struct ends x;
	int r;

	start_brief(&x, op, put);
	fake_fail(call, nth, error);
	r = ends_open(&x);
	check_told(&x);
	if (!r)
		try_blocks(&x);
	ends_free(&x);
	fake_end();
}

static void test_every_call_fails(void **state)
{
	(void)state;
	for (int how = 0; how < 4; how++) {
		uint8_t op = how & 1 ? OP_READ : OP_WRITE;
		unsigned calls[FAKE_CALLS];

		count_calls(op, how & 2, calls);
		for (int c = 0; c < FAKE_CALLS; c++) {
			assert_true(calls[c] || c == FAKE_REJECT);
			for (unsigned n = 1; n <= calls[c]; n++) {
				fail_call(op, how & 2, (enum fake_call)c, n, -EIO);
				fail_call(op, how & 2, (enum fake_call)c, n, -ENOMEM);
			}
		}
	}
}

/* ---- each event is replaced, repeated or lost ---- */

struct happening {
	enum rdma_cm_event_type type;
	unsigned times;              /* occurrences while a path opens */
	bool others;                 /* false: it may only be lost */
	struct { enum rdma_cm_event_type type; int status; } other[4];
};

static const struct happening happenings[] = {
	{ RDMA_CM_EVENT_ADDR_RESOLVED, CHANNELS, true,
	  { { RDMA_CM_EVENT_ADDR_ERROR, -ENODEV }, { RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH },
	    { RDMA_CM_EVENT_DEVICE_REMOVAL, 0 }, { RDMA_CM_EVENT_ADDR_ERROR, 0 } } },
	{ RDMA_CM_EVENT_ROUTE_RESOLVED, CHANNELS, true,
	  { { RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT }, { RDMA_CM_EVENT_ROUTE_ERROR, 0 },
	    { RDMA_CM_EVENT_DEVICE_REMOVAL, 0 }, { RDMA_CM_EVENT_ROUTE_ERROR, -EIO } } },
	{ RDMA_CM_EVENT_CONNECT_REQUEST, CHANNELS, false,
	  { { 0 } } },
	{ RDMA_CM_EVENT_ESTABLISHED, 2 * CHANNELS, true,
	  { { RDMA_CM_EVENT_REJECTED, 28 }, { RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT },
	    { RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL }, { RDMA_CM_EVENT_DISCONNECTED, 0 } } },
};
#define HAPPENINGS (sizeof(happenings) / sizeof(happenings[0]))

/* The result is a working path or an error. Duplicates and delays change nothing in an open path; a
 * lost event leads to the timeout. */
static void with_fate(uint8_t op, const struct happening *h, unsigned nth, unsigned how)
{
	struct ends x;

	start_brief(&x, op, true);
	if (how < 4)
		fake_event_instead(h->type, nth, h->other[how].type, h->other[how].status);
	else
		fake_event_fate(h->type, nth, how == 4 ? FAKE_DROP : FAKE_TWICE);
	ends_open(&x);
	check_told(&x);
	for (int i = 0; i < 2; i++)
		if (x.end[i].path)
			assert_int_equal(x.end[i].path->alive, CHANNELS);
	if (x.end[SERVER].path && x.end[CLIENT].path)
		try_blocks(&x);
	ends_free(&x);
	fake_end();
}

static void test_every_event(void **state)
{
	(void)state;
	for (size_t i = 0; i < HAPPENINGS; i++)
		for (unsigned n = 1; n <= happenings[i].times; n++)
			for (unsigned how = 0; how < 6; how++)
				if (happenings[i].others || how == 4)
					with_fate(how & 1 ? OP_READ : OP_WRITE, &happenings[i], n,
						  how);
}

/* ---- no route ---- */

static void test_no_way(void **state)
{
	struct sockaddr_storage a;
	struct ends x;

	(void)state;
	start(&x, OP_WRITE, true);
	assert_int_equal(end_make(&x, &x.end[CLIENT]), 0);
	fake_address(200, &a); /* no device reaches this address */
	assert_int_equal(x.end[CLIENT].ep->ops->resolve(x.end[CLIENT].ep, &a, sizeof(a), -1, 20,
							&x.end[CLIENT].e), -ENODEV);
	assert_non_null(strstr(x.end[CLIENT].e.text, "192.0.2.200"));
	end_free(&x.end[CLIENT]);

	/* No listener on this port. */
	x.port = 999;
	assert_int_equal(end_make(&x, &x.end[CLIENT]), 0);
	assert_int_equal(end_resolve(&x), 0);
	assert_int_equal(end_pool(&x, &x.end[CLIENT]), 0);
	assert_int_equal(end_open(&x, &x.end[CLIENT]), -1);
	assert_int_equal(x.end[CLIENT].e.code, -ECONNREFUSED);
	end_free(&x.end[CLIENT]);

	/* An address of no device, and the wildcard address. */
	assert_int_equal(end_make(&x, &x.end[SERVER]), 0);
	assert_int_equal(x.end[SERVER].ep->ops->listen(x.end[SERVER].ep, &a, 7000, 7010, &x.port,
						       &x.end[SERVER].e), -ENODEV);
	((struct sockaddr_in *)&a)->sin_addr.s_addr = 0;
	x.end[SERVER].e = (struct err)ERR_INIT;
	assert_int_equal(x.end[SERVER].ep->ops->listen(x.end[SERVER].ep, &a, 7000, 7010, &x.port,
						       &x.end[SERVER].e), -ENODEV);
	end_free(&x.end[SERVER]);
	fake_end();
}

/* The ports of the range are used in order; then there is none left. */
static void test_ports(void **state)
{
	struct ends x[5];

	(void)state;
	fake_begin();
	for (int i = 0; i < 5; i++) {
		ends_init(&x[i], OP_WRITE, 1, 4);
		assert_int_equal(end_make(&x[i], &x[i].end[SERVER]), 0);
		assert_int_equal(end_listen(&x[i]), i < 4 ? 0 : -EADDRINUSE);
		if (i < 4)
			assert_int_equal(x[i].port, ENDS_PORT + i);
	}
	assert_non_null(strstr(x[4].end[SERVER].e.text, "ports 7400 to 7403"));
	for (int i = 0; i < 5; i++)
		end_free(&x[i].end[SERVER]);
	fake_end();
}

static void one_limit(const char *word, void (*limit)(void))
{
	struct ends x;

	start(&x, OP_WRITE, true);
	limit();
	assert_int_not_equal(ends_open(&x), 0);
	if (!strstr(x.end[SERVER].e.text, word))
		fail_msg("\"%s\" does not say \"%s\"", x.end[SERVER].e.text, word);
	ends_free(&x);
	fake_end();
}

static void port_down(void)
{
	fake_port_attr(1)->state = IBV_PORT_DOWN;
}

static void short_messages(void)
{
	fake_port_attr(1)->max_msg_sz = ENDS_BLOCK;
}

static void short_completions(void)
{
	fake_device_attr(1)->max_cqe = 20;
}

static void test_limits(void **state)
{
	(void)state;
	one_limit("not active", port_down);
	one_limit("--block", short_messages);
	one_limit("--channels", short_completions);
}

/* A device without RDMA reads gives an error, not a transfer that hangs. */
static void test_no_reads(void **state)
{
	(void)state;
	for (int put = 0; put < 2; put++) {
		for (int which = 0; which < 2; which++) {
			unsigned sink = put ? 1 : 2;
			struct ends x;

			start(&x, OP_READ, put);
			if (which)
				fake_device_attr(sink)->max_qp_init_rd_atom = 0;
			else
				fake_device_attr(3 - sink)->max_qp_rd_atom = 0;
			assert_int_not_equal(ends_open(&x), 0);
			assert_true(strstr(x.end[SERVER].e.text, "RDMA_READ") ||
				    strstr(x.end[CLIENT].e.text, "RDMA_READ"));
			ends_free(&x);
			fake_end();
		}
	}
}

/* The peer may report no reads in its connection parameters. */
static void test_unreadable_peer(void **state)
{
	uint8_t hello[HELLO_BYTES];
	struct phony ph;
	struct ends x;

	(void)state;
	start(&x, OP_READ, false);
	phony_init(&ph, &x, true);
	ph.depth = 0;
	assert_int_equal(phony_from_client(&ph, &x), -1);
	assert_non_null(strstr(x.end[CLIENT].e.text, "allows no RDMA_READ"));
	end_free(&x.end[CLIENT]);
	phony_free(&ph);

	ends_init(&x, OP_READ, 1, 6);
	x.timeout_ms = 20;
	if (end_make(&x, &x.end[SERVER]) || end_listen(&x) || end_pool(&x, &x.end[SERVER]))
		fail_msg("%s", x.end[SERVER].e.text);
	phony_init(&ph, &x, false);
	ph.depth = 0;
	phony_id(&ph);
	phony_hello(&ph, 5, hello);
	phony_connect(&ph, 0, hello, HELLO_BYTES);
	assert_int_equal(end_open(&x, &x.end[SERVER]), -1);
	phony_answers(&ph);
	assert_int_equal(ph.last_status, 28);
	end_free(&x.end[SERVER]);
	phony_free(&ph);
	fake_end();
}

/* ---- hellos ---- */

enum lie {
	TRUTH, TOKEN, SESSION, NONCE, LABEL, MAJOR, MAGIC, BELOW, ABOVE, MAX, KEY, EMPTY, SHORT,
	REPEATED, DEVICE, LIES
};

/* Writes the hello for channel `number` with this lie; returns its length. */
static uint8_t lie_hello(struct phony *ph, enum lie lie, uint16_t number,
			 uint8_t hello[HELLO_BYTES])
{
	struct channel_auth a = ph->x->auth;

	if (lie == TOKEN)
		a.token[31] ^= 1;
	if (lie == SESSION)
		a.session++;
	if (lie == NONCE)
		a.client_nonce[0] ^= 0x80;
	if (lie == BELOW)
		number = 4;
	if (lie == ABOVE)
		number = 5 + CHANNELS;
	if (lie == MAX)
		number = 255;
	channel_hello_put(hello, ph->server != (lie == LABEL), &a, number, ph->mr->rkey);
	if (lie == MAJOR)
		hello[5]++;
	if (lie == MAGIC)
		hello[0] ^= 1;
	if (lie == KEY)
		hello[51] ^= 1;
	return lie == EMPTY ? 0 : lie == SHORT ? 47 : HELLO_BYTES;
}

/* A false hello is refused, before or between the true ones, and the true ones succeed. */
static void stranger(enum lie lie, bool exact, bool between)
{
	struct end *n;
	struct phony ph;
	struct ends x;
	uint16_t number = 5;

	start(&x, OP_WRITE, true);
	fake.exact_data = exact;
	n = &x.end[SERVER];
	if (end_make(&x, n) || end_listen(&x) || end_pool(&x, n))
		fail_msg("%s", n->e.text);
	phony_init(&ph, &x, false);
	for (uint32_t i = 0; i < CHANNELS + 1u; i++) {
		bool lies = i == (between || lie == REPEATED ? 1 : 0);
		uint8_t hello[HELLO_BYTES];
		uint8_t len;

		phony_id(&ph);
		if (lies && lie == REPEATED)
			number--;
		fake.request_by = lies && lie == DEVICE ? 3 : 0;
		len = lie_hello(&ph, lies ? lie : TRUTH, number, hello);
		number += !lies || lie == REPEATED;
		phony_connect(&ph, i, hello, len);
	}
	if (end_open(&x, n))
		fail_msg("lie %d: %s", lie, n->e.text);
	phony_answers(&ph);
	assert_int_equal(ph.unanswered, 0);
	assert_int_equal(ph.last_status, 28);
	assert_int_equal(n->path->alive, CHANNELS);
	end_free(n);
	phony_free(&ph);
	fake_end();
}

static void test_strangers(void **state)
{
	(void)state;
	for (int lie = TRUTH + 1; lie < LIES; lie++) {
		stranger(lie, false, false);
		stranger(lie, true, true);
	}
}

/* A connection after all channels are open is refused and leaks nothing. */
static void test_too_late(void **state)
{
	struct fake_census before;
	struct path_event ev;
	uint8_t hello[HELLO_BYTES];
	struct phony ph;
	struct ends x;
	struct path *p;

	(void)state;
	start(&x, OP_WRITE, true);
	phony_to_server(&ph, &x);
	p = x.end[SERVER].path;
	before = fake_census();
	for (int i = 0; i < 3; i++) {
		uint32_t id = phony_id(&ph);

		phony_hello(&ph, 5, hello);
		phony_connect(&ph, id, hello, HELLO_BYTES);
		assert_int_equal(p->ops->poll(p, &ev, 1, 0), 0);
		phony_answers(&ph);
	}
	assert_int_equal(ph.unanswered, 0);
	assert_int_equal(p->alive, CHANNELS);
	assert_int_equal(fake_census().ids, before.ids + 3); /* the phony's own */
	end_free(&x.end[SERVER]);
	phony_free(&ph);
	fake_end();
}

/* Connects with a false hello, again and again. */
static void knock(void *arg)
{
	struct phony *ph = arg;
	void (*idle)(void *) = fake.idle;

	fake.idle = NULL;
	if (ph->n) {
		phony_answers(ph);
		fake_verbs.qp_free(ph->id[0]);
		fake_verbs.id_free(ph->id[0]);
		ph->id[0] = NULL;
		ph->n = 0;
	}
	phony_id(ph);
	phony_connect(ph, 0, "who is there?", 13);
	fake.idle = idle;
}

/* False hellos do not prevent the timeout or a stop. */
static void test_knocking(void **state)
{
	(void)state;
	for (int stopped = 0; stopped < 2; stopped++) {
		struct path_config c = { .payload = ENDS_BLOCK, .inflight = INFLIGHT };
		struct phony ph;
		struct ends x;
		struct end *n = &x.end[SERVER];
		int stop = eventfd(stopped, EFD_CLOEXEC);

		start(&x, OP_WRITE, true);
		if (end_make(&x, n) || end_listen(&x) || end_pool(&x, n))
			fail_msg("%s", n->e.text);
		phony_init(&ph, &x, false);
		c.pool = n->pool;
		fake.idle = knock;
		fake.idle_arg = &ph;
		assert_null(n->ep->ops->open(n->ep, &c, stop, stopped ? 10000 : 20, &n->e));
		fake.idle = NULL;
		assert_int_equal(n->e.code, stopped ? -ECANCELED : -ETIMEDOUT);
		end_free(n);
		phony_free(&ph);
		fake_end();
		close(stop);
	}
}

static enum lie server_lie;
static unsigned server_lies_at;

static void forge(struct phony *ph, uint8_t *hello, struct rdma_conn_param *param)
{
	bool lies = ph->n == server_lies_at;
	uint16_t number = (uint16_t)(5 + ph->n - 1);

	if (lies && server_lie == REPEATED)
		number ^= 1; /* of another channel */
	param->private_data_len = lie_hello(ph, lies ? server_lie : TRUTH, number, hello);
}

/* The client refuses a server without a valid proof. */
static void test_false_server(void **state)
{
	(void)state;
	for (server_lie = TRUTH; server_lie < DEVICE; server_lie++) {
		for (server_lies_at = 1; server_lies_at <= CHANNELS; server_lies_at++) {
			struct phony ph;
			struct ends x;
			int r;

			start(&x, OP_WRITE, true);
			fake.exact_data = server_lies_at & 1;
			phony_init(&ph, &x, true);
			ph.forge = forge;
			r = phony_from_client(&ph, &x);
			assert_int_equal(r, server_lie == TRUTH ? 0 : -1);
			if (r)
				assert_int_equal(x.end[CLIENT].e.code, -EKEYREJECTED);
			end_free(&x.end[CLIENT]);
			phony_free(&ph);
			fake_end();
		}
	}
}

static void test_refusing_server(void **state)
{
	struct phony ph;
	struct ends x;

	(void)state;
	start(&x, OP_WRITE, true);
	phony_init(&ph, &x, true);
	ph.refuses = true;
	assert_int_equal(phony_from_client(&ph, &x), -1);
	assert_int_equal(x.end[CLIENT].e.code, -EKEYREJECTED);
	assert_non_null(strstr(x.end[CLIENT].e.text, "refused"));
	end_free(&x.end[CLIENT]);
	phony_free(&ph);
	fake_end();
}

/* ---- timeouts ---- */

/* The smallest timeout of at least four round trips; at least that of the shortest path, at most
 * 17 s. */
static void test_ack_timeout(void **state)
{
	static const uint64_t rtts[] = { 1000, 16000000, 17000000, 95000000, 300000000,
					 1000000000, 4000000000, UINT64_MAX / 4 };
	uint8_t least = rd_ack_timeout(0, 0);

	(void)state;
	assert_true(4096ull << least >= 67000000);
	for (size_t i = 0; i < sizeof(rtts) / sizeof(rtts[0]); i++) {
		uint8_t n = rd_ack_timeout(rtts[i], 0);

		assert_in_range(n, least, 22);
		if (n < 22)
			assert_true(4096ull << n >= 4 * rtts[i]);
		if (n > least)
			assert_true(4096ull << (n - 1) < 4 * rtts[i]);
	}
	assert_true(4096ull << rd_ack_timeout(95000000, 1340000000) >= 1340000000 + 380000000);
	assert_int_equal(rd_ack_timeout(UINT64_MAX / 4, UINT64_MAX), 22);
}

/* 32 blocks of 4 MiB in flight, as with two on each of 16 channels. With a hardware NIC the timeout
 * depends on the round trip only. rdma_rxe reaches 20 MB/s on emulated processors; the timeout, of
 * a bit more than a second, assumes 100 MB/s. */
static void test_ack_timeout_of_soft_roce(void **state)
{
	uint8_t told[2];

	(void)state;
	for (int soft = 0; soft < 2; soft++) {
		struct ends x;

		start(&x, OP_READ, true);
		for (unsigned n = 1; soft && n <= FAKE_DEVICES; n++)
			fake_device_attr(n)->vendor_id = 0xffffff;
		x.agr.block = 4u << 20;
		x.agr.inflight = 32;
		ends_open_ok(&x);
		told[soft] = fake.ack_timeout;
		ends_free(&x);
		fake_end();
	}
	assert_int_equal(told[0], rd_ack_timeout(0, 0));
	assert_true(4096ull << told[1] >= 1340000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_call_fails),
		cmocka_unit_test(test_every_event),
		cmocka_unit_test(test_no_way),
		cmocka_unit_test(test_ports),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_no_reads),
		cmocka_unit_test(test_unreadable_peer),
		cmocka_unit_test(test_strangers),
		cmocka_unit_test(test_too_late),
		cmocka_unit_test(test_knocking),
		cmocka_unit_test(test_false_server),
		cmocka_unit_test(test_refusing_server),
		cmocka_unit_test(test_ack_timeout),
		cmocka_unit_test(test_ack_timeout_of_soft_roce),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
