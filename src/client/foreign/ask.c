// SPDX-License-Identifier: Apache-2.0
/* Commands to a foreign server that transfer no files: facts, listings, attributes and digests,
 * each by the best command that the server has. */
#include "client/foreign/foreign.h"

#include <inttypes.h>
#include <strings.h>

/* A refusal with these codes means that the server has no such command (RFC 959, section 4.2). */
static bool not_known(int code)
{
	return code == 500 || code == 502 || code == 504 || code == 202;
}

/* Convert a reply's code: 0 for 2xx, otherwise a negative errno with text. If the server does not
 * know the command, clear feature, so that it is not tried again. */
static int judge_reply(struct fconn *c, int code, unsigned feature, struct err *e)
{
	if (not_known(code))
		c->has &= ~(unsigned)feature;
	if (code < 0 || code / 100 == 2)
		return code < 0 ? code : 0;
	ftp_reply_refused(c->host, c->reply.code, c->reply.text, e);
	return not_known(code) && feature ? (e->code = -EOPNOTSUPP) : e->code;
}

int fconn_simple(struct fconn *c, enum ftp_verb verb, const char *path, struct err *e)
{
	int code = fconn_ask(c, ftp_command_of(verb)->name, NULL, path, NULL, e);

	return verb == FTP_RNFR && code == 350 ? 0 : judge_reply(c, code, 0, e);
}

int fconn_rename(struct fconn *c, const char *from, const char *to, struct err *e)
{
	int rc = fconn_simple(c, FTP_RNFR, from, e);

	return rc ? rc : fconn_simple(c, FTP_RNTO, to, e);
}

bool fconn_warns(const struct fconn *c, enum fconn_warning w)
{
	return c->said && !(atomic_fetch_or(c->said, w) & w);
}

