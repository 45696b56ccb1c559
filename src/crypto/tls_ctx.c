// SPDX-License-Identifier: Apache-2.0
/* Certificates and keys: creation, loading, pins, subjects, validity dates; and the settings of one
 * side's TLS.
 *
 * Ciphers, groups and signatures are OpenSSL's defaults on purpose. The default list begins with
 * TLS_AES_256_GCM_SHA384, and a list here would override the system's policy (openssl.cnf;
 * crypto-policies and FIPS on RHEL). OPENSSL_INIT_NO_LOAD_CONFIG, which ignores the policy, would
 * save only 0.1 of the 1.3 ms for the first context of a process. */
#include "crypto/tls_priv.h"

#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#define VALID_SECONDS (10L * 365 * 24 * 3600)
/* A new certificate must already be valid for a client with a slow clock. */
#define BEFORE_SECONDS (24L * 3600)
#define PEM_FILE_MAX ((size_t)16 << 20)
#define PIN_PREFIX "SHA256:"
#define SHA256_BYTES 32

/* ---- PEM files ---- */

/* A callback for OpenSSL: returns no passphrase, so that OpenSSL does not ask for one on the
 * terminal; encrypted files cannot be read. */
static int tls_no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

/* The bytes of the PEM file, which the caller frees; NULL with text in e. role: the file's, for the
 * text. */
static BIO *tls_read_pem(const struct tls_pem *p, const char *role, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = p->len;
	int r = p->text ? 0 : read_file(p->file, PEM_FILE_MAX, &text, &len);
	BIO *b = NULL;

	if (!r && len <= INT_MAX)
		b = p->text ? BIO_new_mem_buf(p->text, (int)len) : BIO_new(BIO_s_mem());
	if (text && b && BIO_write(b, text, (int)len) != (int)len) {
		BIO_free(b);
		b = NULL;
	}
	if (text)
		crypto_wipe(text, len);
	if (!b)
		err_sys(e, r ? r : -ENOMEM, "%s %s: " CANNOT_READ, role, printable(p->file));
	return b;
}

X509 *tls_load_certificate(const struct tls_pem *p, struct err *e)
{
	BIO *b = tls_read_pem(p, "certificate", e);
	X509 *cert;

	if (!b)
		return NULL;
	cert = PEM_read_bio_X509(b, NULL, tls_no_passphrase, NULL);
	if (!cert)
		err_set(e, -EINVAL, "%s holds no certificate in PEM form: %s",
			printable(p->file), openssl_reason());
	BIO_free(b);
	return cert;
}

int tls_check_key_file(const char *keyfile, struct err *e)
{
	struct stat st;

	if (stat(keyfile, &st) < 0)
		return err_sys(e, -errno, "key %s: " CANNOT_READ, printable(keyfile));
	if ((st.st_mode & 077) == 0)
		return 0;
	return err_set(e, -EPERM,
		       "key %s: others can read it (mode %04o): chmod 600 %s",
		       printable(keyfile), st.st_mode & 07777u, printable(keyfile));
}

EVP_PKEY *tls_load_key(const struct tls_pem *p, struct err *e)
{
	EVP_PKEY *key;
	BIO *b;

	if (!p->text && tls_check_key_file(p->file, e) < 0)
		return NULL;
	b = tls_read_pem(p, "key", e);
	if (!b)
		return NULL;
	key = PEM_read_bio_PrivateKey(b, NULL, tls_no_passphrase, NULL);
	if (!key)
		err_set(e, -EINVAL, "%s holds no private key in PEM form without passphrase: %s",
			printable(p->file), openssl_reason());
	BIO_free(b);
	return key;
}

/* Frees pem. */
static int write_pem(const char *path, BIO *pem, mode_t mode, struct err *e)
{
	char *text;
	long len = BIO_get_mem_data(pem, &text);
	int r = write_file_atomic(path, text, (size_t)len, mode, e);

	BIO_free(pem);
	return r;
}

/* ---- creation ---- */

EVP_PKEY *tls_new_key(void)
{
	return EVP_EC_gen("P-256");
}

#define CANNOT_KEY "cannot make a key: %s"

