// SPDX-License-Identifier: Apache-2.0
/* A transfer client and server in one process: the client in the test's thread, the server in
 * another, with control over a socket pair and data over loopback. Also the working directory of
 * both. */
#ifndef RFTP_TESTS_PAIR_H
#define RFTP_TESTS_PAIR_H

#include "tests/support/bytes.h"
#include "transfer/transfer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define PAIR_WAIT_MS 60000

static char pair_top[64];

/* Group set-up: makes the directory below base; its filesystem decides whether a sync costs time.
 * The server runs without a umask, like rftpd. */
static inline int pair_setup(const char *base)
{
	umask(0);
	log_init("test", getenv("DBG") ? LOG_LV_DEBUG : LOG_LV_ERROR, false);
	if (getenv("TEST_ONLY"))
		cmocka_set_test_filter(getenv("TEST_ONLY"));
	snprintf(pair_top, sizeof(pair_top), "%s/rftp-test-XXXXXX", base);
	return mkdtemp(pair_top) ? 0 : -1;
}

static inline int pair_teardown(void **state)
{
	char cmd[200];

	(void)state;
	snprintf(cmd, sizeof(cmd), "chmod -R u+w %s; rm -rf %s", pair_top, pair_top);
	return system(cmd);
}

static inline char *at(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static inline void shell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Returns a path in the directory; the last eight results stay valid. */
static inline char *at(const char *fmt, ...)
{
	static char out[8][4096];
	static int i;
	char *p = out[i++ % 8];
	int n = snprintf(p, sizeof(out[0]), "%s/", pair_top);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p + n, sizeof(out[0]) - (size_t)n, fmt, ap);
	va_end(ap);
	return p;
}

/* Runs a shell command in the directory; it must succeed. */
static inline void shell(const char *fmt, ...)
{
	char cmd[8192];
	int n = snprintf(cmd, sizeof(cmd), "cd %s && ", pair_top);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(cmd + n, sizeof(cmd) - (size_t)n, fmt, ap);
	va_end(ap);
	if (system(cmd))
		fail_msg("%s", cmd);
}

/* The server: runs transfers one after the other, until the client closes. The result of the last
 * one can be read after the join. */
struct pair_server {
	struct mstream *ms;
	int fd;                            /* the descriptor of ms */
	pthread_t thread;
	struct transfer_tuning tuning;
	struct sockaddr_storage local;     /* the address that the client connected to, if known */
	struct transfer_result r;
	struct err e;
	int result;
	bool in_line;
};

static inline void pair_serve(struct pair_server *v, size_t n)
{
	struct bulk_request q = { 0 };
	struct transfer_config c = { .ms = v->ms, .cwd = pair_top, .stop = -1,
				     .can_write = true, .data_addr = "127.0.0.1",
				     .family = AF_INET, .local = v->local,
				     .tuning = v->tuning };
	uint8_t *body = malloc(n);
	struct buf *b;

	if (!body || ms_read(v->ms, body, n, PAIR_WAIT_MS))
		abort();
	b = bytes_of(body, n);
	v->e = (struct err)ERR_INIT;
	if (bulk_request_get(b, &q, &v->e))
		abort();
	c.request = q;
	buf_free(b);
	c.root = root_new("/", false, &v->e);
	ms_write(v->ms, "150 go\r\n", 8);
	v->result = transfer_serve(&c, &v->r, &v->in_line, &v->e);
	if (v->in_line)
		ms_write(v->ms, "226 done\r\n", 10);
	else
		ms_abort(v->ms);
	bulk_request_clear(&q);
	root_free(c.root);
	free(body);
}

static inline void *pair_server_main(void *arg)
{
	struct pair_server *v = arg;
	char line[100];
	size_t n;

	while (ms_read_line(v->ms, line, sizeof(line), PAIR_WAIT_MS) > 0 &&
	       sscanf(line, "BULK %zu", &n) == 1)
		pair_serve(v, n);
	return NULL;
}

/* Starts the server; returns the client's end of the control stream. */
static inline struct mstream *pair_server_start(struct pair_server *v)
{
	int sv[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv), 0);
	v->fd = sv[1];
	v->ms = ms_new(stream_plain(sv[1], sv[1]));
	v->e = (struct err)ERR_INIT;
	transfer_tuning_default(&v->tuning);
	assert_int_equal(thread_start(&v->thread, "server", pair_server_main, v), 0);
	return ms_new(stream_plain(sv[0], sv[0]));
}

