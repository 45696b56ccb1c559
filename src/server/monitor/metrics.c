// SPDX-License-Identifier: Apache-2.0
/* Counts sessions, logins and transfers, and writes the file of --metrics-file in Prometheus' text
 * format, for the textfile collector of node_exporter. */
#include "server/monitor/monitor.h"

#include <inttypes.h>
#include <poll.h>
#include <sys/wait.h>

#define EVERY_NS ((uint64_t)15 * 1000000000)
#define END_NS ((uint64_t)5 * 1000000000)
#define END_POLL_MS 20

/* More than any machine can do: about 1 TB and 1,000,000 files per second. */
enum { BYTES_PER_NS = 1024, NS_PER_FILE = 1000 };

/* ---- reports ---- */

int metrics_session(struct monitor *m, struct conn *c, const struct session_report *r)
{
	if (c->activity.begun || r->tls > 1 || r->method >= AUTH_SELF)
		return -EPROTO;
	c->activity.begun = true;
	c->activity.tls = r->tls;
	m->metrics.sessions[r->tls]++;
	m->metrics.logins[r->method]++;
	return 0;
}

/* The cause of code, as an index in struct metrics. The words are in families. */
static unsigned failure_of(int code)
{
	static const int causes[FAILURES - 1][11] = {
		{ ECANCELED, EINTR },
		{ EPIPE, ECONNRESET, ECONNABORTED, ECONNREFUSED, ENOTCONN, ETIMEDOUT,
		  EHOSTUNREACH, ENETUNREACH, ENETDOWN, ENODEV },
		{ EACCES, EPERM, EROFS }, { ENOENT, ENOTDIR, EISDIR, EEXIST, EINVAL },
		{ ENOSPC, EDQUOT, EFBIG }, { EIO }, { ENOMEM, EAGAIN }, { EPROTO, EBADMSG },
		{ ECHILD },
	};
	unsigned i = 0;

	for (unsigned k = 0; i < FAILURES - 1 && code != -causes[i][k];)
		if (!causes[i][k++]) {
			i++;
			k = 0;
		}
	return i;
}

/* Count the growth of a session's count from before to now. *total, the sum of all growth, must not
 * exceed most. */
static void count(uint64_t *counter, uint64_t *total, uint64_t before, uint64_t now, uint64_t most)
{
	uint64_t more = min_u64(now > before ? now - before : 0, most > *total ? most - *total : 0);

	*total += more;
	*counter += more;
}

int metrics_transfer(struct monitor *m, struct conn *c, const struct transfer_report *r)
{
	struct metrics *t = &m->metrics;
	struct activity *a = &c->activity;
	const struct transfer_report *old = &a->report;
	uint64_t age = min_u64(now_ns() - a->since, UINT64_MAX / BYTES_PER_NS);

	if (r->state > TRANSFER_ENDS || r->sends > 1 || r->carrier >= CARRIERS || r->code > 0 ||
	    (r->state != TRANSFER_BEGINS && a->running && r->sends != old->sends) ||
	    !memchr(r->path, '\0', sizeof(r->path)))
		return -EPROTO;
	if (r->state == TRANSFER_BEGINS) {
		a->began = now_ns();
	} else if (!a->running) {
		return 0; /* the report of its beginning was lost: this process was busy */
	} else {
		count(&t->bytes[r->sends][r->carrier], &a->bytes, old->bytes, r->bytes,
		      age * BYTES_PER_NS);
		count(&t->files[r->sends][r->carrier], &a->files, old->files, r->files,
		      age / NS_PER_FILE);
		count(&t->files_failed[r->sends], &a->files, old->failed, r->failed,
		      age / NS_PER_FILE);
	}
	a->report = *r;
	a->running = r->state != TRANSFER_ENDS;
	if (a->running)
		return 0;
	t->transfers[r->sends][r->carrier]++;
	if (r->code)
		t->failures[failure_of(r->code)]++;
	return 0;
}

void metrics_session_over(struct monitor *m, struct conn *c)
{
	struct transfer_report last = c->activity.report;

	last.state = TRANSFER_ENDS;
	last.code = -ECHILD;
	if (c->activity.running)
		metrics_transfer(m, c, &last);
	c->activity.begun = false;
}

/* ---- the text ---- */

/* The words of struct transfer_report.carrier. */
const char *const carrier_words[CARRIERS] = { "none", "tcp", "rdma", "ftp", "inband" };

#define AT(member) offsetof(struct metrics, member)
#define NO_LABEL NULL, ""
#define SECURITY "security", "clear,tls"
#define DIRECTION "direction", "received,sent"

