// SPDX-License-Identifier: Apache-2.0
/* The real verbs: each wrapper converts the library's error to a negative errno. */
#include "rdma/verbs.h"

#include "util/util.h"

#include <arpa/inet.h>
#include <fcntl.h>

/* rdma_* functions fail with -1 and errno. */
static int cm_result(int r)
{
	return r ? -(errno ? errno : EIO) : 0;
}

/* ibv_post_*, ibv_modify_*, ibv_query_* fail with a positive errno, in old providers with -1. */
static int verbs_result(int r)
{
	return r > 0 ? -r : r ? -EIO : 0;
}

/* ---- connections ---- */

static int real_channel_new(struct rdma_event_channel **ch)
{
	int r;

	*ch = rdma_create_event_channel();
	if (!*ch)
		return -errno;
	r = set_nonblock((*ch)->fd, true);
	if (r) {
		rdma_destroy_event_channel(*ch);
		*ch = NULL;
	}
	return r;
}

static void real_channel_free(struct rdma_event_channel *ch)
{
	if (ch)
		rdma_destroy_event_channel(ch);
}

static int real_event_next(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	return cm_result(rdma_get_cm_event(ch, ev));
}

static void real_event_done(struct rdma_cm_event *ev)
{
	rdma_ack_cm_event(ev);
}

static int real_id_new(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context)
{
	return cm_result(rdma_create_id(ch, id, context, RDMA_PS_TCP));
}

static void real_id_free(struct rdma_cm_id *id)
{
	if (id)
		rdma_destroy_id(id);
}

static int real_bind_addr(struct rdma_cm_id *id, const struct sockaddr *addr)
{
	int only = 1;

	/* An IPv6 wildcard or address must not occupy the IPv4 port as well. */
	if (addr->sa_family == AF_INET6 &&
	    rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &only, sizeof(only)))
		return -errno;
	return cm_result(rdma_bind_addr(id, (struct sockaddr *)addr));
}

static int real_listen_on(struct rdma_cm_id *id, int backlog)
{
	return cm_result(rdma_listen(id, backlog));
}

static uint16_t real_port_of(struct rdma_cm_id *id)
{
	return ntohs(rdma_get_src_port(id));
}

static int real_resolve_addr(struct rdma_cm_id *id, const struct sockaddr *src,
			const struct sockaddr *dst, int ms)
{
	return cm_result(rdma_resolve_addr(id, (struct sockaddr *)src, (struct sockaddr *)dst, ms));
}

static int real_resolve_route(struct rdma_cm_id *id, int ms)
{
	return cm_result(rdma_resolve_route(id, ms));
}

static int real_set_tos(struct rdma_cm_id *id, uint8_t tos)
{
	return cm_result(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos,
					 sizeof(tos)));
}

static int real_set_ack_timeout(struct rdma_cm_id *id, uint8_t exponent)
{
	return cm_result(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &exponent,
				  sizeof(exponent)));
}

static int real_connect_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return cm_result(rdma_connect(id, param));
}

static int real_accept_id(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	return cm_result(rdma_accept(id, param));
}

static int real_reject_id(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	return cm_result(rdma_reject(id, data, len));
}

static int real_disconnect_id(struct rdma_cm_id *id)
{
	return cm_result(rdma_disconnect(id));
}

/* ---- a device's resources ---- */

static int real_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	return verbs_result(ibv_query_device(ctx, attr));
}

static int real_query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	return verbs_result(ibv_query_port(ctx, port, attr));
}

static int real_pd_new(struct ibv_context *ctx, struct ibv_pd **pd)
{
	errno = 0;
	*pd = ibv_alloc_pd(ctx);
	return *pd ? 0 : -(errno ? errno : ENOMEM);
}

static void real_pd_free(struct ibv_pd *pd)
{
	if (pd)
		ibv_dealloc_pd(pd);
}

static int real_mr_new(struct ibv_pd *pd, void *base, size_t len, uint64_t iova, int access,
		  struct ibv_mr **mr)
{
	errno = 0;
	*mr = ibv_reg_mr_iova(pd, base, len, iova, (unsigned)access);
	return *mr ? 0 : -(errno ? errno : ENOMEM);
}

static void real_mr_free(struct ibv_mr *mr)
{
	if (mr)
		ibv_dereg_mr(mr);
}

static void real_cq_free(struct ibv_comp_channel *ch, struct ibv_cq *cq)
{
	if (cq)
		ibv_destroy_cq(cq);
	if (ch)
		ibv_destroy_comp_channel(ch);
}

