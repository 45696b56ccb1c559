// SPDX-License-Identifier: Apache-2.0
/* Errors with their text, and text that is safe to print. */
#include "util/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

/* e->text may be among the arguments, so the text is formatted into another buffer first. */
__attribute__((format(printf, 4, 0)))
static int err_format(struct err *e, int code, const char *reason, const char *fmt, va_list ap)
{
	char text[2 * ERR_TEXT + 2];
	size_t len;

	vsnprintf(text, ERR_TEXT, fmt, ap);
	len = strlen(text);
	snprintf(text + len, sizeof(text) - len, "%s%s", *reason ? ": " : "", reason);
	text[ERR_TEXT - 1] = '\0';
	e->code = code;
	strcpy(e->text, text);
	one_line(e->text);
	return code;
}

int err_set(struct err *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);
	err_format(e, code, "", fmt, ap);
	va_end(ap);
	return code;
}

int err_sys(struct err *e, int code, const char *fmt, ...)
{
	char reason[128];
	va_list ap;

	if (!e)
		return code;
	va_start(ap, fmt);

	/* With _GNU_SOURCE this is the variant that returns the text. */
	err_format(e, code, strerror_r(-code, reason, sizeof(reason)), fmt, ap);
	va_end(ap);
	return code;
}

int err_nomem(struct err *e)
{
	return err_set(e, -ENOMEM, NO_MEMORY);
}

int err_path(struct err *e, int code, const char *name, const char *what)
{
	return err_sys(e, code, "%s: %s", printable(name), what);
}

int err_prefix(struct err *e, const char *fmt, ...)
{
	char old[ERR_TEXT];
	va_list ap;

	if (!e)
		return 0;
	memcpy(old, e->text, sizeof(old));
	va_start(ap, fmt);
	err_format(e, e->code, old, fmt, ap);
	va_end(ap);
	return e->code;
}

/* ---- characters ---- */

/* A NUL is never a continuation byte, so the scan cannot pass the end. */
size_t utf8_step(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n, i;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	/* Only the second byte has bounds that depend on the first. */
	if (s[0] == 0xe0)
		low = 0xa0;
	else if (s[0] == 0xed)
		high = 0x9f;
	else if (s[0] == 0xf0)
		low = 0x90;
	else if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

/* Is the well-formed character at s invisible, with an effect on the terminal? C1 controls (U+0080
 * to U+009F); line separators and marks that change the direction of the text around them (U+061C,
 * U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069; UAX 9 §2), which make one name look like
 * another. */
static bool is_hidden(const unsigned char *s)
{
	if (s[0] == 0xc2)
		return s[1] <= 0x9f;
	if (s[0] == 0xd8)
		return s[1] == 0x9c;
	if (s[0] != 0xe2)
		return false;
	return (s[1] == 0x80 && ((s[2] >= 0x8e && s[2] <= 0x8f) || (s[2] >= 0xa8 && s[2] <= 0xae))) ||
	       (s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9);
}

void one_line(char *s)
{
	for (size_t n; *s; s += n) {
		n = utf8_step((const unsigned char *)s);
		if (is_control((unsigned char)*s) || (n && is_hidden((const unsigned char *)s)))
			memset(s, ' ', n);
		n = n ? n : 1;
	}
}

/* ---- names ---- */

enum {
	NAME_BUFFERS = 8,
	NAME_BYTES = 800, /* leaves room for the reason in an err's text */
	NAME_DOTS = 3,
	NAME_HALF = (NAME_BYTES - 1 - NAME_DOTS) / 2,
	TOKEN_BYTES = 16, /* four bytes, all escaped */
};

static _Thread_local char shown[NAME_BUFFERS][NAME_BYTES];

/* Write the next character of *name to out, escaped if necessary, and step over it. Returns the
 * number of bytes written. */
static size_t next_escaped(const unsigned char **name, char out[TOKEN_BYTES + 1])
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

const char *printable(const char *name)
{
	static _Thread_local unsigned int turn;
	char *buffer = shown[turn++ % NAME_BUFFERS], *out = buffer;
	const unsigned char *s = (const unsigned char *)name;
	size_t total = 0, at = 0, n;
	char token[TOKEN_BYTES + 1];
	bool cut = false;

	while (*s)
		total += next_escaped(&s, token);
	s = (const unsigned char *)name;

	/* Never cut a character: keep those that end in the first NAME_HALF bytes, and those that
	 * begin in the last NAME_HALF bytes. */
	for (; *s; at += n) {
		n = next_escaped(&s, token);
		if (total < NAME_BYTES || at + n <= NAME_HALF || at >= total - NAME_HALF) {
			out = mempcpy(out, token, n);
		} else if (!cut) {
			out = stpcpy(out, "...");
			cut = true;
		}
	}

	*out = '\0';
	return buffer;
}

void printable_wipe(void)
{
	explicit_bzero(shown, sizeof(shown));
}
