// SPDX-License-Identifier: Apache-2.0
/* Data connections of the client, and the files that go over them. */
#include "control/client.h"

#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	REPLY_MS = 10 * 60 * 1000,
	DATA_MS = 2 * 60 * 1000,   /* without a byte */
	END_MS = 30 * 1000,        /* for the other side to close, too */
	DROP_MS = 5 * 1000,
	RATE_LOW = 1 << 20,        /* bytes per second */
};

struct ftp_data {
	struct ftp_client *c;
	struct stream *st;
	bool store;
	bool cut;       /* read: it ended without TLS's word for it */
};

/* ---- the connection ---- */

static int by_epsv(struct ftp_client *c, uint16_t *port, struct err *e)
{
	int code = client_word(c, "EPSV", NULL, false, e);

	if (code < 0)
		return code;
	/* Before there was IPv6 there was no EPSV. */
	if (code / 100 == 5 && c->foreign) {
		c->pasv = true;
		return 0;
	}
	if (code != 229)
		return client_refused(c, e);
	if (ftp_epsv_parse(c->reply.text, port) < 0)
		return err_set(e, -EPROTO, "%s answers EPSV with nonsense: \"%s\"", c->host,
			       printable(c->reply.text));
	return 0;
}

static int by_pasv(struct ftp_client *c, uint16_t *port, struct err *e)
{
	int code = client_word(c, "PASV", NULL, false, e);

	if (code < 0)
		return code;
	if (code != 227)
		return client_refused(c, e);
	if (ftp_pasv_parse(c->reply.text, port) < 0)
		return err_set(e, -EPROTO, "%s answers PASV with nonsense: \"%s\"", c->host,
			       printable(c->reply.text));
	return 0;
}

/* The port may be anybody's word, the address is always the control connection's. */
int client_connect_data(struct ftp_client *c, struct err *e)
{
	char host[NI_MAXHOST];
	uint16_t port = 0;
	int rc = c->pasv ? 0 : by_epsv(c, &port, e);

	if (rc == 0 && c->pasv)
		rc = by_pasv(c, &port, e);
	if (rc < 0)
		return rc;
	if (!c->peer_len || getnameinfo((struct sockaddr *)&c->peer, c->peer_len, host,
					sizeof(host), NULL, 0, NI_NUMERICHOST))
		return err_set(e, -EADDRNOTAVAIL, "the address of %s is not known", c->host);
	rc = tcp_connect(host, port, c->wish.fd, c->timeout_ms, e);
	client_stop_socket(c, CLIENT_DATA, rc);
	return rc;
}

struct stream *client_open_data(struct ftp_client *c, int fd, struct err *e)
{
	struct stream *st = c->prot_p ? client_data_tls(c, fd, e) : stream_plain(fd, fd);

	if (!st) {
		client_stop_socket(c, CLIENT_DATA, -1);
		close(fd);
		if (!e->code)
			err_sys(e, -ENOMEM, "data connection");
		return NULL;
	}
	LOCK_GUARD(guard, &c->lock);
	c->data = st;
	if (c->aborted)
		st->ops->abort(st);
	return st;
}

void client_close_data(struct ftp_client *c, struct stream *st)
{
	pthread_mutex_lock(&c->lock);
	c->data = NULL;
	pthread_mutex_unlock(&c->lock);
	client_stop_socket(c, CLIENT_DATA, -1);
	stream_free(st);
}

void ftp_client_abort(struct ftp_client *c)
{
	LOCK_GUARD(guard, &c->lock);

	c->aborted = true;
	ms_abort(c->ms);
	if (c->data)
		c->data->ops->abort(c->data);
	client_stop(c);
}

/* ---- files ---- */

static int restart(struct ftp_client *c, uint64_t at, struct err *e)
{
	char text[32];
	int code;

	if (!at)
		return 0;
	snprintf(text, sizeof(text), "%" PRIu64, at);
	code = client_word(c, "REST", text, false, e);
	if (code < 0)
		return code;
	return code == 350 ? 0 : client_refused(c, e);
}

/* Half a second's worth may lie in the kernel at low rates, whose buffer would else hold many
 * seconds'. */
static void keep_window(const struct ftp_client *c, int fd)
{
	const int least = 4096;
	int bytes = c->rate / 2 > (uint64_t)least ? (int)(c->rate / 2) : least;

	if (c->rate && c->rate < RATE_LOW)
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
}

/* verb has been prepared. The data connection under way, or NULL with text. */
static struct ftp_data *open_file(struct ftp_client *c, const char *verb, const char *path,
				  uint64_t at, struct err *e)
{
	struct ftp_data *d = calloc(1, sizeof(*d));
	int fd = d ? client_connect_data(c, e) : err_sys(e, -ENOMEM, "data connection");
	int rc = fd < 0 ? fd : restart(c, at, e);

	if (rc == 0 && !strcmp(verb, "RETR"))
		keep_window(c, fd);
	if (rc == 0)
		rc = client_send_word(c, verb, path, path, e);
	if (rc == 0)
		rc = client_read_reply(c, REPLY_MS, e);
	if (rc >= 200)
		rc = client_refused(c, e);
	if (rc > 0) {
		d->c = c;
		d->store = strcmp(verb, "RETR");
		d->st = client_open_data(c, steal_fd(&fd), e);
		if (d->st)
			return d;
		/* A reply about this is still to come. */
		rc = e->code;
		client_final_reply(c, DROP_MS, NULL);
		e->code = rc;
	}
	client_stop_socket(c, CLIENT_DATA, -1);
	if (fd >= 0)
		close(fd);
	free(d);
	return NULL;
}

