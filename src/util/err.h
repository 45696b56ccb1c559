// SPDX-License-Identifier: Apache-2.0
/* Errors, and text that is safe to print. An error is a negative errno; its text is written once,
 * where the facts (file, offset, peer, remedy) are known, and callers may add a prefix. */
#ifndef RFTP_UTIL_ERR_H
#define RFTP_UTIL_ERR_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

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

/* The same, followed by ": " and strerror(-code). */
int err_sys(struct err *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The text of ENOMEM, as of strerror(). */
#define NO_MEMORY "Cannot allocate memory"
/* err_set(e, -ENOMEM, NO_MEMORY) */
int err_nomem(struct err *e);

/* "NAME: WHAT: reason", with name made printable; what: a constant below, or another text. */
#define CANNOT_READ "cannot be read"
#define CANNOT_WRITE "cannot be written"
#define CANNOT_REMOVE "cannot be removed"
#define CANNOT_SYNC "cannot be synced"
#define CANNOT_MAKE_DIR "cannot make the directory"
int err_path(struct err *e, int code, const char *name, const char *what);

/* Put a prefix and ": " before e's text; returns e->code (0 when e is NULL). */
int err_prefix(struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- text that is safe to print ---- */

/* Escape a name for one line of a terminal or log: control bytes, bytes that are not UTF-8 and the
 * backslash become \xNN. Uses one of eight rotating buffers of the calling thread, 800 bytes each;
 * longer names are cut in the middle with "...". */
const char *printable(const char *name);
/* Erase the calling thread's buffers. */
void printable_wipe(void);

/* Replace all control characters in s by blanks: text from libraries and peers may contain newlines
 * or terminal sequences. */
void one_line(char *s);
bool is_control(unsigned char c);

/* The length in bytes (1 to 4) of the first character of s, a NUL-terminated string that is not
 * empty; 0 when no well-formed character starts there (Unicode, table 3-7: no overlong forms, no
 * surrogates, nothing beyond U+10FFFF). */
size_t utf8_step(const unsigned char *s);

#endif
