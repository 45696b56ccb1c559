// SPDX-License-Identifier: Apache-2.0
/* Listings: lines of LIST, and the text of a whole listing. Each format of lines has a function,
 * which returns -EBADMSG for a line of another format. */
#include "proto/ftp.h"

#include <inttypes.h>
#include <strings.h>
#include <time.h>

#define DAY 86400
/* No directory has more: an endless listing from the server must not exhaust our memory. */
#define LINES_MOST 4000000u
#define TEXT_MOST ((size_t)512 << 20)

/* ---- words ---- */

/* The word after the one at s. */
static const char *next_word(const char *s)
{
	s += strcspn(s, " ");
	return s + strspn(s, " ");
}

/* Parse len digits as a number of at most max. */
static bool list_number(const char *digits, size_t len, uint64_t max, uint64_t *v)
{
	char text[21];

	if (!len || len >= sizeof(text) || strspn(digits, "0123456789") < len)
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)len, digits);
	return !parse_uint(text, 0, max, v);
}

/* ---- times ---- */

/* False for a date that does not exist. */
static bool list_set_time(struct ftp_facts *f, const struct tm *t)
{
	struct tm real = *t;
	time_t sec = timegm(&real);

	if (real.tm_mon != t->tm_mon || real.tm_mday != t->tm_mday)
		return false;
	f->has_mtime = f->time_about = true;
	f->mtime_s = sec;
	return true;
}

/* Parse the time at the start of s, also with "/" instead of "-". Returns its end, at a blank; NULL:
 * there is none. */
static const char *list_time(const char *s, int64_t now, struct ftp_facts *f)
{
	static const char *const formats[] = {
		"%b %d %H:%M", "%d %b %H:%M", "%bt %d %H:%M", /* without a year; "Sept" */
		"%b %d %Y", "%d %b %Y", "%bt %d %Y", "%Y-%m-%d %H:%M", "%Y-%m-%d %I:%M%p",
		"%m-%d-%y %I:%M%p", "%m-%d-%Y %I:%M%p", "%m-%d-%y %H:%M", "%m-%d-%Y %H:%M",
	};
	const time_t seconds = (time_t)now;
	char text[32];

	snprintf(text, sizeof(text), "%.31s", s);
	for (char *slash = text; (slash = strchr(slash, '/'));)
		*slash = '-';

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm t = { 0 }, today;
		const char *end = strptime(text, formats[i], &t);

		if (end && *end == ':') /* seconds */
			end += strspn(end, ":.0123456789");
		/* "10-11-12" is not of the year 10. */
		if (!end || *end != ' ' || (i >= 3 && t.tm_year < 1000 - 1900))
			continue;
		if (i >= 3)
			return list_set_time(f, &t) ? s + (end - text) : NULL;

		/* The year is this one or the last one. The server's clock may be a day ahead. */
		t.tm_year = gmtime_r(&seconds, &today) ? today.tm_year : 0;
		if (!list_set_time(f, &t) || f->mtime_s > now + DAY) {
			t.tm_year--;
			if (!list_set_time(f, &t))
				return NULL;
		}
		return s + (end - text);
	}
	return NULL;
}

/* ---- names ---- */

static int list_set_name(char **out, const char *name, size_t len)
{
	*out = strndup(name, len);
	return *out ? 1 : -ENOMEM;
}

/* "NAME -> TARGET". Both may contain " -> ". A link's size is its target's length, which selects
 * the arrow. */
