// SPDX-License-Identifier: Apache-2.0
/* crypto: everything that needs OpenSSL, behind plain types. Keys are bytes. */
#ifndef RFTP_CRYPTO_H
#define RFTP_CRYPTO_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define KEY_BYTES 32    /* every symmetric key and token */
#define NONCE_BYTES 32  /* handshake nonces */
#define TAG_BYTES 16    /* GCM and GMAC */
#define MAC_BYTES 32    /* HMAC-SHA-256 */

/* ---- random, derivation, MAC ---- */

/* Aborts the process when the kernel has no randomness: there is no safe way on. */
void crypto_random(void *out, size_t len);
/* HKDF-SHA-256 (RFC 5869) of key and salt for the given info. 0 or -EIO. */
int crypto_hkdf(uint8_t *out, size_t outlen, const uint8_t *key, size_t keylen,
		const void *salt, size_t saltlen, const void *info, size_t infolen);
/* HMAC-SHA-256 over the pieces, one after the other. */
int crypto_hmac(uint8_t mac[MAC_BYTES], const uint8_t *key, size_t keylen,
		const struct iovec *iov, int n);
/* In time that does not depend on the bytes. */
bool crypto_equal(const void *a, const void *b, size_t len);
void crypto_wipe(void *p, size_t len);

/* ---- CRC32C ---- */

/* Castagnoli CRC of RFC 3720, with the usual inversion before and after: start with
 * 0 and pass the result on to go on. Uses the CPU's instructions. */
uint32_t crypto_crc32c(uint32_t crc, const void *data, size_t len);

/* ---- sealing of blocks ---- */

struct sealer;

/* AES-256-GCM under one key. One thread at a time per sealer. NULL: memory is out. */
struct sealer *sealer_new(const uint8_t key[KEY_BYTES]);
void sealer_free(struct sealer *s);
/* Encrypt len bytes from in to out (the same place or apart; in == NULL: nothing is
 * encrypted, GMAC over the additional data alone). nonce is the 64-bit counter of
 * the header: never twice under one key. aad is a list of pieces. 0 or -EIO. */
int sealer_seal(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, uint8_t tag[TAG_BYTES]);
/* The inverse. -EBADMSG when the tag does not match: out is then wiped. */
int sealer_open(struct sealer *s, uint64_t nonce, const struct iovec *aad, int naad,
		const uint8_t *in, uint8_t *out, size_t len, const uint8_t tag[TAG_BYTES]);

/* ---- digests of files ---- */

/* Names as FTP HASH spells them: "SHA-256", "SHA-512", "SHA-1", "MD5", "CRC32C",
 * "XXH128". */
struct digest;
#define DIGEST_MAX 64
struct digest *digest_new(const char *name); /* NULL with errno EINVAL: not known */
void digest_free(struct digest *d);
int digest_update(struct digest *d, const void *data, size_t len);
/* Lower-case hex with NUL into hex, which holds 2 * DIGEST_MAX + 1; then d is fresh. */
int digest_final_hex(struct digest *d, char *hex);
/* The names, NULL at the end, the preferred one first. */
const char *const *digest_names(void);

/* XXH3, 128 bits: finds accidents, not attackers. For runs of the journal. */
#define RUN_DIGEST_BYTES 16
void crypto_run_digest(uint8_t out[RUN_DIGEST_BYTES], const void *data, size_t len);

/* ---- passwords ---- */

/* "scrypt$15$8$1$SALT$HASH" (N = 2^15, r 8, p 1; base64 without padding) of a
 * password, for the users file. The caller frees it; NULL: memory is out. */
char *password_hash(const char *password);
/* True when password fits. Parameters beyond N=2^20, r=32, p=16 are refused. A
 * malformed hash takes as long as a good one and is false. */
bool password_check(const char *password, const char *hash);

/* ---- TLS ---- */

struct tls_ctx;  /* settings of one side; any thread */
struct tls;      /* one connection */

/* A self-signed P-256 certificate for cn, good for ten years, and its key (mode
 * 0600) as PEM files, each whole or absent. Does nothing when both exist. A key
 * file that others may read is refused (-EPERM). */
int tls_make_certificate(const char *certfile, const char *keyfile, const char *cn,
			 struct err *e);
/* TLS 1.3 only. */
struct tls_ctx *tls_server_new(const char *certfile, const char *keyfile, struct err *e);
/* A PEM file, or what it has held: then the file is only named, in messages. */
struct tls_pem {
	const char *file;
	const void *text;      /* NULL: it is read */
	size_t len;
};
/* The same with more to say. */
struct tls_server_settings {
	struct tls_pem cert, key; /* no file: only to find out whether the rest is good */
	const char *ciphers;   /* as OpenSSL names them, with colons, of all versions; NULL: the
				* system's */
	bool also_1_2;         /* TLS 1.2 will do */
	bool any_data;         /* tls_start checks no data connection */
};
struct tls_ctx *tls_server_new_with(const struct tls_server_settings *s, struct err *e);
/* Clients are asked for a certificate, which they need not have. cafile NULL: any is taken, for
 * who knows its pin; otherwise one that no CA of the file vouches for is taken as well, but has
 * no subject. Before the first connection. 0, or a negative errno with text. */
int tls_ask_client(struct tls_ctx *c, const char *cafile, struct err *e);
int tls_ask_client_pem(struct tls_ctx *c, const struct tls_pem *ca, struct err *e);
/* cafile NULL: the peer's certificate is not checked against any CA, the caller must
 * check the pin; otherwise checked against it and the host name. */
