// SPDX-License-Identifier: Apache-2.0
/* rftpd.conf: read through the tables of options, and written. */
#include "server/option_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { SECTIONS_MAX = 10000 };

/* Where the lines of a section go. */
struct target {
	const struct option_def *table;
	void *base;
};

struct reading {
	struct load *l;
	struct conf_reader r;
	struct target to;  /* of the section that is being read; no table: it is not known */
};

/* ---- sections ---- */

/* The one of that name among n of size bytes each, whose first member is the name; made at the
 * end when it is not there. NULL: memory is out. */
static void *find_or_add(void **list, size_t *n, size_t size, const char *name)
{
	char *grown, *copy;

	for (size_t i = 0; i < *n; i++)
		if (!strcmp(*(char **)((char *)*list + i * size), name))
			return (char *)*list + i * size;
	copy = *n < SECTIONS_MAX ? strdup(name) : NULL;
	grown = copy ? realloc(*list, (*n + 1) * size) : NULL;
	if (!grown) {
		free(copy);
		return NULL;
	}
	*list = grown;
	grown += (*n)++ * size;
	memset(grown, 0, size);
	*(char **)grown = copy;
	return grown;
}

static const char *name_of(const char *section, const char *kind)
{
	size_t len = strlen(kind);

	if (strncmp(section, kind, len) || !strspn(section + len, " \t"))
		return NULL;
	section += len;
	return section + strspn(section, " \t");
}

static int begin_section(struct reading *f, const char *section, struct err *e)
{
	struct srv_options *o = f->l->o;
	const char *name;

	f->to = (struct target){ .table = NULL };
	if (!strcmp(section, "anonymous")) {
		f->to = (struct target){ srv_anonymous_table, &o->anonymous_rules };
		return 0;
	}
	if ((name = name_of(section, "user")))
		f->to = (struct target){ srv_user_table,
			find_or_add((void **)&o->user_rules, &o->nuser_rules,
				    sizeof(*o->user_rules), name) };
	else if ((name = name_of(section, "group")))
		f->to = (struct target){ srv_user_table,
			find_or_add((void **)&o->group_rules, &o->ngroup_rules,
				    sizeof(*o->group_rules), name) };
	else if ((name = name_of(section, "nic")))
		f->to = (struct target){ srv_nic_table,
			find_or_add((void **)&o->nics, &o->nnics, sizeof(*o->nics), name) };
	else
		return err_set(e, -EINVAL, "there is no section [%s], only [user NAME], "
			       "[group NAME], [anonymous] and [nic NAME]", printable(section));
	return f->to.base ? 0 : err_sys(e, -ENOMEM, "section");
}

/* ---- lines ---- */

static int no_such_setting(const struct reading *f, const char *key, struct err *e)
{
	if (f->to.table == srv_table || !option_named(srv_table, key))
		return err_set(e, -EINVAL, "there is no setting \"%s\"%s", printable(key),
			       f->to.table == srv_table ? "" : " in such a section");
	return err_set(e, -EINVAL, "\"%s\" belongs before the first section", printable(key));
}

static int take(void *arg, const char *section, const char *key, const char *value, struct err *e)
{
	struct reading *f = arg;
	const struct option_def *d;
	int rc;

	if (!key)
		return begin_section(f, section, e);
	if (!f->to.table) /* which has been said */
		return 0;
	d = option_named(f->to.table, key);
	if (!d)
		return no_such_setting(f, key, e);
	if (!(d->where & IN_FILE))
		return err_set(e, -EINVAL, "\"%s\" is for the command line only", key);
	if (f->to.table == srv_table)
		rc = load_take(f->l, d, value, f->r.line, e);
	else
		rc = option_take(f->to.base, d, value, true, e);
	if (rc)
		err_prefix(e, "%s", key);
	return rc;
}

static void bad_line(void *arg, const struct err *e)
{
	struct reading *f = arg;

	load_error(f->l, e);
}

void load_file(struct load *l, const char *file, bool must)
{
	struct reading f = {
		.l = l, .r = { .fn = take, .bad = bad_line }, .to = { srv_table, l->o },
	};
	CLEANUP_FREE char *name = strdup(file); /* may be o's own, which a line may not free */
	struct err e = ERR_INIT;
	int rc;

	f.r.arg = &f;
	rc = name ? conf_read_with(name, &f.r, &e) : err_sys(&e, -ENOMEM, "options");
	if (rc == -ENOENT && !must)
		return;
	if (rc == -ENOENT)
		err_sys(&e, rc, "cannot read %s", printable(file));
	if (rc)
		load_error(l, &e);
	if (!rc && !l->o->config)
		l->o->config = steal_ptr(&name);
}

/* ---- showing ---- */

static void show_section(FILE *out, const char *kind, const char *name,
			 const struct option_def *table, const void *base)
{
	fprintf(out, "\n[%s%s%s]\n", kind, name ? " " : "", name ? name : "");
	for (; table->name; table++)
		option_show(out, base, table);
}

void srv_options_show(FILE *out, const struct srv_options *o)
{
	for (const struct option_def *d = srv_table; d->name; d++)
		if (d->where & IN_FILE)
			option_show(out, o, d);
	show_section(out, "anonymous", NULL, srv_anonymous_table, &o->anonymous_rules);
	for (size_t i = 0; i < o->nuser_rules; i++)
		show_section(out, "user", o->user_rules[i].name, srv_user_table,
			     &o->user_rules[i]);
	for (size_t i = 0; i < o->ngroup_rules; i++)
		show_section(out, "group", o->group_rules[i].name, srv_user_table,
			     &o->group_rules[i]);
	for (size_t i = 0; i < o->nnics; i++)
		show_section(out, "nic", o->nics[i].name, srv_nic_table, &o->nics[i]);
}
