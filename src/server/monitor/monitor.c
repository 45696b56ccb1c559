// SPDX-License-Identifier: Apache-2.0
/* The monitor: the process that listens, counts and forks. A connection is served by one process;
 * or, if root runs rftpd, by a preauth process and, for each login, an auth process, which becomes
 * the session. */
#include "server/monitor/monitor.h"
#include "server/server.h"
#include "server/monitor/msg.h"

#ifdef __x86_64__
#include <immintrin.h>
#endif
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
	PAUSE_MS = 100,           /* the pause when the system has no free process */
	PENALTIES = 4096,         /* hosts, and as many users, in the table of penalties */
	STACK_BYTES = 256 << 10,  /* more than any function of the monitor uses */
};

#define MEMORY_LEAST ((uint64_t)1 << 20) /* bytes; less is too little for any transfer */

/* ---- connections ---- */

/* Make room for n connections; the room never shrinks. */
static int conns_make_room(struct monitor *m, unsigned n)
{
	struct conns *t = &m->conns;
	struct conn *slots;
	struct pollfd *fds;

	if (n <= t->nslots)
		return 0;

	fds = realloc(m->fds, (LISTEN_MAX + HANDOVER_FDS + 2 * (size_t)n) * sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	m->fds = fds;
	slots = pages_new(n * sizeof(*slots));
	if (!slots)
		return -ENOMEM;

	if (t->nslots)
		memcpy(slots, t->slots, t->nslots * sizeof(*slots));
	pages_free(t->slots, t->nslots * sizeof(*slots));
	t->slots = slots;
	t->nslots = n;
	return 0;
}

static void conns_signal(const struct conns *t, int sig)
{
	for (unsigned i = 0; i < t->nslots; i++) {
		const struct conn *c = &t->slots[i];

		if (c->used && c->preauth.pid)
			kill(c->preauth.pid, sig);
		if (c->used && c->session.pid)
			kill(c->session.pid, sig);
	}
}

/* ---- new processes ---- */

/* Clear names, addresses and log lines that earlier calls have left on the unused stack. Whole
 * pages are returned to the kernel, so that they take no memory in the many children. */
__attribute__((noinline)) static void proc_wipe_stack(void)
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

#ifdef __x86_64__
/* Zero the vector registers, in which memcpy(3) and similar functions leave the bytes that they
 * have moved. Otherwise the dynamic linker can save them to the child's stack. */
__attribute__((noinline, target("xsave"))) static void proc_wipe_registers(void)
{
	/* An XSAVE area without saved state: XRSTOR gives the components in the mask their initial
	 * values. It loads MXCSR in any case. Intel 64 manual, volume 1, section 13.8. */
	_Alignas(64) uint8_t area[576] = { 0 };
	const uint32_t mxcsr = 0x1f80;
	enum { SSE = 1 << 1, AVX = 1 << 2, AVX512 = 7 << 5 };

	if (!__builtin_cpu_supports("avx")) /* then the kernel supports XSAVE, too */
		return;
	memcpy(area + 24, &mxcsr, sizeof(mxcsr));
	_xrstor64(area, SSE | AVX | AVX512);
}
#else
static void proc_wipe_registers(void)
{
}
#endif

void proc_begin_child(struct monitor *m)
{
	/* If the monitor is killed, the child gets SIGTERM and stops cleanly. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != m->pid)
		exit(EXIT_FAILURE);

	listener_close(&m->listener);
	cleanup_close(&m->handover.before);
	cleanup_close(&m->handover.next);
	for (unsigned i = 0; i < m->conns.nslots; i++) {
		if (!m->conns.slots[i].used)
			continue;
		channel_close(&m->conns.slots[i].preauth.channel);
		channel_close(&m->conns.slots[i].session.channel);
	}

	pages_free(m->conns.slots, m->conns.nslots * sizeof(*m->conns.slots));
	m->conns = (struct conns){ 0 };
	penalty_free(steal_ptr(&m->penalty));
	free(steal_ptr(&m->fds));
	printable_wipe();
	proc_wipe_stack();
	proc_wipe_registers();
	/* Leave root's terminal: a hijacked process must not be able to put input into it. */
	if (m->sv->separate)
		setsid();

	/* ^C on a terminal reaches the whole process group; the monitor stops its children by
	 * SIGTERM. An administrator may send the other signals to all processes of a service. */
	signal(SIGINT, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	signal(SIGUSR2, SIG_IGN);
	if (srv_has_reload(m->sv))
		signal(SIGHUP, SIG_IGN);
	sigprocmask(SIG_SETMASK, &m->waiting, NULL);
}

static void proc_clear(struct proc *p)
{
	*p = (struct proc){ .state = STATE_LOG_ONLY, .channel = { -1, -1 }, .polled = -1 };
}

pid_t proc_fork(struct monitor *m, struct proc *p, enum proc_state state,
		const struct quota_limits *quota, struct channel *child)
{
	struct channel ours;
	int rc = channel_open(&ours, child);
	pid_t pid;

	proc_clear(p);
	if (rc < 0)
		return rc;

	pid = fork();
	rc = -errno;
	if (pid != 0)
		channel_close(child);
	if (pid <= 0)
		channel_close(&ours);
	if (pid < 0)
		return rc;

	if (pid == 0) {
		proc_begin_child(m);
		if (m->sv->separate)
			channel_log(child);
		return 0;
	}

	p->pid = pid;
	p->state = state;
	p->channel = ours;
	quota_init(&p->quota, quota, now_ns() / 1000000);
	return pid;
}

/* ---- new connections ---- */

void refusal_log(const struct sockaddr_storage *peer, const char *why)
{
	char text[80];
	struct log_field fields[] = {
		LOG_NAME("event", "refused"), LOG_NAME("peer", sockaddr_text(peer, text)),
		LOG_NAME("result", why),
	};

	log_event(LOG_LV_WARN, fields, sizeof(fields) / sizeof(fields[0]),
		  "connection from %s refused: %s", text, why);
}

/* Log why, and send the client line. refusal: REFUSED_... */
static void refuse_client(struct monitor *m, int refusal, int fd,
			  const struct sockaddr_storage *peer, const char *why, const char *line)
{
	m->metrics.refused[refusal]++;
	refusal_log(peer, why);
	send(fd, line, strlen(line), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* An attacker may take over the child as soon as it reads from the client. It could set SO_LINGER
 * on fd and end at once; then the monitor's close would be the last one, and could block. So the
 * child waits until the monitor has closed fd. */
static void conn_start(struct monitor *m, struct conn *c, int *fd, const struct ends *ends)
{
	struct channel channel;
	char go = 0;
	pid_t pid;

	*c = (struct conn){ .ends = *ends, .activity.since = now_ns() };
	proc_clear(&c->session);
	pid = proc_fork(m, &c->preauth, STATE_PREAUTH,
			m->sv->separate ? &quota_preauth : &quota_session, &channel);
	if (pid == 0 && msg_receive(channel.down, &go, sizeof(go), NULL, -1) < 0)
		_exit(EXIT_FAILURE);

	/* With _exit(), because at exit() sanitizers need rights that the process has dropped. */
	if (pid == 0 && m->sv->separate)
		_exit(preauth_run(m->sv, *fd, &channel, ends));
	if (pid == 0)
		exit(srv_session(m->sv, *fd, ends, &channel));
	if (pid < 0) {
		refuse_client(m, REFUSED_PROCESS, *fd, &ends->peer, "no free process",
			      "421 No free process; try again later\r\n");
		poll(NULL, 0, PAUSE_MS);
		return;
	}

	cleanup_close(fd);
	msg_send(c->preauth.channel.down, &go, sizeof(go), -1, 0);
	c->used = true;
	m->conns.nused++;
	if (m->sv->separate)
		deadline_begin(c, m->sv->opt.login_timeout);
}

static void conn_accept(struct monitor *m, nfds_t i)
{
	struct ends ends;
	int fd CLEANUP_CLOSE = listener_accept(&m->listener, i, &ends);
	const struct srv_options *o = &m->sv->opt;
	struct conn *unused = NULL;
	unsigned of_host = 0;

	if (fd < 0)
		return;

	for (unsigned k = 0; k < m->conns.nslots; k++) {
		struct conn *c = &m->conns.slots[k];

		if (!c->used && !unused)
			unused = c;
		of_host += c->used && srv_same_host(&c->ends.peer, &ends.peer);
	}

	if (!networks_admit(&o->allow, &o->refuse, &ends.peer))
		refuse_client(m, REFUSED_ADDRESS, fd, &ends.peer,
			      "its address is not served here",
			      "421 Your address is not served here\r\n");
	else if (!unused || m->conns.nused + m->handover.sessions >= o->max_sessions)
		refuse_client(m, REFUSED_SESSIONS, fd, &ends.peer, "too many sessions",
			      "421 Too many sessions; try again later\r\n");
	else if (of_host >= o->max_per_host)
		refuse_client(m, REFUSED_HOST, fd, &ends.peer, "too many sessions from its host",
			      "421 Too many sessions from your host; try again later\r\n");
	else
		conn_start(m, unused, &fd, &ends);
}

/* ---- ended processes ---- */

static void conn_forget(struct monitor *m, struct conn *c, struct proc *p)
{
	proc_finish(m, c, p);
	if (p == &c->session || !m->sv->separate)
		metrics_session_over(m, c);
	if (p == &c->session) {
		if (*c->account)
			deadline_over(c, srv_stop);
		else
			deadline_checked(c, false);
		c->memory = 0;
		*c->account = '\0';
		if (c->preauth.state == STATE_WAITING)
			c->preauth.state = STATE_PREAUTH;
	}
	p->pid = 0;
	if (!c->preauth.pid && !c->session.pid) {
		c->used = false;
		m->conns.nused--;
	}
}

static void conns_reap(struct monitor *m)
{
	char call[JAIL_CALL_TEXT];
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (metrics_reaped(m, pid, status))
			continue;
		if (pid == m->facts)
			m->facts = 0;
		for (unsigned i = 0; i < m->conns.nslots; i++) {
			struct conn *c = &m->conns.slots[i];

			if (c->used && c->preauth.pid == pid)
				conn_forget(m, c, &c->preauth);
			else if (c->used && c->session.pid == pid)
				conn_forget(m, c, &c->session);
		}
		if (!WIFSIGNALED(status))
			continue;

		log_error("session process %d died of signal %d (%s)", (int)pid, WTERMSIG(status),
			  strsignal(WTERMSIG(status)));
		if (WTERMSIG(status) != SIGSYS)
			continue;
		if (*jail_refused_call(pid, call))
			log_error("process %d: its filter refused system call %s", (int)pid, call);
		else
			log_error("process %d: its filter refused a system call; the kernel's log "
				  "has the number (journalctl -k -g type=1326, or ausearch -m "
				  "SECCOMP)", (int)pid);
	}
}

/* ---- settings ---- */

/* Change the memory budget. Sessions keep their parts, even if there is no budget any more. */
static void memory_change(struct monitor *m, const struct srv_options *o)
{
	uint64_t total = o->memory_budget;

	if (!m->counted && !total)
		return;
	if (!m->counted)
		budget_init(&m->budget, MEMORY_LEAST, o->tuning.memory);
	m->counted = true;

	if (!total)
		total = UINT64_MAX;
	else
		total -= m->memory_elsewhere < total ? m->memory_elsewhere : total;
	budget_resize(&m->budget, total);
}

static void settings_reread(struct monitor *m)
{
	struct err e = ERR_INIT;
	struct server next;
	int rc = srv_reload(m->sv, &next, &e);

	/* Get the resources for the new settings; after an error m keeps those for the old ones. */
	if (rc == 0 && conns_make_room(m, next.opt.max_sessions) < 0)
		rc = err_nomem(&e);
	if (rc == 0)
		rc = listener_change(&m->listener, &next.opt, &e);
	notify_trouble(rc < 0 ? e.text : NULL);
	if (rc < 0) {
		log_error("%s", e.text);
		log_error("the settings stay as they were");
		srv_clear(&next);
		return;
	}

	if (listener_write_ports(&m->listener, next.opt.port_file, &e) < 0)
		log_error("%s", e.text);
	memory_change(m, &next.opt);
	turns_change(&m->turns, &next.opt);
	m->metrics.next = 0; /* the file may be another one */
	if (srv_open_log(&next.opt, &e) < 0)
		log_error("%s: the old log stays in use", e.text);
	srv_clear(m->sv);
	*m->sv = next;
	log_info("settings read anew");
	srv_say_start(m->sv);
}

/* ---- the loop ---- */

/* The sooner of two waits in ms; -1 means for ever. */
static int wait_sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* Fill m->fds. Returns the number of descriptors; *wait is reduced to the ms until a
 * process over its quota may be read again. */
static nfds_t gather(struct monitor *m, int *wait)
{
	uint64_t now = now_ns() / 1000000;
	nfds_t n = m->listener.nfds;

	memcpy(m->fds, m->listener.fds, n * sizeof(*m->fds));
	n += handover_gather(&m->handover, m->fds + n);
	for (unsigned i = 0; i < 2 * m->conns.nslots; i++) {
		struct conn *c = &m->conns.slots[i / 2];
		struct proc *p = i % 2 ? &c->session : &c->preauth;
		int ms = c->used && p->pid ? (int)quota_rest(&p->quota, now) : 0;

		p->polled = -1;
		if (ms) {
			*wait = wait_sooner(*wait, ms);
		} else if (c->used && p->channel.up >= 0) {
			p->polled = (int)n;
			m->fds[n++] = (struct pollfd){ .fd = p->channel.up, .events = POLLIN };
		}
	}
	return n;
}

/* Wait for a descriptor or a signal, at most ms; -1: for ever. Signals are handled only here. */
static int sleep_for(struct monitor *m, nfds_t n, int ms)
{
	struct timespec t = { 0 };

	ms = wait_sooner(ms, deadlines_enforce(&m->conns));

	/* If a descriptor is ready, ppoll(2) returns before it handles a signal. So a process that
	 * sends all the time could keep signals pending for ever: handle them first, without
	 * descriptors. */
	if (ppoll(NULL, 0, &t, &m->waiting) < 0)
		ms = 0;
	t = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };
	return ppoll(m->fds, n, ms < 0 ? NULL : &t, &m->waiting);
}

static void monitor_round(struct monitor *m)
{
	int wait = logins_start(m), ready;
	nfds_t n = gather(m, &wait), ports = m->listener.nfds;

	/* Tell the next monitor and the service manager the number of sessions. */
	if (m->memory_elsewhere != m->handover.memory) {
		m->memory_elsewhere = m->handover.memory;
		memory_change(m, &m->sv->opt);
	}
	handover_tell(&m->handover, m->conns.nused, budget_given(&m->conns, NULL));
	wait = wait_sooner(wait, notify_sessions(m->conns.nused, m->handover.sessions));
	wait = wait_sooner(wait, metrics_tend(m));

	ready = sleep_for(m, n, wait);

	/* handover_hear() ignores descriptors of processes. */
	for (nfds_t i = ports; ready > 0 && i < n && i < ports + HANDOVER_FDS; i++)
		if (m->fds[i].revents)
			handover_hear(&m->handover, m->fds[i].fd);
	for (unsigned i = 0; ready > 0 && i < 2 * m->conns.nslots; i++) {
		struct conn *c = &m->conns.slots[i / 2];
		struct proc *p = i % 2 ? &c->session : &c->preauth;

		if (c->used && p->polled >= 0 && m->fds[p->polled].revents)
			proc_hear(m, c, p);
	}
	conns_reap(m);
	if (srv_stop || m->handover.replaced)
		ports = 0;
	if (signals_next && !srv_stop) {
		signals_next = 0;
		handover_start(&m->handover, m->sv->argv, &m->listener, &m->waiting);
	}

	/* Postpone a reload while the next rftpd starts: it may have read its settings before or
	 * after the change. */
	if (signals_reread && !srv_stop && !handover_under_way(&m->handover)) {
		signals_reread = 0;
		if (m->handover.replaced) {
			handover_reread(&m->handover);
		} else {
			notify("RELOADING=1\nMONOTONIC_USEC=%llu\nSTATUS=reading the settings",
			       (unsigned long long)(now_ns() / 1000));
			settings_reread(m);
			notify_ready();
		}
		return; /* the reload may have closed sockets in m->fds */
	}
	for (nfds_t i = 0; ready > 0 && i < ports; i++)
		if (m->fds[i].revents)
			conn_accept(m, i);
}

static bool monitor_is_busy(const struct monitor *m)
{
	return m->conns.nused || m->handover.before >= 0;
}

/* Wait until sessions have finished their transfers; a second signal kills them. */
static void monitor_stop(struct monitor *m)
{
	unsigned sessions = m->conns.nused + m->handover.sessions;

	listener_close(&m->listener);
	if (sessions)
		log_info("stopping; sessions that finish their transfers: %u", sessions);
	notify("STOPPING=1\nSTATUS=stopping; sessions that finish their work: %u", sessions);
	conns_signal(&m->conns, SIGTERM);
	deadlines_stop(&m->conns);
	handover_stop(&m->handover);

	while (monitor_is_busy(m) && srv_stop < 2)
		monitor_round(m);
	conns_signal(&m->conns, SIGKILL);
	handover_stop(&m->handover);
	if (!m->handover.replaced)
		metrics_end(m);
	log_info("stopped");
}

int srv_listen(struct server *sv, const struct activation *given)
{
	struct monitor m = { .sv = sv, .pid = getpid(), .metrics.started = (uint64_t)time(NULL),
			     .handover = { .before = given->before, .next = -1 } };
	const struct srv_options *o = &sv->opt;
	struct err e = ERR_INIT;
	int rc = 0;

	json_wipes();
	signals_begin(&m.waiting, srv_has_reload(sv));
	turns_change(&m.turns, o);
	m.penalty = penalty_new(PENALTIES);
	memory_change(&m, o);

	if (!m.penalty || conns_make_room(&m, o->max_sessions) < 0)
		rc = err_nomem(&e);
	if (rc == 0)
		rc = listener_open(&m.listener, o, given, &e);
	if (rc == 0)
		rc = metrics_write(&m, &e);
	/* Scripts that wait for the port file find the metrics file, too. */
	if (rc == 0)
		rc = listener_write_ports(&m.listener, o->port_file, &e);
	if (rc == 0)
		rc = handover_claim(&m.handover, &e);
	if (rc < 0) {
		log_error("%s", e.text);
		handover_failed(given, e.text);
	} else {
		notify_ready();
		while (!srv_stop && !m.handover.replaced)
			monitor_round(&m);
	}

	if (m.handover.replaced) {
		/* The next rftpd listens; this one waits until its sessions have ended. */
		listener_close(&m.listener);
		log_info("sessions that this rftpd still serves: %u", m.conns.nused);
		while (monitor_is_busy(&m) && !srv_stop)
			monitor_round(&m);
	}
	if (rc == 0)
		monitor_stop(&m);
	penalty_free(m.penalty);
	pages_free(m.conns.slots, m.conns.nslots * sizeof(*m.conns.slots));
	free(m.fds);
	return rc < 0 ? EXIT_START : EXIT_SUCCESS;
}
