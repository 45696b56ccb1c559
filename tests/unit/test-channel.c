// SPDX-License-Identifier: Apache-2.0
/* Connecting, listening, and the proofs that open data channels, with unauthenticated connections
 * to the listener. */
#include "transport/tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define FIRST 3
#define N 4

/* ---- a server in its own thread ---- */

struct server {
	struct channel_auth auth;
	int lfd, stop, timeout_ms;
	uint16_t port;
	struct sockaddr_in addr;
	int before;      /* descriptor of channel FIRST - 1; must stay -1 */
	int fds[N];
	int result;
	struct err e;
	uint64_t took_ns;
	pthread_t thread;
};

/* Opens all n channels or none. lfd: a listener, which the caller still owns; -1: connect to
 * `to`. */
static int open_n(int lfd, const struct sockaddr_in *to, const struct channel_auth *a,
		  uint16_t first, uint16_t n, int *fds, int stop, int timeout_ms, struct err *e)
{
	struct opener_config c = { .auth = a, .first = first, .n = n, .patience_ms = -1, .listen_ms = -1,
				   .tos = -1 };
	struct opener *o;
	int r;

	if (to)
		memcpy(&c.to, to, sizeof(*to));
	c.to_len = sizeof(*to);
	o = opener_new(&c, lfd < 0 ? -1 : dup(lfd), e);
	r = o ? opener_first(o, n, stop, timeout_ms, e) : -ENOMEM;
	for (uint16_t i = 0; i < n; i++)
		fds[i] = r ? -1 : opener_take(o, i);
	opener_free(o);
	return r;
}

static void *server_main(void *arg)
{
	struct server *s = arg;
	uint64_t begin = now_ns();

	s->result = open_n(s->lfd, NULL, &s->auth, FIRST, N, s->fds, s->stop, s->timeout_ms, &s->e);
	s->took_ns = now_ns() - begin;
	return NULL;
}

static void server_start(struct server *s, int timeout_ms)
{
	memset(s, 0, sizeof(*s));
	s->auth.session = 0x1122334455667788;
	crypto_random(s->auth.token, sizeof(s->auth.token));
	crypto_random(s->auth.client_nonce, sizeof(s->auth.client_nonce));
	crypto_random(s->auth.server_nonce, sizeof(s->auth.server_nonce));
	s->timeout_ms = timeout_ms;
	s->before = -1;
	s->stop = eventfd(0, EFD_CLOEXEC);
	s->lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &s->port, NULL);
	assert_true(s->lfd >= 0 && s->stop >= 0 && s->port);
	s->addr = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(s->port),
					.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	assert_int_equal(thread_start(&s->thread, "server", server_main, s), 0);
}

static void server_join(struct server *s, int want)
{
	int i;

	pthread_join(s->thread, NULL);
	assert_int_equal(s->before, -1);
	if (s->result != want)
		fail_msg("server: %d (%s)", s->result, s->e.text);
	for (i = 0; i < N; i++) {
		assert_true(want ? s->fds[i] == -1 : s->fds[i] >= 0);
		if (s->fds[i] >= 0)
			close(s->fds[i]);
	}
	close(s->lfd);
	close(s->stop);
}

static int connect_n(struct server *s, const struct channel_auth *a, uint16_t first, uint16_t n,
		     int *fds, struct err *e)
{
	return open_n(-1, &s->addr, a, first, n, fds, -1, 5000, e);
}

static void close_n(int *fds, int n)
{
	while (n--)
		close(fds[n]);
}

static int stranger(struct server *s)
{
	int fd = tcp_connect("127.0.0.1", s->port, -1, 5000, NULL);

	assert_true(fd >= 0);
	return fd;
}

/* The server closes the connection within its time limit for a hello. */
static void expect_hung_up(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };
	char byte;

	assert_int_equal(poll(&p, 1, 4000), 1);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	close(fd);
}

/* ---- channels ---- */

static void test_open(void **state)
{
	struct server s;
	int fds[N], i;
	char c;

	(void)state;
	server_start(&s, 10000);
	assert_int_equal(connect_n(&s, &s.auth, FIRST, N, fds, &s.e), 0);
	pthread_join(s.thread, NULL);
	assert_int_equal(s.result, 0);
	/* Each channel number is the same connection at both ends. */
	for (i = 0; i < N; i++) {
		c = (char)('a' + i);
		assert_int_equal(send(fds[i], &c, 1, 0), 1);
		c = 0;
		assert_int_equal(poll_fd(s.fds[i], POLLIN, 5000), 1);
		assert_int_equal(recv(s.fds[i], &c, 1, 0), 1);
		assert_int_equal(c, 'a' + i);
		close(s.fds[i]);
	}
	close_n(fds, N);
	close(s.lfd);
	close(s.stop);
}