/* Families of metrics: an array in struct metrics, with a label and its values; n CARRIERS: with a
 * second dimension. */
static const struct family {
	const char *name;
	size_t at;
	unsigned n;
	const char *label, *words, *help;
} families[] = {
	{ "start_time_seconds", AT(started), 1, NO_LABEL, "Start time; the counters begin at 0." },
	{ "connections", AT(connections), 1, NO_LABEL, "Connections, also without a login." },
	{ "connections_refused_total", AT(refused), 1, "cause", "address,sessions,host,process",
	  "Refused connections." },
	{ "sessions", AT(sessions_now), 1, SECURITY, "Sessions." },
	{ "sessions_total", AT(sessions), 1, SECURITY, "Sessions that have begun." },
	{ "sessions_before_restart", AT(before), 1, NO_LABEL,
	  "Sessions that the previous rftpd still serves." },
	{ "logins_total", AT(logins), 1, "method", "anonymous,users,pam,certificate",
	  "Accepted logins." },
	{ "logins_refused_total", AT(refused_logins), 1, "cause",
	  "password,certificate,expired,throttled,busy,sessions,error", "Refused logins." },
	{ "transfers", AT(transfers_now), 1, DIRECTION, "Running transfers." },
	{ "transfers_total", AT(transfers), CARRIERS, DIRECTION, "Transfers that have ended." },
	{ "transfer_failures_total", AT(failures), 1, "cause", "interrupted,connection,permission,"
	  "name,space,storage,memory,protocol,session,other", "Transfers that have failed." },
	{ "transfer_bytes_total", AT(bytes), CARRIERS, DIRECTION, "Bytes of files." },
	{ "transfer_files_total", AT(files), CARRIERS, DIRECTION, "Files that are done." },
	{ "files_failed_total", AT(files_failed), 1, DIRECTION, "Files that have failed." },
	{ "memory_budget_bytes", AT(budget), 1, NO_LABEL,
	  "Memory budget for transfers; 0: unlimited." },
	{ "memory_used_bytes", AT(memory), 1, NO_LABEL,
	  "Memory of the budget that sessions hold." },
};

/* A name that ends in "_total" is a counter. */
static void put_head(FILE *out, const char *name, const char *help)
{
	const char *tail = strrchr(name, '_');

	fprintf(out, "# HELP rftpd_%s %s\n# TYPE rftpd_%s %s\n", name, help, name,
		tail && !strcmp(tail, "_total") ? "counter" : "gauge");
}

static void put_family(FILE *out, const struct metrics *t, const struct family *f)
{
	const uint64_t *v = (const void *)((const char *)t + f->at);
	const char *word = f->words;
	size_t len;

	put_head(out, f->name, f->help);
	if (!f->label)
		fprintf(out, "rftpd_%s %" PRIu64 "\n", f->name, *v);
	for (; *word; word += len + (word[len] == ',')) {
		len = strcspn(word, ",");
		for (unsigned i = 0; i < f->n; i++) {
			fprintf(out, "rftpd_%s{%s=\"%.*s\"", f->name, f->label, (int)len, word);
			if (f->n > 1)
				fprintf(out, ",transport=\"%s\"", carrier_words[i]);
			fprintf(out, "} %" PRIu64 "\n", *v++);
		}
	}
}

static void set_gauges(struct monitor *m)
{
	struct metrics *t = &m->metrics;

	memset(t->sessions_now, 0, sizeof(t->sessions_now));
	memset(t->transfers_now, 0, sizeof(t->transfers_now));
	for (unsigned i = 0; i < m->conns.nslots; i++) {
		const struct conn *c = &m->conns.slots[i];

		t->sessions_now[c->activity.tls] += c->used && c->activity.begun;
		t->transfers_now[c->activity.report.sends] += c->used && c->activity.running;
	}
	t->connections = m->conns.nused;
	t->before = m->handover.sessions;
	t->budget = m->sv->opt.memory_budget;
	t->memory = budget_given(&m->conns, NULL) + m->handover.memory;
}

static void put_label(FILE *out, const char *name, const char *value)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '"' || *value == '\\' || *value == '\n')
			fputc('\\', out);
		fputc(*value == '\n' ? 'n' : *value, out);
	}
	fputc('"', out);
}

static json_t *numbers_up(const json_t *o)
{
	const char *state = json_string_value(json_object_get(o, "state"));

	return json_pack("{s:i}", "", state && *state == '4'); /* "4: ACTIVE" */
}

static json_t *numbers_events(const json_t *o)
{
	return json_incref(json_object_get(o, "counters"));
}

static json_t *numbers_bytes(const json_t *o)
{
	return json_pack("{s:O, s:O}", "received", json_object_get(o, "received"), "sent",
			 json_object_get(o, "sent"));
}

