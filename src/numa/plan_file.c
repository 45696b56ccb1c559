// SPDX-License-Identifier: Apache-2.0
/* The JSON of a staged problem; its fields are described in rftp-numa(1). */
#include "numa/plan_problem.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define FILE_MAX (1u << 20)
#define DATA_MAX 0x1p60     /* bytes */
#define FIELD 80            /* bytes of "link_limit[31][31]" and the like */

/* ---- one value ---- */

typedef int parse_fn(const char *s, uint64_t *v);

struct unit {
	parse_fn *parse;     /* of a string; NULL: numbers only */
	double most;
	const char *about;
};

static const struct unit
	a_size = { parse_size, DATA_MAX, "bytes from 0 to 2^60, or a size as \"100G\"" },
	a_rate = { parse_rate, STAGED_RATE,
		   "bytes per second from 0 to 10^15, or a rate as \"10Gbit\" or \"500M\"" },
	a_count = { NULL, STAGED_THREADS, "a number of threads from 0 to 4096" };

static int value(const json_t *v, const struct unit *unit, const char *field, double *out,
		 struct err *e)
{
	uint64_t number = 0;
	bool ok = true;

	if (json_is_string(v) && unit->parse) {
		ok = !unit->parse(json_string_value(v), &number);
		*out = (double)number;
	} else {
		ok = json_is_number(v);
		*out = json_number_value(v);
	}
	if (unit->parse == NULL && *out != floor(*out))
		ok = false;
	if (!ok || !(*out >= 0 && *out <= unit->most))
		return err_set(e, -EBADMSG, "%s must be %s", field, unit->about);
	return 0;
}

/* null: no limit. */
static int limit(const json_t *v, const char *field, double *out, struct err *e)
{
	if (!json_is_null(v))
		return value(v, &a_rate, field, out, e);
	*out = INFINITY;
	return 0;
}

static int entry(const json_t *v, const struct unit *unit, const char *field, double *out,
		 struct err *e)
{
	return unit ? value(v, unit, field, out, e) : limit(v, field, out, e);
}

/* ---- lists and matrices ---- */

static int length_is(const json_t *list, unsigned n, const char *field, struct err *e)
{
	if (!json_is_array(list))
		return err_set(e, -EBADMSG, "%s must be a list", field);
	if (json_array_size(list) != n)
		return err_set(e, -EBADMSG, "%s has %zu entries, but there are %u nodes", field,
			       json_array_size(list), n);
	return 0;
}

/* unit: NULL for limits. */
static int row(const json_t *list, unsigned n, const struct unit *unit, const char *field,
	       double *out, struct err *e)
{
	int r = length_is(list, n, field, e);

	for (unsigned i = 0; !r && i < n; i++) {
		char at[FIELD];

		snprintf(at, sizeof(at), "%s[%u]", field, i);
		r = entry(json_array_get(list, i), unit, at, &out[i], e);
	}
	return r;
}

static int matrix(const json_t *list, unsigned n, const struct unit *unit, const char *field,
		  double *out, struct err *e)
{
	int r = length_is(list, n, field, e);

	for (unsigned i = 0; !r && i < n; i++) {
		char at[FIELD];

		snprintf(at, sizeof(at), "%s[%u]", field, i);
		r = row(json_array_get(list, i), n, unit, at, out + (size_t)i * n, e);
	}
	return r;
}

int plan_rates(double rates[STAGED_NODES][STAGED_NODES], unsigned n, const double *from,
	       const char *what, struct err *e)
{
	for (unsigned i = 0; i < n * n; i++) {
		if (!(from[i] >= 0 && from[i] <= STAGED_RATE))
			return err_set(e, -EBADMSG, "%s[%u][%u] is %g, and must be %s", what, i / n,
				       i % n, from[i], a_rate.about);
		rates[i / n][i % n] = from[i];
	}
	return 0;
}

/* ---- the fields ---- */

static int read_nodes(const json_t *list, struct staged_problem *p, struct err *e)
{
	size_t n = json_array_size(list);

	if (!n || n > STAGED_NODES)
		return err_set(e, -EBADMSG, "nodes must be a list of 1 to %d numbers of nodes",
			       STAGED_NODES);
	for (size_t i = 0; i < n; i++) {
		const json_t *v = json_array_get(list, i);
		json_int_t id = json_integer_value(v);

		if (!json_is_integer(v) || id < 0 || id > NODE_MOST)
			return err_set(e, -EBADMSG, "nodes[%zu] must be a number from 0 to %d", i,
				       NODE_MOST);
		for (size_t k = 0; k < i; k++)
			if (p->id[k] == id)
				return err_set(e, -EBADMSG, "nodes[%zu]: %d is there twice", i,
					       (int)id);
		p->id[i] = (int)id;
	}
	p->n = (unsigned)n;
	return 0;
}

