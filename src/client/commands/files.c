// SPDX-License-Identifier: Apache-2.0
/* rftp mkdir, rftp rm and rftp mv. */
#include "client/foreign/foreign.h"
#include "client/names.h"
#include "client/servers.h"

#include <fcntl.h>

/* ---- mkdir ---- */

static int mkdir_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	CLEANUP_FREE char *path = name_trimmed(server_path(p));
	int rc;

	if (!path)
		return err_sys(e, -ENOMEM, "%s", printable(p->path));

	rc = j->o.parents ? server_make_dirs(s, path, e) : server_simple(s, FTP_MKD, path, e);
	if (rc == -ENOENT && !j->o.parents)
		err_set(e, rc, "%s (-p makes missing parents, too)", e->text);
	if (rc == 0)
		emit_path_event(j->o.json, "mkdir", server_path(p));
	return rc;
}

enum exit_status command_mkdir(struct job *j)
{
	return each_url(j, mkdir_one);
}

/* ---- rm ---- */

/* Where to report the removed names. */
struct rm_output {
	const struct job *j;
	struct names *later;  /* collects the names; NULL: they are printed at once */
};

static void log_removed(const char *path)
{
	log_info("removed %s", printable(path));
}

/* Report path as removed, or with --dry-run as to be removed. depth 0: it was named by the user. */
static void rm_report(void *arg, const char *path, unsigned depth)
{
	const struct rm_output *out = arg;
	const struct options *o = &out->j->o;

	if (out->later)
		(void)names_add(out->later, strdup(path));
	else if (o->json && (!depth || o->verbose || o->dry_run))
		emit_path_event(true, "rm", path);
	else if (!o->json && o->dry_run && !o->quiet)
		printf("%s\n", printable(path));
	else if (!o->json)
		log_removed(path);
}

/* Remove a tree on an rftpd by one command. With -v, find the names before. */
static int rm_tree_at_once(struct server *s, const char *path, struct rm_output *out,
			   struct err *e)
{
	struct tree_removal r = { .lists = true, .removed = rm_report, .arg = out };
	struct err ignored = ERR_INIT;
	struct names names = { 0 };
	int rc;

	out->later = &names;
	if (out->j->o.verbose)
		(void)server_remove_tree(s, path, &r, &ignored);
	out->later = NULL;
	rc = server_simple(s, FTP_RMDA, path, e);
	for (size_t i = 0; rc == 0 && i + 1 < names.n; i++)
		rm_report(out, names.all[i], 1);
	if (rc == 0)
		rm_report(out, path, 0);
	names_clear(&names);
	return rc;
}

static int rm_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	struct rm_output out = { .j = j };
	const struct filter *filter = filter_is_set(&j->o.filter) ? &j->o.filter : NULL;
	struct tree_removal r = { .lists = j->o.dry_run, .filter = filter,
				  .rel_at = name_rel_at(p->path), .removed = rm_report,
				  .arg = &out };
	struct ftp_facts f = { 0 };
	struct err why = ERR_INIT;
	int rc;

	/* Refuse "/", "~" and the like: probably a mistake, and it would remove all files. As rm(1)
	 * does, refuse "a/..", which may be the root, too. */
	if (!p->path[strspn(p->path, "/.~")] || name_is_dots(p->path))
		return err_set(e, -EINVAL, NOT_REMOVED_WHY,
			       printable(server_path(p)));

	rc = r.lists || filter ? server_stat(s, p->path, &f, &why) : 0;
	if (rc == 0 && filter && !names_directory(p->path) &&
	    !filter_admits(filter, name_last(p->path), f.type == 'd')) {
		ftp_facts_clear(&f);
		return 0;
	}
	if (rc == 0 && !r.lists)
		rc = server_simple(s, FTP_DELE, p->path, &why);
	if (rc == 0 && f.type == 'd')
		rc = -EISDIR;
	ftp_facts_clear(&f);
	if (rc && (error_is_lost(rc) || !server_is_directory(s, p->path)))
		return err_set(e, rc, "%s", why.text);
	if (rc && !j->o.recursive)
		return err_set(e, -EISDIR, "%s is a directory (%srm -r removes it with "
			       "all its content)", printable(p->path), j->servers ? "" : "rftp ");

	if (rc)
		return s->foreign || r.lists || filter ? server_remove_tree(s, p->path, &r, e) :
		       rm_tree_at_once(s, p->path, &out, e);
	rm_report(&out, p->path, 0);
	return 0;
}

/* ---- rm --parts ---- */

#define PARTS_OPEN_DIRS 64

struct part_removal {
	const struct job *j;
	const char *path;     /* the current directory */
	struct names parts;   /* the parts in path */
	struct names dirs;    /* directories to list, in this order */
	int failed;           /* the first failure */
};

static void part_failed(struct part_removal *p, const char *path, int rc, const char *why)
{
	log_error("%s: %s", printable(path), why);
	p->failed = p->failed ? p->failed : rc;
}

static void part_removed(void *arg, const char *path, int rc)
{
	struct part_removal *p = arg;

	if (rc == -EBUSY) {
		log_warn("%s stays: " PART_BUSY_WHY, printable(path));
	} else if (rc && rc != -ENOENT) {
		part_failed(p, path, rc, root_why(rc));
	} else {
		emit_path_event(p->j->o.json, "rm", path);
		if (!p->j->o.json)
			log_removed(path);
	}
}

