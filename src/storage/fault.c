// SPDX-License-Identifier: Apache-2.0
/* Makes storage fail on purpose, as RFTP_FAULT_STORAGE says; the rules' grammar is in
 * util/fault.h. */
#include "storage/storage.h"

static const char short_write[] = "short-write"; /* part of a write is done, then more */
static const char short_read[] = "short-read";

static const char *const points[] = { "open", "read", "write", "sync", "rename", "mkdir",
				      "commit", "journal", NULL };
static const char *const bare[] = { short_write, short_read, NULL };

bool fault_storage_on;

static struct faults faults = {
	.env = "RFTP_FAULT_STORAGE",
	.points = points,
	.bare = bare,
	.on = &fault_storage_on,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

__attribute__((constructor)) static void read_environment(void)
{
	faults_from_env(&faults);
}

int fault_storage_set(const char *rules, struct err *e)
{
	return faults_set(&faults, rules, e);
}

int fault_storage(const char *point, uint64_t bytes)
{
	return faults_strike(&faults, point, bytes, 0);
}

uint32_t fault_storage_short(bool write, uint32_t len)
{
	int code, sig;

	if (len < 2 || !faults_reached(&faults, write ? short_write : short_read, len, &code, &sig))
		return len;
	/* In whole pages while it can be, so that direct I/O stays aligned. */
	return len >= 8192 ? len / 2 & ~4095u : len / 2;
}
