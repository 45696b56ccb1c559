// SPDX-License-Identifier: Apache-2.0
/* The transfers of commands: the engine's, with a report of their attempts. */
#include "client/bulk.h"

#include "client/signals.h"

#include <poll.h>

static bool watch_begun(void *arg)
{
	return report_begun(arg);
}

static void watch_rereads(void *arg, bool rereads)
{
	report_rereads(arg, rereads);
}

static void watch_pass(void *arg, const struct transfer_result *r)
{
	report_pass(arg, r);
}

static void watch_retry(void *arg, unsigned attempt, unsigned wait, const struct err *e)
{
	report_retry(arg, attempt, wait, e);
}

const struct attempt_watch report_watch = {
	.begun = watch_begun, .rereads = watch_rereads, .pass = watch_pass, .retry = watch_retry,
};

void bulk_request_sums(struct bulk_request *q, const struct report *r, bool from_source)
{
	const char *name = r ? report_sum(r) : NULL;

	if (!name)
		return;
	snprintf(q->sum, sizeof(q->sum), "%s", name);
	q->flags |= from_source ? BULK_F_SUMS : 0;
}

int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e)
{
	int rc = bulk_prepare(b, s, op, e);

	if (!r)
		return rc;
	b->c.events = report_events(r);
	b->attempts.watch = &report_watch;
	b->attempts.watch_arg = r;
	bulk_request_sums(&b->c.request, r, op == BULK_GET);
	return rc;
}

/* Report the failure after which no attempt follows. Returns the exit status. */
static enum exit_status attempts_give_up(const struct attempts *a, struct report *r,
					 struct err *e)
{
	struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
	enum exit_status status = exit_of(signals_stopped() ? -EINTR : e->code,
					  report_begun(r));

	/* If the reader of our standard output has closed it, as head(1) does, do not report an
	 * error. */
	if (a->to_stdout && report_begun(r) && !signals_stopped() &&
	    poll(&out, 1, 0) > 0 && (out.revents & POLLERR))
		return status;
	if (status == EXIT_INTERRUPTED && a->resumable)
		err_set(e, e->code, "%s; the same command resumes the transfer", e->text);
	report_error(r, e);
	return status;
}

enum exit_status attempts_run(struct attempts *a, const struct err *setup)
{
	struct report *report = a->watch_arg;
	struct transfer_result r;
	struct err e = ERR_INIT;

	if (setup->code) {
		report_error(report, setup);
		return setup->code == -EINVAL ? EXIT_USAGE : exit_of(setup->code, false);
	}

	report_begin(report);
	if (attempts_make(a, &r, &e))
		return attempts_give_up(a, report, &e);
	report_result(report, &r);
	return r.failed ? EXIT_SOME_FAILED : EXIT_DONE;
}
