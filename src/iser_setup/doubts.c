// SPDX-License-Identifier: Apache-2.0
/* What a person should know of a plan before it is carried out. */
#include "iser_setup/doubts_host.h"

#include <stdio.h>
#include <string.h>

static void doubt_target(const struct iser_target *t, struct lines *notes)
{
	if (t->open)
		lines_add(notes, "%s is open: whoever reaches its port may log in, read and write; "
			  "--initiator names those who may", t->iqn);
	if (t->n_initiators > 1)
		lines_add(notes, "%s lets in %zu initiators, each to all of its LUNs: a filesystem "
			  "that two hosts mount is destroyed, unless it is made for that", t->iqn,
			  t->n_initiators);
	for (size_t i = 0; i < t->n_initiators; i++)
		if (!t->initiators[i].chap.user)
			lines_add(notes, "%s lets in whoever says to be %s, without CHAP; "
				  "--chap generate makes secrets", t->iqn, t->initiators[i].name);
}

/* The kernel gives these names in the order in which it finds devices. */
static bool may_move(const struct iser_store *s)
{
	static const char *const names[] = {
		"/dev/sd", "/dev/nvme", "/dev/vd", "/dev/xvd", "/dev/mmcblk", "/dev/dm-",
		"/dev/loop",
	};

	for (size_t i = 0; s->kind == ISER_BLOCK && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(s->path, names[i], strlen(names[i])))
			return true;
	return false;
}

static void doubt_store(const struct iser_store *s, struct lines *notes)
{
	if (s->write_back && iser_store_forgets(s))
		lines_add(notes, "%s is written back into memory: nothing of it outlasts the host, "
			  "flushed or not", s->name);
	if (may_move(s))
		lines_add(notes, "%s may be another device after the next start: name it by its "
			  "link in /dev/disk/by-id", s->path);
}

void iser_plan_doubts(const struct iser_plan *p, const struct planner_host *h, struct lines *notes)
{
	doubts_host(p, h, notes);
	for (size_t t = 0; t < p->n_targets; t++) {
		const struct iser_target *target = &p->targets[t];

		doubt_target(target, notes);
		for (size_t i = 0; i < target->n_stores; i++)
			doubt_store(&target->stores[i], notes);
	}
}

static const char *kept(const struct iser_store *s)
{
	if (s->kind == ISER_BLOCK)
		return "its own cache decides when what is written is kept";
	if (s->kind == ISER_RAMDISK)
		return "write-through, and forgotten with the host";
	if (!s->write_back)
		return s->kind == ISER_TMPFS ? "write-through, and forgotten with the host" :
					       "write-through";
	return s->kind == ISER_TMPFS ? "write-back, and forgotten with the host" :
				       "write-back: what is not flushed is lost when the host ends";
}

void iser_plan_stores(const struct iser_plan *p, struct lines *notes)
{
	for (size_t t = 0; t < p->n_targets; t++)
		for (size_t i = 0; i < p->targets[t].n_stores; i++) {
			const struct iser_store *s = &p->targets[t].stores[i];
			char size[32] = "", node[32] = "";

			if (s->size)
				format_size(size, sizeof(size), s->size);
			if (s->node != NODE_UNKNOWN)
				snprintf(node, sizeof(node), " on node %d", s->node);
			lines_add(notes, "%s: %s%s%s%s%s%s; %s", s->name, iser_kinds[s->kind],
				  s->path ? " " : "", s->path ? s->path : "", *size ? " of " : "",
				  size, node, kept(s));
		}
}
