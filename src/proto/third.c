// SPDX-License-Identifier: Apache-2.0
/* Codec of the messages of copies between two servers. */
#include "proto/third.h"

#include "proto/wire.h"
#include "proto/wire_text.h"

#include <stdlib.h>

#define TEXT_MAX 65536u   /* accepted; less is kept */

/* ---- strings ---- */

static void out_string8(struct wire_out *o, const char *s, size_t most)
{
	size_t len = strnlen(s, most);

	out_u8(o, (uint8_t)len);
	out_bytes(o, s, len);
}

/* Of printable ASCII without spaces: pins, names of hosts, addresses. */
static void in_word(struct wire_in *in, char *out, size_t most)
{
	uint8_t len = in_u8(in);
	const uint8_t *at;

	out[0] = '\0';
	if (len > most)
		in->bad = true;
	at = in_view(in, len);
	for (uint8_t i = 0; at && i < len; i++)
		if (at[i] <= ' ' || at[i] > '~')
			in->bad = true;
	if (!at || in->bad)
		return;
	memcpy(out, at, len);
	out[len] = '\0';
}

static void in_pin(struct wire_in *in, char pin[THIRD_PIN_MAX + 1])
{
	in_word(in, pin, THIRD_PIN_MAX);
	if (!*pin)
		in->bad = true;
}

static void out_text(struct wire_out *o, const char *text, size_t room)
{
	size_t len = strnlen(text, room - 1);

	out_u32(o, (uint32_t)len);
	out_bytes(o, text, len);
}

static void in_text(struct wire_in *in, char *text, size_t room)
{
	uint32_t len = in_u32(in);
	const uint8_t *at;

	text[0] = '\0';
	if (len > TEXT_MAX)
		in->bad = true;
	at = in_view(in, len);
	if (at)
		wire_text(text, room, at, len);
}

/* ---- GIVE ---- */

void third_give_clear(struct third_give *g)
{
	bulk_request_clear(&g->request);
}

static void encode_give(struct wire_out *o, const void *msg)
{
	const struct third_give *g = msg;

	out_u32(o, g->flags);
	out_u32(o, g->connect_ms);
}

int third_give_put(struct buf *b, const struct third_give *g)
{
	int r = wire_put(b, encode_give, g);

	return r ? r : bulk_request_put(b, &g->request);
}

int third_give_get(struct buf *b, struct third_give *g, struct err *e)
{
	struct wire_in in = wire_in_of(b);
	size_t start = buf_tell(b);
	int r;

	memset(g, 0, sizeof(*g));
	g->flags = in_u32(&in);
	g->connect_ms = in_u32(&in);
	if (g->connect_ms > THIRD_CONNECT_MS_MAX)
		in.bad = true;
	r = wire_in_end(&in, b);
	if (!r)
		r = bulk_request_get(b, &g->request, e);
	if (!r && (g->request.op != BULK_PUT || !g->request.nsources))
		r = -EBADMSG;
	if (!r)
		return 0;
	buf_seek(b, start);
	third_give_clear(g);
	memset(g, 0, sizeof(*g));
	return r == -EPROTONOSUPPORT ? r : err_sys(e, r, "cannot take the request");
}

/* ---- TAKE ---- */

void third_take_clear(struct third_take *t)
{
	free(t->base);
	t->base = NULL;
}

static void encode_take(struct wire_out *o, const void *msg)
{
	const struct third_take *t = msg;

	out_u16(o, BULK_MAJOR);
	out_u16(o, BULK_MINOR);
	out_u8(o, t->prot_min);
	out_u8(o, t->policy);
	out_u32(o, t->request_flags);
	out_u32(o, t->seconds);
	out_string8(o, t->pin, THIRD_PIN_MAX);
	out_string(o, t->base);
}

int third_take_put(struct buf *b, const struct third_take *t)
{
	return wire_put(b, encode_take, t);
}

/* What a later minor version has added at the end is passed over. */
static int take_fields(struct wire_in *in, struct third_take *t, struct err *e)
{
	uint16_t major = in_u16(in), minor = in_u16(in);

	int r = in->bad ? 0 : bulk_accept(major, minor, 0, e);

	if (r)
		return r;
	t->prot_min = in_u8_max(in, PROT_PRIVATE);
	t->policy = in_u8(in);
	t->request_flags = in_u32(in);
	t->seconds = in_u32(in);
	in_pin(in, t->pin);
	t->base = wire_path(in);
	if (in->left && minor <= BULK_MINOR)
		in->bad = true;
	r = in->bad ? 0 : bulk_accept(major, minor, t->request_flags, e);
	if (r)
		return r;
	if (t->policy > POLICY_SAME)
		in->bad = true;
	if (in->bad)
		return in->no_memory ? -ENOMEM : -EBADMSG;
	return 0;
}

