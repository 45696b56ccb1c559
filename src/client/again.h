// SPDX-License-Identifier: Apache-2.0
/* What a transfer that was broken off does before it is tried again. */
#ifndef RFTP_CLIENT_AGAIN_H
#define RFTP_CLIENT_AGAIN_H

#include "proto/proto.h"

#include <stdbool.h>

/* Is there no way there now, be it to the server or, for the data, by RDMA? code: a negative
 * errno. */
bool again_no_way(int code);
/* Seconds before attempt, from 1, is made again. */
unsigned again_wait(unsigned attempt);
/* Sleep; a signal ends it. */
void again_pause(unsigned seconds);
/* The next attempt leaves alone what those before have done. */
void again_keep_done(struct bulk_request *q);

#endif