/* Several calls, in any order, may open the channels. */
static void test_open_in_parts(void **state)
{
	struct server s;
	int fds[N];

	(void)state;
	server_start(&s, 10000);
	assert_int_equal(connect_n(&s, &s.auth, FIRST + 2, 2, fds + 2, &s.e), 0);
	assert_int_equal(connect_n(&s, &s.auth, FIRST, 2, fds, &s.e), 0);
	server_join(&s, 0);
	close_n(fds, N);
}

/* A wrong secret opens no channel, and the right one still does afterwards. */
static void test_wrong_proofs(void **state)
{
	struct server s;
	struct channel_auth a;
	struct err e = ERR_INIT;
	int fds[N], i;

	(void)state;
	server_start(&s, 20000);
	for (i = 0; i < 4; i++) {
		a = s.auth;
		if (i == 0)
			a.token[31] ^= 1;
		else if (i == 1)
			a.client_nonce[0] ^= 1;
		else if (i == 2)
			a.server_nonce[0] ^= 1;
		else
			a.session ^= 1;
		assert_true(connect_n(&s, &a, FIRST, 1, fds, &e) < 0);
		assert_int_equal(fds[0], -1);
		assert_non_null(strstr(e.text, "127.0.0.1"));
	}
	/* Channel numbers outside this path. */
	assert_true(connect_n(&s, &s.auth, FIRST + N, 1, fds, &e) < 0);
	assert_true(connect_n(&s, &s.auth, FIRST - 1, 1, fds, &e) < 0);
	assert_int_equal(connect_n(&s, &s.auth, FIRST, N, fds, &e), 0);
	server_join(&s, 0);
	close_n(fds, N);
}

static void test_repeat(void **state)
{
	struct server s;
	struct err e = ERR_INIT;
	int fds[N], again[2];

	(void)state;
	server_start(&s, 10000);
	assert_int_equal(connect_n(&s, &s.auth, FIRST, 2, fds, &e), 0);
	/* One of the two channels is open already, so the call opens neither. */
	assert_true(connect_n(&s, &s.auth, FIRST + 1, 1, again, &e) < 0);
	assert_int_equal(connect_n(&s, &s.auth, FIRST + 2, 2, fds + 2, &e), 0);
	server_join(&s, 0);
	close_n(fds, N);
}

/* A recorded hello opens no second channel, and a server's proof is not valid as a client's. */
static void test_replay(void **state)
{
	uint8_t hello[HELLO_BYTES], reply[HELLO_BYTES];
	struct server s, fake;
	struct err e = ERR_INIT;
	int fds[N], got, fd;

	(void)state;
	/* A listener that echoes the hello has given no proof. */
	server_start(&s, 10000);
	memset(&fake, 0, sizeof(fake));
	fake.lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &fake.port, NULL);
	fake.addr = s.addr;
	fake.addr.sin_port = htons(fake.port);
	if (fork() == 0) {
		got = accept(fake.lfd, NULL, NULL);
		if (read_full(got, hello, sizeof(hello)) == HELLO_BYTES)
			write_full(got, hello, sizeof(hello));
		_exit(0);
	}
	assert_int_equal(connect_n(&fake, &s.auth, FIRST, 1, fds, &e), -EPROTO);
	assert_non_null(strstr(e.text, "proof"));

	/* A recorded client hello is sent twice. */
	if (fork() == 0) {
		connect_n(&fake, &s.auth, FIRST, 1, fds, &e);
		_exit(0);
	}
	got = accept(fake.lfd, NULL, NULL);
	assert_int_equal(read_full(got, hello, sizeof(hello)), HELLO_BYTES);
	fd = stranger(&s);
	assert_int_equal(write_full(fd, hello, sizeof(hello)), 0);
	assert_int_equal(read_full(fd, reply, sizeof(reply)), HELLO_BYTES);
	fds[0] = fd;
	fd = stranger(&s);
	assert_int_equal(write_full(fd, hello, sizeof(hello)), 0);
	expect_hung_up(fd);
	fd = stranger(&s);
	assert_int_equal(write_full(fd, reply, sizeof(reply)), 0);
	expect_hung_up(fd);
	close(got);
	close(fake.lfd);
	assert_int_equal(connect_n(&s, &s.auth, FIRST + 1, N - 1, fds + 1, &e), 0);
	server_join(&s, 0);
	close_n(fds, N);
}

