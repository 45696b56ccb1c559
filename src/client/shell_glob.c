// SPDX-License-Identifier: Apache-2.0
/* Patterns: which names there, and here, fit one. */
#include "client/shell.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* More is a slip of the hand, or a server that wants our memory. */
#define NAMES_MOST 1000000

/* ---- there ---- */

/* What fits one component of a pattern in one directory. */
struct search {
	const char *pattern;
	const char *dir;         /* as the pattern has it; "" for the open one */
	bool tilde;              /* a "~" that it begins with is the home */
	bool only_dirs;
	bool last;               /* nothing is looked for in there: a link is no directory then */
	struct names *found;
};

static int look_at(void *arg, const struct ftp_facts *f)
{
	struct search *s = arg;
	char *path;

	if (s->only_dirs && f->type != 'd' && (f->type != 'l' || s->last))
		return 0;
	if (fnmatch(s->pattern, f->name, FNM_PERIOD))
		return 0;
	path = *s->dir ? name_below(s->dir, f->name) : strdup(f->name);
	if (s->found->n >= NAMES_MOST) {
		free(path);
		return -E2BIG;
	}
	return names_add(s->found, path);
}

static int search_dir(struct call *c, struct server *s, struct search *what, struct err *e)
{
	CLEANUP_FREE char *path = shell_path(c->sh, what->dir, what->tilde);
	int rc;

	if (!path)
		return err_sys(e, -ENOMEM, "names");
	rc = ftp_list(s->client, path, look_at, what, e);
	if (rc == -E2BIG && !e->code)
		err_set(e, rc, "%s: too many names", printable(path));
	return rc;
}

static bool has_wildcard(const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern == '\\' && pattern[1])
			pattern++;
		else if (strchr("*?[", *pattern))
			return true;
	}
	return false;
}

/* Take the backslashes out of what has no wildcard. */
static void unescape(char *pattern)
{
	char *out = pattern;

	for (const char *in = pattern; *in; in++) {
		in += *in == '\\' && in[1];
		*out++ = *in;
	}
	*out = '\0';
}

/* What a pattern has found may be no directory, or closed to us: then nothing fits in there. */
static bool is_no_place(int rc)
{
	return rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -EPERM;
}

/* dir/name, if it is there. */
static int add_known(struct call *c, struct server *s, const struct search *what, struct err *e)
{
	char *name = *what->dir ? name_below(what->dir, what->pattern) : strdup(what->pattern);
	CLEANUP_FREE char *path = name ? shell_path(c->sh, name, what->tilde) : NULL;
	struct ftp_facts f = { 0 };
	int rc = path ? ftp_stat(s->client, path, &f, e) : -ENOMEM;

	ftp_facts_clear(&f);
	if (!rc)
		return names_add(what->found, name);
	free(name);
	return rc;
}

/* What fits one in each of dirs. sure: of dirs it is not known whether they are there, so that
 * one that is not is an error. */
static int step(struct call *c, struct server *s, struct names *dirs, char *one,
		struct search what, bool sure, struct err *e)
{
	bool wild = has_wildcard(one);
	struct names found = { 0 };
	int rc = 0;

	what.pattern = one;
	what.found = &found;
	if (!wild)
		unescape(one);
	for (size_t i = 0; rc == 0 && i < dirs->n; i++) {
		struct err why = ERR_INIT;

		what.dir = dirs->all[i];
		if (wild)
			rc = search_dir(c, s, &what, &why);
		else if (sure)
			rc = names_add(&found, *what.dir ? name_below(what.dir, one) : strdup(one));
		else
			rc = add_known(c, s, &what, &why);
		if (!sure && is_no_place(rc))
			rc = 0;
		else if (rc && why.code)
			*e = why;
	}
	names_clear(dirs);
	*dirs = found;
	return rc;
}