static EVP_PKEY *make_key(const char *keyfile, struct err *e)
{
	EVP_PKEY *key = tls_new_key();
	BIO *pem = BIO_new(BIO_s_secmem());

	if (!key || !pem || PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) != 1)
		err_set(e, -EIO, CANNOT_KEY, openssl_reason());
	else if (write_pem(keyfile, steal_ptr(&pem), 0600, e) == 0)
		return key;
	BIO_free(pem);
	EVP_PKEY_free(key);
	return NULL;
}

static bool add_extension(X509 *cert, int nid, const char *value)
{
	X509V3_CTX ctx;
	X509_EXTENSION *ext;
	bool ok;

	X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
	ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
	ok = ext && X509_add_ext(cert, ext, -1) == 1;
	X509_EXTENSION_free(ext);
	return ok;
}

/* Clients check this name, not the CN (RFC 6125). In OpenSSL's configuration language other
 * characters could add names; no host name has them. */
static bool add_alt_name(X509 *cert, const char *cn)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789-_.:";
	ASN1_OCTET_STRING *address = a2i_IPADDRESS(cn);
	char value[300];

	snprintf(value, sizeof(value), "%s:%s", address ? "IP" : "DNS", cn);
	ASN1_OCTET_STRING_free(address);
	ERR_clear_error(); /* cn is not an address */
	return strspn(cn, letters) != strlen(cn) ||
	       add_extension(cert, NID_subject_alt_name, value);
}

/* A self-signed certificate for key; NULL: see openssl_reason(). */
static X509 *tls_self_signed(EVP_PKEY *key, const char *cn)
{
	const unsigned char *name = (const unsigned char *)cn;
	X509 *cert = X509_new();
	X509_NAME *subject = cert ? X509_get_subject_name(cert) : NULL;
	uint64_t serial;

	crypto_random(&serial, sizeof(serial));
	if (cert && X509_set_version(cert, X509_VERSION_3) == 1 &&
	    ASN1_INTEGER_set_uint64(X509_get_serialNumber(cert), serial >> 1 | 1) == 1 &&
	    X509_gmtime_adj(X509_getm_notBefore(cert), -BEFORE_SECONDS) &&
	    X509_gmtime_adj(X509_getm_notAfter(cert), VALID_SECONDS) &&
	    X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, name, -1, -1, 0) == 1 &&
	    X509_set_issuer_name(cert, subject) == 1 && X509_set_pubkey(cert, key) == 1 &&
	    add_extension(cert, NID_basic_constraints, "critical,CA:FALSE") &&
	    add_extension(cert, NID_subject_key_identifier, "hash") &&
	    add_alt_name(cert, cn) && X509_sign(cert, key, EVP_sha256()) > 0)
		return cert;
	X509_free(cert);
	return NULL;
}

static int make_cert(const char *certfile, EVP_PKEY *key, const char *cn, struct err *e)
{
	X509 *cert = tls_self_signed(key, cn);
	BIO *pem = BIO_new(BIO_s_mem());
	int r;

	if (!cert || !pem || PEM_write_bio_X509(pem, cert) != 1)
		r = err_set(e, -EIO, "cannot make a certificate for \"%s\": %s", printable(cn),
			    openssl_reason());
	else
		r = write_pem(certfile, steal_ptr(&pem), 0644, e);
	BIO_free(pem);
	X509_free(cert);
	return r;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

int tls_make_certificate(const char *certfile, const char *keyfile, const char *cn,
			 struct err *e)
{
	const struct tls_pem pem = { .file = keyfile };
	CLEANUP_CLOSE int lock = -1;
	struct err own = ERR_INIT;
	EVP_PKEY *key;
	int r;

	e = e ? e : &own;
	if (exists(certfile) && exists(keyfile))
		return tls_check_key_file(keyfile, e);
	/* Two servers that start at once must not mix the key of one with the certificate of the
	 * other. */
	lock = lock_file_open(keyfile, e);
	if (lock < 0 && lock != -ENOLCK && lock != -EBADF)
		return lock;
	*e = (struct err)ERR_INIT;
	if (exists(certfile))
		return exists(keyfile) ? tls_check_key_file(keyfile, e) :
		       err_set(e, -ENOENT,
			       "certificate %s exists, but not its key %s: restore the key, or "
			       "remove the certificate to have both made anew",
			       printable(certfile), printable(keyfile));
	/* A crash between the two writes leaves only the key: use it, to keep the pin. */
	key = exists(keyfile) ? tls_load_key(&pem, e) : make_key(keyfile, e);
	if (!key)
		return e->code;
	r = make_cert(certfile, key, cn, e);
	EVP_PKEY_free(key);
	return r;
}

/* ---- pins, subjects, dates ---- */

char *tls_pin_of(X509 *cert)
{
	uint8_t hash[SHA256_BYTES];
	unsigned char *der = NULL;
	int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(cert), &der);
	char *pin = NULL;
	bool ok = len > 0 && EVP_Digest(der, (size_t)len, hash, NULL, EVP_sha256(), NULL) == 1;

	OPENSSL_free(der);
	ERR_clear_error();
	if (ok)
		pin = malloc(sizeof(PIN_PREFIX) + BASE64_ROOM(SHA256_BYTES));
	if (pin) {
		memcpy(pin, PIN_PREFIX, sizeof(PIN_PREFIX));
		base64_encode(pin + strlen(PIN_PREFIX), hash, sizeof(hash));
	}
	return pin;
}

