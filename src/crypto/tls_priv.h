// SPDX-License-Identifier: Apache-2.0
/* For src/crypto/tls*.c and their tests only. */
#ifndef RFTP_CRYPTO_TLS_PRIV_H
#define RFTP_CRYPTO_TLS_PRIV_H

#include "crypto/crypto.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <pthread.h>

struct tls_ctx {
	SSL_CTX *ctx;
	bool server;
	bool check; /* check the peer's certificate against a CA and the host name */
	bool proves; /* connections keep the handshake for tls_proof */
	bool any_data; /* as of struct tls_server_settings */
};

/* The socket under a connection, behind OpenSSL's BIO. Guarded by tls.lock.
 *
 * OpenSSL's output is copied to out and sent from there, so that OpenSSL's writes are never
 * incomplete. During an incomplete write OpenSSL 3.0 cannot answer a KeyUpdate that it reads, and
 * closes the connection; and two such peers could block each other. Input is received in large
 * pieces, because OpenSSL itself would call recv(2) twice for each record. */
#define WIRE_FIRST 60
struct wire {
	int fd;
	int recv_error, send_error; /* errno; 0: no error */
	bool ended;                 /* the end of the stream was received */
	char first[WIRE_FIRST];     /* the first bytes received: to detect a peer without TLS */
	size_t nfirst;
	uint8_t *in;                /* received, not yet read by OpenSSL; NULL: nothing */
	size_t in_at, in_end;
	uint8_t *out;               /* written by OpenSSL, not yet sent; NULL: nothing */
	size_t out_at, out_end, out_room;
};

struct tls {
	/* Guards everything below. Not held during poll(2): one thread can read while another
	 * writes. */
	pthread_mutex_t lock;
	SSL *ssl;
	struct wire wire;
	uint8_t id[16]; /* server: session id context of the control connection */
	bool ready;  /* after the handshake, until an error makes the connection useless */
	struct buf *proof;  /* the handshake messages so far; NULL: not kept */
	bool proven;        /* the client has signed the messages in proof */
	char describe[64];
};

/* OpenSSL's reason for its last error, or "no reason given"; empties the thread's error queue.
 * Static text. (tls.c) */
const char *openssl_reason(void);

/* The certificate or key of a PEM file, which the caller frees; NULL with text in e. A key file
 * that other users may read is refused. (tls_ctx.c) */
X509 *tls_load_certificate(const struct tls_pem *cert, struct err *e);
EVP_PKEY *tls_load_key(const struct tls_pem *key, struct err *e);

/* As tls_use_certificate. (tls_ctx.c) */
int tls_use_files(SSL_CTX *ctx, const char *certfile, const char *keyfile, struct err *e);
/* A new P-256 key; NULL: see openssl_reason(). */
EVP_PKEY *tls_new_key(void);
/* From now on keep the handshake of t for tls_proof(). 0 or -ENOMEM. (tls_proof.c) */
int tls_keep_proof(struct tls *t);
/* The subject in RFC 2253 form, malloc'd; NULL: it is empty, or out of memory. */
char *tls_subject_of(X509 *cert);
/* As tls_peer_validity. */
int tls_check_validity(X509 *cert, struct err *e);
/* The pin of a certificate, malloc'd; NULL: it cannot be hashed, or out of memory. */
char *tls_pin_of(X509 *cert);

#endif
