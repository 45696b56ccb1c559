// SPDX-License-Identifier: Apache-2.0
/* Inside src/crypto only: what the files tls*.c share. */
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
	bool check; /* the peer's certificate, against a CA and the host name */
	bool proves; /* connections keep what tls_proof gives */
	bool any_data; /* as of struct tls_server_settings */
};

/* The socket under a connection, behind OpenSSL's BIO. Guarded by tls.lock.
 *
 * What OpenSSL writes is kept in out and sent from there, so that no write of OpenSSL
 * ever waits half done: with one under way, OpenSSL 3.0 cannot answer a KeyUpdate that
 * it reads and gives the connection up, and two such peers could block each other.
 * What comes is received in big pieces: OpenSSL would call twice for every record. */
#define WIRE_FIRST 60
struct wire {
	int fd;
	int recv_error, send_error; /* errno; 0: all is well */
	bool ended;                 /* the peer will send no more */
	char first[WIRE_FIRST];     /* the first bytes that came: is it TLS at all? */
	size_t nfirst;
	uint8_t *in;                /* received, not yet OpenSSL's; NULL: nothing */
	size_t in_at, in_end;
	uint8_t *out;               /* OpenSSL's, not yet sent; NULL: nothing */
	size_t out_at, out_end, out_room;
};

struct tls {
	/* Guards everything below. Never held while a thread sleeps in poll, so that
	 * one thread reads while another writes. */
	pthread_mutex_t lock;
	SSL *ssl;
	struct wire wire;
	uint8_t id[16]; /* a server's: sessions of other control connections are not resumed */
	bool ready;  /* hands were shaken, and no error made the connection useless */
	struct buf *proof;  /* the handshake so far; NULL: it is not kept */
	bool proven;        /* the client has signed what is in proof */
	char describe[64];
};

/* A BIO over w, which must outlive it; NULL when memory is out. (tls_wire.c) */
BIO *wire_bio(struct wire *w);
/* Send what the socket takes. 0: all is sent; -EAGAIN: not all; another negative errno,
 * which stays, when the rest can never be sent and is dropped. */
int wire_flush(struct wire *w);
void wire_clear(struct wire *w);

/* Puts into e why the handshake failed with code, in plain words, and returns e's
 * code: the reason OpenSSL has queued decides, if there is one. (tls_why.c) */
int tls_why(struct tls *t, int code, int timeout_ms, struct err *e);
/* What OpenSSL says about its last error, "no reason given" without one; empties the
 * queue. Static text. */
const char *openssl_reason(void);

/* The certificate or key of a PEM file, to be freed; NULL with text in e. A key file
 * that others may read is refused. (tls_cert.c) */
X509 *tls_load_certificate(const char *certfile, struct err *e);
EVP_PKEY *tls_load_key(const char *keyfile, struct err *e);
EVP_PKEY *tls_load_key_pem(const struct tls_pem *key, struct err *e);
/* What can be read of it, to be freed; NULL with text in e. */
BIO *tls_read_pem(const struct tls_pem *p, struct err *e);
/* A file with a passphrase is one that we cannot read. */
int tls_no_passphrase(char *buf, int size, int rwflag, void *arg);
/* A new P-256 key; a certificate for it that it has signed itself. NULL: see openssl_reason. */
EVP_PKEY *tls_new_key(void);
X509 *tls_self_signed(EVP_PKEY *key, const char *cn);
/* Have t keep its handshake from now on, for tls_proof. 0 or -ENOMEM. (tls_proof.c) */
int tls_keep_proof(struct tls *t);
/* RFC 2253, malloc'd; NULL: it has none, or memory is out. */
char *tls_subject_of(X509 *cert);
/* As tls_peer_validity. */
int tls_check_validity(X509 *cert, struct err *e);
/* The pin of a certificate, malloc'd; NULL: it cannot be hashed, or memory is out. */
char *tls_pin_of(X509 *cert);

#endif
