// SPDX-License-Identifier: Apache-2.0
/* Kinds of options: how a value is read, checked, shown and forgotten. Inside src/server only. */
#ifndef RFTP_SERVER_OPTION_TYPE_H
#define RFTP_SERVER_OPTION_TYPE_H

#include "util/util.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct option_def;

/* at is the field of an option. */
struct option_type {
	/* 0, or a negative errno with text. */
	int (*set)(void *at, const struct option_def *d, const char *value, struct err *e);
	/* Calls put for each value that set would take to make it what it is; for none at all with
	 * "". */
	void (*show)(const void *at, const struct option_def *d,
		     void (*put)(void *arg, const char *value), void *arg);
	void (*clear)(void *at);  /* NULL: it owns nothing and cannot be empty */
};

enum {
	IN_FILE = 1 << 0,    /* rftpd.conf(5) has it, too */
	NOT_STDIO = 1 << 1,  /* makes no sense with --stdio */
	EARLY = 1 << 2,      /* says which file is read, or that none is */
	IS_LIST = 1 << 3,    /* each value is one more; the command line's replace the file's */
};

struct option_def {
	const char *name;
	char letter;               /* 0: none */
	const char *arg;           /* what --help calls it; NULL: none is needed */
	const struct option_type *type;
	unsigned where;
	size_t at;                 /* of the field in its struct */
	uint64_t low, high;        /* bounds of numbers */
	const char *const *words;  /* of a choice, NULL at the end */
	const char *zero;          /* the word for 0; NULL: 0 is a number like others */
	const char *help;
};

extern const struct option_type type_flag;    /* bool */
extern const struct option_type type_word;    /* unsigned, or an enum: index into words */
extern const struct option_type type_string;  /* char *; "" is NULL */
extern const struct option_type type_number;  /* unsigned */
extern const struct option_type type_octal;   /* unsigned */
extern const struct option_type type_size;    /* uint64_t bytes */
extern const struct option_type type_time;    /* uint64_t ns */
extern const struct option_type type_ports;   /* struct port_range */
extern const struct option_type type_address; /* char *; numeric */
extern const struct option_type type_path;    /* char *; begins with a slash */
extern const struct option_type type_networks; /* struct networks */

/* of rftpd's own, option_kinds.c */
extern const struct option_type type_listen;  /* struct srv_options */
extern const struct option_type type_numa;    /* char * */
extern const struct option_type type_nodes;   /* char * */
extern const struct option_type type_tos;     /* int */
extern const struct option_type type_umask;   /* unsigned, of struct srv_rules */
extern const struct option_type type_log;     /* char * */
extern const struct option_type type_verbose; /* unsigned log_level */
extern const struct option_type type_quiet;   /* the same */

/* Take value for the option d of the struct at base. may_be_empty: "" stands for nothing. */
int option_take(void *base, const struct option_def *d, const char *value, bool may_be_empty,
		struct err *e);
/* "key value" lines, as rftpd.conf has them. */
void option_show(FILE *out, const void *base, const struct option_def *d);

#endif
