// SPDX-License-Identifier: Apache-2.0
/* A sliding bitmap of block numbers. */
#include "transfer/numbers.h"

#include <errno.h>
#include <stdbool.h>

static uint64_t *word(struct numbers *n, uint64_t number)
{
	return &n->bits[number % NUMBERS_WINDOW / 64];
}

static uint64_t bit(uint64_t number)
{
	return 1ull << (number % 64);
}

static bool has(struct numbers *n, uint64_t number)
{
	return *word(n, number) & bit(number);
}

int numbers_add(struct numbers *n, uint64_t number)
{
	if (number < n->low)
		return 0;
	if (number - n->low >= NUMBERS_WINDOW)
		return -EPROTO;
	if (has(n, number))
		return 0;
	*word(n, number) |= bit(number);
	while (has(n, n->low)) {
		*word(n, n->low) &= ~bit(n->low);
		n->low++;
	}
	return 1;
}
