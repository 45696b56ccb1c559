// SPDX-License-Identifier: Apache-2.0
/* Handles the requests of the processes that the monitor has forked. It trusts none of them: a
 * process is killed if its request breaks the rules. */
#include "server/monitor/monitor.h"
#include "server/auth/auth.h"
#include "server/monitor/msg.h"

#include <inttypes.h>

enum {
	AT_ONCE = 64,              /* packets read from one process before the others get their
				    * turn */
	ROUNDS = 64,               /* such turns at the end of a process; enough to empty its
				    * pipe */
	LOGINS_MOST = 16,          /* login requests of a connection: more than the FTP server lets
				    * a client try */
	FACTS_SEND_MS = 10 * 1000,
	REPORT_DROPPED_MS = 10 * 1000,
};

static uint64_t handlers_now_ms(void)
{
	return now_ns() / 1000000;
}

/* ---- log lines ---- */

static void log_report_dropped(const struct conn *c, struct proc *p)
{
	char text[80];

	if (p->quota.dropped)
		log_warn("dropped %" PRIu64 " line%s of process %d, which serves %s: too many at "
			 "once", p->quota.dropped, plural(p->quota.dropped), (int)p->pid,
			 sockaddr_text(&c->ends.peer, text));
	p->quota.dropped = 0;
	p->quota.reported_ms = handlers_now_ms();
}

static int log_relay_line(const struct conn *c, struct proc *p, const void *record, size_t len)
{
	char text[80];

	if (!quota_line(&p->quota, len))
		return 0;
	if (handlers_now_ms() - p->quota.reported_ms >= REPORT_DROPPED_MS)
		log_report_dropped(c, p);
	return log_relay(p->pid, sockaddr_text(&c->ends.peer, text), record, len);
}

static void log_drop_record(struct proc *p)
{
	pages_free(p->record, LOG_RECORD_MAX);
	p->record = NULL;
}

/* Handle a log record, or the next part of one. Most records fit into one packet. A longer record
 * is collected in memory that later children do not inherit, so that they cannot read the lines of
 * other processes. */
static int handle_log(struct monitor *m, struct conn *c, struct proc *p,
		      const struct request_head *head, size_t len)
{
	int rc;

	if (head->type == REQUEST_LOG) {
		log_drop_record(p); /* the process has abandoned its last record */
		if (head->size > LOG_RECORD_MAX || len > head->size)
			return -EPROTO;
		if (len == head->size)
			return log_relay_line(c, p, head + 1, len);
		p->record = pages_new(LOG_RECORD_MAX);
		if (!p->record || madvise(p->record, LOG_RECORD_MAX, MADV_DONTFORK) < 0)
			return -errno;
		p->record_len = 0;
		p->record_size = head->size;
	} else if (!p->record || len > p->record_size - p->record_len) {
		return -EPROTO;
	}

	memcpy(p->record + p->record_len, head + 1, len);
	p->record_len += len;
	if (p->record_len < p->record_size)
		return 0;
	rc = log_relay_line(c, p, p->record, p->record_len);
	log_drop_record(p);
	return rc;
}

/* ---- logins ---- */

static int handle_login(struct monitor *m, struct conn *c, struct proc *p,
			const struct request_head *head, size_t len)
{
	const struct login_request *r = (const void *)(head + 1);
	bool anonymous;

	if (!memchr(r->user, '\0', sizeof(r->user)) || c->logins++ == LOGINS_MOST)
		return -EPROTO;

	memcpy(c->user, r->user, sizeof(c->user));
	anonymous = m->sv->opt.anonymous && auth_is_anonymous(c->user);
	turn_ask(&m->turns, &m->conns, c, !anonymous, handlers_now_ms());
	return 0;
}

/* Reply to the login request of c. line: the descriptor that connects to the auth process; -1:
 * none. */
static void login_answer(struct conn *c, int code, int line)
{
	struct login_reply a = { .code = code };

	/* Do not wait: if the process does not read the reply, its deadline ends it. */
	msg_send(c->preauth.channel.down, &a, sizeof(a), line, 0);
}

/* Refuse the login of c. why: the reason to log; NULL: log nothing. */
static void login_refuse(struct monitor *m, struct conn *c, enum login_cause cause, const char *why)
{
	m->metrics.refused_logins[cause]++;
	if (why)
		refusal_log(&c->ends.peer, why);
	deadline_refused(c, handlers_now_ms() - c->turn.asked);
	c->preauth.state = STATE_PREAUTH;
	login_answer(c, -EAGAIN, -1);
}

