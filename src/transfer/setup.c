// SPDX-License-Identifier: Apache-2.0
/* From the agreement to the first block: files, keys, NUMA nodes, endpoints, pools, channels. */
#include "transfer/setup.h"

#include "crypto/crypto.h"
#include "transfer/sink/sink.h"
#include "transfer/source/source.h"

#include <fcntl.h>
#include <sys/eventfd.h>

#define SETUP_MS 60000
/* rftp-protocol(7), Lost channels. */
#define STANDBY_BLOCKS 16u
/* The limits of a transfer in-band: the bytes of all its files, and their number. */
#define SMALL_BYTES (256u << 10)
#define SMALL_FILES 16u

struct xfer *setup_new(struct transfer_config *c, bool client, struct offer *own, struct err *e)
{
	bool upwards = c->request.op == BULK_PUT || c->request.op == BULK_BENCH_PUT;
	bool source = upwards == client;
	struct source *from = source ? calloc(1, sizeof(*from)) : NULL;
	struct sink *to = source ? NULL : calloc(1, sizeof(*to));
	struct xfer *x = from ? &from->x : to ? &to->x : NULL;
	bool aborted;
	int r;

	if (!x) {
		err_nomem(e);
		return NULL;
	}
	if (from)
		source_init(from);
	else
		sink_init(to);

	x->c = c;
	x->client = client;
	x->own = own;
	x->dir = upwards ? CLIENT_TO_SERVER : SERVER_TO_CLIENT;
	r = stop_watch_start(&x->watch, c->stop, c->ms, e);
	if (!r)
		return x;
	setup_end(x, r, &aborted, e);
	return NULL;
}

int setup_end(struct xfer *x, int rc, bool *aborted, struct err *e)
{
	*aborted = stop_watch_end(&x->watch);
	if (*aborted && rc)
		rc = err_set(e, -EINTR, "interrupted");
	crypto_wipe(x->c->request.key, sizeof(x->c->request.key));
	if (x->source)
		source_destroy((struct source *)x);
	else
		sink_destroy((struct sink *)x);
	free(x);
	return rc;
}

/* ---- files ---- */

char *setup_below(const char *cwd, const char *path)
{
	char *full;

	if (!cwd || !cwd[0] || path[0] == '/')
		return strdup(path[0] ? path : ".");
	return asprintf(&full, "%s%s%s", cwd, cwd[strlen(cwd) - 1] == '/' ? "" : "/", path) < 0 ?
	       NULL : full;
}

/* Look only at the first item: items are seldom on several filesystems. A destination that does not
 * exist yet will be created in its parent. */
void setup_storage(struct xfer *x)
{
	char *full CLEANUP_FREE = NULL;
	char name[256];

	if (!x->c->nitems || x->c->items[0].kind != ITEM_PATH)
		return;
	full = setup_below(x->c->cwd, x->c->items[0].path ? x->c->items[0].path : "");
	if (!full)
		return;
	x->storage = root_open(x->c->root, full, O_PATH, 0);
	if (x->storage < 0 && !x->source)
		x->storage = root_open_parent(x->c->root, full, name);
}

bool setup_is_small(const struct xfer *x)
{
	uint64_t bytes = 0;

	if (x->c->nitems > SMALL_FILES)
		return false;
	for (uint32_t i = 0; i < x->c->nitems; i++) {
		char *full CLEANUP_FREE = NULL;
		struct stat st;

		if (x->c->items[i].kind == ITEM_PATH)
			full = setup_below(x->c->cwd, x->c->items[i].path);
		if (!full || root_stat(x->c->root, full, true, &st) || !S_ISREG(st.st_mode) ||
		    (uint64_t)st.st_size > SMALL_BYTES)
			return false;
		bytes += (uint64_t)st.st_size;
	}
	return bytes <= SMALL_BYTES;
}

/* ---- keys and NUMA nodes ---- */

int setup_agreed(struct xfer *x, const struct bulk_agree *ag, struct err *e)
{
	const struct bulk_request *q = &x->c->request;
	const struct offer *theirs = x->client ? &ag->offer : &q->offer;
	int r = xkeys_init(&x->keys, x->c->master ? x->c->master : q->key, q->nonce, ag->nonce,
			   ag->session);

	x->agr = ag->agreement;
	x->inband_ok = x->own->transports & theirs->transports & TRANSPORT_INBAND;
	x->same_host = offers_same_host(x->own, theirs);
	/* With --ack received a file counts as done before it is committed. */
	x->committed = x->agr.ack == ACK_RECEIVED ? NULL : x->c->committed;
	return r ? err_sys(e, r, "deriving keys") : 0;
}

