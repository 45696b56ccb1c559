// SPDX-License-Identifier: Apache-2.0
/* What is known of a file on a server without MLST: put together from CWD, LIST, SIZE and MDTM. And
 * what can be changed of it. */
#include "control/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { REPLY_MS = 10 * 60 * 1000 };

/* A verb that is not known need not be tried again. */
bool client_not_known(int code)
{
	return code == 500 || code == 502 || code == 504 || code == 202;
}

/* Ask, and forget about what the server has not. The code, or a negative errno with text. */
static int try_word(struct ftp_client *c, unsigned what, const char *verb, const char *arg,
		    const char *path, struct err *e)
{
	int code = client_send_word(c, verb, arg, path, e);

	if (code == 0)
		code = client_final_reply(c, REPLY_MS, e);
	if (client_not_known(code))
		c->has &= ~what;
	if (code < 0 || code / 100 == 2)
		return code;
	client_refused(c, e);
	return client_not_known(code) ? (e->code = -EOPNOTSUPP) : e->code;
}

static int absent(const struct ftp_client *c, const char *verb, struct err *e)
{
	return err_set(e, -EOPNOTSUPP, "%s has no %s", c->host, verb);
}

/* ---- SIZE and MDTM ---- */

int ftp_size(struct ftp_client *c, const char *path, uint64_t *size, struct err *e)
{
	int rc;

	if (!(c->has & FTP_HAS_SIZE))
		return absent(c, "SIZE", e);
	rc = try_word(c, FTP_HAS_SIZE, "SIZE", path, path, e);
	if (rc < 0)
		return rc;
	if (parse_uint(c->reply.text, 0, INT64_MAX, size))
		return err_set(e, -EPROTO, "%s answers SIZE with nonsense: \"%s\"", c->host,
			       printable(c->reply.text));
	return 0;
}

int ftp_mtime(struct ftp_client *c, const char *path, int64_t *sec, uint32_t *ns, struct err *e)
{
	int rc;

	if (!(c->has & FTP_HAS_MDTM))
		return absent(c, "MDTM", e);
	rc = try_word(c, FTP_HAS_MDTM, "MDTM", path, path, e);
	if (rc < 0)
		return rc;
	if (ftp_time_parse(c->reply.text, sec, ns))
		return err_set(e, -EPROTO, "%s answers MDTM with nonsense: \"%s\"", c->host,
			       printable(c->reply.text));
	return 0;
}

/* ---- setting ---- */

/* verb, a time, and a path behind it. It has worked when the time is there afterwards: "MDTM time
 * path" asks for a file of that name where it cannot set. */
static int set_by(struct ftp_client *c, unsigned what, const char *verb, const char *before,
		  const char *path, const char *behind, struct err *e)
{
	CLEANUP_FREE char *arg = NULL;
	CLEANUP_FREE char *whole = client_absolute(c, path);
	int n;

	if (!whole)
		return err_sys(e, -ENOMEM, "time");
	n = asprintf(&arg, "%s%s%s", before, whole, behind);
	if (n < 0) {
		arg = NULL;
		return err_sys(e, -ENOMEM, "time");
	}
	n = try_word(c, what, verb, arg, NULL, e);
	return n < 0 ? n : 0;
}

static bool may_try_on(const struct ftp_client *c, int rc)
{
	return rc < 0 && !c->lost && !c->aborted;
}

int ftp_set_mtime(struct ftp_client *c, const char *path, int64_t sec, struct err *e)
{
	char text[32], before[64], behind[128];
	int rc = absent(c, "MFMT", e);

	ftp_time_format(text, sec, 0);
	snprintf(before, sizeof(before), "%s ", text);
	if (c->has & FTP_HAS_MFMT)
		rc = set_by(c, FTP_HAS_MFMT, "MFMT", before, path, "", e);
	if (may_try_on(c, rc) && (c->has & FTP_HAS_MDTM_SET)) {
		rc = set_by(c, FTP_HAS_MDTM_SET, "MDTM", before, path, "", e);
		/* "No such file": it was looked for under the name with the time in it. */
		if (rc < 0)
			c->has &= ~(unsigned)FTP_HAS_MDTM_SET;
	}
	if (may_try_on(c, rc) && (c->has & FTP_HAS_UTIME)) {
		snprintf(behind, sizeof(behind), " %s %s %s UTC", text, text, text);
		rc = set_by(c, FTP_HAS_UTIME, "SITE", "UTIME ", path, behind, e);
		if (rc < 0)
			c->has &= ~(unsigned)FTP_HAS_UTIME;
	}
	return rc;
}

