// SPDX-License-Identifier: Apache-2.0
/* The interface of a fuzz target, and its assertion. */
#ifndef RFTP_TESTS_FUZZ_H
#define RFTP_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Makes a directory for a target, in memory if possible; the caller removes it. */
static inline const char *fuzz_directory(void)
{
	static char memory[] = "/dev/shm/rftp-fuzz-XXXXXX", disk[] = "/tmp/rftp-fuzz-XXXXXX";
	const char *dir = mkdtemp(memory);

	if (!dir)
		dir = mkdtemp(disk);
	if (!dir)
		abort();
	return dir;
}

#define MUST(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #cond); \
		abort(); \
	} \
} while (0)

#endif
