// SPDX-License-Identifier: Apache-2.0
/* What foreign_get.c and foreign_get_dir.c share; not for others. */
#ifndef RFTP_CLIENT_FOREIGN_GET_H
#define RFTP_CLIENT_FOREIGN_GET_H

#include "client/foreign.h"

/* Functions give 0 or a negative errno; those with an err its text, too. */

/* Make name in d, for the directory called sub. It may be there. */
int get_make_dir(struct foreign *f, struct fdir *d, const char *name, struct fdir *sub,
		 struct err *e);
/* d gets mode and time of what the server says of it. */
void get_dir_facts(struct fdir *d, const struct ftp_facts *f);
/* A task for sub, whose reference is taken over. */
int get_push_dir(struct foreign *f, struct fdir *sub);
/* One for the file name in d; remote is taken over, facts are copied. */
int get_push_file(struct foreign *f, struct fdir *d, const char *name, char *remote,
		  const struct ftp_facts *facts, bool follow);
/* f is of a link: what it leads to, where that is to be copied in its place. */
int get_resolve(struct worker *w, const char *remote, struct ftp_facts *f, struct err *e);

/* Of struct foreign_ops. */
int get_dir(struct worker *w, struct ftask *t, struct err *e);
void get_leave(struct worker *w, struct fdir *d);

#endif
