// SPDX-License-Identifier: Apache-2.0
/* The parts of an RDMA path and its endpoint. A path has one protection domain, one registered
 * pool, one completion queue, one thread; its channels are reliable connected queue pairs.
 *
 * WRITE: the sink grants its buffers to channels; the source writes a block into a granted buffer,
 * with an immediate that names the buffer (RDMA_WRITE_WITH_IMM); the sink's answer, a list of
 * credits, acknowledges the block and grants the buffer again. READ: the source announces filled
 * buffers in messages; the sink reads them and answers with the same lists.
 *
 * Receives never run short (RNR): a side posts one for each message or write that the peer may have
 * in flight. WRITE: a sink posts one for each buffer; a source one for each credit: a list holds at
 * least one credit, and a credit is granted again only after its use. READ: both post one for each
 * block that may be unacknowledged. Exception: if a device's queues are shorter than the blocks in
 * flight, fewer receives are posted, and the peer may have to retry (RNR). */
#ifndef RFTP_RDMA_PATH_H
#define RFTP_RDMA_PATH_H

#include "rdma/rdma.h"
#include "rdma/verbs.h"
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

#define RD_MESSAGE 512u           /* bytes of a message between the sides */
#define RD_MESSAGES_OUT 16u       /* messages of one channel in flight */
#define RD_OTHERS_OUT (RD_MESSAGES_OUT + 1) /* sends other than data: messages and a probe */
#define RD_CREDITS ((RD_MESSAGE - MESSAGE_HEAD - MESSAGE_TAG) / CREDIT_BYTES) /* in one message */
#define RD_READS_MAX 128          /* in flight on one queue pair; devices allow 16, some 128 */
#define RD_ANNOUNCES ((RD_MESSAGE - MESSAGE_HEAD - MESSAGE_TAG) / ANNOUNCE_BYTES)

enum rd_state {
	RD_NEW,
	RD_ADDRESS,    /* client: address being resolved */
	RD_ROUTE,      /* client: route being resolved */
	RD_CONNECTING, /* both: waiting for the other side's answer */
	RD_UP,
	RD_CLOSING,    /* one side has disconnected */
	RD_DOWN,       /* the queue pair is destroyed */
};

/* The kind of a work request: bits 56 to 63 of wr_id. Bits 32 to 55 hold the channel. */
enum rd_work { RD_WORK_DATA = 1, RD_WORK_MESSAGE, RD_WORK_RECEIVE, RD_WORK_READ, RD_WORK_PROBE };

struct rd_channel {
	struct rdma_cm_id *id;
	uint32_t index;              /* in its path */
	enum rd_state state;
	bool counted;                /* was up: its end must be reported */
	bool heard;                  /* a work request completed since the last check */
	bool probing;                /* a probe is in flight */
	uint32_t peer_key;           /* remote key of the peer's pool */
	uint32_t receives;           /* maximum number of posted receives */
	uint32_t sends_max;          /* maximum number of posted data sends */
	uint32_t sends;              /* data sends that are posted and not known to be complete */
	uint32_t unsignaled;         /* data sends since the last signaled one */
	uint32_t inline_max;         /* bytes of a message that need no memory region */
	struct messages outgoing, incoming; /* ours and the peer's, sealed and checked */
	uint32_t spare_messages;     /* bits: the free ones of RD_MESSAGES_OUT */
	uint8_t *messages;           /* RD_MESSAGES_OUT to send, then one for each receive */

	/* source */
	uint32_t *credits;           /* WRITE: stack of the sink's buffers that we may fill */
	uint32_t ncredits;
	uint32_t blocks;             /* posted to this channel and unacknowledged */
	uint64_t outstanding;        /* wire bytes of these blocks */
	struct block *announce, *announce_last; /* READ: to be announced */

	/* sink */
	uint32_t granted;            /* WRITE: buffers that the source may fill; guarded */
	uint32_t working;            /* blocks with the writers; guarded */
	bool damaged;                /* a block of it failed its check; guarded */
	uint32_t reads;              /* reads in flight */
	uint32_t reads_max;
	struct announce *announced;  /* READ: a ring of the blocks to read */
	uint32_t nannounced, first_announced;
	struct credit *answers;      /* a ring of the path's nanswers; guarded */
	uint32_t nanswers, first_answer;
};

