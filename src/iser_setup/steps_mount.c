// SPDX-License-Identifier: Apache-2.0
/* What back stores stand on: directories, tmpfs of a node's memory, files. */
#include "iser_setup/maker.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_TEXT 32
#define OPTIONS_MAX 160

static const char *sized(char text[SIZE_TEXT], uint64_t bytes)
{
	return format_size(text, SIZE_TEXT, bytes);
}

/* ---- a tmpfs ---- */

/* "mpol=bind:" */
static void policy_option(char out[32], enum iser_policy policy)
{
	snprintf(out, 32, "mpol=%s:", iser_policies[policy]);
}

/* The size= of a mount's options; 0: there is none. */
static uint64_t size_option(const char *options)
{
	const char *at = strstr(options, "size=");
	char text[SIZE_TEXT];
	uint64_t bytes;

	if (!at)
		return 0;
	at += strlen("size=");
	snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, ","), at);
	return parse_size(text, &bytes) ? 0 : bytes;
}

/* The kernel tells its size in KiB, in whole pages. */
static uint64_t mount_size(const struct iser_store *s)
{
	const uint64_t page = 4096;

	return (s->size + page - 1) / page * page;
}

bool mount_fits(const struct iser_store *s, const struct tmpfs_mount *mount)
{
	char policy[32];

	policy_option(policy, s->policy);
	return size_option(mount->options) == mount_size(s) &&
	       ids_only(&mount->nodes) == s->node && strstr(mount->options, policy);
}

static json_t *mount_request(const struct iser_store *s)
{
	char options[OPTIONS_MAX], policy[32];

	policy_option(policy, s->policy);
	snprintf(options, sizeof(options), "size=%llu,mode=0700,%s%d",
		 (unsigned long long)mount_size(s), policy, s->node);
	return json_pack("{s:s, s:s, s:s}", "do", "mount", "path", s->path, "options", options);
}

static json_t *path_request(const char *what, const char *path)
{
	return json_pack("{s:s, s:s}", "do", what, "path", path);
}

static json_t *size_request(const char *what, const char *path, uint64_t size)
{
	return json_pack("{s:s, s:s, s:I}", "do", what, "path", path, "size", (json_int_t)size);
}

/* ---- away ---- */

/* The store of the wanted plan that goes on in the tmpfs at path; NULL: none does. */
static const struct iser_store *goes_on(const struct maker *m, const char *path)
{
	const struct iser_plan *p = m->a->want;
	size_t nth = 0;

	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++, nth++) {
			const struct iser_store *s = &p->targets[i].stores[k];

			if (s->kind == ISER_TMPFS && !strcmp(s->path, path) &&
			    m->fates[nth] != FATE_AFRESH)
				return s;
		}
	return NULL;
}

/* Back to options as the kernel tells them, which it takes again but for what is the mount's and
 * not the filesystem's. */
static json_t *mount_undo(const struct tmpfs_mount *mount)
{
	char options[OPTIONS_MAX];
	const char *policy = strstr(mount->options, "mpol=");

	snprintf(options, sizeof(options), "size=%llu,mode=0700%s%.*s",
		 (unsigned long long)size_option(mount->options), policy ? "," : "",
		 policy ? (int)strcspn(policy, ",") : 0, policy ? policy : "");
	return json_pack("{s:s, s:s, s:s}", "do", "mount", "path", mount->path, "options",
			 options);
}

static bool has_tmpfs(const struct iser_plan *p, const char *path)
{
	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++)
			if (p->targets[i].stores[k].kind == ISER_TMPFS &&
			    !strcmp(p->targets[i].stores[k].path, path))
				return true;
	return false;
}

bool mount_ours(const struct maker *m, const struct tmpfs_mount *mount, size_t plans)
{
	if (strcmp(mount->source, ISER_MOUNT_SOURCE))
		return false;
	for (size_t o = 0; o < plans; o++)
		if (has_tmpfs(ours(m, o), mount->path))
			return true;
	return false;
}

