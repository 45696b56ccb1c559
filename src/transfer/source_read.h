// SPDX-License-Identifier: Apache-2.0
/* A reader's own state and steps, shared by what packs small files (source_read.c), what reads
 * the others (source_piece.c) and what compares files with what the sink has of them
 * (source_resume.c). The reader's thread alone. */
#ifndef RFTP_TRANSFER_SOURCE_READ_H
#define RFTP_TRANSFER_SOURCE_READ_H

#include "transfer/source.h"

#define DEPTH_MAX 64

/* A read under way. */
struct piece {
	struct io_op op;
	struct sfile *file;
	uint64_t offset;
	uint32_t length;
};

struct reader {
	struct source *s;
	pthread_t thread;
	struct ids cpus;               /* it runs on; empty: any */
	struct io *io;
	unsigned depth;
	struct seal *seal;
	struct block *open;            /* being filled with small files; or NULL */
	struct sfile *mine;            /* of the last piece */
	struct piece pieces[DEPTH_MAX];
	struct piece *spare[DEPTH_MAX];
	unsigned nspare;
	uint8_t *run_buf;              /* for comparing runs; made when needed */
	char name[16];
};

/* A free block; while there is none, what we hold is finished first, because others
 * may be waiting for it as we do. NULL: the transfer has failed. */
struct block *reader_block(struct reader *r);
/* Number b, seal it, and hand it to its path. Takes b over. */
int reader_send(struct reader *r, struct block *b);
/* A descriptor of f, or a negative errno. */
int reader_open(struct reader *r, const struct sfile *f);
/* what: NULL for strerror(-code). */
void reader_file_failed(struct reader *r, struct sfile *f, int code, const char *what);
/* Compare the open file with f's entry and ctime. 0; -ESTALE: another inode, size or mtime;
 * -EAGAIN: only its ctime moved, by a change of attributes or by a write after which the mtime was
 * set back. */
int sfile_check(int fd, const struct sfile *f);
/* The file's present ctime is f's from now on; nothing of its content may have been used yet. */
void sfile_note_ctime(int fd, struct sfile *f);
/* Fail f with the text for code, a result of sfile_check(). */
void reader_file_changed(struct reader *r, struct sfile *f, int code);

/* source_piece.c */
/* The piece of a file that w is; takes its reference over. */
int reader_piece(struct reader *r, struct plan_work *w);
/* Finish at least min reads. */
int reader_reap(struct reader *r, int min);
/* The descriptor that all readers of f share, or a negative errno. */
int reader_fd(struct reader *r, struct sfile *f);

/* source_resume.c: compare what the sink says it has of f with our bytes, then have the
 * rest sent. Takes f's reference over. */
int reader_check_runs(struct reader *r, struct sfile *f);

#endif
