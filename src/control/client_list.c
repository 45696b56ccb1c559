// SPDX-License-Identifier: Apache-2.0
/* Listings from the client's side: by MLSD (RFC 3659 §7), in the reply where the server has
 * agreed to that, else over a data connection; by LIST from servers that have no other. */
#include "control/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
	LIST_MS = 10 * 60 * 1000,      /* of silence */
	LIST_ALL_MS = 60 * 60 * 1000,  /* for all of it */
	LINE_ROOM = 256 << 10,
	READ_BYTES = 64 << 10,
};

/* More than directories have: a server that lists without end is not to take all memory. */
#define LINES_MOST 4000000ull
#define LIST_BYTES_MOST (512ull << 20)

struct listing {
	struct ftp_client *c;
	int (*fn)(void *arg, const struct ftp_facts *f);
	void *arg;
	int rc;           /* fn's first refusal: what still comes is read and dropped */
	struct err *e;
	bool old;         /* by LIST */
	int64_t now;      /* its years are guessed from that */
	uint64_t lines, bytes; /* that came */
	uint64_t end;     /* when it has taken too long */
	bool all;         /* by LIST -a */
	uint64_t names;   /* taken from it */
	struct ftp_facts held; /* of a file called "-a"; its name NULL: none */
	int refused;      /* the code that the verb was refused with; 0: it was not */
};

/* Another one leads elsewhere: below or above, where nobody wanted to look or write. */
static bool is_name(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..");
}

static int take_facts(struct listing *l, struct ftp_facts *f)
{
	if (f->type == 'c' || f->type == 'p')
		return 0;
	if (!is_name(f->name))
		return err_set(l->e, -EPROTO, "%s lists what is no name of a file: \"%s\"",
			       l->c->host, printable(f->name));
	l->names++;
	if (l->all && !l->held.name && !strcmp(f->name, "-a")) {
		l->held = *f;
		*f = (struct ftp_facts){ 0 };
		return 0;
	}
	l->rc = l->fn(l->arg, f);
	return 0;
}

static int count_line(struct listing *l, const char *line)
{
	l->lines++;
	l->bytes += strlen(line);
	if (now_ns() > l->end)
		return err_set(l->e, -ETIMEDOUT, "%s takes too long for a listing", l->c->host);
	if (l->lines <= LINES_MOST && l->bytes <= LIST_BYTES_MOST)
		return 0;
	return err_set(l->e, -EOVERFLOW, "%s lists more than can be true: %llu lines in a "
		       "directory", l->c->host, (unsigned long long)l->lines);
}

/* A line without its CRLF. 0, or -EPROTO with text. */
static int take_line(struct listing *l, const char *line)
{
	struct ftp_facts f;
	int rc = count_line(l, line);

	if (rc < 0 || l->rc < 0 || !*line)
		return rc;
	rc = l->old ? ftp_list_parse(line, l->now, &f) :
	     ftp_facts_parse(line, l->c->percent, &f) < 0 ? -EBADMSG : 1;
	if (rc < 0)
		return err_set(l->e, -EPROTO, "%s lists nonsense: \"%s\"", l->c->host,
			       printable(line));
	if (rc == 0)
		return 0;
	rc = take_facts(l, &f);
	ftp_facts_clear(&f);
	return rc;
}

/* The completion reply behind the listing. */
static int finish(struct listing *l)
{
	int code = client_final_reply(l->c, LIST_MS, l->e);

	if (code < 0)
		return code;
	if (code / 100 != 2)
		return client_refused(l->c, l->e);
	return l->rc;
}

/* ---- in the reply ---- */

/* The lines between "150-" and "150 ", each behind a space. */
static int inline_lines(struct listing *l)
{
	struct ftp_client *c = l->c;
	int rc = 0;

	for (;;) {
		ssize_t n = ms_read_line(c->ms, c->line, sizeof(c->line), LIST_MS);

		if (n < 0) {
			c->lost = true;
			return err_sys(l->e, (int)n, "listing from %s", c->host);
		}
		if (!strncmp(c->line, "150 ", 4))
			return rc;
		/* Behind an error the lines are counted, not kept: a limit ends the listing. */
		if (rc == 0)
			rc = take_line(l, c->line + (c->line[0] == ' '));
		else if (count_line(l, c->line) < 0)
			rc = -EOVERFLOW;
		if (rc == -EOVERFLOW || rc == -ETIMEDOUT) {
			c->lost = true;
			return rc;
		}
	}
}

static int list_inline(struct listing *l)
{
	struct ftp_client *c = l->c;
	int rc = client_read_owed(c, ns_after(LIST_MS), l->e), end;
	ssize_t n;

	if (rc)
		return rc < 0 ? rc : client_refused(c, l->e);
	n = ms_read_line(c->ms, c->line, sizeof(c->line), LIST_MS);
	if (n >= 0 && strncmp(c->line, "150-", 4)) {
		/* A refusal; it has one line. */
		ftp_reply_clear(&c->reply);
		rc = ftp_reply_line(&c->reply, c->line);
		if (rc == 1)
			return client_refused(c, l->e);
		n = -EPROTO;
	}
	if (n < 0) {
		c->lost = true;
		return err_sys(l->e, (int)n, "listing from %s", c->host);
	}
	rc = inline_lines(l);
	if (c->lost)
		return rc;
	end = finish(l);
	return rc < 0 ? rc : end;
}

/* ---- over a data connection ---- */

