// SPDX-License-Identifier: Apache-2.0
/* The monitor's data: connections, their processes, and the limits for all of them. The monitor has
 * one thread. */
#ifndef RFTP_SERVER_MONITOR_MONITOR_H
#define RFTP_SERVER_MONITOR_MONITOR_H

#include "server/auth/auth.h"
#include "server/handover.h"
#include "server/monitor/msg.h"
#include "server/server.h"

#include <poll.h>
#include <signal.h>
#include <sys/types.h>

struct conn;
struct conns;

/* ---- penalties, throttle.c ---- */

/* Wrong passwords are counted per host and per user, in memory of fixed size, and forgiven after
 * some time. now is the caller's monotonic clock, in ms.
 *
 * A host waits longer after each failure, and after too many it is refused. A user waits, too, but
 * is never refused: otherwise any client could lock the user out. This wait of a user does not
 * apply at a host from which the user has logged in before. */
enum {
	PENALTY_FORGIVE_MS = 60 * 1000, /* the time after which one failure is forgiven */
	PENALTY_HOST_MAX = 10,          /* with so many unforgiven failures a host is refused */
	PENALTY_HOST_WAIT_MS = 16 * 1000,
	PENALTY_USER_WAIT_MS = 4 * 1000,
	PENALTY_REFUSED = -1,
};

struct penalty;

/* Make tables for at most most hosts, as many users, and as many pairs of both. NULL: out of
 * memory. */
struct penalty *penalty_new(unsigned most);
void penalty_free(struct penalty *p);
/* The time that a login of user from host must wait before its check, in ms; or PENALTY_REFUSED. */
int penalty_ask(const struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		const char *user);
void penalty_failed(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		    const char *user);
/* user has logged in from host. This forgives no failures: otherwise a client with an account of
 * its own could guess passwords of others without limit. Do not call it for anonymous. */
void penalty_succeeded(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		       const char *user);

/* ---- the queue of logins ---- */

/* A password check takes 32 MiB and 0.1 s of CPU time, so the number of concurrent checks is
 * limited. Times are the caller's monotonic clock, in ms.
 *
 * The queue is fair among hosts (start-time fair queueing, Goyal, Vin and Cheng 1996): a login
 * waits for at most one check of each other host, and for the earlier logins of its own host. A
 * host gets at most half of the concurrent checks, so that checks that hang leave room for other
 * hosts. */
struct turns {
	unsigned most;           /* the most concurrent checks */
	uint64_t patience;       /* the most ms that a login may wait */
	uint64_t served;         /* the highest place of all logins that had their turn */
	uint64_t asked;          /* the number of logins so far */
};

/* A login in the queue, or in progress. */
struct turn {
	bool check;              /* it needs a password check */
	uint64_t place, number;  /* the lowest place is next; of equal places, the lowest number */
	uint64_t asked, ready;   /* when it was requested; ready: its turn cannot come earlier */
};

/* Apply the limits of o. */
void turns_change(struct turns *t, const struct srv_options *o);
/* Queue c's login. check: it needs a password check. */
void turn_ask(struct turns *t, const struct conns *all, struct conn *c, bool check, uint64_t now);
/* Has c waited too long? */
bool turn_is_late(const struct turns *t, const struct conn *c, uint64_t now);
/* The connection of the next login that can start, or that has waited too long. NULL: there is
 * none; *rest is the ms after which to ask again, -1: not before a check ends. */
struct conn *turns_next(const struct turns *t, const struct conns *all, uint64_t now, int *rest);
/* The turn of c, which turns_next() returned, has come. */
void turn_begin(struct turns *t, struct conn *c);

/* ---- deadlines before the login ---- */

/* Preauth and auth processes have time limits of their own. These deadlines are for processes that
 * an attacker has taken over, or that hang in a system call. Times are in ns, as now_ns(). */
struct deadline {
	uint64_t preauth, auth;  /* 0: none */
	uint64_t preauth_last;   /* no further login moves preauth beyond this time */
	bool lingers;            /* the session has ended, and its client reads the last output */
};

/* c's preauth process has begun. However many logins it requests, its total time is at most twice
 * login_timeout, plus 10 s, plus the wait of its last login. */
void deadline_begin(struct conn *c, uint64_t login_timeout);
/* c's auth process has begun, and has login_timeout. The preauth process has waited waited_ms for
 * that. */
void deadline_check(struct conn *c, uint64_t waited_ms, uint64_t login_timeout);
/* c's login was refused after a wait of waited_ms: give its preauth process time to tell the
 * client. */
void deadline_refused(struct conn *c, uint64_t waited_ms);
/* The auth process has reported a result, or has ended. in: c has logged in. */
void deadline_checked(struct conn *c, bool in);
/* The session has ended: give the client time to read its last output. stopping: the server is
 * stopping, so give less time. */
