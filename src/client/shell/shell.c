// SPDX-License-Identifier: Apache-2.0
/* Runs the shell: reads lines, runs their commands, and starts programs by the system's shell. */
#include "client/shell/shell.h"

#include "client/signals.h"

#include <fcntl.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>

struct shell *shell_new(const struct option_args *a)
{
	struct shell *sh = calloc(1, sizeof(*sh));

	if (!sh)
		return NULL;
	sh->base = a;
	sh->asks = true;
	return sh;
}

void shell_free(struct shell *sh)
{
	if (!sh)
		return;
	for (int i = 0; i < sh->nset; i++)
		free((char *)(uintptr_t)sh->set[i].value);
	free(sh->set);
	servers_clear(&sh->kept);
	url_clear(&sh->here);
	free(sh->home);
	free(sh->before);
	free(sh);
}

/* ---- for commands ---- */

enum exit_status call_usage(const struct call *c, const char *fmt, ...)
{
	char text[ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("%s (see help %s)", text, c->cmd->name);
	return EXIT_USAGE;
}

const struct shell_word *call_word(const struct call *c, int i)
{
	/* A word that is not an option points to the text in the line. */
	for (size_t k = 0; k < c->line->n; k++)
		if (c->line->words[k].text == c->words[i])
			return &c->line->words[k];
	return NULL;
}

static void add_settings(struct option_args *out, unsigned bits, const struct setting *s, int n)
{
	for (int i = 0; i < n; i++)
		if (s[i].def->where & bits)
			out->settings[out->nsettings++] = s[i];
}

int call_settings(const struct call *c, unsigned bits, struct option_args *out, struct err *e)
{
	const struct shell *sh = c->sh;
	size_t most = (size_t)(sh->base->nsettings + sh->nset + c->args.nsettings);
	/* If the output goes to a pipe, show no progress: the reader, often a pager, uses the
	 * terminal. */
	const struct setting silent = { .def = option_find(rftp_options, "progress"),
					.value = "never" };

	memset(out, 0, sizeof(*out));
	out->settings = calloc(most + 1 + 1, sizeof(*out->settings));
	if (!out->settings)
		return err_nomem(e);

	add_settings(out, bits, &silent, c->line && c->line->pipe ? 1 : 0);
	add_settings(out, bits, sh->base->settings, sh->base->nsettings);
	add_settings(out, bits, sh->set, sh->nset);
	add_settings(out, bits, c->args.settings, c->args.nsettings);
	return 0;
}

enum exit_status call_rftp(struct call *c, const char *name, struct names *words,
			   struct names *typed)
{
	static char *none[] = { NULL };
	struct job j = { .cmd = command_find(name), .servers = &c->sh->kept,
			 .words = words->n ? words->all : none, .nwords = (int)words->n,
			 .typed = typed && typed->n == words->n ? typed->all : NULL };
	enum exit_status status;
	struct err e = ERR_INIT;
	struct option_args a;

	if (call_settings(c, j.cmd->bit, &a, &e)) {
		status = failed(&e, false);
	} else {
		j.args = &a;
		status = job_run(&j);
		free(a.settings);
	}
	names_clear(words);
	if (typed)
		names_clear(typed);
	return status;
}

bool shell_is_open(const struct shell *sh, struct err *e)
{
	if (!sh->here.host)
		err_set(e, -ENOTCONN, "no server is open: open URL");
	return sh->here.host;
}

struct server *call_server(struct call *c, struct err *e)
{
	struct job j = { .servers = &c->sh->kept }; /* only to load the options */
	struct server *s;
	struct option_args a;

	if (!shell_is_open(c->sh, e) || call_settings(c, ON_STAT, &a, e))
		return NULL;

	j.args = &a;
	s = server_take(&j, &c->sh->here, e);
	if (s && server_connect(s, e))
		server_give(&j, steal_ptr(&s));
	free(a.settings);
	return s;
}

void call_done(struct call *c, struct server *s)
{
	const struct job j = { .servers = &c->sh->kept };

	server_give(&j, s);
}

/* ---- one command ---- */

static enum exit_status call_run(struct call *c)
{
	struct call help = { .sh = c->sh, .cmd = shell_command_find("help"), .line = c->line,
			     .words = c->args.words, .nwords = 1 };
	const struct shell_command *cmd = c->cmd;
	struct err e = ERR_INIT;
	struct option_args a;
	struct options o;
	int rc;

