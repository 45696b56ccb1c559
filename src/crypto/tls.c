// SPDX-License-Identifier: Apache-2.0
/* One TLS connection on a non-blocking socket: handshake, reading and writing with
 * timeouts, the end. */
#include "crypto/tls_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* close_notify is a few bytes: a peer that leaves no room for them this long is stuck. */
#define SHUTDOWN_MS 10000
/* Four records: encrypted at once, sent in one call. */
#define WRITE_MAX ((size_t)64 << 10)

/* ---- one step, and steps until done ---- */

struct step {
	int (*call)(SSL *ssl, struct step *s); /* 1: done; else as SSL_read_ex */
	bool absolute;  /* the timeout is for the whole, not for each silence */
	bool in_order;  /* begins only when all before it is sent */
	bool to_the_end; /* is over only when its own bytes are sent */
	bool called;    /* successfully; what is left is to send */
	void *in;
	const void *out;
	size_t len, done;
};

static int call_handshake(SSL *ssl, struct step *s)
{
	(void)s;
	return SSL_do_handshake(ssl);
}

static int call_read(SSL *ssl, struct step *s)
{
	return SSL_read_ex(ssl, s->in, s->len, &s->done);
}

static int call_write(SSL *ssl, struct step *s)
{
	return SSL_write_ex(ssl, s->out, s->len, &s->done);
}

/* 0 means "sent, the peer's has not come": all that is asked for here. */
static int call_shutdown(SSL *ssl, struct step *s)
{
	int r = SSL_shutdown(ssl);

	(void)s;
	return r == 0 ? 1 : r;
}

/* A peer that is gone is gone, whether we learn it from its end or from a reset. */
static int gone_or(int error)
{
	return error == ECONNRESET || error == EPIPE ? -EPIPE : -error;
}

static int wire_error(const struct wire *w)
{
	if (w->send_error)
		return gone_or(w->send_error);
	if (w->ended)
		return -EPIPE;
	return w->recv_error ? gone_or(w->recv_error) : -EIO;
}

/* OpenSSL leaves the reason in the calling thread's queue for the caller. */
static int broken(struct tls *t, int code)
{
	t->ready = false;
	return code;
}

/* 0: done; POLLIN: not before more has come; -ENODATA: the peer said that no more will
 * come; another negative errno. */
static int call_once(struct tls *t, struct step *s)
{
	int r;

	ERR_clear_error();
	r = s->call(t->ssl, s);
	if (r == 1) {
		s->called = true;
		return 0;
	}
	switch (SSL_get_error(t->ssl, r)) {
	case SSL_ERROR_WANT_READ:
		return POLLIN;
	case SSL_ERROR_ZERO_RETURN:
		return -ENODATA;
	case SSL_ERROR_SYSCALL:
		return broken(t, wire_error(&t->wire));
	default:
		return broken(t, -EPROTO);
	}
}

/* 0, a negative errno, or what poll should wait for. Whatever OpenSSL has to send, an
 * alert too, is sent as far as the socket takes it. */
static int try_once(struct tls *t, struct step *s)
{
	LOCK_GUARD(guard, &t->lock);
	int sent = wire_flush(&t->wire), r = 0;

	if (!s->called) {
		if (s->in_order && sent == -EAGAIN)
			return POLLOUT;
		r = call_once(t, s);
		sent = wire_flush(&t->wire);
	}
	if (r < 0)
		return r;
	/* Who wants to read does so even if the peer takes nothing more: it may have
	 * said why. */
	if (r == POLLIN)
		return sent == -EAGAIN ? POLLIN | POLLOUT : POLLIN;
	if (!s->to_the_end || sent == 0)
		return 0;
	return sent == -EAGAIN ? POLLOUT : broken(t, gone_or(-sent));
}

struct patience {
	int timeout_ms;
	uint64_t since; /* ns */
};

static int ms_left(const struct patience *p)
{
	uint64_t gone = (now_ns() - p->since) / 1000000;

	if (p->timeout_ms < 0)
		return -1;
	return gone < (uint64_t)p->timeout_ms ? p->timeout_ms - (int)gone : 0;
}

/* Steps and waits. 0, or a negative errno; on -ETIMEDOUT s tells how far it came. */
static int run(struct tls *t, struct step *s, int timeout_ms)
{
	struct patience p = { .timeout_ms = timeout_ms, .since = now_ns() };
	int events, r;

	while ((events = try_once(t, s)) > 0) {
		r = poll_fd(t->wire.fd, (short)events, ms_left(&p));
		if (r < 0)
			return r;
		if (r == 0)
			return -ETIMEDOUT;
		if (!s->absolute)
			p.since = now_ns();
	}
	return events;
}

