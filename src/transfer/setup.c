// SPDX-License-Identifier: Apache-2.0
/* From the request to the first block. */
#include "transfer/setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SETUP_MS 60000
#define MEMORY_MAX (4ull << 30)
#define LOCK_KIB_LEAST 1024u
#define LOCK_KIB 1048576u     /* enough for a fast and long path */
#define THREADS_LEAST 2u      /* one reads while another waits */
#define THREADS_ROTATING 4u   /* at most: more only make a disk's heads run */
#define THREADS_SLOW 8u       /* at most, on paths that are not fast */
#define THREAD_MBPS 25000u    /* that a thread can be expected to read, seal or write */
/* rftp-protocol(7), Lost channels. */
#define STANDBY_BLOCKS 16u

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

void setup_locked(struct offer *o, const struct transfer_tuning *t)
{
	o->locked = raise_lock_limit();
	if (o->locked != UINT64_MAX)
		o->locked /= at_once(t);
}

void setup_offer(struct offer *o, const struct transfer_tuning *t)
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
	setup_locked(o, t);
	if (!o->block_max)
		o->block_max = BLOCK_MAX;
	if (!o->channels_max)
		o->channels_max = 64;
	o->channels_more = CHANNELS_MORE;
}

/* Enough for the smallest transfer, and for the devices' own queues. -EPROTONOSUPPORT: there
 * are devices, but they cannot be used. */
static int check_lock_limit(const struct offer *o, bool shared, struct err *why)
{
	char text[LOCK_ADVICE];

	if (o->locked >> 10 >= LOCK_KIB_LEAST)
		return 0;
	return err_set(why, -EPROTONOSUPPORT, "too little memory may be locked, the %s is %llu "
		       "KiB: %s", shared ? "transfer's share of the limit" : "limit",
		       (unsigned long long)o->locked >> 10, lock_advice(text, LOCK_KIB));
}

int setup_nics(struct offer *o, const struct transfer_tuning *t,
	       const struct sockaddr_storage *local, bool lenient, struct err *why,
	       struct err *e)
{
	struct nic_wish w = { .names = t->nics, .local = *local,
			      .device = t->rdma ? t->rdma->device : NULL,
			      .nodes = t->place.nics, .rules = t->nic_rules,
			      .lenient = lenient };
	uint32_t able = 0;
	int r = nics_find(o->nics, &o->nnics, &w, why, e);

	for (uint32_t i = 0; i < o->nnics; i++)
		able += o->nics[i].rdma;
	if (!(o->transports & TRANSPORT_RDMA) ||
	    (able && !check_lock_limit(o, t->at_once > 1, why)))
		return r;
	o->transports &= (uint8_t)~TRANSPORT_RDMA;
	if (!why->code)
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

	setup_offer(&o, t);
	if (setup_nics(&o, t, &unknown, true, &why, &e))
		log_warn("network cards: %s", e.text);
	for (uint32_t i = 0; i < o.nnics; i++)
		log_info("data goes by %s%s", nic_text(&o.nics[i], text),
			 o.nics[i].rdma && o.transports & TRANSPORT_RDMA ? ", RDMA" : "");
	if (why.code)
		log_at(why.code == -EPROTONOSUPPORT ? LOG_LV_WARN : LOG_LV_INFO, "no RDMA: %s",
		       why.text);
}

void setup_host(uint8_t host[HOST_ID_BYTES], const uint8_t client_nonce[NONCE_BYTES])
{
	static const char label[] = "rftp host";
	uint8_t boot[64];
	int fd CLEANUP_CLOSE = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? fd : pread_full(fd, boot, sizeof(boot), 0);

	if (n <= 0 || crypto_hkdf(host, HOST_ID_BYTES, boot, (size_t)n, client_nonce, NONCE_BYTES,
				  label, sizeof(label) - 1))
		memset(host, 0, HOST_ID_BYTES);
}

bool setup_same_host(const struct offer *a, const struct offer *b)
{
	static const uint8_t none[HOST_ID_BYTES];

	return !memcmp(a->host, b->host, sizeof(none)) && memcmp(a->host, none, sizeof(none));
}

/* What was opened is x's from here on. */
static void take_ends(struct xfer *x, struct ends *d)
{
	x->npaths = x->nroutes = d->n;
	memcpy(x->ends, d->ep, sizeof(d->ep));
	memcpy(x->pools, d->pool, sizeof(d->pool));
	memcpy(x->paths, d->path, sizeof(d->path));
	memset(d, 0, sizeof(*d));
}

static int setup_inband_path(struct xfer *x, bool source, struct err *e)
{
	const struct agreement *a = &x->agr;
	struct pool_config pc = {
		.blocks = source ? a->source_blocks : a->sink_blocks,
		.payload = a->block,
	};
	struct path_config c = { .source = source, .payload = a->block,
				 .inflight = a->inflight };

	x->npaths = x->nroutes = 1;
	c.pool = x->pools[0] = placement_pool(x->placement, 0, &pc, e);
	if (c.pool)
		x->paths[0] = x->inband = inband_path_new(&c, x->ms, e);
	return x->paths[0] ? 0 : e->code;
}

/* In-band, beside the others, with a few blocks of its own on the sink, which cost nothing
 * until they are needed: those of the data channels may all be waiting for one that is
 * still to come. */
