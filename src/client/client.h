// SPDX-License-Identifier: Apache-2.0
/* client: the program rftp. What its commands share. */
#ifndef RFTP_CLIENT_H
#define RFTP_CLIENT_H

#include "client/args.h"
#include "client/exit.h"
#include "util/util.h"

/* A command under way. */
struct job {
	const struct command *cmd;
	const struct args *args;
	struct options o;          /* for the host of the first URL */
	char **words;              /* after the command's name; NULL at the end */
	int nwords;
	char **typed;              /* what each word, a URL, is called in what is shown; NULL: its path */
	const char *name;          /* of them, that of the word at hand; NULL */
	void *arg;                 /* for functions of each_url */
	struct servers *servers;   /* connections are kept there; NULL: they end with the command */
};

struct command {
	const char *name;
	unsigned bit;              /* ON_... of the options it takes */
	int min, max;              /* words; max -1: any number */
	const char *usage;         /* behind the name */
	const char *help;          /* one line */
	enum exit_status (*run)(struct job *j);
};

/* The table; ends with a row without name. */
const struct command *command_table(void);
const struct command *command_find(const char *name);

/* Run j, of which cmd, args and words are set, with what all places that set options say of it.
 * What fails has been said. */
enum exit_status job_run(struct job *j);

/* What is logged, as -q and -v have it. */
enum log_level job_level(const struct options *o);

/* All of rftp: what main() returns. */
int client_main(int argc, char **argv);

/* ---- help.c ---- */
void help_usage(FILE *out);   /* the commands */
void help_program(FILE *out); /* with all options */
void help_command(FILE *out, const struct command *c);
void help_version(FILE *out);
/* The options of where (ON_...), below their headings; with NOT_IN_SHELL those of the shell. */
void help_options(FILE *out, unsigned where);

/* ---- the commands ---- */
enum exit_status rftp_put(struct job *j);
enum exit_status rftp_get(struct job *j);
enum exit_status rftp_cp(struct job *j);
enum exit_status rftp_ls(struct job *j);
enum exit_status rftp_stat(struct job *j);
enum exit_status rftp_mkdir(struct job *j);
enum exit_status rftp_rm(struct job *j);
enum exit_status rftp_mv(struct job *j);
enum exit_status rftp_hash(struct job *j);
enum exit_status rftp_bench(struct job *j);

/* ---- for commands ---- */

/* Say what is wrong with the command line. EXIT_USAGE. */
enum exit_status usage_error(const struct job *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Say e; the status that fits (exit_of). */
enum exit_status failed(const struct err *e, bool begun);
/* Parse a word that must name something on a server. 0, or -EINVAL with text. */
int place_of_server(const char *word, struct place *p, struct err *e);
/* The same for what other FTP servers than rftpd cannot do. */
int place_of_rftpd(const char *word, struct place *p, struct err *e);
/* Does word name something on a server? */
bool names_server(const char *word);

#endif
