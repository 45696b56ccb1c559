// SPDX-License-Identifier: Apache-2.0
/* One TLS connection on a non-blocking socket: the handshake and the reason for its failure,
 * reading and writing with timeouts, and the end. */
#include "crypto/tls_priv.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/sslerr.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <sys/socket.h>

/* The time limit for close_notify: a peer that does not read these few bytes for so long hangs. */
#define SHUTDOWN_MS 10000
/* Four records are encrypted together and sent in one call. */
#define WRITE_MAX ((size_t)64 << 10)

/* OpenSSL's own socket BIO would raise SIGPIPE after the peer has closed, leave writes incomplete,
 * and not store the peer's first bytes. Each call uses MSG_DONTWAIT, because another process that
 * shares the socket may clear O_NONBLOCK. */

/* Room for one tls_write() and for alerts and answers to KeyUpdates. The limit protects against a
 * peer that requests such answers and does not read them. */
#define OUT_MAX ((size_t)256 << 10)
#define IN_ROOM ((size_t)64 << 10)

static bool is_transient(int error)
{
	return error == EAGAIN || error == EINTR; /* EWOULDBLOCK is EAGAIN on Linux */
}

/* ---- the socket: bytes out ---- */

static bool wire_make_room(struct wire *w, size_t len)
{
	size_t need = w->out_end + len, room = 2 * w->out_room;
	uint8_t *bigger;

	if (need <= w->out_room)
		return true;
	if (need > OUT_MAX)
		return false;
	if (room < need)
		room = need;
	bigger = realloc(w->out, room);
	if (!bigger)
		return false;
	w->out = bigger;
	w->out_room = room;
	return true;
}

static int wire_write(BIO *b, const char *p, size_t len, size_t *done)
{
	struct wire *w = BIO_get_data(b);

	BIO_clear_retry_flags(b);
	if (w->send_error)
		return 0;
	if (!wire_make_room(w, len)) {
		w->send_error = ENOBUFS;
		return 0;
	}
	memcpy(w->out + w->out_end, p, len);
	w->out_end += len;
	*done = len;
	return 1;
}

static void wire_drop_out(struct wire *w)
{
	free(w->out);
	w->out = NULL;
	w->out_at = w->out_end = w->out_room = 0;
}

/* Send as much as the socket accepts. 0: everything was sent; -EAGAIN: not everything; or another
 * negative errno: the rest cannot be sent and is dropped, and later calls return the same errno. */
static int wire_flush(struct wire *w)
{
	while (w->out_at < w->out_end) {
		ssize_t n = send(w->fd, w->out + w->out_at, w->out_end - w->out_at,
				 MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n >= 0) {
			w->out_at += (size_t)n;
		} else if (errno != EINTR) {
			if (is_transient(errno))
				return -EAGAIN;
			w->send_error = errno;
			break;
		}
	}

	wire_drop_out(w);
	return -w->send_error;
}

/* ---- the socket: bytes in ---- */

static void wire_drop_in(struct wire *w)
{
	free(w->in);
	w->in = NULL;
	w->in_at = w->in_end = 0;
}

/* Receive into the empty buffer. Returns the result of recv(2), or a negative errno. */
static ssize_t wire_receive(struct wire *w)
{
	size_t first = sizeof(w->first) - w->nfirst;
	ssize_t n;

	w->in = malloc(IN_ROOM);
	if (!w->in)
		return -ENOMEM;
	n = recv(w->fd, w->in, IN_ROOM, MSG_DONTWAIT);
	if (n <= 0) {
		n = n < 0 ? -errno : 0;
		wire_drop_in(w);
		return n;
	}
	first = (size_t)n < first ? (size_t)n : first;
	memcpy(w->first + w->nfirst, w->in, first);
	w->nfirst += first;
	w->in_end = (size_t)n;
	return n;
}

/* Report the end of the stream in w->ended only, not by BIO_eof(), after which OpenSSL would send
 * an alert and refuse further writes. */
