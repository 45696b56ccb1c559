// SPDX-License-Identifier: Apache-2.0
/* The bytes on a data channel other than blocks: the hello, and sealed messages such as lists of
 * credits. The records of credits: a hash of unacknowledged blocks, and a queue of answers for each
 * channel. */
#include "transport/credit.h"

/* ---- source: unacknowledged blocks ---- */

/* A hash by number; the blocks of a slot are linked by next. */
struct unacked {
	uint32_t max, count;
	uint32_t mask;
	struct block *slots[];
};

struct unacked *unacked_new(uint32_t max)
{
	struct unacked *u;
	uint64_t slots = 16;

	while (slots < max)
		slots *= 2;
	u = calloc(1, sizeof(*u) + slots * sizeof(u->slots[0]));
	if (!u)
		return NULL;
	u->max = max;
	u->mask = (uint32_t)(slots - 1);
	return u;
}

void unacked_free(struct unacked *u)
{
	free(u);
}

/* The place that points to the block with this number, or the end of its slot's list. */
static struct block **unacked_slot(struct unacked *u, uint64_t number)
{
	struct block **at = &u->slots[(number * 0x9e3779b97f4a7c15u >> 32) & u->mask];

	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

int unacked_add(struct unacked *u, struct block *b)
{
	struct block **at = unacked_slot(u, b->number);

	if (u->count >= u->max)
		return -EAGAIN;
	if (*at)
		return -EEXIST;
	b->next = NULL;
	*at = b;
	u->count++;
	return 0;
}

struct block *unacked_find(struct unacked *u, uint64_t number)
{
	return *unacked_slot(u, number);
}

struct block *unacked_take(struct unacked *u, uint64_t number)
{
	struct block **at = unacked_slot(u, number), *b = *at;

	if (!b)
		return NULL;
	*at = b->next;
	b->next = NULL;
	u->count--;
	return b;
}

void unacked_return(struct unacked *u, struct path *p, uint32_t channel)
{
	for (uint32_t i = 0; i <= u->mask; i++) {
		struct block **at = &u->slots[i];

		while (*at) {
			struct block *b = *at;

			if (b->channel != channel) {
				at = &b->next;
				continue;
			}
			*at = b->next;
			u->count--;
			path_add_block(p, PATH_RETURNED, b, 0);
		}
	}
}

uint32_t unacked_count(const struct unacked *u)
{
	return u->count;
}

/* ---- sink: answers ---- */

/* The answers of a channel wait in a ring of max places. An empty ring restarts at place 0, so most
 * of the memory is never touched. */
struct box_channel {
	bool closed;
	uint32_t unanswered; /* arriving, with the writer, or waiting to be sent */
	uint32_t pending;    /* the part of them that waits to be sent */
	uint32_t first;      /* of the pending ones */
	struct credit *answers;
};

struct credit_box {
	uint32_t max;        /* unanswered on each channel */
	struct credit *answers;
	struct box_channel ch[];
};

struct credit_box *credit_box_new(uint32_t channels, uint32_t max)
{
	struct credit_box *x = calloc(1, sizeof(*x) + channels * sizeof(x->ch[0]));
	uint64_t n = (uint64_t)channels * max;

	if (!x)
		return NULL;
	x->max = max;
	x->answers = calloc(n ? n : 1, sizeof(*x->answers));
	if (!x->answers) {
		free(x);
		return NULL;
	}

