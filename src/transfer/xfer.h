// SPDX-License-Identifier: Apache-2.0
/* The common part of source and sink: the control conversation of one transfer, its paths, its
 * first error, and its end. */
#ifndef RFTP_TRANSFER_XFER_H
#define RFTP_TRANSFER_XFER_H

#include "transfer/seal.h"
#include "transfer/placement/placement.h"
#include "transfer/transfer.h"

#include <pthread.h>
#include <stdatomic.h>

/* A sign of life is sent every BEAT_MS; a peer that is silent for SILENCE_MS is lost. */
#define BEAT_MS 1000
/* The time between two CHANNELS frames; several of them fit into the shortest --stall, 1 s. */
#define REPORT_MS 250
#define SILENCE_MS 30000
/* The time that the peer has to end its side after an abort. */
#define ABORT_GRACE_MS 5000
/* The ticker sends the due messages TICK_MS after its last tick, so that several are sent together.
 * While none is due it wakes up every TICK_IDLE_MS. */
#define TICK_MS 5
#define TICK_IDLE_MS 50

/* The time limit for the end of a conversation: a peer that answers needs one round trip. */
#define LEAVE_MS 2000

/* A running transfer checks for a stop itself and ends the conversation. Before and after that the
 * calling thread sleeps in the message stream or connects; then another thread aborts the stream on
 * a stop. */
struct stop_watch {
	struct mstream *ms;
	int fd;                /* an eventfd, readable once ms was aborted: ends waits for
				* connections */
	struct sentry sentry;
	atomic_bool begun;     /* the transfer is running, or was */
	bool aborted;          /* written by the thread; read after the join */
};

/* stop: a descriptor that becomes, and stays, readable when the user wants to stop; -1: nothing
 * is watched. 0, or a negative errno with text. stop_watch_end() is harmless after either. */
int stop_watch_start(struct stop_watch *w, int stop, struct mstream *ms, struct err *e);
/* The transfer runs: from now on a stop leaves LEAVE_MS for the end of the conversation. */
void stop_watch_begun(struct stop_watch *w);
/* End the thread. True: ms was aborted and is unusable. */
bool stop_watch_end(struct stop_watch *w);

struct xfer;

/* ---- the stages that hold a transfer back (shares.c) ---- */

/* Each side samples the state of its queues and threads several times a second; both sets of samples
 * together show the stage that the others waited for.
 *
 * The states of one side: a source with free blocks is held back by itself: it has no names to read,
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

/* The part of a transfer that depends on the role (source or sink). */
struct xfer_role {
	/* Create the tables, before any thread runs. 0, or a negative errno with text. */
	int (*prepare)(struct xfer *x, struct err *e);
	/* Start the threads of the stages, after the conversation has begun. 0, or a negative errno
	 * with text. */
	int (*start)(struct xfer *x, struct err *e);
	/* Wait until all is done, or the transfer has failed; join the stages. */
	void (*complete)(struct xfer *x);
	/* Handle a frame for this role; -EPROTO: an unexpected one. Control reader's thread. */
	int (*frame)(struct xfer *x, uint8_t type, struct buf *p, struct err *e);
	/* The only frame type of 128 or more that frame() handles; other such types are skipped. */
	uint8_t optional;
	/* Send the due messages: at most TICK_MS after xfer_due(), otherwise every TICK_IDLE_MS.
	 * The ticker's thread. */
	int (*tick)(struct xfer *x);
	/* The transfer has failed: close queues, pools and paths so that threads end. Any thread,
	 * once. */
	void (*cancel)(struct xfer *x);
	/* May the peer send BULK_END now? Before that its END is an error. */
	bool (*may_end)(struct xfer *x);
	/* The state of this side, for a sample. The ticker's thread. */
	enum side_state (*state)(struct xfer *x, const struct side_sample *sample);
	/* After a failure: the next run can use a part of a file. */
	bool (*resumable)(struct xfer *x);
};

