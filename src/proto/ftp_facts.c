// SPDX-License-Identifier: Apache-2.0
/* Lines of machine listings (RFC 3659 §7): facts and a name, and times (§2.3). */
#include "proto/ftp.h"

#include <inttypes.h>
#include <strings.h>

void ftp_facts_clear(struct ftp_facts *f)
{
	free(f->target);
	free(f->name);
	memset(f, 0, sizeof(*f));
}

/* ---- times ---- */

/* ".123" to nanoseconds; digits beyond the ninth are dropped. */
static bool parse_fraction(const char *s, uint32_t *ns)
{
	uint32_t unit = 100000000;

	*ns = 0;
	if (!*s)
		return true;
	if (*s++ != '.' || !*s)
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		*ns += (uint32_t)(*s - '0') * unit;
		unit /= 10;
	}
	return !*s;
}

int ftp_time_parse(const char *s, int64_t *sec, uint32_t *ns)
{
	unsigned y, mon, d, h, min, sc;
	struct tm day = { 0 };
	uint32_t frac;
	time_t t;

	*sec = 0;
	*ns = 0;
	if (strspn(s, "0123456789") != 14 ||
	    sscanf(s, "%4u%2u%2u%2u%2u%2u", &y, &mon, &d, &h, &min, &sc) != 6 ||
	    !parse_fraction(s + 14, &frac))
		return -EINVAL;

	/* timegm() turns a day that does not exist into another one. 60 is a leap second (§2.3). */
	day.tm_year = (int)y - 1900;
	day.tm_mon = (int)mon - 1;
	day.tm_mday = (int)d;
	t = timegm(&day);
	if (day.tm_mon != (int)mon - 1 || day.tm_mday != (int)d || h > 23 || min > 59 || sc > 60)
		return -EINVAL;
	*sec = t + h * 3600 + min * 60 + sc;
	*ns = frac;
	return 0;
}

void ftp_time_format(char out[32], int64_t sec, uint32_t ns)
{
	const int64_t first = -62167219200, last = 253402300799; /* of the years 0 and 9999 */
	struct tm tm;
	time_t t;
	int n;

	/* The format has only four digits for the year. */
	t = (time_t)(sec < first ? first : sec > last ? last : sec);
	gmtime_r(&t, &tm);
	n = snprintf(out, 32, "%04u%02u%02u%02u%02u%02u", (unsigned)(tm.tm_year + 1900) % 10000,
		     (unsigned)(tm.tm_mon + 1) % 100, (unsigned)tm.tm_mday % 100,
		     (unsigned)tm.tm_hour % 100, (unsigned)tm.tm_min % 100,
		     (unsigned)tm.tm_sec % 100);
	if (!ns || ns > 999999999)
		return;
	n += snprintf(out + n, 32 - (size_t)n, ".%09" PRIu32, ns);
	while (out[n - 1] == '0')
		out[--n] = '\0';
}

/* ---- reading ---- */

static int copy_string(char **out, const char *s, bool encoded)
{
	free(*out);
	*out = NULL;
	if (encoded)
		return percent_decode(s, out) < 0 ? -EBADMSG : 0;
	*out = strdup(s);
	return *out ? 0 : -ENOMEM;
}

static const struct { char type; const char *name; } fact_types[] = {
	{ 'f', "file" }, { 'd', "dir" }, { 'c', "cdir" }, { 'p', "pdir" },
};

enum { FACT_TYPES = sizeof(fact_types) / sizeof(fact_types[0]) };

static int parse_type(struct ftp_facts *f, const char *v, bool encoded)
{
	for (size_t i = 0; i < FACT_TYPES; i++) {
		if (!strcasecmp(v, fact_types[i].name)) {
			f->type = fact_types[i].type;
			return 0;
		}
	}
	/* "OS.unix=slink:TARGET", as ProFTPD and others write it; some omit the target. */
	if (strncasecmp(v, "OS.unix=slink", 13) && strncasecmp(v, "OS.unix=symlink", 15))
		return 0;
	f->type = 'l';
	v = strchr(v, ':');
	return v && v[1] ? copy_string(&f->target, v + 1, encoded) : 0;
}

/* FNV-1a. A weak digest suffices: a server could give any files the same fact anyway. */
static uint64_t fnv1a(const char *s)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	return h ? h : 1;
}

struct owner_seen {
	bool uid, gid;
};

/* An unknown fact, or one with an invalid value, counts as absent. */
static int parse_fact(struct ftp_facts *f, struct owner_seen *seen, const char *name,
		     const char *v, bool encoded)
{
	uint64_t n;

	if (!strcasecmp(name, "type"))
		return parse_type(f, v, encoded);
	if (!strcasecmp(name, "size")) {
		f->has_size = !parse_uint(v, 0, INT64_MAX, &n);
		f->size = f->has_size ? n : 0;
	} else if (!strcasecmp(name, "modify")) {
		f->has_mtime = !ftp_time_parse(v, &f->mtime_s, &f->mtime_ns);
	} else if (!strcasecmp(name, "unique")) {
		f->unique = *v ? fnv1a(v) : 0;
	} else if (!strcasecmp(name, "UNIX.mode")) {
		/* pyftpdlib writes it as Python does, "0o644". */
		v += strncmp(v, "0o", 2) ? 0 : 2;
		n = strtoul(v, NULL, 8);
		f->has_mode = *v && !v[strspn(v, "01234567")] && n <= 0177777;
		f->mode = f->has_mode ? (uint32_t)n & 07777 : 0;
	} else if (!strcasecmp(name, "UNIX.uid") || !strcasecmp(name, "UNIX.owner")) {
		seen->uid = !parse_uint(v, 0, UINT32_MAX, &n);
		f->uid = seen->uid ? (uint32_t)n : 0;
	} else if (!strcasecmp(name, "UNIX.gid") || !strcasecmp(name, "UNIX.group")) {
		seen->gid = !parse_uint(v, 0, UINT32_MAX, &n);
		f->gid = seen->gid ? (uint32_t)n : 0;
	}
	return 0;
}

