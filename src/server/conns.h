// SPDX-License-Identifier: Apache-2.0
/* The monitor's table of connections and their processes. */
#ifndef RFTP_SERVER_CONNS_H
#define RFTP_SERVER_CONNS_H

#include "server/monitor.h"
#include "server/lines.h"
#include "server/server.h"

#include <poll.h>
#include <sys/types.h>

/* One of a connection's processes. */
struct proc {
	pid_t pid;       /* 0: there is none */
	int fd;          /* it is heard by; -1: not */
	struct lines log; /* its lines */
};

enum turn_state { TURN_NONE, TURN_WAITS, TURN_CHECKS };

/* In the queue of logins, turns.h. Times are in ms. */
struct turn {
	enum turn_state state;
	bool check;            /* it takes a password check */
	uint64_t place, number; /* the lowest place is next, of those the lowest number */
	uint64_t asked, ready; /* ready: not before that */
};

struct conn {
	bool used;
	struct ends ends;
	struct proc front;     /* or the only one */
	struct proc session;   /* the gate at first */
	char user[NAME_ROOM];  /* who wants to log in */
	char account[64];      /* whose the session is; "": nobody's yet */
	bool reported;         /* the gate has said how its check ended */
	bool counted;          /* the session asks for the memory of transfers */
	struct turn turn;      /* of user's login */
	bool checks;           /* the only process checks a password now */
	unsigned gates;        /* that the front has asked for */
	uint64_t front_until, gate_until; /* ns, deadlines.h; 0: as long as it likes */
	uint64_t front_last;   /* ns: no gate more moves front_until beyond that */
	bool lingers;          /* there was a session, whose client hears the rest of the front */
};

/* All zero: there is no room yet. */
struct conns {
	struct conn *slots;    /* [nslots] */
	unsigned nslots, nused; /* who sets used counts nused */
};

/* Room for n connections; what there is stays, where it is not more. 0 or -ENOMEM. */
int conns_room(struct conns *t, unsigned n);
void conns_free(struct conns *t);
/* One that is not used; NULL: all are. */
struct conn *conns_unused(const struct conns *t);
/* Connections from peer's host. */
unsigned conns_of(const struct conns *t, const struct sockaddr_storage *peer);
/* Sessions of account. */
unsigned conns_as(const struct conns *t, const char *account);
/* To all processes. */
void conns_signal(const struct conns *t, int sig);
enum { CONN_FDS = 4 }; /* of a connection, at most */

/* Those that are heard into fds, which has room for CONN_FDS per connection; how many. *rest: ms
 * until there are more, for who has said too much rests; -1: nobody does. */
nfds_t conns_gather(const struct conns *t, struct pollfd *fds, int *rest);
/* In a child: none is heard any more. */
void conns_leave(struct conns *t);
void conns_stop_hearing(struct proc *p);
/* Log what has come of those whose lines are among the n of fds that are ready. Who sends others is
 * ended. */
void conns_relay(struct conns *t, const struct pollfd *fds, nfds_t n);
/* p does what ours does not: it is somebody else's by now, and ended. rc: how that shows, -EPROTO:
 * by what it asks for. */
void conns_disown(struct conn *c, struct proc *p, int rc);

#endif
