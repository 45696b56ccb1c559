// SPDX-License-Identifier: Apache-2.0
/* One list of CPUs for all targets of a host: the kernel has no other. */
#include "iser_setup/cpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What plans ask for together. */
struct sum {
	struct ids cpus;
	bool asked;    /* by any */
	bool anywhere; /* one of them cannot be confined */
};

static void add_plan(struct sum *s, const struct topo *t, const struct iser_plan *p)
{
	if (!p || p->cpus != ISER_CPUS_NODES)
		return;
	s->asked = true;
	for (size_t i = 0; i < p->n_targets; i++) {
		const struct node *n = topo_find(t, p->targets[i].node);

		if (!n || !ids_count(&n->cpus))
			s->anywhere = true;
		else
			ids_unite(&s->cpus, &n->cpus);
	}
}

/* What any plan of this boot has kept, or what there is now. */
static const char *before_all(const struct iser_cpus_ask *a)
{
	if (a->state->cpus)
		return a->state->cpus;
	for (size_t i = 0; i < a->n_others; i++)
		if (a->others[i].cpus && !strcmp(a->others[i].boot, a->state->boot))
			return a->others[i].cpus;
	return a->now;
}

char *iser_cpus_list(const struct iser_cpus_ask *a, char **before)
{
	const char *was = before_all(a);
	char text[IDS_MAX];
	struct sum s = { 0 };

	*before = NULL;
	if (!a->now)
		return NULL;
	add_plan(&s, a->t, a->want);
	for (size_t i = 0; i < a->n_others; i++)
		if (!strcmp(a->others[i].boot, a->state->boot))
			add_plan(&s, a->t, a->others[i].applied);
	if (s.asked)
		*before = strdup(was);
	if (s.asked && !s.anywhere)
		return strdup(ids_format(text, sizeof(text), &s.cpus));
	/* It is nobody's, unless one of us has set it. */
	return a->state->cpus ? strdup(a->state->cpus) : NULL;
}
