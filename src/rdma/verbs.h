// SPDX-License-Identifier: Apache-2.0
/* All calls of a path into libibverbs and librdmacm, with one convention for failure (0 or a
 * negative errno) instead of the libraries' three. Unit tests replace them by a fake, to reach each
 * state of a connection. The manual pages rdma_NAME(3) and ibv_NAME(3) describe the calls. */
#ifndef RFTP_RDMA_VERBS_H
#define RFTP_RDMA_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

struct verbs {
	/* Connections. Channels do not block: event_next returns -EAGAIN when there is no event. */
	int (*channel_new)(struct rdma_event_channel **ch);
	void (*channel_free)(struct rdma_event_channel *ch);
	int (*event_next)(struct rdma_event_channel *ch, struct rdma_cm_event **ev);
	/* Return the event to librdmacm. Its id must not be freed before. */
	void (*event_done)(struct rdma_cm_event *ev);
	int (*id_new)(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context);
	void (*id_free)(struct rdma_cm_id *id); /* first: all events done, no queue pair */
	int (*bind)(struct rdma_cm_id *id, const struct sockaddr *addr);
	int (*listen)(struct rdma_cm_id *id, int backlog);
	uint16_t (*port)(struct rdma_cm_id *id); /* host order */
	int (*resolve_addr)(struct rdma_cm_id *id, const struct sockaddr *src,
			    const struct sockaddr *dst, int ms);
	int (*resolve_route)(struct rdma_cm_id *id, int ms);
	int (*set_tos)(struct rdma_cm_id *id, uint8_t tos);
	int (*set_ack_timeout)(struct rdma_cm_id *id, uint8_t exponent); /* 4.096 µs × 2^n */
	int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
	int (*reject)(struct rdma_cm_id *id, const void *data, uint8_t len);
	int (*disconnect)(struct rdma_cm_id *id);

	/* A device's resources. */
	int (*query_device)(struct ibv_context *ctx, struct ibv_device_attr *attr);
	int (*query_port)(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr);
	int (*pd_new)(struct ibv_context *ctx, struct ibv_pd **pd);
	void (*pd_free)(struct ibv_pd *pd);
	/* iova: the address of its first byte in work requests of both sides. */
	int (*mr_new)(struct ibv_pd *pd, void *base, size_t len, uint64_t iova, int access,
		      struct ibv_mr **mr);
	void (*mr_free)(struct ibv_mr *mr);
	/* A completion queue and its event channel; non-blocking. */
	int (*cq_new)(struct ibv_context *ctx, int entries, int vector,
		      struct ibv_comp_channel **ch, struct ibv_cq **cq);
	void (*cq_free)(struct ibv_comp_channel *ch, struct ibv_cq *cq);
	int (*cq_arm)(struct ibv_cq *cq);
	void (*cq_woken)(struct ibv_comp_channel *ch); /* consume all events of the channel */
	int (*poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc); /* number of completions */
	int (*qp_new)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
	void (*qp_free)(struct rdma_cm_id *id); /* then the device accesses none of our memory */
	int (*qp_error)(struct rdma_cm_id *id); /* flush all posted work requests */
	/* The GID and the MTU of a connected queue pair's packets. */
	int (*qp_way)(struct rdma_cm_id *id, struct ibv_gid_entry *gid, enum ibv_mtu *mtu);
	int (*qp_rnr_timer)(struct rdma_cm_id *id, uint8_t code); /* IBTA 9.7.5.2.8 */
	int (*post_send)(struct rdma_cm_id *id, struct ibv_send_wr *wr);
	int (*post_recv)(struct rdma_cm_id *id, struct ibv_recv_wr *wr);
	int (*async_event)(struct ibv_context *ctx, struct ibv_async_event *ev); /* -EAGAIN: none */
	int (*async_fd)(struct ibv_context *ctx); /* readable when there is one; not blocking */
	/* The device is being removed, and this process has no more resources on it: release it.
	 * ctx must not be used afterwards. */
	void (*device_gone)(struct ibv_context *ctx);
};

extern const struct verbs verbs_real;

#endif
