// SPDX-License-Identifier: Apache-2.0
/* rftpd with a gate, and so a session, that somebody has taken over: the user name says what it
 * does to the monitor or to the front, which are the real ones. */
#include "server/gate.h"
#include "server/monitor.h"
#include "server/msg.h"

#include "tests/support/raw-message.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { WAIT_MS = 30 * 1000, FLOOD = 500 };

struct gate {
	int line, monitor, control;
	bool refuses; /* what the client says is answered by 500 */
};

static const int some_fds[RAW_FDS]; /* all of them standard input */
static char noise[1 << 17];

/* ---- a session ---- */

/* As one of ours does, which says 200 to everything. */
static int begin_session(struct gate *g, const struct gate_answer *a)
{
	struct ftp_handed h;
	int pair[2], rc = msg_pair(pair);

	if (rc == 0)
		rc = msg_send(g->line, a, sizeof(*a), pair[1], WAIT_MS);
	if (rc == 0)
		rc = msg_receive(g->line, &h, sizeof(h), NULL, WAIT_MS);
	if (rc == 0) {
		close(pair[1]);
		g->control = pair[0];
	}
	return rc;
}

static void say_yes(struct gate *g)
{
	char text[256];

	while (recv(g->control, text, sizeof(text), 0) > 1 && *text == 1)
		raw_send(g->control, g->refuses ? "\1" "500 no\r\n" : "\1" "200 ok\r\n", 9, NULL, 0,
			 0);
}

/* ---- to the monitor ---- */

static struct gate_report report_of(int code)
{
	struct gate_report r = { .code = code, .name = "phony" };

	return r;
}

static void report_short(struct gate *g)
{
	raw_send(g->monitor, noise, 5, NULL, 0, 0);
}

static void report_long(struct gate *g)
{
	raw_send(g->monitor, noise, sizeof(struct gate_report) + 1, NULL, 0, 0);
}

static void report_unended(struct gate *g)
{
	struct gate_report r = { .code = 0 };

	memset(r.name, 'a', sizeof(r.name));
	raw_send(g->monitor, &r, sizeof(r), NULL, 0, 0);
}

static void report_with_many(struct gate *g)
{
	struct gate_report r = report_of(0);

	raw_send(g->monitor, &r, sizeof(r), some_fds, RAW_FDS, 0);
}

/* No error is a positive number: taken for one, nothing would be counted. */
static void report_odd(struct gate *g)
{
	struct gate_report r = report_of(77);

	raw_send(g->monitor, &r, sizeof(r), NULL, 0, 0);
}

static void report_twice(struct gate *g)
{
	struct gate_report r = report_of(-EIO);

	for (int i = 0; i < 2; i++)
		raw_send(g->monitor, &r, sizeof(r), NULL, 0, 0);
}

static void report_always(struct gate *g)
{
	struct gate_report r = report_of(0);

	for (int i = 0; i < FLOOD; i++)
		raw_send(g->monitor, &r, sizeof(r), NULL, 0, 0);
}

/* ---- to the front, for an answer ---- */

static void answer_short(struct gate *g)
{
	raw_send(g->line, noise, 5, NULL, 0, 0);
}

static void answer_long(struct gate *g)
{
	raw_send(g->line, noise, sizeof(struct gate_answer) + 1, NULL, 0, 0);
}

static void answer_with_many(struct gate *g)
{
	struct gate_answer a = { .code = 0, .name = "phony" };

	raw_send(g->line, &a, sizeof(a), some_fds, RAW_FDS, 0);
}

static void answer_without(struct gate *g)
{
	struct gate_answer a = { .code = 0, .name = "phony" };

	raw_send(g->line, &a, sizeof(a), NULL, 0, 0);
}

static void answer_unended(struct gate *g)
{
	struct gate_answer a = { .code = -EKEYEXPIRED };

	memset(a.why, 'a', sizeof(a.why));
	raw_send(g->line, &a, sizeof(a), NULL, 0, 0);
}

/* No error is a positive number: all else is as a session of ours has it. */
static void answer_odd(struct gate *g)
{
	struct gate_answer a = { .code = 77, .name = "phony" };

	begin_session(g, &a);
	say_yes(g);
}

