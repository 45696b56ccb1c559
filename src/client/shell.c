// SPDX-License-Identifier: Apache-2.0
/* From a line to its commands, and from a command to what does it. */
#include "client/shell.h"

#include "client/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct shell *shell_new(const struct args *a)
{
	struct shell *sh = calloc(1, sizeof(*sh));

	if (!sh)
		return NULL;
	sh->base = a;
	sh->kept = servers_new();
	sh->asks = true;
	if (sh->kept)
		return sh;
	shell_free(sh);
	return NULL;
}

void shell_free(struct shell *sh)
{
	if (!sh)
		return;
	for (int i = 0; i < sh->nset; i++)
		free((char *)(uintptr_t)sh->set[i].value);
	free(sh->set);
	servers_free(sh->kept);
	place_clear(&sh->here);
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
	log_error("%s (help %s tells more)", text, c->cmd->name);
	return EXIT_USAGE;
}

const struct shell_word *call_word(const struct call *c, int i)
{
	/* The words that are no options are the line's own texts. */
	for (size_t k = 0; k < c->line->n; k++)
		if (c->line->words[k].text == c->words[i])
			return &c->line->words[k];
	return NULL;
}

static void add_settings(struct args *out, unsigned bits, const struct setting *s, int n)
{
	for (int i = 0; i < n; i++)
		if (s[i].def->where & bits)
			out->settings[out->nsettings++] = s[i];
}

int call_settings(const struct call *c, unsigned bits, struct args *out, struct err *e)
{
	const struct shell *sh = c->sh;
	size_t most = (size_t)(sh->base->nsettings + sh->nset + c->args.nsettings);
	/* The terminal is that of who reads the pipe: of a pager, more often than not. */
	const struct setting silent = { .def = option_find("progress", strlen("progress")),
					.value = "never" };

	memset(out, 0, sizeof(*out));
	out->settings = calloc(most + 1 + 1, sizeof(*out->settings));
	if (!out->settings)
		return err_sys(e, -ENOMEM, "options");
	add_settings(out, bits, &silent, c->line && c->line->pipe ? 1 : 0);
	add_settings(out, bits, sh->base->settings, sh->base->nsettings);
	add_settings(out, bits, sh->set, sh->nset);
	add_settings(out, bits, c->args.settings, c->args.nsettings);
	return 0;
}

enum exit_status call_rftp(struct call *c, const char *name, struct names *words,
			   const struct names *typed)
{
	static char *none[] = { NULL };
	struct job j = { .cmd = command_find(name), .servers = c->sh->kept,
			 .words = words->n ? words->all : none, .nwords = (int)words->n,
			 .typed = typed && typed->n == words->n ? typed->all : NULL };
	struct err e = ERR_INIT;
	enum exit_status status;
	struct args a;

	if (call_settings(c, j.cmd->bit, &a, &e))
		return failed(&e, false);
	j.args = &a;
	status = job_run(&j);
	free(a.settings);
	return status;
}

/* A job only for its options. */
static struct server *reach(struct call *c, const struct args *a, struct err *e)
{
	const struct job j = { .args = a, .servers = c->sh->kept };
	struct server *s = server_take(&j, &c->sh->here, e);

	if (!s || !server_connect(s, e))
		return s;
	server_give(&j, s);
	return NULL;
}

struct server *call_server(struct call *c, struct err *e)
{
	struct server *s;
	struct args a;

	if (!c->sh->here.host) {
		err_set(e, -ENOTCONN, "no server is open: open URL");
		return NULL;
	}
	if (call_settings(c, ON_STAT, &a, e))
		return NULL;
	s = reach(c, &a, e);
	free(a.settings);
	return s;
}

void call_done(struct call *c, struct server *s)
{
	const struct job j = { .servers = c->sh->kept };

	server_give(&j, s);
}

/* ---- one command ---- */

