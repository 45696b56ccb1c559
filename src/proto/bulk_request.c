// SPDX-License-Identifier: Apache-2.0
/* The body of the BULK command, and the versions it begins with. */
#include "proto/bulk.h"
#include "proto/wire.h"
#include "proto/wire_text.h"

#include <stdlib.h>
#include <string.h>

void bulk_request_clear(struct bulk_request *r)
{
	free(r->base);
	for (uint32_t i = 0; r->sources && i < r->nsources; i++)
		free(r->sources[i]);
	free(r->sources);
	explicit_bzero(r, sizeof(*r));
}

/* ---- writing ---- */

static void encode_request(struct wire_out *o, const void *msg)
{
	const struct bulk_request *r = msg;
	static const uint8_t no_key[sizeof(r->key)];

	out_u16(o, r->major);
	out_u16(o, r->minor);
	out_u8(o, r->op);
	out_u8(o, r->policy);
	out_u8(o, r->has_key);
	out_u8(o, 0);
	out_u32(o, r->flags);
	out_u64(o, r->rate);
	out_u64(o, r->bench_ns);
	out_u64(o, r->bench_bytes);
	out_bytes(o, r->nonce, sizeof(r->nonce));
	out_bytes(o, r->has_key ? r->key : no_key, sizeof(r->key));
	out_string(o, r->base ? r->base : "");
	out_u32(o, r->nsources);
	for (uint32_t i = 0; i < r->nsources; i++)
		out_string(o, r->sources[i]);
}

static bool request_fits(const struct bulk_request *r)
{
	if (r->op > BULK_BENCH_GET || r->policy > POLICY_SAME)
		return false;
	if (r->base && strlen(r->base) > BULK_PATH_MAX)
		return false;
	for (uint32_t i = 0; i < r->nsources; i++) {
		if (strlen(r->sources[i]) > BULK_PATH_MAX)
			return false;
	}
	return true;
}

int bulk_request_put(struct buf *b, const struct bulk_request *r)
{
	struct buf *whole CLEANUP_BUF = buf_new(BULK_REQUEST_MAX);
	int err;

	if (!whole)
		return -ENOMEM;
	if (!request_fits(r))
		return -EINVAL;
	err = wire_put(whole, encode_request, r);
	if (!err)
		err = offer_put(whole, &r->offer);
	return err ? err : buf_put(b, buf_ptr(whole), buf_len(whole));
}

/* ---- reading ---- */

static void decode_sources(struct wire_in *in, struct bulk_request *r)
{
	uint32_t n = in_u32(in);

	/* Each takes at least its length, so the list is never greater than what came. */
	if (in->bad || n > in->left / 4) {
		in->bad = true;
		return;
	}
	r->sources = calloc((size_t)n + 1, sizeof(*r->sources));
	if (!r->sources) {
		in->bad = in->no_memory = true;
		return;
	}
	while (r->nsources < n && !in->bad)
		r->sources[r->nsources++] = wire_path(in);
}

static void decode_request(struct wire_in *in, struct bulk_request *r)
{
	r->op = in_u8_max(in, BULK_BENCH_GET);
	r->policy = in_u8_max(in, POLICY_SAME);
	r->has_key = in_u8_max(in, 1);
	in_u8(in);
	r->flags = in_u32(in);
	r->rate = in_u64(in);
	r->bench_ns = in_u64(in);
	r->bench_bytes = in_u64(in);
	in_bytes(in, r->nonce, sizeof(r->nonce));
	in_bytes(in, r->key, sizeof(r->key));
	if (!r->has_key)
		explicit_bzero(r->key, sizeof(r->key));
	r->base = wire_path(in);
	decode_sources(in, r);
}

/* Nothing may follow a message, but what a later minor version adds. */
static int end_message(struct buf *b, uint16_t minor)
{
	if (buf_len(b) && minor <= BULK_MINOR)
		return -EBADMSG;
	return buf_skip(b, buf_len(b));
}

static int check_version(uint16_t major, uint16_t minor, struct err *e)
{
	if (major == BULK_MAJOR)
		return 0;
	return err_set(e, -EPROTO, "the other side speaks version %u.%u of the bulk protocol, "
		       "this side %u.%u: update the older one", major, minor, BULK_MAJOR,
		       BULK_MINOR);
}

