// SPDX-License-Identifier: Apache-2.0
/* Data connections that a session has its front put under TLS, when the session is not ours. */
#include "server/guard.h"
#include "server/msg.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { WAIT_MS = 20000, ROUNDS = 100 };

static char dir[] = "/tmp/rftp-test-guard-XXXXXX";
static struct tls_ctx *server_ctx, *client_ctx;

static int group_setup(void **state)
{
	char cert[64], key[64];
	struct err e = ERR_INIT;

	assert_non_null(mkdtemp(dir));
	snprintf(cert, sizeof(cert), "%s/cert.pem", dir);
	snprintf(key, sizeof(key), "%s/key.pem", dir);
	assert_int_equal(tls_make_certificate(cert, key, "test", &e), 0);
	server_ctx = tls_server_new(cert, key, &e);
	client_ctx = tls_client_new(NULL, &e);
	unlink(cert);
	unlink(key);
	return server_ctx && client_ctx ? rmdir(dir) : -1;
}

static int group_teardown(void **state)
{
	tls_ctx_free(server_ctx);
	tls_ctx_free(client_ctx);
	return 0;
}

/* ---- both sides of a handshake ---- */

struct side {
	struct tls_ctx *ctx;
	int fd;
	struct tls *tls, *resume;
	pthread_t thread;
};

static void *shake(void *arg)
{
	struct side *s = arg;
	struct err e = ERR_INIT;

	s->tls = tls_start(s->ctx, s->fd, s->ctx == client_ctx ? "test" : NULL, s->resume,
			   WAIT_MS, &e);
	return NULL;
}

static void begin_side(struct side *s)
{
	assert_int_equal(thread_start(&s->thread, "side", shake, s), 0);
}

static void end_side(struct side *s)
{
	pthread_join(s->thread, NULL);
	assert_non_null(s->tls);
}

/* ---- a front, with a client that has logged in ---- */

struct scene {
	struct side client, front;   /* the control connection */
	int line;
	pid_t pid;
};

static void begin_scene(struct scene *s)
{
	int control[2], line[2];
	char c;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, control), 0);
	assert_int_equal(msg_pair(line), 0);
	s->client = (struct side){ .ctx = client_ctx, .fd = control[0] };
	s->front = (struct side){ .ctx = server_ctx, .fd = control[1] };
	begin_side(&s->client);
	begin_side(&s->front);
	end_side(&s->client);
	end_side(&s->front);
	/* The client reads its tickets with it. */
	assert_int_equal(tls_write(s->front.tls, "w", 1, WAIT_MS), 1);
	assert_int_equal(tls_read(s->client.tls, &c, 1, WAIT_MS), 1);
	s->pid = fork();
	if (s->pid == 0) {
		close(line[0]);
		alarm(WAIT_MS / 1000 * 4);
		guard_serve(line[1], server_ctx, s->front.tls, "test");
		_exit(EXIT_SUCCESS);
	}
	close(line[1]);
	s->line = line[0];
}

/* The front ends well when its session has gone. */
static void end_scene(struct scene *s)
{
	int status;

	close(s->line);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_int_equal(status, 0);
	tls_free(s->client.tls);
	tls_free(s->front.tls);
	close(s->client.fd);
	close(s->front.fd);
}

/* ---- tests ---- */

/* Whether calls on a socket sleep is said of the socket, and so of all who have it: a front that
 * slept in one for the client's bytes would pass nothing on of the session's. */
static void test_session_lets_calls_sleep(void **state)
{
	int data[2], kept;
	struct side client = { .ctx = client_ctx };
	struct err e = ERR_INIT;
	struct stream *st;
	struct scene s;
	char c;

	begin_scene(&s);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, data), 0);
	kept = dup(data[1]);
	client.fd = data[0];
	client.resume = s.client.tls;
	begin_side(&client);
	st = guard_data(s.line, data[1], &e);
	end_side(&client);
	assert_non_null(st);
	assert_int_equal(set_nonblock(kept, false), 0);
	for (int i = 0; i < ROUNDS; i++) {
		assert_int_equal(tls_write(client.tls, "u", 1, WAIT_MS), 1);
		assert_int_equal(st->ops->read(st, &c, 1, WAIT_MS), 1);
		assert_int_equal(c, 'u');
		assert_int_equal(st->ops->write(st, "d", 1, WAIT_MS), 1);
		assert_int_equal(tls_read(client.tls, &c, 1, WAIT_MS), 1);
		assert_int_equal(c, 'd');
	}
	stream_free(st);
	tls_free(client.tls);
	close(client.fd);
	close(kept);
	end_scene(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_session_lets_calls_sleep),
	};

	return cmocka_run_group_tests_name("server-guard", tests, group_setup, group_teardown);
}
