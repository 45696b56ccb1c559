// SPDX-License-Identifier: Apache-2.0
/* Functions that the files of librftp share. */
#ifndef RFTP_API_API_H
#define RFTP_API_API_H

#include "api/rftp.h"
#include "client/engine.h"

#include <pthread.h>

struct rftp {
	struct engine_env env;       /* its arg is the handle */
	struct server *server;       /* NULL: never opened */
	struct options before;       /* the options while there is no server; later they are its */
	char *path;                  /* of the URL */
	char *password;              /* NULL: none */
	rftp_trust_fn *trust;
	void *trust_arg;
	unsigned timeout_ms;
	struct err error;            /* of the current or the last call */

	/* A timerfd: readable once the current call must stop. rftp_cancel() sets it off at once;
	 * it stays readable until it is set again. */
	int timer;
	pthread_mutex_t lock;        /* guards cancelled, and the setting of timer */
	bool cancelled;
	const struct rftp *lead;     /* the handle that stops the current call; usually this one */

	/* A transfer. Its events come one at a time; the rest of the members by the caller. */
	rftp_progress_fn *progress;
	void *progress_arg;
	rftp_file_fn *file;
	void *file_arg;
	struct rftp_progress now;
	uint64_t files_before;       /* done by earlier attempts */
	struct err first;            /* of the first file that failed; code 0: none */
	bool rereads;                /* files that change are read again: they have not failed */
	atomic_bool begun;
};

/* Begin a call, and connect the server if it is not connected. 0, or a negative errno; the caller
 * returns api_end() in both cases. */
int api_begin(struct rftp *r);
/* End a call with rc, and return the result for the caller of the library: its errnos are those of
 * rftp.h. */
int api_end(struct rftp *r, int rc);

#endif