int setup_placement(struct xfer *x, struct err *e)
{
	struct placement_config c = {
		.wish = &x->c->tuning.place, .pages = x->c->tuning.pages, .own = x->own,
		.agr = &x->agr, .client = x->client, .source = x->source, .storage = x->storage,
	};

	placement_free(x->placement);
	x->placement = placement_new(&c, e);
	return x->placement ? 0 : e->code;
}

/* ---- endpoints, pools, channels ---- */

/* The local address of path i's connections. For TCP on the card of the control connection it stays
 * unset, because NAT may require another address than the card's. */
static void source_address(const struct xfer *x, uint32_t i, struct sockaddr_storage *ss)
{
	uint8_t nic = x->agr.client_nic[i];

	memset(ss, 0, sizeof(*ss));
	if (!x->client || nic == NIC_NONE)
		return;
	if (x->agr.transport == TRANSPORT_RDMA || !x->own->nics[nic].control)
		address_parse(x->own->nics[nic].addr, ss);
}

int setup_endpoints(struct xfer *x, struct err *e)
{
	const struct device_transport *rdma = x->c->tuning.rdma;
	endpoint_maker *make = x->agr.transport != TRANSPORT_RDMA ? tcp_endpoint :
			       rdma ? rdma->endpoint : NULL;

	if (!make)
		return err_set(e, -EPROTONOSUPPORT, NO_RDMA);
	for (uint32_t i = 0; i < x->agr.paths; i++) {
		struct endpoint_config c = {
			.source = x->source,
			.agr = &x->agr,
			.auth = &x->keys.auth,
			.first = (uint16_t)(i * x->agr.channels),
			.rtt_ns = x->c->request.offer.rtt_ns,
			.tos = x->c->tuning.tos,
			.poll = x->c->tuning.poll,
			.node = placement_node(x->placement, i),
		};

		x->path_failed = i;
		source_address(x, i, &c.from);
		x->ends[i] = make(&c, e);
		if (!x->ends[i])
			return e->code;
		x->npaths = x->nroutes = i + 1;
	}
	return 0;
}

static struct pool_config own_blocks(const struct xfer *x)
{
	return (struct pool_config){
		.blocks = x->source ? x->agr.source_blocks : x->agr.sink_blocks,
		.payload = x->agr.block,
	};
}

int setup_pools(struct xfer *x, struct err *e)
{
	struct pool_config c = own_blocks(x);

	for (uint32_t i = 0; i < x->npaths; i++) {
		x->path_failed = i;
		c.hooks = x->ends[i]->ops->hooks(x->ends[i]);
		x->pools[i] = placement_pool(x->placement, i, &c, e);
		if (!x->pools[i])
			return e->code;
		placement_say(x->placement, i, x->pools[i]);
	}
	return 0;
}

static int open_path(struct xfer *x, uint32_t i, int timeout_ms, struct err *e)
{
	struct path_config c = { .source = x->source, .payload = x->agr.block,
				 .inflight = x->agr.inflight, .pool = x->pools[i],
				 .first = (uint16_t)(i * x->agr.channels),
				 .client = x->client,
				 .far = x->c->request.offer.rtt_ns >= FAR_RTT_NS,
				 .rate = x->source ? x->c->request.rate : 0,
				 .congestion = x->c->tuning.congestion,
				 .stall_ms = x->c->tuning.stall_ms };
	struct message_keys keys;
	struct place_policy policy;

	/* Messages are sealed if blocks are. */
	if (x->agr.prot != PROT_CLEAR) {
		int r = xkeys_messages(&x->keys, x->dir, &keys);

		if (r)
			return err_sys(e, r, "keys of data channels");
		c.keys = &keys;
	}
	/* Allocate queues, and the kernel's and the device library's memory for them, on the path's
	 * node, too. */
	place_prefer(placement_node(x->placement, i), &policy);
	x->paths[i] = x->ends[i]->ops->open(x->ends[i], &c, x->watch.fd, timeout_ms, e);
	place_back(&policy);
	crypto_wipe(&keys, sizeof(keys));
	return x->paths[i] ? 0 : e->code;
}

