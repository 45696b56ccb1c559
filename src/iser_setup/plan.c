// SPDX-License-Identifier: Apache-2.0
/* A plan in memory. */
#include "iser_setup/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME "disk.img" /* in a tmpfs, of which it is the only one */

const char *const iser_kinds[ISER_KINDS] = {
	[ISER_TMPFS] = "tmpfs", [ISER_FILE] = "file", [ISER_BLOCK] = "block",
	[ISER_RAMDISK] = "ramdisk",
};

const char *const iser_policies[ISER_POLICIES] = {
	[ISER_BIND] = "bind", [ISER_PREFER] = "prefer",
};

const char *const iser_cpus_words[ISER_CPUS_KINDS] = {
	[ISER_CPUS_NODES] = "nodes", [ISER_CPUS_ANY] = "any",
};

/* ---- memory ---- */

struct iser_plan *iser_plan_new(void)
{
	return calloc(1, sizeof(struct iser_plan));
}

void *iser_plan_grow(void **list, size_t *n, size_t each)
{
	char *bigger = realloc(*list, (*n + 1) * each);

	if (!bigger)
		return NULL;
	*list = bigger;
	memset(bigger + *n * each, 0, each);
	return bigger + (*n)++ * each;
}

static void free_attributes(struct iser_attribute *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(list[i].name);
	free(list);
}

static void free_chap(struct iser_chap *c)
{
	free(c->user);
	free(c->secret_file);
}

static void clear_store(struct iser_store *s)
{
	free(s->name);
	free(s->path);
	free(s->serial);
	free_attributes(s->attributes, s->n_attributes);
}

static void clear_target(struct iser_target *t)
{
	free(t->iqn);
	for (size_t i = 0; i < t->n_portals; i++) {
		free(t->portals[i].address);
		free(t->portals[i].netdev);
	}
	free(t->portals);
	for (size_t i = 0; i < t->n_initiators; i++) {
		free(t->initiators[i].name);
		free_chap(&t->initiators[i].chap);
		free_chap(&t->initiators[i].mutual);
	}
	free(t->initiators);
	for (size_t i = 0; i < t->n_stores; i++)
		clear_store(&t->stores[i]);
	free(t->stores);
	free_attributes(t->attributes, t->n_attributes);
}

void iser_plan_free(struct iser_plan *p)
{
	if (!p)
		return;
	free(p->name);
	for (size_t i = 0; i < p->n_targets; i++)
		clear_target(&p->targets[i]);
	free(p->targets);
	free(p);
}

void cleanup_iser_plan(struct iser_plan **p)
{
	iser_plan_free(*p);
}

/* ---- what a store is for LIO ---- */

char *iser_store_file(const struct iser_store *s)
{
	char *path;

	if (s->kind != ISER_TMPFS)
		return strdup(s->path ? s->path : "");
	return asprintf(&path, "%s/" FILE_NAME, s->path) < 0 ? NULL : path;
}

const char *iser_store_plugin(const struct iser_store *s)
{
	static const char *const plugins[ISER_KINDS] = {
		[ISER_TMPFS] = "fileio", [ISER_FILE] = "fileio", [ISER_BLOCK] = "iblock",
		[ISER_RAMDISK] = "rd_mcp",
	};

	return plugins[s->kind];
}

bool iser_store_forgets(const struct iser_store *s)
{
	return s->kind == ISER_TMPFS || s->kind == ISER_RAMDISK;
}

/* Is path dir, or below it? */
static bool is_in(const char *path, const char *dir)
{
	const size_t n = strlen(dir);

	return !strncmp(dir, path, n) && (!path[n] || path[n] == '/');
}

/* A tmpfs that is mounted over another store would hide it. */
static bool hides(const struct iser_store *a, const struct iser_store *b)
{
	return a->kind == ISER_TMPFS && b->path && is_in(b->path, a->path);
}

bool iser_stores_overlap(const struct iser_store *a, const struct iser_store *b)
{
	return hides(a, b) || hides(b, a);
}

/* ---- looking for one ---- */

bool iser_attribute_in(const struct iser_attribute *list, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(list[i].name, name))
			return true;
	return false;
}

const struct iser_store *iser_plan_store(const struct iser_plan *p, const char *name)
{
	for (size_t i = 0; i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++)
			if (!strcmp(p->targets[i].stores[k].name, name))
				return &p->targets[i].stores[k];
	return NULL;
}

const struct iser_target *iser_plan_target(const struct iser_plan *p, const char *iqn)
{
	for (size_t i = 0; i < p->n_targets; i++)
		if (!strcmp(p->targets[i].iqn, iqn))
			return &p->targets[i];
	return NULL;
}
