// SPDX-License-Identifier: Apache-2.0
/* The fake fabric's queue pairs: work requests that move bytes, and their completions. */
#include "tests/support/fake-fabric.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct {
	unsigned done, starved, reads_most;
	unsigned break_at;
	enum ibv_wc_status break_with;
	bool break_arrives;
	uint32_t qp_num;
} work;

void fake_work_forget(void)
{
	memset(&work, 0, sizeof(work));
}

unsigned fake_done(void)
{
	return work.done;
}

unsigned fake_starved(void)
{
	return work.starved;
}

unsigned fake_reads_at_once(void)
{
	return work.reads_most;
}

void fake_break(unsigned nth, enum ibv_wc_status status, bool arrives)
{
	LOCK_GUARD(held, &fake_lock);

	work.break_at = work.done + nth;
	work.break_with = status;
	work.break_arrives = arrives;
}

/* ---- completion queues ---- */

static struct fake_cq *cq_of(struct ibv_cq *cq)
{
	struct fake_cq *q = FAKE_OF(cq, struct fake_cq, cq);

	FAKE_MUST(q->o.live, "a completion queue is used that is freed");
	return q;
}

int fake_cq_new(struct ibv_context *ctx, int entries, int vector, struct ibv_comp_channel **ch,
		struct ibv_cq **cq)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_CQ_NEW);
	struct fake_cq *q;

	*ch = NULL;
	*cq = NULL;
	if (r)
		return r;
	q = fake_obj_new(OBJ_CQ, sizeof(*q));
	q->size = (uint32_t)entries;
	q->ring = calloc(q->size, sizeof(q->ring[0]));
	q->ch.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	FAKE_MUST(q->ring && q->ch.fd >= 0, "no memory or no descriptor is left");
	q->ch.context = q->cq.context = ctx;
	q->cq.channel = &q->ch;
	*ch = &q->ch;
	*cq = &q->cq;
	return 0;
}

void fake_cq_free(struct ibv_comp_channel *ch, struct ibv_cq *cq)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_cq *q;

	if (!cq)
		return;
	q = cq_of(cq);
	FAKE_MUST(ch == &q->ch, "a completion queue goes with another's channel");
	fake_obj_free(&q->o);
	close(ch->fd);
	free(q->ring);
}

int fake_cq_arm(struct ibv_cq *cq)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_CQ_ARM);

	cq_of(cq)->armed = !r;
	return r;
}

void fake_cq_woken(struct ibv_comp_channel *ch)
{
	LOCK_GUARD(held, &fake_lock);

	fake_readable(ch->fd, false);
}

static void complete(struct fake_cq *q, const struct fake_completion *c)
{
	FAKE_MUST(q->n < q->size, "a completion queue of %u overflows", q->size);
	q->ring[(q->first + q->n++) % q->size] = *c;
	if (q->armed)
		fake_readable(q->ch.fd, true);
	q->armed = false;
}

int fake_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_cq *q = cq_of(cq);
	int i, r = fake_count(FAKE_POLL);

	if (r)
		return r;
	for (i = 0; i < n && q->n; i++, q->n--) {
		struct fake_completion *c = &q->ring[q->first];

		wc[i] = c->wc;
		if (c->qp->o.live) {
			c->qp->places -= c->sends;
			c->qp->receive_places -= c->receives;
		}
		q->first = (q->first + 1) % q->size;
	}
	return i;
}

/* Removes all completions of the queue pair. */
static void purge(struct fake_cq *q, const struct fake_qp *qp)
{
	uint32_t n = q->n, kept = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct fake_completion c = q->ring[(q->first + i) % q->size];

		if (c.qp != qp)
			q->ring[(q->first + kept++) % q->size] = c;
	}
	q->n = kept;
}

/* ---- queue pairs ---- */

static struct fake_qp *qp_of(struct rdma_cm_id *id)
{
	struct fake_qp *qp = fake_id_of(id)->qp;