/* What follows is ended by ftp_client_abort(); this by the user's wish, too. */
static struct ftp_data *begin(struct ftp_client *c, const char *verb, const char *path, uint64_t at,
			      struct err *e)
{
	struct ftp_data *d;

	if (client_begin(c, e) < 0)
		return NULL;
	d = open_file(c, verb, path, at, e);
	client_end(c, d ? 0 : e->code, e);
	return d;
}

struct ftp_data *ftp_retrieve(struct ftp_client *c, const char *path, uint64_t at, uint64_t rate,
			      struct err *e)
{
	c->rate = rate;
	return begin(c, "RETR", path, at, e);
}

/* A refusal of what need not be had, not the end of the connection? */
static bool only_refused(const struct ftp_client *c)
{
	return !c->lost && !c->aborted && c->reply.code >= 400;
}

struct ftp_data *ftp_store(struct ftp_client *c, const char *path, uint64_t *at, struct err *e)
{
	struct err why = ERR_INIT;
	struct ftp_data *d = NULL;

	if (*at && (c->has & FTP_HAS_REST))
		d = begin(c, "STOR", path, *at, &why);
	if (!d && *at && (!why.code || only_refused(c)) && (c->has & FTP_HAS_APPE)) {
		log_debug("%s: REST and STOR: %s", c->host, why.code ? why.text : "not offered");
		why.code = 0;
		d = begin(c, "APPE", path, 0, &why);
	}
	if (d)
		return d;
	if (*at && why.code && !only_refused(c)) {
		*e = why;
		return NULL;
	}
	if (*at) {
		log_info("%s does not go on with a part, which is sent anew (%s)", c->host,
			 why.code ? why.text : "neither REST nor APPE");
		*at = 0;
	}
	return begin(c, "STOR", path, 0, e);
}

ssize_t ftp_data_read(struct ftp_data *d, void *p, size_t len, struct err *e)
{
	ssize_t n = d->st->ops->read(d->st, p, len, DATA_MS);

	/* Some servers never say TLS's last word. Whether it matters is for the reply and the size
	 * to tell. */
	if (n == -EPIPE && d->c->prot_p) {
		d->cut = true;
		return 0;
	}
	return n < 0 ? err_sys(e, (int)n, "data from %s", d->c->host) : n;
}

/* Why a server takes no more it says on the control connection. */
static int write_failed(struct ftp_data *d, int rc, struct err *e)
{
	int code;

	if (rc != -EPIPE || d->c->aborted)
		return err_sys(e, rc, "data to %s", d->c->host);
	client_close_data(d->c, steal_ptr(&d->st));
	code = client_final_reply(d->c, END_MS, e);
	if (code >= 400)
		return client_refused(d->c, e);
	return code < 0 ? code : err_sys(e, rc, "data to %s", d->c->host);
}

int ftp_data_write(struct ftp_data *d, const void *p, size_t len, struct err *e)
{
	const char *at = p;

	while (len) {
		ssize_t n = d->st->ops->write(d->st, at, len, DATA_MS);

		if (n < 0)
			return write_failed(d, (int)n, e);
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

/* Our end of the file, and then the server's: what TLS has sent unasked must not lie unread when we
 * close, or the kernel's RST would cost the last bytes. */
static int end_store(struct ftp_data *d)
{
	char rest[512];
	ssize_t n = d->st->ops->shutdown(d->st);

	while (n >= 0 && (n = d->st->ops->read(d->st, rest, sizeof(rest), END_MS)) > 0)
		;
	return n == -ECANCELED ? -ECANCELED : 0;
}

int ftp_data_end(struct ftp_data *d, bool whole, struct err *e)
{
	struct ftp_client *c = d->c;
	bool cut = d->cut;
	int rc = d->store && d->st ? end_store(d) : 0, code;

	client_close_data(c, d->st);
	free(d);
	if (rc < 0)
		return err_sys(e, rc, "data to %s", c->host);
	code = client_final_reply(c, REPLY_MS, e);
	if (code < 0)
		return code;
	if (code / 100 != 2)
		return client_refused(c, e);
	if (cut && !whole)
		return err_set(e, -EPIPE, "the data connection from %s was cut", c->host);
	return 0;
}

void ftp_data_drop(struct ftp_data *d)
{
	struct ftp_client *c = d ? d->c : NULL;
	bool replied = d && !d->st;

	if (!d)
		return;
	client_close_data(c, d->st);
	free(d);
	/* "426 Connection closed". A server that has not noticed yet is not waited for. */
	if (!replied && ftp_client_usable(c) && client_final_reply(c, DROP_MS, NULL) < 0)
		c->lost = true;
}
