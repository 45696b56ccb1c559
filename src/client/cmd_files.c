// SPDX-License-Identifier: Apache-2.0
/* rftp mkdir, rftp rm and rftp mv. */
#include "client/foreign.h"
#include "client/names.h"
#include "client/server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_directory(struct server *s, const char *path)
{
	struct ftp_facts f = { 0 };
	struct err ignored = ERR_INIT;
	bool yes = ftp_stat(s->client, path, &f, &ignored) == 0 && f.type == 'd';

	ftp_facts_clear(&f);
	return yes;
}

/* 0 or a negative errno, with what the server says in e. */
static int simple(struct server *s, enum ftp_verb verb, const char *path, struct err *e)
{
	int rc = ftp_simple(s->client, verb, path, NULL, e);

	return rc < 0 ? rc : 0;
}

/* ---- mkdir ---- */

/* Cut the last component off path. False when there is none above it. */
static bool cut_last(char *path)
{
	char *slash = strrchr(path, '/');

	if (!slash || slash == path)
		return false;
	while (slash > path && slash[-1] == '/')
		slash--;
	*slash = '\0';
	return slash > path;
}

/* Make path and those above it that are missing, from below: mostly one is. */
static int make_all(struct server *s, const char *path, struct err *e)
{
	CLEANUP_FREE char *above = strdup(path);
	int rc;

	if (!above)
		return err_sys(e, -ENOMEM, "%s", printable(path));
	rc = simple(s, FTP_MKD, path, e);
	if (rc == 0 || exit_is_lost(rc))
		return rc;
	if (is_directory(s, path))
		return 0;
	/* With the parent there it is for another reason. */
	if (!cut_last(above) || is_directory(s, above))
		return rc;
	rc = make_all(s, above, e);
	return rc ? rc : simple(s, FTP_MKD, path, e);
}

static int mkdir_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	CLEANUP_FREE char *path = strdup(server_path(p));
	int rc;

	if (!path)
		return err_sys(e, -ENOMEM, "%s", printable(p->path));
	for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
		path[n - 1] = '\0';
	rc = j->o.parents ? make_all(s, path, e) : simple(s, FTP_MKD, path, e);
	if (rc == -ENOENT && !j->o.parents)
		err_set(e, rc, "%s (-p makes those above it, too)", e->text);
	if (rc == 0)
		each_done(j, "mkdir", p);
	return rc;
}

enum exit_status rftp_mkdir(struct job *j)
{
	return each_url(j, mkdir_one);
}

/* ---- rm ---- */

/* What may well be a slip of the hand: all that the user has there. */
static bool is_everything(const char *path)
{
	size_t n = strspn(path, "/.~");

	return path[n] == '\0';
}

static int remove_one(const struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct err why = ERR_INIT;
	int rc;

	if (is_everything(p->path))
		return err_set(e, -EINVAL, "\"%s\" is not removed: name what is in it",
			       printable(server_path(p)));
	rc = simple(s, FTP_DELE, p->path, &why);
	if (rc == 0)
		return 0;
	if (exit_is_lost(rc) || !is_directory(s, p->path))
		return err_set(e, rc, "%s", why.text);
	if (!j->o.recursive)
		return err_set(e, -EISDIR, "%s is a directory (%srm -r removes it with "
			       "all its content)", printable(p->path), j->servers ? "" : "rftp ");
	return ftp_is_foreign(s->client) ? foreign_remove(s, p->path, e) :
	       simple(s, FTP_RMDA, p->path, e);
}

static int rm_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	int rc = remove_one(j, s, p, e);

	if (rc == 0)
		each_done(j, "rm", p);
	return rc;
}

/* ---- rm --parts ---- */

#define PARTS_OPEN_DIRS 64

struct part_removal {
	const struct job *j;
	struct server *s;     /* NULL: directories of this host */
	const char *path;     /* the directory that is being listed */
	struct names parts;   /* in it */
	struct names dirs;    /* to be listed */
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
	json_t *obj;