char *fconn_absolute(const struct fconn *c, const char *path, struct err *e)
{
	const char *home = c->home;
	char *out;
	size_t n;

	if (path_at_home(path))
		path += 1 + strspn(path + 1, "/");
	else if (*path == '/')
		home = "";
	while (path[0] == '.' && path[1] == '/')
		path += 1 + strspn(path + 1, "/");
	if (!strcmp(path, "."))
		path = "";

	n = strlen(home);
	if (asprintf(&out, "%s%s%s", home, n && home[n - 1] != '/' && *path ? "/" : "", path) < 0) {
		err_nomem(e);
		return NULL;
	}

	for (n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = '\0';
	if (!strpbrk(out, "\r\n"))
		return out;
	ftp_bad_name(c->host, out, e);
	free(out);
	return NULL;
}

/* ---- features ---- */

/* alg, digits: of a command for digests, the best first. */
static const struct {
	const char *name;
	unsigned bits;
	const char *alg;
	size_t digits;
} features[] = {
	{ "MLST", FCONN_MLST | FCONN_MLSD, NULL, 0 },
	{ "SIZE", FCONN_SIZE, NULL, 0 },
	{ "MDTM", FCONN_MDTM, NULL, 0 },
	{ "MFMT", FCONN_MFMT, NULL, 0 },
	{ "REST", FCONN_REST, NULL, 0 },
	{ "APPE", FCONN_APPE, NULL, 0 },
	{ "HASH", FCONN_HASH, NULL, 0 },
	{ "XSHA256", FCONN_XSHA256, "SHA-256", 64 },
	{ "XSHA512", FCONN_XSHA512, "SHA-512", 128 },
	{ "XSHA1", FCONN_XSHA1, "SHA-1", 40 },
	{ "XSHA", FCONN_XSHA1, NULL, 0 },
	{ "XMD5", FCONN_XMD5, "MD5", 32 },
};

/* Old servers refuse FEAT: assume the common commands. */
int fconn_learn(struct fconn *c, struct err *e)
{
	CLEANUP_FREE char *all = NULL;
	char *rest, *line;
	bool utf8 = false;
	int rc = 0;

	c->has = FCONN_SIZE | FCONN_MDTM | FCONN_REST | FCONN_APPE | FCONN_CHMOD |
		 FCONN_MDTM_SET | FCONN_UTIME | FCONN_LIST_ALL;
	all = c->reply.code / 100 == 2 && c->reply.text ? strdup(c->reply.text) : NULL;
	rest = all;
	while ((line = strsep(&rest, "\n"))) {
		size_t len;

		line += strspn(line, " \t");
		len = strcspn(line, " ;:");
		for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
			if (strlen(features[i].name) == len &&
			    !strncasecmp(line, features[i].name, len))
				c->has |= features[i].bits;
		utf8 |= !strncasecmp(line, "UTF8", 4);
		if (len == 4 && !strncasecmp(line, "HASH", 4))
			snprintf(c->hashes, sizeof(c->hashes), "%s",
				 line + len + strspn(line + len, " "));
	}

	/* A refusal of these options does not matter. Servers ignore facts that they do not know
	 * (RFC 3659, section 7.9). */
	if (utf8)
		rc = fconn_ask(c, "OPTS", "UTF8 ON", NULL, NULL, e);
	if (rc >= 0 && fconn_has(c, FCONN_MLST))
		rc = fconn_ask(c, "OPTS", "MLST type;size;modify;unix.mode;unix.uid;unix.gid;"
			       "unix.owner;unix.group;unique;", NULL, NULL, e);
	return rc < 0 ? rc : 0;
}

/* ---- attributes ---- */

/* Send "VERB beforePATHbehind", unless the server is known to lack feature (-EOPNOTSUPP). */
static int ask_feature(struct fconn *c, unsigned feature, const char *verb, const char *before,
		       const char *path, const char *behind, struct err *e)
{
	if (!fconn_has(c, feature))
		return err_set(e, -EOPNOTSUPP, "%s has no %s", c->host, verb);
	return judge_reply(c, fconn_ask(c, verb, before, path, behind, e), feature, e);
}

static int fconn_bad_reply(const struct fconn *c, const char *verb, struct err *e)
{
	return err_set(e, -EPROTO, "%s gives an invalid reply to %s: \"%s\"", c->host, verb,
		       printable(c->reply.text ? c->reply.text : ""));
}

int fconn_size(struct fconn *c, const char *path, uint64_t *size, struct err *e)
{
	int rc = ask_feature(c, FCONN_SIZE, "SIZE", NULL, path, NULL, e);

	if (rc == 0 && parse_uint(c->reply.text, 0, INT64_MAX, size))
		return fconn_bad_reply(c, "SIZE", e);
	return rc;
}

int fconn_mtime(struct fconn *c, const char *path, int64_t *sec, uint32_t *ns, struct err *e)
{
	int rc = ask_feature(c, FCONN_MDTM, "MDTM", NULL, path, NULL, e);

	if (rc == 0 && ftp_time_parse(c->reply.text, sec, ns))
		return fconn_bad_reply(c, "MDTM", e);
	return rc;
}

int fconn_set_mtime(struct fconn *c, const char *path, int64_t sec, struct err *e)
{
	char text[32], before[64], behind[128];
	const struct {
		unsigned feature;
		const char *verb, *before, *behind;
	} ways[] = {
		{ FCONN_MFMT, "MFMT", before, NULL },
		{ FCONN_MDTM_SET, "MDTM", before, NULL },
		{ FCONN_UTIME, "SITE", "UTIME ", behind },
	};
	int rc = err_set(e, -EOPNOTSUPP, "%s sets no times", c->host);

	ftp_time_format(text, sec, 0);
	snprintf(before, sizeof(before), "%s ", text);
	snprintf(behind, sizeof(behind), " %s %s %s UTC", text, text, text);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		if (!fconn_has(c, ways[i].feature))
			continue;
		rc = ask_feature(c, ways[i].feature, ways[i].verb, ways[i].before, path,
				 ways[i].behind, e);
		if (rc == 0 || !fconn_usable(c))
			break;
		/* MDTM may take "TIME PATH" for a file name, and refuse it with any code. */
		if (i)
			c->has &= ~(unsigned)(ways[i].feature);
	}
	return rc;
}

int fconn_set_mode(struct fconn *c, const char *path, uint32_t mode, struct err *e)
{
	char before[32];
	int rc;

	snprintf(before, sizeof(before), "CHMOD %03" PRIo32 " ", mode & 07777);
	rc = ask_feature(c, FCONN_CHMOD, "SITE", before, path, NULL, e);
	if (rc == -EINVAL) /* 501: a SITE without CHMOD */
		c->has &= ~(unsigned)FCONN_CHMOD;
	return rc;
}

/* ---- listings ---- */

