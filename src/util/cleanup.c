// SPDX-License-Identifier: Apache-2.0
/* The scope attributes that are too big for their header. */
#include "util/cleanup.h"

#include <errno.h>
#include <unistd.h>

void cleanup_close(int *fd)
{
	int saved = errno;

	/* Not repeated on EINTR: Linux has given the number back already, and
	 * another thread may have it by now. */
	if (*fd >= 0)
		close(*fd);
	*fd = -1; /* by the next time it may be somebody else's */
	errno = saved;
}
