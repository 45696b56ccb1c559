// SPDX-License-Identifier: Apache-2.0
/* What the parts of the TCP path share: its channels, its poller, its two directions. */
#ifndef RFTP_TRANSPORT_TCP_H
#define RFTP_TRANSPORT_TCP_H

#include "transport/credit.h"
#include "transport/fault.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- the number of streams (climb.c) ---- */

/* A snapshot of a path's streams. All counters only grow; rtt_ns, queue_ns and n do not. */
struct climb_sample {
	uint64_t now_ns;
	uint64_t rtt_ns;         /* the least round trip; 0: not known */
	uint64_t queue_ns;       /* source: mean queueing delay above rtt_ns */
	uint64_t bytes;          /* source: acknowledged; sink: received */
	uint64_t packets;        /* data packets sent, or received */
	uint64_t lost;           /* source: retransmitted; sink: received out of order */
	uint64_t limited_ns;     /* time that streams waited for a window or buffer, summed */
	uint16_t n;              /* streams that are up */
};

/* Hill climbing: while the path loses packets, or windows limit the streams, and no queue stands,
 * it doubles their number, and doubles it again if the sum became faster. Pure: no I/O, no clock,
 * no locks. */
struct climb {
	uint16_t most;
	uint16_t wanted;         /* streams */
	bool on;                 /* false: the number is final */
	struct climb_sample from; /* start of the current measurement */
	bool settling;           /* new streams are starting; this measurement does not count */
	uint16_t before_n;       /* streams before the step on trial; 0: no trial */
	uint64_t before;         /* bytes per second with before_n streams */
	uint64_t pause_ns, again_ns; /* after a failed step: how long to wait, and until when */
	bool queue_stood;        /* at the last sample */
	uint64_t quiet_packets, quiet_lost; /* the counters when the last queue had gone */
};

/* first: open streams; most: the limit. */
void climb_init(struct climb *c, uint16_t first, uint16_t most);
/* The time between two samples, nanoseconds. */
uint64_t climb_interval_ns(uint64_t rtt_ns);
/* Returns the wanted number of streams, which never falls. */
uint16_t climb_step(struct climb *c, const struct climb_sample *s);
/* The path loses packets although no queue stands: not because the streams are too fast. Called
 * with each sample. */
bool climb_loses_by_itself(struct climb *c, const struct climb_sample *s);

/* ---- opening channels (opener.c), rftp-protocol(7), Data channels ---- */

/* The client connects, the server listens. */
struct opener_config {
	const struct channel_auth *auth; /* outlives the opener */
	uint16_t first, n;               /* channels first .. first + n - 1 at most */
	int patience_ms;                 /* after the last channel that opened, wait so long for the
					  * next one, then begin without the missing ones; -1: wait
					  * for all */
	int listen_ms;                   /* server, during the transfer: after the last channel, listen
					  * so long for others; -1: as long as the path */
	/* client: */
	struct sockaddr_storage to, from; /* from of AF_UNSPEC: by the routes */
	socklen_t to_len;
	int tos;                         /* type of service; -1: the system's */
};

struct opener;

/* lfd: a listener, which the opener takes over; -1: connect to c->to. NULL with text, and lfd is
 * still the caller's. */
struct opener *opener_new(const struct opener_config *c, int lfd, struct err *e);
/* Wait for want channels, or fewer (patience_ms). Connections that fail to prove the session are
 * closed with a log line. stop: a descriptor that becomes readable to cancel (-ECANCELED), or
 * -1. timeout_ms: -1: never. 0; or a negative errno with text: the client can open none, or the
 * server's proof is wrong; no client has come in time. */
int opener_first(struct opener *o, uint16_t want, int stop, int timeout_ms, struct err *e);
/* The connection of channel first + i, owned by the caller from now on; -1: not open. */
int opener_take(struct opener *o, uint16_t i);
/* Start a thread that hands later channels to path by tcp_path_add(). It ends with opener_free()
 * or, on a server, 20 s after the last channel. 0 or a negative errno. Call it once. */
int opener_go_on(struct opener *o, struct path *path);
/* Client: ask for n channels in all. Any thread. */
void opener_want(struct opener *o, uint16_t n);
/* Client: a connection failed; the opener tries no others. Any thread. */
bool opener_refused(const struct opener *o);
void opener_free(struct opener *o);

/* ---- paths ---- */

/* Blocks handed to a channel and not yet wholly written: one on its way and one behind
 * it, so that the socket is never idle while the stage looks for more. */
#define TCP_QUEUE 2u

/* TCP_INFO of one stream. The counters only grow. */
struct tcp_stream {
	uint64_t rtt_ns;         /* the least seen */
	uint64_t queue_ns;       /* queueing delay above rtt_ns now; source */
	uint64_t bytes, packets; /* acknowledged and sent; or received */
	uint64_t lost;           /* packets sent again; or come out of order */
	uint64_t limited_ns;     /* it waited for a window or a buffer; source */
};

/* Leaves s unchanged if TCP_INFO fails. */
void tcp_stream_look(int fd, bool source, struct tcp_stream *s);