	FAKE_MUST(qp && qp->o.live, "an id is used that has no queue pair");
	return qp;
}

int fake_qp_new(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_id *i = fake_id_of(id);
	int r = fake_count(FAKE_QP_NEW);
	struct fake_qp *qp;

	if (r)
		return r;
	if (i->qp || attr->cap.max_inline_data > fake.inline_max || !i->dev || i->dev->gone ||
	    pd->context != id->verbs ||
	    attr->cap.max_send_wr > (uint32_t)i->dev->attr.max_qp_wr ||
	    (fake.send_wr_max && attr->cap.max_send_wr > fake.send_wr_max) ||
	    attr->cap.max_recv_wr > (uint32_t)i->dev->attr.max_qp_wr)
		return -EINVAL;
	qp = fake_obj_new(OBJ_QP, sizeof(*qp));
	qp->id = i;
	qp->pd = FAKE_OF(pd, struct fake_pd, pd);
	qp->send_cq = cq_of(attr->send_cq);
	qp->recv_cq = cq_of(attr->recv_cq);
	qp->cap = attr->cap;
	qp->qp.qp_num = ++work.qp_num;
	qp->work = calloc(qp->cap.max_send_wr, sizeof(qp->work[0]));
	qp->receives = calloc(qp->cap.max_recv_wr, sizeof(qp->receives[0]));
	FAKE_MUST(qp->work && qp->receives, "out of memory");
	qp->pd->o.users++;
	qp->send_cq->o.users++;
	qp->recv_cq->o.users++;
	i->qp = qp;
	id->qp = &qp->qp;
	return 0;
}

void fake_qp_drop(struct fake_qp *qp)
{
	if (fake.purge) {
		purge(qp->send_cq, qp);
		purge(qp->recv_cq, qp);
	}
	qp->pd->o.users--;
	qp->send_cq->o.users--;
	qp->recv_cq->o.users--;
	qp->id->qp = NULL;
	qp->id->id.qp = NULL;
	free(qp->work);
	free(qp->receives);
	fake_obj_free(&qp->o);
}

void fake_qp_free(struct rdma_cm_id *id)
{
	LOCK_GUARD(held, &fake_lock);

	if (fake_id_of(id)->qp)
		fake_qp_drop(qp_of(id));
}

void fake_qp_ready(struct fake_qp *qp)
{
	if (qp->state == QP_INIT)
		qp->state = QP_READY;
}

int fake_qp_way(struct rdma_cm_id *id, struct ibv_gid_entry *gid, enum ibv_mtu *mtu)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_QP_WAY);

	FAKE_MUST(qp_of(id)->state == QP_READY, "the way of a queue pair that has none");
	if (r)
		return r;
	*gid = (struct ibv_gid_entry){ .gid_type = IBV_GID_TYPE_ROCE_V2 };
	*mtu = IBV_MTU_1024;
	return 0;
}

int fake_qp_rnr_timer(struct rdma_cm_id *id, uint8_t code)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_QP_RNR_TIMER);

	FAKE_MUST(code < 32, "an RNR timer of code %u", code);
	return r ? r : qp_of(id)->state == QP_READY ? 0 : -EINVAL;
}

/* ---- completions ---- */

/* Only these fields are valid in a failed completion. */
static struct ibv_wc wc_of(const struct fake_qp *qp, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	memset(&wc, status ? 0xa5 : 0, sizeof(wc));
	wc.wr_id = wr_id;
	wc.status = status;
	wc.qp_num = qp->qp.qp_num;
	wc.vendor_err = status ? 0x42 : 0;
	return wc;
}

