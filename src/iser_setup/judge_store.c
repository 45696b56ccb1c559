// SPDX-License-Identifier: Apache-2.0
/* Back stores: what LIO has of them, the tmpfs below, the LUN above, and where they really
 * are. */
#include "iser_setup/judging.h"

#include <stdio.h>
#include <string.h>

#define SIZE_TEXT 32
#define ANEW "save what it holds, remove the plan and apply it again"

/* ---- as LIO has it ---- */

static void judge_path(struct judging *j, const struct iser_store *s, const struct lio_store *now)
{
	CLEANUP_FREE char *path = s->kind == ISER_RAMDISK ? NULL : iser_store_file(s);

	if (!path)
		return;
	if (strcmp(now->path, path))
		judging_wrong(j, "path", ANEW, "serves %s, and should serve %s",
			      printable(now->path), printable(path));
	else
		judging_ok(j, "path", "serves %s", printable(path));
}

static void judge_size(struct judging *j, const struct iser_store *s, const struct lio_store *now)
{
	char is[SIZE_TEXT];

	if (s->size && now->size != s->size)
		judging_wrong(j, "size", ANEW, "has %llu bytes, and should have %llu",
			      (unsigned long long)now->size, (unsigned long long)s->size);
	else
		judging_ok(j, "size", "has %s", format_size(is, sizeof(is), now->size));
}

static void judge_cache(struct judging *j, const struct iser_store *s,
			const struct lio_store *now)
{
	if (s->kind != ISER_TMPFS && s->kind != ISER_FILE)
		return;
	if (now->write_back == s->write_back)
		judging_ok(j, "write-cache", "is write-%s", s->write_back ? "back" : "through");
	else
		judging_wrong(j, "write-cache", AGAIN, "is write-%s, and should be write-%s",
			      now->write_back ? "back" : "through",
			      s->write_back ? "back" : "through");
}

static void judge_lio(struct judging *j, const struct iser_store *s, const struct store_facts *f,
		      const struct lio_store *now)
{
	if (!now->enabled)
		judging_wrong(j, "store-enabled", AGAIN,
			      "is not enabled: nothing can be served of it");
	judge_path(j, s, now);
	judge_size(j, s, now);
	if (strcmp(now->serial, s->serial))
		judging_wrong(j, "serial", AGAIN, "has the serial \"%s\", and should have \"%s\": "
			      "initiators take it for another disk", printable(now->serial),
			      s->serial);
	else
		judging_ok(j, "serial", "has the serial %s", s->serial);
	judge_cache(j, s, now);
	for (size_t i = 0; i < s->n_attributes; i++)
		judging_attribute(j, s->attributes[i].name, &f->attributes[i],
				  s->attributes[i].value);
}

/* ---- what it stands on ---- */

/* A mount over it would hide it from everybody but LIO. */
static bool judge_tmpfs(struct judging *j, const struct iser_store *s,
			const struct store_facts *f)
{
	const struct tmpfs_mount *m = lio_mount(j->a->now, s->path);
	char nodes[IDS_MAX];

	if (!m) {
		judging_wrong(j, "tmpfs", AGAIN "; what the tmpfs held is gone", "no tmpfs is "
			      "mounted on %s", printable(s->path));
		return false;
	}
	if (f->where == STORE_CACHED || f->where == STORE_DEVICE) {
		judging_wrong(j, "tmpfs", judging_mend(j, "umount %s", printable(s->path)),
			      "another filesystem is mounted on %s, over the tmpfs",
			      printable(s->path));
		return false;
	}
	if (ids_only(&m->nodes) != s->node) {
		judging_wrong(j, "tmpfs", judging_mend(j, "mount -o remount,mpol=%s:%d %s; it "
			      "holds for pages to come", iser_policies[s->policy], s->node,
			      printable(s->path)), "the tmpfs on %s takes its memory from %s%s, "
			      "and should from node %d", printable(s->path), ids_count(&m->nodes) ?
			      "node " : "any node", ids_format(nodes, sizeof(nodes), &m->nodes),
			      s->node);
		return true;
	}
	judging_ok(j, "tmpfs", "the tmpfs on %s is of node %d", printable(s->path), s->node);
	return true;
}

/* "3.0 GiB on node 0, 1.0 GiB on node 1" */
static void pages_text(const struct file_pages *p, char *out, size_t room)
{
	char size[SIZE_TEXT];
	int at = 0;

	*out = '\0';
	for (size_t i = 0; i < p->n_on && at >= 0 && (size_t)at < room; i++)
		at += snprintf(out + at, room - (size_t)at, "%s%s on node %d", i ? ", " : "",
			       format_size(size, sizeof(size), p->on[i].bytes), p->on[i].node);
}

