// SPDX-License-Identifier: Apache-2.0
/* The engine of transfers with a foreign server, which get.c and put.c share. Workers are threads
 * with a control connection each. The first one walks the sources and queues a task for each file;
 * the others are started as files wait. Functions with an err return 0 or a negative errno with
 * text. */
#ifndef RFTP_CLIENT_FOREIGN_ENGINE_H
#define RFTP_CLIENT_FOREIGN_ENGINE_H

#include "client/foreign/foreign.h"
#include "client/report.h"
#include "client/servers.h"
#include "transfer/transfer.h"

#include <pthread.h>
#include <stdatomic.h>

/* The bytes of one read or write, and of a run in a part's journal. Smaller files are not
 * resumed. */
#define FOREIGN_RUN (1u << 20)

/* A time in a LIST line may be too early by this much: it may be only a date, and its time zone is
 * unknown. */
#define TIME_ABOUT_S (36 * 3600)

/* A directory of the transfer, here and there. It is kept until the end of the transfer, when its
 * mode and time are set. */
struct fdir {
	struct fdir *next;         /* the directory added before it */
	struct fdir *parent;       /* NULL: it is the destination, or above it */
	char *there, *here;        /* its path on the server, and on this host */
	struct dir *local;         /* NULL: it does not exist here, as in a dry run */
	struct meta meta;          /* of the source */
	bool has_mode, has_time;
	bool made;                 /* created by this run; in a dry run: would be */
	unsigned depth;
	size_t rel_at;             /* of the source: where in its path the filter's path begins */
	uint64_t unique;           /* get: its fact "unique"; 0: none */
	/* Its entries on the server, sorted. put: only if the policy may keep them; get: until all
	 * are queued. */
	struct facts_list held;
};

/* The transfer of a file. The task owns the strings. */
struct ftask {
	struct ftask *next;
	struct fdir *dir;          /* at the destination; NULL: none */
	char *there;               /* its path on the server */
	char *here;                /* its path on this host; or "-", "zero:" or the like */
	const struct transfer_item *item; /* put: standard input or zeros; NULL: a file */
	/* get: the listed facts. put: those of the existing target; type 0: there is none. The
	 * member name is not used. */
	struct ftp_facts facts;
	uint64_t known;            /* its share of the counter bytes_known */
	uint64_t token;            /* put: random, to name a part that is not resumed; 0: none */
	/* moved: the bytes that this attempt has counted; kept: the part of moved that an earlier
	 * run has left; carried: the bytes that earlier attempts of this run have moved. */
	uint64_t moved, kept, carried;
};

struct worker {
	struct foreign *f;
	pthread_t thread;
	struct fconn *conn;
	bool was_connected;        /* it has had a connection */
	bool left;                 /* it got no connection, so it ends, and does not count as alive;
				    * guarded by f->lock */
	bool once;                 /* the step has used bytes of a pipe, so it cannot be repeated */
	unsigned fails;            /* connections lost since the last completed step */
	uint64_t bytes;            /* transferred by it; guarded by f->lock */
	void *room;                /* FOREIGN_RUN bytes */
};

/* A step that can be repeated from its start after the connection was lost. */
typedef int foreign_step(struct worker *w, void *arg, struct err *e);

/* The functions of one direction: get or put. */
struct foreign_ops {
	/* Fill d: does path exist at the destination, and is it a directory? Repeatable. */
	int (*look)(struct worker *w, const char *path, struct dest *d, struct err *e);
	/* Open path, the destination or the directory above it. make: create it. NULL with text.
	 * Repeatable. */
	struct fdir *(*open)(struct worker *w, const char *path, bool make, struct err *e);
	/* Create the directory arg, a struct fdir; it may exist. Repeatable. */
	foreign_step *make;
	/* Queue all files of source i, and report its errors. */
	void (*source)(struct worker *w, size_t i);
	/* Transfer the file of arg, a task. */
	foreign_step *file;
	/* Set the attributes of d, after all its files are done. Not called after a stop. */
	void (*leave)(struct worker *w, struct fdir *d);
};

struct foreign {
	const struct foreign_ops *ops;
	const struct foreign_job *job;
	const struct options *o;
	struct transfer_events events;
	struct pace pace;
	struct dirs *dirs;
	mode_t umask;
	uint64_t start_ns;
	atomic_bool stop;          /* the transfer must end: a signal, or fatal is set */
	atomic_bool resumable;     /* the next run can resume a part */