static void take_mount(struct maker *m, const struct iser_store *s,
		       const struct tmpfs_mount *mount)
{
	CLEANUP_FREE char *file = iser_store_file(s);
	struct iser_step *step;
	int64_t held;
	int node;

	if (goes_on(m, s->path))
		return;
	if (mount->covered) {
		maker_problem(m, "back store %s: something else is mounted over its tmpfs at %s; "
			      "unmount that first", s->name, printable(s->path));
		return;
	}
	held = file ? m->a->look->size(file) : -1;
	node = ids_only(&mount->nodes);
	step = maker_add(m, path_request("unmount", s->path), mount_undo(mount),
			 "unmount the tmpfs at %s", printable(s->path));
	step->lossy = held > 0;
	if (held > 0) {
		step->memory = -held;
		step->node = node;
	}
}

/* The last that was mounted at path as those of ours are. */
static const struct tmpfs_mount *mount_like_ours(const struct maker *m, const char *path)
{
	const struct lio *l = m->a->now;

	for (size_t i = l->n_mounts; i--;)
		if (!strcmp(l->mounts[i].path, path) &&
		    !strcmp(l->mounts[i].source, ISER_MOUNT_SOURCE))
			return &l->mounts[i];
	return NULL;
}

void mounts_take(struct maker *m)
{
	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_plan *p = ours(m, o);

		for (size_t i = 0; p && i < p->n_targets; i++)
			for (size_t k = 0; k < p->targets[i].n_stores; k++) {
				const struct iser_store *s = &p->targets[i].stores[k];
				const struct tmpfs_mount *mount = s->kind == ISER_TMPFS ?
					mount_like_ours(m, s->path) : NULL;

				/* Once, whichever plans name it. */
				if (mount && mount_ours(m, mount, o + 1) &&
				    !mount_ours(m, mount, o))
					take_mount(m, s, mount);
			}
	}
}

/* Does p need path, or something below it? */
static bool needs(const struct iser_plan *p, const char *path)
{
	size_t len = strlen(path);

	for (size_t i = 0; p && i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++) {
			const char *own = p->targets[i].stores[k].path;

			if (own && !strncmp(own, path, len) && (!own[len] || own[len] == '/'))
				return true;
		}
	return false;
}

bool file_ours(const struct maker *m, const char *path)
{
	for (size_t o = 0; o < ours_count(m); o++) {
		const struct iser_plan *p = ours(m, o);

		for (size_t i = 0; p && i < p->n_targets; i++)
			for (size_t k = 0; k < p->targets[i].n_stores; k++) {
				const struct iser_store *s = &p->targets[i].stores[k];

				if (s->kind == ISER_FILE && !strcmp(s->path, path))
					return true;
			}
	}
	return false;
}

/* What we made may be somebody else's by now; NULL: it is not, as far as can be seen. */
static const char *user_of(const struct maker *m, const char *path)
{
	const struct lio *l = m->a->now;

	for (size_t o = 0; o < m->a->n_others; o++)
		for (size_t i = 0; i < iser_state_plans(&m->a->others[o]); i++)
			if (needs(iser_state_plan(&m->a->others[o], i), path))
				return m->a->others[o].name;
	for (size_t i = 0; i < l->n_stores; i++)
		if (!strcmp(l->stores[i].path, path) &&
		    !store_ours(m, l->stores[i].plugin, l->stores[i].name))
			return l->stores[i].name;
	return NULL;
}

static void take_file(struct maker *m, const char *path)
{
	const char *user = user_of(m, path);

	if (user)
		maker_note(m, "%s stays: %s has it, too", printable(path), printable(user));
	else if (!m->a->want && m->a->destroy)
		maker_add(m, path_request("remove-file", path), NULL,
			  "remove the file %s, with what is in it", printable(path));
	else if (!m->a->want || file_ours(m, path))
		maker_note(m, "%s stays, with what is in it", printable(path));
}

