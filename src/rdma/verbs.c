// SPDX-License-Identifier: Apache-2.0
/* The real verbs: each wrapper turns the library's way of failing into a negative errno. */
#include "rdma/verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* rdma_*: -1 and errno. */
static int cm(int r)
{
	return r ? -(errno ? errno : EIO) : 0;
}

/* ibv_post_*, ibv_modify_*, ibv_query_*: a positive errno, from old providers -1. */
static int vb(int r)
{
	return r > 0 ? -r : r ? -EIO : 0;
}

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* ---- connections ---- */

static int channel_new(struct rdma_event_channel **ch)
{
	int r;

	*ch = rdma_create_event_channel();
	if (!*ch)
		return -errno;
	r = nonblocking((*ch)->fd);
	if (r) {
		rdma_destroy_event_channel(*ch);
		*ch = NULL;
	}
	return r;
}

static void channel_free(struct rdma_event_channel *ch)
{
	if (ch)
		rdma_destroy_event_channel(ch);
}

static int event_next(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	return cm(rdma_get_cm_event(ch, ev));
}

static void event_done(struct rdma_cm_event *ev)
{
	rdma_ack_cm_event(ev);
}

static int id_new(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context)
{
	return cm(rdma_create_id(ch, id, context, RDMA_PS_TCP));
}

static void id_free(struct rdma_cm_id *id)
{
	if (id)
		rdma_destroy_id(id);
}

static int bind_addr(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	int only = 1;

	/* An IPv6 wildcard or address must not take the IPv4 port as well. */
	if (addr->sa_family == AF_INET6 &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only)))
		return -errno;
	return cm(rdma_bind_addr(id, (struct sockaddr *)addr));
}

static int listen_on(struct rdma_cm_id *id, int backlog)
{
	return cm(rdma_listen(id, backlog));
}

static uint16_t port_of(struct rdma_cm_id *id)
{
	return ntohs(rdma_get_src_port(id));
}

static int resolve_addr(struct rdma_cm_id *id, const struct sockaddr *src,
			const struct sockaddr *dst, int ms)
{
	return cm(rdma_resolve_addr(id, (struct sockaddr *)src, (struct sockaddr *)dst, ms));
}

static int resolve_route(struct rdma_cm_id *id, int ms)
{
	return cm(rdma_resolve_route(id, ms));
}

static int set_tos(struct rdma_cm_id *id, uint8_t tos)
{
	return cm(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)));
}

static int set_ack_timeout(struct rdma_cm_id *id, uint8_t exponent)
{
	return cm(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
				  sizeof(exponent)));
}

static int connect_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return cm(rdma_connect(id, param));
}

static int accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return cm(rdma_accept(id, param));
}

static int reject_id(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return cm(rdma_reject(id, data, len));
}

static int disconnect_id(struct rdma_cm_id *id)
{
	return cm(rdma_disconnect(id));
}

/* ---- a device's resources ---- */

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	return vb(ibv_query_device(ctx, attr));
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	return vb(ibv_query_port(ctx, port, attr));
}

static int pd_new(struct ibv_context *ctx, struct ibv_pd **pd)
{
	errno = 0;
	*pd = ibv_alloc_pd(ctx);
	return *pd ? 0 : -(errno ? errno : ENOMEM);
}

static void pd_free(struct ibv_pd *pd)
{
	if (pd)
		ibv_dealloc_pd(pd);
}

static int mr_new(struct ibv_pd *pd, void *base, size_t len, uint64_t iova, int access,
		  struct ibv_mr **mr)
{
	errno = 0;
	*mr = ibv_reg_mr_iova(pd, base, len, iova, (unsigned)access);
	return *mr ? 0 : -(errno ? errno : ENOMEM);
}

static void mr_free(struct ibv_mr *mr)
{
	if (mr)
		ibv_dereg_mr(mr);
}

static void cq_free(struct ibv_comp_channel *ch, struct ibv_cq *cq)
{
	if (cq)
		ibv_destroy_cq(cq);
	if (ch)
		ibv_destroy_comp_channel(ch);
}

