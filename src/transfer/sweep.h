// SPDX-License-Identifier: Apache-2.0
/* Files that wait to be read, in the order in which a disk's heads come by them: upwards
 * from the file taken last, then from the lowest again (C-SCAN), however many come
 * meanwhile. The lock of the plan that has it guards it. */
#ifndef RFTP_TRANSFER_SWEEP_H
#define RFTP_TRANSFER_SWEEP_H

#include <stdint.h>

struct sfile;

/* All zeros: empty. */
struct sweep {
	struct sfile *now, *later; /* heaps: of this sweep; behind us, of the next one */
	uint64_t head;             /* where the file taken last lies */
};

/* Those without an address come at the end of a sweep, in the order of the walk. */
void sweep_add(struct sweep *w, struct sfile *f);
/* The next one; it stays. NULL: there is none. */
struct sfile *sweep_first(struct sweep *w);
/* The next one, taken out; there must be one. */
struct sfile *sweep_take(struct sweep *w);

#endif
