// SPDX-License-Identifier: Apache-2.0
/* Copies between two servers: GIVE and TAKE, around their frames. */
#include "control/client.h"

#include <errno.h>
#include <stdio.h>

enum { REPLY_MS = 60 * 1000 };

int ftp_ask(struct ftp_client *c, enum ftp_verb v, const struct buf *body, struct err *e)
{
	char arg[24];
	int rc;

	snprintf(arg, sizeof(arg), "%zu", buf_len(body));
	rc = client_send(c, v, arg, e);
	if (rc)
		return rc;
	rc = ms_write(c->ms, buf_ptr(body), buf_len(body));
	if (rc)
		return client_lost(c, rc, e);
	rc = client_read_reply(c, REPLY_MS, e);
	if (rc < 0)
		return rc;
	return rc == 150 ? 0 : client_refused(c, e);
}

int ftp_closing(struct ftp_client *c, struct err *e)
{
	int rc = client_begin(c, e);

	if (rc < 0)
		return rc;
	rc = client_end(c, client_final_reply(c, REPLY_MS, e), e);
	return rc < 0 ? rc : 0;
}