	options_settle(&c->args, cmd->bits);
	if (option_args_last(&c->args, "help"))
		return help.cmd->run(&help);
	for (int i = 0; i < c->args.nsettings; i++) {
		const struct setting *s = &c->args.settings[i];
		const char *advice = options_advice(s, cmd->bits);

		if (!(s->def->where & cmd->bits) || (s->def->where & NOT_IN_SHELL))
			return call_usage(c, NOT_TAKEN_WHY, cmd->name,
					  setting_text(s), advice ? ": " : "",
					  advice ? advice : "");
	}

	if (c->nwords < cmd->min || (cmd->max >= 0 && c->nwords > cmd->max))
		return call_usage(c, "usage: %s%s%s", cmd->name, *cmd->usage ? " " : "",
				  cmd->usage);

	/* The options that all commands accept. */
	rc = call_settings(c, ON_ALL, &a, &e);
	if (!rc) {
		rc = options_load(&a, &c->sh->here, NULL, &o, &e);
		free(a.settings);
	}
	if (rc) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	c->json = o.json;
	log_set_level(job_level(&o));
	options_clear(&o);
	return cmd->run(c);
}

/* Commands that users of other shells try, and the commands here that do the same. */
static const struct option_hint shell_elsewhere[] = {
	{ "cat", "get -q NAME | cat" },
	{ "doctor", "!rftp doctor" },
	{ "less", "get -q NAME | less" },
	{ "mirror", "get -r or put -r; only differences: !rftp sync" },
	{ "more", "get -q NAME | more" },
	{ "sync", "!rftp sync" },
	{ "verify", "!rftp verify" },
	{ NULL, NULL },
};

enum exit_status shell_no_command(const char *word)
{
	const char *advice = option_advice(shell_elsewhere, word);

	log_error("there is no command \"%s\" (%s%s)", printable(word), advice ? "use " : "",
		  advice ? advice : "help lists them");
	return EXIT_USAGE;
}

static enum exit_status shell_run_words(struct shell *sh, const struct shell_line *l)
{
	static char name[] = "rftp";
	CLEANUP_FREE char **argv = calloc(l->n + 2, sizeof(*argv));
	struct call c = { .sh = sh, .line = l, .cmd = shell_command_find(l->words[0].text) };
	enum exit_status status;
	struct err e = ERR_INIT;

	if (!c.cmd) {
		return shell_no_command(l->words[0].text);
	}

	if (!argv)
		err_nomem(&e);
	for (size_t i = 0; argv && i < l->n; i++)
		argv[i + 1] = l->words[i].text;
	if (argv)
		argv[0] = name;
	if (!argv || options_parse(&c.args, (int)l->n + 1, argv, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}

	c.words = c.args.words + 1;
	c.nwords = c.args.nwords - 1;
	status = call_run(&c);
	option_args_clear(&c.args);
	return status;
}

/* ---- the system's shell ---- */

/* Start command ("": an interactive shell of the user) as c, with fd as its standard input (-1:
 * rftp's own). 0, or a negative errno with text. */
static int outside_start(struct child *c, const char *command, int fd, struct err *e)
{
	const char *own = getenv("SHELL"), *sh = "/bin/sh";
	const char *words[] = { own && *own ? own : sh, NULL, NULL, NULL };
	const struct child_program p = { .argv = (char *const *)(uintptr_t)words, .in = fd,
					 .out = -1, .err = -1 };

	if (*command) {
		words[0] = sh;
		words[1] = "-c";
		words[2] = command;
	}
	return child_exec(c, &p, e);
}

/* Wait for the program. Meanwhile ^C and ^\ on the terminal act only on the program, as with
 * system(3). SIGTERM and SIGHUP end the program and rftp. If ^C has ended the program, it also ends
 * a script. */
static enum exit_status outside_wait(const struct shell *sh, struct child *c)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction intr, quit;
	int status;

	sigaction(SIGINT, &ignore, &intr);
	sigaction(SIGQUIT, &ignore, &quit);

	while (child_wait(c, -1) < 0)
		if (signals_last() == SIGTERM || signals_last() == SIGHUP)
			kill(c->pid, SIGHUP);
	status = c->status;
	sigaction(SIGINT, &intr, NULL);
	sigaction(SIGQUIT, &quit, NULL);

	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT) {
		if (!sh->terminal)
			raise(SIGINT);
		else if (!signals_stopped())
			putchar('\n'); /* after the "^C" that the terminal shows */
	}
	return WIFEXITED(status) && !WEXITSTATUS(status) ? EXIT_DONE : EXIT_SOME_FAILED;
}