static bool takes_options(const struct call *c)
{
	unsigned bits = c->cmd->bits;

	for (int i = 0; i < c->args.nsettings; i++) {
		const struct option_def *def = c->args.settings[i].def;

		if (!(def->where & bits) || (def->where & NOT_IN_SHELL)) {
			call_usage(c, "%s does not take %s", c->cmd->name,
				   setting_text(&c->args.settings[i]));
			return false;
		}
	}
	return true;
}

static bool asks_help(const struct call *c)
{
	for (int i = 0; i < c->args.nsettings; i++)
		if (!strcmp(c->args.settings[i].def->name, "help"))
			return true;
	return false;
}

/* What all commands have. */
static int read_options(struct call *c, struct err *e)
{
	CLEANUP_FREE struct setting *all = NULL;
	struct options o;
	struct args a;

	if (call_settings(c, ON_ALL, &a, e))
		return e->code;
	all = a.settings;
	if (args_options(&a, c->sh->here.host, &o, e))
		return e->code;
	c->json = o.json;
	log_set_level(job_level(&o));
	options_clear(&o);
	return 0;
}

static enum exit_status run_call(struct call *c)
{
	struct err e = ERR_INIT;
	struct call help = { .sh = c->sh, .cmd = shell_command_find("help"), .line = c->line,
			     .words = c->args.words, .nwords = 1 };