static void login_start_auth(struct monitor *m, struct conn *c)
{
	struct channel channel;
	int line[2];
	pid_t pid = msg_pair(line);

	if (pid == 0) {
		struct ends ends = c->ends; /* the child must not use c, which it has wiped */
		char user[NAME_ROOM];

		memcpy(user, c->user, sizeof(user));
		pid = proc_fork(m, &c->session, STATE_CHECKING, &quota_session, &channel);
		if (pid == 0) {
			close(line[1]);
			exit(auth_process_run(m->sv, line[0], &channel, &ends, user));
		}
		close(line[0]);
		if (pid > 0) {
			deadline_check(c, handlers_now_ms() - c->turn.asked,
				       m->sv->opt.login_timeout);
			turn_begin(&m->turns, c);
			c->preauth.state = STATE_WAITING;
			login_answer(c, 0, line[1]);
		}
		close(line[1]);
	}
	if (pid < 0) {
		log_error("no process for a login: %s", strerror(-pid));
		login_refuse(m, c, LOGIN_ERROR, NULL);
	}
}

/* Start a login; or delay or refuse it for earlier failures. The delay counts from its request. */
static void login_start(struct monitor *m, struct conn *c)
{
	uint64_t now = handlers_now_ms();
	int wait = m->sv->separate ? penalty_ask(m->penalty, now, &c->ends.peer, c->user) : 0;

	if (srv_stop) {
		login_refuse(m, c, LOGIN_ERROR, NULL);
	} else if (wait == PENALTY_REFUSED) {
		login_refuse(m, c, LOGIN_THROTTLED, "too many wrong passwords");
	} else if (turn_is_late(&m->turns, c, now)) {
		login_refuse(m, c, LOGIN_BUSY, "too many logins at once; see max-checks");
	} else if (c->turn.asked + (unsigned)wait > now) {
		c->turn.ready = c->turn.asked + (unsigned)wait;
	} else if (m->sv->separate) {
		login_start_auth(m, c);
	} else {
		/* The connection's only process checks the password itself, with the same
		 * deadline. */
		turn_begin(&m->turns, c);
		c->preauth.state = STATE_CHECKING;
		deadline_begin(c, m->sv->opt.login_timeout);
		login_answer(c, 0, -1);
	}
}

int logins_start(struct monitor *m)
{
	struct conn *c;
	int rest;

	while ((c = turns_next(&m->turns, &m->conns, handlers_now_ms(), &rest)))
		login_start(m, c);
	return rest;
}

/* ---- reports ---- */

/* Fill l for a session of account. 0, or a negative errno: the session may not begin. */
static int report_begin_session(struct monitor *m, struct conn *c, const char *account,
				struct session_limits *l)
{
	unsigned most = m->sv->opt.max_per_user, n = 0;
	struct transfer_tuning t;
	struct err e = ERR_INIT;

	for (unsigned i = 0; i < m->conns.nslots; i++) {
		const struct conn *d = &m->conns.slots[i];

		n += d->used && !strcmp(d->account, account);
	}
	if (most && n >= most) {
		err_set(&e, -EAGAIN, "too many sessions of %s", printable(account));
		refusal_log(&c->ends.peer, e.text);
		m->metrics.refused_logins[LOGIN_SESSIONS]++;
		return e.code;
	}

	snprintf(c->account, sizeof(c->account), "%s", account);
	transfer_tuning_default(&t);
	l->counted = m->counted;
	l->memory = m->sv->opt.tuning.memory;
	l->lock = m->counted ? budget_most(&m->budget) : l->memory ? l->memory : t.memory;
	if (m->counted && m->sv->raises)
		l->lock = 0; /* instead, each reply to a memory request raises the limit */
	return 0;
}

static void report_count_refusal(struct monitor *m, int code)
{
	enum login_cause cause = code == -EACCES ? LOGIN_PASSWORD :
				 code == -EKEYREJECTED ? LOGIN_CERTIFICATE :
				 code == -EKEYEXPIRED ? LOGIN_EXPIRED : LOGIN_ERROR;

	m->metrics.refused_logins[cause] += code != 0;
}

/* Handle the report of an auth process. */
static int report_auth(struct monitor *m, struct conn *c, struct proc *p,
		       const struct check_report *r)
{
	struct session_limits limits = { .code = 0 };
	uint64_t now = handlers_now_ms();
	bool in;
	int rc;

	if (r->code > 0 || !memchr(r->name, '\0', sizeof(r->name)))
		return -EPROTO;

	if (r->code == -EACCES)
		penalty_failed(m->penalty, now, &c->ends.peer, c->user);
	else if (r->code == 0 && !auth_is_anonymous(c->user))
		penalty_succeeded(m->penalty, now, &c->ends.peer, c->user);
	if (r->code == 0)
		limits.code = report_begin_session(m, c, r->name, &limits);

	in = *c->account != '\0';
	report_count_refusal(m, r->code);
	p->state = in ? STATE_SESSION : STATE_LOG_ONLY;
	if (c->preauth.state == STATE_WAITING)
		c->preauth.state = in ? STATE_LOG_ONLY : STATE_PREAUTH;
	deadline_checked(c, in);
	rc = msg_send(p->channel.down, &limits, sizeof(limits), -1, 0);

	/* There will be no more replies: close the channels down. */
	if (in)
		cleanup_close(&c->preauth.channel.down);
	else
		cleanup_close(&p->channel.down);
	return rc;
}

