// SPDX-License-Identifier: Apache-2.0
/* What apply has made on this host, kept over a restart: for each plan, by its name, the plan as
 * it was carried out, and the one that is being carried out. What either of them names is ours;
 * that is written, and synced, before anything is made, so that a killed apply leaves nothing
 * that nobody knows of. */
#ifndef RFTP_ISER_STATE_H
#define RFTP_ISER_STATE_H

#include "iser_setup/lock.h"
#include "iser_setup/plan.h"

#define ISER_STATE_DIR "/var/lib/rftp/iser"

/* An interrupt of a network card that was confined to the CPUs of a node. */
struct iser_irq {
	unsigned irq;
	char *netdev;
	char *was, *set;            /* its smp_affinity_list */
};

struct iser_state {
	char *dir, *name;           /* of the files, and of the plan */
	struct iser_plan *applied;  /* NULL: none was, to its end */
	struct iser_plan *applying; /* NULL: none is, or was when it was killed */
	struct iser_plan **older;   /* those that were being applied before it, and killed, too */
	size_t n_older;
	char *boot;                 /* boot_id(7) of when applied was made; "" without */
	char **made;                /* directories and files that were not there before, in the
	                             * order in which they were made */
	size_t n_made;
	char *cpus;                 /* the fabric's cpus_allowed_list before any plan of this
	                             * boot; NULL: it was not changed */
	struct iser_irq *irqs;      /* of this boot */
	size_t n_irqs;
	int lock;                   /* a descriptor; -1: it is only looked at. Who inherits it has
	                             * the lock, too, until it is closed */
};

/* dir: NULL for RFTP_ISER_STATE of the environment or else ISER_STATE_DIR; made when change is
 * wanted. change: nobody else may change it meanwhile, nor any other plan of this host; -EBUSY
 * when somebody does, with who, after this wait; a longer one when who had it is gone; -EINTR:
 * stopped. NULL: it is only looked at. -EBADMSG: a file is damaged. 0, or another negative errno
 * with text. An unknown name is a state without plans. s is iser_state_close's in any case. */
int iser_state_open(struct iser_state *s, const char *dir, const char *name,
		    const struct lock_wait *change, struct err *e);
void iser_state_close(struct iser_state *s);
/* The names there are, sorted; their number in *n. The list and each name is the caller's. 0, or
 * a negative errno with text. */
int iser_state_names(const char *dir, char ***names, size_t *n, struct err *e);

/* Any plan of it may have left something: the ith of them, NULL when that is none. */
#define iser_state_plans(s) ((s)->n_older + 2)
const struct iser_plan *iser_state_plan(const struct iser_state *s, size_t i);

/* The rest is for who opened it to change it. */

/* On stable storage, whole: 0, or a negative errno with text. */
int iser_state_write(const struct iser_state *s, struct err *e);
/* Its files are no more; 0, or a negative errno with text. */
int iser_state_remove(const struct iser_state *s, struct err *e);
/* The file for what LIO has of it, for targetctl(8); malloc'd, NULL: memory is out. */
char *iser_state_lio_file(const struct iser_state *s);

/* What the file has into s, whose dir and name are set; iser_state_open does it. */
int iser_state_load(struct iser_state *s, struct err *e);

/* want is being applied from now on; a copy is made, and what was being applied before is kept
 * beside it. 0, or -ENOMEM. */
int iser_state_applying(struct iser_state *s, const struct iser_plan *want);
/* And it has been, to its end. */
void iser_state_applied(struct iser_state *s);

/* Has the host been started since s->boot? Then what only memory held is gone. */
bool iser_state_restarted(const struct iser_state *s);
/* s->boot is this boot, of which nothing is kept yet. 0, or a negative errno with text. */
int iser_state_begin_boot(struct iser_state *s, struct err *e);
/* One more at the end of made, unless it is there: 0 or -ENOMEM. */
int iser_state_made(struct iser_state *s, const char *path);
/* And without it again; harmless when it is not there. */
void iser_state_unmade(struct iser_state *s, const char *path);
void iser_irqs_free(struct iser_irq *list, size_t n);

#endif
