// SPDX-License-Identifier: Apache-2.0
/* Events by the names and formats that sysfs has of them. */
#include "numa/perf.h"

#include "numa/topo.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PMUS "bus/event_source/devices"

/* ---- terms ---- */

/* Put value into the bits that a format names, the least first: "config1:0-7,32". */
static int set_bits(uint64_t config[3], const char *format, uint64_t value)
{
	const char *at = strchr(format, ':');
	unsigned word = 0;

	if (!strncmp(format, "config1:", 8))
		word = 1;
	else if (!strncmp(format, "config2:", 8))
		word = 2;
	else if (strncmp(format, "config:", 7))
		return -EINVAL;
	while (*at++) {
		char *end;
		unsigned long from = strtoul(at, &end, 10), to = from;

		if (end == at || from > 63)
			return -EINVAL;
		if (*end == '-') {
			at = end + 1;
			to = strtoul(at, &end, 10);
			if (end == at || to > 63 || to < from)
				return -EINVAL;
		}
		for (unsigned long bit = from; bit <= to; bit++, value >>= 1)
			config[word] = (config[word] & ~(1ull << bit)) | (value & 1) << bit;
		at = end;
		if (*at && *at != ',')
			return -EINVAL;
	}
	return value ? -ERANGE : 0;
}

static bool is_name(const char *s)
{
	return *s && *s != '.' && !strchr(s, '/');
}

/* "umask=0x1"; without a value it is 1. */
static int set_term(const struct topo *t, const char *pmu, char *term, struct perf_event *ev,
		    struct err *e)
{
	char format[SYS_TEXT], *value = strchr(term, '='), *end;
	uint64_t v = 1;
	int r;

	if (value) {
		*value++ = '\0';
		errno = 0;
		v = strtoull(value, &end, 0);
		if (errno || end == value || *end || !isdigit((unsigned char)*value))
			return err_set(e, -EINVAL, "%s/%s/: \"%s\" is no number", pmu,
				       printable(term), printable(value));
	}
	/* What any PMU has. */
	if (!strncmp(term, "config", 6) && (!term[6] || (strchr("12", term[6]) && !term[7]))) {
		ev->config[term[6] ? term[6] - '0' : 0] = v;
		return 0;
	}
	r = is_name(term) ? sys_line(t, format, PMUS "/%s/format/%s", pmu, term) : -EINVAL;
	if (r)
		return err_set(e, -ENOENT, "%s: no event and no term of it is called \"%s\"", pmu,
			       printable(term));
	r = set_bits(ev->config, format, v);
	if (r == -ERANGE)
		return err_set(e, r, "%s/%s/: 0x%llx does not fit into %s", pmu, term,
			       (unsigned long long)v, printable(format));
	return r ? err_set(e, r, "%s/%s/: its format in sysfs is \"%s\"", pmu, term,
			   printable(format)) : 0;
}

static int set_terms(const struct topo *t, const char *pmu, char *terms, struct perf_event *ev,
		     struct err *e)
{
	char *save, *term = strtok_r(terms, ",", &save);
	int r = term ? 0 : err_set(e, -EINVAL, "%s: no event is named", pmu);

	for (; !r && term; term = strtok_r(NULL, ",", &save))
		r = set_term(t, pmu, term, ev, e);
	return r;
}

/* ---- one PMU ---- */

static int describe(const struct topo *t, const char *pmu, const char *what,
		    struct perf_event *ev, struct err *e)
{
	char text[SYS_TEXT], terms[SYS_TEXT];
	uint64_t type;

	*ev = (struct perf_event){ 0 };
	if (sys_line(t, text, PMUS "/%s/type", pmu) || parse_uint(text, 0, UINT32_MAX, &type))
		return err_set(e, -ENOENT, "there is no PMU %s (see %s/" PMUS ")", printable(pmu),
			       t->sys);
	ev->type = (uint32_t)type;
	snprintf(ev->name, sizeof(ev->name), "%.31s/%.60s/", pmu, what);
	/* A unit that several CPUs share counts for all of them, on one. */
	if (!sys_line(t, text, PMUS "/%s/cpumask", pmu) && ids_parse(text, &ev->cpus))
		return err_set(e, -EBADMSG, "%s: its cpumask in sysfs is \"%s\"", pmu,
			       printable(text));
	snprintf(terms, sizeof(terms), "%s", what);
	if (is_name(what) && !sys_line(t, text, PMUS "/%s/events/%s", pmu, what))
		snprintf(terms, sizeof(terms), "%s", text);
	return set_terms(t, pmu, terms, ev, e);
}

