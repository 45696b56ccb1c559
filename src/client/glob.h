// SPDX-License-Identifier: Apache-2.0
/* Patterns of names on servers, with the meaning that they have in sh(1). Main thread. */
#ifndef RFTP_CLIENT_GLOB_H
#define RFTP_CLIENT_GLOB_H

#include "client/names.h"
#include "client/server.h"

#define WILDCARDS "*?["

/* Has pattern a wildcard? A backslash before a character makes it stand for itself. */
bool glob_is_pattern(const char *pattern);
/* Find the paths on the connected server s that match pattern: in its form, sorted, with a "/" at
 * the end if it has one. path_of makes the path for the server from the beginning of such a path,
 * malloc'd. 0, also with no match; or a negative errno with text: for example -ENOENT for a missing
 * directory that pattern names without a wildcard. */
int glob_there(struct server *s, const char *pattern, char *(*path_of)(void *arg, const char *name),
	       void *arg, struct names *found, struct err *e);
/* Replace each URL of j's words that has a wildcard in its path by the URLs that match, and append
 * all words to all. A URL without a match stays as it is. j->servers keeps the connections. 0, or a
 * negative errno with text. */
int glob_words(struct job *j, struct names *all, struct err *e);

#endif
