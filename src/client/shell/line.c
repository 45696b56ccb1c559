// SPDX-License-Identifier: Apache-2.0
/* Parses lines into commands and words, and expands patterns. */
#include "client/names.h"
#include "client/shell/shell.h"

#include <glob.h>

#define BLANKS " \t\r\n"

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
		return err_nomem(e);

	l->words = w;
	w += l->n;
	r->text = malloc(room);
	r->pattern = malloc(2 * room);
	r->ntext = r->npattern = 0;
	r->wild = false;
	w->tilde = *r->at == '~';
	w->at = (size_t)(r->at - r->begin);
	if (!r->text || !r->pattern)
		rc = err_nomem(e);
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
				return err_nomem(e);
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
		rc = l->outside ? 0 : err_nomem(e);
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

/* For glob_there(): a typed name as a path on the open server. */
struct typed_name {
	const struct shell *sh;
	bool tilde;
};

static char *typed_path(void *arg, const char *name)
{
	const struct typed_name *t = arg;

	return shell_path(t->sh, name, t->tilde);
}

static int glob_add_url(struct call *c, const char *path, bool tilde, struct names *names,
			struct names *typed, struct err *e)
{
	char *url = shell_url(c->sh, path, tilde, e);

	if (!url)
		return e->code;
	if (names_add(names, url) || (typed && names_add(typed, strdup(path))))
		return err_nomem(e);
	return 0;
}

int shell_glob_remote(struct call *c, const struct shell_word *w, struct names *names,
		      struct names *typed, struct err *e)
{
	struct names found = { 0 };
	struct server *s;
	int rc;

	if (!*w->text)
		return err_set(e, -EINVAL, URL_EMPTY_WHY);
	if (!w->pattern || strstr(w->text, "://"))
		return glob_add_url(c, w->text, w->tilde, names, typed, e);

	s = call_server(c, e);
	if (!s)
		return e->code;
	rc = glob_there(s, w->pattern, typed_path, &(struct typed_name){ c->sh, w->tilde }, &found, e);
	call_done(c, s);

	if (rc == 0 && !found.n)
		rc = err_set(e, -ENOENT, "no file on the server matches %s", printable(w->text));
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
		return names_add(names, word) ? err_nomem(e) : 0;
	}

	switch (glob(w->pattern, w->tilde ? GLOB_TILDE : 0, NULL, &g)) {
	case 0:
		break;
	case GLOB_NOMATCH:
		rc = err_set(e, -ENOENT, "no file here matches %s", printable(w->text));
		break;
	default:
		rc = err_nomem(e);
	}

	/* A match is a file, even if its name would mean something else to rftp: "-", "null:",
	 * "a:b". So add "./". */
	for (size_t i = 0; rc == 0 && i < g.gl_pathc; i++) {
		const char *path = g.gl_pathv[i];
		bool special = !strchr(path, '/') && (!strcmp(path, "-") || strchr(path, ':'));

		if (names_add(names, special ? name_below(".", path) : strdup(path)))
			rc = err_nomem(e);
	}
	globfree(&g);
	return rc;
}
