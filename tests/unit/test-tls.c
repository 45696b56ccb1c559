// SPDX-License-Identifier: Apache-2.0
/* TLS connections over socket pairs, and the messages of failures. */
#include "crypto/tls_priv.h"
#include "tests/support/tls.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MS 20000 /* longer than any test, even under valgrind */
#define HOST "dtn1.example.org"

/* ---- files and contexts shared by all tests ---- */

static char dir[] = "/tmp/rftp-test-tls-XXXXXX";
static char cert[128], key[128], expired_cert[128], address_cert[128];
static struct tls_ctx *server, *client;

static const char *in_dir(char *out, const char *name)
{
	snprintf(out, 128, "%s/%s", dir, name);
	return out;
}

/* A certificate for the same key that expired an hour ago. */
static void make_expired(void)
{
	struct err e = ERR_INIT;
	X509 *x = tls_load_certificate(&(struct tls_pem){ .file = cert }, &e);
	EVP_PKEY *k = tls_load_key(&(struct tls_pem){ .file = key }, &e);
	FILE *f = fopen(expired_cert, "w");

	assert_true(x && k && f);
	X509_gmtime_adj(X509_getm_notBefore(x), -7200);
	X509_gmtime_adj(X509_getm_notAfter(x), -3600);
	assert_true(X509_sign(x, k, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_X509(f, x), 1);
	fclose(f);
	X509_free(x);
	EVP_PKEY_free(k);
}

static int group_setup(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_non_null(mkdtemp(dir));
	in_dir(cert, "cert.pem");
	in_dir(key, "key.pem");
	in_dir(expired_cert, "expired.pem");
	in_dir(address_cert, "address.pem");
	assert_int_equal(tls_make_certificate(cert, key, HOST, &e), 0);
	assert_int_equal(tls_make_certificate(address_cert, key, "192.0.2.7", &e), 0);
	make_expired();
	server = tls_server_new(cert, key, &e);
	client = tls_client_new(NULL, &e);
	return server && client ? 0 : -1;
}

static int group_teardown(void **state)
{
	char command[64];

	(void)state;
	tls_ctx_free(server);
	tls_ctx_free(client);
	tls_ctx_free(NULL);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return system(command);
}

/* ---- a connection; each end starts in its own thread ---- */

struct pair {
	int fd[2];
	struct tls *s, *c;
	struct err se, ce;
	struct tls_ctx *sctx, *cctx;
	struct tls *sresume, *cresume;
	const char *host;
};

static void *start_server(void *arg)
{
	struct pair *p = arg;

	p->s = tls_start(p->sctx, p->fd[0], NULL, p->sresume, WAIT_MS, &p->se);
	if (!p->s)
		shutdown(p->fd[0], SHUT_WR);
	return NULL;
}

static void pair_start(struct pair *p)
{
	pthread_t t;

	p->sctx = p->sctx ? p->sctx : server;
	p->cctx = p->cctx ? p->cctx : client;
	p->host = p->host ? p->host : HOST;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, p->fd), 0);
	assert_int_equal(thread_start(&t, "server", start_server, p), 0);
	p->c = tls_start(p->cctx, p->fd[1], p->host, p->cresume, WAIT_MS, &p->ce);
	if (!p->c)
		shutdown(p->fd[1], SHUT_WR);
	pthread_join(t, NULL);
}

static void pair_good(struct pair *p)
{
	pair_start(p);
	assert_string_equal(p->ce.text, "");
	assert_string_equal(p->se.text, "");
	assert_non_null(p->c);
	assert_non_null(p->s);
}

static void pair_end(struct pair *p)
{
	tls_free(p->c);
	tls_free(p->s);
	close(p->fd[0]);
	close(p->fd[1]);
}

static void send_all(struct tls *t, const void *data, size_t len)
{
	const uint8_t *p = data;

	while (len > 0) {
		ssize_t n = tls_write(t, p, len, WAIT_MS);

		assert_true(n > 0);
		p += n;
		len -= (size_t)n;
	}
}

