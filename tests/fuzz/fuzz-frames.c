// SPDX-License-Identifier: Apache-2.0
/* Input: frames of the control stream, each decoded by its type. */
#include "proto/proto.h"

#include "tests/support/bytes.h"
#include "tests/support/fuzz.h"

#include <string.h>

static void take_verdicts(struct buf *b)
{
	uint64_t id;
	uint8_t verdict;

	while (buf_len(b) && !bulk_verdict_get(b, &id, &verdict))
		MUST(id && verdict >= VERDICT_SEND && verdict <= VERDICT_LATER);
}

static void take_runs(struct buf *b)
{
	uint8_t digest[16];
	uint64_t id, offset;
	uint32_t length;

	if (bulk_runs_head_get(b, &id))
		return;
	MUST(id);
	while (buf_len(b) && !bulk_run_get(b, &offset, &length, digest))
		MUST(length && length <= 64u << 20 && offset <= INT64_MAX);
}

static void take_pairs(struct buf *b)
{
	uint64_t x, y;

	while (buf_len(b) && !bulk_pair_get(b, &x, &y))
		;
}

static void take_sum(struct buf *b)
{
	char hex[BULK_SUM_MAX + 1];
	uint64_t id;

	while (buf_len(b) && !bulk_sum_get(b, &id, hex))
		MUST(id && strlen(hex) <= BULK_SUM_MAX);
}

static void take_removed(struct buf *b)
{
	struct bulk_removed r;

	while (buf_len(b) && !bulk_removed_get(b, &r))
		free(r.path);
}

static void take_digest(struct buf *b)
{
	uint8_t digest[16];
	uint64_t id;

	while (buf_len(b) && !bulk_digest_get(b, &id, digest))
		;
}

static void take_places(struct buf *b)
{
	uint64_t id, dev, ino;

	while (buf_len(b) && !bulk_place_get(b, &id, &dev, &ino))
		;
}

static void take_failure(struct buf *b)
{
	struct bulk_failure f;

	if (bulk_failure_get(b, &f))
		return;
	MUST(f.code < 0 && f.code >= -133);
	MUST(strnlen(f.text, sizeof(f.text)) < sizeof(f.text));
	for (const char *s = f.text; *s; s++)
		MUST((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static void take_counts(struct buf *b)
{
	struct bulk_counts c;

	bulk_counts_get(b, &c);
}

static void take_entries(struct buf *b)
{
	struct bulk_entry e;

	while (buf_len(b) && !bulk_entry_get(b, &e))
		MUST(!e.id == (e.type == ENTRY_NAME));
}

static void take_agree(struct buf *b)
{
	struct bulk_agree a;

	bulk_agree_get(b, &a, NULL);
}

static void take(uint8_t type, struct buf *b)
{
	switch (type) {
	case BULK_AGREE:
		take_agree(b);
		break;
	case BULK_ENTRIES:
		take_entries(b);
		break;
	case BULK_VERDICTS:
		take_verdicts(b);
		break;
	case BULK_RUNS:
		take_runs(b);
		break;
	case BULK_SIZES:
	case BULK_DONE:
	case BULK_KEPT:
	case BULK_LOST:
	case BULK_CHANNELS:
		take_pairs(b);
		break;
	case BULK_DIGEST:
		take_digest(b);
		break;
	case BULK_SUM:
		take_sum(b);
		break;
	case BULK_REMOVED:
		take_removed(b);
		break;
	case BULK_PLACE:
		take_places(b);
		break;
	case BULK_FAILED:
	case BULK_ABORT:
		take_failure(b);
		break;
	case BULK_SENT:
	case BULK_BEAT:
	case BULK_SUMMARY:
		take_counts(b);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t length;
	uint8_t type;

	while (size >= BULK_FRAME_HEAD && !bulk_frame_get(data, BULK_FRAME_MAX, &type, &length)) {
		struct buf *b;

		MUST(length <= BULK_FRAME_MAX);
		data += BULK_FRAME_HEAD;
		size -= BULK_FRAME_HEAD;
		if (length > size)
			break;
		b = bytes_of(data, length);
		take(type, b);
		buf_free(b);
		data += length;
		size -= length;
	}
	return 0;
}