static int wire_read(BIO *b, char *p, size_t len, size_t *done)
{
	struct wire *w = BIO_get_data(b);
	ssize_t n = w->in ? 1 : wire_receive(w);

	BIO_clear_retry_flags(b);
	if (n > 0) {
		*done = w->in_end - w->in_at < len ? w->in_end - w->in_at : len;
		memcpy(p, w->in + w->in_at, *done);
		w->in_at += *done;
		if (w->in_at == w->in_end)
			wire_drop_in(w);
		return 1;
	}

	if (n == 0)
		w->ended = true;
	else if (is_transient((int)-n))
		BIO_set_retry_read(b);
	else
		w->recv_error = (int)-n;
	return 0;
}

/* ---- the socket: the BIO ---- */

static long wire_ctrl(BIO *b, int cmd, long num, void *ptr)
{
	(void)b;
	(void)num;
	(void)ptr;
	return cmd == BIO_CTRL_FLUSH; /* done after each call, by wire_flush() */
}

static BIO_METHOD *method;
static pthread_once_t method_made = PTHREAD_ONCE_INIT;

static void make_method(void)
{
	BIO_METHOD *m = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");

	if (m && BIO_meth_set_write_ex(m, wire_write) && BIO_meth_set_read_ex(m, wire_read) &&
	    BIO_meth_set_ctrl(m, wire_ctrl))
		method = m;
	else
		BIO_meth_free(m);
}

/* A BIO over w, which must outlive it; NULL: out of memory. */
static BIO *wire_bio(struct wire *w)
{
	BIO *b;

	pthread_once(&method_made, make_method);
	b = method ? BIO_new(method) : NULL;
	if (!b)
		return NULL;
	BIO_set_data(b, w);
	BIO_set_init(b, 1);
	return b;
}

/* ---- steps: calls of OpenSSL ---- */

struct step {
	enum step_kind { STEP_HANDSHAKE, STEP_READ, STEP_WRITE, STEP_SHUTDOWN } kind;
	bool called;    /* OpenSSL's call succeeded; only sending remains */
	void *in;       /* read */
	const void *out;
	size_t len, done;
};

/* -EPIPE means a lost peer, after an end of the stream and after a reset. */
static int wire_error(int error)
{
	return error == ECONNRESET || error == EPIPE ? -EPIPE : -error;
}

/* Mark t as unusable, and return code. OpenSSL's reason stays in the thread's error queue. */
static int tls_broken(struct tls *t, int code)
{
	t->ready = false;
	return code;
}

/* Call OpenSSL once. 0: done; POLLIN: more bytes must arrive first; -ENODATA: the peer sent
 * close_notify; or another negative errno. */
static int step_call(struct tls *t, struct step *s)
{
	const struct wire *w = &t->wire;
	int r = 0;

	ERR_clear_error();
	switch (s->kind) {
	case STEP_HANDSHAKE:
		r = SSL_do_handshake(t->ssl);
		break;
	case STEP_READ:
		r = SSL_read_ex(t->ssl, s->in, s->len, &s->done);
		break;
	case STEP_WRITE:
		r = SSL_write_ex(t->ssl, s->out, s->len, &s->done);
		break;
	case STEP_SHUTDOWN:
		r = SSL_shutdown(t->ssl);
		/* 0: our close_notify was sent, the peer's has not arrived. This side does not wait
		 * for it. */
		r = r == 0 ? 1 : r;
		break;
	}

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
		return tls_broken(t, w->send_error ? wire_error(w->send_error) :
				     w->ended ? -EPIPE :
				     w->recv_error ? wire_error(w->recv_error) : -EIO);
	default:
		return tls_broken(t, -EPROTO);
	}
}

/* Try one step. 0: done; positive: the events to poll for; or a negative errno. Sends as much of
 * OpenSSL's output, including alerts, as the socket accepts. */
