// SPDX-License-Identifier: Apache-2.0
/* Sizes, rates and durations to and from text. */
#include "util/units.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit size_units[] = {
	{ "", 1 },
	{ "K", 1ull << 10 }, { "KB", 1ull << 10 }, { "KiB", 1ull << 10 },
	{ "M", 1ull << 20 }, { "MB", 1ull << 20 }, { "MiB", 1ull << 20 },
	{ "G", 1ull << 30 }, { "GB", 1ull << 30 }, { "GiB", 1ull << 30 },
	{ "T", 1ull << 40 }, { "TB", 1ull << 40 }, { "TiB", 1ull << 40 },
	{ "P", 1ull << 50 }, { "PB", 1ull << 50 }, { "PiB", 1ull << 50 },
	{ NULL, 0 },
};

static const struct unit bit_units[] = {
	{ "bit", 1 },
	{ "Kbit", 1000 },
	{ "Mbit", 1000000 },
	{ "Gbit", 1000000000 },
	{ "Tbit", 1000000000000 },
	{ NULL, 0 },
};

static const struct unit time_units[] = {
	{ "", 1000000000 },
	{ "ms", 1000000 },
	{ "s", 1000000000 },
	{ "m", 60000000000 },
	{ "h", 3600000000000 },
	{ "d", 86400000000000 },
	{ NULL, 0 },
};

/* Parse the digits at *s and move *s past them. strtoull() accepts signs and spaces, and depends on
 * the locale. */
static int parse_digits(const char **s, uint64_t *v)
{
	const char *p = *s;
	uint64_t sum = 0;
	bool over = false;

	if (*p < '0' || *p > '9')
		return -EINVAL;
	for (; *p >= '0' && *p <= '9'; p++)
		over |= __builtin_mul_overflow(sum, 10u, &sum) ||
			__builtin_add_overflow(sum, (uint64_t)(*p - '0'), &sum);
	*s = p;
	*v = sum;
	return over ? -ERANGE : 0;
}

static int parse_with_unit(const char *s, const struct unit *unit, uint64_t *v)
{
	uint64_t number;
	int rc = parse_digits(&s, &number);

	while (unit->name && strcasecmp(unit->name, s) != 0)
		unit++;
	/* A malformed number is -EINVAL even when it is out of range, too. */
	if (rc == -EINVAL || !unit->name)
		return -EINVAL;
	if (rc || __builtin_mul_overflow(number, unit->factor, &number))
		return -ERANGE;
	*v = number;
	return 0;
}

int parse_size(const char *s, uint64_t *bytes)
{
	return parse_with_unit(s, size_units, bytes);
}

int parse_duration(const char *s, uint64_t *ns)
{
	return parse_with_unit(s, time_units, ns);
}

int parse_moment(const char *s, int64_t now, int64_t *sec)
{
	static const char *const formats[] = {
		"%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M",
		"%Y-%m-%dT%H:%M:%S",
	};
	uint64_t n;
	int rc;

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		struct tm t = { .tm_isdst = -1 }, real;
		const char *end = strptime(s, formats[i], &t);

		if (end && (!*end || !strcmp(end, "Z"))) {
			real = t;
			*sec = *end ? timegm(&real) : mktime(&real);
			/* A date such as 2026-02-30 has become another one. */
			return *sec == -1 || real.tm_mday != t.tm_mday ? -EINVAL : 0;
		}
	}

	/* "20260131" is no age. */
	if (*s && *s != '@' && strchr("0123456789", s[strlen(s) - 1]))
		return -EINVAL;
	if (*s == '@') {
		bool before = s[1] == '-'; /* 1970 */

		rc = parse_uint(s + 1 + before, 0, INT64_MAX, &n);
		if (rc == 0)
			*sec = before ? -(int64_t)n : (int64_t)n;
		return rc;
	}
	rc = parse_duration(s, &n);
	if (rc == 0)
		*sec = now - (int64_t)(n / 1000000000);
	return rc;
}

