// SPDX-License-Identifier: Apache-2.0
/* What source and sink have in common: the control conversation of one transfer, its
 * paths, its first error, and its end. */
#ifndef RFTP_TRANSFER_XFER_H
#define RFTP_TRANSFER_XFER_H

#include "transfer/shelter.h"
#include "transfer/keys.h"
#include "transfer/placement.h"
#include "transfer/transfer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* A sign of life is sent this often, and one is missed after SILENCE_MS. */
#define BEAT_MS 1000
/* Between two reports of the channels; several in the shortest time of --stall, 1 s. */
#define REPORT_MS 250
#define SILENCE_MS 30000
/* How long the peer may take to end its side after an abort. */
#define ABORT_GRACE_MS 5000
/* The ticker sends the messages that are due this long after its last tick, several at once; while
 * none is due it wakes up every TICK_IDLE_MS. */
#define TICK_MS 5
#define TICK_IDLE_MS 50

struct xfer;

/* What the role (source or sink) does with the conversation. Called by the control
 * reader's thread, but for tick (ticker) and cancel (any thread, once). */
struct xfer_role {
	/* A frame of the role's; -EPROTO for one that has no place here. */
	int (*frame)(struct xfer *x, uint8_t type, struct buf *p, struct err *e);
	/* The type from 128 on that it takes; others are skipped. */
	uint8_t optional;
	/* At most TICK_MS after xfer_due(), else every TICK_IDLE_MS: send the messages that are due. */
	int (*tick)(struct xfer *x);
	/* The transfer has failed: close queues, pools and paths so that threads end. */
	void (*cancel)(struct xfer *x);
	/* May the peer come to its end now? Before that it leaves us in the lurch. */
	bool (*may_end)(struct xfer *x);
	/* How far this side is. */
	void (*counts)(struct xfer *x, struct bulk_counts *c);
	void (*progress)(struct xfer *x, struct transfer_progress *p);
};

struct xfer {
	/* Set before threads start. */
	struct mstream *ms;
	const struct xfer_role *role;
	struct agreement agr;
	struct xkeys keys;
	enum direction dir;                  /* which way blocks go */
	bool client;                         /* we are: what fails there fails on the server */
	const struct bulk_request *req;
	const struct transfer_tuning *tuning;
	const struct transfer_events *events; /* never NULL; its functions may be */
	struct committed *committed;         /* a client's, see transfer_client_config; or NULL */
	int stop;                            /* readable: to be stopped; -1: it cannot be */
	struct placement *placement;         /* not owned; of this side */
	int storage;                         /* where the files are (O_PATH), not owned; < 0: nowhere */
	bool same_host;                      /* device and inode mean the same to the peer */
	uint32_t npaths;                     /* what was agreed */
	/* One more than npaths when both sides offer in-band: the standby, last of all, takes
	 * the blocks when no data channel is left. A source's has no pool of its own. */
	uint32_t nroutes;
	struct path *paths[NICS_MAX + 1];
	struct pool *pools[NICS_MAX + 1];
	struct endpoint *ends[NICS_MAX];     /* of paths that are not in-band */
	struct shelter *shelters[NICS_MAX + 1]; /* of pools that the peer can reach */
	struct path *inband;                 /* the one of paths that goes through ms; or NULL */
	bool inband_ok;                      /* both offers have it */
	uint64_t anew_from;                  /* as transfer_client_config.anew_from */
	uint64_t started_ns, cpu_start_ns;

	/* Held while ABORT, or SUMMARY and END, are sent: in this order, nothing after END. */
	pthread_mutex_t words_lock;
	bool said_abort, said_end;           /* guarded by words_lock */

	/* Locks in order of precedence: words_lock, lock, event_lock, tick_lock. */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct err cause;                    /* guarded by lock; the first one stays */
	bool peer_aborted;                   /* guarded by lock: cause came from there */
	bool peer_ended;                     /* guarded by lock: BULK_END came */
	bool peer_summed;                    /* guarded by lock */
	struct bulk_counts peer;             /* guarded by lock: its last word */
	uint64_t rtt_ns;                     /* guarded by lock: least seen */
	bool ready;                          /* the control reader's: READY has come */
	uint64_t shown_bytes;                /* of the last progress event, without those that were
					      * kept: the ticker's, after its end xfer_finish()'s */
	uint64_t tick_ns;                    /* the ticker's: how long it slept last */
	uint64_t idle_ns, idle_at;           /* the ticker's, see xfer_peer_idle() */
	uint64_t peer_stamp_ns;              /* guarded by lock: to be echoed */

	pthread_mutex_t event_lock;          /* callbacks come one at a time */

	pthread_mutex_t tick_lock;
	pthread_cond_t tick;                 /* the ticker's own: due, kicked, or to end */

	_Atomic uint64_t heard_ns;           /* when the peer was last heard */
	atomic_bool failed;                  /* cause is set */
	atomic_bool ticking, due, kick;      /* kick: without the wait of TICK_MS */
	pthread_t reader, ticker;
	bool reader_on, ticker_on;           /* reader_on: it still reads; guarded by lock */
	bool reader_started;
	_Atomic uint64_t touched;            /* files that another attempt may find at rest */
	_Atomic uint32_t channels_lost;
	atomic_uchar channel_ends[CHANNELS_MAX]; /* flags of enum channel_end, xfer_paths.c */
	atomic_int lost_why[CHANNELS_MAX];   /* positive errno: to be said by the ticker */
	atomic_bool lost_any;
	bool lost_seen; /* of the ticker */
	atomic_bool fell_back;               /* the standby is in use */
};

