// SPDX-License-Identifier: Apache-2.0
/* The shell: runs commands from a terminal, a file or the command line, and keeps connections
 * between them. Main thread. */
#ifndef RFTP_CLIENT_SHELL_H
#define RFTP_CLIENT_SHELL_H

#include "client/client.h"
#include "client/names.h"
#include "client/servers.h"

/* ---- lines, line.c ---- */

struct shell_word {
	char *text;     /* without quotes and backslashes */
	char *pattern;  /* for fnmatch(3), with a backslash before quoted characters; NULL: no
			 * wildcard */
	bool tilde;     /* it begins with an unquoted "~" */
	size_t at;      /* its start: bytes from the start of the text for shell_line_take() */
};

/* The position of the end of the text. */
enum shell_end {
	END_NEW_WORD,
	END_IN_WORD,
	END_OTHER,      /* in a comment, after ";", or in a command for the system's shell */
};

/* A parsed command. All zero: an empty one. */
struct shell_line {
	struct shell_word *words;
	size_t n;
	char *pipe;     /* COMMAND of "... | COMMAND", for the system's shell; NULL: none */
	char *outside;  /* COMMAND of "!COMMAND", for the system's shell, without words; "": an
			 * interactive shell; NULL: none */
	enum shell_end end;
};

/* Parse the first command at *at, and move *at past its ";", or to the end. Blanks separate words.
 * Quotes '...' and "..." make characters literal (in "..." with \" and \\), and so does a
 * backslash. "#" at the start of a word begins a comment. After "|", or "!" at the start, the rest
 * of the line is for the system's shell. typing: more text may follow, so a quote may be open. 0,
 * and shell_line_clear() frees l's contents; -EINVAL with text; -ENOMEM. */
int shell_line_take(const char **at, bool typing, struct shell_line *l, struct err *e);
void shell_line_clear(struct shell_line *l);

/* Quote text, if necessary, so that it is parsed as one literal word; malloc'd. open: leave the
 * closing quote out, for a word that is still being typed. NULL: out of memory. */
char *shell_quote(const char *text, bool open);

/* ---- the shell and its commands ---- */

struct shell {
	const struct option_args *base;   /* rftp's command line; its options apply to all
					   * commands */
	struct setting *set;       /* the options of "set"; the values are owned */
	int nset;
	struct servers kept;       /* connections for later commands */
	struct url here;           /* the open server, with the current directory as path; host
				    * NULL: none is open */
	char *home;                /* the directory where the login starts */
	char *before;              /* the previous directory; NULL: none */
	bool terminal;             /* interactive */
	bool reads_stdin;          /* the commands come from standard input */
	bool asks;                 /* mget and mput ask about each file of a pattern */
	bool leave;                /* "quit" was entered */
};

/* A running command of the shell. */
struct call {
	struct shell *sh;
	const struct shell_command *cmd;
	const struct shell_line *line; /* NULL: this call opens the first server */
	struct option_args args;          /* its strings belong to line; the first word is the
					   * command's name */
	char **words;              /* the words after the name; NULL at the end */
	int nwords;
	bool json;
};

/* The kind of a word, for help and completion. */
enum shell_words { WORDS_NONE, WORDS_REMOTE, WORDS_REMOTE_DIR, WORDS_LOCAL, WORDS_LOCAL_DIR,
		   WORDS_SERVER, WORDS_OPTION, WORDS_COMMAND };

struct shell_command {
	const char *name;          /* NULL: the row is a heading, its text in help */
	const char *also;          /* other names, separated by blanks; NULL: none */
	unsigned bits;             /* the ON_... of the options that it accepts besides those for
				    * all commands */
	int min, max;              /* number of words; max -1: any number */
	enum shell_words first, rest;
	const char *usage;         /* after the name */
	const char *help;          /* one line */
	enum exit_status (*run)(struct call *c);
};

/* All rows; the last one has neither name nor help. */
extern const struct shell_command shell_commands[];
/* Find a command by any of its names. NULL: there is none. */
const struct shell_command *shell_command_find(const char *name);

/* a: rftp's command line, which must outlive the shell. NULL: out of memory. */
struct shell *shell_new(const struct option_args *a);
void shell_free(struct shell *sh);
/* Run "open" with word, a URL. */
/* Report that there is no such command. Returns EXIT_USAGE. */
enum exit_status shell_no_command(const char *word);
/* Is a server open? False: with text. */
bool shell_is_open(const struct shell *sh, struct err *e);
enum exit_status shell_begin(struct shell *sh, const char *word);
/* Run rftp without a command: an interactive shell, or the commands in a file, "-c" or standard
 * input. a->words has at most one word, a URL. Returns the exit status. */
