// SPDX-License-Identifier: Apache-2.0
/* Memory of whole pages. */
#include "server/pages.h"

#include <errno.h>
#include <sys/mman.h>

static void *map(size_t len, int kind)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void *pages_new(size_t len)
{
	return map(len, MAP_PRIVATE);
}

void *pages_shared(size_t len)
{
	return map(len, MAP_SHARED);
}

void pages_free(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}

int pages_alone(void *p, size_t len, struct err *e)
{
	return madvise(p, len, MADV_DONTFORK) < 0 ? err_sys(e, -errno, "memory") : 0;
}
