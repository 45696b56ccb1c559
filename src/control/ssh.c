// SPDX-License-Identifier: Apache-2.0
/* rftpd at the other end of ssh: starting it, understanding why it did not start, and
 * passing on what the two say on stderr. Prompts are ssh's own, on the terminal. */
#include "control/client.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ARGS_MAX = 40,
	TAIL_BYTES = 4096,
	END_MS = 3000,      /* for ssh to end by itself */
	STEP_MS = 10,
	CONFIG_MAX = 64 << 10,
};

struct ssh {
	pid_t pid;          /* 0: it has ended, status tells how */
	int status;
	char *host;
	char *program;      /* what runs at the other end */
	int err_fd, stop_fd;
	pthread_t reader;
	bool reading;
	pthread_mutex_t lock;
	/* guarded by lock */
	bool connected;
	char tail[TAIL_BYTES + 1];
	size_t len;
};

/* ---- the command ---- */

struct args {
	char *words;        /* ssh_command, cut at its blanks */
	char *target;       /* [user@]host */
	char port[8], timeout[32];
	char *argv[ARGS_MAX];
	int n;
};

static void add(struct args *a, const char *word)
{
	if (a->n < ARGS_MAX - 1)
		a->argv[a->n++] = (char *)word;
}

static void args_clear(struct args *a)
{
	free(a->words);
	free(a->target);
}

/* Everything up to and with the host. */
static int make_args(struct args *a, const struct ftp_client_config *cfg, bool ask_only,
		     struct err *e)
{
	const struct place *p = cfg->place;
	char *rest, *word;

	*a = (struct args){ .words = strdup(cfg->ssh_command ? cfg->ssh_command : "ssh") };
	if (!a->words || asprintf(&a->target, "%s%s%s", p->user ? p->user : "",
				  p->user ? "@" : "", p->host) < 0) {
		a->target = NULL;
		return err_sys(e, -ENOMEM, "ssh");
	}
	/* ssh would take it for an option. */
	if (a->target[0] == '-')
		return err_set(e, -EINVAL, "\"%s\" is not a host", printable(a->target));
	for (rest = a->words; (word = strsep(&rest, " ")); )
		if (*word)
			add(a, word);
	snprintf(a->port, sizeof(a->port), "%u", p->port);
	snprintf(a->timeout, sizeof(a->timeout), "-oConnectTimeout=%d",
		 cfg->connect_timeout_ms > 0 ? (cfg->connect_timeout_ms + 999) / 1000 : 30);
	if (ask_only) {
		add(a, "-G");
	} else {
		/* The stream is the protocol's: nothing else may be in it. */
		add(a, "-T");
		add(a, "-x");
		add(a, "-oClearAllForwardings=yes");
		add(a, a->timeout);
	}
	if (p->port) {
		add(a, "-p");
		add(a, a->port);
	}
	add(a, "--");
	add(a, a->target);
	return 0;
}

/* ---- processes ---- */

_Noreturn static void run_command(char **argv, int in, int out, int err)
{
	sigset_t none;

	sigemptyset(&none);
	/* A ^C is ours to deal with: a transfer ends in good order, by way of ssh. */
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (in >= 0)
		dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	if (err >= 0)
		dup2(err, STDERR_FILENO);
	execvp(argv[0], argv);
	dprintf(STDERR_FILENO, "cannot run %s: %s\n", argv[0], strerror(errno));
	_exit(127);
}

/* True once it has ended; sleeps up to timeout_ms. */
static bool wait_end(struct ssh *s, int timeout_ms)
{
	for (; s->pid; timeout_ms -= STEP_MS) {
		pid_t r = waitpid(s->pid, &s->status, WNOHANG);

		if (r == s->pid || (r < 0 && errno == ECHILD))
			s->pid = 0;
		else if (timeout_ms <= 0)
			return false;
		else
			poll(NULL, 0, STEP_MS);
	}
	return true;
}

/* ---- stderr ---- */

