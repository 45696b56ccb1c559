// SPDX-License-Identifier: Apache-2.0
/* What each side can do (its offer) and what both will do (the agreement): one pure
 * function of both offers, computed by the server and checked by the client. */
#ifndef RFTP_PROTO_NEGOTIATE_H
#define RFTP_PROTO_NEGOTIATE_H

#include "util/util.h"

#include <stdbool.h>
#include <stdint.h>

#define NICS_MAX 16
#define HOST_ID_BYTES 16
#define CHANNELS_MAX 256       /* of all paths together */
#define FAR_RTT_NS 1000000u    /* of a path that is not short */
#define CHANNELS_MORE 32       /* of a TCP path, with those that are opened during a transfer */

enum { TRANSPORT_TCP = 1, TRANSPORT_RDMA = 2, TRANSPORT_INBAND = 4 }; /* a bit set */
enum { OP_WRITE = 1, OP_READ = 2 };                                  /* a bit set */
enum prot { PROT_CLEAR, PROT_SAFE, PROT_PRIVATE };                   /* ascending */
enum ack { ACK_RECEIVED, ACK_WRITTEN, ACK_SYNCED, ACK_VERIFIED };    /* ascending */

struct nic_offer {
	char name[16];
	char addr[64];      /* numeric */
	uint32_t mbps;      /* link speed; 0: not known */
	int16_t node;       /* NUMA node; -1: not known */
	uint8_t prefix;     /* bits of addr that its network has; 0: not known */
	bool rdma;
	bool control;       /* the control connection comes and goes by addr */
	bool named;         /* by a person, to be used */
	bool near;          /* on the NUMA node of its side's storage, as far as is known */
};

struct offer {
	uint8_t transports;     /* able and allowed */
	uint8_t ops;
	uint8_t prot_min;       /* never weaker */
	uint8_t ack;            /* client: asked for; server: the most it can give */
	uint8_t storage;        /* enum storage_class of its end */
	bool no_crc;            /* bench: give up the CRC when the other agrees too */
	uint16_t cpus;
	uint64_t memory;        /* bytes this side may spend on pools of this transfer */
	uint64_t locked;        /* bytes of them that may be registered with RDMA devices;
				 * UINT64_MAX: any number */
	uint32_t block;         /* wanted payload; 0: no opinion */
	uint32_t block_max;
	uint16_t channels;      /* wanted per NIC; 0: no opinion */
	uint16_t channels_max;
	uint16_t channels_more; /* TCP: most channels per NIC when some of them are opened during
				 * the transfer; 0: this side opens none then */
	bool little;            /* the transfer goes in-band if both sides say so. Source: the files
				 * are at most 16, and 256 KiB together. Sink: it accepts such
				 * files in-band */
	uint32_t inflight;      /* wanted blocks in flight per path; 0: from RTT and speed */
	uint64_t rtt_ns;        /* measured; 0: not known. The client's counts. */
	uint32_t nnics;
	struct nic_offer nics[NICS_MAX];
	uint8_t host[HOST_ID_BYTES]; /* the kernel it runs on, as the client's nonce hides it;
				      * zeros: not told. See setup_host. */
};

#define NIC_NONE 0xff

struct agreement {
	uint8_t transport;      /* one bit */
	uint8_t op;
	uint8_t prot;
	uint8_t ack;
	bool crc;               /* of clear blocks */
	bool sink_keeps;        /* the sink replaces no file: the source asks about each first. Not
				 * negotiated: the server sets it for an account's rights */
	uint16_t paths;
	uint16_t channels;      /* per path, at most */
	uint16_t channels_first; /* of those: opened before the transfer begins */
	uint32_t block;         /* payload bytes, a multiple of 4096 */
	uint32_t inflight;      /* blocks of one path that may be unacknowledged */
	uint32_t source_blocks; /* pool of a source path */
	uint32_t sink_blocks;   /* pool of a sink path */
	uint32_t entries_ahead; /* entries beyond the oldest that is not done */
	/* Of each path: the places in the offers of its NICs. Not sent, both sides come to the
	 * same. NIC_NONE: that of the control connection, whichever it is. */
	uint8_t client_nic[NICS_MAX], server_nic[NICS_MAX];
	/* Which limit cut inflight, and what to set, static; NULL: none. Then, if not 0, what
	 * it should be. Not sent. */
	const char *capped;
	uint64_t capped_bytes;
	/* Mbit/s that all pairs together keep up, of those whose both ends know. Not sent. */
	uint64_t mbps;
	bool rotating;          /* storage of either end, as far as it is told. Not sent */
};

/* 0; -EPROTONOSUPPORT with the reason in e (no transport both may use, prot...); -ENODEV: the
 * only transport is RDMA, and no devices reach each other. */
int negotiate(const struct offer *client, const struct offer *server, struct agreement *a,
	      struct err *e);
/* Which NICs of both offers make paths under this transport: their places, and how many. */
uint32_t nic_pairs(const struct offer *client, const struct offer *server, uint8_t transport,
		   uint8_t client_nic[NICS_MAX], uint8_t server_nic[NICS_MAX]);
/* Is addr, a numeric address, one that our card n is there to talk to: in its own network, or
 * anywhere when a person has named the card? */
bool nic_leads_to(const struct nic_offer *n, const char *addr);
/* The memory that an offer needs for a to come of it, of pools and of what is beside them: with
 * less it is not a. */
uint64_t agreement_memory(const struct agreement *a);
/* True when both say the same, of what is sent. */
bool agreement_equal(const struct agreement *a, const struct agreement *b);
/* Bytes of all pools of the source, or of the sink. */
uint64_t agreement_pool(const struct agreement *a, bool source);
/* Every number within the bounds of this header and of the offer of who checks. */
int agreement_check(const struct agreement *a, const struct offer *own, struct err *e);

int offer_put(struct buf *b, const struct offer *o);
int offer_get(struct buf *b, struct offer *o);
int agreement_put(struct buf *b, const struct agreement *a);
int agreement_get(struct buf *b, struct agreement *a);

const char *transport_name(int bit);
const char *prot_name(int p);     /* "clear", "safe", "private" */
const char *ack_name(int a);
int prot_parse(const char *s, uint8_t *p);

#endif
