// SPDX-License-Identifier: Apache-2.0
/* The settings of one side's TLS.
 *
 * Ciphers, groups and signatures are OpenSSL's defaults on purpose: they begin with
 * TLS_AES_256_GCM_SHA384, and the system's policy (openssl.cnf; crypto-policies and
 * FIPS on RHEL) may narrow them, which a list of ours would override. Reading that
 * file takes a tenth of a millisecond of the 1.3 that the first context of a process
 * costs, too little to go without the policy (OPENSSL_INIT_NO_LOAD_CONFIG). */
#include "crypto/tls_priv.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>
#include <unistd.h>

/* A control connection may live long before its next data connection. */
#define TICKET_SECONDS (24 * 3600)

static struct tls_ctx *new_ctx(bool server, int least, struct err *e)
{
	struct tls_ctx *c = calloc(1, sizeof(*c));
	SSL_CTX *ctx = SSL_CTX_new(server ? TLS_server_method() : TLS_client_method());

	if (!c || !ctx || SSL_CTX_set_min_proto_version(ctx, least) != 1) {
		err_set(e, -ENOMEM, "cannot set TLS up: %s", openssl_reason());
		SSL_CTX_free(ctx);
		free(c);
		return NULL;
	}
	/* An idle session should cost little. Writes are never partial, see struct wire. */
	SSL_CTX_set_mode(ctx, SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);
	/* Sessions travel in tickets; nothing is to pile up here. */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_timeout(ctx, TICKET_SECONDS);
	c->ctx = ctx;
	c->server = server;
	return c;
}

