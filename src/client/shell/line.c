// SPDX-License-Identifier: Apache-2.0
/* Parses lines into commands and words, and expands patterns. */
#include "client/shell/shell.h"

#include <fnmatch.h>
#include <glob.h>

#define BLANKS " \t\r\n"
#define WILDCARDS "*?["

/* A pattern with more matches is a typing error, or the server tries to fill our memory. */
#define NAMES_MOST 1000000

/* ---- words ---- */

/* The word that is being read. text and pattern have room for the longest possible result. */
struct line_reader {
	const char *begin, *at;
	char *text, *pattern;
	size_t ntext, npattern;
	bool wild;
	bool typing;             /* a quote may be open at the end */
};

static void line_add_char(struct line_reader *r, char c, bool quoted)
{
	r->text[r->ntext++] = c;
	if (quoted && strchr(WILDCARDS "]\\", c))
		r->pattern[r->npattern++] = '\\';
	r->pattern[r->npattern++] = c;
	r->wild |= !quoted && strchr(WILDCARDS, c);
}

/* Read one character, or a quoted part. */
static int line_read_char(struct line_reader *r, struct err *e)
{
	const char *from = r->at + 1;
	char c = *r->at++;

	if (c == '\\') {
		if (!*r->at && !r->typing)
			return err_set(e, -EINVAL, "a backslash at the end of the line");
		line_add_char(r, *r->at ? *r->at++ : c, true);
		return 0;
	}

	if (c != '\'' && c != '"') {
		line_add_char(r, c, false);
		return 0;
	}
	for (; *r->at != c; r->at++) {
		if (c == '"' && r->at[0] == '\\' && r->at[1] && strchr("\"\\", r->at[1]))
			r->at++;
		if (!*r->at && r->typing)
			return 0;
		if (!*r->at)
			return err_set(e, -EINVAL, "the quote %c is not closed: %c%s", c, c,
				       printable(from));
		line_add_char(r, *r->at, true);
	}
	r->at++;
	return 0;
}

static int line_read_word(struct line_reader *r, struct shell_line *l, struct err *e)
{
	struct shell_word *w = reallocarray(l->words, l->n + 1, sizeof(*w));
	size_t room = strlen(r->at) + 1;
	int rc = 0;

	if (!w)
		return err_sys(e, -ENOMEM, "command");

	l->words = w;
	w += l->n;
	r->text = malloc(room);
	r->pattern = malloc(2 * room);
	r->ntext = r->npattern = 0;
	r->wild = false;
	w->tilde = *r->at == '~';
	w->at = (size_t)(r->at - r->begin);
	if (!r->text || !r->pattern)
		rc = err_sys(e, -ENOMEM, "command");
	while (rc == 0 && *r->at && !strchr(BLANKS ";|", *r->at))
		rc = line_read_char(r, e);
	if (rc) {
		free(r->text);
		free(r->pattern);
		return rc;
	}

	r->text[r->ntext] = r->pattern[r->npattern] = '\0';
	if (!r->wild)
		free(steal_ptr(&r->pattern));
	w->text = r->text;
	w->pattern = r->pattern;
	l->n++;
	return 0;
}

/* The rest of the line, for the system's shell, malloc'd; moves *at to its end. */
static char *line_rest(const char **at)
{
	const char *from = *at + strspn(*at, BLANKS);

	*at += strlen(*at);
	return strdup(from);
}

static int line_read_words(struct line_reader *r, struct shell_line *l, struct err *e)
{
	int rc = 0;

	l->end = END_OTHER;
	while (rc == 0) {
		size_t blanks = strspn(r->at, BLANKS);

		r->at += blanks;
		if (!*r->at)
			l->end = l->n && !blanks ? END_IN_WORD : END_NEW_WORD;
		if (*r->at == '#')
			r->at += strlen(r->at);
		if (!*r->at)
			return 0;
		if (*r->at == ';') {
			r->at++;
			return 0;
		}
		if (*r->at == '|') {
			r->at++;
			l->pipe = line_rest(&r->at);
			if (!l->pipe)
				return err_sys(e, -ENOMEM, "command");
			if (!l->n || !*l->pipe)
				return err_set(e, -EINVAL, "| needs a command on either side");
			return 0;
		}
		rc = line_read_word(r, l, e);
	}
	return rc;
}

