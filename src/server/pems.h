// SPDX-License-Identifier: Apache-2.0
/* The certificate of the server, its key, and the CAs of clients, as PEM: read once from files, and
 * handed to other processes in memory that none of them can change. */
#ifndef RFTP_SERVER_PEMS_H
#define RFTP_SERVER_PEMS_H

#include "crypto/crypto.h"

enum { PEM_CERT, PEM_KEY, PEM_CA, PEMS };

struct pems {
	struct tls_pem pem[PEMS];      /* text NULL: there is none */
	char *file[PEMS], *text[PEMS]; /* what pem shows, ours */
};

/* Each file once, so that what is found good is what is used; ca may be NULL. A key that others may
 * read is refused. 0, or a negative errno with text: then there is nothing to clear. */
int pems_read(struct pems *p, const char *cert, const char *key, const char *ca, struct err *e);
/* Wiped, too. */
void pems_clear(struct pems *p);

/* Empty memory with a descriptor, for pems_seal; or a negative errno with text. */
int pems_memory(struct err *e);
/* Copy p into it; nobody can change it then. 0, or a negative errno with text. */
int pems_seal(const struct pems *p, int fd, struct err *e);
/* Read what was sealed, from wherever fd stands. As pems_read. */
int pems_unseal(struct pems *p, int fd, struct err *e);
/* The same without the key, of which nothing is read. */
int pems_unseal_public(struct pems *p, int fd, struct err *e);

#endif
