// SPDX-License-Identifier: Apache-2.0
/* What apply has made on this host, kept over a restart: for each plan, by its name, the plan as
 * it was carried out, and the one that is being carried out. What either of them names is ours;
 * that is written, and synced, before anything is made, so that a killed apply leaves nothing
 * that nobody knows of. */
#ifndef RFTP_ISER_STATE_H
#define RFTP_ISER_STATE_H

#include "iser_setup/plan.h"

#define ISER_STATE_DIR "/var/lib/rftp/iser"

struct iser_state {
	char *dir, *name;           /* of the files, and of the plan */
	struct iser_plan *applied;  /* NULL: none was, to its end */
	struct iser_plan *applying; /* NULL: none is, or was when it was killed */
	char *boot;                 /* boot_id(7) of when applied was made; "" without */
	int lock;                   /* a descriptor; -1: it is only looked at */
};

/* dir: NULL for RFTP_ISER_STATE of the environment or else ISER_STATE_DIR; made when change is
 * wanted. change: nobody else may change it meanwhile, nor any other plan of this host; -EBUSY
 * when somebody does, with who. -EBADMSG: a file is damaged. 0, or another negative errno with
 * text. An unknown name is a state without plans. s is iser_state_close's in any case. */
int iser_state_open(struct iser_state *s, const char *dir, const char *name, bool change,
		    struct err *e);
void iser_state_close(struct iser_state *s);
/* The names there are, sorted; their number in *n. The list and each name is the caller's. 0, or
 * a negative errno with text. */
int iser_state_names(const char *dir, char ***names, size_t *n, struct err *e);

#endif
