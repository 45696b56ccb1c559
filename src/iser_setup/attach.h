// SPDX-License-Identifier: Apache-2.0
/* A login as it goes on: sessions, then disks, then what is made of them; and back. */
#ifndef RFTP_ISER_ATTACH_H
#define RFTP_ISER_ATTACH_H

#include "iser_setup/initiator.h"
#include "iser_setup/kept.h"
#include "iser_setup/sessions.h"
#include "iser_setup/tune.h"

struct login_options {
	const char *plan, *transport, *user, *secret_file, *mutual_user, *mutual_secret_file;
	const char *stripe, *state;
	struct tool_list targets;
	unsigned wait, lock_wait;  /* seconds */
	uint64_t chunk;            /* bytes */
	bool tune, mkfs, yes, keep, json;
	/* out of the words */
	enum login_transport with;
	enum stripe_kind kind;
};

struct attach_disk {
	const struct login_target *target;
	char kernel[DISK_ROOM], path[256];
	unsigned lun, host, session; /* numbers; a session's is never given again */
	uint64_t size;
	char transport[16];        /* really used */
	char netdev[IF_NAMESIZE];  /* that leads to the target; "" when it is not known */
	struct ids nodes;          /* of the card; empty: not known */
};

struct attach {
	const struct login_options *o;
	struct stop stop;
	struct kept kept;
	struct record_place place;
	struct login_list list;
	bool *new;                 /* of each of the list: this run has logged it in */
	struct attach_disk *disks;
	size_t n_disks;
	struct tune_step *tuned;
	size_t n_tuned;
	struct stripe stripe;      /* kind STRIPE_NONE: there is none */
	char device[STRIPE_DEVICE_ROOM]; /* the stripe's */
	bool stripe_new, stripe_started, made_fs;
	char fs[64];               /* what is on the device that is to be mounted, "xfs"; "" */
};

/* All: 0, or a negative errno with text; what they have done stays for attach_undo. */

/* A session with each of the list; one that is there already is left as it is. */
int attach_sessions(struct attach *a, struct err *e);
/* Waits until all disks of all targets are there: a->disks. */
int attach_disks(struct attach *a, const struct topo *t, struct err *e);
/* Never fails: what cannot be set is in a->tuned. */
void attach_tune(struct attach *a);
/* The stripe that was asked for, and the filesystem. name: the plan's; NULL. */
int attach_stripe(struct attach *a, const char *name, struct err *e);
int attach_mkfs(struct attach *a, struct err *e);
/* Is each disk's path still that of the disk that was found? -ENODEV with text: not any more. */
int attach_same(const struct attach *a, struct err *e);

/* Takes back what this run did, as far as it goes; what does not is said. */
void attach_undo(struct attach *a);

/* The kernel's name of a device's path, "sda"; out. "" when there is none. */
const char *attach_kernel_name(const char *path, char out[DISK_ROOM]);

void attach_show(const struct attach *a);
int attach_emit(const struct attach *a);

#endif
