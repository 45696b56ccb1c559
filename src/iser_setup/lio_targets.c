// SPDX-License-Identifier: Apache-2.0
/* Targets, as target/iscsi has them: <iqn>/tpgt_<tag>. */
#include "iser_setup/lio.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define NOT_SET "NULL" /* what begins so is none to the kernel */

/* ---- portals ---- */

/* "10.0.0.1:3260" or "[fd00::1]:3260"; what is neither is left out. */
static int read_portal(void *context, const char *path, const char *name)
{
	struct lio_target *t = context;
	const char *colon = strrchr(name, ':');
	struct lio_portal *p;
	size_t len;
	unsigned port;

	if (!colon || colon == name || !cfs_numbered(colon, ":", UINT16_MAX, &port))
		return 0;
	len = (size_t)(colon - name);
	if (*name == '[' && name[len - 1] == ']' && len > 2) {
		name++;
		len -= 2;
	}
	p = iser_plan_add(t->portals, t->n_portals);
	if (!p)
		return -ENOMEM;
	p->address = strndup(name, len);
	p->port = port;
	p->iser = cfs_number(path, "iser") != 0;
	return p->address ? 0 : -ENOMEM;
}

/* ---- LUNs ---- */

/* link: ".../core/fileio_0/name". */
static int store_of_link(char *link, struct lio_lun *lun)
{
	char *name = strrchr(link, '/'), *hba, *number;

	if (!name)
		return 0;
	*name++ = '\0';
	hba = strrchr(link, '/');
	hba = hba ? hba + 1 : link;
	number = strrchr(hba, '_');
	if (!number || number == hba)
		return 0;
	*number = '\0';
	lun->plugin = strdup(hba);
	lun->store = strdup(name);
	return lun->plugin && lun->store ? 0 : -ENOMEM;
}

static int read_lun(void *context, const char *path, const char *name)
{
	struct lio_target *t = context;
	CLEANUP_FREE char *link = NULL;
	struct lio_lun *lun;
	unsigned n;

	if (!cfs_numbered(name, "lun_", UINT_MAX, &n))
		return 0;
	link = cfs_link(path);
	lun = iser_plan_add(t->luns, t->n_luns);
	if (!link || !lun)
		return -ENOMEM;
	lun->lun = n;
	return store_of_link(link, lun);
}

static int by_number(const void *a, const void *b)
{
	unsigned x = ((const struct lio_lun *)a)->lun, y = ((const struct lio_lun *)b)->lun;

	return x < y ? -1 : x > y;
}

/* ---- initiators ---- */

static int read_mapped(void *context, const char *path, const char *name)
{
	struct lio_acl *a = context;
	CLEANUP_FREE char *link = NULL;
	const char *lun;
	struct lio_mapped *mapped;
	unsigned n, as;

	if (!cfs_numbered(name, "lun_", UINT_MAX, &as))
		return 0;
	link = cfs_link(path);
	if (!link)
		return -ENOMEM;
	lun = strrchr(link, '/');
	if (!lun || !cfs_numbered(lun, "/lun_", UINT_MAX, &n))
		return 0;
	mapped = iser_plan_add(a->mapped, a->n_mapped);
	if (!mapped)
		return -ENOMEM;
	*mapped = (struct lio_mapped){ .as = as, .lun = n,
				       .read_only = cfs_number(path, "write_protect") != 0 };
	return 0;
}

static int by_lun(const void *a, const void *b)
{
	unsigned x = ((const struct lio_mapped *)a)->lun, y = ((const struct lio_mapped *)b)->lun;

	return x < y ? -1 : x > y;
}

static char *read_auth(const char *path, const char *name)
{
	char *value = cfs_text(path, name);

	if (value && !strncmp(value, NOT_SET, strlen(NOT_SET)))
		*value = '\0';
	return value;
}

/* The lines that people understand, behind each other; info is cut to pieces. What is in them
 * an initiator may have sent. */
