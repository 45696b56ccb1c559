// SPDX-License-Identifier: Apache-2.0
/* Is what LIO serves what the plan says? Pure: a line for each thing that was looked at. */
#ifndef RFTP_ISER_JUDGE_H
#define RFTP_ISER_JUDGE_H

#include "iser_setup/facts.h"
#include "iser_setup/system.h"

enum judged {
	JUDGED_OK,
	JUDGED_WRONG,
	JUDGED_UNSEEN, /* it could not be looked at */
	JUDGED_KINDS
};

extern const char *const judged_words[JUDGED_KINDS]; /* "ok", "wrong", "unseen" */

struct finding {
	enum judged judged;
	const char *check; /* one of a fixed set of words, "portal-iser"; for programs */
	char *about;       /* the plan's, a target's, ...: "portal 10.0.0.1:3260 of iqn..." */
	char *text;        /* "iSER is off" */
	char *mend;        /* NULL when it is ok */
};

struct findings {
	struct finding *v;
	size_t n;
	size_t wrong, unseen;
	bool lost;         /* memory was out for one */
};

struct judge_ask {
	const struct iser_plan *plan; /* that was applied, or was being applied */
	bool unfinished;              /* an apply of it has not come to its end */
	const struct lio *now;
	const struct facts *facts;
};

/* 0 or -ENOMEM. f is findings_clear's in any case, and refers to nothing of a. */
int judge(const struct judge_ask *a, struct findings *f);
void findings_clear(struct findings *f);

#endif
