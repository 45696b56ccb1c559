// SPDX-License-Identifier: Apache-2.0
/* crypto: all code that needs OpenSSL, behind plain types. Keys are byte arrays. */
#ifndef RFTP_CRYPTO_H
#define RFTP_CRYPTO_H

#include "util/util.h"

#include <sys/uio.h>

#define KEY_BYTES 32    /* every symmetric key and token */
#define NONCE_BYTES 32  /* handshake nonces */
#define TAG_BYTES 16    /* GCM and GMAC */
#define MAC_BYTES 32    /* HMAC-SHA-256 */

/* ---- random, derivation, MAC ---- */

/* Fill out with random bytes from the kernel. Aborts the process if the kernel provides none. Any
 * thread. */
void crypto_random(void *out, size_t len);
/* HKDF-SHA-256 (RFC 5869) of key and salt for the given info. 0 or -EIO. Any thread. */
int crypto_hkdf(uint8_t *out, size_t outlen, const uint8_t *key, size_t keylen,
		const void *salt, size_t saltlen, const void *info, size_t infolen);
/* HMAC-SHA-256 over the n pieces, one after the other. 0 or -EIO. Any thread. */
int crypto_hmac(uint8_t mac[MAC_BYTES], const uint8_t *key, size_t keylen,
		const struct iovec *iov, int n);
/* True: equal. The time does not depend on the contents. */
bool crypto_equal(const void *a, const void *b, size_t len);
void crypto_wipe(void *p, size_t len);

/* ---- CRC32C ---- */

/* Castagnoli CRC of RFC 3720, with the usual inversion before and after. Start with 0, and pass the
 * result to continue. Any thread. */
uint32_t crypto_crc32c(uint32_t crc, const void *data, size_t len);
/* For data of pieces: the CRC of A followed by B is crypto_crc32c_shift(CRC of A, length of B) ^
 * CRC of B. Any thread. */
uint32_t crypto_crc32c_shift(uint32_t crc, uint64_t len);
/* The CRC of len zero bytes. Any thread. */
uint32_t crypto_crc32c_zeros(uint64_t len);

/* ---- sealing of blocks ---- */

struct sealer;

/* AES-256-GCM under one key. One thread at a time per sealer. NULL: out of memory. */
struct sealer *sealer_new(const uint8_t key[KEY_BYTES]);
void sealer_free(struct sealer *s);

/* Encrypt len bytes from in to out, which may be equal to in but must not overlap it otherwise. in
 * NULL: encrypt nothing, compute the GMAC of the additional data. nonce is the 64-bit counter of
 * the header, and must never repeat under one key. aad is a list of pieces. 0 or -EIO. */
int sealer_seal(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, uint8_t tag[TAG_BYTES]);
/* The inverse. 0; -EBADMSG: the tag does not match; or -EIO. out is wiped on failure. */
int sealer_open(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, const uint8_t tag[TAG_BYTES]);

/* ---- digests of files ---- */

/* A digest by the name that FTP's HASH uses: "SHA-256", "SHA-512", "SHA-1", "MD5", "CRC32C",
 * "XXH128", "Adler-32". One thread at a time. */
struct digest;
#define DIGEST_MAX 64
struct digest *digest_new(const char *name); /* NULL with errno; EINVAL: unknown name */
void digest_free(struct digest *d);
int digest_update(struct digest *d, const void *data, size_t len);

/* Write the digest in lower-case hex with a NUL to hex, which has 2 * DIGEST_MAX + 1 bytes, and
 * reset d. 0 or a negative errno. */
int digest_final_hex(struct digest *d, char *hex);
/* The name in the table, found without regard to case and hyphens; NULL: unknown. */
const char *digest_name(const char *name);
/* The digest_name() of the digest with so many hexadecimal digits: name, or with NULL the most
 * common one. NULL: there is none. */
const char *digest_of_length(const char *name, size_t digits);
/* All names, the preferred one first, NULL at the end; static. */
const char *const *digest_names(void);

/* XXH3, 128 bits, for runs of the journal: detects accidental damage, not attacks. */
#define RUN_DIGEST_BYTES 16
void crypto_run_digest(uint8_t out[RUN_DIGEST_BYTES], const void *data, size_t len);

/* ---- base64 without padding, as in ssh pins and crypt strings ---- */

/* The buffer size for the text of n bytes, with the NUL and with the padding, which is written
 * first and then removed. */
#define BASE64_ROOM(n) (((n) + 2) / 3 * 4 + 1)

/* Writes text and NUL, at most BASE64_ROOM(len) bytes; returns the text's length. */
size_t base64_encode(char *text, const uint8_t *p, size_t len);