/* With lock held: the whole lines go to the log. */
static void log_lines(struct ssh *s)
{
	char *line = s->tail, *end;

	s->tail[s->len] = '\0';
	while ((end = strchr(line, '\n'))) {
		*end = '\0';
		if (end > line && end[-1] == '\r')
			end[-1] = '\0';
		if (*line)
			log_warn("%s: %s", s->host, printable(line));
		line = end + 1;
	}
	s->len -= (size_t)(line - s->tail);
	memmove(s->tail, line, s->len);
}

/* Keep the end of what has been said. */
static void take_text(struct ssh *s, const char *text, size_t n)
{
	LOCK_GUARD(guard, &s->lock);

	if (s->len + n > TAIL_BYTES) {
		size_t drop = s->len + n - TAIL_BYTES;

		memmove(s->tail, s->tail + drop, s->len - drop);
		s->len -= drop;
	}
	memcpy(s->tail + s->len, text, n);
	s->len += n;
	if (s->connected)
		log_lines(s);
}

/* Until stderr ends, or, since a background ssh may hold it open for hours
 * (ControlPersist), stop_fd says so. */
static void *read_stderr(void *arg)
{
	struct ssh *s = arg;
	struct pollfd p[2] = { { .fd = s->err_fd, .events = POLLIN },
			       { .fd = s->stop_fd, .events = POLLIN } };
	char text[1024];

	for (;;) {
		ssize_t n;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return NULL;
		if (p[0].revents) {
			n = read(s->err_fd, text, sizeof(text));
			if (n == 0 || (n < 0 && errno != EINTR))
				return NULL;
			if (n > 0)
				take_text(s, text, (size_t)n);
		} else if (p[1].revents) {
			return NULL;
		}
	}
}

static void stop_reading(struct ssh *s)
{
	uint64_t one = 1;

	if (!s->reading)
		return;
	if (write(s->stop_fd, &one, sizeof(one)) == (ssize_t)sizeof(one))
		pthread_join(s->reader, NULL);
	s->reading = false;
}

void ssh_connected(struct ssh *s)
{
	LOCK_GUARD(guard, &s->lock);

	s->connected = true;
	s->len = 0; /* banners and the like */
}

/* ---- the start ---- */

static struct ssh *ssh_new(const struct ftp_client_config *cfg)
{
	struct ssh *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	pthread_mutex_init(&s->lock, NULL);
	s->err_fd = -1;
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	s->host = strdup(cfg->place->host);
	s->program = strdup(cfg->rftpd_path ? cfg->rftpd_path : "rftpd");
	if (s->stop_fd >= 0 && s->host && s->program)
		return s;
	ssh_free(s);
	return NULL;
}

/* Fork ssh on pair[1] and the error pipe; both are closed here. */
static int launch(struct ssh *s, struct args *a, int theirs, int errors)
{
	s->pid = fork();
	if (s->pid == 0)
		run_command(a->argv, theirs, theirs, errors);
	if (s->pid > 0)
		return 0;
	s->pid = 0;
	return -errno;
}

static int start(struct ssh *s, struct args *a, int *fd, struct err *e)
{
	int pair[2], errors[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "ssh");
	if (pipe2(errors, O_CLOEXEC) < 0) {
		rc = -errno;
		close(pair[0]);
		close(pair[1]);
		return err_sys(e, rc, "ssh");
	}
	rc = launch(s, a, pair[1], errors[1]);
	close(pair[1]);
	close(errors[1]);
	s->err_fd = errors[0];
	if (rc == 0) {
		rc = thread_start(&s->reader, "ssh-stderr", read_stderr, s);
		s->reading = rc == 0;
	}
	if (rc < 0) {
		close(pair[0]);
		return err_sys(e, rc, "cannot start ssh");
	}
	*fd = pair[0];
	return 0;
}

struct ssh *ssh_start(const struct ftp_client_config *cfg, int *fd, struct err *e)
{
	CLEANUP_FREE char *command = NULL;
	struct ssh *s = ssh_new(cfg);
	struct args a = { 0 };
	int rc = s ? make_args(&a, cfg, false, e) : err_sys(e, -ENOMEM, "ssh");

	if (rc == 0 && asprintf(&command, "%s --stdio", s->program) < 0) {
		command = NULL;
		rc = err_sys(e, -ENOMEM, "ssh");
	}
	if (rc == 0) {
		add(&a, command);
		rc = start(s, &a, fd, e);
	}
	args_clear(&a);
	if (rc == 0)
		return s;
	ssh_free(s);
	return NULL;
}

