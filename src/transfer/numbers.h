// SPDX-License-Identifier: Apache-2.0
/* Which block numbers have arrived: a block that is sent again after its channel died
 * must be dropped when the first copy came through after all. */
#ifndef RFTP_TRANSFER_NUMBERS_H
#define RFTP_TRANSFER_NUMBERS_H

#include <stdint.h>

/* Numbers are given out in order and few are under way at once, so those that have not
 * come lie within this many of the lowest. */
#define NUMBERS_WINDOW 65536u

struct numbers {
	uint64_t low;                         /* all below have arrived */
	uint64_t bits[NUMBERS_WINDOW / 64];   /* of low .. low + window - 1, by number */
};

/* 1: new, and now noted; 0: has arrived before; -EPROTO: too far ahead. */
int numbers_add(struct numbers *n, uint64_t number);

#endif
