// SPDX-License-Identifier: Apache-2.0
/* Steps while they are being made; for steps*.c. */
#ifndef RFTP_ISER_MAKER_H
#define RFTP_ISER_MAKER_H

#include "iser_setup/steps.h"

/* What becomes of a back store that is wanted. */
enum fate {
	FATE_KEEP,
	FATE_MAKE,   /* it is not there */
	FATE_AGAIN,  /* it is taken away and made again; what it holds stays */
	FATE_AFRESH, /* the same, and initiators find something else, or nothing, in it */
};

struct maker {
	const struct iser_ask *a;
	struct iser_steps *out;
	bool failed;           /* memory is out */
	enum fate *fates;      /* of want's stores, targets by targets */
};

/* One more step; text as for printf. request and undo may be NULL, and their references are
 * taken. Never NULL: without memory it is one that nobody will see. */
struct iser_step *maker_add(struct maker *m, json_t *request, json_t *undo, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* Only something to take back, what the next steps destroy. */
void maker_undo(struct maker *m, json_t *undo);
#define maker_problem(m, ...) lines_add(&(m)->out->problems, __VA_ARGS__)
#define maker_note(m, ...) lines_add(&(m)->out->notes, __VA_ARGS__)
/* Notes each attribute of old that now has not, of the kind ("target") called name: it stays as it
 * is, for what LIO had before it is not known. */
void maker_note_dropped(struct maker *m, const char *kind, const char *name,
			const struct iser_attribute *old, size_t n_old,
			const struct iser_attribute *now, size_t n_now);

/* Attributes of a target or a back store. whose: the request that sets one, without which and to
 * what; its reference is taken. dir: where it is in configfs; NULL: it is new. */

/* Sets those that are not so by now; the kind ("target") called name is for people. */
void maker_set_attributes(struct maker *m, json_t *whose, const char *dir,
			  const struct iser_attribute *list, size_t n, const char *kind,
			  const char *name);
/* What is going to be deleted would get back those that it has by now. */
void maker_undo_attributes(struct maker *m, json_t *whose, const char *dir,
			   const struct iser_attribute *list, size_t n);

/* Plans that say what is ours; some are NULL. */
#define ours_count(m) iser_state_plans((m)->a->state)
#define ours(m, i) iser_state_plan((m)->a->state, i)

/* ---- steps_store.c ---- */

/* What is to become of each store that is wanted; what forbids it becomes a problem. */
void stores_decide(struct maker *m);
/* The fate of a store by what LIO calls it: FATE_KEEP, or what ends it; MAKE when it is not in
 * LIO. A store of ours that is not wanted ends, too. */
bool store_ends(const struct maker *m, const char *plugin, const char *name);
/* Is it one that a plan of ours names? */
const struct iser_store *store_ours(const struct maker *m, const char *plugin, const char *name);
void stores_take(struct maker *m); /* away */
void stores_make(struct maker *m);

/* ---- steps_mount.c ---- */

/* The mount a tmpfs store stands on: is it as the store wants it? */
bool mount_fits(const struct iser_store *s, const struct tmpfs_mount *mount);
/* Is it a mount of ours, of the first so many plans? */
bool mount_ours(const struct maker *m, const struct tmpfs_mount *mount, size_t plans);
/* Without those that are ours and not needed any more. */
void mounts_take(struct maker *m);
/* The directories, the tmpfs and the file that s stands on. */
void store_ground(struct maker *m, const struct iser_store *s, bool afresh);
/* Is it the file of a store of ours? */
bool file_ours(const struct maker *m, const char *path);
/* What was made for stores and is needed no more. */
void made_take(struct maker *m);

/* ---- steps_target.c ---- */

void targets_decide(struct maker *m);
void targets_take(struct maker *m);
void targets_make(struct maker *m);

/* Is it a target of ours, of the first so many plans? */
bool target_ours(const struct maker *m, const char *iqn, size_t plans);
/* What is changed would harm who is logged in to t; a problem unless it is forced. */
void target_disturbed(struct maker *m, const struct lio_target *t, const char *what);

/* ---- steps_acl.c ---- */

/* Of a target that stays: initiators that it is to have no more, or anew. */
void acls_take(struct maker *m, const struct iser_target *want, const struct lio_target *there);
/* Does a plan of ours let it in? */
bool acl_ours(const struct maker *m, const char *iqn, const char *initiator);
void acl_take(struct maker *m, const struct lio_target *t, const struct lio_acl *acl);
/* there: NULL when the target is new. */
void acls_make(struct maker *m, const struct iser_target *want, const struct lio_target *there);

#endif