int third_take_get(struct buf *b, struct third_take *t, struct err *e)
{
	struct wire_in in = wire_in_of(b);
	int r;

	memset(t, 0, sizeof(*t));
	r = take_fields(&in, t, e);
	if (!r)
		return buf_skip(b, buf_len(b));
	third_take_clear(t);
	memset(t, 0, sizeof(*t));
	return r == -EPROTONOSUPPORT ? r : err_sys(e, r, "cannot take the request");
}

/* ---- keys and doors ---- */

static void encode_key(struct wire_out *o, const void *msg)
{
	out_string8(o, msg, THIRD_PIN_MAX);
}

int third_key_put(struct buf *b, const char *pin)
{
	return wire_put(b, encode_key, pin);
}

int third_key_get(struct buf *b, char pin[THIRD_PIN_MAX + 1])
{
	struct wire_in in = wire_in_of(b);

	in_pin(&in, pin);
	return wire_in_end(&in, b);
}

static void encode_door(struct wire_out *o, const void *msg)
{
	const struct third_door *d = msg;

	out_u16(o, d->port);
	out_u32(o, d->seconds);
	out_string8(o, d->pin, THIRD_PIN_MAX);
	out_bytes(o, d->token, sizeof(d->token));
	out_u8(o, (uint8_t)d->naddrs);
	for (uint32_t i = 0; i < d->naddrs; i++)
		out_string8(o, d->addrs[i], THIRD_HOST_MAX);
}

int third_door_put(struct buf *b, const struct third_door *d)
{
	return d->naddrs > THIRD_ADDRESSES ? -EINVAL : wire_put(b, encode_door, d);
}

int third_door_get(struct buf *b, struct third_door *d)
{
	struct wire_in in = wire_in_of(b);
	int r;

	memset(d, 0, sizeof(*d));
	d->port = in_u16(&in);
	d->seconds = in_u32(&in);
	in_pin(&in, d->pin);
	in_bytes(&in, d->token, sizeof(d->token));
	d->naddrs = in_u8_max(&in, THIRD_ADDRESSES);
	for (uint32_t i = 0; i < d->naddrs && !in.bad; i++) {
		in_word(&in, d->addrs[i], THIRD_HOST_MAX);
		if (!d->addrs[i][0])
			in.bad = true;
	}
	if (d->port < THIRD_PORT_LEAST)
		in.bad = true;
	r = wire_in_end(&in, b);
	if (r)
		memset(d, 0, sizeof(*d));
	return r;
}

/* ---- progress and files ---- */

static void encode_progress(struct wire_out *o, const void *msg)
{
	const struct third_progress *p = msg;

	out_u64(o, p->entries);
	out_u64(o, p->files_done);
	out_u64(o, p->files_failed);
	out_u64(o, p->files_skipped);
	out_u64(o, p->bytes);
	out_u64(o, p->bytes_kept);
	out_u64(o, p->bytes_known);
	out_u64(o, p->ns);
	out_u8(o, p->walked);
	out_string8(o, p->bottleneck, THIRD_WORDS_MAX);
}

int third_progress_put(struct buf *b, const struct third_progress *p)
{
	return wire_put(b, encode_progress, p);
}

int third_progress_get(struct buf *b, struct third_progress *p)
{
	struct wire_in in = wire_in_of(b);
	const uint8_t *at;
	uint8_t len;
	int r;

	memset(p, 0, sizeof(*p));
	p->entries = in_u64(&in);
	p->files_done = in_u64(&in);
	p->files_failed = in_u64(&in);
	p->files_skipped = in_u64(&in);
	p->bytes = in_u64(&in);
	p->bytes_kept = in_u64(&in);
	p->bytes_known = in_u64(&in);
	p->ns = in_u64(&in);
	p->walked = in_u8_max(&in, 1);
	len = in_u8_max(&in, THIRD_WORDS_MAX);
	at = in_view(&in, len);
	if (at)
		wire_text(p->bottleneck, sizeof(p->bottleneck), at, len);
	r = wire_in_end(&in, b);
	if (r)
		memset(p, 0, sizeof(*p));
	return r;
}

void third_file_clear(struct third_file *f)
{
	free(f->path);
	f->path = NULL;
}