void made_take(struct maker *m)
{
	const struct iser_state *s = m->a->state;

	for (size_t i = s->n_made; i--;) {
		const char *path = s->made[i];

		if (needs(m->a->want, path) || m->a->look->size(path) < 0)
			continue;
		if (!m->a->look->is_dir(path))
			take_file(m, path);
		else if (!user_of(m, path))
			maker_add(m, path_request("remove-dir", path),
				  path_request("make-dir", path), "remove the directory %s",
				  printable(path))->may_fail = true;
	}
}

/* ---- made ---- */

/* Has an earlier step made it? Several stores may be in it. */
static bool is_made(const struct maker *m, const char *path)
{
	for (size_t i = 0; i < m->out->n; i++) {
		const json_t *r = m->out->v[i].request;
		const char *what = json_string_value(json_object_get(r, "do"));
		const char *at = json_string_value(json_object_get(r, "path"));

		if (what && at && !strcmp(what, "make-dir") && !strcmp(at, path))
			return true;
	}
	return false;
}

/* Each level that is not there. */
static void make_dirs_to(struct maker *m, const char *path)
{
	char part[PATH_MAX];
	const char *end = path;

	while (*end) {
		end++;
		end += strcspn(end, "/");
		snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
		if (m->a->look->size(part) < 0 && !is_made(m, part))
			maker_add(m, path_request("make-dir", part),
				  path_request("remove-dir", part), "make the directory %s",
				  printable(part));
	}
}

static void make_tmpfs(struct maker *m, const struct iser_store *s, bool afresh)
{
	const struct tmpfs_mount *mount = lio_mount(m->a->now, s->path);
	char size[SIZE_TEXT];

	if (mount && !afresh)
		return;
	make_dirs_to(m, s->path);
	maker_add(m, mount_request(s), path_request("unmount", s->path),
		  "mount a tmpfs of %s at %s, %s node %d", sized(size, s->size),
		  printable(s->path), s->policy == ISER_BIND ? "of the memory of" :
		  "preferably of", s->node);
}

void store_ground(struct maker *m, const struct iser_store *s, bool afresh)
{
	CLEANUP_FREE char *file = iser_store_file(s);
	bool bound = s->kind == ISER_TMPFS && s->policy == ISER_BIND;
	struct iser_step *step;
	int64_t there = -1;
	char size[SIZE_TEXT];

	if (!file) {
		m->failed = true;
		return;
	}
	if (s->kind == ISER_TMPFS) {
		make_tmpfs(m, s, afresh);
		there = lio_mount(m->a->now, s->path) && !afresh ? m->a->look->size(file) : -1;
	} else if (s->kind == ISER_FILE) {
		char dir[PATH_MAX];

		snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(file, '/') - file), file);
		make_dirs_to(m, dir);
		there = m->a->look->size(file);
	} else {
		return;
	}
	if (there == (int64_t)s->size)
		return;
	if (there > (int64_t)s->size) {
		maker_add(m, size_request("cut-file", file, s->size),
			  json_pack("{s:s, s:s, s:I, s:b}", "do", "make-file", "path", file, "size",
				    (json_int_t)there, "bound", (int)bound),
			  "cut the file %s to %s", printable(file),
			  sized(size, s->size))->lossy = true;
		return;
	}
	step = maker_add(m, json_pack("{s:s, s:s, s:I, s:b, s:b, s:b}", "do", "make-file", "path",
				      file, "size", (json_int_t)s->size, "bound", (int)bound,
				      "in-tmpfs", (int)(s->kind == ISER_TMPFS), "new",
				      (int)(there < 0)),
			 there < 0 ? path_request("remove-file", file) :
			 size_request("cut-file", file, (uint64_t)there),
			 there < 0 ? "make the file %s of %s" : "let the file %s grow to %s",
			 printable(file), sized(size, s->size));
	step->node = s->node;
	if (s->kind == ISER_TMPFS) {
		step->memory = (int64_t)s->size - (there < 0 ? 0 : there);
		step->strictly = bound;
	}
}
