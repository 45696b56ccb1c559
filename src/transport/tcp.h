// SPDX-License-Identifier: Apache-2.0
/* The parts of TCP paths: connecting, opening channels, the number of streams, the path itself with
 * its two directions. */
#ifndef RFTP_TRANSPORT_TCP_H
#define RFTP_TRANSPORT_TCP_H

#include "transport/credit.h"
#include "transport/transport.h"

#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- connecting (connect.c) ---- */

/* The same address, of the same family. */
bool address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* Disable Nagle's algorithm and enable keepalive. */
void socket_options(int fd);
/* Set the type of service of fd, or of the connections that fd accepts. */
void socket_tos(int fd, int tos);
/* Begin to connect a new non-blocking socket, *out, to a, from a local address (NULL: chosen by the
 * routes). 0, and the caller owns *out; or a negative errno. */
int connect_begin(const struct sockaddr *a, socklen_t len, const struct sockaddr *from, int *out);
/* Call it once the socket is writable: 0 when it is connected, or the negative errno of the
 * failure. */
int connect_result(int fd);

/* ---- the number of streams (climb.c) ---- */

/* A snapshot of one stream (TCP_INFO), or of all streams of a path. Counters never fall; rtt_ns,
 * queue_ns and n may. */
struct tcp_sample {
	uint64_t now_ns;         /* of a path: the time of the sample */
	uint64_t rtt_ns;         /* the least round trip measured; 0: not known */
	uint64_t queue_ns;       /* source: (mean) queueing delay above rtt_ns */
	uint64_t bytes;          /* source: acknowledged; sink: received */
	uint64_t packets;        /* data packets sent, or received */
	uint64_t lost;           /* source: retransmitted; sink: received out of order */
	uint64_t limited_ns;     /* source: waiting for a window or a buffer, summed */
	uint16_t n;              /* of a path: streams that are up */
};

/* Leaves s unchanged if TCP_INFO fails. */
void tcp_sample_stream(int fd, bool source, struct tcp_sample *s);

/* Hill climbing: doubles the number of streams while packets are lost or windows limit the streams,
 * unless packets wait in queues; and again whenever the total rate has risen. Pure: no I/O, no
 * clock, no locks. */
struct climb {
	uint16_t most;
	uint16_t wanted;         /* number of streams */
	bool on;                 /* false: the number is final */
	struct tcp_sample from;  /* start of the current measurement */
	bool settling;           /* new streams are starting; this measurement does not count */
	uint16_t before_n;       /* streams before the present step; 0: no step is being tried */
	uint64_t before;         /* bytes per second with before_n streams */
	uint64_t pause_ns, again_ns; /* after a failed step: the wait, and its end */
	bool queue_stood;        /* packets waited in queues at the last sample */
	uint64_t quiet_packets, quiet_lost; /* the counters when the last queue was empty */
};

/* first: open streams; most: the limit. */
void climb_init(struct climb *c, uint16_t first, uint16_t most);
/* The time between two samples, nanoseconds. */
uint64_t climb_interval_ns(uint64_t rtt_ns);
/* The wanted number of streams, which never falls. */
uint16_t climb_step(struct climb *c, const struct tcp_sample *s);
/* True: the path loses packets although no packets wait in queues: the streams are not the cause.
 * Call it with each sample. */
bool climb_loses_by_itself(struct climb *c, const struct tcp_sample *s);

/* ---- opening channels (opener.c), rftp-protocol(7), Data channels ---- */

/* The client connects, the server listens. */
struct opener_config {
	const struct channel_auth *auth; /* outlives the opener */
	uint16_t first, n;               /* channels first .. first + n - 1 at most */
	int patience_ms;                 /* the longest wait for the next channel, then begin
					  * without the missing ones; -1: wait for all */
	int listen_ms;                   /* server, during the transfer: listen this long after the
					  * last channel; -1: as long as the path */
	/* client: */
	struct sockaddr_storage to, from; /* from of AF_UNSPEC: by the routes */
	socklen_t to_len;
	int tos;                         /* type of service; -1: the system's */
};

struct opener;

/* lfd: a listener, which the opener takes over; -1: connect to c->to. NULL with text; the caller
 * keeps lfd then. */
struct opener *opener_new(const struct opener_config *c, int lfd, struct err *e);
/* Wait for want channels, or fewer (patience_ms). Connections that fail to prove the session are
 * closed with a log line. stop: a descriptor that becomes readable to cancel (-ECANCELED), or
 * -1. timeout_ms: -1: none. 0; or a negative errno with text: the client can open none, the
 * server's proof is wrong, or no client connected in time. */
int opener_first(struct opener *o, uint16_t want, int stop, int timeout_ms, struct err *e);
/* The connection of channel first + i, which the caller owns from now on; -1: not open. */
int opener_take(struct opener *o, uint16_t i);
/* Start a thread that hands later channels to path by tcp_path_add(), until opener_free() or, on a
 * server, until listen_ms have passed. 0 or a negative errno. Call it once. */
int opener_go_on(struct opener *o, struct path *path);
/* Client: ask for n channels in all. Any thread. */
void opener_want(struct opener *o, uint16_t n);
/* Client. True: a connection failed, and the opener tries no others. Any thread. */
bool opener_refused(const struct opener *o);
void opener_free(struct opener *o);

