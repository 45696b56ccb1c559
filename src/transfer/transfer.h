// SPDX-License-Identifier: Apache-2.0
/* transfer: one bulk transfer from the request to the summary. On each side it builds that side's
 * half of the pipeline walk -> read -> send || receive -> write -> commit from the layers below,
 * and dismantles it at the end. */
#ifndef RFTP_TRANSFER_H
#define RFTP_TRANSFER_H

#include "block/block.h"
#include "numa/numa.h"
#include "proto/proto.h"
#include "storage/storage.h"
#include "transport/transport.h"
#include "util/util.h"

#include <stdatomic.h>
#include <sys/socket.h>

/* The settings of this side. transfer_tuning_default() sets working defaults. */
struct transfer_tuning {
	enum io_kind io;
	enum { DIRECT_AUTO, DIRECT_ON, DIRECT_OFF } direct;
	enum { SORT_AUTO, SORT_PHYSICAL, SORT_NONE } sort; /* order in which a source reads files */
	unsigned readers, writers;  /* threads; 0: chosen */
	enum page_choice pages;     /* for blocks */
	struct place_wish place;    /* NUMA nodes */
	unsigned balance_percent;   /* as for balance_init() */
	uint64_t balance_ns;
	mode_t umask;               /* removed from modes that are not preserved */
	int tos;                    /* type of service of data connections; -1: the system's */
	enum poll_mode poll;
	const char *congestion;     /* congestion control of TCP streams on which this side sends;
				     * NULL: the system's, and bbr where packets are lost */
	uint32_t stall_ms;          /* a data channel that should make progress and makes none for
				     * this long is lost; 0: 30 s */
	const struct device_transport *rdma; /* NULL: no RDMA here */
	const char *nics;           /* "a,b": cards to use; NULL or "": chosen */
	struct nic_rules nic_rules; /* of single cards; must outlive the transfer */
	uint64_t memory;            /* bytes for pools; 0: a quarter of RAM or of the
	                             * control group's limit, at most 4 GiB */
	unsigned at_once;           /* transfers that this process runs at the same time: each gets
				     * an equal share of its memory and of its limit of locked
				     * memory; 0: one */
	uint32_t link_groups;       /* the most groups of hard links that a source remembers; 0:
				     * BULK_LINKED_MAX */
};

void transfer_tuning_default(struct transfer_tuning *t);
/* For rftp doctor: the fact "limits", rftp-protocol(7), of a transfer with these settings. The
 * caller owns it; NULL: out of memory. */
json_t *transfer_limits(const struct transfer_tuning *t);
/* At a server's start: log the network cards that can carry data, and the reason when there is no
 * RDMA. Opens no device. */
void transfer_say_cards(const struct transfer_tuning *t);

enum item_kind { ITEM_PATH, ITEM_STDIO, ITEM_ZERO, ITEM_NULL };

/* A source or a destination on this side. */
struct transfer_item {
	enum item_kind kind;
	const char *path;  /* ITEM_PATH; a trailing "/" counts (destination rule) */
	int fd;            /* ITEM_STDIO: the stream, such as standard input; it stays open */
	uint64_t size;     /* ITEM_ZERO */
	struct bulk_piece piece; /* ITEM_PATH, a source */
};

/* Called one at a time, from threads of the transfer; must be quick. Any may be NULL. */
struct transfer_events {
	void (*started)(void *arg, const struct agreement *a); /* once, after the agreement */
	void (*progress)(void *arg, const struct transfer_progress *p); /* 5 times a second */
	/* path: the file's name on this side, for people; text is empty when an event of its
	 * directory has already told the reason. */
	void (*file_done)(void *arg, const struct file_report *f);
	void (*file_failed)(void *arg, const char *path, int code, const char *text);
	void *arg;
};

/* ---- the destination rule: the place of a source, the same on a rerun ---- */

/* The destination as it is before the first entry. */
struct dest {
	bool slash;    /* it ends in "/" (or is "", ".", or must be a directory by option) */
	bool exists;
	bool is_dir;   /* after following links */
	bool several;  /* more than one source is copied there */
};

enum dest_kind {
	DEST_INTO,     /* under the source's name in the directory */
	DEST_AS,       /* under the destination's own name */
	DEST_CONTENTS, /* the source's contents, into the destination directory itself */
};

