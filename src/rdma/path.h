// SPDX-License-Identifier: Apache-2.0
/* What the parts of a path over queue pairs share. A path has one protection domain, one
 * registered pool, one completion queue, one thread; its channels are reliable connected
 * queue pairs.
 *
 * WRITE: the sink grants its buffers to channels; the source writes a block into one of
 * them with an immediate that names it (RDMA_WRITE_WITH_IMM); the sink's answer, a list of
 * credits, acknowledges the block and grants the buffer anew.
 * READ: the source announces filled buffers in messages; the sink reads them and answers
 * with the same lists.
 *
 * Receives can never be short (RNR): a side posts one for everything the other may have
 * under way. WRITE: a sink for each buffer, a source for each credit, since a list holds at
 * least one and a credit is given again only after it was used. READ: both for each block
 * that may be unacknowledged. Only a device whose queues are shorter than the blocks in flight
 * posts fewer; its peer may then be told to try again (RNR). */
#ifndef RFTP_RDMA_PATH_H
#define RFTP_RDMA_PATH_H

#include "rdma/spin.h"
#include "rdma/verbs.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Points of RFTP_FAULT_TRANSPORT. */
#define FAULT(point, bytes) (fault_transport_on ? fault_transport(point, bytes) : 0)

#define RD_MESSAGE 512u           /* bytes of a message between the sides */
#define RD_MESSAGES_OUT 16u       /* of one channel under way at once */
#define RD_OTHERS_OUT (RD_MESSAGES_OUT + 1) /* sends that are not of data: and a probe */
#define RD_CREDITS ((RD_MESSAGE - MESSAGE_HEAD - MESSAGE_TAG) / CREDIT_BYTES) /* in one message */
#define RD_ANNOUNCES ((RD_MESSAGE - MESSAGE_HEAD - MESSAGE_TAG) / ANNOUNCE_BYTES)

enum rd_state {
	RD_NEW,
	RD_ADDRESS,    /* client: address being resolved */
	RD_ROUTE,      /* client: route being resolved */
	RD_CONNECTING, /* both: the answer is awaited */
	RD_UP,
	RD_CLOSING,    /* we have said goodbye, or it was said to us */
	RD_DOWN,       /* no queue pair any more */
};

/* What a completion is of: bits 56.. of wr_id; bits 32.. name the channel. */
enum rd_work { RD_WORK_DATA = 1, RD_WORK_MESSAGE, RD_WORK_RECEIVE, RD_WORK_READ, RD_WORK_PROBE };

struct rd_channel {
	struct rdma_cm_id *id;
	uint32_t index;              /* in its path */
	enum rd_state state;
	bool counted;                /* was up: its end is to be told */
	bool heard;                  /* something completed since it was last looked at */
	bool probing;                /* a probe is under way */
	bool down_due;
	int down_error;
	uint32_t peer_key;           /* of the other's pool */
	uint32_t receives;           /* posted at once */
	uint32_t sends_max;          /* of data, posted at once */
	uint32_t sends;              /* of data, posted and not known to be complete */
	uint32_t unsignaled;         /* data sends since the last with a completion */
	uint32_t inline_max;         /* bytes of a message that need no memory region */
	struct messages outgoing, incoming; /* ours and the peer's, sealed and checked */
	uint32_t spare_messages;     /* bits: free ones of RD_MESSAGES_OUT */
	uint8_t *messages;           /* RD_MESSAGES_OUT to send, then those received into */

	/* source */
	uint32_t *credits;           /* WRITE: stack of the sink's buffers we may fill */
	uint32_t ncredits;
	uint32_t blocks;             /* given to this channel and unacknowledged */
	uint64_t outstanding;        /* bytes of them */
	struct block *announce, *announce_last; /* READ: to be announced */

	/* sink */
	uint32_t granted;            /* WRITE: buffers the source may fill; guarded */
	uint32_t working;            /* blocks with the writers; guarded */
	bool damaged;                /* it brought what was not sent; guarded */
	uint32_t reads;              /* under way */
	uint32_t reads_max;
	struct announce *announced;  /* READ: a ring of what is to be read */
	uint32_t nannounced, first_announced;
	struct credit *answers;      /* a ring of the path's nanswers; guarded */
	uint32_t nanswers, first_answer;
};

struct rd_endpoint;

struct rd_path {
	struct path path;
	struct path_config cfg;
	struct rd_endpoint *endpoint; /* outlives it */
	const struct verbs *v;
	bool read;                   /* READ, else WRITE */
	size_t stride;               /* from one block to the next, in both pools */
	struct ibv_context *ctx;
	struct ibv_pd *pd;           /* the endpoint's */
	struct ibv_mr *mr;           /* of the pool; the endpoint's */
	struct ibv_mr *message_mr;
	uint8_t *message_memory;
	size_t message_bytes;
	struct rdma_event_channel *events;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	uint32_t cq_entries;
	struct sleeper sleeper;
	int async;                   /* the device's own events; not owned */
	bool gone;                   /* the device was removed: there is nothing of it here */
	bool want_room;              /* post said -EAGAIN */
	struct spin spin;
	uint64_t round_at;           /* when channels are next looked at */