/* Families with a line for each number of each fact of a kind. */
static const struct card_family {
	const char *name, *kind, *device, *label;
	json_t *(*numbers)(const json_t *o);
	const char *help;
} card_families[] = {
	{ "rdma_port_up", "rdma", "device", NULL, numbers_up,
	  "Is the port of an RDMA card active?" },
	{ "rdma_events_total", "rdma", "device", ",event", numbers_events,
	  "Counters of the card's driver, for all programs." },
	{ "rdma_bytes_total", "rdma", "device", ",direction", numbers_bytes,
	  "Bytes by RDMA, for all programs." },
	{ "card_bytes_total", "card", "name", ",direction", numbers_bytes,
	  "Bytes of packets, for all programs." },
};

static void put_card(FILE *out, const struct card_family *f, const json_t *o)
{
	const char *device = json_string_value(json_object_get(o, f->device));
	const char *port = json_string_value(json_object_get(o, "port")), *name;
	json_t *numbers = f->numbers(o), *v;

	json_object_foreach(numbers, name, v) {
		fprintf(out, "rftpd_%s{", f->name);
		put_label(out, "device", device ? device : "");
		if (port)
			put_label(out, ",port", port);
		if (f->label)
			put_label(out, f->label, name);
		fprintf(out, "} %lld\n", (long long)json_integer_value(v));
	}
	json_decref(numbers);
}

void metrics_put_cards(FILE *out, const char *sysfs)
{
	json_t *facts = facts_cards(sysfs), *o;
	size_t k;

	for (size_t i = 0; i < sizeof(card_families) / sizeof(card_families[0]); i++) {
		const struct card_family *f = &card_families[i];

		put_head(out, f->name, f->help);
		json_array_foreach(facts, k, o) {
			const char *kind = json_string_value(json_object_get(o, "fact"));

			if (kind && !strcmp(kind, f->kind))
				put_card(out, f, o);
		}
	}
	json_decref(facts);
}

/* ---- the file ---- */

int metrics_write(struct monitor *m, struct err *e)
{
	const char *file = m->sv->opt.metrics_file;
	CLEANUP_FREE char *text = NULL;
	size_t len;
	FILE *out = file ? open_memstream(&text, &len) : NULL;

	if (!file)
		return 0;
	if (m->conns.slots)
		set_gauges(m);
	if (out) {
		fprintf(out, "# HELP rftpd_build_info The version of this rftpd.\n"
			"# TYPE rftpd_build_info gauge\nrftpd_build_info{");
		put_label(out, "version", PACKAGE_VERSION);
		fprintf(out, "} 1\n");
		for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
			put_family(out, &m->metrics, &families[i]);
		metrics_put_cards(out, NULL);
	}
	if (!out || fclose(out))
		return err_nomem(e);
	return write_file_atomic(file, text, len, 0644, e) ? err_prefix(e, "metrics file") : 0;
}

bool metrics_reaped(struct monitor *m, pid_t pid, int status)
{
	if (pid != m->metrics.writer)
		return false;
	m->metrics.writer = 0;
	if (WIFSIGNALED(status))
		log_error("the writer of the metrics file died of signal %d", WTERMSIG(status));
	return true;
}

void metrics_end(struct monitor *m)
{
	uint64_t until = now_ns() + END_NS;
	struct err e = ERR_INIT;

	/* A late writer must not replace the last file; one that hangs must not delay the end. */
	while (m->metrics.writer && waitpid(m->metrics.writer, NULL, WNOHANG) == 0) {
		if (now_ns() > until) {
			log_error("the metrics file is not written at the end: its file system "
				  "does not answer");
			return;
		}
		poll(NULL, 0, END_POLL_MS);
	}
	if (metrics_write(m, &e) < 0)
		log_error("%s", e.text);
}

int metrics_tend(struct monitor *m)
{
	struct metrics *t = &m->metrics;
	struct err e = ERR_INIT;
	int rc;

	if (!m->sv->opt.metrics_file || t->writer || srv_stop || m->handover.replaced)
		return -1;
	if (now_ns() < t->next)
		return ms_to(t->next);
	t->next = now_ns() + EVERY_NS;
	set_gauges(m);

	/* A child does it: a disk, a driver or a network file system may be slow. */
	t->writer = fork();
	if (t->writer == 0) {
		proc_begin_child(m);
		rc = metrics_write(m, &e);
		if (rc < 0)
			log_error("%s", e.text);
		_exit(rc < 0);
	}
	if (t->writer < 0)
		t->writer = 0;
	return ms_to(t->next);
}