/* ---- start and end ---- */

static bool is_address(const char *host)
{
	struct in_addr v4;

	/* No host name has a colon; an IPv6 address may have a scope, which inet_pton
	 * does not know. */
	return strchr(host, ':') || inet_pton(AF_INET, host, &v4) == 1;
}

/* Tell the server which name was meant, and have it checked where there is a CA.
 * SNI is for names only (RFC 6066 §3). */
static bool expect_host(SSL *ssl, const char *host, bool check)
{
	X509_VERIFY_PARAM *param = SSL_get0_param(ssl);

	if (!is_address(host))
		return SSL_set_tlsext_host_name(ssl, host) == 1 &&
		       (!check || SSL_set1_host(ssl, host) == 1);
	return !check || X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1;
}

/* A copy of its session, so that the end of this connection, good or bad, does not mark
 * the one that others share. No session (yet) is no error: hands are then shaken in
 * full. */
static void reuse_session(SSL *ssl, struct tls *from)
{
	LOCK_GUARD(guard, &from->lock);
	SSL_SESSION *shared = SSL_get0_session(from->ssl);
	SSL_SESSION *own = NULL;

	if (shared && SSL_SESSION_is_resumable(shared))
		own = SSL_SESSION_dup(shared);
	if (own)
		SSL_set_session(ssl, own);
	else
		log_debug("TLS: there is no session to resume, which some servers insist on");
	SSL_SESSION_free(own);
}

static bool prepare_client(struct tls_ctx *c, SSL *ssl, const char *host, struct tls *resume)
{
	SSL_set_connect_state(ssl);
	if (resume)
		reuse_session(ssl, resume);
	/* With a CA but no name any certificate of that CA would do. */
	return host ? expect_host(ssl, host, c->check) : !c->check;
}

/* A ticket has the id in it, as OpenSSL's session id context. */
static bool prepare_server(struct tls_ctx *c, struct tls *t, struct tls *resume)
{
	SSL_set_accept_state(t->ssl);
	if (c->proves && !resume && tls_keep_proof(t) < 0)
		return false;
	if (resume)
		memcpy(t->id, resume->id, sizeof(t->id));
	else
		crypto_random(t->id, sizeof(t->id));
	if (SSL_set_session_id_context(t->ssl, t->id, sizeof(t->id)) != 1)
		return false;
	/* A client gets the tickets for its data connections by the control connection. On a data
	 * connection they would lie unread when an uploader closes, and its kernel's RST would
	 * cost us its last bytes. */
	return !resume || SSL_set_num_tickets(t->ssl, 0) == 1;
}

static bool same_certificate(struct tls *a, struct tls *b)
{
	CLEANUP_FREE char *pin = tls_peer_pin(a), *other = tls_peer_pin(b);

	return pin && other && !strcmp(pin, other);
}

/* Clients of TLS 1.3 may use a ticket once only (RFC 8446, appendix C.4): there is a new one for each
 * that was used, with the next reply. */
static void renew_ticket(struct tls *control)
{
	LOCK_GUARD(guard, &control->lock);

	if (SSL_version(control->ssl) < TLS1_3_VERSION || !control->ready)
		return;
	SSL_new_session_ticket(control->ssl);
	ERR_clear_error();
}

/* Is the client of t, a data connection, that of control? */
static int check_data(struct tls_ctx *c, struct tls *t, struct tls *control, struct err *e)
{
	if (SSL_session_reused(t->ssl)) {
		renew_ticket(control);
		return 0;
	}
	if (c->any_data || same_certificate(t, control))
		return 0;
	t->ready = false; /* no good end: the client must not take it for that of a file */
	return err_set(e, -EKEYREJECTED, "it neither resumes the TLS session of its control "
		       "connection nor shows the certificate that was shown there");
}

static struct tls *new_tls(struct tls_ctx *c, int fd)
{
	struct tls *t = calloc(1, sizeof(*t));
	BIO *bio;

	if (!t)
		return NULL;
	pthread_mutex_init(&t->lock, NULL);
	t->wire.fd = fd;
	t->ssl = SSL_new(c->ctx);
	bio = wire_bio(&t->wire);
	if (!t->ssl || !bio) {
		BIO_free(bio);
		tls_free(t);
		return NULL;
	}
	SSL_set_bio(t->ssl, bio, bio); /* which takes the one reference */
	return t;
}

