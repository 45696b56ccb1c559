// SPDX-License-Identifier: Apache-2.0
/* Makes a plan of what is asked and of where things are; touches nothing. */
#ifndef RFTP_ISER_PLANNER_H
#define RFTP_ISER_PLANNER_H

#include "iser_setup/cards.h"
#include "iser_setup/lines.h"
#include "iser_setup/plan.h"
#include "iser_setup/spec.h"

#define PLANNER_MOUNTS "/run/rftp-iser"       /* below it tmpfs are mounted */
#define PLANNER_SECRETS "/etc/rftp-iser"      /* in it secrets are generated */

/* The host that is planned for. */
struct planner_host {
	const struct topo *topo;
	const struct host_addresses *addresses;
	const char *name;  /* "store1.example.org" */
	const char *month; /* of now, "2026-11" */
	bool own;          /* it is this one, so that its files and devices may be looked at */
};

/* The same is planned again of the same: also its serials, by which initiators know disks, come
 * from the names. s: spec_locate was there. notes: what an administrator should think about, is
 * added. NULL with text. */
struct iser_plan *planner_plan(const struct spec *s, const struct planner_host *h,
			       struct lines *notes, struct err *e);

/* The plan's name as planner_plan chooses it; malloc'd. NULL: memory is out. */
char *planner_name(const struct spec *s, const struct planner_host *h);
/* The file for a secret that is to be generated, of an initiator's chap, or its mutual-chap;
 * malloc'd. NULL: memory is out. */
char *planner_secret(const struct spec *s, const char *plan, const char *initiator, bool mutual);

/* What to think about in any plan, also one that was edited: who may log in, what may be lost, and
 * what does not go with h, of which name and month do not matter; added to notes. */
void iser_plan_doubts(const struct iser_plan *p, const struct planner_host *h,
		      struct lines *notes);
/* A line for each back store: what it is, where, and how what is written to it is kept. */
void iser_plan_stores(const struct iser_plan *p, struct lines *notes);

#endif
