// SPDX-License-Identifier: Apache-2.0
/* Back stores: which stay, and which go, come, or are made again. */
#include "iser_setup/maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_TEXT 32

/* ---- whose ---- */

static const struct iser_store *in_plan(const struct iser_plan *p, const char *plugin,
					const char *name)
{
	const struct iser_store *s = p ? iser_plan_store(p, name) : NULL;

	return s && !strcmp(iser_store_plugin(s), plugin) ? s : NULL;
}

/* In the first so many plans of ours. */
static const struct iser_store *in_first(const struct maker *m, size_t plans, const char *plugin,
					 const char *name)
{
	const struct iser_store *s = NULL;

	for (size_t o = 0; !s && o < plans; o++)
		s = in_plan(ours(m, o), plugin, name);
	return s;
}

const struct iser_store *store_ours(const struct maker *m, const char *plugin, const char *name)
{
	return in_first(m, ours_count(m), plugin, name);
}

static bool same_text(const char *a, const char *b)
{
	return a && b && !strcmp(a, b);
}

/* What s and another plan's store cannot both have; NULL: nothing. */
static const char *shared(const struct iser_store *s, const struct iser_store *theirs)
{
	if (!strcmp(iser_store_plugin(s), iser_store_plugin(theirs)) &&
	    !strcmp(s->name, theirs->name))
		return "of this name; call it something else";
	if (same_text(s->serial, theirs->serial))
		return "of its serial, by which initiators know a disk; draw another, as uuidgen "
		       "does";
	return NULL;
}

/* Another plan of this host has it, or what it stands on. */
static bool check_other(struct maker *m, const struct iser_store *s, const char *name,
			const struct iser_store *theirs)
{
	const char *what = shared(s, theirs);

	if (what)
		maker_problem(m, "back store %s: the plan %s has one %s", s->name, name, what);
	else if (same_text(s->path, theirs->path) || iser_stores_overlap(s, theirs))
		maker_problem(m, "back store %s: the plan %s has one at %s, too; use another path",
			      s->name, name, printable(theirs->path));
	else
		return false;
	return true;
}

static bool check_others(struct maker *m, const struct iser_store *s,
			 const struct iser_state *other)
{
	for (size_t i = 0; i < iser_state_plans(other); i++) {
		const struct iser_plan *p = iser_state_plan(other, i);

		for (size_t t = 0; p && t < p->n_targets; t++)
			for (size_t k = 0; k < p->targets[t].n_stores; k++)
				if (check_other(m, s, other->name, &p->targets[t].stores[k]))
					return true;
	}
	return false;
}

/* What is in LIO beside plans. */
static void check_serial(struct maker *m, const struct iser_store *s)
{
	const struct lio *l = m->a->now;

	for (size_t i = 0; i < l->n_stores; i++)
		if (same_text(s->serial, l->stores[i].serial) &&
		    !store_ours(m, l->stores[i].plugin, l->stores[i].name))
			maker_problem(m, "back store %s: LIO's back store %s has its serial, by "
				      "which initiators know a disk; draw another, as uuidgen does",
				      s->name, printable(l->stores[i].name));
}

/* One that was served, by LIO as it was before the host was started again, say. An empty one in
 * its place would be an empty disk to who has a filesystem on it. */
static bool was_served(const struct maker *m, const struct iser_store *s)
{
	const struct iser_plan *p = m->a->state->applied;

	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++)
			if (p->targets[i].stores[k].kind == ISER_FILE &&
			    same_text(p->targets[i].stores[k].path, s->path))
				return true;
	return false;
}

/* A file that was there before it is served is taken as it is. */
static void check_file(struct maker *m, const struct iser_store *s, bool serves)
{
	int64_t has = m->a->look->size(s->path);

	if (has < 0 && !serves && was_served(m, s) && !m->a->destroy)
		maker_problem(m, "back store %s: its file %s is not there any more; mount what it "
			      "is on, or let --destroy-data make a new, empty one", s->name,
			      printable(s->path));
	if (has >= 0 && has != (int64_t)s->size && !file_ours(m, s->path))
		maker_problem(m, "back store %s: %s is there already, and has %lld bytes, not "
			      "%llu; have the plan say its size, or use another path", s->name,
			      printable(s->path), (long long)has, (unsigned long long)s->size);
}

