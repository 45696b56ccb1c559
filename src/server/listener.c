// SPDX-License-Identifier: Apache-2.0
/* The listening process: a process per connection, limits, and the stop. */
#include "server/server.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	SESSIONS_MAX = 256,
	SESSIONS_PER_HOST = 64,
	PAUSE_MS = 100, /* when the system has no descriptors or processes to give */
};

struct child {
	pid_t pid;                     /* 0: the slot is free */
	struct sockaddr_storage peer;
};

struct listener {
	const struct server *sv;
	struct pollfd fds[LISTEN_MAX];
	uint16_t ports[LISTEN_MAX];
	nfds_t nfds;
	struct child children[SESSIONS_MAX];
	int nchildren;
	sigset_t waiting;              /* the signal mask while it sleeps */
};

volatile sig_atomic_t srv_stop;

/* ---- signals ---- */

static void on_stop(int sig)
{
	srv_stop++;
}

static void on_child(int sig)
{
}

static void handle_signal(int sig, void (*fn)(int))
{
	struct sigaction sa = { .sa_handler = fn };

	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

/* They come only while ppoll sleeps, so that none is lost between a look and the sleep. */
static void begin_signals(struct listener *l)
{
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ours, &l->waiting);
	handle_signal(SIGTERM, on_stop);
	handle_signal(SIGINT, on_stop);
	handle_signal(SIGCHLD, on_child);
}

/* A terminal's ^C reaches the whole group; it is the listener that passes it on. */
static void begin_child_signals(const struct listener *l)
{
	handle_signal(SIGINT, SIG_IGN);
	handle_signal(SIGCHLD, SIG_DFL);
	sigprocmask(SIG_SETMASK, &l->waiting, NULL);
}

/* ---- children ---- */

static void reap(struct listener *l)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		for (int i = 0; i < SESSIONS_MAX; i++) {
			if (l->children[i].pid != pid)
				continue;
			l->children[i].pid = 0;
			l->nchildren--;
		}
		if (WIFSIGNALED(status))
			log_error("session process %d died of signal %d (%s)", (int)pid,
				  WTERMSIG(status), strsignal(WTERMSIG(status)));
	}
}

static void signal_children(const struct listener *l, int sig)
{
	for (int i = 0; i < SESSIONS_MAX; i++)
		if (l->children[i].pid)
			kill(l->children[i].pid, sig);
}

static int sessions_of(const struct listener *l, const struct sockaddr_storage *peer)
{
	int n = 0;

	for (int i = 0; i < SESSIONS_MAX; i++)
		n += l->children[i].pid && srv_same_host(&l->children[i].peer, peer);
	return n;
}

static struct child *free_slot(struct listener *l)
{
	for (int i = 0; i < SESSIONS_MAX; i++)
		if (!l->children[i].pid)
			return &l->children[i];
	return NULL;
}

/* ---- connections ---- */

static void refuse(int fd, const struct sockaddr_storage *peer, const char *why)
{
	CLEANUP_FREE char *line = NULL;
	char text[80];
	int len = asprintf(&line, "421 %s, try again later\r\n", why);

	log_warn("connection from %s refused: %s", srv_peer_text(peer, text), why);
	if (len < 0)
		line = NULL;
	else
		send(fd, line, (size_t)len, MSG_DONTWAIT | MSG_NOSIGNAL);
	close(fd);
}

