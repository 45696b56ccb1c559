// SPDX-License-Identifier: Apache-2.0
/* transfer: one bulk transfer from the request to the summary. Builds the pipeline
 * walk -> read -> send || receive -> write -> commit out of the layers below, on
 * whichever side it runs, and takes it down again. */
#ifndef RFTP_TRANSFER_H
#define RFTP_TRANSFER_H

#include "block/block.h"
#include "numa/numa.h"
#include "proto/proto.h"
#include "storage/storage.h"
#include "transfer/dest.h"
#include "transport/transport.h"
#include "util/util.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* How this side does its part. Everything has a working default in
 * transfer_tuning_default(). */
struct transfer_tuning {
	enum io_kind io;
	enum { DIRECT_AUTO, DIRECT_ON, DIRECT_OFF } direct;
	enum { SORT_AUTO, SORT_PHYSICAL, SORT_NONE } sort; /* files that a source reads */
	unsigned readers, writers;  /* threads; 0: chosen */
	unsigned depth;             /* I/O operations in flight per thread; 0: chosen */
	enum page_choice pages;     /* for blocks */
	struct place_wish place;    /* NUMA nodes */
	unsigned balance_percent;   /* as balance_init takes them */
	uint64_t balance_ns;
	mode_t umask;               /* taken off modes that are not preserved */
	int tos;                    /* of data connections; -1: as the system has it */
	enum poll_mode poll;
	const char *congestion;     /* congestion control of TCP streams that this side sends by;
				     * NULL: the system's, and bbr where packets are lost */
	uint32_t stall_ms;          /* a data channel that should make progress and makes none for
				     * so long is lost; 0: 30 s */
	const struct device_transport *rdma; /* NULL: none here */
	const char *nics;           /* "a,b": cards to be used; NULL or "": as it suits */
	struct nic_rules nic_rules; /* of single cards; must outlive the transfer */
	uint64_t memory;            /* bytes for pools; 0: a quarter of RAM or of the
	                             * control group's limit, at most 4 GiB */
	unsigned at_once;           /* transfers of this process at a time, which share memory
				     * and what of it may be locked; 0: one */
	uint32_t link_groups;       /* of hard links that a source knows at once; 0: as many
				     * as may be, BULK_LINKED_MAX */
};

void transfer_tuning_default(struct transfer_tuning *t);
/* For a server's start: the log gets the cards that data can go by, and what is in the way of
 * RDMA. Opens no device. */
void transfer_say_cards(const struct transfer_tuning *t);

enum item_kind { ITEM_PATH, ITEM_STDIO, ITEM_ZERO, ITEM_NULL };

/* A source or a destination on this side. */
struct transfer_item {
	enum item_kind kind;
	const char *path;  /* ITEM_PATH; a trailing "/" counts (destination rule) */
	uint64_t size;     /* ITEM_ZERO */
};

struct transfer_progress {
	uint64_t entries, files_done, files_failed, files_skipped;
	uint64_t bytes;         /* acknowledged, or there already: */
	uint64_t bytes_kept;    /* these of them */
	uint64_t bytes_known;   /* of all entries so far; final when walked */
	bool walked;
	double seconds;         /* since the transfer began */
	const char *bottleneck; /* a few words for people, static; NULL: not known */
};

/* Called one at a time, from threads of the transfer; must be quick. Any may be NULL. */
struct transfer_events {
	void (*started)(void *arg, const struct agreement *a); /* once, agreed */
	void (*progress)(void *arg, const struct transfer_progress *p); /* 5 times a second */
	/* path is what a person knows the file by on this side, as far as it is known; text is
	 * empty when all has been said already, of the directory that it was to go to. */
	void (*file_done)(void *arg, const char *path, uint64_t bytes, bool skipped);
	void (*file_failed)(void *arg, const char *path, int code, const char *text);
	void *arg;
};