void deadline_over(struct conn *c, bool stopping);
/* The server stops: preauth processes without a session have only time to send a last reply. */
void deadlines_stop(struct conns *t);
/* Kill processes after their deadline. Returns the ms until the next deadline; -1: there is
 * none. */
int deadlines_enforce(struct conns *t);

/* ---- quotas of log lines and requests ---- */

/* At most burst bytes at once, and rate bytes per second. */
struct quota_limits {
	uint64_t burst, rate;
};

extern const struct quota_limits quota_preauth, quota_session;

/* The quota of one process. A process over its quota is not read for some milliseconds: its packets
 * stay in the pipe, a full pipe makes the process wait, and the monitor stays idle. */
struct quota {
	const struct quota_limits *limits;
	uint64_t room, at_ms;    /* bytes that the process may use, and the time of that
				  * computation */
	uint64_t dropped;        /* lines dropped since the last report */
	uint64_t reported_ms;    /* the time of the last report */
	uint64_t rests_ms;       /* the process is not read before this time */
};

void quota_init(struct quota *q, const struct quota_limits *l, uint64_t now_ms);
/* Is there room for len bytes at now_ms? If so, count them; otherwise the process is not read for a
 * while. Pure. */
bool quota_take(struct quota *q, uint64_t now_ms, size_t len);
/* quota_take() of a log line at the current time; without room it is counted as dropped. */
bool quota_line(struct quota *q, size_t len);
/* The ms for which the process must not be read. */
unsigned quota_rest(const struct quota *q, uint64_t now_ms);

/* ---- the memory budget, budget.c ---- */

/* Divides a budget into parts, for sessions that begin and end at any time. A part cannot be taken
 * back before its session returns it. No function depends on time.
 *
 * All sessions of a user together get at most as much as stays free for other users, and one
 * session at most half of the memory that its user may still get. So a single user gets up to half
 * of the budget; n users that all want much get equal parts after some time; and a user without a
 * part gets the least useful amount as long as that much is free. */
struct budget {
	uint64_t total, least, most; /* bytes, multiples of the page size */
};

/* A session gets at least least bytes (a page or more; less would be useless) and at most most
 * bytes (0: no limit). The total is 0. */
void budget_init(struct budget *b, uint64_t least, uint64_t most);
/* Change the total, in bytes; parts that sessions have do not change. */
void budget_resize(struct budget *b, uint64_t total);
/* Change the part of c's session, c->memory, to bytes, rounded up to pages and to the least part, or
 * to less if that is too much. 0; -EAGAIN with text: the part could not grow. */
int budget_change(const struct budget *b, const struct conns *all, struct conn *c, uint64_t bytes,
		  struct err *e);
/* The most bytes that a session can have. */
uint64_t budget_most(const struct budget *b);
/* The bytes of all parts of user; NULL: of all users. */
uint64_t budget_given(const struct conns *all, const char *user);
/* Set the limit of locked memory of process pid (0: this one) to the amount that pools of so many
 * bytes need; the process cannot raise it. 0, or a negative errno with text. */
int locked_limit(pid_t pid, uint64_t pools, struct err *e);

/* ---- metrics, metrics.c ---- */

enum { REFUSED_ADDRESS, REFUSED_SESSIONS, REFUSED_HOST, REFUSED_PROCESS, REFUSALS };
enum login_cause {
	LOGIN_PASSWORD, LOGIN_CERTIFICATE, LOGIN_EXPIRED, LOGIN_THROTTLED, LOGIN_BUSY,
	LOGIN_SESSIONS, LOGIN_ERROR, LOGIN_CAUSES,
};
enum { FAILURES = 10 };

/* Counters since the start, for the file of --metrics-file. Index [2]: in clear or under TLS;
 * received or sent. */
struct metrics {
	uint64_t started;        /* s since 1970 */
	uint64_t refused[REFUSALS], refused_logins[LOGIN_CAUSES], logins[AUTH_SELF], sessions[2];
	uint64_t transfers[2][CARRIERS], bytes[2][CARRIERS], files[2][CARRIERS];
	uint64_t failures[FAILURES], files_failed[2];
	/* Gauges, set for each write. */
	uint64_t connections, sessions_now[2], transfers_now[2], before, budget, memory;
	uint64_t next;           /* the time of the next write; ns, as now_ns() */
	pid_t writer;            /* a child that writes the file; 0: none */
};

/* The reports of a connection's session, which may lie: its counts never decrease, and grow no
 * faster than a machine can move bytes and files. */
struct activity {
	uint64_t since, began;   /* ns; the start of the connection, and of its last transfer */
	bool begun, tls;         /* there is a session */
	bool running;            /* report is of a transfer that has not ended */
	struct transfer_report report; /* the last one */
	uint64_t bytes, files;   /* the sums of all its transfers; files: also failed ones */
};

struct monitor;

