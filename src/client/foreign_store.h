// SPDX-License-Identifier: Apache-2.0
/* What foreign_store.c and foreign_store_name.c share; not for others. */
#ifndef RFTP_CLIENT_FOREIGN_STORE_H
#define RFTP_CLIENT_FOREIGN_STORE_H

#include "client/foreign.h"

#include <sys/stat.h>

/* A file under way. */
struct store {
	struct worker *w;
	struct ftask *t;
	int fd;              /* -1: zeros */
	bool stream;         /* standard input: its end is not known, and it comes once */
	uint64_t size;       /* when it is no stream */
	struct stat st;      /* of a file */
	struct meta meta;
	char *part;          /* path there; the target's own with --inplace */
	bool resumable;      /* another run may go on with the part */
	uint64_t at;         /* bytes that are there */
	bool went_on;        /* behind what was there */
	bool changed;        /* the file here, under way */
	bool differs;        /* the server has not what it was sent */
};

/* The path of a name that text stands for, beside the target; malloc'd. */
char *store_name_beside(const struct store *s, const char *text, const char *suffix);

/* All: 0, or a negative errno with text. */

/* A run that ended between two renames has left the target's file under another name: it gets its
 * own back. Before anything is sent. */
int store_restore_old(struct store *s, struct err *e);
/* The part gets mode and time. What the server does not keep is said once. */
int store_dress(struct store *s, struct err *e);
/* And the target's name. */
int store_give_name(struct store *s, struct err *e);

#endif