/* Sends text; the receiver must get the same bytes. */
static void say(struct tls *from, struct tls *to, const char *text)
{
	char got[256];
	size_t len = strlen(text), n = 0;

	send_all(from, text, len);
	while (n < len) {
		ssize_t r = tls_read(to, got + n, len - n, WAIT_MS);

		assert_true(r > 0);
		n += (size_t)r;
	}
	assert_memory_equal(got, text, len);
}

static bool readable(int fd)
{
	return poll_fd(fd, POLLIN, 0) > 0;
}

/* ---- working connections ---- */

static void echo(void **state)
{
	struct pair p = { .s = NULL };

	(void)state;
	pair_good(&p);
	assert_string_equal(tls_describe(p.c), "TLSv1.3 TLS_AES_256_GCM_SHA384");
	assert_string_equal(tls_describe(p.s), "TLSv1.3 TLS_AES_256_GCM_SHA384");
	say(p.c, p.s, "FEAT\r\n");
	say(p.s, p.c, "211-Features\r\n");
	pair_end(&p);
	tls_free(NULL);
}

static void pins(void **state)
{
	struct pair p = { .s = NULL };
	struct err e = ERR_INIT;
	char *mine = tls_certificate_pin(cert, &e), *theirs;

	(void)state;
	pair_good(&p);
	theirs = tls_peer_pin(p.c);
	assert_non_null(mine);
	assert_string_equal(theirs, mine);
	assert_int_equal(strncmp(mine, "SHA256:", 7), 0);
	assert_int_equal(strlen(mine), 7 + 43);
	assert_null(tls_peer_pin(p.s)); /* the client sends no certificate */
	assert_int_equal(tls_peer_validity(p.c, &e), 0);
	assert_int_equal(tls_peer_validity(p.s, &e), -ENOKEY);
	free(mine);
	free(theirs);
	pair_end(&p);
}

static void exporter(void **state)
{
	struct pair p = { .s = NULL };
	uint8_t a[KEY_BYTES], b[KEY_BYTES], other[KEY_BYTES];

	(void)state;
	pair_good(&p);
	assert_int_equal(tls_export(p.c, "EXPORTER-rftp-bulk-1", a, sizeof(a)), 0);
	assert_int_equal(tls_export(p.s, "EXPORTER-rftp-bulk-1", b, sizeof(b)), 0);
	assert_int_equal(tls_export(p.s, "EXPORTER-rftp-bulk-2", other, sizeof(other)), 0);
	assert_memory_equal(a, b, sizeof(a));
	assert_memory_not_equal(a, other, sizeof(a));
	pair_end(&p);
}

static void pending(void **state)
{
	struct pair p = { .s = NULL };
	char c;

	(void)state;
	pair_good(&p);
	assert_int_equal(tls_pending(p.s), 0);
	send_all(p.c, "12345", 5);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), 1);
	assert_int_equal(tls_pending(p.s), 4);
	pair_end(&p);
}

/* Decrypted data must be reported as pending: the kernel's buffer is empty, so a poll would
 * sleep. */
static void pending_behind(void **state)
{
	struct pair p = { .s = NULL };
	char c[8];

	(void)state;
	pair_good(&p);
	send_all(p.c, "12345", 5);
	send_all(p.c, "678", 3);
	assert_int_equal(tls_shutdown(p.c), 0);
	assert_int_equal(tls_read(p.s, c, sizeof(c), WAIT_MS), 5);
	assert_true(tls_pending(p.s) || readable(p.fd[0]));
	assert_int_equal(tls_read(p.s, c, sizeof(c), WAIT_MS), 3);
	assert_true(tls_pending(p.s) || readable(p.fd[0]));
	assert_int_equal(tls_read(p.s, c, sizeof(c), WAIT_MS), 0);
	pair_end(&p);
}

#define FLOOD ((size_t)64 << 20)

struct flow {
	struct tls *t;
	uint8_t seed;
	bool rekey; /* updates keys during the transfer, so readers must write */
	bool good;
};

/* Byte number pos of a stream. */
static uint8_t at(const struct flow *f, size_t pos)
{
	return (uint8_t)(f->seed + pos + (pos >> 13));
}

