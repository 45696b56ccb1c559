// SPDX-License-Identifier: Apache-2.0
/* The option engine of rftp, rftpd and rftp-numa. One table of rows describes the options of a
 * program; the command line, configuration files, --help, --show-config, the shell's "set" and the
 * completions all use this table. The engine holds no state and allocates only string values and
 * the arrays of a parsed command line. */
#ifndef RFTP_UTIL_OPTION_H
#define RFTP_UTIL_OPTION_H

#include "util/err.h"

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct option_def;

typedef void option_put(void *arg, const char *value);

/* How to parse, show and free a type of value; at points to the row's member. */
struct option_kind {
	/* value is NULL when the option was given without one. 0; or -EINVAL or -ENOMEM, with a
	 * text that does not name the option: "must be yes or no, not ...". */
	int (*set)(void *at, const struct option_def *d, const char *value, struct err *e);
	/* Calls put once for each value that set needs to restore the member, and with "" when
	 * the member is empty. NULL: the option is not shown. */
	void (*show)(const void *at, const struct option_def *d, option_put *put, void *arg);
	/* Frees the value, and makes the member empty. NULL: it owns nothing and is never empty. */
	void (*clear)(void *at);
};

/* Flags of a row. The lower 24 bits belong to the program: its commands, for example. */
enum {
	OPTION_IN_FILE = 1 << 24,      /* allowed in the configuration file, and in "set" */
	OPTION_LIST = 1 << 25,         /* values add up; the command line's replace the file's */
	OPTION_BARE = 1 << 26,         /* takes no value, not even "=yes" */
	OPTION_MAY_BE_EMPTY = 1 << 27, /* "" is a value on the command line */
};

struct option_def {
	const char *name;          /* NULL: the row is a heading with the text in help */
	char letter;               /* 0: none */
	const char *arg;           /* the value's name in --help; NULL: a value is not required */
	const struct option_kind *kind;
	unsigned where;            /* OPTION_... and the program's own flags */
	size_t at;                 /* offset of the member */
	uint64_t low, high;        /* bounds of numbers; high 0: none. low: a constant's value */
	const char *const *words;  /* of a choice, in the order of its enum; NULL at the end */
	const char *bare;          /* of a choice on a command line: the value if none of words
				    * follows; NULL: a value is required */
	const char *unset;         /* the word for a value that is not set; NULL: there is none */
	/* Is a string valid? 0, or a negative errno with text. NULL: any string is. */
	int (*check)(const char *value, struct err *e);
	const char *help;
};

/* The last row of a table: it has neither name nor help. */
#define OPTION_END { .name = NULL }
#define OPTION_HEADING(text) { .help = text }
/* The size of arrays that are indexed by row. */
#define OPTION_ROWS_MAX 128

extern const struct option_kind option_flag;     /* bool */
extern const struct option_kind option_constant; /* unsigned or enum: is set to the row's low */
extern const struct option_kind option_count;    /* int: incremented each time */
extern const struct option_kind option_choice;   /* unsigned or enum: index into words */
extern const struct option_kind option_number;   /* unsigned */
extern const struct option_kind option_size;     /* uint64_t, bytes */
extern const struct option_kind option_rate;     /* uint64_t, bytes per second */
extern const struct option_kind option_time;     /* uint64_t, nanoseconds */
extern const struct option_kind option_tos;      /* int, -1: not set; type of service */
extern const struct option_kind option_string;   /* char *, owned */
extern const struct option_kind option_text;     /* const char *, owned by the caller */
extern const struct option_kind option_texts;    /* struct option_texts, of such strings */
extern const struct option_kind option_nothing;  /* no member; see option_args_last() */

#define OPTION_TEXTS_MAX 64

struct option_texts {
	const char *word[OPTION_TEXTS_MAX];
	unsigned n;
};

/* ---- rows ---- */

/* NULL: there is none. */
const struct option_def *option_find(const struct option_def *rows, const char *name);

/* Find a row by its letter. If several rows have it: the first one with one of the flags where, or
 * else the first. NULL: there is none. */
const struct option_def *option_letter(const struct option_def *rows, char letter, unsigned where);

/* The row's name that is most like a mistyped word, among rows with one of the flags where (0: all).
 * NULL: none is similar. */
const char *option_nearest(const struct option_def *rows, const char *word, unsigned where);
/* The name of the row's value in --help: "auto|on|off", "SIZE"; "" without one. Returns out. */
const char *option_value_name(const struct option_def *d, char out[80]);

/* ---- values ---- */

