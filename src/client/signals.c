// SPDX-License-Identifier: Apache-2.0
/* The signal handler, its flags, and the descriptor that wakes other threads. */
#include "client/signals.h"

#include "client/client.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

/* The handler, in the main thread, writes these, and other threads read them: use only __atomic
 * functions. */
static volatile sig_atomic_t stop, last;
static volatile sig_atomic_t terminal_fd = -1; /* main thread and handler only */
/* An eventfd, read only by signals_rearm(). Not a condition variable, because a signal handler may
 * call write(2), but must not signal a condition. */
static int wake_fd = -1;
/* The number of transfers that poll wake_fd. */
static atomic_int graceful;
/* Written only while terminal_fd is -1. */
static struct termios terminal;

/* On a terminal the message starts with a newline, below a question or a progress line. */
static bool on_terminal;

static _Atomic(char *) last_words;

static void signals_handler(int sig)
{
	static const char text[] = "\nrftp: interrupted\n";
	static const uint64_t one = 1;
	const char *words = atomic_load(&last_words);
	size_t skip = on_terminal ? 0 : 1;
	int old = errno;

	__atomic_store_n(&last, sig, __ATOMIC_RELEASE);
	if (signals_stopped() || !atomic_load(&graceful) || wake_fd < 0) {
		if (terminal_fd >= 0)
			tcsetattr(terminal_fd, TCSANOW, &terminal);
		(void)!write(STDERR_FILENO, text + skip, sizeof(text) - 1 - skip);
		if (words)
			(void)!write(STDOUT_FILENO, words, strlen(words));
		_exit(EXIT_INTERRUPTED);
	}

	/* Set it before the wake-up, because the woken thread reads it. */
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	(void)!write(wake_fd, &one, sizeof(one)); /* cannot fail: the counter is far from its
						   * limit */
	errno = old;
}

void signals_init(void)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction a = { .sa_handler = signals_handler };
	struct sigaction old;

	on_terminal = isatty(STDERR_FILENO);
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sigemptyset(&a.sa_mask);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		/* Keep a signal ignored if it was so at the start: by nohup(1), or by a shell for a
		 * background job. */
		if (!sigaction(signals[i], NULL, &old) && old.sa_handler != SIG_IGN)
			sigaction(signals[i], &a, NULL);
	}
	a.sa_handler = SIG_IGN;
	sigaction(SIGPIPE, &a, NULL);
	sigaction(SIGXFSZ, &a, NULL); /* a write beyond RLIMIT_FSIZE then fails with EFBIG */
}

void signals_rearm(void)
{
	uint64_t count;

	__atomic_store_n(&stop, 0, __ATOMIC_RELEASE);
	__atomic_store_n(&last, 0, __ATOMIC_RELEASE);
	if (wake_fd >= 0)
		(void)!read(wake_fd, &count, sizeof(count)); /* fails if there was no signal */
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
	return wake_fd;
}

int signals_abort_fd(void)
{
	return atomic_load(&graceful) ? wake_fd : -1;
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
