// SPDX-License-Identifier: Apache-2.0
/* Whether a thread that has found nothing looks once more or sleeps. A sleep costs an
 * interrupt, a wake-up and a few system calls; a look costs the processor that others may
 * want. Pure: the caller brings the time. */
#ifndef RFTP_RDMA_SPIN_H
#define RFTP_RDMA_SPIN_H

#include "transport/transport.h"

#include <stdbool.h>
#include <stdint.h>

#define SPIN_NS 50000u         /* longer than a wake-up takes, shorter than people notice */
#define SPIN_ALWAYS_NS 1000000u /* so often even who never sleeps looks for other events */

struct spin {
	uint64_t limit_ns;     /* look on for so long; 0: never */
	bool learns, sleeps;
	uint64_t quiet_since;  /* 0: something has just been found */
	uint64_t last_look;
	uint64_t gap_ns;       /* how long it has been quiet, of late: a moving mean */
};

/* cpus: that this process may use; threads: of its own that want one besides. */
void spin_init(struct spin *s, enum poll_mode mode, unsigned cpus, unsigned threads);
/* Something was found. */
void spin_found(struct spin *s, uint64_t now);
/* Nothing was: look once more? Who never sleeps is to look for other events now and then. */
bool spin_on(struct spin *s, uint64_t now);

#endif
