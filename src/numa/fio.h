// SPDX-License-Identifier: Apache-2.0
/* fio(1): a run of it, and what it found. */
#ifndef RFTP_NUMA_FIO_H
#define RFTP_NUMA_FIO_H

#include "numa/numa.h"

struct fio_job {
	const char *name;
	bool write, direct;
	uint64_t block, slice;     /* bytes; each job has a slice of its own, in blocks */
	unsigned jobs, seconds;
	const struct ids *cpus;    /* that its threads may use; NULL: as it comes */
	int memory_node;           /* of its buffers; NODE_UNKNOWN: as it comes */
};

struct fio_result {
	double bytes_per_second;
	double mean_ns, p99_ns;    /* from a request's issue to its completion */
};

/* fio is there, and has been built with libnuma. 0; -EINTR: it was stopped; or another
 * negative errno; with text, that says what to install. */
int fio_check(const struct stop *stop, struct err *e);
/* On the file or disk that fd is, which stays the caller's. When fio fails, what it said goes
 * to the log. */
int fio_run(const struct fio_job *job, int fd, const struct stop *stop, struct fio_result *r,
	    struct err *e);
/* What fio prints with --output-format=json; lines before it are passed over. 0; -EBADMSG: it
 * is damaged, or another program's; -EIO: fio says that it failed; with text. */
int fio_parse(const char *text, bool write, struct fio_result *r, struct err *e);

#endif
