// SPDX-License-Identifier: Apache-2.0
/* rftpd with a preauth process under an attacker's control. Its client sends the name of a case in
 * a line; the attacked monitor, auth process and session are the real ones. The client gets the
 * outcome; then the process stays until the client disconnects. */
#include "server/monitor/msg.h"
#include "server/server.h"

#include "tests/support/raw-message.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WAIT_MS = 30 * 1000, FLOOD = 5000, LINGER_S = 600 };

struct preauth {
	int client, line, control;
	struct channel *monitor;
};

static const int some_fds[RAW_FDS]; /* all standard input */
static char noise[1 << 17];         /* zeros, as parts of messages */

/* ---- to the monitor ---- */

static struct login_request named(const char *user)
{
	struct login_request a = { { 0 } };

	snprintf(a.user, sizeof(a.user), "%s", user);
	return a;
}

static void ask(struct preauth *f, const void *p, size_t len)
{
	channel_send(f->monitor, REQUEST_LOGIN, p, len, WAIT_MS);
}

static void ask_short(struct preauth *f)
{
	ask(f, noise, 10);
}

static void ask_long(struct preauth *f)
{
	ask(f, noise, sizeof(struct login_request) + 1);
}

static void ask_huge(struct preauth *f)
{
	ask(f, noise, 100000);
}

static void ask_unended(struct preauth *f)
{
	struct login_request a;

	memset(&a, 'a', sizeof(a));
	ask(f, &a, sizeof(a));
}

/* Requests of other processes, and an unknown one. */
static void ask_report(struct preauth *f)
{
	struct check_report r = { .code = 0, .name = "anonymous" };

	channel_send(f->monitor, REQUEST_REPORT, &r, sizeof(r), WAIT_MS);
}

static void ask_memory(struct preauth *f)
{
	struct memory_request r = { .memory = 1 << 20 };

	channel_send(f->monitor, REQUEST_MEMORY, &r, sizeof(r), WAIT_MS);
}

static void ask_odd(struct preauth *f)
{
	channel_send(f->monitor, 77, noise, 8, WAIT_MS);
}

/* No descriptor reaches the monitor, by the pipe or by the socket of its replies. */
static void ask_with(struct preauth *f, unsigned nfds)
{
	struct login_request a = named("anonymous");

	dprintf(f->client, "descriptors %d %d\n",
		raw_send(f->monitor->up, &a, sizeof(a), some_fds, nfds, 0),
		raw_send(f->monitor->down, &a, sizeof(a), some_fds, nfds, 0));
}

static void ask_with_one(struct preauth *f)
{
	ask_with(f, 1);
}

static void ask_with_many(struct preauth *f)
{
	ask_with(f, RAW_FDS);
}

static void ask_thrice(struct preauth *f)
{
	struct login_request a = named("anonymous");

	for (int i = 0; i < 3; i++)
		ask(f, &a, sizeof(a));
}

static void ask_always(struct preauth *f)
{
	struct login_request a = named("anonymous");

	for (int i = 0; i < FLOOD; i++)
		ask(f, &a, sizeof(a));
}

static void ask_nothing(struct preauth *f)
{
	struct login_reply a;

	close(f->monitor->up);
	dprintf(f->client, "monitor %d\n",
		msg_receive(f->monitor->down, &a, sizeof(a), NULL, WAIT_MS));
}

static void ask_unread(struct preauth *f)
{
	struct login_request a = named("anonymous");

	ask(f, &a, sizeof(a));
	poll(&(struct pollfd){ .fd = f->monitor->down, .events = POLLIN }, 1, WAIT_MS);
}

static void leave_monitor(struct preauth *f)
{
	channel_close(f->monitor);
}

/* ---- descriptors that are slow to close ---- */

/* Passes the last descriptor of the client's connection, which has SO_LINGER and a client that does
 * not read. */
static void pass_lingering(struct preauth *f, int to)
{
	struct linger wait = { 1, LINGER_S };

	dprintf(f->client, "done\n");
	while (send(f->client, noise, sizeof(noise), MSG_DONTWAIT) > 0)
		;
	setsockopt(f->client, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait));
	raw_send(to, "\2\0\0\1x", 5, &f->client, 1, 0); /* looks like a log line */
	_exit(EXIT_SUCCESS);
}