static char *session_line(char *info)
{
	char *line = malloc(strlen(info) * 2 + 1), *to = line, *save = NULL;

	if (!line)
		return NULL;
	for (char *p = strtok_r(info, "\n", &save); p; p = strtok_r(NULL, "\n", &save)) {
		const char *text = p + strspn(p, " ");

		if (*text == '-' || (text != p && strncmp(text, "Address ", 8)))
			continue;
		to += sprintf(to, "%s%s", to == line ? "" : ", ", text);
	}
	*to = '\0';
	for (char *p = line; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			*p = ' ';
	return line;
}

static int read_session(const char *path, struct lio_acl *a)
{
	CLEANUP_FREE char *info = cfs_text(path, "info");

	if (!info)
		return -ENOMEM;
	a->logged_in = !strncmp(info, "InitiatorName:", strlen("InitiatorName:"));
	a->session = a->logged_in ? session_line(info) : strdup("");
	return a->session ? 0 : -ENOMEM;
}

static int read_acl(void *context, const char *path, const char *name)
{
	struct lio_target *t = context;
	struct lio_acl *a = iser_plan_add(t->acls, t->n_acls);
	int r;

	if (!a)
		return -ENOMEM;
	a->initiator = strdup(name);
	a->user = read_auth(path, "auth/userid");
	a->secret = read_auth(path, "auth/password");
	a->mutual_user = read_auth(path, "auth/userid_mutual");
	a->mutual_secret = read_auth(path, "auth/password_mutual");
	if (!a->initiator || !a->user || !a->secret || !a->mutual_user || !a->mutual_secret)
		return -ENOMEM;
	r = cfs_dirs(path, read_mapped, a);
	if (a->n_mapped)
		qsort(a->mapped, a->n_mapped, sizeof(*a->mapped), by_lun);
	return r ? r : read_session(path, a);
}

/* Each name has its line, and a NUL behind it. */
static int count_dynamic(const char *path, unsigned *n)
{
	size_t len;
	CLEANUP_FREE char *names = cfs_bytes(path, "dynamic_sessions", &len);

	if (!names)
		return -ENOMEM;
	for (size_t i = 0; i < len; i++)
		*n += names[i] == '\n';
	return 0;
}

/* ---- targets ---- */

static int read_parts(const char *path, struct lio_target *t)
{
	static const struct {
		const char *dir;
		cfs_each *each;
	} parts[] = { { "np", read_portal }, { "lun", read_lun }, { "acls", read_acl } };
	int r = 0;

	for (size_t i = 0; !r && i < sizeof(parts) / sizeof(parts[0]); i++) {
		CLEANUP_FREE char *dir = cfs_path(path, parts[i].dir);

		r = dir ? cfs_dirs(dir, parts[i].each, t) : -ENOMEM;
	}
	if (t->n_luns)
		qsort(t->luns, t->n_luns, sizeof(*t->luns), by_number);
	return r ? r : count_dynamic(path, &t->dynamic);
}

static struct lio_target *add_target(struct lio *l, const char *iqn, const char *dir, unsigned tag)
{
	struct lio_target *t = iser_plan_add(l->targets, l->n_targets);

	if (!t)
		return NULL;
	t->iqn = strdup(iqn);
	t->dir = strdup(dir);
	t->tag = tag;
	return t->iqn && t->dir ? t : NULL;
}

struct reading {
	struct lio *lio;
	const char *iqn;
};

static int read_group(void *context, const char *path, const char *name)
{
	const struct reading *r = context;
	struct lio_target *t;
	unsigned tag;

	if (!cfs_numbered(name, "tpgt_", LIO_TAG_MOST, &tag))
		return 0;
	t = add_target(r->lio, r->iqn, path, tag);
	if (!t)
		return -ENOMEM;
	t->enabled = cfs_number(path, "enable") != 0;
	return read_parts(path, t);
}

/* One that has no portal group is there all the same, and in the way of another. */
static int read_iqn(void *context, const char *path, const char *name)
{
	struct reading r = { .lio = context, .iqn = name };
	size_t before = r.lio->n_targets;
	int failed;

	if (!strcmp(name, "discovery_auth"))
		return 0;
	failed = cfs_dirs(path, read_group, &r);
	if (failed || r.lio->n_targets > before)
		return failed;
	return add_target(r.lio, name, path, LIO_NO_GROUP) ? 0 : -ENOMEM;
}

int lio_read_targets(const char *target, struct lio *l)
{
	CLEANUP_FREE char *iscsi = cfs_path(target, "iscsi");

	return iscsi ? cfs_dirs(iscsi, read_iqn, l) : -ENOMEM;
}
