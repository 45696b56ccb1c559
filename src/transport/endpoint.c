// SPDX-License-Identifier: Apache-2.0
/* An end of a TCP path: a listener, or the address of one. */
#include "transport/connect.h"
#include "transport/tcp.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tcp_endpoint {
	struct endpoint ep;
	struct endpoint_config cfg;
	int lfd;                  /* server; -1 on the client */
	bool any_port;            /* listen() was free to choose the port */
	struct sockaddr_storage to;
	socklen_t to_len;
};

static struct tcp_endpoint *tcp(struct endpoint *ep)
{
	return (struct tcp_endpoint *)ep;
}

/* "" for any. */
static void numeric(const struct sockaddr_storage *a, char out[INET6_ADDRSTRLEN])
{
	static const uint8_t any[sizeof(struct in6_addr)];
	const void *in = &((const struct sockaddr_in6 *)a)->sin6_addr;
	size_t len = sizeof(struct in6_addr);

	out[0] = '\0';
	if (a->ss_family == AF_INET) {
		in = &((const struct sockaddr_in *)a)->sin_addr;
		len = sizeof(struct in_addr);
	}
	if (a->ss_family != AF_UNSPEC && memcmp(in, any, len))
		inet_ntop(a->ss_family, in, out, INET6_ADDRSTRLEN);
}

static int tcp_end_listen(struct endpoint *ep, const struct sockaddr_storage *a, uint16_t lo,
			  uint16_t hi, uint16_t *port, struct err *e)
{
	char addr[INET6_ADDRSTRLEN];
	int fd;

	numeric(a, addr);
	fd = tcp_listen(addr, a->ss_family, lo, hi, port, e);
	if (fd < 0)
		return fd;
	tcp(ep)->lfd = fd;
	tcp(ep)->any_port = !hi;
	if (tcp(ep)->cfg.tos >= 0)
		socket_tos(fd, tcp(ep)->cfg.tos); /* what is accepted has it, too */
	return 0;
}

static int tcp_end_resolve(struct endpoint *ep, const struct sockaddr_storage *a, socklen_t len,
			   int stop, int timeout_ms, struct err *e)
{
	tcp(ep)->to = *a;
	tcp(ep)->to_len = len;
	return 0;
}

static const struct pool_hooks *tcp_end_hooks(struct endpoint *ep)
{
	return NULL;
}

/* If channels may open later anyway, a path does not wait longer than this, or a round trip, for a
 * late one: a lost SYN is sent again only after a second. */
#define PATIENCE_MS 100
#define PATIENCE_MOST_MS 2000

static int patience_ms(const struct endpoint_config *c)
{
	uint64_t ms = c->rtt_ns / 1000000;

	if (c->agr->channels == c->agr->channels_first)
		return -1;
	if (ms > PATIENCE_MOST_MS)
		return PATIENCE_MOST_MS;
	return ms < PATIENCE_MS ? PATIENCE_MS : (int)ms;
}

/* So long after the last channel a port of a range is free for other transfers. */
#define LISTEN_ON_MS 20000

static struct path *tcp_end_open(struct endpoint *endpoint, const struct path_config *c,
				 int stop, int timeout_ms, struct err *e)
{
	struct tcp_endpoint *ep = tcp(endpoint);
	const struct agreement *a = ep->cfg.agr;
	bool client = ep->lfd < 0;
	struct opener_config oc = {
		.auth = ep->cfg.auth, .first = ep->cfg.first, .n = a->channels,
		.patience_ms = patience_ms(&ep->cfg), .listen_ms = ep->any_port ? -1 : LISTEN_ON_MS,
		.to = ep->to, .to_len = ep->to_len, .from = ep->cfg.from, .tos = ep->cfg.tos,
	};
	int fds[CHANNELS_MAX];
	struct opener *o = opener_new(&oc, ep->lfd, e);
	struct path *p = NULL;
	bool all = true;

	if (!o)
		return NULL;
	ep->lfd = -1;
	if (!opener_first(o, a->channels_first, stop, timeout_ms, e)) {
		for (uint16_t i = 0; i < a->channels; i++) {
			fds[i] = opener_take(o, i);
			all = all && fds[i] >= 0;
		}
		p = tcp_path_new(c, fds, a->channels, e);
		for (uint16_t i = 0; !p && i < a->channels; i++)
			cleanup_close(&fds[i]);
	}
	if (p && !all)
		tcp_path_grow(p, o, client ? a->channels_first : 0);
	else
		opener_free(o); /* all channels are open: the listener closes */
	return p;
}

static void tcp_end_free(struct endpoint *ep)
{
	cleanup_close(&tcp(ep)->lfd);
	free(ep);
}

static const struct endpoint_ops tcp_ops = {
	.name = "tcp",
	.listen = tcp_end_listen,
	.resolve = tcp_end_resolve,
	.hooks = tcp_end_hooks,
	.open = tcp_end_open,
	.free = tcp_end_free,
};

struct endpoint *tcp_endpoint(const struct endpoint_config *c, struct err *e)
{
	struct tcp_endpoint *ep = calloc(1, sizeof(*ep));

	if (!ep) {
		err_sys(e, -ENOMEM, "data channels");
		return NULL;
	}
	ep->ep.ops = &tcp_ops;
	ep->cfg = *c;
	ep->lfd = -1;
	return &ep->ep;
}
