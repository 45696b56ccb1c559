// SPDX-License-Identifier: Apache-2.0
/* rftp-numa: what this machine's topology is, what it costs, and where to put things. Commands
 * that touch memory and devices are in C; the others are Python programs, rftp-numa-COMMAND, which
 * this one becomes. */
#include "numa/tool.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Becomes the Python program of a command; returns when it cannot. That program runs "measure" and
 * the like by this one's own path, RFTP_NUMA. */
static enum tool_status become(int argc, char **argv)
{
	char self[PATH_MAX] = "", path[2 * PATH_MAX], python[] = PYTHON;
	char **words = calloc((size_t)argc + 2, sizeof(*words));

	if (!words || readlink("/proc/self/exe", self, sizeof(self) - 1) < 0 ||
	    setenv("RFTP_NUMA", self, 1)) {
		log_error("%s: cannot be started: %s", argv[0], strerror(errno));
		free(words);
		return TOOL_FAILED;
	}
	*strrchr(self, '/') = '\0';
	/* Beside a program that was not installed. */
	snprintf(path, sizeof(path), "%s/rftp-numa-%s", self, argv[0]);
	if (access(path, R_OK))
		snprintf(path, sizeof(path), PKGLIBEXECDIR "/rftp-numa-%s", argv[0]);
	words[0] = python;
	words[1] = path;
	memcpy(words + 2, argv + 1, (size_t)(argc - 1) * sizeof(*words));
	if (access(path, R_OK))
		log_error("%s: %s (is rftp installed as a whole?)", path, strerror(errno));
	else if (execv(python, words))
		log_error("%s: cannot be started: %s (it is the Python that rftp was built for)",
			  python, strerror(errno));
	free(words);
	return TOOL_FAILED;
}

static const struct tool_command commands[] = {
	{ "topo", "the nodes of this machine and what is on each", tool_topo },
	{ "model", "what copies between nodes cost, and which are alike", become },
	{ "plan", "how many threads should carry what by which nodes", become },
	{ "affinity", "what it costs when buffers or threads are on another node", become },
	{ "factor", "how much worse the memory of other nodes is", become },
	{ "measure", "the copies that model is made of, round by round", tool_measure },
	{ 0 }
};

/* For the Python programs; --help does not list them. */
static const struct tool_command internal[] = {
	{ "check", "", tool_check },
	{ "keep", "", tool_keep },
	{ "walk", "", tool_walk },
	{ 0 }
};

int main(int argc, char **argv)
{
	for (const struct tool_command *c = internal; argc > 1 && c->name; c++)
		if (!strcmp(argv[1], c->name))
			return tool_main("rftp-numa", internal, argc, argv);
	return tool_main("rftp-numa", commands, argc, argv);
}
