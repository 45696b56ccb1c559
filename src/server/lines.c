// SPDX-License-Identifier: Apache-2.0
/* Lines for the log, a packet each (util/log_relay.c), from processes that nobody believes. */
#include "server/lines.h"
#include "server/forsake.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	WAIT_MS = 10 * 1000,   /* for the monitor to take one */
	AT_ONCE = 64,          /* then others have their turn */
	ROUNDS = 64,           /* of those; more than a socket holds */
	COST = 64,             /* bytes of a line beside its record */
	REST_MS = 25,          /* a socket holds lines enough for who works */
	TELL_MS = 10 * 1000,   /* between two lines of what is left out */
};

/* A user who fetches small files has a line for each of them; who has not logged in has little to
 * tell. */
const struct lines_limits lines_stranger = { 256 << 10, 16 << 10 };
const struct lines_limits lines_known = { 4 << 20, 256 << 10 };

/* ---- how much ---- */

static uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

void lines_init(struct lines *r, const struct lines_limits *l, int fd, uint64_t now_ms)
{
	*r = (struct lines){ .fd = fd, .limits = l, .room = l->burst, .at_ms = now_ms };
}

bool lines_may(struct lines *r, uint64_t now_ms, size_t len)
{
	const struct lines_limits *l = r->limits;
	uint64_t gone = now_ms - r->at_ms, cost = len + COST;

	/* A long time fills it in any case. */
	r->room += gone < 1000 * l->burst / l->rate ? gone * l->rate / 1000 : l->burst;
	if (r->room > l->burst)
		r->room = l->burst;
	r->at_ms = now_ms;
	if (r->room < cost)
		return false;
	r->room -= cost;
	return true;
}

unsigned lines_rest(const struct lines *r, uint64_t now_ms)
{
	return now_ms < r->rests_ms ? (unsigned)(r->rests_ms - now_ms) : 0;
}

static bool may_or_rest(struct lines *r, size_t len)
{
	uint64_t now = now_ms();
	bool may = lines_may(r, now, len);

	if (!may)
		r->rests_ms = now + REST_MS;
	return may;
}

void lines_count(struct lines *r)
{
	may_or_rest(r, 0);
}

bool lines_allow(struct lines *r, size_t len)
{
	bool may = may_or_rest(r, len);

	r->dropped += !may;
	return may;
}

/* ---- in the child ---- */

static int line_fd = -1; /* set while one thread runs */

/* That the monitor takes none is no reason to stop the work for long. */
static void send_line(void *arg, const void *record, size_t len)
{
	bool waited = false;

	(void)arg;
	while (len && send(line_fd, record, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		if (errno != EINTR && (errno != EAGAIN || waited))
			return;
		waited = errno == EAGAIN && poll_fd(line_fd, POLLOUT, WAIT_MS) <= 0;
	}
}

/* Sanitizers have nowhere else to say what they have found. */
static void leave_standard_fds(void)
{
	int null = SANITIZED ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return;
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	if (null > STDERR_FILENO)
		close(null);
}

void lines_begin(int fd)
{
	line_fd = fd;
	log_set_sink(send_line, NULL);
	log_leave();
	leave_standard_fds();
}

/* ---- in the monitor ---- */

static uint8_t heard[LOG_RECORD_MAX]; /* one thread's; zeros between two calls of lines_hear */

static void tell_dropped(struct lines *r, pid_t pid, const char *peer)
{
	if (r->dropped)
		log_warn("%" PRIu64 " lines of process %d, which serves %s, were too many at once: "
			 "they are left out", r->dropped, (int)pid, peer);
	r->dropped = 0;
	r->told_ms = now_ms();
}

static int take_line(struct lines *r, pid_t pid, const char *peer, const void *record,
		     size_t len)
{
	if (len > LOG_RECORD_MAX)
		return -EPROTO;
	if (!lines_allow(r, len))
		return 0;
	if (now_ms() - r->told_ms >= TELL_MS)
		tell_dropped(r, pid, peer);
	return log_relay(pid, peer, record, len);
}

/* The length of a line in heard; 0: no more come; -EAGAIN: none has come. With MSG_TRUNC it is what
 * was sent, also where that is more than there is room for. Nobody of ours sends descriptors. */
static ssize_t receive(int fd)
{
	ssize_t n = forsake_look(fd);

	if (n != 0)
		return n < 0 ? n : -EPROTO;
	do
		n = recv(fd, heard, sizeof(heard), MSG_DONTWAIT | MSG_TRUNC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? -EAGAIN : 0;
	return n;
}

/* Processes that begin as a copy of this one are not to have it. */
static void forget(ssize_t n)
{
	if (n > 0)
		explicit_bzero(heard, (size_t)n < sizeof(heard) ? (size_t)n : sizeof(heard));
}

int lines_hear(struct lines *r, pid_t pid, const char *peer)
{
	int rc = 0;

	if (lines_rest(r, now_ms()))
		return 0;
	for (int i = 0; rc == 0 && r->fd >= 0 && i < AT_ONCE; i++) {
		ssize_t n = receive(r->fd);

		if (n == -EAGAIN)
			return 0;
		rc = n > 0 ? take_line(r, pid, peer, heard, (size_t)n) : (int)n;
		forget(n);
		if (rc < 0 || n == 0)
			forsake(&r->fd);
	}
	return rc;
}

void lines_end(struct lines *r, pid_t pid, const char *peer)
{
	for (int i = 0; i < ROUNDS && r->fd >= 0 && poll_fd(r->fd, POLLIN, 0) > 0; i++) {
		r->rests_ms = 0;
		lines_hear(r, pid, peer);
	}
	tell_dropped(r, pid, peer);
	forsake(&r->fd);
}
