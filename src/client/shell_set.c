// SPDX-License-Identifier: Apache-2.0
/* Options that hold for all commands to come, and what the shell says of itself. */
#include "client/shell.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What "set" may set: all that a command of the shell takes and that a file may say. */
#define SETTABLE IN_CONF

static int find(const struct shell *sh, const struct option_def *def)
{
	for (int i = 0; i < sh->nset; i++)
		if (sh->set[i].def == def)
			return i;
	return -1;
}

static void forget(struct shell *sh, int i)
{
	free((char *)(uintptr_t)sh->set[i].value);
	memmove(&sh->set[i], &sh->set[i + 1], (size_t)(--sh->nset - i) * sizeof(*sh->set));
}

static const struct option_def *settable(const char *name)
{
	const struct option_def *def;

	name += strncmp(name, "--", 2) ? 0 : 2;
	def = option_find(name, strlen(name));
	return def && (def->where & SETTABLE) ? def : NULL;
}

/* Would a command take it? */
static int check_value(const struct option_def *def, const char *value, struct err *e)
{
	struct options o;
	int rc;

	if (def->arg && !value)
		return err_set(e, -EINVAL, "%s needs a value (%s)", def->name, def->arg);
	options_default(&o);
	rc = option_set(&o, def, value, e);
	options_clear(&o);
	return rc ? err_prefix(e, "%s", def->name) : 0;
}

/* Of rows that set one field the last one counts: the others are gone with it. */
static void forget_same(struct shell *sh, const struct option_def *def)
{
	for (int i = sh->nset - 1; i >= 0; i--)
		if (sh->set[i].def == def || (def->type == OPT_SET &&
					      sh->set[i].def->type == OPT_SET &&
					      sh->set[i].def->at == def->at))
			forget(sh, i);
}

static int keep(struct shell *sh, const struct option_def *def, const char *value, struct err *e)
{
	struct setting *more = reallocarray(sh->set, (size_t)sh->nset + 1, sizeof(*more));
	char *copy = value ? strdup(value) : NULL;

	if (more)
		sh->set = more;
	if (!more || (value && !copy)) {
		free(copy);
		return err_sys(e, -ENOMEM, "%s", def->name);
	}
	sh->set[sh->nset++] = (struct setting){ .def = def, .value = copy };
	return 0;
}

static void show(const struct call *c, const struct setting *s)
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

enum exit_status shell_set(struct call *c)
{
	const char *value = c->nwords > 1 ? c->words[1] : NULL;
	const struct option_def *def;
	struct err e = ERR_INIT;

	if (!c->nwords) {
		for (int i = 0; i < c->sh->nset; i++)
			show(c, &c->sh->set[i]);
		return EXIT_DONE;
	}
	def = settable(c->words[0]);
	if (!def)
		return call_usage(c, "there is no option %s to set", printable(c->words[0]));
	if (check_value(def, value, &e))
		return call_usage(c, "%s", e.text);
	forget_same(c->sh, def);
	if (keep(c->sh, def, value, &e))
		return failed(&e, false);
	if (c->json)
		show(c, &c->sh->set[c->sh->nset - 1]);
	return EXIT_DONE;
}

enum exit_status shell_unset(struct call *c)
{
	for (int i = 0; i < c->nwords; i++) {
		const struct option_def *def = settable(c->words[i]);
		int at;

		if (!def)
			return call_usage(c, "there is no option %s to set",
					  printable(c->words[i]));
		at = find(c->sh, def);
		if (at >= 0)
			forget(c->sh, at);
		if (c->json)
			json_emit(stdout, json_pack("{s:s, s:s}", "event", "unset", "option",
						    def->name));
	}
	return EXIT_DONE;
}

enum exit_status shell_status(struct call *c)
{
	const struct shell *sh = c->sh;
	CLEANUP_FREE char *url = sh->here.host ? place_url(&sh->here, sh->here.path) : NULL;
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
		show(c, &sh->set[i]);
	}
	return EXIT_DONE;
}

enum exit_status shell_prompt(struct call *c)
{
	const char *word = c->nwords ? c->words[0] : c->sh->asks ? "off" : "on";

	if (strcmp(word, "on") && strcmp(word, "off"))
		return call_usage(c, "on or off was expected");
	c->sh->asks = !strcmp(word, "on");
	if (c->json)
		json_emit(stdout, json_pack("{s:s, s:b}", "event", "prompt", "asks",
					    c->sh->asks));
	else if (c->sh->terminal)
		printf("mget and mput %s about each file\n", c->sh->asks ? "ask" : "do not ask");
	return EXIT_DONE;
}

enum exit_status shell_nothing(struct call *c)
{
	if (c->json)
		json_emit(stdout, json_pack("{s:s}", "event", c->cmd->name));
	else if (c->sh->terminal)
		printf("files are always copied byte by byte\n");
	return EXIT_DONE;
}

enum exit_status shell_quit(struct call *c)
{
	c->sh->leave = true;
	if (c->json)
		json_emit(stdout, json_pack("{s:s}", "event", "quit"));
	return EXIT_DONE;
}

/* ---- help ---- */

static void list_commands(void)
{
	for (const struct shell_command *k = shell_commands(); k->name || k->help; k++) {
		if (k->name)
			printf("  %-7s  %s\n", k->name, k->help);
		else
			printf("%s%s:\n", k == shell_commands() ? "" : "\n", k->help);
	}
	printf("  %-7s  %s\n", "!", "run a command of the system's shell");
	printf("\nhelp COMMAND tells more. COMMAND | PROGRAM gives its output to a program.\n");
}

static void emit_help(const struct shell_command *k)
{
	json_emit(stdout, json_pack("{s:s, s:s, s:s, s:s, s:s?}", "event", "help", "command",
				    k->name, "usage", k->usage, "text", k->help, "also", k->also));
}

static void emit_commands(void)
{
	for (const struct shell_command *k = shell_commands(); k->name || k->help; k++)
		if (k->name)
			emit_help(k);
}

enum exit_status shell_help(struct call *c)
{
	const struct shell_command *k;

	if (!c->nwords && c->json) {
		emit_commands();
		return EXIT_DONE;
	}
	if (!c->nwords) {
		list_commands();
		return EXIT_DONE;
	}
	k = shell_command_find(c->words[0]);
	if (!k) {
		log_error("there is no command \"%s\" (help lists them)", printable(c->words[0]));
		return EXIT_USAGE;
	}
	if (c->json) {
		emit_help(k);
		return EXIT_DONE;
	}
	printf("usage: %s%s%s\n\nTo %s.\n", k->name, *k->usage ? " " : "", k->usage, k->help);
	if (k->also)
		printf("Also called: %s\n", k->also);
	help_options(stdout, (k->bits & ~(unsigned)ON_STAT) | NOT_IN_SHELL);
	return EXIT_DONE;
}
