// SPDX-License-Identifier: Apache-2.0
/* The proof of a client's certificate, for a process that was not part of the handshake: the
 * handshake's messages from the ClientHello to the client's CertificateVerify, which signs all
 * earlier ones (RFC 8446 §4.4.3). */
#include "crypto/tls_priv.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>

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

/* ---- recording, in the process that does the handshake ---- */

/* For SSL_set_msg_callback. If the handshake does not fit into the buffer, there is no proof. */
static void keep_message(int write_p, int version, int content_type, const void *msg, size_t len,
			 SSL *ssl, void *arg)
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
	SSL_set_msg_callback(t->ssl, keep_message);
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

/* ---- parsing, in a process that does not trust the recording process ---- */

struct bytes {
	const uint8_t *p;
	size_t len;
};

/* Take the next n bytes from b; false: b has fewer. */
static bool bytes_take(struct bytes *b, size_t n, struct bytes *out)
{
	if (n > b->len)
		return false;
	*out = (struct bytes){ b->p, n };
	b->p += n;
	b->len -= n;
	return true;
}

/* Take a vector from b: width bytes with its length, then its contents. */
static bool bytes_vector(struct bytes *b, size_t width, struct bytes *out)
{
	struct bytes head;
	size_t n = 0;

	if (!bytes_take(b, width, &head))
		return false;
	for (size_t i = 0; i < width; i++)
		n = n << 8 | head.p[i];
	return bytes_take(b, n, out);
}

struct handshake {
	const EVP_MD *md;                     /* of the cipher suite */
	struct bytes first;                   /* ClientHello before a HelloRetryRequest */
	struct bytes hashed;                  /* the other signed messages */
	struct bytes server, client, verify;  /* bodies of messages */
};

/* Take the next message, which must be of this type; body: its contents. */
static bool expect_message(struct bytes *b, uint8_t type, struct bytes *body)
{
	struct bytes head;

	return bytes_take(b, 1, &head) && *head.p == type && bytes_vector(b, 3, body);
}

/* Parse legacy_version, random, legacy_session_id_echo and cipher_suite. */
static bool read_server_hello(struct bytes body, const EVP_MD **md, bool *retry)
{
	static const char text[] = "HelloRetryRequest";
	struct bytes version, random, session, suite;
	uint8_t hash[RANDOM_BYTES];

	if (!bytes_take(&body, 2, &version) || !bytes_take(&body, RANDOM_BYTES, &random) ||
	    !bytes_vector(&body, 1, &session) || !bytes_take(&body, 2, &suite) ||
	    EVP_Digest(text, sizeof(text) - 1, hash, NULL, EVP_sha256(), NULL) != 1)
		return false;
	/* RFC 8446 §4.1.3: the random of a HelloRetryRequest. */
	*retry = !memcmp(random.p, hash, sizeof(hash));
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

/* Read the messages in the order of RFC 8446 §2, figure 1; false: one is missing or malformed. */
static bool read_handshake(struct bytes b, struct handshake *h)
{
	const uint8_t *start = b.p;
	struct bytes body;
	bool retry;

	if (!expect_message(&b, CLIENT_HELLO, &body))
		return false;
	h->first = (struct bytes){ start, (size_t)(b.p - start) };
	h->hashed.p = b.p;
	if (!expect_message(&b, SERVER_HELLO, &body) || !read_server_hello(body, &h->md, &retry))
		return false;
	if (!retry) {
		h->hashed.p = start;
		h->first.len = 0;
	} else if (!expect_message(&b, CLIENT_HELLO, &body) ||
		   !expect_message(&b, SERVER_HELLO, &body) ||
		   !read_server_hello(body, &h->md, &retry) || retry) {
		return false;
	}
	if (!expect_message(&b, ENCRYPTED_EXTENSIONS, &body) ||
	    !expect_message(&b, CERTIFICATE_REQUEST, &body) ||
	    !expect_message(&b, CERTIFICATE, &h->server) ||
	    !expect_message(&b, CERTIFICATE_VERIFY, &body) ||
	    !expect_message(&b, FINISHED, &body) || !expect_message(&b, CERTIFICATE, &h->client))
		return false;
	h->hashed.len = (size_t)(b.p - h->hashed.p);
	return expect_message(&b, CERTIFICATE_VERIFY, &h->verify) && b.len == 0;
}

/* Parse certificate_request_context and the certificates, each with extensions; the peer's own
 * certificate is first. The caller frees the list. NULL: no certificates, or malformed. */
static STACK_OF(X509) *read_certificates(struct bytes body)
{
	STACK_OF(X509) *all = sk_X509_new_null();
	struct bytes context, list, der, extensions;
	bool ok = all && bytes_vector(&body, 1, &context) && bytes_vector(&body, 3, &list) &&
		  body.len == 0 && list.len > 0;

	while (ok && list.len > 0) {
		X509 *cert = NULL;

		ok = bytes_vector(&list, 3, &der) && bytes_vector(&list, 2, &extensions);
		if (ok) {
			const unsigned char *p = der.p;

			cert = d2i_X509(NULL, &p, (long)der.len);
			ok = cert && p == der.p + der.len && sk_X509_push(all, cert) > 0;
		}
		if (!ok)
			X509_free(cert);
	}

	if (ok)
		return all;
	sk_X509_pop_free(all, X509_free);
	return NULL;
}

/* ---- the signature ---- */

/* The values of SignatureScheme for TLS 1.3, RFC 8446 §4.2.3. */
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

static const struct scheme *scheme_of(uint16_t id, EVP_PKEY *key)
{
	char group[64];
	size_t len;

	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++) {
		const struct scheme *s = &schemes[i];

		if (s->id == id && EVP_PKEY_is_a(key, s->key) &&
		    (!s->group || (EVP_PKEY_get_group_name(key, group, sizeof(group), &len) == 1 &&
				   !strcmp(group, s->group))))
			return s;
	}

	return NULL;
}

