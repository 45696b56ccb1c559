// SPDX-License-Identifier: Apache-2.0
/* The rules for every agreement, written independently of negotiate(): the values must be within the
 * bounds of the protocol and of an offer of one side. 0, or a negative errno with text. */
#ifndef RFTP_TESTS_AGREEMENT_CHECK_H
#define RFTP_TESTS_AGREEMENT_CHECK_H

#include "block/block.h"
#include "proto/proto.h"

#include <errno.h>

static inline int refuse_value(struct err *e, const char *what, uint64_t is, uint64_t lo, uint64_t hi)
{
	return err_set(e, -EPROTONOSUPPORT, "the other side's agreement has %s %llu, outside "
		       "%llu..%llu", what, (unsigned long long)is, (unsigned long long)lo,
		       (unsigned long long)hi);
}

static inline int check_promises(const struct agreement *a, const struct offer *own, struct err *e)
{
	int t = a->transport;

	if ((t != TRANSPORT_TCP && t != TRANSPORT_RDMA && t != TRANSPORT_INBAND) ||
	    !(t & own->transports))
		return err_set(e, -EPROTONOSUPPORT, "the other side chose transport \"%s\" (%d), "
			       "which was not offered", transport_name(t), t);
	if ((a->op != OP_WRITE && a->op != OP_READ) ||
	    (t == TRANSPORT_RDMA ? !(a->op & own->ops) : a->op != OP_WRITE))
		return err_set(e, -EPROTONOSUPPORT, "the other side chose operation %u, which was "
			       "not offered", a->op);
	if (a->prot < own->prot_min || a->prot > PROT_PRIVATE)
		return refuse_value(e, "a protection level of", a->prot, own->prot_min,
				    PROT_PRIVATE);
	if (a->ack > own->ack || a->ack > ACK_VERIFIED)
		return refuse_value(e, "an acknowledgement level of", a->ack, 0, own->ack);
	if (!a->crc && !own->no_crc)
		return err_set(e, -EPROTONOSUPPORT, "the other side omits the CRC, which this side "
			       "requires");
	return 0;
}

static inline int check_shape(const struct agreement *a, const struct offer *own, struct err *e)
{
	bool inband = a->transport == TRANSPORT_INBAND, rdma = a->transport == TRANSPORT_RDMA;
	uint32_t channels = own->channels_max ? own->channels_max : 1, paths = 0;
	uint32_t block = own->block_max && own->block_max < BLOCK_MAX ?
			 own->block_max / 4096 * 4096 : BLOCK_MAX;

	for (uint32_t i = 0; i < own->nnics && i < NICS_MAX && !inband; i++)
		paths += !rdma || own->nics[i].rdma;
	paths = paths ? paths : 1;

	if (a->paths < 1 || a->paths > paths)
		return refuse_value(e, "a number of paths of", a->paths, 1, paths);
	if (channels > CHANNELS_MAX / a->paths)
		channels = CHANNELS_MAX / a->paths;
	if (a->channels < 1 || a->channels > channels)
		return refuse_value(e, "a number of channels of", a->channels, 1, channels);
	if (a->channels_first < 1 || a->channels_first > a->channels)
		return refuse_value(e, "a number of channels at first of", a->channels_first, 1,
			      a->channels);
	if (inband && a->channels != 1)
		return refuse_value(e, "a number of in-band channels of", a->channels, 1, 1);
	if (inband && block > BULK_FRAME_MAX - 4096)
		block = BULK_FRAME_MAX - 4096;
	if (a->block < BLOCK_MIN || a->block > block || a->block % 4096)
		return refuse_value(e, "a block size of", a->block, BLOCK_MIN, block);
	return 0;
}

static inline int check_memory(const struct agreement *a, const struct offer *own, struct err *e)
{
	uint32_t least = 2u * a->channels, most = 60000 / a->paths;
	uint64_t pool = a->source_blocks > a->sink_blocks ? a->source_blocks : a->sink_blocks;
	/* An eighth of the limit is left for the devices' queues. */
	uint64_t lockable = (own->locked - own->locked / 8) / a->paths;
	uint64_t locked = pool * (a->block + 4096ull + 512ull * a->channels) +
			  16 * 512ull * a->channels;

	if (a->inflight < least || a->inflight > most)
		return refuse_value(e, "a number of blocks in flight of", a->inflight, least, most);
	if (a->sink_blocks < a->inflight)
		return refuse_value(e, "a sink pool of", a->sink_blocks, a->inflight, UINT32_MAX);
	if (a->source_blocks <= a->inflight)
		return refuse_value(e, "a source pool of", a->source_blocks, a->inflight + 1,
				    UINT32_MAX);
	if (pool > most + 16 || agreement_memory(a) > own->memory)
		return refuse_value(e, "a need of memory of", agreement_memory(a), 1, own->memory);
	if (a->transport == TRANSPORT_RDMA && own->locked != UINT64_MAX && locked > lockable)
		return refuse_value(e, "a need of locked memory of", locked, 1, lockable);
	return 0;
}

static inline int agreement_check(const struct agreement *a, const struct offer *own, struct err *e)
{
	int r = check_promises(a, own, e);

	if (!r)
		r = check_shape(a, own, e);
	if (!r)
		r = check_memory(a, own, e);
	if (r < 0)
		return r;
	if (a->entries_ahead < 1 || a->entries_ahead > 1u << 20)
		return refuse_value(e, "a number of entries ahead of", a->entries_ahead, 1, 1 << 20);
	return 0;
}

#endif
