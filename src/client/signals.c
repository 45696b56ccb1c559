// SPDX-License-Identifier: Apache-2.0
/* The signal handler, its flags, and the descriptor by which it wakes others. */
#include "client/signals.h"

#include "client/exit.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The handler runs in the main thread, other threads look: always by __atomic. */
static volatile sig_atomic_t stop, last;
static volatile sig_atomic_t terminal_fd = -1;
/* An eventfd that is read only to arm it again: a handler may write(2), but not wake by a
 * condition. */
static int stop_fd = -1;
/* Transfers that look at stop_fd. */
static atomic_int graceful;
/* Written only while terminal_fd is -1. */
static struct termios terminal;

/* Behind a question, or a progress line. */
static bool on_terminal;

static _Atomic(char *) last_words;

static void end_now(void)
{
	const char *words = atomic_load(&last_words);
	static const char text[] = "\nrftp: interrupted\n";
	size_t skip = on_terminal ? 0 : 1;

	if (terminal_fd >= 0)
		tcsetattr(terminal_fd, TCSANOW, &terminal);
	/* Whether anybody hears it makes no difference. */
	(void)!write(STDERR_FILENO, text + skip, sizeof(text) - 1 - skip);
	if (words)
		(void)!write(STDOUT_FILENO, words, strlen(words));
	_exit(EXIT_INTERRUPTED);
}

static void on_signal(int sig)
{
	static const uint64_t one = 1;
	int old = errno;

	__atomic_store_n(&last, sig, __ATOMIC_RELEASE);
	if (signals_stopped() || !atomic_load(&graceful) || stop_fd < 0)
		end_now();
	/* First: who is woken asks for it. */
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	(void)!write(stop_fd, &one, sizeof(one)); /* a counter far from its end: it cannot fail */
	errno = old;
}

void signals_init(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = on_signal };
	struct sigaction old;

	on_terminal = isatty(STDERR_FILENO);
	stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigemptyset(&a.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* nohup(1), and shells that start background jobs, have them ignored. */
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &a, NULL);
	}
	a.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &a, NULL);
	sigaction(SIGXFSZ, &a, NULL); /* a file beyond RLIMIT_FSIZE fails by EFBIG */
}

void signals_rearm(void)
{
	uint64_t count;

	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&last, 0, __ATOMIC_RELEASE);
	if (stop_fd >= 0)
		(void)!read(stop_fd, &count, sizeof(count)); /* there may be none */
}

void signals_graceful(bool on)
{
	atomic_fetch_add(&graceful, on ? 1 : -1);
}

void signals_last_words(char *text)
{
	free(atomic_exchange(&last_words, text));
}

int signals_fd(void)
{
	return stop_fd;
}

int signals_wish(void)
{
	return atomic_load(&graceful) ? stop_fd : -1;
}

int signals_last(void)
{
	return __atomic_load_n(&last, __ATOMIC_ACQUIRE);
}

bool signals_stopped(void)
{
	return __atomic_load_n(&stop, __ATOMIC_ACQUIRE);
}

void signals_restore(int fd, const struct termios *t)
{
	terminal_fd = -1;
	if (!t)
		return;
	terminal = *t;
	terminal_fd = fd;
}
