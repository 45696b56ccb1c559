// SPDX-License-Identifier: Apache-2.0
/* Certificates and keys: made, loaded, shown as pins, checked for their dates. */
#include "crypto/base64.h"
#include "crypto/tls_priv.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define VALID_SECONDS (10L * 365 * 24 * 3600)
/* Clocks differ: a fresh certificate must be good for a client that is behind. */
#define BEFORE_SECONDS (24L * 3600)
#define SERIAL_BYTES 16
#define PEM_FILE_MAX ((size_t)1 << 20)
#define PIN_PREFIX "SHA256:"
#define SHA256_BYTES 32

/* ---- PEM files ---- */

/* Whole programs must not stop to ask a terminal for a passphrase. */
int tls_no_passphrase(char *buf, int size, int rwflag, void *arg)
{
	(void)buf;
	(void)size;
	(void)rwflag;
	(void)arg;
	return -1;
}

static BIO *read_pem_file(const char *path, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	BIO *b = BIO_new(BIO_s_mem());
	size_t len = 0;
	int r = read_file(path, PEM_FILE_MAX, &text, &len);

	if (r < 0) {
		err_sys(e, r, "cannot read %s", printable(path));
	} else if (b && BIO_write(b, text, (int)len) == (int)len) {
		crypto_wipe(text, len);
		return b;
	} else {
		err_set(e, -ENOMEM, "cannot read %s: memory is out", printable(path));
	}
	BIO_free(b);
	return NULL;
}

BIO *tls_read_pem(const struct tls_pem *p, struct err *e)
{
	BIO *b;

	if (!p->text)
		return read_pem_file(p->file, e);
	b = p->len <= INT_MAX ? BIO_new_mem_buf(p->text, (int)p->len) : NULL;
	if (!b)
		err_set(e, -ENOMEM, "cannot read %s: memory is out", printable(p->file));
	return b;
}

static X509 *load_certificate_pem(const struct tls_pem *p, struct err *e)
{
	BIO *b = tls_read_pem(p, e);
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

X509 *tls_load_certificate(const char *certfile, struct err *e)
{
	struct tls_pem p = { .file = certfile };

	return load_certificate_pem(&p, e);
}

int tls_check_key_file(const char *keyfile, struct err *e)
{
	struct stat st;

	if (stat(keyfile, &st) < 0)
		return err_sys(e, -errno, "cannot read key %s", printable(keyfile));
	if ((st.st_mode & 077) == 0)
		return 0;
	return err_set(e, -EPERM,
		       "key %s is open to others than its owner (mode %04o): chmod 600 %s",
		       printable(keyfile), st.st_mode & 07777u, printable(keyfile));
}

EVP_PKEY *tls_load_key_pem(const struct tls_pem *p, struct err *e)
{
	EVP_PKEY *key;
	BIO *b;

	if (!p->text && tls_check_key_file(p->file, e) < 0)
		return NULL;
	b = tls_read_pem(p, e);
	if (!b)
		return NULL;
	key = PEM_read_bio_PrivateKey(b, NULL, tls_no_passphrase, NULL);
	if (!key)
		err_set(e, -EINVAL, "%s holds no private key in PEM form without passphrase: %s",
			printable(p->file), openssl_reason());
	BIO_free(b);
	return key;
}

EVP_PKEY *tls_load_key(const char *keyfile, struct err *e)
{
	struct tls_pem p = { .file = keyfile };

	return tls_load_key_pem(&p, e);
}

static int write_pem(const char *path, BIO *pem, mode_t mode, struct err *e)
{
	char *text;
	long len = BIO_get_mem_data(pem, &text);

	return write_file_atomic(path, text, (size_t)len, mode, e);
}

/* ---- making ---- */

EVP_PKEY *tls_new_key(void)
{
	return EVP_EC_gen("P-256");
}

static EVP_PKEY *make_key(const char *keyfile, struct err *e)
{
	EVP_PKEY *key = tls_new_key();
	BIO *pem = BIO_new(BIO_s_secmem());

	if (!key || !pem || PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL) != 1)
		err_set(e, -EIO, "cannot make a key: %s", openssl_reason());
	else if (write_pem(keyfile, pem, 0600, e) == 0)
		goto out;
	EVP_PKEY_free(key);
	key = NULL;
out:
	BIO_free(pem);
	return key;
}

static bool set_serial(X509 *cert)
{
	uint8_t bytes[SERIAL_BYTES];
	BIGNUM *n;
	bool ok;

	crypto_random(bytes, sizeof(bytes));
	bytes[0] = (bytes[0] & 0x7f) | 0x40; /* positive, and of one length */
	n = BN_bin2bn(bytes, sizeof(bytes), NULL);
	ok = n && BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
	BN_free(n);
	return ok;
}

static bool set_names(X509 *cert, const char *cn)
{
	X509_NAME *name = X509_get_subject_name(cert);

	return X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
					  (const unsigned char *)cn, -1, -1, 0) == 1 &&
	       X509_set_issuer_name(cert, name) == 1;
}

/* Built as a structure, not from text: cn is nobody's configuration language. */
static GENERAL_NAME *alt_name(const char *cn)
{
	GENERAL_NAME *gen = GENERAL_NAME_new();
	ASN1_OCTET_STRING *ip = a2i_IPADDRESS(cn);
	ASN1_IA5STRING *dns = ASN1_IA5STRING_new();

	ERR_clear_error(); /* that cn is no address */
	if (!gen || !dns || !ASN1_STRING_set(dns, cn, -1)) {
		GENERAL_NAME_free(gen);
		ASN1_OCTET_STRING_free(ip);
		ASN1_IA5STRING_free(dns);
		return NULL;
	}
	if (ip) {
		ASN1_IA5STRING_free(dns);
		GENERAL_NAME_set0_value(gen, GEN_IPADD, ip);
	} else {
		GENERAL_NAME_set0_value(gen, GEN_DNS, dns);
	}
	return gen;
}

