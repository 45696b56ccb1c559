// SPDX-License-Identifier: Apache-2.0
/* The messages that set up a transfer: version and features of the bulk mode, offers and
 * agreements, the body of the BULK command and the server's answer. */
#include "proto/bulk.h"
#include "proto/wire.h"

#define OFFER_BYTES_MAX 65536u /* of an encoded offer, with the fields that later versions append */

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
	{ BULK_F_FILTER, "filter" },
	{ BULK_F_CHECKSUM, "checksum" },
	{ BULK_F_ARCHIVE, "archive" },
	{ BULK_F_SYNC, "sync" },
	{ BULK_F_SUMS, "sums" },
	{ BULK_F_RANGES, "ranges" },
};

enum { FEATURES = sizeof(features) / sizeof(features[0]) };

/* Write the names of these flags, separated by commas, to text. Flags without a name are left out.
 * Returns the length of text. */
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
		       "update rftpd there, or omit the options that need it", v->major,
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

/* ---- offers ----
 *
 * A length precedes each offer and agreement, so that a later minor version can append to them. */

enum { NIC_F_RDMA = 1, NIC_F_CONTROL = 2, NIC_F_NAMED = 4, NIC_F_NEAR = 8 };

static void wire_nic(struct wire *w, struct nic_offer *n)
{
	uint8_t flags = (uint8_t)(n->rdma * NIC_F_RDMA | n->control * NIC_F_CONTROL |
				  n->named * NIC_F_NAMED | n->near * NIC_F_NEAR);

	wire_number(w, &n->mbps);
	wire_number(w, &n->node);
	wire_number(w, &flags); /* a later version may set more flags */
	wire_upto(w, &n->prefix, 128);
	wire_short(w, n->name, sizeof(n->name));
	wire_short(w, n->addr, sizeof(n->addr));
	if (!w->get)
		return;
	n->rdma = flags & NIC_F_RDMA;
	n->control = flags & NIC_F_CONTROL;
	n->named = flags & NIC_F_NAMED;
	n->near = flags & NIC_F_NEAR;
}

#define FIELD(member, most) WIRE_FIELD(struct offer, member, most)
static const struct wire_field offer_fields[] = {
	FIELD(transports, WIRE_ANY), FIELD(ops, WIRE_ANY), FIELD(prot_min, PROT_PRIVATE),
	FIELD(ack, ACK_VERIFIED), FIELD(storage, WIRE_ANY), FIELD(no_crc, 1),
	FIELD(cpus, WIRE_ANY), FIELD(memory, WIRE_ANY), FIELD(block, WIRE_ANY),
	FIELD(block_max, WIRE_ANY), FIELD(channels, WIRE_ANY), FIELD(channels_max, WIRE_ANY),
	FIELD(inflight, WIRE_ANY), FIELD(rtt_ns, WIRE_ANY), FIELD(locked, WIRE_ANY),
	FIELD(nnics, WIRE_ANY),
};
#undef FIELD

/* The members after the cards are optional: those that are zero at the end are left out. */
static void offer_body(struct wire *w, void *msg)
{
	static const uint8_t no_host[HOST_ID_BYTES];
	struct offer *o = msg;
	uint8_t little = o->little;
	bool more = little || o->channels_more;

	wire_fields(w, o, offer_fields);
	if (o->nnics > NICS_MAX)
		w->bad = true;
	for (uint32_t i = 0; !w->bad && i < o->nnics; i++)
		wire_nic(w, &o->nics[i]);

	if (w->get ? !w->bad && w->n >= sizeof(o->host) :
		     more || memcmp(o->host, no_host, sizeof(no_host)))
		wire_bytes(w, o->host, sizeof(o->host));
	else
		return;
	if (w->get ? w->n >= sizeof(o->channels_more) : more)
		wire_number(w, &o->channels_more);
	else
		return;
	if (w->get ? w->n > 0 : little)
		wire_number(w, &little);
	if (w->get)
		o->little = little & 1;
}

void wire_offer(struct wire *w, void *msg)
{
	wire_nested(w, offer_body, msg, OFFER_BYTES_MAX);
}

int offer_put(struct buf *b, const struct offer *o)
{
	return wire_put(b, wire_offer, o);
}

int offer_get(struct buf *b, struct offer *o)
{
	return wire_get(b, wire_offer, o, sizeof(*o));
}

/* ---- agreements ---- */

#define FIELD(member, most) WIRE_FIELD(struct agreement, member, most)
static const struct wire_field agreement_fields[] = {
	FIELD(transport, WIRE_ANY), FIELD(op, WIRE_ANY), FIELD(prot, PROT_PRIVATE),
	FIELD(ack, ACK_VERIFIED), FIELD(crc, 1), FIELD(sink_keeps, WIRE_LOW_BIT),
	FIELD(paths, WIRE_ANY), FIELD(channels, WIRE_ANY), FIELD(channels_first, WIRE_ANY),
	FIELD(block, WIRE_ANY), FIELD(inflight, WIRE_ANY), FIELD(source_blocks, WIRE_ANY),
	FIELD(sink_blocks, WIRE_ANY), FIELD(entries_ahead, WIRE_ANY),
};
#undef FIELD

