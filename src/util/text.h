// SPDX-License-Identifier: Apache-2.0
/* Steps through bytes that may or may not be UTF-8; for util's own use. */
#ifndef RFTP_UTIL_TEXT_H
#define RFTP_UTIL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* The length (1 to 4) of the character at s, a NUL-terminated string that is not
 * at its end; 0 when no well-formed character starts there (Unicode, table 3-7:
 * no overlong forms, no surrogates, nothing beyond U+10FFFF). A NUL is never a
 * continuation byte, so the scan cannot pass the end. */
static inline size_t utf8_step(const unsigned char *s)
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

static inline bool is_control(unsigned char c)
{
	return c < 0x20 || c == 0x7f;
}

/* Is the well-formed character at s one that a terminal obeys instead of showing it? C1 controls
 * (U+0080 to U+009F); line separators and what changes the direction of text around it (U+061C,
 * U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069; UAX 9 §2), which lets a name look like
 * another one. */
static inline bool is_hidden(const unsigned char *s)
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

/* Make s one harmless line: text from libraries and peers may hold newlines, or
 * sequences that a terminal obeys. */
static inline void one_line(char *s)
{
	for (size_t n; *s; s += n) {
		n = utf8_step((const unsigned char *)s);
		if (is_control((unsigned char)*s) || (n && is_hidden((const unsigned char *)s)))
			memset(s, ' ', n);
		n = n ? n : 1;
	}
}

#endif