/* Sockets are watched edge-triggered: readable and writable remember what epoll said
 * until a call that moves fewer bytes than asked for shows the edge is used up. */
struct tcp_channel {
	int fd;
	uint32_t index;
	bool up, used;         /* used: it is, or was, up */
	atomic_int arriving;   /* any thread: a new connection for the path's thread; -1 */
	struct tcp_stream stream; /* at the last look */
	bool readable, writable;
	bool hup;              /* nothing new will make an edge: read on until the end */
	bool down_due;         /* PATH_DOWN is still to be told */
	atomic_bool damaged;   /* any thread: a block of it was refused, it is to go down */
	int down_error;
	struct messages lists; /* credit lists: the source checks, the sink seals them */

	/* source */
	struct block *queue[TCP_QUEUE];
	uint32_t queued;
	size_t sent;           /* wire bytes of queue[0] that are written */
	uint64_t outstanding;  /* wire bytes given to this channel and unanswered */
	uint64_t answered;     /* wire bytes of blocks that were answered */
	uint8_t *in;           /* credit lists as they arrive, CREDIT_LIST_BYTES */
	size_t in_have;
	bool in_checked;       /* the first list is what the sink sent */
	uint32_t in_next;      /* credits of the first list that have been dealt with */

	/* sink */
	uint8_t head[BLOCK_WIRE_HEAD];
	uint32_t head_have;
	bool opened;           /* the head was good and counts against the credits */
	bool starved;          /* there is no free block for it: counted as held */
	struct block *filling;
	uint32_t table;        /* its extent table's bytes */
	uint32_t got;          /* bytes of table and payload that are there */
	struct block_head h;
	uint8_t *out;          /* a credit list on its way, CREDIT_LIST_BYTES */
	size_t out_len, out_sent;
	bool answers;          /* there may be answers in the box */
};

struct tcp_path {
	struct path path;
	struct path_config cfg;
	struct sleeper sleeper;
	bool sealed;             /* lists of credits are, with this key */
	uint8_t list_key[KEY_BYTES];
	bool shut;               /* finish has closed our direction */
	bool want_room;          /* post said -EAGAIN */
	uint32_t turn;           /* channel served first next time */

	/* Left for the poller by release and refuse, before they kick it. */
	atomic_uint due;         /* sink: answers since the poller last looked */
	atomic_bool damage;      /* sink: a channel has become damaged */
	atomic_bool arrivals;    /* of channels */

	struct opener *opener;   /* owned; NULL: all channels have come */
	struct climb climb;
	uint64_t looked_ns;      /* at the streams */
	const char *congestion;  /* control of the streams; NULL: the system's */
	bool congestion_tried;   /* another one, because packets are lost; or it was chosen */

	/* source */
	struct unacked *unacked;
	struct block *returned;  /* of dead channels, to be told */

	/* sink */
	uint32_t batch;          /* so many answers are sent even while data comes */
	bool stalled;            /* a head has come for which there was no free block */
	pthread_mutex_t lock;    /* guards box: poller and whoever releases */
	struct credit_box *box;

	struct tcp_channel ch[];
};

/* One round for one channel: bounded work, at most max events. How many events. Errors
 * end the channel, not the path. */
int tcp_source_serve(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max);
int tcp_sink_serve(struct tcp_path *p, struct tcp_channel *c, struct path_event *ev, int max);
bool tcp_source_runnable(const struct tcp_path *p, const struct tcp_channel *c);
bool tcp_sink_runnable(const struct tcp_path *p, const struct tcp_channel *c);
bool tcp_source_room(const struct tcp_path *p);
int tcp_source_post(struct path *path, struct block *b);
void tcp_sink_release(struct path *path, struct block *b, uint32_t status);
void tcp_sink_refuse(struct path *path, struct block *b);

/* The channel is gone; 0: in good order. Its blocks go back to where they belong. */
void tcp_channel_down(struct tcp_path *p, struct tcp_channel *c, int error);
/* Hand over the connection of channel i, which has never been up. Any thread. */
void tcp_path_add(struct path *path, uint32_t i, int fd);
/* Take over o, which opens the missing channels. first: the number of streams at the start, from
 * which the path climbs; 0: only the peer opens more. */
void tcp_path_grow(struct path *p, struct opener *o, uint16_t first);
/* Publish the bytes that TCP has acknowledged of unanswered blocks, by c->stream. */
void tcp_source_tell_ahead(struct tcp_path *p, struct tcp_channel *c);
void tcp_source_drop(struct tcp_path *p, struct tcp_channel *c);
void tcp_sink_drop(struct tcp_path *p, struct tcp_channel *c);

/* For progress displays of other threads. */
static inline void tcp_count(struct tcp_path *p, struct tcp_channel *c, size_t bytes)
{
	uint64_t *n = &p->path.channel_bytes[c->index];

	__atomic_store_n(n, *n + bytes, __ATOMIC_RELAXED);
}

static inline void tcp_set_ahead(struct tcp_path *p, const struct tcp_channel *c, uint64_t bytes)
{
	__atomic_store_n(&p->path.channel_ahead[c->index], bytes, __ATOMIC_RELAXED);
}

#endif
