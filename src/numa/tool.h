// SPDX-License-Identifier: Apache-2.0
/* rftp-numa's commands, and how they take their options. */
#ifndef RFTP_NUMA_TOOL_H
#define RFTP_NUMA_TOOL_H

#include "numa/numa.h"

enum tool_status { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* One command with its words: argv[0] is its name. */
typedef enum tool_status tool_command(int argc, char **argv);

tool_command tool_topo;
tool_command tool_model;
tool_command tool_plan;
tool_command tool_affinity;
tool_command tool_factor;

/* ---- options ---- */

enum tool_kind {
	TOOL_SWITCH, /* bool */
	TOOL_TEXT,   /* const char *, which stays argv's */
	TOOL_COUNT,  /* unsigned, from least to most */
	TOOL_SIZE,   /* uint64_t bytes, "64K", from least to most */
};

struct tool_option {
	const char *name;
	enum tool_kind kind;
	size_t offset;       /* of its field, in what tool_options fills */
	const char *value, *about; /* for --help; value: NULL for a switch */
	uint64_t least, most;
};

#define TOOL_JSON(type) \
	{ "json", TOOL_SWITCH, offsetof(type, json), NULL, "one JSON object for programs", 0, 0 }
#define TOOL_SYSFS(type) \
	{ "sysfs", TOOL_TEXT, offsetof(type, sysfs), "DIR", \
	  "another machine's sysfs, copied there", 0, 0 }

/* The options of a command, up to one without a name; about: a line for --help. Puts what was
 * given into the fields of into; the rest keep what they have. What is no option is left: none
 * is allowed. TOOL_DONE: go on. TOOL_USAGE: a word about it was said. *helped: --help was asked
 * for, and answered. */
enum tool_status tool_options(int argc, char **argv, const char *about,
			      const struct tool_option *options, void *into, bool *helped);
enum tool_status tool_misused(const char *what, const char *word);

#endif