static void ask_lingering(struct preauth *f)
{
	pass_lingering(f, f->monitor->down);
}

static void log_lingering(struct preauth *f)
{
	pass_lingering(f, f->monitor->up);
}

/* ---- to the auth process ---- */

/* Asks for an auth process as a real preauth process does. */
static void get_auth_for(struct preauth *f, const char *user)
{
	struct login_request request = named(user);
	struct login_reply a = { .code = -1 };

	ask(f, &request, sizeof(request));
	if (msg_receive(f->monitor->down, &a, sizeof(a), &f->line, WAIT_MS) < 0 || a.code)
		dprintf(f->client, "no auth process: %d\n", a.code);
}

static void get_auth(struct preauth *f)
{
	get_auth_for(f, "anonymous");
}

static struct credentials guess(void)
{
	struct credentials a = { .user = "anonymous", .password = "x" };

	return a;
}

static void tell_answer(struct preauth *f)
{
	struct login_result a = { .code = 1 };
	int rc = msg_receive(f->line, &a, sizeof(a), &f->control, WAIT_MS);

	dprintf(f->client, "auth %d %d\n", rc, a.code);
}

static void auth_short(struct preauth *f)
{
	get_auth(f);
	raw_send(f->line, noise, 10, NULL, 0, 0);
	tell_answer(f);
}

static void auth_long(struct preauth *f)
{
	get_auth(f);
	raw_send(f->line, noise, sizeof(struct credentials) + 1, NULL, 0, 0);
	tell_answer(f);
}

