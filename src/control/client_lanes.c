// SPDX-License-Identifier: Apache-2.0
/* Transfers at the same time in one session: LANE. */
#include "control/client.h"

#include <errno.h>
#include <stdio.h>

enum { REPLY_MS = 60 * 1000 };

struct lanes *ftp_lanes(struct ftp_client *c, unsigned n, struct err *e)
{
	struct lanes *l;
	char arg[12];
	int rc;

	if (!c->lanes) {
		err_set(e, -EOPNOTSUPP, "%s runs only one transfer at a time in a session", c->host);
		return NULL;
	}
	snprintf(arg, sizeof(arg), "%u", n);
	rc = client_send(c, FTP_LANE, arg, e);
	if (rc == 0)
		rc = client_read_reply(c, REPLY_MS, e);
	if (rc > 0 && rc != 150)
		client_refused(c, e);
	if (rc != 150)
		return NULL;
	l = lanes_new(c->ms, n, e);
	if (!l)
		c->lost = true;
	return l;
}

int ftp_lanes_end(struct ftp_client *c, struct lanes *l, int timeout_ms, struct err *e)
{
	int rc = lanes_end(l, timeout_ms);

	if (rc < 0)
		return client_lost(c, rc, e);
	rc = client_final_reply(c, timeout_ms, e);
	if (rc < 0)
		return rc;
	return rc / 100 == 2 ? 0 : client_refused(c, e);
}
