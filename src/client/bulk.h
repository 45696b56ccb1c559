// SPDX-License-Identifier: Apache-2.0
/* The transfers of commands, which report their attempts and results. Main thread. */
#ifndef RFTP_CLIENT_BULK_H
#define RFTP_CLIENT_BULK_H

#include "client/report.h"
#include "client/server.h"
#include "client/terminal.h"

/* bulk_prepare(), with the events and the manifest's digests for r, which is not owned; NULL: only
 * for bulk_once(). */
int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e);
/* If r has a manifest, let the source compute its digests. from_source: a server is the source, and
 * sends them. r NULL is harmless. */
void bulk_request_sums(struct bulk_request *q, const struct report *r, bool from_source);
/* The watch of attempts that a struct report reports; it is their watch_arg. */
extern const struct attempt_watch report_watch;
/* Run the transfer with repetitions, and report their errors and the result. If setup has an error,
 * only report that. Returns the exit status. */
enum exit_status attempts_run(struct attempts *a, const struct err *setup);

/* Transfer data from memory to memory for ns, without output: to the connected server if put,
 * otherwise from it. Results as bulk_once(). */
int bench_measure(const struct job *j, struct server *s, bool put, uint64_t ns,
		  struct transfer_result *r, struct err *e);

#endif
