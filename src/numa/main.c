// SPDX-License-Identifier: Apache-2.0
/* rftp-numa: what this machine's topology is. */
#include "numa/tool.h"

#include <getopt.h>
#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name, *about;
	enum tool_status (*run)(const struct tool_options *o);
} commands[] = {
	{ "topo", "the nodes of this machine and what is on each", tool_topo },
};

static const struct option options[] = {
	{ "json", no_argument, NULL, 'j' },
	{ "sysfs", required_argument, NULL, 's' },
	{ "help", no_argument, NULL, 'h' },
	{ "version", no_argument, NULL, 'V' },
	{ NULL, 0, NULL, 0 },
};

static void help(void)
{
	puts("Usage: rftp-numa COMMAND [OPTIONS]\n\nCommands:");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		printf("  %-16s %s\n", commands[i].name, commands[i].about);
	puts("\nOptions:\n"
	     "      --json       one JSON object for programs\n"
	     "      --sysfs DIR  another machine's sysfs, copied there\n"
	     "  -h, --help       print this help, and exit\n"
	     "  -V, --version    print the version, and exit");
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; name && i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].name, name))
			return &commands[i];
	return NULL;
}

static enum tool_status misused(const char *what, const char *word)
{
	log_error("%s%s%s (rftp-numa --help lists commands and options)", what,
		  word ? ": " : "", word ? printable(word) : "");
	return TOOL_USAGE;
}

int main(int argc, char **argv)
{
	struct tool_options o = { 0 };
	const struct command *c;
	int opt;

	hold_standard_fds();
	log_init("rftp-numa", LOG_LV_INFO, false);
	opterr = 0;
	while ((opt = getopt_long(argc, argv, "hV", options, NULL)) != -1) {
		switch (opt) {
		case 'j':
			o.json = true;
			break;
		case 's':
			o.sysfs = optarg;
			break;
		case 'h':
			help();
			return TOOL_DONE;
		case 'V':
			printf("rftp-numa %s\n", PACKAGE_VERSION);
			return TOOL_DONE;
		default:
			return misused("an option that there is not, or one without its value",
				       argv[optind - 1]);
		}
	}
	if (optind == argc)
		return misused("no command", NULL);
	c = find_command(argv[optind]);
	if (!c)
		return misused("no such command", argv[optind]);
	if (optind + 1 < argc)
		return misused("too many words", argv[optind + 1]);
	return c->run(&o);
}
