// SPDX-License-Identifier: Apache-2.0
/* The kernel's threads that serve iSCSI and iSER: one for each portal that waits for logins
 * (iscsi_np), two for each connection (iscsi_trx, iscsi_ttx), and workers that do what is queued
 * for them: where iSER's data is moved is where those of ib-comp-wq run. */
#ifndef RFTP_ISER_THREADS_H
#define RFTP_ISER_THREADS_H

#include "numa/numa.h"
#include "util/util.h"

#define THREAD_NAME 32
#define THREAD_TX "iscsi_ttx" /* the one that the kernel confines to the fabric's list */

struct lio_thread {
	char name[THREAD_NAME]; /* a worker's: of the queue that it has worked for last */
	int pid;
	bool worker;
	struct ids cpus;        /* it may run on */
	unsigned last;          /* CPU that it ran on */
};

struct lio_threads {
	struct lio_thread *v;   /* by name, then pid */
	size_t n;
};

/* proc: "/proc". A host without any is no error. 0, or a negative errno with text. l is
 * lio_threads_clear's in any case. */
int lio_threads_read(const char *proc, struct lio_threads *l, struct err *e);
void lio_threads_clear(struct lio_threads *l);

#endif