static int handle_report(struct monitor *m, struct conn *c, struct proc *p,
			 const struct request_head *head, size_t len)
{
	const struct check_report *r = (const void *)(head + 1);

	if (p == &c->session)
		return report_auth(m, c, p, r);
	report_count_refusal(m, r->code);
	p->state = STATE_PREAUTH; /* the connection's only process may check another login */
	deadline_checked(c, true);
	return 0;
}

/* ---- memory ---- */

static int handle_memory(struct monitor *m, struct conn *c, struct proc *p,
			 const struct request_head *head, size_t len)
{
	const struct memory_request *r = (const void *)(head + 1);
	struct memory_reply a = { .code = 0 };
	struct err e = ERR_INIT;
	char text[80];

	if (!m->counted || p->channel.down < 0) /* the session may have ended */
		return -EPROTO;
	a.code = budget_change(&m->budget, &m->conns, c, r->memory, &e);
	a.memory = c->memory;
	if (a.code == 0 && m->sv->raises)
		a.code = locked_limit(p->pid, a.memory, &e);

	if (a.code && quota_line(&p->quota, strlen(e.text)))
		log_warn("memory for a transfer of \"%s\" from %s refused: %s",
			 printable(c->account), sockaddr_text(&c->ends.peer, text), e.text);
	snprintf(a.why, sizeof(a.why), "%.*s", (int)sizeof(a.why) - 1, a.code ? e.text : "");
	return msg_send(p->channel.down, &a, sizeof(a), -1, 0);
}

/* ---- accounting ---- */

static int handle_session(struct monitor *m, struct conn *c, struct proc *p,
			  const struct request_head *head, size_t len)
{
	const struct session_report *r = (const void *)(head + 1);

	if ((p == &c->preauth && m->sv->separate) || !memchr(r->name, '\0', sizeof(r->name)))
		return -EPROTO;
	if (p->state == STATE_PREAUTH) { /* the connection's only process */
		p->state = STATE_SESSION;
		memcpy(c->account, r->name, sizeof(c->account));
	}
	return metrics_session(m, c, r);
}

static int handle_transfer(struct monitor *m, struct conn *c, struct proc *p,
			   const struct request_head *head, size_t len)
{
	return metrics_transfer(m, c, (const void *)(head + 1));
}

/* May c's session see d's transfer? Anonymous clients are one user only on the same host. */
static bool status_shows(const struct monitor *m, const struct conn *c, const struct conn *d)
{
	if (auth_is_anonymous(c->account))
		return auth_is_anonymous(d->account) &&
		       srv_same_host(&c->ends.peer, &d->ends.peer);
	return !strcmp(c->account, d->account) || list_has(m->sv->opt.admin, c->account);
}

static int handle_status(struct monitor *m, struct conn *c, struct proc *p,
			 const struct request_head *head, size_t len)
{
	const struct status_request *q = (const void *)(head + 1);
	struct status_reply a = { .next = 0 };

	for (unsigned i = q->from; i < m->conns.nslots && !a.next; i++) {
		const struct conn *d = &m->conns.slots[i];

		if (!d->used || !d->activity.running || !status_shows(m, c, d))
			continue;
		a.next = i + 1;
		a.age = now_ns() - d->activity.began;
		a.transfer = d->activity.report;
		memcpy(a.user, d->account, sizeof(a.user));
		sockaddr_text(&d->ends.peer, a.peer);
	}
	return msg_send(p->channel.down, &a, sizeof(a), -1, 0);
}

/* ---- facts of this machine ---- */

/* A child does it: drivers may be slow. One child at a time, so that sessions cannot start many. */
static int handle_facts(struct monitor *m, struct conn *c, struct proc *p,
			const struct request_head *head, size_t len)
{
	const struct facts_request *q = (const void *)(head + 1);
	struct facts_reply *a = pages_new(sizeof(*a));
	const struct sockaddr_storage peer = c->ends.peer;
	struct err e = ERR_INIT;
	int rc = 0, down;

	if (!a)
		return -ENOMEM;
	a->code = m->facts ? -EBUSY : 0;
	if (!a->code) {
		m->facts = fork();
		if (m->facts < 0) {
			a->code = -errno;
			m->facts = 0;
		} else if (m->facts == 0) {
			down = dup(p->channel.down);
			proc_begin_child(m);
			a->code = facts_lines(&peer, q->storage, a->text, FACTS_ROOM, &e);
			if (a->code)
				log_error("%s", e.text);
			_exit(msg_send(down, a, sizeof(*a), -1, FACTS_SEND_MS) < 0);
		}
	}
	if (a->code)
		rc = msg_send(p->channel.down, a, sizeof(*a), -1, 0);
	pages_free(a, sizeof(*a));
	return rc;
}

