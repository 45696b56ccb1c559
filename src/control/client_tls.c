// SPDX-License-Identifier: Apache-2.0
/* The client's TLS: is this the server that it should be? */
#include "control/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int check_answer(struct ftp_client *c, struct err *e)
{
	int code = client_final_reply(c, c->timeout_ms, e);

	if (code < 0)
		return code;
	if (code == 234)
		return 0;
	if (code == 421)
		return client_refused(c, e);
	return err_set(e, -EPROTO, "%s port %u offers no TLS (%d %s); --plain goes on without, "
		       "in clear", c->host, c->port, code,
		       printable(c->reply.text ? c->reply.text : ""));
}

/* Before a byte of ours goes to it. */
static int check_server(struct ftp_client *c, struct tls *tls,
			const struct ftp_client_config *cfg, struct err *e)
{
	int rc = tls_peer_validity(tls, e);

	if (rc < 0)
		return err_prefix(e, "%s port %u", c->host, c->port);
	c->pin = tls_peer_pin(tls);
	if (!c->pin)
		return err_set(e, -EKEYREJECTED, "%s port %u shows no certificate", c->host,
			       c->port);
	if (cfg->cafile || !cfg->check_pin)
		return 0;
	if (cfg->check_pin(cfg->arg, c->host, c->port, c->pin, e) == PIN_OK)
		return 0;
	if (!*e->text)
		err_set(e, -EKEYREJECTED, "the key of %s port %u was refused", c->host, c->port);
	e->code = -EKEYREJECTED;
	return e->code;
}

/* What comes in clear behind the answer is somebody's who cannot do it later. */
static int injected(const struct ftp_client *c, int rc, struct err *e)
{
	return err_set(e, rc, "%s port %u sent bytes in clear behind its answer to AUTH",
		       c->host, c->port);
}

int client_start_tls(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	int rc = check_answer(c, e);

	if (rc < 0)
		return rc;
	if (ms_readable(c->ms))
		return injected(c, -EPROTO, e);
	return client_shake_hands(c, cfg, e);
}

int client_shake_hands(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	struct stream *st = NULL;
	struct tls *tls;
	int rc;

	c->ctx = c->foreign ? tls_client_new_any(cfg->cafile, e) : tls_client_new(cfg->cafile, e);
	if (!c->ctx)
		return e->code;
	/* On data connections, too: they are made with the same settings. */
	rc = cfg->certfile ? tls_use_certificate(c->ctx, cfg->certfile, cfg->keyfile, e) : 0;
	if (rc < 0)
		return rc;
	tls = tls_start(c->ctx, c->fd, c->host, NULL, c->timeout_ms, e);
	if (!tls)
		return err_prefix(e, "%s port %u", c->host, c->port);
	rc = check_server(c, tls, cfg, e);
	if (rc == 0) {
		st = stream_tls(c->fd, tls);
		rc = st ? ms_replace(c->ms, st) : -ENOMEM;
		if (rc < 0)
			injected(c, rc, e);
	}
	if (rc == 0) {
		c->tls = tls;
		return 0;
	}
	if (st) {
		st->ops->disown(st);
		stream_free(st);
	} else {
		tls_free(tls);
	}
	return rc;
}

struct stream *client_data_tls(struct ftp_client *c, int fd, struct err *e)
{
	CLEANUP_FREE char *pin = NULL;
	struct stream *st = NULL;
	struct tls *tls = tls_start(c->ctx, fd, c->host, c->tls, c->timeout_ms, e);

	if (!tls) {
		err_prefix(e, "data connection to %s", c->host);
		return NULL;
	}
	pin = tls_peer_pin(tls);
	/* A resumed session has no certificate of its own to show where the library does
	 * not keep it; then the session proves the same. */
	if (pin && strcmp(pin, c->pin))
		err_set(e, -EKEYREJECTED, "the data connection to %s leads to another key",
			c->host);
	else
		st = stream_tls(fd, tls);
	if (!st)
		tls_free(tls);
	return st;
}