struct transfer_result {
	struct agreement agreement;
	struct bulk_counts local, remote;  /* remote: as the peer says */
	uint64_t wall_ns;
	uint64_t files, failed, skipped;   /* of the whole transfer */
	uint64_t bytes;                    /* payload carried */
	uint64_t resumed;                  /* bytes that needed no carrying */
	uint64_t rtt_ns;
	uint32_t nchannels;
	uint64_t channel_bytes[CHANNELS_MAX];
	uint32_t channels_lost;
	bool fell_back;                    /* none was left: the rest went in-band */
	uint64_t touched;                  /* of failed: their ctime moved, another attempt may do */
	bool resumable;                    /* broken off; a part and its journal hold data */
};

/* ---- files that earlier attempts of a command have committed ---- */

/* A transfer that is tried again leaves these alone, and no others: a file that merely looks like
 * its source may be an old one. Paths are those of transfer_events.file_done. */
struct committed;

#define COMMITTED_MAX (1u << 26) /* files; those beyond are transferred again */

struct committed *committed_new(void);     /* NULL: memory is out */
void committed_free(struct committed *c);
/* Remember a file. Any thread. */
void committed_add(struct committed *c, const char *path);
/* Before another attempt, while no thread uses c: committed_has() knows all files added so far. */
void committed_recall(struct committed *c);
/* A file that was added before the last committed_recall(). Any thread. */
bool committed_has(const struct committed *c, const char *path);
/* The recalled files as BULK_COMMITTED frames; the payload of one. 0 or a negative errno. */
int committed_send(const struct committed *c, struct mstream *ms);
int committed_take(struct committed *c, struct buf *p);

/* ---- the client's side ---- */

struct transfer_client_config {
	struct mstream *ms;              /* logged in; in line mode before and after */
	struct bulk_request request;     /* all but nonce, key and offer's own numbers */
	const uint8_t *master;           /* [32] TLS exporter; NULL: a key is drawn and sent
					  * (only on a stream that is secret, as over ssh) */
	/* Where data listeners are when they name no address of their own; the path to
	 * them unreachable falls back to in-band with a warning, if inband_ok. */
	struct sockaddr_storage peer;    /* its way there is our end's, too */
	socklen_t peer_len;
	bool inband_ok;
	/* PUT: sources here; GET: one destination here. */
	const struct transfer_item *items;
	uint32_t nitems;
	struct root *root;               /* for ITEM_PATH */
	/* PUT with names from a list: source i goes to this path below the destination
	 * (parents made); NULL: the last component of its path. */
	const char *const *targets;
	/* Gets each file that is committed, and with BULK_F_AGAIN says which files were, before.
	 * Not owned; NULL: not remembered. */
	struct committed *committed;
	struct transfer_tuning tuning;
	struct transfer_events events;
	int stop;                        /* a descriptor that becomes, and stays, readable: stop,
					  * resumable (-EINTR); -1: it cannot be stopped */
	int connect_timeout_ms;
	/* Do not wait a round trip for the server's closing reply after a successful transfer. */
	bool closing_later;
	bool closing_owed;               /* in and out: a closing reply is still unread */
	/* The server is somebody else's choice, who is not to learn by us what there is elsewhere:
	 * TCP data goes to its own address, or by a card that leads to the one it names
	 * (nic_leads_to), and to no port below so many. */
	bool stranger;
	uint16_t port_least;
	/* When no data channel is left and so many bytes or more are to go, the transfer ends,
	 * resumable (-ECONNRESET): the caller comes again, which is faster than in-band. 0: he
	 * does not. */
	uint64_t anew_from;
};

/* Run one transfer. 0: it came to its end, r tells how many files failed; or a
 * negative errno with text: it did not. The stream is in line mode afterwards unless
 * the error is of the stream itself (-EPIPE, -EPROTO, -ETIMEDOUT) or -ENOMEM. */
int transfer_client(struct transfer_client_config *c, struct transfer_result *r,
		    struct err *e);

/* ---- the server's side ---- */

/* Memory that somebody else counts. */
struct transfer_purse {
	/* Memory for what would be agreed on, want bytes: 0 with *got of them; or a negative errno
	 * with text: none. NULL: nobody counts. */
	int (*take)(void *arg, uint64_t want, uint64_t *got, struct err *e);
	/* What take() got is free again. */
	void (*give_back)(void *arg, uint64_t bytes);
	void *arg;
};