/* ---- the table ---- */

static const struct request_rule {
	enum request_type type;
	unsigned states;   /* the states in which a process may send it; in STATE_CHECKING only
			    * once */
	size_t size;       /* bytes of its body; 0: any number */
	int (*handle)(struct monitor *m, struct conn *c, struct proc *p,
		      const struct request_head *head, size_t len);
} request_rules[] = {
	{ REQUEST_LOG, ~0u, 0, handle_log },
	{ REQUEST_LOG_MORE, ~0u, 0, handle_log },
	{ REQUEST_LOGIN, STATE_PREAUTH, sizeof(struct login_request), handle_login },
	{ REQUEST_REPORT, STATE_CHECKING, sizeof(struct check_report), handle_report },
	{ REQUEST_MEMORY, STATE_SESSION, sizeof(struct memory_request), handle_memory },
	{ REQUEST_SESSION, STATE_PREAUTH | STATE_SESSION, sizeof(struct session_report),
	  handle_session },
	{ REQUEST_TRANSFER, STATE_SESSION, sizeof(struct transfer_report), handle_transfer },
	{ REQUEST_STATUS, STATE_SESSION, sizeof(struct status_request), handle_status },
	{ REQUEST_FACTS, STATE_SESSION, sizeof(struct facts_request), handle_facts },
};

static int request_handle(struct monitor *m, struct conn *c, struct proc *p,
			  const struct request_head *head, size_t len)
{
	for (size_t i = 0; i < sizeof(request_rules) / sizeof(request_rules[0]); i++) {
		const struct request_rule *r = &request_rules[i];

		if (r->type != head->type)
			continue;
		if (!(r->states & p->state) || (r->size && r->size != len))
			return -EPROTO;
		if (r->size)
			quota_take(&p->quota, handlers_now_ms(), 0);
		return r->handle(m, c, p, head, len);
	}
	return -EPROTO;
}

int proc_read(struct monitor *m, struct conn *c, struct proc *p)
{
	/* Zeroed after each packet: children begin as a copy of this process. */
	static uint8_t packet[REQUEST_MAX] __attribute__((aligned(8)));
	const struct request_head *head = (const void *)packet;
	int n, rc = 0;

	if (p->channel.up < 0 || quota_rest(&p->quota, handlers_now_ms()))
		return 0;
	for (int i = 0; rc == 0 && i < AT_ONCE; i++) {
		n = channel_read(&p->channel, packet);
		if (n < 0)
			return n == -EAGAIN ? 0 : n;
		rc = request_handle(m, c, p, head, (size_t)n - sizeof(*head));
		explicit_bzero(packet, (size_t)n);
	}
	return rc;
}

/* End a login that p has queued or checks itself, and close p's channel. */
static void proc_close(struct conn *c, struct proc *p)
{
	if (p == &c->preauth && p->state == STATE_CHECKING)
		deadline_checked(c, true);
	if (p->state != STATE_WAITING)
		p->state = STATE_LOG_ONLY;
	channel_close(&p->channel);
	log_drop_record(p);
}

void proc_hear(struct monitor *m, struct conn *c, struct proc *p)
{
	int rc = proc_read(m, c, p);
	char text[80];

	if (rc == 0)
		return;
	if (rc != -EPIPE) {
		log_error("%s of %s: %s: killed", p == &c->preauth ? "preauth process" : "session",
			  sockaddr_text(&c->ends.peer, text),
			  rc == -EPROTO ? "it sent a request that is not allowed" : strerror(-rc));
		kill(p->pid, SIGKILL);
	}
	proc_close(c, p);
}

void proc_finish(struct monitor *m, struct conn *c, struct proc *p)
{
	int rc = 0;

	/* In STATE_LOG_ONLY and STATE_WAITING requests other than log lines are refused; without
	 * the channel down, requests that need a reply. */
	cleanup_close(&p->channel.down);
	if (p->state != STATE_WAITING && p->state != STATE_SESSION && m->sv->separate)
		p->state = STATE_LOG_ONLY;
	for (int i = 0; i < ROUNDS && rc == 0 && poll_fd(p->channel.up, POLLIN, 0) > 0; i++) {
		p->quota.rests_ms = 0;
		rc = proc_read(m, c, p);
	}
	log_report_dropped(c, p);
	proc_close(c, p);
}