int ftp_set_mode(struct ftp_client *c, const char *path, uint32_t mode, struct err *e)
{
	char before[32];
	int rc;

	if (!(c->has & FTP_HAS_CHMOD))
		return absent(c, "SITE CHMOD", e);
	snprintf(before, sizeof(before), "CHMOD %03" PRIo32 " ", mode & 0777);
	rc = set_by(c, FTP_HAS_CHMOD, "SITE", before, path, "", e);
	if (rc == -EINVAL) /* 501: a SITE without CHMOD */
		c->has &= ~(unsigned)FTP_HAS_CHMOD;
	return rc;
}

/* ---- MLST's place ---- */

struct search {
	const char *name;
	struct ftp_facts *f;
	bool found;
};

static int look_at(void *arg, const struct ftp_facts *f)
{
	struct search *s = arg;

	if (s->found || strcmp(f->name, s->name))
		return 0;
	s->found = true;
	*s->f = *f;
	s->f->name = NULL; /* its owner frees it */
	s->f->target = f->target ? strdup(f->target) : NULL;
	return 0;
}

/* What its directory lists of it. 0 when nothing: that may be closed to us. */
static int search_above(struct ftp_client *c, const char *path, struct search *s, struct err *e)
{
	CLEANUP_FREE char *above = strdup(path);
	struct err why = ERR_INIT;
	char *slash = above ? strrchr(above, '/') : NULL;
	int rc;

	if (!slash)
		return err_sys(e, -ENOMEM, "%s", printable(path));
	s->name = path + (slash - above) + 1;
	slash[slash == above] = '\0';
	rc = ftp_list(c, above, look_at, s, &why);
	if (rc < 0 && (c->lost || c->aborted)) {
		*e = why;
		return rc;
	}
	return 0;
}

/* Of a file: what the server says exactly. 0: nothing; 1; or a negative errno with text. */
static int refine(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e)
{
	struct err why = ERR_INIT;
	int64_t sec;
	uint32_t ns;
	uint64_t size;
	int rc = ftp_size(c, path, &size, &why);

	if (rc == 0 && f->type != 'l') {
		f->has_size = true;
		f->size = size;
	}
	if (rc == 0 && ftp_mtime(c, path, &sec, &ns, &why) == 0) {
		f->has_mtime = true;
		f->time_about = false;
		f->mtime_s = sec;
		f->mtime_ns = ns;
	}
	if (c->lost || c->aborted) {
		*e = why;
		return e->code ? e->code : (e->code = -EPIPE);
	}
	return rc == 0;
}

int client_stat(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e)
{
	CLEANUP_FREE char *whole = client_absolute(c, path);
	struct search s = { .f = f };
	int rc;

	if (!whole)
		return err_sys(e, -ENOMEM, "%s", printable(path));
	rc = client_word(c, "CWD", whole, true, e);
	if (rc < 0)
		return rc;
	if (rc / 100 == 2) {
		f->type = 'd';
	} else {
		rc = search_above(c, whole, &s, e);
		if (rc == 0)
			rc = refine(c, whole, f, e);
		if (rc == 0 && !s.found)
			rc = err_set(e, -ENOENT, "%s has no %s", c->host, printable(whole));
		if (rc < 0)
			return rc;
		if (!s.found)
			f->type = 'f';
	}
	f->name = strdup(whole);
	if (f->name)
		return 0;
	ftp_facts_clear(f);
	return err_sys(e, -ENOMEM, "%s", printable(path));
}
