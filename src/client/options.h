// SPDX-License-Identifier: Apache-2.0
/* The options of rftp: their table, the struct that they fill, and the functions that read them
 * from the command line and from rftp.conf(5). Main thread. */
#ifndef RFTP_CLIENT_OPTIONS_H
#define RFTP_CLIENT_OPTIONS_H

#include "util/util.h"

enum progress_mode { PROGRESS_AUTO, PROGRESS_ALWAYS, PROGRESS_NEVER };
enum transport_choice { USE_AUTO, USE_RDMA, USE_TCP };
enum op_choice { USE_ANY_OP, USE_WRITE, USE_READ };
enum bench_way { WAY_PUT, WAY_GET, WAY_BOTH };

/* The values of all options. A choice is the index of its word; strings are owned. */
struct options {
	/* selection */
	bool recursive, parts, null, dry_run, inplace, no_resume;
	bool archive, owner, xattrs, follow, no_times, no_modes;
	int policy;               /* enum bulk_policy */
	char *files_from, *manifest;
	struct filter filter;
	bool sync;                /* the command is rftp sync */
	bool delete, delete_excluded, force;
	unsigned max_delete;      /* names; UINT32_MAX: no limit */
	char *trash;
	char *out, *shard_list;   /* of plan-shards; of put and get */
	bool incomplete;          /* of finish-shards */
	unsigned shards;
	uint64_t file_cost;       /* bytes */

	/* transfer */
	int transport, op, poll, pin, hugepages, io, direct, sort, prot, ack;
	char *nic, *numa, *nic_node, *congestion;
	unsigned channels, inflight, retries;
	unsigned balance, readers, writers;       /* 0: default */
	uint64_t block, memory, balance_ns;       /* the same */
	uint64_t rate;                            /* bytes per second; 0: no limit */
	int tos;                                  /* -1: not set */

	/* server */
	char *known_hosts, *ca, *cert, *key, *netrc, *ssh, *rftpd_path;
	bool accept_new, plain, plain_password;
	uint64_t connect_timeout, stall; /* ns */

	/* output */
	int progress;
	bool json, quiet, stats;
	char *log_file;
	int verbose;

	/* for some commands only */
	bool no_glob;
	bool names, longer, slash, all, human, directory, tree, by_time, by_size, reverse;
	bool parents, crc;
	char *alg;
	uint64_t bench_ns, bench_bytes;
	int bench_way;

	/* for the shell */
	char *batch, *commands;
	bool keep_going;

	char *config;

	unsigned from[OPTION_ROWS_MAX];  /* as struct option_target has it */
};

/* Flags of rows: the commands that take an option. */
enum {
	ON_PUT = 1 << 0, ON_GET = 1 << 1, ON_LS = 1 << 2, ON_STAT = 1 << 3, ON_MKDIR = 1 << 4,
	ON_RM = 1 << 5, ON_MV = 1 << 6, ON_HASH = 1 << 7, ON_BENCH = 1 << 8,
	ON_SHELL = 1 << 9, ON_CP = 1 << 10, ON_STATUS = 1 << 11, ON_SYNC = 1 << 12,
	ON_VERIFY = 1 << 13, ON_DOCTOR = 1 << 14, ON_PLAN = 1 << 15, ON_FINISH = 1 << 16,
	ON_COPY = ON_PUT | ON_GET | ON_CP | ON_SYNC | ON_PLAN,
	ON_GLOB = ON_GET | ON_LS | ON_STAT | ON_RM | ON_HASH, /* URLs may be patterns */
	ON_WIRE = ON_COPY | ON_BENCH | ON_DOCTOR,
	/* This host sends or receives data. */
	ON_BULK = ON_PUT | ON_GET | ON_SYNC | ON_PLAN | ON_BENCH | ON_DOCTOR,
	ON_ALL = (1 << 17) - 1,
	NOT_IN_SHELL = 1 << 17,   /* for the command line of rftp, not for commands in its shell */
	/* Decides which files are copied, or their attributes: with --shard-list the plan has
	 * it. */
	OF_PLAN = 1 << 18,
};

extern const struct option_def rftp_options[];

/* Set o to the defaults; frees nothing. */
void options_default(struct options *o);
/* Free o's strings. Harmless on a struct of zeros. */
void options_clear(struct options *o);
/* The target for option_set() and similar functions: o and the table. */
struct option_target options_target(struct options *o);
/* Has the command line or a file set option name? name must be in the table. */
bool option_given(const struct options *o, const char *name);

/* option_parse() with rftp's table, for its command line or a line of its shell. 0, and
 * option_args_clear() frees a; or a negative errno with text: a is empty. */
int options_parse(struct option_args *a, int argc, char **argv, struct err *e);
/* The advice for s, an option that command, an ON_... value, does not take; NULL: there is none. */
const char *options_advice(const struct setting *s, unsigned command);
/* Several rows may have the same letter: replace it by the row for command, an ON_... value. */
void options_settle(struct option_args *a, unsigned command);
/* Load the options for the server p (without a host: for none): defaults, then /etc/rftp.conf, the
 * user's rftp.conf, the environment (RFTP_RATE, for example) and the command line; later ones take
 * precedence. first: NULL, or the options that this command line has given before; their filter is
 * copied, because a file of rules can be read only once if it is a pipe. 0, and options_clear()
 * frees o; or -EINVAL or -ENOMEM with text: o is empty. */
int options_load(const struct option_args *a, const struct url *p, const struct options *first,
		 struct options *o, struct err *e);
/* Set what rftp sync implies: -r, and --skip-same if no other policy was given. */
void options_sync(struct options *o);
/* Print the settings of o, of options_load(), that are not defaults, as lines of rftp.conf with
 * their sources as comments. */
void options_show(FILE *out, const struct option_args *a, const struct options *o);

/* Set o from file; NULL: from /etc/rftp.conf, then from the user's file. A section "[host PATTERN]"
 * applies if the pattern matches p's host; [NAME], after all others, if a word with this NAME was
 * parsed before and p is its server. Lines of other sections are checked, too. 0, or a negative
 * errno, such as -EINVAL, with file and line in the text. */
int conf_load(const char *file, const struct url *p, struct options *o, struct err *e);
/* Let word_parse() read the file of --config in a, which must outlive its calls. */
void conf_use(const struct option_args *a);
/* url_parse(), but in NAME:path a NAME with a section in rftp.conf stands for the section's url. */
int word_parse(const char *word, struct url *p, struct err *e);
/* Is word, up to its first ":", the name of such a section? */
bool word_names_section(const char *word);
/* A file of the user's: $XDG/rftp/NAME or ~/DIR/rftp/NAME, malloc'd; NULL: neither variable is set,
 * or out of memory. */
char *own_file(const char *xdg, const char *dir, const char *name);
#define OWN_CONFIG "XDG_CONFIG_HOME", ".config"

#endif