static void *flood(void *arg)
{
	static const size_t rekey_every = 1 << 20;
	struct flow *f = arg;
	size_t sent = 0, rekeyed = 0;
	uint8_t chunk[40000];

	while (sent < FLOOD) {
		size_t len = FLOOD - sent < sizeof(chunk) ? FLOOD - sent : sizeof(chunk);
		ssize_t n;

		for (size_t i = 0; i < len; i++)
			chunk[i] = at(f, sent + i);
		n = tls_write(f->t, chunk, len, WAIT_MS);
		if (n <= 0)
			return NULL;
		sent += (size_t)n;
		if (f->rekey && sent - rekeyed > rekey_every) {
			LOCK_GUARD(guard, &f->t->lock);

			SSL_key_update(f->t->ssl, SSL_KEY_UPDATE_REQUESTED);
			rekeyed = sent;
		}
	}
	f->good = true;
	return NULL;
}

static void *drain(void *arg)
{
	struct flow *f = arg;
	uint8_t chunk[50000];
	size_t got = 0;

	while (got < FLOOD) {
		ssize_t n = tls_read(f->t, chunk, sizeof(chunk), WAIT_MS);

		if (n <= 0)
			return NULL;
		for (ssize_t i = 0; i < n; i++)
			if (chunk[i] != at(f, got + (size_t)i))
				return NULL;
		got += (size_t)n;
	}
	f->good = true;
	return NULL;
}

static void both_ways(bool rekey)
{
	struct pair p = { .s = NULL };
	pthread_t t[4];

	pair_good(&p);
	struct flow flows[] = { { p.s, 1, rekey, false }, { p.s, 2, false, false },
				{ p.c, 2, rekey, false }, { p.c, 1, false, false } };
	for (int i = 0; i < 4; i++)
		thread_start(&t[i], "flow", i % 2 ? drain : flood, &flows[i]);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 4; i++)
		assert_true(flows[i].good);
	pair_end(&p);
}

static void both_ways_at_once(void **state)
{
	(void)state;
	both_ways(false);
}

static void both_ways_with_new_keys(void **state)
{
	(void)state;
	both_ways(true);
}

/* ---- resumption ---- */

static bool resumed(const struct pair *p)
{
	return SSL_session_reused(p->c->ssl) && SSL_session_reused(p->s->ssl);
}

static void resumption(void **state)
{
	struct pair control = { .s = NULL };
	struct err e = ERR_INIT;

	(void)state;
	pair_good(&control);
	assert_false(resumed(&control));
	say(control.s, control.c, "227 go\r\n"); /* the tickets arrive before this line */
	for (int i = 0; i < 5; i++) {
		struct pair data = { .cresume = control.c, .sresume = control.s };
		char *pin, *want = tls_certificate_pin(cert, &e);

		pair_good(&data);
		assert_true(resumed(&data));
		pin = tls_peer_pin(data.c);
		assert_string_equal(pin, want);
		free(pin);
		free(want);
		/* Unread tickets would make the kernel of the client reset the connection. */
		assert_false(readable(data.fd[1]));
		say(data.c, data.s, "data");
		/* A broken data connection must not invalidate the session. */
		if (i % 2) {
			shutdown(data.fd[0], SHUT_RDWR);
			tls_read(data.c, &i, 0, 0);
			data.c->ready = data.s->ready = false;
		}
		pair_end(&data);
	}
	pair_end(&control);
}

static void resumption_before_tickets(void **state)
{
	struct pair control = { .s = NULL };

	(void)state;
	pair_good(&control);
	struct pair data = { .cresume = control.c, .sresume = control.s };

	pair_start(&data);
	assert_null(data.s);
	assert_int_equal(data.se.code, -EKEYREJECTED);
	pair_end(&data);
	pair_end(&control);
}

/* A session of another control connection of the same server is refused. */
static void resumption_of_another(void **state)
{
	struct pair control = { .s = NULL }, other = { .s = NULL };
	struct err e = ERR_INIT;

	(void)state;
	pair_good(&control);
	say(control.s, control.c, "227 go\r\n");
	pair_good(&other);
	say(other.s, other.c, "227 go\r\n");
	struct pair data = { .cresume = other.c, .sresume = control.s };

	pair_start(&data);
	assert_null(data.s);
	assert_int_equal(data.se.code, -EKEYREJECTED);
	pair_end(&data);

	struct tls_server_settings s = { .cert.file = cert, .key.file = key, .any_data = true };
	struct pair lax = { .cresume = other.c, .sresume = control.s,
			    .sctx = tls_server_new_with(&s, &e) };

	assert_non_null(lax.sctx);
	pair_good(&lax);
	assert_false(resumed(&lax));
	say(lax.s, lax.c, "data");
	pair_end(&lax);
	tls_ctx_free(lax.sctx);
	pair_end(&other);
	pair_end(&control);
}

