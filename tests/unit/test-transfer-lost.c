// SPDX-License-Identifier: Apache-2.0
/* Transfers that lose what they rely on: blocks that come damaged, data channels that
 * break, one after the other or all of them. Both sides in one process, control over a
 * socket pair, data over loopback. */
#include "transfer/source.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/rftp-test-lost-XXXXXX";

struct pair {
	struct mstream *ms, *server_ms;
	struct transfer_client_config c;
	pthread_t server;
	struct transfer_result r, server_r;
	struct err e;
	int server_result;
};

static void serve_one(struct pair *p, size_t n)
{
	struct bulk_request q = { 0 };
	struct transfer_server_config c = { .ms = p->server_ms, .request = &q, .cwd = top,
					    .can_write = true, .data_addr = "127.0.0.1",
					    .family = AF_INET };
	struct err e = ERR_INIT;
	uint8_t *body = malloc(n);
	struct buf *b;
	bool in_line;

	transfer_tuning_default(&c.tuning);
	if (ms_read(p->server_ms, body, n, 5000))
		abort();
	b = buf_from(body, n);
	if (bulk_request_get(b, &q, &e))
		abort();
	buf_free(b);
	c.root = root_new("/", false, &e);
	ms_write(p->server_ms, "150 go\r\n", 8);
	p->server_result = transfer_serve(&c, &p->server_r, &in_line, &e);
	ms_write(p->server_ms, "226 done\r\n", 10);
	bulk_request_clear(&q);
	root_free(c.root);
	free(body);
}

static void *server_main(void *arg)
{
	struct pair *p = arg;
	char line[100];
	size_t n;

	while (ms_read_line(p->server_ms, line, sizeof(line), 60000) > 0 &&
	       sscanf(line, "BULK %zu", &n) == 1)
		serve_one(p, n);
	return NULL;
}

static void start(struct pair *p)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&p->c.peer;
	int sv[2];

	memset(p, 0, sizeof(*p));
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	p->ms = ms_new(stream_plain(sv[0], sv[0]));
	p->server_ms = ms_new(stream_plain(sv[1], sv[1]));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->c.ms = p->ms;
	p->c.peer_len = sizeof(*in);
	p->c.connect_timeout_ms = 5000;
	p->c.root = root_new("/", false, NULL);
	transfer_tuning_default(&p->c.tuning);
	p->c.request.flags = BULK_F_MODES | BULK_F_TIMES | BULK_F_RESUME;
	p->c.request.offer.ack = ACK_WRITTEN;
	p->c.request.offer.channels = 3;
	assert_int_equal(thread_start(&p->server, "server", server_main, p), 0);
}

static void stop(struct pair *p)
{
	fault_transport_set(NULL, NULL);
	ms_free(p->ms);
	pthread_join(p->server, NULL);
	ms_free(p->server_ms);
	root_free(p->c.root);
}

static char *at(const char *name)
{
	static char out[4][4096];
	static int i;

	i = (i + 1) % 4;
	snprintf(out[i], sizeof(out[i]), "%s/%s", top, name);
	return out[i];
}

static void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void shell(const char *fmt, ...)
{
	char cmd[8192];
	int n = snprintf(cmd, sizeof(cmd), "cd %s && ", top);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd + n, sizeof(cmd) - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("%s", cmd);
}

static void faults(const char *rules)
{
	struct err e = ERR_INIT;

	if (fault_transport_set(rules, &e))
		fail_msg("%s", e.text);
}

/* File a to b, either way. */
static int move(struct pair *p, uint8_t op)
{
	struct transfer_item item = { .kind = ITEM_PATH, .path = at(op == BULK_PUT ? "a" : "b") };
	char *sources[2] = { at("a"), NULL };

	shell("rm -rf b");
	p->e = (struct err)ERR_INIT;
	p->c.request.op = op;
	p->c.request.base = op == BULK_PUT ? at("b") : (char[]){ "" };
	p->c.request.sources = op == BULK_PUT ? NULL : sources;
	p->c.request.nsources = op != BULK_PUT;
	p->c.items = &item;
	p->c.nitems = 1;
	return transfer_client(&p->c, &p->r, &p->e);
}

static const uint8_t both_ways[] = { BULK_PUT, BULK_GET };

/* ---- damaged blocks ---- */

/* The channel that brought it goes, whatever of the block is wrong and however it is
 * protected, and what was on it comes by the others. */
static void test_damaged_block(void **state)
{
	static const char *const rules[] = { "corrupt:after=5M:count=1",
					     "corrupt-head:after=5M:count=1" };

	(void)state;
	shell("head -c 30000000 /dev/urandom > a");
	for (int i = 0; i < 12; i++) {
		struct pair p;

		start(&p);
		p.c.request.offer.prot_min = (uint8_t)(i / 4); /* clear, safe, private */
		faults(rules[i % 2]);
		if (move(&p, both_ways[i / 2 % 2]))
			fail_msg("%d: %s", i, p.e.text);
		assert_int_equal(p.r.agreement.prot, i / 4);
		assert_int_equal(p.r.failed, 0);
		assert_int_equal(p.r.channels_lost, 1);
		shell("cmp a b");
		stop(&p);
	}
}

static int setup(void **state)
{
	(void)state;
	umask(0); /* as the server has it */
	log_init("test", getenv("DBG") ? LOG_LV_DEBUG : LOG_LV_ERROR, false);
	return mkdtemp(top) ? 0 : -1;
}

static int teardown(void **state)
{
	char cmd[100];

	(void)state;
	snprintf(cmd, sizeof(cmd), "rm -rf %s", top);
	return system(cmd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_damaged_block),
	};

	if (getenv("TEST_ONLY"))
		cmocka_set_test_filter(getenv("TEST_ONLY"));
	return cmocka_run_group_tests(tests, setup, teardown);
}