/* ---- spinning (poll.c) ---- */

/* Decides whether a thread without work polls once more or sleeps. A sleep costs an interrupt, a
 * wake-up and some system calls; polling costs CPU time that other threads may need. Pure: the
 * caller passes the time. */
#define SPIN_NS 50000u         /* longer than a wake-up takes, shorter than people notice */
#define SPIN_ALWAYS_NS 1000000u /* a thread that never sleeps checks for other events this often */

struct spin {
	uint64_t limit_ns;     /* spin for this long; 0: never */
	bool learns, sleeps;
	uint64_t quiet_since;  /* 0: work has just been found */
	uint64_t last_look;
	uint64_t gap_ns;       /* the time without work: a moving mean */
};

/* cpus: the number of CPUs that this process may use; threads: the number of its other busy
 * threads. */
void spin_init(struct spin *s, enum poll_mode mode, unsigned cpus, unsigned threads);
/* Work was found. */
void spin_found(struct spin *s, uint64_t now);
/* No work was found. True: poll once more; false: sleep, or check for other events. */
bool spin_on(struct spin *s, uint64_t now);

/* ---- the path ---- */

struct rd_endpoint;

struct rd_path {
	struct path path;
	struct path_config cfg;
	struct rd_endpoint *endpoint; /* outlives the path */
	const struct verbs *v;
	bool read;                   /* READ, else WRITE */
	size_t stride;               /* from one block to the next, in both pools */
	struct ibv_context *ctx;
	struct ibv_pd *pd;           /* owned by the endpoint */
	struct ibv_mr *mr;           /* region of the pool; owned by the endpoint */
	struct ibv_mr *message_mr;
	uint8_t *message_memory;
	size_t message_bytes;
	struct rdma_event_channel *events;
	struct ibv_comp_channel *completions;
	struct ibv_cq *cq;
	uint32_t cq_entries;
	struct sleeper sleeper;
	int async;                   /* descriptor of the device's own events; not owned */
	bool gone;                   /* the device was removed, and its resources freed */
	struct spin spin;
	uint64_t round_at;           /* the next check of the channels */

	atomic_uint due;             /* sink: answers are due; stored before the kick */

	/* source: blocks by buffer. WRITE: the sink's; READ: our own. */
	struct block **at;           /* [nat] */
	uint32_t nat;
	uint32_t *holder;            /* WRITE, by the sink's buffer: 1 + the live channel on which
				      * it was granted; 0: none */
	uint32_t unacked;

