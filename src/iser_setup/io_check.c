// SPDX-License-Identifier: Apache-2.0
/* The target that is made for the test, and the pattern. */
#include "iser_setup/io_check.h"

#include "iser_setup/io_session.h"
#include "iser_setup/lock.h"
#include "iser_setup/system.h"
#include "iser_setup/worker.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#define STORE "rftp-verify-io"
#define TARGET_SUFFIX ".rftp-verify-io"
#define LOCK_FILE "/run/rftp-iser-verify-io.lock"
#define BLOCK (1u << 20) /* of one read or write; one is on its way at a time */

struct test {
	const struct iser_portal *portal;
	const struct stop *stop;
	int node;
	struct worker *worker;
	char iqn[ISCSI_NAME_ROOM], initiator[ISCSI_NAME_ROOM];
	char serial[40];
	uint64_t seed;             /* of the pattern */
	bool store_made, target_made;
};

/* ---- names ---- */

static int make_names(struct test *x, const struct iser_target *t, struct err *e)
{
	uint64_t r[3];
	int n;

	if (getrandom(r, sizeof(r), 0) != (ssize_t)sizeof(r))
		return err_sys(e, -errno, "random numbers");
	x->seed = r[2];
	snprintf(x->serial, sizeof(x->serial), "%08x-%04x-4%03x-a%03x-%012llx", (unsigned)r[0],
		 (unsigned)(r[0] >> 32 & 0xffff), (unsigned)(r[0] >> 48 & 0xfff),
		 (unsigned)(r[1] & 0xfff), (unsigned long long)(r[1] >> 16));
	snprintf(x->iqn, sizeof(x->iqn), "%s" TARGET_SUFFIX, t->iqn);
	/* Who does not know it cannot log in. */
	n = snprintf(x->initiator, sizeof(x->initiator), "%s.rftp-io-%016llx", t->iqn,
		     (unsigned long long)r[1]);
	if (n < 0 || (size_t)n >= sizeof(x->initiator))
		return err_set(e, -ENAMETOOLONG, "%s is too long for a target beside it", t->iqn);
	return 0;
}

/* ---- the target ---- */

static int told(struct test *x, json_t *request, struct err *e)
{
	if (stop_asked(x->stop)) {
		json_decref(request);
		return err_set(e, -EINTR, "stopped by a signal");
	}
	return worker_do(x->worker, request, e);
}

static int delete_store(struct test *x, struct err *e)
{
	return worker_do(x->worker, json_pack("{s:s, s:s, s:s}", "do", "delete-store", "plugin",
					      "rd_mcp", "name", STORE), e);
}

static int delete_target(struct test *x, struct err *e)
{
	return worker_do(x->worker, json_pack("{s:s, s:s}", "do", "delete-target", "iqn", x->iqn),
			 e);
}

static int set_attribute(struct test *x, const char *name, int value, struct err *e)
{
	return told(x, json_pack("{s:s, s:s, s:s, s:i}", "do", "set-target-attribute", "iqn",
				 x->iqn,
				 "attribute", name, "value", value), e);
}

/* Nobody but the test's initiator may log in, whose name nobody else knows. */
static int make_target(struct test *x, struct err *e)
{
	int r = told(x, json_pack("{s:s, s:s, s:s, s:s, s:i, s:b, s:s}", "do", "create-store",
				  "plugin", "rd_mcp", "name", STORE, "path", "", "size",
				  (int)IO_CHECK_SIZE, "write-back", 0, "serial", x->serial), e);

	x->store_made = !r;
	if (!r)
		r = told(x, json_pack("{s:s, s:s}", "do", "create-target", "iqn", x->iqn), e);
	if (r)
		return r;
	x->target_made = true;
	if (set_attribute(x, "authentication", 0, e) ||
	    set_attribute(x, "generate_node_acls", 0, e) ||
	    told(x, json_pack("{s:s, s:s, s:i, s:s, s:s}", "do", "create-lun", "iqn", x->iqn, "lun",
			      0, "plugin", "rd_mcp", "store", STORE), e) ||
	    told(x, json_pack("{s:s, s:s, s:s}", "do", "create-acl", "iqn", x->iqn, "initiator",
			      x->initiator), e) ||
	    told(x, json_pack("{s:s, s:s, s:s, s:i, s:b}", "do", "create-portal", "iqn", x->iqn,
			      "address", x->portal->address, "port", (int)x->portal->port, "iser",
			      1), e) ||
	    told(x, json_pack("{s:s, s:s, s:b}", "do", "enable-target", "iqn", x->iqn, "enabled",
			      1), e))
		return e->code;
	return 0;
}

static void unmake_target(struct test *x)
{
	struct err e = ERR_INIT;

	if (x->target_made && delete_target(x, &e))
		log_warn("the target %s, made for the test, is left: %s", x->iqn, e.text);
	else if (x->store_made && delete_store(x, &e))
		log_warn("the back store " STORE ", made for the test, is left: %s", e.text);
	x->target_made = x->store_made = false;
}

/* Of a test that was killed; by its names it is nobody else's. */
static int clear_leftovers(struct test *x, struct err *e)
{
	CLEANUP_LIO struct lio *l = lio_read(NULL, e);

	if (!l)
		return e->code;
	if (!l->iscsi)
		return err_set(e, -ENOENT, "LIO's iSCSI is not loaded: " "apply the plan again");
	for (size_t i = 0; i < l->n_targets; i++) {
		const size_t n = strlen(l->targets[i].iqn), suffix = strlen(TARGET_SUFFIX);
		struct test old = { .worker = x->worker };

		if (n < suffix || n >= sizeof(old.iqn) ||
		    strcmp(l->targets[i].iqn + n - suffix, TARGET_SUFFIX))
			continue;
		memcpy(old.iqn, l->targets[i].iqn, n + 1);
		io_session_forget(old.iqn);
		if (delete_target(&old, e))
			return e->code;
	}
	return lio_store(l, "rd_mcp", STORE) ? delete_store(x, e) : 0;
}