_Noreturn static void run_child(struct listener *l, int fd, const struct sockaddr_storage *peer,
				pid_t parent)
{
	/* A listener that was killed takes its sessions with it, in good order. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)
		exit(EXIT_FAILURE);
	for (nfds_t i = 0; i < l->nfds; i++)
		close(l->fds[i].fd);
	begin_child_signals(l);
	exit(srv_session(l->sv, fd, peer));
}

static void start_session(struct listener *l, struct child *slot, int fd,
			  const struct sockaddr_storage *peer)
{
	pid_t parent = getpid();
	pid_t pid = fork();

	if (pid == 0)
		run_child(l, fd, peer, parent);
	if (pid < 0) {
		refuse(fd, peer, "No process to be had");
		poll(NULL, 0, PAUSE_MS);
		return;
	}
	close(fd);
	slot->pid = pid;
	slot->peer = *peer;
	l->nchildren++;
}

static void set_options(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static void accept_connection(struct listener *l, int lfd)
{
	struct sockaddr_storage peer = { 0 };
	socklen_t len = sizeof(peer);
	int fd = accept4(lfd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC);
	struct child *slot;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
			log_error("cannot accept: %s", strerror(errno));
			poll(NULL, 0, PAUSE_MS);
		}
		return;
	}
	set_options(fd);
	slot = free_slot(l);
	if (!slot)
		refuse(fd, &peer, "Too many sessions");
	else if (sessions_of(l, &peer) >= SESSIONS_PER_HOST)
		refuse(fd, &peer, "Too many sessions from your host");
	else
		start_session(l, slot, fd, &peer);
}

/* ---- the loop ---- */

static void serve(struct listener *l)
{
	while (!srv_stop) {
		int n = ppoll(l->fds, l->nfds, NULL, &l->waiting);

		reap(l);
		for (nfds_t i = 0; n > 0 && i < l->nfds && !srv_stop; i++)
			if (l->fds[i].revents)
				accept_connection(l, l->fds[i].fd);
	}
}

/* Sessions finish what they are doing; a second signal does not wait for that. */
static void stop(struct listener *l)
{
	for (nfds_t i = 0; i < l->nfds; i++)
		close(l->fds[i].fd);
	if (l->nchildren)
		log_info("stopping; sessions that end what they are doing: %d", l->nchildren);
	signal_children(l, SIGTERM);
	while (l->nchildren && srv_stop < 2) {
		ppoll(NULL, 0, NULL, &l->waiting);
		reap(l);
	}
	signal_children(l, SIGKILL);
	log_info("stopped");
}

/* ---- the start ---- */

static int listen_on(struct listener *l, const struct listen_addr *a, struct err *e)
{
	int family = strchr(a->addr, ':') ? AF_INET6 : AF_INET;
	uint16_t port;
	int fd = tcp_listen(a->addr, family, a->port, a->port, &port, e);

	if (fd < 0)
		return fd;
	/* Whoever was waiting may have gone when we come to accept. */
	set_nonblock(fd, true);
	l->fds[l->nfds] = (struct pollfd){ .fd = fd, .events = POLLIN };
	l->ports[l->nfds++] = port;
	log_info(family == AF_INET6 ? "listening on [%s]:%u" : "listening on %s:%u", a->addr,
		 port);
	return 0;
}

static int listen_all(struct listener *l, struct err *e)
{
	const struct srv_options *o = &l->sv->opt;

	for (int i = 0; i < o->nlisten; i++) {
		int rc = listen_on(l, &o->listen[i], e);

		if (rc < 0 && o->listen[i].optional && l->nfds)
			log_info("%s", e->text);
		else if (rc < 0)
			return rc;
	}
	return 0;
}

static int write_ports(const struct listener *l, struct err *e)
{
	const char *file = l->sv->opt.port_file;
	char text[LISTEN_MAX * 8];
	size_t n = 0;
	int rc;

	if (!file)
		return 0;
	for (nfds_t i = 0; i < l->nfds; i++)
		n += (size_t)snprintf(text + n, sizeof(text) - n, "%u\n", l->ports[i]);
	rc = write_file_atomic(file, text, n, 0644);
	return rc < 0 ? err_sys(e, rc, "port file %s", printable(file)) : 0;
}

int srv_listen(const struct server *sv)
{
	CLEANUP_FREE struct listener *l = calloc(1, sizeof(*l));
	struct err e = ERR_INIT;
	int rc;

	if (!l)
		return EXIT_START;
	l->sv = sv;
	begin_signals(l);
	rc = listen_all(l, &e);
	if (rc == 0)
		rc = write_ports(l, &e);
	if (rc < 0) {
		log_error("%s", e.text);
		return EXIT_START;
	}
	serve(l);
	stop(l);
	return EXIT_SUCCESS;
}
