// SPDX-License-Identifier: Apache-2.0
/* What rftp-iser plan was asked for. */
#ifndef RFTP_ISER_PLAN_ASK_H
#define RFTP_ISER_PLAN_ASK_H

#include "iser_setup/spec.h"

/* As on the command line; NULL, empty or false: not given. */
struct plan_options {
	const char *name, *domain, *iqn, *node, *policy, *write, *chap, *mutual, *secrets, *mounts;
	const char *sysfs, *addresses, *out, *check;
	struct tool_list tmpfs, ramdisk, file, block, portal, initiator;
	bool open, tcp, force;
};

/* Puts into s what file says ("-": standard input). 0, or a negative errno with text. */
int plan_ask_file(struct spec *s, const char *file, struct err *e);
/* And then what o does. 0; -EINVAL: an option is wrong; or another negative errno; with text. */
int plan_ask_options(struct spec *s, const struct plan_options *o, struct err *e);
/* All of a text file, or of standard input for "-"; malloc'd. *name: what to call it, for
 * printable(). NULL with text. */
char *plan_text(const char *path, const char **name, struct err *e);

#endif