/* Returns the number of bytes written to out, at most max; -EINVAL: more bytes, or a text that
 * base64_encode() cannot have written. */
int base64_decode(uint8_t *out, size_t max, const char *text);

/* ---- passwords ---- */

/* "scrypt$15$8$1$SALT$HASH" (N = 2^15, r 8, p 1; base64 without padding) of a
 * password, for the users file. The caller frees it; NULL: out of memory. */
char *password_hash(const char *password);

/* True: password matches. Parameters beyond N=2^20, r=32, p=16 are refused. A malformed hash
 * returns false after the time of a valid one. */
bool password_check(const char *password, const char *hash);

/* ---- TLS ---- */

struct tls_ctx;  /* settings of one side; for any thread */
struct tls;      /* one connection */

/* Create a self-signed P-256 certificate for cn, valid for ten years, and its key (mode 0600) as
 * PEM files; each file is written atomically. Creates nothing if both exist. 0, or a negative errno
 * with text; -EPERM: other users may read the key file. */
int tls_make_certificate(const char *certfile, const char *keyfile, const char *cn,
			 struct err *e);
/* A PEM file, or its contents in memory; the name is then for messages only. */
struct tls_pem {
	const char *file;
	const void *text;      /* NULL: read the file */
	size_t len;
};
struct tls_server_settings {
	struct tls_pem cert, key; /* without files the context only checks the other settings */
	const char *ciphers;   /* OpenSSL's names for all TLS versions, separated by colons; NULL:
			        * the system's */
	bool also_1_2;         /* accept TLS 1.2; otherwise 1.3 only */
	bool any_data;         /* tls_start() does not check data connections */
};
struct tls_ctx *tls_server_new_with(const struct tls_server_settings *s, struct err *e);

/* Ask clients for a certificate; they need not have one. Every certificate is accepted; one that
 * is signed by a CA in ca also gets a subject (tls_peer_subject()). ca NULL: for callers that
 * check the pin. Call it before the first connection. 0, or a negative errno with text. */
int tls_ask_client(struct tls_ctx *c, const struct tls_pem *ca, struct err *e);

/* The settings of a client. cafile: the server's certificate is checked against the file's CAs and
 * the host name. NULL: no check, and the caller must check the pin. NULL with text. */
struct tls_ctx *tls_client_new(const char *cafile, struct err *e);
/* Connections of server c keep the handshake for tls_proof(). Call before the first connection. */
void tls_keep_proofs(struct tls_ctx *c);

/* Use this certificate and key for servers that request a client certificate; keyfile NULL: the key
 * is in certfile. 0, or a negative errno with text. */
int tls_use_certificate(struct tls_ctx *c, const char *certfile, const char *keyfile,
			struct err *e);
/* Settings for one connection between two sides that know each other's pins. The context has a new
 * key, with the pin *pin (malloc'd). Both sides use self-signed certificates, so the caller must
 * compare tls_peer_pin(). Sessions cannot be resumed. NULL with text. */
struct tls_ctx *tls_pinned_new(bool server, char **pin, struct err *e);
void tls_ctx_free(struct tls_ctx *c);

/* Complete a handshake on a connected socket within timeout_ms. The socket becomes non-blocking;
 * the caller still owns it. host: the name to send (SNI) and, with a CA, to verify; NULL on the
 * server. resume: for a data connection the control connection with the session to resume;
 * otherwise NULL. A server accepts a data connection only if it resumes a session of this control
 * connection, or if the client shows the same certificate; otherwise -EKEYREJECTED. NULL with text
 * in e, which distinguishes a peer that does not speak TLS, a failed check and a timeout. */
struct tls *tls_start(struct tls_ctx *c, int fd, const char *host, struct tls *resume,
		      int timeout_ms, struct err *e);
/* Send close_notify if the socket has room, and free t; the socket stays open. NULL is harmless. */
void tls_free(struct tls *t);

/* Read or write up to len bytes. One thread may read while another writes. Returns the number of
 * bytes, at least 1; 0 from tls_read(): the peer sent close_notify; -EPIPE: the stream ended
 * without close_notify; -ETIMEDOUT: no progress for timeout_ms (-1: no limit); or a negative
 * errno. */
ssize_t tls_read(struct tls *t, void *p, size_t len, int timeout_ms);
ssize_t tls_write(struct tls *t, const void *p, size_t len, int timeout_ms);

/* The number of received bytes that wait in this process; poll(2) does not show them. The reader's
 * thread. */
size_t tls_pending(struct tls *t);
/* Send close_notify; reading may continue. 0 or a negative errno. */
int tls_shutdown(struct tls *t);

