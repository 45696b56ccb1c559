// SPDX-License-Identifier: Apache-2.0
/* Carries steps out, in order, or what was done of them back. */
#ifndef RFTP_ISER_CARRY_H
#define RFTP_ISER_CARRY_H

#include "iser_setup/steps.h"
#include "iser_setup/worker.h"

/* For each line of what is done, as it is. */
typedef void iser_say(void *arg, const char *line);

/* For who keeps what was made: what is going to be done (code 0), or has failed so. 0, or a
 * negative errno with text: it is not to be done. */
typedef int carry_keep(void *arg, const json_t *request, int code, struct err *e);

struct hand {
	int node;
	struct worker *worker;
};

struct carry {
	const struct topo *t;
	const struct stop *stop;
	int hold;            /* a descriptor for workers to hold, the lock's; -1: none */
	iser_say *say;
	void *arg;
	carry_keep *keep;    /* of each step that is done here and not by a worker; NULL */
	void *keeper;        /* its arg */
	struct hand *hands;  /* NULL and 0 at first; carry_end's */
	size_t n_hands;
	json_t *refused;     /* NULL, or a list of requests that may fail, and did; carry_end's */
};

/* Could a worker be had? 0, or a negative errno with text. */
int carry_ready(struct carry *c, struct err *e);
/* From the first: 0; or the negative errno, with text, of the one that failed. *done: how many
 * were done. -EINTR: a signal came in between. */
int carry_out(struct carry *c, const struct iser_steps *s, size_t *done, struct err *e);
/* The first done of them, from the last; before them what is not known to be done or not, when
 * the worker that was to do it has died (maybe). What cannot be taken back is a line in left. */
void carry_back(struct carry *c, const struct iser_steps *s, size_t done, bool maybe,
		struct lines *left);
/* One request that is no step. */
int carry_one(struct carry *c, json_t *request, int node, struct err *e);
void carry_end(struct carry *c);

#endif
