// SPDX-License-Identifier: Apache-2.0
/* The kinds of options that any program might have. */
#include "server/option_type.h"
#include "server/networks.h"
#include "server/options.h"
#include "transport/transport.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef void put_fn(void *arg, const char *value);

/* ---- yes or no, and words ---- */

static int set_flag(void *at, const struct option_def *d, const char *value, struct err *e)
{
	*(bool *)at = true;
	if (value && parse_bool(value, at) < 0)
		return err_set(e, -EINVAL, "\"%s\" is neither yes nor no", printable(value));
	return 0;
}

static void show_flag(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	put(arg, *(const bool *)at ? "yes" : "no");
}

const struct option_type type_flag = { set_flag, show_flag, NULL };

static int set_word(void *at, const struct option_def *d, const char *value, struct err *e)
{
	char all[128] = "";
	size_t n = 0;

	for (unsigned i = 0; d->words[i]; i++) {
		if (!strcmp(d->words[i], value)) {
			*(unsigned *)at = i;
			return 0;
		}
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s", i ? ", " : "", d->words[i]);
	}
	return err_set(e, -EINVAL, "\"%s\" is none of %s", printable(value), all);
}

static void show_word(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	put(arg, d->words[*(const unsigned *)at]);
}

const struct option_type type_word = { set_word, show_word, NULL };

/* ---- strings ---- */

static void clear_string(void *at)
{
	free(*(char **)at);
	*(char **)at = NULL;
}

static int set_string(void *at, const struct option_def *d, const char *value, struct err *e)
{
	char *copy = strdup(value);

	if (!copy)
		return err_sys(e, -ENOMEM, "options");
	clear_string(at);
	*(char **)at = copy;
	return 0;
}

static void show_string(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	const char *s = *(char *const *)at;

	put(arg, s ? s : "");
}

const struct option_type type_string = { set_string, show_string, clear_string };

static int set_path(void *at, const struct option_def *d, const char *value, struct err *e)
{
	if (*value != '/')
		return err_set(e, -EINVAL, "\"%s\" does not begin with a slash", printable(value));
	return set_string(at, d, value, e);
}

const struct option_type type_path = { set_path, show_string, clear_string };

static int set_address(void *at, const struct option_def *d, const char *value, struct err *e)
{
	struct sockaddr_storage ss;

	if (!address_parse(value, &ss))
		return err_set(e, -EINVAL, "\"%s\" is not a numeric address", printable(value));
	return set_string(at, d, value, e);
}

const struct option_type type_address = { set_address, show_string, clear_string };

/* ---- numbers ---- */

static int set_number(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t n = 0;

	if (d->zero && !strcmp(value, d->zero))
		*(unsigned *)at = 0;
	else if (parse_uint(value, d->low, d->high, &n) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a number from %" PRIu64 " to %" PRIu64
			       "%s%s", printable(value), d->low, d->high, d->zero ? ", nor " : "",
			       d->zero ? d->zero : "");
	else
		*(unsigned *)at = (unsigned)n;
	return 0;
}

static void show_number(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	unsigned n = *(const unsigned *)at;
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	put(arg, !n && d->zero ? d->zero : text);
}

const struct option_type type_number = { set_number, show_number, NULL };

static int set_octal(void *at, const struct option_def *d, const char *value, struct err *e)
{
	if (!*value || strspn(value, "01234567") != strlen(value) || strlen(value) > 5 ||
	    strtoul(value, NULL, 8) > d->high)
		return err_set(e, -EINVAL, "\"%s\" is not an octal number up to %03" PRIo64,
			       printable(value), d->high);
	*(unsigned *)at = (unsigned)strtoul(value, NULL, 8);
	return 0;
}

static void show_octal(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	char text[16];

	snprintf(text, sizeof(text), "%03o", *(const unsigned *)at);
	put(arg, text);
}

const struct option_type type_octal = { set_octal, show_octal, NULL };

/* The biggest unit that needs no fraction. */
static void show_in(uint64_t n, const uint64_t *units, const char *const *names, int count,
		    put_fn *put, void *arg)
{
	char text[32];

	for (int i = 0; i < count; i++) {
		if (i < count - 1 && (n < units[i] || n % units[i]))
			continue;
		snprintf(text, sizeof(text), "%" PRIu64 "%s", n / units[i], names[i]);
		put(arg, text);
		return;
	}
}

