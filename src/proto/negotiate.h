// SPDX-License-Identifier: Apache-2.0
/* The abilities of each side (its offer) and the agreement of both: a pure function of both offers,
 * computed by the server and checked by the client. */
#ifndef RFTP_PROTO_NEGOTIATE_H
#define RFTP_PROTO_NEGOTIATE_H

#include "util/util.h"

#define NICS_MAX 16
#define HOST_ID_BYTES 16
#define CHANNELS_MAX 256       /* of all paths together */
#define FAR_RTT_NS 1000000u    /* the shortest round trip of a path that is not short ("far") */
#define CHANNELS_MORE 32       /* of a TCP path, including those opened during a transfer */

enum { TRANSPORT_TCP = 1, TRANSPORT_RDMA = 2, TRANSPORT_INBAND = 4 }; /* a bit set */
enum { OP_WRITE = 1, OP_READ = 2 };                                  /* a bit set */
enum prot { PROT_CLEAR, PROT_SAFE, PROT_PRIVATE };                   /* ascending */
enum ack { ACK_RECEIVED, ACK_WRITTEN, ACK_SYNCED, ACK_VERIFIED };    /* ascending */

struct nic_offer {
	char name[16];
	char addr[64];      /* numeric */
	uint32_t mbps;      /* link speed; 0: not known */
	int16_t node;       /* NUMA node; -1: not known */
	uint8_t prefix;     /* length of addr's network prefix in bits; 0: not known */
	bool rdma;
	bool control;       /* the control connection uses addr */
	bool named;         /* a user has named this card (--nic) */
	bool near;          /* on the NUMA node of its side's storage, if known */
};

struct offer {
	uint8_t transports;     /* possible and allowed */
	uint8_t ops;
	uint8_t prot_min;       /* the weakest level that this side accepts */
	uint8_t ack;            /* client: wanted; server: the strongest possible */
	uint8_t storage;        /* enum storage_class of this side's storage */
	bool no_crc;            /* bench: omit the CRC if the other side agrees */
	uint16_t cpus;
	uint64_t memory;        /* bytes this side may spend on pools of this transfer */
	uint64_t locked;        /* bytes of memory that RDMA may register; UINT64_MAX: no limit */
	uint32_t block;         /* wanted payload; 0: no opinion */
	uint32_t block_max;
	uint16_t channels;      /* wanted per NIC; 0: no opinion */
	uint16_t channels_max;
	uint16_t channels_more; /* TCP: most channels per NIC including those opened during the
				 * transfer; 0: this side opens none during the transfer */
	bool little;            /* the transfer is in-band if both sides set this. Source: the files
				 * are at most 16, and 256 KiB together. Sink: it accepts such
				 * files in-band */
	uint32_t inflight;      /* wanted blocks in flight per path; 0: from RTT and speed */
	uint64_t rtt_ns;        /* measured; 0: not known. The client's is used. */
	uint32_t nnics;
	struct nic_offer nics[NICS_MAX];
	uint8_t host[HOST_ID_BYTES]; /* identifies its kernel, hidden by the client's nonce; zeros:
				      * not given. See setup_host. */
};

#define NIC_NONE 0xff

struct agreement {
	uint8_t transport;      /* one bit */
	uint8_t op;
	uint8_t prot;
	uint8_t ack;
	bool crc;               /* clear blocks carry a CRC32C */
	bool sink_keeps;        /* the sink replaces no file: the source asks about each first. Not
				 * negotiated: the server sets it from the account's rights */
	uint16_t paths;
	uint16_t channels;      /* per path, at most */
	uint16_t channels_first; /* of those: opened before the transfer begins */
	uint32_t block;         /* payload bytes, a multiple of 4096 */
	uint32_t inflight;      /* blocks of one path that may be unacknowledged */
	uint32_t source_blocks; /* pool of a source path */
	uint32_t sink_blocks;   /* pool of a sink path */
	uint32_t entries_ahead; /* entries beyond the oldest that is not done */
	/* For each path: the indexes of its NICs in the offers. Not sent: both sides compute the
	 * same. NIC_NONE: the NIC of the control connection. */
	uint8_t client_nic[NICS_MAX], server_nic[NICS_MAX];
	/* The limit that reduced inflight, with the setting to change, a static text; NULL: none.
	 * capped_bytes: the value that would suffice; 0: not known. Not sent. */
	const char *capped;
	uint64_t capped_bytes;
	/* Sum of the speeds, in Mbit/s, of the pairs with two known speeds. Not sent. */
	uint64_t mbps;
	bool rotating;          /* storage of either end, if known. Not sent */
};

/* 0; -EPROTONOSUPPORT with the reason in e (no common transport, protection...); -ENODEV: the only
 * transport is RDMA, and no two devices reach each other. */
int negotiate(const struct offer *client, const struct offer *server, struct agreement *a,
	      struct err *e);
/* Find the pairs of NICs that become the paths of this transport. Sets their indexes and returns
 * the number of pairs. */
uint32_t nic_pairs(const struct offer *client, const struct offer *server, uint8_t transport,
		   uint8_t client_nic[NICS_MAX], uint8_t server_nic[NICS_MAX]);
/* True: card n may be used to reach the numeric address addr, because addr is in the card's
 * network, or a user has named the card. */
bool nic_leads_to(const struct nic_offer *n, const char *addr);
/* The bytes of offer.memory that a needs: pools, decrypted copies and messages. */
uint64_t agreement_memory(const struct agreement *a);
/* True: all fields that are sent are equal. */
bool agreement_equal(const struct agreement *a, const struct agreement *b);
/* Bytes of all pools of the source, or of the sink. */
uint64_t agreement_pool(const struct agreement *a, bool source);

int offer_put(struct buf *b, const struct offer *o);
int offer_get(struct buf *b, struct offer *o);
int agreement_put(struct buf *b, const struct agreement *a);
int agreement_get(struct buf *b, struct agreement *a);

const char *transport_name(int bit);
const char *prot_name(int p);     /* "clear", "safe", "private" */
const char *ack_name(int a);

#endif