static int step_once(struct tls *t, struct step *s)
{
	LOCK_GUARD(guard, &t->lock);
	int sent = wire_flush(&t->wire), r = 0;

	if (!s->called) {
		/* Start the step only when all earlier bytes are sent. */
		if (sent == -EAGAIN && (s->kind == STEP_WRITE || s->kind == STEP_SHUTDOWN))
			return POLLOUT;
		r = step_call(t, s);
		sent = wire_flush(&t->wire);
	}

	if (r < 0)
		return r;
	/* Continue to read even if the peer accepts no more bytes: it may have sent its reason. */
	if (r == POLLIN)
		return sent == -EAGAIN ? POLLIN | POLLOUT : POLLIN;
	/* Steps other than a read end only when their own bytes are sent. */
	if (s->kind == STEP_READ || sent == 0)
		return 0;
	return sent == -EAGAIN ? POLLOUT : tls_broken(t, wire_error(-sent));
}

/* Repeat and wait until s is done. 0, or a negative errno; -ETIMEDOUT: s contains the progress. */
static int step_run(struct tls *t, struct step *s, int timeout_ms)
{
	uint64_t end = ns_after(timeout_ms);
	int events, r;

	while ((events = step_once(t, s)) > 0) {
		r = poll_fd(t->wire.fd, (short)events, timeout_ms < 0 ? -1 : ms_to(end));
		if (r < 0)
			return r;
		if (r == 0)
			return -ETIMEDOUT;
		/* The timeout limits a whole handshake. For other steps it limits each wait. */
		if (s->kind != STEP_HANDSHAKE)
			end = ns_after(timeout_ms);
	}

	return events;
}

/* ---- why a handshake failed ---- */

const char *openssl_reason(void)
{
	unsigned long code = ERR_peek_last_error();
	const char *text = code ? ERR_reason_error_string(code) : NULL;

	ERR_clear_error();
	return text ? text : "no reason given";
}

/* The remedy for a certificate error. */
static const char *certificate_advice(long why)
{
	switch (why) {
	case X509_V_ERR_HOSTNAME_MISMATCH:
	case X509_V_ERR_IP_ADDRESS_MISMATCH:
		return "; call the server by a name that the certificate is for";
	case X509_V_ERR_CERT_HAS_EXPIRED:
		return "; it must be renewed, or the clock here is wrong";
	case X509_V_ERR_CERT_NOT_YET_VALID:
		return "; the clock here or there is wrong";
	case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
	case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
		return "; no authority that is trusted here has signed it";
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
	case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
	case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
		return "; no authority that is trusted here has signed it, or the server's "
		       "certificate file lacks intermediate certificates";
	default:
		return "";
	}
}

/* True for alerts that a peer with the same settings sends only if bytes were changed in transit. A
 * damaged list of groups or ciphers looks like a list without a common choice. */
static bool alert_means_damage(int reason)
{
	switch (reason) {
	case SSL_R_SSLV3_ALERT_BAD_RECORD_MAC:
	case SSL_R_SSLV3_ALERT_ILLEGAL_PARAMETER:
	case SSL_R_SSLV3_ALERT_UNEXPECTED_MESSAGE:
	case SSL_R_TLSV1_ALERT_DECODE_ERROR:
	case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
	case SSL_R_TLSV1_ALERT_RECORD_OVERFLOW:
	case SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE:
	case SSL_R_TLSV13_ALERT_MISSING_EXTENSION:
	case SSL_R_TLSV1_UNSUPPORTED_EXTENSION:
		return true;
	default:
		return false;
	}
}