/* A list, or one number for all. */
static int read_threads(const json_t *v, struct staged_problem *p, struct err *e)
{
	double threads[STAGED_NODES], one;
	int r;

	if (json_is_array(v)) {
		r = row(v, p->n, &a_count, "threads", threads, e);
	} else {
		r = value(v, &a_count, "threads", &one, e);
		for (unsigned i = 0; !r && i < p->n; i++)
			threads[i] = one;
	}
	for (unsigned i = 0; !r && i < p->n; i++)
		p->threads[i] = (unsigned)threads[i];
	return r;
}

static int read_rates(const json_t *v, double rates[STAGED_NODES][STAGED_NODES], unsigned n,
		      const char *field, struct err *e)
{
	double flat[STAGED_NODES * STAGED_NODES];
	int r;

	if (!v)
		return 0;
	r = matrix(v, n, &a_rate, field, flat, e);
	return r ? r : plan_rates(rates, n, flat, field, e);
}

void plan_unlimited(struct staged_problem *p)
{
	for (unsigned i = 0; i < p->n; i++) {
		p->disk_limit[i] = p->network_limit[i] = INFINITY;
		for (unsigned k = 0; k < p->n; k++)
			p->link_limit[i][k] = INFINITY;
	}
}

static int read_links(const json_t *list, struct staged_problem *p, struct err *e)
{
	double flat[STAGED_NODES * STAGED_NODES];
	int r = matrix(list, p->n, NULL, "link_limit", flat, e);

	for (unsigned i = 0; !r && i < p->n * p->n; i++)
		p->link_limit[i / p->n][i % p->n] = flat[i];
	return r;
}

static int read_limits(const json_t *obj, struct staged_problem *p, struct err *e)
{
	const json_t *disk = json_object_get(obj, "disk_limit");
	const json_t *network = json_object_get(obj, "network_limit");
	const json_t *links = json_object_get(obj, "link_limit");
	int r = 0;

	plan_unlimited(p);
	if (disk)
		r = row(disk, p->n, NULL, "disk_limit", p->disk_limit, e);
	if (!r && network)
		r = row(network, p->n, NULL, "network_limit", p->network_limit, e);
	if (!r && links)
		r = read_links(links, p, e);
	return r;
}

/* A name that is written wrong would not be missed otherwise. */
static int only_known(json_t *obj, struct err *e)
{
	static const char *const fields[] = {
		"nodes", "threads", "data", "disk", "network", "disk_limit", "link_limit",
		"network_limit",
	};
	const char *key;
	json_t *v;

	json_object_foreach(obj, key, v) {
		bool known = false;

		for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
			known |= !strcmp(key, fields[i]);
		if (!known)
			return err_set(e, -EBADMSG, "there is no field %s: nodes, threads, data, "
				       "disk, network, disk_limit, link_limit, network_limit",
				       printable(key));
	}
	return 0;
}

static struct plan_lacks missing(const json_t *obj)
{
	return (struct plan_lacks){
		.data = !json_object_get(obj, "data"),
		.threads = !json_object_get(obj, "threads"),
		.disk = !json_object_get(obj, "disk"),
		.network = !json_object_get(obj, "network"),
		.link_limit = !json_object_get(obj, "link_limit"),
		.network_limit = !json_object_get(obj, "network_limit"),
	};
}

static int read_object(json_t *obj, struct staged_problem *p, struct plan_lacks *lacks,
		       struct err *e)
{
	const json_t *data = json_object_get(obj, "data"), *threads;
	int r;

	if (!json_is_object(obj))
		return err_set(e, -EBADMSG, "this is not an object");
	r = only_known(obj, e);
	r = r ? r : read_nodes(json_object_get(obj, "nodes"), p, e);
	threads = json_object_get(obj, "threads");
	if (!r && threads)
		r = read_threads(threads, p, e);
	if (!r && data)
		r = row(data, p->n, &a_size, "data", p->data, e);
	r = r ? r : read_rates(json_object_get(obj, "disk"), p->disk, p->n, "disk", e);
	r = r ? r : read_rates(json_object_get(obj, "network"), p->network, p->n, "network", e);
	r = r ? r : read_limits(obj, p, e);
	*lacks = missing(obj);
	return r;
}

int plan_file(const char *path, struct staged_problem *p, struct plan_lacks *lacks,
	      struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	json_error_t where;
	size_t len;
	json_t *obj;
	int r = read_file(path, FILE_MAX, &text, &len);

	*p = (struct staged_problem){ 0 };
	if (r)
		return err_sys(e, r, "%s", printable(path));
	obj = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	if (!obj)
		return err_set(e, -EBADMSG, "%s:%d: no JSON: %s", printable(path), where.line,
			       printable(where.text));
	r = read_object(obj, p, lacks, e);
	json_decref(obj);
	if (r)
		err_prefix(e, "%s", printable(path));
	return r;
}
