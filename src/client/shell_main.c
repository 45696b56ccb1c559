// SPDX-License-Identifier: Apache-2.0
/* Where the shell's lines come from. */
#include "client/shell.h"

#include "client/shell_edit.h"
#include "client/signals.h"

#include <errno.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The end of a line off it. Does it go on in the next one: is its last backslash not itself one
 * that is taken as it is? */
static bool strip_end(char *line, size_t *n)
{
	size_t slashes = 0;

	if (!*n || line[*n - 1] != '\n')
		return false;
	*n -= 1 + (*n > 1 && line[*n - 2] == '\r');
	while (slashes < *n && line[*n - 1 - slashes] == '\\')
		slashes++;
	*n -= slashes % 2;
	return slashes % 2;
}

/* A line of a script, and those that it goes on in; malloc'd. NULL at the end, or with text.
 * *number counts. */
static char *read_line(FILE *in, unsigned *number, struct err *e)
{
	CLEANUP_FREE char *whole = NULL;
	bool goes_on = true;
	size_t len = 0;

	while (goes_on) {
		CLEANUP_FREE char *line = NULL;
		size_t room = 0, n;
		ssize_t got = getline(&line, &room, in);
		char *more;

		if (got < 0)
			break;
		++*number;
		n = (size_t)got;
		goes_on = strip_end(line, &n);
		if (memchr(line, '\0', n) || memchr(line, '\r', n)) {
			err_set(e, -EINVAL, "a NUL or CR within a line");
			return NULL;
		}
		more = realloc(whole, len + n + 1);
		if (!more) {
			err_sys(e, -ENOMEM, "line");
			return NULL;
		}
		whole = more;
		memcpy(whole + len, line, n);
		len += n;
		whole[len] = '\0';
	}
	return steal_ptr(&whole);
}

/* What fails is said with its file and line. */
static enum exit_status run_file(struct shell *sh, FILE *in, const char *name, bool keep_going)
{
	enum exit_status all = EXIT_DONE;
	unsigned number = 0;

	while (!sh->leave && (keep_going || all == EXIT_DONE)) {
		unsigned first = number + 1;
		struct err e = ERR_INIT;
		CLEANUP_FREE char *line = read_line(in, &number, &e);
		enum exit_status status = EXIT_USAGE;

		if (!line && !e.code)
			break;
		if (line)
			status = shell_do(sh, line, keep_going);
		else
			log_error("%s", e.text);
		if (status)
			log_error("%s line %u%s", printable(name), first, keep_going ? "" :
				  ": ended here");
		all = exit_worse(all, status);
		if (signals_stopped())
			return EXIT_INTERRUPTED;
	}
	if (ferror(in)) {
		log_error("cannot read %s: %s", printable(name), strerror(errno));
		all = exit_worse(all, EXIT_SOME_FAILED);
	}
	return all;
}

static enum exit_status run_batch(struct shell *sh, const char *file, bool keep_going)
{
	enum exit_status status;
	FILE *in;

	if (!strcmp(file, "-")) {
		sh->reads_stdin = true;
		return run_file(sh, stdin, "standard input", keep_going);
	}
	in = fopen(file, "re");
	if (!in) {
		log_error("cannot read %s: %s", printable(file), strerror(errno));
		return EXIT_USAGE;
	}
	status = run_file(sh, in, file, keep_going);
	fclose(in);
	return status;
}

/* The lines of "-c". */
static enum exit_status run_commands(struct shell *sh, const char *text, bool keep_going)
{
	enum exit_status status = EXIT_DONE;

	while (*text && !sh->leave && !signals_stopped() && (keep_going || !status)) {
		size_t n = strcspn(text, "\n");
		CLEANUP_FREE char *line = strndup(text, n);

		if (!line)
			return EXIT_SOME_FAILED;
		status = exit_worse(status, shell_do(sh, line, keep_going));
		text += n + (text[n] == '\n');
	}
	return signals_stopped() ? EXIT_INTERRUPTED : status;
}

/* After what a ^C has stopped comes more. */
static void rearm(void)
{
	if (signals_last() == SIGINT || !signals_last())
		signals_rearm();
}

/* Until "quit", the end of what is typed, or a signal that is not the terminal's. */
static void run_editor(struct shell *sh)
{
	struct editor *ed;

	ed = editor_new(sh);
	if (!ed)
		log_error("out of memory");
	while (ed && !sh->leave && signals_last() != SIGTERM && signals_last() != SIGHUP) {
		CLEANUP_FREE char *line = editor_line(ed);

		if (line)
			shell_do(sh, line, false);
		else if (!signals_stopped())
			sh->leave = true;
		if (!line)
			putchar('\n');
		rearm();
	}
	editor_free(ed);
}

/* Stays whether or not there is a server at url (NULL: none is wanted). */
static enum exit_status run_terminal(struct shell *sh, const char *url)
{
	sh->terminal = true;
	/* The first ^C stops what is done now, the second one all. */
	signals_graceful(true);
	if (url)
		shell_begin(sh, url);
	rearm();
	run_editor(sh);
	signals_graceful(false);
	return sh->leave ? EXIT_DONE : EXIT_INTERRUPTED;
}

static bool at_terminal(const struct options *o)
{
	return !o->commands && !o->batch && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

static enum exit_status run(struct shell *sh, const struct options *o, const char *url)
{
	enum exit_status status;

	if (at_terminal(o))
		return run_terminal(sh, url);
	status = url ? shell_begin(sh, url) : EXIT_DONE;
	if (status)
		return status;
	if (o->commands)
		return run_commands(sh, o->commands, o->keep_going);
	return run_batch(sh, o->batch ? o->batch : "-", o->keep_going);
}

enum exit_status shell_main(const struct args *a)
{
	enum exit_status status = EXIT_SOME_FAILED;
	struct err e = ERR_INIT;
	struct options o;
	struct shell *sh;

	if (args_options(a, NULL, &o, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	if (o.commands && o.batch) {
		log_error("-b and -c exclude each other");
		options_clear(&o);
		return EXIT_USAGE;
	}
	log_set_level(job_level(&o));
	/* Names are bytes, mostly UTF-8: "?" matches a character wherever the words come from, and the
	 * editor needs all bytes of one. */
	if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
		setlocale(LC_CTYPE, "C.UTF-8");
	sh = shell_new(a);
	if (!sh)
		log_error("out of memory");
	if (sh)
		status = run(sh, &o, a->nwords ? a->words[0] : NULL);
	shell_free(sh);
	options_clear(&o);
	return status;
}
