// SPDX-License-Identifier: Apache-2.0
/* What a transfer that was broken off does before it is tried again. */
#ifndef RFTP_CLIENT_AGAIN_H
#define RFTP_CLIENT_AGAIN_H

#include "client/report.h"
#include "transfer/transfer.h"

#include <stdbool.h>

/* May another attempt do better than the one that ended with code, a negative errno? done: the
 * number of repeated attempts so far, at most retries. reached: all servers have been connected
 * before; until then only a connection whose bytes were damaged (-EBADMSG) is tried again, once,
 * for a host that does not speak the protocol never will. away: one of the servers, or an RDMA device
 * that carried data before, may be away while it comes up again. */
bool again_worth(int code, uint64_t done, uint64_t retries, bool reached, bool away);
/* Files whose ctime moved while they were read may only have got other attributes. Another attempt
 * compares them with the sink's part. done: as above; is there one left for them? */
bool again_rereads(uint64_t done, uint64_t retries);
/* Was such a file in r, the result of an attempt? Then e says so. */
bool again_changed(const struct transfer_result *r, struct err *e);
/* It is not: say why, and how to go on if there is data to go on with (resumable). The status. */
enum exit_status again_give_up(struct report *r, bool resumable, struct err *e);
/* Seconds before attempt, from 1, is made again. */
unsigned again_wait(unsigned attempt);
/* Sleep; a signal ends it. */
void again_pause(unsigned seconds);
/* The next attempt leaves alone the files in c, which those before have committed; NULL: none. */
void again_recall(struct bulk_request *q, struct committed *c);

#endif
