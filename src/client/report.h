// SPDX-License-Identifier: Apache-2.0
/* Tells what the transfers of one command do: to people by log lines, progress line and
 * a last line, to programs by events. */
#ifndef RFTP_CLIENT_REPORT_H
#define RFTP_CLIENT_REPORT_H

#include "client/client.h"
#include "client/events.h"
#include "client/progress.h"

struct report;

/* o must outlive it. NULL: memory is out. */
struct report *report_new(const struct options *o);
/* A transfer with a foreign server begins: private_data by TLS, over at most so many
 * connections. */
void report_foreign(struct report *r, bool private_data, unsigned connections);
/* Callbacks for transfer_client. */
struct transfer_events report_events(struct report *r);
/* Since the last report_begin: have both sides agreed? */
void report_begin(struct report *r);
bool report_begun(const struct report *r);
/* Before an attempt: files that change while they are read have not failed, because another attempt
 * would read them again. */
void report_rereads(struct report *r, bool rereads);
/* A transfer has come to its end. */
void report_result(struct report *r, const struct transfer_result *res);
/* It has not, and is tried again after wait seconds. */
void report_retry(struct report *r, unsigned attempt, unsigned wait, const struct err *e);
/* It has not, and that is that. */
void report_error(struct report *r, const struct err *e);
/* --op was given, and a has no use for it: say so. */
void report_op(const struct options *o, const struct agreement *a);
/* The last words. Frees r. Returns status. */
enum exit_status report_end(struct report *r, enum exit_status status);

#endif
