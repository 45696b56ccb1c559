// SPDX-License-Identifier: Apache-2.0
/* Codec of the messages of copies between two servers. */
#include "proto/third.h"

#include "proto/wire.h"

static void wire_pin(struct wire *w, void *pin)
{
	wire_short(w, pin, THIRD_PIN_MAX + 1);
	if (w->get && !*(char *)pin)
		w->bad = true;
}

/* ---- GIVE ---- */

void third_give_clear(struct third_give *g)
{
	bulk_request_clear(&g->request);
}

static void give_head(struct wire *w, struct third_give *g)
{
	wire_number(w, &g->flags);
	wire_number(w, &g->connect_ms);
}

static void wire_give(struct wire *w, void *msg)
{
	struct third_give *g = msg;

	give_head(w, g);
	wire_request(w, &g->request);
}

int third_give_put(struct buf *b, const struct third_give *g)
{
	return wire_put(b, wire_give, g);
}

int third_give_get(struct buf *b, struct third_give *g, struct err *e)
{
	struct wire w = wire_of(b);
	int r;

	memset(g, 0, sizeof(*g));
	give_head(&w, g);
	if (g->connect_ms > THIRD_CONNECT_MS_MAX)
		w.bad = true;
	r = wire_request_get(&w, &g->request, e);
	if (!r && (g->request.op != BULK_PUT || !g->request.nsources))
		r = -EBADMSG;
	if (!r)
		return wire_end(&w, b, g, sizeof(*g));
	third_give_clear(g);
	memset(g, 0, sizeof(*g));
	return r == -EPROTONOSUPPORT ? r : request_malformed(e, r);
}

/* ---- TAKE ---- */

void third_take_clear(struct third_take *t)
{
	free(t->base);
	free(t->sync.trash);
	filter_clear(&t->filter);
	t->base = t->sync.trash = NULL;
}

static void take_body(struct wire *w, struct third_take *t)
{
	wire_upto(w, &t->prot_min, PROT_PRIVATE);
	wire_number(w, &t->policy);
	wire_number(w, &t->request_flags);
	wire_number(w, &t->seconds);
	wire_pin(w, t->pin);
	wire_path(w, &t->base);
	if (t->request_flags & BULK_F_SYNC)
		wire_sync(w, &t->sync);
	if (t->request_flags & BULK_F_FILTER)
		wire_filter(w, &t->filter);
}

static void wire_take(struct wire *w, void *msg)
{
	uint16_t major = BULK_MAJOR, minor = BULK_MINOR;

	wire_number(w, &major);
	wire_number(w, &minor);
	take_body(w, msg);
}

int third_take_put(struct buf *b, const struct third_take *t)
{
	return wire_put(b, wire_take, t);
}

int third_take_get(struct buf *b, struct third_take *t, struct err *e)
{
	struct wire w = wire_of(b);
	uint16_t major, minor;
	bool versioned;
	int r;

	memset(t, 0, sizeof(*t));
	wire_number(&w, &major);
	wire_number(&w, &minor);
	versioned = !w.bad;
	take_body(&w, t);
	wire_rest(&w, minor);

	r = versioned ? bulk_accept(major, minor, w.bad ? 0 : t->request_flags, e) : 0;
	if (!r && (w.bad || t->policy >= POLICIES))
		r = w.no_memory ? -ENOMEM : -EBADMSG;
	if (!r)
		return wire_end(&w, b, t, sizeof(*t));
	third_take_clear(t);
	memset(t, 0, sizeof(*t));
	return r == -EPROTONOSUPPORT ? r : request_malformed(e, r);
}

/* ---- keys and doors ---- */

int third_key_put(struct buf *b, const char *pin)
{
	return wire_put(b, wire_pin, pin);
}

int third_key_get(struct buf *b, char pin[THIRD_PIN_MAX + 1])
{
	return wire_get(b, wire_pin, pin, THIRD_PIN_MAX + 1);
}

static void wire_door(struct wire *w, void *msg)
{
	struct third_door *d = msg;
	uint8_t n = (uint8_t)d->naddrs;

	wire_number(w, &d->port);
	wire_number(w, &d->seconds);
	wire_pin(w, d->pin);
	wire_bytes(w, d->token, sizeof(d->token));
	wire_upto(w, &n, THIRD_ADDRESSES);
	for (uint8_t i = 0; i < n && !w->bad; i++) {
		wire_short(w, d->addrs[i], sizeof(d->addrs[i]));
		if (w->get && !d->addrs[i][0])
			w->bad = true;
	}
	if (w->get) {
		d->naddrs = n;
		w->bad |= d->port < THIRD_PORT_LEAST;
	}
}

int third_door_put(struct buf *b, const struct third_door *d)
{
	return d->naddrs > THIRD_ADDRESSES ? -EINVAL : wire_put(b, wire_door, d);
}

int third_door_get(struct buf *b, struct third_door *d)
{
	return wire_get(b, wire_door, d, sizeof(*d));
}

/* ---- progress and files ---- */

const char *stage_name(enum stage_of_transfer s)
{
	static const char *const names[] = {
		"names", "source storage", "source CPU", "credits", "network", "sink CPU",
		"sink storage", "rate",
	};

	return names[s];
}

enum stage_of_transfer stage_slowest(const uint64_t ns[STAGES], unsigned *percent)
{
	enum stage_of_transfer most = 0;
	double sum = 0;

	for (int i = 0; i < STAGES; i++) {
		sum += (double)ns[i];
		if (ns[i] > ns[most])
			most = i;
	}
	*percent = sum > 0 ? (unsigned)((double)ns[most] * 100 / sum + 0.5) : 0;
	return sum > 0 ? most : STAGES;
}