int bulk_request_get(struct buf *b, struct bulk_request *r, struct err *e)
{
	struct wire_in in = wire_in_of(b);
	size_t start = buf_tell(b);
	int err;

	memset(r, 0, sizeof(*r));
	r->major = in_u16(&in);
	r->minor = in_u16(&in);
	if (!in.bad && check_version(r->major, r->minor, e) < 0) {
		bulk_request_clear(r);
		return -EPROTO;
	}
	decode_request(&in, r);
	err = wire_in_end(&in, b);
	if (!err)
		err = offer_get(b, &r->offer);
	if (!err)
		err = end_message(b, r->minor);
	if (!err)
		return 0;
	buf_seek(b, start);
	bulk_request_clear(r);
	return err_sys(e, err, "cannot take the bulk request");
}

/* ---- the server's answer ---- */

static void encode_agree_head(struct wire_out *o, const void *msg)
{
	const struct bulk_agree *a = msg;

	out_u16(o, a->major);
	out_u16(o, a->minor);
	out_u64(o, a->session);
	out_bytes(o, a->nonce, sizeof(a->nonce));
}

static void encode_ports(struct wire_out *o, const void *msg)
{
	const struct bulk_agree *a = msg;

	out_u32(o, a->nports);
	for (uint32_t i = 0; i < a->nports; i++) {
		size_t len = strnlen(a->ports[i].addr, sizeof(a->ports[i].addr) - 1);

		out_u16(o, a->ports[i].port);
		out_u8(o, (uint8_t)len);
		out_bytes(o, a->ports[i].addr, len);
	}
}

int bulk_agree_put(struct buf *b, const struct bulk_agree *a)
{
	struct buf *whole CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int err;

	if (!whole)
		return -ENOMEM;
	if (a->nports > NICS_MAX)
		return -EINVAL;
	err = wire_put(whole, encode_agree_head, a);
	if (!err)
		err = agreement_put(whole, &a->agreement);
	if (!err)
		err = offer_put(whole, &a->offer);
	if (!err)
		err = wire_put(whole, encode_ports, a);
	return err ? err : buf_put(b, buf_ptr(whole), buf_len(whole));
}

static void decode_port(struct wire_in *in, char *addr, size_t room, uint16_t *port)
{
	uint8_t len;

	*port = in_u16(in);
	len = in_u8_max(in, (uint8_t)(room - 1));
	in_bytes(in, addr, len);
	for (uint8_t i = 0; i < len; i++) {
		if (addr[i] <= ' ' || addr[i] > '~')
			in->bad = true;
	}
	if (!*port)
		in->bad = true;
}

static int decode_ports(struct buf *b, struct bulk_agree *a)
{
	struct wire_in in = wire_in_of(b);

	a->nports = in_u32(&in);
	if (a->nports > NICS_MAX)
		in.bad = true;
	for (uint32_t i = 0; i < a->nports && !in.bad; i++)
		decode_port(&in, a->ports[i].addr, sizeof(a->ports[i].addr), &a->ports[i].port);
	return wire_in_end(&in, b);
}

static int decode_agree(struct buf *b, struct bulk_agree *a, struct err *e)
{
	struct wire_in in = wire_in_of(b);
	int err;

	a->major = in_u16(&in);
	a->minor = in_u16(&in);
	if (!in.bad && check_version(a->major, a->minor, e) < 0)
		return -EPROTO;
	a->session = in_u64(&in);
	in_bytes(&in, a->nonce, sizeof(a->nonce));
	err = wire_in_end(&in, b);
	if (!err)
		err = agreement_get(b, &a->agreement);
	if (!err)
		err = offer_get(b, &a->offer);
	if (!err)
		err = decode_ports(b, a);
	if (!err)
		err = end_message(b, a->minor);
	return err ? err_sys(e, err, "cannot take the server's agreement") : 0;
}

int bulk_agree_get(struct buf *b, struct bulk_agree *a, struct err *e)
{
	size_t start = buf_tell(b);
	int err;

	memset(a, 0, sizeof(*a));
	err = decode_agree(b, a, e);
	if (err < 0) {
		buf_seek(b, start);
		memset(a, 0, sizeof(*a));
	}
	return err;
}
