// SPDX-License-Identifier: Apache-2.0
/* The fake fabric's objects, devices and memory, and its failing calls. */
#include "tests/support/fake-fabric.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_settings fake;
pthread_mutex_t fake_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

static struct {
	struct fake_obj *objs;
	struct fake_device device[FAKE_DEVICES];
	unsigned calls[FAKE_CALLS], fail_at[FAKE_CALLS];
	int fail_with[FAKE_CALLS];
	uint32_t keys;
} fabric;

void fake_broken(const char *fmt, ...)
{
	va_list ap;

	fputs("fake verbs: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	abort();
}

/* ---- objects ---- */

static const char *const kind_names[OBJ_KINDS] = {
	[OBJ_CHANNEL] = "event channel", [OBJ_ID] = "id", [OBJ_EVENT] = "event",
	[OBJ_PD] = "protection domain", [OBJ_MR] = "memory region",
	[OBJ_CQ] = "completion queue", [OBJ_QP] = "queue pair",
};

void *fake_obj_new(enum fake_kind kind, size_t size)
{
	struct fake_obj *o = calloc(1, size);

	FAKE_MUST(o, "out of memory");
	o->kind = kind;
	o->live = true;
	o->next = fabric.objs;
	fabric.objs = o;
	return o;
}

void fake_obj_free(struct fake_obj *o)
{
	FAKE_MUST(o->live, "freed twice: %s", kind_names[o->kind]);
	FAKE_MUST(!o->users, "the %s that is freed has %u users", kind_names[o->kind], o->users);
	o->live = false;
}

struct fake_obj *fake_objs(void)
{
	return fabric.objs;
}

struct fake_census fake_census(void)
{
	unsigned n[OBJ_KINDS] = { 0 };

	pthread_mutex_lock(&fake_lock);
	for (struct fake_obj *o = fabric.objs; o; o = o->next)
		n[o->kind] += o->live;
	pthread_mutex_unlock(&fake_lock);
	return (struct fake_census){ n[OBJ_CHANNEL], n[OBJ_ID], n[OBJ_PD], n[OBJ_MR], n[OBJ_CQ],
				     n[OBJ_QP] };
}

static void forget_objects(void)
{
	while (fabric.objs) {
		struct fake_obj *o = fabric.objs;

		fabric.objs = o->next;
		free(o);
	}
}

static void check_objects(void)
{
	for (struct fake_obj *o = fabric.objs; o; o = o->next)
		FAKE_MUST(!o->live, "left behind: %s", kind_names[o->kind]);
}

/* ---- failing calls ---- */

static const char *const call_names[FAKE_CALLS] = {
	"channel_new", "event_next", "id_new", "bind", "listen", "resolve_addr",
	"resolve_route", "set_tos", "set_ack_timeout", "connect", "accept", "reject",
	"disconnect", "query_device", "query_port", "pd_new", "mr_new", "cq_new", "cq_arm",
	"poll", "qp_new", "qp_error", "qp_way", "qp_rnr_timer", "post_send",
	"post_recv", "async_fd",
};

const char *fake_call_name(enum fake_call call)
{
	return call_names[call];
}

unsigned fake_calls(enum fake_call call)
{
	return fabric.calls[call];
}

void fake_fail(enum fake_call call, unsigned nth, int error)
{
	fabric.fail_at[call] = fabric.calls[call] + nth;
	fabric.fail_with[call] = error;
}

int fake_count(enum fake_call call)
{
	return ++fabric.calls[call] == fabric.fail_at[call] ? fabric.fail_with[call] : 0;
}

void fake_readable(int fd, bool readable)
{
	uint64_t n = 1;
	ssize_t r = readable ? write(fd, &n, sizeof(n)) : read(fd, &n, sizeof(n));

	/* Reading an empty eventfd fails without a side effect. */
	FAKE_MUST(r > 0 || !readable, "an eventfd cannot be written");
}

/* ---- devices ---- */

struct fake_device *fake_device(unsigned n)
{
	return n >= 1 && n <= FAKE_DEVICES ? &fabric.device[n - 1] : NULL;
}

struct ibv_device_attr *fake_device_attr(unsigned n)
{
	return &fake_device(n)->attr;
}

struct ibv_port_attr *fake_port_attr(unsigned n)
{
	return &fake_device(n)->port;
}

void fake_address(unsigned n, struct sockaddr_storage *a)
{
	struct sockaddr_in *in = (struct sockaddr_in *)a;

	memset(a, 0, sizeof(*a));
	in->sin_family = AF_INET;
	in->sin_addr.s_addr = htonl(0xc0000200u | n);
}

struct fake_device *fake_device_at(const struct sockaddr *a)
{
	uint32_t addr = ntohl(((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr);

	if (a->sa_family != AF_INET || (addr & 0xffffff00u) != 0xc0000200u)
		return NULL;
	return fake_device(addr & 0xff);
}

static void make_device(struct fake_device *d, unsigned n)
{
	memset(d, 0, sizeof(*d));
	snprintf(d->device.name, sizeof(d->device.name), "fake%u", n);
	d->ctx.device = &d->device;
	d->ctx.async_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	FAKE_MUST(d->ctx.async_fd >= 0, "no descriptor is left");
	d->attr = (struct ibv_device_attr){ .max_qp_wr = 1024, .max_cqe = 1 << 16,
					    .max_qp_rd_atom = 16, .max_qp_init_rd_atom = 16,
					    .max_mr_size = UINT64_MAX };
	d->port = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE, .max_msg_sz = 1u << 31,
					  .active_mtu = IBV_MTU_1024 };
}

static struct fake_device *device_of(struct ibv_context *ctx)
{
	return FAKE_OF(ctx, struct fake_device, ctx);
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_QUERY_DEVICE);

	if (!r)
		*attr = device_of(ctx)->attr;
	return r;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_QUERY_PORT);

	FAKE_MUST(port == 1, "port %u is asked for", port);
	if (!r)
		*attr = device_of(ctx)->port;
	return r;
}

