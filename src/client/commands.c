// SPDX-License-Identifier: Apache-2.0
/* The table of commands, and the way from the command line to one of them. */
#include "client/client.h"

#include "client/shell.h"
#include "client/signals.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct command table[] = {
	{ "put", ON_PUT, 1, -1, "[-r] SOURCE... URL",
	  "copy files and directories to a server", rftp_put },
	{ "get", ON_GET, 1, -1, "[-r] URL... [DESTINATION]",
	  "copy files and directories from servers", rftp_get },
	{ "cp", ON_CP, 1, -1, "[-r] URL... URL",
	  "copy from a server to another, directly", rftp_cp },
	{ "ls", ON_LS, 1, -1, "[-l | -1] [-adRrSt] URL...", "list directories", rftp_ls },
	{ "stat", ON_STAT, 1, -1, "URL...", "show what is known about a file", rftp_stat },
	{ "mkdir", ON_MKDIR, 1, -1, "[-p] URL...", "make directories", rftp_mkdir },
	{ "rm", ON_RM, 1, -1, "[-r] URL... | --parts [-r] URL|DIR...",
	  "remove files, or the parts of interrupted transfers", rftp_rm },
	{ "mv", ON_MV, 2, 2, "URL URL", "rename a file on its server", rftp_mv },
	{ "hash", ON_HASH, 1, -1, "[--alg NAME] URL...",
	  "have the server compute digests of files", rftp_hash },
	{ "bench", ON_BENCH, 1, 1, "[--time TIME | --size SIZE] [--put | --get | --both] URL",
	  "measure the path, from memory to memory", rftp_bench },
	{ .name = NULL },
};

const struct command *command_table(void)
{
	return table;
}

const struct command *command_find(const char *name)
{
	for (const struct command *c = table; c->name; c++)
		if (!strcmp(c->name, name))
			return c;
	return NULL;
}

enum exit_status usage_error(const struct job *j, const char *fmt, ...)
{
	char text[ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	log_error("%s (rftp %s --help shows how)", text, j->cmd->name);
	return EXIT_USAGE;
}

enum exit_status failed(const struct err *e, bool begun)
{
	log_error("%s", e->text);
	return exit_of(e->code, begun);
}

int place_of_server(const char *word, struct place *p, struct err *e)
{
	int rc = place_parse(word, p, e);

	if (rc || place_is_remote(p))
		return rc;
	place_clear(p);
	return err_set(e, -EINVAL, "%s is not on a server: rftp://host/path or host:path was "
		       "expected", printable(word));
}

int place_of_rftpd(const char *word, struct place *p, struct err *e)
{
	int rc = place_of_server(word, p, e);

	if (rc || !place_is_foreign(p))
		return rc;
	place_clear(p);
	return err_set(e, -EINVAL, "%s: this needs an rftpd at the other end: rftp://host/path or "
		       "host:path", printable(word));
}

bool names_server(const char *word)
{
	struct err e = ERR_INIT;
	struct place p;
	bool remote;

	if (place_parse(word, &p, &e))
		return false;
	remote = place_is_remote(&p);
	place_clear(&p);
	return remote;
}

/* The first word that names a server decides which [host] section holds; malloc'd. A
 * word that cannot be parsed is the command's to complain about. */
static char *first_host(char **words)
{
	struct err e = ERR_INIT;
	struct place p;
	char *host;

	for (; *words; words++) {
		if (place_parse(*words, &p, &e))
			continue;
		host = steal_ptr(&p.host);
		place_clear(&p);
		if (host)
			return host;
	}
	return NULL;
}

static bool check_options(const struct job *j)
{
	for (int i = 0; i < j->args->nsettings; i++) {
		const struct option_def *def = j->args->settings[i].def;

		if (!(def->where & j->cmd->bit)) {
			usage_error(j, "%s does not take %s", j->cmd->name,
				    setting_text(&j->args->settings[i]));
			return false;
		}
	}
	return true;
}

static bool check_words(const struct job *j)
{
	if (j->nwords >= j->cmd->min && (j->cmd->max < 0 || j->nwords <= j->cmd->max))
		return true;
	usage_error(j, "usage: rftp %s %s", j->cmd->name, j->cmd->usage);
	return false;
}

enum log_level job_level(const struct options *o)
{
	if (o->quiet)
		return LOG_LV_ERROR;
	return o->verbose >= 2 ? LOG_LV_DEBUG : o->verbose ? LOG_LV_INFO : LOG_LV_WARN;
}

/* What the command line and files come to, for this command. */
static int job_options(struct job *j, const char *host, struct err *e)
{
	int rc = args_options(j->args, host, &j->o, e);

	if (rc)
		return rc;
	if (j->cmd->bit & ON_BULK)
		rc = options_check(&j->o, e);
	if (rc)
		options_clear(&j->o);
	return rc;
}

enum exit_status job_run(struct job *j)
{
	CLEANUP_FREE char *host = NULL;
	struct err e = ERR_INIT;
	enum exit_status status;

	if (!check_options(j) || !check_words(j))
		return EXIT_USAGE;
	host = first_host(j->words);
	if (job_options(j, host, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	log_set_level(job_level(&j->o));
	status = j->cmd->run(j);
	options_clear(&j->o);
	return status;
}

static bool asks_for(const struct args *a, const char *name)
{
	for (int i = 0; i < a->nsettings; i++)
		if (!strcmp(a->settings[i].def->name, name))
			return true;
	return false;
}

/* What needs no command, or needs it only to talk about it. */
static bool only_talk(const struct args *a, const struct command *c)
{
	if (asks_for(a, "version"))
		help_version(stdout);
	else if (asks_for(a, "help") && c)
		help_command(stdout, c);
	else if (asks_for(a, "help"))
		help_program(stdout);
	else
		return false;
	return true;
}

/* What stands where a command would, and is none. */
static enum exit_status no_command(const struct args *a)
{
	const char *word = a->words[0];
	struct err e = ERR_INIT;
	struct place p;

	if (!strstr(word, "://")) {
		log_error("there is no command \"%s\" (rftp --help lists them%s%s)",
			  printable(word), a->nwords > 1 ? "" : "; a server is rftp://",
			  a->nwords > 1 ? "" : printable(word));
	} else if (place_of_server(word, &p, &e)) {
		log_error("%s", e.text);
	} else {
		place_clear(&p);
		log_error("%s stands alone, or behind a command (rftp --help lists them)",
			  printable(word));
	}
	return EXIT_USAGE;
}

static enum exit_status run_args(struct args *a)
{
	struct job j = { .args = a, .words = a->words + 1, .nwords = a->nwords - 1 };

	if (a->nwords)
		j.cmd = command_find(a->words[0]);
	if (j.cmd)
		args_settle(a, j.cmd->bit);
	if (only_talk(a, j.cmd))
		return EXIT_DONE;
	if (!a->nwords || (a->nwords == 1 && !j.cmd && names_server(a->words[0])))
		return shell_main(a);
	return j.cmd ? job_run(&j) : no_command(a);
}

int client_main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	enum exit_status status;
	struct args a;

	log_init("rftp", LOG_LV_WARN, false);
	if (args_parse(&a, argc, argv, &e)) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	signals_init();
	status = run_args(&a);
	args_clear(&a);
	/* A full disk, or a reader that is gone. */
	if (fflush(stdout) && status == EXIT_DONE && errno != EPIPE) {
		log_error("cannot write to standard output: %s", strerror(errno));
		status = EXIT_SOME_FAILED;
	}
	return status;
}
