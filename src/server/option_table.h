// SPDX-License-Identifier: Apache-2.0
/* The tables of rftpd's options. Inside src/server only. */
#ifndef RFTP_SERVER_OPTION_TABLE_H
#define RFTP_SERVER_OPTION_TABLE_H

#include "server/option_type.h"
#include "server/options.h"

/* All end with a row without name. */
extern const struct option_def srv_table[];       /* of struct srv_options */
extern const struct option_def srv_user_table[];  /* of [user] and [group]: struct srv_rules */
extern const struct option_def srv_anonymous_table[]; /* the same, of [anonymous] */
extern const struct option_def srv_nic_table[];   /* struct nic_rule */

size_t srv_table_rows(void);
/* NULL: there is none. */
const struct option_def *option_named(const struct option_def *table, const char *name);

/* ---- a load ---- */

struct load {
	struct srv_options *o;
	struct err last;
	unsigned errors;
};

/* Note an error: all but the last are logged. */
void load_error(struct load *l, const struct err *e);
/* Take value for row d of srv_table; line of the file, or 0. */
int load_take(struct load *l, const struct option_def *d, const char *value, unsigned line,
	      struct err *e);
/* Read a file into l->o. must: that it is not there is an error. */
void load_file(struct load *l, const char *file, bool must);

/* rights: the words; NULL at the end. By enum rights, "off" the first. */
extern const char *const srv_rights_words[];

#endif
