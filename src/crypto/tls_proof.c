// SPDX-License-Identifier: Apache-2.0
/* What a client's certificate was shown by, for a process that has seen nothing of it: the
 * messages of the handshake from the ClientHello to the client's CertificateVerify, whose signature
 * covers all those before (RFC 8446 §4.4.3). */
#include "crypto/tls_priv.h"

#include <errno.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <string.h>

/* Types of handshake messages (RFC 8446 §4). */
enum {
	CLIENT_HELLO = 1,
	SERVER_HELLO = 2,
	ENCRYPTED_EXTENSIONS = 8,
	CERTIFICATE = 11,
	CERTIFICATE_REQUEST = 13,
	CERTIFICATE_VERIFY = 15,
	FINISHED = 20,
	MESSAGE_HASH = 254,
};

enum { HEAD_BYTES = 4, RANDOM_BYTES = 32 };

/* ---- kept, where the handshake is ---- */

/* For SSL_set_msg_callback. What does not fit is no proof any more. */
static void keep(int write_p, int version, int content_type, const void *msg, size_t len, SSL *ssl,
		 void *arg)
{
	struct tls *t = arg;

	(void)version;
	(void)ssl;
	if (content_type != SSL3_RT_HANDSHAKE || !t->proof || t->proven || !len)
		return;
	if (buf_put(t->proof, msg, len) < 0) {
		buf_free(t->proof);
		t->proof = NULL;
		return;
	}
	t->proven = !write_p && *(const uint8_t *)msg == CERTIFICATE_VERIFY;
}

void tls_keep_proofs(struct tls_ctx *c)
{
	c->proves = true;
}

int tls_keep_proof(struct tls *t)
{
	t->proof = buf_new(TLS_PROOF_MAX);
	if (!t->proof)
		return -ENOMEM;
	SSL_set_msg_callback(t->ssl, keep);
	SSL_set_msg_callback_arg(t->ssl, t);
	return 0;
}

ssize_t tls_proof(struct tls *t, uint8_t proof[TLS_PROOF_MAX])
{
	LOCK_GUARD(guard, &t->lock);

	if (SSL_version(t->ssl) < TLS1_3_VERSION)
		return -EOPNOTSUPP;
	if (!t->proof)
		return -EMSGSIZE;
	if (!t->proven)
		return -ENOKEY;
	memcpy(proof, buf_ptr(t->proof), buf_len(t->proof));
	return (ssize_t)buf_len(t->proof);
}

/* ---- read, where it is believed by nobody ---- */

struct bytes {
	const uint8_t *p;
	size_t len;
};

/* The next n bytes of b; false: there are not so many. */
static bool take(struct bytes *b, size_t n, struct bytes *out)
{
	if (n > b->len)
		return false;
	*out = (struct bytes){ b->p, n };
	b->p += n;
	b->len -= n;
	return true;
}

/* As many as the next width bytes, a number, say. */
static bool take_vector(struct bytes *b, size_t width, struct bytes *out)
{
	struct bytes head;
	size_t n = 0;

	if (!take(b, width, &head))
		return false;
	for (size_t i = 0; i < width; i++)
		n = n << 8 | head.p[i];
	return take(b, n, out);
}

struct handshake {
	const EVP_MD *md;                     /* of the cipher suite */
	struct bytes first;                   /* a ClientHello that was answered by a retry */
	struct bytes hashed;                  /* what is signed, but for that */
	struct bytes server, client, verify;  /* bodies of messages */
};

static bool next_message(struct bytes *b, uint8_t *type, struct bytes *body)
{
	struct bytes head;

	if (!take(b, 1, &head) || !take_vector(b, 3, body))
		return false;
	*type = *head.p;
	return true;
}

static bool expect(struct bytes *b, uint8_t type, struct bytes *body)
{
	uint8_t is;

	return next_message(b, &is, body) && is == type;
}

/* RFC 8446 §4.1.3: what a HelloRetryRequest has for a random. */
static bool is_retry(const uint8_t random[RANDOM_BYTES])
{
	static const char text[] = "HelloRetryRequest";
	uint8_t hash[RANDOM_BYTES];

	return EVP_Digest(text, sizeof(text) - 1, hash, NULL, EVP_sha256(), NULL) == 1 &&
	       !memcmp(random, hash, sizeof(hash));
}

/* legacy_version, random, legacy_session_id_echo, cipher_suite. */
static bool read_server_hello(struct bytes body, const EVP_MD **md, bool *retry)
{
	struct bytes version, random, session, suite;

	if (!take(&body, 2, &version) || !take(&body, RANDOM_BYTES, &random) ||
	    !take_vector(&body, 1, &session) || !take(&body, 2, &suite))
		return false;
	*retry = is_retry(random.p);
	switch (get_be16(suite.p)) {
	case 0x1301: /* AES_128_GCM, CHACHA20_POLY1305, AES_128_CCM, AES_128_CCM_8 */
	case 0x1303:
	case 0x1304:
	case 0x1305:
		*md = EVP_sha256();
		return true;
	case 0x1302: /* AES_256_GCM */
		*md = EVP_sha384();
		return true;
	default:
		return false;
	}
}

