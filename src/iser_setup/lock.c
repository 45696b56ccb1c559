// SPDX-License-Identifier: Apache-2.0
/* Locked by flock, which a kill undoes; in the file is the process that had it first. */
#include "iser_setup/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#define STEP_MS 50
#define TELL_S 5 /* a small change is over by then */
#define NS_PER_S 1000000000ull
#define PID_TEXT 24

/* The process that had the lock first; 0: it is not known. */
static pid_t holder(int fd)
{
	char pid[PID_TEXT] = "";
	ssize_t n = pread_full(fd, pid, sizeof(pid) - 1, 0);
	uint64_t id;

	pid[n > 0 ? n : 0] = '\0';
	pid[strspn(pid, "0123456789")] = '\0';
	return parse_uint(pid, 1, INT32_MAX, &id) ? 0 : (pid_t)id;
}

/* Was it killed, and what it began, which has the lock, too, is still at it? */
static bool is_left(const struct lock_ask *ask, pid_t holder)
{
	return ask->begun && holder && kill(holder, 0) && errno == ESRCH;
}

static int busy(const struct lock_ask *ask, pid_t holder, struct err *e)
{
	char who[48] = "unknown";

	if (is_left(ask, holder))
		return err_set(e, -EBUSY, "%s: what an rftp-iser began that is gone (process %ld) "
			       "still goes on, in %s; try again when that has ended, or see dmesg "
			       "for what the kernel waits for", printable(ask->path), (long)holder,
			       ask->begun);
	if (holder)
		snprintf(who, sizeof(who), "%ld", (long)holder);
	return err_set(e, -EBUSY, "%s (process %s, which has %s locked); try again when it has "
		       "ended", ask->busy, who, printable(ask->path));
}

/* Once who has the lock has surely written who it is: what is waited for is told. The result: when
 * the wait ends, which is later when that may be done by then. */
static uint64_t tell(const struct lock_ask *ask, pid_t holder, uint64_t begun, uint64_t end)
{
	const bool gone = is_left(ask, holder);
	const uint64_t left = begun + ask->left * NS_PER_S;

	if (gone && left > end)
		end = left;
	if (ms_to(end) && gone)
		log_info("waiting for what an rftp-iser began that is gone");
	else if (ms_to(end))
		log_info("waiting: %s", ask->busy);
	return end;
}

/* fd is locked, or -EBUSY. */
static int wait_for(const struct lock_ask *ask, int fd, struct err *e)
{
	const uint64_t begun = now_ns(), told_at = begun + TELL_S * NS_PER_S;
	uint64_t end = begun + ask->wait.seconds * NS_PER_S;
	bool told = !ask->wait.seconds;

	while (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno != EWOULDBLOCK && errno != EINTR)
			return err_sys(e, -errno, "the lock %s", printable(ask->path));
		if (!told && (!ms_to(told_at) || !ms_to(end))) {
			end = tell(ask, holder(fd), begun, end);
			told = true;
		}
		if (!ms_to(end))
			return busy(ask, holder(fd), e);
		if (ask->wait.stop && stop_asked(ask->wait.stop))
			return err_set(e, -EINTR, "stopped by a signal");
		poll_fd(-1, 0, STEP_MS);
	}
	return 0;
}

int iser_lock(const struct lock_ask *ask, struct err *e)
{
	CLEANUP_CLOSE int fd = open(ask->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	char pid[PID_TEXT];
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "%s", printable(ask->path));
	r = wait_for(ask, fd, e);
	if (r)
		return r;
	snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	/* Only told to whom it keeps out. */
	if (ftruncate(fd, 0) || pwrite_full(fd, pid, strlen(pid), 0))
		log_debug("%s cannot be written to", printable(ask->path));
	return steal_fd(&fd);
}