/* A client that uses each ticket once gets a new one with the next reply. */
static void tickets_are_renewed(void **state)
{
	struct pair control = { .s = NULL };

	(void)state;
	pair_good(&control);
	say(control.s, control.c, "227 go\r\n");
	for (int i = 0; i < 5; i++) {
		struct pair data = { .cresume = control.c, .sresume = control.s };
		SSL_SESSION *before = SSL_get1_session(control.c->ssl);

		pair_good(&data);
		assert_true(resumed(&data));
		pair_end(&data);
		say(control.s, control.c, "226 done\r\n");
		assert_ptr_not_equal(SSL_get0_session(control.c->ssl), before);
		SSL_SESSION_free(before);
	}
	pair_end(&control);
}

/* ---- the end of a connection ---- */

static void close_notify(void **state)
{
	struct pair p = { .s = NULL };
	char c;

	(void)state;
	pair_good(&p);
	send_all(p.c, "x", 1);
	assert_int_equal(tls_shutdown(p.c), 0);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), 1);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), 0);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), 0);
	/* The other direction still works. */
	say(p.s, p.c, "226 done\r\n");
	tls_free(p.s);
	p.s = NULL;
	assert_int_equal(tls_read(p.c, &c, 1, WAIT_MS), 0);
	pair_end(&p);
}

static void cut(void **state)
{
	struct pair p = { .s = NULL };
	char c;

	(void)state;
	pair_good(&p);
	send_all(p.c, "x", 1);
	shutdown(p.fd[1], SHUT_WR);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), 1);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), -EPIPE);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), -EPIPE);
	pair_end(&p);
}

/* SIGPIPE has its default action here: it must not be raised. */
static void write_to_nobody(void **state)
{
	struct pair p = { .s = NULL };
	ssize_t n = 1;

	(void)state;
	pair_good(&p);
	shutdown(p.fd[0], SHUT_RDWR);
	for (int i = 0; i < 10 && n > 0; i++)
		n = tls_write(p.c, "x", 1, WAIT_MS);
	assert_int_equal(n, -EPIPE);
	pair_end(&p);
}

static void damaged(void **state)
{
	/* A forged record of application data. */
	static const uint8_t forged[5 + 32] = { 23, 3, 3, 0, 32 };
	struct pair p = { .s = NULL };
	char c;

	(void)state;
	pair_good(&p);
	assert_int_equal(write_full(p.fd[1], forged, sizeof(forged)), 0);
	assert_int_equal(tls_read(p.s, &c, 1, WAIT_MS), -EPROTO);
	pair_end(&p);
}

static void timeouts(void **state)
{
	static char big[1 << 20];
	struct pair p = { .s = NULL };
	uint64_t before = now_ns();
	ssize_t n = 1;
	char c;

	(void)state;
	pair_good(&p);
	assert_int_equal(tls_read(p.s, &c, 1, 50), -ETIMEDOUT);
	assert_int_equal(tls_read(p.s, &c, 1, 0), -ETIMEDOUT);
	assert_true(now_ns() - before >= 50000000);
	for (int i = 0; i < 1000 && n > 0; i++)
		n = tls_write(p.s, big, sizeof(big), 50);
	assert_int_equal(n, -ETIMEDOUT);
	pair_end(&p);
}

/* Another process with the socket may clear O_NONBLOCK: our calls must still not block. */
static void made_blocking(void **state)
{
	static char big[1 << 20];
	struct pair p = { .s = NULL };
	ssize_t n = 1;
	char c;

	(void)state;
	pair_good(&p);
	alarm(WAIT_MS / 1000);
	assert_int_equal(set_nonblock(p.fd[0], false), 0);
	assert_int_equal(tls_read(p.s, &c, 1, 50), -ETIMEDOUT);
	for (int i = 0; i < 1000 && n > 0; i++)
		n = tls_write(p.s, big, sizeof(big), 50);
	assert_int_equal(n, -ETIMEDOUT);
	alarm(0);
	pair_end(&p);
}

