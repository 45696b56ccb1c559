// SPDX-License-Identifier: Apache-2.0
/* The client half: connecting, and what is known of a connection.
 *
 * Round trips until the first command, with an rftpd at the other end: TCP, AUTH TLS with
 * the greeting, TLS, login: four. By ssh: ssh's own, greeting, login. */
#include "control/client.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TIMEOUT_MS = 30 * 1000, OWED_MS = 1000 };

/* ---- connecting ---- */

int client_open_messages(struct ftp_client *c, int fd, struct err *e)
{
	struct stream *st = stream_plain(fd, fd);

	c->fd = fd;
	client_stop_socket(c, CLIENT_CONTROL, fd);
	if (!st)
		close(fd);
	else
		c->ms = ms_new(st);
	if (st && !c->ms)
		stream_free(st);
	return c->ms ? 0 : err_sys(e, -ENOMEM, "connection to %s", c->host);
}

void client_learn_peer(struct ftp_client *c)
{
	c->peer_len = sizeof(c->peer);
	if (getpeername(c->fd, (struct sockaddr *)&c->peer, &c->peer_len) < 0)
		c->peer_len = 0;
}

/* AUTH goes out before the greeting has come, which saves its round trip. Whatever else
 * than FTP is there gets a line that it does not understand. */
static int connect_tcp(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	static const char auth[] = "AUTH TLS\r\n";
	int fd = tcp_connect(c->host, c->port, c->wish.fd, c->timeout_ms, e);
	int rc = fd < 0 ? fd : client_open_messages(c, fd, e);

	if (rc < 0)
		return rc;
	client_learn_peer(c);
	/* An error shows when the greeting is read, with better words. */
	if (!cfg->plain)
		ms_write(c->ms, auth, sizeof(auth) - 1);
	rc = client_greeting(c, e);
	if (rc == 0 && !cfg->plain)
		rc = client_start_tls(c, cfg, e);
	return rc;
}

static int connect_ssh(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	int fd, rc;

	c->ssh = ssh_start(cfg, &fd, e);
	if (!c->ssh)
		return e->code;
	rc = client_open_messages(c, fd, e);
	if (rc < 0)
		return rc;
	ssh_address(cfg, &c->peer, &c->peer_len);
	rc = client_greeting(c, e);
	if ((rc == -EPIPE || rc == -ECANCELED) && !client_stopped(c))
		return ssh_explain(c->ssh, e);
	if (rc == 0)
		ssh_connected(c->ssh);
	return rc;
}

static int connect_place(struct ftp_client *c, const struct ftp_client_config *cfg,
			 struct err *e)
{
	switch (cfg->place->kind) {
	case PLACE_RFTP:
		return connect_tcp(c, cfg, e);
	case PLACE_SSH:
		return connect_ssh(c, cfg, e);
	case PLACE_FTP:
	case PLACE_FTPS:
		return client_connect_foreign(c, cfg, e);
	default:
		return err_set(e, -EINVAL, "%s is no server", c->host);
	}
}

static void describe(struct ftp_client *c)
{
	if (c->ssh)
		snprintf(c->describe, sizeof(c->describe), "%s, by ssh", c->host);
	else
		snprintf(c->describe, sizeof(c->describe),
			 strchr(c->host, ':') ? "[%s]:%u, %s" : "%s:%u, %s", c->host, c->port,
			 c->tls ? tls_describe(c->tls) : "in clear");
}

static void client_free(struct ftp_client *c)
{
	ms_free(c->ms);
	if (client_stopped(c))
		ssh_stop(c->ssh);
	ssh_free(c->ssh);
	client_stop_clear(c);
	tls_ctx_free(c->ctx);
	ftp_reply_clear(&c->reply);
	pthread_mutex_destroy(&c->lock);
	free(c->pin);
	free(c->host);
	free(c->home);
	free(c);
}

