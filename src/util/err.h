// SPDX-License-Identifier: Apache-2.0
/* An error is a negative errno; its text is written once, where the facts
 * (file, offset, peer, what to do) are known, and callers may put meaning in
 * front of it. */
#ifndef RFTP_UTIL_ERR_H
#define RFTP_UTIL_ERR_H

#include <stdarg.h>

#define ERR_TEXT 1024

struct err {
	int code;            /* negative errno; 0: none */
	char text[ERR_TEXT]; /* one line, no newline; "" when code is 0 */
};

#define ERR_INIT { 0 }

/* Record code (a negative errno) and the text in e, which may be NULL.
 * Returns code, so that callers can write: return err_set(e, -EIO, "..."). */
int err_set(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The same with ": " and strerror(-code) behind the text. */
int err_sys(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Put a prefix and ": " before the text that is there; returns e->code
 * (0 when e is NULL). */
int err_prefix(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* A name of bytes made fit for one line of a terminal or a log: control bytes
 * and bytes that are not UTF-8 become \xNN, and so does the backslash. Uses one
 * of eight rotating buffers of the calling thread, 800 bytes each; longer names
 * are cut in the middle with "...". */
const char *printable(const char *name);
/* What the buffers of this thread have had is there no more. */
void printable_wipe(void);

#endif
