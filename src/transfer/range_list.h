// SPDX-License-Identifier: Apache-2.0
/* The data of a sparse file as its entry tells it: at most so many ranges, whatever the
 * file has. */
#ifndef RFTP_TRANSFER_RANGE_LIST_H
#define RFTP_TRANSFER_RANGE_LIST_H

#include "proto/proto.h"

#include <stdint.h>

struct range_list {
	struct bulk_range *v;  /* [n], in order, none touching the next; who has it frees it */
	uint32_t n, room;
	uint64_t bytes;        /* in all of them */
	uint64_t gap;          /* holes up to this many bytes count as data */
};

/* Note data at off, behind all that is noted. When there are too many ranges the smallest
 * holes are given up, for zeros that travel. 0 or -ENOMEM. */
int range_list_add(struct range_list *g, uint64_t off, uint64_t len);

#endif