/* Does LIST -a list only a file called "-a"? Then the server took "-a" for a name. */
static bool lists_only_dash_a(const struct listing_text *l)
{
	const char *text = (const char *)buf_ptr(l->text), *end = text + buf_len(l->text) - 1;
	bool one = l->lines == 1 && *end == '\n';

	while (end > text && end[-1] == '\r')
		end--;
	return one && end - text > 3 && !memcmp(end - 3, " -a", 3);
}

/* Change to the directory, then LIST: as an argument, its name could be taken for an option or a
 * pattern. A server that knows -a lists hidden names, too, at least "."; so an empty listing means
 * that the server does not know -a. */
static int list_old(struct fconn *c, const char *path, struct facts_list *list, struct err *e)
{
	struct listing_text l = { .host = c->host };
	const struct ftp_reply *r = &c->reply;
	int rc = 0;

	if (fconn_has(c, FCONN_LIST_ALL)) {
		rc = fconn_list_text(c, path, "LIST -a", &l, e);
		if (rc || !l.text || lists_only_dash_a(&l)) {
			c->has &= ~(unsigned)FCONN_LIST_ALL;
			buf_free(l.text);
			l = (struct listing_text){ .host = c->host };
		}
	}

	if (!l.text && fconn_usable(c)) {
		e->code = 0;
		rc = fconn_list_text(c, path, "LIST", &l, e);
	}

	/* Some servers refuse to list an empty directory. */
	if (rc && fconn_usable(c) && r->code / 50 == 9 && r->text &&
	    strcasestr(r->text, "no files"))
		rc = e->code = 0;
	if (rc == 0)
		rc = listing_parse(&l, LISTING_LIST, list, e);
	buf_free(l.text);
	return rc;
}

/* The server refused verb, MLSD or MLST, with code: from now on do not use feature. */
static void lacks_listings(struct fconn *c, const char *verb, int code, unsigned feature)
{
	c->has &= ~(unsigned)feature;
	if (fconn_warns(c, FCONN_SAID_MLST))
		log_warn("%s offers machine listings but answers %s with %d: it is asked by LIST "
			 "and the like", c->host, verb, code);
}

int fconn_list(struct fconn *c, const char *path, struct facts_list *list, struct err *e)
{
	CLEANUP_FREE char *whole = fconn_absolute(c, path, e);
	CLEANUP_FREE char *command = NULL;
	struct listing_text l = { .host = c->host };
	int rc, code;

	facts_clear(list);
	if (!whole)
		return e->code;

	if (!fconn_has(c, FCONN_MLSD))
		return list_old(c, whole, list, e);
	if (asprintf(&command, "MLSD %s", whole) < 0)
		return err_nomem(e);

	rc = fconn_list_text(c, NULL, command, &l, e);
	if (rc == 0)
		rc = listing_parse(&l, LISTING_FACTS, list, e);
	buf_free(l.text);
	if (rc == 0)
		return 0;

	/* 501 may also mean that path is not a directory (RFC 3659, section 7.2.1): LIST shows
	 * which. */
	code = c->reply.code;
	if (!fconn_usable(c) || (!not_known(code) && code != 501))
		return rc;
	e->code = 0;
	rc = list_old(c, whole, list, e);
	if (rc == 0)
		lacks_listings(c, "MLSD", code, FCONN_MLSD);
	return rc;
}

/* ---- one file's facts ---- */

/* Take the facts from the listing of the parent directory, which may be unreadable. The exact size
 * and time of a file are from SIZE and MDTM. */
static int stat_old(struct fconn *c, const char *path, struct ftp_facts *f, struct err *e)
{
	CLEANUP_FREE char *whole = fconn_absolute(c, path, e);
	CLEANUP_FREE char *above = NULL;
	struct facts_list list = { 0 };
	struct err why = ERR_INIT;
	const char *name;
	bool is_dir;
	int rc;

	if (!whole)
		return e->code;

	name = name_last(whole);
	above = strndup(whole, (size_t)(name - whole) - (name - whole > 1));
	if (!above)
		return err_sys(e, -ENOMEM, "%s", printable(whole));

	is_dir = !fconn_simple(c, FTP_CWD, whole, e);
	if (*name && fconn_usable(c) && !fconn_list(c, above, &list, &why))
		for (size_t i = 0; i < list.n && !f->type; i++)
			if (!strcmp(list.all[i].name, name)) {
				*f = list.all[i];
				f->name = NULL;
				list.all[i].target = NULL;
			}
	facts_clear(&list);

	if (is_dir && f->type != 'd') { /* the listed facts are those of a link */
		ftp_facts_clear(f);
		f->type = 'd';
	} else if (!is_dir) {
		rc = fconn_size(c, whole, &f->size, e);
		if (rc && !f->type && fconn_usable(c))
			return err_sys(e, -ENOENT, "%s", printable(whole));
		f->has_size |= !rc && f->type != 'l';
		if (!rc && !fconn_mtime(c, whole, &f->mtime_s, &f->mtime_ns, e)) {
			f->has_mtime = true;
			f->time_about = false;
		}
		if (!f->type)
			f->type = 'f';
	}
	if (fconn_lost(c, e)) {
		ftp_facts_clear(f);
		return e->code;
	}
	f->name = steal_ptr(&whole);
	return 0;
}

