// SPDX-License-Identifier: Apache-2.0
/* rftpd with a front that somebody has taken over: its client says in a line what it does to the
 * monitor, to the gate or to the session, which are the real ones. What comes of it is told to
 * the client; then it stays until the client has gone. */
#include "server/front.h"
#include "server/monitor.h"
#include "server/msg.h"

#include "tests/support/raw-message.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WAIT_MS = 30 * 1000, FLOOD = 5000, LINGER_S = 600 };

struct front {
	int client, monitor, line, control;
};

static const int some_fds[RAW_FDS]; /* all of them standard input */
static char noise[1 << 17];         /* zeros, to be taken for something */

/* ---- to the monitor ---- */

static struct front_ask named(const char *user)
{
	struct front_ask a = { { 0 } };

	snprintf(a.user, sizeof(a.user), "%s", user);
	return a;
}

static void ask_short(struct front *f)
{
	raw_send(f->monitor, noise, 10, NULL, 0, 0);
}

static void ask_long(struct front *f)
{
	raw_send(f->monitor, noise, sizeof(struct front_ask) + 1, NULL, 0, 0);
}

static void ask_huge(struct front *f)
{
	raw_send(f->monitor, noise, 100000, NULL, 0, 0);
}

static void ask_unended(struct front *f)
{
	struct front_ask a;

	memset(&a, 'a', sizeof(a));
	raw_send(f->monitor, &a, sizeof(a), NULL, 0, 0);
}

static void ask_with_one(struct front *f)
{
	struct front_ask a = named("anonymous");

	raw_send(f->monitor, &a, sizeof(a), some_fds, 1, 0);
}

static void ask_with_many(struct front *f)
{
	struct front_ask a = named("anonymous");

	raw_send(f->monitor, &a, sizeof(a), some_fds, RAW_FDS, 0);
}

static void ask_thrice(struct front *f)
{
	struct front_ask a = named("anonymous");

	for (int i = 0; i < 3; i++)
		raw_send(f->monitor, &a, sizeof(a), NULL, 0, 0);
}

static void ask_always(struct front *f)
{
	struct front_ask a = named("anonymous");

	for (int i = 0; i < FLOOD; i++)
		raw_send(f->monitor, &a, sizeof(a), NULL, 0, 0);
}

static void ask_nothing(struct front *f)
{
	struct front_answer a;

	raw_send(f->monitor, noise, 0, NULL, 0, 0);
	dprintf(f->client, "monitor %d\n", msg_receive(f->monitor, &a, sizeof(a), NULL, WAIT_MS));
}

static void ask_unread(struct front *f)
{
	struct front_ask a = named("anonymous");

	raw_send(f->monitor, &a, sizeof(a), NULL, 0, 0);
	poll(&(struct pollfd){ .fd = f->monitor, .events = POLLIN }, 1, WAIT_MS);
}

static void leave_monitor(struct front *f)
{
	close(f->monitor);
}

/* ---- what is slow to close ---- */

/* Its connection to the client, which reads nothing of it, and its last descriptor of that. */
static void pass_lingering(struct front *f, int to)
{
	struct linger wait = { 1, LINGER_S };

	dprintf(f->client, "done\n");
	while (send(f->client, noise, sizeof(noise), MSG_DONTWAIT) > 0)
		;
	setsockopt(f->client, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait));
	raw_send(to, "\2\0\0\1x", 5, &f->client, 1, 0); /* a line for the log, if anything */
	_exit(EXIT_SUCCESS);
}

/* By which lines for the log go. */
static int log_line(const struct front *f)
{
	int type = 0;
	socklen_t len = sizeof(type);

	for (int fd = STDERR_FILENO + 1; fd < 64; fd++)
		if (fd != f->monitor && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 &&
		    type == SOCK_SEQPACKET)
			return fd;
	return -1;
}

static void ask_lingering(struct front *f)
{
	pass_lingering(f, f->monitor);
}

static void log_lingering(struct front *f)
{
	pass_lingering(f, log_line(f));
}

/* ---- to the gate ---- */

/* As a front of ours does. */
static void get_gate_for(struct front *f, const char *user)
{
	struct front_ask ask = named(user);
	struct front_answer a = { .code = -1 };

	if (msg_send(f->monitor, &ask, sizeof(ask), -1, WAIT_MS) < 0 ||
	    msg_receive(f->monitor, &a, sizeof(a), &f->line, WAIT_MS) < 0 || a.code)
		dprintf(f->client, "no gate: %d\n", a.code);
}

static void get_gate(struct front *f)
{
	get_gate_for(f, "anonymous");
}

static struct gate_ask guess(void)
{
	struct gate_ask a = { .user = "anonymous", .password = "x" };

	return a;
}

static void tell_answer(struct front *f)
{
	struct gate_answer a = { .code = 1 };
	int rc = msg_receive(f->line, &a, sizeof(a), &f->control, WAIT_MS);

	dprintf(f->client, "gate %d %d\n", rc, a.code);
}

static void gate_short(struct front *f)
{
	get_gate(f);
	raw_send(f->line, noise, 10, NULL, 0, 0);
	tell_answer(f);
}

static void gate_long(struct front *f)
{
	get_gate(f);
	raw_send(f->line, noise, sizeof(struct gate_ask) + 1, NULL, 0, 0);
	tell_answer(f);
}