static int openssl_why(struct tls *t, struct err *e)
{
	int reason = ERR_GET_REASON(ERR_peek_last_error());
	long check = SSL_get_verify_result(t->ssl);

	if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED)
		return err_set(e, -EKEYREJECTED, "the peer's certificate failed the check: %s%s",
			       X509_verify_cert_error_string(check), certificate_advice(check));
	if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION)
		return err_set(e, -EPROTONOSUPPORT,
			       "the peer does not speak TLS 1.3, and nothing older is accepted");
	/* The peer's reason arrives as an alert, RFC 8446 §6.2. */
	if (reason > SSL_AD_REASON_OFFSET)
		return err_set(e, alert_means_damage(reason) ? -EBADMSG : -EPROTO,
			       "the peer refused the TLS handshake: %s", openssl_reason());
	/* Records that cannot be decoded or decrypted: bytes were changed in transit. */
	return err_set(e, reason == SSL_R_WRONG_VERSION_NUMBER ? -EPROTO : -EBADMSG,
		       "the TLS handshake failed: %s", openssl_reason());
}

/* Describe in e why the handshake failed with code. Returns the code for the caller. */
static int handshake_why(struct tls *t, int code, int timeout_ms, struct err *e)
{
	const struct wire *w = &t->wire;
	char text[WIRE_FIRST + 1] = "";

	/* RFC 8446 §5.1: a record begins with its type, 20 to 23, and the version byte 3. */
	if ((w->nfirst > 0 && (w->first[0] < 20 || w->first[0] > 23)) ||
	    (w->nfirst > 1 && w->first[1] != 3)) {
		memcpy(text, w->first, w->nfirst);
		text[strcspn(text, "\r\n")] = '\0';
		return err_set(e, -EPROTO, "the peer does not speak TLS (it sent: \"%s\")",
			       printable(text));
	}
	if (code == -ETIMEDOUT)
		return err_set(e, code, "the TLS handshake did not finish within %g s: %s",
			       timeout_ms / 1000.0, w->nfirst > 0 ? "the peer fell silent" :
			       "the peer sent nothing (does it speak TLS?)");
	if (code == -EPIPE)
		return err_set(e, code, "the peer closed the connection during the TLS handshake");
	if (ERR_peek_last_error() != 0)
		return openssl_why(t, e);
	return err_sys(e, code, "the TLS handshake failed");
}

/* ---- start and end ---- */

/* Send the server's name (SNI), and with check verify it in the certificate. */
static bool expect_host(SSL *ssl, const char *host, bool check)
{
	struct in_addr v4;

	/* SNI is for names only (RFC 6066 §3). No host name has a colon; an IPv6 address may have a
	 * scope, which inet_pton does not know. */
	if (strchr(host, ':') || inet_pton(AF_INET, host, &v4) == 1)
		return !check || X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
	return SSL_set_tlsext_host_name(ssl, host) == 1 &&
	       (!check || SSL_set1_host(ssl, host) == 1);
}

/* Resume a copy of the session, because the end of this connection changes whether the session is
 * resumable. Without a session a full handshake follows. */
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
		log_debug("TLS: there is no session to resume, which some servers need");
	SSL_SESSION_free(own);
}

/* Bind tickets to the control connection: they contain its id as OpenSSL's session id context. */
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
	/* A client gets the tickets for its data connections on the control connection. An
	 * uploading client would close its data connection without reading them; its kernel would
	 * then send RST, and the last bytes would be lost. */
	return !resume || SSL_set_num_tickets(t->ssl, 0) == 1;
}

/* Check that the client of the data connection t is the client of control. */
static int check_data(struct tls_ctx *c, struct tls *t, struct tls *control, struct err *e)
{
	CLEANUP_FREE char *pin = NULL;
	CLEANUP_FREE char *other = NULL;

	if (SSL_session_reused(t->ssl)) {
		LOCK_GUARD(guard, &control->lock);

		/* A TLS 1.3 client should use a ticket only once (RFC 8446, appendix C.4): send a
		 * new one with the next reply. */
		if (SSL_version(control->ssl) >= TLS1_3_VERSION && control->ready) {
			SSL_new_session_ticket(control->ssl);
			ERR_clear_error();
		}
		return 0;
	}

	if (c->any_data)
		return 0;
	pin = tls_peer_pin(t);
	other = tls_peer_pin(control);
	if (pin && other && !strcmp(pin, other))
		return 0;
	t->ready = false; /* no close_notify: to the client it would mean a complete file */
	return err_set(e, -EKEYREJECTED, "it neither resumes the TLS session of its control "
		       "connection nor shows the certificate that was shown there");
}

