// SPDX-License-Identifier: Apache-2.0
/* The version and the features of the bulk mode; the body of the BULK command and its answer. */
#include "proto/bulk.h"
#include "proto/wire.h"
#include "proto/wire_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- version and features ---- */

/* Names are for FEAT: letters, digits and "-". A name never changes its meaning. */
static const struct { uint32_t flag; const char *name; } features[] = {
	{ BULK_F_RECURSIVE, "recursive" },
	{ BULK_F_MODES, "modes" },
	{ BULK_F_TIMES, "times" },
	{ BULK_F_OWNER, "owner" },
	{ BULK_F_XATTRS, "xattrs" },
	{ BULK_F_FOLLOW, "follow" },
	{ BULK_F_INPLACE, "inplace" },
	{ BULK_F_SEVERAL, "several" },
	{ BULK_F_RESUME, "resume" },
	{ BULK_F_HARDLINKS, "hardlinks" },
	{ BULK_F_SPARSE, "sparse" },
	{ BULK_F_DRY_RUN, "dry-run" },
	{ BULK_F_MKDIRS, "mkdirs" },
	{ BULK_F_INTO, "into" },
	{ BULK_F_SEQUENTIAL, "sequential" },
	{ BULK_F_AGAIN, "again" },
};

enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* The names of these flags, between commas; bits without a name are left out. */
static size_t feature_names(char *text, size_t room, uint32_t flags)
{
	size_t n = 0;

	*text = '\0';
	for (size_t i = 0; i < FEATURES; i++)
		if (flags & features[i].flag)
			n += (size_t)snprintf(text + n, room - n, "%s%s", n ? "," : "",
					      features[i].name);
	return n;
}

const char *bulk_version_text(char text[BULK_VERSION_TEXT])
{
	int n = snprintf(text, BULK_VERSION_TEXT, "%d.%d ", BULK_MAJOR, BULK_MINOR);

	feature_names(text + n, BULK_VERSION_TEXT - (size_t)n, UINT32_MAX);
	return text;
}

static uint32_t feature_of(const char *name, size_t len)
{
	for (size_t i = 0; i < FEATURES; i++)
		if (strlen(features[i].name) == len && !memcmp(features[i].name, name, len))
			return features[i].flag;
	return 0;
}

int bulk_version_parse(const char *text, struct bulk_version *v)
{
	int used = 0;

	memset(v, 0, sizeof(*v));
	if (sscanf(text, "%4hu.%4hu%n", &v->major, &v->minor, &used) != 2 || !v->major) {
		memset(v, 0, sizeof(*v));
		return -EBADMSG;
	}
	for (const char *p = text + used; *p;) {
		size_t len;

		p += strspn(p, " ,");
		len = strcspn(p, " ,");
		v->features |= feature_of(p, len);
		p += len;
	}
	return 0;
}

static int other_version(uint16_t major, uint16_t minor, struct err *e)
{
	return err_set(e, -EPROTONOSUPPORT, "the other side speaks version %u.%u of the bulk "
		       "protocol, this side %u.%u: update the older one", major, minor, BULK_MAJOR,
		       BULK_MINOR);
}

int bulk_version_check(const struct bulk_version *v, uint32_t flags, struct err *e)
{
	uint32_t missing = flags & ~v->features;
	char names[BULK_VERSION_TEXT];

	if (v->major != BULK_MAJOR)
		return other_version(v->major, v->minor, e);
	if (!missing)
		return 0;
	feature_names(names, sizeof(names), missing);
	return err_set(e, -EPROTONOSUPPORT, "the server's bulk protocol %u.%u does not have: %s; "
		       "update rftpd there, or leave away the options that need it", v->major,
		       v->minor, names);
}

int bulk_accept(uint16_t major, uint16_t minor, uint32_t flags, struct err *e)
{
	uint32_t unknown = flags;

	if (major != BULK_MAJOR)
		return other_version(major, minor, e);
	for (size_t i = 0; i < FEATURES; i++)
		unknown &= ~features[i].flag;
	if (!unknown)
		return 0;
	return err_set(e, -EPROTONOSUPPORT, "the request needs features that this side's bulk "
		       "protocol %d.%d does not have (flags 0x%x): update this side", BULK_MAJOR,
		       BULK_MINOR, unknown);
}

/* ---- requests ---- */

void bulk_request_clear(struct bulk_request *r)
{
	free(r->base);
	for (uint32_t i = 0; r->sources && i < r->nsources; i++)
		free(r->sources[i]);
	free(r->sources);
	explicit_bzero(r, sizeof(*r));
}

void bulk_request_onward(const struct bulk_request *from, struct bulk_request *to)
{
	struct offer *o = &to->offer;

	memcpy(to, from, sizeof(*to));
	to->op = BULK_PUT;
	to->sources = NULL;
	to->nsources = 0;
	to->bench_ns = to->bench_bytes = 0;
	memset(to->nonce, 0, sizeof(to->nonce));
	to->has_key = false;
	memset(to->key, 0, sizeof(to->key));
	o->storage = 0;
	o->no_crc = false;
	o->cpus = 0;
	o->memory = o->locked = 0;
	o->block_max = 0;
	o->channels_max = 0;
	o->nnics = 0;
	memset(o->nics, 0, sizeof(o->nics));
	memset(o->host, 0, sizeof(o->host));
}

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

static bool is_known(const struct bulk_request *r)
{
	return r->op <= BULK_BENCH_GET && r->policy <= POLICY_SAME;
}

static bool request_fits(const struct bulk_request *r)
{
	if (!is_known(r))
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
	r->op = in_u8(in);
	r->policy = in_u8(in);
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


int bulk_request_get(struct buf *b, struct bulk_request *r, struct err *e)
{
	struct wire_in in = wire_in_of(b);
	size_t start = buf_tell(b);
	int err;

	memset(r, 0, sizeof(*r));
	r->major = in_u16(&in);
	r->minor = in_u16(&in);
	if (!in.bad && bulk_accept(r->major, r->minor, 0, e) < 0) {
		bulk_request_clear(r);
		return -EPROTONOSUPPORT;
	}
	decode_request(&in, r);
	err = wire_in_end(&in, b);
	/* Flags first: an operation or a policy of a later minor version comes with one. */
	if (!err && bulk_accept(r->major, r->minor, r->flags, e) < 0) {
		buf_seek(b, start);
		bulk_request_clear(r);
		return -EPROTONOSUPPORT;
	}
	if (!err && !is_known(r))
		err = -EBADMSG;
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
	if (!in.bad && bulk_accept(a->major, a->minor, 0, e) < 0)
		return -EPROTONOSUPPORT;
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
