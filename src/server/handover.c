// SPDX-License-Identifier: Apache-2.0
/* Signals, inherited sockets, and the conversation between two generations of rftpd. */
#include "server/handover.h"
#include "server/monitor/msg.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>

enum {
	FIRST_FD = 3,                     /* the first inherited descriptor, sd_listen_fds(3) */
	FREE_FD = FIRST_FD + LISTEN_MAX + 1, /* higher than all inherited descriptors */
	WORDS_MAX = ERR_TEXT + 40,
	CLAIM_MS = 60 * 1000,
};

/* Our own environment variable: "own" if the previous rftpd opened the sockets itself, "given" if a
 * service manager opened them. The descriptor after the sockets is the line. */
#define OF_RFTPD "RFTPD_SOCKETS"

/* ---- messages to the service manager: datagrams of lines NAME=VALUE ---- */

enum {
	STATUS_MS = 1000, /* at most one status per this time: the manager broadcasts each one */
	SEND_S = 5,       /* wait so long for a busy manager: if READY=1 is lost, the start counts
			   * as failed */
};

static struct {
	struct sockaddr_un to;
	socklen_t len;         /* 0: there is no manager */
	bool failed;           /* the last message could not be sent; this has been logged */
	unsigned ours, before; /* the numbers of sessions in the last status */
	uint64_t next;         /* the earliest time of the next status; ns, as now_ns() */
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
		log_warn("NOTIFY_SOCKET=%s is not a Unix socket: the service manager gets no "
			 "messages",
			 printable(name));
	} else {
		manager.to.sun_family = AF_UNIX;
		memcpy(manager.to.sun_path, name, len + 1);
		if (*name == '@') /* an abstract socket, unix(7) */
			manager.to.sun_path[0] = '\0';
		manager.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
	}
	unsetenv("NOTIFY_SOCKET");
}

/* Before an execve(2): put the name back into the environment, for the next rftpd. */
static void notify_pass_on(void)
{
	char name[sizeof(manager.to.sun_path) + 1] = "";

	if (!manager.len)
		return;
	memcpy(name, manager.to.sun_path, manager.len - offsetof(struct sockaddr_un, sun_path));
	if (!*name)
		*name = '@';
	setenv("NOTIFY_SOCKET", name, 1);
}

void notify(const char *fmt, ...)
{
	char text[ERR_TEXT + 200];
	int fd CLEANUP_CLOSE = manager.len ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
	struct timeval limit = { .tv_sec = SEND_S };
	ssize_t sent = -1;
	va_list ap;

	if (!manager.len)
		return;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
		do
			sent = sendto(fd, text, strlen(text), MSG_NOSIGNAL,
				      (struct sockaddr *)&manager.to, manager.len);
		while (sent < 0 && errno == EINTR);
	}

	if (sent < 0 && !manager.failed)
		log_warn("cannot send to the service manager: %s", strerror(errno));
	manager.failed = sent < 0;
}

/* ---- the status ---- */

/* event: lines to send before the status, or "". */
static void send_status(const char *event)
{
	char before[40] = "";

	if (manager.before)
		snprintf(before, sizeof(before), ", before the restart: %u", manager.before);
	notify("%sSTATUS=sessions: %u%s%s%s", event, manager.ours, before,
		    *manager.trouble ? "; the settings stay as they were: " : "",
		    manager.trouble);
	manager.next = now_ns() + STATUS_MS * 1000000ull;
}

int notify_sessions(unsigned ours, unsigned before)
{
	if (!manager.len || (ours == manager.ours && before == manager.before))
		return -1;
	if (now_ns() < manager.next)
		return ms_to(manager.next);
	manager.ours = ours;
	manager.before = before;
	send_status("");
	return -1;
}

void notify_ready(void)
{
	send_status("READY=1\n");
}

void notify_trouble(const char *text)
{
	snprintf(manager.trouble, sizeof(manager.trouble), "%s", text ? text : "");
}

/* ---- signals ---- */

volatile sig_atomic_t srv_stop;
volatile sig_atomic_t signals_reread, signals_next;

