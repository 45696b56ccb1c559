// SPDX-License-Identifier: Apache-2.0
/* One bulk transfer with a server, from the options to its end, again when the connection
 * is lost on the way. */
#ifndef RFTP_CLIENT_BULK_H
#define RFTP_CLIENT_BULK_H

#include "client/report.h"
#include "client/server.h"
#include "transfer/transfer.h"

struct bulk {
	struct server *server;              /* not owned */
	struct mstream *lane;               /* not owned; NULL: all the connection */
	struct report *report;              /* not owned; NULL: only for bulk_once() */
	struct transfer_client_config c;    /* all but the stream's own facts */
	uint8_t key[KEY_BYTES];             /* c.master, while an attempt lasts */
	bool once;                          /* a pipe is in it: it cannot be run again */
};

/* What options say of a request: all but what is copied, and the numbers of a host. */
void bulk_request_of(const struct options *o, enum bulk_op op, struct bulk_request *q);
/* Fill in what the server's options say. 0; negative errno with text: they ask for what
 * cannot be had. bulk_clear() is harmless after either. */
int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e);
/* Frees the request. */
void bulk_clear(struct bulk *b);
/* Run it; everything has been said and added to the report afterwards. */
enum exit_status bulk_run(struct bulk *b);
/* The server, which is connected, takes a request with these flags (BULK_F_...): 0; or
 * -EPROTONOSUPPORT with a text that names the versions or the missing features. */
int bulk_possible(const struct server *s, uint32_t flags, struct err *e);
/* The mask that rftp was started with; from the first call on it has none. */
mode_t bulk_umask(void);
/* Once, without saying or adding anything; the stream stays connected or is closed. */
int bulk_once(struct bulk *b, struct transfer_result *r, struct err *e);

#endif