/* ms: the result of pair_server_start(). */
static inline void pair_server_stop(struct pair_server *v, struct mstream *ms)
{
	ms_free(ms);
	pthread_join(v->thread, NULL);
	ms_free(v->ms);
}

/* A client and its server. c asks for the same as `rftp -r`, but without encryption or syncs; tests
 * change it, and the server's tuning, before a transfer. */
struct pair {
	struct pair_server v;
	struct mstream *ms;
	struct transfer_config c;
	struct transfer_result r;          /* result of the last transfer */
	struct err e;
};

static inline void pair_start(struct pair *p)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&p->c.peer;

	memset(p, 0, sizeof(*p));
	p->ms = pair_server_start(&p->v);
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	p->c.ms = p->ms;
	p->c.peer_len = sizeof(*in);
	p->c.connect_timeout_ms = 5000;
	p->c.stop = -1;
	p->c.root = root_new("/", false, NULL);
	transfer_tuning_default(&p->c.tuning);
	p->c.request.flags = BULK_F_RECURSIVE | BULK_F_MODES | BULK_F_TIMES | BULK_F_HARDLINKS |
			     BULK_F_SPARSE | BULK_F_RESUME;
	p->c.request.offer.ack = ACK_WRITTEN;
	p->c.request.offer.prot_min = PROT_CLEAR;
}

static inline void pair_stop(struct pair *p)
{
	pair_server_stop(&p->v, p->ms);
	root_free(p->c.root);
}

/* Until pair_unstoppable(), pair_interrupt() can stop transfers, from any thread. */
static inline void pair_stoppable(struct pair *p)
{
	p->c.stop = eventfd(0, EFD_CLOEXEC);
	assert_true(p->c.stop >= 0);
}

static inline void pair_interrupt(struct pair *p)
{
	assert_int_equal(eventfd_write(p->c.stop, 1), 0);
}

static inline void pair_unstoppable(struct pair *p)
{
	close(p->c.stop);
	p->c.stop = -1;
}

/* Puts item to the path to. */
static inline int pair_put_item(struct pair *p, const struct transfer_item *item, const char *to)
{
	p->e = (struct err)ERR_INIT;
	p->c.request.op = BULK_PUT;
	p->c.request.base = (char *)(uintptr_t)to;
	p->c.request.sources = NULL;
	p->c.request.nsources = 0;
	p->c.items = item;
	p->c.nitems = 1;
	return transfer_client(&p->c, &p->r, &p->e);
}

/* Gets the path from into item. */
static inline int pair_get_item(struct pair *p, const char *from, const struct transfer_item *item)
{
	char *sources[2] = { (char *)(uintptr_t)from, NULL };
	int rc;

	p->e = (struct err)ERR_INIT;
	p->c.request.op = BULK_GET;
	p->c.request.base = (char[]){ "" };
	p->c.request.sources = sources;
	p->c.request.nsources = 1;
	p->c.items = item;
	p->c.nitems = 1;
	rc = transfer_client(&p->c, &p->r, &p->e);
	p->c.request.sources = NULL;
	p->c.request.nsources = 0;
	return rc;
}

/* op: BULK_PUT or BULK_GET. */
static inline int pair_move(struct pair *p, uint8_t op, const char *from, const char *to)
{
	struct transfer_item item = { .kind = ITEM_PATH, .path = op == BULK_PUT ? from : to };

	return op == BULK_PUT ? pair_put_item(p, &item, to) : pair_get_item(p, from, &item);
}

static inline int pair_put(struct pair *p, const char *from, const char *to)
{
	return pair_move(p, BULK_PUT, from, to);
}

static inline void pair_move_ok(struct pair *p, uint8_t op, const char *from, const char *to)
{
	if (pair_move(p, op, from, to))
		fail_msg("%s", p->e.text);
	assert_int_equal(p->r.failed, 0);
}

static inline void pair_put_ok(struct pair *p, const char *from, const char *to)
{
	pair_move_ok(p, BULK_PUT, from, to);
}

#endif
