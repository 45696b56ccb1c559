// SPDX-License-Identifier: Apache-2.0
/* The fake fabric detects the errors that the tests of src/rdma rely on. */
#include "tests/support/rdma-phony.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define V fake_verbs

/* Two connected queue pairs: one of the phony server, and one made by hand. */
struct pair {
	struct ends x;
	struct phony to;
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_comp_channel *comp;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t mem[256];
};

static void next_event(struct pair *p, enum rdma_cm_event_type type)
{
	struct rdma_cm_event *ev;

	assert_int_equal(V.event_next(p->ch, &ev), 0);
	assert_int_equal(ev->event, type);
	V.event_done(ev);
}

/* entries: of the completion queue; works: maximum of posted sends. */
static void pair_make(struct pair *p, int entries, uint32_t works)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = works, .max_recv_wr = 4,
						  .max_send_sge = 1, .max_recv_sge = 1,
						  .max_inline_data = 16 } };
	uint8_t hello[HELLO_BYTES];
	struct rdma_conn_param param = { .private_data = hello, .private_data_len = HELLO_BYTES,
					 .responder_resources = 3, .initiator_depth = 5 };
	struct sockaddr_storage a;

	memset(p, 0, sizeof(*p));
	fake_begin();
	ends_init(&p->x, OP_WRITE, 1, 1);
	phony_init(&p->to, &p->x, true);
	phony_listen(&p->to);
	assert_int_equal(V.channel_new(&p->ch), 0);
	assert_int_equal(V.id_new(p->ch, &p->id, NULL), 0);
	fake_address(1, &a);
	((struct sockaddr_in *)&a)->sin_port = htons(ENDS_PORT);
	assert_int_equal(V.resolve_addr(p->id, NULL, (struct sockaddr *)&a, 1), 0);
	next_event(p, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(V.resolve_route(p->id, 1), 0);
	next_event(p, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(V.pd_new(p->id->verbs, &p->pd), 0);
	assert_int_equal(V.cq_new(p->id->verbs, entries, 0, &p->comp, &p->cq), 0);
	assert_int_equal(V.mr_new(p->pd, p->mem, sizeof(p->mem), 1000, IBV_ACCESS_LOCAL_WRITE,
				  &p->mr), 0);
	attr.send_cq = attr.recv_cq = p->cq;
	assert_int_equal(V.qp_new(p->id, p->pd, &attr), 0);
	channel_hello_put(hello, false, &p->x.auth, 5, 1);
	assert_int_equal(V.connect(p->id, &param), 0);
	phony_turn(&p->to);
	next_event(p, RDMA_CM_EVENT_ESTABLISHED);
}

static void pair_free(struct pair *p)
{
	V.qp_free(p->id);
	V.id_free(p->id);
	V.mr_free(p->mr);
	V.cq_free(p->comp, p->cq);
	V.pd_free(p->pd);
	V.channel_free(p->ch);
	phony_free(&p->to);
	fake_end();
}

static int send_from(struct pair *p, uint64_t addr, uint32_t len, unsigned flags)
{
	struct ibv_sge sge = { addr, len, p->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = 77, .sg_list = &sge, .num_sge = 1,
				  .opcode = IBV_WR_SEND, .send_flags = flags };

	return V.post_send(p->id, &wr);
}

/* ---- calls that would crash, hang or leak end the program ---- */

static void free_nothing(struct pair *p) { fake_end(); }
static void free_id_first(struct pair *p) { V.id_free(p->id); }
static void free_memory_first(struct pair *p) { V.mr_free(p->mr); }
static void free_domain_first(struct pair *p) { V.pd_free(p->pd); }
static void free_queue_first(struct pair *p) { V.cq_free(p->comp, p->cq); }
static void free_channel_first(struct pair *p) { V.channel_free(p->ch); }

static void free_twice(struct pair *p)
{
	V.qp_free(p->id);
	V.mr_free(p->mr);
	V.mr_free(p->mr);
}

static void post_without(struct pair *p)
{
	V.qp_free(p->id);
	send_from(p, 1000, 1, 0);
}

static void use_freed_id(struct pair *p)
{
	V.qp_free(p->id);
	V.id_free(p->id);
	V.disconnect(p->id);
}

static void free_before_done(struct pair *p)
{
	struct rdma_cm_event *ev;

	V.disconnect(p->id);
	V.event_next(p->ch, &ev);
	V.qp_free(p->id);
	V.id_free(p->id);
}

static void overflow(struct pair *p)
{
	for (int i = 0; i < 3; i++)
		send_from(p, 1000, 1, IBV_SEND_SIGNALED);
}

static void starve(struct pair *p)
{
	struct ibv_wc wc;

	for (int i = 0; i < PHONY_RECEIVES + 1; i++) {
		send_from(p, 1000, 1, IBV_SEND_SIGNALED);
		V.poll(p->cq, 1, &wc);
	}
	pair_free(p);
}

static void test_misuse(void **state)
{
	static void (*const cases[])(struct pair *p) = {
		free_nothing, free_id_first, free_memory_first, free_domain_first,
		free_queue_first, free_channel_first, free_twice, post_without, use_freed_id,
		free_before_done, overflow, starve,
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			struct pair p;

			signal(SIGABRT, SIG_DFL);
			if (!freopen("/dev/null", "w", stderr))
				_exit(1);
			pair_make(&p, 2, 8);
			cases[i](&p);
			_exit(0);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT)
			fail_msg("case %zu was not found: %d", i, status);
	}
}