/* ---- several ---- */

typedef int each_pmu(const struct topo *t, const char *pmu, void *arg);

/* Those whose name is pattern, or begins with it up to its "*", in the order of their names. */
static int for_each_pmu(const struct topo *t, const char *pattern, each_pmu *fn, void *arg)
{
	size_t n = strcspn(pattern, "*");
	struct dirent **list;
	char path[PATH_MAX];
	int found, r = 0;

	snprintf(path, sizeof(path), "%.*s/" PMUS, PATH_MAX - 64, t->sys);
	found = scandir(path, &list, NULL, versionsort);
	for (int i = 0; i < found; i++) {
		const char *name = list[i]->d_name;

		if (!r && *name != '.' && !strncmp(name, pattern, n) &&
		    (pattern[n] || !name[n]))
			r = fn(t, name, arg);
		free(list[i]);
	}
	if (found >= 0)
		free(list);
	return r;
}

struct gather {
	const char *what;
	struct perf_event *out;
	unsigned n;
	struct err *e;
};

static int gather(const struct topo *t, const char *pmu, void *arg)
{
	struct gather *g = arg;

	if (g->n == PERF_EVENTS_MAX)
		return err_set(g->e, -E2BIG, "%s: more than %d units", pmu, PERF_EVENTS_MAX);
	return describe(t, pmu, g->what, &g->out[g->n++], g->e);
}

int perf_parse(const struct topo *t, const char *text, struct perf_event *out, struct err *e)
{
	size_t n = strcspn(text, "/"), len = strlen(text);
	CLEANUP_FREE char *pmu = strndup(text, n), *what = NULL;
	struct gather g = { .out = out, .e = e };
	int r;

	if (!pmu)
		return err_set(e, -ENOMEM, "out of memory");
	if (!n || len < n + 3 || text[len - 1] != '/' || !is_name(pmu))
		return err_set(e, -EINVAL, "\"%s\" is no event: PMU/EVENT/ or "
			       "PMU/TERM=VALUE,.../ is", printable(text));
	what = strndup(text + n + 1, len - n - 2);
	if (!what)
		return err_set(e, -ENOMEM, "out of memory");
	g.what = what;
	r = for_each_pmu(t, pmu, gather, &g);
	if (!r && !g.n)
		r = err_set(e, -ENOENT, "there is no PMU %s (see %s/" PMUS ")", printable(pmu),
			    t->sys);
	return r ? r : (int)g.n;
}

/* ---- snoops ---- */

static bool is_snoop(const char *name)
{
	return strcasestr(name, "snoop") || strcasestr(name, "snp");
}

/* The first event of a PMU that has one is what all of its kind are asked for. How it is shown,
 * in NAME.scale and NAME.unit, comes behind it. */
static int first_snoop(const struct topo *t, const char *pmu, void *arg)
{
	char *name = arg, path[PATH_MAX];
	struct dirent **list;
	int found;

	snprintf(path, sizeof(path), "%.*s/" PMUS "/%s/events", PATH_MAX - 320, t->sys, pmu);
	found = scandir(path, &list, NULL, alphasort);
	for (int i = 0; i < found; i++) {
		if (!*name && is_snoop(list[i]->d_name))
			snprintf(name, PERF_NAME, "%.95s", list[i]->d_name);
		free(list[i]);
	}
	if (found >= 0)
		free(list);
	return 0;
}

int perf_find_snoops(const struct topo *t, struct perf_event *out, struct err *e)
{
	/* What the thread itself causes, rather than what crosses a link for anybody. */
	static const char *const pmus[] = { "cpu", "uncore_upi*", "uncore_qpi*", "uncore_cha*",
					    "uncore_ha*" };
	struct gather g = { .out = out, .e = e };

	for (size_t i = 0; i < sizeof(pmus) / sizeof(pmus[0]); i++) {
		char name[PERF_NAME] = "";
		int r;

		for_each_pmu(t, pmus[i], first_snoop, name);
		if (!*name)
			continue;
		g.what = name;
		r = for_each_pmu(t, pmus[i], gather, &g);
		return r ? r : (int)g.n;
	}
	return 0;
}
