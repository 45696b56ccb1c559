// SPDX-License-Identifier: Apache-2.0
/* Questions on the terminal, and the environment of the engine in the program rftp. */
#include "client/client.h"

#include "client/foreign/foreign.h"
#include "client/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <termios.h>

enum { ANSWER_MAX = 1024 };

/* ---- questions ---- */

/* Use the terminal itself: standard input and output may carry data. */
static int ask_open(void)
{
	return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

/* Print question and read a line, cut at n - 1 bytes. False: end of file, or a signal that does not
 * end the program. */
static bool ask_on(int fd, const char *question, char *answer, size_t n)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
			       { .fd = signals_fd(), .events = POLLIN } };
	size_t used = 0;
	char c;

	if (write_full(fd, question, strlen(question)))
		return false;

	for (;;) {
		while (poll(p, 2, -1) < 0 && errno == EINTR)
			;
		if (p[1].revents || read_full(fd, &c, 1) != 1)
			break;
		if (c == '\n') {
			answer[used] = '\0';
			return true;
		}
		if (used < n - 1)
			answer[used++] = c;
	}
	(void)!write(fd, "\n", 1); /* end the line of the question */
	return false;
}

bool ask_yes(const char *question)
{
	CLEANUP_CLOSE int fd = ask_open();
	char answer[ANSWER_MAX] = "";

	if (fd < 0 || !ask_on(fd, question, answer, sizeof(answer)))
		return false;
	while (strcmp(answer, "yes") && strcmp(answer, "no"))
		if (!ask_on(fd, "Please type yes or no: ", answer, sizeof(answer)))
			return false;
	return !strcmp(answer, "yes");
}

char *ask_line(const char *question)
{
	CLEANUP_CLOSE int fd = ask_open();
	char answer[ANSWER_MAX] = "";

	return fd >= 0 && ask_on(fd, question, answer, sizeof(answer)) ? strdup(answer) : NULL;
}

char *ask_password(const char *user, const char *host, bool again)
{
	CLEANUP_CLOSE int fd = ask_open();
	char question[512], answer[ANSWER_MAX] = "";
	struct termios before, quiet;
	char *password = NULL;

	if (fd < 0 || tcgetattr(fd, &before) < 0)
		return NULL;

	snprintf(question, sizeof(question), "%sPassword of %s at %s: ",
		 again ? "That was wrong. " : "", printable(user), printable(host));
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
	signals_restore(fd, &before);
	tcsetattr(fd, TCSAFLUSH, &quiet);
	if (ask_on(fd, question, answer, sizeof(answer))) {
		password = strdup(answer);
		(void)write_full(fd, "\n", 1); /* the user's newline is not echoed */
	}
	tcsetattr(fd, TCSAFLUSH, &before);
	signals_restore(-1, NULL);
	explicit_bzero(answer, sizeof(answer));
	return password;
}

/* ---- the environment of the engine ---- */

static int rftp_stop_fd(void *arg)
{
	(void)arg;
	return signals_abort_fd();
}

static bool rftp_stopped(void *arg)
{
	(void)arg;
	return signals_stopped();
}

static void rftp_stoppable(void *arg, bool on)
{
	(void)arg;
	signals_graceful(on);
}

static bool rftp_trusts(void *arg, const char *name, const char *pin)
{
	char question[512];

	(void)arg;
	snprintf(question, sizeof(question), "%s is not known yet. Its key is\n  %s\n"
		 "Is that the key its administrator told you (yes, no)? ", name, pin);
	return ask_yes(question);
}

static char *rftp_password(void *arg, const char *user, const char *host, bool again)
{
	(void)arg;
	return ask_password(user, host, again);
}

/* Keeps the first value: a later call in the same process finds the umask 0. */
mode_t user_umask(void)
{
	static mode_t mask;
	static bool known;
	mode_t now = umask(0);

	if (!known)
		mask = now;
	known = true;
	return mask;
}

static mode_t rftp_umask(void *arg)
{
	(void)arg;
	return user_umask();
}

const struct engine_env rftp_env = {
	.stop_fd = rftp_stop_fd, .stopped = rftp_stopped, .stoppable = rftp_stoppable,
	.trusts = rftp_trusts, .password = rftp_password, .umask = rftp_umask,
	.foreign = &foreign_calls,
};