/* secret true: from now on OpenSSL wipes its copy of the plaintext after each read, which costs
 * time; false: it does not. The reader's thread. */
void tls_secret(struct tls *t, bool secret);

/* RFC 8446 §7.5 exporter. 0 or -EIO; -EIO also for TLS 1.2 without RFC 7627, where another
 * connection could have the same keys. */
int tls_export(struct tls *t, const char *label, uint8_t *out, size_t len);

/* The pin of the peer: SHA-256 of its public key (SubjectPublicKeyInfo) as "SHA256:" and base64
 * without padding, as ssh prints keys. The caller frees it; NULL: the peer showed no
 * certificate. */
char *tls_peer_pin(struct tls *t);

/* The subject of the peer's certificate in RFC 2253 form ("CN=alice,O=Example"); the caller frees
 * it. NULL: it has none, or no trusted CA has signed it. */
char *tls_peer_subject(struct tls *t);
/* True: text has the form of a pin, see tls_peer_pin(). */
bool tls_is_pin(const char *text);
/* The pin of a certificate file, for the server to print. The caller frees it; NULL with text. */
char *tls_certificate_pin_pem(const struct tls_pem *cert, struct err *e);
/* Refuse a key file that users other than its owner may read. 0, or a negative errno with text. */
int tls_check_key_file(const char *keyfile, struct err *e);
/* 0; -EKEYEXPIRED with text: the peer's certificate is not yet or no longer valid. */
int tls_peer_validity(struct tls *t, struct err *e);

/* rftp's checks for TLS connections of another library on OpenSSL; must outlive the connections. */
struct tls_hook {
	/* Called in a full handshake of the control connection, with the pin in the form of
	 * tls_peer_pin(). 0: accept the key; or a negative errno with text. NULL: the context's CA
	 * decides. A data connection must have the key of the control connection in both cases. */
	int (*check)(void *arg, const char *pin, struct err *e);
	void *arg;
	const char *host;     /* for texts */
	const char *certfile, *keyfile; /* as for tls_use_certificate(); NULL: none */
	struct err e;         /* of a check or of certfile; the caller clears it */
	bool closed;          /* the peer has sent close_notify; the caller clears it */
	bool holds;           /* data connections send nothing before tls_hook_release() */
	char describe[64];    /* version and cipher of the last handshake; "": there was none */
	char *pin;            /* pin of the control connection; NULL: no full handshake yet */
	/* For tls_hook.c only: */
	void *data, *ssl;     /* the data connection's SSL_CTX and SSL */
	void *session;        /* of the control connection, for data connections */
	void *held;           /* BIO with bytes for tls_hook_release(); NULL */
};

int tls_hook_install(void *ssl_ctx, bool data, struct tls_hook *h);
/* Send the held bytes of the data connection on fd, its socket; later bytes are sent at once. */
void tls_hook_release(struct tls_hook *h, int fd);
/* Send close_notify on the data connection, which is still open and has sent all its data. */
void tls_hook_end(struct tls_hook *h);
/* Free the members of h after the last connection. */
void tls_hook_clear(struct tls_hook *h);

/* The proof of a client's certificate, for a process that does not trust the process that did the
 * handshake: the handshake's messages from the ClientHello to the client's CertificateVerify (RFC
 * 8446 §4.4.3). A longer handshake cannot be proved. */
#define TLS_PROOF_MAX ((size_t)60 << 10)
/* Server: write the proof of this connection. Returns its bytes; -ENOKEY: the client has shown no
 * certificate; -EOPNOTSUPP: not TLS 1.3; -EMSGSIZE: the handshake was too long. */
ssize_t tls_proof(struct tls *t, uint8_t proof[TLS_PROOF_MAX]);
/* The proven client; the members as from tls_peer_pin() and tls_peer_subject(). */
struct tls_proven {
	char *pin, *subject;
};

/* Check that the len bytes of proof are a handshake between a client and the server with the pin
 * server, in which the client proved that it has the key of its certificate. The CAs are those of
 * tls_ask_client() for c. 0; -EBADMSG: not a handshake; -EKEYREJECTED: another server, or a wrong
 * signature; -EKEYEXPIRED: the certificate is not yet or no longer valid; with text. The caller
 * clears out in any case. */
int tls_proof_check(const struct tls_ctx *c, const void *proof, size_t len, const char *server,
		    struct tls_proven *out, struct err *e);
void tls_proven_clear(struct tls_proven *p);

/* Version and cipher, "TLSv1.3 TLS_AES_256_GCM_SHA384"; valid as long as t. */
const char *tls_describe(struct tls *t);

#endif
