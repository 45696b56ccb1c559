// SPDX-License-Identifier: Apache-2.0
/* For rftp doctor: doctor.c checks the path, ends.c judges the facts of both ends. Main thread. */
#ifndef RFTP_CLIENT_COMMANDS_DOCTOR_H
#define RFTP_CLIENT_COMMANDS_DOCTOR_H

#include "client/servers.h"

enum verdict { OK, UNKNOWN, WARNING, WRONG, VERDICTS };

/* One end of the path. A server's facts are claims of its rftpd: any of them may be missing, or
 * have another type. */
struct side {
	const char *name;      /* "here", "there" */
	json_t *facts, *later; /* before and after the measurement; NULL: not known */
	const char *card;      /* the card of the path, in facts; NULL: not known */
};

struct doctor {
	const struct job *job;
	unsigned count[VERDICTS];
	struct side here, there;
	uint64_t time_ns; /* of each measurement */
	const char *dir;  /* the directory whose storage is measured here */
	const char *host; /* of the server; NULL: none is checked */
	/* The path; 0: not known. */
	uint64_t rtt_ns, mbps;
	double put, get;            /* bytes per second */
	struct agreement agreement; /* of the last measurement */
	bool measured;
};

/* Print the line of a check. where: "here", "there" or "path". remedy: a command; NULL: there is
 * none. */
void doctor_say(struct doctor *d, enum verdict v, const char *where, const char *check,
		const char *remedy, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/* The i-th fact of a kind; NULL: there is none. */
json_t *fact_get(const json_t *facts, const char *kind, size_t i);
/* The member of a fact as printable(); "" if there is none. */
const char *fact_text(const json_t *o, const char *key);
/* The member of a fact, rounded down; -1: there is none. */
int64_t fact_number(const json_t *o, const char *key);
/* The fact of the card of the path; NULL: not known. */
json_t *side_card(const struct side *s);

/* Judge the facts of one end. After the measurement of the path, if there is one. */
void doctor_check_side(struct doctor *d, struct side *s);

#endif