/* ---- paths ---- */

/* Blocks of a channel that are not completely written: the current one and the next, so that the
 * socket is not idle until the stage posts more. */
#define TCP_QUEUE 2u

/* Sockets are watched edge-triggered: readable and writable stay set until a call moves fewer bytes
 * than requested, after which epoll reports the next change. */
struct tcp_channel {
	int fd;
	uint32_t index;
	bool up, used;         /* used: it is up, or was */
	atomic_int arriving;   /* any thread: a new connection for the path's thread; -1: none */
	struct tcp_sample stream; /* the last sample */
	bool readable, writable;
	bool hup;              /* no edge will follow: read on until the end */
	atomic_bool damaged;   /* any thread: a block of it was refused; take the channel down */
	struct messages lists; /* credit lists: the source checks, the sink seals them */

	/* source */
	struct block *queue[TCP_QUEUE];
	uint32_t queued;
	size_t sent;           /* wire bytes of queue[0] that are written */
	uint64_t outstanding;  /* wire bytes posted to this channel and unanswered */
	uint64_t answered;     /* wire bytes of blocks that were answered */
	uint8_t *in;           /* credit lists as they arrive, CREDIT_LIST_BYTES */
	size_t in_have;

	/* sink */
	uint8_t head[BLOCK_WIRE_HEAD];
	uint32_t head_have;
	bool opened;           /* the head is checked and counts against the credits */
	bool starved;          /* no block is free for it; it counts as held */
	struct block *filling;
	uint32_t table;        /* its extent table's bytes */
	uint32_t got;          /* bytes of table and payload that have arrived */
	struct block_head h;
	uint8_t *out;          /* a credit list that is being sent, CREDIT_LIST_BYTES */
	size_t out_len, out_sent;
	bool answers;          /* the box may have answers */
};

struct tcp_path {
	struct path path;
	struct path_config cfg;
	struct sleeper sleeper;
	bool sealed;             /* lists of credits are sealed with this key */
	uint8_t list_key[KEY_BYTES];
	uint32_t turn;           /* the channel to serve first in the next round */
	bool shut;               /* finish has closed our direction */

	/* Other threads store these for the poller, then kick it. */
	atomic_uint due;         /* sink: answers since the poller last looked */
	atomic_bool damage;      /* sink: a channel is damaged */
	atomic_bool arrivals;    /* new connections of channels */

	struct opener *opener;   /* owned; NULL: all channels are open */
	struct climb climb;
	uint64_t looked_ns;      /* time of the last sample of the streams */
	const char *congestion;  /* control of the streams; NULL: the system's */
	bool congestion_tried;   /* another control was tried, or one was chosen */

	/* source */
	struct unacked *unacked;

	/* sink */
	uint32_t batch;          /* this many answers are sent even while data arrives */
	bool stalled;            /* a block's head has arrived, but no block is free */
	pthread_mutex_t lock;    /* guards box: the poller, and the callers of release */
	struct credit_box *box;

	struct tcp_channel ch[];
};

/* One round for one channel: do a limited amount of work and queue the path's events. An error ends
 * the channel, not the path. */
void tcp_source_serve(struct tcp_path *p, struct tcp_channel *c);
void tcp_sink_serve(struct tcp_path *p, struct tcp_channel *c);
bool tcp_source_runnable(const struct tcp_channel *c);
bool tcp_sink_runnable(const struct tcp_path *p, const struct tcp_channel *c);
bool tcp_source_room(struct tcp_path *p);
int tcp_source_post(struct path *path, struct block *b);
void tcp_sink_release(struct path *path, struct block *b, uint32_t status);
void tcp_sink_refuse(struct path *path, struct block *b);

/* Take a channel down; error 0: in good order. The source's blocks are returned; the sink's go back
 * to their pool. */
void tcp_channel_down(struct tcp_path *p, struct tcp_channel *c, int error);
/* Hand over fd, the connection of channel i, which has never been up. Any thread. */
void tcp_path_add(struct path *path, uint32_t i, int fd);
/* Take over o, which opens the missing channels. first: the number of streams at the start, which
 * hill climbing increases; 0: only the peer opens more. */
void tcp_path_grow(struct path *p, struct opener *o, uint16_t first);
/* Publish the bytes of unanswered blocks that TCP has acknowledged, by c->stream. */
void tcp_source_publish_ahead(struct tcp_path *p, struct tcp_channel *c);
void tcp_source_drop(struct tcp_path *p, struct tcp_channel *c);
void tcp_sink_drop(struct tcp_path *p, struct tcp_channel *c);

static inline void tcp_set_ahead(struct tcp_path *p, const struct tcp_channel *c, uint64_t bytes)
{
	__atomic_store_n(&p->path.channel_ahead[c->index], bytes, __ATOMIC_RELAXED);
}

/* Append to iov [p, p+len) without its first *skip bytes, at most *room bytes; reduce both. */
static inline void tcp_add_piece(struct iovec *iov, int *n, uint8_t *p, size_t len, size_t *skip,
				 size_t *room)
{
	size_t from = *skip < len ? *skip : len;

	*skip -= from;
	len -= from;
	if (len > *room)
		len = *room;
	if (!len)
		return;
	*room -= len;
	iov[*n].iov_base = p + from;
	iov[*n].iov_len = len;
	(*n)++;
}

#endif