static void work_done(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct fake_work *w = &qp->work[qp->first_work];
	struct fake_completion c = { .wc = wc_of(qp, w->wr.wr_id, status), .qp = qp };

	c.wc.opcode = status ? c.wc.opcode : w->wr.opcode == IBV_WR_SEND ? IBV_WC_SEND :
		      w->wr.opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
	qp->quiet++;
	qp->nwork--;
	qp->first_work = (qp->first_work + 1) % qp->cap.max_send_wr;
	if (w->wr.opcode == IBV_WR_RDMA_READ)
		qp->reads--;
	if (!status && !(w->wr.send_flags & IBV_SEND_SIGNALED))
		return;
	c.sends = qp->quiet;
	qp->quiet = 0;
	complete(qp->send_cq, &c);
}

static void receive_done(struct fake_qp *qp, enum ibv_wc_status status, const struct fake_work *w,
			 uint32_t bytes)
{
	struct fake_receive *r = &qp->receives[qp->first_receive];
	struct fake_completion c = { .wc = wc_of(qp, r->wr_id, status), .qp = qp, .receives = 1 };

	if (!status) {
		bool imm = w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;

		c.wc.opcode = imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
		c.wc.wc_flags = imm ? IBV_WC_WITH_IMM : 0;
		c.wc.imm_data = imm ? w->wr.imm_data : 0;
		c.wc.byte_len = bytes;
	}
	qp->nreceives--;
	qp->first_receive = (qp->first_receive + 1) % qp->cap.max_recv_wr;
	complete(qp->recv_cq, &c);
}

void fake_qp_fail(struct fake_qp *qp)
{
	if (qp->state == QP_ERROR)
		return;
	qp->state = QP_ERROR;
	while (qp->nwork)
		work_done(qp, IBV_WC_WR_FLUSH_ERR);
	while (qp->nreceives)
		receive_done(qp, IBV_WC_WR_FLUSH_ERR, NULL, 0);
}

int fake_qp_error(struct rdma_cm_id *id)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_QP_ERROR);

	if (!r)
		fake_qp_fail(qp_of(id));
	return r;
}

void fake_kill(struct rdma_cm_id *id)
{
	LOCK_GUARD(held, &fake_lock);

	fake_qp_fail(qp_of(id));
}

/* ---- memory access within a protection domain ---- */

/* Returns len bytes at addr if the key allows it, or NULL. */
static uint8_t *reach(const struct fake_pd *pd, uint64_t addr, uint64_t len, uint32_t key,
		      bool remote, int access)
{
	for (struct fake_obj *o = fake_objs(); o; o = o->next) {
		struct fake_mr *m = (struct fake_mr *)o;

		if (o->kind != OBJ_MR || !o->live || (remote ? m->mr.rkey : m->mr.lkey) != key)
			continue;
		if (m->pd != pd || (m->access & access) != access || addr < m->iova ||
		    addr - m->iova > m->mr.length || len > m->mr.length - (addr - m->iova))
			return NULL;
		return (uint8_t *)m->mr.addr + (addr - m->iova);
	}
	return NULL;
}

static uint32_t work_bytes(const struct fake_work *w)
{
	uint32_t n = 0;

	for (int i = 0; i < w->wr.num_sge; i++)
		n += w->sge[i].length;
	return n;
}

/* Copies all local pieces of w to at, or from at if in is true. Returns false if the memory is not
 * its own. */
static bool move_pieces(const struct fake_qp *qp, const struct fake_work *w, uint8_t *at, bool in)
{
	const uint8_t *inlined = w->inlined;

	if (!work_bytes(w))
		return true;
	for (int i = 0; i < w->wr.num_sge; at += w->sge[i++].length) {
		const struct ibv_sge *s = &w->sge[i];
		uint8_t *own;

		if (w->wr.send_flags & IBV_SEND_INLINE) {
			memcpy(at, inlined, s->length);
			inlined += s->length;
			continue;
		}
		own = reach(qp->pd, s->addr, s->length, s->lkey, false,
			    in ? IBV_ACCESS_LOCAL_WRITE : 0);
		if (!own)
			return false;
		memcpy(in ? own : at, in ? at : own, s->length);
	}
	return true;
}

