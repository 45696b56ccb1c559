// SPDX-License-Identifier: Apache-2.0
/* The message stream against a peer on a socketpair, played byte by byte. */
#include "transport/transport.h"
#include "tests/support/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

struct pair {
	struct mstream *m;
	int fd;      /* of m */
	int peer;
};

static struct pair pair_new(void)
{
	struct pair p;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	p.m = ms_new(stream_plain(fds[0], fds[0]));
	assert_non_null(p.m);
	p.fd = fds[0];
	p.peer = fds[1];
	return p;
}

static void pair_free(struct pair *p)
{
	ms_free(p->m);
	if (p->peer >= 0)
		close(p->peer);
}

static void say(struct pair *p, const void *bytes, size_t len)
{
	assert_int_equal(write_full(p->peer, bytes, len), 0);
}

#define SAY(p, text) say((p), (text), sizeof(text) - 1)

/* ---- lines ---- */

static void expect_line(struct pair *p, const char *want)
{
	char line[64];

	assert_int_equal(ms_read_line(p->m, line, sizeof(line), 5000), strlen(want));
	assert_string_equal(line, want);
}

static void test_lines(void **state)
{
	struct pair p = pair_new();
	char line[64];

	(void)state;
	SAY(&p, "USER a\r\nPASS b\n\r\n\nA\rB\r\r\nlast");
	expect_line(&p, "USER a");
	expect_line(&p, "PASS b");
	expect_line(&p, "");
	expect_line(&p, "");
	expect_line(&p, "A\rB\r");
	close(p.peer);
	p.peer = -1;
	/* A truncated line is not a line. */
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), -EPIPE);
	pair_free(&p);
}

/* Telnet sequences (RFC 854), complete and split at every byte. */
static void test_telnet(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		const char *line;
	} cases[] = {
#define CASE(b, l) { b, sizeof(b) - 1, l }
		CASE("\xff\xf4\xff\xf2" "ABOR\r\n", "ABOR"),      /* IP, DM */
		CASE("\xff\xf4\xff" "ABOR\r\n", "ABOR"),          /* urgent data mark */
		CASE("a\xff\xff" "b\r\n", "a\xff" "b"),
		CASE("\xff\xfd\x01" "NOOP\r\n", "NOOP"),          /* DO x */
		CASE("\xff\xfe\r" "NOOP\r\n", "NOOP"),            /* DONT CR */
		CASE("\xff\xfb\n" "NOOP\r\n", "NOOP"),            /* WILL LF */
		CASE("x\xff\xfa\x18\n\xff\xff\n\xff\xf0y\r\n", "xy"), /* SB ... SE */
		CASE("\xff\xf1\r\n", ""),
#undef CASE
	};
	size_t i, cut;

	(void)state;
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (cut = 0; cut < cases[i].len; cut++) {
			struct pair p = pair_new();
			char line[64];

			say(&p, cases[i].bytes, cut);
			assert_int_equal(ms_read_line(p.m, line, sizeof(line), 0), -ETIMEDOUT);
			say(&p, cases[i].bytes + cut, cases[i].len - cut);
			expect_line(&p, cases[i].line);
			pair_free(&p);
		}
	}
}

static void test_bad_lines(void **state)
{
	struct pair p = pair_new();
	char line[10], longest[100000];

	(void)state;
	SAY(&p, "123456789\r\n1234567890\r\n123456789\n1234567890\nok\r\n");
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), 9);
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), -EMSGSIZE);
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), 9);
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), -EMSGSIZE);
	expect_line(&p, "ok");
	SAY(&p, "DELE a\0b\r\nNOOP\r\n");
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), -EILSEQ);
	expect_line(&p, "NOOP");
	/* A line longer than any buffer is skipped to its end. */
	memset(longest, 'x', sizeof(longest));
	say(&p, longest, sizeof(longest));
	SAY(&p, "\r\nQUIT\r\n");
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 5000), -EMSGSIZE);
	expect_line(&p, "QUIT");
	pair_free(&p);
}

/* A peer that sends a line slowly, byte by byte, must not extend the timeout. */
static void *dribble(void *arg)
{
	struct pair *p = arg;
	int i;

	for (i = 0; i < 30; i++) {
		SAY(p, "x");
		usleep(20000);
	}
	SAY(p, "\n");
	return NULL;
}