int xfer_init(struct xfer *x);
void xfer_destroy(struct xfer *x);

/* Note the first cause and take the pipeline down; later ones are ignored. The peer is
 * told. Returns code. Any thread. */
int xfer_fail(struct xfer *x, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same when the control stream ended with r, a negative errno or 0 for its end. */
void xfer_control_failed(struct xfer *x, int r);
static inline bool xfer_failed(struct xfer *x)
{
	return atomic_load_explicit(&x->failed, memory_order_relaxed);
}

static inline bool xfer_is_source(const struct xfer *x)
{
	return x->paths[0]->watch.source;
}

/* Start the control reader and the ticker. */
int xfer_start(struct xfer *x, struct err *e);
/* Sleep until until(x) is true (checked under lock, after each xfer_changed) or the
 * transfer has failed. */
void xfer_wait(struct xfer *x, bool (*until)(struct xfer *x));
void xfer_changed(struct xfer *x);
/* A message to the peer is due: wakes the ticker. Any thread, with any lock but tick_lock. */
void xfer_due(struct xfer *x);
/* For xfer_role.tick. Has the peer, while this side waits for it, done nothing for HELD_LIMITS times
 * the limit of a data channel and extra_ms more? progress is a number that changes with the peer's
 * work; signs of life do not count. Adds up ticks: the time in which this process is stopped is not
 * the peer's. */
bool xfer_peer_idle(struct xfer *x, bool waits, uint64_t progress, uint64_t extra_ms);
/* The time that the peer has for reading so many bytes of files, of which it says nothing until it is
 * through: at 10 MiB/s. */
static inline uint64_t xfer_read_ms(uint64_t bytes)
{
	return bytes / (10 << 20) * 1000;
}
/* A data channel broke off. When the peer has given up, its reason is on its way on the
 * control stream, and is the better one: wait for it a little, then fail with ours. */
void xfer_data_lost(struct xfer *x, int code);
/* The last words: sends the summary and BULK_END, waits for the peer's, ends both
 * threads. 0: the stream is in line mode; the cause, or the stream's own error else;
 * *in_line tells. */
int xfer_finish(struct xfer *x, bool *in_line, struct err *e);

/* Send a frame that holds what is in b, which may be NULL and stays the caller's. Sleeps
 * while the stream takes no more. 0, or the stream's error, which stays. Any thread. */
int xfer_send(struct xfer *x, uint8_t type, struct buf *b);
int xfer_send_failure(struct xfer *x, uint8_t type, uint64_t id, int code, const char *text);
/* The peer could not read or write a file: tell whoever listens here. path: as it is known
 * here. */
void xfer_file_failed_there(struct xfer *x, const char *path, const struct bulk_failure *f);

/* The way blocks take when no data channel is left; NULL: there is none. */
static inline struct path *xfer_standby(const struct xfer *x)
{
	return x->nroutes > x->npaths ? x->paths[x->npaths] : NULL;
}
/* The standby is about to be used. The transfer has failed when it is not worth it. */
void xfer_fell_back(struct xfer *x);
/* What data has gone by may be wanted by others while a sink still syncs or reads back: paths
 * whose stages have ended let go of devices that are being removed. The ticker. */
void xfer_tend_paths(struct xfer *x);
/* A data channel has gone down: in good order (0) or, and then it counts as lost, for this reason, a
 * negative errno. Once for each channel. Any thread. */
void xfer_channel_down(struct xfer *x, uint32_t path, uint32_t channel, int error);
/* Warn of the channels that were lost a tick ago; peer: and send LOST for those that the peer has
 * not given up itself. A tick, because a peer that dies closes its channels a moment before its
 * control connection, and then only the latter is worth a message. 0 or the stream's error. Ticker. */
int xfer_say_lost(struct xfer *x, bool peer);
/* A sink sends CHANNELS, how each channel gets on. 0 or the stream's error. Ticker. */
int xfer_report_channels(struct xfer *x);
/* Bytes of incomplete blocks that have arrived at the sink, by all paths. Any thread. */
uint64_t xfer_ahead(const struct xfer *x);
/* BULK_LOST, BULK_CHANNELS. Control's reader. */
int xfer_on_lost(struct xfer *x, struct buf *p);
int xfer_on_channels(struct xfer *x, struct buf *p);
/* Is it the rate that was asked for that so many bytes until now are not more? */
bool xfer_at_rate(const struct xfer *x, uint64_t bytes);
/* No data channel is left. Any thread. */
bool xfer_all_down(const struct xfer *x);
/* Channels of all paths, with those that have not been opened. */
uint32_t xfer_channels(const struct xfer *x);
/* Fill r from what both sides said; after xfer_finish. */
void xfer_result(struct xfer *x, struct transfer_result *r);

#define XFER_EVENT(x, name, ...) do {                                   \
	if ((x)->events->name) {                                        \
		LOCK_GUARD(event_guard_, &(x)->event_lock);             \
		(x)->events->name((x)->events->arg, __VA_ARGS__);       \
	}                                                               \
} while (0)

#endif