/* Cut what has come into lines; what is left of the last one moves to the front. */
static int cut_lines(struct listing *l, char *text, size_t *have)
{
	char *next = text, *end;
	int rc = 0;

	while (rc == 0 && (end = memchr(next, '\n', *have - (size_t)(next - text)))) {
		char *line = next;

		next = end + 1;
		if (end > line && end[-1] == '\r')
			end--;
		*end = '\0';
		/* Behind a NUL the rest of a name would be lost. */
		if (strlen(line) != (size_t)(end - line))
			return err_set(l->e, -EPROTO, "%s lists a name with a NUL in it: \"%s\"",
				       l->c->host, printable(line));
		rc = take_line(l, line);
	}
	*have -= (size_t)(next - text);
	memmove(text, next, *have);
	return rc;
}

static int data_lines(struct listing *l, struct stream *st)
{
	CLEANUP_FREE char *text = malloc(LINE_ROOM);
	size_t have = 0;
	ssize_t n;
	int rc = text ? 0 : err_sys(l->e, -ENOMEM, "listing");

	while (rc == 0) {
		if (have == LINE_ROOM)
			return err_set(l->e, -EPROTO, "%s lists a line that is too long",
				       l->c->host);
		n = st->ops->read(st, text + have, LINE_ROOM - have, LIST_MS);
		if (n == 0)
			return 0;
		if (n < 0)
			return err_sys(l->e, (int)n, "listing from %s", l->c->host);
		have += (size_t)n;
		rc = cut_lines(l, text, &have);
	}
	return rc;
}

static int list_over(struct listing *l, const char *verb, const char *arg, const char *path, int fd)
{
	int code = client_send_word(l->c, verb, arg, path, l->e);
	struct stream *st;
	int rc, end;

	if (code == 0)
		code = client_read_reply(l->c, LIST_MS, l->e);
	if (code / 100 != 1) {
		client_stop_socket(l->c, CLIENT_DATA, -1);
		close(fd);
		l->refused = code < 0 ? 0 : code;
		return code < 0 ? code : client_refused(l->c, l->e);
	}
	st = client_open_data(l->c, fd, l->e);
	rc = st ? data_lines(l, st) : l->e->code;
	client_close_data(l->c, st);
	end = finish(l);
	return rc < 0 ? rc : end;
}

/* ---- LIST ---- */

/* In the directory that is to be listed: a name among LIST's words could be taken for options or a
 * pattern. With -a servers name what begins with a dot, too, if they know it: those that do not
 * refuse it, or find no file of that name. */
static int list_here(struct listing *l, bool all)
{
	int fd = client_connect_data(l->c, l->e), rc;

	if (fd < 0)
		return fd;
	rc = list_over(l, "LIST", all ? "-a" : NULL, NULL, fd);
	/* "450 No files found" */
	if (rc < 0 && !l->c->lost && l->c->reply.code / 50 == 9 && l->c->reply.text &&
	    strcasestr(l->c->reply.text, "no files"))
		return 0;
	return rc;
}

/* LIST -a is through. A file called "-a" may be all that a server has looked for: then the others
 * are to be listed yet. */
static bool hides_others(struct listing *l)
{
	struct ftp_facts held = l->held;
	bool alone = held.name && l->names == 1;

	l->all = false;
	l->held = (struct ftp_facts){ 0 };
	if (held.name && !alone && l->rc >= 0)
		l->rc = l->fn(l->arg, &held);
	ftp_facts_clear(&held);
	return alone;
}

static int list_old(struct listing *l, const char *path)
{
	struct err why = ERR_INIT, *e = l->e;
	int rc = ftp_simple(l->c, FTP_CWD, path, NULL, e);

	if (rc < 0)
		return rc;
	l->old = true;
	l->now = (int64_t)time(NULL);
	if (!l->c->list_plain) {
		bool hides;

		l->e = &why;
		l->all = true;
		rc = list_here(l, true);
		l->e = e;
		hides = hides_others(l) && rc == 0;
		rc = rc == 0 ? l->rc : rc;
		if ((l->lines && !hides) || l->rc < 0 || l->c->lost) {
			if (rc < 0 && why.code)
				*e = why;
			return rc;
		}
		/* An empty directory would have had at least its own name. */
		l->c->list_plain = rc < 0 || hides;
	}
	return list_here(l, false);
}

static int list_by_data(struct listing *l, const char *path)
{
	int fd = client_connect_data(l->c, l->e);

	return fd < 0 ? fd : list_over(l, "MLSD", path, path, fd);
}

/* MLSD was refused. 501 may be the directory's fault, or that it is none (RFC 3659 §7.2.1): LIST
 * tells which. */
static int list_instead(struct listing *l, const char *path)
{
	int code = l->refused, rc;

	l->e->code = 0;
	rc = list_old(l, path);
	if (rc < 0)
		return rc;
	l->c->has &= ~(unsigned)FTP_HAS_MLSD;
	client_say_old(l->c, "MLSD", code);
	return rc;
}

static int list_by_reply(struct listing *l, const char *path)
{
	int rc = client_send(l->c, FTP_MLSD, path, l->e);

	return rc < 0 ? rc : list_inline(l);
}

int ftp_list(struct ftp_client *c, const char *path,
	     int (*fn)(void *arg, const struct ftp_facts *f), void *arg, struct err *e)
{
	struct err own = ERR_INIT;
	struct listing l = { .c = c, .fn = fn, .arg = arg, .e = e ? e : &own,
			     .end = ns_after(LIST_ALL_MS) };
	int rc;

	rc = client_begin(c, l.e);
	if (rc < 0)
		return rc;
	if (c->foreign && !(c->has & FTP_HAS_MLSD))
		rc = list_old(&l, path);
	else
		rc = c->inline_list ? list_by_reply(&l, path) : list_by_data(&l, path);
	if (rc < 0 && c->foreign && !c->lost &&
	    (client_not_known(l.refused) || l.refused == 501))
		rc = list_instead(&l, path);
	return client_end(c, rc, l.e);
}
