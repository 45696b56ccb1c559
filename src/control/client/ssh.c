// SPDX-License-Identifier: Apache-2.0
/* rftpd at the other end of ssh: starting it, the reason for a failed start, and the lines that
 * both write to stderr. ssh itself prompts on the terminal. */
#include "control/client/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

enum {
	ARGS_MAX = 40,
	TAIL_BYTES = 4096,
	END_MS = 3000,      /* time for ssh to end by itself */
	CONFIG_MAX = 64 << 10,
};

struct ssh {
	struct child child;
	char *host;
	char *program;      /* started by ssh on the host */
	int err_fd, stop_fd;
	pthread_t reader;
	bool reading;
	pthread_mutex_t lock;
	/* The following members are guarded by lock. */
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

static void ssh_add_arg(struct args *a, const char *word)
{
	if (a->n < ARGS_MAX - 1)
		a->argv[a->n++] = (char *)word;
}

static void args_clear(struct args *a)
{
	free(a->words);
	free(a->target);
}

/* Make all arguments up to the host. ask_only: to print ssh's configuration (ssh -G). */
static int make_args(struct args *a, const struct ftp_client_config *cfg, bool ask_only,
		     struct err *e)
{
	const struct url *p = cfg->url;
	char *rest, *word;

	*a = (struct args){ .words = strdup(cfg->ssh_command ? cfg->ssh_command : "ssh") };
	if (!a->words || asprintf(&a->target, "%s%s%s", p->user ? p->user : "",
				  p->user ? "@" : "", p->host) < 0) {
		a->target = NULL;
		return err_nomem(e);
	}

	/* ssh would parse this as an option. */
	if (a->target[0] == '-')
		return err_set(e, -EINVAL, "\"%s\" is not a host", printable(a->target));
	for (rest = a->words; (word = strsep(&rest, " ")); )
		if (*word)
			ssh_add_arg(a, word);

	snprintf(a->port, sizeof(a->port), "%u", p->port);
	snprintf(a->timeout, sizeof(a->timeout), "-oConnectTimeout=%d",
		 cfg->connect_timeout_ms > 0 ? (cfg->connect_timeout_ms + 999) / 1000 : 30);

	if (ask_only) {
		ssh_add_arg(a, "-G");
	} else {
		/* Only the protocol may use the stream. */
		ssh_add_arg(a, "-T");
		ssh_add_arg(a, "-x");
		ssh_add_arg(a, "-oClearAllForwardings=yes");
		ssh_add_arg(a, a->timeout);
	}

	if (p->port) {
		ssh_add_arg(a, "-p");
		ssh_add_arg(a, a->port);
	}

	ssh_add_arg(a, "--");
	ssh_add_arg(a, a->target);
	return 0;
}

/* ---- stderr ---- */

/* Keep the end of the text; once connected, log and drop the complete lines. */
static void ssh_keep_text(struct ssh *s, const char *text, size_t n)
{
	char *line = s->tail, *end;
	LOCK_GUARD(guard, &s->lock);

	if (s->len + n > TAIL_BYTES) {
		size_t drop = s->len + n - TAIL_BYTES;

		memmove(s->tail, s->tail + drop, s->len - drop);
		s->len -= drop;
	}

	memcpy(s->tail + s->len, text, n);
	s->len += n;
	s->tail[s->len] = '\0';

	while (s->connected && (end = strchr(line, '\n'))) {
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

/* Read until stderr ends or stop_fd is readable: a background ssh may hold stderr open for hours
 * (ControlPersist). */
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
				ssh_keep_text(s, text, (size_t)n);
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
	s->len = 0; /* drop banners and the like */
}

/* ---- the start ---- */

/* Start ssh, connected to a socket pair and, for stderr, to a pipe. ssh must ignore ^C: rftp needs
 * ssh to end a transfer cleanly. */
static int ssh_launch(struct ssh *s, struct args *a, int *fd, struct err *e)
{
	CLEANUP_CLOSE int ours = -1, theirs = -1, errors = -1;
	struct child_program p = { .argv = a->argv, .ignore_interrupt = true };
	int pair[2], rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return err_sys(e, -errno, "ssh");
	ours = pair[0];
	theirs = pair[1];
	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "ssh");
	s->err_fd = pair[0];
	errors = pair[1];

	p.in = p.out = theirs;
	p.err = errors;
	rc = child_exec(&s->child, &p, e);
	if (rc < 0)
		return rc;
	rc = thread_start(&s->reader, "ssh-stderr", read_stderr, s);
	if (rc < 0)
		return thread_failed(e, rc);

	s->reading = true;
	*fd = steal_fd(&ours);
	return 0;
}

struct ssh *ssh_start(const struct ftp_client_config *cfg, int *fd, struct err *e)
{
	const char *program = cfg->rftpd_path ? cfg->rftpd_path : "rftpd";
	CLEANUP_FREE char *command = NULL;
	struct ssh *s = calloc(1, sizeof(*s));
	struct args a = { 0 };
	int rc;

