// SPDX-License-Identifier: Apache-2.0
/* On which CPUs the target's threads are to run, and network cards' interrupts to be handled. */
#ifndef RFTP_ISER_CPUS_H
#define RFTP_ISER_CPUS_H

#include "iser_setup/state.h"

struct iser_cpus_ask {
	const struct iser_plan *want;    /* NULL: it is to go */
	const struct iser_state *state;  /* of this plan, and of this boot */
	const struct iser_state *others; /* those of other names; of any boot */
	size_t n_others;
	const char *now;                 /* the fabric's list; NULL: this kernel has none */
	const struct topo *t;
	const char *proc;                /* "/proc", or a copy */
	const char *sysfs;               /* "/sys" */
};

/* The list for the fabric: the CPUs of all nodes that targets of plans are on which ask for it,
 * or that from before the first of them. NULL: it is to stay as it is; or memory is out. *before:
 * what is to be put back one day; NULL: nothing. Both malloc'd. */
char *iser_cpus_list(const struct iser_cpus_ask *a, char **before);

/* The interrupts of the cards that want's portals are on, as far as they may be handled on other
 * nodes' CPUs; with want NULL those of state that are still as they were set, back to what they
 * were. What cannot be had by a card goes into why. 0, or -ENOMEM. The list is
 * iser_irqs_free's. */
struct lines;
int iser_irqs_list(const struct iser_cpus_ask *a, struct iser_irq **list, size_t *n,
		   struct lines *why);

#endif
