// SPDX-License-Identifier: Apache-2.0
/* The cursor for messages: fields, strings, paths and errors. */
#include "proto/wire.h"

#define ERRNO_LAST 133     /* EHWPOISON, the last one of Linux */
#define TEXT_MAX 65536u    /* bytes accepted from the peer; the receiver keeps fewer */

/* ---- messages ---- */

int wire_put(struct buf *b, wire_fn *fields, const void *msg)
{
	void *m = (void *)(uintptr_t)msg;
	struct wire w = { 0 };
	uint8_t *room;
	int r;

	fields(&w, m);
	if (w.bad)
		return -EINVAL;
	r = buf_reserve(b, w.n, &room);
	if (r < 0)
		return r;
	w = (struct wire){ .out = room };
	fields(&w, m);
	return 0;
}

struct wire wire_of(const struct buf *b)
{
	return (struct wire){ .get = true, .in = buf_ptr(b), .n = buf_len(b) };
}

int wire_end(const struct wire *w, struct buf *b, void *msg, size_t size)
{
	if (!w->bad)
		return buf_skip(b, buf_len(b) - w->n);
	memset(msg, 0, size);
	return w->no_memory ? -ENOMEM : -EBADMSG;
}

int wire_get(struct buf *b, wire_fn *fields, void *msg, size_t size)
{
	struct wire w = wire_of(b);

	memset(msg, 0, size);
	fields(&w, msg);
	return wire_end(&w, b, msg, size);
}

void wire_rest(struct wire *w, uint16_t minor)
{
	if (w->n && minor <= BULK_MINOR)
		w->bad = true;
	w->n = 0;
}

void wire_nested(struct wire *w, wire_fn *fields, void *msg, size_t max)
{
	struct wire body;
	size_t at = w->n;
	uint32_t len = 0;

	wire_number(w, &len);
	if (!w->get) {
		fields(w, msg);
		if (w->out)
			put_be32(w->out + at, (uint32_t)(w->n - at - sizeof(len)));
		return;
	}

	if (len > max)
		w->bad = true;
	body = (struct wire){ .get = true, .in = wire_view(w, len), .n = len };
	body.bad = w->bad;
	fields(&body, msg);
	w->bad |= body.bad;
	w->no_memory |= body.no_memory;
}

/* ---- fields ---- */

const uint8_t *wire_view(struct wire *w, size_t len)
{
	const uint8_t *at = w->in;

	if (w->bad || len > w->n) {
		w->bad = true;
		return NULL;
	}
	w->in += len;
	w->n -= len;
	return at;
}

void wire_block(struct wire *w, const uint8_t **p, size_t len)
{
	if (w->get)
		*p = wire_view(w, len);
	else
		wire_bytes(w, (void *)(uintptr_t)*p, len);
}

void wire_bytes(struct wire *w, void *p, size_t len)
{
	const uint8_t *at;

	if (w->get) {
		at = wire_view(w, len);
		if (at)
			memcpy(p, at, len);
		else
			memset(p, 0, len);
		return;
	}
	if (w->out && len)
		memcpy(w->out + w->n, p, len);
	w->n += len;
}

void wire_number_of(struct wire *w, void *p, size_t bytes)
{
	uint8_t *own = p;
	const uint8_t *at;

	if (w->get) {
		at = wire_view(w, bytes);
		for (size_t i = 0; i < bytes; i++)
			own[i] = at ? at[bytes - 1 - i] : 0;
		return;
	}
	for (size_t i = 0; w->out && i < bytes; i++)
		w->out[w->n + i] = own[bytes - 1 - i];
	w->n += bytes;
}

void wire_upto(struct wire *w, uint8_t *p, uint8_t most)
{
	wire_number(w, p);
	if (w->get && *p > most) {
		w->bad = true;
		*p = 0;
	}
}

void wire_bool(struct wire *w, bool *p)
{
	uint8_t v = *p;

	wire_upto(w, &v, 1);
	if (w->get)
		*p = v;
}

void wire_count(struct wire *w, uint32_t *n, uint32_t most)
{
	wire_number(w, n);
	if (*n > most)
		w->bad = true;
}

void wire_table(struct wire *w, void *msg, const struct wire_field *f, size_t n)
{
	for (; n; n--, f++) {
		uint8_t *at = (uint8_t *)msg + f->offset;

		if (f->bytes == 1 && f->most != WIRE_LOW_BIT)
			wire_upto(w, at, f->most);
		else if (f->bytes <= 8)
			wire_number_of(w, at, f->bytes);
		else
			wire_bytes(w, at, f->bytes);
		if (w->get && f->most == WIRE_LOW_BIT)
			*at &= 1;
	}
}

/* ---- strings ---- */

void wire_short(struct wire *w, char *s, size_t room)
{
	uint8_t len = (uint8_t)(w->get ? 0 : strnlen(s, room - 1));

	wire_upto(w, &len, (uint8_t)(room - 1));
	if (w->get)
		memset(s, 0, room);
	wire_bytes(w, s, len);
	for (uint8_t i = 0; w->get && i < len; i++)
		if (s[i] <= ' ' || s[i] > '~')
			w->bad = true;
	if (w->get && w->bad)
		memset(s, 0, room);
}

void wire_text(struct wire *w, char *text, size_t room)
{
	uint32_t len = (uint32_t)(w->get ? 0 : strnlen(text, room - 1));
	const uint8_t *at = (const uint8_t *)text;

	wire_count(w, &len, TEXT_MAX);
	wire_block(w, &at, len);
	if (w->get)
		wire_clean(text, room, at ? at : (const uint8_t *)"", at ? len : 0);
}

void wire_path(struct wire *w, char **s)
{
	uint32_t len = (uint32_t)(w->get ? 0 : strnlen(*s, BULK_PATH_MAX + 1));
	const uint8_t *at = (const uint8_t *)*s;

	wire_count(w, &len, BULK_PATH_MAX);
	wire_block(w, &at, len);
	if (!w->get)
		return;

	*s = NULL;
	if (!at || memchr(at, 0, len)) {
		w->bad = true;
		return;
	}
	*s = strndup((const char *)at, len);
	if (!*s)
		w->bad = w->no_memory = true;
}

void wire_clean(char *out, size_t room, const uint8_t *s, size_t len)
{
	size_t n = len < room ? len : room - 1, step;

	for (int i = 0; i < 3 && n && n < len && (s[n] & 0xc0) == 0x80; i++)
		n--; /* cut between characters */
	memcpy(out, s, n);
	out[n] = '\0';
	for (char *p = out; p < out + n; p += step) {
		const unsigned char *c = (const unsigned char *)p;
		bool valid;

		step = utf8_step(c);
		valid = step && !is_control(*c) && !(*c == 0xc2 && c[1] < 0xa0); /* C1 controls */
		step = step ? step : 1;
		if (!valid)
			memset(p, '?', step);
	}
}

/* ---- errors ---- */

void wire_errno(struct wire *w, int *code, bool zero_allowed)
{
	uint32_t number = *code < 0 && *code >= -ERRNO_LAST ? (uint32_t)-*code : EIO;

	if (zero_allowed && !*code)
		number = 0;
	wire_number(w, &number);
	if (!w->get)
		return;
	*code = number && number <= ERRNO_LAST ? -(int)number : -EIO;
	if (zero_allowed && !number)
		*code = 0;
}