/* ctx gets its own reference of the first certificate, and takes those behind it. */
static int use_certificates(SSL_CTX *ctx, BIO *pem)
{
	X509 *cert = PEM_read_bio_X509_AUX(pem, NULL, tls_no_passphrase, NULL);
	int ok = cert && SSL_CTX_use_certificate(ctx, cert) == 1 &&
		 SSL_CTX_clear_chain_certs(ctx) == 1;

	X509_free(cert);
	while (ok && (cert = PEM_read_bio_X509(pem, NULL, tls_no_passphrase, NULL))) {
		ok = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
		if (!ok)
			X509_free(cert);
	}
	/* That there is no more is no error. */
	if (ok && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
		ERR_clear_error();
	return ok && !ERR_peek_error() ? 0 : -EINVAL;
}

/* The whole file: a CA's certificate comes with those between. */
static int use_chain(SSL_CTX *ctx, const struct tls_pem *cert, struct err *e)
{
	BIO *pem;
	int rc;

	if (!cert->text && access(cert->file, R_OK))
		return err_sys(e, -errno, "cannot read certificate %s", printable(cert->file));
	pem = tls_read_pem(cert, e);
	if (!pem)
		return e->code;
	ERR_clear_error();
	rc = use_certificates(ctx, pem);
	BIO_free(pem);
	return rc == 0 ? 0 : err_set(e, rc, "there is no certificate, in PEM, in %s (%s)",
				     printable(cert->file), openssl_reason());
}

static int use_key(SSL_CTX *ctx, const struct tls_pem *cert, const struct tls_pem *keyfile,
		   struct err *e)
{
	EVP_PKEY *key = tls_load_key_pem(keyfile, e);
	int ok;

	if (!key)
		return -EINVAL;
	ok = SSL_CTX_use_PrivateKey(ctx, key);
	EVP_PKEY_free(key);
	if (ok == 1)
		return 0;
	return err_set(e, -EINVAL, "key %s does not fit certificate %s: %s",
		       printable(keyfile->file), printable(cert->file), openssl_reason());
}

int tls_use_certificate(struct tls_ctx *c, const char *certfile, const char *keyfile,
			struct err *e)
{
	struct tls_pem cert = { .file = certfile }, key = { .file = keyfile ? keyfile : certfile };
	int rc = use_chain(c->ctx, &cert, e);

	return rc < 0 ? rc : use_key(c->ctx, &cert, &key, e);
}

static int use_own_files(SSL_CTX *ctx, const struct tls_pem *cert, const struct tls_pem *key,
			 struct err *e)
{
	struct err why = ERR_INIT;
	int rc = use_chain(ctx, cert, &why);

	if (rc == -EINVAL)
		return err_set(e, rc, "%s: restore it, or remove it with its key %s to have both "
			       "made anew", why.text, printable(key->file));
	if (rc < 0)
		return err_set(e, rc, "%s", why.text);
	return use_key(ctx, cert, key, e);
}

/* All certificates and lists of revoked ones; how many, or -EINVAL. */
static int add_trusted(X509_STORE *store, BIO *pem)
{
	STACK_OF(X509_INFO) *all = PEM_X509_INFO_read_bio(pem, NULL, tls_no_passphrase, NULL);
	int n = 0;

	for (int i = 0; all && n >= 0 && i < sk_X509_INFO_num(all); i++) {
		const X509_INFO *one = sk_X509_INFO_value(all, i);

		if ((one->x509 && X509_STORE_add_cert(store, one->x509) != 1) ||
		    (one->crl && X509_STORE_add_crl(store, one->crl) != 1))
			n = -EINVAL;
		else
			n += one->x509 || one->crl;
	}
	sk_X509_INFO_pop_free(all, X509_INFO_free);
	return all ? n : -EINVAL;
}

static int trust_pem(SSL_CTX *ctx, const struct tls_pem *ca, struct err *e)
{
	BIO *pem = tls_read_pem(ca, e);
	int n;

	if (!pem)
		return e->code;
	n = add_trusted(SSL_CTX_get_cert_store(ctx), pem);
	BIO_free(pem);
	return n > 0 ? 0 : err_set(e, -EINVAL, "there are no CA certificates in %s: %s",
				   printable(ca->file), openssl_reason());
}

static int trust(SSL_CTX *ctx, const struct tls_pem *ca, struct err *e)
{
	/* A server's own certificate in the file is trusted, whoever signed it. */
	X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	if (ca->text)
		return trust_pem(ctx, ca, e);
	/* OpenSSL's own word for a file that it cannot open is "system lib". */
	if (access(ca->file, R_OK))
		return err_sys(e, -errno, "cannot read the CA certificates in %s",
			       printable(ca->file));
	if (SSL_CTX_load_verify_file(ctx, ca->file) == 1)
		return 0;
	return err_set(e, -EINVAL, "there are no CA certificates in %s: %s", printable(ca->file),
		       openssl_reason());
}

/* Names of TLS 1.3's begin with "TLS_", those of 1.2 never do; OpenSSL takes each kind by a call
 * of its own, and drops names that it does not know from the second. A list of one kind leaves
 * the other as it is. */
static int use_ciphers(SSL_CTX *ctx, const char *list, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(list), *new = calloc(1, strlen(list) + 2);
	CLEANUP_FREE char *old = calloc(1, strlen(list) + 2);
	char *rest = copy, *name;

	if (!copy || !new || !old)
		return err_sys(e, -ENOMEM, "ciphers");
	while ((name = strsep(&rest, ":, "))) {
		char *to = !strncmp(name, "TLS_", 4) ? new : old;

		if (!*name)
			continue;
		strcat(to, *to ? ":" : "");
		strcat(to, name);
	}
	if (*new && SSL_CTX_set_ciphersuites(ctx, new) != 1)
		return err_set(e, -EINVAL, "there is an unknown cipher of TLS 1.3 in %s", new);
	if (*old && SSL_CTX_set_cipher_list(ctx, old) != 1)
		return err_set(e, -EINVAL, "there is no cipher of TLS 1.2 in %s", old);
	return 0;
}

static int configure_server(SSL_CTX *ctx, const struct tls_server_settings *s, struct err *e)
{
	int rc = s->cert.file ? use_own_files(ctx, &s->cert, &s->key, e) : 0;

	if (!rc && s->ciphers)
		rc = use_ciphers(ctx, s->ciphers, e);
	SSL_CTX_set_options(ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);
	return rc;
}

struct tls_ctx *tls_server_new_with(const struct tls_server_settings *s, struct err *e)
{
	struct tls_ctx *c = new_ctx(true, s->also_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION, e);

	if (c && configure_server(c->ctx, s, e) < 0) {
		tls_ctx_free(c);
		return NULL;
	}
	if (c)
		c->any_data = s->any_data;
	return c;
}

struct tls_ctx *tls_server_new(const char *certfile, const char *keyfile, struct err *e)
{
	struct tls_server_settings s = { .cert.file = certfile, .key.file = keyfile };

	return tls_server_new_with(&s, e);
}

/* Whom a CA vouches for is found out, but nobody is turned away for it: FTP has a reply for who
 * may not log in, TLS only an alert. Without a CA that is nobody. */
static int note_trust(X509_STORE_CTX *store, void *arg)
{
	const struct tls_ctx *c = arg;
	int ok = c->check ? X509_verify_cert(store) : 0;

	if (ok <= 0 && X509_STORE_CTX_get_error(store) == X509_V_OK)
		X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED);
	ERR_clear_error();
	return 1;
}