/* ---- the end ---- */

/* The last line that says something. */
static const char *last_words(struct ssh *s)
{
	char *line = s->tail, *end;

	s->tail[s->len] = '\0';
	while (s->len && strchr("\r\n ", s->tail[s->len - 1]))
		s->tail[--s->len] = '\0';
	end = strrchr(s->tail, '\n');
	return end ? end + 1 : line;
}

int ssh_explain(struct ssh *s, struct err *e)
{
	const char *said;
	int code;

	if (!wait_end(s, END_MS))
		kill(s->pid, SIGTERM);
	wait_end(s, END_MS);
	stop_reading(s);
	said = printable(last_words(s));
	code = !s->pid && WIFEXITED(s->status) ? WEXITSTATUS(s->status) : -1;
	if (code == 127 && !strncmp(said, "cannot run ", 11))
		return err_set(e, -ENOENT, "%s", said);
	if (code == 127)
		return err_set(e, -ENOENT, "%s was not found on %s: install it there, or say where "
			       "it is%s%s", s->program, s->host, *said ? ": " : "", said);
	if (code == 126)
		return err_set(e, -EACCES, "%s cannot be run on %s: %s", s->program, s->host, said);
	if (code == 255)
		return err_set(e, -ECONNREFUSED, "ssh to %s failed: %s", s->host,
			       *said ? said : "it does not say why");
	return err_set(e, -EPIPE, "%s on %s ended before it said anything%s%s", s->program,
		       s->host, *said ? ": " : "", said);
}

void ssh_stop(struct ssh *s)
{
	if (s && s->pid)
		kill(s->pid, SIGTERM);
}

void ssh_free(struct ssh *s)
{
	if (!s)
		return;
	if (s->pid && !wait_end(s, END_MS)) {
		kill(s->pid, SIGTERM);
		if (!wait_end(s, END_MS)) {
			kill(s->pid, SIGKILL);
			waitpid(s->pid, NULL, 0);
		}
	}
	stop_reading(s);
	if (s->err_fd >= 0)
		close(s->err_fd);
	if (s->stop_fd >= 0)
		close(s->stop_fd);
	pthread_mutex_destroy(&s->lock);
	free(s->host);
	free(s->program);
	free(s);
}

/* ---- where the host is ---- */

/* The output of "ssh -G host": its configuration, a setting per line. malloc'd or NULL. */
static char *read_config(const struct ftp_client_config *cfg)
{
	char *text = calloc(1, CONFIG_MAX);
	struct args a = { 0 };
	struct err e = ERR_INIT;
	int out[2], null;
	pid_t pid;

	if (!text || make_args(&a, cfg, true, &e) < 0 || pipe2(out, O_CLOEXEC) < 0) {
		args_clear(&a);
		free(text);
		return NULL;
	}
	null = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid = fork();
	if (pid == 0)
		run_command(a.argv, null, out[1], null);
	close(out[1]);
	if (pid > 0)
		read_full(out[0], text, CONFIG_MAX - 1);
	close(out[0]);
	if (pid > 0)
		waitpid(pid, NULL, 0);
	if (null >= 0)
		close(null);
	args_clear(&a);
	return text;
}

/* The setting's value in text, cut in place; NULL: not there. */
static char *setting(char *text, const char *name)
{
	size_t len = strlen(name);
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")))
		if (!strncmp(line, name, len) && line[len] == ' ')
			return line + len + 1;
	return NULL;
}

void ssh_address(const struct ftp_client_config *cfg, struct sockaddr_storage *a,
		 socklen_t *len)
{
	CLEANUP_FREE char *text = read_config(cfg);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	char *name = text ? setting(text, "hostname") : NULL;

	*len = 0;
	if (getaddrinfo(name ? name : cfg->place->host, NULL, &hints, &list))
		return;
	if (list->ai_addrlen <= sizeof(*a)) {
		memcpy(a, list->ai_addr, list->ai_addrlen);
		*len = list->ai_addrlen;
	}
	freeaddrinfo(list);
}
