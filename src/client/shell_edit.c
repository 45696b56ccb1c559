// SPDX-License-Identifier: Apache-2.0
/* Lines from a terminal: edited, remembered and completed by libedit where there is one. */
#include "client/shell_edit.h"

#include "client/signals.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <wchar.h>

#define HERE_MOST 512

/* Columns of the terminal; 80 where it does not say. */
static unsigned columns(void)
{
	struct winsize w;

	return !ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col ? w.ws_col : 80;
}

size_t shell_prompt_text(const struct shell *sh, unsigned width, char *out, size_t n)
{
	const char *dir = sh->here.path, *last;
	size_t len;

	if (!sh->here.host)
		return (size_t)snprintf(out, n, "rftp> ");
	len = (size_t)snprintf(out, n, "%s:", printable(sh->here.host));
	len += len < n ? (size_t)snprintf(out + len, n - len, "%s> ", printable(dir)) : 0;
	/* Half of the line is for what is typed. */
	if (len < n && len <= width / 2)
		return len;
	last = strrchr(dir, '/');
	len = (size_t)snprintf(out, n, "%s> ", printable(last && last[1] ? last + 1 : "/"));
	if (len < n && len <= width / 2)
		return len;
	return (size_t)snprintf(out, n, "> ");
}

char *shell_history_file(void)
{
	const char *xdg = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
	CLEANUP_FREE char *dir = NULL;
	char *file;
	int n = -1;

	if (xdg && *xdg == '/')
		n = asprintf(&dir, "%s/rftp", xdg);
	else if (home && *home)
		n = asprintf(&dir, "%s/.local/state/rftp", home);
	if (n < 0) {
		dir = NULL;
		return NULL;
	}
	if (make_dirs(dir, 0700) < 0 || asprintf(&file, "%s/history", dir) < 0)
		return NULL;
	return file;
}

/* ---- without editing ---- */

/* The terminal gives whole lines, one at a time, so that none waits in stdin's buffer. False: a
 * signal has come. */
static bool wait_for_line(void)
{
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
			       { .fd = signals_fd(), .events = POLLIN } };

	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return true;
	return !p[1].revents;
}

/* NULL: the end, or a signal. */
static char *plain_line(const struct shell *sh)
{
	char text[HERE_MOST], *line = NULL;
	size_t room = 0;

	shell_prompt_text(sh, columns(), text, sizeof(text));
	fputs(text, stdout);
	fflush(stdout);
	if (!wait_for_line() || getline(&line, &room, stdin) < 0) {
		free(line);
		clearerr(stdin);
		return NULL;
	}
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

#ifdef HAVE_EDIT

#include "client/shell_complete.h"

#include <histedit.h>

#define HISTORY_LINES 1000

struct editor {
	struct shell *sh;
	EditLine *el;              /* NULL: the terminal cannot even move back */
	History *history;
	char *file;                /* NULL: it is not kept */
	char prompt[HERE_MOST];
};

static char *prompt(EditLine *el)
{
	struct editor *ed;

	el_get(el, EL_CLIENTDATA, &ed);
	shell_prompt_text(ed->sh, columns(), ed->prompt, sizeof(ed->prompt));
	return ed->prompt;
}

/* ---- keys ---- */

static volatile sig_atomic_t resized, resumed;

static void on_resize(int sig)
{
	(void)sig;
	resized = 1;
}

static void on_resume(int sig)
{
	(void)sig;
	resumed = 1;
}

/* The window has another size, or the terminal is ours again, as somebody else has left it. */
static void redraw(EditLine *el)
{
	if (resumed) {
		el_set(el, EL_PREP_TERM, 0);
		el_set(el, EL_PREP_TERM, 1);
	}
	if (resized || resumed) {
		resized = resumed = 0;
		/* Where the line begins, for it is drawn from where the cursor is. */
		putchar('\r');
		el_resize(el);
		el_set(el, EL_REFRESH);
	}
}

static int next_byte(EditLine *el, unsigned char *byte)
{
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
			       { .fd = signals_fd(), .events = POLLIN } };

	while (poll(p, 2, -1) < 0) {
		if (errno != EINTR)
			return -1;
		redraw(el);
	}
	if (p[1].revents) {
		errno = EINTR;
		return -1;
	}
	return (int)read(STDIN_FILENO, byte, 1);
}

/* Libedit's own would go on reading after a signal. */
static int next_key(EditLine *el, wchar_t *key)
{
	mbstate_t state = { 0 };

	for (;;) {
		unsigned char byte;
		int n = next_byte(el, &byte);

		if (n <= 0)
			return n;
		switch (mbrtowc(key, (const char *)&byte, 1, &state)) {
		case (size_t)-2:
			continue;
		case (size_t)-1: /* no character: "?" would be a wildcard */
			el_beep(el);
			memset(&state, 0, sizeof(state));
			continue;
		case 0:
			*key = 0;
			break;
		default:
			break;
		}
		return 1;
	}
}

/* ---- completion ---- */

/* The last component, which is what tells names apart. */
static const char *last_part(const char *name)
{
	size_t n = strlen(name);

	while (n && name[n - 1] == '/')
		n--;
	while (n && name[n - 1] != '/')
		n--;
	return name + n;
}

static void list_names(const struct names *names)
{
	size_t widest = 1, across, down;

	for (size_t i = 0; i < names->n; i++) {
		size_t n = strlen(printable(last_part(names->all[i])));

		widest = n > widest ? n : widest;
	}
	across = columns() / (widest + 2);
	across = across ? across : 1;
	down = (names->n + across - 1) / across;
	putchar('\n');
	for (size_t row = 0; row < down; row++) {
		for (size_t i = row; i < names->n; i += down)
			printf("%-*s", i + down < names->n ? (int)widest + 2 : 0,
			       printable(last_part(names->all[i])));
		putchar('\n');
	}
	fflush(stdout);
}

