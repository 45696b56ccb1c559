// SPDX-License-Identifier: Apache-2.0
/* The end of files: their commit, and the threads that do it. Any thread. */
#ifndef RFTP_TRANSFER_SINK_COMMIT_H
#define RFTP_TRANSFER_SINK_COMMIT_H

#include "storage/storage.h"
#include "transfer/sink/link.h"

#include <pthread.h>

#define COMMITTERS_MAX 16

struct sink;
struct sink_dir;
struct sink_file;

enum sink_job { JOB_NONE, JOB_EMPTY, JOB_BEGIN, JOB_COMMIT, JOB_DIGEST };

struct jobs {
	struct sink_file *first, **end; /* the list owns a reference of each; end is NULL while it
					 * is empty */
};

struct sink_commits {
	pthread_t thread[COMMITTERS_MAX];
	unsigned n;
	_Atomic unsigned parts;        /* open parts, each with a descriptor */
	unsigned parts_most;           /* above this number writers wait for commit threads */
	pthread_mutex_t lock;
	pthread_cond_t more, done;
	/* Guarded by lock. */
	struct sink_file *jobs, **jobs_end;
	struct sink_file *later;       /* to be tried again */
	uint64_t later_ns;             /* the time to try later again */
	bool closed;
	unsigned busy;                 /* commit threads that are working */
};

int committers_start(struct sink *s, struct err *e);
void committers_join(struct sink *s);
void sink_job(struct sink *s, struct sink_file *f, enum sink_job job); /* takes a reference */
/* f has its name. If --ack requires a sync of the name, f is added to later; the caller hands later
 * to sink_jobs() at the end, so that each directory is synced once for all its files. Otherwise f
 * is done now. */
void sink_file_named(struct sink *s, struct sink_file *f, struct jobs *later);
void sink_jobs(struct sink *s, struct jobs *later); /* hand over the list; it is empty after this */

/* All bytes of f have been written: commit it. */
void sink_file_complete(struct sink *s, struct sink_file *f);
/* Bytes; of a pipe, once it is known. */
uint64_t sink_file_size(const struct sink_file *f);
/* f is done; end is not FILE_REMOVED. */
void sink_file_done(struct sink *s, struct sink_file *f, enum file_end end);
/* The common end of all files, including failed ones and those that the source could not send: free
 * the slot and settle the links that wait for f. f->over must be set. */
void sink_file_over(struct sink *s, struct sink_file *f, enum link_state state);
/* f has failed with code. fmt "": the reason has been reported already. */
void sink_file_failed(struct sink *s, struct sink_file *f, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
/* The spec of f's part; it refers to members of f. */
struct part_spec sink_file_spec(struct sink *s, struct sink_file *f);
/* The part of f, for writers. Before it creates a part it sleeps while too many are open and commit
 * threads can close some. NULL with text. */
struct part *sink_file_part_in_turn(struct sink *s, struct sink_file *f, struct err *e);

#endif
