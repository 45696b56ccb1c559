// SPDX-License-Identifier: Apache-2.0
/* What the server keeps between runs: its certificate and key. */
#ifndef RFTP_SERVER_STATE_H
#define RFTP_SERVER_STATE_H

#include "crypto/crypto.h"
#include "server/options.h"
#include "util/util.h"

struct state {
	struct tls_ctx *tls;
	char *pin;   /* of the certificate, as clients show it */
};

/* o's certificate and key; without them those in o's state directory, which are made when they are
 * not there, as is the directory. state NULL: $XDG_STATE_HOME/rftpd, ~/.local/state/rftpd, or for
 * root /var/lib/rftpd. */
int state_open(struct state *s, const struct srv_options *o, struct err *e);
/* In another process: read and try them as state_open does, and seal what was read into fd, of
 * pems_memory. Then open it from there, where there are no files. */
int state_seal(const struct srv_options *o, int fd, struct err *e);
int state_open_sealed(struct state *s, const struct srv_options *o, int fd, struct err *e);
/* Only what tells whose a client's certificate is: our pin, and the CAs; the key stays where it
 * is. */
int state_open_judge(struct state *s, int fd, struct err *e);
/* Would state_open() do? Nothing is made: what is missing and would be is no error. */
int state_check(const struct srv_options *o, struct err *e);
void state_close(struct state *s);
/* An empty directory in it, that root alone may change; made when it is not there; malloc'd. NULL
 * with text. */
char *state_empty(const struct srv_options *o, struct err *e);

#endif