/* The place of a source. dir: it is a directory; contents: it was named with a final "/". 0 with
 * *place and *make (the destination directory must be created first); -ENOTDIR or -EINVAL, with a
 * text that has the right spelling; path is for that text. */
#define DEST_SEVERAL_WHY "several sources need a directory: write %s/"
int dest_resolve(const struct dest *d, const char *path, bool dir, bool contents,
		 enum dest_kind *place, bool *make, struct err *e);

/* ---- files that earlier attempts of a command have committed ---- */

/* Another attempt skips these files, and no others: a file that only looks like its source may be
 * an old one. Paths are those of transfer_events.file_done. */
struct committed;

#define COMMITTED_MAX (1u << 24) /* files; further ones are transferred again */

struct committed *committed_new(void);     /* NULL: out of memory */
void committed_free(struct committed *c);
/* Remember a file. Any thread. */
void committed_add(struct committed *c, const char *path);
/* Call it before another attempt, while no thread uses c: then committed_has() knows all files
 * added so far. */
void committed_recall(struct committed *c);
/* True: the file was added before the last committed_recall(). Any thread. */
bool committed_has(struct committed *c, const char *path);
/* committed_send() sends the recalled files as BULK_COMMITTED frames; committed_take() adds the
 * files in the payload of one. 0 or a negative errno. */
int committed_send(struct committed *c, struct mstream *ms);
int committed_take(struct committed *c, struct buf *p);

/* ---- a transfer ---- */

/* A memory budget; the caller of a transfer provides the functions. */
struct transfer_budget {
	/* Take up to want bytes for the agreement. 0 with the granted bytes in *got; or a negative
	 * errno with text: nothing was granted. NULL: there is no budget. */
	int (*take)(void *arg, uint64_t want, uint64_t *got, struct err *e);
	/* Return the bytes that take() granted. */
	void (*give_back)(void *arg, uint64_t bytes);
	void *arg;
};

/* The settings of a transfer, which all of its stages read here. It must outlive the transfer. */
struct transfer_config {
	struct mstream *ms;              /* logged in, and in line mode, before and after the
					  * transfer */
	/* A client sets all members but nonce, key and the numbers of this side's offer. A server
	 * sets the received request, after it has checked the account's rights. */
	struct bulk_request request;
	const uint8_t *master;           /* [32] from the TLS exporter; NULL: the request has the
					  * key, which a client creates; only on a secret stream, as
					  * over ssh */
	struct root *root;               /* opens ITEM_PATH items */
	const char *cwd;                 /* start of relative paths; NULL or "": the root */
	struct transfer_tuning tuning;
	struct transfer_events events;
	/* Called like events.progress, after it, with the agreement; NULL: no calls. */
	void (*watch)(void *arg, const struct transfer_progress *p, const struct agreement *a);
	void *watch_arg;
	int stop;                        /* a descriptor that becomes, and stays, readable to stop
					  * the transfer, resumable (-EINTR); -1: it cannot be
					  * stopped */
	bool keep_old;                   /* existing files are neither replaced nor changed */

	/* A client sets these members; transfer_serve() takes them from the request. */
	const struct transfer_item *items; /* the sources, or the one destination, on this side */
	uint32_t nitems;
	/* For sources from a list: source i is copied to this path below the destination, and
	 * missing parents are created. NULL: to the last component of its path. */
	const char *const *targets;

	/* A client's alone. */
	/* The address of data listeners for which the server names no address. If they cannot be
	 * reached the transfer falls back to in-band with a warning, if inband_ok. */
	struct sockaddr_storage peer;    /* local addresses are chosen by the route to it */
	socklen_t peer_len;
	bool inband_ok;
	/* Each committed file is added. With BULK_F_AGAIN it holds the files that earlier attempts
	 * have committed. Not owned; NULL: nothing is remembered. */
	struct committed *committed;
	int connect_timeout_ms;
	/* Do not wait a round trip for the server's closing reply after a successful transfer. */
	bool closing_later;
	bool closing_owed;               /* in and out: a closing reply is still unread */
	/* The server was chosen by another party of a copy, which must not use this side to probe
	 * networks. So TCP data connections go only to the server's own address, or from a card
	 * that leads to the named address (nic_leads_to()), and never to a port below
	 * port_least. */
	bool stranger;
	uint16_t port_least;
	/* When no data channel is left and at least this many bytes remain, the transfer ends,
	 * resumable (-ECONNRESET): the caller connects again, which is faster than in-band. 0: the
	 * caller will not do this. */
	uint64_t anew_from;

