// SPDX-License-Identifier: Apache-2.0
/* What is looked at beside LIO to tell whether a plan is in force: cards, pages, attributes,
 * secrets, interrupts. Each is in the plan's order. */
#ifndef RFTP_ISER_FACTS_H
#define RFTP_ISER_FACTS_H

#include "iser_setup/plan.h"
#include "iser_setup/threads.h"
#include "iser_setup/where.h"

#include <net/if.h>

/* What the address of a portal is on. */
struct card_facts {
	bool here;                /* an interface of this host has it */
	char netdev[IF_NAMESIZE]; /* "" when it is not here */
	int node;
	char rdma[RDMA_NAME];     /* "": no RDMA device uses it */
	unsigned irqs;            /* its message-signalled interrupts; 0: none, or not told */
	struct ids irq_cpus;      /* that handle them */
};

enum store_where {
	STORE_UNSEEN, /* why tells the reason */
	STORE_PAGES,  /* in a tmpfs */
	STORE_CACHED, /* on a disk; what is in memory of it is the page cache's, anywhere */
	STORE_DEVICE, /* a block device */
	STORE_HIDDEN, /* a ramdisk, whose pages the kernel shows nobody */
	STORE_GONE,   /* the file or device that LIO has open has not that name any more */
	STORE_WHERES
};

extern const char *const store_wheres[STORE_WHERES]; /* "unseen", ... */

struct attribute_fact {
	bool known;
	unsigned long long value;
};

struct store_facts {
	enum store_where where;
	struct file_pages pages;  /* STORE_PAGES */
	struct ids nodes;         /* of the device it is, or that it is on; empty: not known */
	char *why;                /* STORE_UNSEEN and STORE_GONE: one line */
	struct attribute_fact *attributes;
};

/* What LIO has for a secret, beside its file. */
enum secret_fact {
	SECRET_SAME,
	SECRET_DIFFERS,
	SECRET_UNREAD,            /* the file cannot be read */
};

struct initiator_facts {
	enum secret_fact chap, mutual; /* where the plan has such */
};

/* What the plan decides by other words than attributes; LIO's names. */
enum fixed_attribute {
	FIXED_AUTHENTICATION,
	FIXED_GENERATE,
	FIXED_PROTECT,
	FIXED_CACHE,
	FIXED_ATTRIBUTES
};

extern const char *const fixed_attributes[FIXED_ATTRIBUTES]; /* "authentication", ... */

struct target_facts {
	struct card_facts *cards;
	struct store_facts *stores;
	struct initiator_facts *initiators;
	struct attribute_fact *attributes;
	struct attribute_fact fixed[FIXED_ATTRIBUTES];
};

/* An interrupt that apply has confined. */
struct irq_fact {
	unsigned irq;
	char *netdev;
	bool known;
	struct ids set, now;
};

struct facts {
	bool restarted;           /* the host was, since the plan was applied */
	bool cpus_asked;          /* plans ask for a cpus_allowed_list, together */
	struct ids cpus;          /* this one */
	struct irq_fact *irqs;
	size_t n_irqs;
	struct lio_threads threads;
	struct target_facts *targets;
};

/* All empty, for p; NULL: memory is out. */
struct facts *facts_new(const struct iser_plan *p);
void facts_free(struct facts *f, const struct iser_plan *p); /* NULL is harmless */

#endif