static void *drain_slowly(void *arg)
{
	struct timespec pause = { .tv_nsec = 300000000 };

	nanosleep(&pause, NULL);
	return drain(arg);
}

/* After -ETIMEDOUT the same bytes can be written again: none is lost or sent twice. */
static void write_again_after_timeout(void **state)
{
	struct pair p = { .s = NULL };
	struct flow f = { .seed = 9 };
	uint8_t chunk[1 << 16];
	size_t sent = 0, late = 0;
	pthread_t t;

	(void)state;
	pair_good(&p);
	f.t = p.s;
	thread_start(&t, "drain", drain_slowly, &f);
	while (sent < FLOOD) {
		ssize_t n;

		for (size_t i = 0; i < sizeof(chunk); i++)
			chunk[i] = at(&f, sent + i);
		n = tls_write(p.c, chunk, sizeof(chunk), 20);
		assert_true(n > 0 || n == -ETIMEDOUT);
		if (n > 0)
			sent += (size_t)n;
		else
			assert_true(late++ < 2000);
	}
	tls_shutdown(p.c);
	pthread_join(t, NULL);
	assert_true(f.good);
	assert_true(late > 0);
	pair_end(&p);
}

/* ---- handshakes that fail ---- */

/* tls_start() against a peer that sends said and then closes, if closes is true. */
static int start_against(struct tls_ctx *ctx, const char *said, bool closes, int timeout_ms,
			 struct err *e)
{
	int fd[2];
	struct tls *t;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	assert_int_equal(write_full(fd[0], said, strlen(said)), 0);
	if (closes)
		shutdown(fd[0], SHUT_WR);
	t = tls_start(ctx, fd[1], ctx == client ? HOST : NULL, NULL, timeout_ms, e);
	assert_null(t);
	close(fd[0]);
	close(fd[1]);
	return e->code;
}

static void assert_says(const struct err *e, const char *what)
{
	if (!strstr(e->text, what))
		fail_msg("\"%s\" does not say \"%s\"", e->text, what);
}

static void plain_text_server(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(start_against(client, "220 Hello there.\r\nmore", false, WAIT_MS, &e),
			 -EPROTO);
	assert_says(&e, "does not speak TLS (it sent: \"220 Hello there.\")");
}

static void plain_text_client(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(start_against(server, "USER \001anonymous\r\n", false, WAIT_MS, &e),
			 -EPROTO);
	assert_says(&e, "(it sent: \"USER \\x01anonymous\")");
	assert_int_equal(start_against(server, "GET / HTTP/1.1\r\n", false, WAIT_MS, &e), -EPROTO);
	assert_says(&e, "(it sent: \"GET / HTTP/1.1\")");
	/* Shorter than a record header. */
	assert_int_equal(start_against(server, "ls\n", true, WAIT_MS, &e), -EPROTO);
	assert_says(&e, "(it sent: \"ls\")");
}

static void silent(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(start_against(client, "", false, 60, &e), -ETIMEDOUT);
	assert_says(&e, "within 0.06 s");
	assert_says(&e, "sent nothing");
	assert_int_equal(start_against(server, "\x16\x03", false, 60, &e), -ETIMEDOUT);
	assert_says(&e, "fell silent");
}

static void closed(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(start_against(client, "", true, WAIT_MS, &e), -EPIPE);
	assert_says(&e, "closed the connection");
	assert_int_equal(start_against(server, "", true, WAIT_MS, &e), -EPIPE);
	assert_says(&e, "closed the connection");
}