/* ---- device behaviour ---- */

/* A slot in the queue becomes free when its completion, or that of a later request, is polled. */
static void test_queue_places(void **state)
{
	struct ibv_wc wc[8];
	struct pair p;

	(void)state;
	pair_make(&p, 8, 3);
	assert_int_equal(send_from(&p, 1000, 1, 0), 0);
	assert_int_equal(send_from(&p, 1000, 1, 0), 0);
	assert_int_equal(send_from(&p, 1000, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(send_from(&p, 1000, 1, 0), -ENOMEM);
	assert_int_equal(V.poll(p.cq, 8, wc), 1);
	assert_int_equal(wc[0].wr_id, 77);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++)
		assert_int_equal(send_from(&p, 1000, 1, 0), 0);
	assert_int_equal(send_from(&p, 1000, 1, 0), -ENOMEM);
	pair_free(&p);
}

/* In the error state all posted requests are flushed, and later ones too. */
static void test_flush(void **state)
{
	struct ibv_sge sge;
	struct ibv_recv_wr recv = { .wr_id = 5, .sg_list = &sge, .num_sge = 1 };
	struct ibv_wc wc[8];
	struct pair p;

	(void)state;
	pair_make(&p, 8, 3);
	sge = (struct ibv_sge){ 1000, 16, p.mr->lkey };
	fake.hold = true;
	assert_int_equal(V.post_recv(p.id, &recv), 0);
	assert_int_equal(send_from(&p, 1000, 1, 0), 0);
	assert_int_equal(V.poll(p.cq, 8, wc), 0);
	fake_kill(p.id);
	assert_int_equal(V.poll(p.cq, 8, wc), 2);
	assert_int_equal(wc[0].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc[1].status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc[0].wr_id + wc[1].wr_id, 82);
	assert_int_equal(send_from(&p, 1000, 1, 0), 0);
	assert_int_equal(V.poll(p.cq, 8, wc), 1);
	assert_int_equal(wc[0].status, IBV_WC_WR_FLUSH_ERR);
	pair_free(&p);
}

/* The bytes are read at the transfer; inline bytes are copied when posted. */
static void test_bytes(void **state)
{
	uint8_t own[4] = "own";
	struct ibv_wc wc[2];
	struct pair p;

	(void)state;
	pair_make(&p, 8, 3);
	memcpy(p.mem + 10, "hello", 5);
	assert_int_equal(send_from(&p, 1010, 5, 0), 0);
	assert_memory_equal(p.to.mem + phony_received_at(0, 0), "hello", 5);
	fake.hold = true;
	assert_int_equal(send_from(&p, (uintptr_t)own, 3, IBV_SEND_INLINE), 0);
	memset(own, 0, sizeof(own));
	assert_int_equal(fake_run(9), 1);
	assert_memory_equal(p.to.mem + phony_received_at(0, 1), "own", 3);
	assert_int_equal(send_from(&p, (uintptr_t)own, 17, IBV_SEND_INLINE), -EINVAL);
	/* Addresses outside the memory region. */
	fake.hold = false;
	assert_int_equal(send_from(&p, 1000 + 252, 5, 0), 0);
	assert_int_equal(V.poll(p.cq, 2, wc), 1);
	assert_int_equal(wc[0].status, IBV_WC_LOC_PROT_ERR);
	pair_free(&p);
}

/* An armed queue wakes its reader once; a queue that is not armed never does. */
static void test_notification(void **state)
{
	uint64_t n;
	struct pair p;

	(void)state;
	pair_make(&p, 8, 3);
	assert_int_equal(send_from(&p, 1000, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(read(p.comp->fd, &n, sizeof(n)), -1);
	assert_int_equal(V.cq_arm(p.cq), 0);
	assert_int_equal(send_from(&p, 1000, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(send_from(&p, 1000, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(read(p.comp->fd, &n, sizeof(n)), sizeof(n));
	assert_int_equal(n, 1);
	pair_free(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_misuse),
		cmocka_unit_test(test_queue_places),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_notification),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