static bool pieces_ok(const struct fake_qp *qp, const struct fake_work *w, bool in)
{
	for (int i = 0; i < w->wr.num_sge; i++)
		if (!(w->wr.send_flags & IBV_SEND_INLINE) &&
		    !reach(qp->pd, w->sge[i].addr, w->sge[i].length, w->sge[i].lkey, false,
			   in ? IBV_ACCESS_LOCAL_WRITE : 0))
			return false;
	return true;
}

/* ---- doing work ---- */

/* Returns the queue pair at the other end, if it is ready. */
static struct fake_qp *other(const struct fake_qp *qp)
{
	struct fake_qp *o = qp->id->peer ? qp->id->peer->qp : NULL;

	return o && o->state == QP_READY ? o : NULL;
}

static bool takes_receive(const struct fake_work *w)
{
	return w->wr.opcode == IBV_WR_SEND || w->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Copies a message into the first posted receive. Returns the sender's status. */
static enum ibv_wc_status do_send(struct fake_qp *qp, struct fake_qp *to, const struct fake_work *w)
{
	struct fake_receive *r = &to->receives[to->first_receive];
	uint32_t bytes = work_bytes(w), room = r->num_sge ? r->sge.length : 0;
	uint8_t *at = NULL;

	if (room)
		at = reach(to->pd, r->sge.addr, room, r->sge.lkey, false, IBV_ACCESS_LOCAL_WRITE);
	if (bytes > room || (bytes && !at)) {
		receive_done(to, at || !room ? IBV_WC_LOC_LEN_ERR : IBV_WC_LOC_PROT_ERR, w, 0);
		fake_qp_fail(to);
		return IBV_WC_REM_INV_REQ_ERR;
	}
	move_pieces(qp, w, at, false);
	receive_done(to, IBV_WC_SUCCESS, w, bytes);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_rdma(struct fake_qp *qp, struct fake_qp *to, const struct fake_work *w)
{
	bool read = w->wr.opcode == IBV_WR_RDMA_READ;
	uint32_t bytes = work_bytes(w);
	uint8_t *at = reach(to->pd, w->wr.wr.rdma.remote_addr, bytes, w->wr.wr.rdma.rkey, true,
			    read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);

	if (bytes && !at) {
		fake_qp_fail(to);
		return IBV_WC_REM_ACCESS_ERR;
	}
	move_pieces(qp, w, at, read);
	if (takes_receive(w))
		receive_done(to, IBV_WC_SUCCESS, w, bytes);
	return IBV_WC_SUCCESS;
}

static enum ibv_wc_status do_work(struct fake_qp *qp, struct fake_qp *to, const struct fake_work *w)
{
	if (!pieces_ok(qp, w, w->wr.opcode == IBV_WR_RDMA_READ))
		return IBV_WC_LOC_PROT_ERR;
	return w->wr.opcode == IBV_WR_SEND ? do_send(qp, to, w) : do_rdma(qp, to, w);
}

/* There is no peer: the work waits until its queue pair fails, or the device gives up. */
static bool nobody_there(struct fake_qp *qp)
{
	if (!fake.gives_up)
		return false;
	work.done++;
	work_done(qp, IBV_WC_RETRY_EXC_ERR);
	fake_qp_fail(qp);
	return true;
}

static bool starves(struct fake_work *w)
{
	work.starved += !w->starved;
	w->starved = true;
	return true;
}

/* Runs the oldest work request of qp. Returns false if it cannot run now. */
static bool run_one(struct fake_qp *qp)
{
	struct fake_work *w = &qp->work[qp->first_work];
	struct fake_qp *to = other(qp);
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	bool breaks;

	if (!to)
		return nobody_there(qp);
	if (takes_receive(w) && !to->nreceives)
		return !starves(w);
	breaks = ++work.done == work.break_at;
	if (!breaks || work.break_arrives)
		status = do_work(qp, to, w);
	if (breaks)
		status = work.break_with;
	if (qp->state == QP_ERROR)
		return true; /* its effect on the other side made this queue pair fail, too */
	work_done(qp, status);
	if (status)
		fake_qp_fail(qp);
	return true;
}

/* Runs one work request of each queue pair, at most n in all. */
static unsigned run_round(unsigned n)
{
	unsigned did = 0;

	for (struct fake_obj *o = fake_objs(); o && did < n; o = o->next) {
		struct fake_qp *qp = (struct fake_qp *)o;

		if (o->kind == OBJ_QP && o->live && qp->state == QP_READY && qp->nwork)
			did += run_one(qp);
	}
	return did;
}

unsigned fake_run(unsigned n)
{
	LOCK_GUARD(held, &fake_lock);
	unsigned all = 0, did;

	while (all < n && (did = run_round(n - all)))
		all += did;
	return all;
}

void fake_progress(void)
{
	while (!fake.hold && run_round(UINT32_MAX))
		;
}

/* ---- posting ---- */

static void keep_inlined(struct fake_work *w)
{
	size_t at = 0;

	for (int i = 0; i < w->wr.num_sge; at += w->sge[i++].length)
		memcpy(w->inlined + at, (const void *)(uintptr_t)w->sge[i].addr, w->sge[i].length);
}

static int check_work(const struct fake_qp *qp, const struct ibv_send_wr *wr)
{
	if (qp->state == QP_INIT || wr->next || wr->num_sge > 2 ||
	    wr->num_sge > (int)qp->cap.max_send_sge)
		return -EINVAL;
	if (wr->opcode != IBV_WR_SEND && wr->opcode != IBV_WR_RDMA_WRITE_WITH_IMM &&
	    wr->opcode != IBV_WR_RDMA_WRITE && wr->opcode != IBV_WR_RDMA_READ)
		return -EINVAL;
	return qp->places == qp->cap.max_send_wr ? -ENOMEM : 0;
}

int fake_post_send(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_qp *qp = qp_of(id);
	int r = fake_count(FAKE_POST_SEND);
	struct fake_work *w;

	if (!r && qp->id->dev->gone)
		r = -EIO;
	if (!r)
		r = check_work(qp, wr);
	if (r)
		return r;
	w = &qp->work[(qp->first_work + qp->nwork) % qp->cap.max_send_wr];
	w->wr = *wr;
	w->starved = false;
	for (int i = 0; i < wr->num_sge; i++)
		w->sge[i] = wr->sg_list[i];
	w->wr.sg_list = NULL;
	if (wr->send_flags & IBV_SEND_INLINE) {
		if (work_bytes(w) > qp->cap.max_inline_data)
			return -EINVAL;
		keep_inlined(w);
	}
	qp->places++;
	qp->nwork++;
	if (wr->opcode == IBV_WR_RDMA_READ && ++qp->reads > work.reads_most)
		work.reads_most = qp->reads;
	if (qp->state == QP_ERROR)
		work_done(qp, IBV_WC_WR_FLUSH_ERR);
	fake_progress();
	return 0;
}

int fake_post_recv(struct rdma_cm_id *id, struct ibv_recv_wr *wr)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_qp *qp = qp_of(id);
	int r = fake_count(FAKE_POST_RECV);
	struct fake_receive *k;

	if (!r && qp->id->dev->gone)
		r = -EIO;
	if (!r && (wr->next || wr->num_sge > 1))
		r = -EINVAL;
	if (!r && qp->receive_places == qp->cap.max_recv_wr)
		r = -ENOMEM;
	if (r)
		return r;
	k = &qp->receives[(qp->first_receive + qp->nreceives) % qp->cap.max_recv_wr];
	*k = (struct fake_receive){ .wr_id = wr->wr_id, .num_sge = wr->num_sge };
	if (wr->num_sge)
		k->sge = wr->sg_list[0];
	qp->receive_places++;
	qp->nreceives++;
	if (qp->state == QP_ERROR)
		receive_done(qp, IBV_WC_WR_FLUSH_ERR, NULL, 0);
	fake_progress();
	return 0;
}