static void check_owner(struct maker *m, const struct iser_store *s, const struct lio_store *there)
{
	const char *plugin = iser_store_plugin(s);
	const struct tmpfs_mount *mount;
	bool known = false;

	for (size_t i = 0; i < m->a->n_others; i++)
		known |= check_others(m, s, &m->a->others[i]);
	if (!known)
		check_serial(m, s);
	if (there && !store_ours(m, plugin, s->name))
		maker_problem(m, "back store %s: LIO has a %s of this name that this plan did not "
			      "make; call it something else, or take that one out with targetcli",
			      s->name, plugin);
	mount = s->kind == ISER_TMPFS ? lio_mount(m->a->now, s->path) : NULL;
	if (mount && !mount_ours(m, mount, ours_count(m)))
		maker_problem(m, "back store %s: a tmpfs that this plan did not mount is at %s; "
			      "unmount it, or use another path", s->name, printable(s->path));
	else if (mount && mount->covered)
		maker_problem(m, "back store %s: something else is mounted over its tmpfs at %s; "
			      "unmount that first", s->name, printable(s->path));
	if (s->kind == ISER_FILE)
		check_file(m, s, there);
}

/* ---- fates ---- */

/* How the store that is there differs in what it holds; NULL: not at all. */
static const char *other_data(const struct iser_store *s, const struct lio_store *there,
			      const struct tmpfs_mount *mount)
{
	CLEANUP_FREE char *file = iser_store_file(s);

	if (!file || strcmp(file, there->path))
		return "another path";
	if (s->kind == ISER_TMPFS && !mount)
		return "its tmpfs was unmounted";
	if (s->kind != ISER_BLOCK && there->size != s->size &&
	    (s->kind != ISER_FILE || s->size < there->size))
		return "another size";
	if (s->kind == ISER_TMPFS && !mount_fits(s, mount))
		return "another size, node or policy of its tmpfs";
	return NULL;
}

static bool same_ways(const struct iser_store *s, const struct lio_store *there)
{
	if (!there->enabled || (s->serial && strcmp(s->serial, there->serial)))
		return false;
	if (s->kind != ISER_BLOCK && s->size != there->size)
		return false;
	return s->kind == ISER_BLOCK || s->kind == ISER_RAMDISK ||
	       s->write_back == there->write_back;
}

/* Would its file be cut? */
static bool is_too_long(const struct maker *m, const struct iser_store *s)
{
	CLEANUP_FREE char *file = iser_store_file(s);

	return (s->kind == ISER_FILE || s->kind == ISER_TMPFS) && file &&
	       m->a->look->size(file) > (int64_t)s->size;
}

static const char nameless[] = "its file was removed or renamed, and only LIO still has it";

static bool is_nameless(const struct maker *m, const struct lio_store *there)
{
	return there->enabled && !strcmp(there->plugin, "fileio") &&
	       m->a->look->size(there->path) < 0;
}

/* Is there a tmpfs with data that LIO does not serve at the moment? */
static bool keeps_file(const struct maker *m, const struct iser_store *s)
{
	CLEANUP_FREE char *file = s->kind == ISER_TMPFS ? iser_store_file(s) : NULL;

	return file && in_plan(m->a->state->applied, iser_store_plugin(s), s->name) &&
	       lio_mount(m->a->now, s->path) && m->a->look->size(file) > 0;
}

static void refuse_loss(struct maker *m, const struct iser_store *s, const char *why)
{
	if (m->a->destroy)
		maker_note(m, "back store %s: %s: what it held is lost", s->name, why);
	else
		maker_problem(m, "back store %s: %s: what it holds would be lost, which only "
			      "--destroy-data allows", s->name, why);
}

static enum fate fate_of_absent(struct maker *m, const struct iser_store *s,
				const struct tmpfs_mount *mount)
{
	if (mount && !mount_fits(s, mount)) {
		if (keeps_file(m, s))
			refuse_loss(m, s, "another size, node or policy of its tmpfs");
		return FATE_AFRESH;
	}
	if (is_too_long(m, s) && (s->kind == ISER_TMPFS || file_ours(m, s->path)))
		refuse_loss(m, s, "a smaller size");
	return FATE_MAKE;
}

static enum fate fate_of(struct maker *m, const struct iser_store *s,
			 const struct lio_store *there)
{
	const struct tmpfs_mount *mount = s->kind == ISER_TMPFS ? lio_mount(m->a->now, s->path) :
					  NULL;
	const char *why;

	if (!there)
		return fate_of_absent(m, s, mount);
	why = other_data(s, there, mount);
	if (!why && same_ways(s, there))
		return FATE_KEEP;
	if (!why && s->kind == ISER_RAMDISK)
		why = "another serial";
	if (!why && is_nameless(m, there))
		why = nameless;
	if (!why && is_too_long(m, s))
		why = "a smaller size";
	if (!why)
		return FATE_AGAIN;
	if (there->enabled || keeps_file(m, s))
		refuse_loss(m, s, why);
	return FATE_AFRESH;
}