/* The peer's certificate, which the caller frees; NULL: the peer showed none. */
static X509 *peer_certificate(struct tls *t)
{
	LOCK_GUARD(guard, &t->lock);

	return SSL_get1_peer_certificate(t->ssl);
}

char *tls_peer_pin(struct tls *t)
{
	X509 *cert = peer_certificate(t);
	char *pin = cert ? tls_pin_of(cert) : NULL;

	X509_free(cert);
	return pin;
}

bool tls_is_pin(const char *text)
{
	uint8_t hash[SHA256_BYTES];

	return !strncmp(text, PIN_PREFIX, strlen(PIN_PREFIX)) &&
	       base64_decode(hash, sizeof(hash), text + strlen(PIN_PREFIX)) == sizeof(hash);
}

char *tls_subject_of(X509 *cert)
{
	BIO *b = BIO_new(BIO_s_mem());
	char *text = NULL, *own = NULL;
	long len;

	/* An empty subject cannot name a user. */
	if (b && X509_NAME_entry_count(X509_get_subject_name(cert)) > 0 &&
	    X509_NAME_print_ex(b, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) > 0) {
		len = BIO_get_mem_data(b, &text);
		own = strndup(text, (size_t)len);
	}
	BIO_free(b);
	ERR_clear_error();
	return own;
}

char *tls_peer_subject(struct tls *t)
{
	LOCK_GUARD(guard, &t->lock);
	X509 *cert = SSL_get1_peer_certificate(t->ssl);
	bool trusted = cert && SSL_get_verify_result(t->ssl) == X509_V_OK;
	char *subject = trusted ? tls_subject_of(cert) : NULL;

	X509_free(cert);
	return subject;
}

char *tls_certificate_pin_pem(const struct tls_pem *p, struct err *e)
{
	X509 *cert = tls_load_certificate(p, e);
	char *pin;

	if (!cert)
		return NULL;
	pin = tls_pin_of(cert);
	if (!pin)
		err_set(e, -EIO, "cannot hash the key of %s", printable(p->file));
	X509_free(cert);
	return pin;
}

static const char *format_day(const ASN1_TIME *t, char *out, size_t room)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1 || strftime(out, room, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		return "a date that cannot be read";
	return out;
}

/* X509_cmp_current_time() returns 0 for a malformed date: such a certificate is not valid. */
int tls_check_validity(X509 *cert, struct err *e)
{
	const ASN1_TIME *from = X509_get0_notBefore(cert), *until = X509_get0_notAfter(cert);
	char text[32];

	if (X509_cmp_current_time(from) >= 0)
		return err_set(e, -EKEYEXPIRED,
			       "the peer's certificate is not valid before %s: check the clocks",
			       format_day(from, text, sizeof(text)));
	if (X509_cmp_current_time(until) <= 0)
		return err_set(e, -EKEYEXPIRED,
			       "the peer's certificate was valid until %s: it needs a new one",
			       format_day(until, text, sizeof(text)));
	return 0;
}

int tls_peer_validity(struct tls *t, struct err *e)
{
	X509 *cert = peer_certificate(t);
	int r;

	if (!cert)
		return err_set(e, -ENOKEY, "the peer showed no certificate");
	r = tls_check_validity(cert, e);
	X509_free(cert);
	return r;
}

/* ---- settings of one side ---- */

