// SPDX-License-Identifier: Apache-2.0
/* Findings while they are being made; for judge*.c. */
#ifndef RFTP_ISER_JUDGING_H
#define RFTP_ISER_JUDGING_H

#include "iser_setup/judge.h"

#define ABOUT_MAX 400u
#define MEND_MAX 700u
#define AGAIN "apply the plan again"

struct judging {
	const struct judge_ask *a;
	struct findings *f;
	char about[ABOUT_MAX]; /* of those to come */
	char mend[MEND_MAX];
};

void judging_about(struct judging *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A mend made of a format; j's until the next. */
const char *judging_mend(struct judging *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void judging_ok(struct judging *j, const char *check, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
void judging_wrong(struct judging *j, const char *check, const char *mend, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
void judging_unseen(struct judging *j, const char *check, const char *mend, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* now is as it was wanted, or not, to be set right by applying again. */
void judging_attribute(struct judging *j, const char *name, const struct attribute_fact *now,
		       unsigned long long wanted);

/* ---- judge_store.c ---- */

/* A back store of target t, and its LUN; there: NULL when LIO does not have the target. */
void judge_store(struct judging *j, const struct iser_store *s, const struct store_facts *f,
		 const struct iser_target *t, const struct lio_target *there);

/* ---- judge_access.c ---- */

/* Where a target that LIO has is listened for, and who may log in. */
void judge_portals(struct judging *j, const struct iser_target *t, const struct target_facts *f,
		   const struct lio_target *there);
void judge_initiators(struct judging *j, const struct iser_target *t,
		      const struct target_facts *f, const struct lio_target *there);

#endif
