// SPDX-License-Identifier: Apache-2.0
/* What the server keeps between runs: its certificate and key. */
#ifndef RFTP_SERVER_STATE_H
#define RFTP_SERVER_STATE_H

#include "crypto/crypto.h"
#include "util/util.h"

struct state {
	struct tls_ctx *tls;
	char *pin;   /* of the certificate, as clients show it */
};

/* dir NULL: $XDG_STATE_HOME/rftpd, ~/.local/state/rftpd, or for root /var/lib/rftpd. Makes
 * the directory and the certificate when they are not there. */
int state_open(struct state *s, const char *dir, struct err *e);
void state_close(struct state *s);
/* An empty directory in it, that root alone may change; made when it is not there; malloc'd. NULL
 * with text. */
char *state_empty(const char *dir, struct err *e);

#endif