/* Nothing is unpacked that a stranger has packed, and the messages of a handshake are what tls_proof
 * says that they are (RFC 8879 has one more for a certificate). OpenSSL 3.2 and later. */
static void refuse_compression(SSL_CTX *ctx)
{
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION
	SSL_CTX_set_options(ctx, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION |
				 SSL_OP_NO_TX_CERTIFICATE_COMPRESSION);
#else
	(void)ctx;
#endif
}

/* No list of our CAs is sent: some clients keep a certificate back that none of them has signed,
 * though it is known here by its pin. */
int tls_ask_client_pem(struct tls_ctx *c, const struct tls_pem *ca, struct err *e)
{
	int rc = ca ? trust(c->ctx, ca, e) : 0;

	if (rc < 0)
		return rc;
	c->check = ca;
	refuse_compression(c->ctx);
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(c->ctx, note_trust, c);
	return 0;
}

int tls_ask_client(struct tls_ctx *c, const char *cafile, struct err *e)
{
	struct tls_pem ca = { .file = cafile };

	return tls_ask_client_pem(c, cafile ? &ca : NULL, e);
}

static struct tls_ctx *new_client(int least, const char *cafile, struct err *e)
{
	struct tls_ctx *c = new_ctx(false, least, e);
	struct tls_pem ca = { .file = cafile };

	if (!c || !cafile)
		return c;
	c->check = true;
	if (trust(c->ctx, &ca, e) < 0) {
		tls_ctx_free(c);
		return NULL;
	}
	return c;
}

struct tls_ctx *tls_client_new(const char *cafile, struct err *e)
{
	return new_client(TLS1_3_VERSION, cafile, e);
}

struct tls_ctx *tls_client_new_any(const char *cafile, struct err *e)
{
	return new_client(TLS1_2_VERSION, cafile, e);
}

/* ---- both sides known by their pins ---- */

/* Who it is shows by the pin, which the caller compares; that it has the key, by the handshake. */
static int take_any(X509_STORE_CTX *store, void *arg)
{
	(void)store;
	(void)arg;
	return 1;
}

/* A key, and its certificate: ctx has its own references. */
static int use_own_key(SSL_CTX *ctx, char **pin, struct err *e)
{
	EVP_PKEY *key = tls_new_key();
	X509 *cert = key ? tls_self_signed(key, "rftp") : NULL;
	int ok = cert && SSL_CTX_use_certificate(ctx, cert) == 1 &&
		 SSL_CTX_use_PrivateKey(ctx, key) == 1;

	*pin = ok ? tls_pin_of(cert) : NULL;
	X509_free(cert);
	EVP_PKEY_free(key);
	return *pin ? 0 : err_set(e, -EIO, "cannot make a key: %s", openssl_reason());
}

struct tls_ctx *tls_pinned_new(bool server, char **pin, struct err *e)
{
	struct tls_ctx *c = new_ctx(server, TLS1_3_VERSION, e);

	*pin = NULL;
	if (!c)
		return NULL;
	if (use_own_key(c->ctx, pin, e) < 0) {
		tls_ctx_free(c);
		return NULL;
	}
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_cert_verify_callback(c->ctx, take_any, NULL);
	SSL_CTX_set_num_tickets(c->ctx, 0);
	return c;
}

void tls_ctx_free(struct tls_ctx *c)
{
	if (!c)
		return;
	SSL_CTX_free(c->ctx);
	free(c);
}
