// SPDX-License-Identifier: Apache-2.0
/* A copy from one server to another: two control connections, and what both tell. */
#ifndef RFTP_CLIENT_THIRD_H
#define RFTP_CLIENT_THIRD_H

#include "client/report.h"
#include "client/server.h"

#include <pthread.h>

struct third;

/* One of the two servers. */
struct third_side {
	struct third *t;
	struct server *server;           /* not owned */
	char *host;                      /* its name in messages; with the port if both are one host */
	struct relay_reader reader;
	struct transfer_events events;
	struct third_result *result;
	pthread_t thread;
	bool asked;                      /* frames flow, until RESULT and END */
	bool told;                       /* result has come: nothing but END is said any more */
	bool over;                       /* and the stream is in line mode again, or closed */
	struct err lost;                 /* code 0: it is there */
};

struct third {
	struct third_side source, sink;
	struct third_give give;          /* what is asked for; the caller's */
	const struct options *o;         /* not owned */
	struct committed *committed;     /* the files that are there; NULL: not remembered */
	struct transfer_events to;       /* what people see */
	/* Guards what follows, and told and over of both sides, while they are listened to; and
	 * to's callbacks are called one at a time. */
	pthread_mutex_t lock;
	struct transfer_progress at_sink;
	double sink_said;                /* seconds, of the last event about it */
	int done;                        /* an eventfd: a side is over */
};

/* 0 or a negative errno with text. third_clear() is harmless after either. */
int third_init(struct third *t, struct server *source, struct server *sink,
	       const struct options *o, struct report *r, struct err *e);
void third_clear(struct third *t);
/* Both connected: one attempt. 0 with *r, or a negative errno with a text that tells which of
 * the hosts had to do with it. Connections whose place in the conversation is lost are closed. */
int third_once(struct third *t, struct transfer_result *r, struct err *e);

#endif
