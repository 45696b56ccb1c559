// SPDX-License-Identifier: Apache-2.0
/* A change under way; for change.c, apply.c and remove.c. */
#ifndef RFTP_ISER_CHANGE_H
#define RFTP_ISER_CHANGE_H

#include "iser_setup/apply.h"
#include "iser_setup/checks.h"
#include "iser_setup/cpus.h"

struct change {
	const struct change_options *o;
	struct change_report *report;
	const struct iser_plan *want;   /* NULL: it is to go */
	struct topo *t;
	struct iser_state state;        /* locked, unless it is dry */
	struct iser_state before;       /* as it was found */
	struct iser_state *others;
	size_t n_others;
	struct iser_secrets secrets;
	struct lio *now;
	char *cpus, *cpus_before;       /* of iser_cpus_list */
	struct iser_irq *irqs;
	size_t n_irqs;
	struct iser_steps steps;
	struct carry carry;
};

/* All that is read, and from it the steps; c's name and options are set. In r->problems when there
 * are any. 0, or a negative errno with text. c is change_end's in any case. */
int change_begin(struct change *c, const char *name, struct err *e);
void change_end(struct change *c);

/* Problems found: -EINVAL, with a text that sums up. */
int change_problems(const struct change *c, const char *what, struct err *e);
/* Each step, as if it were done. */
void change_tell(struct change *c);
/* What c->state is to know before anything is made; it is written. 0, or with text. */
int change_keep(struct change *c, struct err *e);
/* A carry_keep, whose arg is the change: directories and files are written down one by one, each
 * right before it is made. All at once they would be taken for ours if this were killed in between
 * and somebody else made one of them. */
int change_made(void *arg, const json_t *request, int code, struct err *e);
/* And what it is to know no more: what is not there any longer, or could not be had. */
void change_tidy(struct change *c);

#endif
