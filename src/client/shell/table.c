// SPDX-License-Identifier: Apache-2.0
/* The shell's table of commands (to run them, and for help, the manual and completion), and the
 * commands that concern the shell itself. */
#include "client/shell/shell.h"

/* ---- set ---- */

/* Remove the settings of def; with same_member, of all rows that set the same member. */
static void set_remove(struct shell *sh, const struct option_def *def, bool same_member)
{
	for (int i = sh->nset - 1; i >= 0; i--) {
		if (sh->set[i].def != def && !(same_member && sh->set[i].def->at == def->at))
			continue;
		free((char *)(uintptr_t)sh->set[i].value);
		memmove(&sh->set[i], &sh->set[i + 1], (size_t)(--sh->nset - i) * sizeof(*sh->set));
	}
}

/* Find the option name, with or without dashes, among those that a file may set. NULL: there is
 * none; the error has been printed. */
static const struct option_def *set_find_option(const struct call *c, const char *name)
{
	const struct option_def *def;
	const char *near;

	name += strncmp(name, "--", 2) ? 0 : 2;
	def = option_find(rftp_options, name);
	if (def && (def->where & OPTION_IN_FILE))
		return def;

	near = option_nearest(rftp_options, name, OPTION_IN_FILE);
	if (near)
		call_usage(c, "there is no option %s to set (did you mean %s?)", printable(name),
			   near);
	else
		call_usage(c, "there is no option %s to set", printable(name));
	return NULL;
}

/* Check value as a command would, and keep it; it replaces other settings of the same member. 0, or
 * a negative errno with text. */
static int set_add(struct shell *sh, const struct option_def *def, const char *value, struct err *e)
{
	struct options o;
	const struct option_target t = options_target(&o);
	struct setting *more;
	char *copy;
	int rc;

	options_default(&o);
	rc = option_set(&t, def, value, OPTION_ARGV, e);
	options_clear(&o);
	if (rc)
		return err_prefix(e, "%s", def->name);

	set_remove(sh, def, true);
	more = reallocarray(sh->set, (size_t)sh->nset + 1, sizeof(*more));
	copy = value ? strdup(value) : NULL;
	if (more)
		sh->set = more;
	if (!more || (value && !copy)) {
		free(copy);
		return err_sys(e, -ENOMEM, "%s", def->name);
	}
	sh->set[sh->nset++] = (struct setting){ .def = def, .value = copy };
	return 0;
}

static void set_print(const struct call *c, const struct setting *s)
{
	json_t *obj;

	if (!c->json) {
		printf("%s%s%s\n", s->def->name, s->value ? " " : "",
		       s->value ? printable(s->value) : "");
		return;
	}

	obj = json_pack("{s:s, s:s, s:n}", "event", "set", "option", s->def->name, "value");
	if (s->value)
		json_set_name(obj, "value", s->value);
	json_emit(stdout, obj);
}

static enum exit_status call_set(struct call *c)
{
	const char *value = c->nwords > 1 ? c->words[1] : NULL;
	const struct option_def *def;
	struct err e = ERR_INIT;

	if (!c->nwords) {
		for (int i = 0; i < c->sh->nset; i++)
			set_print(c, &c->sh->set[i]);
		return EXIT_DONE;
	}

	def = set_find_option(c, c->words[0]);
	if (!def)
		return EXIT_USAGE;
	if (set_add(c->sh, def, value, &e))
		return e.code == -ENOMEM ? failed(&e, false) : call_usage(c, "%s", e.text);
	if (c->json)
		set_print(c, &c->sh->set[c->sh->nset - 1]);
	return EXIT_DONE;
}

static enum exit_status call_unset(struct call *c)
{
	for (int i = 0; i < c->nwords; i++) {
		const struct option_def *def = set_find_option(c, c->words[i]);

		if (!def)
			return EXIT_USAGE;
		set_remove(c->sh, def, false);
		if (c->json)
			json_emit(stdout, json_pack("{s:s, s:s}", "event", "unset", "option",
						    def->name));
	}
	return EXIT_DONE;
}

static enum exit_status call_status(struct call *c)
{
	const struct shell *sh = c->sh;
	CLEANUP_FREE char *url = sh->here.host ? url_text(&sh->here, sh->here.path) : NULL;
	CLEANUP_FREE char *dir = getcwd(NULL, 0);