struct xfer {
	struct transfer_config *c;           /* not owned */
	const struct xfer_role *role;
	bool source;                         /* this side sends blocks */
	const struct file_threads *threads;  /* the readers or writers */
	bool client;                         /* this side asked for the transfer */
	enum direction dir;                  /* in which blocks travel */
	struct offer *own;                   /* this side's offer */
	struct stop_watch watch;
	struct committed *committed;         /* c's; NULL if files count as done before their
					      * commit */

	/* Set up before threads start, in this order (setup.h). */
	int storage;                         /* the filesystem of items (O_PATH); < 0: none */
	struct agreement agr;
	bool inband_ok;                      /* both offers include in-band */
	bool same_host;                      /* device and inode mean the same to the peer */
	struct xkeys keys;
	struct placement *placement;
	uint32_t path_failed;                /* the path for which a setup function failed */
	uint32_t npaths;                     /* number of agreed paths */
	/* npaths, plus one when both sides offer in-band: the last path is the standby, which
	 * carries the blocks when no data channel is left. On a source it has no pool. */
	uint32_t nroutes;
	struct path *paths[NICS_MAX + 1];
	struct pool *pools[NICS_MAX + 1];
	struct endpoint *ends[NICS_MAX];     /* of paths that are not in-band */
	struct staging *staging[NICS_MAX + 1]; /* of pools that the peer can reach */
	/* The receivers or senders of paths; guarded by lock until all are started. */
	struct stage *stages[NICS_MAX + 1];
	struct path *inband;                 /* the member of paths that uses ms; or NULL */
	uint64_t started_ns, cpu_start_ns;

	/* Held while ABORT, or SUMMARY and END, are sent, so that nothing follows END. */
	pthread_mutex_t words_lock;
	bool said_abort, said_end;           /* guarded by words_lock */

	/* Locks in order of precedence: words_lock, lock, event_lock, tick_lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct err cause;                    /* guarded by lock; the first one stays */
	bool peer_aborted;                   /* guarded by lock: the cause came from the peer */
	bool peer_ended;                     /* guarded by lock: BULK_END was received */
	bool peer_summed;                    /* guarded by lock */
	struct bulk_counts peer;             /* guarded by lock: its latest counters */
	uint64_t rtt_ns;                     /* guarded by lock: the shortest one measured */
	bool ready;                          /* used by the control reader: READY was received */
	uint64_t shown_bytes;                /* of the last progress event, without bytes that
					      * existed already; used by the ticker, after its end
					      * by xfer_finish() */
	uint64_t tick_ns;                    /* used by the ticker: the length of its last sleep */
	uint64_t idle_ns, idle_at;           /* used by the ticker, see xfer_peer_idle() */
	uint64_t peer_stamp_ns;              /* guarded by lock: the next beat echoes it */

	pthread_mutex_t event_lock;          /* held during a callback */

	pthread_mutex_t tick_lock;
	pthread_cond_t tick;                 /* wakes the ticker: a message is due, a kick, or the
					      * end */

	_Atomic uint64_t heard_ns;           /* the time of the last frame of the peer */
	atomic_bool failed;                  /* cause is set */
	atomic_bool ticking, due, kick;      /* kick: tick now, without the wait of TICK_MS */
	pthread_t reader, ticker;
	bool reader_on, ticker_on;           /* reader_on: the reader runs; guarded by lock */
	bool reader_started;
	/* The counts of this side for BULK_BEAT and the summary; bytes_known: of all entries so
	 * far. */
	struct {
		_Atomic uint64_t entries, files, failed, skipped, left_out, blocks;
		_Atomic uint64_t corrected, removed, removed_bytes, in_the_way;
		_Atomic uint64_t bytes, bytes_kept, bytes_known;
	} count;
	atomic_bool walked;                  /* all entries are known */
	atomic_bool sent;                    /* BULK_SENT was sent, or received */
	_Atomic uint64_t touched;            /* failed files with a changed ctime: another attempt
					      * may succeed */
	struct shares shares;
	_Atomic uint32_t channels_lost;
	atomic_uchar channel_ends[CHANNELS_MAX]; /* flags of enum channel_end, xfer.c */
	atomic_int lost_why[CHANNELS_MAX];   /* positive errno: the ticker will report it */
	atomic_bool lost_any;
	bool lost_seen;                      /* used by the ticker */
	atomic_bool fell_back;               /* the standby is in use */
};

