// SPDX-License-Identifier: Apache-2.0
/* Transfers with FTP servers that need not be rftpd: a file per data connection, several control
 * connections at once. Tasks (something named, a directory, a file) lie in queues; each worker, a
 * thread with a control connection, takes one after the other. */
#ifndef RFTP_CLIENT_FOREIGN_H
#define RFTP_CLIENT_FOREIGN_H

#include "client/report.h"
#include "client/server.h"
#include "transfer/transfer.h"

#include <pthread.h>
#include <stdatomic.h>

#define FOREIGN_CONNECTIONS 4      /* when nobody says otherwise */
#define FOREIGN_CONNECTIONS_MOST 32
#define FOREIGN_DEPTH_MOST 200     /* of directories, or they go in a circle */
/* What is read and written at once, and a run of a part's journal. Smaller files are not
 * resumed. */
#define FOREIGN_RUN (1u << 20)
/* Behind the name of a part there: rftpd keeps names without it for its own parts. */
#define FOREIGN_PART ".put"
/* And behind that of a file which another one is about to replace, on servers that do not replace
 * one by renaming. */
#define FOREIGN_OLD ".put.old"

/* ---- what it is about ---- */

struct foreign_job {
	struct server *server;
	struct report *report;
	struct root *root;
	bool several;              /* sources */
	bool into;                 /* --files-from: into a directory, names are paths */
	/* get: paths there, and the one place here */
	const char *const *sources;
	size_t nsources;
	const char *base;          /* of --files-from: what names are relative to; "" */
	const struct transfer_item *to;
	/* put */
	const struct transfer_item *items;
	const char *const *targets; /* NULL: none */
	const char *path;          /* there */
};

/* Everything has been said and added to the report afterwards. */
enum exit_status foreign_get(const struct foreign_job *job);
enum exit_status foreign_put(const struct foreign_job *job);

/* ---- one file, foreign_fetch.c and foreign_store.c ---- */

struct worker;
struct ftask;
int foreign_get_file(struct worker *w, struct ftask *t, struct err *e);
int foreign_put_file(struct worker *w, struct ftask *t, struct err *e);

/* ---- foreign_say.c ---- */

/* Options that were given and mean nothing with such a server: 0, or -EINVAL with text. put false:
 * get, and whatever copies nothing. */
int foreign_check(const struct job *j, bool put, struct err *e);
/* That there is no RDMA and no block integrity: once in a run. */
void foreign_note(const struct server *s);

/* ---- foreign_rm.c ---- */

/* path, a directory, and all that is in it. 0, or a negative errno with the first reason. */
int foreign_remove(struct server *s, const char *path, struct err *e);

/* ---- directories, foreign_dir.c ---- */

/* A directory of the transfer, here and there. Whoever works on something in it holds a reference;
 * with the last one it gets its mode and times. */
struct fdir {
	atomic_uint refs;
	struct fdir *parent;       /* a reference; NULL: a place that was there, or was named */
	char *remote;              /* its path there */
	char *shown;               /* its path here, for people */
	struct dir *local;         /* NULL: not there, as in a dry run */
	struct meta meta;          /* of the source */
	bool has_mode, has_time;
	bool made;                 /* by us; in a dry run: it would be */
	unsigned depth;
	uint64_t unique;           /* get: its fact; 0: none */
	uint64_t content;          /* get: a digest of its list; 0: no files in it, or not known */
	struct there *there;       /* put: what has been in it; NULL: nothing, or it is not known */
};

/* What a directory on the server held: for --update and the like. */
struct there;
int there_add(struct there **all, const struct ftp_facts *f);
const struct ftp_facts *there_find(const struct there *all, const char *name);
void there_free(struct there *all);

/* Is it a part, here or there, its journal, or what one is about to replace? Those are nobody's
 * files. */
bool foreign_is_part(const char *name);
/* A digest of text in hexadecimal, for such names. */
void foreign_hex(char out[2 * RUN_DIGEST_BYTES + 1], const char *text);

/* Takes remote, shown and local over, in any case. NULL: memory is out, also when one of the texts
 * is NULL. */
struct fdir *fdir_new(struct fdir *parent, char *remote, char *shown, struct dir *local);
/* The one called name in d, not looked at yet. */
struct fdir *fdir_sub(struct fdir *d, const char *name, bool dry);
struct fdir *fdir_ref(struct fdir *d);

/* ---- the engine: foreign.c, foreign_queue.c, foreign_worker.c, foreign_tell.c ---- */

enum ftask_kind { FTASK_NAMED, FTASK_DIR, FTASK_FILE };

struct ftask {
	struct ftask *next;
	enum ftask_kind kind;
	size_t index;              /* NAMED: which source */
	struct fdir *dir;          /* DIR: itself; FILE: the one it is in. A reference */
	char *name;                /* FILE: in dir, at the destination */
	char *remote;              /* FILE: its path there */
	char *local;               /* put: a path of its own here; NULL: name in dir */
	const struct transfer_item *item; /* put: what is no file; NULL */
	struct ftp_facts facts;    /* get: what was listed of it; its name is not used */
	bool follow;               /* a link that was named, or --follow */
	bool once;                 /* what it took or gave is gone: it cannot be run again */
	unsigned attempts;
	uint64_t token;            /* put: in the name of a part that nobody goes on with; 0: none */
	uint64_t carried;          /* bytes that attempts before have brought, and left there */
	uint64_t known;            /* bytes that are counted for it */
};