struct tls_ctx *tls_client_new(const char *cafile, struct err *e);
/* The same, and TLS 1.2 will do: for servers that are not ours. */
struct tls_ctx *tls_client_new_any(const char *cafile, struct err *e);
/* Connections of c, a server's, keep what tls_proof gives. Before the first connection. */
void tls_keep_proofs(struct tls_ctx *c);
/* Show servers that ask for it this certificate, with its key; keyfile NULL: it is in the same
 * file. 0, or a negative errno with text. */
int tls_use_certificate(struct tls_ctx *c, const char *certfile, const char *keyfile,
			struct err *e);
/* For a single use between two sides that were told each other's pins: with a key of its own,
 * made here and gone with it, whose pin it gives in *pin (malloc'd). Both sides show
 * certificates, which nobody signed: the caller must compare tls_peer_pin. No session of it can
 * be resumed. */
struct tls_ctx *tls_pinned_new(bool server, char **pin, struct err *e);
void tls_ctx_free(struct tls_ctx *c);

/* Wrap a connected socket, which becomes non-blocking and stays the caller's, and
 * shake hands within timeout_ms. host: the name that is sent (SNI) and, with a CA,
 * checked; NULL on the server. resume: for a data connection its control
 * connection, whose session is resumed; else NULL. A server takes a data connection only if it
 * resumes a session of that control connection and of no other, or shows the certificate that was
 * shown there (-EKEYREJECTED). NULL with text in e: it tells a peer that does not speak TLS from a
 * failed check from a timeout. */
struct tls *tls_start(struct tls_ctx *c, int fd, const char *host, struct tls *resume,
		      int timeout_ms, struct err *e);
/* Sends close_notify when it can, frees; the fd stays open. NULL is harmless. */
void tls_free(struct tls *t);
/* One thread may read while another writes. Bytes done, at least 1; 0 from read
 * after the peer's close_notify; -EPIPE when the peer went without one; -ETIMEDOUT
 * when nothing moved for timeout_ms (-1: never); other negative errno. */
ssize_t tls_read(struct tls *t, void *p, size_t len, int timeout_ms);
ssize_t tls_write(struct tls *t, const void *p, size_t len, int timeout_ms);
/* Bytes already decrypted and waiting, which poll(2) does not show. */
size_t tls_pending(struct tls *t);
/* close_notify now; reading may go on. */
int tls_shutdown(struct tls *t);
/* From now on what has been read is wiped here (secret), or no more: that takes time. The reader's
 * thread. */
void tls_secret(struct tls *t, bool secret);
/* RFC 8446 §7.5 exporter. -EIO also under a TLS 1.2 without RFC 7627, whose keys could be those of
 * another connection as well. */
int tls_export(struct tls *t, const char *label, uint8_t *out, size_t len);
/* SHA-256 of the peer's public key (SubjectPublicKeyInfo), "SHA256:" and base64
 * without padding, as ssh shows keys. The caller frees it; NULL: no certificate. */
char *tls_peer_pin(struct tls *t);
/* The subject of the peer's certificate, as RFC 2253 writes it ("CN=alice,O=Example"): the caller
 * frees it. NULL: it has none, or no CA that we trust vouches for it. */
char *tls_peer_subject(struct tls *t);
/* text in the form that tls_peer_pin has. */
bool tls_is_pin(const char *text);
/* The pin of a certificate file, for the server to print. */
char *tls_certificate_pin(const char *certfile, struct err *e);
char *tls_certificate_pin_pem(const struct tls_pem *cert, struct err *e);
/* A key file that others than its owner may read is none to use: 0, or a negative errno with
 * text. */
int tls_check_key_file(const char *keyfile, struct err *e);
/* 0; -EKEYEXPIRED with text when the peer's certificate is not yet or no more valid. */
int tls_peer_validity(struct tls *t, struct err *e);

/* What a client's certificate was shown by, for a process that has seen nothing of it and does not
 * believe the one that has: the handshake's messages from the ClientHello to the client's
 * CertificateVerify (RFC 8446 §4.4.3). In bytes; a longer handshake cannot be shown. */
#define TLS_PROOF_MAX ((size_t)60 << 10)
/* Of a connection of a server: the bytes put into proof; -ENOKEY: the client has shown no
 * certificate; -EOPNOTSUPP: it was not TLS 1.3; -EMSGSIZE. */
ssize_t tls_proof(struct tls *t, uint8_t proof[TLS_PROOF_MAX]);
/* Who made it: as tls_peer_pin and tls_peer_subject. */
struct tls_proven {
	char *pin, *subject;
};
/* Do len bytes show that somebody, at some time, has shaken hands with the server whose pin is
 * server, and has the key of the certificate that he showed? By the authorities that c was told
 * of with tls_ask_client. 0; -EBADMSG: it is no handshake; -EKEYREJECTED: a wrong server, or key;
 * -EKEYEXPIRED: not yet or no more; with text. out is to be cleared in any case. */
int tls_proof_check(const struct tls_ctx *c, const void *proof, size_t len, const char *server,
		    struct tls_proven *out, struct err *e);
void tls_proven_clear(struct tls_proven *p);

/* Version and cipher, "TLSv1.3 TLS_AES_256_GCM_SHA384"; lives as long as t. */
const char *tls_describe(struct tls *t);

#endif