static int real_cq_new(struct ibv_context *ctx, int entries, int vector,
		       struct ibv_comp_channel **ch, struct ibv_cq **cq)
{
	int r;

	errno = 0;
	*cq = NULL;
	*ch = ibv_create_comp_channel(ctx);
	if (!*ch)
		return -(errno ? errno : ENOMEM);

	r = set_nonblock((*ch)->fd, true);
	if (!r) {
		*cq = ibv_create_cq(ctx, entries, NULL, *ch, vector);
		r = *cq ? 0 : -(errno ? errno : ENOMEM);
	}
	if (r) {
		real_cq_free(*ch, *cq);
		*ch = NULL;
	}
	return r;
}

static int real_cq_arm(struct ibv_cq *cq)
{
	return verbs_result(ibv_req_notify_cq(cq, 0));
}

static void real_cq_woken(struct ibv_comp_channel *ch)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(ch, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}

static int real_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int r = ibv_poll_cq(cq, n, wc);

	return r < 0 ? -EIO : r;
}

static int real_qp_new(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	return cm_result(rdma_create_qp(id, pd, attr));
}

static void real_qp_free(struct rdma_cm_id *id)
{
	if (id->qp)
		rdma_destroy_qp(id);
}

static int real_qp_error(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	return verbs_result(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE));
}

static int real_qp_way(struct rdma_cm_id *id, struct ibv_gid_entry *gid, enum ibv_mtu *mtu)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int r = verbs_result(ibv_query_qp(id->qp, &attr, IBV_QP_AV | IBV_QP_PATH_MTU, &init));

	if (r)
		return r;
	*mtu = attr.path_mtu;
	return verbs_result(ibv_query_gid_ex(id->verbs, id->port_num,
					     attr.ah_attr.grh.sgid_index, gid, 0));
}

static int real_qp_rnr_timer(struct rdma_cm_id *id, uint8_t code)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .min_rnr_timer = code };

	return verbs_result(ibv_modify_qp(id->qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER));
}

static int real_post_send(struct rdma_cm_id *id, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	return verbs_result(ibv_post_send(id->qp, wr, &bad));
}

static int real_post_recv(struct rdma_cm_id *id, struct ibv_recv_wr *wr)
{
	struct ibv_recv_wr *bad;

	return verbs_result(ibv_post_recv(id->qp, wr, &bad));
}

static int real_async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	if (ibv_get_async_event(ctx, ev))
		return -errno;
	ibv_ack_async_event(ev);
	return 0;
}

static int real_async_fd(struct ibv_context *ctx)
{
	int r = set_nonblock(ctx->async_fd, true);

	return r ? r : ctx->async_fd;
}

/* librdmacm keeps a device context open as long as the process lives, and some drivers, such as
 * rdma_rxe, remove a device only after its last descriptor is closed. So the removal would wait for
 * this process. Replace the descriptors by /dev/null; librdmacm closes them when it finds that the
 * device has gone. */
static void real_device_gone(struct ibv_context *ctx)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return;
	dup3(fd, ctx->async_fd, O_CLOEXEC);
	dup3(fd, ctx->cmd_fd, O_CLOEXEC);
	close(fd);
}

const struct verbs verbs_real = {
	.channel_new = real_channel_new,
	.channel_free = real_channel_free,
	.event_next = real_event_next,
	.event_done = real_event_done,
	.id_new = real_id_new,
	.id_free = real_id_free,
	.bind = real_bind_addr,
	.listen = real_listen_on,
	.port = real_port_of,
	.resolve_addr = real_resolve_addr,
	.resolve_route = real_resolve_route,
	.set_tos = real_set_tos,
	.set_ack_timeout = real_set_ack_timeout,
	.connect = real_connect_id,
	.accept = real_accept_id,
	.reject = real_reject_id,
	.disconnect = real_disconnect_id,
	.query_device = real_query_device,
	.query_port = real_query_port,
	.pd_new = real_pd_new,
	.pd_free = real_pd_free,
	.mr_new = real_mr_new,
	.mr_free = real_mr_free,
	.cq_new = real_cq_new,
	.cq_free = real_cq_free,
	.cq_arm = real_cq_arm,
	.cq_woken = real_cq_woken,
	.poll = real_poll_cq,
	.qp_new = real_qp_new,
	.qp_free = real_qp_free,
	.qp_error = real_qp_error,
	.qp_way = real_qp_way,
	.qp_rnr_timer = real_qp_rnr_timer,
	.post_send = real_post_send,
	.post_recv = real_post_recv,
	.async_event = real_async_event,
	.async_fd = real_async_fd,
	.device_gone = real_device_gone,
};