static void encode_file(struct wire_out *o, const void *msg)
{
	const struct third_file *f = msg;
	size_t len = strnlen(f->path, BULK_PATH_MAX);

	out_u32(o, f->code ? wire_errno(f->code) : 0);
	out_u8(o, f->skipped);
	out_u64(o, f->bytes);
	out_u32(o, (uint32_t)len);
	out_bytes(o, f->path, len);
	out_text(o, f->text, sizeof(f->text));
}

int third_file_put(struct buf *b, const struct third_file *f)
{
	return wire_put(b, encode_file, f);
}

int third_file_get(struct buf *b, struct third_file *f)
{
	struct wire_in in = wire_in_of(b);
	uint32_t code = in_u32(&in);
	int r;

	memset(f, 0, sizeof(*f));
	f->code = code ? wire_code(code) : 0;
	f->skipped = in_u8_max(&in, 1);
	f->bytes = in_u64(&in);
	f->path = wire_path(&in);
	in_text(&in, f->text, sizeof(f->text));
	r = wire_in_end(&in, b);
	if (r) {
		third_file_clear(f);
		memset(f, 0, sizeof(*f));
	}
	return r;
}

/* ---- results ---- */

static void encode_outcome(struct wire_out *o, const void *msg)
{
	const struct third_result *r = msg;

	out_u32(o, r->code ? wire_errno(r->code) : 0);
	out_u8(o, r->where);
	out_u8(o, r->agreed);
	out_u8(o, r->fell_back);
	out_text(o, r->text, sizeof(r->text));
}

static void encode_numbers(struct wire_out *o, const void *msg)
{
	const struct third_result *r = msg;

	out_u64(o, r->wall_ns);
	out_u64(o, r->files);
	out_u64(o, r->failed);
	out_u64(o, r->skipped);
	out_u64(o, r->bytes);
	out_u64(o, r->resumed);
	out_u64(o, r->rtt_ns);
	out_u32(o, r->channels_lost);
	out_u32(o, r->nchannels);
	for (uint32_t i = 0; i < r->nchannels; i++)
		out_u64(o, r->channel_bytes[i]);
	out_u64(o, r->touched);
	out_u8(o, r->resumable);
}

int third_result_put(struct buf *b, const struct third_result *r)
{
	int rc;

	if (r->nchannels > CHANNELS_MAX)
		return -EINVAL;
	rc = wire_put(b, encode_outcome, r);
	if (!rc && r->agreed)
		rc = agreement_put(b, &r->agreement);
	if (!rc)
		rc = bulk_counts_put(b, &r->local);
	if (!rc)
		rc = bulk_counts_put(b, &r->remote);
	return rc ? rc : wire_put(b, encode_numbers, r);
}

static int decode_outcome(struct buf *b, struct third_result *r)
{
	struct wire_in in = wire_in_of(b);
	uint32_t code = in_u32(&in);

	r->code = code ? wire_code(code) : 0;
	r->where = in_u8_max(&in, THIRD_CLIENT);
	r->agreed = in_u8_max(&in, 1);
	r->fell_back = in_u8_max(&in, 1);
	in_text(&in, r->text, sizeof(r->text));
	return wire_in_end(&in, b);
}

static int decode_numbers(struct buf *b, struct third_result *r)
{
	struct wire_in in = wire_in_of(b);

	r->wall_ns = in_u64(&in);
	r->files = in_u64(&in);
	r->failed = in_u64(&in);
	r->skipped = in_u64(&in);
	r->bytes = in_u64(&in);
	r->resumed = in_u64(&in);
	r->rtt_ns = in_u64(&in);
	r->channels_lost = in_u32(&in);
	r->nchannels = in_u32(&in);
	if (r->nchannels > CHANNELS_MAX)
		in.bad = true;
	for (uint32_t i = 0; i < r->nchannels && !in.bad; i++)
		r->channel_bytes[i] = in_u64(&in);
	if (!in.bad && in.left) {
		r->touched = in_u64(&in);
		r->resumable = in_u8_max(&in, 1);
	}
	return wire_in_end(&in, b);
}

int third_result_get(struct buf *b, struct third_result *r)
{
	size_t start = buf_tell(b);
	int rc;

	memset(r, 0, sizeof(*r));
	rc = decode_outcome(b, r);
	if (!rc && r->agreed)
		rc = agreement_get(b, &r->agreement);
	if (!rc)
		rc = bulk_counts_get(b, &r->local);
	if (!rc)
		rc = bulk_counts_get(b, &r->remote);
	if (!rc)
		rc = decode_numbers(b, r);
	if (rc) {
		buf_seek(b, start);
		memset(r, 0, sizeof(*r));
	}
	return rc;
}