int parse_rate(const char *s, uint64_t *bytes_per_second)
{
	size_t len = strlen(s);
	char number[64];
	uint64_t bits;
	int rc;

	if (len > 2 && len < sizeof(number) && !strcmp(s + len - 2, "/s")) {
		snprintf(number, sizeof(number), "%.*s", (int)len - 2, s);
		s = number;
	}
	rc = parse_with_unit(s, bit_units, &bits);
	if (rc == -EINVAL)
		return parse_size(s, bytes_per_second);
	if (rc)
		return rc;
	/* Rounded up: "1bit" must not become 0, which may mean no limit. */
	*bytes_per_second = bits / 8 + (bits % 8 != 0);
	return 0;
}

/* The DSCP is the upper six bits of the byte. */
int parse_tos(const char *s, uint64_t *byte)
{
	size_t len = strlen(s);
	unsigned point;

	if (!strcmp(s, "ef"))
		point = 46;
	else if (!strcmp(s, "le"))
		point = 1;
	else if (len == 3 && !strncmp(s, "cs", 2) && s[2] >= '0' && s[2] <= '7')
		point = (unsigned)(s[2] - '0') << 3;
	else if (len == 4 && !strncmp(s, "af", 2) && s[2] >= '1' && s[2] <= '4' && s[3] >= '1' &&
		 s[3] <= '3')
		point = (unsigned)(s[2] - '0') << 3 | (unsigned)(s[3] - '0') << 1;
	else
		return parse_uint(s, 0, UINT8_MAX, byte);
	*byte = point << 2;
	return 0;
}

int parse_uint(const char *s, uint64_t lo, uint64_t hi, uint64_t *v)
{
	uint64_t number;
	int rc = parse_digits(&s, &number);

	if (rc == -EINVAL || *s)
		return -EINVAL;
	if (rc || number < lo || number > hi)
		return -ERANGE;
	*v = number;
	return 0;
}

int parse_bool(const char *s, bool *v)
{
	static const char *const words[] = { "off", "no", "false", "0", "on", "yes", "true", "1" };

	for (size_t i = 0; i < 8; i++) {
		if (strcasecmp(s, words[i]) == 0) {
			*v = i >= 4;
			return 0;
		}
	}
	return -EINVAL;
}

/* Three digits; a value that would round to 1024 gets the next unit. */
static char *format_scaled(char *out, size_t n, double v, const char *tail)
{
	static const char *const names[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	const size_t last = sizeof(names) / sizeof(names[0]) - 1;
	size_t i = 0;

	for (; v >= 1023.5 && i < last; i++)
		v /= 1024;
	snprintf(out, n, "%.*f %s%s", i && v < 99.95 ? 1 : 0, v, names[i], tail);
	return out;
}

const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

char *format_size(char *out, size_t n, uint64_t bytes)
{
	return format_scaled(out, n, (double)bytes, "");
}

char *format_rate(char *out, size_t n, double bytes_per_second)
{
	if (!isfinite(bytes_per_second) || bytes_per_second < 0)
		bytes_per_second = 0;
	return format_scaled(out, n, bytes_per_second, "/s");
}

char *format_seconds(char *out, size_t n, double seconds)
{
	unsigned long t;

	/* The time is not known yet (0 bytes/s), or too long to matter. */
	if (!(seconds >= 0 && seconds < 3600e3)) {
		snprintf(out, n, "-:--");
		return out;
	}
	t = (unsigned long)(seconds + 0.5);
	if (t < 3600)
		snprintf(out, n, "%lu:%02lu", t / 60, t % 60);
	else
		snprintf(out, n, "%lu:%02lu:%02lu", t / 3600, t / 60 % 60, t % 60);
	return out;
}

int parse_hex(const char *s, void *bytes, size_t n)
{
	uint8_t *out = bytes;

	if (strlen(s) != 2 * n || strspn(s, "0123456789abcdefABCDEF") != 2 * n)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		const char pair[] = { s[2 * i], s[2 * i + 1], '\0' };

		out[i] = (uint8_t)strtoul(pair, NULL, 16);
	}
	return 0;
}

bool list_has(const char *list, const char *word)
{
	const size_t len = strlen(word);

	for (const char *s = list; s && *s; s += strcspn(s, ", ")) {
		s += strspn(s, ", ");
		if (strcspn(s, ", ") == len && !memcmp(s, word, len))
			return true;
	}
	return false;
}