static void gate_unended(struct front *f)
{
	struct gate_ask a = guess();

	get_gate(f);
	memset(a.user, 'a', sizeof(a.user));
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

static void gate_with_many(struct front *f)
{
	struct gate_ask a = guess();

	get_gate(f);
	raw_send(f->line, &a, sizeof(a), some_fds, RAW_FDS, 0);
	tell_answer(f);
}

/* Whom the monitor counts is one, whom the gate is to let in another. */
static void gate_another(struct front *f)
{
	struct gate_ask a = guess();

	get_gate(f);
	snprintf(a.user, sizeof(a.user), "ftp");
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

static void gate_left(struct front *f)
{
	get_gate(f);
	close(f->line);
}

static void gate_silent(struct front *f)
{
	get_gate(f);
}

static void log_in(struct front *f)
{
	struct gate_ask a = guess();

	get_gate(f);
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

/* The account has another name, too. */
static void gate_other_name(struct front *f)
{
	struct gate_ask a = guess();

	get_gate_for(f, "ftp");
	snprintf(a.user, sizeof(a.user), "ftp");
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

static void gate_twice(struct front *f)
{
	struct gate_ask a = guess();

	get_gate(f);
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	raw_send(f->line, &a, sizeof(a), NULL, 0, 0);
	tell_answer(f);
}

/* ---- to who is the session by then ---- */

/* What it says, or that it says nothing more. */
static void tell_control(struct front *f)
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

static void handed_short(struct front *f)
{
	log_in(f);
	raw_send(f->line, noise, 3, NULL, 0, 0);
	tell_control(f);
}

static void handed_bad(struct front *f)
{
	struct ftp_handed h;

	log_in(f);
	memset(&h, 0xff, sizeof(h));
	raw_send(f->line, &h, sizeof(h), NULL, 0, 0);
	tell_control(f);
}

static void handed_with_many(struct front *f)
{
	struct ftp_handed h = handed();

	log_in(f);
	raw_send(f->line, &h, sizeof(h), some_fds, RAW_FDS, 0);
	tell_control(f);
}

static void serve(struct front *f)
{
	struct ftp_handed h = handed();

	log_in(f);
	raw_send(f->line, &h, sizeof(h), NULL, 0, 0);
}

static void session_noop(struct front *f)
{
	serve(f);
	raw_send(f->control, "\1NOOP\r\n", 7, NULL, 0, 0);
	tell_control(f);
}

static void session_odd(struct front *f)
{
	serve(f);
	raw_send(f->control, "\7NOOP\r\n", 7, NULL, 0, 0);
	tell_control(f);
}

static void session_empty(struct front *f)
{
	serve(f);
	raw_send(f->control, "\1", 1, NULL, 0, 0);
	tell_control(f);
}

static void session_huge(struct front *f)
{
	serve(f);
	noise[0] = 1;
	raw_send(f->control, noise, 70000, NULL, 0, 0);
	tell_control(f);
}

/* It keeps none of them: "session 200", and how many it has open is for the test to see. */
static void session_with_many(struct front *f)
{
	serve(f);
	for (int i = 0; i < 20; i++)
		raw_send(f->control, "\1NOOP\r\n", 7, some_fds, RAW_FDS, 0);
	tell_control(f);
}

static void session_flood(struct front *f)
{
	serve(f);
	for (int i = 0; i < FLOOD; i++)
		if (raw_send(f->control, "\1NOOP\r\n", 7, NULL, 0, MSG_DONTWAIT) < 0)
			poll(NULL, 0, 1);
}

static void session_unasked(struct front *f)
{
	struct guard_answer a = { .code = 0 };

	serve(f);
	for (int i = 0; i < 10; i++)
		raw_send(f->line, &a, sizeof(a), some_fds, 1, MSG_DONTWAIT);
	raw_send(f->control, "\1NOOP\r\n", 7, NULL, 0, 0);
	tell_control(f);
}

/* ---- the process ---- */

static const struct {
	const char *name;
	void (*fn)(struct front *f);
} cases[] = {
	{ "ask-short", ask_short },
	{ "ask-long", ask_long },
	{ "ask-huge", ask_huge },
	{ "ask-unended", ask_unended },
	{ "ask-with-one", ask_with_one },
	{ "ask-with-many", ask_with_many },
	{ "ask-thrice", ask_thrice },
	{ "ask-always", ask_always },
	{ "ask-nothing", ask_nothing },
	{ "ask-unread", ask_unread },
	{ "leave-monitor", leave_monitor },
	{ "ask-lingering", ask_lingering },
	{ "log-lingering", log_lingering },
	{ "gate-short", gate_short },
	{ "gate-long", gate_long },
	{ "gate-unended", gate_unended },
	{ "gate-with-many", gate_with_many },
	{ "gate-another", gate_another },
	{ "gate-left", gate_left },
	{ "gate-silent", gate_silent },
	{ "gate-other-name", gate_other_name },
	{ "gate-twice", gate_twice },
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

int front_run(const struct server *sv, int fd, int monitor, const struct ends *ends)
{
	struct front f = { .client = fd, .monitor = monitor, .line = -1, .control = -1 };
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
