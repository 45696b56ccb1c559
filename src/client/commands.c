// SPDX-License-Identifier: Apache-2.0
/* The table of commands, their exit statuses, and the function that runs a command. */
#include "client/client.h"
#include "client/names.h"
#include "client/servers.h"

#include <stdarg.h>

const struct command commands[] = {
	{ "put", ON_PUT, 1, -1, "[-r] SOURCE... URL | --shard-list FILE",
	  "copy files and directories to a server", command_put },
	{ "get", ON_GET, 1, -1,
	  "[-r] URL [DESTINATION] | [-r] URL... DIRECTORY/ | --shard-list FILE",
	  "copy files and directories from servers", command_get },
	{ "cp", ON_CP, 1, -1, "[-r] URL... URL",
	  "copy from a server to another, directly", command_cp },
	{ "sync", ON_SYNC, 2, 2, "[--delete] SOURCE DESTINATION",
	  "copy the differences of two trees, from or to a server, or between two", command_sync },
	{ "ls", ON_LS, 1, -1, "[-l | -1] [-adRrSt] URL...", "list directories", command_ls },
	{ "stat", ON_STAT, 1, -1, "URL...", "show type, size, owner and time of a file",
	  command_stat },
	{ "mkdir", ON_MKDIR, 1, -1, "[-p] URL...", "make directories", command_mkdir },
	{ "rm", ON_RM, 1, -1, "[-r] [--dry-run] URL... | --parts [-r] URL|DIR...",
	  "remove files, or the parts of interrupted transfers", command_rm },
	{ "mv", ON_MV, 2, 2, "URL URL", "rename a file on its server, or move it into a directory",
	  command_mv },
	{ "hash", ON_HASH, 1, -1, "[-r] [--alg NAME] URL...",
	  "have the server compute digests of files", command_hash },
	{ "verify", ON_VERIFY, 2, -1, "MANIFEST DIRECTORY|URL...",
	  "compare files with the digests of a manifest", command_verify },
	{ "bench", ON_BENCH, 1, 1, "[--time TIME | --size SIZE] [--put | --get | --both] URL",
	  "measure the path, from memory to memory", command_bench },
	{ "status", ON_STATUS, 1, -1, "URL...", "show your running transfers on a server",
	  command_status },
	{ "doctor", ON_DOCTOR, 0, 2, "[DIRECTORY] [URL]",
	  "check this host, a server's host and the path, and show remedies", command_doctor },
	{ "plan-shards", ON_PLAN, 2, 2, "[OPTION...] SOURCE DESTINATION --shards N --out DIR",
	  "cut a copy into lists for several transfers at the same time", command_plan_shards },
	{ "finish-shards", ON_FINISH, 1, 1, "[OPTION...] DIR",
	  "complete a copy after all lists of a plan are copied", command_finish_shards },
	{ .name = NULL },
};

const struct command *command_find(const char *name)
{
	for (const struct command *c = commands; c->name; c++)
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

int url_of_server(const char *word, struct url *p, struct err *e)
{
	int rc = word_parse(word, p, e);

	if (rc || url_is_remote(p))
		return rc;
	url_clear(p);
	return err_set(e, -EINVAL, URL_LOCAL_WHY, printable(word));
}

int url_of_rftpd(const char *word, struct url *p, struct err *e)
{
	int rc = url_of_server(word, p, e);

	if (rc || !url_is_foreign(p))
		return rc;
	url_clear(p);
	return err_set(e, -EINVAL, "%s needs an rftpd at the other end: write rftp://host/path or "
		       "host:path", printable(word));
}

bool word_is_remote(const char *word)
{
	struct err e = ERR_INIT;
	struct url p;
	bool remote;

	if (url_parse(word, &p, &e))
		return false;
	remote = url_is_remote(&p);
	url_clear(&p);
	return remote;
}

void emit_path_event(bool json, const char *event, const char *path)
{
	json_t *obj = json ? json_pack("{s:s}", "event", event) : NULL;

	if (!obj)
		return;
	json_set_name(obj, "path", path);
	json_emit(stdout, obj);
}

/* ---- exit statuses ---- */

enum exit_status exit_of(int code, bool begun)
{
	if (code == 0)
		return EXIT_DONE;
	if (code == -EINTR || code == -ECANCELED)
		return EXIT_INTERRUPTED;
	if (!error_is_connection(code))
		return EXIT_SOME_FAILED;
	/* Another attempt would not resume the transfer, but fail again. */
	if (code == -EPROTONOSUPPORT || code == -EKEYREJECTED || code == -EKEYEXPIRED)
		return EXIT_CONNECT;
	return begun ? EXIT_INTERRUPTED : EXIT_CONNECT;
}

enum exit_status exit_worse(enum exit_status a, enum exit_status b)
{
	return a > b ? a : b;
}

/* ---- one command ---- */

enum log_level job_level(const struct options *o)
{
	if (o->quiet)
		return LOG_LV_ERROR;
	return o->verbose >= 2 ? LOG_LV_DEBUG : o->verbose ? LOG_LV_INFO : LOG_LV_WARN;
}

/* The first URL of a server decides which sections of rftp.conf apply. Words that cannot be parsed
 * are ignored: the command reports them. *p is empty if there is none. */
static void first_url(char **words, int n, struct url *p)
{
	*p = (struct url){ 0 };
	for (int i = 0; i < n && !p->host; i++) {
		struct err ignored = ERR_INIT;

		url_clear(p);
		(void)word_parse(words[i], p, &ignored);
	}
}

enum exit_status show_config(const struct option_args *a)
{
	struct err e = ERR_INIT;
	struct options o;
	struct url p;
	int rc;

	first_url(a->words, a->nwords, &p);
	rc = options_load(a, &p, NULL, &o, &e);
	url_clear(&p);
	if (rc) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}
	options_show(stdout, a, &o);
	options_clear(&o);
	return EXIT_DONE;
}