	if (c->json) {
		json_t *obj = json_pack("{s:s, s:s?, s:b}", "event", "status", "url", url, "asks",
					sh->asks);

		json_set_name(obj, "directory", dir ? dir : "");
		json_emit(stdout, obj);
	} else {
		printf("there  %s\n", url ? printable(url) : "no server is open");
		printf("here   %s\n", dir ? printable(dir) : "?");
		printf("mget and mput %s about each file\n", sh->asks ? "ask" : "do not ask");
	}
	for (int i = 0; i < sh->nset; i++) {
		if (!c->json)
			printf("set    ");
		set_print(c, &sh->set[i]);
	}
	return EXIT_DONE;
}

static enum exit_status call_prompt(struct call *c)
{
	const char *word = c->nwords ? c->words[0] : c->sh->asks ? "off" : "on";

	if (strcmp(word, "on") && strcmp(word, "off"))
		return call_usage(c, "must be on or off, not \"%s\"", printable(word));
	c->sh->asks = !strcmp(word, "on");
	if (c->json)
		json_emit(stdout, json_pack("{s:s, s:b}", "event", "prompt", "asks",
					    c->sh->asks));
	else if (c->sh->terminal)
		printf("mget and mput %s about each file\n", c->sh->asks ? "ask" : "do not ask");
	return EXIT_DONE;
}

static enum exit_status call_nothing(struct call *c)
{
	if (c->json)
		json_emit(stdout, json_pack("{s:s}", "event", c->cmd->name));
	else if (c->sh->terminal)
		printf("files are always copied byte by byte\n");
	return EXIT_DONE;
}

static enum exit_status call_quit(struct call *c)
{
	c->sh->leave = true;
	if (c->json)
		json_emit(stdout, json_pack("{s:s}", "event", "quit"));
	return EXIT_DONE;
}

/* ---- help ---- */

static void help_emit(const struct shell_command *k)
{
	json_emit(stdout, json_pack("{s:s, s:s, s:s, s:s, s:s?}", "event", "help", "command",
				    k->name, "usage", k->usage, "text", k->help, "also", k->also));
}

static enum exit_status call_help(struct call *c)
{
	const struct shell_command *k = c->nwords ? shell_command_find(c->words[0]) :
					shell_commands;

	for (; !c->nwords && (k->name || k->help); k++) {
		if (c->json && k->name)
			help_emit(k);
		else if (!c->json && k->name)
			printf("  %-7s  %s\n", k->name, k->help);
		else if (!c->json)
			printf("%s%s:\n", k == shell_commands ? "" : "\n", k->help);
	}
	if (!c->nwords && !c->json)
		printf("  %-7s  %s\n\nhelp COMMAND tells more. COMMAND | PROGRAM gives its output "
		       "to a program.\n", "!", "run a command of the system's shell");
	if (!c->nwords)
		return EXIT_DONE;
	if (!k) {
		return shell_no_command(c->words[0]);
	}

	if (c->json) {
		help_emit(k);
		return EXIT_DONE;
	}
	printf("usage: %s%s%s\n\nTo %s.\n", k->name, *k->usage ? " " : "", k->usage, k->help);
	if (k->also)
		printf("Also called: %s\n", k->also);
	option_help(stdout, rftp_options, k->bits & ~(unsigned)ON_STAT, NOT_IN_SHELL);
	return EXIT_DONE;
}

/* ---- the table ---- */

#define HEADING(text) { .help = text }

