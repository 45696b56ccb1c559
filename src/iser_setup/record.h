// SPDX-License-Identifier: Apache-2.0
/* open-iscsi's record of a node, the file that iscsiadm keeps for a target at a portal: what
 * iscsiadm takes by its arguments alone, where everybody could read it, is put into the file. */
#ifndef RFTP_ISER_RECORD_H
#define RFTP_ISER_RECORD_H

#include "iser_setup/login.h"
#include "iser_setup/secret_file.h"

struct record_setting {
	const char *name, *value; /* value NULL: the record is to say nothing of it */
};

/* text with each setting in place of what it says of it. NULL with text: it is no record
 * (-EBADMSG), or memory is out. What is returned is the caller's, and holds secrets. */
char *record_edit(const char *text, const struct record_setting *set, size_t n, struct err *e);
/* Does what iscsiadm shows of a record say the same? It shows secrets as stars. 0, or -EBADMSG with
 * the first that differs. */
int record_check(const char *shown, const struct record_setting *set, size_t n, struct err *e);

/* Where open-iscsi keeps its records and its lock, which differ between distributions. root: "" or,
 * for tests, a directory to put before. */
struct record_place {
	char nodes[160], lock_dir[160];
};
void record_place_find(struct record_place *at, const char *root);
/* The file of a target at a portal with an interface: 0; -ENOENT: there is none. */
int record_file(const struct record_place *at, const struct login_target *t, const char *iface,
		char *path, size_t room);
/* What a record_set that was killed has left beside it, with secrets, is removed. For who has the
 * record to himself. */
void record_drop_halves(const struct record_place *at, const struct login_target *t,
			const char *iface);
/* Edits path under open-iscsi's lock; whole or not at all, for root alone to read. 0, or a negative
 * errno with text: -EBUSY: somebody else has held the lock for long. */
int record_set(const struct record_place *at, const char *path, const struct record_setting *set,
	       size_t n, struct err *e);

#endif