static void old_tls(void **state)
{
	struct err e = ERR_INIT;
	struct tls_ctx *old_client = tls_client_new(NULL, &e);
	struct tls_ctx *old_server = tls_server_new(cert, key, &e);
	struct pair p = { .cctx = old_client }, q = { .sctx = old_server };

	(void)state;
	SSL_CTX_set_min_proto_version(old_client->ctx, TLS1_2_VERSION);
	SSL_CTX_set_max_proto_version(old_client->ctx, TLS1_2_VERSION);
	SSL_CTX_set_min_proto_version(old_server->ctx, TLS1_2_VERSION);
	SSL_CTX_set_max_proto_version(old_server->ctx, TLS1_2_VERSION);
	pair_start(&p);
	assert_null(p.s);
	assert_says(&p.se, "does not speak TLS 1.3");
	pair_end(&p);
	pair_start(&q);
	assert_null(q.c);
	assert_says(&q.ce, "does not speak TLS 1.3");
	pair_end(&q);
	tls_ctx_free(old_client);
	tls_ctx_free(old_server);
}

/* ---- checks of certificates ---- */

static void start_checked(struct pair *p, const char *cafile, const char *certfile,
			  const char *host)
{
	struct err e = ERR_INIT;

	*p = (struct pair){ .host = host };
	p->cctx = tls_client_new(cafile, &e);
	p->sctx = tls_server_new(certfile, key, &e);
	assert_true(p->cctx && p->sctx);
	pair_start(p);
}

static void end_checked(struct pair *p)
{
	pair_end(p);
	tls_ctx_free(p->cctx);
	tls_ctx_free(p->sctx);
}

static void ca_good(void **state)
{
	struct pair p;

	(void)state;
	start_checked(&p, cert, cert, HOST);
	assert_string_equal(p.ce.text, "");
	assert_non_null(p.c);
	end_checked(&p);
	start_checked(&p, address_cert, address_cert, "192.0.2.7");
	assert_non_null(p.c);
	end_checked(&p);
}

static void assert_check_fails(const char *cafile, const char *certfile, const char *host,
			       const char *why)
{
	struct pair p;

	start_checked(&p, cafile, certfile, host);
	assert_null(p.c);
	assert_int_equal(p.ce.code, -EKEYREJECTED);
	assert_says(&p.ce, "certificate failed the check");
	assert_says(&p.ce, why);
	assert_null(p.s);
	assert_says(&p.se, "the peer refused");
	end_checked(&p);
}

static void ca_bad(void **state)
{
	char other_cert[128], other_key[128];
	struct err e = ERR_INIT;

	(void)state;
	in_dir(other_cert, "other-cert.pem");
	in_dir(other_key, "other-key.pem");
	assert_int_equal(tls_make_certificate(other_cert, other_key, HOST, &e), 0);
	assert_check_fails(other_cert, cert, HOST, "self-signed certificate");
	assert_check_fails(cert, cert, "elsewhere.example.org", "hostname mismatch");
	assert_check_fails(cert, cert, "192.0.2.7", "IP address mismatch");
	assert_check_fails(address_cert, address_cert, "192.0.2.8", "IP address mismatch");
	assert_check_fails(expired_cert, expired_cert, HOST, "certificate has expired");
}

/* With a CA but without a host name, any certificate of that CA would be accepted. */
static void ca_needs_a_name(void **state)
{
	struct err e = ERR_INIT;
	struct tls_ctx *c = tls_client_new(cert, &e);
	int fd[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	assert_null(tls_start(c, fd[1], NULL, NULL, 100, &e));
	assert_int_equal(e.code, -EINVAL);
	close(fd[0]);
	close(fd[1]);
	tls_ctx_free(c);
}

/* Without a CA only the pin counts; tls_peer_validity() checks the dates. */
static void expired(void **state)
{
	struct err e = ERR_INIT;
	struct pair p = { .sctx = tls_server_new(expired_cert, key, &e) };

	(void)state;
	pair_good(&p);
	assert_int_equal(tls_peer_validity(p.c, &e), -EKEYEXPIRED);
	assert_says(&e, "was valid until 20");
	pair_end(&p);
	tls_ctx_free(p.sctx);
}

static void missing_files(void **state)
{
	struct err e = ERR_INIT;
	char path[128];

	(void)state;
	in_dir(path, "nothing.pem");
	assert_null(tls_client_new(path, &e));
	assert_says(&e, "nothing.pem");
	assert_null(tls_server_new(path, key, &e));
	assert_says(&e, "nothing.pem");
	assert_null(tls_server_new(cert, path, &e));
	assert_says(&e, "nothing.pem");
	assert_null(tls_server_new(key, key, &e));
	assert_null(tls_server_new(cert, cert, &e));
	assert_null(tls_certificate_pin(path, &e));
	assert_null(tls_certificate_pin(key, &e));
	assert_says(&e, "holds no certificate");
}

/* ---- making certificates ---- */

static char *slurp(const char *path)
{
	char *text;

	assert_int_equal(read_file(path, 1 << 20, &text, NULL), 0);
	return text;
}

static void made_once(void **state)
{
	char c[128], k[128], *before, *after;
	struct err e = ERR_INIT;
	struct stat st;

	(void)state;
	in_dir(c, "once-cert.pem");
	in_dir(k, "once-key.pem");
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), 0);
	assert_int_equal(stat(k, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	before = slurp(c);
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), 0);
	after = slurp(c);
	assert_string_equal(before, after);
	free(before);
	free(after);
}

