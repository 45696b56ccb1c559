// SPDX-License-Identifier: Apache-2.0
/* Shared parts of the fake fabric. fake_lock guards all of it. */
#ifndef RFTP_TESTS_FAKE_FABRIC_H
#define RFTP_TESTS_FAKE_FABRIC_H

#include "tests/support/fake-verbs.h"

#include "util/util.h"

#include <pthread.h>
#include <stdint.h>

/* ---- objects: kept until fake_end(), so that uses of a freed object are detected ---- */

enum fake_kind { OBJ_CHANNEL, OBJ_ID, OBJ_EVENT, OBJ_PD, OBJ_MR, OBJ_CQ, OBJ_QP, OBJ_KINDS };

struct fake_obj {
	enum fake_kind kind;
	bool live;
	unsigned users;         /* objects that must be freed before it */
	struct fake_obj *next;
};

/* Allocates size bytes that begin with a struct fake_obj. Never returns NULL. */
void *fake_obj_new(enum fake_kind kind, size_t size);
/* Marks it freed; nothing may use it any more. */
void fake_obj_free(struct fake_obj *o);
struct fake_obj *fake_objs(void); /* newest first */

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
	struct fake_obj o;              /* its users: events that the test holds */
	struct rdma_cm_id id;
	enum fake_id_state state;
	struct fake_channel *ch;
	struct fake_device *dev;
	struct fake_qp *qp;
	struct fake_id *peer;           /* NULL when the peer is freed */
	struct sockaddr_storage to;
	uint16_t port;                  /* listening */
	struct rdma_conn_param offer;   /* of the connecting side */
	bool given;                     /* of a request: its user has seen it */
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
	uint32_t sends, receives;       /* queue places that are freed when it is polled */
};

struct fake_cq {
	struct fake_obj o;
	struct ibv_cq cq;
	struct ibv_comp_channel ch;
	bool armed;
	uint32_t size, first, n;
	struct fake_completion *ring;
};

/* A work request. */
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
	struct fake_work *work;         /* ring of cap.max_send_wr: pending work requests */
	uint32_t first_work, nwork;
	uint32_t places;                /* used places of the send queue */
	uint32_t quiet;                 /* of these, completed without a completion */
	struct fake_receive *receives;  /* ring of cap.max_recv_wr */
	uint32_t first_receive, nreceives, receive_places;
	uint32_t reads;
};

struct fake_id *fake_id_of(struct rdma_cm_id *id);

/* ---- */

extern pthread_mutex_t fake_lock; /* recursive: the idle hook calls from inside */
void fake_broken(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
#define FAKE_MUST(cond, ...) do { if (!(cond)) fake_broken(__VA_ARGS__); } while (0)

/* Counts a call of the interface. Returns 0, or the error to fail with. */
int fake_count(enum fake_call call);
struct fake_device *fake_device(unsigned n); /* NULL if there is no such device */
struct fake_device *fake_device_at(const struct sockaddr *a);
/* Makes the eventfd fd readable, or not. */
void fake_readable(int fd, bool readable);

void fake_event(struct fake_id *id, enum rdma_cm_event_type type, int status);
void fake_conn_forget(void);

/* Completes its work requests and receives as flushed. */
void fake_qp_fail(struct fake_qp *qp);
void fake_qp_ready(struct fake_qp *qp);
void fake_qp_drop(struct fake_qp *qp);
void fake_work_forget(void);
/* Runs all possible work, unless fake.hold is set. */
void fake_progress(void);

/* The functions of the verbs interface, by file. */
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