static void test_line_timeout(void **state)
{
	struct pair p = pair_new();
	uint64_t begin = now_ns();
	char line[64];
	pthread_t t;

	(void)state;
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 50), -ETIMEDOUT);
	assert_in_range(now_ns() - begin, 49000000, 3000000000u);
	assert_int_equal(thread_start(&t, "dribble", dribble, &p), 0);
	begin = now_ns();
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), 100), -ETIMEDOUT);
	assert_in_range(now_ns() - begin, 99000000, 500000000u);
	/* The timeout has lost no byte. */
	assert_int_equal(ms_read_line(p.m, line, sizeof(line), -1), 30);
	pthread_join(t, NULL);
	pair_free(&p);
}

/* ---- frames ---- */

static void test_frames(void **state)
{
	static const size_t sizes[] = { 0, 1, 4087, 4088, 4089, 65535, 65536, 300000 };
	struct pair p = pair_new();
	struct mstream *other = ms_new(stream_plain(dup(p.peer), dup(p.peer)));
	struct buf *b = buf_new(1 << 20);
	uint8_t *bytes = malloc(300000), type;
	size_t i, k;

	(void)state;
	for (k = 0; k < 300000; k++)
		bytes[k] = (uint8_t)(k * 7 + k / 256);
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		pid_t pid = fork(); /* a socket buffer does not hold the large frames */

		if (pid == 0) {
			struct iovec iov[3] = {
				{ .iov_base = bytes, .iov_len = sizes[i] / 3 },
				{ .iov_base = NULL, .iov_len = 0 },
				{ .iov_base = bytes + sizes[i] / 3,
				  .iov_len = sizes[i] - sizes[i] / 3 },
			};

			_exit(ms_write_frame(other, 200, bytes, sizes[i]) ||
			      ms_write_framev(other, 201, iov, 3));
		}
		for (k = 0; k < 2; k++) {
			assert_int_equal(ms_read_frame(p.m, &type, b, 1 << 20, 5000), 0);
			assert_int_equal(type, 200 + k);
			assert_int_equal(buf_len(b), sizes[i]);
			if (sizes[i])
				assert_memory_equal(buf_ptr(b), bytes, sizes[i]);
		}
	}
	free(bytes);
	buf_free(b);
	ms_free(other);
	pair_free(&p);
}

static void test_hostile_frames(void **state)
{
	struct pair p = pair_new();
	struct buf *b = buf_new(1 << 20);
	uint8_t type;

	(void)state;
	SAY(&p, "\x01\0\0\0\xff\xff\xff\xff");
	assert_int_equal(ms_read_frame(p.m, &type, b, 1 << 20, 5000), -EMSGSIZE);
	pair_free(&p);

	p = pair_new();
	SAY(&p, "\x01\0\0\0\0\0\0\x05");
	assert_int_equal(ms_read_frame(p.m, &type, b, 4, 5000), -EMSGSIZE);
	pair_free(&p);

	p = pair_new();
	SAY(&p, "\x01\x80\0\0\0\0\0\0");
	assert_int_equal(ms_read_frame(p.m, &type, b, 4, 5000), -EBADMSG);
	pair_free(&p);

	p = pair_new();
	SAY(&p, "\x01\0\0\x01\0\0\0\0");
	assert_int_equal(ms_read_frame(p.m, &type, b, 4, 5000), -EBADMSG);
	pair_free(&p);

	/* An unknown type that must not be skipped. */
	p = pair_new();
	SAY(&p, "\x7f\0\0\0\0\0\0\0");
	assert_int_equal(ms_read_frame(p.m, &type, b, 4, 5000), -EBADMSG);
	pair_free(&p);

	/* A valid length, but the data ends early. */
	p = pair_new();
	SAY(&p, "\x01\0\0\0\0\x0f\0\0abc");
	close(p.peer);
	p.peer = -1;
	assert_int_equal(ms_read_frame(p.m, &type, b, 1 << 20, 5000), -EPIPE);
	pair_free(&p);
	buf_free(b);
}

