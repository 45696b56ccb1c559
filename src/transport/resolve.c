// SPDX-License-Identifier: Apache-2.0
/* Names of hosts into addresses, by a resolver that cannot be interrupted. */
#include "transport/connect.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* One look-up, of the thread that does it and of the one that waits for it. */
struct lookup {
	atomic_int users;          /* who is last frees it */
	int done;                  /* eventfd: what follows is there */
	char *host;
	char service[8];
	struct addrinfo *list;
	int code, error;           /* EAI_..., and errno for EAI_SYSTEM */
};

static void look_up(struct lookup *l)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG };

	l->code = getaddrinfo(l->host, l->service, &hints, &l->list);
	if (l->code == EAI_NONAME || l->code == EAI_ADDRFAMILY) {
		/* AI_ADDRCONFIG hides loopback addresses on hosts without others. */
		hints.ai_flags = 0;
		l->code = getaddrinfo(l->host, l->service, &hints, &l->list);
	}
	l->error = errno;
	if (l->code)
		l->list = NULL;
}

static void lookup_put(struct lookup *l)
{
	if (atomic_fetch_sub(&l->users, 1) > 1)
		return;
	if (l->list)
		freeaddrinfo(l->list);
	cleanup_close(&l->done);
	free(l->host);
	free(l);
}

static struct lookup *lookup_new(const char *host, uint16_t port)
{
	struct lookup *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	atomic_store(&l->users, 1);
	l->done = eventfd(0, EFD_CLOEXEC);
	l->host = strdup(host);
	snprintf(l->service, sizeof(l->service), "%u", port);
	if (l->done >= 0 && l->host)
		return l;
	lookup_put(l);
	return NULL;
}

static void *lookup_main(void *arg)
{
	struct lookup *l = arg;

	look_up(l);
	if (eventfd_write(l->done, 1) < 0)
		log_debug("eventfd: %s", strerror(errno));
	lookup_put(l);
	return NULL;
}

/* In another thread, which is left to itself when stop is readable before it is done. */
static int look_up_until(struct lookup *l, int stop)
{
	struct pollfd p[] = { { .fd = l->done, .events = POLLIN },
			      { .fd = stop, .events = POLLIN } };
	pthread_t thread;
	int n, rc;

	atomic_store(&l->users, 2);
	rc = thread_start(&thread, "lookup", lookup_main, l);
	if (rc < 0) {
		atomic_store(&l->users, 1);
		return rc;
	}
	pthread_detach(thread);
	do {
		n = poll(p, 2, -1);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : p[0].revents ? 0 : -ECANCELED;
}

static int lookup_failed(const struct lookup *l, struct err *e)
{
	if (l->code == EAI_SYSTEM)
		return err_sys(e, -l->error, "looking up %s", printable(l->host));
	return err_set(e, l->code == EAI_AGAIN ? -EAGAIN : -EHOSTUNREACH,
		       "host %s is not known: %s; check its spelling and the name server",
		       printable(l->host), gai_strerror(l->code));
}

int resolve_name(const char *host, uint16_t port, int stop, struct addrinfo **list,
		 struct err *e)
{
	struct lookup *l = lookup_new(host, port);
	int rc = l ? 0 : -ENOMEM;

	if (l && stop < 0)
		look_up(l);
	else if (l)
		rc = look_up_until(l, stop);
	if (rc < 0)
		err_sys(e, rc, "looking up %s", printable(host));
	else if (l->code)
		rc = lookup_failed(l, e);
	else
		*list = steal_ptr(&l->list);
	if (l)
		lookup_put(l);
	return rc;
}