	for (uint32_t i = 0; i < channels; i++)
		x->ch[i].answers = x->answers + (size_t)i * max;
	return x;
}

void credit_box_free(struct credit_box *x)
{
	if (!x)
		return;
	free(x->answers);
	free(x);
}

int credit_box_open(struct credit_box *x, uint32_t channel)
{
	if (x->ch[channel].unanswered >= x->max)
		return -EPROTO;
	x->ch[channel].unanswered++;
	return 0;
}

int credit_box_add(struct credit_box *x, uint32_t channel, const struct credit *c)
{
	struct box_channel *ch = &x->ch[channel];

	if (ch->closed)
		return -EPIPE;
	if (ch->pending >= ch->unanswered)
		return -EINVAL;
	ch->answers[(ch->first + ch->pending++) % x->max] = *c;
	return 0;
}

uint32_t credit_box_take(struct credit_box *x, uint32_t channel, struct credit *out, uint32_t max)
{
	struct box_channel *ch = &x->ch[channel];
	uint32_t n = ch->pending < max ? ch->pending : max;

	for (uint32_t i = 0; i < n; i++)
		out[i] = ch->answers[(ch->first + i) % x->max];
	ch->pending -= n;
	ch->unanswered -= n;
	ch->first = ch->pending ? (ch->first + n) % x->max : 0;
	return n;
}

uint32_t credit_box_pending(const struct credit_box *x, uint32_t channel)
{
	return x->ch[channel].pending;
}

uint32_t credit_box_unanswered(const struct credit_box *x, uint32_t channel)
{
	return x->ch[channel].unanswered;
}

void credit_box_close(struct credit_box *x, uint32_t channel)
{
	x->ch[channel].pending = x->ch[channel].unanswered = 0;
	x->ch[channel].closed = true;
}

/* ---- hello ---- */

static int hello_proof(uint8_t proof[MAC_BYTES], bool server, const struct channel_auth *a,
		       uint16_t channel, uint32_t key)
{
	const char *label = server ? "rftp server channel" : "rftp client channel";
	uint8_t number[14];
	const struct iovec iov[] = {
		{ .iov_base = (void *)label, .iov_len = strlen(label) },
		{ .iov_base = (void *)a->client_nonce, .iov_len = NONCE_BYTES },
		{ .iov_base = (void *)a->server_nonce, .iov_len = NONCE_BYTES },
		{ .iov_base = number, .iov_len = sizeof(number) },
	};

	put_be64(number, a->session);
	put_be16(number + 8, channel);
	put_be32(number + 10, key);
	return crypto_hmac(proof, a->token, sizeof(a->token), iov, 4);
}

int channel_hello_put(uint8_t p[HELLO_BYTES], bool server, const struct channel_auth *a,
		      uint16_t channel, uint32_t key)
{
	struct channel_hello h = { .major = BULK_MAJOR, .channel = channel,
				   .session = a->session, .key = key };
	int r = hello_proof(h.proof, server, a, channel, key);

	if (r < 0)
		return r;
	hello_put(p, &h);
	return 0;
}

const char *channel_hello_check(const uint8_t p[HELLO_BYTES], bool server,
				const struct channel_auth *a, uint16_t *channel, uint32_t *key)
{
	struct channel_hello h;
	uint8_t proof[MAC_BYTES];
	int r = hello_get(p, &h);

	if (r == -EPROTO)
		return "it speaks another version of this protocol";
	if (r < 0)
		return PROTOCOL_WHY;
	if (h.session != a->session)
		return "it belongs to another session";
	if (hello_proof(proof, server, a, h.channel, h.key) < 0)
		return "its proof cannot be computed";
	if (!crypto_equal(proof, h.proof, sizeof(proof)))
		return "its proof is wrong";
	*channel = h.channel;
	*key = h.key;
	return NULL;
}

/* ---- sealed messages ---- */

/* The nonce is the channel and the sequence: one key serves all channels of a direction. */
#define SEQUENCE_BITS 48

int messages_open(struct messages *m, const uint8_t *key, uint16_t channel)
{
	*m = (struct messages){ .channel = channel };
	if (!key)
		return 0;
	m->sealer = sealer_new(key);
	return m->sealer ? 0 : -ENOMEM;
}

void messages_close(struct messages *m)
{
	sealer_free(m->sealer);
	m->sealer = NULL;
}

static uint64_t message_nonce(const struct messages *m)
{
	return (uint64_t)m->channel << SEQUENCE_BITS | m->next;
}

static void message_crc(uint8_t tag[MESSAGE_TAG], const uint8_t *p, size_t len)
{
	memset(tag, 0, MESSAGE_TAG);
	put_be32(tag, crypto_crc32c(0, p, len));
}

int message_seal(struct messages *m, uint8_t *p, uint32_t magic, uint32_t count, size_t len)
{
	const struct message_head h = { m->channel, (uint16_t)count, m->next };
	const struct iovec all = { .iov_base = p, .iov_len = MESSAGE_HEAD + len };
	uint8_t *tag = p + MESSAGE_HEAD + len;
	int r = 0;

	if (m->next >> SEQUENCE_BITS)
		return -EIO;
	message_head_put(p, magic, &h);
	if (m->sealer)
		r = sealer_seal(m->sealer, message_nonce(m), &all, 1, NULL, NULL, 0, tag);
	else
		message_crc(tag, p, all.iov_len);
	m->next++;
	return r;
}

int message_check(struct messages *m, const uint8_t *p, size_t len, uint32_t magic,
		  size_t item, uint32_t max, uint32_t *count)
{
	struct message_head h;
	struct iovec all = { .iov_base = (void *)p, .iov_len = len - MESSAGE_TAG };
	uint8_t tag[MESSAGE_TAG];
	int r = len < MESSAGE_HEAD ? -EBADMSG : message_head_get(p, magic, max, &h);

	*count = 0;
	if (r || len != MESSAGE_HEAD + h.count * item + MESSAGE_TAG ||
	    h.channel != m->channel || h.sequence != m->next)
		return -EBADMSG;

	if (m->sealer) {
		r = sealer_open(m->sealer, message_nonce(m), &all, 1, NULL, NULL, 0,
				p + all.iov_len);
	} else {
		message_crc(tag, p, all.iov_len);
		r = memcmp(tag, p + all.iov_len, MESSAGE_TAG) ? -EBADMSG : 0;
	}
	if (r)
		return r;
	m->next++;
	*count = h.count;
	return 0;
}

/* ---- lists of credits ---- */

int credit_list_put(struct messages *m, uint8_t *p, const struct credit *c, uint32_t n,
		    size_t *size)
{
	for (uint32_t i = 0; i < n; i++)
		credit_put(p + MESSAGE_HEAD + i * CREDIT_BYTES, &c[i]);
	*size = MESSAGE_HEAD + (size_t)n * CREDIT_BYTES + MESSAGE_TAG;
	return message_seal(m, p, CREDIT_MAGIC, n, (size_t)n * CREDIT_BYTES);
}

int credit_list_peek(const uint8_t *p, size_t len, uint32_t *n, size_t *size)
{
	struct message_head h;
	int r;

	*n = 0;
	*size = 0;
	if (len < MESSAGE_HEAD)
		return 0;
	r = message_head_get(p, CREDIT_MAGIC, CREDITS_MAX, &h);
	if (r < 0)
		return r;
	*n = h.count;
	*size = MESSAGE_HEAD + (size_t)*n * CREDIT_BYTES + MESSAGE_TAG;
	return len >= *size;
}

int credit_list_check(struct messages *m, const uint8_t *p, size_t size)
{
	uint32_t n;

	return message_check(m, p, size, CREDIT_MAGIC, CREDIT_BYTES, CREDITS_MAX, &n);
}
