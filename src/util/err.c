// SPDX-License-Identifier: Apache-2.0
/* Errors with their text, and names made fit to stand in it. */
#include "util/err.h"

#include "util/text.h"

#include <stdio.h>
#include <string.h>

/* The text is made in a buffer of its own, so that e->text may be among the
 * arguments. */
static void set_text(struct err *e, int code, const char *text, const char *reason)
{
	e->code = code;
	snprintf(e->text, sizeof(e->text), "%s%s%s", text, *reason ? ": " : "", reason);
	one_line(e->text);
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	char text[ERR_TEXT];
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	set_text(e, code, text, "");
	return code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	char text[ERR_TEXT], reason[128];
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	/* With _GNU_SOURCE this is the variant that returns the text. */
	set_text(e, code, text, strerror_r(-code, reason, sizeof(reason)));
	return code;
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	char prefix[ERR_TEXT], old[ERR_TEXT];
	va_list ap;

	if (!e)
		return 0;
	va_start(ap, fmt);
	vsnprintf(prefix, sizeof(prefix), fmt, ap);
	va_end(ap);
	memcpy(old, e->text, sizeof(old));
	set_text(e, e->code, prefix, old);
	return e->code;
}

enum {
	NAME_BUFFERS = 8,
	NAME_BYTES = 800, /* leaves room for the reason in an err's text */
	NAME_DOTS = 3,
	NAME_HALF = (NAME_BYTES - 1 - NAME_DOTS) / 2,
	TOKEN_BYTES = 16, /* four bytes, all escaped */
};

/* Write the next character of *name to out, escaped where it must be, step over
 * it, and return how many bytes it became. */
static size_t next_token(const unsigned char **name, char out[TOKEN_BYTES + 1])
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *s = *name;
	size_t n = utf8_step(s), used = 0, i;

	if (n && !is_control(*s) && *s != '\\' && !is_hidden(s)) {
		memcpy(out, s, n);
		*name += n;
		return n;
	}
	if (!n)
		n = 1;
	for (i = 0; i < n; i++) {
		out[used++] = '\\';
		out[used++] = 'x';
		out[used++] = hex[s[i] >> 4];
		out[used++] = hex[s[i] & 15];
	}
	*name += n;
	return used;
}

static size_t printable_length(const char *name)
{
	const unsigned char *s = (const unsigned char *)name;
	char token[TOKEN_BYTES + 1];
	size_t total = 0;

	while (*s)
		total += next_token(&s, token);
	return total;
}

/* Characters are kept or left out whole: those that end in the first half of the
 * buffer, and those that begin in the last half of a text of total bytes. */
static void print_cut(char *out, const char *name, size_t total)
{
	const unsigned char *s = (const unsigned char *)name;
	size_t at = 0, n;
	char token[TOKEN_BYTES + 1];
	bool whole = total < NAME_BYTES, cut = false;

	for (; *s; at += n) {
		n = next_token(&s, token);
		if (whole || at + n <= NAME_HALF || at >= total - NAME_HALF) {
			out = mempcpy(out, token, n);
		} else if (!cut) {
			out = stpcpy(out, "...");
			cut = true;
		}
	}
	*out = '\0';
}

static _Thread_local char shown[NAME_BUFFERS][NAME_BYTES];

void printable_wipe(void)
{
	explicit_bzero(shown, sizeof(shown));
}

const char *printable(const char *name)
{
	static _Thread_local unsigned int turn;
	char *out = shown[turn++ % NAME_BUFFERS];

	print_cut(out, name, printable_length(name));
	return out;
}
