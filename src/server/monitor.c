// SPDX-License-Identifier: Apache-2.0
/* The process that listens, counts and forks: one connection is one process, or, when run by
 * root, a front and in time a session. What it knows of a connection no client has written. */
#include "server/auth.h"
#include "server/conns.h"
#include "server/deadlines.h"
#include "server/front.h"
#include "server/gate.h"
#include "server/handover.h"
#include "server/jail.h"
#include "server/ledger.h"
#include "server/lend.h"
#include "server/listener.h"
#include "server/locked.h"
#include "server/msg.h"
#include "server/notify.h"
#include "server/proc.h"
#include "server/refuse.h"
#include "server/signals.h"
#include "server/turns.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	PAUSE_MS = 100,   /* when the system has no processes to give */
	GATES_MOST = 16,  /* of a connection: more than control lets anybody try */
};

struct monitor {
	struct server *sv;
	struct listener listener;
	struct ledger *ledger;
	struct conns conns;
	struct turns turns;
	const struct activation *given;
	struct handover handover;
	/* of one look: the listener's, the handover's, then processes';
	 * [LISTEN_MAX + HANDOVER_FDS + CONN_FDS * nslots] */
	struct pollfd *fds;
	sigset_t waiting;      /* the signal mask while it sleeps */
	pid_t pid;
};

/* Room for n connections; what there is stays. */
static int make_room(struct monitor *m, unsigned n)
{
	struct pollfd *fds;

	if (n <= m->conns.nslots)
		return 0;
	fds = realloc(m->fds, (LISTEN_MAX + HANDOVER_FDS + CONN_FDS * (size_t)n) * sizeof(*fds));
	if (!fds)
		return -ENOMEM;
	m->fds = fds;
	return conns_room(&m->conns, n);
}

/* ---- a process more ---- */

/* In the child: nothing of the others' is open any more, nor known. */
static void begin_child(struct monitor *m)
{
	/* A monitor that was killed takes them with it, in good order. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != m->pid)
		exit(EXIT_FAILURE);
	listener_close(&m->listener);
	handover_leave(&m->handover);
	conns_leave(&m->conns);
	conns_free(&m->conns);
	ledger_free(steal_ptr(&m->ledger));
	free(steal_ptr(&m->fds));
	printable_wipe();
	proc_wipe_stack();
	/* Root's terminal is nothing that a client should be able to type into. */
	if (m->sv->separate)
		setsid();
	signals_begin_child(&m->waiting, srv_has_reload(m->sv));
}

/* From where nothing is left to be looked at, as sanitizers do at an exit. */
static void run_front(struct monitor *m, int fd, const struct proc *p, const struct ends *ends)
{
	begin_child(m);
	lines_begin(p->log.fd);
	_exit(front_run(m->sv, fd, p->fd, ends));
}

static pid_t fork_front(struct monitor *m, int fd, struct conn *c)
{
	struct proc p = { .pid = 0, .fd = -1, .log.fd = -1 };
	struct ends ends = c->ends; /* which the child has no more */

	proc_fork(&p, m->sv->separate ? &lines_stranger : NULL);
	if (p.pid == 0 && m->sv->separate)
		run_front(m, fd, &p, &ends);
	if (p.pid == 0) {
		begin_child(m);
		exit(srv_session(m->sv, fd, &ends, p.fd));
	}
	c->front = p;
	return p.pid;
}

static void start_connection(struct monitor *m, struct conn *c, int fd, const struct ends *ends)
{
	pid_t pid;

	*c = (struct conn){ .ends = *ends, .front = { .fd = -1, .log.fd = -1 },
			    .session = { .fd = -1, .log.fd = -1 } };
	pid = fork_front(m, fd, c);
	if (pid < 0) {
		refuse_for_now(fd, &ends->peer, "No process to be had");
		poll(NULL, 0, PAUSE_MS);
		return;
	}
	c->used = true;
	m->conns.nused++;
	if (m->sv->separate)
		deadline_begin(c, m->sv->opt.login_timeout);
}