int shell_line_take(const char **at, bool typing, struct shell_line *l, struct err *e)
{
	struct line_reader r = { .begin = *at, .at = *at, .typing = typing };
	const char *first = *at + strspn(*at, BLANKS);
	int rc;

	memset(l, 0, sizeof(*l));
	if (*first == '!') {
		r.at = first + 1;
		l->end = END_OTHER;
		l->outside = line_rest(&r.at);
		rc = l->outside ? 0 : err_sys(e, -ENOMEM, "command");
	} else {
		rc = line_read_words(&r, l, e);
	}
	*at = r.at;
	if (rc)
		shell_line_clear(l);
	return rc;
}

void shell_line_clear(struct shell_line *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->words[i].text);
		free(l->words[i].pattern);
	}
	free(l->words);
	free(l->pipe);
	free(l->outside);
	memset(l, 0, sizeof(*l));
}

char *shell_quote(const char *text, bool open)
{
	bool literal = *text && !strpbrk(text, BLANKS ";|'\"\\" WILDCARDS) && !strchr("!#~", *text);
	char *word, *out;

	if (literal)
		return strdup(text);
	word = out = malloc(2 * strlen(text) + 3);
	if (!word)
		return NULL;
	*out++ = '"';
	for (; *text; text++) {
		if (strchr("\"\\", *text))
			*out++ = '\\';
		*out++ = *text;
	}
	if (!open)
		*out++ = '"';
	*out = '\0';
	return word;
}

/* ---- patterns on the open server ---- */

/* The search for one component of a pattern in one directory. */
struct glob_search {
	struct call *c;
	struct server *s;
	const char *pattern;
	const char *dir;         /* as typed in the pattern; "" for the open directory */
	bool tilde;              /* a "~" at the start means the home */
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

static bool has_wildcard(const char *pattern)
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
	CLEANUP_FREE char *path = name ? shell_path(g->c->sh, name, g->tilde) : NULL;
	struct ftp_facts f = { 0 };
	int rc = path ? 0 : err_sys(e, -ENOMEM, "names");

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
	bool wild = has_wildcard(component);
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

/* Expand the pattern of w on server s. found: the paths in the form of the pattern, with a "/" at
 * the end if the pattern has one. */
static int glob_there(struct call *c, struct server *s, const struct shell_word *w,
		      struct names *found, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(w->pattern);
	struct glob_search g = { .c = c, .s = s, .tilde = w->tilde };
	bool typed = true;
	char *at = copy, *next;
	int rc;

	rc = copy ? names_add(found, strdup(*w->pattern == '/' ? "/" : "")) : -ENOMEM;
	for (at += at ? strspn(at, "/") : 0; rc == 0 && *at; at = next) {
		size_t n = strcspn(at, "/");
		bool wild;

		g.only_dirs = at[n] == '/';
		next = at + n + strspn(at + n, "/");
		g.last = !*next;
		at[n] = '\0';
		wild = has_wildcard(at);
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
	return rc;
}

static int glob_add_url(struct call *c, const char *path, bool tilde, struct names *names,
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
		return glob_add_url(c, w->text, w->tilde, names, typed, e);

	s = call_server(c, e);
	if (!s)
		return e->code;
	rc = glob_there(c, s, w, &found, e);
	call_done(c, s);

	if (rc == 0 && !found.n)
		rc = err_set(e, -ENOENT, "nothing there fits %s", printable(w->text));
	if (rc == 0)
		names_sort(&found);
	for (size_t i = 0; rc == 0 && i < found.n; i++)
		rc = glob_add_url(c, found.all[i], w->tilde, names, typed, e);
	names_clear(&found);
	return rc;
}

/* ---- patterns on this host ---- */

int shell_glob_local(const struct shell_word *w, struct names *names, struct err *e)
{
	glob_t g = { 0 };
	char *word;
	int rc = 0;

	if (!w->pattern) {
		word = shell_local(w, e);
		if (!word)
			return e->code;
		return names_add(names, word) ? err_sys(e, -ENOMEM, "names") : 0;
	}

	switch (glob(w->pattern, w->tilde ? GLOB_TILDE : 0, NULL, &g)) {
	case 0:
		break;
	case GLOB_NOMATCH:
		rc = err_set(e, -ENOENT, "nothing here fits %s", printable(w->text));
		break;
	default:
		rc = err_sys(e, -ENOMEM, "names");
	}

	/* A match is a file, even if its name would mean something else to rftp: "-", "null:",
	 * "a:b". So add "./". */
	for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++) {
		const char *path = g.gl_pathv[i];
		bool special = !strchr(path, '/') && (!strcmp(path, "-") || strchr(path, ':'));

		if (names_add(names, special ? name_below(".", path) : strdup(path)))
			rc = err_sys(e, -ENOMEM, "names");
	}
	globfree(&g);
	return rc;
}
