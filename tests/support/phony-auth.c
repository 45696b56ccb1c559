// SPDX-License-Identifier: Apache-2.0
/* rftpd with an auth process, and so a session, under an attacker's control. The user name selects
 * a case; the attacked monitor and preauth process are the real ones. */
#include "server/auth/auth.h"
#include "server/monitor/msg.h"

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

struct auth {
	int line, control;
	struct channel *monitor;
	bool refuses; /* commands of the client get reply 500 */
};

static const int some_fds[RAW_FDS]; /* all standard input */
static char noise[1 << 17];

/* ---- a session ---- */

/* Starts a session like a real one, which answers every command with 200. */
static int begin_session(struct auth *g, const struct login_result *a)
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

static void say_yes(struct auth *g)
{
	char text[256];

	while (recv(g->control, text, sizeof(text), 0) > 1 && *text == 1)
		raw_send(g->control, g->refuses ? "\1" "500 no\r\n" : "\1" "200 ok\r\n", 9, NULL, 0,
			 0);
}

/* ---- to the monitor ---- */

static struct check_report report_of(int code)
{
	struct check_report r = { .code = code, .name = "phony" };

	return r;
}

static void send_report(struct auth *g, const void *p, size_t len)
{
	channel_send(g->monitor, REQUEST_REPORT, p, len, WAIT_MS);
}

static void report_short(struct auth *g)
{
	send_report(g, noise, 5);
}

static void report_long(struct auth *g)
{
	send_report(g, noise, sizeof(struct check_report) + 1);
}

static void report_unended(struct auth *g)
{
	struct check_report r = { .code = 0 };

	memset(r.name, 'a', sizeof(r.name));
	send_report(g, &r, sizeof(r));
}

/* No descriptor reaches the monitor, by the pipe or by the socket of its replies. */
static void report_with_many(struct auth *g)
{
	struct check_report r = report_of(0);

	log_info("descriptors %d %d", raw_send(g->monitor->up, &r, sizeof(r), some_fds, RAW_FDS, 0),
		 raw_send(g->monitor->down, &r, sizeof(r), some_fds, RAW_FDS, 0));
	exit(EXIT_SUCCESS);
}

/* A positive number is not an error code: accepting it as one would bypass the login throttling. */
static void report_odd(struct auth *g)
{
	struct check_report r = report_of(77);

	send_report(g, &r, sizeof(r));
}

static void report_twice(struct auth *g)
{
	struct check_report r = report_of(-EIO);

	for (int i = 0; i < 2; i++)
		send_report(g, &r, sizeof(r));
}

static void report_always(struct auth *g)
{
	struct check_report r = report_of(0);

	for (int i = 0; i < FLOOD; i++)
		send_report(g, &r, sizeof(r));
}

/* A login request of its own, and a memory request before the login. */
static void report_login(struct auth *g)
{
	struct login_request r = { "anonymous" };

	channel_send(g->monitor, REQUEST_LOGIN, &r, sizeof(r), WAIT_MS);
}

static void report_memory(struct auth *g)
{
	struct memory_request r = { .memory = 1 << 20 };

	channel_send(g->monitor, REQUEST_MEMORY, &r, sizeof(r), WAIT_MS);
}

/* ---- to the preauth process: the login result ---- */

static void answer_short(struct auth *g)
{
	raw_send(g->line, noise, 5, NULL, 0, 0);
}

static void answer_long(struct auth *g)
{
	raw_send(g->line, noise, sizeof(struct login_result) + 1, NULL, 0, 0);
}

static void answer_with_many(struct auth *g)
{
	struct login_result a = { .code = 0, .name = "phony" };

	raw_send(g->line, &a, sizeof(a), some_fds, RAW_FDS, 0);
}

static void answer_without(struct auth *g)
{
	struct login_result a = { .code = 0, .name = "phony" };

	raw_send(g->line, &a, sizeof(a), NULL, 0, 0);
}

static void answer_unended(struct auth *g)
{
	struct login_result a = { .code = -EKEYEXPIRED };

	memset(a.why, 'a', sizeof(a.why));
	raw_send(g->line, &a, sizeof(a), NULL, 0, 0);
}

/* A positive number is not an error code; everything else is as in a real session. */
static void answer_odd(struct auth *g)
{
	struct login_result a = { .code = 77, .name = "phony" };

	begin_session(g, &a);
	say_yes(g);
}

static void answer_nothing(struct auth *g)
{
	shutdown(g->line, SHUT_WR);
}

/* ---- to the preauth process, as a session ---- */

static void be_good(struct auth *g)
{
	(void)g;
}

static void guard_short(struct auth *g)
{
	raw_send(g->line, noise, 1, some_fds, 1, 0);
}

static void guard_long(struct auth *g)
{
	raw_send(g->line, noise, 1000, some_fds, 1, 0);
}

static void guard_odd(struct auth *g)
{
	struct data_request ask = { .kind = 77 };

	raw_send(g->line, &ask, sizeof(ask), some_fds, 1, 0);
}

static void guard_without(struct auth *g)
{
	struct data_request ask = { .kind = DATA_TLS };

	raw_send(g->line, &ask, sizeof(ask), NULL, 0, 0);
}

static void guard_with_many(struct auth *g)
{
	struct data_request ask = { .kind = DATA_TLS };

	raw_send(g->line, &ask, sizeof(ask), some_fds, RAW_FDS, 0);
}

