// SPDX-License-Identifier: Apache-2.0
/* Data paths that lose channels, and the frames LOST and CHANNELS about them. */
#include "transfer/xfer.h"

static const char *lost_why(int error)
{
	if (error == -EBADMSG)
		return "a message on it was damaged or forged";
	if (error == CHANNEL_GIVEN_UP)
		return "the other side has given it up";
	if (error == -ETIMEDOUT)
		return "no progress in the time of --stall";
	return strerror(-error);
}

bool xfer_all_down(const struct xfer *x)
{
	for (uint32_t i = 0; i < x->npaths; i++)
		if (atomic_load(&x->paths[i]->alive))
			return false;
	return true;
}

void xfer_keep_stage(struct xfer *x, uint32_t i, struct stage *stage)
{
	pthread_mutex_lock(&x->lock);
	x->stages[i] = stage;
	pthread_mutex_unlock(&x->lock);
	/* failed is set before cancel() looks for stages. If cancel() came too early for this stage,
	 * failed is set by now. */
	if (xfer_failed(x))
		stage_abort(stage);
}

void xfer_abort_stages(struct xfer *x)
{
	LOCK_GUARD(guard, &x->lock);

	for (uint32_t i = 0; i < x->nroutes; i++)
		if (x->stages[i])
			stage_abort(x->stages[i]);
}

/* ---- LOST and CHANNELS frames ---- */

/* An idle channel may end in good order here although the peer lost it. It counts as lost once both
 * facts are known, in either order. */
enum channel_end {
	ENDED_WELL = 1,
	PEER_LOST_IT = 2,
};

static void channel_lost(struct xfer *x, uint32_t number, int error)
{
	atomic_fetch_add(&x->channels_lost, 1);
	atomic_store(&x->lost_why[number], -error);
	atomic_store(&x->lost_any, true);
	xfer_due(x);
}

void xfer_channel_down(struct xfer *x, uint32_t path, uint32_t channel, int error)
{
	uint32_t number = path * x->agr.channels + channel;

	if (number >= CHANNELS_MAX)
		return;
	if (!error && atomic_fetch_or(&x->channel_ends[number], ENDED_WELL) == PEER_LOST_IT)
		error = CHANNEL_GIVEN_UP;
	if (error)
		channel_lost(x, number, error);
}

int xfer_say_lost(struct xfer *x, bool peer)
{
	int r = 0;

	if (peer && !x->lost_seen) {
		x->lost_seen = atomic_load(&x->lost_any);
		if (x->lost_seen)
			xfer_due(x);
		return 0;
	}
	x->lost_seen = false;
	if (!atomic_exchange(&x->lost_any, false))
		return 0;
	for (uint32_t i = 0; !r && i < CHANNELS_MAX; i++) {
		int error = -atomic_exchange(&x->lost_why[i], 0);
		uint32_t path = i / x->agr.channels;

		if (!error)
			continue;
		log_warn("data channel %u is lost: %s", i, lost_why(error));
		if (x->npaths > 1 && path < x->npaths && !atomic_load(&x->paths[path]->alive) &&
		    !xfer_all_down(x))
			log_warn("path %u has no channel left; the others continue", path);
		if (peer && error != CHANNEL_GIVEN_UP) {
			struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

			r = b ? bulk_pair_put(b, i, (uint64_t)-error) : -ENOMEM;
			if (!r)
				r = xfer_send(x, BULK_LOST, b);
		}
	}
	return r;
}

int xfer_report_channels(struct xfer *x)
{
	struct buf *b CLEANUP_BUF = x->source ? NULL : buf_new(BULK_FRAME_MAX);
	int r = 0;

	if (x->source)
		return 0;
	if (!b)
		return -ENOMEM;
	for (uint32_t i = 0; !r && i < x->npaths; i++) {
		struct path *p = x->paths[i];

		for (uint32_t c = 0; !r && p->watch.ch && c < p->nchannels; c++)
			r = bulk_pair_put(b, __atomic_load_n(&p->channel_bytes[c],
							     __ATOMIC_RELAXED),
					  atomic_load(&p->watch.ch[c].held));
	}
	return r || !buf_len(b) ? r : xfer_send(x, BULK_CHANNELS, b);
}

int xfer_on_lost(struct xfer *x, struct buf *p)
{
	uint64_t number, why;
	uint32_t path, channel, n = 0;
	int r = bulk_pair_get(p, &number, &why);

	if (r || buf_len(p))
		return -EBADMSG;

	for (uint32_t i = 0; i < x->npaths; i++)
		n += x->paths[i]->nchannels;
	if (x->paths[0] == x->inband || number >= n)
		return -EPROTO;

	path = (uint32_t)(number / x->agr.channels);
	channel = (uint32_t)(number % x->agr.channels);
	path_lose(x->paths[path], channel);
	/* Once the source may end the transfer, all its channels end in good order. */
	if (!xfer_failed(x) && !(x->source && x->role->may_end(x)) &&
	    atomic_fetch_or(&x->channel_ends[number], PEER_LOST_IT) == ENDED_WELL)
		channel_lost(x, (uint32_t)number, CHANNEL_GIVEN_UP);
	return 0;
}

int xfer_on_channels(struct xfer *x, struct buf *p)
{
	uint64_t bytes, held;

	if (!x->source)
		return -EPROTO;
	for (uint32_t i = 0; i < x->npaths; i++)
		for (uint32_t c = 0; c < x->paths[i]->nchannels; c++) {
			if (bulk_pair_get(p, &bytes, &held))
				return -EBADMSG;
			path_report(x->paths[i], c, bytes, held != 0);
		}
	return buf_len(p) ? -EBADMSG : 0;
}

uint64_t xfer_ahead(const struct xfer *x)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < x->npaths; i++)
		bytes += x->paths[i] ? path_ahead(x->paths[i]) : 0;
	return bytes;
}

void xfer_fell_back(struct xfer *x)
{
	uint64_t here = atomic_load(&x->count.bytes) + atomic_load(&x->count.bytes_kept);
	uint64_t known = atomic_load(&x->count.bytes_known);

	if (atomic_exchange(&x->fell_back, true))
		return;
	if (x->c->anew_from && known > here && known - here >= x->c->anew_from)
		xfer_fail(x, -ECONNRESET, "no data channel is left");
	else
		log_warn("no data channel is left: the rest goes over the control connection, "
			 "which is slower");
}

void xfer_tend_paths(struct xfer *x)
{
	for (uint32_t i = 0; i < x->npaths; i++) {
		struct path *p = x->paths[i];

		if (p && p->ops->tend && atomic_load(&p->left))
			p->ops->tend(p);
	}
}
