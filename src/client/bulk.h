// SPDX-License-Identifier: Apache-2.0
/* A bulk transfer with a server, and its repetition after a lost connection. The main thread
 * only. */
#ifndef RFTP_CLIENT_BULK_H
#define RFTP_CLIENT_BULK_H

#include "client/report.h"
#include "client/server.h"
#include "transfer/transfer.h"

/* A transfer that is repeated after a failure. */
struct attempts {
	/* connect: connect all servers. once: make one attempt; attempt counts from 1. Both return
	 * 0, or a negative errno with text. */
	int (*connect)(void *arg, struct err *e);
	int (*once)(void *arg, unsigned attempt, struct transfer_result *r, struct err *e);
	void *arg;
	struct report *report;
	uint64_t retries;            /* the most repetitions */
	struct bulk_request *request;
	struct committed *committed; /* the files that later attempts skip; NULL: none */
	bool rereads;                /* the result counts the files that changed while they were
				      * read; connect() may set it */
	bool pipe;                   /* reads or writes a pipe, so there is one attempt only */
	bool to_stdout;              /* that pipe is standard output */
};

struct bulk {
	struct server *server;              /* not owned */
	struct transfer_config c;           /* bulk_once() adds the members that depend on the
					     * connection */
	uint8_t key[KEY_BYTES];             /* c.master points here during an attempt */
	struct attempts attempts;           /* by bulk_once(); the caller sets pipe and to_stdout */
};

/* Fill in the members of q that come from options. The caller sets the paths. 0 or -ENOMEM. */
int bulk_request_of(const struct options *o, enum bulk_op op, struct bulk_request *q);
/* If r has a manifest, let the source compute its digests. from_source: a server is the source, and
 * sends them. r NULL is harmless. */
void bulk_request_sums(struct bulk_request *q, const struct report *r, bool from_source);
/* Append copies of n paths to the sources. 0 or -ENOMEM. */
int bulk_add_sources(struct bulk_request *q, char *const *paths, size_t n);
/* Prepare b from the options of s; r is not owned, NULL: only for bulk_once(). 0; or a negative errno
 * with text: the options ask for a feature that is not available here. In both cases bulk_clear()
 * frees b's contents. */
int bulk_init(struct bulk *b, struct server *s, struct report *r, enum bulk_op op,
	      struct err *e);
/* Free b's contents, with the request. */
void bulk_clear(struct bulk *b);
/* Does the connected server accept a request with these flags (BULK_F_...)? 0, or
 * -EPROTONOSUPPORT with a text that names the versions or the missing features. */
int bulk_possible(const struct server *s, uint32_t flags, struct err *e);
/* The umask that rftp was started with. The first call sets the process's umask to 0. Main
 * thread. */
mode_t bulk_umask(void);
/* Run one attempt of bulk, a struct bulk, without output and without the report. 0 with *r, or a
 * negative errno with text. Closes the server's connection if the error makes it unusable. */
int bulk_once(void *bulk, unsigned attempt, struct transfer_result *r, struct err *e);

/* Transfer data from memory to memory for ns, without output: to the connected server if put,
 * otherwise from it. Results as bulk_once(). */
int bench_measure(const struct job *j, struct server *s, bool put, uint64_t ns,
		  struct transfer_result *r, struct err *e);

/* ---- another attempt ---- */

/* Is another attempt useful after one that ended with code, a negative errno? done: the number of
 * repetitions so far; retries: the most. reached: all servers were connected before; otherwise only
 * damaged data (-EBADMSG) is worth one more attempt, because the host may not speak the protocol at
 * all. away: a server, or an RDMA device that carried data before, may be unreachable while it
 * restarts. Pure. */
bool again_worth(int code, uint64_t done, uint64_t retries, bool reached, bool away);
/* The seconds to wait before the repetition of attempt, which counts from 1. Pure. */
unsigned again_wait(unsigned attempt);
/* Run the transfer with repetitions, and report their errors and the result. If setup has an error,
 * only report that. Returns the exit status. */
enum exit_status attempts_run(struct attempts *a, const struct err *setup);

#endif
