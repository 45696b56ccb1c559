// SPDX-License-Identifier: Apache-2.0
/* Input: a byte that selects the type, and a message of a copy between two servers. An accepted
 * message must survive our own encoder and decoder unchanged. */
#include "proto/proto.h"

#include "tests/support/bytes.h"
#include "tests/support/fuzz.h"

#include <stdlib.h>
#include <string.h>

static struct buf *copy(const struct buf *b)
{
	return bytes_of(buf_ptr(b), buf_len(b));
}

/* Encoding it again, after it was read from c, must give the same bytes. Frees c. */
static void must_equal(struct buf *a, struct buf *b, struct buf *c)
{
	buf_free(c);
	MUST(buf_len(a) == buf_len(b) && !memcmp(buf_ptr(a), buf_ptr(b), buf_len(a)));
}

static struct buf *room(void)
{
	struct buf *b = buf_new(THIRD_BODY_MAX);

	MUST(b);
	return b;
}

static void give(struct buf *in)
{
	struct buf *a = room(), *b = room(), *c;
	struct third_give g, back;

	if (!third_give_get(in, &g, NULL)) {
		MUST(g.request.nsources && g.request.op == BULK_PUT);
		g.request.minor = BULK_MINOR;
		MUST(!third_give_put(a, &g));
		MUST(!third_give_get(c = copy(a), &back, NULL));
		MUST(!third_give_put(b, &back));
		must_equal(a, b, c);
		third_give_clear(&back);
		third_give_clear(&g);
	}
	buf_free(b);
	buf_free(a);
}

static void take(struct buf *in)
{
	struct buf *a = room(), *b = room(), *c;
	struct third_take t, back;

	if (!third_take_get(in, &t, NULL)) {
		MUST(*t.pin && t.base);
		MUST(!third_take_put(a, &t));
		MUST(!third_take_get(c = copy(a), &back, NULL));
		MUST(!third_take_put(b, &back));
		must_equal(a, b, c);
		third_take_clear(&back);
		third_take_clear(&t);
	}
	buf_free(b);
	buf_free(a);
}

static void key_and_door(struct buf *in)
{
	struct buf *a = room(), *b = room(), *c, *door = copy(in);
	struct third_door d, back;
	char pin[THIRD_PIN_MAX + 1];

	if (!third_key_get(in, pin))
		MUST(*pin && strlen(pin) <= THIRD_PIN_MAX);
	if (!third_door_get(door, &d)) {
		MUST(d.port && d.naddrs <= THIRD_ADDRESSES);
		MUST(!third_door_put(a, &d));
		MUST(!third_door_get(c = copy(a), &back));
		MUST(!third_door_put(b, &back));
		must_equal(a, b, c);
	}
	buf_free(door);
	buf_free(b);
	buf_free(a);
}

static void told(struct buf *in)
{
	struct buf *a = room(), *b = room(), *c, *file = copy(in);
	char words[THIRD_WORDS_MAX + 1], words_back[THIRD_WORDS_MAX + 1];
	struct transfer_progress p, p_back;
	struct third_file f, f_back;

	if (!third_progress_get(in, &p, words)) {
		MUST(!third_progress_put(a, &p));
		MUST(!third_progress_get(c = copy(a), &p_back, words_back));
		MUST(!third_progress_put(b, &p_back));
		must_equal(a, b, c);
	}
	buf_reset(a);
	buf_reset(b);
	if (!third_file_get(file, &f)) {
		MUST(f.path && strlen(f.text) < sizeof(f.text));
		MUST(!third_file_put(a, &f));
		MUST(!third_file_get(c = copy(a), &f_back));
		MUST(!third_file_put(b, &f_back));
		must_equal(a, b, c);
		third_file_clear(&f_back);
		third_file_clear(&f);
	}
	buf_free(file);
	buf_free(b);
	buf_free(a);
}

static void result(struct buf *in)
{
	struct third_result *r = calloc(2, sizeof(*r));
	struct buf *a = room(), *b = room(), *c;

	MUST(r);
	if (!third_result_get(in, &r[0])) {
		MUST(r[0].of.nchannels <= CHANNELS_MAX && r[0].where <= THIRD_CLIENT);
		MUST(!third_result_put(a, &r[0]));
		MUST(!third_result_get(c = copy(a), &r[1]));
		MUST(!third_result_put(b, &r[1]));
		must_equal(a, b, c);
	}
	free(r);
	buf_free(b);
	buf_free(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const kinds[])(struct buf *in) = { give, take, key_and_door, told, result };
	struct buf *b;

	if (!size)
		return 0;
	b = bytes_of(data + 1, size - 1);
	kinds[data[0] % (sizeof(kinds) / sizeof(kinds[0]))](b);
	buf_free(b);
	return 0;
}
