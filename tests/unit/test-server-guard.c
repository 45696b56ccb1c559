// SPDX-License-Identifier: Apache-2.0
/* The preauth process does the TLS of data connections for a session process that does not trust
 * it. */
#include "server/server.h"
#include "server/monitor/msg.h"
#include "tests/support/tls.h"

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

/* ---- a preauth process, with a client that has logged in ---- */

struct scene {
	struct side client, preauth; /* the control connection */
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
	s->preauth = (struct side){ .ctx = server_ctx, .fd = control[1] };
	begin_side(&s->client);
	begin_side(&s->preauth);
	end_side(&s->client);
	end_side(&s->preauth);
	/* With this byte the client also reads its session tickets. */
	assert_int_equal(tls_write(s->preauth.tls, "w", 1, WAIT_MS), 1);
	assert_int_equal(tls_read(s->client.tls, &c, 1, WAIT_MS), 1);
	s->pid = fork();
	if (s->pid == 0) {
		close(line[0]);
		alarm(WAIT_MS / 1000 * 4);
		guard_serve(line[1], server_ctx, s->preauth.tls, "test");
		_exit(EXIT_SUCCESS);
	}
	close(line[1]);
	s->line = line[0];
}

/* The preauth process exits with success when its session process is gone. */
static void end_scene(struct scene *s)
{
	int status;

	close(s->line);
	assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
	assert_int_equal(status, 0);
	tls_free(s->client.tls);
	tls_free(s->preauth.tls);
	close(s->client.fd);
	close(s->preauth.fd);
}

/* ---- tests ---- */

/* O_NONBLOCK belongs to the socket, so the session process can clear it for the preauth process,
 * too. If the preauth process then blocked in a read from the client, it would no longer forward
 * the data of the session process. */
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