static int list_set_link(struct ftp_facts *f, const char *text)
{
	const char *arrow = strstr(text, " -> ");

	for (const char *at = arrow; at; at = strstr(at + 1, " -> "))
		if (f->has_size && strlen(at + 4) == f->size)
			arrow = at;
	/* Callers have no use for the size of a link. */
	f->has_size = false;
	f->size = 0;
	if (!arrow || arrow == text)
		return list_set_name(&f->name, text, strlen(text));
	f->target = strdup(arrow + 4);
	return f->target ? list_set_name(&f->name, text, (size_t)(arrow - text)) : -ENOMEM;
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* Set the name that follows end and one blank: names may begin with blanks. */
static int name_behind(struct ftp_facts *f, const char *end)
{
	const char *name = end + 1;
	int rc;

	if (*end != ' ' || !*name)
		return -EBADMSG;
	if (is_dots(name))
		return 0;
	rc = f->type == 'l' ? list_set_link(f, name) : list_set_name(&f->name, name, strlen(name));
	return rc > 0 && !*f->name ? -EBADMSG : rc;
}

/* ---- ls -l, and NetWare ---- */

/* "rwsr-xr-T" */
static bool parse_mode(const char *s, uint32_t *mode)
{
	*mode = 0;
	for (int shift = 6; shift >= 0; shift -= 3, s += 3) {
		if (!s[0] || !strchr("-r", s[0]) || !s[1] || !strchr("-w", s[1]) || !s[2] ||
		    !strchr("-xsStTlL", s[2]))
			return false;
		*mode |= (s[0] == 'r' ? 4u : 0u) << shift;
		*mode |= (s[1] == 'w' ? 2u : 0u) << shift;
		*mode |= (strchr("xst", s[2]) ? 1u : 0u) << shift;
		if (strchr("sStT", s[2]))
			*mode |= 01000u << shift / 3;
	}

	return true;
}

/* Parse the words after the mode: links, owner, group, size, time, name. The first time that follows
 * a number is the file's. */
static int unix_rest(struct ftp_facts *f, const char *rest, int64_t now)
{
	const char *owner = next_word(rest), *group = next_word(owner), *after = next_word(group);
	uint64_t size, uid, gid;

	for (const char *at = rest, *next, *end; *at; at = next) {
		next = next_word(at);
		if (!list_number(at, strcspn(at, " "), INT64_MAX, &size) ||
		    !(end = list_time(next, now, f)))
			continue;
		f->has_size = f->type == 'f' || f->type == 'l';
		f->size = f->has_size ? size : 0;
		/* Owners that are not numeric are ignored. */
		if (at == after &&
		    list_number(owner, strcspn(owner, " "), UINT32_MAX, &uid) &&
		    list_number(group, strcspn(group, " "), UINT32_MAX, &gid)) {
			f->has_owner = true;
			f->uid = (uint32_t)uid;
			f->gid = (uint32_t)gid;
		}
		return name_behind(f, end);
	}

	return -EBADMSG;
}

/* "-rw-r--r-- 1 owner group 512 Jan 16 18:53 name", and in the form of NetWare
 * "d [RWCEAFMS] owner 512 Jan 16 18:53    name". */
static int parse_unix(const char *line, int64_t now, struct ftp_facts *f)
{
	const char *rest = next_word(line);
	size_t len = strcspn(line, " "), blanks;
	bool netware = len == 1 && strchr("-d", *line) && *rest == '[';
	int rc;

	if (!netware && (!strchr("-dlbcpsDfn", *line) || len < 10 || len > 11 ||
			 !parse_mode(line + 1, &f->mode)))
		return -EBADMSG;
	f->type = *line == '-' ? 'f' : strchr("fdl", *line) ? *line : 'o';
	f->has_mode = !netware;
	rc = unix_rest(f, netware ? next_word(rest) : rest, now);
	if (rc <= 0 || !netware)
		return rc;

	/* Names are aligned in a column. */
	blanks = strspn(f->name, " ");
	memmove(f->name, f->name + blanks, strlen(f->name + blanks) + 1);
	return *f->name ? 1 : -EBADMSG;
}

/* ---- DOS ---- */

/* "10-23-12  03:25PM       <SYMLINKD>     name [target]", also <DIR>, or a size and one blank */
static int parse_dos(const char *line, int64_t now, struct ftp_facts *f)
{
	const char *end = strspn(line, "0123456789") >= 2 ? list_time(line, now, f) : NULL;
	const char *kind = end ? next_word(end) : "", *name = next_word(kind), *target;
	size_t len = strlen(name);

	if (*kind != '<') {
		f->type = 'f';
		f->has_size = list_number(kind, strcspn(kind, " "), INT64_MAX, &f->size);
		return f->has_size ? name_behind(f, kind + strcspn(kind, " ")) : -EBADMSG;
	}
	if (!len)
		return -EBADMSG;

	f->type = !strncmp(kind, "<SYMLINK", 8) ? 'l' : !strncmp(kind, "<DIR>", 5) ? 'd' : 'o';
	if (f->type == 'd' && is_dots(name))
		return 0;
	target = f->type == 'l' && name[len - 1] == ']' ? strstr(name, " [") : NULL;
	if (!target)
		return list_set_name(&f->name, name, len);
	f->target = strndup(target + 2, (size_t)(name + len - 1 - target - 2));
	return f->target ? list_set_name(&f->name, name, (size_t)(target - name)) : -ENOMEM;
}

/* ---- EPLF ---- */

/* "+i8388621.29609,m824255902,/,<TAB>name" */
static int parse_eplf(const char *line, int64_t now, struct ftp_facts *f)
{
	const char *tab = strchr(line, '\t');
	uint64_t n;
	size_t len;

	(void)now;
	if (*line != '+' || !tab || !tab[1])
		return -EBADMSG;
	f->type = 'o';
	for (const char *at = line + 1; at < tab; at += len + 1) {
		len = strcspn(at, ",\t");
		if (*at == '/' || *at == 'r')
			f->type = *at == '/' ? 'd' : 'f';
		else if (*at == 's')
			f->has_size = list_number(at + 1, len - 1, INT64_MAX, &f->size);
		else if (*at == 'm' && list_number(at + 1, len - 1, INT64_MAX / 2, &n)) {
			f->has_mtime = true;
			f->mtime_s = (int64_t)n;
		}
	}

	return is_dots(tab + 1) ? 0 : list_set_name(&f->name, tab + 1, strlen(tab + 1));
}

/* ---- all formats ---- */

int ftp_list_parse(const char *line, int64_t now, struct ftp_facts *f)
{
	static int (*const styles[])(const char *line, int64_t now, struct ftp_facts *f) = {
		parse_unix, parse_dos, parse_eplf,
	};
	size_t digits = strncasecmp(line, "total ", 6) ? 0 : strspn(line + 6, "0123456789");
	int rc = -EBADMSG;

	memset(f, 0, sizeof(*f));

	/* ls prints the number of blocks first. */
	if (!line[strspn(line, " ")] || (digits && !line[6 + digits]))
		return 0;
	for (size_t i = 0; rc == -EBADMSG && i < sizeof(styles) / sizeof(styles[0]); i++) {
		ftp_facts_clear(f);
		rc = styles[i](line, now, f);
	}
	if (rc <= 0)
		ftp_facts_clear(f);
	return rc;
}

/* ---- a whole listing ---- */

int listing_add(void *listing, const void *p, size_t n, struct err *e)
{
	const char *at = p, *end = at + n;
	struct listing_text *l = listing;
	int rc;

	if (!n)
		return 0;
	for (; (at = memchr(at, '\n', (size_t)(end - at))); at++)
		l->lines++;
	if (!l->text)
		l->text = buf_new(TEXT_MOST);
	rc = l->text ? buf_put(l->text, p, n) : -ENOMEM;
	if (rc == -ENOBUFS || l->lines > LINES_MOST)
		return err_set(e, -EOVERFLOW, "%s lists a directory with more than %u lines",
			       l->host, LINES_MOST);
	return rc ? err_sys(e, rc, "listing from %s", l->host) : 0;
}

void facts_clear(struct facts_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		ftp_facts_clear(&l->all[i]);
	free(l->all);
	*l = (struct facts_list){ 0 };
}

int facts_by_name(const void *a, const void *b)
{
	const struct ftp_facts *x = a, *y = b;

	return strcmp(x->name, y->name);
}

/* Append the entry of a line. */
static int listing_line(const char *host, const char *line, enum listing_form form, int64_t now,
			struct facts_list *list, struct err *e)
{
	struct ftp_facts f;
	int rc = form == LISTING_LIST ? ftp_list_parse(line, now, &f) :
		 ftp_facts_parse(line, form == LISTING_PERCENT, &f) < 0 ? -EBADMSG : 1;

	if (rc < 0)
		rc = err_set(e, -EPROTO, "%s sent an invalid line of a listing: \"%s\"", host,
			     printable(line));
	else if (rc == 0 || f.type == 'c' || f.type == 'p')
		rc = 0;
	/* These names would lead out of the listed directory. */
	else if (!*f.name || strchr(f.name, '/') || is_dots(f.name))
		rc = err_set(e, -EPROTO, "%s lists an invalid file name: \"%s\"", host,
			     printable(f.name));
	if (rc > 0 && !array_has_room(list->all, list->n, list->room))
		rc = err_sys(e, -ENOMEM, "listing from %s", host);
	if (rc <= 0) {
		ftp_facts_clear(&f);
		return rc;
	}
	list->all[list->n++] = f;
	return 0;
}

int listing_parse(struct listing_text *l, enum listing_form form, struct facts_list *list,
		  struct err *e)
{
	const int64_t now = (int64_t)time(NULL);
	int rc = 0;

	facts_clear(list);
	if (l->text && buf_len(l->text) && buf_ptr(l->text)[buf_len(l->text) - 1] != '\n')
		rc = listing_add(l, "\n", 1, e);

	while (rc == 0 && l->text && buf_len(l->text)) {
		char *line = (char *)(uintptr_t)buf_ptr(l->text);
		size_t len = (size_t)((char *)memchr(line, '\n', buf_len(l->text)) - line);

		buf_skip(l->text, len + 1);
		len -= len && line[len - 1] == '\r';
		line[len] = '\0';
		if (strlen(line) != len) /* the part after the NUL would be lost */
			return err_set(e, -EPROTO, "%s lists a name that contains a NUL: \"%s\"",
				       l->host, printable(line));
		if (len)
			rc = listing_line(l->host, line, form, now, list, e);
	}
	return rc;
}
