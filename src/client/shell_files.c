// SPDX-License-Identifier: Apache-2.0
/* What the shell does with files on the open server, mostly by rftp's own commands. */
#include "client/shell.h"

#include "client/show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All words from the first on, patterns as what fits them. */
static int all_urls(struct call *c, int first, struct names *urls, struct names *typed,
		    struct err *e)
{
	int rc = 0;

	for (int i = first; rc == 0 && i < c->nwords; i++)
		rc = shell_glob_remote(c, call_word(c, i), urls, typed, e);
	return rc;
}

static enum exit_status with_urls(struct call *c, const char *command, int first)
{
	struct names urls = { 0 }, typed = { 0 };
	struct err e = ERR_INIT;
	enum exit_status status;

	if (all_urls(c, first, &urls, &typed, &e))
		status = failed(&e, false);
	else
		status = call_rftp(c, command, &urls, &typed);
	names_clear(&urls);
	names_clear(&typed);
	return status;
}

enum exit_status shell_remote(struct call *c)
{
	/* In ftp that is a switch for marks of progress. */
	if (!strcmp(c->cmd->name, "hash") && !c->nwords)
		return call_usage(c, "hash computes digests of files: name some; what shows how "
				  "far a transfer is, is set progress");
	return with_urls(c, c->cmd->name, 0);
}

/* For one URL, which is taken over; NULL: e tells why there is none. */
static enum exit_status with_url(struct call *c, const char *command, char *url,
				 const struct err *e)
{
	struct names urls = { 0 };
	enum exit_status status;

	if (!url)
		return failed(e, false);
	status = names_add(&urls, url) ? EXIT_SOME_FAILED : call_rftp(c, command, &urls, NULL);
	names_clear(&urls);
	return status;
}

enum exit_status shell_ls(struct call *c)
{
	struct err e = ERR_INIT;

	return c->nwords ? with_urls(c, "ls", 0) :
	       with_url(c, "ls", shell_url(c->sh, "", false, &e), &e);
}

enum exit_status shell_bench(struct call *c)
{
	struct err e = ERR_INIT;
	char *url = c->nwords ? call_url(c, 0, &e) : shell_url(c->sh, "", false, &e);

	return with_url(c, "bench", url, &e);
}

enum exit_status shell_rename(struct call *c)
{
	struct names urls = { 0 };
	struct err e = ERR_INIT;
	enum exit_status status;
	int rc = 0;

	/* Both as they stand: a pattern has no place here. */
	for (int i = 0; rc == 0 && i < c->nwords; i++) {
		char *url = call_url(c, i, &e);

		rc = url ? names_add(&urls, url) : e.code;
	}
	status = rc ? failed(&e, false) : call_rftp(c, "mv", &urls, NULL);
	names_clear(&urls);
	return status;
}

/* ---- what rftp has no command for ---- */

/* fn for each URL, on its server; what fails is said and the rest goes on. */
static enum exit_status each(struct call *c, int first,
			     int (*fn)(struct job *j, struct server *s, const struct place *p,
				       struct err *e))
{
	struct job j = { .servers = c->sh->kept };
	struct names urls = { 0 }, typed = { 0 };
	struct err e = ERR_INIT;
	enum exit_status status;
	struct args a;

	if (all_urls(c, first, &urls, &typed, &e) || call_settings(c, ON_STAT, &a, &e)) {
		names_clear(&urls);
		names_clear(&typed);
		return failed(&e, false);
	}
	j.args = &a;
	j.cmd = command_find("stat");
	j.words = urls.all;
	j.nwords = (int)urls.n;
	j.typed = typed.all;
	j.o.json = c->json;
	j.arg = c;
	status = each_url(&j, fn);
	free(a.settings);
	names_clear(&urls);
	names_clear(&typed);
	return status;
}

static int rmdir_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	int rc = ftp_simple(s->client, FTP_RMD, server_path(p), NULL, e);

	if (rc < 0)
		return rc;
	each_done(j, "rmdir", p);
	return 0;
}

enum exit_status shell_rmdir(struct call *c)
{
	return each(c, 0, rmdir_one);
}

static int size_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = ftp_stat(s->client, server_path(p), &f, e);

	if (rc == 0 && (f.type == 'd' || !f.has_size))
		rc = err_set(e, -EISDIR, "%s is no file with a size", printable(p->path));
	if (rc == 0 && j->o.json) {
		json_t *obj = json_pack("{s:s, s:I}", "event", "size", "bytes", (json_int_t)f.size);

		json_set_name(obj, "path", p->path);
		json_emit(stdout, obj);
	} else if (rc == 0) {
		printf("%" PRIu64 "\t%s\n", f.size, show_raw(stdout) ? server_shown(j, p) :
		       printable(server_shown(j, p)));
	}
	ftp_facts_clear(&f);
	return rc;
}

enum exit_status shell_size(struct call *c)
{
	return each(c, 0, size_one);
}

static int chmod_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	const struct call *c = j->arg;
	CLEANUP_FREE char *arg = NULL;
	int rc;

	if (asprintf(&arg, "CHMOD %s %s", c->words[0], server_path(p)) < 0)
		return err_sys(e, -ENOMEM, "%s", printable(p->path));
	rc = ftp_simple(s->client, FTP_SITE, arg, NULL, e);
	if (rc >= 0 && j->o.json) {
		json_t *obj = json_pack("{s:s, s:s}", "event", "chmod", "mode", c->words[0]);

		json_set_name(obj, "path", server_path(p));
		json_emit(stdout, obj);
	}
	return rc < 0 ? rc : 0;
}

enum exit_status shell_chmod(struct call *c)
{
	size_t n = strspn(c->words[0], "01234567");

	if (!n || n > 4 || c->words[0][n])
		return call_usage(c, "\"%s\" is no mode: 0 to 7777, in octal",
				  printable(c->words[0]));
	return each(c, 1, chmod_one);
}
