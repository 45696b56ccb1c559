// SPDX-License-Identifier: Apache-2.0
/* Lines of the log from fronts and sessions: the monitor alone has the log open, knows whose each
 * line is, and takes only so many. */
#ifndef RFTP_SERVER_LINES_H
#define RFTP_SERVER_LINES_H

#include "util/util.h"

#include <stdint.h>

/* What a process may say: burst bytes at once, and rate bytes a second. */
struct lines_limits {
	uint64_t burst, rate;
};

extern const struct lines_limits lines_stranger, lines_known;

/* One process's, in the monitor. */
struct lines {
	int fd;                /* its lines come by it; -1: no more */
	const struct lines_limits *limits;
	uint64_t room, at_ms;  /* bytes that it may say, as of when */
	uint64_t dropped;      /* lines that were too many, and were not told of yet */
	uint64_t told_ms;      /* when others were */
	uint64_t rests_ms;     /* until then it is not heard */
};

void lines_init(struct lines *r, const struct lines_limits *l, int fd, uint64_t now_ms);
/* Pure: may a line of len bytes be said at now_ms? Then it is counted. */
bool lines_may(struct lines *r, uint64_t now_ms, size_t len);
/* In the monitor: may a line of len bytes be logged that is none of its own, but of what it asks
 * for? Otherwise it is left out, and the process is not heard for a moment. */
bool lines_allow(struct lines *r, size_t len);
/* It has asked for something, which costs as much as an empty line. */
void lines_count(struct lines *r);
/* For how long it is not to be heard, in ms, neither its lines nor what it asks for: it has said
 * more than it may, and would keep the monitor busy with leaving it out. */
unsigned lines_rest(const struct lines *r, uint64_t now_ms);

/* In the child: what it logs goes to fd, a msg_pair's, and the log, standard input, output and
 * error are open no more. One thread only. */
void lines_begin(int fd);
/* In the monitor: log some of what has come of process pid, who serves peer, unless it rests. 0, or
 * -EPROTO: it was no line, or came with a descriptor; nothing more is heard of it then. */
int lines_hear(struct lines *r, pid_t pid, const char *peer);
/* It has ended: the rest, and what was left out. */
void lines_end(struct lines *r, pid_t pid, const char *peer);

#endif
