// SPDX-License-Identifier: Apache-2.0
/* --help and --version, out of the tables. */
#include "client/client.h"

#include <stdio.h>
#include <string.h>

enum { LEFT = 27 }; /* columns of the option itself */

/* "auto|rdma|tcp", or the argument's name. */
static void put_argument(char *out, size_t n, const struct option_def *def)
{
	size_t used = 0;

	if (!def->choices) {
		snprintf(out, n, "%s", def->arg ? def->arg : "");
		return;
	}
	for (int i = 0; def->choices[i] && used < n; i++)
		used += (size_t)snprintf(out + used, n - used, "%s%s", i ? "|" : "",
					 def->choices[i]);
}

static void print_option(FILE *out, const struct option_def *def)
{
	char left[128], arg[64];

	put_argument(arg, sizeof(arg), def);
	if (def->letter)
		snprintf(left, sizeof(left), "-%c, --%s%s%s", def->letter, def->name,
			 *arg ? " " : "", arg);
	else
		snprintf(left, sizeof(left), "    --%s%s%s", def->name, *arg ? " " : "", arg);
	if (strlen(left) > LEFT)
		fprintf(out, "  %s\n  %-*s  %s\n", left, LEFT, "", def->help);
	else
		fprintf(out, "  %-*s  %s\n", LEFT, left, def->help);
}

/* The options of where, below the headings that have any. */
void help_options(FILE *out, unsigned where)
{
	const char *heading = NULL;

	for (const struct option_def *def = option_table(); def->name || def->help; def++) {
		if (!def->name) {
			heading = def->help;
			continue;
		}
		if (!(def->where & where & ~(unsigned)NOT_IN_SHELL))
			continue;
		if (where & def->where & NOT_IN_SHELL)
			continue;
		if (heading)
			fprintf(out, "\n%s:\n", heading);
		heading = NULL;
		print_option(out, def);
	}
}

void help_usage(FILE *out)
{
	fprintf(out, "usage: rftp COMMAND [OPTION...] WORD...\n"
		"       rftp [OPTION...] [-b FILE | -c COMMANDS] [-k] [URL]\n\n"
		"Moves big files and trees between hosts.\n\nCommands:\n");
	for (const struct command *c = command_table(); c->name; c++)
		fprintf(out, "  %-7s  %s\n", c->name, c->help);
}

void help_program(FILE *out)
{
	help_usage(out);
	fprintf(out, "\nA URL is rftp://[user@]host[:port]/path, or host:path over ssh. For data,\n"
		"\"-\" is standard input or output, zero:SIZE a source and null: a destination\n"
		"in memory. A command's own --help shows which of these options it takes.\n");
	help_options(out, ON_ALL);
}

void help_command(FILE *out, const struct command *c)
{
	fprintf(out, "usage: rftp %s [OPTION...] %s\n\nTo %s.\n", c->name, c->usage, c->help);
	help_options(out, c->bit);
}

void help_version(FILE *out)
{
	fprintf(out, "rftp %s\nfeatures: %s\n", PACKAGE_VERSION, RFTP_FEATURES);
}
