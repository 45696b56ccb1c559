// SPDX-License-Identifier: Apache-2.0
/* Patterns: which names there, and here, fit one. */
#include "client/shell.h"

#include <errno.h>
#include <fnmatch.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

/* More is a slip of the hand, or a server that wants our memory. */
#define NAMES_MOST 1000000

/* ---- there ---- */

/* What fits one component of a pattern in one directory. */
struct search {
	const char *pattern;
	const char *dir;         /* as the pattern has it; "" for the open one */
	bool only_dirs;
	struct names *found;
};

/* A name that is a path, or ".", comes from a server that is up to something. */
static bool is_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static int look_at(void *arg, const struct ftp_facts *f)
{
	struct search *s = arg;
	char *path;

	if (!is_name(f->name))
		return -EBADMSG;
	if (s->only_dirs && f->type != 'd' && f->type != 'l')
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
	CLEANUP_FREE char *path = shell_path(c->sh, what->dir);
	int rc;

	if (!path)
		return err_sys(e, -ENOMEM, "names");
	rc = ftp_list(s->client, path, look_at, what, e);
	if (rc == -EBADMSG && !e->code)
		err_set(e, rc, "%s: the server lists what is no name", printable(path));
	else if (rc == -E2BIG && !e->code)
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

/* dirs/one for each of dirs; or what fits one there. */
static int step(struct call *c, struct server *s, struct names *dirs, char *one, bool last,
		struct err *e)
{
	struct search what = { .pattern = one, .only_dirs = !last };
	struct names found = { 0 };
	int rc = 0;

	what.found = &found;
	if (!has_wildcard(one))
		unescape(one);
	for (size_t i = 0; rc == 0 && i < dirs->n; i++) {
		what.dir = dirs->all[i];
		if (what.pattern == one && has_wildcard(one))
			rc = search_dir(c, s, &what, e);
		else
			rc = names_add(&found, *what.dir ? name_below(what.dir, one) : strdup(one));
	}
	names_clear(dirs);
	*dirs = found;
	return rc;
}

/* found: paths as the pattern has them. */
static int search(struct call *c, struct server *s, const char *pattern, struct names *found,
		  struct err *e)
{
	CLEANUP_FREE char *copy = strdup(pattern);
	char *at = copy, *next;
	int rc;

	rc = copy ? names_add(found, strdup(*pattern == '/' ? "/" : "")) : -ENOMEM;
	for (at += at ? strspn(at, "/") : 0; rc == 0 && *at; at = next) {
		size_t n = strcspn(at, "/");

		next = at + n + strspn(at + n, "/");
		at[n] = '\0';
		rc = step(c, s, found, at, !*next, e);
	}
	if (rc == -ENOMEM)
		err_sys(e, rc, "names");
	return rc;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int add_url(struct call *c, const char *path, struct names *names, struct err *e)
{
	char *url = shell_url(c->sh, path, e);

	if (!url)
		return e->code;
	return names_add(names, url) ? err_sys(e, -ENOMEM, "names") : 0;
}

int shell_glob_remote(struct call *c, const struct shell_word *w, struct names *names,
		      struct err *e)
{
	struct names found = { 0 };
	struct server *s;
	int rc;

	if (!w->pattern || strstr(w->text, "://"))
		return add_url(c, w->text, names, e);
	s = call_server(c, e);
	if (!s)
		return e->code;
	rc = search(c, s, w->pattern, &found, e);
	call_done(c, s);
	if (rc == 0 && !found.n)
		rc = err_set(e, -ENOENT, "nothing there fits %s", printable(w->text));
	if (rc == 0)
		qsort(found.all, found.n, sizeof(*found.all), by_text);
	for (size_t i = 0; rc == 0 && i < found.n; i++)
		rc = add_url(c, found.all[i], names, e);
	names_clear(&found);
	return rc;
}

/* ---- here ---- */

static int add_local(const char *path, struct names *names, struct err *e)
{
	const struct shell_word w = { .text = (char *)(uintptr_t)path };
	char *word = shell_local(&w, e);

	if (!word)
		return e->code;
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