struct transfer_server_config {
	struct mstream *ms;
	struct bulk_request *request;    /* as received and checked for rights */
	const uint8_t *master;           /* [32] exporter; NULL: the request brought the key */
	struct root *root;               /* what the session may see */
	const char *cwd;                 /* relative paths of the request start here */
	bool can_write;                  /* otherwise a put ends with -EROFS */
	bool keep_old;                   /* what exists is neither replaced nor changed */
	const char *data_addr;           /* listener's; "": the control connection's own */
	int family;                      /* AF_INET or AF_INET6, used when data_addr is "" */
	struct sockaddr_storage local;   /* where the client has reached us; AF_UNSPEC: not known */
	uint16_t port_lo, port_hi;       /* 0, 0: any */
	uint8_t prot_min;
	struct transfer_tuning tuning;
	/* With it, what may be locked is what the limit says when take() has come back. */
	struct transfer_purse purse;
	struct transfer_events events;
	int stop;                        /* as the client's; -1: only the client stops it */
};

/* Serve one request, after "150 " has been sent: from BULK_AGREE to BULK_END. 0, or a
 * negative errno with text; *in_line tells whether the stream is in line mode again. */
int transfer_serve(struct transfer_server_config *c, struct transfer_result *r,
		   bool *in_line, struct err *e);

/* ---- seen by a third ---- */

/* A transfer between two servers, told to the client that asked for it, on the control
 * connection that each server has with it (proto/third.h). */

/* The server's part. What the client says meanwhile is read by a thread: watch. */
struct relay {
	struct mstream *ms;              /* the client's */
	bool each_file;                  /* it wants to hear of files that are done, too */
	struct agreement agreement;      /* once the transfer has begun */
	bool agreed;
	int stop;                        /* an eventfd: readable once the client wants to stop,
					  * or has gone */
	pthread_t watch;
	bool watching;
	atomic_bool told;                /* RESULT has been sent, or is about to be */
	bool lost;                       /* the watch's until relay_end: the client has gone */
	int write_ms;                    /* of ms, before */
};

/* Begin to watch. 0, or a negative errno with text; relay_end() is harmless after either. */
int relay_start(struct relay *r, struct mstream *ms, bool each_file, struct err *e);
/* Callbacks that tell the client. r must outlive them. */
struct transfer_events relay_events(struct relay *r);
/* Tell how it ended: res of a transfer whose code is rc; where (enum third_where) and text are
 * of a failure. When that cannot be, ms is aborted. */
void relay_result(struct relay *r, const struct transfer_result *res, int rc, uint8_t where,
		 const char *text);
/* After relay_result(): wait until the client has said that it is through, and answer it. 0:
 * FTP's lines again; or a negative errno: the client has gone. */
int relay_end(struct relay *r);

/* The client's part: read what a server says until its BULK_RESULT, and pass it on to ev, whose
 * callbacks are called by the calling thread. type: of another frame that is waited for, which
 * ends it, too, and is in p then. 0, -ETIMEDOUT after THIRD_SILENCE_MS without a word, or
 * another negative errno: the server has gone. */
struct relay_reader {
	struct mstream *ms;
	const struct transfer_events *ev;
	struct committed *committed;     /* gets the files that are done; NULL: not remembered */
	uint8_t until;                   /* a type; BULK_RESULT: nothing before that */
	struct buf *p;                   /* of BULK_FRAME_MAX: the frame that ended it */
	uint8_t type;                    /* of that */
};
int relay_read(struct relay_reader *r, struct err *e);
/* Any thread: stop, if the server still listens. */
void relay_stop(struct mstream *ms);
/* After BULK_RESULT: take leave. 0: FTP's lines again. */
int relay_leave(struct relay_reader *r, struct err *e);
/* What a server tells as the client's own transfers tell it. */
void relay_take(const struct third_result *t, struct transfer_result *out);

#endif
