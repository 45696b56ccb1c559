// SPDX-License-Identifier: Apache-2.0
/* get, put and their like: what is to be copied, and the question about each. */
#include "client/shell.h"

#include "client/passwords.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last component of a path, or, of what is there, of a URL, for a person; malloc'd. */
static char *last_of(const char *path, bool remote)
{
	size_t n = strlen(path);
	char *name;

	while (n > 1 && path[n - 1] == '/')
		n--;
	while (n && path[n - 1] != '/')
		n--;
	return !remote ? strdup(path + n) : percent_decode(path + n, &name) ? NULL : name;
}

static enum exit_status give_up(struct names *names, const struct err *e)
{
	names_clear(names);
	return failed(e, false);
}

static int add_name(struct names *names, char *name, struct err *e)
{
	if (!name)
		return e->code ? e->code : err_sys(e, -ENOMEM, "names");
	return names_add(names, name) ? err_sys(e, -ENOMEM, "names") : 0;
}

static enum exit_status copy(struct call *c, const char *command, struct names *words)
{
	enum exit_status status = call_rftp(c, command, words, NULL);

	names_clear(words);
	return status;
}

/* Data cannot come from where the commands do. */
static int check_input(const struct call *c, const struct names *words, struct err *e)
{
	for (size_t i = 0; c->sh->reads_stdin && i < words->n; i++)
		if (!strcmp(words->all[i], "-"))
			return err_set(e, -EINVAL, "standard input is where the commands come "
				       "from");
	return 0;
}

/* ---- one, or a pattern and where it goes ---- */

enum exit_status shell_get(struct call *c)
{
	const struct shell_word *to = c->nwords > 1 ? call_word(c, 1) : NULL;
	struct names words = { 0 };
	struct err e = ERR_INIT;
	int rc = shell_glob_remote(c, call_word(c, 0), &words, NULL, &e);

	/* Down a pipe. */
	if (rc == 0 && !to && c->line->pipe)
		rc = add_name(&words, strdup("-"), &e);
	else if (rc == 0)
		rc = add_name(&words, to ? shell_local(to, &e) : strdup("./"), &e);
	return rc ? give_up(&words, &e) : copy(c, "get", &words);
}

enum exit_status shell_put(struct call *c)
{
	struct names words = { 0 };
	struct err e = ERR_INIT;
	int rc = shell_glob_local(c, call_word(c, 0), &words, &e);

	if (rc == 0)
		rc = check_input(c, &words, &e);
	if (rc == 0)
		rc = add_name(&words, c->nwords > 1 ? call_url(c, 1, &e) :
			      shell_url(c->sh, "./", false, &e), &e);
	return rc ? give_up(&words, &e) : copy(c, "put", &words);
}

/* ---- from there to another server ---- */

enum exit_status shell_cp(struct call *c)
{
	struct names words = { 0 };
	struct err e = ERR_INIT;
	int last = c->nwords - 1, rc = 0;

	for (int i = 0; rc == 0 && i < last; i++)
		rc = shell_glob_remote(c, call_word(c, i), &words, NULL, &e);
	if (rc == 0)
		rc = add_name(&words, call_url(c, last, &e), &e);
	return rc ? give_up(&words, &e) : copy(c, "cp", &words);
}

/* ---- several ---- */

enum answer { ANSWER_YES, ANSWER_NO, ANSWER_ALL, ANSWER_QUIT };

static enum answer ask(const char *what, const char *path, bool remote)
{
	static const char keys[] = "ynaq"; /* of enum answer */
	CLEANUP_FREE char *name = last_of(path, remote);
	char question[512];

	snprintf(question, sizeof(question), "%s %s (yes, no, all, quit)? ", what,
		 printable(name ? name : path));
	for (;;) {
		CLEANUP_FREE char *line = ask_line(question);
		const char *key;

		if (!line)
			return ANSWER_QUIT;
		if (!*line)
			return ANSWER_YES;
		key = strchr(keys, *line | 0x20);
		if (key)
			return (enum answer)(key - keys);
		fprintf(stderr, "yes or Enter copies it, no passes it over, all copies it and the "
			"rest, quit copies no more\n");
	}
}

/* Leaves in names what was not said no to. False: nothing is to be done at all. */
static bool confirm(const struct call *c, bool remote, struct names *names)
{
	enum answer answer = ANSWER_YES;
	size_t kept = 0;

	if (!c->sh->terminal || !c->sh->asks)
		return true;
	for (size_t i = 0; i < names->n; i++) {
		if (answer != ANSWER_ALL && answer != ANSWER_QUIT)
			answer = ask(c->cmd->name, names->all[i], remote);
		if (answer == ANSWER_YES || answer == ANSWER_ALL)
			names->all[kept++] = names->all[i];
		else
			free(names->all[i]);
	}
	names->n = kept;
	return kept > 0;
}

static enum exit_status several(struct call *c, const char *command, bool remote)
{
	struct names words = { 0 };
	struct err e = ERR_INIT;
	int rc = 0;

	for (int i = 0; rc == 0 && i < c->nwords; i++)
		rc = remote ? shell_glob_remote(c, call_word(c, i), &words, NULL, &e) :
		     shell_glob_local(c, call_word(c, i), &words, &e);
	if (rc == 0 && !remote)
		rc = check_input(c, &words, &e);
	if (rc == 0 && !confirm(c, remote, &words)) {
		names_clear(&words);
		return EXIT_DONE;
	}
	if (rc == 0)
		rc = add_name(&words, remote ? strdup("./") :
			      shell_url(c->sh, "./", false, &e), &e);
	return rc ? give_up(&words, &e) : copy(c, command, &words);
}

enum exit_status shell_mget(struct call *c)
{
	return several(c, "get", true);
}

enum exit_status shell_mput(struct call *c)
{
	return several(c, "put", false);
}
