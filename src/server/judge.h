// SPDX-License-Identifier: Apache-2.0
/* Whose certificate a client has shown: found out where it can do no harm, for a stranger has made
 * what is read. */
#ifndef RFTP_SERVER_JUDGE_H
#define RFTP_SERVER_JUDGE_H

#include "server/monitor.h"
#include "server/server.h"

enum {
	PIN_ROOM = 64,
	SUBJECT_ROOM = 64 << 10, /* a longer one is nobody's */
};

/* What the child has found, which may be whoever has made the certificate by then. */
struct judged {
	char pin[PIN_ROOM];         /* "": none */
	char subject[SUBJECT_ROOM]; /* "": none */
};

/* By a process of root's: what tls_proof_check finds of p, in a child that has no rights, no key
 * and nothing open, and limit_s seconds; with sv->sealed, which stays open. 0, or as
 * tls_proof_check or apart, with text that is fit for a log. shown is to be cleared in any case. */
int judge_proof(const struct server *sv, const struct gate_proof *p, unsigned limit_s,
		struct tls_proven *shown, struct err *e);
/* What j says, if it is what it should be; it may change meanwhile. 0, -EPROTO, or -ENOMEM: then
 * there is nothing in shown. */
int judged_read(const struct judged *j, struct tls_proven *shown);

#endif
