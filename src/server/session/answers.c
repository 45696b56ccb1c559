// SPDX-License-Identifier: Apache-2.0
/* Answers about this server: SITE STATUS, the running transfers, and SITE FACTS, the facts of this
 * machine for rftp doctor. */
#include "server/session/session.h"
#include "server/auth/auth.h"
#include "server/monitor/msg.h"

#include <fcntl.h>
#include <poll.h>

enum { FACTS_TRIES = 50, FACTS_PAUSE_MS = 100 };
#define STORAGE_NS 500000000u /* for writing, and for reading */

/* One line of JSON; NULL: out of memory. */
static char *status_line(const struct status_reply *a)
{
	const struct transfer_report *t = &a->transfer;
	double seconds = (double)a->age / 1e9, bytes = (double)t->bytes;
	json_t *o =
		json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:f, s:f}", "peer", a->peer, "direction",
			  t->sends ? "sent" : "received", "transport", carrier_words[t->carrier],
			  "bytes", (json_int_t)t->bytes, "files", (json_int_t)t->files, "start",
			  (json_int_t)time(NULL) - (json_int_t)seconds, "seconds", seconds,
			  "bytes_per_second", seconds > 0 ? bytes / seconds : 0);

	if (!o || json_set_name(o, "user", a->user) < 0 || json_set_name(o, "path", t->path) < 0) {
		json_decref(o);
		return NULL;
	}
	return json_line(o);
}

int srv_status(void *arg, struct ftp_session *fs)
{
	CLEANUP_BUF struct buf *text = buf_new(FTP_REPLY_MAX / 2);
	struct status_reply a = { .next = 0 };
	struct session *s = arg;
	int rc = text ? 0 : -ENOMEM;

	if (!s->monitor)
		return ftp_session_reply(fs, 504, "This rftpd serves this session only");
	do {
		CLEANUP_FREE char *line = NULL;
		struct status_request q = { a.next };

		if (rc == 0)
			rc = srv_monitor_ask(s->monitor, REQUEST_STATUS, &q, sizeof(q), &a,
					     sizeof(a));
		line = rc == 0 && a.next ? status_line(&a) : NULL;
		if (line && buf_len(text) + strlen(line) + 2 > FTP_REPLY_MAX / 2) {
			log_warn("a reply to SITE STATUS is full: further transfers are left out");
			break;
		}
		if (line && (buf_put(text, " ", 1) || buf_put(text, line, strlen(line))))
			rc = -ENOMEM;
	} while (rc == 0 && a.next);
	if (rc < 0 || buf_put(text, "", 1))
		return ftp_session_reply(fs, 550, "No answer from the monitor");
	return ftp_session_reply(fs, 200, "Transfers:\n%sEnd", (const char *)buf_ptr(text));
}

/* ---- facts ---- */

/* Ask the monitor for the facts of this machine. They can take a moment if other sessions ask,
 * too. */
static int ask_facts(struct session *s, dev_t storage, struct facts_reply *a)
{
	const struct facts_request q = { storage };
	int rc;

	for (int i = 0; i < FACTS_TRIES; i++) {
		rc = srv_monitor_ask(s->monitor, REQUEST_FACTS, &q, sizeof(q), a, sizeof(*a));
		if (rc || a->code != -EBUSY)
			break;
		poll(NULL, 0, FACTS_PAUSE_MS);
	}
	a->text[FACTS_ROOM - 1] = '\0';
	return rc ? rc : a->code;
}

/* The storage of directory path, or of the directory of file path. A descriptor or a negative
 * errno. */
static int open_storage(struct root *r, const char *path)
{
	int fd = root_open(r, path, O_RDONLY | O_DIRECTORY, 0);
	char name[256];

	return fd == -ENOTDIR || fd == -ENOENT ? root_open_parent(r, path, name) : fd;
}

/* Append the lines of text, each after a blank, so that it is no last line of a reply. 0 or
 * -ENOMEM. */
static int put_lines(struct buf *out, const char *text)
{
	int rc = 0;

	for (size_t n; !rc && *text; text += n) {
		n = strcspn(text, "\n") + 1;
		rc = buf_put(out, " ", 1) || buf_put(out, text, n) ? -ENOMEM : 0;
	}
	return rc;
}

/* The facts that this process knows itself. NULL: out of memory. */
static char *own_lines(struct session *s, struct ftp_session *fs, int fd, const char *path)
{
	bool writes = ftp_session_account(fs)->can_create;
	CLEANUP_FREE char *limits = NULL, *storage = NULL;
	struct transfer_config c;
	char *both;

	srv_transfer_config(s, fs, &c);
	limits = json_line(transfer_limits(&c.tuning));
	if (path)
		storage = json_line(storage_fact(fd, path, STORAGE_NS,
						 writes ? NULL : "this account may not write"));
	if (!limits || (path && !storage) ||
	    asprintf(&both, "%s%s", limits, storage ? storage : "") < 0)
		return NULL;
	return both;
}

int srv_facts(void *arg, struct ftp_session *fs, const char *path)
{
	const struct ftp_account *account = ftp_session_account(fs);
	CLEANUP_BUF struct buf *text = NULL;
	CLEANUP_FREE struct facts_reply *a = NULL;
	CLEANUP_FREE char *own = NULL;
	struct session *s = arg;
	struct err e = ERR_INIT;
	struct stat st = { 0 };
	int fd CLEANUP_CLOSE = -1;
	int rc = -ENOMEM;

	if (auth_is_anonymous(account->name))
		return ftp_session_reply(fs, 550,
					 "Anonymous clients do not get the facts of this "
					 "machine");
	text = buf_new(FTP_REPLY_MAX / 2);
	a = calloc(1, sizeof(*a));
	fd = path ? open_storage(account->root, path) : -1;
	if (fd >= 0 && fstat(fd, &st))
		st.st_dev = 0;
	own = own_lines(s, fs, fd, path);
	if (text && a && own)
		rc = s->monitor ? ask_facts(s, st.st_dev, a) :
				  facts_lines(s->ends ? &s->ends->peer : NULL, st.st_dev, a->text,
					      FACTS_ROOM, &e);
	if (!rc && (put_lines(text, a->text) || put_lines(text, own) || buf_put(text, "", 1)))
		rc = -ENOMEM;
	if (rc)
		return ftp_session_reply(fs, 550, "The facts of this machine cannot be read: %s",
					 strerror(-rc));
	return ftp_session_reply(fs, 200, "Facts:\n%sEnd", (const char *)buf_ptr(text));
}