/* ---- the pattern ---- */

static void fill(uint64_t *block, uint64_t seed, uint64_t at)
{
	uint64_t state = seed ^ at;

	for (size_t i = 0; i < BLOCK / sizeof(*block); i++)
		block[i] = random_next(&state);
}

struct pattern {
	int fd;
	uint64_t seed;
	uint64_t *buffer, *wanted;
	const struct stop *stop;
};

/* All of it, one way; only the reads and writes are timed. *seconds is their time. */
static int run_one_way(const struct pattern *p, bool write, double *seconds, struct err *e)
{
	uint64_t ns = 0;

	for (uint64_t at = 0; at < IO_CHECK_SIZE; at += BLOCK) {
		uint64_t from;
		ssize_t n;

		if (stop_asked(p->stop))
			return err_set(e, -EINTR, "stopped by a signal");
		fill(write ? p->buffer : p->wanted, p->seed, at);
		from = now_ns();
		n = write ? pwrite_full(p->fd, p->buffer, BLOCK, (off_t)at) :
		    pread_full(p->fd, p->buffer, BLOCK, (off_t)at);
		ns += now_ns() - from;
		if (n < 0 || (!write && n != BLOCK))
			return err_sys(e, n < 0 ? (int)n : -EIO, "%s the test's disk at byte %llu",
				       write ? "writing to" : "reading from",
				       (unsigned long long)at);
		if (!write && memcmp(p->buffer, p->wanted, BLOCK))
			return err_set(e, -EBADMSG, "what was read is not what was written, in the "
				       "MiB from byte %llu", (unsigned long long)at);
	}
	*seconds = (double)ns / 1e9;
	return 0;
}

/* Past the page cache, whose copies would agree with themselves. */
static int open_disk(const char *device, struct err *e)
{
	CLEANUP_CLOSE int fd = open(device, O_RDWR | O_DIRECT | O_EXCL | O_CLOEXEC);
	uint64_t size = 0;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size))
		return err_sys(e, -errno, "%s", device);
	if (size != IO_CHECK_SIZE)
		return err_set(e, -ENXIO, "%s has %llu bytes, and not those of the disk that was "
			       "made for the test: it is left alone", device,
			       (unsigned long long)size);
	return steal_fd(&fd);
}

static int run_pattern(const struct test *x, const char *device, struct io_checked *out,
		       struct err *e)
{
	CLEANUP_CLOSE int fd = open_disk(device, e);
	struct pattern p = { .fd = fd, .seed = x->seed, .stop = x->stop };
	double seconds = 0;
	void *both;
	int r;

	if (fd < 0)
		return fd;
	both = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (both == MAP_FAILED)
		return err_sys(e, -errno, "memory for the test");
	if (x->node != NODE_UNKNOWN)
		(void)place_memory(both, 2 * BLOCK, x->node, false);
	p.buffer = both;
	p.wanted = p.buffer + BLOCK / sizeof(*p.buffer);
	r = run_one_way(&p, true, &seconds, e);
	out->write = seconds > 0 ? IO_CHECK_SIZE / seconds : 0;
	if (!r)
		r = run_one_way(&p, false, &seconds, e);
	out->read = seconds > 0 ? IO_CHECK_SIZE / seconds : 0;
	munmap(both, 2 * BLOCK);
	return r;
}

/* With this thread on the node, and then where it was. */
static int run_on_node(const struct topo *t, const struct test *x, const char *device,
		       struct io_checked *out, struct err *e)
{
	struct ids before, cpus;
	bool known = x->node != NODE_UNKNOWN && !place_cpus(&before);
	int r;

	if (known) {
		cpus = topo_cpus(t, x->node, &before);
		place_self(&cpus);
	}
	r = run_pattern(x, device, out, e);
	if (known)
		place_thread(&before);
	return r;
}

/* ---- all ---- */

/* Two at a time would take each other's for left over. */
static int take_lock(struct err *e)
{
	int fd = iser_lock(&(struct lock_ask){
		.path = LOCK_FILE, .busy = "another verify --io is running",
	}, e);

	if (fd == -EACCES)
		err_prefix(e, "verify --io is root's");
	return fd;
}

int io_check(const struct topo *t, const struct iser_target *target,
	     const struct iser_portal *portal, const struct stop *stop, struct io_checked *out,
	     struct err *e)
{
	struct test x = { .portal = portal, .stop = stop, .node = target->node };
	struct io_session session = { .iqn = x.iqn, .initiator = x.initiator, .serial = x.serial,
				      .portal = portal, .stop = stop };
	CLEANUP_CLOSE int lock = take_lock(e);
	int r;

	*out = (struct io_checked){ .iqn = target->iqn, .portal = portal, .node = target->node };
	if (lock < 0)
		return lock;
	r = make_names(&x, target, e);
	x.worker = r ? NULL : worker_new(target->node, e);
	if (!x.worker)
		return e->code;
	r = clear_leftovers(&x, e);
	if (!r)
		r = make_target(&x, e);
	if (!r)
		r = io_session_begin(&session, e);
	if (!r)
		r = run_on_node(t, &x, session.device, out, e);
	snprintf(out->transport, sizeof(out->transport), "%s", session.transport);
	io_session_end(&session);
	unmake_target(&x);
	worker_free(x.worker);
	return r;
}