/* Handle the reports of c's session. 0 or -EPROTO. */
int metrics_session(struct monitor *m, struct conn *c, const struct session_report *r);
int metrics_transfer(struct monitor *m, struct conn *c, const struct transfer_report *r);
/* c's session has ended: so has its transfer, if it has not reported an end. */
void metrics_session_over(struct monitor *m, struct conn *c);
/* Write the lines about network cards and RDMA ports; sysfs: as facts_cards(). */
void metrics_put_cards(FILE *out, const char *sysfs);
/* Write the file of --metrics-file, if there is one, and without connections with the last gauges.
 * 0, or a negative errno with text. */
int metrics_write(struct monitor *m, struct err *e);
/* pid has ended with status of waitpid(2). True: it was a writer of the file. */
bool metrics_reaped(struct monitor *m, pid_t pid, int status);
/* Write the last file, after a writer that still runs, but do not wait long for it. */
void metrics_end(struct monitor *m);
/* Start a child that writes the file, if it is time. Returns the ms after which to call again; -1:
 * not before a child ends, or the settings change. */
int metrics_tend(struct monitor *m);

/* ---- processes and connections ---- */

/* The state of a process. Bits, for the table of requests in handlers.c. */
enum proc_state {
	STATE_PREAUTH = 1,   /* preauth, or the connection's only process: no login in progress */
	STATE_QUEUED = 2,    /* the same process: its login waits for its turn */
	STATE_WAITING = 4,   /* preauth: an auth process checks its login */
	STATE_CHECKING = 8,  /* auth, or the only process: checks a login */
	STATE_SESSION = 16,  /* has logged in; memory, reports, status of transfers */
	STATE_LOG_ONLY = 32, /* may send only log lines */
};

/* A process of a connection. */
struct proc {
	pid_t pid;             /* 0: there is none */
	enum proc_state state;
	struct channel channel;
	int polled;            /* its index in the monitor's fds; -1: not polled in this round */
	struct quota quota;
	uint8_t *record;       /* the received part of a log record; NULL: none is incomplete */
	size_t record_len, record_size;
};

struct conn {
	bool used;
	struct ends ends;
	struct proc preauth;   /* or the connection's only process */
	struct proc session;   /* the auth process at first */
	char user[NAME_ROOM];  /* the user of the login in progress */
	char account[64];      /* the account of the session; "": no login has succeeded */
	uint64_t memory;       /* the session's part of the memory budget, in bytes */
	unsigned logins;       /* login requests of the preauth process so far */
	struct activity activity;
	struct turn turn;      /* the place of its login in the queue */
	struct deadline deadline;
};

/* All zero: empty. */
struct conns {
	struct conn *slots;    /* [nslots] */
	unsigned nslots, nused;
};

struct monitor {
	struct server *sv;
	struct listener listener;
	struct penalty *penalty;
	bool counted;              /* sessions request memory, from budget */
	struct budget budget;
	uint64_t memory_elsewhere; /* bytes that sessions of previous generations have */
	struct conns conns;
	struct turns turns;
	struct handover handover;
	struct metrics metrics;
	pid_t facts;               /* a child that reads this machine's facts; 0: none */
	/* The descriptors polled in a round: of the listener, the handover, the processes;
	 * [LISTEN_MAX + HANDOVER_FDS + 2 * nslots]. */
	struct pollfd *fds;
	sigset_t waiting;      /* the signal mask while the monitor sleeps */
	pid_t pid;
};

/* ---- monitor.c ---- */

/* Fork a child. In the parent: its pid, and *p is filled, with this state; or a negative errno. In
 * the child: 0; the monitor's descriptors are closed and its data is wiped; *child is the channel
 * to the monitor, and, with separate processes, log lines are sent through it. */
pid_t proc_fork(struct monitor *m, struct proc *p, enum proc_state state,
		const struct quota_limits *quota, struct channel *child);
/* In a child: close and forget everything about connections. */
void proc_begin_child(struct monitor *m);
/* Log that the monitor refuses a client at peer, and why. */
void refusal_log(const struct sockaddr_storage *peer, const char *why);

/* ---- handlers.c ---- */

/* Read and handle some requests of p, a process of c. 0; -EPIPE: p has closed its channel; -EPROTO:
 * p has sent a request that is malformed or not allowed in its state; or another negative errno. */
int proc_read(struct monitor *m, struct conn *c, struct proc *p);
/* The same, and after an error close p's channel; after an error other than -EPIPE also kill p. */
void proc_hear(struct monitor *m, struct conn *c, struct proc *p);
/* p has ended: relay its last log lines, handle its last reports, and close its channel. */
void proc_finish(struct monitor *m, struct conn *c, struct proc *p);
/* Start the logins that have their turn. Returns the ms after which to call again; -1: not before a
 * check ends. */
int logins_start(struct monitor *m);

#endif