/* ---- threads that read or write files (file_thread.c) ---- */

#define FILE_THREADS_MAX 64
#define FILE_DEPTH 8 /* operations in flight per thread */

struct file_thread;

/* Readers, or writers. */
struct file_thread_kind {
	const char *name, *verb, *past;       /* "write", "writing", "written" */
	size_t size;                          /* of a struct that begins with a file_thread */
	int (*begin)(struct file_thread *t, unsigned i); /* before thread i: 0 or -ENOMEM */
	void (*run)(struct file_thread *t);
	/* op has finished or failed. A returned error ends the thread. Called also after run(). */
	int (*done)(struct file_thread *t, struct io_op *op);
	void (*end)(struct file_thread *t);   /* also after a failed begin() */
};

/* Used by its own thread. */
struct file_thread {
	struct xfer *x;
	const struct file_thread_kind *kind;
	pthread_t thread;
	struct ids cpus;                      /* of its thread; empty: any */
	struct io *io;
	unsigned depth;                       /* operations in flight */
	struct io_op ops[FILE_DEPTH], *spare; /* linked by next */
};

struct file_threads {
	struct file_thread *at[FILE_THREADS_MAX]; /* NULL: not started */
	unsigned n;
};

/* The number of threads: wanted, or that of tuning_threads() if it is 0. */
unsigned file_threads_wanted(const struct xfer *x, unsigned wanted);
/* Start g->n threads. 0, or a negative errno with text. */
int file_threads_start(struct file_threads *g, struct xfer *x, const struct file_thread_kind *kind,
		       enum io_kind engine, struct err *e);
void file_threads_join(struct file_threads *g);
/* Start an operation; if depth operations are in flight then, wait for one and handle it. Both return
 * 0, or an error of done(), or of the engine, with which the transfer has failed. */
int file_thread_submit(struct file_thread *t, const struct io_op *wanted);
int file_thread_reap(struct file_thread *t, int min); /* handle at least min operations */

void xfer_init(struct xfer *x);
void xfer_destroy(struct xfer *x);
/* Free all paths, pools and endpoints of x. Call it while no stage runs. */
void xfer_free_paths(struct xfer *x);

/* Fail the transfer: note the cause, tell the peer, and take the pipeline down. Later causes are
 * ignored. Returns code. Any thread. */