static void auth_unended(struct preauth *f)
{
	struct credentials a = guess();

	get_auth(f);
	memset(a.user, 'a', sizeof(a.user));
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

static void auth_with_many(struct preauth *f)
{
	struct credentials a = guess();

	get_auth(f);
	raw_send(f->line, &a, sizeof(a), some_fds, RAW_FDS, 0);
	tell_answer(f);
}

/* The monitor counts one user, but the credentials name another. */
static void auth_another(struct preauth *f)
{
	struct credentials a = guess();

	get_auth(f);
	snprintf(a.user, sizeof(a.user), "ftp");
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

static void auth_left(struct preauth *f)
{
	get_auth(f);
	close(f->line);
}

static void auth_silent(struct preauth *f)
{
	get_auth(f);
}

static void log_in(struct preauth *f)
{
	struct credentials a = guess();

	get_auth(f);
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

/* The account also has another name. */
static void auth_other_name(struct preauth *f)
{
	struct credentials a = guess();

	get_auth_for(f, "ftp");
	snprintf(a.user, sizeof(a.user), "ftp");
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

static void auth_twice(struct preauth *f)
{
	struct credentials a = guess();

	get_auth(f);
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

/* ---- to the session ---- */

/* Reports the session's data, or its end. */
static void tell_control(struct preauth *f)
{
	struct pollfd p = { .fd = f->control, .events = POLLIN };
	char text[100];
	ssize_t n = poll(&p, 1, WAIT_MS) == 1 ? recv(f->control, text, sizeof(text), 0) : -2;

	if (n > 4)
		dprintf(f->client, "session %.3s\n", text + 1);
	else
		dprintf(f->client, "session %s\n", n == -2 ? "silent" : "ended");
}

static struct ftp_handed handed(void)
{
	struct ftp_handed h = { .tls = 0 };

	return h;
}

static void handed_short(struct preauth *f)
{
	log_in(f);
	raw_send(f->line, noise, 3, NULL, 0, 0);
	tell_control(f);
}

static void handed_bad(struct preauth *f)
{
	struct ftp_handed h;

	log_in(f);
	memset(&h, 0xff, sizeof(h));
	raw_send(f->line, &h, sizeof(h), NULL, 0, 0);
	tell_control(f);
}

static void handed_with_many(struct preauth *f)
{
	struct ftp_handed h = handed();

	log_in(f);
	raw_send(f->line, &h, sizeof(h), some_fds, RAW_FDS, 0);
	tell_control(f);
}

static void serve(struct preauth *f)
{
	struct ftp_handed h = handed();

	log_in(f);
	raw_send(f->line, &h, sizeof(h), NULL, 0, 0);
}

static void session_noop(struct preauth *f)
{
	serve(f);
	raw_send(f->control, "\1NOOP\r\n", 7, NULL, 0, 0);
	tell_control(f);
}

static void session_odd(struct preauth *f)
{
	serve(f);
	raw_send(f->control, "\7NOOP\r\n", 7, NULL, 0, 0);
	tell_control(f);
}

static void session_empty(struct preauth *f)
{
	serve(f);
	raw_send(f->control, "\1", 1, NULL, 0, 0);
	tell_control(f);
}

static void session_huge(struct preauth *f)
{
	serve(f);
	noise[0] = 1;
	raw_send(f->control, noise, 70000, NULL, 0, 0);
	tell_control(f);
}

/* The session keeps no descriptor: it answers "session 200", and the test counts its open
 * descriptors. */
static void session_with_many(struct preauth *f)
{
	serve(f);
	for (int i = 0; i < 20; i++)
		raw_send(f->control, "\1NOOP\r\n", 7, some_fds, RAW_FDS, 0);
	tell_control(f);
}

static void session_flood(struct preauth *f)
{
	serve(f);
	for (int i = 0; i < FLOOD; i++)
		if (raw_send(f->control, "\1NOOP\r\n", 7, NULL, 0, MSG_DONTWAIT) < 0)
			poll(NULL, 0, 1);
}

static void session_unasked(struct preauth *f)
{
	struct data_reply a = { .code = 0 };

	serve(f);
	for (int i = 0; i < 10; i++)
		raw_send(f->line, &a, sizeof(a), some_fds, 1, MSG_DONTWAIT);
	raw_send(f->control, "\1NOOP\r\n", 7, NULL, 0, 0);
	tell_control(f);
}

/* ---- the process ---- */

static const struct {
	const char *name;
	void (*fn)(struct preauth *f);
} cases[] = {
	{ "ask-short", ask_short },
	{ "ask-long", ask_long },
	{ "ask-huge", ask_huge },
	{ "ask-unended", ask_unended },
	{ "ask-report", ask_report },
	{ "ask-memory", ask_memory },
	{ "ask-odd", ask_odd },
	{ "ask-with-one", ask_with_one },
	{ "ask-with-many", ask_with_many },
	{ "ask-thrice", ask_thrice },
	{ "ask-always", ask_always },
	{ "ask-nothing", ask_nothing },
	{ "ask-unread", ask_unread },
	{ "leave-monitor", leave_monitor },
	{ "ask-lingering", ask_lingering },
	{ "log-lingering", log_lingering },
	{ "auth-short", auth_short },
	{ "auth-long", auth_long },
	{ "auth-unended", auth_unended },
	{ "auth-with-many", auth_with_many },
	{ "auth-another", auth_another },
	{ "auth-left", auth_left },
	{ "auth-silent", auth_silent },
	{ "auth-other-name", auth_other_name },
	{ "auth-twice", auth_twice },
	{ "handed-short", handed_short },
	{ "handed-bad", handed_bad },
	{ "handed-with-many", handed_with_many },
	{ "session-noop", session_noop },
	{ "session-odd", session_odd },
	{ "session-empty", session_empty },
	{ "session-huge", session_huge },
	{ "session-with-many", session_with_many },
	{ "session-flood", session_flood },
	{ "session-unasked", session_unasked },
};

int preauth_run(const struct server *sv, int fd, struct channel *monitor, const struct ends *ends)
{
	struct preauth f = { .client = fd, .monitor = monitor, .line = -1, .control = -1 };
	char name[64] = "";

	(void)sv;
	(void)ends;
	if (read(fd, name, sizeof(name) - 1) <= 0)
		return EXIT_FAILURE;
	name[strcspn(name, "\n")] = '\0';
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, name))
			cases[i].fn(&f);
	dprintf(fd, "done\n");
	while (read(fd, name, sizeof(name)) > 0)
		;
	return EXIT_SUCCESS;
}
