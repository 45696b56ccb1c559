// SPDX-License-Identifier: Apache-2.0
/* The command line cut into a command, its words and its options, and the options of
 * one host put together from all the places that set them. */
#ifndef RFTP_CLIENT_ARGS_H
#define RFTP_CLIENT_ARGS_H

#include "client/options.h"

/* An option as it stood on the command line; value is NULL without one. */
struct setting {
	const struct option_def *def;
	const char *value;
	char letter;   /* by which it was given; 0: by its name */
	bool beside;   /* other letters, behind one dash */
};

/* Views into argv. */
struct args {
	struct setting *settings;
	int nsettings;
	char **words;  /* the first is the command's name; NULL at the end */
	int nwords;
};

/* Options may stand anywhere; what follows "--" are words. -EINVAL with text. */
int args_parse(struct args *a, int argc, char **argv, struct err *e);
void args_clear(struct args *a);
/* The letters are those of this command, an ON_... . */
void args_settle(struct args *a, unsigned command);
/* How the option was given, for a message: "-a" or "--owner". Until the next call. */
const char *setting_text(const struct setting *s);

/* The options for host (NULL: none): defaults, /etc/rftp.conf, the user's rftp.conf, the
 * command line, each over the one before. On failure o is empty. -EINVAL with text. */
int args_options(const struct args *a, const char *host, struct options *o, struct err *e);

#endif