struct foreign;

/* One control connection and its thread. */
struct worker {
	struct foreign *f;
	pthread_t thread;
	struct ftp_client *client; /* set and cleared under f->lock */
	bool was_connected;        /* it has been, before */
	bool left;                 /* it is not among the alive any more; under f->lock */
	unsigned fails;            /* connections lost since a task was done */
	uint64_t bytes;            /* by it; under f->lock */
	/* Of the task under way, under f->lock: what was added to the progress' bytes and
	 * bytes_kept, and of what is kept the part that its attempts before brought. */
	uint64_t moved, kept, carried;
	uint64_t mine;             /* of what was moved, as it was taken back */
	void *room;                /* FOREIGN_RUN bytes */
};

struct foreign_ops {
	/* Run one task: 0, or a negative errno with text; exit_is_lost() of it: once more. */
	int (*named)(struct worker *w, struct ftask *t, struct err *e);
	int (*dir)(struct worker *w, struct ftask *t, struct err *e);
	int (*file)(struct worker *w, struct ftask *t, struct err *e);
	/* All in d is done, by w. Not after a stop. */
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
	atomic_bool stop;          /* no more: a signal, or fatal */
	atomic_bool resumable;     /* a part was left that the next run goes on with */
	atomic_bool no_dir_times;  /* put: the server sets none of directories */

	/* Before lock. Guards where things go, which is found out once: */
	pthread_mutex_t plan;
	struct dest dest;
	bool dest_known;
	char *dest_path;           /* put: absolute */
	struct fdir *base;         /* the destination as a directory; a reference */
	struct fdir *last;         /* --files-from: the last parent made; a reference */

	pthread_mutex_t lock;      /* guards all below; the report's callbacks, too */
	pthread_cond_t more;       /* tasks, or the end */
	pthread_cond_t moved;      /* for the main thread */
	struct ftask *named, *named_last, *dirs_first, *files, *files_last;
	size_t nfiles;
	unsigned idle, alive, nworkers, most;
	unsigned busy;             /* tasks under way */
	unsigned listing;          /* of them such as find further ones */
	struct worker *workers;    /* [most] */
	struct transfer_progress p;
	uint64_t left_out, resumed;
	struct err fatal;          /* code 0: none */
};

/* Run all tasks of the job's n sources. */
enum exit_status foreign_run(const struct foreign_ops *ops, const struct foreign_job *job,
			     size_t n);

/* For the ops: any worker. */
void foreign_push(struct foreign *f, struct ftask *t);      /* takes t over */
struct ftask *ftask_new(enum ftask_kind kind, struct fdir *dir); /* takes a reference of its own */
void ftask_free(struct worker *w, struct ftask *t);
void fdir_put(struct worker *w, struct fdir *d);
/* Bytes have gone; kept: were there already. Waits as --rate wants it. -EINTR with text after a
 * stop. */
int foreign_moved(struct worker *w, uint64_t bytes, bool kept, struct err *e);
/* So many bytes, or fewer, are to be moved at once, of which foreign_moved() is told. */
size_t foreign_step(const struct foreign *f, size_t bytes);
/* w runs t from its start. */
void foreign_begin_task(struct worker *w, const struct ftask *t);
/* All that the task has moved is to be moved again, or found: it is not counted any more. */
void foreign_unmoved(struct worker *w);
/* A file of so many bytes was left alone. */
void foreign_passed(struct foreign *f, uint64_t bytes);
/* t has so many bytes. */
void foreign_known(struct foreign *f, struct ftask *t, uint64_t bytes);
void foreign_done(struct foreign *f, const char *path, uint64_t bytes, bool skipped);
/* --dry-run: path would be a new directory. */
void foreign_would_make(struct foreign *f, const char *path);
void foreign_failed(struct foreign *f, const char *path, const struct err *e);
/* Something that is not copied, with a warning. */
void foreign_left_out(struct foreign *f, const char *path, const char *why);
/* A name that no file may get, from a server that is odd or up to something: said, and counted as a
 * failure. True: it is one. */
bool foreign_bad_name(struct foreign *f, const struct fdir *d, const char *name);

/* ---- within the engine ---- */

/* foreign_queue.c. Behind those of its kind, directories before; with the lock held. */
void foreign_queue(struct foreign *f, struct ftask *t);
/* Further tasks may yet be found; with the lock held. */
bool foreign_looks(const struct foreign *f);
/* For a worker: NULL when there is nothing left, or it is to stop. */
struct ftask *foreign_take(struct foreign *f);
/* The task is to be run again, from its start, or is over and freed. */
void foreign_give_back(struct worker *w, struct ftask *t);
void foreign_end_task(struct worker *w, struct ftask *t);

/* foreign_worker.c, with the lock held. 0, or a negative errno. */
int foreign_add_worker(struct foreign *f);
/* One more connection, if more are wanted and there can be one. */
void foreign_add_another(struct foreign *f);

#endif