/* A timeout at any byte of a frame loses nothing. */
static void test_frame_resumes(void **state)
{
	static const char frame[] = "\x07\0\0\0\0\0\0\x03" "abc";
	struct pair p = pair_new();
	struct buf *b = buf_new(100);
	uint8_t type = 0;
	size_t cut;

	(void)state;
	for (cut = 0; cut < sizeof(frame) - 1; cut++) {
		say(&p, frame, cut);
		assert_int_equal(ms_read_frame(p.m, &type, b, 100, 0), -ETIMEDOUT);
		say(&p, frame + cut, sizeof(frame) - 1 - cut);
		assert_int_equal(ms_read_frame(p.m, &type, b, 100, 5000), 0);
		assert_int_equal(type, 7);
		assert_int_equal(buf_len(b), 3);
		assert_memory_equal(buf_ptr(b), "abc", 3);
	}
	buf_free(b);
	pair_free(&p);
}

/* A frame head across the end of the reader's buffer, split at each byte. */
static void test_head_across_buffer(void **state)
{
	static char filler[64 << 10];
	static const char frame[] = "\x07\0\0\0\0\0\0\x03" "abc";
	struct buf *b = buf_new(100);
	uint8_t type = 0;
	size_t part;

	(void)state;
	for (part = 0; part <= 8; part++) {
		struct pair p = pair_new();

		say(&p, filler, sizeof(filler) - part);
		say(&p, frame, sizeof(frame) - 1);
		assert_int_equal(ms_skip(p.m, sizeof(filler) - part, 5000), 0);
		assert_int_equal(ms_read_frame(p.m, &type, b, 100, 5000), 0);
		assert_int_equal(type, 7);
		assert_memory_equal(buf_ptr(b), "abc", 3);
		pair_free(&p);
	}
	buf_free(b);
}

/* Lines, counted bytes and frames follow each other in one buffer. */
static void test_mixed(void **state)
{
	struct pair p = pair_new();
	struct buf *b = buf_new(100);
	char bytes[6];
	uint8_t type;

	(void)state;
	SAY(&p, "BULK 6\r\nabc\ndeXXXX\x03\0\0\0\0\0\0\x01zQUIT\r\n");
	expect_line(&p, "BULK 6");
	assert_int_equal(ms_read(p.m, bytes, 6, 5000), 0);
	assert_memory_equal(bytes, "abc\nde", 6);
	assert_true(ms_readable(p.m));
	assert_int_equal(ms_skip(p.m, 4, 5000), 0);
	assert_int_equal(ms_read_frame(p.m, &type, b, 100, 5000), 0);
	assert_int_equal(type, 3);
	expect_line(&p, "QUIT");
	assert_false(ms_readable(p.m));
	assert_int_equal(ms_read(p.m, bytes, 6, 20), -ETIMEDOUT);
	buf_free(b);
	pair_free(&p);
}

/* ---- writers ---- */

#define WRITERS 4
#define MESSAGES 200

struct writer {
	struct mstream *m;
	uint8_t type;
};

static void *write_frames(void *arg)
{
	struct writer *w = arg;
	uint8_t body[9000];
	int i;

	memset(body, w->type, sizeof(body));
	for (i = 0; i < MESSAGES; i++)
		if (ms_write_frame(w->m, w->type, body, (size_t)(i * 45)))
			return w;
	return NULL;
}

