// SPDX-License-Identifier: Apache-2.0
/* The steps of a block at the sink: it is opened, checked and admitted (admit.c), then written
 * (write.c). */
#ifndef RFTP_TRANSFER_SINK_WRITE_H
#define RFTP_TRANSFER_SINK_WRITE_H

#include "block/block.h"
#include "transfer/seal.h"
#include "transfer/sets.h"
#include "transfer/xfer.h"

/* Standard output or another descriptor; stdout_wake() ends a write to a consumer that has stopped
 * reading. */
struct stdout_writer {
	int fd;          /* the given one, or another description of the same pipe */
	int wake;        /* eventfd */
	size_t chunk;    /* most bytes that a write after poll(2) accepts without sleeping */
	bool own;        /* fd is ours to close */
	bool socket;
};

/* fd stays the caller's. Its flags are left alone: standard output is shared with other processes.
 * 0 or a negative errno. */
int stdout_open(struct stdout_writer *o, int fd);
/* Write len bytes. 0; -ECANCELED after stdout_wake(), with any part of them written; or another
 * negative errno. One thread. */
int stdout_write(struct stdout_writer *o, const void *p, size_t len);
/* End present and later writes with -ECANCELED. Any thread, between open and close. */
void stdout_wake(struct stdout_writer *o);
void stdout_close(struct stdout_writer *o);

struct sink;
struct sink_file;

struct sink_writers {
	struct bq *arrived;            /* blocks of all paths */
	struct file_threads threads;
	pthread_mutex_t lock;
	struct block *parked;          /* guarded by lock: blocks that wait for their entries */
	struct numbers *numbers;       /* guarded by lock */
	_Atomic uint64_t bad_blocks;
	_Atomic uint32_t held;         /* blocks that writers have taken and not returned; parked
				        * ones do not count */
	/* Standard output; used by its only writer, which writes blocks in the order of their
	 * numbers. */
	struct stdout_writer out;
	uint64_t stream_next;
	struct block *stream_held;
};

int writers_start(struct sink *s, struct err *e);

/* admit.c */
/* Check *b. 0: it equals the sent block and is new; *b may have become its copy in the staging
 * pool. 1: it needs no more work, and was released. Negative: the transfer fails; the caller still
 * owns *b. */
int sink_check(struct sink *s, struct unseal *u, struct block **b);
/* True: b was parked until its entries arrive. */
bool sink_park(struct sink *s, struct block *b);
/* Hand parked blocks to the writers after their entries have arrived. */
void sink_unpark(struct sink *s);
/* b has been handled: return it to its path with this status. Any thread. */
void sink_release(struct sink *s, struct block *b, uint32_t status);
/* Put b back without an answer: the transfer has failed. */
void sink_drop(struct sink *s, struct block *b);
/* May x be written? 0: yes; 1: its file is over, drop x; negative: x does not fit or has arrived
 * before, and the transfer has failed with this error. */
int extent_admit(struct sink *s, struct sink_file *f, const struct extent *x);
/* Note that bytes at up to end of f exist from an earlier transfer. False: there is no room to note
 * it; the bytes must be sent again. */
bool sink_file_had(struct sink *s, struct sink_file *f, uint64_t at, uint64_t end);
/* Has data between at and end arrived in this transfer? Then digests from before are out of date. */
bool sink_file_came_again(struct sink *s, struct sink_file *f, uint64_t at, uint64_t end);
/* Check f when the expected number of bytes has been written. 0: they are the right bytes;
 * negative: some are missing, and the transfer has failed with this error. */
int sink_file_check_whole(struct sink *s, struct sink_file *f);

/* write.c: f has failed, by a write or a change of its attributes. */
void sink_file_write_failed(struct sink *s, struct sink_file *f, int code);

#endif
