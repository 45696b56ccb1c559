// SPDX-License-Identifier: Apache-2.0
/* Starts the next rftpd, and talks to it and to the one before. */
#include "server/handover.h"
#include "server/msg.h"
#include "server/notify.h"
#include "server/server.h"
#include "server/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = ERR_TEXT + 40, CLAIM_MS = 60 * 1000 };

/* ---- words ---- */

/* 0 or a negative errno. */
static int say(int line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int say(int line, const char *fmt, ...)
{
	char words[WORDS];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= sizeof(words))
		len = (int)strlen(words);
	return send(line, words, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* 0; -EAGAIN: nothing, for now; -EPIPE: the other has ended. */
static int hear(int line, char words[WORDS])
{
	ssize_t n = recv(line, words, WORDS - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -EPIPE;
	words[n] = '\0';
	return 0;
}

/* What stands behind the word that words begin with; NULL: they begin with another. */
static const char *behind(const char *words, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(words, word, len) || (words[len] && words[len] != ' '))
		return NULL;
	return words[len] ? words + len + 1 : "";
}

/* ---- taking over ---- */

void handover_init(struct handover *h, const struct activation *a)
{
	*h = (struct handover){ .before = a->before, .next = -1 };
}

void handover_failed(const struct activation *a, const char *why)
{
	if (a->before >= 0)
		say(a->before, "failed %s", why);
}

int handover_claim(struct handover *h, struct err *e)
{
	char words[WORDS];
	int rc;

	if (h->before < 0)
		return 0;
	rc = say(h->before, "ready %d", (int)getpid());
	if (rc == 0)
		rc = poll_fd(h->before, POLLIN, CLAIM_MS);
	if (rc > 0)
		rc = hear(h->before, words);
	else if (rc == 0)
		rc = -ETIMEDOUT;
	if (rc == 0 && !behind(words, "yours"))
		rc = -EPROTO;
	if (rc < 0)
		return err_sys(e, rc, "the rftpd that was to be replaced goes on, or has ended");
	log_info("sessions that are there stay with the rftpd that was before");
	return 0;
}

static void hear_before(struct handover *h, const char *words)
{
	const char *numbers = behind(words, "sessions");
	unsigned sessions;
	unsigned long long memory;

	if (behind(words, "reread"))
		signals_reread = 1;
	else if (numbers && sscanf(numbers, "%u %llu", &sessions, &memory) == 2)
		h->sessions = sessions, h->memory = memory;
}

static void before_has_ended(struct handover *h)
{
	cleanup_close(&h->before);
	h->sessions = 0;
	h->memory = 0;
	log_info("the rftpd that was before has ended");
}

/* ---- starting the next ---- */

/* The file of that name now, which may be another than ours. */
static const char *program(const char *called)
{
	static char self[4096];
	ssize_t n;

	if (strchr(called, '/'))
		return called;
	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return called;
	self[n] = '\0';
	/* As the kernel names a file that was replaced: proc(5). */
	if (n > 10 && !strcmp(self + n - 10, " (deleted)"))
		self[n - 10] = '\0';
	return self;
}

static _Noreturn void become_next(int line, char **argv, const struct listener *l,
				  const sigset_t *mask)
{
	int fds[LISTEN_MAX], rc;

	/* It must outlive what the next one finds where it lies now. */
	line = fcntl(line, F_DUPFD_CLOEXEC, ACTIVATION_FIRST + LISTEN_MAX + 1);
	if (line < 0)
		_exit(EXIT_START);
	say(line, "pid %d", (int)getpid());
	for (nfds_t i = 0; i < l->nfds; i++)
		fds[i] = l->fds[i].fd;
	rc = activation_give(fds, (int)l->nfds, line, !l->given);
	if (rc == 0) {
		notify_pass_on();
		sigprocmask(SIG_SETMASK, mask, NULL);
		execv(program(argv[0]), argv);
		rc = -errno;
	}
	say(line, "failed %s: %s", printable(program(argv[0])), strerror(-rc));
	_exit(EXIT_START);
}

/* A child of a child that has ended is one of process 1, or of what stands for it: that learns of
 * its end, as a service manager wants to, when we are not there any more. */
static int fork_next(int line, char **argv, const struct listener *l, const sigset_t *mask)
{
	pid_t pid = fork();
	int status;

	if (pid < 0)
		return -errno;
	if (pid == 0) {
		pid = fork();
		if (pid == 0)
			become_next(line, argv, l, mask);
		_exit(pid < 0 ? errno : 0);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

/* In a container whose process 1 we are it would end with us. */
static int check_start(const struct handover *h)
{
	if (h->replaced)
		return -EALREADY;
	if (getpid() == 1) {
		log_error("no rolling restart: this is process 1, with which all others end");
		return -EPERM;
	}
	if (h->next < 0)
		return 0;
	log_warn("the next rftpd was not ready yet when it was to be started again: ended");
	if (h->next_pid)
		kill(h->next_pid, SIGKILL);
	return -EBUSY;
}

void handover_start(struct handover *h, char **argv, const struct listener *l,
		    const sigset_t *mask)
{
	int pair[2];
	int rc = check_start(h);

	if (rc < 0)
		return;
	rc = msg_pair(pair);
	if (rc == 0) {
		rc = fork_next(pair[1], argv, l, mask);
		close(pair[1]);
		if (rc == 0)
			h->next = pair[0];
		else
			close(pair[0]);
	}
	h->next_pid = 0;
	if (rc == 0)
		log_info("starting the next rftpd: %s", printable(program(argv[0])));
	else
		log_error("no process for the next rftpd: %s", strerror(-rc));
}

bool handover_under_way(const struct handover *h)
{
	return h->next >= 0 && !h->replaced;
}

/* ---- being replaced ---- */

static void give_way(struct handover *h, const char *pid)
{
	pid_t next = (pid_t)strtol(pid, NULL, 10);

	/* First of all: from then on the manager listens to that one. */
	notify_main_pid(next);
	h->replaced = say(h->next, "yours") == 0;
	h->told_sessions = 0;
	h->told_memory = 0;
	if (!h->replaced)
		return; /* it has ended, which we hear next */
	log_info("the next rftpd, process %d, serves from now on", (int)next);
}

static void hear_next(struct handover *h, const char *words)
{
	const char *rest;

	if ((rest = behind(words, "pid")))
		h->next_pid = (pid_t)strtol(rest, NULL, 10);
	else if ((rest = behind(words, "ready")) && !h->replaced)
		give_way(h, rest);
	else if ((rest = behind(words, "failed")))
		log_error("the next rftpd cannot start: %s", printable(rest));
	else if (behind(words, "stop"))
		srv_stop++;
}

static void next_has_ended(struct handover *h)
{
	cleanup_close(&h->next);
	h->next_pid = 0; /* it may be somebody else's by now */
	if (h->replaced)
		log_warn("the next rftpd has ended; sessions that are here go on");
	else
		log_error("the next rftpd has ended before it was ready: this one goes on");
}

void handover_tell(struct handover *h, unsigned sessions, uint64_t memory)
{
	sessions += h->sessions;
	memory += h->memory;
	if (!h->replaced || h->next < 0 ||
	    (sessions == h->told_sessions && memory == h->told_memory))
		return;
	if (say(h->next, "sessions %u %llu", sessions, (unsigned long long)memory) < 0)
		return;
	h->told_sessions = sessions;
	h->told_memory = memory;
}

void handover_reread(struct handover *h)
{
	if (h->next >= 0)
		say(h->next, "reread");
}

/* ---- both ---- */

nfds_t handover_gather(const struct handover *h, struct pollfd *fds)
{
	nfds_t n = 0;

	if (h->before >= 0)
		fds[n++] = (struct pollfd){ .fd = h->before, .events = POLLIN };
	if (h->next >= 0)
		fds[n++] = (struct pollfd){ .fd = h->next, .events = POLLIN };
	return n;
}

void handover_hear(struct handover *h, int fd)
{
	bool is_before = fd == h->before;
	char words[WORDS];
	int rc;

	if (fd < 0 || (!is_before && fd != h->next))
		return;
	while ((rc = hear(fd, words)) == 0)
		if (is_before)
			hear_before(h, words);
		else
			hear_next(h, words);
	if (rc == -EPIPE && is_before)
		before_has_ended(h);
	else if (rc == -EPIPE)
		next_has_ended(h);
}

void handover_stop(struct handover *h)
{
	if (h->before >= 0)
		say(h->before, "stop");
	if (!handover_under_way(h))
		return;
	if (h->next_pid)
		kill(h->next_pid, SIGKILL);
	cleanup_close(&h->next);
}

void handover_leave(struct handover *h)
{
	cleanup_close(&h->before);
	cleanup_close(&h->next);
}