static int tls_handshake(struct tls *t, int timeout_ms, struct err *e)
{
	struct step s = { .kind = STEP_HANDSHAKE };
	int r = step_run(t, &s, timeout_ms);

	if (r < 0) {
		r = handshake_why(t, r, timeout_ms, e);
		ERR_clear_error();
		return r;
	}
	snprintf(t->describe, sizeof(t->describe), "%s %s", SSL_get_version(t->ssl),
		 SSL_get_cipher_name(t->ssl));
	t->ready = true;
	return 0;
}

struct tls *tls_start(struct tls_ctx *c, int fd, const char *host, struct tls *resume,
		      int timeout_ms, struct err *e)
{
	int r = set_nonblock(fd, true);
	struct tls *t;
	bool prepared;
	BIO *bio;

	if (r < 0) {
		err_sys(e, r, "cannot make the socket non-blocking");
		return NULL;
	}
	t = calloc(1, sizeof(*t));
	if (!t) {
		err_nomem(e);
		return NULL;
	}
	pthread_mutex_init(&t->lock, NULL);
	t->wire.fd = fd;
	t->ssl = SSL_new(c->ctx);
	bio = wire_bio(&t->wire);
	if (!t->ssl || !bio) {
		err_set(e, -ENOMEM, "cannot start TLS: %s", openssl_reason());
		BIO_free(bio);
		tls_free(t);
		return NULL;
	}
	SSL_set_bio(t->ssl, bio, bio); /* takes ownership of bio */

	if (c->server) {
		prepared = prepare_server(c, t, resume);
	} else {
		SSL_set_connect_state(t->ssl);
		if (resume)
			reuse_session(t->ssl, resume);
		/* With a CA but without a name any certificate of that CA would be accepted. */
		prepared = host ? expect_host(t->ssl, host, c->check) : !c->check;
	}

	if (!prepared)
		err_set(e, -EINVAL, "cannot check a certificate for host \"%s\": %s",
			printable(host ? host : ""), openssl_reason());
	else if (tls_handshake(t, timeout_ms, e) == 0 &&
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
		wire_flush(&t->wire); /* one attempt: do not wait if the socket is full */
	}
	SSL_free(t->ssl);
	buf_free(t->proof);
	ERR_clear_error();
	wire_drop_in(&t->wire);
	wire_drop_out(&t->wire);
	pthread_mutex_destroy(&t->lock);
	free(t);
}

int tls_shutdown(struct tls *t)
{
	struct step s = { .kind = STEP_SHUTDOWN };

	return step_run(t, &s, SHUTDOWN_MS);
}

/* ---- bytes ---- */

/* Convert r to the result of a tls_ function; OpenSSL's reason goes to the debug log only. */
static ssize_t step_result(const char *what, const struct step *s, int r)
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
	struct step s = { .kind = STEP_READ, .in = p, .len = len };
	int r = step_run(t, &s, timeout_ms);

	return r == -ENODATA ? 0 : step_result("read", &s, r);
}

/* Encrypted bytes cannot be withdrawn. If they are not sent in time, this call still counts them as
 * written, and the next call, which first sends them, times out. So a call that returns -ETIMEDOUT
 * has used none of its bytes, and may be repeated. */
ssize_t tls_write(struct tls *t, const void *p, size_t len, int timeout_ms)
{
	struct step s = { .kind = STEP_WRITE, .out = p, .len = len < WRITE_MAX ? len : WRITE_MAX };
	int r = step_run(t, &s, timeout_ms);

	return step_result("write", &s, r == -ETIMEDOUT && s.called ? 0 : r);
}

/* Decrypts received bytes, so that they count, too. An end or an error counts as one byte: the
 * caller then reads it, because the socket may not report it again. */
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
