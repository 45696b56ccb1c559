// SPDX-License-Identifier: Apache-2.0
/* Lines NAME=VALUE in one datagram each, to the service manager's socket. */
#include "server/notify.h"
#include "util/util.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum {
	STATUS_MS = 1000, /* the manager tells everybody of each */
	PATIENCE_S = 5,   /* with a manager that is busy: without its READY a start has failed */
};

static struct {
	struct sockaddr_un to;
	socklen_t len;         /* 0: nobody wants to know */
	bool failed;           /* which was said */
	unsigned ours, before; /* in the last status */
	uint64_t next;         /* no status before; ns */
	char trouble[ERR_TEXT];
} manager;

void notify_begin(void)
{
	const char *name = getenv("NOTIFY_SOCKET");
	size_t len = name ? strlen(name) : 0;

	manager.len = 0;
	if (!len)
		return;
	if ((*name != '/' && *name != '@') || len >= sizeof(manager.to.sun_path)) {
		log_warn("NOTIFY_SOCKET=%s is no Unix socket: the service manager is told nothing",
			 printable(name));
	} else {
		manager.to.sun_family = AF_UNIX;
		memcpy(manager.to.sun_path, name, len + 1);
		if (*name == '@') /* abstract, unix(7) */
			manager.to.sun_path[0] = '\0';
		manager.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	}
	unsetenv("NOTIFY_SOCKET");
}

void notify_pass_on(void)
{
	char name[sizeof(manager.to.sun_path) + 1] = "";

	if (!manager.len)
		return;
	memcpy(name, manager.to.sun_path, manager.len - offsetof(struct sockaddr_un, sun_path));
	if (!*name)
		*name = '@';
	setenv("NOTIFY_SOCKET", name, 1);
}

static int send_text(const char *text, size_t len)
{
	int fd CLEANUP_CLOSE = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct timeval patience = { .tv_sec = PATIENCE_S };

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	while (sendto(fd, text, len, MSG_NOSIGNAL, (struct sockaddr *)&manager.to,
		      manager.len) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

static void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *fmt, ...)
{
	char text[ERR_TEXT + 200];
	va_list ap;
	int len, rc;

	if (!manager.len)
		return;
	va_start(ap, fmt);
	len = vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (len < 0)
		return;
	rc = send_text(text, (size_t)len < sizeof(text) ? (size_t)len : sizeof(text) - 1);
	if (rc < 0 && !manager.failed)
		log_warn("the service manager cannot be told: %s", strerror(-rc));
	manager.failed = rc < 0;
}

/* ---- the status ---- */

static const char *status(char out[ERR_TEXT + 100])
{
	char before[40] = "";

	if (manager.before)
		snprintf(before, sizeof(before), ", before the restart: %u", manager.before);
	snprintf(out, ERR_TEXT + 100, "sessions: %u%s%s%s", manager.ours, before,
		 *manager.trouble ? "; the settings stay as they were: " : "",
		 manager.trouble);
	return out;
}

static void put_off(void)
{
	manager.next = now_ns() + STATUS_MS * 1000000ull;
}

int notify_sessions(unsigned ours, unsigned before)
{
	char text[ERR_TEXT + 100];

	if (!manager.len || (ours == manager.ours && before == manager.before))
		return -1;
	if (now_ns() < manager.next)
		return ms_to(manager.next);
	manager.ours = ours;
	manager.before = before;
	tell("STATUS=%s", status(text));
	put_off();
	return -1;
}

/* ---- states ---- */

void notify_ready(void)
{
	char text[ERR_TEXT + 100];

	tell("READY=1\nSTATUS=%s", status(text));
	put_off();
}

void notify_reloading(void)
{
	tell("RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reading the settings",
	     (unsigned long long)(now_ns() / 1000));
}

void notify_trouble(const char *text)
{
	snprintf(manager.trouble, sizeof(manager.trouble), "%s", text ? text : "");
}

void notify_stopping(unsigned sessions)
{
	tell("STOPPING=1\nSTATUS=stopping; sessions that end what they are doing: %u", sessions);
}

void notify_main_pid(pid_t pid)
{
	tell("MAINPID=%d", (int)pid);
	manager.len = 0;
}
