// SPDX-License-Identifier: Apache-2.0
/* FTP replies (RFC 959 §4.2), read line by line and written, and the one reply whose
 * text carries a parameter, EPSV's. */
#include "proto/ftp.h"
#include "proto/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void ftp_reply_clear(struct ftp_reply *r)
{
	free(r->text);
	memset(r, 0, sizeof(*r));
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The code that line begins with; *sep is what stands behind it: ' ', '-' or NUL. 0 when
 * it does not begin a reply. */
static int reply_code(const char *line, char *sep)
{
	if (line[0] < '1' || line[0] > '5' || !is_digit(line[1]) || !is_digit(line[2]))
		return 0;
	*sep = line[3];
	if (*sep != ' ' && *sep != '-' && *sep != '\0')
		return 0;
	return (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
}

static int reserve_text(struct ftp_reply *r, size_t need)
{
	size_t room = r->room ? r->room : 256;
	char *text;

	while (room < need)
		room *= 2;
	if (room == r->room)
		return 0;
	text = realloc(r->text, room);
	if (!text)
		return -ENOMEM;
	r->text = text;
	r->room = room;
	return 0;
}

static int append_line(struct ftp_reply *r, const char *line, bool first)
{
	size_t len = strlen(line);
	int err;

	if (len > FTP_REPLY_MAX || r->len + len + 1 > FTP_REPLY_MAX)
		return -EMSGSIZE;
	err = reserve_text(r, r->len + len + 2);
	if (err < 0)
		return err;
	if (!first)
		r->text[r->len++] = '\n';
	memcpy(r->text + r->len, line, len + 1);
	r->len += len;
	return 0;
}

static void begin_again(struct ftp_reply *r)
{
	r->code = 0;
	r->len = 0;
	r->done = false;
	r->multi = false;
}

static int first_line(struct ftp_reply *r, const char *line)
{
	char sep;
	int code = reply_code(line, &sep);
	int err;

	if (!code)
		return -EBADMSG;
	err = append_line(r, sep ? line + 4 : "", true);
	if (err < 0)
		return err;
	r->code = code;
	r->multi = sep == '-';
	r->done = !r->multi;
	return r->done;
}

static int further_line(struct ftp_reply *r, const char *line)
{
	char sep;
	bool last = reply_code(line, &sep) == r->code && sep != '-';
	int err = append_line(r, last ? (sep ? line + 4 : "") : line, false);

	if (err < 0)
		return err;
	r->done = last;
	return r->done;
}

int ftp_reply_line(struct ftp_reply *r, const char *line)
{
	if (r->done)
		begin_again(r);
	return r->code ? further_line(r, line) : first_line(r, line);
}

/* ---- writing ---- */

enum { IAC = 255 };

struct reply_out {
	int code;
	const char *text;
};

static void encode_code(struct wire_out *o, int code, char sep)
{
	char head[4] = { (char)('0' + code / 100), (char)('0' + code / 10 % 10),
			 (char)('0' + code % 10), sep };

	out_bytes(o, head, sizeof(head));
}

/* A bare CR would be taken by some for the end of the line; Telnet's IAC is doubled (RFC 854). */
static void encode_text(struct wire_out *o, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((uint8_t)s[i] == IAC)
			out_u8(o, IAC);
		out_u8(o, s[i] == '\r' ? '?' : (uint8_t)s[i]);
	}
	out_bytes(o, "\r\n", 2);
}

static void encode_reply(struct wire_out *o, const void *msg)
{
	const struct reply_out *m = msg;
	const char *s = m->text;

	for (bool first = true;; first = false) {
		const char *end = strchrnul(s, '\n');

		if (!*end)
			encode_code(o, m->code, ' ');
		else if (first)
			encode_code(o, m->code, '-');
		else if (is_digit(*s)) /* must not look like the last line */
			out_u8(o, ' ');
		encode_text(o, s, (size_t)(end - s));
		if (!*end)
			return;
		s = end + 1;
	}
}

int ftp_reply_format(struct buf *out, int code, const char *text)
{
	struct reply_out m = { code, text };

	if (code < 100 || code > 599)
		return -EINVAL;
	return wire_put(out, encode_reply, &m);
}

/* ---- EPSV (RFC 2428 §3) ---- */

/* s stands behind the "(": "<d><d><d><port><d>)". */
static bool epsv_port(const char *s, uint16_t *port)
{
	char d = s[0];
	uint32_t v = 0;
	int i = 3;

	if (d < 33 || d > 126 || is_digit(d) || s[1] != d || s[2] != d)
		return false;
	for (; is_digit(s[i]) && v <= UINT16_MAX; i++)
		v = v * 10 + (uint32_t)(s[i] - '0');
	if (!v || v > UINT16_MAX || s[i] != d || s[i + 1] != ')')
		return false;
	*port = (uint16_t)v;
	return true;
}

int ftp_epsv_parse(const char *text, uint16_t *port)
{
	*port = 0;
	for (const char *s = strchr(text, '('); s; s = strchr(s + 1, '(')) {
		if (epsv_port(s + 1, port))
			return 0;
	}
	return -EBADMSG;
}