	atomic_uint due;             /* left for the poller before it is kicked */

	/* source: who lies where. WRITE: by the sink's buffer; READ: by our own. */
	struct block **at;           /* [nat] */
	uint32_t nat;
	uint32_t *holder;            /* WRITE: by the sink's buffer, the channel that it was
				      * granted to and one; 0: none that lives */
	uint32_t unacked;
	struct block *acked, **acked_end;       /* to be told */
	struct block *returned, **returned_end; /* to be told; status in sent_at */

	/* sink */
	struct block **granted;      /* WRITE: by index, while the source may fill it;
				      * guarded */
	struct block **reading;      /* READ: by index, while it is read */
	uint32_t nanswers;           /* most there can be for one channel */
	uint32_t source_blocks;      /* READ: of the source's pool */
	bool stalled;                /* READ: no free block */
	struct block *received, **received_end; /* to be told */
	pthread_mutex_t lock;        /* guards what says so, and changes of state to and
				      * from RD_UP */
	struct block *homeless;      /* WRITE: released, whose channel is down; guarded */

	struct rd_channel ch[];
};

/* ---- wr_id ---- */

static inline uint64_t rd_work_id(enum rd_work kind, uint32_t channel, uint32_t index)
{
	return (uint64_t)kind << 56 | (uint64_t)channel << 32 | index;
}

static inline enum rd_work rd_work_kind(uint64_t id) { return (enum rd_work)(id >> 56); }
static inline uint32_t rd_work_channel(uint64_t id) { return (uint32_t)(id >> 32) & 0xffffff; }
static inline uint32_t rd_work_index(uint64_t id) { return (uint32_t)id; }

/* ---- channels (channel.c) ---- */

/* Make c's queue pair on id, whose device is the path's, and post its receives. 0 or a
 * negative errno. */
int rd_channel_make(struct rd_path *p, struct rd_channel *c, struct rdma_cm_id *id);
/* It is connected: the peer's key is known. */
int rd_channel_up(struct rd_path *p, struct rd_channel *c);
/* It is of no more use; 0: in good order. Its queue pair is gone afterwards, and its blocks
 * are where they belong. */
void rd_channel_down(struct rd_path *p, struct rd_channel *c, int error);
int rd_repost(struct rd_path *p, struct rd_channel *c, uint32_t index);
/* wr is about bytes of the other side's memory, from at on. */
void rd_aim(struct ibv_send_wr *wr, const struct rd_channel *c, uint64_t at, uint32_t bytes);
/* Ask the other side's device whether it is there: its completion says so, or fails. */
int rd_probe(struct rd_path *p, struct rd_channel *c);
/* A free message of c's, or NULL; then seal its count items, len bytes, and send them. */
uint8_t *rd_message_get(struct rd_channel *c, uint32_t *index);
int rd_message_send(struct rd_path *p, struct rd_channel *c, uint32_t index, uint32_t magic,
		    uint32_t count, uint32_t item);
static inline const uint8_t *rd_received_at(const struct rd_channel *c, uint32_t index)
{
	return c->messages + (size_t)(RD_MESSAGES_OUT + index) * RD_MESSAGE;
}
uint32_t rd_head_bytes(const struct block *b);

/* The pool is registered as if it began at 0. */
static inline uint64_t rd_block_at(const struct rd_path *p, const struct block *b)
{
	return b->index * (uint64_t)p->stride;
}

static inline void rd_count(struct rd_path *p, const struct rd_channel *c, uint64_t bytes)
{
	uint64_t *n = &p->path.channel_bytes[c->index];

	__atomic_store_n(n, *n + bytes, __ATOMIC_RELAXED);
}

/* ---- directions ---- */

int rd_source_post(struct path *path, struct block *b);
bool rd_source_room(const struct rd_path *p);
/* A list of credits came. 0, -EBADMSG or -EPROTO. */
int rd_source_credits(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len);
/* READ: tell of what has been posted. */
int rd_source_announce(struct rd_path *p, struct rd_channel *c);
void rd_source_drop(struct rd_path *p, struct rd_channel *c);

void rd_sink_release(struct path *path, struct block *b, uint32_t status);
void rd_sink_refuse(struct path *path, struct block *b);
/* Give all buffers away to the channels that are up (WRITE). */
int rd_sink_grant(struct rd_path *p);
/* A block was written: the immediate, in host order. 0 or -EPROTO. */
int rd_sink_written(struct rd_path *p, struct rd_channel *c, uint32_t imm, uint32_t bytes);
int rd_sink_announced(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len);
/* READ: begin what can be read; a read has ended. */
int rd_sink_read(struct rd_path *p, struct rd_channel *c);
int rd_sink_was_read(struct rd_path *p, struct rd_channel *c, uint32_t index);
int rd_sink_answer(struct rd_path *p, struct rd_channel *c);
uint32_t rd_sink_unanswered(struct rd_path *p, struct rd_channel *c);
void rd_sink_drop(struct rd_path *p, struct rd_channel *c);

/* ---- the path (poll.c) ---- */

extern const struct path_ops rd_source_ops, rd_sink_ops;
void rd_path_free(struct path *path);

#endif
