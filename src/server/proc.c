// SPDX-License-Identifier: Apache-2.0
/* fork(2) as the monitor does it. */
#include "server/proc.h"
#include "server/msg.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { STACK_BYTES = 256 << 10 }; /* more than any call of the monitor's needs */

/* Sockets between a process and the monitor: what they say, and the log. */
struct sockets {
	int said[2], log[2];
};

static void close_sockets(struct sockets *l, int end)
{
	cleanup_close(&l->said[end]);
	cleanup_close(&l->log[end]);
}

static int open_sockets(struct sockets *l, bool with_log)
{
	int rc = msg_pair(l->said);

	if (rc < 0)
		return rc;
	l->log[0] = l->log[1] = -1;
	rc = with_log ? msg_pair(l->log) : 0;
	if (rc < 0) {
		cleanup_close(&l->said[0]);
		cleanup_close(&l->said[1]);
	}
	return rc;
}

void proc_fork(struct proc *p, const struct lines_limits *limits)
{
	struct sockets l;
	int rc = open_sockets(&l, limits);

	*p = (struct proc){ .pid = rc, .fd = -1, .log.fd = -1 };
	if (rc < 0)
		return;
	p->pid = fork();
	if (p->pid < 0)
		p->pid = -errno;
	if (p->pid < 0)
		close_sockets(&l, 0);
	close_sockets(&l, p->pid ? 1 : 0);
	if (p->pid < 0)
		return;
	p->fd = l.said[p->pid ? 0 : 1];
	if (limits)
		lines_init(&p->log, limits, l.log[p->pid ? 0 : 1], now_ns() / 1000000);
}

/* Whole pages are given back, which makes them zeros that take no memory: each session has two
 * processes. */
__attribute__((noinline)) void proc_wipe_stack(void)
{
	char room[STACK_BYTES], *end = room + sizeof(room);
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	size_t before = (size_t)(-(uintptr_t)room & (page - 1));
	size_t behind = (size_t)((uintptr_t)end & (page - 1));

	if (madvise(room + before, sizeof(room) - before - behind, MADV_DONTNEED) < 0)
		explicit_bzero(room, sizeof(room));
	explicit_bzero(room, before);
	explicit_bzero(end - behind, behind);
}
