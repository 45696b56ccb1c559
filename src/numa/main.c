// SPDX-License-Identifier: Apache-2.0
/* rftp-numa: what this machine's topology is, what it costs, and where to put things. */
#include "numa/tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct command {
	const char *name, *about;
	tool_command *run;
} commands[] = {
	{ "topo", "the nodes of this machine and what is on each", tool_topo },
	{ "model", "what copies between nodes cost, and which are alike", tool_model },
	{ "plan", "how many threads should carry what by which nodes", tool_plan },
	{ "affinity", "what it costs when buffers or threads are on another node", tool_affinity },
	{ "factor", "how much worse the memory of other nodes is", tool_factor },
};

static int help(void)
{
	puts("Usage: rftp-numa COMMAND [OPTIONS]\n\nCommands:");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		printf("  %-12s %s\n", commands[i].name, commands[i].about);
	puts("\nrftp-numa COMMAND --help lists a command's options.\n\n"
	     "Options:\n"
	     "  -h, --help     print this help, and exit\n"
	     "  -V, --version  print the version, and exit");
	return TOOL_DONE;
}

static bool is(const char *word, const char *letter, const char *name)
{
	return !strcmp(word, letter) || !strcmp(word, name);
}

static int run(int argc, char **argv)
{
	if (argc < 2)
		return tool_misused("no command", NULL);
	if (is(argv[1], "-h", "--help"))
		return help();
	if (is(argv[1], "-V", "--version")) {
		printf("rftp-numa %s\nfeatures: %s\n", PACKAGE_VERSION, RFTP_FEATURES);
		return TOOL_DONE;
	}
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
		if (!strcmp(commands[i].name, argv[1]))
			return (int)commands[i].run(argc - 1, argv + 1);
	return tool_misused(*argv[1] == '-' ? "no such option before a command" : "no such command",
			    argv[1]);
}

int main(int argc, char **argv)
{
	int status;

	hold_standard_fds();
	log_init("rftp-numa", LOG_LV_INFO, false);
	status = run(argc, argv);
	/* Help is not looked after by whoever printed it. */
	if (status == TOOL_DONE && fflush(stdout)) {
		log_error("standard output: %s", strerror(errno));
		status = TOOL_FAILED;
	}
	return status;
}
