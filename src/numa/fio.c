// SPDX-License-Identifier: Apache-2.0
/* fio's command line, and its JSON.
 *
 * Its buffers: every job maps them after it has taken its memory policy, so that no page of
 * them is older than the policy. Pages of the page cache come by the same policy. */
#include "numa/fio.h"


#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIO "fio"
#define ARGS_MAX 32
#define CPUS_TEXT (IDS_MAX * 3) /* every other CPU, with commas */
#define LINES_MAX 20 /* of what fio said, in our log */

/* ---- its words ---- */

struct args {
	char *v[ARGS_MAX + 1];
	unsigned n;
	bool failed;
};

__attribute__((format(printf, 2, 3)))
static void add(struct args *a, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	if (a->n == ARGS_MAX || vasprintf(&a->v[a->n], fmt, ap) < 0) {
		a->v[a->n] = NULL;
		a->failed = true;
	} else {
		a->v[++a->n] = NULL;
	}
	va_end(ap);
}

static void free_args(struct args *a)
{
	for (unsigned i = 0; i < a->n; i++)
		free(a->v[i]);
}

static void add_work(struct args *a, const struct fio_job *j)
{
	/* By descriptor: a file of ours has no name, and ":" in names is a list for fio. */
	add(a, "--filename=/proc/self/fd/%d", CHILD_FD);
	add(a, "--rw=%s", j->write ? "write" : "read");
	/* Its threads write what they send each time anew: that is the copy. */
	add(a, "%s", j->write ? "--refill_buffers" : "--readonly");
	/* A process for each would be a session for each, and outlive a fio that is killed. */
	add(a, "--thread");
	add(a, "--ioengine=psync");
	add(a, "--direct=%d", j->direct);
	add(a, "--bs=%" PRIu64, j->block);
	add(a, "--size=%" PRIu64, j->slice);
	add(a, "--offset_increment=%" PRIu64, j->slice);
	add(a, "--numjobs=%u", j->jobs);
	add(a, "--time_based");
	add(a, "--runtime=%u", j->seconds);
}

static void add_placement(struct args *a, const struct fio_job *j)
{
	char cpus[CPUS_TEXT];

	add(a, "--iomem=mmap");
	if (j->cpus)
		add(a, "--cpus_allowed=%s", ids_format(cpus, sizeof(cpus), j->cpus));
	if (j->memory_node != NODE_UNKNOWN)
		add(a, "--numa_mem_policy=bind:%d", j->memory_node);
}

static void add_output(struct args *a)
{
	add(a, "--group_reporting");
	add(a, "--clat_percentiles=0");
	add(a, "--lat_percentiles=1");
	add(a, "--percentile_list=99");
	add(a, "--output-format=json");
}

/* ---- what it says ---- */

/* The JSON object begins a line; warnings may stand before it. */
static const char *object_in(const char *text)
{
	const char *at;

	if (*text == '{')
		return text;
	at = strstr(text, "\n{");
	return at ? at + 1 : NULL;
}

/* A positive number; else NAN. */
static double number(const json_t *obj, const char *key)
{
	double v = json_number_value(json_object_get(obj, key));

	return v > 0 && isfinite(v) ? v : NAN;
}

static int take(const json_t *root, bool write, struct fio_result *r, struct err *e)
{
	const json_t *job = json_array_get(json_object_get(root, "jobs"), 0), *error, *way, *lat;

	error = json_object_get(job, "error");
	if (!json_is_integer(error))
		return err_set(e, -EBADMSG, "fio's output has no job with its \"error\"");
	if (json_integer_value(error))
		return err_set(e, -EIO, "fio's job failed: %s",
			       strerror((int)json_integer_value(error)));
	way = json_object_get(job, write ? "write" : "read");
	lat = json_object_get(way, "lat_ns");
	*r = (struct fio_result){
		.bytes_per_second = number(way, "bw_bytes"),
		.mean_ns = number(lat, "mean"),
		.p99_ns = number(json_object_get(lat, "percentile"), "99.000000"),
	};
	if (isnan(r->bytes_per_second) || isnan(r->mean_ns) || isnan(r->p99_ns))
		return err_set(e, -EBADMSG,
			       "fio's output has no bw_bytes, or no lat_ns with its mean and 99th "
			       "percentile, above 0 in \"%s\"", write ? "write" : "read");
	return 0;
}

int fio_parse(const char *text, bool write, struct fio_result *r, struct err *e)
{
	const char *at = object_in(text);
	json_error_t why;
	json_t *root;
	int rc;

	*r = (struct fio_result){ 0 };
	if (!at)
		return err_set(e, -EBADMSG, "fio's output has no JSON in it");
	root = json_loads(at, JSON_DISABLE_EOF_CHECK, &why);
	if (!root)
		return err_set(e, -EBADMSG, "fio's output, line %d: %s", why.line,
			       printable(why.text));
	rc = take(root, write, r, e);
	if (rc)
		*r = (struct fio_result){ 0 };
	json_decref(root);
	return rc;
}

static void log_lines(char *text)
{
	char *save, *line = strtok_r(text, "\n", &save);

	for (int i = 0; line && i < LINES_MAX; i++, line = strtok_r(NULL, "\n", &save))
		log_error("fio said: %s", printable(line));
}

/* ---- runs ---- */

static int explain(int r, struct err *e)
{
	return r == -ENOENT ? err_set(e, r, "fio is not in PATH; it does the measuring: install "
					    "the package fio (Debian, RHEL)") : r;
}

int fio_check(const struct stop *stop, struct err *e)
{
	char *argv[] = { (char []){ FIO }, (char []){ "--cmdhelp=numa_mem_policy" }, NULL };
	struct child_said said;
	int r = explain(child_run(argv, -1, stop, &said, e), e);

	/* Without it the option's help says what to build fio with. */
	if (!r && (said.status || !strstr(said.out, "numa_mem_policy") ||
		   strstr(said.out, "Build fio")))
		r = err_set(e, -ENOSYS, "this fio cannot put its buffers on a node: it was built "
					"without libnuma (no option numa_mem_policy); install the "
					"distribution's package fio");
	child_clear(&said);
	return r;
}

static int failed(const struct fio_job *j, struct child_said *said, struct err *e)
{
	struct err why = ERR_INIT;
	struct fio_result none;

	log_lines(said->err);
	if (fio_parse(said->out, j->write, &none, &why) == -EIO)
		return err_set(e, -EIO, "%s (%s, exit status %d)", why.text, j->name, said->status);
	return err_set(e, -EIO, "fio failed (%s, exit status %d)", j->name, said->status);
}

int fio_run(const struct fio_job *job, int fd, const struct stop *stop, struct fio_result *r,
	    struct err *e)
{
	struct child_said said = { 0 };
	struct args a = { 0 };
	int rc;

	add(&a, FIO);
	add(&a, "--name=%s", job->name);
	add_work(&a, job);
	add_placement(&a, job);
	add_output(&a);
	rc = a.failed ? err_set(e, -ENOMEM, "out of memory") :
			explain(child_run(a.v, fd, stop, &said, e), e);
	if (!rc && said.status)
		rc = failed(job, &said, e);
	else if (!rc)
		rc = fio_parse(said.out, job->write, r, e);
	child_clear(&said);
	free_args(&a);
	return rc;
}