/* An existing key is kept, and so its pin; an existing certificate without key is not
 * overwritten. */
static void one_of_two(void **state)
{
	char c[128], k[128], *before, *after;
	struct err e = ERR_INIT;

	(void)state;
	in_dir(c, "half-cert.pem");
	in_dir(k, "half-key.pem");
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), 0);
	before = tls_certificate_pin(c, &e);
	assert_int_equal(unlink(c), 0);
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), 0);
	after = tls_certificate_pin(c, &e);
	assert_string_equal(before, after);
	assert_int_equal(unlink(k), 0);
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), -ENOENT);
	assert_says(&e, "half-key.pem");
	free(before);
	free(after);
}

static void open_key(void **state)
{
	char c[128], k[128];
	struct err e = ERR_INIT;

	(void)state;
	in_dir(c, "open-cert.pem");
	in_dir(k, "open-key.pem");
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), 0);
	assert_int_equal(chmod(k, 0640), 0);
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), -EPERM);
	assert_says(&e, "chmod 600 ");
	e = (struct err)ERR_INIT;
	assert_null(tls_server_new(c, k, &e));
	assert_int_equal(e.code, -EPERM);
	unlink(c);
	assert_int_equal(tls_make_certificate(c, k, HOST, NULL), -EPERM);
}

static void no_directory(void **state)
{
	char c[128], k[128];
	struct err e = ERR_INIT;

	(void)state;
	in_dir(c, "absent/cert.pem");
	in_dir(k, "absent/key.pem");
	assert_int_equal(tls_make_certificate(c, k, HOST, &e), -ENOENT);
	assert_says(&e, "absent/key.pem");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(echo),
		cmocka_unit_test(pins),
		cmocka_unit_test(exporter),
		cmocka_unit_test(pending),
		cmocka_unit_test(pending_behind),
		cmocka_unit_test(both_ways_at_once),
		cmocka_unit_test(both_ways_with_new_keys),
		cmocka_unit_test(resumption),
		cmocka_unit_test(resumption_before_tickets),
		cmocka_unit_test(resumption_of_another),
		cmocka_unit_test(tickets_are_renewed),
		cmocka_unit_test(close_notify),
		cmocka_unit_test(cut),
		cmocka_unit_test(write_to_nobody),
		cmocka_unit_test(damaged),
		cmocka_unit_test(timeouts),
		cmocka_unit_test(made_blocking),
		cmocka_unit_test(write_again_after_timeout),
		cmocka_unit_test(plain_text_server),
		cmocka_unit_test(plain_text_client),
		cmocka_unit_test(silent),
		cmocka_unit_test(closed),
		cmocka_unit_test(old_tls),
		cmocka_unit_test(ca_good),
		cmocka_unit_test(ca_bad),
		cmocka_unit_test(ca_needs_a_name),
		cmocka_unit_test(expired),
		cmocka_unit_test(missing_files),
		cmocka_unit_test(made_once),
		cmocka_unit_test(one_of_two),
		cmocka_unit_test(open_key),
		cmocka_unit_test(no_directory),
	};

	return cmocka_run_group_tests_name("tls", tests, group_setup, group_teardown);
}