/* Passes a descriptor; the preauth process replies to each before it takes the next. */
static void guard_fd(struct auth *g, int fd)
{
	struct data_request ask = { .kind = DATA_TLS };
	struct data_reply a;
	int got = -1;

	if (fd < 0)
		return;
	if (raw_send(g->line, &ask, sizeof(ask), &fd, 1, 0) == 0)
		msg_receive(g->line, &a, sizeof(a), &got, WAIT_MS);
	if (got >= 0)
		close(got);
	close(fd);
}

static void guard_always(struct auth *g)
{
	for (int i = 0; i < FLOOD; i++)
		guard_fd(g, open("/dev/zero", O_RDWR));
}

/* Descriptors that are no connection to a client, and that do not look like a silent one. */
static void guard_kinds(struct auth *g)
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

/* Does not read the replies, until there is no room for more. */
static void guard_unread(struct auth *g)
{
	struct data_request ask = { .kind = DATA_TLS };

	for (int i = 0; i < FLOOD; i++)
		if (raw_send(g->line, &ask, sizeof(ask), some_fds, 1, MSG_DONTWAIT) < 0)
			poll(NULL, 0, 1);
}

static void control_odd(struct auth *g)
{
	raw_send(g->control, "\7what", 5, NULL, 0, 0);
}

static void control_empty(struct auth *g)
{
	raw_send(g->control, "\1", 1, NULL, 0, 0);
}

static void control_huge(struct auth *g)
{
	noise[0] = 1;
	raw_send(g->control, noise, 70000, NULL, 0, 0);
}

/* Parts of the reply to the client's next command. */
static void control_with_many(struct auth *g)
{
	for (int i = 0; i < 20; i++)
		raw_send(g->control, "\1" "200-ok\r\n", 9, some_fds, RAW_FDS, 0);
}

/* ---- to the monitor, as a session ---- */

/* A session may send many requests at once; beyond that the monitor delays it, without being busy
 * meanwhile. On a slow machine even the first ones take that long. */
enum { MUCH_SAID = 20000, MUCH_ASKED = 5000, TIMES = 20, LEAST_S = 2 };

static void flood(struct auth *g, void (*once)(struct auth *g), unsigned much)
{
	g->refuses = true;
	for (unsigned i = 0; i < TIMES && g->refuses; i++) {
		uint64_t begun = now_ns();

		for (unsigned k = 0; k < much; k++)
			once(g);
		g->refuses = now_ns() - begun < (uint64_t)LEAST_S * 1000000000;
	}
}

static void say_line(struct auth *g)
{
	(void)g;
	log_info("x");
}

static void log_always(struct auth *g)
{
	flood(g, say_line, MUCH_SAID);
}

static void ask_memory(struct auth *g)
{
	struct memory_request ask = { .memory = UINT64_MAX };
	struct memory_reply a;

	if (channel_send(g->monitor, REQUEST_MEMORY, &ask, sizeof(ask), WAIT_MS) < 0 ||
	    msg_receive(g->monitor->down, &a, sizeof(a), NULL, WAIT_MS) < 0)
		exit(EXIT_FAILURE);
}

static void lend_always(struct auth *g)
{
	flood(g, ask_memory, MUCH_ASKED);
}

/* ---- the process ---- */

enum as { TO_MONITOR, TO_PREAUTH, AS_SESSION };

static const struct {
	const char *name;
	enum as as;
	void (*fn)(struct auth *g);
} cases[] = {
	{ "report-short", TO_MONITOR, report_short },
	{ "report-long", TO_MONITOR, report_long },
	{ "report-unended", TO_MONITOR, report_unended },
	{ "report-with-many", TO_MONITOR, report_with_many },
	{ "report-odd", TO_MONITOR, report_odd },
	{ "report-twice", TO_MONITOR, report_twice },
	{ "report-always", TO_MONITOR, report_always },
	{ "report-login", TO_MONITOR, report_login },
	{ "report-memory", TO_MONITOR, report_memory },
	{ "answer-short", TO_PREAUTH, answer_short },
	{ "answer-long", TO_PREAUTH, answer_long },
	{ "answer-with-many", TO_PREAUTH, answer_with_many },
	{ "answer-without", TO_PREAUTH, answer_without },
	{ "answer-unended", TO_PREAUTH, answer_unended },
	{ "answer-odd", TO_PREAUTH, answer_odd },
	{ "answer-nothing", TO_PREAUTH, answer_nothing },
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

static int report(struct auth *g)
{
	struct check_report r = report_of(0);
	struct session_limits l;
	int rc = channel_send(g->monitor, REQUEST_REPORT, &r, sizeof(r), WAIT_MS);

	return rc < 0 ? rc : msg_receive(g->monitor->down, &l, sizeof(l), NULL, WAIT_MS);
}

static int act(struct auth *g, size_t i)
{
	static const struct login_result good = { .code = 0, .name = "phony" };

	if (cases[i].as != TO_MONITOR && report(g) < 0)
		return EXIT_FAILURE;
	if (cases[i].as == AS_SESSION && begin_session(g, &good) < 0)
		return EXIT_FAILURE;
	cases[i].fn(g);
	if (cases[i].as == AS_SESSION)
		say_yes(g);
	else if (cases[i].as == TO_PREAUTH) /* until the preauth process hangs up */
		poll(&(struct pollfd){ .fd = g->line }, 1, WAIT_MS);
	else
		poll(NULL, 0, WAIT_MS); /* until the monitor kills this process */
	return EXIT_SUCCESS;
}

int auth_process_run(const struct server *sv, int line, struct channel *monitor,
		     const struct ends *ends, const char *user)
{
	struct auth g = { .line = line, .monitor = monitor, .control = -1 };
	struct credentials ask;

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