/* A control connection may be idle for a long time before its next data connection. */
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

	/* Release buffers, so that an idle session uses little memory. Writes are never partial,
	 * see struct wire. */
	SSL_CTX_set_mode(ctx, SSL_MODE_AUTO_RETRY | SSL_MODE_RELEASE_BUFFERS);

	/* Tickets contain the sessions, so the server needs no cache. */
	SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
	SSL_CTX_set_timeout(ctx, TICKET_SECONDS);
	c->ctx = ctx;
	c->server = server;
	return c;
}

/* Use all certificates of the file: the end-entity certificate and the intermediate ones. */
static int use_chain(SSL_CTX *ctx, const struct tls_pem *file, struct err *e)
{
	X509 *cert;
	BIO *pem;
	int ok;

	pem = tls_read_pem(file, "certificate", e);
	if (!pem)
		return e->code;
	ERR_clear_error();

	/* ctx adds a reference to the first certificate, and takes ownership of the others. */
	cert = PEM_read_bio_X509_AUX(pem, NULL, tls_no_passphrase, NULL);
	ok = cert && SSL_CTX_use_certificate(ctx, cert) == 1 && SSL_CTX_clear_chain_certs(ctx) == 1;
	X509_free(cert);
	while (ok && (cert = PEM_read_bio_X509(pem, NULL, tls_no_passphrase, NULL))) {
		ok = SSL_CTX_add0_chain_cert(ctx, cert) == 1;
		if (!ok)
			X509_free(cert);
	}
	BIO_free(pem);

	/* The end of the file is not an error. */
	if (ok && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
		ERR_clear_error();
	return ok && !ERR_peek_error() ? 0 :
	       err_set(e, -EINVAL, "there is no certificate, in PEM, in %s (%s)",
		       printable(file->file), openssl_reason());
}

static int use_key(SSL_CTX *ctx, const struct tls_pem *cert, const struct tls_pem *keyfile,
		   struct err *e)
{
	EVP_PKEY *key = tls_load_key(keyfile, e);
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

int tls_use_files(SSL_CTX *ctx, const char *certfile, const char *keyfile, struct err *e)
{
	struct tls_pem cert = { .file = certfile }, key = { .file = keyfile ? keyfile : certfile };
	int rc = use_chain(ctx, &cert, e);

	return rc < 0 ? rc : use_key(ctx, &cert, &key, e);
}

int tls_use_certificate(struct tls_ctx *c, const char *certfile, const char *keyfile,
			struct err *e)
{
	return tls_use_files(c->ctx, certfile, keyfile, e);
}

/* Trust all CA certificates in the file, and use its revocation lists. */
static int trust(SSL_CTX *ctx, const struct tls_pem *ca, struct err *e)
{
	X509_STORE *store = SSL_CTX_get_cert_store(ctx);
	STACK_OF(X509_INFO) *all;
	bool ok = true;
	int n = 0;
	BIO *pem;

	/* A server's own certificate in the file is trusted, even without its issuer. */
	X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(ctx), X509_V_FLAG_PARTIAL_CHAIN);
	SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, NULL);
	pem = tls_read_pem(ca, "the CA certificates in", e);
	if (!pem)
		return e->code;
	ERR_clear_error();
	all = PEM_X509_INFO_read_bio(pem, NULL, tls_no_passphrase, NULL);
	BIO_free(pem);
	for (int i = 0; all && ok && i < sk_X509_INFO_num(all); i++) {
		const X509_INFO *one = sk_X509_INFO_value(all, i);

		ok = (!one->x509 || X509_STORE_add_cert(store, one->x509) == 1) &&
		     (!one->crl || X509_STORE_add_crl(store, one->crl) == 1);
		n += one->x509 || one->crl;
	}

	sk_X509_INFO_pop_free(all, X509_INFO_free);
	return ok && n ? 0 : err_set(e, -EINVAL, "there are no CA certificates in %s: %s",
				     printable(ca->file), openssl_reason());
}

/* Names of TLS 1.3 ciphers begin with "TLS_", names of TLS 1.2 ciphers never do. OpenSSL has a call
 * for each version; the call for 1.2 ignores unknown names. A list with names of only one version
 * does not change the ciphers of the other version. */
