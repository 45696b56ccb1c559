// SPDX-License-Identifier: Apache-2.0
/* Pending signals. */
#include "util/stop.h"

#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/signalfd.h>

void stop_begin(struct stop *s)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP };

	sigemptyset(&s->asked);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction was;

		/* While it is blocked, an ignored one would be pending like any other. */
		if (!sigaction(signals[i], NULL, &was) && was.sa_handler != SIG_IGN)
			sigaddset(&s->asked, signals[i]);
	}
	pthread_sigmask(SIG_BLOCK, &s->asked, &s->before);
}

bool stop_asked(const struct stop *s)
{
	sigset_t pending;

	sigpending(&pending);
	sigandset(&pending, &pending, &s->asked);
	return !sigisemptyset(&pending);
}

int stop_fd(const struct stop *s)
{
	int fd = signalfd(-1, &s->asked, SFD_CLOEXEC | SFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

void stop_end(const struct stop *s)
{
	pthread_sigmask(SIG_SETMASK, &s->before, NULL);
}
