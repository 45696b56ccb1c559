// SPDX-License-Identifier: Apache-2.0
/* rftp's checks in the TLS of libcurl, which uses OpenSSL. libcurl passes the SSL_CTX of each
 * connection to a callback before the handshake. FTP servers require two things for a data
 * connection that libcurl does not do: it must resume the session of the control connection, and
 * send no byte before its command. */
#include "crypto/crypto.h"
#include "crypto/tls_priv.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509_vfy.h>
#include <sys/socket.h>

/* Replaces OpenSSL's verification. Not called when a session is resumed: all sessions are from the
 * control connection, which was checked. */
static int verify_key(X509_STORE_CTX *store, void *arg)
{
	struct tls_hook *h = arg;
	X509 *cert = X509_STORE_CTX_get0_cert(store);
	CLEANUP_FREE char *pin = cert ? tls_pin_of(cert) : NULL;

	if (!h->check && X509_verify_cert(store) <= 0)
		return 0;
	if (!pin)
		err_set(&h->e, -EKEYREJECTED, "%s shows no certificate", h->host);
	else if (h->pin && strcmp(h->pin, pin))
		err_set(&h->e, -EKEYREJECTED, "%s shows another key than the control connection "
			"had", h->host);
	else if (!h->check || (!tls_check_validity(cert, &h->e) &&
			       (h->pin || !h->check(h->arg, pin, &h->e))))
		h->pin = h->pin ? h->pin : steal_ptr(&pin);
	if (!h->e.code && h->pin)
		return 1;
	X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
	return 0;
}

static long forget_held(BIO *b, int op, const char *p, size_t len, int i, long l, int ret,
			size_t *done)
{
	struct tls_hook *h = (void *)BIO_get_callback_arg(b);

	if (op == BIO_CB_FREE && h->held == b)
		h->held = NULL;
	return ret;
}

/* Write the ClientHello to memory, and read nothing: a server that refuses the command closes the
 * data connection first, but the error to report is the refusal. The real BIO is chained behind
 * out, so that it is freed with the connection. */
static void hold_data(SSL *ssl, struct tls_hook *h)
{
	BIO *real = SSL_get_wbio(ssl), *in = BIO_new(BIO_s_mem()), *out = BIO_new(BIO_s_mem());

	if (!in || !out || !real) {
		BIO_free(in);
		BIO_free(out);
		return;
	}
	BIO_set_mem_eof_return(in, -1);
	BIO_set_callback_ex(out, forget_held);
	BIO_set_callback_arg(out, (char *)h);
	BIO_up_ref(real);
	BIO_push(out, real);
	SSL_set_bio(ssl, in, out);
	h->held = out;
}

void tls_hook_release(struct tls_hook *h, int fd)
{
	BIO *out = h->held, *real;
	char *bytes;
	long n;

	h->holds = false;
	if (!out)
		return;
	n = BIO_get_mem_data(out, &bytes);
	if (n > 0)
		(void)send(fd, bytes, (size_t)n, MSG_NOSIGNAL);
	real = BIO_next(out);
	BIO_up_ref(real);
	SSL_set_bio(h->ssl, real, real);
}

void tls_hook_end(struct tls_hook *h)
{
	SSL_shutdown(h->ssl);
	ERR_clear_error();
}

static void note_event(const SSL *ssl, int where, int value)
{
	SSL_CTX *ctx = SSL_get_SSL_CTX(ssl);
	struct tls_hook *h = SSL_CTX_get_app_data(ctx);
	SSL_SESSION *own;

	/* The handshake has not begun yet, so the connection can still be changed. */
	if ((where & SSL_CB_HANDSHAKE_START) && ctx == h->data && !SSL_get_session(ssl)) {
		h->ssl = (SSL *)(uintptr_t)ssl;
		own = h->session ? SSL_SESSION_dup(h->session) : NULL;
		if (own)
			SSL_set_session(h->ssl, own);
		SSL_SESSION_free(own);
		if (h->holds)
			hold_data(h->ssl, h);
	}

	if (where == SSL_CB_READ_ALERT && (value & 0xff) == SSL_AD_CLOSE_NOTIFY)
		h->closed = true;
	if (where & SSL_CB_HANDSHAKE_DONE)
		snprintf(h->describe, sizeof(h->describe), "%s %s", SSL_get_version(ssl),
			 SSL_get_cipher_name(ssl));
}

static int keep_session(SSL *ssl, SSL_SESSION *session)
{
	struct tls_hook *h = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));

	if (SSL_get_SSL_CTX(ssl) == h->data)
		return 0;
	SSL_SESSION_free(h->session);
	h->session = session;
	return 1;
}

int tls_hook_install(void *ssl_ctx, bool data, struct tls_hook *h)
{
	SSL_CTX *ctx = ssl_ctx;

	h->data = data ? ctx : NULL;
	h->held = NULL;
	SSL_CTX_set_app_data(ctx, h);
	SSL_CTX_set_info_callback(ctx, note_event);
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_CLIENT |
				       SSL_SESS_CACHE_NO_INTERNAL);
	SSL_CTX_sess_set_new_cb(ctx, keep_session);

	/* Some servers send no close_notify on data connections: the caller checks closed and the
	 * size. */
	SSL_CTX_set_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(ctx, verify_key, h);
	return h->certfile ? tls_use_files(ctx, h->certfile, h->keyfile, &h->e) : 0;
}

void tls_hook_clear(struct tls_hook *h)
{
	SSL_SESSION_free(h->session);
	free(h->pin);
	h->session = h->pin = NULL;
}