static void on_signal(int sig)
{
	if (sig == SIGTERM || sig == SIGINT)
		srv_stop++;
	else if (sig == SIGHUP)
		signals_reread = 1;
	else if (sig == SIGUSR2)
		signals_next = 1;
}

static void handle_signal(int sig, void (*fn)(int))
{
	struct sigaction sa = { .sa_handler = fn };

	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

void signals_begin(sigset_t *waiting, bool reread)
{
	static const int handled[] = { SIGTERM, SIGINT, SIGCHLD, SIGUSR2, SIGHUP };
	sigset_t ours;
	int n = reread ? 5 : 4;

	sigemptyset(&ours);
	for (int i = 0; i < n; i++)
		sigaddset(&ours, handled[i]);
	sigprocmask(SIG_BLOCK, &ours, waiting);
	for (int i = 0; i < n; i++)
		handle_signal(handled[i], on_signal);
}

/* ---- inherited sockets ---- */

/* Returns NULL if fd is a listening TCP socket; otherwise a description of fd. */
static const char *wrong_socket(int fd)
{
	int type = 0, listens = 0, family = 0, protocol = 0;
	socklen_t len = sizeof(int);

	if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) < 0)
		return errno == ENOTSOCK ? "no socket" : "not open";

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &len);
	getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len);
	if ((family != AF_INET && family != AF_INET6) || type != SOCK_STREAM ||
	    protocol != IPPROTO_TCP)
		return "no TCP socket";
	return listens ? NULL : "a connection, or nothing yet (in a unit of systemd: Accept=no)";
}

int activation_take(struct activation *a, struct err *e)
{
	const char *pid = getenv("LISTEN_PID"), *count = getenv("LISTEN_FDS");
	const char *names = getenv("LISTEN_FDNAMES"), *ours = getenv(OF_RFTPD);
	uint64_t of, n = 0;
	int rc = 0;

	*a = (struct activation){ .before = -1 };
	if (count && pid && parse_uint(pid, 1, INT32_MAX, &of) == 0 && (pid_t)of == getpid()) {
		if (parse_uint(count, 0, LISTEN_MAX, &n) < 0)
			rc = err_set(e, -EINVAL, "LISTEN_FDS=%s: there can be %d sockets at most",
				     printable(count), LISTEN_MAX);
		if (rc == 0 && ours) {
			a->before = FIRST_FD + (int)n;
			a->own = !strcmp(ours, "own");
			fcntl(a->before, F_SETFD, FD_CLOEXEC);
		}
	}
	for (int i = 0; rc == 0 && i < (int)n; i++) {
		int fd = a->fds[i] = FIRST_FD + i;
		size_t len = names ? strcspn(names, ":") : 0;
		const char *wrong = wrong_socket(fd);
		char name[80];

		snprintf(name, sizeof(name), "%.*s", (int)len, names ? names : "");
		if (wrong)
			rc = err_set(e, -EINVAL, "LISTEN_FDS: descriptor %d%s%s%s is %s: only "
				     "listening TCP sockets can be served", fd, len ? " (" : "",
				     printable(name), len ? ")" : "", wrong);
		else if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 || set_nonblock(fd, true) < 0)
			rc = err_sys(e, -errno, "descriptor %d", fd);
		names = names && names[len] ? names + len + 1 : NULL;
	}

	a->nfds = rc == 0 ? (int)n : 0;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	unsetenv("LISTEN_FDNAMES");
	unsetenv(OF_RFTPD);
	return rc;
}

unsigned activation_end(const struct activation *a)
{
	return (unsigned)(FIRST_FD + a->nfds + (a->before >= 0));
}

/* Just before an execve(2): move l's sockets and the line to the descriptors where
 * activation_take() of the next rftpd expects them. 0 or a negative errno. */
