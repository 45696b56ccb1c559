// SPDX-License-Identifier: Apache-2.0
/* The stages that hold a transfer back. Each side samples the state of its queues and threads several times a
 * second; both sets of samples together show which stage the others waited for. */
#ifndef RFTP_TRANSFER_SHARES_H
#define RFTP_TRANSFER_SHARES_H

#include "proto/proto.h"

#include <pthread.h>

/* The states of one side. A source with free blocks is held back by itself: it has no names to read,
 * or it reads (STORAGE) or seals (CPU). Without free blocks all are sent (FLIGHT), or wait because
 * the sink has granted no buffer (CREDITS). A sink is busy (STORAGE, CPU) or waits (IDLE). */
enum side_state {
	SIDE_NAMES, SIDE_STORAGE, SIDE_CPU, SIDE_CREDITS, SIDE_FLIGHT, SIDE_RATE, SIDE_IDLE,
	SIDE_STATES,
};

struct shares {
	pthread_mutex_t lock;
	/* Guarded by lock: ns in each state, and the same for about the last two seconds. */
	uint64_t here[SIDE_STATES], there[SIDE_STATES];
	double here_now[SIDE_STATES], there_now[SIDE_STATES];
	bool on;                  /* guarded by lock: the sampled threads run */
	/* Used by the ticker. */
	uint64_t sampled_ns, files_cpu_ns, path_cpu_ns[NICS_MAX + 1];
};

void shares_init(struct shares *s);
void shares_destroy(struct shares *s);

/* How a side has spent the time since its last sample. */
struct side_sample {
	uint64_t ns;
	bool files_on_cpu;        /* the readers or writers were mostly on processors */
	bool path_on_cpu;         /* so was a sender or receiver */
};

struct xfer;
/* Take a sample, if one is due. True: *sample has the time since the last one. The ticker. */
bool shares_due(struct xfer *x, struct side_sample *sample);
/* on: all sampled threads have started; otherwise they are about to be joined. */
void shares_run(struct shares *s, bool on);
/* This side was in state for ns. */
void shares_add(struct shares *s, enum side_state state, uint64_t ns);
/* The peer's frame BULK_STAGES, and this side's: SIDE_STATES u64. 0 or a negative errno. */
int shares_get(struct shares *s, struct buf *p);
int shares_put(struct shares *s, struct buf *p);
/* The time that each stage has held the transfer back, in ns; recent: lately. source: this side is
 * the source. */
void shares_of(struct shares *s, bool source, bool recent, uint64_t out[STAGES]);
/* Pure: the same from the states of both sides. */
void shares_combine(const uint64_t source[SIDE_STATES], const uint64_t sink[SIDE_STATES],
		    uint64_t out[STAGES]);

#endif