/* Run a command of the command line whose URLs may be patterns. */
static enum exit_status run_globbed(struct job *j)
{
	enum exit_status status;
	struct servers kept = { 0 };
	struct names all = { 0 };
	struct err e = ERR_INIT;
	int rc;

	j->servers = &kept;
	rc = glob_words(j, &all, &e);

	/* With one word, get copies to the present directory. */
	if (!rc && j->cmd->bit == ON_GET && j->nwords == 1 && all.n > 1 &&
	    names_add(&all, strdup("./")))
		rc = err_nomem(&e);
	if (rc) {
		status = failed(&e, false);
	} else {
		j->words = all.all;
		j->nwords = (int)all.n;
		status = j->cmd->run(j);
	}
	servers_clear(&kept);
	names_clear(&all);
	return status;
}

enum exit_status job_run(struct job *j)
{
	const struct command *cmd = j->cmd;
	enum exit_status status;
	struct err e = ERR_INIT;
	struct url p;
	int rc;

	for (int i = 0; i < j->args->nsettings; i++) {
		const struct setting *s = &j->args->settings[i];
		const char *advice = options_advice(s, cmd->bit);

		if (!(s->def->where & cmd->bit))
			return usage_error(j, NOT_TAKEN_WHY, cmd->name,
					   setting_text(s), advice ? ": " : "",
					   advice ? advice : "");
	}
	if ((j->nwords < cmd->min && !option_args_last(j->args, "shard-list")) ||
	    (cmd->max >= 0 && j->nwords > cmd->max))
		return usage_error(j, "usage: rftp %s %s", cmd->name, cmd->usage);

	first_url(j->words, j->nwords, &p);
	rc = options_load(j->args, &p, NULL, &j->o, &e);
	url_clear(&p);
	if (rc) {
		log_error("%s", e.text);
		return EXIT_USAGE;
	}

	log_set_level(job_level(&j->o));
	if (log_also(j->o.log_file && *j->o.log_file ? j->o.log_file : NULL, &e)) {
		status = failed(&e, false);
		options_clear(&j->o);
		return status;
	}
	status = j->servers || j->o.no_glob || !(cmd->bit & ON_GLOB) ? cmd->run(j) : run_globbed(j);
	options_clear(&j->o);
	return status;
}

/* ---- --help and --version ---- */

void help_program(FILE *out)
{
	fprintf(out, "usage: rftp COMMAND [OPTION...] WORD...\n"
		"       rftp [OPTION...] [-b FILE | -c COMMANDS] [-k] [URL]\n\n"
		"Moves big files and trees between hosts.\n\nCommands:\n");
	for (const struct command *c = commands; c->name; c++)
		fprintf(out, "  %-7s  %s\n", c->name, c->help);
	fprintf(out, "\nA URL is rftp://[user@]host[:port]/path, or host:path over ssh. For data,\n"
		"\"-\" is standard input or output, zero:SIZE a source and null: a destination\n"
		"in memory. \"rftp COMMAND --help\" lists the options of a command.\n");
	option_help(out, rftp_options, ON_ALL, 0);
}

void help_command(FILE *out, const struct command *c)
{
	fprintf(out, "usage: rftp %s [OPTION...] %s\n\nTo %s.\n", c->name, c->usage, c->help);
	option_help(out, rftp_options, c->bit, 0);
}

void help_version(FILE *out)
{
	fprintf(out, "rftp %s\nfeatures: %s\n", PACKAGE_VERSION, RFTP_FEATURES);
}
