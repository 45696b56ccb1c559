// SPDX-License-Identifier: Apache-2.0
/* A program of several commands, "rftp-numa topo", and how they take their options: out of one
 * table each, from which --help comes, too. */
#ifndef RFTP_UTIL_TOOL_H
#define RFTP_UTIL_TOOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tool_status { TOOL_DONE = 0, TOOL_FAILED = 1, TOOL_USAGE = 2 };

/* One command with its words: argv[0] is its name. */
typedef enum tool_status tool_run(int argc, char **argv);

struct tool_command {
	const char *name, *about; /* name NULL: the end of the table */
	tool_run *run;
};

/* All of main(): runs the command that argv[1] names, or --help or --version. program stays the
 * caller's. Its exit status. */
int tool_main(const char *program, const struct tool_command *commands, int argc, char **argv);

/* ---- options ---- */

#define TOOL_LIST_MOST 64

/* An option that may be given several times. */
struct tool_list {
	const char *word[TOOL_LIST_MOST]; /* argv's */
	unsigned n;
};

enum tool_kind {
	TOOL_SWITCH, /* bool */
	TOOL_TEXT,   /* const char *, which stays argv's */
	TOOL_COUNT,  /* unsigned, from least to most */
	TOOL_SIZE,   /* uint64_t bytes, "64K", from least to most */
	TOOL_LIST,   /* struct tool_list */
};

struct tool_option {
	const char *name;
	enum tool_kind kind;
	size_t offset;       /* of its field, in what is filled */
	const char *value, *about; /* for --help; value: NULL for a switch */
	uint64_t least, most;
};

#define TOOL_JSON(type) \
	{ "json", TOOL_SWITCH, offsetof(type, json), NULL, "one JSON object for programs", 0, 0 }
#define TOOL_SYSFS(type) \
	{ "sysfs", TOOL_TEXT, offsetof(type, sysfs), "DIR", \
	  "another machine's sysfs, copied there", 0, 0 }

/* The words of a command that are no options. */
struct tool_words {
	const char *names;    /* for --help, "PLAN [DIR]"; NULL: there are none */
	unsigned least, most; /* how many */
	char **word;          /* out: the first of argv's; behind the last is NULL */
	unsigned n;           /* out */
};

/* The options of a command, up to one without a name; about: a line for --help. Puts what was
 * given into the fields of into; the rest keep what they have. words: NULL when none are allowed.
 * TOOL_DONE: go on. TOOL_USAGE: a word about it was said. *helped: --help was asked for, and
 * answered. Within tool_main, by its thread. */
enum tool_status tool_options(int argc, char **argv, const char *about,
			      const struct tool_option *options, void *into, bool *helped);
enum tool_status tool_options_words(int argc, char **argv, const char *about,
				    const struct tool_option *options, void *into,
				    struct tool_words *words, bool *helped);

#endif