/* Clients that check names look here, not at the CN (RFC 6125). */
static bool add_alt_name(X509 *cert, const char *cn)
{
	GENERAL_NAMES *list = GENERAL_NAMES_new();
	GENERAL_NAME *gen = alt_name(cn);
	bool ok = false;

	if (list && gen && sk_GENERAL_NAME_push(list, gen) > 0) {
		gen = NULL; /* the list's now */
		ok = X509_add1_ext_i2d(cert, NID_subject_alt_name, list, 0,
				       X509V3_ADD_APPEND) == 1;
	}
	GENERAL_NAME_free(gen);
	GENERAL_NAMES_free(list);
	return ok;
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

X509 *tls_self_signed(EVP_PKEY *key, const char *cn)
{
	X509 *cert = X509_new();

	if (cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
	    X509_gmtime_adj(X509_getm_notBefore(cert), -BEFORE_SECONDS) &&
	    X509_gmtime_adj(X509_getm_notAfter(cert), VALID_SECONDS) &&
	    set_names(cert, cn) && X509_set_pubkey(cert, key) == 1 &&
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
		r = write_pem(certfile, pem, 0644, e);
	BIO_free(pem);
	X509_free(cert);
	return r;
}

/* A lock on the directory keeps two servers that start at once from writing one's key
 * beside the other's certificate. Closing the fd unlocks; where directories cannot be
 * locked (some network file systems) nothing is. */
static int lock_directory_of(const char *path)
{
	CLEANUP_FREE char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0)
		flock(fd, LOCK_EX);
	return fd;
}

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

int tls_make_certificate(const char *certfile, const char *keyfile, const char *cn,
			 struct err *e)
{
	CLEANUP_CLOSE int lock = lock_directory_of(keyfile);
	bool have_cert = exists(certfile), have_key = exists(keyfile);
	struct err own = ERR_INIT;
	EVP_PKEY *key;
	int r;

	(void)lock;
	e = e ? e : &own;
	if (have_cert && have_key)
		return tls_check_key_file(keyfile, e);
	if (have_cert)
		return err_set(e, -ENOENT,
			       "certificate %s is there but not its key %s: restore the key, or "
			       "remove the certificate to have both made anew",
			       printable(certfile), printable(keyfile));
	/* A key alone is what a crash between the two leaves: it keeps its pin. */
	key = have_key ? tls_load_key(keyfile, e) : make_key(keyfile, e);
	if (!key)
		return e->code;
	r = make_cert(certfile, key, cn, e);
	EVP_PKEY_free(key);
	return r;
}

/* ---- looking at them ---- */

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

/* To be freed; NULL: the peer showed none. */
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

	/* A subject that is empty is nobody's name. */
	if (b && X509_NAME_entry_count(X509_get_subject_name(cert)) > 0 &&
	    X509_NAME_print_ex(b, X509_get_subject_name(cert), 0, XN_FLAG_RFC2253) > 0) {
		len = BIO_get_mem_data(b, &text);
		own = strndup(text, (size_t)len);
	}
	BIO_free(b);
	ERR_clear_error();
	return own;
}

static bool is_vouched_for(struct tls *t)
{
	LOCK_GUARD(guard, &t->lock);

	return SSL_get_verify_result(t->ssl) == X509_V_OK;
}

char *tls_peer_subject(struct tls *t)
{
	X509 *cert = peer_certificate(t);
	char *subject = cert && is_vouched_for(t) ? tls_subject_of(cert) : NULL;

	X509_free(cert);
	return subject;
}

char *tls_certificate_pin_pem(const struct tls_pem *p, struct err *e)
{
	X509 *cert = load_certificate_pem(p, e);
	char *pin;

	if (!cert)
		return NULL;
	pin = tls_pin_of(cert);
	if (!pin)
		err_set(e, -EIO, "cannot hash the key of %s", printable(p->file));
	X509_free(cert);
	return pin;
}

char *tls_certificate_pin(const char *certfile, struct err *e)
{
	struct tls_pem p = { .file = certfile };

	return tls_certificate_pin_pem(&p, e);
}

static const char *day(const ASN1_TIME *t, char *out, size_t room)
{
	struct tm tm;

	if (ASN1_TIME_to_tm(t, &tm) != 1 || strftime(out, room, "%Y-%m-%d %H:%M UTC", &tm) == 0)
		return "a date that cannot be read";
	return out;
}

/* X509_cmp_current_time gives 0 for a date it cannot read: not valid either way. */
int tls_check_validity(X509 *cert, struct err *e)
{
	const ASN1_TIME *from = X509_get0_notBefore(cert), *until = X509_get0_notAfter(cert);
	char text[32];

	if (X509_cmp_current_time(from) >= 0)
		return err_set(e, -EKEYEXPIRED,
			       "the peer's certificate is not valid before %s: check the clocks",
			       day(from, text, sizeof(text)));
	if (X509_cmp_current_time(until) <= 0)
		return err_set(e, -EKEYEXPIRED,
			       "the peer's certificate was valid until %s: it needs a new one",
			       day(until, text, sizeof(text)));
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
