// SPDX-License-Identifier: Apache-2.0
/* What the parts of the TCP path share: its channels, its poller, its two directions. */
#ifndef RFTP_TRANSPORT_TCP_H
#define RFTP_TRANSPORT_TCP_H

#include "transport/credit.h"
#include "transport/fault.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

/* Blocks handed to a channel and not yet wholly written: one on its way and one behind
 * it, so that the socket is never idle while the stage looks for more. */
#define TCP_QUEUE 2u

/* Sockets are watched edge-triggered: readable and writable remember what epoll said
 * until a call that moves fewer bytes than asked for shows the edge is used up. */
struct tcp_channel {
	int fd;
	uint32_t index;
	bool up;
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
	bool shut;               /* finish has closed our direction */
	bool want_room;          /* post said -EAGAIN */
	uint32_t turn;           /* channel served first next time */

	/* Left for the poller by release and refuse, before they kick it. */
	atomic_uint due;         /* sink: answers since the poller last looked */
	atomic_bool damage;      /* sink: a channel has become damaged */

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
void tcp_source_drop(struct tcp_path *p, struct tcp_channel *c);
void tcp_sink_drop(struct tcp_path *p, struct tcp_channel *c);

/* For progress displays of other threads. */
static inline void tcp_count(struct tcp_path *p, struct tcp_channel *c, size_t bytes)
{
	uint64_t *n = &p->path.channel_bytes[c->index];

	__atomic_store_n(n, *n + bytes, __ATOMIC_RELAXED);
}

#endif