static void test_writers_do_not_mix(void **state)
{
	struct pair p = pair_new();
	struct mstream *reader = ms_new(stream_plain(dup(p.peer), dup(p.peer)));
	struct writer w[WRITERS];
	struct buf *b = buf_new(10000);
	size_t next[WRITERS] = { 0 }, i, k;
	pthread_t t[WRITERS];
	void *failed;
	uint8_t type;

	(void)state;
	for (i = 0; i < WRITERS; i++) {
		w[i] = (struct writer){ p.m, (uint8_t)(BULK_AGREE + i) };
		assert_int_equal(thread_start(&t[i], "writer", write_frames, &w[i]), 0);
	}
	for (i = 0; i < WRITERS * MESSAGES; i++) {
		assert_int_equal(ms_read_frame(reader, &type, b, 10000, 5000), 0);
		assert_in_range(type, BULK_AGREE, BULK_AGREE + WRITERS - 1);
		assert_int_equal(buf_len(b), 45 * next[type - BULK_AGREE]++);
		for (k = 0; k < buf_len(b); k++)
			assert_int_equal(buf_ptr(b)[k], type);
	}
	for (i = 0; i < WRITERS; i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
	buf_free(b);
	ms_free(reader);
	pair_free(&p);
}

/* The peer reads nothing, so the write times out. No further message may follow a truncated one, or
 * the peer would read its middle as a head. */
static void test_write_timeout(void **state)
{
	struct pair p = pair_new();
	static uint8_t big[8 << 20];

	(void)state;
	ms_set_write_timeout(p.m, 50);
	assert_int_equal(ms_write(p.m, big, sizeof(big)), -ETIMEDOUT);
	while (recv(p.peer, big, sizeof(big), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(ms_write(p.m, "x", 1), -ETIMEDOUT);
	pair_free(&p);

	p = pair_new();
	close(p.peer);
	p.peer = -1;
	assert_int_equal(ms_write(p.m, "x", 1), -EPIPE);
	pair_free(&p);
}

/* ---- abort ---- */

struct reader {
	struct mstream *m;
	bool writes;
	ssize_t result;
};

static void *sleep_in_it(void *arg)
{
	static uint8_t big[8 << 20];
	struct reader *s = arg;
	char line[64];

	s->result = s->writes ? ms_write(s->m, big, sizeof(big)) :
				ms_read_line(s->m, line, sizeof(line), -1);
	return NULL;
}

/* deaf: the peer reads nothing, so a writer blocks too. */
static void abort_wakes(struct mstream *m, bool deaf)
{
	struct reader s[2] = { { m, false, 0 }, { m, true, 0 } };
	char line[64];
	pthread_t t[2];

	assert_int_equal(thread_start(&t[0], "reader", sleep_in_it, &s[0]), 0);
	if (deaf)
		assert_int_equal(thread_start(&t[1], "writer", sleep_in_it, &s[1]), 0);
	usleep(50000);
	ms_abort(m);
	ms_abort(m);
	pthread_join(t[0], NULL);
	assert_int_equal(s[0].result, -ECANCELED);
	if (deaf) {
		pthread_join(t[1], NULL);
		assert_int_equal(s[1].result, -ECANCELED);
	}
	/* Calls after the abort fail as well. */
	assert_int_equal(ms_read_line(m, line, sizeof(line), -1), -ECANCELED);
	assert_true(ms_write(m, "x", 1) == -ECANCELED);
}

static void test_abort_socket(void **state)
{
	struct pair p = pair_new();

	(void)state;
	abort_wakes(p.m, true);
	pair_free(&p);
}

static void test_abort_pipes(void **state)
{
	int in[2], out[2];
	struct mstream *m;

	(void)state;
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	m = ms_new(stream_plain(in[0], out[1]));
	abort_wakes(m, true);
	ms_free(m);
	close(in[1]);
	close(out[0]);
}

/* A pair of pipes carries data, is shut down in one direction, and gets its file flags back. */
static void test_pipes(void **state)
{
	int in[2], out[2], keep;
	struct stream *s;
	struct mstream *m;
	char line[64];

	(void)state;
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	keep = dup(in[0]);
	s = stream_plain(in[0], out[1]);
	m = ms_new(s);
	assert_int_equal(write_full(in[1], "hello\n", 6), 0);
	assert_int_equal(ms_read_line(m, line, sizeof(line), 5000), 5);
	assert_int_equal(ms_write(m, "bye", 3), 0);
	assert_int_equal(s->ops->shutdown(s), 0);
	assert_int_equal(read_full(out[0], line, sizeof(line)), 3);
	assert_int_equal(ms_write(m, "x", 1), -EPIPE);
	assert_int_equal(write_full(in[1], "more\n", 5), 0);
	assert_int_equal(ms_read_line(m, line, sizeof(line), 5000), 4);
	assert_true(fcntl(keep, F_GETFL) & O_NONBLOCK);
	ms_free(m);
	assert_false(fcntl(keep, F_GETFL) & O_NONBLOCK);
	close(keep);
	close(in[1]);
	close(out[0]);
}

/* ---- TLS ---- */

/* Bytes that an attacker appended to AUTH TLS in clear must not count as received over TLS. */
static void test_injection(void **state)
{
	static const char *const behind[] = { "DELE x\r\n", "D", "\xff", "\r\n" };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(behind) / sizeof(behind[0]); i++) {
		struct pair p = pair_new();
		int fds[2];
		struct stream *s;
		char line[64];

		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
		s = stream_plain(fds[0], fds[0]);
		SAY(&p, "AUTH TLS\r\n");
		say(&p, behind[i], strlen(behind[i]));
		expect_line(&p, "AUTH TLS");
		/* Also if the start of a line has left the buffer already. */
		if (i % 2)
			assert_int_equal(ms_read_line(p.m, line, sizeof(line), 0),
					 strchr(behind[i], '\n') ? 0 : -ETIMEDOUT);
		if (i == 3) {
			assert_int_equal(ms_replace(p.m, s), 0);
			close(p.fd); /* s replaced it */
		} else {
			assert_int_equal(ms_replace(p.m, s), -EPROTO);
			stream_free(s);
		}
		close(fds[1]);
		pair_free(&p);
	}
}

static char dir[] = "./test-mstream-XXXXXX";

struct client {
	int fd;
	struct tls_ctx *ctx;
	bool ok;
};

static void *client_main(void *arg)
{
	struct client *c = arg;
	struct mstream *m = ms_new(stream_plain(c->fd, c->fd));
	struct err e = ERR_INIT;
	struct tls *tls;
	char line[64];

	c->ok = ms_write(m, "AUTH TLS\r\n", 10) == 0 &&
		ms_read_line(m, line, sizeof(line), 5000) == 3;
	tls = tls_start(c->ctx, c->fd, NULL, NULL, 5000, &e);
	if (!tls || ms_replace(m, stream_tls(c->fd, tls)))
		c->ok = false;
	else
		c->ok = c->ok && ms_write(m, "USER x\r\nPASS y\r\n", 16) == 0 &&
			ms_read_line(m, line, sizeof(line), 5000) == -EPIPE;
	ms_free(m);
	return NULL;
}

static void test_auth_tls(void **state)
{
	struct pair p = pair_new();
	char cert[64], key[64];
	struct err e = ERR_INIT;
	struct tls_ctx *ctx;
	struct client c;
	struct tls *tls;
	pthread_t t;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(cert, sizeof(cert), "%s/cert", dir);
	snprintf(key, sizeof(key), "%s/key", dir);
	assert_int_equal(tls_make_certificate(cert, key, "test", &e), 0);
	ctx = tls_server_new(cert, key, &e);
	c = (struct client){ .fd = p.peer, .ctx = tls_client_new(NULL, &e) };
	assert_true(ctx && c.ctx);
	assert_int_equal(thread_start(&t, "client", client_main, &c), 0);
	expect_line(&p, "AUTH TLS");
	assert_int_equal(ms_write(p.m, "234\r\n", 5), 0);
	tls = tls_start(ctx, p.fd, NULL, NULL, 30000, &e);
	assert_non_null(tls);
	assert_int_equal(ms_replace(p.m, stream_tls(p.fd, tls)), 0);
	expect_line(&p, "USER x");
	/* The rest of the TLS record is decrypted already, so poll(2) on the socket does not report
	 * it. */
	assert_true(ms_readable(p.m));
	expect_line(&p, "PASS y");
	abort_wakes(p.m, false);
	p.peer = -1;
	pair_free(&p);
	pthread_join(t, NULL);
	assert_true(c.ok);
	tls_ctx_free(ctx);
	tls_ctx_free(c.ctx);
	unlink(cert);
	unlink(key);
	rmdir(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_telnet),
		cmocka_unit_test(test_bad_lines),
		cmocka_unit_test(test_line_timeout),
		cmocka_unit_test(test_frames),
		cmocka_unit_test(test_hostile_frames),
		cmocka_unit_test(test_frame_resumes),
		cmocka_unit_test(test_head_across_buffer),
		cmocka_unit_test(test_mixed),
		cmocka_unit_test(test_writers_do_not_mix),
		cmocka_unit_test(test_write_timeout),
		cmocka_unit_test(test_abort_socket),
		cmocka_unit_test(test_abort_pipes),
		cmocka_unit_test(test_pipes),
		cmocka_unit_test(test_injection),
		cmocka_unit_test(test_auth_tls),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
