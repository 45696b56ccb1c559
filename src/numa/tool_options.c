// SPDX-License-Identifier: Apache-2.0
/* Options from a table, with --help out of the same. */
#include "numa/tool.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define OPTIONS_MAX 24
#define FIRST 256 /* getopt's number of the first; characters are below */
#define HELP 'h'

enum tool_status tool_misused(const char *what, const char *word)
{
	log_error("%s%s%s (rftp-numa --help lists commands, rftp-numa COMMAND --help options)",
		  what, word ? ": " : "", word ? printable(word) : "");
	return TOOL_USAGE;
}

static void help(const char *command, const char *about, const struct tool_option *o)
{
	printf("Usage: rftp-numa %s [OPTIONS]\n\n%s\n\nOptions:\n", command, about);
	for (; o->name; o++) {
		char left[40];

		snprintf(left, sizeof(left), "%s%s%s", o->name, o->value ? " " : "",
			 o->value ? o->value : "");
		printf("      --%-22s %s\n", left, o->about);
	}
	printf("  -h, --%-22s %s\n", "help", "print this help, and exit");
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
	}
	return r;
}

static enum tool_status bad_value(const struct tool_option *o, const char *value)
{
	char least[32], most[32], what[160];

	if (o->kind == TOOL_SIZE) {
		format_size(least, sizeof(least), o->least);
		format_size(most, sizeof(most), o->most);
	} else {
		snprintf(least, sizeof(least), "%llu", (unsigned long long)o->least);
		snprintf(most, sizeof(most), "%llu", (unsigned long long)o->most);
	}
	snprintf(what, sizeof(what), "--%s takes %s from %s to %s, not", o->name,
		 o->kind == TOOL_SIZE ? "a size" : "a number", least, most);
	return tool_misused(what, value);
}

/* What getopt has found wrong, opt being its answer. */
static enum tool_status bad_option(int opt, char *const *argv)
{
	const char letter[] = { '-', (char)optopt, '\0' };

	if (opt == ':')
		return tool_misused("this option takes a value", argv[optind - 1]);
	if (optopt >= FIRST || optopt == HELP)
		return tool_misused("this option takes no value", argv[optind - 1]);
	if (optopt)
		return tool_misused("no such option", letter);
	return tool_misused("no such option, or several that begin so", argv[optind - 1]);
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

enum tool_status tool_options(int argc, char **argv, const char *about,
			      const struct tool_option *options, void *into, bool *helped)
{
	struct option table[OPTIONS_MAX + 2];
	int opt;

	*helped = false;
	table_of(options, table);
	optind = 0; /* GNU: begin again */
	opterr = 0;
	while ((opt = getopt_long(argc, argv, ":h", table, NULL)) != -1) {
		if (opt == HELP) {
			help(argv[0], about, options);
			*helped = true;
			return TOOL_DONE;
		}
		if (opt < FIRST)
			return bad_option(opt, argv);
		if (set(&options[opt - FIRST], into, optarg))
			return bad_value(&options[opt - FIRST], optarg);
	}
	return optind < argc ? tool_misused("too many words", argv[optind]) : TOOL_DONE;
}
