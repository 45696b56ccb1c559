// SPDX-License-Identifier: Apache-2.0
/* The objects that --json prints, rftp(1) JSON EVENTS. New references; NULL: memory is
 * out (json_emit takes that for a failure). */
#ifndef RFTP_CLIENT_EVENTS_H
#define RFTP_CLIENT_EVENTS_H

#include "transfer/transfer.h"

#include <jansson.h>

/* What the transfers of one command come to. */
struct totals {
	struct agreement agreement;     /* of the last one */
	bool agreed;
	bool foreign;                   /* the last one was by FTP */
	uint64_t bytes, files, failed, skipped, resumed, left_out;
	uint64_t cpu_local_ns, cpu_remote_ns, wall_ns;
	uint32_t nchannels;             /* one after another, of all transfers */
	uint64_t *channel_bytes;        /* [nchannels] */
	uint32_t channels_lost, retries;
	bool fell_back;                 /* data went in-band in the middle of one */
	bool broken_off;                /* one has no result: what only that tells is not known */
};

/* 0 or -ENOMEM. */
int totals_add(struct totals *t, const struct transfer_result *r);
void totals_clear(struct totals *t);
double totals_rate(const struct totals *t); /* bytes per second */

json_t *event_started(const struct agreement *a);
json_t *event_started_foreign(const struct agreement *a, unsigned connections);
json_t *event_progress(const struct transfer_progress *p);
json_t *event_file(const char *path, uint64_t bytes, bool skipped);
json_t *event_file_failed(const char *path, int code, const char *text);
/* A line of bench: what went in this interval. */
json_t *event_interval(const char *way, double at, double seconds, uint64_t bytes);
json_t *event_retry(unsigned attempt, unsigned seconds, const char *text);
/* e: why it ended before its end; NULL: it did not. */
json_t *event_summary(const struct totals *t, int exit_status, const struct err *e);

#endif