static int shake_hands(struct tls *t, int timeout_ms, struct err *e)
{
	struct step s = { .call = call_handshake, .absolute = true, .to_the_end = true };
	int r = run(t, &s, timeout_ms);

	if (r < 0)
		return tls_why(t, r, timeout_ms, e);
	snprintf(t->describe, sizeof(t->describe), "%s %s", SSL_get_version(t->ssl),
		 SSL_get_cipher_name(t->ssl));
	t->ready = true;
	return 0;
}

struct tls *tls_start(struct tls_ctx *c, int fd, const char *host, struct tls *resume,
		      int timeout_ms, struct err *e)
{
	struct tls *t = NULL;
	int r = set_nonblock(fd, true);

	if (r < 0) {
		err_sys(e, r, "cannot make the socket non-blocking");
		return NULL;
	}
	t = new_tls(c, fd);
	if (!t) {
		err_set(e, -ENOMEM, "cannot set TLS up: %s", openssl_reason());
		return NULL;
	}
	if (!(c->server ? prepare_server(c, t, resume) :
			  prepare_client(c, t->ssl, host, resume)))
		err_set(e, -EINVAL, "cannot check a certificate for host \"%s\": %s",
			printable(host ? host : ""), openssl_reason());
	else if (shake_hands(t, timeout_ms, e) == 0 &&
		 (!c->server || !resume || check_data(c, t, resume, e) == 0))
		return t;
	tls_free(t);
	return NULL;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	ERR_clear_error();
	if (t->ready) {
		SSL_shutdown(t->ssl);
		wire_flush(&t->wire); /* one try: a full socket must not hold us up */
	}
	SSL_free(t->ssl);
	buf_free(t->proof);
	ERR_clear_error();
	wire_clear(&t->wire);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int tls_shutdown(struct tls *t)
{
	struct step s = { .call = call_shutdown, .in_order = true, .to_the_end = true };

	return run(t, &s, SHUTDOWN_MS);
}

/* ---- bytes ---- */

/* The caller gets a number; the reason is of use to who debugs only. */
static ssize_t finished(const char *what, const struct step *s, int r)
{
	if (r == 0)
		return (ssize_t)s->done;
	if (r == -EPROTO && log_enabled(LOG_LV_DEBUG))
		log_debug("TLS %s: %s", what, openssl_reason());
	ERR_clear_error();
	return r;
}

ssize_t tls_read(struct tls *t, void *p, size_t len, int timeout_ms)
{
	struct step s = { .call = call_read, .in = p, .len = len };
	int r = run(t, &s, timeout_ms);

	return r == -ENODATA ? 0 : finished("read", &s, r);
}

/* Sealed bytes cannot be taken back. When the time is over before they are sent they
 * count as done, and it is the next call, which waits for them first, that times out:
 * so a caller may try the same bytes again after -ETIMEDOUT. */
ssize_t tls_write(struct tls *t, const void *p, size_t len, int timeout_ms)
{
	struct step s = { .call = call_write, .in_order = true, .to_the_end = true,
			  .out = p, .len = len < WRITE_MAX ? len : WRITE_MAX };
	int r = run(t, &s, timeout_ms);

	return finished("write", &s, r == -ETIMEDOUT && s.called ? 0 : r);
}

/* What was received but not decrypted counts too: it is decrypted now. An end or an
 * error that was found counts as one byte, so that the caller comes and learns of it:
 * the socket may never show it again. */
size_t tls_pending(struct tls *t)
{
	LOCK_GUARD(guard, &t->lock);
	size_t n;
	char c;
	int r;

	if (SSL_pending(t->ssl) == 0 && t->wire.in) {
		ERR_clear_error();
		r = SSL_peek_ex(t->ssl, &c, 1, &n);
		if (r != 1 && SSL_get_error(t->ssl, r) != SSL_ERROR_WANT_READ)
			return 1;
		wire_flush(&t->wire);
	}
	return (size_t)SSL_pending(t->ssl);
}

void tls_secret(struct tls *t, bool secret)
{
	if (secret)
		SSL_set_options(t->ssl, SSL_OP_CLEANSE_PLAINTEXT);
	else
		SSL_clear_options(t->ssl, SSL_OP_CLEANSE_PLAINTEXT);
}

int tls_export(struct tls *t, const char *label, uint8_t *out, size_t len)
{
	LOCK_GUARD(guard, &t->lock);

	if (SSL_version(t->ssl) < TLS1_3_VERSION && SSL_get_extms_support(t->ssl) != 1)
		return -EIO;
	if (SSL_export_keying_material(t->ssl, out, len, label, strlen(label), NULL, 0, 0) == 1)
		return 0;
	ERR_clear_error();
	return -EIO;
}

const char *tls_describe(struct tls *t)
{
	return t->describe;
}