static void agreement_body(struct wire *w, void *msg)
{
	struct agreement *a = msg, sent = *a;

	if (sent.channels_first == sent.channels)
		sent.channels_first = 0;
	wire_fields(w, w->get ? a : &sent, agreement_fields);
	if (w->get && !a->channels_first)
		a->channels_first = a->channels;
}

void wire_agreement(struct wire *w, void *msg)
{
	wire_nested(w, agreement_body, msg, OFFER_BYTES_MAX);
}

int agreement_put(struct buf *b, const struct agreement *a)
{
	return wire_put(b, wire_agreement, a);
}

int agreement_get(struct buf *b, struct agreement *a)
{
	return wire_get(b, wire_agreement, a, sizeof(*a));
}

/* ---- requests ---- */

void bulk_request_clear(struct bulk_request *r)
{
	free(r->base);
	for (uint32_t i = 0; r->sources && i < r->nsources; i++)
		free(r->sources[i]);
	free(r->sources);
	free(r->pieces);
	filter_clear(&r->filter);
	free(r->sync.trash);
	explicit_bzero(r, sizeof(*r));
}

void bulk_request_onward(const struct bulk_request *from, struct bulk_request *to)
{
	struct offer *o = &to->offer;

	memcpy(to, from, sizeof(*to));
	to->op = BULK_PUT;
	to->flags &= ~(uint32_t)BULK_F_SUMS;
	if (!(to->flags & BULK_F_SYNC))
		to->flags &= ~(uint32_t)BULK_F_FILTER;
	to->sources = NULL;
	to->nsources = 0;
	to->pieces = NULL;
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

static void wire_sources(struct wire *w, struct bulk_request *r)
{
	uint32_t n = r->nsources;

	wire_number(w, &n);
	if (w->get) {
		/* Each source takes at least the 4 bytes of its length, so the allocated memory is
		 * limited by the bytes that the peer has sent. */
		if (w->bad || n > w->n / 4) {
			w->bad = true;
			return;
		}
		r->sources = calloc((size_t)n + 1, sizeof(*r->sources));
		if (!r->sources) {
			w->bad = w->no_memory = true;
			return;
		}
	}

	for (uint32_t i = 0; !w->bad && i < n; i++) {
		if (w->get)
			r->nsources = i + 1;
		wire_path(w, &r->sources[i]);
	}
}

static void wire_rule(struct wire *w, struct filter *f, size_t i)
{
	struct err ignored = ERR_INIT;
	bool include = false;
	char *pattern = NULL;

	if (!w->get)
		pattern = (char *)(uintptr_t)filter_pattern(f, i, &include);
	wire_bool(w, &include);
	wire_path(w, &pattern);
	if (!w->get)
		return;
	if (!w->bad && filter_add(f, include, pattern, &ignored)) {
		w->no_memory |= ignored.code == -ENOMEM;
		w->bad = true;
	}
	free(pattern);
}

static void filter_body(struct wire *w, void *msg)
{
	struct filter *f = msg;
	uint32_t n = (uint32_t)f->n;

	wire_number(w, &f->size_least);
	wire_number(w, &f->size_most);
	wire_number(w, &f->newer_s);
	wire_bool(w, &f->one_filesystem);
	wire_count(w, &n, FILTER_RULES_MAX);
	for (size_t i = 0; !w->bad && i < n; i++)
		wire_rule(w, f, i);
}

/* A length precedes the filter, so that a later minor version can append to it. */
void wire_filter(struct wire *w, void *msg)
{
	wire_nested(w, filter_body, msg, BULK_FILTER_MAX);
}

static void sync_body(struct wire *w, void *msg)
{
	struct bulk_sync *s = msg;
	char *trash = s->trash ? s->trash : (char *)"";

	wire_number(w, &s->flags);
	wire_number(w, &s->most);
	wire_path(w, w->get ? &s->trash : &trash);
}

void wire_sync(struct wire *w, void *msg)
{
	wire_nested(w, sync_body, msg, BULK_PATH_MAX + 64);
}

static void wire_pieces(struct wire *w, struct bulk_request *r)
{
	if (w->get && !w->bad) {
		r->pieces = calloc((size_t)r->nsources + 1, sizeof(*r->pieces));
		w->bad = w->no_memory = !r->pieces;
	}
	for (uint32_t i = 0; !w->bad && i < r->nsources; i++) {
		struct bulk_piece *p = &r->pieces[i];

		wire_number(w, &p->range.offset);
		wire_number(w, &p->range.length);
		wire_bool(w, &p->dated);
		if (!p->dated)
			continue;
		wire_number(w, &p->size);
		wire_number(w, &p->mtime_s);
		wire_number(w, &p->mtime_ns);
	}
}

/* The parts that depend on flags. */
static void request_options(struct wire *w, struct bulk_request *r)
{
	if (r->flags & BULK_F_FILTER)
		wire_filter(w, &r->filter);
	if (r->flags & BULK_F_SYNC)
		wire_sync(w, &r->sync);
	if (r->flags & BULK_F_SUMS)
		wire_short(w, r->sum, sizeof(r->sum));
	if (r->flags & BULK_F_RANGES)
		wire_bytes(w, r->set.id, sizeof(r->set.id));
	if ((r->flags & BULK_F_RANGES) && r->op == BULK_GET)
		wire_pieces(w, r);
}

#define FIELD(member) WIRE_FIELD(struct bulk_request, member, WIRE_ANY)
static const struct wire_field request_fields[] = {
	FIELD(flags), FIELD(rate), FIELD(bench_ns), FIELD(bench_bytes), FIELD(nonce),
};
#undef FIELD

/* All between the version and the offer. */
static void request_body(struct wire *w, struct bulk_request *r)
{
	uint8_t zero = 0, no_key[sizeof(r->key)] = { 0 };
	char *base = r->base ? r->base : (char *)"";

	wire_number(w, &r->op);
	wire_number(w, &r->policy);
	wire_bool(w, &r->has_key);
	wire_number(w, &zero);
	wire_fields(w, r, request_fields);
	wire_bytes(w, w->get || r->has_key ? r->key : no_key, sizeof(r->key));
	if (!r->has_key && w->get)
		explicit_bzero(r->key, sizeof(r->key));
	wire_path(w, w->get ? &r->base : &base);
	wire_sources(w, r);
}

void wire_request(struct wire *w, void *msg)
{
	struct bulk_request *r = msg;

	wire_number(w, &r->major);
	wire_number(w, &r->minor);
	request_body(w, r);
	wire_offer(w, &r->offer);
	request_options(w, r);
}

static bool is_known(const struct bulk_request *r)
{
	return r->op <= BULK_BENCH_GET && r->policy < POLICIES;
}

int bulk_request_put(struct buf *b, const struct bulk_request *r)
{
	struct wire count = { 0 };

	if (!is_known(r))
		return -EINVAL;
	wire_request(&count, (void *)(uintptr_t)r);
	return count.n > BULK_REQUEST_MAX ? -ENOBUFS : wire_put(b, wire_request, r);
}

int wire_request_get(struct wire *w, struct bulk_request *r, struct err *e)
{
	wire_number(w, &r->major);
	wire_number(w, &r->minor);
	if (!w->bad && bulk_accept(r->major, r->minor, 0, e) < 0)
		return -EPROTONOSUPPORT;
	request_body(w, r);

	/* Check the flags first: a new operation or policy of a later minor version has a flag. */
	if (!w->bad && bulk_accept(r->major, r->minor, r->flags, e) < 0)
		return -EPROTONOSUPPORT;
	if (!is_known(r))
		w->bad = true;
	wire_offer(w, &r->offer);
	request_options(w, r);
	wire_rest(w, r->minor);
	return w->no_memory ? -ENOMEM : w->bad ? -EBADMSG : 0;
}

int request_malformed(struct err *e, int code)
{
	return err_sys(e, code, "cannot decode the request");
}

int bulk_request_get(struct buf *b, struct bulk_request *r, struct err *e)
{
	struct wire w = wire_of(b);
	int rc;

	memset(r, 0, sizeof(*r));
	rc = wire_request_get(&w, r, e);
	if (!rc)
		return wire_end(&w, b, r, sizeof(*r));
	bulk_request_clear(r);
	return rc == -EPROTONOSUPPORT ? rc : request_malformed(e, rc);
}

/* ---- the server's answer ---- */

/* All after the version. */
static void agree_body(struct wire *w, struct bulk_agree *a)
{
	wire_number(w, &a->session);
	wire_bytes(w, a->nonce, sizeof(a->nonce));
	wire_agreement(w, &a->agreement);
	wire_offer(w, &a->offer);
	wire_count(w, &a->nports, NICS_MAX);
	for (uint32_t i = 0; i < a->nports && !w->bad; i++) {
		wire_number(w, &a->ports[i].port);
		wire_short(w, a->ports[i].addr, sizeof(a->ports[i].addr));
		if (w->get && !a->ports[i].port)
			w->bad = true;
	}
}

static void wire_agree(struct wire *w, void *msg)
{
	struct bulk_agree *a = msg;

	wire_number(w, &a->major);
	wire_number(w, &a->minor);
	agree_body(w, a);
}

int bulk_agree_put(struct buf *b, const struct bulk_agree *a)
{
	return wire_put(b, wire_agree, a);
}

int bulk_agree_get(struct buf *b, struct bulk_agree *a, struct err *e)
{
	struct wire w = wire_of(b);
	int r;

	memset(a, 0, sizeof(*a));
	wire_number(&w, &a->major);
	wire_number(&w, &a->minor);
	if (!w.bad && bulk_accept(a->major, a->minor, 0, e) < 0) {
		memset(a, 0, sizeof(*a));
		return -EPROTONOSUPPORT;
	}
	agree_body(&w, a);
	wire_rest(&w, a->minor);
	r = wire_end(&w, b, a, sizeof(*a));
	return r ? err_sys(e, r, "cannot decode the server's agreement") : 0;
}
