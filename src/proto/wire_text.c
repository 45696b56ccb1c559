// SPDX-License-Identifier: Apache-2.0
/* Paths and errors in messages. */
#include "proto/wire_text.h"

#include "proto/bulk.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define ERRNO_LAST 133            /* EHWPOISON, the last of Linux's */

char *wire_path(struct wire_in *in)
{
	uint32_t len = in_u32(in);
	const uint8_t *at;
	char *s;

	if (len > BULK_PATH_MAX)
		in->bad = true;
	at = in_view(in, len);
	if (!at || memchr(at, 0, len)) {
		in->bad = true;
		return NULL;
	}
	s = strndup((const char *)at, len);
	if (!s)
		in->bad = in->no_memory = true;
	return s;
}

static bool is_continuation(uint8_t c)
{
	return (c & 0xc0) == 0x80;
}

/* Length of the UTF-8 character at s (RFC 3629 §4); 0: none, or one that a terminal may
 * obey. */
static size_t character(const uint8_t *s, size_t left)
{
	size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 :
		   s[0] < 0xf5 ? 4 : 0;

	if (!n || n > left)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if (!is_continuation(s[i]))
			return 0;
	}
	if (n == 1)
		return s[0] >= 0x20 && s[0] != 0x7f;
	/* C1 controls, overlong forms, surrogates, beyond U+10FFFF. */
	if ((s[0] == 0xc2 && s[1] < 0xa0) || (s[0] == 0xe0 && s[1] < 0xa0) ||
	    (s[0] == 0xed && s[1] > 0x9f) || (s[0] == 0xf0 && s[1] < 0x90) ||
	    (s[0] == 0xf4 && s[1] > 0x8f))
		return 0;
	return n;
}

void wire_text(char *out, size_t room, const uint8_t *s, size_t len)
{
	size_t n = 0;

	while (len) {
		size_t step = character(s, len);
		size_t want = step ? step : 1;

		if (n + want >= room)
			break;
		if (step)
			memcpy(out + n, s, step);
		else
			out[n] = '?';
		n += want;
		s += want;
		len -= want;
	}
	out[n] = '\0';
}

uint32_t wire_errno(int code)
{
	return code < 0 && code >= -ERRNO_LAST ? (uint32_t)-code : EIO;
}

int wire_code(uint32_t code)
{
	return code && code <= ERRNO_LAST ? -(int)code : -EIO;
}