static int async_event(struct ibv_context *ctx, struct ibv_async_event *ev)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_device *d = device_of(ctx);

	if (!d->fatal_due)
		return -EAGAIN;
	d->fatal_due = false;
	fake_readable(ctx->async_fd, false);
	*ev = (struct ibv_async_event){ .event_type = IBV_EVENT_DEVICE_FATAL };
	return 0;
}

static int async_fd(struct ibv_context *ctx)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_ASYNC_FD);

	return r ? r : ctx->async_fd;
}

static void device_gone(struct ibv_context *ctx)
{
	LOCK_GUARD(held, &fake_lock);

	device_of(ctx)->gone = device_of(ctx)->let_go = true; /* for us, removed or not */
}

bool fake_let_go(unsigned n)
{
	LOCK_GUARD(held, &fake_lock);

	return fake_device(n)->let_go;
}

void fake_remove(unsigned n, bool quiet)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_device *d = fake_device(n);

	d->gone = d->fatal_due = true;
	fake_readable(d->ctx.async_fd, true);
	for (struct fake_obj *o = fabric.objs; o; o = o->next) {
		struct fake_id *id = (struct fake_id *)o;

		if (o->kind != OBJ_ID || !o->live || id->dev != d)
			continue;
		if (id->qp)
			fake_qp_fail(id->qp);
		if (!quiet)
			fake_event(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
	}
}

/* ---- memory ---- */

static int pd_new(struct ibv_context *ctx, struct ibv_pd **pd)
{
	LOCK_GUARD(held, &fake_lock);
	int r = fake_count(FAKE_PD_NEW);
	struct fake_pd *p;

	*pd = NULL;
	if (r)
		return r;
	p = fake_obj_new(OBJ_PD, sizeof(*p));
	p->pd.context = ctx;
	*pd = &p->pd;
	return 0;
}

