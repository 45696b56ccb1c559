// SPDX-License-Identifier: Apache-2.0
/* Expands patterns of names on servers. */
#include "client/glob.h"

#include "client/foreign/foreign.h"

#include <fnmatch.h>

/* A pattern with more matches is a typing error, or the server tries to fill our memory. */
#define NAMES_MOST 1000000

/* The search for one component of a pattern in one directory. */
struct glob_search {
	struct server *s;
	char *(*path_of)(void *arg, const char *name);
	void *arg;
	const char *pattern;
	const char *dir;         /* as typed in the pattern; "" for the present directory */
	bool only_dirs;
	bool last;               /* the last component of the pattern; there a link is not a
				  * directory */
	struct names *found;
};

/* Append the names in the directory path that match. */
static int glob_list(struct glob_search *g, const char *path, struct err *e)
{
	struct facts_list l = { 0 };
	int rc = server_list(g->s, path, &l, e);

	for (size_t i = 0; !rc && i < l.n; i++) {
		const struct ftp_facts *f = &l.all[i];

		if ((g->only_dirs && f->type != 'd' && (f->type != 'l' || g->last)) ||
		    fnmatch(g->pattern, f->name, FNM_PERIOD))
			continue;
		if (g->found->n >= NAMES_MOST)
			rc = err_set(e, -E2BIG, "%s: too many names", printable(path));
		else
			rc = names_add(g->found, *g->dir ? name_below(g->dir, f->name) :
				       strdup(f->name));
	}
	facts_clear(&l);
	return rc;
}

bool glob_is_pattern(const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern == '\\' && pattern[1])
			pattern++;
		else if (strchr(WILDCARDS, *pattern))
			return true;
	}
	return false;
}

/* Expand one component of the pattern in g->dir: append its matches, or, without a wildcard,
 * dir/name if it exists. known: append dir/name without asking the server. */
static int glob_directory(struct glob_search *g, bool wild, bool known, struct err *e)
{
	CLEANUP_FREE char *name = *g->dir && !wild ? name_below(g->dir, g->pattern) :
				  strdup(wild ? g->dir : g->pattern);
	CLEANUP_FREE char *path = name ? g->path_of(g->arg, name) : NULL;
	struct ftp_facts f = { 0 };
	int rc = path ? 0 : err_nomem(e);

	if (!rc && wild)
		return glob_list(g, path, e);
	if (!rc && !known)
		rc = server_stat(g->s, path, &f, e);
	ftp_facts_clear(&f);
	return rc ? rc : names_add(g->found, steal_ptr(&name));
}

/* Replace dirs by the matches of one component in each of them. typed: the user has typed dirs, so
 * a missing directory is an error. Otherwise dirs are matches, and one that is not a directory, or
 * cannot be listed, has no matches. */
static int glob_step(struct glob_search *g, struct names *dirs, char *component, bool typed,
		     struct err *e)
{
	bool wild = glob_is_pattern(component);
	struct names found = { 0 };
	char *out = component;
	int rc = 0;

	/* Without a wildcard it is a name: remove the backslashes. */
	for (const char *in = component; !wild && *in; in++) {
		in += *in == '\\' && in[1];
		*out++ = *in;
	}
	if (!wild)
		*out = '\0';

	g->pattern = component;
	g->found = &found;
	for (size_t i = 0; rc == 0 && i < dirs->n; i++) {
		struct err why = ERR_INIT;

		g->dir = dirs->all[i];
		rc = glob_directory(g, wild, typed, &why);
		if (!typed && (rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -EPERM))
			rc = 0;
		else if (rc && why.code)
			*e = why;
	}
	names_clear(dirs);
	*dirs = found;
	return rc;
}

int glob_there(struct server *s, const char *pattern, char *(*path_of)(void *arg, const char *name),
	       void *arg, struct names *found, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(pattern);
	struct glob_search g = { .s = s, .path_of = path_of, .arg = arg };
	bool typed = true;
	char *at = copy, *next;
	int rc;

	rc = copy ? names_add(found, strdup(*pattern == '/' ? "/" : "")) : -ENOMEM;
	for (at += at ? strspn(at, "/") : 0; rc == 0 && *at; at = next) {
		size_t n = strcspn(at, "/");
		bool wild;

		g.only_dirs = at[n] == '/';
		next = at + n + strspn(at + n, "/");
		g.last = !*next;
		at[n] = '\0';
		wild = glob_is_pattern(at);
		rc = glob_step(&g, found, at, typed, e);
		typed &= !wild;
	}

	for (size_t i = 0; rc == 0 && g.only_dirs && i < found->n; i++) {
		char *name;

		if (asprintf(&name, "%s/", found->all[i]) < 0) {
			rc = -ENOMEM;
		} else {
			free(found->all[i]);
			found->all[i] = name;
		}
	}
	if (rc == -ENOMEM)
		err_sys(e, rc, "names");
	if (rc == 0)
		names_sort(found);
	return rc;
}

/* ---- the URLs of a command ---- */

/* Parse word so that p's path is a pattern: in a URL, an encoded wildcard stands for itself, so it
 * gets a backslash. 0 or a negative errno. */
static int parse_pattern(const char *word, struct url *p)
{
	CLEANUP_FREE char *text = malloc(2 * strlen(word) + 1);
	struct err ignored = ERR_INIT;
	bool coded = strstr(word, "://");
	char *out = text;

	if (!text)
		return -ENOMEM;
	while (*word) {
		unsigned c = 0;

		if (coded && sscanf(word, "%%%2x", &c) == 1 && c && strchr(WILDCARDS "]\\", (int)c))
			out = stpcpy(out, "%5C");
		*out++ = *word++;
	}
	*out = '\0';
	return word_parse(text, p, &ignored);
}

static char *path_itself(void *arg, const char *name)
{
	(void)arg;
	return strdup(*name ? name : ".");
}

/* Append the URLs that match word, or, if there are none, word. */
static int expand_word(struct job *j, const char *word, struct names *all, struct err *e)
{
	struct names found = { 0 };
	struct server *s = NULL;
	struct url p = { 0 };
	int rc = 0;

	if (word_is_remote(word) && !parse_pattern(word, &p) && glob_is_pattern(p.path)) {
		s = server_take(j, &p, e);
		rc = s ? server_connect(s, e) : e->code;
		if (rc == 0)
			rc = glob_there(s, p.path, path_itself, NULL, &found, e);
		if (rc && rc != -ENOMEM && rc != -EINTR) { /* the command will report it */
			names_clear(&found);
			rc = 0;
		}
	}
	for (size_t i = 0; rc == 0 && i < found.n; i++)
		if (names_add(all, url_text(&p, found.all[i])))
			rc = err_nomem(e);
	if (rc == 0 && !found.n && names_add(all, strdup(word)))
		rc = err_nomem(e);
	server_give(j, s);
	url_clear(&p);
	names_clear(&found);
	return rc;
}

int glob_words(struct job *j, struct names *all, struct err *e)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < j->nwords; i++)
		rc = expand_word(j, j->words[i], all, e);
	return rc;
}
