// SPDX-License-Identifier: Apache-2.0
/* Ends waits for a server when the user wants to stop: its sockets are shut, which wakes whoever
 * sleeps in them, in FTP's lines as in TLS. */
#include "control/client.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

void client_stop_init(struct ftp_client *c, const struct ftp_client_config *cfg)
{
	c->wish = (struct client_wish){ .stop = cfg->stop, .arg = cfg->arg, .fd = -1,
					.sockets = { -1, -1 } };
	pthread_mutex_init(&c->wish.lock, NULL);
}

void client_stop_clear(struct ftp_client *c)
{
	pthread_mutex_destroy(&c->wish.lock);
}

static void shut(int fd)
{
	if (fd >= 0)
		shutdown(fd, SHUT_RDWR);
}

static void shut_all(void *arg)
{
	struct client_wish *w = arg;

	LOCK_GUARD(held, &w->lock);
	w->came = true;
	for (int i = 0; i < 2; i++)
		shut(w->sockets[i]);
}

void client_stop(struct ftp_client *c)
{
	shut_all(&c->wish);
}

void client_stop_socket(struct ftp_client *c, enum client_socket which, int fd)
{
	struct client_wish *w = &c->wish;

	LOCK_GUARD(held, &w->lock);
	w->sockets[which] = fd;
	if (w->came)
		shut(fd);
}

bool client_stopped(struct ftp_client *c)
{
	LOCK_GUARD(held, &c->wish.lock);

	return c->wish.came;
}

static int interrupted(struct err *e)
{
	return err_set(e, -EINTR, "interrupted");
}

int client_begin(struct ftp_client *c, struct err *e)
{
	struct client_wish *w = &c->wish;
	int rc;

	if (w->depth++)
		return 0;
	w->fd = w->stop ? w->stop(w->arg) : -1;
	/* Nothing has been said yet: the conversation is in order. */
	if (w->fd >= 0 && poll_fd(w->fd, POLLIN, 0) > 0)
		rc = interrupted(e);
	else
		rc = sentry_start(&w->sentry, "wish", w->fd, shut_all, w, e);
	if (rc < 0)
		w->depth--;
	return rc;
}

int client_end(struct ftp_client *c, int rc, struct err *e)
{
	struct client_wish *w = &c->wish;
	bool woken;

	if (--w->depth)
		return rc;
	sentry_end(&w->sentry);
	/* Connecting looks for itself. */
	woken = w->came || (rc == -ECANCELED && w->fd >= 0);
	w->fd = -1;
	w->sockets[CLIENT_DATA] = -1;
	c->lost |= w->came;
	/* What came through before is done; what failed because it was woken has that one reason. */
	return woken && rc < 0 ? interrupted(e) : rc;
}