static void answer_nothing(struct gate *g)
{
	shutdown(g->line, SHUT_WR);
}

/* ---- to the front, as a session ---- */

static void be_good(struct gate *g)
{
	(void)g;
}

static void guard_short(struct gate *g)
{
	raw_send(g->line, noise, 1, some_fds, 1, 0);
}

static void guard_long(struct gate *g)
{
	raw_send(g->line, noise, 1000, some_fds, 1, 0);
}

static void guard_odd(struct gate *g)
{
	struct guard_ask ask = { .what = 77 };

	raw_send(g->line, &ask, sizeof(ask), some_fds, 1, 0);
}

static void guard_without(struct gate *g)
{
	struct guard_ask ask = { .what = GUARD_DATA };

	raw_send(g->line, &ask, sizeof(ask), NULL, 0, 0);
}

static void guard_with_many(struct gate *g)
{
	struct guard_ask ask = { .what = GUARD_DATA };

	raw_send(g->line, &ask, sizeof(ask), some_fds, RAW_FDS, 0);
}

/* The front answers each before it takes the next. */
static void guard_fd(struct gate *g, int fd)
{
	struct guard_ask ask = { .what = GUARD_DATA };
	struct guard_answer a;
	int got = -1;

	if (fd < 0)
		return;
	if (raw_send(g->line, &ask, sizeof(ask), &fd, 1, 0) == 0)
		msg_receive(g->line, &a, sizeof(a), &got, WAIT_MS);
	if (got >= 0)
		close(got);
	close(fd);
}

static void guard_always(struct gate *g)
{
	for (int i = 0; i < FLOOD; i++)
		guard_fd(g, open("/dev/zero", O_RDWR));
}

/* What is no connection to a client at all, and does not look like one that is silent. */
static void guard_kinds(struct gate *g)
{
	int fds[2];

	guard_fd(g, open("/", O_RDONLY | O_DIRECTORY));
	guard_fd(g, open("/dev/null", O_PATH));
	guard_fd(g, memfd_create("phony", 0));
	guard_fd(g, epoll_create1(0));
	guard_fd(g, eventfd(0, 0));
	guard_fd(g, socket(AF_INET, SOCK_STREAM, 0));
	if (pipe(fds) == 0) {
		close(fds[0]);
		guard_fd(g, fds[1]);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0) {
		raw_send(fds[0], noise, 1000, some_fds, 1, 0);
		guard_fd(g, fds[1]);
		close(fds[0]);
	}
}

/* Its answers lie there until there is no more room for them. */
static void guard_unread(struct gate *g)
{
	struct guard_ask ask = { .what = GUARD_DATA };

	for (int i = 0; i < FLOOD; i++)
		if (raw_send(g->line, &ask, sizeof(ask), some_fds, 1, MSG_DONTWAIT) < 0)
			poll(NULL, 0, 1);
}

static void control_odd(struct gate *g)
{
	raw_send(g->control, "\7what", 5, NULL, 0, 0);
}

static void control_empty(struct gate *g)
{
	raw_send(g->control, "\1", 1, NULL, 0, 0);
}

static void control_huge(struct gate *g)
{
	noise[0] = 1;
	raw_send(g->control, noise, 70000, NULL, 0, 0);
}

/* Pieces of the reply to what the client says next. */
static void control_with_many(struct gate *g)
{
	for (int i = 0; i < 20; i++)
		raw_send(g->control, "\1" "200-ok\r\n", 9, some_fds, RAW_FDS, 0);
}

/* ---- to the monitor, as a session ---- */

/* A session may say a great deal at once; at some time much more takes its time, in which the
 * monitor is not busy with it. Where all is slow that is at once. */
enum { MUCH_SAID = 20000, MUCH_ASKED = 5000, TIMES = 20, LEAST_S = 2 };

static void flood(struct gate *g, void (*once)(struct gate *g), unsigned much)
{
	g->refuses = true;
	for (unsigned i = 0; i < TIMES && g->refuses; i++) {
		uint64_t begun = now_ns();

		for (unsigned k = 0; k < much; k++)
			once(g);
		g->refuses = now_ns() - begun < (uint64_t)LEAST_S * 1000000000;
	}
}