static bool read_hellos(struct bytes *b, struct handshake *h)
{
	const uint8_t *start = b->p;
	struct bytes body;
	bool retry;

	if (!expect(b, CLIENT_HELLO, &body))
		return false;
	h->first = (struct bytes){ start, (size_t)(b->p - start) };
	start = b->p;
	if (!expect(b, SERVER_HELLO, &body) || !read_server_hello(body, &h->md, &retry))
		return false;
	h->hashed.p = start;
	if (!retry) {
		h->hashed.p = h->first.p;
		h->first.len = 0;
		return true;
	}
	return expect(b, CLIENT_HELLO, &body) && expect(b, SERVER_HELLO, &body) &&
	       read_server_hello(body, &h->md, &retry) && !retry;
}

/* In the order of RFC 8446 §2, figure 1; one that leaves anything out proves nothing. */
static bool read_handshake(struct bytes b, struct handshake *h)
{
	struct bytes body;

	if (!read_hellos(&b, h) || !expect(&b, ENCRYPTED_EXTENSIONS, &body) ||
	    !expect(&b, CERTIFICATE_REQUEST, &body) || !expect(&b, CERTIFICATE, &h->server) ||
	    !expect(&b, CERTIFICATE_VERIFY, &body) || !expect(&b, FINISHED, &body) ||
	    !expect(&b, CERTIFICATE, &h->client))
		return false;
	h->hashed.len = (size_t)(b.p - h->hashed.p);
	return expect(&b, CERTIFICATE_VERIFY, &h->verify) && b.len == 0;
}

/* The next of a list, without its extensions; NULL: it is none. */
static X509 *take_certificate(struct bytes *list)
{
	const unsigned char *p;
	struct bytes der, extensions;
	X509 *cert;

	if (!take_vector(list, 3, &der) || !take_vector(list, 2, &extensions))
		return NULL;
	p = der.p;
	cert = d2i_X509(NULL, &p, (long)der.len);
	if (cert && p == der.p + der.len)
		return cert;
	X509_free(cert);
	return NULL;
}

/* certificate_request_context, then certificates, the peer's own first; NULL: there is none. */
static STACK_OF(X509) *read_certificates(struct bytes body)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	struct bytes context, list;
	bool ok = all && take_vector(&body, 1, &context) && take_vector(&body, 3, &list) &&
		  body.len == 0 && list.len > 0;

	while (ok && list.len > 0) {
		X509 *cert = take_certificate(&list);

		ok = cert && sk_X509_push(all, cert) > 0;
		if (!ok)
			X509_free(cert);
	}
	if (ok)
		return all;
	sk_X509_pop_free(all, X509_free);
	return NULL;
}

/* ---- the signature ---- */

/* SignatureScheme, RFC 8446 §4.2.3: those for TLS 1.3. */
static const struct scheme {
	uint16_t id;
	const char *key, *group, *md;
} schemes[] = {
	{ 0x0403, "EC", "prime256v1", "SHA256" },
	{ 0x0503, "EC", "secp384r1", "SHA384" },
	{ 0x0603, "EC", "secp521r1", "SHA512" },
	{ 0x0807, "ED25519", NULL, NULL },
	{ 0x0808, "ED448", NULL, NULL },
	{ 0x0804, "RSA", NULL, "SHA256" },
	{ 0x0805, "RSA", NULL, "SHA384" },
	{ 0x0806, "RSA", NULL, "SHA512" },
	{ 0x0809, "RSA-PSS", NULL, "SHA256" },
	{ 0x080a, "RSA-PSS", NULL, "SHA384" },
	{ 0x080b, "RSA-PSS", NULL, "SHA512" },
};

static bool is_key_for(const struct scheme *s, EVP_PKEY *key)
{
	char group[64];
	size_t len;

	return EVP_PKEY_is_a(key, s->key) &&
	       (!s->group || (EVP_PKEY_get_group_name(key, group, sizeof(group), &len) == 1 &&
			      !strcmp(group, s->group)));
}

static const struct scheme *scheme_of(uint16_t id, EVP_PKEY *key)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (schemes[i].id == id && is_key_for(&schemes[i], key))
			return &schemes[i];
	return NULL;
}

/* The hash of all messages; of a first ClientHello only its hash is in there (§4.4.1). */
static bool hash_messages(const struct handshake *h, uint8_t *hash, unsigned *len)
{
	uint8_t first[EVP_MAX_MD_SIZE], head[HEAD_BYTES] = { MESSAGE_HASH };
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	bool ok = c && EVP_DigestInit_ex(c, h->md, NULL) == 1;
	unsigned n;

	if (ok && h->first.len) {
		ok = EVP_Digest(h->first.p, h->first.len, first, &n, h->md, NULL) == 1;
		head[3] = (uint8_t)EVP_MD_get_size(h->md);
		ok = ok && EVP_DigestUpdate(c, head, sizeof(head)) == 1 &&
		     EVP_DigestUpdate(c, first, n) == 1;
	}
	ok = ok && EVP_DigestUpdate(c, h->hashed.p, h->hashed.len) == 1 &&
	     EVP_DigestFinal_ex(c, hash, len) == 1;
	EVP_MD_CTX_free(c);
	return ok;
}