static void test_garbage(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\n";
	uint8_t hello[HELLO_BYTES];
	struct channel_hello h = { .major = BULK_MAJOR + 1, .channel = FIRST };
	struct server s;
	int fds[N], fd;

	(void)state;
	server_start(&s, 20000);
	fd = stranger(&s);
	assert_int_equal(write_full(fd, http, sizeof(http)), 0);
	expect_hung_up(fd);
	hello_put(hello, &h); /* another version */
	fd = stranger(&s);
	assert_int_equal(write_full(fd, hello, sizeof(hello)), 0);
	expect_hung_up(fd);
	h.major = BULK_MAJOR; /* no proof */
	hello_put(hello, &h);
	fd = stranger(&s);
	assert_int_equal(write_full(fd, hello, sizeof(hello)), 0);
	expect_hung_up(fd);
	fd = stranger(&s); /* half a hello, then a close */
	assert_int_equal(write_full(fd, hello, 20), 0);
	close(fd);
	assert_int_equal(connect_n(&s, &s.auth, FIRST, N, fds, NULL), 0);
	server_join(&s, 0);
	close_n(fds, N);
}

/* Silent connections delay the others only little, even if they are more than the server's
 * limit. */
static void silent(int strangers, uint64_t limit_ms)
{
	struct server s;
	int fds[N], fd[200], i;
	uint64_t begin;

	server_start(&s, 20000);
	for (i = 0; i < strangers; i++)
		fd[i] = stranger(&s);
	begin = now_ns();
	assert_int_equal(connect_n(&s, &s.auth, FIRST, N, fds, NULL), 0);
	assert_in_range((now_ns() - begin) / 1000000, 0, limit_ms);
	server_join(&s, 0);
	close_n(fds, N);
	close_n(fd, strangers);
}

static void test_silent(void **state)
{
	(void)state;
	silent(1, 2000);
	silent(63, 2000);
	silent(100, 4000);
}

/* The server closes a silent connection without a new one arriving. */
static void test_silent_leaves(void **state)
{
	uint64_t begin = now_ns(), one = 1;
	struct server s;
	char byte;
	int fd;

	(void)state;
	server_start(&s, 20000);
	fd = stranger(&s);
	assert_int_equal(poll_fd(fd, POLLIN, 10000), 1);
	assert_true(recv(fd, &byte, 1, 0) <= 0);
	assert_in_range((now_ns() - begin) / 1000000, 4500, 9000);
	close(fd);
	assert_int_equal(write(s.stop, &one, sizeof(one)), sizeof(one));
	server_join(&s, -ECANCELED);
	assert_true(s.took_ns < 12000000000u);
}

static void test_gives_up(void **state)
{
	struct server s;
	int fds[N];

	(void)state;
	server_start(&s, 300);
	assert_int_equal(connect_n(&s, &s.auth, FIRST, N - 1, fds, NULL), 0);
	server_join(&s, -ETIMEDOUT);
	assert_non_null(strstr(s.e.text, "3 of 4"));
	close_n(fds, N - 1);
}

/* ---- plain connections ---- */

static void test_listen(void **state)
{
	struct err e = ERR_INIT;
	uint16_t port, other, none;
	int a, b, c;

	(void)state;
	a = tcp_listen("127.0.0.1", AF_INET, 0, 0, &port, &e);
	assert_true(a >= 0 && port);
	/* The first port of the range is in use, so the next free port is taken. */
	b = tcp_listen("127.0.0.1", AF_UNSPEC, port, port > 65500 ? port : port + 30, &other, &e);
	assert_true(b >= 0);
	assert_in_range(other, port + 1, port + 30);
	c = tcp_listen("127.0.0.1", AF_INET, port, port, &none, &e);
	assert_int_equal(c, -EADDRINUSE);
	assert_int_equal(none, 0);
	assert_int_equal(tcp_listen("localhost", AF_INET, 0, 0, &none, &e), -EINVAL);
	assert_int_equal(tcp_listen("::1", AF_INET, 0, 0, &none, &e), -EINVAL);
	assert_int_equal(tcp_listen("192.0.2.77", AF_INET, 0, 0, &none, &e), -EADDRNOTAVAIL);
	assert_non_null(strstr(e.text, "192.0.2.77 is not an address of this host"));
	assert_int_equal(tcp_listen("", AF_INET, 9, 8, &none, &e), -EINVAL);
	c = tcp_listen("", AF_UNSPEC, 0, 0, &none, &e);
	assert_true(c >= 0 && none);
	close(c);
	close(a);
	close(b);
}