int xfer_fail(struct xfer *x, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same after the control stream ended with r: a negative errno, or 0 for the end of the
 * stream. */
void xfer_control_failed(struct xfer *x, int r);
static inline bool xfer_failed(struct xfer *x)
{
	return atomic_load_explicit(&x->failed, memory_order_relaxed);
}

/* Keep the stage that was started for paths[i]; if the transfer fails meanwhile, it is aborted. */
void xfer_keep_stage(struct xfer *x, uint32_t i, struct stage *stage);
/* For xfer_role.cancel. */
void xfer_abort_stages(struct xfer *x);
/* Start the control reader and the ticker. 0, or a negative errno with text. */
int xfer_start(struct xfer *x, struct err *e);
/* Sleep until until(x) is true or the transfer has failed. until() is called with lock held, after
 * each xfer_changed(). */
void xfer_wait(struct xfer *x, bool (*until)(struct xfer *x));
void xfer_changed(struct xfer *x);
/* A message to the peer is due: wakes the ticker. Any thread, with any lock but tick_lock. */
void xfer_due(struct xfer *x);
/* For xfer_role.tick. True: the peer has done nothing for HELD_LIMITS times the limit of a data
 * channel plus extra_ms, and this side waited for it all that time. waits: it waits now. progress
 * is a number that changes with the peer's work; signs of life do not count. The function adds up
 * ticks, so that the time in which this process is stopped does not count. */
bool xfer_peer_idle(struct xfer *x, bool waits, uint64_t progress, uint64_t extra_ms);
/* The time, in milliseconds, in which the peer must read this many bytes of files; it sends nothing
 * meanwhile. At 10 MiB/s. */
static inline uint64_t xfer_read_ms(uint64_t bytes)
{
	return bytes / (10 << 20) * 1000;
}
/* The last data channel was lost with code. If the peer has given up, its reason arrives on the
 * control stream and is the better one: wait for it a little, then fail with code. Any thread but
 * the control reader. */
void xfer_data_lost(struct xfer *x, int code);
/* End the conversation: send the summary and BULK_END, wait for the peer's, and end both threads.
 * 0; or the cause, or the stream's error, with text. *in_line: the stream is in line mode. */
int xfer_finish(struct xfer *x, bool *in_line, struct err *e);

/* Send a frame with the bytes of b, which the caller keeps; b may be NULL. Sleeps while the stream
 * is full. 0, or the stream's error, which all later calls return, too. Any thread. */
int xfer_send(struct xfer *x, uint8_t type, struct buf *b);
/* Send this side's counts. In a BULK_BEAT stamp_ns is the present time and echo_ns the stamp of the
 * peer's last beat; otherwise both are 0. Returns as xfer_send(). */
int xfer_send_counts(struct xfer *x, uint8_t type, uint64_t stamp_ns, uint64_t echo_ns);
int xfer_send_failure(struct xfer *x, uint8_t type, uint64_t id, int code, const char *text);
/* The peer could not read or write a file: call the event file_failed. path: the file's name on
 * this side. Any thread. */
void xfer_file_failed_there(struct xfer *x, const char *path, const struct bulk_failure *f);

/* The sink has removed a name: count it, and call the event file_done. Any thread. */
void xfer_removed(struct xfer *x, const struct bulk_removed *m);

/* ---- channels.c ---- */

/* Warn of channels that were lost before the last tick; peer: also send LOST for those that the
 * peer has not given up itself. Wait one tick: a dying peer closes its channels a moment before its
 * control connection, and then only the loss of the connection is worth a message. 0 or the
 * stream's error. */
int xfer_say_lost(struct xfer *x, bool peer);
/* Send CHANNELS, a sink's report of each channel's progress. 0 or the stream's error. */
int xfer_report_channels(struct xfer *x);
int xfer_on_channels(struct xfer *x, struct buf *p);
/* Let paths without running stages release devices that are being removed: a sink may sync or read
 * back for a long time after the last block. */
void xfer_tend_paths(struct xfer *x);

/* The path for blocks when no data channel is left; NULL: there is none. */
static inline struct path *xfer_standby(const struct xfer *x)
{
	return x->nroutes > x->npaths ? x->paths[x->npaths] : NULL;
}
/* The standby is about to be used. If a new connection would be better (anew_from), this fails the
 * transfer. Any thread. */
void xfer_fell_back(struct xfer *x);
/* A data channel has gone down: error 0: in good order; otherwise it is lost, for this negative
 * errno. Call it once for each channel. Any thread. */
void xfer_channel_down(struct xfer *x, uint32_t path, uint32_t channel, int error);
/* Bytes of incomplete blocks that have arrived at the sink on all paths. Any thread. */
uint64_t xfer_ahead(const struct xfer *x);
/* Handle BULK_LOST. 0 or a negative errno. Control reader's thread. */
int xfer_on_lost(struct xfer *x, struct buf *p);
/* True: no data channel is left. Any thread. */
bool xfer_all_down(const struct xfer *x);
/* Fill r from the counts of both sides; after xfer_finish. */
void xfer_result(struct xfer *x, struct transfer_result *r);

#define XFER_EVENT(x, name, ...) do {                                   \
	if ((x)->c->events.name) {                                        \
		LOCK_GUARD(event_guard_, &(x)->event_lock);             \
		(x)->c->events.name((x)->c->events.arg, __VA_ARGS__);       \
	}                                                               \
} while (0)

#endif