/* The pattern ended in "/", and so does what it found. */
static int add_slashes(struct names *found)
{
	for (size_t i = 0; i < found->n; i++) {
		char *with;

		if (asprintf(&with, "%s/", found->all[i]) < 0)
			return -ENOMEM;
		free(found->all[i]);
		found->all[i] = with;
	}
	return 0;
}

/* found: paths as the pattern has them. */
static int search(struct call *c, struct server *s, const struct shell_word *w,
		  struct names *found, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(w->pattern);
	struct search what = { .tilde = w->tilde };
	bool sure = true;
	char *at = copy, *next;
	int rc;

	rc = copy ? names_add(found, strdup(*w->pattern == '/' ? "/" : "")) : -ENOMEM;
	for (at += at ? strspn(at, "/") : 0; rc == 0 && *at; at = next) {
		size_t n = strcspn(at, "/");
		bool wild;

		what.only_dirs = at[n] == '/';
		next = at + n + strspn(at + n, "/");
		what.last = !*next;
		at[n] = '\0';
		wild = has_wildcard(at);
		rc = step(c, s, found, at, what, sure, e);
		sure &= !wild;
	}
	if (rc == 0 && what.only_dirs)
		rc = add_slashes(found);
	if (rc == -ENOMEM)
		err_sys(e, rc, "names");
	return rc;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_url(struct call *c, const char *path, bool tilde, struct names *names,
		   struct names *typed, struct err *e)
{
	char *url = shell_url(c->sh, path, tilde, e);

	if (!url)
		return e->code;
	if (names_add(names, url) || (typed && names_add(typed, strdup(path))))
		return err_sys(e, -ENOMEM, "names");
	return 0;
}

int shell_glob_remote(struct call *c, const struct shell_word *w, struct names *names,
		      struct names *typed, struct err *e)
{
	struct names found = { 0 };
	struct server *s;
	int rc;

	if (!*w->text)
		return err_set(e, -EINVAL, "an empty word names no file");
	if (!w->pattern || strstr(w->text, "://"))
		return add_url(c, w->text, w->tilde, names, typed, e);
	s = call_server(c, e);
	if (!s)
		return e->code;
	rc = search(c, s, w, &found, e);
	call_done(c, s);
	if (rc == 0 && !found.n)
		rc = err_set(e, -ENOENT, "nothing there fits %s", printable(w->text));
	if (rc == 0)
		qsort(found.all, found.n, sizeof(*found.all), by_text);
	for (size_t i = 0; rc == 0 && i < found.n; i++)
		rc = add_url(c, found.all[i], w->tilde, names, typed, e);
	names_clear(&found);
	return rc;
}

/* ---- here ---- */

/* A file that a pattern has found, whatever else its name could mean: "-", "null:", "a:b". */
static int add_local(const char *path, struct names *names, struct err *e)
{
	bool other = !strchr(path, '/') && (!strcmp(path, "-") || strchr(path, ':'));
	char *word;

	if (asprintf(&word, "%s%s", other ? "./" : "", path) < 0)
		return err_sys(e, -ENOMEM, "names");
	return names_add(names, word) ? err_sys(e, -ENOMEM, "names") : 0;
}

int shell_glob_local(struct call *c, const struct shell_word *w, struct names *names,
		     struct err *e)
{
	glob_t g = { 0 };
	char *word;
	int rc = 0;

	(void)c;
	if (!w->pattern) {
		word = shell_local(w, e);
		if (!word)
			return e->code;
		return names_add(names, word) ? err_sys(e, -ENOMEM, "names") : 0;
	}
	switch (glob(w->pattern, w->tilde ? GLOB_TILDE : 0, NULL, &g)) {
	case 0:
		for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++)
			rc = add_local(g.gl_pathv[i], names, e);
		break;
	case GLOB_NOMATCH:
		rc = err_set(e, -ENOENT, "nothing here fits %s", printable(w->text));
		break;
	default:
		rc = err_sys(e, -ENOMEM, "names");
	}
	globfree(&g);
	return rc;
}