int fconn_stat(struct fconn *c, const char *path, struct ftp_facts *f, struct err *e)
{
	int code;

	memset(f, 0, sizeof(*f));
	if (!fconn_has(c, FCONN_MLST))
		return stat_old(c, path, f, e);
	code = fconn_ask(c, "MLST", NULL, path, NULL, e);
	if (not_known(code)) {
		lacks_listings(c, "MLST", code, FCONN_MLST);
		return stat_old(c, path, f, e);
	}
	if (judge_reply(c, code, 0, e))
		return e->code;

	if (!ftp_facts_of_reply(&c->reply, false, f))
		return 0;
	ftp_facts_clear(f);
	return fconn_bad_reply(c, "MLST", e);
}

/* ---- digests ---- */

/* Is alg among HASH's algorithms, as FEAT lists them: "SHA-256*;SHA-1;MD5"? */
static bool hash_knows(const struct fconn *c, const char *alg)
{
	size_t n;

	for (const char *at = c->hashes; *at; at += n + strspn(at + n, ";* ")) {
		n = strcspn(at, ";* ");
		if (n == strlen(alg) && !strncasecmp(at, alg, n))
			return fconn_has(c, FCONN_HASH);
	}
	return false;
}

/* Copy to hex, in lower case, the reply's first word with the digest's number of digits. */
static int find_digest(const struct fconn *c, size_t digits, char *hex, struct err *e)
{
	const char *text = c->reply.text ? c->reply.text : "";
	size_t n;

	for (const char *at = text; *at; at += n + strspn(at + n, " \n")) {
		n = strcspn(at, " \n");
		if (n != digits || strspn(at, "0123456789abcdefABCDEF") < n)
			continue;
		for (size_t i = 0; i < n; i++)
			hex[i] = (char)(at[i] | (at[i] >= 'A' ? 0x20 : 0));
		hex[n] = '\0';
		return 0;
	}
	return digest_bad_answer(c->host, text, e);
}

int fconn_digest(struct fconn *c, const char *path, const char **alg,
		 char hex[2 * DIGEST_MAX + 1], struct err *e)
{
	/* The X commands take a path with blanks in quotes. */
	const char *quote = strchr(path, ' ') || strchr(c->home, ' ') ? "\"" : "";
	char opts[64];
	int rc;

	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
		const char *own = features[i].alg;
		const bool hash = own && hash_knows(c, own);

		if (!own || (*alg && strcasecmp(*alg, own)) ||
		    (!hash && !fconn_has(c, features[i].bits)))
			continue;

		*alg = own;
		snprintf(opts, sizeof(opts), "HASH %s", *alg);
		rc = hash ? judge_reply(c, fconn_ask(c, "OPTS", opts, NULL, NULL, e), 0, e) :
		     judge_reply(c, fconn_ask(c, features[i].name, quote, path, quote, e), 0, e);

		if (rc == 0 && hash)
			rc = judge_reply(c, fconn_ask(c, "HASH", NULL, path, NULL, e), 0, e);
		return rc ? rc : find_digest(c, features[i].digits, hex, e);
	}
	return err_set(e, -EOPNOTSUPP, "%s computes no %s%sdigests (neither by HASH nor by an X "
		       "command)", c->host, *alg ? *alg : "", *alg ? " " : "");
}

const struct foreign_calls foreign_calls = {
	.open = fconn_open, .close = fconn_close, .simple = fconn_simple,
	.set_mode = fconn_set_mode, .stat = fconn_stat, .list = fconn_list,
};