	if (rc == -EBUSY) {
		log_warn("%s stays: a transfer is writing it", printable(path));
	} else if (rc && rc != -ENOENT) {
		part_failed(p, path, rc, root_why(rc));
	} else if (p->j->o.json) {
		obj = json_pack("{s:s}", "event", "rm");
		json_set_name(obj, "path", path);
		json_emit(stdout, obj);
	} else {
		log_info("removed %s", printable(path));
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

/* A file that another server could not replace by a rename, FOREIGN_OLD, is no part. */
static int find_parts(void *arg, const struct ftp_facts *f)
{
	struct part_removal *p = arg;
	const char *tail = part_tail(f->name);

	if (!bulk_name_ok(f->name)) {
		part_failed(p, p->path, -EINVAL, "the server lists a name that is none");
		return 0;
	}
	if (f->type == 'd')
		return p->j->o.recursive ? names_add(&p->dirs, name_below(p->path, f->name)) : 0;
	if (part_is_ours(f->name) || (tail && !strcmp(tail, FOREIGN_PART)))
		return names_add(&p->parts, name_below(p->path, f->name));
	return 0;
}

/* The server refuses to delete a part that one of its transfers is writing. */
static int rm_parts_in(struct part_removal *p, const char *path, struct err *e)
{
	int rc;

	p->path = path;
	rc = ftp_list(p->s->client, path, find_parts, p, e);
	if (rc == -ENOMEM && !e->code)
		err_sys(e, rc, "listing");
	for (size_t i = 0; rc == 0 && i < p->parts.n; i++) {
		struct err why = ERR_INIT;
		int r = simple(p->s, FTP_DELE, p->parts.all[i], &why);

		if (exit_is_lost(r))
			rc = err_set(e, r, "%s", why.text);
		else if (r && r != -EBUSY)
			part_failed(p, p->parts.all[i], r, why.text);
		else
			part_removed(p, p->parts.all[i], r);
	}
	names_clear(&p->parts);
	return rc;
}

static int rm_parts_one(struct job *j, struct server *s, const struct place *place, struct err *e)
{
	struct part_removal p = { .j = j, .s = s };
	int rc = rm_parts_in(&p, server_path(place), e);

	for (size_t i = 0; rc == 0 && i < p.dirs.n; i++) {
		struct err why = ERR_INIT;

		rc = rm_parts_in(&p, p.dirs.all[i], &why);
		if (exit_is_lost(rc)) {
			*e = why;
		} else if (rc) {
			part_failed(&p, p.dirs.all[i], rc, why.text);
			rc = 0;
		}
	}
	names_clear(&p.dirs);
	if (rc == 0 && p.failed)
		rc = err_set(e, p.failed, "%s: not all unfinished files could be removed",
			     printable(server_path(place)));
	return rc;
}

static enum exit_status rm_parts(struct job *j)
{
	enum exit_status status = EXIT_DONE;
	int remote = 0;

	for (int i = 0; i < j->nwords; i++)
		remote += names_server(j->words[i]);
	if (remote == j->nwords)
		return each_url(j, rm_parts_one);
	if (remote)
		return usage_error(j, "directories of this host and of servers need a command each");
	for (int i = 0; i < j->nwords; i++)
		status = exit_worse(status, rm_parts_here(j, j->words[i]));
	return status;
}

enum exit_status rftp_rm(struct job *j)
{
	return j->o.parts ? rm_parts(j) : each_url(j, rm_one);
}

/* ---- mv ---- */

static int move(const struct job *j, struct server *s, const struct place *from,
		const struct place *to, struct err *e)
{
	int rc = simple(s, FTP_RNFR, from->path, e);
	json_t *obj;

	if (rc == 0)
		rc = simple(s, FTP_RNTO, to->path, e);
	if (rc || !j->o.json)
		return rc;
	obj = json_pack("{s:s}", "event", "mv");
	json_set_name(obj, "path", from->path);
	json_set_name(obj, "to", to->path);
	json_emit(stdout, obj);
	return 0;
}

static enum exit_status move_places(struct job *j, const struct place *from,
				    const struct place *to)
{
	struct err e = ERR_INIT;
	struct server *s = server_take(j, from, &e);
	enum exit_status status;

	if (!s)
		return usage_error(j, "%s", e.text);
	if (!server_is(s, to))
		status = usage_error(j, "both URLs must be on one server");
	else if (server_connect(s, &e))
		status = failed(&e, false);
	else
		status = move(j, s, from, to, &e) ? failed(&e, false) : EXIT_DONE;
	server_give(j, s);
	return status;
}

enum exit_status rftp_mv(struct job *j)
{
	struct err e = ERR_INIT;
	struct place from, to;
	enum exit_status status;

	if (place_of_server(j->words[0], &from, &e))
		return usage_error(j, "%s", e.text);
	if (place_of_server(j->words[1], &to, &e)) {
		place_clear(&from);
		return usage_error(j, "%s", e.text);
	}
	status = move_places(j, &from, &to);
	place_clear(&from);
	place_clear(&to);
	return status;
}
