// SPDX-License-Identifier: Apache-2.0
/* Takes lines of LIST apart. Each style has a function that either knows the line or leaves it to
 * the next. */
#include "proto/ftp_list.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Words of a line that are looked at: owners and groups may have blanks in them. */
#define WORDS_MAX 16
#define DAY 86400

struct word {
	const char *at;
	size_t len;
};

/* ---- words ---- */

/* The first words of line, at most WORDS_MAX. */
static size_t split(const char *line, struct word w[WORDS_MAX])
{
	size_t n = 0;

	for (line += strspn(line, " "); *line && n < WORDS_MAX; line += strspn(line, " ")) {
		w[n].at = line;
		w[n].len = strcspn(line, " ");
		line += w[n++].len;
	}
	return n;
}

/* A word that is nothing but digits, to at most max. */
static bool is_number(const struct word *w, uint64_t max, uint64_t *v)
{
	uint64_t n = 0;

	if (!w->len || w->len > 20)
		return false;
	for (size_t i = 0; i < w->len; i++) {
		unsigned digit = (unsigned char)w->at[i] - (unsigned)'0';

		if (digit > 9 || n > (max - digit) / 10)
			return false;
		n = n * 10 + digit;
	}
	*v = n;
	return true;
}

static bool two_digits(const char *s, unsigned *v)
{
	if (s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9')
		return false;
	*v = (unsigned)(s[0] - '0') * 10 + (unsigned)(s[1] - '0');
	return true;
}

/* ---- times ---- */

struct when {
	unsigned year, month, day, hour, minute;
};

static int64_t seconds_of(const struct when *t)
{
	char text[32];
	int64_t sec;
	uint32_t ns;

	snprintf(text, sizeof(text), "%04u%02u%02u%02u%02u00", t->year % 10000, t->month % 100,
		 t->day % 100, t->hour % 100, t->minute % 100);
	return ftp_time_parse(text, &sec, &ns) ? INT64_MIN : sec;
}

static bool set_time(struct ftp_facts *f, const struct when *t)
{
	int64_t sec = seconds_of(t);

	if (sec == INT64_MIN)
		return false;
	f->has_mtime = f->time_about = true;
	f->mtime_s = sec;
	return true;
}

static unsigned year_of(int64_t now)
{
	char text[32];

	ftp_time_format(text, now, 0);
	return (unsigned)((text[0] - '0') * 1000 + (text[1] - '0') * 100 + (text[2] - '0') * 10 +
			  (text[3] - '0'));
}

/* Without a year it was lately: this year, or the last. The clock there may be a day ahead. */
static bool set_recent(struct ftp_facts *f, struct when *t, int64_t now)
{
	t->year = year_of(now);
	if (set_time(f, t) && f->mtime_s <= now + DAY)
		return true;
	t->year--;
	return set_time(f, t);
}

static unsigned month_of(const struct word *w)
{
	static const char names[] = "janfebmaraprmayjunjulaugsepoctnovdec";

	if (w->len < 3 || w->len > 4)
		return 0;
	for (unsigned i = 0; i < 12; i++)
		if (!strncasecmp(w->at, names + 3 * i, 3))
			return i + 1;
	return 0;
}

/* "hh:mm"; seconds may follow. */
static bool clock_of(const struct word *w, struct when *t)
{
	size_t colon = w->len && w->at[1] == ':' ? 1 : 2;

	if (w->len < colon + 3 || w->at[colon] != ':' || !two_digits(w->at + colon + 1, &t->minute))
		return false;
	if (colon == 2)
		return two_digits(w->at, &t->hour);
	t->hour = (unsigned)(w->at[0] - '0');
	return t->hour <= 9;
}

/* ---- ls -l ---- */

static uint32_t bit_of(char c, char plain, uint32_t bit)
{
	return c == plain ? bit : 0;
}

/* "rwsr-xr-T" */
static bool mode_of(const char *s, uint32_t *mode)
{
	static const uint32_t special[] = { 04000, 02000, 01000 };

	*mode = 0;
	for (int i = 0; i < 3; i++, s += 3) {
		unsigned shift = 6 - 3 * (unsigned)i;

		if (!strchr("-r", s[0]) || !strchr("-w", s[1]) || !strchr("-xsStTlL", s[2]) ||
		    !s[0] || !s[1] || !s[2])
			return false;
		*mode |= bit_of(s[0], 'r', 4u << shift) | bit_of(s[1], 'w', 2u << shift);
		if (strchr("xst", s[2]))
			*mode |= 1u << shift;
		if (strchr("sStT", s[2]))
			*mode |= special[i];
	}
	return true;
}

static char type_of(char c)
{
	return c == '-' || c == 'f' ? 'f' : c == 'd' ? 'd' : c == 'l' ? 'l' : 'o';
}

/* "Jan 2 2024", "Jan 2 10:00", "2 Jan 10:00" or "2024-01-02 10:00" from word i on: how many
 * words it has; 0: it is none. */
static size_t unix_time(const struct word *w, size_t n, size_t i, struct ftp_facts *f, int64_t now)
{
	struct when t = { 0 };
	uint64_t day, year;
	size_t m = month_of(&w[i]) ? i : i + 1;

	if (i + 1 < n && w[i].len == 10 && w[i].at[4] == '-' && w[i].at[7] == '-' &&
	    is_number(&(struct word){ w[i].at, 4 }, 9999, &year) &&
	    two_digits(w[i].at + 5, &t.month) && two_digits(w[i].at + 8, &t.day) &&
	    clock_of(&w[i + 1], &t)) {
		t.year = (unsigned)year;
		return set_time(f, &t) ? 2 : 0;
	}
	if (i + 2 >= n || !(t.month = month_of(&w[m])) ||
	    !is_number(&w[m == i ? i + 1 : i], 31, &day))
		return 0;
	t.day = (unsigned)day;
	if (w[i + 2].len == 4 && is_number(&w[i + 2], 9999, &year)) {
		t.year = (unsigned)year;
		return set_time(f, &t) ? 3 : 0;
	}
	return clock_of(&w[i + 2], &t) && set_recent(f, &t, now) ? 3 : 0;
}

static int take_name(char **out, const char *name, size_t len)
{
	*out = strndup(name, len);
	return *out ? 1 : -ENOMEM;
}

/* "NAME -> TARGET". Either may have the arrow in it; the size of a link is its target's length. */
static int take_link(struct ftp_facts *f, const char *text)
{
	const char *arrow = strstr(text, " -> ");

	for (const char *at = arrow; at; at = strstr(at + 1, " -> "))
		if (f->has_size && strlen(at + 4) == f->size)
			arrow = at;
	/* Of a link nothing but its target has a size that is of use. */
	f->has_size = false;
	f->size = 0;
	if (!arrow || arrow == text)
		return take_name(&f->name, text, strlen(text));
	f->target = strdup(arrow + 4);
	return f->target ? take_name(&f->name, text, (size_t)(arrow - text)) : -ENOMEM;
}

static bool is_dots(const char *name)
{
	return !strcmp(name, ".") || !strcmp(name, "..");
}

/* The name behind word w and one blank: names may begin with blanks. */
static int name_behind(struct ftp_facts *f, const struct word *w)
{
	const char *name = w->at + w->len;
	int rc;

	if (*name != ' ' || !name[1])
		return -EBADMSG;
	name++;
	if (is_dots(name))
		return 0;
	rc = f->type == 'l' ? take_link(f, name) : take_name(&f->name, name, strlen(name));
	return rc > 0 && !*f->name ? -EBADMSG : rc;
}

static void take_owner(struct ftp_facts *f, const struct word *w, size_t links, size_t size)
{
	uint64_t uid, gid;

	/* Links, owner, group, size; names are of no use here. */
	if (size != links + 3 || !is_number(&w[links + 1], UINT32_MAX, &uid) ||
	    !is_number(&w[links + 2], UINT32_MAX, &gid))
		return;
	f->has_owner = true;
	f->uid = (uint32_t)uid;
	f->gid = (uint32_t)gid;
}

/* From the words behind the mode on. The first that can be a date behind a number is the date. */
static int unix_rest(struct ftp_facts *f, const struct word *w, size_t n, size_t first, int64_t now)
{
	for (size_t i = first + 1; i < n; i++) {
		uint64_t size;
		size_t len;

		if (!is_number(&w[i - 1], INT64_MAX, &size))
			continue;
		len = unix_time(w, n, i, f, now);
		if (!len)
			continue;
		f->has_size = f->type == 'f' || f->type == 'l';
		f->size = f->has_size ? size : 0;
		take_owner(f, w, first, i - 1);
		return name_behind(f, &w[i + len - 1]);
	}
	return -EBADMSG;
}

static int parse_unix(const char *line, int64_t now, struct ftp_facts *f)
{
	struct word w[WORDS_MAX];
	size_t n = split(line, w);

	if (n < 5 || w[0].at != line || !strchr("-dlbcpsDfn", *line) || w[0].len < 10 ||
	    w[0].len > 11 || !mode_of(line + 1, &f->mode))
		return -EBADMSG;
	f->type = type_of(*line);
	f->has_mode = true;
	return unix_rest(f, w, n, 1, now);
}

/* "d [RWCEAFMS] owner 512 Jan 16 18:53 name" */
static int parse_netware(const char *line, int64_t now, struct ftp_facts *f)
{
	struct word w[WORDS_MAX];
	size_t n = split(line, w);

	int rc;

	if (n < 6 || w[0].at != line || w[0].len != 1 || !strchr("-d", *line) || *w[1].at != '[')
		return -EBADMSG;
	f->type = type_of(*line);
	rc = unix_rest(f, w, n, 2, now);
	/* Names stand in a column of their own. */
	if (rc > 0 && !f->name[strspn(f->name, " ")])
		return -EBADMSG;
	if (rc > 0)
		memmove(f->name, f->name + strspn(f->name, " "),
			strlen(f->name + strspn(f->name, " ")) + 1);
	return rc;
}

/* ---- DOS ---- */

/* "01-29-97", "01-29-1997" or "1997-01-29", with "/" or "-" */
static bool dos_date(const struct word *w, struct when *t)
{
	uint64_t year;

	if (w->len == 10 && strchr("-/", w->at[4]))
		return is_number(&(struct word){ w->at, 4 }, 9999, &year) &&
		       two_digits(w->at + 5, &t->month) && two_digits(w->at + 8, &t->day) &&
		       (t->year = (unsigned)year, true);
	if ((w->len != 8 && w->len != 10) || !strchr("-/", w->at[2]) || w->at[5] != w->at[2] ||
	    !two_digits(w->at, &t->month) || !two_digits(w->at + 3, &t->day) ||
	    !is_number(&(struct word){ w->at + 6, w->len - 6 }, 9999, &year))
		return false;
	t->year = (unsigned)(w->len == 10 ? year : year < 70 ? 2000 + year : 1900 + year);
	return true;
}

/* "09:09PM" or "21:09" */
static bool dos_clock(const struct word *w, struct when *t)
{
	const char *half = w->at + w->len - 2;

	if (!clock_of(w, t))
		return false;
	if (w->len < 6 || !strchr("AaPp", half[0]))
		return true;
	if (t->hour < 1 || t->hour > 12)
		return false;
	t->hour = t->hour % 12 + (strchr("Pp", half[0]) ? 12 : 0);
	return true;
}

/* "<SYMLINKD>     name [target]" */
static int dos_link(struct ftp_facts *f, const char *name)
{
	const char *target = strstr(name, " [");
	size_t len = strlen(name);

	f->type = 'l';
	if (!target || name[len - 1] != ']')
		return take_name(&f->name, name, len);
	f->target = strndup(target + 2, (size_t)(name + len - 1 - target - 2));
	return f->target ? take_name(&f->name, name, (size_t)(target - name)) : -ENOMEM;
}

static int parse_dos(const char *line, int64_t now, struct ftp_facts *f)
{
	struct word w[WORDS_MAX];
	size_t n = split(line, w);
	struct when t = { 0 };
	const char *name;

	(void)now;
	if (n < 4 || w[0].at != line || !dos_date(&w[0], &t) || !dos_clock(&w[1], &t) ||
	    !set_time(f, &t))
		return -EBADMSG;
	/* A directory's name is in the next column but nine; a file's behind one blank. */
	name = w[3].at;
	if (w[2].len > 1 && w[2].at[0] == '<' && !strncmp(w[2].at, "<SYMLINK", 8))
		return dos_link(f, name);
	if (w[2].at[0] == '<') {
		f->type = strncmp(w[2].at, "<DIR>", 5) ? 'o' : 'd';
		return is_dots(name) ? 0 : take_name(&f->name, name, strlen(name));
	}
	f->type = 'f';
	f->has_size = is_number(&w[2], INT64_MAX, &f->size);
	return f->has_size ? name_behind(f, &w[2]) : -EBADMSG;
}

/* ---- EPLF ---- */

/* "+i8388621.29609,m824255902,/,<TAB>name" */
static int parse_eplf(const char *line, int64_t now, struct ftp_facts *f)
{
	const char *tab = strchr(line, '\t');
	size_t len;

	(void)now;
	if (*line != '+' || !tab || !tab[1])
		return -EBADMSG;
	f->type = 'o';
	for (const char *at = line + 1; at < tab; at += len + 1) {
		struct word rest = { at + 1, 0 };
		uint64_t n;

		len = strcspn(at, ",\t");
		rest.len = len ? len - 1 : 0;
		if (*at == '/' || *at == 'r')
			f->type = *at == '/' ? 'd' : 'f';
		else if (*at == 's')
			f->has_size = is_number(&rest, INT64_MAX, &f->size);
		else if (*at == 'm' && is_number(&rest, INT64_MAX / 2, &n)) {
			f->has_mtime = true;
			f->mtime_s = (int64_t)n;
		}
	}
	return is_dots(tab + 1) ? 0 : take_name(&f->name, tab + 1, strlen(tab + 1));
}

/* ---- any ---- */

/* ls counts blocks first. */
static bool is_total(const char *line)
{
	return !strncasecmp(line, "total ", 6) && strspn(line + 6, "0123456789") &&
	       !line[6 + strspn(line + 6, "0123456789")];
}

int ftp_list_parse(const char *line, int64_t now, struct ftp_facts *f)
{
	static int (*const styles[])(const char *line, int64_t now, struct ftp_facts *f) = {
		parse_unix, parse_dos, parse_netware, parse_eplf,
	};
	int rc = -EBADMSG;

	memset(f, 0, sizeof(*f));
	if (!line[strspn(line, " ")] || is_total(line))
		return 0;
	for (size_t i = 0; rc == -EBADMSG && i < sizeof(styles) / sizeof(styles[0]); i++) {
		ftp_facts_clear(f);
		rc = styles[i](line, now, f);
	}
	if (rc <= 0)
		ftp_facts_clear(f);
	return rc;
}

int ftp_pasv_parse(const char *text, uint16_t *port)
{
	unsigned v[6];
	int end;

	/* Brackets are customary, not demanded (RFC 1123 §4.1.2.6). */
	for (; *text; text++) {
		end = 0;
		if (*text < '0' || *text > '9' ||
		    sscanf(text, "%3u,%3u,%3u,%3u,%3u,%3u%n", &v[0], &v[1], &v[2], &v[3], &v[4],
			   &v[5], &end) != 6 || !end)
			continue;
		if (v[4] > 255 || v[5] > 255 || !(v[4] | v[5]))
			return -EBADMSG;
		*port = (uint16_t)(v[4] << 8 | v[5]);
		return 0;
	}
	return -EBADMSG;
}
