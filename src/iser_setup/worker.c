// SPDX-License-Identifier: Apache-2.0
/* Requests and answers. */
#include "iser_setup/worker.h"
#include "iser_setup/process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define END_MS 10000     /* from its input's end to its own, with nothing to do */
#define ARGS_MAX 6
#define ARG_MAX_LEN 40
#define NUMACTL "numactl (package numactl)"

struct worker {
	char *program;
	char nodes[2][ARG_MAX_LEN];  /* numactl's options */
	char *argv[ARGS_MAX];        /* with a place for an option before the NULL */
	unsigned argc;
	int hold;                    /* what it is given to hold; -1: nothing */
	struct process process;
	bool stuck;                  /* it has not answered in time */
	uint64_t limit_ns;
};

/* ---- what is run ---- */

/* A node may be memory and nothing else: then its memory suffices. */
static bool has_cpus(int node)
{
	struct topo *t = topo_read(NULL, NULL);
	const struct node *n = t ? topo_find(t, node) : NULL;
	bool has = !n || ids_count(&n->cpus);

	topo_free(t);
	return has;
}

static void set_argv(struct worker *w, int node)
{
	static char numactl[] = "numactl";

	if (node != NODE_UNKNOWN) {
		w->argv[w->argc++] = numactl;
		snprintf(w->nodes[0], ARG_MAX_LEN, "--membind=%d", node);
		w->argv[w->argc++] = w->nodes[0];
	}
	if (node != NODE_UNKNOWN && has_cpus(node)) {
		snprintf(w->nodes[1], ARG_MAX_LEN, "--cpunodebind=%d", node);
		w->argv[w->argc++] = w->nodes[1];
	}
	w->argv[w->argc++] = w->program;
}

static int find_program(struct worker *w, struct err *e)
{
	const char *named = getenv("RFTP_ISER_LIO");

	if (!named || !*named)
		named = PKGLIBEXECDIR "/" WORKER_PROGRAM;
	w->program = realpath(named, NULL);
	return w->program ? 0 : err_sys(e, -errno, "%s, which changes LIO", printable(named));
}

static uint64_t limit_ns(void)
{
	const char *named = getenv("RFTP_ISER_LIMIT");
	unsigned long seconds = named ? strtoul(named, NULL, 10) : 0;

	if (!seconds || seconds > INT_MAX / 1000)
		seconds = WORKER_LIMIT;
	return seconds * 1000000000ull;
}

/* ---- is all there that it needs? ---- */

/* The program's last line on standard error, which is its reason. */
static const char *last_line(char *text)
{
	char *line;

	for (size_t n = strlen(text); n && text[n - 1] == '\n';)
		text[--n] = '\0';
	line = strrchr(text, '\n');
	return printable(line ? line + 1 : text);
}

static int try_program(struct worker *w, struct err *e)
{
	static char check[] = "--check";
	struct child_said said;
	struct stop stop;
	int r;

	w->argv[w->argc] = check;
	stop_begin(&stop);
	r = child_run(w->argv, -1, &stop, &said, e);
	stop_end(&stop);
	w->argv[w->argc] = NULL;
	if (r == -ENOENT && w->argv[0] != w->program)
		err_set(e, r, "%s is missing, which binds what changes LIO to a node", NUMACTL);
	else if (r == -ENOENT)
		err_set(e, r, "%s: /usr/bin/python3 is missing (package python3)", w->program);
	else if (!r && said.status)
		r = err_set(e, -ENOENT, "%s --check: %s", w->argv[0], last_line(said.err));
	child_clear(&said);
	return r;
}

struct worker *worker_new(int node, struct err *e)
{
	struct worker *w = calloc(1, sizeof(*w));

	if (!w) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	w->process = (struct process)PROCESS_INIT;
	w->hold = -1;
	w->limit_ns = limit_ns();
	if (!find_program(w, e)) {
		set_argv(w, node);
		if (!try_program(w, e))
			return w;
	}
	worker_free(w);
	return NULL;
}

void worker_hold(struct worker *w, int fd)
{
	w->hold = fd;
}

void worker_free(struct worker *w)
{
	if (!w)
		return;
	if (w->stuck)
		process_leave(&w->process);
	else
		process_end(&w->process, END_MS);
	free(w->program);
	free(w);
}

/* ---- a request and its answer ---- */

struct talk {
	char *out;           /* the request, with its newline */
	size_t left;         /* of it */
	char *in;            /* the answer, as far as it is there */
	size_t len, room;
};

static void talk_clear(struct talk *t, size_t request_len)
{
	/* There may be secrets in it. */
	if (t->out)
		explicit_bzero(t->out, request_len);
	free(t->out);
	free(t->in);
}