int setup_channels(struct xfer *x, int timeout_ms, struct err *e)
{
	uint64_t deadline = now_ns() + (uint64_t)timeout_ms * 1000000;
	int r = 0;

	for (uint32_t i = 0; !r && i < x->npaths; i++) {
		x->path_failed = i;
		r = open_path(x, i, ms_to(deadline), e);
	}
	return r;
}

/* ---- the rest of the paths ---- */

/* Add an in-band path with n blocks in flight, and its pool (NULL: it has none). */
static int add_inband(struct xfer *x, uint32_t i, uint32_t n, struct pool *pool, struct err *e)
{
	struct path_config c = { .source = x->source, .payload = x->agr.block, .inflight = n,
				 .pool = pool };

	x->nroutes = i + 1;
	x->pools[i] = pool;
	x->paths[i] = x->inband = inband_path_new(&c, x->c->ms, e);
	return x->paths[i] ? 0 : e->code;
}

/* Add an in-band path after the others. On the sink it has a few blocks of its own, because all
 * blocks of the data channels may be waiting for one that has not arrived yet. They use no memory
 * until they are filled. */
static int add_standby(struct xfer *x, struct err *e)
{
	uint32_t n = x->agr.inflight < STANDBY_BLOCKS ? x->agr.inflight : STANDBY_BLOCKS;
	struct pool_config pc = { .blocks = n, .payload = x->agr.block };
	struct pool *pool = x->source ? NULL : pool_new(&pc, e);

	return pool || x->source ? add_inband(x, x->npaths, n, pool, e) : e->code;
}

static int add_paths(struct xfer *x, struct err *e)
{
	struct pool_config pc = own_blocks(x);
	struct pool *pool;
	int r = 0;

	if (x->agr.transport == TRANSPORT_INBAND) {
		x->npaths = 1;
		pool = placement_pool(x->placement, 0, &pc, e);
		return pool ? add_inband(x, 0, x->agr.inflight, pool, e) : e->code;
	}
	for (uint32_t i = 0; !r && staging_needed(&x->agr, x->source) && i < x->npaths; i++) {
		struct pool_config c = { .blocks = pool_blocks(x->pools[i]),
					 .payload = pool_payload(x->pools[i]) };
		/* The staging pool is on the node of the path that carries the blocks. */
		struct pool *inner = placement_pool(x->placement, i, &c, e);

		x->staging[i] = inner ? staging_new(x->pools[i], inner, e) : NULL;
		r = x->staging[i] ? 0 : e->code;
	}
	return r || !x->inband_ok ? r : add_standby(x, e);
}

int setup_run(struct xfer *x, struct transfer_result *r, bool *in_line, struct err *e)
{
	int rc;

	if (!x->npaths) {
		x->agr.transport = TRANSPORT_INBAND;
		x->agr.paths = x->agr.channels = x->agr.channels_first = 1;
	}

	if (bulk_is_bench(x->c->request.op))
		x->started_ns = now_ns();
	x->cpu_start_ns = cpu_ns();
	atomic_store(&x->heard_ns, now_ns());
	stop_watch_begun(&x->watch);
	if (x->c->events.started)
		x->c->events.started(x->c->events.arg, &x->agr);

	rc = add_paths(x, e);
	if (!rc)
		rc = x->role->prepare(x, e);
	if (!rc)
		rc = xfer_start(x, e);
	if (rc) { /* no frame of the transfer was sent */
		*in_line = setup_abort(x->c->ms, rc, e->text);
		return rc;
	}

	rc = x->role->start(x, e);
	if (rc)
		xfer_fail(x, rc, "%s", e->text);
	else
		shares_run(&x->shares, true);
	x->role->complete(x);
	rc = xfer_finish(x, in_line, e);
	xfer_result(x, r);
	return rc;
}

/* ---- first and last frames ---- */

bool setup_abort(struct mstream *ms, int code, const char *text)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct bulk_failure f = { .code = code };
	uint64_t until;
	uint8_t type = 0;

	snprintf(f.text, sizeof(f.text), "%s", text);
	if (!b || (code && (bulk_failure_put(b, &f) ||
			    ms_write_frame(ms, BULK_ABORT, buf_ptr(b), buf_len(b)))))
		return false;
	if (ms_write_frame(ms, BULK_END, NULL, 0))
		return false;

	/* Read and discard frames until the peer's END. */
	until = ns_after(ABORT_GRACE_MS);
	while (type != BULK_END && now_ns() < until)
		if (ms_read_frame(ms, &type, b, BULK_FRAME_MAX, ABORT_GRACE_MS))
			return false;
	return type == BULK_END;
}

