// SPDX-License-Identifier: Apache-2.0
/* From one plan to another on the model of a host, by the steps that apply and remove take. */
#ifndef RFTP_TEST_ISER_WAY_H
#define RFTP_TEST_ISER_WAY_H

#include "tests/support/iser-model.h"

#define NODE0 "iqn.2026-01.org.example:node0"
#define NODE1 "iqn.2026-01.org.example:node1"
#define ME "iqn.2026-01.org.example:me"
#define YOU "iqn.2026-01.org.example:you"
#define SERIAL(n) "\"serial\": \"00000000-0000-4000-8000-00000000000" #n "\""

/* A plan called "p" for two nodes: on one a tmpfs "t" at /m/t and a ramdisk "r" for ME, with CHAP
 * both ways; on the other a file "f", /d/f, and a device "b", for anyone. All are of 1 MiB. what in
 * it is changed to that; NULL: as it is. The caller's. */
struct iser_plan *way_plan(const char *what, const char *that);

/* What may differ between two plans. */
struct way_change {
	const char *name, *what, *that;
};

extern const struct way_change way_changes[];
extern const size_t way_n_changes;
const struct way_change *way_named(const char *name); /* fails the test when there is none */

/* Where the host is. */
struct way {
	struct iser_state state;
	struct iser_steps steps;
	struct iser_state other;
	bool destroy, force, restarted;
	const char *cpus;
};

/* A host with others' things, of which these tests are to know nothing. */
void way_begin(struct way *w);
void way_end(struct way *w);
/* And so do plans a and b; NULL is none. */
void way_leave(struct way *w, struct iser_plan *a, struct iser_plan *b);
/* The same after a start of the host, which applied was applied before; nothing may be lost. */
void way_begin_again(struct way *w, struct iser_plan *applied);
void way_forget_made(struct way *w);
/* w->steps are those to want; NULL: to nothing of ours. */
void way_steps(struct way *w, const struct iser_plan *want);
void way_no_problems(const struct way *w);
/* The first n; what apply keeps of them, too. */
void way_do(struct way *w, size_t n);
void way_undo(const struct way *w, size_t n);
/* All of it; want becomes what was applied, and stays the caller's. */
void way_arrive(struct way *w, struct iser_plan *want);

/* Fails the test when the host is not as want has it. */
void way_same(const char *want, const char *what);
/* What a host is like with only this plan; NULL: none. malloc'd. */
char *way_alone(struct iser_plan *p);

#endif
