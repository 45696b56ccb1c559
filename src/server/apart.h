// SPDX-License-Identifier: Apache-2.0
/* Work in a process of its own: what it reads, loads and opens no other process has. */
#ifndef RFTP_SERVER_APART_H
#define RFTP_SERVER_APART_H

#include "util/util.h"

/* Call fn in a child that has limit_s seconds, and wait for its end. fn's result, 0 or a negative
 * errno, with its text; -ETIMEDOUT or -ECHILD with text: it has come to none. What else it finds it
 * may leave in pages_shared memory. One thread only. */
int apart(int (*fn)(void *arg, struct err *e), void *arg, unsigned limit_s, struct err *e);
/* The same in a child that may be somebody else's at the end: it has nothing of this process open
 * but keep (-1: nothing), and standard input, output and error, so it cannot log. Its text is any
 * bytes. */
int apart_closed(int (*fn)(void *arg, struct err *e), void *arg, int keep, unsigned limit_s,
		 struct err *e);

#endif