#define OPTION_ARGV UINT_MAX
#define OPTION_ENV (UINT_MAX - 1)

/* A struct with the members that the rows describe. */
struct option_target {
	const struct option_def *rows;
	void *base;
	/* The origin of each row's value: 0: default; OPTION_ARGV; OPTION_ENV; or a line of a file.
	 * NULL: not recorded. */
	unsigned *from;
};

/* Set d's member. from: OPTION_ARGV, OPTION_ENV, or the line of a file, where "" clears a value
 * that can be empty. 0, or a negative errno with a text that does not name the option. */
int option_too_often(int most, struct err *e); /* -EINVAL with text */
int option_set(const struct option_target *t, const struct option_def *d, const char *value,
	       unsigned from, struct err *e);
/* The same for a line of a configuration file. Errors of the value begin with key. */
int option_set_key(const struct option_target *t, const char *key, const char *value,
		   unsigned line, struct err *e);
/* Free and clear all members that can be empty. */
void option_clear(const struct option_def *rows, void *base);
/* Print the lines of a configuration file that restore d's member. source: the comment at their
 * ends; NULL: none. */
void option_show(FILE *out, const void *base, const struct option_def *d, const char *source);

/* ---- configuration files ----
 *
 * "key value" or "key = value" lines, "#" comments (but no ";"), "[section name]" headers, "..."
 * quotes with \" and \\ inside. */

/* Called for each setting and section header. section is "" before the first header; key and value
 * are NULL for a header itself. 0, or a negative errno with the reason in e. */
typedef int conf_fn(void *arg, const char *section, const char *key, const char *value,
		    struct err *e);

struct conf_reader {
	conf_fn *fn;
	void *arg;         /* for fn and bad */
	/* Called with the error of each wrong line; reading then continues. NULL: the first wrong
	 * line ends it. */
	void (*bad)(void *arg, const struct err *e);
	unsigned int line; /* number of the current line, from 1 */
};

/* 0, also after wrong lines if r->bad is set; -ENOENT: path does not exist (e is not set); another
 * negative errno with text in e. The errors of lines begin with "FILE:LINE: ". */
int conf_read_with(const char *path, struct conf_reader *r, struct err *e);
/* The same on text in memory; errors name the text as name. */
int conf_parse(const char *name, const char *text, struct conf_reader *r, struct err *e);

/* ---- command lines ---- */

/* One option of a command line. */
struct setting {
	const struct option_def *def;
	const char *value;         /* the caller's; NULL: none */
	char letter;               /* 0: it was given by name */
	bool clustered;            /* with other letters behind one dash */
};

/* A parsed command line; its strings point into argv. */
struct option_args {
	struct setting *settings;
	int nsettings;
	char **words;              /* the arguments that are not options; NULL at the end */
	int nwords;
};

/* An option of other programs that this one lacks, as typed ("-z", "--bwlimit"), and the advice in
 * the error. */
struct option_hint {
	const char *typed, *advice;
};

/* Is word probably meant to be name? */
bool word_is_near(const char *word, const char *name);
/* NULL: there is none. hints ends with a row without typed; NULL: no hints. */
const char *option_advice(const struct option_hint *hints, const char *typed);

struct option_syntax {
	const struct option_def *rows;
	const struct option_hint *hints;
	const char *help;          /* the command that lists the options, "rftp --help" */
};

/* Parse argv from its second word on: --name VALUE, --name=VALUE, -l VALUE, -lVALUE, several
 * letters after one dash. A unique beginning of a name is enough. Options may stand between other
 * words; after "--" all are words. 0; or a negative errno with text, and a contains everything
 * before the error. Clear a in both cases. */
int option_parse(struct option_args *a, const struct option_syntax *s, int argc, char **argv,
		 struct err *e);
void option_args_clear(struct option_args *a);
/* The last setting of name; NULL: it was not given. */
const struct setting *option_args_last(const struct option_args *a, const char *name);
/* Set all members in the order of the words; ends at the first error, which begins with "--NAME: ". */
int option_args_set(const struct option_args *a, const struct option_target *t, struct err *e);
/* The option as it was typed, "-a" or "--owner". Valid until the same thread's next call. */
const char *setting_text(const struct setting *s);

/* ---- help ---- */

#define OPTION_ANY UINT_MAX

/* Print a line for each row that has one of the flags with (OPTION_ANY: all rows) and none of
 * without, below its heading. Headings without rows are left out. */
void option_help(FILE *out, const struct option_def *rows, unsigned with, unsigned without);

#endif