static int bequeath(const struct listener *l, int line)
{
	int fds[LISTEN_MAX + 1], n = (int)l->nfds;
	char pid[24], count[24];

	for (int i = 0; i <= n; i++) {
		/* First copy all to high numbers: dup2() could overwrite a descriptor that is still
		 * needed. */
		fds[i] = fcntl(i < n ? l->fds[i].fd : line, F_DUPFD_CLOEXEC, FREE_FD);
		if (fds[i] < 0)
			return -errno;
	}

	for (int i = 0; i <= n; i++)
		if (dup2(fds[i], FIRST_FD + i) < 0) /* without close-on-exec */
			return -errno;
	snprintf(pid, sizeof(pid), "%d", (int)getpid());
	snprintf(count, sizeof(count), "%d", n);
	if (setenv("LISTEN_PID", pid, 1) < 0 || setenv("LISTEN_FDS", count, 1) < 0 ||
	    setenv(OF_RFTPD, l->given ? "given" : "own", 1) < 0)
		return -errno;
	return 0;
}

/* ---- words on a line ---- */

/* 0 or a negative errno. */
static int send_words(int line, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int send_words(int line, const char *fmt, ...)
{
	char words[WORDS_MAX];
	va_list ap;
	int len;

	va_start(ap, fmt);
	len = vsnprintf(words, sizeof(words), fmt, ap);
	va_end(ap);
	if (len < 0 || (size_t)len >= sizeof(words))
		len = (int)strlen(words);
	return send(line, words, (size_t)len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* 0; -EAGAIN: no packet has arrived; -EPIPE: the other process has ended. */
static int receive_words(int line, char words[WORDS_MAX])
{
	ssize_t n = recv(line, words, WORDS_MAX - 1, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return -EAGAIN;
	if (n <= 0)
		return -EPIPE;
	words[n] = '\0';
	return 0;
}

/* If the first word is word, returns the text after it; otherwise NULL. */
static const char *words_after(const char *words, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(words, word, len) || (words[len] && words[len] != ' '))
		return NULL;
	return words[len] ? words + len + 1 : "";
}

/* ---- the previous rftpd ---- */

void handover_failed(const struct activation *a, const char *why)
{
	if (a->before >= 0)
		send_words(a->before, "failed %s", why);
}

int handover_claim(struct handover *h, struct err *e)
{
	char words[WORDS_MAX];
	int rc;

	if (h->before < 0)
		return 0;

	rc = send_words(h->before, "ready %d", (int)getpid());
	if (rc == 0)
		rc = poll_fd(h->before, POLLIN, CLAIM_MS);
	if (rc > 0)
		rc = receive_words(h->before, words);
	else if (rc == 0)
		rc = -ETIMEDOUT;
	if (rc == 0 && !words_after(words, "yours"))
		rc = -EPROTO;

	if (rc < 0)
		return err_sys(e, rc, "the previous rftpd refuses to be replaced, or has ended");
	log_info("existing sessions stay with the previous rftpd");
	return 0;
}

/* ---- starting the next rftpd ---- */

/* The path of our program. The file there may be a newer version by now. */
static const char *program_path(const char *argv0)
{
	static char self[4096];
	ssize_t n;

	if (strchr(argv0, '/'))
		return argv0;

	n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	if (n <= 0)
		return argv0;
	self[n] = '\0';

	/* The kernel adds this suffix when the file was replaced, proc(5). */
	if (n > 10 && !strcmp(self + n - 10, " (deleted)"))
		self[n - 10] = '\0';
	return self;
}

static _Noreturn void become_next(int line, char **argv, const struct listener *l,
				  const sigset_t *mask)
{
	int rc;

	/* bequeath() overwrites the lower descriptors. */
	line = fcntl(line, F_DUPFD_CLOEXEC, FREE_FD);
	if (line < 0)
		_exit(EXIT_START);
	send_words(line, "pid %d", (int)getpid());
	rc = bequeath(l, line);
	if (rc == 0) {
		notify_pass_on();
		sigprocmask(SIG_SETMASK, mask, NULL);
		execv(program_path(argv[0]), argv);
		rc = -errno;
	}
	send_words(line, "failed %s: %s", printable(program_path(argv[0])), strerror(-rc));
	_exit(EXIT_START);
}

/* Fork twice, and end the process between. So the next rftpd becomes a child of process 1 or of the
 * service manager, which can wait for it even after this process has ended. */
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

void handover_start(struct handover *h, char **argv, const struct listener *l,
		    const sigset_t *mask)
{
	int pair[2], rc;

	if (h->replaced)
		return;

	if (getpid() == 1) {
		log_error("no rolling restart: the kernel kills all processes of a container when "
			  "its process 1, this one, ends");
		return;
	}
	if (h->next >= 0) {
		log_warn("a second signal came before the next rftpd was ready: killed it");
		if (h->next_pid)
			kill(h->next_pid, SIGKILL);
		return;
	}

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
		log_info("starting the next rftpd: %s", printable(program_path(argv[0])));
	else
		log_error("no process for the next rftpd: %s", strerror(-rc));
}

bool handover_under_way(const struct handover *h)
{
	return h->next >= 0 && !h->replaced;
}

/* ---- the next rftpd ---- */

void handover_tell(struct handover *h, unsigned sessions, uint64_t memory)
{
	sessions += h->sessions;
	memory += h->memory;
	if (!h->replaced || h->next < 0 ||
	    (sessions == h->told_sessions && memory == h->told_memory))
		return;
	if (send_words(h->next, "sessions %u %llu", sessions, (unsigned long long)memory) < 0)
		return;
	h->told_sessions = sessions;
	h->told_memory = memory;
}

void handover_reread(struct handover *h)
{
	if (h->next >= 0)
		send_words(h->next, "reread");
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

static void hear_words(struct handover *h, bool is_previous, const char *words)
{
	unsigned long long memory;
	unsigned sessions;
	const char *rest;

	if (is_previous) {
		if (words_after(words, "reread")) {
			signals_reread = 1;
		} else if ((rest = words_after(words, "sessions")) &&
			   sscanf(rest, "%u %llu", &sessions, &memory) == 2) {
			h->sessions = sessions;
			h->memory = memory;
		}
	} else if ((rest = words_after(words, "pid"))) {
		h->next_pid = (pid_t)strtol(rest, NULL, 10);
	} else if ((rest = words_after(words, "ready")) && !h->replaced) {
		/* Do this first: the service manager must accept messages of the next rftpd, which
		 * sends all further ones. */
		notify("MAINPID=%ld", strtol(rest, NULL, 10));
		manager.len = 0;
		h->replaced = send_words(h->next, "yours") == 0;
		h->told_sessions = 0;
		h->told_memory = 0;
		/* If the send failed, the next rftpd has ended: the next read reports that. */
		if (h->replaced)
			log_info("the next rftpd, process %ld, serves from now on",
				 strtol(rest, NULL, 10));
	} else if ((rest = words_after(words, "failed"))) {
		log_error("the next rftpd cannot start: %s", printable(rest));
	} else if (words_after(words, "stop")) {
		srv_stop++;
	}
}

void handover_hear(struct handover *h, int fd)
{
	bool is_previous = fd == h->before;
	char words[WORDS_MAX];
	int rc;

	if (fd < 0 || (!is_previous && fd != h->next))
		return;
	while ((rc = receive_words(fd, words)) == 0)
		hear_words(h, is_previous, words);
	if (rc != -EPIPE)
		return;

	if (is_previous) {
		cleanup_close(&h->before);
		h->sessions = 0;
		h->memory = 0;
		log_info("the previous rftpd has ended");
		return;
	}

	cleanup_close(&h->next);
	h->next_pid = 0; /* the kernel may give this number to another process */
	if (h->replaced)
		log_warn("the next rftpd has ended; sessions of this one continue");
	else
		log_error("the next rftpd has ended before it was ready: this one continues");
}

void handover_stop(struct handover *h)
{
	if (h->before >= 0)
		send_words(h->before, "stop");
	if (!handover_under_way(h))
		return;
	if (h->next_pid)
		kill(h->next_pid, SIGKILL);
	cleanup_close(&h->next);
}
