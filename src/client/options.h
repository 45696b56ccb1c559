// SPDX-License-Identifier: Apache-2.0
/* The options of rftp, one table for the command line, rftp.conf(5) and --help. */
#ifndef RFTP_CLIENT_OPTIONS_H
#define RFTP_CLIENT_OPTIONS_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum progress_mode { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER };
enum transport_choice { USE_AUTO, USE_RDMA, USE_TCP };
enum op_choice { USE_ANY_OP, USE_WRITE, USE_READ };
enum bench_way { WAY_PUT, WAY_GET, WAY_BOTH };

/* What the options have set. Choices hold the index of their word; strings are owned. */
struct options {
	/* what goes */
	bool recursive, parts, null, dry_run, inplace, no_resume;
	bool owner, xattrs, follow, no_times, no_modes;
	int policy;               /* enum bulk_policy */
	char *files_from;

	/* how it goes */
	int transport, op, poll, pin, hugepages, io, direct, sort, prot, ack;
	char *nic, *numa, *nic_node, *congestion;
	uint64_t channels, block, inflight;       /* 0: negotiated */
	uint64_t balance, balance_ns;             /* 0: default */
	uint64_t readers, writers, memory;        /* 0: chosen */
	uint64_t rate;                            /* bytes per second; 0: no limit */
	uint64_t retries;
	uint64_t tos;             /* counts when given */

	/* which server */
	char *known_hosts, *ca, *cert, *key, *netrc, *ssh, *rftpd_path;
	bool accept_new, plain, plain_password;
	uint64_t connect_timeout, stall; /* ns */

	/* what is said */
	int progress;
	bool json, quiet;
	int verbose;

	/* of single commands */
	bool names, longer, all, human, directory, tree, by_time, by_size, reverse;
	bool parents, crc;
	char *alg;
	uint64_t bench_ns, bench_bytes;
	int bench_way;

	/* of the shell */
	char *batch, *commands;
	bool keep_going;

	char *config;
	bool help, version;

	uint64_t given[2];        /* bit i: row i of the table has been set */
};

/* Where an option may stand: with which commands, and in rftp.conf. */
enum {
	ON_PUT = 1 << 0, ON_GET = 1 << 1, ON_LS = 1 << 2, ON_STAT = 1 << 3, ON_MKDIR = 1 << 4,
	ON_RM = 1 << 5, ON_MV = 1 << 6, ON_HASH = 1 << 7, ON_BENCH = 1 << 8,
	ON_SHELL = 1 << 9, ON_CP = 1 << 10,
	ON_COPY = ON_PUT | ON_GET | ON_CP,
	ON_WIRE = ON_COPY | ON_BENCH,
	ON_BULK = ON_PUT | ON_GET | ON_BENCH, /* what this host has its part in */
	ON_ALL = (1 << 11) - 1,
	IN_CONF = 1 << 16,
	NOT_IN_SHELL = 1 << 17,   /* said to rftp alone, not to a command of its shell */
};

enum option_type {
	OPT_FLAG,   /* bool; no argument */
	OPT_SET,    /* int gets the row's number; no argument */
	OPT_COUNT,  /* int counts; no argument */
	OPT_BOOL,   /* bool; on or off */
	OPT_UINT,   /* uint64_t from low to high */
	OPT_SIZE,
	OPT_RATE,
	OPT_TIME,   /* ns */
	OPT_TOS,
	OPT_STRING,
	OPT_CHOICE, /* int: index into choices */
};

struct option_def {
	const char *name;         /* NULL: the row is a heading, its text in help */
	char letter;              /* 0: none */
	const char *arg;          /* what --help calls the argument; NULL: it has none */
	enum option_type type;
	unsigned where;           /* ON_... | IN_CONF | NOT_IN_SHELL */
	size_t at;                /* offset in struct options */
	uint64_t low, high;       /* bounds of numbers; high 0: none; low: OPT_SET's number */
	const char *const *choices; /* NULL at the end */
	const char *help;
};

/* All rows, headings too; ends with one that has neither name nor help. */
const struct option_def *option_table(void);
/* NULL: there is none. */
const struct option_def *option_find(const char *name, size_t len);
/* Some letters mean another thing to some commands: what it means to command, an ON_..., or else to
 * those that have it first. */
const struct option_def *option_letter(char letter, unsigned command);

void options_default(struct options *o);
void options_clear(struct options *o);
/* Set what def says; value NULL: it stands without one (only where def->arg is NULL).
 * -EINVAL with a text that does not name the option. */
int option_set(struct options *o, const struct option_def *def, const char *value,
	       struct err *e);
/* Can this build do what a transfer with o asks for? 0, or -EINVAL with text. */
int options_check(const struct options *o, struct err *e);
/* Has name been set by the command line or a file? name must be in the table. */
bool option_given(const struct options *o, const char *name);

#endif
