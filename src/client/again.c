// SPDX-License-Identifier: Apache-2.0
/* Back-off, and how what is done is known. */
#include "client/again.h"

#include <errno.h>
#include <time.h>

enum { BACKOFF_MOST = 30 }; /* seconds */

bool again_no_way(int code)
{
	return code == -ECONNREFUSED || code == -EHOSTUNREACH || code == -ENETUNREACH ||
	       code == -ENETDOWN || code == -ENODEV;
}

unsigned again_wait(unsigned attempt)
{
	return attempt > 5 ? BACKOFF_MOST : attempt < 1 ? 0 : 1u << (attempt - 1);
}

void again_pause(unsigned seconds)
{
	struct timespec t = { .tv_sec = seconds };

	nanosleep(&t, NULL); /* a signal ends the program, or the pause */
}

/* Files that the attempt before has finished have their source's size and time. */
void again_keep_done(struct bulk_request *q)
{
	if (q->policy == POLICY_OVERWRITE && (q->flags & BULK_F_TIMES) &&
	    (q->op == BULK_PUT || q->op == BULK_GET))
		q->policy = POLICY_SAME;
}
