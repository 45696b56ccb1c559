// SPDX-License-Identifier: Apache-2.0
/* Memory of whole pages, of this process alone. */
#include "server/pages.h"

#include <sys/mman.h>

void *pages_new(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

void pages_free(void *p, size_t len)
{
	if (p)
		munmap(p, len);
}
