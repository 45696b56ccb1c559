// SPDX-License-Identifier: Apache-2.0
/* rftp mkdir, rftp rm and rftp mv. */
#include "client/foreign.h"
#include "client/server.h"

#include <errno.h>
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

enum exit_status rftp_rm(struct job *j)
{
	return each_url(j, rm_one);
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
