// SPDX-License-Identifier: Apache-2.0
/* The output of a command's transfers: log lines, a progress line and a summary for people, JSON
 * events for programs. Main thread, unless a comment says otherwise. */
#ifndef RFTP_CLIENT_REPORT_H
#define RFTP_CLIENT_REPORT_H

#include "client/client.h"
#include "transfer/transfer.h"

#include <jansson.h>

/* ---- all transfers of one command ---- */

struct report;

/* Do the options ask for progress? *over: on a terminal, where a line can be drawn anew. */
bool report_shows_progress(const struct options *o, bool *over);
/* o must outlive the report. report_end() frees it. NULL: out of memory. */
struct report *report_new(const struct options *o);
/* If the options ask for a manifest of a transfer from the word from to the path to: begin it. from
 * NULL: this side is the sink, and knows the paths; or a pipe or several words. 0, or a negative
 * errno with text. */
int report_manifest(struct report *r, const char *from, const char *to, struct err *e);
/* The digest_name() of the manifest's digests; NULL: there is no manifest. */
const char *report_sum(const struct report *r);
/* A transfer with a foreign server begins. private_data: data connections are under TLS.
 * connections: the most at the same time. */
void report_foreign(struct report *r, bool private_data, unsigned connections);
/* The callbacks for transfer_client(). */
struct transfer_events report_events(struct report *r);
/* The first attempt of a transfer begins. */
void report_begin(struct report *r);
/* Have both sides agreed on a transfer since report_begin()? Any thread. */
bool report_begun(const struct report *r);
/* Call before an attempt. rereads: do not report files that change while they are read as failed,
 * because another attempt will read them again. */
void report_rereads(struct report *r, bool rereads);
/* A transfer has ended with the result res. */
void report_result(struct report *r, const struct transfer_result *res);
/* The transfer has removed names that were in the way of files, with the result res; the files
 * follow in another attempt. */
void report_pass(struct report *r, const struct transfer_result *res);
/* An attempt has failed with e, and is repeated after wait seconds. */
void report_retry(struct report *r, unsigned attempt, unsigned wait, const struct err *e);
/* A transfer has failed with e, without another attempt. */
void report_error(struct report *r, const struct err *e);
/* Warn if --op was given but the agreed transport does not use it. */
void report_op(const struct options *o, const struct agreement *a);
/* Print the summary, and free r. Returns status. */
enum exit_status report_end(struct report *r, enum exit_status status);

/* ---- totals.c ---- */

/* The sums of one command's transfers. */
struct totals {
	struct agreement agreement;     /* of the last one */
	bool agreed;
	bool foreign;                   /* the last transfer was with a foreign server */
	uint64_t bytes, files, failed, skipped, resumed, left_out;
	uint64_t corrected, removed, removed_bytes;
	uint64_t stages[STAGES];        /* ns */
	uint64_t rtt_ns;                /* of the last transfer; 0: not known */
	uint64_t blocks;
	bool plan;                      /* of a dry run */
	uint64_t plan_files, plan_bytes; /* to be copied */
	uint64_t cpu_local_ns, cpu_remote_ns, wall_ns;
	uint32_t nchannels;             /* channels of all transfers, one after another */
	uint64_t *channel_bytes;        /* [nchannels] */
	uint32_t channels_lost, retries;
	bool fell_back;                 /* a transfer continued on the control connection after it
					 * lost its channels */
	bool broken_off;                /* a transfer has no result, so the members that need it are
					 * unknown */
};

/* Add r to t; without memory, warn that the sum is not complete. */
void totals_add(struct totals *t, const struct transfer_result *r);
void totals_clear(struct totals *t);
double totals_rate(const struct totals *t); /* bytes per second */
/* Write the summary line to text, at most room bytes. */
void totals_text(const struct totals *t, char *text, size_t room);
/* Print the line of a dry run to standard output. */
void totals_print_plan(const struct totals *t);
/* Print all counters of --stats to standard error, one in a line. */
void totals_print_stats(const struct totals *t);

/* ---- the objects that --json prints, rftp-json(7) ---- Functions return new references;
 * NULL: out of memory, which json_emit() reports. */

json_t *event_started(const struct agreement *a);
json_t *event_progress(const struct transfer_progress *p);
json_t *event_file(const char *path, uint64_t bytes, enum file_end end);
json_t *event_file_failed(const char *path, int code, const char *text);
/* A line of bench: at, seconds since the start; seconds and bytes, of this interval. */
json_t *event_interval(const char *way, double at, double seconds, uint64_t bytes);
json_t *event_retry(unsigned attempt, unsigned seconds, const char *text);
/* e: the reason of a failure; NULL: success. */
json_t *event_summary(const struct totals *t, int exit_status, const struct err *e);

/* ---- the progress line ---- */

/* Format a line of at most width columns and n - 1 bytes, without newline. If it is too long, the
 * least important fields are left out. rate: recent bytes per second. Returns its length in bytes.
 * Pure. */
size_t progress_line(char *out, size_t n, const struct transfer_progress *v, double rate,
		     unsigned width);

/* The rate over the last seconds: smoothed, but it follows changes. */
struct rate_meter {
	double at;
	double sum, weight;      /* weighted sum of the rates (bytes per second), and sum of the
				  * weights */
	uint64_t bytes;
};
/* Enter the total of bytes after seconds. Returns the mean rate, in which later intervals have more
 * weight; 0 until there are bytes. */
double rate_meter_feed(struct rate_meter *m, double seconds, uint64_t bytes);

#endif