static void pd_free(struct ibv_pd *pd)
{
	LOCK_GUARD(held, &fake_lock);

	if (pd)
		fake_obj_free(&FAKE_OF(pd, struct fake_pd, pd)->o);
}

static int mr_new(struct ibv_pd *pd, void *base, size_t len, uint64_t iova, int access,
		  struct ibv_mr **mr)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_pd *p = FAKE_OF(pd, struct fake_pd, pd);
	int r = fake_count(FAKE_MR_NEW);
	struct fake_mr *m;

	*mr = NULL;
	if (r)
		return r;
	FAKE_MUST(p->o.live, "memory is registered with a domain that is freed");
	if ((access & IBV_ACCESS_REMOTE_WRITE) && !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	m = fake_obj_new(OBJ_MR, sizeof(*m));
	/* A key is valid on one device only, and is never 0. */
	m->mr = (struct ibv_mr){ .context = pd->context, .pd = pd, .addr = base, .length = len,
				 .lkey = 0x100u + 2 * ++fabric.keys };
	m->mr.rkey = m->mr.lkey + 1;
	m->pd = p;
	m->iova = iova;
	m->access = access;
	p->o.users++;
	*mr = &m->mr;
	return 0;
}

/* A live queue pair of the same domain could still access the region. */
static void mr_free(struct ibv_mr *mr)
{
	LOCK_GUARD(held, &fake_lock);
	struct fake_mr *m;

	if (!mr)
		return;
	m = FAKE_OF(mr, struct fake_mr, mr);
	for (struct fake_obj *o = fabric.objs; o; o = o->next)
		FAKE_MUST(o->kind != OBJ_QP || !o->live || ((struct fake_qp *)o)->pd != m->pd,
			  "memory is given up that a queue pair can reach");
	fake_obj_free(&m->o);
	m->pd->o.users--;
}

/* ---- begin and end ---- */

void fake_begin(void)
{
	forget_objects(); /* left by a failed test */
	memset(&fabric, 0, sizeof(fabric));
	for (unsigned n = 1; n <= FAKE_DEVICES; n++)
		make_device(fake_device(n), n);
	fake = (struct fake_settings){ .route = 2, .inline_max = 64 };
	fake_conn_forget();
	fake_work_forget();
}

void fake_end(void)
{
	unsigned starved = fake_starved();

	check_objects();
	forget_objects();
	for (unsigned n = 1; n <= FAKE_DEVICES; n++)
		close(fake_device(n)->ctx.async_fd);
	FAKE_MUST(!starved || fake.may_starve, "%u messages met no receive", starved);
}

const struct verbs fake_verbs = {
	.channel_new = fake_channel_new,
	.channel_free = fake_channel_free,
	.event_next = fake_event_next,
	.event_done = fake_event_done,
	.id_new = fake_id_new,
	.id_free = fake_id_free,
	.bind = fake_bind,
	.listen = fake_listen,
	.port = fake_port,
	.resolve_addr = fake_resolve_addr,
	.resolve_route = fake_resolve_route,
	.set_tos = fake_set_tos,
	.set_ack_timeout = fake_set_ack_timeout,
	.connect = fake_connect,
	.accept = fake_accept,
	.reject = fake_reject,
	.disconnect = fake_disconnect,
	.query_device = query_device,
	.query_port = query_port,
	.pd_new = pd_new,
	.pd_free = pd_free,
	.mr_new = mr_new,
	.mr_free = mr_free,
	.cq_new = fake_cq_new,
	.cq_free = fake_cq_free,
	.cq_arm = fake_cq_arm,
	.cq_woken = fake_cq_woken,
	.poll = fake_poll,
	.qp_new = fake_qp_new,
	.qp_free = fake_qp_free,
	.qp_error = fake_qp_error,
	.qp_way = fake_qp_way,
	.qp_rnr_timer = fake_qp_rnr_timer,
	.post_send = fake_post_send,
	.post_recv = fake_post_recv,
	.async_event = async_event,
	.async_fd = async_fd,
	.device_gone = device_gone,
};