	if (!s) {
		err_nomem(e);
		return NULL;
	}

	pthread_mutex_init(&s->lock, NULL);
	s->err_fd = -1;
	s->stop_fd = eventfd(0, EFD_CLOEXEC);
	s->host = strdup(cfg->url->host);
	s->program = strdup(program);
	if (asprintf(&command, "%s --stdio", program) < 0)
		command = NULL;

	if (s->stop_fd < 0 || !s->host || !s->program || !command)
		rc = err_nomem(e);
	else
		rc = make_args(&a, cfg, false, e);
	if (rc == 0) {
		ssh_add_arg(&a, command);
		rc = ssh_launch(s, &a, fd, e);
	}
	args_clear(&a);
	if (rc == 0)
		return s;
	ssh_free(s);
	return NULL;
}

/* ---- the end ---- */

int ssh_explain(struct ssh *s, struct err *e)
{
	const char *line;
	int code;

	child_end(&s->child, END_MS);
	stop_reading(s);

	/* The reason is the last line that is not empty. */
	while (s->len && strchr("\r\n ", s->tail[s->len - 1]))
		s->len--;
	s->tail[s->len] = '\0';
	line = strrchr(s->tail, '\n');
	line = printable(line ? line + 1 : s->tail);
	code = WIFEXITED(s->child.status) ? WEXITSTATUS(s->child.status) : -1;
	if (code == 127)
		return err_set(e, -ENOENT, "%s was not found on %s: install it there, or say where "
			       "it is%s%s", s->program, s->host, *line ? ": " : "", line);
	if (code == 126)
		return err_set(e, -EACCES, "%s cannot be run on %s: %s", s->program, s->host, line);
	if (code == 255)
		return err_set(e, -ECONNREFUSED, "ssh to %s failed: %s", s->host,
			       *line ? line : "it gives no reason");
	return err_set(e, -EPIPE, "%s on %s ended before it sent anything%s%s", s->program,
		       s->host, *line ? ": " : "", line);
}

void ssh_stop(struct ssh *s)
{
	if (s && s->child.pid)
		kill(s->child.pid, SIGTERM);
}

void ssh_free(struct ssh *s)
{
	if (!s)
		return;
	child_end(&s->child, END_MS);
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

/* ---- the host's address ---- */

/* Returns the output of "ssh -G HOST": ssh's configuration for HOST, one setting per line. malloc'd
 * or NULL. */
static char *read_config(const struct ftp_client_config *cfg)
{
	CLEANUP_CLOSE int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	CLEANUP_CLOSE int in = -1, out = -1;
	char *text = calloc(1, CONFIG_MAX);
	struct args a = { 0 };
	struct child c;
	int pair[2];

	if (text && make_args(&a, cfg, true, NULL) == 0 && pipe2(pair, O_CLOEXEC) == 0) {
		struct child_program p = { .argv = a.argv, .in = null, .out = pair[1],
					   .err = null, .ignore_interrupt = true };

		in = pair[0];
		out = pair[1];
		if (child_exec(&c, &p, NULL) == 0) {
			cleanup_close(&out);
			read_full(in, text, CONFIG_MAX - 1);
			child_end(&c, -1);
		}
	}
	args_clear(&a);
	return text;
}

void ssh_address(const struct ftp_client_config *cfg, struct sockaddr_storage *a,
		 socklen_t *len)
{
	CLEANUP_FREE char *text = read_config(cfg);
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list;
	static const char setting[] = "hostname ";
	const char *name = cfg->url->host;
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n"))) {
		if (!strncmp(line, setting, sizeof(setting) - 1)) {
			name = line + sizeof(setting) - 1;
			break;
		}
	}

	*len = 0;
	if (getaddrinfo(name, NULL, &hints, &list))
		return;
	if (list->ai_addrlen <= sizeof(*a)) {
		memcpy(a, list->ai_addr, list->ai_addrlen);
		*len = list->ai_addrlen;
	}
	freeaddrinfo(list);
}
