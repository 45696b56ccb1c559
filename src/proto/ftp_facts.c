// SPDX-License-Identifier: Apache-2.0
/* Lines of machine listings (RFC 3659 §7): facts and a name, and times (§2.3). */
#include "proto/ftp.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void ftp_facts_clear(struct ftp_facts *f)
{
	free(f->target);
	free(f->name);
	memset(f, 0, sizeof(*f));
}

/* ---- times ---- */

#define DAY 86400

/* Days from 1970-01-01 to the given day of the proleptic Gregorian calendar. */
static int64_t days_of(int64_t y, unsigned m, unsigned d)
{
	int64_t era, yoe, doy;

	y -= m <= 2;
	era = (y >= 0 ? y : y - 399) / 400;
	yoe = y - era * 400;
	doy = (153 * (m > 2 ? m - 3 : m + 9) + 2) / 5 + d - 1;
	return era * 146097 + yoe * 365 + yoe / 4 - yoe / 100 + doy - 719468;
}

static bool digits(const char *s, int n, unsigned *v)
{
	*v = 0;
	for (int i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		*v = *v * 10 + (unsigned)(s[i] - '0');
	}
	return true;
}

static unsigned days_in_month(unsigned y, unsigned m)
{
	static const unsigned char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (y % 4 == 0 && y % 100 != 0) || y % 400 == 0;

	return days[m - 1] + (m == 2 && leap);
}

/* ".123" to nanoseconds; digits beyond the ninth are dropped. */
static bool fraction(const char *s, uint32_t *ns)
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
	uint32_t frac;

	*sec = 0;
	*ns = 0;
	/* Each reads only what the one before has found to be there. */
	if (!digits(s, 4, &y) || !digits(s + 4, 2, &mon) || !digits(s + 6, 2, &d) ||
	    !digits(s + 8, 2, &h) || !digits(s + 10, 2, &min) || !digits(s + 12, 2, &sc) ||
	    !fraction(s + 14, &frac))
		return -EINVAL;
	/* 60 is a leap second (§2.3). */
	if (mon < 1 || mon > 12 || d < 1 || d > days_in_month(y, mon) || h > 23 || min > 59 ||
	    sc > 60)
		return -EINVAL;
	*sec = days_of(y, mon, d) * DAY + h * 3600 + min * 60 + sc;
	*ns = frac;
	return 0;
}

void ftp_time_format(char out[32], int64_t sec, uint32_t ns)
{
	int64_t first = days_of(0, 1, 1) * DAY;
	int64_t last = days_of(10000, 1, 1) * DAY - 1;
	struct tm tm;
	time_t t;
	int n;

	/* Four digits of year are all the format has. */
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

/* The whole of s as a number in the given base, 8 or 10; *v is 0 when it is none. */
static bool number(const char *s, unsigned base, uint64_t max, uint64_t *v)
{
	uint64_t n = 0;

	*v = 0;
	if (!*s)
		return false;
	for (; *s; s++) {
		unsigned digit = (unsigned char)*s - (unsigned)'0';

		if (digit >= base || n > (max - digit) / base)
			return false;
		n = n * base + digit;
	}
	*v = n;
	return true;
}

static int take_string(char **out, const char *s, bool encoded)
{
	free(*out);
	*out = NULL;
	if (encoded)
		return percent_decode(s, out) < 0 ? -EBADMSG : 0;
	*out = strdup(s);
	return *out ? 0 : -ENOMEM;
}

/* "OS.unix=slink:TARGET", as ProFTPD and others write it; some leave the target out. */
static int take_link(struct ftp_facts *f, const char *v, bool encoded)
{
	f->type = 'l';
	v = strchr(v, ':');
	return v && v[1] ? take_string(&f->target, v + 1, encoded) : 0;
}

static int take_type(struct ftp_facts *f, const char *v, bool encoded)
{
	static const struct { const char *name; char type; } types[] = {
		{ "file", 'f' }, { "dir", 'd' }, { "cdir", 'c' }, { "pdir", 'p' },
	};

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		if (!strcasecmp(v, types[i].name)) {
			f->type = types[i].type;
			return 0;
		}
	}
	if (!strncasecmp(v, "OS.unix=slink", 13) || !strncasecmp(v, "OS.unix=symlink", 15))
		return take_link(f, v, encoded);
	return 0;
}

/* FNV-1a. Whoever lists chooses what is alike, so that it need not be a strong one. */
static uint64_t digest_of(const char *s)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3;
	return h ? h : 1;
}

struct owner_seen {
	bool uid, gid;
};

/* A fact that we do not know, or whose value is nonsense, is as good as not given. */
static int take_fact(struct ftp_facts *f, struct owner_seen *seen, const char *name,
		     const char *v, bool encoded)
{
	uint64_t n;

	if (!strcasecmp(name, "type"))
		return take_type(f, v, encoded);
	if (!strcasecmp(name, "size")) {
		f->has_size = number(v, 10, INT64_MAX, &f->size);
	} else if (!strcasecmp(name, "modify")) {
		f->has_mtime = !ftp_time_parse(v, &f->mtime_s, &f->mtime_ns);
	} else if (!strcasecmp(name, "unique")) {
		f->unique = *v ? digest_of(v) : 0;
	} else if (!strcasecmp(name, "UNIX.mode")) {
		/* pyftpdlib writes it as Python does, "0o644". */
		v += strncmp(v, "0o", 2) ? 0 : 2;
		f->has_mode = number(v, 8, 0177777, &n);
		f->mode = f->has_mode ? (uint32_t)n & 07777 : 0;
	} else if (!strcasecmp(name, "UNIX.uid") || !strcasecmp(name, "UNIX.owner")) {
		seen->uid = number(v, 10, UINT32_MAX, &n);
		f->uid = seen->uid ? (uint32_t)n : 0;
	} else if (!strcasecmp(name, "UNIX.gid") || !strcasecmp(name, "UNIX.group")) {
		seen->gid = number(v, 10, UINT32_MAX, &n);
		f->gid = seen->gid ? (uint32_t)n : 0;
	}
	return 0;
}

/* "a=b;c=d;", cut in place. */
static int take_facts(struct ftp_facts *f, char *facts, bool encoded)
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
		err = take_fact(f, &seen, s, eq + 1, encoded);
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

/* MLST's line stands in a reply behind one more space, which an entry without facts has,
 * too: it is MLST's when facts follow. */
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
	err = take_facts(f, facts, encoded);
	if (!err)
		err = take_string(&f->name, space + 1, encoded);
	if (err < 0)
		ftp_facts_clear(f);
	return err;
}

/* ---- writing ---- */

/* Long enough for all facts but the link's target. */
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
	switch (type) {
	case 'f':
		return "file";
	case 'd':
		return "dir";
	case 'c':
		return "cdir";
	case 'p':
		return "pdir";
	case 'l':
		return "OS.unix=slink";
	default:
		return "OS.unix=other";
	}
}

/* A target that cannot stand among facts as it is gets left out: the reader can ask. */
static bool target_fits(const char *target, bool encoded)
{
	return encoded || !strpbrk(target, "; \r\n");
}

int ftp_facts_format(struct buf *out, const struct ftp_facts *f, bool encoded)
{
	bool link = f->type == 'l' && f->target && *f->target && target_fits(f->target, encoded);
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