#define FIELD(member) WIRE_FIELD(struct transfer_progress, member, WIRE_ANY)
static const struct wire_field progress[] = {
	FIELD(entries), FIELD(files_done), FIELD(files_failed), FIELD(files_skipped),
	FIELD(bytes), FIELD(bytes_kept), FIELD(bytes_known),
	FIELD(ns),
};
#undef FIELD

struct progress_message {
	struct transfer_progress p;
	char words[THIRD_WORDS_MAX + 1]; /* its bottleneck */
};

static void wire_progress(struct wire *w, void *msg)
{
	struct progress_message *m = msg;
	const uint8_t *words = (const uint8_t *)m->words;
	uint8_t len = (uint8_t)strlen(m->words);

	wire_fields(w, &m->p, progress);
	wire_bool(w, &m->p.walked);
	wire_upto(w, &len, THIRD_WORDS_MAX);
	wire_block(w, &words, len);
	if (w->get && words)
		wire_clean(m->words, sizeof(m->words), words, len);
	if (!w->get || w->n) /* from version 2.3 on */
		wire_number(w, &m->p.share);
}

int third_progress_put(struct buf *b, const struct transfer_progress *p)
{
	struct progress_message m = { .p = *p };

	snprintf(m.words, sizeof(m.words), "%s", p->bottleneck ? p->bottleneck : "");
	return wire_put(b, wire_progress, &m);
}

int third_progress_get(struct buf *b, struct transfer_progress *p, char text[THIRD_WORDS_MAX + 1])
{
	struct progress_message m;
	int r = wire_get(b, wire_progress, &m, sizeof(m));

	*p = m.p;
	memcpy(text, m.words, sizeof(m.words));
	p->bottleneck = *text ? text : NULL;
	return r;
}

bool report_path_is_directory(const char *path)
{
	return *path && path[strlen(path) - 1] == '/';
}

void third_file_clear(struct third_file *f)
{
	free(f->path);
	free(f->rel);
	f->path = f->rel = NULL;
}

static void wire_file(struct wire *w, void *msg)
{
	struct third_file *f = msg;

	wire_errno(w, &f->code, true);
	wire_upto(w, &f->end, FILE_REMOVED);
	wire_number(w, &f->bytes);
	wire_path(w, &f->path);
	wire_text(w, f->text, sizeof(f->text));
	if (w->get ? w->n : f->rel != NULL) {
		wire_number(w, &f->mtime_s);
		wire_number(w, &f->mtime_ns);
		wire_path(w, &f->rel);
	}
	if (w->get && w->bad)
		third_file_clear(f);
}

int third_file_put(struct buf *b, const struct third_file *f)
{
	char *path CLEANUP_FREE = strndup(f->path, BULK_PATH_MAX); /* a long one is cut */
	struct third_file cut = *f;

	cut.path = path;
	return path ? wire_put(b, wire_file, &cut) : -ENOMEM;
}

int third_file_get(struct buf *b, struct third_file *f)
{
	return wire_get(b, wire_file, f, sizeof(*f));
}

/* ---- results ---- */

#define FIELD(member) WIRE_FIELD(struct transfer_result, member, WIRE_ANY)
static const struct wire_field result_numbers[] = {
	FIELD(wall_ns), FIELD(files), FIELD(failed), FIELD(skipped), FIELD(bytes),
	FIELD(resumed), FIELD(rtt_ns), FIELD(channels_lost), FIELD(nchannels),
};
#undef FIELD

#define FIELD(member) WIRE_FIELD(struct transfer_result, member, WIRE_ANY)
static const struct wire_field result_of_sync[] = {
	FIELD(corrected), FIELD(removed), FIELD(removed_bytes), FIELD(in_the_way),
	FIELD(stages[0]), FIELD(stages[1]), FIELD(stages[2]), FIELD(stages[3]),
	FIELD(stages[4]), FIELD(stages[5]), FIELD(stages[6]), FIELD(stages[7]),
};
_Static_assert(STAGES == 8, "as result_of_sync");
#undef FIELD

static void wire_result(struct wire *w, void *msg)
{
	struct third_result *r = msg;
	bool any = r->of.corrected || r->of.removed || r->of.in_the_way;

	wire_errno(w, &r->code, true);
	wire_upto(w, &r->where, THIRD_CLIENT);
	wire_bool(w, &r->agreed);
	wire_bool(w, &r->of.fell_back);
	wire_text(w, r->text, sizeof(r->text));
	if (r->agreed)
		wire_agreement(w, &r->of.agreement);
	wire_counts(w, &r->of.local);
	wire_counts(w, &r->of.remote);

	wire_fields(w, &r->of, result_numbers);
	if (r->of.nchannels > CHANNELS_MAX)
		w->bad = true;
	for (uint32_t i = 0; i < r->of.nchannels && !w->bad; i++)
		wire_number(w, &r->of.channel_bytes[i]);
	if (w->get && !w->n) /* version 2.0 */
		return;
	wire_number(w, &r->of.touched);
	wire_bool(w, &r->of.resumable);
	for (int i = 0; i < STAGES; i++)
		any |= r->of.stages[i] != 0;
	if (w->get ? w->n : any)
		wire_fields(w, &r->of, result_of_sync);
}

int third_result_put(struct buf *b, const struct third_result *r)
{
	return wire_put(b, wire_result, r);
}

int third_result_get(struct buf *b, struct third_result *r)
{
	return wire_get(b, wire_result, r, sizeof(*r));
}
