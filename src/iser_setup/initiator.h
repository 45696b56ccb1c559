// SPDX-License-Identifier: Apache-2.0
/* open-iscsi's iscsiadm, told one thing at a time. Secrets are never among its arguments. All: 0,
 * or a negative errno with text. */
#ifndef RFTP_ISER_INITIATOR_H
#define RFTP_ISER_INITIATOR_H

#include "iser_setup/record.h"

/* How often iscsid tries to log in: now and then the kernel refuses it a question. */
#define INITIATOR_RETRIES "3"

/* -ENOENT with the package to install, when it is missing. */
int initiator_there(const struct stop *stop, struct err *e);
/* What SendTargets says at p, as iscsiadm prints it; nothing of it is kept. It goes over TCP,
 * whatever the sessions will. */
int initiator_discover(const struct login_portal *p, const struct stop *stop, char **text,
		       struct err *e);

struct initiator_wish {
	enum login_transport transport;
	const char *user, *secret;           /* NULL: no CHAP */
	const char *mutual_user, *mutual_secret;
	bool tune;
	unsigned wait;                       /* seconds that a login may take */
};

/* The record by which initiator_login logs in. Whatever was at its place is gone. */
int initiator_record(const struct record_place *at, const struct login_target *t,
		     const struct initiator_wish *w, const struct stop *stop, struct err *e);
/* -EACCES: the target or this host would not believe who the other is; -EEXIST: there is a session
 * that is not of this call. */
int initiator_login(const struct login_target *t, enum login_transport transport,
		    const struct stop *stop, struct err *e);
int initiator_logout(const char *iqn, const struct login_portal *p, enum login_transport transport,
		     const struct stop *stop, struct err *e);
/* The record of it, and what initiator_record has left that was killed. One that is not there is no
 * error. */
int initiator_forget(const struct record_place *at, const struct login_target *t,
		     enum login_transport transport, const struct stop *stop, struct err *e);

/* Pure: what a login that ended with this status of iscsiadm's means, before its own words. */
int initiator_explain(int status, const struct login_target *t, enum login_transport transport,
		      struct err *e);

#endif
