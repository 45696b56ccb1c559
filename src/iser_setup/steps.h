// SPDX-License-Identifier: Apache-2.0
/* The way from what this host serves to what a plan wants: what is to be done, in order, each with
 * what takes it back. Changes nothing; looks only through what it is given. */
#ifndef RFTP_ISER_STEPS_H
#define RFTP_ISER_STEPS_H

#include "iser_setup/lines.h"
#include "iser_setup/secrets.h"
#include "iser_setup/state.h"
#include "iser_setup/system.h"

#define ISER_MOUNT_SOURCE "rftp-iser" /* as what a tmpfs of ours is mounted */

/* Requests are those of worker.h, and for what is no part of LIO (local.h): make-dir, remove-dir,
 * make-file, cut-file, remove-file, mount, unmount, set-irq. */
struct iser_step {
	char *text;           /* for people; NULL: there is only something to take back */
	int node;             /* by whose hands; NODE_UNKNOWN: any */
	json_t *request;      /* NULL: nothing */
	json_t *undo;         /* NULL: nothing; after the undos of the later steps */
	int64_t memory;       /* bytes of the node's that it takes, or, when negative, gives back */
	bool strictly;        /* from that node and no other */
	bool may_fail;        /* that is said, and no reason to give up */
	bool lossy;           /* what it takes away, its undo makes again, but empty */
};

struct iser_steps {
	struct iser_step *v;
	size_t n;
	struct lines notes;    /* what one should know besides */
	struct lines problems; /* why it cannot be done; v is of no use when there are any */
};

/* What is on this host besides LIO; the real ones, or a test's. */
struct iser_look {
	int (*attribute)(const char *dir, const char *name, unsigned long long *value);
	int64_t (*size)(const char *path); /* bytes of a file, 0 or more for a directory or device;
	                                    * -1: there is nothing */
	bool (*is_dir)(const char *path);
};

extern const struct iser_look iser_look_here;

struct iser_ask {
	const struct iser_plan *want;      /* NULL: all that is ours goes */
	const struct iser_state *state;    /* whose plans say what is ours */
	const struct iser_state *others;   /* those of other names */
	size_t n_others;
	const struct iser_secrets *secrets; /* want's */
	const struct lio *now;
	const struct iser_look *look;
	const char *cpus;                  /* the fabric's list as it is to be; NULL: as it is */
	const struct iser_irq *irqs;       /* interrupts as they are to be */
	size_t n_irqs;
	bool destroy;                      /* what back stores hold may be lost; with want NULL
	                                    * also files that were made for them */
	bool force;                        /* though initiators are logged in */
	bool restarted;                    /* the host was, since the plan was applied */
};

/* 0, or -ENOMEM. s is iser_steps_clear's in any case; it refers to nothing of a. */
int iser_steps_make(const struct iser_ask *a, struct iser_steps *s);
void iser_steps_clear(struct iser_steps *s);

#endif