static void say_line(struct gate *g)
{
	(void)g;
	log_info("x");
}

static void log_always(struct gate *g)
{
	flood(g, say_line, MUCH_SAID);
}

static void ask_memory(struct gate *g)
{
	struct session_ask ask = { .memory = UINT64_MAX };
	struct session_answer a;

	if (msg_send(g->monitor, &ask, sizeof(ask), -1, WAIT_MS) < 0 ||
	    msg_receive(g->monitor, &a, sizeof(a), NULL, WAIT_MS) < 0)
		exit(EXIT_FAILURE);
}

static void lend_always(struct gate *g)
{
	flood(g, ask_memory, MUCH_ASKED);
}

/* ---- the process ---- */

enum as { TO_MONITOR, TO_FRONT, AS_SESSION };

static const struct {
	const char *name;
	enum as as;
	void (*fn)(struct gate *g);
} cases[] = {
	{ "report-short", TO_MONITOR, report_short },
	{ "report-long", TO_MONITOR, report_long },
	{ "report-unended", TO_MONITOR, report_unended },
	{ "report-with-many", TO_MONITOR, report_with_many },
	{ "report-odd", TO_MONITOR, report_odd },
	{ "report-twice", TO_MONITOR, report_twice },
	{ "report-always", TO_MONITOR, report_always },
	{ "answer-short", TO_FRONT, answer_short },
	{ "answer-long", TO_FRONT, answer_long },
	{ "answer-with-many", TO_FRONT, answer_with_many },
	{ "answer-without", TO_FRONT, answer_without },
	{ "answer-unended", TO_FRONT, answer_unended },
	{ "answer-odd", TO_FRONT, answer_odd },
	{ "answer-nothing", TO_FRONT, answer_nothing },
	{ "good", AS_SESSION, be_good },
	{ "guard-short", AS_SESSION, guard_short },
	{ "guard-long", AS_SESSION, guard_long },
	{ "guard-odd", AS_SESSION, guard_odd },
	{ "guard-without", AS_SESSION, guard_without },
	{ "guard-with-many", AS_SESSION, guard_with_many },
	{ "guard-always", AS_SESSION, guard_always },
	{ "guard-kinds", AS_SESSION, guard_kinds },
	{ "guard-unread", AS_SESSION, guard_unread },
	{ "control-odd", AS_SESSION, control_odd },
	{ "control-empty", AS_SESSION, control_empty },
	{ "control-huge", AS_SESSION, control_huge },
	{ "log-always", AS_SESSION, log_always },
	{ "lend-always", AS_SESSION, lend_always },
	{ "control-with-many", AS_SESSION, control_with_many },
};

static int report(struct gate *g)
{
	struct gate_report r = report_of(0);
	struct gate_orders o;
	int rc = msg_send(g->monitor, &r, sizeof(r), -1, WAIT_MS);

	return rc < 0 ? rc : msg_receive(g->monitor, &o, sizeof(o), NULL, WAIT_MS);
}

static int act(struct gate *g, size_t i)
{
	static const struct gate_answer good = { .code = 0, .name = "phony" };

	if (cases[i].as != TO_MONITOR && report(g) < 0)
		return EXIT_FAILURE;
	if (cases[i].as == AS_SESSION && begin_session(g, &good) < 0)
		return EXIT_FAILURE;
	cases[i].fn(g);
	if (cases[i].as == AS_SESSION)
		say_yes(g);
	else if (cases[i].as == TO_FRONT) /* until it hangs up */
		poll(&(struct pollfd){ .fd = g->line }, 1, WAIT_MS);
	else
		poll(NULL, 0, WAIT_MS); /* to be ended by the monitor */
	return EXIT_SUCCESS;
}

int gate_run(const struct server *sv, int line, int monitor, const struct ends *ends,
	     const char *user)
{
	struct gate g = { .line = line, .monitor = monitor, .control = -1 };
	struct gate_ask ask;

	(void)sv;
	(void)user;
	(void)ends;
	if (msg_receive(line, &ask, sizeof(ask), NULL, WAIT_MS) < 0)
		return EXIT_FAILURE;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(cases[i].name, ask.user))
			return act(&g, i);
	return EXIT_FAILURE;
}