int setup_expect(struct mstream *ms, uint8_t type, struct buf *p, bool *aborted,
		 struct err *e)
{
	struct bulk_failure f;
	uint8_t got;
	int r = ms_read_frame(ms, &got, p, BULK_FRAME_MAX, SETUP_MS);

	*aborted = false;
	if (r)
		return err_sys(e, r, "waiting for the other side to begin");

	if (got == type)
		return 0;
	if (got != BULK_ABORT)
		return err_set(e, -EPROTO, "the other side began with a message of type %u", got);

	r = bulk_failure_get(p, &f);
	if (r)
		return err_sys(e, r, "malformed message");
	*aborted = true;
	return err_set(e, f.code ? f.code : -EIO, "%s", f.text);
}

/* ---- the user's stop ---- */

static void abort_stream(void *arg)
{
	struct stop_watch *w = arg;

	if (atomic_load(&w->begun) && sentry_is_over(&w->sentry, LEAVE_MS))
		return;
	w->aborted = true;
	ms_abort(w->ms);
	if (eventfd_write(w->fd, 1) < 0)
		log_debug("eventfd: %s", strerror(errno));
}

int stop_watch_start(struct stop_watch *w, int stop, struct mstream *ms, struct err *e)
{
	*w = (struct stop_watch){ .ms = ms, .sentry.over = -1 };
	w->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (w->fd < 0)
		return err_sys(e, -errno, "eventfd");
	return sentry_start(&w->sentry, "stop_watch", stop, abort_stream, w, e);
}

void stop_watch_begun(struct stop_watch *w)
{
	atomic_store(&w->begun, true);
}

bool stop_watch_end(struct stop_watch *w)
{
	sentry_end(&w->sentry);
	cleanup_close(&w->fd);
	return w->aborted;
}

/* ---- offers, and limits of this machine ---- */

#define MEMORY_MAX (4ull << 30)
#define LOCK_KIB_LEAST 1024u
#define LOCK_KIB 1048576u     /* enough for a fast and long path */
#define THREADS_LEAST 2u      /* one works while another waits */
#define THREADS_ROTATING 4u   /* at most: more only make a disk's heads seek */
#define THREADS_SLOW 8u       /* at most, on paths that are not fast */
#define THREAD_MBPS 25000u    /* the expected speed of one thread that reads, seals or writes */

void transfer_tuning_default(struct transfer_tuning *t)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t limit = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");

	ram = limit < ram ? limit : ram;
	*t = (struct transfer_tuning){ .io = IO_AUTO, .direct = DIRECT_AUTO,
					.pages = PAGES_AUTO, .tos = -1, .umask = 022 };
	t->memory = ram / 4 < MEMORY_MAX ? ram / 4 : MEMORY_MAX;
}

static unsigned at_once(const struct transfer_tuning *t)
{
	return t->at_once ? t->at_once : 1;
}

/* ---- offers ---- */

void offer_locked(struct offer *o, const struct transfer_tuning *t)
{
	o->locked = raise_lock_limit();
	if (o->locked != UINT64_MAX)
		o->locked /= at_once(t);
}

void offer_fill(struct offer *o, const struct transfer_tuning *t)
{
	struct transfer_tuning d;

	transfer_tuning_default(&d);
	if (!o->transports)
		o->transports = TRANSPORT_TCP | TRANSPORT_INBAND | (t->rdma ? TRANSPORT_RDMA : 0);
	if (!o->ops)
		o->ops = OP_WRITE | OP_READ;

	o->cpus = (uint16_t)cpus_allowed();
	if (!o->memory)
		o->memory = (t->memory ? t->memory : d.memory) / at_once(t);

	offer_locked(o, t);
	if (!o->block_max)
		o->block_max = BLOCK_MAX;
	if (!o->channels_max)
		o->channels_max = 64;
	o->channels_more = CHANNELS_MORE;
}

json_t *transfer_limits(const struct transfer_tuning *t)
{
	struct offer o = { 0 };

	offer_fill(&o, t);
	return json_pack("{s:s, s:I, s:I}", "fact", "limits", "memory", (json_int_t)o.memory, "locked",
			 (json_int_t)min_u64(o.locked, INT64_MAX));
}

