// SPDX-License-Identifier: Apache-2.0
/* Input: the journal of a partial file, after the header. Records have 28 bytes; the target
 * corrects the checksum of each record, unless the record's bit in the first byte is set. Whatever
 * the journal contains, only runs that the partial file really holds may be accepted. */
#include "storage/internal.h"

#include "tests/support/fuzz.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define RUN 4096u
#define RUNS 3
#define SIZE (RUN * (RUNS - 1) + 100)
#define HEADER 64
#define RECORD 32

static const char *dir;
static int dirfd_, datafd;
static uint8_t header[HEADER];
static const struct part_spec spec = { .name = "f", .meta = { .size = SIZE },
				       .journal = true };

static void remove_all(void)
{
	char name[PART_NAME_MAX];

	journal_name(name, spec.name);
	unlinkat(dirfd_, name, 0);
	unlinkat(dirfd_, "data", 0);
	rmdir(dir);
}

static int open_journal(int flags)
{
	char name[PART_NAME_MAX];

	journal_name(name, spec.name);
	return openat(dirfd_, name, flags | O_CLOEXEC);
}

/* Makes the partial file, and the header of a matching journal. */
static void begin(void)
{
	struct err e = ERR_INIT;
	struct journal *j;
	bool taken;
	int fd;

	dir = fuzz_directory();
	dirfd_ = open(dir, O_DIRECTORY | O_CLOEXEC);
	atexit(remove_all);
	datafd = openat(dirfd_, "data", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	MUST(!ftruncate(datafd, SIZE) && pwrite(datafd, "x", 1, RUN) == 1);
	j = journal_open(dirfd_, &spec, datafd, true, &taken, &e);
	MUST(j && !taken);
	journal_close(j);
	fd = open_journal(O_RDONLY);
	MUST(read(fd, header, HEADER) == HEADER);
	close(fd);
}

static void write_journal(const uint8_t *data, size_t size)
{
	uint8_t bits = size ? *data : 0;
	size_t n = size ? size - 1 : 0;
	uint8_t *p = malloc(HEADER + n + 1);
	int fd = open_journal(O_WRONLY | O_TRUNC);

	MUST(p && fd >= 0);
	memcpy(p, header, HEADER);
	if (n)
		memcpy(p + HEADER, data + 1, n);
	for (size_t i = 0; (i + 1) * RECORD <= n; i++) {
		uint8_t *r = p + HEADER + i * RECORD;

		if (!(bits & 1 << i % 8))
			put_be32(r + 28, crypto_crc32c(get_be32(header + 60), r, 28));
	}
	MUST(write(fd, p, HEADER + n) == (ssize_t)(HEADER + n));
	close(fd);
	free(p);
}

struct seen {
	int64_t n;
	uint64_t end;
};

static int see(void *arg, const struct part_run *run)
{
	struct seen *s = arg;
	uint8_t bytes[SIZE], is[RUN_DIGEST_BYTES];

	MUST(run->length && run->offset < SIZE && run->length <= SIZE - run->offset);
	MUST(run->offset >= s->end);
	MUST(pread(datafd, bytes, run->length, (off_t)run->offset) == (ssize_t)run->length);
	crypto_run_digest(is, bytes, run->length);
	MUST(!memcmp(is, run->digest, sizeof(is)));
	s->end = run->offset + run->length;
	s->n++;
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err e = ERR_INIT;
	struct seen s = { 0 };
	struct journal *j;
	bool taken;

	if (!dirfd_)
		begin();
	write_journal(data, size);
	j = journal_open(dirfd_, &spec, datafd, false, &taken, &e);
	MUST(j && taken);
	MUST(journal_runs(j, see, &s) == s.n);
	journal_close(j);
	return 0;
}