static void accept_connection(struct monitor *m, nfds_t i)
{
	struct ends ends;
	int fd CLEANUP_CLOSE = listener_accept(&m->listener, i, &ends);
	struct conn *c;

	if (fd < 0)
		return;
	c = m->conns.nused + m->handover.sessions < m->sv->opt.max_sessions ?
		    conns_unused(&m->conns) : NULL;
	if (!srv_admits(&m->sv->opt, &ends.peer))
		refuse_address(fd, &ends.peer);
	else if (!c)
		refuse_for_now(fd, &ends.peer, "Too many sessions");
	else if (conns_of(&m->conns, &ends.peer) >= m->sv->opt.max_per_host)
		refuse_for_now(fd, &ends.peer, "Too many sessions from your host");
	else
		start_connection(m, c, fd, &ends);
}

/* ---- fronts ---- */

static uint64_t now_ms(void)
{
	return now_ns() / 1000000;
}

/* The gate, and the front's end of the line to it; a negative errno. */
static int fork_gate(struct monitor *m, struct conn *c)
{
	struct proc p;
	int line[2];
	int rc = msg_pair(line);

	if (rc < 0)
		return rc;
	proc_fork(&p, &lines_known);
	if (p.pid == 0) {
		struct ends ends = c->ends;
		char user[NAME_ROOM];

		memcpy(user, c->user, sizeof(user));
		close(line[1]);
		begin_child(m);
		lines_begin(p.log.fd);
		exit(gate_run(m->sv, line[0], p.fd, &ends, user));
	}
	close(line[0]);
	if (p.pid < 0) {
		close(line[1]);
		return p.pid;
	}
	c->session = p;
	c->reported = false;
	deadline_check(c, now_ms() - c->turn.asked, m->sv->opt.login_timeout);
	return line[1];
}

/* line: to the gate, where there is one. */
static void answer_front(struct conn *c, int code, int line)
{
	struct front_answer a = { .code = code };
	int rc = msg_send(c->front.fd, &a, sizeof(a), line, 0);

	if (rc < 0 && rc != -EPIPE)
		conns_disown(c, &c->front, rc);
}

/* why NULL: there is nothing to log. */
static void refuse_login(struct conn *c, const char *why)
{
	char text[80];

	if (why)
		refusal_log(srv_peer_text(&c->ends.peer, text), why);
	deadline_refused(c, now_ms() - c->turn.asked);
	turn_end(c);
	answer_front(c, -EAGAIN, -1);
}

static void start_gate(struct monitor *m, struct conn *c)
{
	int line CLEANUP_CLOSE = fork_gate(m, c);

	if (line < 0) {
		log_error("no process for a login: %s", strerror(-line));
		refuse_login(c, NULL);
	} else {
		turn_begin(&m->turns, c);
		answer_front(c, 0, line);
	}
}

/* One process checks the password itself, and has as long as a gate. */
static void start_check(struct monitor *m, struct conn *c)
{
	turn_begin(&m->turns, c);
	c->checks = true;
	deadline_begin(c, m->sv->opt.login_timeout);
	answer_front(c, 0, -1);
}

/* The delay is judged now: by the failures of other logins that waited, too. */
static void start_login(struct monitor *m, struct conn *c)
{
	uint64_t now = now_ms();
	int wait = m->sv->separate ? ledger_ask(m->ledger, &c->ends.peer, c->user) : 0;

	if (srv_stop)
		refuse_login(c, NULL);
	else if (wait < 0)
		refuse_login(c, "too many wrong passwords");
	else if (turn_is_late(&m->turns, c, now))
		refuse_login(c, "too many logins at once; see max-checks");
	else if (c->turn.asked + (unsigned)wait > now)
		turn_not_before(c, c->turn.asked + (unsigned)wait);
	else if (m->sv->separate)
		start_gate(m, c);
	else
		start_check(m, c);
}

/* How long until one more can have its turn, in ms; -1: until a check ends. */
static int start_logins(struct monitor *m)
{
	struct conn *c;
	int rest;

	while ((c = turns_next(&m->turns, &m->conns, now_ms(), &rest)))
		start_login(m, c);
	return rest;
}

/* Of one process: its check is over. */
static void hear_check(struct conn *c)
{
	struct gate_report r;
	int rc = msg_hear(c->front.fd, &r, sizeof(r));

	if (rc == -EAGAIN)
		return;
	turn_end(c);
	c->checks = false;
	deadline_checked(c, true);
	if (rc == -EPIPE)
		conns_stop_hearing(&c->front);
	else if (rc < 0)
		conns_disown(c, &c->front, rc);
}