int offer_nics(struct offer *o, const struct transfer_tuning *t,
	       const struct sockaddr_storage *local, bool lenient, struct err *why,
	       struct err *e)
{
	struct nic_wish w = { .names = t->nics, .local = *local,
			      .device = t->rdma ? t->rdma->device : NULL,
			      .nodes = t->place.nics, .rules = t->nic_rules,
			      .lenient = lenient };
	bool able = false, lockable = o->locked >> 10 >= LOCK_KIB_LEAST;
	char text[LOCK_ADVICE];
	int r = nics_find(o->nics, &o->nnics, &w, why, e);

	for (uint32_t i = 0; i < o->nnics; i++)
		able |= o->nics[i].rdma;

	/* The limit must be enough for the smallest transfer and for the devices' queues. */
	if (!(o->transports & TRANSPORT_RDMA) || (able && lockable))
		return r;
	o->transports &= (uint8_t)~TRANSPORT_RDMA;
	if (able)
		err_set(why, -EPROTONOSUPPORT, "too little memory may be locked, the %s is %llu "
			"KiB: %s", t->at_once > 1 ? "transfer's share of the limit" : "limit",
			(unsigned long long)o->locked >> 10, lock_advice(text, LOCK_KIB));
	else if (!why->code)
		err_set(why, -ENODEV, "%s has an address here", t->nics && *t->nics ?
			"no RDMA device among those of --nic" : "no RDMA device");
	return r;
}

void transfer_say_cards(const struct transfer_tuning *t)
{
	struct sockaddr_storage unknown = { .ss_family = AF_UNSPEC };
	struct err why = ERR_INIT, e = ERR_INIT;
	struct offer o = { 0 };
	char text[NIC_TEXT];

	offer_fill(&o, t);
	if (offer_nics(&o, t, &unknown, true, &why, &e))
		log_warn("network cards: %s", e.text);
	for (uint32_t i = 0; i < o.nnics; i++)
		log_info("data goes by %s%s", nic_text(&o.nics[i], text),
			 o.nics[i].rdma && o.transports & TRANSPORT_RDMA ? ", RDMA" : "");
	if (why.code)
		log_at(why.code == -EPROTONOSUPPORT ? LOG_LV_WARN : LOG_LV_INFO, "no RDMA: %s",
		       why.text);
}

void offer_host(uint8_t host[HOST_ID_BYTES], const uint8_t client_nonce[NONCE_BYTES])
{
	static const char label[] = "rftp host";
	uint8_t boot[64];
	int fd CLEANUP_CLOSE = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? fd : pread_full(fd, boot, sizeof(boot), 0);

	if (n <= 0 || crypto_hkdf(host, HOST_ID_BYTES, boot, (size_t)n, client_nonce, NONCE_BYTES,
				  label, sizeof(label) - 1))
		memset(host, 0, HOST_ID_BYTES);
}

bool offers_same_host(const struct offer *a, const struct offer *b)
{
	static const uint8_t none[HOST_ID_BYTES];

	return !memcmp(a->host, b->host, sizeof(none)) && memcmp(a->host, none, sizeof(none));
}

/* ---- numbers of threads and descriptors ---- */

bool tuning_has_streams(const struct transfer_tuning *t)
{
	return t->congestion || t->tos >= 0;
}

enum io_kind tuning_io(const struct transfer_tuning *t, int fd, bool direct)
{
	const char *reason = "";
	enum io_kind k;

	if (t->io != IO_AUTO)
		return t->io;
	k = io_pick(fd < 0 ? STORAGE_UNKNOWN : storage_class_of(fd), direct, &reason);
	log_debug("I/O engine: %s", reason);
	return k;
}

unsigned tuning_threads(const struct agreement *a, unsigned cpus)
{
	uint64_t most = a->mbps / THREAD_MBPS + THREADS_LEAST;

	if (most < THREADS_SLOW)
		most = THREADS_SLOW; /* small files keep threads busy even on a slow path */
	if (a->rotating)
		most = THREADS_ROTATING;
	if (!cpus)
		cpus = cpus_allowed();
	return cpus < THREADS_LEAST ? THREADS_LEAST : cpus > most ? (unsigned)most : cpus;
}

_Static_assert(STORAGE_ROTATING == 3, "negotiate.c knows this number");

unsigned open_files_most(void)
{
	/* A quarter of the descriptors each for directories and parts; channels need some, too. */
	unsigned n = raise_fd_limit() / 4;

	return n < 16 ? 16 : n > 1024 ? 1024 : n;
}