	args_settle(&c->args, c->cmd->bits);
	if (asks_help(c))
		return shell_help(&help);
	if (!takes_options(c))
		return EXIT_USAGE;
	if (c->nwords < c->cmd->min || (c->cmd->max >= 0 && c->nwords > c->cmd->max))
		return call_usage(c, "usage: %s%s%s", c->cmd->name, *c->cmd->usage ? " " : "",
				  c->cmd->usage);
	if (read_options(c, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	return c->cmd->run(c);
}

/* The line's words as a command line, for args_parse(). */
static char **as_argv(const struct shell_line *l)
{
	static char name[] = "rftp";
	char **argv = calloc(l->n + 2, sizeof(*argv));

	for (size_t i = 0; argv && i < l->n; i++)
		argv[i + 1] = l->words[i].text;
	if (argv)
		argv[0] = name;
	return argv;
}

static enum exit_status run_words(struct shell *sh, const struct shell_line *l)
{
	CLEANUP_FREE char **argv = as_argv(l);
	struct call c = { .sh = sh, .line = l, .cmd = shell_command_find(l->words[0].text) };
	struct err e = ERR_INIT;
	enum exit_status status;

	if (!c.cmd) {
		log_error("there is no command \"%s\" (help lists them)",
			  printable(l->words[0].text));
		return EXIT_USAGE;
	}
	if (!argv)
		err_sys(&e, -ENOMEM, "command");
	if (!argv || args_parse(&c.args, (int)l->n + 1, argv, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	c.words = c.args.words + 1;
	c.nwords = c.args.nwords - 1;
	status = run_call(&c);
	args_clear(&c.args);
	return status;
}

/* ---- the system's shell ---- */

/* command with fd as its standard input; -1: ours. Its pid, or a negative errno. */
static pid_t start(const char *command, int fd, struct err *e)
{
	const char *own = getenv("SHELL"), *sh = "/bin/sh";
	const char *words[] = { own && *own ? own : sh, NULL, NULL, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t plain;
	pid_t pid = -1;
	int r;

	if (*command) {
		words[0] = sh;
		words[1] = "-c";
		words[2] = command;
	}
	if (posix_spawn_file_actions_init(&files) || posix_spawnattr_init(&attr))
		return err_sys(e, -ENOMEM, "%s", words[0]);
	/* We have it ignored, which programs do not expect. */
	sigemptyset(&plain);
	sigaddset(&plain, SIGPIPE);
	sigaddset(&plain, SIGXFSZ);
	posix_spawnattr_setsigdefault(&attr, &plain);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
	if (fd >= 0)
		posix_spawn_file_actions_adddup2(&files, fd, STDIN_FILENO);
	r = posix_spawn(&pid, words[0], &files, &attr, (char *const *)(uintptr_t)words, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return r ? err_sys(e, -r, "%s", words[0]) : pid;
}

static void interrupted(const struct shell *sh)
{
	if (!sh->terminal)
		raise(SIGINT);
	else if (!signals_stopped())
		putchar('\n'); /* behind the "^C" that the terminal shows */
}

/* What the terminal's keys send meanwhile is the program's, as with system(3). SIGTERM and SIGHUP
 * end it with us, and a ^C that has ended it ends a script. */
static enum exit_status wait_for(const struct shell *sh, pid_t pid)
{
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction intr, quit;
	int status = 0;

	sigaction(SIGINT, &ignore, &intr);
	sigaction(SIGQUIT, &ignore, &quit);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		if (signals_last() == SIGTERM || signals_last() == SIGHUP)
			kill(pid, SIGHUP);
	sigaction(SIGINT, &intr, NULL);
	sigaction(SIGQUIT, &quit, NULL);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT)
		interrupted(sh);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? EXIT_DONE : EXIT_SOME_FAILED;
}

static enum exit_status run_outside(const struct shell *sh, const char *command)
{
	/* A program must not read the commands that come behind it. */
	CLEANUP_CLOSE int nothing = sh->reads_stdin ? open("/dev/null", O_RDONLY | O_CLOEXEC) : -1;
	struct err e = ERR_INIT;
	pid_t pid = start(command, nothing, &e);

	return pid < 0 ? failed(&e, false) : wait_for(sh, pid);
}

/* Is fd a pipe whose other end is closed? */
static bool nobody_reads(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLOUT };

	return poll(&p, 1, 0) > 0 && (p.revents & POLLERR);
}

/* Standard output goes to what command reads meanwhile. */
static enum exit_status run_piped(struct shell *sh, const struct shell_line *l)
{
	CLEANUP_CLOSE int kept = -1;
	struct err e = ERR_INIT;
	enum exit_status status;
	int fds[2];
	pid_t pid;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC)) {
		err_sys(&e, -errno, "pipe");
		return failed(&e, false);
	}
	pid = start(l->pipe, fds[0], &e);
	close(fds[0]);
	kept = pid < 0 ? -1 : fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
	if (kept < 0 || dup2(fds[1], STDOUT_FILENO) < 0) {
		close(fds[1]);
		if (pid >= 0) {
			err_sys(&e, -errno, "pipe");
			wait_for(sh, pid);
		}
		return failed(&e, false);
	}
	close(fds[1]);
	status = run_words(sh, l);
	if (fflush(stdout))
		clearerr(stdout);
	/* Who reads may have enough: that is no failure of ours. */
	if (status != EXIT_USAGE && nobody_reads(STDOUT_FILENO) && !signals_stopped())
		status = EXIT_DONE;
	dup2(kept, STDOUT_FILENO);
	return exit_worse(status, wait_for(sh, pid));
}

/* ---- lines ---- */

static enum exit_status run_line(struct shell *sh, const struct shell_line *l)
{
	enum exit_status status = EXIT_DONE;

	if (l->outside)
		status = run_outside(sh, l->outside);
	else if (l->pipe)
		status = run_piped(sh, l);
	else if (l->n)
		status = run_words(sh, l);
	fflush(stdout);
	return status;
}

enum exit_status shell_do(struct shell *sh, const char *line, bool keep_going)
{
	enum exit_status status = EXIT_DONE;

	while (*line && !sh->leave && (keep_going || status == EXIT_DONE)) {
		struct err e = ERR_INIT;
		struct shell_line l;

		if (shell_line_take(&line, &l, &e)) {
			log_error("%s", e.text);
			return exit_worse(status, EXIT_USAGE);
		}
		status = exit_worse(status, run_line(sh, &l));
		shell_line_clear(&l);
		/* Who stops one command means what comes behind it on the line, too. */
		if (signals_stopped())
			break;
	}
	return status;
}
