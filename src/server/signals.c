// SPDX-License-Identifier: Apache-2.0
/* Signals that stop the server, or have it look at something. */
#include "server/signals.h"
#include "server/server.h"

volatile sig_atomic_t srv_stop;
volatile sig_atomic_t signals_reread, signals_next;

static void on_stop(int sig)
{
	srv_stop++;
}

static void on_reread(int sig)
{
	signals_reread = 1;
}

static void on_next(int sig)
{
	signals_next = 1;
}

static void on_child(int sig)
{
}

static void handle_signal(int sig, void (*fn)(int))
{
	struct sigaction sa = { .sa_handler = fn };

	sigemptyset(&sa.sa_mask);
	sigaction(sig, &sa, NULL);
}

void signals_begin(sigset_t *waiting, bool reread)
{
	sigset_t ours;

	sigemptyset(&ours);
	sigaddset(&ours, SIGTERM);
	sigaddset(&ours, SIGINT);
	sigaddset(&ours, SIGCHLD);
	sigaddset(&ours, SIGUSR2);
	if (reread)
		sigaddset(&ours, SIGHUP);
	sigprocmask(SIG_BLOCK, &ours, waiting);
	if (reread)
		handle_signal(SIGHUP, on_reread);
	handle_signal(SIGTERM, on_stop);
	handle_signal(SIGINT, on_stop);
	handle_signal(SIGCHLD, on_child);
	handle_signal(SIGUSR2, on_next);
}

void signals_begin_child(const sigset_t *waiting, bool reread)
{
	/* A terminal's ^C reaches the whole group; it is the monitor that passes it on. */
	handle_signal(SIGINT, SIG_IGN);
	handle_signal(SIGCHLD, SIG_DFL);
	/* One that goes to the whole group, or to all of a service, is not the sessions'
	 * business. */
	handle_signal(SIGUSR2, SIG_IGN);
	if (reread)
		handle_signal(SIGHUP, SIG_IGN);
	sigprocmask(SIG_SETMASK, waiting, NULL);
}
