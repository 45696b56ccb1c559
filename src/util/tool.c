// SPDX-License-Identifier: Apache-2.0
/* Commands and options from tables, with --help out of the same. */
#include "util/util.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 32
#define FIRST 256 /* getopt's number of the first; characters are below */
#define HELP 'h'

/* The program's name, for what is said to its user; tool_main's. */
static const char *program = "";

/* Says what is wrong, with word (NULL: none), and where help is. */
static enum tool_status misused(const char *what, const char *word)
{
	log_error("%s%s%s (%s --help lists commands, %s COMMAND --help options)", what,
		  word ? ": " : "", word ? printable(word) : "", program, program);
	return TOOL_USAGE;
}

/* ---- commands ---- */

static enum tool_status list_commands(const struct tool_command *c)
{
	printf("Usage: %s COMMAND [OPTIONS]\n\nCommands:\n", program);
	for (; c->name; c++)
		printf("  %-12s %s\n", c->name, c->about);
	printf("\n%s COMMAND --help lists a command's options.\n\n"
	       "Options:\n"
	       "  -h, --help     print this help, and exit\n"
	       "  -V, --version  print the version, and exit\n", program);
	return TOOL_DONE;
}

static bool is(const char *word, const char *letter, const char *name)
{
	return !strcmp(word, letter) || !strcmp(word, name);
}

static enum tool_status run(const struct tool_command *commands, int argc, char **argv)
{
	if (argc < 2)
		return misused("no command", NULL);
	if (is(argv[1], "-h", "--help"))
		return list_commands(commands);
	if (is(argv[1], "-V", "--version")) {
		printf("%s %s\nfeatures: %s\n", program, PACKAGE_VERSION, RFTP_FEATURES);
		return TOOL_DONE;
	}
	for (const struct tool_command *c = commands; c->name; c++)
		if (!strcmp(c->name, argv[1]))
			return c->run(argc - 1, argv + 1);
	return misused(*argv[1] == '-' ? "no such option before a command" : "no such command",
			    argv[1]);
}

int tool_main(const char *name, const struct tool_command *commands, int argc, char **argv)
{
	enum tool_status status;

	program = name;
	hold_standard_fds();
	log_init(name, LOG_LV_INFO, false);
	status = run(commands, argc, argv);
	/* Help is not looked after by whoever printed it. */
	if (status == TOOL_DONE && fflush(stdout)) {
		log_error("standard output: %s", strerror(errno));
		status = TOOL_FAILED;
	}
	return (int)status;
}

/* ---- options ---- */

static void help(const char *command, const char *about, const struct tool_option *o,
		 const struct tool_words *words)
{
	const bool named = words && words->names;

	printf("Usage: %s %s [OPTIONS]%s%s\n\n%s\n\nOptions:\n", program, command,
	       named ? " " : "", named ? words->names : "", about);
	for (; o->name; o++) {
		char left[40];

		snprintf(left, sizeof(left), "%s%s%s", o->name, o->value ? " " : "",
			 o->value ? o->value : "");
		printf("      --%-22s %s\n", left, o->about);
	}
	printf("  -h, --%-22s %s\n", "help", "print this help, and exit");
}

static int add(struct tool_list *l, const char *word)
{
	if (l->n == TOOL_LIST_MOST)
		return -1;
	l->word[l->n++] = word;
	return 0;
}

static int set(const struct tool_option *o, void *into, const char *value)
{
	void *field = (char *)into + o->offset;
	uint64_t v;
	int r = 0;

	switch (o->kind) {
	case TOOL_SWITCH:
		*(bool *)field = true;
		break;
	case TOOL_TEXT:
		*(const char **)field = value;
		break;
	case TOOL_COUNT:
		r = parse_uint(value, o->least, o->most, &v);
		if (!r)
			*(unsigned *)field = (unsigned)v;
		break;
	case TOOL_SIZE:
		r = parse_size(value, &v);
		if (!r && (v < o->least || v > o->most))
			r = -1;
		if (!r)
			*(uint64_t *)field = v;
		break;
	case TOOL_LIST:
		r = add(field, value);
		break;
	}
	return r;
}

static enum tool_status bad_value(const struct tool_option *o, const char *value)
{
	char least[32], most[32], what[160];

	if (o->kind == TOOL_LIST) {
		snprintf(what, sizeof(what), "--%s is too often there, at most %u times", o->name,
			 TOOL_LIST_MOST);
		return misused(what, value);
	}
	if (o->kind == TOOL_SIZE) {
		format_size(least, sizeof(least), o->least);
		format_size(most, sizeof(most), o->most);
	} else {
		snprintf(least, sizeof(least), "%llu", (unsigned long long)o->least);
		snprintf(most, sizeof(most), "%llu", (unsigned long long)o->most);
	}
	snprintf(what, sizeof(what), "--%s takes %s from %s to %s, not", o->name,
		 o->kind == TOOL_SIZE ? "a size" : "a number", least, most);
	return misused(what, value);
}

/* What getopt has found wrong, opt being its answer. */
static enum tool_status bad_option(int opt, char *const *argv)
{
	const char letter[] = { '-', (char)optopt, '\0' };

	if (opt == ':')
		return misused("this option takes a value", argv[optind - 1]);
	if (optopt >= FIRST || optopt == HELP)
		return misused("this option takes no value", argv[optind - 1]);
	if (optopt)
		return misused("no such option", letter);
	return misused("no such option, or several that begin so", argv[optind - 1]);
}

static void table_of(const struct tool_option *options, struct option out[OPTIONS_MAX + 2])
{
	unsigned n = 0;

	for (; options[n].name && n < OPTIONS_MAX; n++)
		out[n] = (struct option){
			options[n].name,
			options[n].kind == TOOL_SWITCH ? no_argument : required_argument, NULL,
			FIRST + (int)n,
		};
	out[n] = (struct option){ "help", no_argument, NULL, HELP };
	out[n + 1] = (struct option){ 0 };
}

static enum tool_status take_words(int argc, char **argv, struct tool_words *words)
{
	struct tool_words none = { 0 };
	struct tool_words *w = words ? words : &none;

	w->word = argv + optind;
	w->n = (unsigned)(argc - optind);
	if (w->n > w->most)
		return misused("too many words", w->word[w->most]);
	if (w->n < w->least) {
		char what[128];

		snprintf(what, sizeof(what), "%s wants %s", argv[0], w->names);
		return misused(what, NULL);
	}
	return TOOL_DONE;
}

enum tool_status tool_options_words(int argc, char **argv, const char *about,
				    const struct tool_option *options, void *into,
				    struct tool_words *words, bool *helped)
{
	struct option table[OPTIONS_MAX + 2];
	int opt;

	*helped = false;
	table_of(options, table);
	optind = 0; /* GNU: begin again */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
		if (opt == HELP) {
			help(argv[0], about, options, words);
			*helped = true;
			return TOOL_DONE;
		}
		if (opt < FIRST)
			return bad_option(opt, argv);
		if (set(&options[opt - FIRST], into, optarg))
			return bad_value(&options[opt - FIRST], optarg);
	}
	return take_words(argc, argv, words);
}

enum tool_status tool_options(int argc, char **argv, const char *about,
			      const struct tool_option *options, void *into, bool *helped)
{
	return tool_options_words(argc, argv, about, options, into, NULL, helped);
}