static struct ftp_client *client_new(const struct ftp_client_config *cfg)
{
	const struct place *p = cfg->place;
	struct ftp_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->fd = -1;
	c->timeout_ms = cfg->connect_timeout_ms > 0 ? cfg->connect_timeout_ms : TIMEOUT_MS;
	c->port = p->kind == PLACE_SSH ? 0 : place_port(p);
	c->foreign = place_is_foreign(p);
	c->implicit = p->kind == PLACE_FTPS;
	pthread_mutex_init(&c->lock, NULL);
	c->host = strdup(p->host ? p->host : "");
	if (!c->host) {
		free(c);
		return NULL;
	}
	c->said = cfg->said;
	client_stop_init(c, cfg);
	return c;
}

struct ftp_client *ftp_connect(const struct ftp_client_config *cfg, struct err *e)
{
	struct err own = ERR_INIT;
	struct ftp_client *c = client_new(cfg);
	int rc;

	if (!e)
		e = &own;
	if (!c) {
		err_sys(e, -ENOMEM, "connection");
		return NULL;
	}
	rc = client_begin(c, e);
	if (rc == 0) {
		rc = connect_place(c, cfg, e);
		if (rc == 0)
			rc = client_login(c, cfg, e);
		if (rc == 0 && c->foreign)
			rc = client_learn(c, cfg, e);
		rc = client_end(c, rc, e);
	}
	if (rc < 0) {
		e->code = rc;
		client_free(c);
		return NULL;
	}
	if (!c->ssh)
		c->rtt_ns = tcp_rtt_ns(c->fd);
	describe(c);
	return c;
}

/* The answer to QUIT would only cost a round trip. */
void ftp_close(struct ftp_client *c)
{
	static const char quit[] = "QUIT\r\n";

	if (!c)
		return;
	if (!c->lost) {
		ms_set_write_timeout(c->ms, 1000);
		ms_write(c->ms, quit, sizeof(quit) - 1);
	}
	client_free(c);
}

/* ---- what is known ---- */

bool ftp_client_lost(const struct ftp_client *c)
{
	return c->lost || ms_aborted(c->ms);
}

bool ftp_is_foreign(const struct ftp_client *c)
{
	return c->foreign;
}

bool ftp_say_once(const struct ftp_client *c, enum ftp_said what)
{
	return c->said && !(atomic_fetch_or(c->said, what) & what);
}

bool ftp_has(const struct ftp_client *c, enum ftp_feature what)
{
	return c->has & what;
}

bool ftp_data_private(const struct ftp_client *c)
{
	return c->prot_p;
}

const char *ftp_client_pin(const struct ftp_client *c)
{
	return c->pin;
}

bool ftp_client_usable(const struct ftp_client *c)
{
	return !c->lost && !c->aborted;
}

const struct bulk_version *ftp_bulk(const struct ftp_client *c)
{
	return &c->bulk;
}

bool ftp_has_third(const struct ftp_client *c)
{
	return c->give && c->take;
}

struct mstream *ftp_client_stream(struct ftp_client *c)
{
	return c->ms;
}

int ftp_client_key(struct ftp_client *c, uint8_t key[KEY_BYTES])
{
	return c->tls ? tls_export(c->tls, "EXPORTER-rftp-bulk-1", key, KEY_BYTES) : -ENOENT;
}

bool ftp_client_secret(const struct ftp_client *c)
{
	return c->ssh;
}

bool ftp_client_private(const struct ftp_client *c)
{
	return c->ssh || c->tls;
}

const struct sockaddr_storage *ftp_client_peer(const struct ftp_client *c, socklen_t *len)
{
	*len = c->peer_len;
	return &c->peer;
}

uint64_t ftp_client_rtt_ns(const struct ftp_client *c)
{
	return c->rtt_ns;
}

bool ftp_client_owe(struct ftp_client *c, bool owed)
{
	bool was = c->owed;

	c->owed = owed;
	return was;
}

bool ftp_client_quiet(struct ftp_client *c)
{
	struct err e = ERR_INIT;

	if (c->owed && ms_readable(c->ms) && client_read_owed(c, ns_after(OWED_MS), &e))
		return false;
	return !c->lost && !ms_readable(c->ms);
}

const char *ftp_client_describe(const struct ftp_client *c)
{
	return c->describe;
}