enum exit_status shell_main(const struct option_args *a);
/* Run all commands of a line; stop at the first failure, unless keep_going. Returns the exit
 * status. */
enum exit_status shell_do(struct shell *sh, const char *line, bool keep_going);

/* ---- for its commands ---- */

/* Report an error in the words of a command. Returns EXIT_USAGE. */
enum exit_status call_usage(const struct call *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
/* Word i of c as it was typed. */
const struct shell_word *call_word(const struct call *c, int i);
/* Collect in out the options for an rftp command that accepts bits (ON_...): from the command line,
 * "set" and c. 0, or a negative errno with text. The caller frees out->settings. */
int call_settings(const struct call *c, unsigned bits, struct option_args *out, struct err *e);
/* Run the rftp command name with words and c's options. typed: the names of the words in the
 * output; NULL: print their paths. Clears both lists. Returns the exit status. */
enum exit_status call_rftp(struct call *c, const char *name, struct names *words,
			   struct names *typed);
/* The open server, connected, for use until call_done(). NULL with text: none is open, or it cannot
 * be reached. */
struct server *call_server(struct call *c, struct err *e);
/* Give back s, of call_server(). */
void call_done(struct call *c, struct server *s);

/* ---- from words to URLs and paths, files.c ---- */

/* word as a path on the open server: absolute, or with tilde also "~/..."; "." and ".." are
 * resolved. "" means the current directory. malloc'd; NULL: out of memory. */
char *shell_path(const struct shell *sh, const char *word, bool tilde);
/* word as a URL: unchanged if it is one already, otherwise a path on the open server. malloc'd;
 * NULL with text. */
char *shell_url(const struct shell *sh, const char *word, bool tilde, struct err *e);
/* The same for word i of c, which must not be empty. */
char *call_url(const struct call *c, int i, struct err *e);
/* A local path in the form for rftp's commands: "~" is expanded, and "./" is added if a colon would
 * make it a remote path. malloc'd; NULL with text. */
char *shell_local(const struct shell_word *w, struct err *e);

/* ---- patterns, line.c ---- */

/* Append to names the URLs of w on the open server; for a pattern all matches, sorted. Append to
 * typed (NULL: not needed) the same names in the form that a user would type. 0; -ENOENT with text:
 * no match; or another negative errno with text. */
int shell_glob_remote(struct call *c, const struct shell_word *w, struct names *names,
		      struct names *typed, struct err *e);
/* The same for local paths; names gets the paths in the form for rftp's commands. */
int shell_glob_local(const struct shell_word *w, struct names *names, struct err *e);

/* ---- completion, complete.c ---- */

struct completion {
	size_t start;         /* the start of the word: bytes from the start of the text */
	bool tilde;           /* the word begins with "~" for a home, which must not be quoted */
	struct names names;   /* the possible completions, unquoted, sorted; a directory has a
			       * "/" */
};

/* Find completions. text: the line up to the cursor. May ask the open server for names, and wait
 * for the reply. 0, and completion_clear() frees m, which may have no names; or a negative errno,
 * with text if the server has failed. */
int shell_complete(struct shell *sh, const char *text, struct completion *m, struct err *e);
void completion_clear(struct completion *m);
/* The new text from m->start on: the common prefix of all names, quoted; and a blank if there is
 * only one name; malloc'd. NULL: nothing to complete, or out of memory. */
char *completion_text(const struct completion *m);

/* ---- lines from a terminal, with a prompt, edit.c ---- */

struct editor;

/* NULL: out of memory. */
struct editor *editor_new(struct shell *sh);
/* Save the history, and free ed. NULL is harmless. */
void editor_free(struct editor *ed);
/* Read the next line, without its newline; malloc'd. NULL: end of input, or a signal. */
char *editor_line(struct editor *ed);

/* Write the prompt, server and directory, to out, of n bytes, in at most half of width columns.
 * Returns its length. */
size_t shell_prompt_text(const struct shell *sh, unsigned width, char *out, size_t n);

/* ---- the commands ---- */
enum exit_status shell_open(struct call *c);
enum exit_status shell_user(struct call *c);
enum exit_status shell_close(struct call *c);
enum exit_status shell_cd(struct call *c);
enum exit_status shell_pwd(struct call *c);
enum exit_status shell_lcd(struct call *c);
enum exit_status shell_lpwd(struct call *c);

enum exit_status shell_rftp(struct call *c);   /* the rftp command of the same name; mget, mput */
enum exit_status shell_rmdir(struct call *c);
enum exit_status shell_chmod(struct call *c);
enum exit_status shell_size(struct call *c);

#endif