	/* sink */
	struct block **granted;      /* WRITE: by index, while the source may fill it;
				      * guarded */
	struct block **reading;      /* READ: by index, while it is read */
	uint32_t nanswers;           /* most answers of one channel */
	uint32_t source_blocks;      /* READ: number of blocks in the source's pool */
	bool stalled;                /* READ: a read waits for a free block */
	pthread_mutex_t lock;        /* guards the fields marked "guarded", and changes of state to
				      * and from RD_UP */
	struct block *homeless;      /* WRITE: released blocks of dead channels; guarded */

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

/* Make c's queue pair on id, which is on the path's device, and post its receives. 0 or a
 * negative errno. */
int rd_channel_make(struct rd_path *p, struct rd_channel *c, struct rdma_cm_id *id);
/* c is connected, and the peer's key is known. 0 or a negative errno. */
int rd_channel_up(struct rd_path *p, struct rd_channel *c);
/* Take a channel down: destroy the queue pair and return the blocks. error 0: in good order. */
void rd_channel_down(struct rd_path *p, struct rd_channel *c, int error);
int rd_repost(struct rd_path *p, struct rd_channel *c, uint32_t index);
/* Set the remote key and address of wr: bytes of the peer's memory, from offset at. */
void rd_aim(struct ibv_send_wr *wr, const struct rd_channel *c, uint64_t at, uint32_t bytes);
/* Start a probe of the peer's device: its completion tells whether the device is reachable. 0 or a
 * negative errno. */
int rd_probe(struct rd_path *p, struct rd_channel *c);
/* rd_message_get() returns a free message of c, or NULL. rd_message_send() seals its count items of
 * item bytes and posts it; 0 or a negative errno. */
uint8_t *rd_message_get(struct rd_channel *c, uint32_t *index);
int rd_message_send(struct rd_path *p, struct rd_channel *c, uint32_t index, uint32_t magic,
		    uint32_t count, uint32_t item);
static inline const uint8_t *rd_received_at(const struct rd_channel *c, uint32_t index)
{
	return c->messages + (size_t)(RD_MESSAGES_OUT + index) * RD_MESSAGE;
}

/* The pool is registered with addresses from 0. */
static inline uint64_t rd_block_at(const struct rd_path *p, const struct block *b)
{
	return b->index * (uint64_t)p->stride;
}

/* ---- directions ---- */

int rd_source_post(struct path *path, struct block *b);
bool rd_source_room(struct rd_path *p);
/* A list of credits has arrived. 0, -EBADMSG or -EPROTO. */
int rd_source_credits(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len);
/* READ: announce the posted blocks. */
int rd_source_announce(struct rd_path *p, struct rd_channel *c);
void rd_source_drop(struct rd_path *p, struct rd_channel *c);

void rd_sink_release(struct path *path, struct block *b, uint32_t status);
void rd_sink_refuse(struct path *path, struct block *b);
/* WRITE: grant all buffers to the channels that are up. */
void rd_sink_grant(struct rd_path *p);
/* The source has written a block of bytes; imm: the immediate in host order. 0 or -EPROTO. */
int rd_sink_written(struct rd_path *p, struct rd_channel *c, uint32_t imm, uint32_t bytes);
int rd_sink_announced(struct rd_path *p, struct rd_channel *c, const uint8_t *m, uint32_t len);
/* READ: rd_sink_read() begins reads; rd_sink_was_read() handles a completed read. 0 or a negative
 * errno. */
int rd_sink_read(struct rd_path *p, struct rd_channel *c);
int rd_sink_was_read(struct rd_path *p, struct rd_channel *c, uint32_t index);
int rd_sink_answer(struct rd_path *p, struct rd_channel *c);
uint32_t rd_sink_unanswered(struct rd_path *p, struct rd_channel *c);
void rd_sink_drop(struct rd_path *p, struct rd_channel *c);

/* ---- the path (poll.c) ---- */

extern const struct path_ops rd_ops;
void rd_path_free(struct path *path);

/* ---- the endpoint: its device, its memory, its connections (endpoint.c, device.c) ---- */

struct rd_endpoint {
	struct endpoint ep;
	struct endpoint_config cfg;
	const struct verbs *v;
	bool server;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;      /* server: the listener; client: first channel's until open */
	struct rdma_cm_id *refused; /* freed after its event */
	struct sockaddr_storage to, from;
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_mr *mr;          /* of the pool, between its hooks */
	bool gone;                  /* the device is being removed */
	struct pool_hooks hooks;
	char name[80];              /* device and port, for messages */
};

struct endpoint *rd_endpoint_new(const struct endpoint_config *c, const struct verbs *v,
				 struct err *e);
/* Arguments in ns. Returns the exponent n of the time-out 4.096 µs × 2^n. */
uint8_t rd_ack_timeout(uint64_t rtt_ns, uint64_t queued_ns);
/* As nic_device; sysfs: its mount point. */
int rd_device_of(const char *sysfs, const struct sockaddr_storage *a, const char *ifname,
		 char name[NIC_DEVICE_NAME], struct err *why);

/* ep->id has a device: check it against the agreement and allocate a protection domain there
 * (device.c). 0 or a negative errno with text. */
int rd_use_device(struct rd_endpoint *ep, struct err *e);
/* Free the endpoint's resources on its device; with gone set, let the device be removed. The pool's
 * memory stays, but is no longer registered. The path must have freed its resources before. */
void rd_leave_device(struct rd_endpoint *ep);
const struct pool_hooks *rd_hooks(struct endpoint *endpoint);
/* Log the GID and MTU of c, which is up. */
void rd_log_route(const struct rd_endpoint *ep, const struct rd_channel *c);
/* A path without connections; its channels are RD_NEW. */
struct rd_path *rd_path_new(struct rd_endpoint *ep, const struct path_config *c, struct err *e);

#endif