static int set_size(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t n = 0;

	if (d->zero && !strcmp(value, d->zero)) {
		*(uint64_t *)at = 0;
		return 0;
	}
	if (parse_size(value, &n) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a size, as in 512M", printable(value));
	if (n < d->low)
		return err_set(e, -EINVAL, "%s is too little, the least is %" PRIu64 "M",
			       printable(value), d->low >> 20);
	*(uint64_t *)at = n;
	return 0;
}

static void show_size(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	static const uint64_t units[] = { 1ull << 40, 1 << 30, 1 << 20, 1 << 10, 1 };
	static const char *const names[] = { "T", "G", "M", "K", "" };
	uint64_t n = *(const uint64_t *)at;

	if (!n && d->zero)
		put(arg, d->zero);
	else
		show_in(n, units, names, 5, put, arg);
}

const struct option_type type_size = { set_size, show_size, NULL };

#define MS 1000000ull
#define DAY (24 * 3600000 * MS)

static int set_time(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t ns = 0;

	if (d->zero && !strcmp(value, d->zero)) {
		*(uint64_t *)at = 0;
		return 0;
	}
	if (parse_duration(value, &ns) < 0 || ns < d->low || ns > d->high)
		return err_set(e, -EINVAL, "\"%s\" is not a time from %s to %s, as in %s%s%s",
			       printable(value), d->low < 1000 * MS ? "100ms" : "1s",
			       d->high > DAY ? "36500d" : d->high > 3600000 * MS ? "24h" : "1h",
			       d->high > DAY ? "14d" : "30s", d->zero ? ", nor " : "",
			       d->zero ? d->zero : "");
	*(uint64_t *)at = ns;
	return 0;
}

static void show_time(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	static const uint64_t units[] = { DAY, 3600000 * MS, 60000 * MS, 1000 * MS, MS };
	static const char *const names[] = { "d", "h", "m", "s", "ms" };
	uint64_t ns = *(const uint64_t *)at;

	if (!ns && d->zero)
		put(arg, d->zero);
	else
		show_in(ns, units, names, 5, put, arg);
}

const struct option_type type_time = { set_time, show_time, NULL };

static int set_ports(void *at, const struct option_def *d, const char *value, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(value);
	char *dash = copy ? strchr(copy, '-') : NULL;
	struct port_range *r = at;
	uint64_t lo, hi;

	if (!strcmp(value, "any")) {
		*r = (struct port_range){ 0 };
		return 0;
	}
	if (dash)
		*dash = '\0';
	if (!dash || parse_uint(copy, 1, UINT16_MAX, &lo) < 0 ||
	    parse_uint(dash + 1, lo, UINT16_MAX, &hi) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a range of ports, as in 50000-50100",
			       printable(value));
	*r = (struct port_range){ (uint16_t)lo, (uint16_t)hi };
	return 0;
}

static void show_ports(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	const struct port_range *r = at;
	char text[16];

	snprintf(text, sizeof(text), "%u-%u", r->lo, r->hi);
	put(arg, r->hi ? text : "any");
}

const struct option_type type_ports = { set_ports, show_ports, NULL };

/* ---- networks ---- */

static int set_networks(void *at, const struct option_def *d, const char *value, struct err *e)
{
	return networks_add(at, value, e);
}

static void show_networks(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	const struct networks *l = at;
	char text[NETWORK_TEXT];

	if (!l->n)
		put(arg, "");
	for (size_t i = 0; i < l->n; i++)
		put(arg, network_text(&l->at[i], text));
}

static void clear_networks(void *at)
{
	networks_clear(at);
}

const struct option_type type_networks = { set_networks, show_networks, clear_networks };

/* ---- one option ---- */

int option_take(void *base, const struct option_def *d, const char *value, bool may_be_empty,
		struct err *e)
{
	void *at = (char *)base + d->at;

	if (value && !*value && may_be_empty && d->type->clear) {
		d->type->clear(at);
		return 0;
	}
	if (value && !*value)
		return err_set(e, -EINVAL, "it is empty");
	return d->type->set(at, d, value, e);
}

struct showing {
	FILE *out;
	const struct option_def *d;
};

/* Quoted where the reader would otherwise see something else. */
static void put_value(void *arg, const char *value)
{
	struct showing *s = arg;
	bool quote = !*value || strpbrk(value, " \t\"#\\=");

	fprintf(s->out, "%s %s", s->d->name, quote ? "\"" : "");
	for (; *value; value++)
		fprintf(s->out, "%s%c", quote && (*value == '"' || *value == '\\') ? "\\" : "",
			*value);
	fprintf(s->out, "%s\n", quote ? "\"" : "");
}

void option_show(FILE *out, const void *base, const struct option_def *d)
{
	struct showing s = { out, d };

	d->type->show((const char *)base + d->at, d, put_value, &s);
}
