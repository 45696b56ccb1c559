// SPDX-License-Identifier: Apache-2.0
/* The program rftp: declarations that its commands share. Commands run in the main thread. */
#ifndef RFTP_CLIENT_H
#define RFTP_CLIENT_H

#include "client/options.h"
#include "util/util.h"

/* Exit statuses, rftp(1) EXIT STATUS. */
enum exit_status {
	EXIT_DONE = 0,         /* everything was done */
	EXIT_SOME_FAILED = 1,  /* some files failed, or the whole request was refused */
	EXIT_USAGE = 2,
	EXIT_CONNECT = 3,      /* connection or login */
	EXIT_INTERRUPTED = 4,  /* stopped during the transfer; the same command resumes */
};

/* The exit status of a command that ended with code, a negative errno (0: EXIT_DONE). begun: both
 * sides had agreed on a transfer, so it can be resumed. */
enum exit_status exit_of(int code, bool begun);
/* The status of a command of two parts that ended with a and b. */
enum exit_status exit_worse(enum exit_status a, enum exit_status b);

struct shard_tap;

/* A running command. */
struct job {
	const struct command *cmd;
	const struct option_args *args;
	struct options o;          /* the options for the host of the first URL */
	char **words;              /* after the command's name; NULL at the end */
	int nwords;
	char **typed;              /* the names that the output shows for the words (URLs); NULL:
				    * their paths */
	const char *name;          /* the element of typed for the current word; NULL: none */
	void *arg;                 /* for the functions that each_url() calls */
	struct shard_tap *tap;     /* rftp sync of finish-shards: gets the files; NULL: none */
	struct servers *servers;   /* the connections to keep after the command; NULL: close them */
};

struct command {
	const char *name;
	unsigned bit;              /* the ON_... of the options that it takes */
	int min, max;              /* number of words; max -1: any number */
	const char *usage;         /* the words, as text after the name */
	const char *help;          /* one line */
	enum exit_status (*run)(struct job *j);
};

/* All commands; the last row has no name. */
extern const struct command commands[];
/* NULL: there is no such command. */
const struct command *command_find(const char *name);

/* Run j (cmd, args and words are set) with the options of the files and args. Reports
 * failures. Returns the exit status. */
enum exit_status job_run(struct job *j);

/* Run rftp with --show-config. */
enum exit_status show_config(const struct option_args *a);

/* The log level that -q and -v choose. */
enum log_level job_level(const struct options *o);

/* ---- --help and --version ---- */
void help_program(FILE *out); /* the commands and all options */
void help_command(FILE *out, const struct command *c);
void help_version(FILE *out);

/* ---- the commands ---- */
enum exit_status command_put(struct job *j);
enum exit_status command_get(struct job *j);
enum exit_status command_cp(struct job *j);
enum exit_status command_sync(struct job *j);
enum exit_status command_ls(struct job *j);
enum exit_status command_stat(struct job *j);
enum exit_status command_mkdir(struct job *j);
enum exit_status command_rm(struct job *j);
enum exit_status command_mv(struct job *j);
enum exit_status command_hash(struct job *j);
enum exit_status command_verify(struct job *j);
enum exit_status command_bench(struct job *j);
enum exit_status command_status(struct job *j);
enum exit_status command_doctor(struct job *j);
enum exit_status command_plan_shards(struct job *j);
enum exit_status command_finish_shards(struct job *j);

/* ---- the terminal (terminal.c) ---- */

struct engine_env;
/* rftp itself: signals stop its calls, and the user at the terminal knows passwords and keys. */
extern const struct engine_env rftp_env;
/* The umask that rftp was started with. The first call sets the process's umask to 0: files of a
 * transfer get exactly the modes of the request. */
mode_t user_umask(void);

/* Ask for a password, without echo. again: the last one was wrong. malloc'd; NULL: there is no
 * terminal, or no answer. */
char *ask_password(const char *user, const char *host, bool again);
/* Ask for a line. malloc'd, without its newline; NULL: there is no terminal, or no answer. */
char *ask_line(const char *question);
/* Ask a question. True: the answer is "yes"; false: any other answer, or no terminal. */
bool ask_yes(const char *question);

/* ---- for commands ---- */

/* For messages. %s: a word that another command would take; a path. */
#define NOT_REMOVED_WHY "\"%s\" is not removed: name the files in it"
#define GET_COPIES_WHY "%s is on a server: rftp get copies from there"
#define PUT_COPIES_WHY "%s is not on a server: rftp put copies to there"
#define FILES_FROM_WHY "--files-from needs one source, a directory"
#define NOT_TAKEN_WHY "%s does not take %s%s%s" /* command, option, advice */
#define LISTED_NAME_WHY "the server lists a name that is not valid"

/* Report an error of the command line. Returns EXIT_USAGE. */
enum exit_status usage_error(const struct job *j, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Report e. Returns the exit status, by exit_of(). */
enum exit_status failed(const struct err *e, bool begun);
/* Parse word, which must be the URL of a server. 0, and url_clear() frees p's contents; or
 * -EINVAL with text. */
int url_of_server(const char *word, struct url *p, struct err *e);
/* The same, but other FTP servers than rftpd are refused. */
int url_of_rftpd(const char *word, struct url *p, struct err *e);
/* Is word the URL of a server? */
bool word_is_remote(const char *word);
/* If json, print the event with this path. */
void emit_path_event(bool json, const char *event, const char *path);

#endif