/* A listener with a full backlog: further connections get no answer. */
static int full_listener(uint16_t *port, int *first)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, len), 0);
	assert_int_equal(listen(fd, 0), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	*first = tcp_connect("127.0.0.1", *port, -1, 5000, NULL);
	assert_true(*first >= 0);
	return fd;
}

static void test_connect(void **state)
{
	struct err e = ERR_INIT;
	uint64_t begin;
	uint16_t port;
	int lfd, fd;

	(void)state;
	lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &port, &e);
	/* localhost has addresses of both families, but the server listens on IPv4 only. */
	begin = now_ns();
	fd = tcp_connect("localhost", port, -1, 5000, &e);
	assert_true(fd >= 0);
	assert_in_range(now_ns() - begin, 0, 3000000000u);
	close(fd);
	close(lfd);
	assert_int_equal(tcp_connect("127.0.0.1", port, -1, 5000, &e), -ECONNREFUSED);
	assert_non_null(strstr(e.text, "127.0.0.1"));
	assert_non_null(strstr(e.text, "refused"));
	/* The blanks make it an invalid name, so no DNS query leaves this machine. */
	assert_true(tcp_connect("no such host", port, -1, 5000, &e) < 0);
	assert_non_null(strstr(e.text, "no such host"));
}

/* A stop request ends a connection attempt that gets no answer. */
static void test_connect_stopped(void **state)
{
	int stop = eventfd(1, EFD_CLOEXEC);
	struct err e = ERR_INIT;
	int lfd, first, fd;
	uint16_t port;

	(void)state;
	lfd = full_listener(&port, &first);
	fd = tcp_connect("127.0.0.1", port, stop, 60000, &e);
	assert_int_equal(fd, -ECANCELED);
	assert_int_equal(tcp_connect("localhost", port, stop, 60000, &e), -ECANCELED);
	close(first);
	close(lfd);
	close(stop);
}

static void *first_main(void *client)
{
	struct err e = ERR_INIT;

	return (void *)(intptr_t)opener_first(client, 1, -1, 5000, &e);
}

/* Opens one channel between the two. */
static void connect_first(struct opener *server, struct opener *client)
{
	struct err e = ERR_INIT;
	pthread_t thread;
	void *result;

	assert_int_equal(thread_start(&thread, "client", first_main, client), 0);
	assert_int_equal(opener_first(server, 1, -1, 5000, &e), 0);
	pthread_join(thread, &result);
	assert_null(result);
}

/* The listener of a path that may grow closes listen_ms after the last channel; with -1 it
 * stays. */
static void test_listens_on(void **state)
{
	static const int listen_ms[] = { 300, -1 };
	struct channel_auth auth = { .session = 1 };
	struct path path = { 0 }; /* opens no further channel */

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct opener_config c = { .auth = &auth, .n = 2, .patience_ms = 50,
					   .listen_ms = listen_ms[i], .tos = -1 };
		struct sockaddr_in to = { .sin_family = AF_INET,
					  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
		struct opener *server, *client;
		uint64_t end;
		uint16_t port;
		int fd, lfd = tcp_listen("127.0.0.1", AF_INET, 0, 0, &port, NULL);

		server = opener_new(&c, lfd, NULL);
		to.sin_port = htons(port);
		memcpy(&c.to, &to, sizeof(to));
		c.to_len = sizeof(to);
		client = opener_new(&c, -1, NULL);
		assert_true(server && client);
		connect_first(server, client);
		assert_int_equal(opener_go_on(server, &path), 0);
		end = now_ns() + (listen_ms[i] < 0 ? 1000 : 10000) * 1000000ull;
		while (!opener_refused(server) && now_ns() < end)
			usleep(10000);
		assert_int_equal(opener_refused(server), listen_ms[i] >= 0);
		fd = tcp_connect("127.0.0.1", port, -1, 1000, NULL);
		assert_int_equal(fd >= 0, listen_ms[i] < 0);
		if (fd >= 0)
			close(fd);
		opener_free(client);
		opener_free(server);
	}
}