/* Of an applied store that only memory held. */
static void note_loss(struct maker *m, const struct iser_store *s)
{
	if (iser_store_forgets(s) && !keeps_file(m, s) &&
	    in_plan(m->a->state->applied, iser_store_plugin(s), s->name))
		maker_note(m, "back store %s: what it held is gone: it was in memory, and %s",
			   s->name, m->a->restarted ?
			   "the host was started again" : "somebody has taken it away");
}

/* ---- those that are not wanted ---- */

typedef void store_fn(struct maker *m, const struct iser_store *s, const struct lio_store *there);

/* Each store of ours that is not wanted, once. there: NULL when LIO has it no more. */
static void for_unwanted(struct maker *m, store_fn *fn)
{
	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_plan *p = ours(m, o);

		for (size_t i = 0; p && i < p->n_targets; i++)
			for (size_t k = 0; k < p->targets[i].n_stores; k++) {
				const struct iser_store *s = &p->targets[i].stores[k];
				const char *plugin = iser_store_plugin(s);

				if (!in_plan(m->a->want, plugin, s->name) &&
				    !in_first(m, o, plugin, s->name))
					fn(m, s, lio_store(m->a->now, plugin, s->name));
			}
	}
}

/* Somebody's who took ours away and made one of the same name: it has none of our serials. */
static bool is_strange(const struct maker *m, const struct lio_store *there)
{
	if (!*there->serial)
		return false;
	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_store *s = in_plan(ours(m, o), there->plugin, there->name);

		if (s && same_text(s->serial, there->serial))
			return false;
	}
	return true;
}

static void decide_unwanted(struct maker *m, const struct iser_store *s,
			    const struct lio_store *there)
{
	char size[SIZE_TEXT];
	bool held = there || keeps_file(m, s);

	if (there && is_strange(m, there))
		maker_problem(m, "back store %s: what LIO has by this name has another serial than "
			      "this plan's, as if somebody else had made it; take it out with "
			      "targetcli, if it is to go", s->name);
	if (s->kind == ISER_FILE && there && is_nameless(m, there))
		refuse_loss(m, s, nameless);
	if (!iser_store_forgets(s) || !held)
		return;
	if (m->a->want)
		refuse_loss(m, s, "the plan has it no more");
	else
		maker_note(m, "back store %s: what it held, up to %s, is lost with it", s->name,
			   format_size(size, sizeof(size), there ? there->size : s->size));
}

/* ---- all ---- */

void stores_decide(struct maker *m)
{
	const struct iser_plan *p = m->a->want;
	size_t nth = 0;

	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++) {
			const struct iser_store *s = &p->targets[i].stores[k];
			const struct lio_store *there = lio_store(m->a->now, iser_store_plugin(s),
								  s->name);

			check_owner(m, s, there);
			m->fates[nth] = fate_of(m, s, there);
			if (!there)
				note_loss(m, s);
			nth++;
		}
	for_unwanted(m, decide_unwanted);
}

bool store_ends(const struct maker *m, const char *plugin, const char *name)
{
	const struct iser_plan *p = m->a->want;
	size_t nth = 0;

	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++, nth++)
			if (!strcmp(p->targets[i].stores[k].name, name) &&
			    !strcmp(iser_store_plugin(&p->targets[i].stores[k]), plugin))
				return m->fates[nth] != FATE_KEEP;
	return store_ours(m, plugin, name);
}

/* ---- away ---- */

static json_t *attributes_of(const char *plugin, const char *name)
{
	return json_pack("{s:s, s:s, s:s}", "do", "set-store-attribute", "plugin", plugin, "name",
			 name);
}

static json_t *create_request(const char *plugin, const char *name, const char *path,
			      uint64_t size, bool write_back, const char *serial)
{
	/* What caches a block device is not ours to say; LIO tells initiators of it. */
	bool back = write_back || !strcmp(plugin, "iblock");

	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:s}", "do", "create-store", "plugin",
			 plugin, "name", name, "path", path, "size", (json_int_t)size,
			 "write-back", (int)back, "serial", serial ? serial : "");
}

static json_t *delete_request(const char *plugin, const char *name)
{
	return json_pack("{s:s, s:s, s:s}", "do", "delete-store", "plugin", plugin, "name", name);
}