/* Hash all messages; a first ClientHello before a retry is replaced by its hash (§4.4.1). */
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

static bool is_signed(const struct handshake *h, X509 *cert)
{
	static const char context[] = "TLS 1.3, client CertificateVerify"; /* with its NUL */
	uint8_t content[64 + sizeof(context) + EVP_MAX_MD_SIZE];
	EVP_PKEY *key = X509_get0_pubkey(cert);
	struct bytes body = h->verify, id, signature;
	const struct scheme *s;
	EVP_PKEY_CTX *pc;
	EVP_MD_CTX *c;
	unsigned n;
	bool ok;

	if (!key || !bytes_take(&body, 2, &id) || !bytes_vector(&body, 2, &signature) || body.len)
		return false;
	s = scheme_of(get_be16(id.p), key);
	memset(content, ' ', 64);
	memcpy(content + 64, context, sizeof(context));
	if (!s || !hash_messages(h, content + 64 + sizeof(context), &n))
		return false;

	c = EVP_MD_CTX_new();
	ok = c && EVP_DigestVerifyInit_ex(c, &pc, s->md, NULL, NULL, key, NULL) == 1;
	if (ok && !strncmp(s->key, "RSA", 3))
		ok = EVP_PKEY_CTX_set_rsa_padding(pc, RSA_PKCS1_PSS_PADDING) == 1 &&
		     EVP_PKEY_CTX_set_rsa_pss_saltlen(pc, RSA_PSS_SALTLEN_DIGEST) == 1;
	ok = ok && EVP_DigestVerify(c, signature.p, signature.len, content,
				    64 + sizeof(context) + n) == 1;
	EVP_MD_CTX_free(c);
	return ok;
}

/* ---- the client ---- */

static bool server_has_pin(const struct handshake *h, const char *server)
{
	STACK_OF(X509) *chain = read_certificates(h->server);
	CLEANUP_FREE char *pin = chain ? tls_pin_of(sk_X509_value(chain, 0)) : NULL;

	sk_X509_pop_free(chain, X509_free);
	return pin && !strcmp(pin, server);
}

/* True: one of c's CAs has signed the certificate, by the same rules as in the handshake. */
static bool is_trusted(const struct tls_ctx *c, STACK_OF(X509) *chain)
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

int tls_proof_check(const struct tls_ctx *c, const void *proof, size_t len, const char *server,
		    struct tls_proven *out, struct err *e)
{
	struct handshake h = { .md = NULL };
	STACK_OF(X509) *chain = NULL;
	X509 *cert;
	int rc;

	*out = (struct tls_proven){ .pin = NULL };
	if (read_handshake((struct bytes){ proof, len }, &h))
		chain = read_certificates(h.client);
	cert = chain ? sk_X509_value(chain, 0) : NULL;
	if (!chain) {
		rc = err_set(e, -EBADMSG, "the proof of a certificate is not a handshake");
	} else if (!server_has_pin(&h, server)) {
		rc = err_set(e, -EKEYREJECTED, "the certificate was shown to another server");
	} else if (!is_signed(&h, cert)) {
		rc = err_set(e, -EKEYREJECTED, "the certificate was shown without its key");
	} else {
		out->pin = tls_pin_of(cert);
		out->subject = is_trusted(c, chain) ? tls_subject_of(cert) : NULL;
		rc = out->pin ? tls_check_validity(cert, e) :
				err_nomem(e);
	}
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