static enum exit_status rm_parts_here(const struct job *j, const char *word)
{
	struct part_removal p = { .j = j };
	struct dirs *set = dirs_new(PARTS_OPEN_DIRS);
	int rc, fd = set ? open(word, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct dir *top = fd < 0 ? NULL : dir_top(set, fd, word);

	if (top) {
		rc = parts_clear(top, j->o.recursive, part_removed, &p);
		if (rc)
			part_failed(&p, word, rc, root_why(rc));
		dir_put(top);
	} else {
		part_failed(&p, word, -EIO, strerror(set && fd < 0 ? errno : ENOMEM));
	}
	dirs_free(set);
	return p.failed ? EXIT_SOME_FAILED : EXIT_DONE;
}

/* A name with FOREIGN_OLD is not a part: it is a complete file that rftp has moved away, on a
 * server that cannot replace a file by a rename. */
static int parts_collect(struct part_removal *p, const struct facts_list *l)
{
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->n; i++) {
		const struct ftp_facts *f = &l->all[i];
		const char *tail = part_tail(f->name);

		if (!bulk_name_ok(f->name))
			part_failed(p, p->path, -EINVAL,
				    LISTED_NAME_WHY);
		else if (f->type == 'd' && p->j->o.recursive)
			rc = names_add(&p->dirs, name_below(p->path, f->name));
		else if (f->type != 'd' &&
			 (part_is_ours(f->name) || (tail && !strcmp(tail, FOREIGN_PART))))
			rc = names_add(&p->parts, name_below(p->path, f->name));
	}
	return rc;
}

/* Remove the parts in a directory, with -r also below it. The server refuses to delete a part that
 * one of its transfers is writing. */
static int rm_parts_one(struct job *j, struct server *s, const struct url *url, struct err *e)
{
	struct part_removal p = { .j = j };
	int rc = names_add(&p.dirs, strdup(server_path(url))) ?
		 err_nomem(e) : 0;

	for (size_t i = 0; rc == 0 && i < p.dirs.n; i++) {
		struct facts_list l = { 0 };
		struct err why = ERR_INIT;

		p.path = p.dirs.all[i];
		rc = server_list(s, p.path, &l, &why);
		if (rc == 0 && parts_collect(&p, &l))
			rc = err_nomem(&why);
		facts_clear(&l);

		for (size_t k = 0; rc == 0 && k < p.parts.n; k++) {
			struct err reply = ERR_INIT;
			int r = server_simple(s, FTP_DELE, p.parts.all[k], &reply);

			if (error_is_lost(r))
				rc = err_set(&why, r, "%s", reply.text);
			else if (r && r != -EBUSY)
				part_failed(&p, p.parts.all[k], r, reply.text);
			else
				part_removed(&p, p.parts.all[k], r);
		}
		names_clear(&p.parts);

		if (rc && (i == 0 || error_is_lost(rc))) {
			*e = why;
		} else if (rc) {
			part_failed(&p, p.path, rc, why.text);
			rc = 0;
		}
	}
	names_clear(&p.dirs);
	if (rc == 0 && p.failed)
		rc = err_set(e, p.failed, "%s: not all unfinished files can be removed",
			     printable(server_path(url)));
	return rc;
}

enum exit_status command_rm(struct job *j)
{
	enum exit_status status = EXIT_DONE;
	int remote = 0;

	if (!j->o.parts)
		return each_url(j, rm_one);
	if (j->o.dry_run)
		return usage_error(j, "--dry-run and --parts exclude each other");
	for (int i = 0; i < j->nwords; i++)
		remote += word_is_remote(j->words[i]);
	if (remote == j->nwords)
		return each_url(j, rm_parts_one);
	if (remote)
		return usage_error(j, "directories of this host and of servers need a command each");
	for (int i = 0; i < j->nwords; i++)
		status = exit_worse(status, rm_parts_here(j, j->words[i]));
	return status;
}

/* ---- mv ---- */

/* Rename from to *to. If *to is a directory, or must be one for a file, the new name is in it, and
 * replaces *to. */
static int mv_rename(struct server *s, const char *from, char **to, struct err *e)
{
	CLEANUP_FREE char *bare = name_trimmed(from);
	char *inside;

	if (server_is_directory(s, *to) ||
	    (names_directory(*to) && !server_is_directory(s, from))) {
		inside = bare ? name_below(*to, name_last(bare)) : NULL;
		if (!inside)
			return err_sys(e, -ENOMEM, "%s", printable(from));
		free(*to);
		*to = inside;
	}
	return server_rename(s, from, *to, e);
}

enum exit_status command_mv(struct job *j)
{
	struct err e = ERR_INIT;
	struct url from = { 0 }, to = { 0 };
	enum exit_status status = EXIT_DONE;
	struct server *s = NULL;

	if (!url_of_server(j->words[0], &from, &e) && !url_of_server(j->words[1], &to, &e))
		s = server_take(j, &from, &e);
	if (!s)
		status = usage_error(j, "%s", e.text);
	else if (!server_is(s, &to))
		status = usage_error(j, "both URLs must be on the same server: use rftp cp, "
				     "then rftp rm");
	else if (server_connect(s, &e) || mv_rename(s, from.path, &to.path, &e))
		status = failed(&e, false);

	if (status == EXIT_DONE && j->o.json) {
		json_t *obj = json_pack("{s:s}", "event", "mv");

		json_set_name(obj, "path", from.path);
		json_set_name(obj, "to", to.path);
		json_emit(stdout, obj);
	}
	server_give(j, s);
	url_clear(&from);
	url_clear(&to);
	return status;
}