	/* A server's alone. */
	bool can_write;                  /* false: a put ends with -EROFS */
	const char *data_addr;           /* listener's; "": the control connection's own */
	int family;                      /* AF_INET or AF_INET6, used when data_addr is "" */
	struct sockaddr_storage local;   /* the address that the client has reached; AF_UNSPEC: not
					  * known */
	uint16_t port_lo, port_hi;       /* range of data ports; 0, 0: any */
	uint8_t prot_min;
	/* With a budget, take() may raise the limit of locked memory: it is read after take(). */
	struct transfer_budget budget;
};

/* Run a client's transfer. 0: it is complete, and r tells how many files failed; or a negative
 * errno with text. Afterwards the stream is in line mode, unless the error is one of the stream
 * itself (-EPIPE, -EPROTO, -ETIMEDOUT) or -ENOMEM. The calling thread sleeps until the end. */
int transfer_client(struct transfer_config *c, struct transfer_result *r, struct err *e);
/* Serve one request, after "150 " has been sent: from BULK_AGREE to BULK_END. The caller frees
 * the request; its key is wiped. 0, or a negative errno with text; *in_line tells whether the
 * stream is in line mode again. */
int transfer_serve(struct transfer_config *c, struct transfer_result *r, bool *in_line,
		   struct err *e);

/* ---- copies between two servers: reports to the client ---- */

/* In a transfer between two servers, each server reports to the requesting client on its control
 * connection with that client (proto/third.h). */

/* The server's part. A thread (watch) reads the client's frames meanwhile. */
struct relay {
	struct mstream *ms;              /* the stream to the client */
	bool each_file;                  /* the client also wants reports of files that are done */
	struct agreement agreement;      /* once the transfer has begun */
	bool agreed;
	int stop;                        /* an eventfd: readable once the client stops the transfer
					  * or has gone */
	pthread_t watch;
	bool watching;
	atomic_bool told;                /* RESULT was sent, or is being sent */
	bool lost;                       /* the client has gone; written by the watch thread, read
					  * after relay_end() */
	int write_ms;                    /* the write timeout of ms before relay_start() */
};

/* Begin to watch. 0, or a negative errno with text; relay_end() is harmless after either. */
int relay_start(struct relay *r, struct mstream *ms, bool each_file, struct err *e);
/* Callbacks that report to the client. r must outlive them. */
struct transfer_events relay_events(struct relay *r);
/* Send the result res of a transfer that ended with code rc; where (enum third_where) and text
 * describe a failure. If it cannot be sent, ms is aborted. */
void relay_result(struct relay *r, const struct transfer_result *res, int rc, uint8_t where,
		 const char *text);
/* After relay_result(): wait for the client's END, and answer it. 0: the stream carries FTP's lines
 * again; or a negative errno: the client has gone. */
int relay_end(struct relay *r);

/* The client's part: read a server's frames up to its BULK_RESULT, and call ev's functions in the
 * calling thread. A frame of type until also ends the reading, and is in p then. 0, -ETIMEDOUT
 * after THIRD_SILENCE_MS without a frame, or another negative errno: the connection is lost. */
struct relay_reader {
	struct mstream *ms;
	const struct transfer_events *ev;
	struct committed *committed;     /* files that are done are added; NULL: they are not
					  * remembered */
	uint8_t until;                   /* a frame type; BULK_RESULT: no other frame ends it */
	struct buf *p;                   /* for BULK_FRAME_MAX bytes: the frame that ended the
					  * reading */
	uint8_t type;                    /* the type of that frame */
};
int relay_read(struct relay_reader *r, struct err *e);
/* Ask the server to stop, if it still reads. Any thread. */
void relay_stop(struct mstream *ms);
/* After BULK_RESULT: exchange END. 0: the stream carries FTP's lines again; or a negative errno
 * with text. */
int relay_leave(struct relay_reader *r, struct err *e);

#endif
