// SPDX-License-Identifier: Apache-2.0
/* The shell: commands one after the other, from a terminal, a file or the command line, with
 * servers that stay connected between them. One thread. */
#ifndef RFTP_CLIENT_SHELL_H
#define RFTP_CLIENT_SHELL_H

#include "client/client.h"
#include "client/names.h"
#include "client/server.h"
#include "client/shell_line.h"

struct shell {
	const struct args *base;   /* rftp's own command line: options for all commands */
	struct setting *set;       /* by "set"; the values are owned */
	int nset;
	struct servers *kept;
	struct place here;         /* the server, its path the directory; host NULL: none is open */
	char *home;                /* the directory where its login starts */
	char *before;              /* the directory before this one; NULL: none */
	bool terminal;             /* somebody sits there */
	bool reads_stdin;          /* its commands come from there */
	bool asks;                 /* mget and mput ask about each file of a pattern */
	bool leave;                /* quit was said */
};

/* A command of the shell under way. */
struct call {
	struct shell *sh;
	const struct shell_command *cmd;
	const struct shell_line *line; /* NULL: what opens the first server */
	struct args args;          /* views into line; the first word is the command's name */
	char **words;              /* behind the name; NULL at the end */
	int nwords;
	bool json;
};

/* What stands for a word of a command: for help and completion. */
enum shell_words { WORDS_NONE, WORDS_REMOTE, WORDS_REMOTE_DIR, WORDS_LOCAL, WORDS_LOCAL_DIR,
		   WORDS_SERVER, WORDS_OPTION, WORDS_COMMAND };

struct shell_command {
	const char *name;          /* NULL: the row is a heading, its text in help */
	const char *also;          /* other names, with blanks; NULL: none */
	unsigned bits;             /* ON_... of the options it takes besides those for all */
	int min, max;              /* words; max -1: any number */
	enum shell_words first, rest;
	const char *usage;         /* behind the name */
	const char *help;          /* one line */
	enum exit_status (*run)(struct call *c);
};

/* All rows; ends with one that has neither name nor help. */
const struct shell_command *shell_commands(void);
/* By any of its names; NULL: there is none. */
const struct shell_command *shell_command_find(const char *name);

/* a: rftp's command line, which must outlive it. NULL: memory is out. */
struct shell *shell_new(const struct args *a);
void shell_free(struct shell *sh);
/* "open" of word, a URL. */
enum exit_status shell_begin(struct shell *sh, const char *word);
/* What main() does without a command: a shell, or the commands of a file, of "-c", or of standard
 * input. a->words holds at most a URL. */
enum exit_status shell_main(const struct args *a);
/* All commands of one line. It ends with the first that fails, unless keep_going. */
enum exit_status shell_do(struct shell *sh, const char *line, bool keep_going);

/* ---- for its commands ---- */

/* Say what is wrong with a command's words. EXIT_USAGE. */
enum exit_status call_usage(const struct call *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* The word as it was typed. */
const struct shell_word *call_word(const struct call *c, int i);
/* Options of this command by a job for the rftp command name: those of the command line, of "set"
 * and of c that it takes. Freed with free(). */
int call_settings(const struct call *c, unsigned bits, struct args *out, struct err *e);
/* Run the rftp command name with these words, and with c's options. typed: the names that they have
 * in what is shown; NULL: their own. */
enum exit_status call_rftp(struct call *c, const char *name, struct names *words,
			   const struct names *typed);
/* The server that is open, connected; until call_done(). NULL with text: none is, or it cannot be
 * reached. */
struct server *call_server(struct call *c, struct err *e);
void call_done(struct call *c, struct server *s);

/* ---- places, shell_place.c ---- */

/* The path on the open server that word means: absolute, or, when it may begin with a tilde,
 * "~/..." below the home there; without "." and "..". "" is the directory that is open. malloc'd;
 * NULL: memory is out. */
char *shell_path(const struct shell *sh, const char *word, bool tilde);
/* word as a URL: of another server if it is one already, or else of the open one's path. malloc'd;
 * NULL with text. */
char *shell_url(const struct shell *sh, const char *word, bool tilde, struct err *e);
/* The same of a command's word, which may not be empty. */
char *call_url(const struct call *c, int i, struct err *e);
/* A local word as rftp's commands take it: "~" is the home, and a colon does not make it a host's.
 * malloc'd; NULL with text. */
char *shell_local(const struct shell_word *w, struct err *e);

/* ---- names for patterns, shell_glob.c ---- */

/* To names: what w means on the open server, as URLs; a pattern: all that fit it, sorted. To typed
 * (NULL: not wanted) the same as one would have typed it. 0; -ENOENT with text: nothing fits. */
int shell_glob_remote(struct call *c, const struct shell_word *w, struct names *names,
		      struct names *typed, struct err *e);
int shell_glob_local(struct call *c, const struct shell_word *w, struct names *names,
		     struct err *e);

/* ---- the commands ---- */
enum exit_status shell_open(struct call *c);
enum exit_status shell_user(struct call *c);
enum exit_status shell_close(struct call *c);
enum exit_status shell_cd(struct call *c);
enum exit_status shell_pwd(struct call *c);
enum exit_status shell_lcd(struct call *c);
enum exit_status shell_lpwd(struct call *c);
enum exit_status shell_quit(struct call *c);
enum exit_status shell_help(struct call *c);

enum exit_status shell_remote(struct call *c); /* the rftp command of the same name on each word */
enum exit_status shell_ls(struct call *c);
enum exit_status shell_rename(struct call *c);
enum exit_status shell_rmdir(struct call *c);
enum exit_status shell_chmod(struct call *c);
enum exit_status shell_size(struct call *c);
enum exit_status shell_bench(struct call *c);

enum exit_status shell_get(struct call *c);
enum exit_status shell_put(struct call *c);
enum exit_status shell_cp(struct call *c);
enum exit_status shell_mget(struct call *c);
enum exit_status shell_mput(struct call *c);

enum exit_status shell_set(struct call *c);
enum exit_status shell_unset(struct call *c);
enum exit_status shell_status(struct call *c);
enum exit_status shell_prompt(struct call *c);
enum exit_status shell_nothing(struct call *c); /* what ftp had to be told and rftp need not */

#endif