/* "a=b;c=d;", cut in place. */
static int parse_facts(struct ftp_facts *f, char *facts, bool encoded)
{
	struct owner_seen seen = { false, false };
	char *next;

	for (char *s = facts; *s; s = next) {
		char *end = strchrnul(s, ';');
		char *eq;
		int err;

		next = *end ? end + 1 : end;
		*end = '\0';
		eq = strchr(s, '=');
		if (!eq)
			continue;
		*eq = '\0';
		err = parse_fact(f, &seen, s, eq + 1, encoded);
		if (err < 0)
			return err;
	}

	f->has_owner = seen.uid && seen.gid;
	if (!f->has_owner) {
		f->uid = 0;
		f->gid = 0;
	}
	return 0;
}

/* In a reply to MLST one more space precedes the line. The line of an entry without facts also
 * begins with a space, so the space is removed only if facts follow. */
static const char *without_indent(const char *line)
{
	const char *space;

	if (*line != ' ')
		return line;
	space = strchr(line + 1, ' ');
	if (space && space[-1] == ';' && memchr(line, '=', (size_t)(space - line)))
		return line + 1;
	return line;
}

int ftp_facts_parse(const char *line, bool encoded, struct ftp_facts *f)
{
	char *facts CLEANUP_FREE = NULL;
	const char *space;
	int err;

	memset(f, 0, sizeof(*f));
	line = without_indent(line);
	space = strchr(line, ' ');
	if (!space || !space[1])
		return -EBADMSG;
	facts = strndup(line, (size_t)(space - line));
	if (!facts)
		return -ENOMEM;
	f->type = 'o';
	err = parse_facts(f, facts, encoded);
	if (!err)
		err = copy_string(&f->name, space + 1, encoded);
	if (err < 0)
		ftp_facts_clear(f);
	return err;
}

int ftp_facts_of_reply(struct ftp_reply *r, bool encoded, struct ftp_facts *f)
{
	char *line = r->text ? strchr(r->text, '\n') : NULL;
	char *end = line ? strchr(line + 1, '\n') : NULL;

	memset(f, 0, sizeof(*f));
	if (!end)
		return -EBADMSG;
	*end = '\0';
	return ftp_facts_parse(line + 1, encoded, f);
}

/* ---- writing ---- */

/* Room for all facts except type, which can contain a link's target. */
#define FACTS_TEXT 256

static void print_facts(char out[FACTS_TEXT], const struct ftp_facts *f)
{
	char time[32];
	size_t n = 0;

	out[0] = '\0';
	if (f->has_size)
		n += (size_t)snprintf(out + n, FACTS_TEXT - n, "size=%" PRIu64 ";", f->size);
	if (f->has_mtime) {
		ftp_time_format(time, f->mtime_s, f->mtime_ns);
		n += (size_t)snprintf(out + n, FACTS_TEXT - n, "modify=%s;", time);
	}
	if (f->has_mode)
		n += (size_t)snprintf(out + n, FACTS_TEXT - n, "UNIX.mode=0%" PRIo32 ";",
				      f->mode & 07777);
	if (f->has_owner)
		snprintf(out + n, FACTS_TEXT - n, "UNIX.owner=%" PRIu32 ";UNIX.group=%" PRIu32
			 ";", f->uid, f->gid);
}

static const char *type_word(char type)
{
	for (size_t i = 0; i < FACT_TYPES; i++)
		if (fact_types[i].type == type)
			return fact_types[i].name;
	return type == 'l' ? "OS.unix=slink" : "OS.unix=other";
}

int ftp_facts_format(struct buf *out, const struct ftp_facts *f, bool encoded)
{
	/* A target that cannot be written unencoded among the facts is left out; the client can ask
	 * for it. */
	bool link = f->type == 'l' && f->target && *f->target &&
		    (encoded || !strpbrk(f->target, "; \r\n"));
	char *name CLEANUP_FREE = NULL;
	char *target CLEANUP_FREE = NULL;
	char *line CLEANUP_FREE = NULL;
	char facts[FACTS_TEXT];
	int len;

	if (!f->name || !*f->name)
		return -EINVAL;
	if (!encoded && strpbrk(f->name, "\r\n"))
		return -EILSEQ;
	print_facts(facts, f);
	name = encoded ? percent_encode(f->name) : strdup(f->name);
	if (link)
		target = encoded ? percent_encode(f->target) : strdup(f->target);
	if (!name || (link && !target))
		return -ENOMEM;
	len = asprintf(&line, "type=%s%s%s;%s %s", type_word(f->type), link ? ":" : "",
		       link ? target : "", facts, name);
	if (len < 0) {
		line = NULL;
		return -ENOMEM;
	}
	return buf_put(out, line, (size_t)len);
}
