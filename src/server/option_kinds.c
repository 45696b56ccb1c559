// SPDX-License-Identifier: Apache-2.0
/* The kinds of options that only rftpd has. */
#include "server/option_type.h"
#include "server/options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

typedef void put_fn(void *arg, const char *value);

/* ---- listen ---- */

static int numeric_family(const char *addr)
{
	uint8_t bytes[16];

	if (inet_pton(AF_INET, addr, bytes) == 1)
		return AF_INET;
	return strchr(addr, ':') ? AF_INET6 : -1;
}

/* "ADDR:PORT" or "[ADDR]:PORT" into its halves. */
static int split_address(const char *value, struct listen_addr *l)
{
	const char *colon = strrchr(value, ':');
	const char *addr = value;
	uint64_t port;
	size_t len;

	if (!colon || parse_uint(colon + 1, 0, UINT16_MAX, &port) < 0)
		return -EINVAL;
	len = (size_t)(colon - value);
	if (len >= 2 && addr[0] == '[' && addr[len - 1] == ']') {
		addr++;
		len -= 2;
	}
	if (len >= sizeof(l->addr))
		return -EINVAL;
	memcpy(l->addr, addr, len);
	l->addr[len] = '\0';
	l->port = (uint16_t)port;
	l->optional = false;
	return numeric_family(l->addr) < 0 || (addr == value && strchr(l->addr, ':')) ? -EINVAL : 0;
}

static int set_listen(void *at, const struct option_def *d, const char *value, struct err *e)
{
	struct srv_options *o = at;

	if (o->nlisten == LISTEN_MAX)
		return err_set(e, -EINVAL, "more than %d addresses", LISTEN_MAX);
	if (split_address(value, &o->listen[o->nlisten]) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not ADDR:PORT with a numeric address, as in "
			       "0.0.0.0:7321 or [::]:7321", printable(value));
	o->nlisten++;
	return 0;
}

static void show_listen(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	const struct srv_options *o = at;
	char text[96];

	for (int i = 0; i < o->nlisten; i++) {
		bool v6 = strchr(o->listen[i].addr, ':');

		snprintf(text, sizeof(text), v6 ? "[%s]:%u" : "%s:%u", o->listen[i].addr,
			 o->listen[i].port);
		put(arg, text);
	}
}

static void clear_listen(void *at)
{
	((struct srv_options *)at)->nlisten = 0;
}

const struct option_type type_listen = { set_listen, show_listen, clear_listen };

/* ---- NUMA ---- */

static int set_numa(void *at, const struct option_def *d, const char *value, struct err *e)
{
	struct place_wish wish = { 0 };
	int rc = place_wish_parse(&wish, value, e);

	if (!rc)
		rc = place_wish_check(&wish, e);
	return rc ? rc : type_string.set(at, d, value, e);
}

static void show_numa(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	const char *s = *(char *const *)at;

	put(arg, s ? s : "auto");
}

static void clear_string(void *at)
{
	type_string.clear(at);
}

const struct option_type type_numa = { set_numa, show_numa, clear_string };

static int set_nodes(void *at, const struct option_def *d, const char *value, struct err *e)
{
	struct place_wish wish = { .nics = value };
	int rc = place_wish_check(&wish, e);

	return rc ? rc : type_string.set(at, d, value, e);
}

static void show_string(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	type_string.show(at, d, put, arg);
}

const struct option_type type_nodes = { set_nodes, show_string, clear_string };

/* ---- type of service ---- */

static int set_tos(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t tos;

	*(int *)at = -1;
	if (!strcmp(value, "system"))
		return 0;
	if (parse_tos(value, &tos) < 0)
		return err_set(e, -EINVAL, "\"%s\" is neither a number from 0 to 255 nor a class "
			       "like cs1, af41 or ef", printable(value));
	*(int *)at = (int)tos;
	return 0;
}

static void show_tos(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	int tos = *(const int *)at;
	char text[16];

	snprintf(text, sizeof(text), "%d", tos);
	put(arg, tos < 0 ? "system" : text);
}

const struct option_type type_tos = { set_tos, show_tos, NULL };

/* ---- umask ---- */

static int set_umask(void *at, const struct option_def *d, const char *value, struct err *e)
{
	unsigned bits = 0;
	int rc;

	if (!strcmp(value, "default")) {
		*(unsigned *)at = 0;
		return 0;
	}
	rc = type_octal.set(&bits, d, value, e);
	if (rc == 0)
		*(unsigned *)at = UMASK_GIVEN | bits;
	return rc;
}

static void show_umask(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	unsigned bits = *(const unsigned *)at & ~(unsigned)UMASK_GIVEN;

	if (*(const unsigned *)at)
		type_octal.show(&bits, d, put, arg);
	else
		put(arg, "default");
}

const struct option_type type_umask = { set_umask, show_umask, NULL };

/* ---- the log ---- */

int srv_log_target(const char *value, enum log_target *target)
{
	static const char *const words[] = {
		[LOG_TO_STDERR] = "stderr", [LOG_TO_SYSLOG] = "syslog",
		[LOG_TO_JOURNAL] = "journal",
	};

	*target = LOG_TO_FILE;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(value, words[i]))
			*target = (enum log_target)i;
	/* "sylog" is a slip and no file. */
	return *target == LOG_TO_FILE && !strchr(value, '/') ? -EINVAL : 0;
}

static int set_log(void *at, const struct option_def *d, const char *value, struct err *e)
{
	enum log_target target;

	if (srv_log_target(value, &target))
		return err_set(e, -EINVAL, "\"%s\" is not stderr, syslog, journal or the path of a "
			       "file, with a slash in it", printable(value));
	return type_string.set(at, d, value, e);
}

static void show_log(const void *at, const struct option_def *d, put_fn *put, void *arg)
{
	const char *s = *(char *const *)at;

	put(arg, s ? s : "stderr");
}

const struct option_type type_log = { set_log, show_log, clear_string };

static int set_verbose(void *at, const struct option_def *d, const char *value, struct err *e)
{
	*(unsigned *)at = LOG_LV_DEBUG;
	return 0;
}

static int set_quiet(void *at, const struct option_def *d, const char *value, struct err *e)
{
	*(unsigned *)at = LOG_LV_WARN;
	return 0;
}

const struct option_type type_verbose = { set_verbose, NULL, NULL };
const struct option_type type_quiet = { set_quiet, NULL, NULL };