	/* Used by the first worker only, and at the end by the last one: */
	struct dest dest;
	bool dest_known;
	char *dest_path;
	struct fdir *base;         /* the destination as a directory */
	struct fdir *last;         /* --files-from: the last parent made */
	struct fdir *made;         /* all directories, the last one first */
	bool no_dir_times;         /* put: the server sets no times of directories */

	pthread_mutex_t lock;      /* guards all below, and the report's callbacks */
	pthread_cond_t more;       /* a task was queued, or the workers must end */
	pthread_cond_t moved;      /* wakes the main thread */
	struct ftask *files, **files_end;
	size_t nfiles;
	unsigned idle, alive, nworkers, most;
	unsigned busy;             /* tasks in progress, and the walk */
	struct worker *workers;    /* [most] */
	struct transfer_progress p; /* walked: the first worker is done with the sources */
	uint64_t left_out, resumed;
	struct err fatal;          /* code 0: none */
};

/* Run job. path: its destination. */
enum exit_status foreign_run(const struct foreign_ops *ops, const struct foreign_job *job,
			     const char *path);

/* ---- for the directions; any worker ---- */

/* Run step, and repeat it as --retries allows. -ECANCELED: the worker or the transfer must end. */
int foreign_try(struct worker *w, foreign_step *step, void *arg, struct err *e);
/* Queue a copy of t; takes over its strings and facts, also on failure. If many tasks are queued,
 * the calling worker runs one. */
int foreign_push(struct worker *w, const struct ftask *t, struct err *e);
/* A source of the command. */
struct foreign_source {
	const char *path;          /* here or there; or "stdin", "zero" */
	const char *rel;           /* with --files-from: its name in the list; else NULL */
	bool dir;
	/* Its destination, from foreign_find_dest(): */
	struct fdir *into;
	char name[256];            /* in into; or, with itself, the source becomes into */
	bool itself;
};
/* A foreign_step of a struct foreign_source. */
int foreign_find_dest(struct worker *w, void *source, struct err *e);
/* The offset in path, that of source s, of the path for the filter. */
size_t foreign_rel_at(const struct foreign_source *s, const char *path);
/* Does the filter include path, which begins at the destination, and all directories in it? */
bool foreign_admits(const struct foreign *f, const char *path, const struct ftp_facts *facts);
/* Add a directory. Takes there, here and local, also on failure. NULL with text; a NULL there or
 * here is a failed allocation. */
struct fdir *fdir_new(struct foreign *f, struct fdir *parent, char *there, char *here,
		      struct dir *local, struct err *e);
/* Add the subdirectory name of d, without creating it. NULL with text. */
struct fdir *fdir_sub(struct foreign *f, struct fdir *d, const char *name, struct err *e);

/* Count bytes as moved; kept: they were there before. Waits for --rate. -EINTR after a stop. */
int foreign_moved(struct worker *w, struct ftask *t, uint64_t bytes, bool kept, struct err *e);
/* Subtract this attempt's moved bytes from the counters: the next attempt counts them again. */
void foreign_unmoved(struct foreign *f, struct ftask *t);
/* Set the size of t in the counters. */
void foreign_known(struct foreign *f, struct ftask *t, uint64_t bytes);
/* Report that t is done, was left alone (skipped), or would be done (--dry-run). */
void foreign_done(struct foreign *f, const struct ftask *t, uint64_t bytes, bool skipped);
/* Report that path would be a new directory (--dry-run). */
void foreign_would_make(struct foreign *f, const char *path);
void foreign_failed(struct foreign *f, const char *path, const struct err *e);
/* Count path as not copied, and warn. */
void foreign_left_out(struct foreign *f, const char *path, const char *why);
/* Does the policy for existing files keep to, which from would replace? to->type 0: no file. With
 * --checksum the contents must be the same, too. */
bool foreign_keeps(const struct foreign *f, const struct ftp_facts *from,
		   const struct ftp_facts *to);
/* Compute the digest of the first len bytes of the file behind fd. Errors name it as shown. */
int foreign_digest(struct worker *w, int fd, const char *alg, uint64_t len, const char *shown,
		   char hex[2 * DIGEST_MAX + 1], struct err *e);
/* --checksum: has path there the content of the size bytes behind fd? 1, 0, or the errno of a lost
 * connection. 0 also when the server computes no digest, with a warning. */
int foreign_same_content(struct worker *w, const char *path, int fd, uint64_t size, struct err *e);
/* Is name that of a part, its journal, or a file that is being replaced, here or there? */
bool foreign_is_part(const char *name);

#endif
