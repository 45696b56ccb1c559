// SPDX-License-Identifier: Apache-2.0
/* A card's interrupts: sysfs lists its message-signalled ones below its PCI function, and
 * /proc/irq tells which CPUs may handle each, and takes another list, unless the driver has left
 * them to the kernel. Only those are touched that another node's CPU may have. */
#include "iser_setup/cpus.h"

#include "iser_setup/card.h"
#include "iser_setup/lines.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 8192u

/* Its smp_affinity_list into text, and as a set. 0, or a negative errno. */
static int affinity(const struct iser_cpus_ask *a, unsigned irq, char **text, struct ids *cpus)
{
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s/irq/%u/smp_affinity_list", a->proc, irq);
	r = read_file(path, LIST_MAX, text, NULL);
	if (r)
		return r;
	(*text)[strcspn(*text, "\n")] = '\0';
	return ids_parse(*text, cpus);
}

static bool is_within(const struct ids *some, const struct ids *all)
{
	struct ids both = *some;

	ids_intersect(&both, all);
	return !memcmp(&both, some, sizeof(both));
}

static int add(struct iser_irq **list, size_t *n, unsigned irq, const char *netdev,
	       const char *was, const char *set)
{
	struct iser_irq *one = iser_plan_add(*list, *n);

	if (!one)
		return -ENOMEM;
	*one = (struct iser_irq){ .irq = irq, .netdev = strdup(netdev), .was = strdup(was),
				  .set = strdup(set) };
	return one->netdev && one->was && one->set ? 0 : -ENOMEM;
}

static bool listed(const struct iser_irq *list, size_t n, unsigned irq)
{
	for (size_t i = 0; i < n; i++)
		if (list[i].irq == irq)
			return true;
	return false;
}

/* It was tried in vain. */
static bool refused(const struct iser_state *s, unsigned irq)
{
	for (size_t i = 0; i < s->n_irqs; i++)
		if (s->irqs[i].irq == irq)
			return !*s->irqs[i].set;
	return false;
}

static int of_card(const struct iser_cpus_ask *a, const char *netdev, const struct ids *cpus,
		   struct iser_irq **list, size_t *n, struct lines *why)
{
	DIR *d = card_interrupts(a->sysfs, netdev);
	char set[IDS_MAX];
	struct dirent *entry;
	int r = 0;

	if (!d) {
		lines_add(why, "%s: its interrupts are left alone: it has none of its own, or "
			  "sysfs does not tell", printable(netdev));
		return 0;
	}
	ids_format(set, sizeof(set), cpus);
	while (!r && (entry = readdir(d))) {
		CLEANUP_FREE char *was = NULL;
		struct ids on;
		uint64_t irq;

		if (parse_uint(entry->d_name, 0, INT32_MAX, &irq) ||
		    listed(*list, *n, (unsigned)irq) || affinity(a, (unsigned)irq, &was, &on))
			continue;
		if (refused(a->state, (unsigned)irq))
			lines_add(why, "%s: interrupt %u is the kernel's own to place",
				  printable(netdev), (unsigned)irq);
		else if (!is_within(&on, cpus))
			r = add(list, n, (unsigned)irq, netdev, was, set);
	}
	closedir(d);
	return r;
}

static int back(const struct iser_cpus_ask *a, struct iser_irq **list, size_t *n)
{
	int r = 0;

	for (size_t i = 0; !r && i < a->state->n_irqs; i++) {
		const struct iser_irq *irq = &a->state->irqs[i];
		CLEANUP_FREE char *now = NULL;
		struct ids on, set;

		if (!affinity(a, irq->irq, &now, &on) && !ids_parse(irq->set, &set) &&
		    !memcmp(&on, &set, sizeof(on)) && *irq->set)
			r = add(list, n, irq->irq, irq->netdev, now, irq->was);
	}
	return r;
}

int iser_irqs_list(const struct iser_cpus_ask *a, struct iser_irq **list, size_t *n,
		   struct lines *why)
{
	const struct iser_plan *p = a->want;
	int r = 0;

	*list = NULL;
	*n = 0;
	if (!p)
		return back(a, list, n);
	if (p->cpus != ISER_CPUS_NODES)
		return 0;
	for (size_t i = 0; !r && i < p->n_targets; i++) {
		const struct node *node = topo_find(a->t, p->targets[i].node);

		for (size_t k = 0; !r && k < p->targets[i].n_portals; k++) {
			const char *netdev = p->targets[i].portals[k].netdev;

			if (netdev && node && ids_count(&node->cpus) &&
			    topo_netdev(a->t, netdev) == node->id)
				r = of_card(a, netdev, &node->cpus, list, n, why);
		}
	}
	return r;
}