static int setup_standby(struct xfer *x, bool source, struct err *e)
{
	uint32_t n = x->agr.inflight < STANDBY_BLOCKS ? x->agr.inflight : STANDBY_BLOCKS;
	struct pool_config pc = { .blocks = n, .payload = x->agr.block };
	struct path_config c = { .source = source, .payload = x->agr.block, .inflight = n };
	uint32_t i = x->npaths;

	x->nroutes = i + 1;
	if (!source) {
		c.pool = x->pools[i] = pool_new(&pc, e);
		if (!c.pool)
			return e->code;
	}
	x->paths[i] = x->inband = inband_path_new(&c, x->ms, e);
	return x->paths[i] ? 0 : e->code;
}

/* On the node of the path it stands before. */
static struct shelter *make_shelter(struct xfer *x, uint32_t i, struct err *e)
{
	struct pool_config c = { .blocks = pool_blocks(x->pools[i]),
				 .payload = pool_payload(x->pools[i]) };
	struct pool *inner = placement_pool(x->placement, i, &c, e);

	return inner ? shelter_new(x->pools[i], inner, e) : NULL;
}

int setup_paths(struct xfer *x, bool source, struct ends *d, struct err *e)
{
	if (!d->n)
		return setup_inband_path(x, source, e);
	take_ends(x, d);
	for (uint32_t i = 0; shelter_needed(&x->agr, source) && i < x->npaths; i++) {
		x->shelters[i] = make_shelter(x, i, e);
		if (!x->shelters[i])
			return e->code;
	}
	return x->inband_ok ? setup_standby(x, source, e) : 0;
}

char *setup_below(const char *cwd, const char *path)
{
	char *full;

	if (!cwd || !cwd[0] || path[0] == '/')
		return strdup(path);
	return asprintf(&full, "%s/%s", cwd, path) < 0 ? NULL : full;
}

int setup_source_storage(struct root *root, const char *cwd, const struct transfer_item *items,
			 uint32_t n)
{
	char *full CLEANUP_FREE = NULL;

	if (!n || items[0].kind != ITEM_PATH)
		return -1;
	full = setup_below(cwd, items[0].path);
	return full ? root_open(root, full, O_PATH, 0) : -ENOMEM;
}

#define LITTLE_BYTES (256u << 10)
#define LITTLE_FILES 16u

bool setup_is_little(struct root *root, const char *cwd, const struct transfer_item *items,
		     uint32_t n)
{
	uint64_t bytes = 0;

	if (n > LITTLE_FILES)
		return false;
	for (uint32_t i = 0; i < n; i++) {
		char *full CLEANUP_FREE = NULL;
		struct stat st;

		if (items[i].kind == ITEM_PATH)
			full = setup_below(cwd, items[i].path);
		if (!full || root_stat(root, full, true, &st) || !S_ISREG(st.st_mode) ||
		    (uint64_t)st.st_size > LITTLE_BYTES)
			return false;
		bytes += (uint64_t)st.st_size;
	}
	return bytes <= LITTLE_BYTES;
}

bool setup_tunes_streams(const struct transfer_tuning *t)
{
	return t->congestion || t->tos >= 0;
}

int setup_sink_storage(struct root *root, const char *cwd, const struct transfer_item *item)
{
	char *full CLEANUP_FREE = NULL;
	char name[256];
	int fd;

	if (item->kind != ITEM_PATH)
		return -1;
	full = setup_below(cwd, item->path && item->path[0] ? item->path : ".");
	if (!full)
		return -ENOMEM;
	fd = root_open(root, full, O_PATH, 0);
	return fd < 0 ? root_open_parent(root, full, name) : fd;
}

enum io_kind setup_io(const struct transfer_tuning *t, int fd, bool direct)
{
	const char *said = "";
	enum io_kind k;

	if (t->io != IO_AUTO)
		return t->io;
	k = io_pick(fd < 0 ? STORAGE_UNKNOWN : storage_class_of(fd), direct, &said);
	log_debug("I/O engine: %s", said);
	return k;
}

unsigned setup_threads(const struct agreement *a, unsigned cpus)
{
	uint64_t most = a->mbps / THREAD_MBPS + THREADS_LEAST;

	if (most < THREADS_SLOW)
		most = THREADS_SLOW; /* small files keep them busy, however slow the path is */
	if (a->rotating)
		most = THREADS_ROTATING;
	if (!cpus)
		cpus = cpus_allowed();
	return cpus < THREADS_LEAST ? THREADS_LEAST : cpus > most ? (unsigned)most : cpus;
}

_Static_assert(STORAGE_ROTATING == 3, "as negotiate.c has it");

void setup_inband(struct agreement *a)
{
	a->transport = TRANSPORT_INBAND;
	a->paths = a->channels = a->channels_first = 1;
}

unsigned setup_open_files(const struct transfer_tuning *t)
{
	/* A quarter each for directories and parts; channels need some, too. */
	unsigned n = raise_fd_limit() / 4 / (t->at_once ? t->at_once : 1);

	return n < 16 ? 16 : n > 1024 ? 1024 : n;
}

/* Read on until the peer's END. */
static bool wait_end(struct mstream *ms)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	uint64_t until = now_ns() + ABORT_GRACE_MS * 1000000ull;
	uint8_t type = 0;

	while (p && type != BULK_END && now_ns() < until)
		if (ms_read_frame(ms, &type, p, BULK_FRAME_MAX, ABORT_GRACE_MS))
			return false;
	return type == BULK_END;
}

bool setup_abort(struct mstream *ms, int code, const char *text)
{
	struct bulk_failure f = { .code = code };
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	snprintf(f.text, sizeof(f.text), "%s", text);
	if (code && (!b || bulk_failure_put(b, &f) ||
		     ms_write_frame(ms, BULK_ABORT, buf_ptr(b), buf_len(b))))
		return false;
	if (ms_write_frame(ms, BULK_END, NULL, 0))
		return false;
	return wait_end(ms);
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
