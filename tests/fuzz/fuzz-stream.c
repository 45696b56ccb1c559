// SPDX-License-Identifier: Apache-2.0
/* Input: data of a control connection, read as lines (with Telnet sequences) and as frames. The
 * first byte gives the number of bytes per read: the split must not change the result. */
#include "tests/support/fuzz.h"
#include "tests/support/memory-stream.h"
#include "tests/support/wire.h"

#define LINE_ROOM 200
#define FRAME_MAX 1000

static void keep(struct buf *b, const void *p, size_t n)
{
	MUST(!buf_put_u32(b, (uint32_t)n) && !buf_put(b, p, n));
}

/* Returns all lines, one after the other, with the errors. */
static struct buf *read_lines(const uint8_t *data, size_t size, size_t most)
{
	struct mstream *m = ms_new(memory_stream(data, size, most));
	struct buf *b = buf_new(1 << 22);
	char line[LINE_ROOM];
	ssize_t n;

	do {
		n = ms_read_line(m, line, sizeof(line), 1000);
		MUST(n < (ssize_t)sizeof(line));
		MUST(n < 0 || (strlen(line) == (size_t)n && !strchr(line, '\n')));
		keep(b, n < 0 ? "" : line, n < 0 ? 0 : (size_t)n);
	} while (n >= 0 || n == -EMSGSIZE || n == -EILSEQ);
	MUST(n == -EPIPE);
	ms_free(m);
	return b;
}

static struct buf *read_frames(const uint8_t *data, size_t size, size_t most)
{
	struct mstream *m = ms_new(memory_stream(data, size, most));
	struct buf *b = buf_new(1 << 22), *p = buf_new(FRAME_MAX);
	uint8_t type;

	while (!ms_read_frame(m, &type, p, FRAME_MAX, 1000)) {
		MUST(buf_len(p) <= FRAME_MAX);
		keep(b, &type, 1);
		keep(b, buf_ptr(p), buf_len(p));
	}
	ms_free(m);
	buf_free(p);
	return b;
}

static void compare(struct buf *a, struct buf *b)
{
	size_t n = buf_len(a);

	MUST(n == buf_len(b) && (!n || !memcmp(buf_ptr(a), buf_ptr(b), n)));
	buf_free(a);
	buf_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t most = size ? 1 + *data++ : 1;

	size -= size > 0;
	compare(read_lines(data, size, most), read_lines(data, size, SIZE_MAX));
	compare(read_frames(data, size, most), read_frames(data, size, SIZE_MAX));
	return 0;
}