static int use_ciphers(SSL_CTX *ctx, const char *list, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(list), *new = calloc(1, strlen(list) + 2);
	CLEANUP_FREE char *old = calloc(1, strlen(list) + 2);
	char *rest = copy, *name;

	if (!copy || !new || !old)
		return err_nomem(e);
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

struct tls_ctx *tls_server_new_with(const struct tls_server_settings *s, struct err *e)
{
	struct tls_ctx *c = new_ctx(true, s->also_1_2 ? TLS1_2_VERSION : TLS1_3_VERSION, e);
	struct err why = ERR_INIT;
	int rc;

	if (!c)
		return NULL;
	c->any_data = s->any_data;
	SSL_CTX_set_options(c->ctx, SSL_OP_CIPHER_SERVER_PREFERENCE);

	rc = s->cert.file ? use_chain(c->ctx, &s->cert, &why) : 0;
	if (rc == -EINVAL)
		err_set(e, rc, "%s: restore it, or remove it with its key %s to have both made "
			"anew", why.text, printable(s->key.file));
	else if (rc < 0)
		err_set(e, rc, "%s", why.text);
	if (!rc && s->cert.file)
		rc = use_key(c->ctx, &s->cert, &s->key, e);
	if (!rc && s->ciphers)
		rc = use_ciphers(c->ctx, s->ciphers, e);
	if (!rc)
		return c;
	tls_ctx_free(c);
	return NULL;
}

/* Record whether a CA has signed the certificate, but accept every client: an FTP reply can explain
 * a refused login, a TLS alert cannot. Without a CA no certificate counts as signed. */
static int note_trust(X509_STORE_CTX *store, void *arg)
{
	const struct tls_ctx *c = arg;
	int ok = c->check ? X509_verify_cert(store) : 0;

	if (ok <= 0 && X509_STORE_CTX_get_error(store) == X509_V_OK)
		X509_STORE_CTX_set_error(store, X509_V_ERR_CERT_UNTRUSTED);
	ERR_clear_error();
	return 1;
}

/* Do not send the list of CAs: some clients would then not show a certificate from another CA,
 * although the server may know its pin. */
int tls_ask_client(struct tls_ctx *c, const struct tls_pem *ca, struct err *e)
{
	int rc = ca ? trust(c->ctx, ca, e) : 0;

	if (rc < 0)
		return rc;
	c->check = ca;
#ifdef SSL_OP_NO_RX_CERTIFICATE_COMPRESSION /* OpenSSL 3.2 and later */
	/* Do not decompress data from an unauthenticated client. Besides, tls_proof() does not
	 * support the compressed messages of RFC 8879. */
	SSL_CTX_set_options(c->ctx, SSL_OP_NO_RX_CERTIFICATE_COMPRESSION |
				    SSL_OP_NO_TX_CERTIFICATE_COMPRESSION);
#endif
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER, NULL);
	SSL_CTX_set_cert_verify_callback(c->ctx, note_trust, c);
	return 0;
}

struct tls_ctx *tls_client_new(const char *cafile, struct err *e)
{
	struct tls_ctx *c = new_ctx(false, TLS1_3_VERSION, e);
	struct tls_pem ca = { .file = cafile };

	if (!c || !cafile)
		return c;
	c->check = true;
	if (trust(c->ctx, &ca, e) == 0)
		return c;
	tls_ctx_free(c);
	return NULL;
}

/* ---- two sides that know each other's pins ---- */

/* The caller compares the pin; the handshake proves that the peer has the key. */
static int accept_any(X509_STORE_CTX *store, void *arg)
{
	(void)store;
	(void)arg;
	return 1;
}

struct tls_ctx *tls_pinned_new(bool server, char **pin, struct err *e)
{
	struct tls_ctx *c = new_ctx(server, TLS1_3_VERSION, e);
	EVP_PKEY *key = c ? tls_new_key() : NULL;
	X509 *cert = key ? tls_self_signed(key, "rftp") : NULL;

	*pin = NULL;
	if (!c)
		return NULL;
	/* c has its own references to both. */
	if (cert && SSL_CTX_use_certificate(c->ctx, cert) == 1 &&
	    SSL_CTX_use_PrivateKey(c->ctx, key) == 1)
		*pin = tls_pin_of(cert);
	X509_free(cert);
	EVP_PKEY_free(key);
	if (!*pin) {
		err_set(e, -EIO, CANNOT_KEY, openssl_reason());
		tls_ctx_free(c);
		return NULL;
	}
	SSL_CTX_set_verify(c->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
	SSL_CTX_set_cert_verify_callback(c->ctx, accept_any, NULL);
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