/* Run a command with its standard output piped to a program. */
static enum exit_status shell_run_piped(struct shell *sh, const struct shell_line *l)
{
	struct pollfd reader = { .fd = STDOUT_FILENO, .events = POLLOUT };
	CLEANUP_CLOSE int kept = -1;
	enum exit_status status;
	struct err e = ERR_INIT;
	int fds[2], rc;
	struct child c;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC)) {
		err_sys(&e, -errno, "pipe");
		return failed(&e, false);
	}

	rc = outside_start(&c, l->pipe, fds[0], &e);
	close(fds[0]);
	kept = rc < 0 ? -1 : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	if (kept < 0 || dup2(fds[1], STDOUT_FILENO) < 0) {
		if (rc == 0)
			err_sys(&e, -errno, "pipe");
		close(fds[1]);
		if (rc == 0)
			outside_wait(sh, &c);
		return failed(&e, false);
	}

	close(fds[1]);
	status = shell_run_words(sh, l);
	if (fflush(stdout))
		clearerr(stdout);

	/* If the program has closed the pipe because it needs no more input, do not report a
	 * failure. */
	if (status != EXIT_USAGE && poll(&reader, 1, 0) > 0 && (reader.revents & POLLERR) &&
	    !signals_stopped())
		status = EXIT_DONE;
	dup2(kept, STDOUT_FILENO);
	return exit_worse(status, outside_wait(sh, &c));
}

/* ---- lines ---- */

static enum exit_status shell_run_line(struct shell *sh, const struct shell_line *l)
{
	enum exit_status status = EXIT_DONE;
	struct err e = ERR_INIT;

	if (l->outside) {
		/* The program must not read the following commands. */
		CLEANUP_CLOSE int nothing = sh->reads_stdin ?
					    open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
		struct child c;

		status = outside_start(&c, l->outside, nothing, &e) < 0 ? failed(&e, false) :
									 outside_wait(sh, &c);
	} else if (l->pipe) {
		status = shell_run_piped(sh, l);
	} else if (l->n) {
		status = shell_run_words(sh, l);
	}
	fflush(stdout);
	return status;
}

enum exit_status shell_do(struct shell *sh, const char *line, bool keep_going)
{
	enum exit_status status = EXIT_DONE;

	while (*line && !sh->leave && (keep_going || status == EXIT_DONE)) {
		struct err e = ERR_INIT;
		struct shell_line l;

		if (shell_line_take(&line, false, &l, &e)) {
			log_error("%s", e.text);
			return exit_worse(status, EXIT_USAGE);
		}
		status = exit_worse(status, shell_run_line(sh, &l));
		shell_line_clear(&l);
		/* An interrupt also skips the rest of the line. */
		if (signals_stopped())
			break;
	}
	return status;
}

/* ---- sources of lines ---- */

/* Read a line of a script and its continuation lines; malloc'd. NULL: the end, or an error with
 * text. *number counts the lines. */
static char *script_read_line(FILE *in, unsigned *number, struct err *e)
{
	CLEANUP_FREE char *whole = NULL;
	bool continues = true;
	size_t len = 0;

	while (continues) {
		CLEANUP_FREE char *line = NULL;
		size_t room = 0, n, slashes = 0;
		ssize_t got = getline(&line, &room, in);
		char *more;

		if (got < 0)
			break;
		++*number;
		n = (size_t)got;
		continues = line[n - 1] == '\n';
		if (continues) {
			n -= 1 + (n > 1 && line[n - 2] == '\r');
			while (slashes < n && line[n - 1 - slashes] == '\\')
				slashes++;
			/* A backslash at the end that is not escaped itself. */
			continues = slashes % 2;
			n -= continues;
		}
		if (memchr(line, '\0', n) || memchr(line, '\r', n)) {
			err_set(e, -EINVAL, "the line contains a NUL or a CR");
			return NULL;
		}
		more = realloc(whole, len + n + 1);
		if (!more) {
			err_nomem(e);
			return NULL;
		}
		whole = more;
		memcpy(whole + len, line, n);
		len += n;
		whole[len] = '\0';
	}
	return steal_ptr(&whole);
}

/* Run the lines of a file; report a failure with the file and the line. name NULL: the commands are
 * on rftp's command line. */
