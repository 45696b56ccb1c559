// SPDX-License-Identifier: Apache-2.0
/* Reads lines from a terminal, with editing, history and completion if libedit is available. */
#include "client/shell/shell.h"

#include "client/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <wchar.h>

#define PROMPT_MOST 512

/* The terminal's columns; 80 if it does not report them. */
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

	/* Keep half of the line for the command. */
	if (len < n && len <= width / 2)
		return len;

	last = strrchr(dir, '/');
	len = (size_t)snprintf(out, n, "%s> ", printable(last && last[1] ? last + 1 : "/"));
	if (len < n && len <= width / 2)
		return len;

	return (size_t)snprintf(out, n, "> ");
}

/* ---- without editing ---- */

/* Read a line without libedit. NULL: end of input, or a signal. */
static char *editor_plain_line(const struct shell *sh)
{
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
			       { .fd = signals_fd(), .events = POLLIN } };
	char text[PROMPT_MOST], *line = NULL;
	size_t room = 0;

	shell_prompt_text(sh, columns(), text, sizeof(text));
	fputs(text, stdout);
	fflush(stdout);

	/* poll() is correct here because stdin's buffer is empty: a terminal delivers one line at a
	 * time. */
	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	if (p[1].revents || getline(&line, &room, stdin) < 0) {
		free(line);
		clearerr(stdin);
		return NULL;
	}
	line[strcspn(line, "\r\n")] = '\0';
	return line;
}

#ifdef HAVE_EDIT

#include <histedit.h>

#define HISTORY_LINES 1000

struct editor {
	struct shell *sh;
	EditLine *el;              /* NULL: the terminal cannot move the cursor */
	History *history;
	char *file;                /* NULL: the history is not kept */
	char prompt[PROMPT_MOST];
};

static char *editor_prompt(EditLine *el)
{
	struct editor *ed;

	el_get(el, EL_CLIENTDATA, &ed);
	shell_prompt_text(ed->sh, columns(), ed->prompt, sizeof(ed->prompt));
	return ed->prompt;
}

/* ---- keys ---- */

static volatile sig_atomic_t resized, resumed;

static void on_redraw(int sig)
{
	if (sig == SIGCONT)
		resumed = 1;
	else
		resized = 1;
}

