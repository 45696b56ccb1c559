// SPDX-License-Identifier: Apache-2.0
/* What the parts of the fake fabric share. All of it is guarded by fake_lock. */
#ifndef RFTP_TESTS_FAKE_FABRIC_H
#define RFTP_TESTS_FAKE_FABRIC_H

#include "tests/support/fake-verbs.h"

#include "util/util.h"

#include <pthread.h>
#include <stdint.h>

/* ---- objects: known until fake_end(), so that the use of a freed one is seen ---- */

enum fake_kind { OBJ_CHANNEL, OBJ_ID, OBJ_EVENT, OBJ_PD, OBJ_MR, OBJ_CQ, OBJ_QP, OBJ_KINDS };

struct fake_obj {
	enum fake_kind kind;
	bool live;
	unsigned users;         /* that must go before it */
	struct fake_obj *next;
};

/* size bytes that begin with a struct fake_obj. NULL: memory is out. */
void *fake_obj_new(enum fake_kind kind, size_t size);
/* It goes; nothing may use it. */
void fake_obj_free(struct fake_obj *o);
struct fake_obj *fake_objs(void); /* the newest first */

struct fake_device {
	struct ibv_device device;
	struct ibv_context ctx;
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	bool gone, fatal_due, let_go;
};

struct fake_channel {
	struct fake_obj o;
	struct rdma_event_channel ch;
	struct fake_event *first, *last, *late;
};

enum fake_id_state {
	ID_NEW, ID_LISTENING, ID_ADDRESS, ID_ROUTE, ID_CONNECTING, ID_REQUESTED, ID_CONNECTED,
	ID_DISCONNECTED,
};

struct fake_id {
	struct fake_obj o;              /* its users: events that were taken and not given back */
	struct rdma_cm_id id;
	enum fake_id_state state;
	struct fake_channel *ch;
	struct fake_device *dev;
	struct fake_qp *qp;
	struct fake_id *peer;           /* while both live */
	struct sockaddr_storage to;
	uint16_t port;                  /* listening */
	struct rdma_conn_param offer;   /* of who asked */
	bool given;                     /* a request's: its user knows of it */
};

struct fake_event {
	struct fake_obj o;
	struct rdma_cm_event ev;
	uint8_t data[256];
	struct fake_event *next;
};

struct fake_pd {
	struct fake_obj o;
	struct ibv_pd pd;
};

struct fake_mr {
	struct fake_obj o;
	struct ibv_mr mr;
	struct fake_pd *pd;
	uint64_t iova;
	int access;
};

struct fake_completion {
	struct ibv_wc wc;
	struct fake_qp *qp;
	uint32_t sends, receives;       /* places in its queues that are free once it is seen */
};

struct fake_cq {
	struct fake_obj o;
	struct ibv_cq cq;
	struct ibv_comp_channel ch;
	bool armed;
	uint32_t size, first, n;
	struct fake_completion *ring;
};

/* A piece of work. */
struct fake_work {
	struct ibv_send_wr wr;
	struct ibv_sge sge[2];
	uint8_t inlined[256];
	bool starved;
};

struct fake_receive {
	uint64_t wr_id;
	struct ibv_sge sge;
	int num_sge;
};

enum fake_qp_state { QP_INIT, QP_READY, QP_ERROR };

struct fake_qp {
	struct fake_obj o;
	struct ibv_qp qp;
	enum fake_qp_state state;
	struct fake_id *id;
	struct fake_pd *pd;
	struct fake_cq *send_cq, *recv_cq;
	struct ibv_qp_cap cap;
	struct fake_work *work;         /* ring of cap.max_send_wr: those not done */
	uint32_t first_work, nwork;
	uint32_t places;                /* of the send queue in use */
	uint32_t quiet;                 /* of them done without a completion */
	struct fake_receive *receives;  /* ring of cap.max_recv_wr */
	uint32_t first_receive, nreceives, receive_places;
	uint32_t reads;
};

struct fake_id *fake_id_of(struct rdma_cm_id *id);

/* ---- */

extern pthread_mutex_t fake_lock; /* recursive: the idle hook calls from inside */
void fake_broken(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define FAKE_MUST(cond, ...) do { if (!(cond)) fake_broken(__VA_ARGS__); } while (0)

/* Count a call of the seam; 0, or what it shall fail with. */
int fake_count(enum fake_call call);
struct fake_device *fake_device(unsigned n); /* NULL: there is none */
struct fake_device *fake_device_at(const struct sockaddr *a);
/* fd: an eventfd. */
void fake_readable(int fd, bool readable);

void fake_event(struct fake_id *id, enum rdma_cm_event_type type, int status);
void fake_conn_forget(void);

/* Take its work and its receives back as flushed. */
void fake_qp_fail(struct fake_qp *qp);
void fake_qp_ready(struct fake_qp *qp);
void fake_qp_drop(struct fake_qp *qp);
void fake_work_forget(void);
/* Do what can be done, unless it is held. */
void fake_progress(void);

/* The seam, by part. */
int fake_channel_new(struct rdma_event_channel **ch);
void fake_channel_free(struct rdma_event_channel *ch);
int fake_event_next(struct rdma_event_channel *ch, struct rdma_cm_event **ev);
void fake_event_done(struct rdma_cm_event *ev);
int fake_id_new(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context);
void fake_id_free(struct rdma_cm_id *id);
int fake_bind(struct rdma_cm_id *id, const struct sockaddr *addr);
int fake_listen(struct rdma_cm_id *id, int backlog);
uint16_t fake_port(struct rdma_cm_id *id);
int fake_resolve_addr(struct rdma_cm_id *id, const struct sockaddr *src,
		      const struct sockaddr *dst, int ms);
int fake_resolve_route(struct rdma_cm_id *id, int ms);
int fake_set_tos(struct rdma_cm_id *id, uint8_t tos);
int fake_set_ack_timeout(struct rdma_cm_id *id, uint8_t exponent);
int fake_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int fake_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int fake_reject(struct rdma_cm_id *id, const void *data, uint8_t len);
int fake_disconnect(struct rdma_cm_id *id);

int fake_qp_new(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
void fake_qp_free(struct rdma_cm_id *id);
int fake_qp_error(struct rdma_cm_id *id);
int fake_qp_way(struct rdma_cm_id *id, struct ibv_gid_entry *gid, enum ibv_mtu *mtu);
int fake_qp_rnr_timer(struct rdma_cm_id *id, uint8_t code);
int fake_post_send(struct rdma_cm_id *id, struct ibv_send_wr *wr);
int fake_post_recv(struct rdma_cm_id *id, struct ibv_recv_wr *wr);
int fake_cq_new(struct ibv_context *ctx, int entries, int vector, struct ibv_comp_channel **ch,
		struct ibv_cq **cq);
void fake_cq_free(struct ibv_comp_channel *ch, struct ibv_cq *cq);
int fake_cq_arm(struct ibv_cq *cq);
void fake_cq_woken(struct ibv_comp_channel *ch);
int fake_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc);

#define FAKE_OF(ptr, type, member) ((type *)(void *)((char *)(ptr) - offsetof(type, member)))

#endif
