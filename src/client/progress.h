// SPDX-License-Identifier: Apache-2.0
/* How far a transfer is: one line on a terminal that is drawn over again, or a line of
 * its own now and then where there is none. */
#ifndef RFTP_CLIENT_PROGRESS_H
#define RFTP_CLIENT_PROGRESS_H

#include "client/options.h"
#include "transfer/transfer.h"

/* What a line shows. */
struct progress_view {
	uint64_t bytes, bytes_known;
	bool walked;             /* bytes_known and entries are final */
	uint64_t files, failed, entries;
	double rate;             /* bytes per second, lately */
	const char *bottleneck;  /* NULL: not known */
};

/* One line of at most width columns (and n - 1 bytes), without newline; what matters
 * least is left out first. Returns its length. */
size_t progress_line(char *out, size_t n, const struct progress_view *v, unsigned width);

/* Rate over the last seconds, so that the line is calm but follows. */
struct rate_meter {
	double at;
	double sum, weight;      /* of the rates, bytes per second; and the sum of their weights */
	uint64_t bytes;
};
/* bytes so far at this many seconds. Returns the mean rate, in which later intervals count more;
 * 0 until bytes have come. */
double rate_meter_feed(struct rate_meter *m, double seconds, uint64_t bytes);

struct progress;

/* On stderr; where that is no terminal, plain lines for what takes long. NULL when nothing
 * is to be shown. Log lines clear the line and draw it again. One at a time. */
struct progress *progress_new(enum progress_mode mode);
/* Any thread, one at a time. */
void progress_update(struct progress *p, const struct transfer_progress *now);
/* The line is gone until the next update, for what goes to the same terminal by another way than
 * the log; no update may run meanwhile. NULL is harmless. */
void progress_hide(struct progress *p);
/* The line is gone; another transfer may begin. */
void progress_pause(struct progress *p);
/* pause, and free. NULL is harmless. */
void progress_free(struct progress *p);

#endif
