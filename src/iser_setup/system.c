// SPDX-License-Identifier: Apache-2.0
/* All that LIO has, read and let go. */
#include "iser_setup/lio.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define CONFIGFS "/sys/kernel/config"

/* ---- read ---- */

static bool is_dir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

/* There is no such file before Linux 5.17 or so, and then every CPU is allowed. */
static int read_cpus(const char *fabric, struct lio *l)
{
	CLEANUP_FREE char *file = cfs_path(fabric, "cpus_allowed_list");
	struct stat st;

	if (!file)
		return -ENOMEM;
	if (stat(file, &st))
		return 0;
	l->cpus = cfs_text(fabric, "cpus_allowed_list");
	return l->cpus ? 0 : -ENOMEM;
}

static int read_target(const char *target, struct lio *l)
{
	CLEANUP_FREE char *fabric = cfs_path(target, "iscsi");
	int r;

	if (!fabric)
		return -ENOMEM;
	l->there = is_dir(target);
	l->iscsi = is_dir(fabric);
	r = read_cpus(fabric, l);
	r = r ? r : lio_read_stores(target, l);
	return r ? r : lio_read_targets(target, l);
}

/* What variable of the environment says, or else fallback. */
static const char *place(const char *variable, const char *fallback)
{
	const char *named = getenv(variable);

	return named && *named ? named : fallback;
}

struct lio *lio_read(const char *configfs, struct err *e)
{
	CLEANUP_LIO struct lio *l = calloc(1, sizeof(*l));
	CLEANUP_FREE char *target = cfs_path(configfs ? configfs : place("RFTP_CONFIGFS", CONFIGFS),
					     "target");

	if (l && target && !read_target(target, l) &&
	    !lio_read_mounts(place("RFTP_PROC", "/proc"), l))
		return steal_ptr(&l);
	err_set(e, -ENOMEM, "what LIO has cannot be looked at: out of memory, or of file "
		"descriptors");
	return NULL;
}

/* ---- free ---- */

static void free_secret(char *s)
{
	if (s)
		explicit_bzero(s, strlen(s));
	free(s);
}

static void clear_store(struct lio_store *s)
{
	free(s->plugin);
	free(s->name);
	free(s->dir);
	free(s->path);
	free(s->serial);
}

static void clear_acl(struct lio_acl *a)
{
	free(a->initiator);
	free(a->user);
	free_secret(a->secret);
	free(a->mutual_user);
	free_secret(a->mutual_secret);
	free(a->mapped);
	free(a->session);
}

static void clear_target(struct lio_target *t)
{
	free(t->iqn);
	free(t->dir);
	for (size_t i = 0; i < t->n_portals; i++)
		free(t->portals[i].address);
	free(t->portals);
	for (size_t i = 0; i < t->n_luns; i++) {
		free(t->luns[i].plugin);
		free(t->luns[i].store);
	}
	free(t->luns);
	for (size_t i = 0; i < t->n_acls; i++)
		clear_acl(&t->acls[i]);
	free(t->acls);
}

static void clear_mount(struct tmpfs_mount *m)
{
	free(m->path);
	free(m->source);
	free(m->options);
}

void lio_free(struct lio *l)
{
	if (!l)
		return;
	free(l->cpus);
	for (size_t i = 0; i < l->n_stores; i++)
		clear_store(&l->stores[i]);
	free(l->stores);
	for (size_t i = 0; i < l->n_targets; i++)
		clear_target(&l->targets[i]);
	free(l->targets);
	for (size_t i = 0; i < l->n_mounts; i++)
		clear_mount(&l->mounts[i]);
	free(l->mounts);
	free(l);
}

void cleanup_lio(struct lio **l)
{
	lio_free(*l);
}
