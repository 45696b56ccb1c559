// SPDX-License-Identifier: Apache-2.0
/* Options, patterns and lines of LIST and NLST. */
#include "control/ls.h"

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
	HALF_YEAR_S = 365 * 24 * 60 * 60 / 2,
	AHEAD_S = 60 * 60, /* of clocks that differ */
};

/* ---- options ---- */

/* Bytes of the word of options that arg begins with; 0: there is none. */
static size_t option_word(const char *arg)
{
	size_t n = 1;

	if (arg[0] != '-')
		return 0;
	while (isalnum((unsigned char)arg[n]))
		n++;
	return n > 1 && (arg[n] == ' ' || !arg[n]) ? n : 0;
}

static void take_letter(struct ls_options *o, char c)
{
	switch (c) {
	case 'a':
		o->all = true;
		break;
	case 'd':
		o->itself = true;
		break;
	case 'R':
		o->recursive = true;
		break;
	case '1':
		o->names = true;
		break;
	case 'l':
		o->names = false;
		break;
	default: /* orders and columns: what lists are parsed by does not care */
		break;
	}
}

char *ls_options_take(char *arg, struct ls_options *o)
{
	size_t n;

	while ((n = option_word(arg))) {
		for (size_t i = 1; i < n; i++)
			take_letter(o, arg[i]);
		arg += n + (arg[n] == ' ');
	}
	/* The end of the options, for names that look like them. */
	if (!strncmp(arg, "--", 2) && (arg[2] == ' ' || !arg[2]))
		arg += 2 + (arg[2] == ' ');
	return arg;
}

/* ---- patterns ---- */

bool ls_is_pattern(const char *text)
{
	return strpbrk(text, "*?[");
}

/* p is behind a "[". Where the class ends, with *in: is c one of it? NULL: it has no end, and is
 * no class. */
static const char *match_class(const char *p, unsigned char c, bool *in)
{
	bool not = *p == '!' || *p == '^';
	const char *first = p += not;

	*in = false;
	for (; *p && (*p != ']' || p == first); p++) {
		unsigned char lo = (unsigned char)*p, hi = lo;

		if (p[1] == '-' && p[2] && p[2] != ']') {
			hi = (unsigned char)p[2];
			p += 2;
		}
		*in |= c >= lo && c <= hi;
	}
	*in ^= not;
	return *p ? p + 1 : NULL;
}

/* Does the pattern's first part, which is no "*", match c? Then what is behind it, else NULL. */
static const char *match_one(const char *p, char c)
{
	const char *end;
	bool in;

	if (!*p)
		return NULL;
	if (*p == '?')
		return p + 1;
	if (*p == '[' && (end = match_class(p + 1, (unsigned char)c, &in)))
		return in ? end : NULL;
	if (*p == '\\' && p[1])
		p++;
	return *p == c ? p + 1 : NULL;
}

bool ls_match(const char *pattern, const char *name)
{
	const char *p = pattern, *star = NULL, *retry = NULL;

	if (*name == '.' && *p != '.' && !(p[0] == '\\' && p[1] == '.'))
		return false;
	while (*name) {
		const char *next = *p == '*' ? NULL : match_one(p, *name);

		if (*p == '*') {
			star = ++p;
			retry = name;
		} else if (next) {
			p = next;
			name++;
		} else if (star) {
			/* Only the last star needs to be tried again: it takes what one
			 * before it could. */
			p = star;
			name = ++retry;
		} else {
			return false;
		}
	}
	return !p[strspn(p, "*")];
}

/* ---- lines ---- */

static char type_char(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return 'd';
	case S_IFLNK:
		return 'l';
	case S_IFIFO:
		return 'p';
	case S_IFSOCK:
		return 's';
	case S_IFBLK:
		return 'b';
	case S_IFCHR:
		return 'c';
	default:
		return '-';
	}
}

static void mode_text(char out[11], mode_t mode)
{
	static const char letters[] = "rwxrwxrwx";

	out[0] = type_char(mode);
	for (unsigned i = 0; i < 9; i++)
		out[1 + i] = mode & (0400u >> i) ? letters[i] : '-';
	if (mode & S_ISUID)
		out[3] = mode & S_IXUSR ? 's' : 'S';
	if (mode & S_ISGID)
		out[6] = mode & S_IXGRP ? 's' : 'S';
	if (mode & S_ISVTX)
		out[9] = mode & S_IXOTH ? 't' : 'T';
	out[10] = '\0';
}

static void time_text(char out[16], time_t t, int64_t now)
{
	static const char *const months[] = { "Jan", "Feb", "Mar", "Apr", "May", "Jun",
					      "Jul", "Aug", "Sep", "Oct", "Nov", "Dec" };
	bool recent = t > now - HALF_YEAR_S && t < now + AHEAD_S;
	struct tm tm = { 0 };

	gmtime_r(&t, &tm);
	if (recent)
		snprintf(out, 16, "%s %2u %02u:%02u", months[tm.tm_mon % 12],
			 (unsigned)tm.tm_mday % 100, (unsigned)tm.tm_hour % 100,
			 (unsigned)tm.tm_min % 100);
	else
		snprintf(out, 16, "%s %2u  %04u", months[tm.tm_mon % 12],
			 (unsigned)tm.tm_mday % 100, (unsigned)(tm.tm_year + 1900) % 10000);
}

void ls_line(char out[LS_LINE], const struct stat *st, int64_t now)
{
	char mode[11], when[16];

	mode_text(mode, st->st_mode);
	time_text(when, st->st_mtim.tv_sec, now);
	snprintf(out, LS_LINE, "%s %4ju %-8u %-8u %12jd %s ", mode, (uintmax_t)st->st_nlink,
		 st->st_uid, st->st_gid, (intmax_t)st->st_size, when);
}
