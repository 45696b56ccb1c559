// SPDX-License-Identifier: Apache-2.0
/* What the word that is being typed may become. */
#include "client/shell_complete.h"

#include "client/conf.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* Where typing stands. */
struct typed {
	struct shell_line line;     /* the last command before the cursor */
	const char *word;           /* the part of its last word that is there; "" */
	int at;                     /* that word's place among those that are no options */
	const struct shell_command *cmd;  /* NULL: the word is the command */
	const struct option_def *option;  /* whose value the word is; NULL */
	bool tilde;
	bool only_words;            /* behind "--" */
};

static int put(struct completion *m, const char *text)
{
	return names_add(&m->names, strdup(text));
}

static bool begins(const char *text, const char *with)
{
	return !strncmp(text, with, strlen(with));
}

/* ---- where it stands ---- */

/* The last command of text, its last quote closed if it is open. *from: where it begins. */
static int last_command(const char *text, struct shell_line *l, size_t *from)
{
	static const char *const ends[] = { "", "'", "\"", "\\" };

	for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		CLEANUP_FREE char *closed = NULL;
		struct err e = ERR_INIT;
		const char *at;
		int rc;

		if (asprintf(&closed, "%s%s", text, ends[i]) < 0)
			return -ENOMEM;
		at = closed;
		do {
			*from = (size_t)(at - closed);
			rc = shell_line_take(&at, l, &e);
			if (rc == 0 && *at)
				shell_line_clear(l);
		} while (rc == 0 && *at);
		if (rc == 0 && (l->outside || l->pipe)) {
			shell_line_clear(l);
			return -ENOENT;
		}
		if (rc == 0)
			return 0;
	}
	return -EINVAL;
}

enum cursor { IN_WORD, AT_NEW_WORD, IN_COMMENT };

/* What one more character at the cursor would be a part of. */
static enum cursor cursor_is(const char *text, const struct shell_line *l, size_t from)
{
	CLEANUP_FREE char *probe = NULL;
	struct err e = ERR_INIT;
	struct shell_line more;
	enum cursor is = IN_WORD;
	const char *at;

	if (asprintf(&probe, "%sx", text + from) < 0)
		return IN_COMMENT;
	at = probe;
	if (shell_line_take(&at, &more, &e))
		return IN_WORD; /* a quote is open */
	if (more.n > l->n)
		is = AT_NEW_WORD;
	else if (!l->n || !strcmp(more.words[more.n - 1].text, l->words[l->n - 1].text))
		is = IN_COMMENT;
	shell_line_clear(&more);
	return is;
}

static bool takes_value(const char *word, const struct option_def **def)
{
	if (!begins(word, "--"))
		return false;
	*def = option_find(word + 2, strlen(word + 2));
	return *def && (*def)->arg;
}

/* The words before the one at the cursor. */
static void walk(struct typed *t, size_t before)
{
	for (size_t i = 1; i < before; i++) {
		const char *word = t->line.words[i].text;
		const struct option_def *def = NULL;

		if (!t->only_words && !strcmp(word, "--"))
			t->only_words = true;
		else if (!t->only_words && takes_value(word, &def)) {
			if (++i == before)
				t->option = def;
		} else if (t->only_words || word[0] != '-' || !word[1]) {
			t->at++;
		}
	}
}

static int understand(const char *text, struct typed *t, size_t *start)
{
	size_t from, before;
	enum cursor cursor;
	int rc;

	memset(t, 0, sizeof(*t));
	rc = last_command(text, &t->line, &from);
	if (rc)
		return rc;
	cursor = cursor_is(text, &t->line, from);
	if (cursor == IN_COMMENT) {
		shell_line_clear(&t->line);
		return -ENOENT;
	}
	before = t->line.n;
	t->word = "";
	*start = strlen(text);
	if (cursor == IN_WORD) {
		const struct shell_word *w = &t->line.words[--before];

		t->word = w->text;
		t->tilde = w->tilde;
		*start = from + w->at;
	}
	if (before)
		t->cmd = shell_command_find(t->line.words[0].text);
	if (before && !t->cmd) {
		shell_line_clear(&t->line);
		return -ENOENT;
	}
	walk(t, before);
	return 0;
}

