// SPDX-License-Identifier: Apache-2.0
/* Reads the command line against the table of options. */
#include "client/args.h"

#include "client/conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where reading stands. */
struct cursor {
	struct args *a;
	char **next;  /* the word after the current one */
};

static void add_setting(struct args *a, const struct option_def *def, const char *value)
{
	a->settings[a->nsettings++] = (struct setting){ .def = def, .value = value };
}

/* The option's argument when none is attached to it: the next word. */
static int take_value(struct cursor *c, const struct option_def *def, struct err *e)
{
	if (!*c->next)
		return err_set(e, -EINVAL, "--%s needs a value (%s)", def->name, def->arg);
	add_setting(c->a, def, *c->next++);
	return 0;
}

static int read_long(struct cursor *c, const char *word, struct err *e)
{
	size_t len = strcspn(word, "=");
	const struct option_def *def = option_find(word, len);

	if (!def)
		return err_set(e, -EINVAL, "there is no option --%.*s (rftp --help lists them)",
			       len < 40 ? (int)len : 40, printable(word));
	if (word[len])
		add_setting(c->a, def, word + len + 1);
	else if (def->arg)
		return take_value(c, def, e);
	else
		add_setting(c->a, def, NULL);
	return 0;
}

/* Letters may share a dash; one with an argument takes what follows it. */
static int read_letters(struct cursor *c, const char *word, struct err *e)
{
	bool beside = word[1];
	char text[2] = "";

	for (; *word; word++) {
		const struct option_def *def = option_letter(*word, 0);

		text[0] = *word;
		if (!def)
			return err_set(e, -EINVAL, "there is no option -%s (rftp --help lists "
				       "them; a file of that name would be ./-...)",
				       printable(text));
		if (def->arg && word[1]) {
			add_setting(c->a, def, word + 1);
			return 0;
		}
		if (def->arg)
			return take_value(c, def, e);
		add_setting(c->a, def, NULL);
		c->a->settings[c->a->nsettings - 1].letter = *word;
		c->a->settings[c->a->nsettings - 1].beside = beside;
	}
	return 0;
}

static int read_word(struct cursor *c, char *word, struct err *e)
{
	if (word[0] != '-' || word[1] == '\0') {
		c->a->words[c->a->nwords++] = word;
		return 0;
	}
	if (word[1] != '-')
		return read_letters(c, word + 1, e);
	if (word[2])
		return read_long(c, word + 2, e);
	while (*c->next)
		c->a->words[c->a->nwords++] = *c->next++;
	return 0;
}

int args_parse(struct args *a, int argc, char **argv, struct err *e)
{
	struct cursor c = { a, argv + (argc > 0) };
	size_t room = 0; /* letters that share a dash are settings of their own */
	int rc = 0;

	memset(a, 0, sizeof(*a));
	for (char **w = c.next; *w; w++)
		room += (*w)[0] == '-' ? strlen(*w) : 0;
	a->words = calloc((size_t)argc + 1, sizeof(*a->words));
	a->settings = calloc(room + 1, sizeof(*a->settings));
	if (!a->words || !a->settings)
		rc = err_sys(e, -ENOMEM, "command line");
	while (rc == 0 && *c.next)
		rc = read_word(&c, *c.next++, e);
	if (rc)
		args_clear(a);
	return rc;
}

void args_clear(struct args *a)
{
	free(a->settings);
	free(a->words);
	memset(a, 0, sizeof(*a));
}

void args_settle(struct args *a, unsigned command)
{
	static const char human[] = "human";

	for (int i = 0; i < a->nsettings; i++) {
		struct setting *s = &a->settings[i];

		/* Alone it asks for help; in "ls -lh" hardly anybody does. */
		if (s->letter == 'h' && s->beside && command == ON_LS)
			s->def = option_find(human, strlen(human));
		else if (s->letter)
			s->def = option_letter(s->letter, command);
	}
}

const char *setting_text(const struct setting *s)
{
	static _Thread_local char text[64];

	if (s->letter)
		snprintf(text, sizeof(text), "-%c", s->letter);
	else
		snprintf(text, sizeof(text), "--%s", s->def->name);
	return text;
}

static const char *config_file(const struct args *a)
{
	const char *file = NULL;

	for (int i = 0; i < a->nsettings; i++)
		if (!strcmp(a->settings[i].def->name, "config"))
			file = a->settings[i].value;
	return file;
}

static int apply_settings(const struct args *a, struct options *o, struct err *e)
{
	for (int i = 0; i < a->nsettings; i++) {
		const struct setting *s = &a->settings[i];
		int rc = option_set(o, s->def, s->value, e);

		if (rc) {
			err_prefix(e, "--%s", s->def->name);
			return rc;
		}
	}
	return 0;
}

/* -vv counts from nothing, not from what a file said. */
static void reset_counts(const struct args *a, struct options *o)
{
	for (int i = 0; i < a->nsettings; i++)
		if (a->settings[i].def->type == OPT_COUNT)
			*(int *)((char *)o + a->settings[i].def->at) = 0;
}

int args_options(const struct args *a, const char *host, struct options *o, struct err *e)
{
	int rc;

	options_default(o);
	rc = conf_load(config_file(a), host, o, e);
	reset_counts(a, o);
	if (rc == 0)
		rc = apply_settings(a, o, e);
	if (rc)
		options_clear(o);
	return rc;
}