static void check_users(struct maker *m, const struct lio_store *there)
{
	for (size_t i = 0; i < m->a->now->n_targets; i++) {
		const struct lio_target *t = &m->a->now->targets[i];

		for (size_t k = 0; k < t->n_luns; k++)
			if (same_text(t->luns[k].store, there->name) &&
			    same_text(t->luns[k].plugin, there->plugin) &&
			    !target_ours(m, t->iqn, ours_count(m)))
				maker_problem(m, "back store %s: the target %s, which this plan "
					      "did not make, serves it; take LUN %u out there "
					      "with targetcli", there->name, printable(t->iqn),
					      t->luns[k].lun);
	}
}

static void take(struct maker *m, const struct iser_store *s, const struct lio_store *there)
{
	struct iser_step *step;

	if (!there)
		return;
	check_users(m, there);
	maker_undo_attributes(m, attributes_of(there->plugin, there->name), there->dir,
			      s->attributes, s->n_attributes);
	step = maker_add(m, delete_request(there->plugin, there->name),
			 there->enabled ? create_request(there->plugin, there->name, there->path,
							 s->kind == ISER_BLOCK ? 0 :
							 there->size, there->write_back,
							 there->serial) : NULL,
			 "take the back store %s away", there->name);
	if (s->kind == ISER_RAMDISK) {
		step->lossy = true;
		step->memory = -(int64_t)there->size;
		step->node = s->node;
	}
}

void stores_take(struct maker *m)
{
	const struct iser_plan *p = m->a->want;
	size_t nth = 0;

	for_unwanted(m, take);
	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++, nth++) {
			const struct iser_store *s = &p->targets[i].stores[k];
			const char *plugin = iser_store_plugin(s);
			const struct iser_store *old = store_ours(m, plugin, s->name);

			if (old && m->fates[nth] != FATE_KEEP)
				take(m, old, lio_store(m->a->now, plugin, s->name));
		}
}

/* ---- made ---- */

/* "tmpfs of 1.0 GiB on node 0, write-back" */
static void describe(const struct iser_store *s, char *out, size_t room)
{
	char size[SIZE_TEXT], node[32] = "";

	if (s->node != NODE_UNKNOWN)
		snprintf(node, sizeof(node), " on node %d", s->node);
	if (s->kind == ISER_BLOCK)
		snprintf(out, room, "%s%s", printable(s->path), node);
	else if (s->kind == ISER_RAMDISK)
		snprintf(out, room, "ramdisk of %s%s", format_size(size, sizeof(size), s->size),
			 node);
	else
		snprintf(out, room, "%s of %s%s, %s", iser_kinds[s->kind],
			 format_size(size, sizeof(size), s->size), node,
			 s->write_back ? "write-back" : "write-through");
}

static void set_attributes(struct maker *m, const struct iser_store *s,
			   const struct lio_store *there)
{
	maker_set_attributes(m, attributes_of(iser_store_plugin(s), s->name),
			     there ? there->dir : NULL, s->attributes, s->n_attributes,
			     "back store", s->name);
}

static void make(struct maker *m, const struct iser_store *s, enum fate fate)
{
	const char *plugin = iser_store_plugin(s);
	CLEANUP_FREE char *file = iser_store_file(s);
	struct iser_step *step;
	char text[800];

	if (!file) {
		m->failed = true;
		return;
	}
	store_ground(m, s, fate == FATE_AFRESH);
	describe(s, text, sizeof(text));
	step = maker_add(m, create_request(plugin, s->name, file, s->size, s->write_back,
					   s->serial), delete_request(plugin, s->name),
			 "create the back store %s: %s", s->name, text);
	step->node = s->node;
	if (s->kind == ISER_RAMDISK) {
		step->memory = (int64_t)s->size;
		step->strictly = s->node != NODE_UNKNOWN;
	}
	set_attributes(m, s, NULL);
}

void stores_make(struct maker *m)
{
	const struct iser_plan *p = m->a->want;
	size_t nth = 0;

	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++, nth++) {
			const struct iser_store *s = &p->targets[i].stores[k];
			const char *plugin = iser_store_plugin(s);
			const struct iser_store *old = in_plan(m->a->state->applied, plugin,
							       s->name);

			if (m->fates[nth] != FATE_KEEP) {
				make(m, s, m->fates[nth]);
				continue;
			}
			set_attributes(m, s, lio_store(m->a->now, plugin, s->name));
			if (old)
				maker_note_dropped(m, "back store", s->name, old->attributes,
						   old->n_attributes, s->attributes,
						   s->n_attributes);
		}
}