static enum exit_status shell_run_file(struct shell *sh, FILE *in, const char *name, bool keep_going)
{
	enum exit_status all = EXIT_DONE;
	unsigned number = 0;

	while (!sh->leave && (keep_going || all == EXIT_DONE)) {
		unsigned first = number + 1;
		struct err e = ERR_INIT;
		CLEANUP_FREE char *line = script_read_line(in, &number, &e);
		enum exit_status status = EXIT_USAGE;

		if (!line && !e.code)
			break;
		if (line)
			status = shell_do(sh, line, keep_going);
		else
			log_error("%s", e.text);
		if (status && name)
			log_error("%s:%u%s", printable(name), first, keep_going ? "" :
				  ": ended here");
		all = exit_worse(all, status);
		if (signals_stopped())
			return EXIT_INTERRUPTED;
	}
	if (ferror(in)) {
		log_error("%s: " CANNOT_READ ": %s", printable(name), strerror(errno));
		all = exit_worse(all, EXIT_SOME_FAILED);
	}
	return all;
}

/* After ^C, or without a signal, prepare for the next command. Other signals end the shell. */
static void shell_rearm(void)
{
	if (signals_last() == SIGINT || !signals_last())
		signals_rearm();
}

/* Run lines from the terminal until "quit", the end of input, or a signal other than ^C. url: the
 * server to open first; NULL: none. If it cannot be opened, continue. */
static enum exit_status shell_run_terminal(struct shell *sh, const char *url)
{
	struct editor *ed;

	sh->terminal = true;

	/* The first ^C stops the current command; a second one ends rftp. */
	signals_graceful(true);
	if (url)
		shell_begin(sh, url);
	shell_rearm();
	ed = editor_new(sh);
	if (!ed)
		log_error(NO_MEMORY);
	while (ed && !sh->leave && signals_last() != SIGTERM && signals_last() != SIGHUP) {
		CLEANUP_FREE char *line = editor_line(ed);

		if (line)
			shell_do(sh, line, false);
		else if (!signals_stopped())
			sh->leave = true;
		if (!line)
			putchar('\n');
		shell_rearm();
	}
	editor_free(ed);
	signals_graceful(false);
	return sh->leave ? EXIT_DONE : EXIT_INTERRUPTED;
}

static enum exit_status shell_run(struct shell *sh, const struct options *o, const char *url)
{
	const char *file = o->batch ? o->batch : "-";
	enum exit_status status = EXIT_DONE;
	FILE *in;

	if (!o->commands && !o->batch && isatty(STDIN_FILENO) && isatty(STDOUT_FILENO))
		return shell_run_terminal(sh, url);

	if (url)
		status = shell_begin(sh, url);
	if (status)
		return status;
	if (o->commands && !*o->commands) /* fmemopen() may refuse an empty text */
		return EXIT_DONE;

	if (!o->commands && !strcmp(file, "-")) {
		sh->reads_stdin = true;
		return shell_run_file(sh, stdin, "standard input", o->keep_going);
	}

	in = o->commands ? fmemopen(o->commands, strlen(o->commands), "r") : fopen(file, "re");
	if (!in) {
		log_error("%s: " CANNOT_READ ": %s", printable(o->commands ? "-c" : file),
			  strerror(errno));
		return EXIT_USAGE;
	}
	status = shell_run_file(sh, in, o->commands ? NULL : file, o->keep_going);
	fclose(in);
	return status;
}

enum exit_status shell_main(const struct option_args *a)
{
	enum exit_status status = EXIT_SOME_FAILED;
	const struct url none = { 0 };
	struct err e = ERR_INIT;
	struct options o;
	struct shell *sh;

	if (options_load(a, &none, NULL, &o, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	if (o.commands && o.batch) {
		log_error("-b and -c exclude each other");
		options_clear(&o);
		return EXIT_USAGE;
	}
	log_set_level(job_level(&o));

	/* Names are bytes, usually UTF-8. "?" must match a whole character, also in scripts without
	 * a locale, and the editor must read all bytes of a character. */
	if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
		setlocale(LC_CTYPE, "C.UTF-8");

	sh = shell_new(a);
	if (!sh)
		log_error(NO_MEMORY);
	if (sh)
		status = shell_run(sh, &o, a->nwords ? a->words[0] : NULL);
	shell_free(sh);
	options_clear(&o);
	return status;
}