static bool verify(const struct scheme *s, EVP_PKEY *key, const struct bytes *signature,
		   const uint8_t *said, size_t len)
{
	EVP_MD_CTX *c = EVP_MD_CTX_new();
	EVP_PKEY_CTX *pc;
	bool ok = c && EVP_DigestVerifyInit_ex(c, &pc, s->md, NULL, NULL, key, NULL) == 1;

	if (ok && !strncmp(s->key, "RSA", 3))
		ok = EVP_PKEY_CTX_set_rsa_padding(pc, RSA_PKCS1_PSS_PADDING) == 1 &&
		     EVP_PKEY_CTX_set_rsa_pss_saltlen(pc, RSA_PSS_SALTLEN_DIGEST) == 1;
	ok = ok && EVP_DigestVerify(c, signature->p, signature->len, said, len) == 1;
	EVP_MD_CTX_free(c);
	return ok;
}

static bool is_signed(const struct handshake *h, X509 *cert)
{
	static const char context[] = "TLS 1.3, client CertificateVerify"; /* with its NUL */
	uint8_t said[64 + sizeof(context) + EVP_MAX_MD_SIZE];
	EVP_PKEY *key = X509_get0_pubkey(cert);
	struct bytes body = h->verify, id, signature;
	const struct scheme *s;
	unsigned n;

	if (!key || !take(&body, 2, &id) || !take_vector(&body, 2, &signature) || body.len)
		return false;
	s = scheme_of(get_be16(id.p), key);
	memset(said, ' ', 64);
	memcpy(said + 64, context, sizeof(context));
	return s && hash_messages(h, said + 64 + sizeof(context), &n) &&
	       verify(s, key, &signature, said, 64 + sizeof(context) + n);
}

/* ---- who it is ---- */

static bool was_with(const struct handshake *h, const char *server)
{
	STACK_OF(X509) *chain = read_certificates(h->server);
	CLEANUP_FREE char *pin = chain ? tls_pin_of(sk_X509_value(chain, 0)) : NULL;

	sk_X509_pop_free(chain, X509_free);
	return pin && !strcmp(pin, server);
}

/* As the handshake would have it, by c's authorities. */
static bool is_vouched_for(const struct tls_ctx *c, STACK_OF(X509) *chain)
{
	X509_STORE_CTX *s = c->check ? X509_STORE_CTX_new() : NULL;
	bool ok = s && X509_STORE_CTX_init(s, SSL_CTX_get_cert_store(c->ctx),
					   sk_X509_value(chain, 0), chain) == 1 &&
		  X509_STORE_CTX_set_default(s, "ssl_client") == 1;

	if (ok) {
		X509_VERIFY_PARAM *p = X509_STORE_CTX_get0_param(s);

		X509_VERIFY_PARAM_set_auth_level(p, SSL_CTX_get_security_level(c->ctx));
		X509_VERIFY_PARAM_set_flags(p, X509_VERIFY_PARAM_get_flags(
						       SSL_CTX_get0_param(c->ctx)));
		ok = X509_verify_cert(s) == 1;
	}
	X509_STORE_CTX_free(s);
	return ok;
}

static int identify(const struct tls_ctx *c, STACK_OF(X509) *chain, struct tls_proven *out,
		    struct err *e)
{
	X509 *cert = sk_X509_value(chain, 0);

	out->pin = tls_pin_of(cert);
	out->subject = is_vouched_for(c, chain) ? tls_subject_of(cert) : NULL;
	return out->pin ? tls_check_validity(cert, e) : err_sys(e, -ENOMEM, "certificate");
}

int tls_proof_check(const struct tls_ctx *c, const void *proof, size_t len, const char *server,
		    struct tls_proven *out, struct err *e)
{
	struct handshake h = { .md = NULL };
	STACK_OF(X509) *chain = NULL;
	int rc;

	*out = (struct tls_proven){ .pin = NULL };
	if (read_handshake((struct bytes){ proof, len }, &h))
		chain = read_certificates(h.client);
	if (!chain)
		rc = err_set(e, -EBADMSG, "what should prove a certificate is no handshake");
	else if (!was_with(&h, server))
		rc = err_set(e, -EKEYREJECTED, "the certificate was shown to another server");
	else if (!is_signed(&h, sk_X509_value(chain, 0)))
		rc = err_set(e, -EKEYREJECTED, "the certificate was shown without its key");
	else
		rc = identify(c, chain, out, e);
	sk_X509_pop_free(chain, X509_free);
	ERR_clear_error();
	return rc;
}

void tls_proven_clear(struct tls_proven *p)
{
	free(p->pin);
	free(p->subject);
	*p = (struct tls_proven){ .pin = NULL };
}