static int say(struct process *p, struct talk *t, size_t request_len)
{
	ssize_t n = send(p->fd, t->out + request_len - t->left, t->left, MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	t->left -= (size_t)n;
	return 0;
}

/* 1: a whole line is there; 0: not yet; -EPIPE: it has ended; or another negative errno. */
static int hear(struct process *p, struct talk *t)
{
	ssize_t n;

	if (t->len + 1 >= t->room) {
		size_t room = t->room ? t->room * 2 : BUFSIZ;
		char *bigger = realloc(t->in, room);

		if (!bigger)
			return -ENOMEM;
		t->in = bigger;
		t->room = room;
	}
	n = read(p->fd, t->in + t->len, t->room - t->len - 1);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -EPIPE;
	if (!n)
		return -EPIPE;
	t->len += (size_t)n;
	t->in[t->len] = '\0';
	if (memchr(t->in, '\n', t->len))
		return 1;
	return t->len > WORKER_LINE_MAX ? -EPROTO : 0;
}

/* Both ways at once, for it may speak before it has heard all. 0: the answer's line is there. */
static int converse(struct worker *w, struct talk *t, size_t request_len)
{
	uint64_t end = now_ns() + w->limit_ns;
	struct process *p = &w->process;
	int r = 0;

	while (!r) {
		struct pollfd fds[2] = {
			{ p->fd, POLLIN | (t->left ? POLLOUT : 0), 0 }, { p->err, POLLIN, 0 },
		};
		int n = poll(fds, 2, ms_to(end));

		if (n < 0 && errno != EINTR)
			return -errno;
		if (!n)
			return -ETIMEDOUT;
		process_listen(p);
		if (n > 0 && fds[0].revents & POLLOUT)
			say(p, t, request_len);
		if (n > 0 && fds[0].revents & (POLLIN | POLLHUP | POLLERR))
			r = hear(p, t);
	}
	return r < 0 ? r : 0;
}

/* What it says, and nothing behind it. */
static int understand(struct talk *t, struct err *e)
{
	json_t *answer = json_loadb(t->in, t->len, JSON_REJECT_DUPLICATES, NULL);
	const char *error = json_string_value(json_object_get(answer, "error"));
	bool alone = json_object_size(answer) == 1;
	int r = -EPROTO;

	if (alone && error)
		r = err_set(e, -EIO, "%s", printable(error));
	else if (alone && json_is_true(json_object_get(answer, "ok")))
		r = 0;
	json_decref(answer);
	return r;
}

/* Why there is no answer. */
static int fail(struct worker *w, int code, struct err *e)
{
	const char *line;
	int status;

	if (code == -ETIMEDOUT) {
		w->stuck = true;
		return err_set(e, code, "%s has not answered for %u s and is left alone: see dmesg "
			       "for what the kernel waits for", w->program,
			       (unsigned)(w->limit_ns / 1000000000u));
	}
	/* What has said something else than an answer is not waited for. */
	status = process_end(&w->process, code == -EPIPE ? END_MS : 0);
	line = printable(process_last_line(&w->process));
	if (code == -EPROTO)
		return err_set(e, code, "%s said something that is no answer, and was ended",
			       w->program);
	if (code == -EPIPE)
		return err_set(e, code, "%s has died (%s %d)%s%s", w->program,
			       status > 128 ? "signal" : "status",
			       status > 128 ? status - 128 : status, *line ? ": " : "", line);
	return err_sys(e, code, "speaking to %s", w->program);
}

static int ask(struct worker *w, char *line, struct err *e)
{
	size_t len = strlen(line);
	struct talk t = { .out = line, .left = len };
	int r = 0;

	if (len > WORKER_LINE_MAX)
		r = err_set(e, -EMSGSIZE, "a request of %zu bytes to %s", len, w->program);
	else if (!w->process.pid)
		r = process_start(&w->process, w->argv, w->hold, e);
	if (!r) {
		r = converse(w, &t, len);
		r = r ? r : understand(&t, e);
		if (r && r != -EIO)
			r = fail(w, r, e);
	}
	talk_clear(&t, len);
	return r;
}

int worker_do(struct worker *w, json_t *request, struct err *e)
{
	char *line = json_line(request);

	if (!line)
		return err_set(e, -ENOMEM, "out of memory");
	if (w->stuck) {
		talk_clear(&(struct talk){ .out = line }, strlen(line));
		return err_set(e, -ETIMEDOUT, "%s is still busy with what it was told before",
			       w->program);
	}
	return ask(w, line, e);
}
