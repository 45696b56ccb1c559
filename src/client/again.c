// SPDX-License-Identifier: Apache-2.0
/* Back-off, and the files that need not be transferred again. */
#include "client/again.h"

#include "client/signals.h"

#include <errno.h>
#include <time.h>

enum { BACKOFF_MOST = 30 /* seconds */, REREADS_MOST = 3 };

/* No way there now, be it to the server or, for the data, by RDMA. */
static bool no_way(int code)
{
	return code == -ECONNREFUSED || code == -EHOSTUNREACH || code == -ENETUNREACH ||
	       code == -ENETDOWN || code == -ENODEV;
}

bool again_worth(int code, uint64_t done, uint64_t retries, bool reached, bool away)
{
	if (signals_stopped() || done >= retries)
		return false;
	/* One more attempt tells a damaged connection from a server that does not speak TLS. */
	if (code == -EBADMSG && !done)
		return true;
	return reached && (exit_is_lost(code) || exit_is_damaged(code) || (no_way(code) && away));
}

bool again_rereads(uint64_t done, uint64_t retries)
{
	return done < REREADS_MOST && done < retries;
}

bool again_changed(const struct transfer_result *r, struct err *e)
{
	if (!r->touched)
		return false;
	err_set(e, -EAGAIN, "%llu file%s changed while being read", (unsigned long long)r->touched,
		r->touched == 1 ? "" : "s");
	return true;
}

enum exit_status again_give_up(struct report *r, bool resumable, struct err *e)
{
	enum exit_status status = exit_of(signals_stopped() ? -EINTR : e->code, report_begun(r));

	if (status == EXIT_INTERRUPTED && resumable)
		err_set(e, e->code, "%s; the same command goes on from there", e->text);
	report_error(r, e);
	return status;
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

void again_recall(struct bulk_request *q, struct committed *c)
{
	if (!c)
		return;
	committed_recall(c);
	q->flags |= BULK_F_AGAIN;
}