/* ---- endpoints ---- */

struct end {
	struct endpoint *ep;
	struct path_config cfg;
	struct path *path;
	pthread_t thread;
};

static void *end_open(void *arg)
{
	struct end *d = arg;

	d->path = d->ep->ops->open(d->ep, &d->cfg, -1, 5000, NULL);
	return NULL;
}

static void end_new(struct end *d, const struct endpoint_config *c)
{
	const struct pool_config pool = { .blocks = 4, .payload = 65536 };

	d->ep = tcp_endpoint(c, NULL);
	d->cfg = (struct path_config){ .source = c->source, .pool = pool_new(&pool, NULL),
				       .payload = 65536, .inflight = 4 };
	assert_true(d->ep && d->cfg.pool);
}

static void end_free(struct end *d)
{
	d->path->ops->free(d->path);
	pool_free(d->cfg.pool);
	d->ep->ops->free(d->ep);
}

/* The number of this process's connected sockets with this type of service. */
static int sockets_with(int tos)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		struct sockaddr_storage peer;
		socklen_t len = sizeof(peer), size = sizeof(int);
		int is = -1;

		if (getpeername(fd, (struct sockaddr *)&peer, &len))
			continue;
		if (peer.ss_family == AF_INET6)
			getsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &is, &size);
		else
			getsockopt(fd, IPPROTO_IP, IP_TOS, &is, &size);
		n += is == tos;
	}
	return n;
}

static void type_of_service(struct sockaddr_storage *a, socklen_t len, in_port_t *port)
{
	const struct agreement agr = { .transport = TRANSPORT_TCP, .channels = N,
				       .channels_first = N };
	const struct channel_auth auth = { .session = 1 };
	const struct endpoint_config sink = { .agr = &agr, .auth = &auth, .tos = 0x88 };
	const struct endpoint_config source = { .source = true, .agr = &agr, .auth = &auth,
						.tos = 0xb8 };
	struct end server = { 0 }, client = { 0 };
	uint16_t at;

	end_new(&server, &sink);
	end_new(&client, &source);
	assert_int_equal(server.ep->ops->listen(server.ep, a, 0, 0, &at, NULL), 0);
	*port = htons(at);
	assert_int_equal(client.ep->ops->resolve(client.ep, a, len, -1, 5000, NULL), 0);
	assert_int_equal(thread_start(&server.thread, "server", end_open, &server), 0);
	end_open(&client);
	pthread_join(server.thread, NULL);
	assert_true(server.path && client.path);
	assert_int_equal(sockets_with(0x88), N);
	assert_int_equal(sockets_with(0xb8), N);
	end_free(&client);
	end_free(&server);
}

/* Each side sets its own type of service, over IPv4 and IPv6. */
static void test_type_of_service(void **state)
{
	struct sockaddr_storage a = { .ss_family = AF_INET };
	struct sockaddr_in *in = (struct sockaddr_in *)&a;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a;
	int fd;

	in->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	type_of_service(&a, sizeof(*in), &in->sin_port);
	fd = tcp_listen("::1", AF_INET6, 0, 0, &(uint16_t){ 0 }, NULL);
	if (fd < 0)
		return; /* a machine without IPv6 */
	close(fd);
	memset(&a, 0, sizeof(a));
	in6->sin6_family = AF_INET6;
	in6->sin6_addr = in6addr_loopback;
	type_of_service(&a, sizeof(*in6), &in6->sin6_port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open),
		cmocka_unit_test(test_open_in_parts),
		cmocka_unit_test(test_wrong_proofs),
		cmocka_unit_test(test_repeat),
		cmocka_unit_test(test_replay),
		cmocka_unit_test(test_garbage),
		cmocka_unit_test(test_silent),
		cmocka_unit_test(test_silent_leaves),
		cmocka_unit_test(test_gives_up),
		cmocka_unit_test(test_listen),
		cmocka_unit_test(test_connect),
		cmocka_unit_test(test_connect_stopped),
		cmocka_unit_test(test_listens_on),
		cmocka_unit_test(test_type_of_service),
	};

	signal(SIGPIPE, SIG_IGN);
	log_init("test-channel", LOG_LV_ERROR, false);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