const struct shell_command shell_commands[] = {
	HEADING("Servers"),
	{ "open", "connect", ON_STAT, 1, 2, WORDS_SERVER, WORDS_NONE, "URL | HOST [PORT]",
	  "connect to a server; others that were opened stay connected", shell_open },
	{ "user", NULL, ON_STAT, 1, 1, WORDS_NONE, WORDS_NONE, "NAME",
	  "log in to the open server as another user", shell_user },
	{ "close", "disconnect", ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "leave the open server", shell_close },

	HEADING("Directories"),
	{ "cd", "cwd", ON_STAT, 0, 1, WORDS_REMOTE_DIR, WORDS_NONE, "[DIRECTORY | -]",
	  "go to a directory on the server (none: to the home; -: back)", shell_cd },
	{ "pwd", NULL, ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "print the directory on the server", shell_pwd },
	{ "lcd", NULL, ON_STAT, 0, 1, WORDS_LOCAL_DIR, WORDS_NONE, "[DIRECTORY]",
	  "go to a directory on this host", shell_lcd },
	{ "lpwd", NULL, ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "print the directory on this host", shell_lpwd },
	{ "ls", "dir list", ON_LS, 0, -1, WORDS_REMOTE, WORDS_REMOTE, "[-l | -1] [-adRrSt] [NAME...]",
	  "list directories on the server", shell_rftp },

	HEADING("Copies"),
	{ "get", "recv reget", ON_GET, 1, 2, WORDS_REMOTE, WORDS_LOCAL, "[-r] NAME [LOCAL]",
	  "copy from the server; resumes a partial copy", shell_rftp },
	{ "put", "send reput", ON_PUT, 1, 2, WORDS_LOCAL, WORDS_REMOTE, "[-r] LOCAL [NAME]",
	  "copy to the server; resumes a partial copy", shell_rftp },
	{ "mget", NULL, ON_GET, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "[-r] NAME...",
	  "copy several files from the server to the directory here", shell_rftp },
	{ "mput", NULL, ON_PUT, 1, -1, WORDS_LOCAL, WORDS_LOCAL, "[-r] LOCAL...",
	  "copy several files to the directory on the server", shell_rftp },
	{ "cp", NULL, ON_CP, 2, -1, WORDS_REMOTE, WORDS_REMOTE, "[-r] NAME... URL",
	  "copy to another server, directly", shell_rftp },
	{ "bench", NULL, ON_BENCH, 0, 1, WORDS_REMOTE, WORDS_NONE,
	  "[--time TIME | --size SIZE] [--put | --get | --both]",
	  "measure the path, from memory to memory", shell_rftp },

	{ "transfers", NULL, ON_STATUS, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "show your running transfers on the server", shell_rftp },

	HEADING("Files on the server"),
	{ "stat", NULL, ON_STAT, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "NAME...",
	  "show type, size, owner and time of files", shell_rftp },
	{ "size", NULL, ON_STAT, 1, -1, WORDS_REMOTE, WORDS_REMOTE, "NAME...",
	  "show the sizes of files in bytes", shell_size },
	{ "hash", NULL, ON_HASH, 0, -1, WORDS_REMOTE, WORDS_REMOTE, "[--alg NAME] NAME...",
	  "have the server compute digests of files", shell_rftp },
	{ "mkdir", "mkd", ON_MKDIR, 1, -1, WORDS_REMOTE_DIR, WORDS_REMOTE_DIR, "[-p] NAME...",
	  "make directories", shell_rftp },
	{ "rmdir", "rmd", ON_STAT, 1, -1, WORDS_REMOTE_DIR, WORDS_REMOTE_DIR, "NAME...",
	  "remove empty directories", shell_rmdir },
	{ "rm", "delete mdelete dele", ON_RM, 1, -1, WORDS_REMOTE, WORDS_REMOTE,
	  "[-r] [--dry-run | --parts] NAME...", "remove files", shell_rftp },
	{ "mv", "rename", ON_MV, 2, 2, WORDS_REMOTE, WORDS_REMOTE, "NAME NAME",
	  "rename a file, or move it into a directory", shell_rftp },
	{ "chmod", NULL, ON_STAT, 2, -1, WORDS_NONE, WORDS_REMOTE, "MODE NAME...",
	  "set the permission bits of files, in octal", shell_chmod },

	HEADING("The shell"),
	{ "set", NULL, ON_STAT, 0, 2, WORDS_OPTION, WORDS_NONE, "[OPTION [VALUE]]",
	  "set an option for all commands to come; show those that are set", call_set },
	{ "unset", NULL, ON_STAT, 1, -1, WORDS_OPTION, WORDS_OPTION, "OPTION...",
	  "undo set", call_unset },
	{ "status", NULL, ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "show the server, the directories and the options that are set", call_status },
	{ "prompt", NULL, ON_STAT, 0, 1, WORDS_NONE, WORDS_NONE, "[on | off]",
	  "turn the question of mget and mput about each file on or off", call_prompt },
	{ "help", "?", ON_STAT, 0, 1, WORDS_COMMAND, WORDS_NONE, "[COMMAND]",
	  "list the commands, or explain one", call_help },
	{ "quit", "exit bye", ON_STAT, 0, 0, WORDS_NONE, WORDS_NONE, "",
	  "leave", call_quit },
	{ "binary", "bin ascii image type", ON_STAT, 0, 1, WORDS_NONE, WORDS_NONE, "",
	  "nothing: files are always copied byte by byte", call_nothing },
	{ .name = NULL },
};

const struct shell_command *shell_command_find(const char *name)
{
	size_t len = strlen(name);

	for (const struct shell_command *c = shell_commands; c->name || c->help; c++) {
		if (!c->name)
			continue;
		if (!strcmp(c->name, name))
			return c;
		for (const char *at = c->also; at && *at; at += strspn(at, " ")) {
			size_t n = strcspn(at, " ");

			if (n == len && !memcmp(at, name, n))
				return c;
			at += n;
		}
	}
	return NULL;
}