static int cq_new(struct ibv_context *ctx, int entries, int vector, struct ibv_comp_channel **ch,
		  struct ibv_cq **cq)
{
	int r;

	errno = 0;
	*cq = NULL;
	*ch = ibv_create_comp_channel(ctx);
	if (!*ch)
		return -(errno ? errno : ENOMEM);
	r = nonblocking((*ch)->fd);
	if (!r) {
		*cq = ibv_create_cq(ctx, entries, NULL, *ch, vector);
		r = *cq ? 0 : -(errno ? errno : ENOMEM);
	}
	if (r) {
		cq_free(*ch, *cq);
		*ch = NULL;
	}
	return r;
}

static int cq_arm(struct ibv_cq *cq)
{
	return vb(ibv_req_notify_cq(cq, 0));
}

static void cq_woken(struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(ch, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int r = ibv_poll_cq(cq, n, wc);

	return r < 0 ? -EIO : r;
}

static int qp_new(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return cm(rdma_create_qp(id, pd, attr));
}

static void qp_free(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
}

static int qp_error(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return vb(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE));
}

static int qp_way(struct rdma_cm_id *id, struct ibv_gid_entry *gid, enum ibv_mtu *mtu)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int r = vb(ibv_query_qp(id->qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU, &init));

	if (r)
		return r;
	*mtu = attr.path_mtu;
	return vb(ibv_query_gid_ex(id->verbs, id->port_num, attr.ah_attr.grh.sgid_index, gid, 0));
}

static int qp_rnr_timer(struct rdma_cm_id *id, uint8_t code)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = code };

	return vb(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER));
}

static int post_send(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return vb(ibv_post_send(id->qp, wr, &bad));
}

static int post_recv(struct rdma_cm_id *id, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return vb(ibv_post_recv(id->qp, wr, &bad));
}

static int async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	if (ibv_get_async_event(ctx, ev))
		return -errno;
	ibv_ack_async_event(ev);
	return 0;
}

static int async_fd(struct ibv_context *ctx)
{
	int r = nonblocking(ctx->async_fd);

	return r ? r : ctx->async_fd;
}

/* librdmacm keeps a context for as long as the process lives, and there are drivers, rdma_rxe
 * for one, under which a device is not removed before its last descriptor is closed: whoever
 * removes it would wait for us. So the descriptors go, but for their numbers, which librdmacm
 * closes when it misses the device. */
static void device_gone(struct ibv_context *ctx)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	dup3(fd, ctx->async_fd, O_CLOEXEC);
	dup3(fd, ctx->cmd_fd, O_CLOEXEC);
	close(fd);
}

const struct verbs verbs_real = {
	.channel_new = channel_new,
	.channel_free = channel_free,
	.event_next = event_next,
	.event_done = event_done,
	.id_new = id_new,
	.id_free = id_free,
	.bind = bind_addr,
	.listen = listen_on,
	.port = port_of,
	.resolve_addr = resolve_addr,
	.resolve_route = resolve_route,
	.set_tos = set_tos,
	.set_ack_timeout = set_ack_timeout,
	.connect = connect_id,
	.accept = accept_id,
	.reject = reject_id,
	.disconnect = disconnect_id,
	.query_device = query_device,
	.query_port = query_port,
	.pd_new = pd_new,
	.pd_free = pd_free,
	.mr_new = mr_new,
	.mr_free = mr_free,
	.cq_new = cq_new,
	.cq_free = cq_free,
	.cq_arm = cq_arm,
	.cq_woken = cq_woken,
	.poll = poll_cq,
	.qp_new = qp_new,
	.qp_free = qp_free,
	.qp_error = qp_error,
	.qp_way = qp_way,
	.qp_rnr_timer = qp_rnr_timer,
	.post_send = post_send,
	.post_recv = post_recv,
	.async_event = async_event,
	.async_fd = async_fd,
	.device_gone = device_gone,
};