/* ---- words of tables ---- */

static int put_commands(struct completion *m, const char *word)
{
	int rc = 0;

	for (const struct shell_command *c = shell_commands(); !rc && (c->name || c->help); c++)
		if (c->name && begins(c->name, word))
			rc = put(m, c->name);
	return rc;
}

static int put_options(struct completion *m, const char *word, unsigned where, const char *dashes)
{
	int rc = 0;

	for (const struct option_def *d = option_table(); !rc && (d->name || d->help); d++) {
		char text[64];

		if (!d->name || !(d->where & where))
			continue;
		snprintf(text, sizeof(text), "%s%s", dashes, d->name);
		if (begins(text, word))
			rc = put(m, text);
	}
	return rc;
}

static int put_choices(struct completion *m, const char *word, const struct option_def *def)
{
	static const char *const on_off[] = { "on", "off", NULL };
	static const char *const yes_no[] = { "yes", "no", NULL };
	const char *const *all = def->choices ? def->choices : def->type == OPT_BOOL ? on_off :
				 !def->arg ? yes_no : NULL;
	int rc = 0;

	for (; !rc && all && *all; all++)
		if (begins(*all, word))
			rc = put(m, *all);
	return rc;
}

/* Hosts whose keys are known. */
static int put_servers(struct completion *m, const char *word)
{
	CLEANUP_FREE char *file = own_file("known_hosts");
	FILE *in = file ? fopen(file, "re") : NULL;
	char line[1024], url[1200];
	int rc = 0;

	while (!rc && in && fgets(line, sizeof(line), in)) {
		line[strcspn(line, " \t\r\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		snprintf(url, sizeof(url), "rftp://%s/", line);
		if (begins(url, word))
			rc = put(m, url);
	}
	if (in)
		fclose(in);
	return rc;
}

/* ---- names of files ---- */

/* A directory being looked through, for names that begin with what was typed of the last one. */
struct look {
	struct completion *m;
	const char *dir;       /* as it was typed, with its "/"; "" */
	const char *begin;
	bool tilde, only_dirs;
	bool dashes;           /* a name must not be taken for an option */
};

static int offer(const struct look *l, const char *name, bool directory)
{
	const char *dir = !*l->dir && l->dashes && *name == '-' ? "./" : l->dir;
	char *text;

	if (!begins(name, l->begin) || (*name == '.' && *l->begin != '.'))
		return 0;
	if (!strcmp(name, ".") || !strcmp(name, "..") || (l->only_dirs && !directory))
		return 0;
	if (asprintf(&text, "%s%s%s", dir, name, directory ? "/" : "") < 0)
		return -ENOMEM;
	return names_add(&l->m->names, text);
}

static int look_there(void *arg, const struct ftp_facts *f)
{
	return offer(arg, f->name, f->type == 'd');
}

static int there(struct call *c, const struct look *l, struct err *e)
{
	CLEANUP_FREE char *path = shell_path(c->sh, l->dir, l->tilde);
	struct server *s = path && c->sh->here.host ? call_server(c, e) : NULL;
	int rc;

	if (!s)
		return e->code ? e->code : -ENOENT;
	rc = ftp_list(s->client, path, look_there, (void *)(uintptr_t)l, e);
	call_done(c, s);
	return rc;
}

static int here(const struct look *l)
{
	const struct shell_word w = { .text = (char *)(uintptr_t)(*l->dir ? l->dir : "./"),
				      .tilde = l->tilde && *l->dir };
	struct err e = ERR_INIT;
	CLEANUP_FREE char *path = shell_local(&w, &e);
	DIR *d = path ? opendir(path) : NULL;
	const struct dirent *entry;
	int rc = 0;

	while (!rc && d && (entry = readdir(d))) {
		struct stat st;

		rc = offer(l, entry->d_name, !fstatat(dirfd(d), entry->d_name, &st, 0) &&
			   S_ISDIR(st.st_mode));
	}
	if (d)
		closedir(d);
	return rc;
}

static int put_names(struct completion *m, struct call *c, const struct typed *t, bool remote,
		     bool only_dirs, struct err *e)
{
	const char *slash = strrchr(t->word, '/');
	CLEANUP_FREE char *dir = strndup(t->word, slash ? (size_t)(slash - t->word) + 1 : 0);
	const struct look l = { .m = m, .dir = dir, .begin = slash ? slash + 1 : t->word,
				.tilde = t->tilde, .only_dirs = only_dirs,
				.dashes = !t->only_words };

	if (!dir)
		return -ENOMEM;
	return remote ? there(c, &l, e) : here(&l);
}

/* ---- values of options ---- */

/* A "~" in them is what it is. */
static int put_values(struct completion *m, struct call *c, const struct typed *t,
		      const struct option_def *def, struct err *e)
{
	if (def->type != OPT_STRING || strcmp(def->arg, "FILE"))
		return put_choices(m, t->word, def);
	return t->tilde ? 0 : put_names(m, c, t, false, false, e);
}

/* ---- all ---- */

static int complete_word(struct completion *m, struct call *c, const struct typed *t,
			 struct err *e)
{
	enum shell_words kind = t->at ? t->cmd->rest : t->cmd->first;

	/* The value of what is set. */
	if (t->at == 1 && t->cmd->first == WORDS_OPTION && t->cmd->max == 2) {
		const char *name = t->line.words[1].text;
		const struct option_def *def = option_find(name, strlen(name));

		return def ? put_values(m, c, t, def, e) : 0;
	}
	switch (kind) {
	case WORDS_REMOTE:
	case WORDS_REMOTE_DIR:
		return put_names(m, c, t, true, kind == WORDS_REMOTE_DIR, e);
	case WORDS_LOCAL:
	case WORDS_LOCAL_DIR:
		return put_names(m, c, t, false, kind == WORDS_LOCAL_DIR, e);
	case WORDS_SERVER:
		return put_servers(m, t->word);
	case WORDS_OPTION:
		return put_options(m, t->word, IN_CONF, "");
	case WORDS_COMMAND:
		return put_commands(m, t->word);
	case WORDS_NONE:
		break;
	}
	return 0;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int shell_complete(struct shell *sh, const char *text, struct completion *m, struct err *e)
{
	struct call c = { .sh = sh };
	struct typed t;
	int rc;

	memset(m, 0, sizeof(*m));
	rc = understand(text, &t, &m->start);
	if (rc)
		return rc;
	c.line = &t.line;
	m->tilde = t.tilde;
	if (!t.cmd)
		rc = put_commands(m, t.word);
	else if (t.option)
		rc = put_values(m, &c, &t, t.option, e);
	else if (t.word[0] == '-' && !t.only_words)
		rc = put_options(m, t.word, t.cmd->bits, "--");
	else
		rc = complete_word(m, &c, &t, e);
	shell_line_clear(&t.line);
	if (rc)
		completion_clear(m);
	else if (m->names.n)
		qsort(m->names.all, m->names.n, sizeof(*m->names.all), by_text);
	return rc;
}

void completion_clear(struct completion *m)
{
	names_clear(&m->names);
}

/* Bytes that all names begin with; not a part of a character of UTF-8. */
static size_t common(const struct names *names)
{
	size_t n = strlen(names->all[0]);

	for (size_t i = 1; i < names->n; i++) {
		size_t k = 0;

		while (k < n && names->all[i][k] == names->all[0][k])
			k++;
		n = k;
	}
	while (n && (names->all[0][n] & 0xc0) == 0x80)
		n--;
	return n;
}

char *completion_text(const struct completion *m)
{
	CLEANUP_FREE char *part = NULL;
	CLEANUP_FREE char *word = NULL;
	bool one = m->names.n == 1;
	int home;
	char *text;
	size_t n;

	if (!m->names.n)
		return NULL;
	n = common(&m->names);
	if (!n && !one)
		return strdup("");
	part = strndup(m->names.all[0], n);
	/* In a directory, and with several, the word goes on. */
	one = one && (!n || part[n - 1] != '/');
	home = part && m->tilde ? (int)strcspn(part, "/") : 0;
	home += home && part[home] == '/';
	word = part ? shell_quote(part + home, !one) : NULL;
	if (!word || asprintf(&text, "%.*s%s%s", home, part, part[home] ? word : "",
			      one ? " " : "") < 0)
		return NULL;
	return text;
}
