// SPDX-License-Identifier: Apache-2.0
/* Questions on the terminal. */
#include "client/passwords.h"

#include "client/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MAX = 1024 };

/* Standard input and output may be the data: the terminal itself is asked. */
static int open_terminal(void)
{
	return open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
}

/* Waits for input. Has a signal come, where that does not end the program? */
static bool poll_stopped(int fd)
{
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
			       { .fd = signals_fd(), .events = POLLIN } };

	while (poll(p, 2, -1) < 0 && errno == EINTR)
		;
	return p[1].revents;
}

/* A line without its end, cut at n - 1 bytes. False at the end of the file, or for a signal. */
static bool read_answer(int fd, char *out, size_t n)
{
	size_t used = 0;
	char c;

	while (!poll_stopped(fd) && read_full(fd, &c, 1) == 1) {
		if (c == '\n') {
			out[used] = '\0';
			return true;
		}
		if (used < n - 1)
			out[used++] = c;
	}
	/* Behind the question. */
	(void)!write(fd, "\n", 1);
	return false;
}

static bool ask(int fd, const char *question, char *answer, size_t n)
{
	return write_full(fd, question, strlen(question)) == 0 && read_answer(fd, answer, n);
}

bool ask_yes(const char *question)
{
	CLEANUP_CLOSE int fd = open_terminal();
	char answer[ANSWER_MAX] = "";

	if (fd < 0 || !ask(fd, question, answer, sizeof(answer)))
		return false;
	while (strcmp(answer, "yes") && strcmp(answer, "no"))
		if (!ask(fd, "Please type yes or no: ", answer, sizeof(answer)))
			return false;
	return !strcmp(answer, "yes");
}

char *ask_line(const char *question)
{
	CLEANUP_CLOSE int fd = open_terminal();
	char answer[ANSWER_MAX] = "";

	return fd >= 0 && ask(fd, question, answer, sizeof(answer)) ? strdup(answer) : NULL;
}

static bool ask_hidden(int fd, const char *question, char *answer, size_t n)
{
	struct termios before, quiet;
	bool ok;

	if (tcgetattr(fd, &before) < 0)
		return false;
	quiet = before;
	quiet.c_lflag &= ~(tcflag_t)(ECHO | ECHOE | ECHOK | ECHONL);
	signals_restore(fd, &before);
	tcsetattr(fd, TCSAFLUSH, &quiet);
	ok = ask(fd, question, answer, n);
	tcsetattr(fd, TCSAFLUSH, &before);
	signals_restore(-1, NULL);
	if (ok) /* the one that was typed is not shown */
		(void)write_full(fd, "\n", 1);
	return ok;
}

char *ask_password(const char *user, const char *host)
{
	CLEANUP_CLOSE int fd = open_terminal();
	char question[512], answer[ANSWER_MAX] = "";
	char *password = NULL;

	if (fd < 0)
		return NULL;
	snprintf(question, sizeof(question), "Password of %s at %s: ", printable(user),
		 printable(host));
	if (ask_hidden(fd, question, answer, sizeof(answer)))
		password = strdup(answer);
	explicit_bzero(answer, sizeof(answer));
	return password;
}
