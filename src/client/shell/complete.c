// SPDX-License-Identifier: Apache-2.0
/* Finds the completions of the word at the cursor. */
#include "client/shell/shell.h"

#include <dirent.h>
#include <sys/stat.h>

/* The context of the cursor, and the completions found. */
struct cursor {
	struct call call;           /* a call with the last command before the cursor as its line */
	struct shell_line line;
	const char *word;           /* its last word, up to the cursor; "" if there is none */
	int at;                     /* the index of that word, without options */
	const struct shell_command *cmd;  /* NULL: the word is the command */
	const struct option_def *option;  /* the word is the value of this option; NULL: it is
					   * not */
	bool tilde;
	bool only_words;            /* after "--": no more options */
	struct names *names;
	/* The search of a directory for names that begin with the typed part of the last
	 * component: */
	const char *dir;            /* the directory as typed, with its "/"; "": none */
	const char *begin;
	bool only_dirs;
};

static bool starts_with(const char *text, const char *prefix)
{
	return !strncmp(text, prefix, strlen(prefix));
}

/* Add text if it begins with the word. */
static int cursor_add(struct cursor *t, const char *text)
{
	return starts_with(text, t->word) ? names_add(t->names, strdup(text)) : 0;
}

/* ---- the context of the cursor ---- */

/* Parse the last command of text, and the words before the one at the cursor. */
static int cursor_parse(const char *text, struct cursor *t, size_t *start)
{
	struct err e = ERR_INIT;
	const char *at = text, *from;
	size_t before;
	int rc;

	memset(t, 0, sizeof(*t));
	do {
		shell_line_clear(&t->line);
		from = at;
		rc = shell_line_take(&at, true, &t->line, &e);
		if (rc)
			return rc;
	} while (*at);

	before = t->line.n;
	t->word = "";
	*start = strlen(text);
	if (t->line.end == END_IN_WORD) {
		const struct shell_word *w = &t->line.words[--before];

		t->word = w->text;
		t->tilde = w->tilde;
		*start = (size_t)(from - text) + w->at;
	}
	if (before)
		t->cmd = shell_command_find(t->line.words[0].text);
	if (t->line.end == END_OTHER || (before && !t->cmd)) {
		shell_line_clear(&t->line);
		return -ENOENT;
	}

	for (size_t i = 1; i < before; i++) {
		const char *word = t->line.words[i].text;
		const struct option_def *def = t->only_words || !starts_with(word, "--") ? NULL :
					       option_find(rftp_options, word + 2);

		if (!t->only_words && !strcmp(word, "--"))
			t->only_words = true;
		else if (def && def->arg) {
			if (++i == before)
				t->option = def;
		} else if (t->only_words || word[0] != '-' || !word[1]) {
			t->at++;
		}
	}
	return 0;
}

/* ---- words of tables ---- */

static int complete_commands(struct cursor *t)
{
	int rc = 0;

	for (const struct shell_command *c = shell_commands; !rc && (c->name || c->help); c++)
		if (c->name)
			rc = cursor_add(t, c->name);
	return rc;
}

static int complete_options(struct cursor *t, unsigned where, const char *dashes)
{
	char text[64];
	int rc = 0;

	for (const struct option_def *d = rftp_options; !rc && (d->name || d->help); d++) {
		if (!d->name || !(d->where & where))
			continue;
		snprintf(text, sizeof(text), "%s%s", dashes, d->name);
		rc = cursor_add(t, text);
	}
	return rc;
}

