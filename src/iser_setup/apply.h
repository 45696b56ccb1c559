// SPDX-License-Identifier: Apache-2.0
/* From what this host serves to what a plan wants, or to nothing of it; whole, or as before. */
#ifndef RFTP_ISER_APPLY_H
#define RFTP_ISER_APPLY_H

#include "iser_setup/carry.h"
#include "iser_setup/plan.h"

struct change_options {
	const char *state_dir;   /* NULL: the default */
	bool dry, destroy, force;
	bool keep;               /* remove: it stays known that the plan was applied */
	unsigned lock_wait;      /* seconds, for another rftp-iser that is at it */
	const struct stop *stop;
	iser_say *say;           /* what is done, as it is; dry: what would be */
	void *arg;
};

/* What came of it; change_clear's. */
struct change_report {
	struct lines notes;      /* what one should know besides */
	struct lines problems;   /* why nothing was begun */
	struct lines left;       /* what could not be taken back */
	struct lines steps;      /* those that were done, or would be */
	bool undone;             /* something was done, and taken back */
	bool lost;               /* and what back stores held went with it */
};

/* 0: this host serves what want says. -EINVAL: nothing was begun, for the problems in r.
 * -EBUSY: another rftp-iser still is at it. -EINTR: stopped, and as before. Or another negative errno;
 * all with text. Once it is begun it is either done or taken back, but for what is in r->left;
 * after a kill the next change of the same name finds what there is. */
int change_apply(const struct iser_plan *want, const struct change_options *o,
		 struct change_report *r, struct err *e);
/* 0: what was made for the plan called name is no more. What fails is not taken back, but stays
 * known, so that it can be done again. -ENOENT: there is none of this name. */
int change_remove(const char *name, const struct change_options *o, struct change_report *r,
		  struct err *e);
void change_clear(struct change_report *r);

#endif