/* Read a key. Libedit's own function does not stop at a signal. */
static int editor_next_key(EditLine *el, wchar_t *key)
{
	struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
			       { .fd = signals_fd(), .events = POLLIN } };
	mbstate_t state = { 0 };

	for (;;) {
		unsigned char byte;
		int n;

		while (poll(p, 2, -1) < 0) {
			if (errno != EINTR)
				return -1;
			if (!resized && !resumed)
				continue;
			/* Redraw the line after the window was resized, or after another program
			 * has used the terminal. Libedit starts to draw in the cursor's column. */
			if (resumed) {
				el_set(el, EL_PREP_TERM, 0);
				el_set(el, EL_PREP_TERM, 1);
			}
			resized = resumed = 0;
			putchar('\r');
			el_resize(el);
			el_set(el, EL_REFRESH);
		}
		if (p[1].revents) {
			errno = EINTR;
			return -1;
		}
		n = (int)read(STDIN_FILENO, &byte, 1);
		if (n <= 0)
			return n;
		switch (mbrtowc(key, (const char *)&byte, 1, &state)) {
		case (size_t)-2:
			continue;
		case (size_t)-1: /* not a valid character: ignore it, because a "?" instead would be
				  * a wildcard */
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

static void editor_list_names(const struct names *names)
{
	size_t widest = 1, across, down;

	for (size_t i = 0; i < names->n; i++) {
		size_t n = strlen(printable(name_tail(names->all[i])));

		widest = n > widest ? n : widest;
	}
	across = columns() / (widest + 2);
	across = across ? across : 1;
	down = (names->n + across - 1) / across;
	putchar('\n');
	for (size_t row = 0; row < down; row++) {
		for (size_t i = row; i < names->n; i += down)
			printf("%-*s", i + down < names->n ? (int)widest + 2 : 0,
			       printable(name_tail(names->all[i])));
		putchar('\n');
	}
	fflush(stdout);
}

/* Replace typed, the text before the cursor, by text. False: text is not printable, or does not
 * fit. */
static bool editor_replace(EditLine *el, const char *text, const char *typed)
{
	CLEANUP_FREE char *copy = strdup(text);
	size_t out = mbstowcs(NULL, typed, 0);

	/* In the copy replace backslashes, which printable() would double. */
	for (char *at = copy; at && *at; at++)
		if (*at == '\\')
			*at = '/';
	if (!copy || strcmp(copy, printable(copy)) || mbstowcs(NULL, text, 0) == (size_t)-1 ||
	    out == (size_t)-1)
		return false;
	el_deletestr(el, (int)out);
	return el_insertstr(el, text) == 0;
}

static unsigned char editor_complete(EditLine *el, int ch)
{
	const LineInfo *line = el_line(el);
	CLEANUP_FREE char *typed = strndup(line->buffer, (size_t)(line->cursor - line->buffer));
	CLEANUP_FREE char *text = NULL;
	unsigned char action = CC_ERROR;
	struct err e = ERR_INIT;
	struct completion m;
	struct editor *ed;

	(void)ch;
	el_get(el, EL_CLIENTDATA, &ed);
	if (!typed || shell_complete(ed->sh, typed, &m, &e)) {
		/* For a typing error such as a missing directory only beep; print an error of the
		 * server. */
		if (exit_of(e.code, false) != EXIT_CONNECT)
			return CC_ERROR;
		putchar('\n');
		fflush(stdout);
		log_error("%s", e.text);
		return CC_REDISPLAY;
	}

	text = completion_text(&m);
	if (text && strcmp(text, typed + m.start) && editor_replace(el, text, typed + m.start)) {
		action = CC_REFRESH;
	} else if (m.names.n) {
		editor_list_names(&m.names);
		action = CC_REDISPLAY;
	}
	completion_clear(&m);
	return action;
}

/* ---- the editor ---- */

struct editor *editor_new(struct shell *sh)
{
	const struct sigaction redraw = { .sa_handler = on_redraw };
	struct editor *ed = calloc(1, sizeof(*ed));
	const char *term = getenv("TERM");
	HistEvent ev;

	if (!ed)
		return NULL;
	ed->sh = sh;

	/* A dumb terminal cannot redraw a line: read plain lines. */
	if (!term || !*term || !strcmp(term, "dumb"))
		return ed;
	ed->el = el_init("rftp", stdin, stdout, stderr);
	if (!ed->el) {
		free(ed);
		return NULL;
	}
	el_set(ed->el, EL_CLIENTDATA, ed);
	el_set(ed->el, EL_PROMPT, editor_prompt);
	el_set(ed->el, EL_EDITOR, "emacs");
	el_set(ed->el, EL_SIGNAL, 0);
	el_set(ed->el, EL_GETCFN, editor_next_key);
	sigaction(SIGWINCH, &redraw, NULL);
	sigaction(SIGCONT, &redraw, NULL);

	/* A wide string, because libedit leaks its copies of narrow ones. */
	el_wset(ed->el, EL_ADDFN, L"rftp-complete", L"Complete the word", editor_complete);
	el_set(ed->el, EL_BIND, "^I", "rftp-complete", NULL);
	el_set(ed->el, EL_BIND, "^R", "em-inc-search-prev", NULL);

	ed->history = history_init();
	if (ed->history) {
		history(ed->history, &ev, H_SETSIZE, HISTORY_LINES);
		history(ed->history, &ev, H_SETUNIQUE, 1);
		el_set(ed->el, EL_HIST, history, ed->history);
		ed->file = own_file("XDG_STATE_HOME", ".local/state", "history");
	}
	if (ed->file)
		history(ed->history, &ev, H_LOAD, ed->file);
	el_source(ed->el, NULL);
	return ed;
}

void editor_free(struct editor *ed)
{
	CLEANUP_FREE char *dir = ed && ed->file ? strdup(ed->file) : NULL;
	HistEvent ev;
	mode_t mask;

	if (!ed)
		return;

	/* Only the user may read the history: it has names of files. */
	mask = umask(077);
	if (dir) {
		*strrchr(dir, '/') = '\0';
		make_dirs(dir, 0700);
		history(ed->history, &ev, H_SAVE, ed->file);
	}
	umask(mask);
	if (ed->history)
		history_end(ed->history);
	free(ed->file);
	if (ed->el)
		el_end(ed->el);
	free(ed);
}

char *editor_line(struct editor *ed)
{
	HistEvent ev;
	int n = 0;
	const char *line;

	if (!ed->el)
		return editor_plain_line(ed->sh);

	el_resize(ed->el);
	line = el_gets(ed->el, &n);
	if (!line || n <= 0)
		return NULL;
	if (line[strspn(line, " \t\r\n")] && ed->history)
		history(ed->history, &ev, H_ENTER, line);
	return strndup(line, strcspn(line, "\r\n"));
}

#else

/* Without libedit an editor has no state: its address is that of the shell. */
struct editor *editor_new(struct shell *sh)
{
	return (struct editor *)sh;
}

void editor_free(struct editor *ed)
{
	(void)ed;
}

char *editor_line(struct editor *ed)
{
	return editor_plain_line((struct shell *)ed);
}

#endif