static void judge_pages(struct judging *j, const struct iser_store *s, const struct file_pages *p)
{
	const char *sampled = p->sampled ? " (a sample of them)" : "";
	uint64_t elsewhere = file_pages_elsewhere(p, s->node);
	char text[512], size[SIZE_TEXT];

	pages_text(p, text, sizeof(text));
	if (elsewhere && s->kind == ISER_TMPFS && s->policy == ISER_BIND)
		judging_wrong(j, "pages", judging_mend(j, ANEW ", when node %d has the memory",
						       s->node),
			      "pages are where they should not be: %s%s, and all should be on "
			      "node %d", text, sampled, s->node);
	else if (p->swapped && s->kind == ISER_TMPFS)
		judging_wrong(j, "pages", judging_mend(j, "give node %d memory that is free, then "
						       "swapoff -a", s->node),
			      "%s of its pages are in swap space",
			      format_size(size, sizeof(size), p->swapped));
	else if (!p->n_on)
		judging_ok(j, "pages", "it has no pages yet");
	else
		judging_ok(j, "pages", "its pages: %s%s", text, sampled);
}

static void judge_device(struct judging *j, const struct iser_store *s,
			 const struct store_facts *f)
{
	const char *what = f->where == STORE_CACHED ? "is on a device" : "is a device";
	char nodes[IDS_MAX];

	ids_format(nodes, sizeof(nodes), &f->nodes);
	if (!ids_count(&f->nodes))
		judging_ok(j, "device-node", "%s of which no node is known", what);
	else if (s->node != NODE_UNKNOWN && !ids_has(&f->nodes, (unsigned)s->node))
		judging_wrong(j, "device-node", judging_mend(j, "plan it for a target of node %s",
							     nodes),
			      "%s of node %s, and was planned on node %d", what, nodes, s->node);
	else
		judging_ok(j, "device-node", "%s of node %s", what, nodes);
}

static void judge_where(struct judging *j, const struct iser_store *s,
			const struct store_facts *f)
{
	switch (f->where) {
	case STORE_PAGES:
		judge_pages(j, s, &f->pages);
		break;
	case STORE_CACHED:
	case STORE_DEVICE:
		judge_device(j, s, f);
		break;
	case STORE_HIDDEN:
		if (s->node == NODE_UNKNOWN)
			judging_ok(j, "pages", "where its pages are, the kernel shows nobody");
		else
			judging_ok(j, "pages", "where its pages are, the kernel shows nobody; it "
				   "was made under node %d", s->node);
		break;
	case STORE_GONE:
		judging_wrong(j, "file", ANEW, "what it serves is not there any more by its name "
			      "(%s): LIO has open what was deleted or is called otherwise now",
			      f->why ? f->why : "it is gone");
		break;
	case STORE_UNSEEN:
	case STORE_WHERES:
		judging_unseen(j, "pages", "verify as root", "where it is cannot be seen: %s",
			       f->why ? f->why : "nobody looked");
		break;
	}
}

/* ---- its LUN ---- */

static void judge_lun(struct judging *j, const struct iser_store *s,
		      const struct lio_target *there)
{
	const struct lio_lun *lun = lio_lun(there, s->lun);

	if (!lun)
		judging_wrong(j, "lun", AGAIN, "LUN %u is not there", s->lun);
	else if (!lun->store || strcmp(lun->store, s->name) ||
		 strcmp(lun->plugin, iser_store_plugin(s)))
		judging_wrong(j, "lun", judging_mend(j, "targetcli /iscsi/%s/tpg%u/luns delete "
			      "lun%u; then " AGAIN, there->iqn, there->tag, s->lun),
			      "LUN %u serves %s",
			      s->lun, lun->store ? printable(lun->store) : "nothing");
	else
		judging_ok(j, "lun", "is LUN %u", s->lun);
}

void judge_store(struct judging *j, const struct iser_store *s, const struct store_facts *f,
		 const struct iser_target *t, const struct lio_target *there)
{
	const struct lio_store *now = lio_store(j->a->now, iser_store_plugin(s), s->name);
	bool ground = true;

	judging_about(j, "back store %s of %s", s->name, t->iqn);
	if (s->kind == ISER_TMPFS)
		ground = judge_tmpfs(j, s, f);
	if (!now) {
		judging_wrong(j, "store", AGAIN, "is not there");
		return;
	}
	judge_lio(j, s, f, now);
	if (ground)
		judge_where(j, s, f);
	if (there)
		judge_lun(j, s, there);
}
