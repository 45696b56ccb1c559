// SPDX-License-Identifier: Apache-2.0
/* The users file: who may log in with which password, below which root. */
#ifndef RFTP_SERVER_USERS_H
#define RFTP_SERVER_USERS_H

#include "server/options.h"
#include "util/util.h"

#include <stdbool.h>

/* A line "name:hash:root:home:rights[:system user]". root and home may be empty: the server's
 * --root, and "/". Without a system user it is the server's --files-user. rights: "ro", "rw",
 * "nodelete" (write, but neither remove nor rename), or "upload" (that, and see nothing).
 * Empty lines and lines that begin with "#" are passed over. */
struct user {
	char *name, *hash, *root, *home;
	char *system_user;   /* NULL: not said */
	enum rights rights;
};

void user_clear(struct user *u);
/* One line without its newline: 1 a user; 0 nothing on it; -EINVAL with text. */
int user_parse(const char *line, struct user *u, struct err *e);
/* Look name up in the file: 1; 0: there is no such user, and u has no hash, which password_check
 * takes as long for; or a negative errno with text. The file is read anew each time, so that
 * changes need no restart. Lines that are wrong are said and passed over. */
int users_find(const char *file, const char *name, struct user *u, struct err *e);
/* Nobody but its owner may write the file that says who may log in; what: how it is called. 0 or a
 * negative errno with text. */
int owner_writes(const char *what, const char *file, struct err *e);
/* Every line is good, nobody else may write it. For the start. */
int users_verify(const char *file, struct err *e);

#endif
