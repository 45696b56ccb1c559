// SPDX-License-Identifier: Apache-2.0
/* Who a process is, and becoming somebody for good. */
#ifndef RFTP_SERVER_IDENTITY_H
#define RFTP_SERVER_IDENTITY_H

#include "util/util.h"

#include <sys/types.h>

/* A system user. */
struct identity {
	char *name, *home;
	uid_t uid;
	gid_t gid;
	gid_t *groups;   /* all, gid too */
	int ngroups;
};

/* From the system's tables. 0; -ENOENT: there is no such user; or another negative errno; with
 * text. */
int identity_of(const char *name, struct identity *id, struct err *e);
void identity_clear(struct identity *id);
/* This process, which is root's, is id's from now on: its groups, its user, no capability and
 * none to be had, not traced by others of the same user. If it was to die with its parent, it
 * still does. On an error it is something between
 * the two and must end. One thread only. */
int identity_assume(const struct identity *id, struct err *e);

#endif