static void hear_ask(struct monitor *m, struct conn *c)
{
	bool anonymous;
	struct front_ask ask;
	int rc = msg_hear(c->front.fd, &ask, sizeof(ask));

	if (rc == -EAGAIN)
		return;
	if (rc == 0 && (c->turn.state != TURN_NONE || !memchr(ask.user, '\0', sizeof(ask.user)) ||
			c->gates++ == GATES_MOST))
		rc = -EPROTO;
	if (rc < 0 && c->turn.state == TURN_WAITS)
		turn_end(c);
	if (rc == -EPIPE)
		conns_stop_hearing(&c->front);
	else if (rc < 0)
		conns_disown(c, &c->front, rc);
	if (rc == 0)
		memcpy(c->user, ask.user, sizeof(c->user));
	crypto_wipe(&ask, sizeof(ask)); /* as of hear_gate */
	if (rc < 0)
		return;
	anonymous = m->sv->opt.anonymous && auth_is_anonymous(c->user);
	turn_ask(&m->turns, &m->conns, c, !anonymous, now_ms());
}

static void hear_front(struct monitor *m, struct conn *c)
{
	if (c->checks)
		hear_check(c);
	else
		hear_ask(m, c);
}

/* ---- gates ---- */

/* 0, or why the session cannot be. */
static int begin_session(struct monitor *m, struct conn *c, const char *account,
			 struct gate_orders *o)
{
	unsigned most = m->sv->opt.max_per_user;
	struct err e = ERR_INIT;
	char text[80];
	int rc = 0;

	o->memory = ledger_memory(m->ledger, &c->counted, &o->lock);
	o->counted = c->counted;
	if (c->counted && m->sv->raises)
		o->lock = 0; /* it comes with what it asks for */
	if (most && conns_as(&m->conns, account) >= most)
		rc = err_set(&e, -EAGAIN, "too many sessions of %s", printable(account));
	if (rc < 0)
		refusal_log(srv_peer_text(&c->ends.peer, text), e.text);
	else
		snprintf(c->account, sizeof(c->account), "%s", account);
	return rc;
}

static void hear_gate(struct monitor *m, struct conn *c)
{
	struct gate_orders orders = { .code = 0 };
	struct gate_report r;
	int rc = msg_hear(c->session.fd, &r, sizeof(r));

	if (rc == -EAGAIN)
		return;
	if (rc == 0 && (c->reported || r.code > 0 || !memchr(r.name, '\0', sizeof(r.name))))
		rc = -EPROTO;
	if (rc == 0)
		ledger_checked(m->ledger, &c->ends.peer, c->user, r.code);
	if (rc == 0 && r.code == 0)
		orders.code = begin_session(m, c, r.name, &orders);
	if (rc == 0)
		deadline_checked(c, *c->account);
	if (c->turn.state == TURN_CHECKS)
		turn_end(c);
	if (rc == 0)
		rc = msg_send(c->session.fd, &orders, sizeof(orders), -1, 0);
	crypto_wipe(&r, sizeof(r)); /* it may lie in a frame that others' processes begin with */
	c->reported = true;
	if (rc == -EPIPE)
		conns_stop_hearing(&c->session);
	else if (rc < 0)
		conns_disown(c, &c->session, rc);
}

/* ---- sessions ---- */

static void hear_session(struct monitor *m, struct conn *c)
{
	int rc = lend_hear(m->ledger, c, m->sv->raises);

	if (rc == -EPIPE)
		conns_stop_hearing(&c->session);
	else if (rc < 0)
		conns_disown(c, &c->session, rc);
}

/* Only one of whom it is known whose it is may say more. */
static void hear_gate_or_session(struct monitor *m, struct conn *c)
{
	if (*c->account)
		hear_session(m, c);
	else
		hear_gate(m, c);
}

/* ---- processes that have ended ---- */