/* Can text stand on a line as it is? A backslash can, which printable() would double. */
static bool can_stand(const char *text)
{
	CLEANUP_FREE char *copy = strdup(text);

	for (char *at = copy; at && *at; at++)
		if (*at == '\\')
			*at = '/';
	return copy && !strcmp(copy, printable(copy)) && mbstowcs(NULL, text, 0) != (size_t)-1;
}

/* Put text for typed, which is before the cursor. False: it cannot stand on a line, or there is no
 * room for it. */
static bool replace(EditLine *el, const char *text, const char *typed)
{
	size_t out = mbstowcs(NULL, typed, 0);

	if (out == (size_t)-1 || !can_stand(text))
		return false;
	el_deletestr(el, (int)out);
	return el_insertstr(el, text) == 0;
}

/* A directory that is not there is the typist's concern; a server that is not, or lies, is a
 * surprise. */
static unsigned char no_completion(const struct err *e)
{
	if (exit_of(e->code, false) != EXIT_CONNECT)
		return CC_ERROR;
	putchar('\n');
	fflush(stdout);
	log_error("%s", e->text);
	return CC_REDISPLAY;
}

static unsigned char complete(EditLine *el, int ch)
{
	const LineInfo *line = el_line(el);
	CLEANUP_FREE char *typed = strndup(line->buffer, (size_t)(line->cursor - line->buffer));
	CLEANUP_FREE char *text = NULL;
	unsigned char what = CC_ERROR;
	struct err e = ERR_INIT;
	struct completion m;
	struct editor *ed;

	(void)ch;
	el_get(el, EL_CLIENTDATA, &ed);
	if (!typed || shell_complete(ed->sh, typed, &m, &e))
		return no_completion(&e);
	text = completion_text(&m);
	if (text && strcmp(text, typed + m.start) && replace(el, text, typed + m.start)) {
		what = CC_REFRESH;
	} else if (m.names.n) {
		list_names(&m.names);
		what = CC_REDISPLAY;
	}
	completion_clear(&m);
	return what;
}

/* ---- history ---- */

static void begin_history(struct editor *ed)
{
	HistEvent ev;

	ed->history = history_init();
	if (!ed->history)
		return;
	history(ed->history, &ev, H_SETSIZE, HISTORY_LINES);
	history(ed->history, &ev, H_SETUNIQUE, 1);
	el_set(ed->el, EL_HIST, history, ed->history);
	ed->file = shell_history_file();
	if (ed->file)
		history(ed->history, &ev, H_LOAD, ed->file);
}

/* Commands name what people work on: nobody else's business. */
static void end_history(struct editor *ed)
{
	mode_t mask = umask(077);
	HistEvent ev;

	if (ed->history && ed->file)
		history(ed->history, &ev, H_SAVE, ed->file);
	umask(mask);
	if (ed->history)
		history_end(ed->history);
	free(ed->file);
}

/* ---- all ---- */

/* Editing there would fill the screen with copies of the line. */
static bool is_dumb(void)
{
	const char *term = getenv("TERM");

	return !term || !*term || !strcmp(term, "dumb");
}

struct editor *editor_new(struct shell *sh)
{
	const struct sigaction resize = { .sa_handler = on_resize };
	const struct sigaction resume = { .sa_handler = on_resume };
	struct editor *ed = calloc(1, sizeof(*ed));

	if (!ed)
		return NULL;
	ed->sh = sh;
	if (is_dumb())
		return ed;
	ed->el = el_init("rftp", stdin, stdout, stderr);
	if (!ed->el) {
		free(ed);
		return NULL;
	}
	el_set(ed->el, EL_CLIENTDATA, ed);
	el_set(ed->el, EL_PROMPT, prompt);
	el_set(ed->el, EL_EDITOR, "emacs");
	el_set(ed->el, EL_SIGNAL, 0);
	el_set(ed->el, EL_GETCFN, next_key);
	sigaction(SIGWINCH, &resize, NULL);
	sigaction(SIGCONT, &resume, NULL);
	/* Libedit would copy what is not wide, and not free that. */
	el_wset(ed->el, EL_ADDFN, L"rftp-complete", L"Complete the word", complete);
	el_set(ed->el, EL_BIND, "^I", "rftp-complete", NULL);
	el_set(ed->el, EL_BIND, "^R", "em-inc-search-prev", NULL);
	begin_history(ed);
	el_source(ed->el, NULL);
	return ed;
}

void editor_free(struct editor *ed)
{
	if (!ed)
		return;
	if (ed->el) {
		end_history(ed);
		el_end(ed->el);
	}
	free(ed);
}

char *editor_line(struct editor *ed)
{
	HistEvent ev;
	int n = 0;
	const char *line;

	if (!ed->el)
		return plain_line(ed->sh);
	el_resize(ed->el);
	line = el_gets(ed->el, &n);
	if (!line || n <= 0)
		return NULL;
	if (line[strspn(line, " \t\r\n")] && ed->history)
		history(ed->history, &ev, H_ENTER, line);
	return strndup(line, strcspn(line, "\r\n"));
}

#else

struct editor {
	struct shell *sh;
};

struct editor *editor_new(struct shell *sh)
{
	struct editor *ed = calloc(1, sizeof(*ed));

	if (ed)
		ed->sh = sh;
	return ed;
}

void editor_free(struct editor *ed)
{
	free(ed);
}

char *editor_line(struct editor *ed)
{
	return plain_line(ed->sh);
}

#endif