/* The hosts in the file of known servers. */
static int complete_servers(struct cursor *t)
{
	CLEANUP_FREE char *file = own_file(OWN_CONFIG, "known_hosts");
	FILE *in = file ? fopen(file, "re") : NULL;
	char line[1024], url[1200];
	int rc = 0;

	while (!rc && in && fgets(line, sizeof(line), in)) {
		line[strcspn(line, " \t\r\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		snprintf(url, sizeof(url), "rftp://%s/", line);
		rc = cursor_add(t, url);
	}
	if (in)
		fclose(in);
	return rc;
}

/* ---- names of files ---- */

static int complete_add_name(struct cursor *t, const char *name, char type)
{
	bool option = !*t->dir && !t->only_words && *name == '-';
	char *text;

	if (!starts_with(name, t->begin) || (*name == '.' && *t->begin != '.'))
		return 0;
	if (!strcmp(name, ".") || !strcmp(name, "..") || (t->only_dirs && type != 'd'))
		return 0;

	if (asprintf(&text, "%s%s%s", option ? "./" : t->dir, name, type == 'd' ? "/" : "") < 0)
		return -ENOMEM;
	return names_add(t->names, text);
}

static int complete_local(struct cursor *t)
{
	const struct shell_word w = { .text = (char *)(uintptr_t)(*t->dir ? t->dir : "./"),
				      .tilde = t->tilde && *t->dir };
	struct err e = ERR_INIT;
	CLEANUP_FREE char *path = shell_local(&w, &e);
	DIR *d = path ? opendir(path) : NULL;
	struct dirent *entry;
	int rc = 0;

	while (!rc && d && (entry = readdir(d))) {
		struct stat st;
		bool is_dir = !fstatat(dirfd(d), entry->d_name, &st, 0) && S_ISDIR(st.st_mode);

		rc = complete_add_name(t, entry->d_name, is_dir ? 'd' : 'f');
	}
	if (d)
		closedir(d);
	return rc;
}

static int complete_names(struct cursor *t, bool remote, bool only_dirs, struct err *e)
{
	const char *slash = strrchr(t->word, '/');
	CLEANUP_FREE char *dir = strndup(t->word, slash ? (size_t)(slash - t->word) + 1 : 0);
	CLEANUP_FREE char *path = NULL;
	struct facts_list l = { 0 };
	struct server *s;
	int rc;

	if (!dir)
		return -ENOMEM;
	t->dir = dir;
	t->begin = slash ? slash + 1 : t->word;
	t->only_dirs = only_dirs;
	if (!remote)
		return complete_local(t);

	path = shell_path(t->call.sh, dir, t->tilde);
	s = path && t->call.sh->here.host ? call_server(&t->call, e) : NULL;
	if (!s)
		return e->code ? e->code : -ENOENT;
	rc = server_list(s, path, &l, e);
	for (size_t i = 0; !rc && i < l.n; i++)
		rc = complete_add_name(t, l.all[i].name, l.all[i].type);
	facts_clear(&l);
	call_done(&t->call, s);
	return rc;
}

/* ---- all ---- */

/* Complete the value of an option; "~" is literal there. */
static int complete_value(struct cursor *t, const struct option_def *def, struct err *e)
{
	static const char *const on_off[] = { "on", "off", NULL };
	static const char *const yes_no[] = { "yes", "no", NULL };
	const char *const *all = def->words ? def->words : !def->arg ? yes_no :
				 def->kind == &option_flag ? on_off : NULL;
	int rc = 0;

	if (def->arg && !strcmp(def->arg, "FILE"))
		return t->tilde ? 0 : complete_names(t, false, false, e);
	for (; !rc && all && *all; all++)
		rc = cursor_add(t, *all);
	return rc;
}

static int complete_word(struct cursor *t, struct err *e)
{
	enum shell_words kind = t->at ? t->cmd->rest : t->cmd->first;
	const struct option_def *def;

	/* set OPTION VALUE */
	if (t->at == 1 && t->cmd->first == WORDS_OPTION && t->cmd->max == 2) {
		def = option_find(rftp_options, t->line.words[1].text);
		return def ? complete_value(t, def, e) : 0;
	}
	switch (kind) {
	case WORDS_REMOTE:
	case WORDS_REMOTE_DIR:
		return complete_names(t, true, kind == WORDS_REMOTE_DIR, e);
	case WORDS_LOCAL:
	case WORDS_LOCAL_DIR:
		return complete_names(t, false, kind == WORDS_LOCAL_DIR, e);
	case WORDS_SERVER:
		return complete_servers(t);
	case WORDS_OPTION:
		return complete_options(t, OPTION_IN_FILE, "");
	case WORDS_COMMAND:
		return complete_commands(t);
	case WORDS_NONE:
		break;
	}
	return 0;
}

int shell_complete(struct shell *sh, const char *text, struct completion *m, struct err *e)
{
	struct cursor t;
	int rc;

	memset(m, 0, sizeof(*m));
	rc = cursor_parse(text, &t, &m->start);
	if (rc)
		return rc;
	t.call = (struct call){ .sh = sh, .line = &t.line };
	t.names = &m->names;
	m->tilde = t.tilde;
	if (!t.cmd)
		rc = complete_commands(&t);
	else if (t.option)
		rc = complete_value(&t, t.option, e);
	else if (t.word[0] == '-' && !t.only_words)
		rc = complete_options(&t, t.cmd->bits, "--");
	else
		rc = complete_word(&t, e);
	shell_line_clear(&t.line);
	if (rc)
		completion_clear(m);
	else
		names_sort(&m->names);
	return rc;
}

void completion_clear(struct completion *m)
{
	names_clear(&m->names);
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

	/* The common prefix of all names. It does not end within a UTF-8 character. */
	n = strlen(m->names.all[0]);
	for (size_t i = 1; i < m->names.n; i++) {
		size_t k = 0;

		while (k < n && m->names.all[i][k] == m->names.all[0][k])
			k++;
		n = k;
	}
	while (n && (m->names.all[0][n] & 0xc0) == 0x80)
		n--;
	if (!n && !one)
		return strdup("");

	part = strndup(m->names.all[0], n);

	/* The word is not complete yet if there are several names, or if it is a directory. */
	one = one && (!n || part[n - 1] != '/');
	home = part && m->tilde ? (int)strcspn(part, "/") : 0;
	home += home && part[home] == '/';
	word = part ? shell_quote(part + home, !one) : NULL;
	if (!word || asprintf(&text, "%.*s%s%s", home, part, part[home] ? word : "",
			      one ? " " : "") < 0)
		return NULL;
	return text;
}
