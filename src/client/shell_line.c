// SPDX-License-Identifier: Apache-2.0
/* Cuts lines into commands and words. */
#include "client/shell_line.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t\r\n"
#define WILDCARDS "*?["

/* A word being read. Neither text nor pattern can become longer than there is room for. */
struct reader {
	const char *begin, *at;
	char *text, *pattern;
	size_t ntext, npattern;
	bool wild;
};

static void add(struct reader *r, char c, bool quoted)
{
	r->text[r->ntext++] = c;
	if (quoted && strchr(WILDCARDS "]\\", c))
		r->pattern[r->npattern++] = '\\';
	r->pattern[r->npattern++] = c;
	r->wild |= !quoted && strchr(WILDCARDS, c);
}

/* From behind the quote to behind the one that closes it. */
static int read_quoted(struct reader *r, char quote, struct err *e)
{
	const char *from = r->at;

	for (; *r->at != quote; r->at++) {
		if (quote == '"' && r->at[0] == '\\' && r->at[1] && strchr("\"\\", r->at[1]))
			r->at++;
		if (!*r->at)
			return err_set(e, -EINVAL, "the quote %c is not closed: %c%s", quote,
				       quote, printable(from));
		add(r, *r->at, true);
	}
	r->at++;
	return 0;
}

static int read_char(struct reader *r, struct err *e)
{
	char c = *r->at++;

	if (c == '\'' || c == '"')
		return read_quoted(r, c, e);
	if (c != '\\') {
		add(r, c, false);
		return 0;
	}
	if (!*r->at)
		return err_set(e, -EINVAL, "a backslash at the end of the line");
	add(r, *r->at++, true);
	return 0;
}

static bool ends_word(char c)
{
	return !c || strchr(BLANKS ";|", c);
}

/* Where a word is. */
static int read_word(struct reader *r, struct shell_word *w, struct err *e)
{
	size_t room = strlen(r->at) + 1;
	int rc = 0;

	r->text = malloc(room);
	r->pattern = malloc(2 * room);
	r->ntext = r->npattern = 0;
	r->wild = false;
	w->tilde = *r->at == '~';
	w->at = (size_t)(r->at - r->begin);
	if (!r->text || !r->pattern)
		rc = err_sys(e, -ENOMEM, "command");
	while (rc == 0 && !ends_word(*r->at))
		rc = read_char(r, e);
	if (rc) {
		free(r->text);
		free(r->pattern);
		return rc;
	}
	r->text[r->ntext] = r->pattern[r->npattern] = '\0';
	if (!r->wild) {
		free(r->pattern);
		r->pattern = NULL;
	}
	w->text = r->text;
	w->pattern = r->pattern;
	return 0;
}

static int add_word(struct shell_line *l, struct reader *r, struct err *e)
{
	struct shell_word *more = reallocarray(l->words, l->n + 1, sizeof(*more));
	int rc;

	if (!more)
		return err_sys(e, -ENOMEM, "command");
	l->words = more;
	rc = read_word(r, &l->words[l->n], e);
	l->n += rc == 0;
	return rc;
}

/* The rest of the line, for the system's shell; *at is behind it then. */
static char *take_rest(const char **at)
{
	const char *from = *at + strspn(*at, BLANKS);

	*at += strlen(*at);
	return strdup(from);
}

static int take_pipe(struct reader *r, struct shell_line *l, struct err *e)
{
	r->at++;
	l->pipe = take_rest(&r->at);
	if (!l->pipe)
		return err_sys(e, -ENOMEM, "command");
	if (!l->n || !*l->pipe)
		return err_set(e, -EINVAL, "| needs a command on either side");
	return 0;
}

static int take_words(struct reader *r, struct shell_line *l, struct err *e)
{
	int rc = 0;

	while (rc == 0) {
		r->at += strspn(r->at, BLANKS);
		if (*r->at == '#')
			r->at += strlen(r->at);
		if (!*r->at)
			return 0;
		if (*r->at == ';') {
			r->at++;
			return 0;
		}
		if (*r->at == '|')
			return take_pipe(r, l, e);
		rc = add_word(l, r, e);
	}
	return rc;
}

int shell_line_take(const char **at, struct shell_line *l, struct err *e)
{
	struct reader r = { .begin = *at, .at = *at + strspn(*at, BLANKS) };
	int rc = 0;

	memset(l, 0, sizeof(*l));
	if (*r.at == '!') {
		r.at++;
		l->outside = take_rest(&r.at);
		rc = l->outside ? 0 : err_sys(e, -ENOMEM, "command");
	} else {
		rc = take_words(&r, l, e);
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

/* Does text mean something else when it stands as it is? */
static bool needs_quote(const char *text)
{
	return !*text || strpbrk(text, BLANKS ";|'\"\\" WILDCARDS) || strchr("!#~", *text);
}

char *shell_quote(const char *text, bool open)
{
	char *word, *out;

	if (!needs_quote(text))
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