static void forget_process(struct monitor *m, struct conn *c, struct proc *p)
{
	char text[80];

	lines_end(&p->log, p->pid, srv_peer_text(&c->ends.peer, text));
	if (p == &c->session) {
		if (*c->account)
			deadline_over(c, srv_stop);
		else
			deadline_checked(c, false);
		ledger_end(m->ledger, (uint64_t)p->pid);
		*c->account = '\0';
	}
	p->pid = 0;
	conns_stop_hearing(p);
	/* A front that is left may wait for its next turn; a gate that is left may still check. */
	if (c->turn.state == (p == &c->session ? TURN_CHECKS : TURN_WAITS))
		turn_end(c);
	if (!c->front.pid && !c->session.pid) {
		c->used = false;
		m->conns.nused--;
	}
}

static void find_process(struct monitor *m, pid_t pid)
{
	for (unsigned i = 0; i < m->conns.nslots; i++) {
		struct conn *c = &m->conns.slots[i];

		if (!c->used)
			continue;
		if (c->front.pid == pid)
			forget_process(m, c, &c->front);
		else if (c->session.pid == pid)
			forget_process(m, c, &c->session);
	}
}

static void say_refused_call(pid_t pid)
{
	char call[JAIL_CALL_TEXT];

	if (*jail_refused_call(pid, call))
		log_error("process %d: its filter refused system call %s", (int)pid, call);
	else
		log_error("process %d: its filter refused a system call; the kernel's log has the "
			  "number (journalctl -k -g type=1326, or ausearch -m SECCOMP)", (int)pid);
}

static void reap(struct monitor *m)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		find_process(m, pid);
		if (!WIFSIGNALED(status))
			continue;
		log_error("session process %d died of signal %d (%s)", (int)pid, WTERMSIG(status),
			  strsignal(WTERMSIG(status)));
		if (WTERMSIG(status) == SIGSYS)
			say_refused_call(pid);
	}
}

/* ---- settings anew ---- */

/* What next needs that there may not be. m is as before when it cannot be had. */
static int change(struct monitor *m, const struct srv_options *o, struct err *e)
{
	int rc;

	if (make_room(m, o->max_sessions) < 0)
		return err_sys(e, -ENOMEM, "max-sessions");
	if (ledger_change(m->ledger, o) < 0)
		return err_sys(e, -ENOMEM, "memory-budget");
	rc = listener_change(&m->listener, o, e);
	if (rc < 0)
		ledger_change(m->ledger, &m->sv->opt);
	return rc;
}

static void reread(struct monitor *m)
{
	struct err e = ERR_INIT;
	struct server next;
	int rc = srv_reload_begin(m->sv, &next, &e);

	if (rc == 0)
		rc = change(m, &next.opt, &e);
	notify_trouble(rc < 0 ? e.text : NULL);
	if (rc < 0) {
		log_error("%s", e.text);
		log_error("the settings stay as they were");
		srv_reload_drop(&next);
		return;
	}
	turns_change(&m->turns, &next.opt);
	if (srv_reload_end(m->sv, &next, &e) < 0)
		log_error("%s: the log stays where it was", e.text);
	log_info("settings read anew");
	srv_say_start(m->sv);
}

static void act_on_reread(struct monitor *m)
{
	signals_reread = 0;
	if (m->handover.replaced) {
		handover_reread(&m->handover);
		return;
	}
	notify_reloading();
	reread(m);
	notify_ready();
}

/* ---- the loop ---- */

static nfds_t gather(struct monitor *m, int *rest)
{
	nfds_t n = m->listener.nfds;

	memcpy(m->fds, m->listener.fds, n * sizeof(*m->fds));
	n += handover_gather(&m->handover, m->fds + n);
	return n + conns_gather(&m->conns, m->fds + n, rest);
}

static void hear_whom(struct monitor *m, int fd)
{
	handover_hear(&m->handover, fd);
	for (unsigned i = 0; i < m->conns.nslots; i++) {
		struct conn *c = &m->conns.slots[i];

		if (c->used && c->front.fd == fd)
			hear_front(m, c);
		else if (c->used && c->session.fd == fd)
			hear_gate_or_session(m, c);
	}
}

/* Whoever else wants to know what we have learns it. How long to sleep for his sake, in ms; -1: for
 * ever. */
static int tell_others(struct monitor *m)
{
	ledger_elsewhere(m->ledger, m->handover.memory);
	handover_tell(&m->handover, m->conns.nused, ledger_given(m->ledger));
	return notify_sessions(m->conns.nused, m->handover.sessions);
}

