// SPDX-License-Identifier: Apache-2.0
/* What servers say about files, for people and for programs. */
#ifndef RFTP_CLIENT_SHOW_H
#define RFTP_CLIENT_SHOW_H

#include "proto/proto.h"
#include "util/util.h"

#include <stdio.h>

/* "drwxr-xr-x"; "?" where it is not known. */
void show_mode(char out[11], const struct ftp_facts *f);
/* Like a line of ls -l. name stands for the facts' own; raw: its bytes as they are; human: the size
 * with a unit. */
void show_long(FILE *out, const struct ftp_facts *f, const char *name, bool raw, bool human);
/* A name alone, end behind it. */
void show_name(FILE *out, const char *name, bool raw, char end);
/* Several lines about one file. */
void show_stat(FILE *out, const struct ftp_facts *f, const char *name);
/* The same as an object with this event. NULL: memory is out. */
json_t *show_json(const char *event, const struct ftp_facts *f, const char *name);
/* Names go raw to files and pipes, printable to a terminal. */
bool show_raw(FILE *out);

#endif