/* -1: for ever. */
static int sooner(int a, int b)
{
	return a < 0 || (b >= 0 && b < a) ? b : a;
}

/* ms, or until somebody may be late; -1: for ever. */
static int sleep_for(struct monitor *m, nfds_t n, int ms)
{
	struct timespec t = { 0 };

	ms = sooner(ms, deadlines_look(&m->conns));
	/* With something to hear ppoll(2) comes back at once, and no signal is taken: so first
	 * without, or who talks without end could keep them away. One that is taken there is to be
	 * acted on, not slept over. */
	if (ppoll(NULL, 0, &t, &m->waiting) < 0)
		ms = 0;
	t = (struct timespec){ .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000l };
	return ppoll(m->fds, n, ms < 0 ? NULL : &t, &m->waiting);
}

/* A look at all that there is, and what comes of it. */
static void look(struct monitor *m)
{
	int rest, ready, turn = start_logins(m);
	nfds_t n = gather(m, &rest), ports = m->listener.nfds;

	ready = sleep_for(m, n, sooner(turn, sooner(rest, tell_others(m))));

	if (ready > 0)
		conns_relay(&m->conns, m->fds + ports, n - ports);
	for (nfds_t i = ports; ready > 0 && i < n; i++)
		if (m->fds[i].revents)
			hear_whom(m, m->fds[i].fd);
	reap(m);
	if (srv_stop || m->handover.replaced)
		ports = 0;
	if (signals_next && !srv_stop) {
		signals_next = 0;
		handover_start(&m->handover, m->sv->argv, &m->listener, &m->waiting);
	}
	/* What the next one has read may be from before or after; it will be told. */
	if (signals_reread && !srv_stop && !handover_under_way(&m->handover)) {
		act_on_reread(m);
		return; /* what was polled may be closed */
	}
	for (nfds_t i = 0; ready > 0 && i < ports; i++)
		if (m->fds[i].revents)
			accept_connection(m, i);
}

static bool is_busy(const struct monitor *m)
{
	return m->conns.nused || m->handover.before >= 0;
}

/* Sessions finish what they are doing; a second signal does not wait for that. */
static void stop(struct monitor *m)
{
	unsigned sessions = m->conns.nused + m->handover.sessions;

	listener_close(&m->listener);
	if (sessions)
		log_info("stopping; sessions that end what they are doing: %u", sessions);
	notify_stopping(sessions);
	conns_signal(&m->conns, SIGTERM);
	deadlines_stop(&m->conns);
	handover_stop(&m->handover);
	while (is_busy(m) && srv_stop < 2)
		look(m);
	conns_signal(&m->conns, SIGKILL);
	handover_stop(&m->handover);
	log_info("stopped");
}

/* The next rftpd listens; what is here goes on until it ends. */
static void stay(struct monitor *m)
{
	listener_close(&m->listener);
	log_info("sessions that stay here: %u", m->conns.nused);
	while (is_busy(m) && !srv_stop)
		look(m);
}

static int start(struct monitor *m, struct err *e)
{
	const struct srv_options *o = &m->sv->opt;
	int rc;

	turns_change(&m->turns, o);
	m->ledger = ledger_new(o);
	if (!m->ledger || make_room(m, o->max_sessions) < 0)
		return err_sys(e, -ENOMEM, "max-sessions");
	rc = listener_open(&m->listener, o, m->given, e);
	return rc < 0 ? rc : handover_claim(&m->handover, e);
}

static int run(struct monitor *m)
{
	struct err e = ERR_INIT;

	json_wipes();
	handover_init(&m->handover, m->given);
	signals_begin(&m->waiting, srv_has_reload(m->sv));
	if (start(m, &e) < 0) {
		log_error("%s", e.text);
		handover_failed(m->given, e.text);
		return EXIT_START;
	}
	notify_ready();
	while (!srv_stop && !m->handover.replaced)
		look(m);
	if (m->handover.replaced)
		stay(m);
	stop(m);
	return EXIT_SUCCESS;
}

int srv_listen(struct server *sv, const struct activation *given)
{
	struct monitor m = { .sv = sv, .pid = getpid(), .given = given };
	int status = run(&m);

	ledger_free(m.ledger);
	conns_free(&m.conns);
	free(m.fds);
	return status;
}
