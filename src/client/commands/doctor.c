// SPDX-License-Identifier: Apache-2.0
/* rftp doctor: checks of this machine, and with a URL of the server's machine and of the path
 * between them. Each check prints one line. */
#include "client/commands/doctor.h"
#include "client/signals.h"

#include <fcntl.h>
#include <netdb.h>

#define MEASURE_NS 1000000000ull
#define PORT_MS 5000
#define CLOCK_MOST 1.0     /* s: --update compares times of files */
#define SPEED_PERCENT 50.0 /* of the slower card's speed */

/* ---- facts ---- */

/* Parse the reply to SITE FACTS. NULL with text. */
static json_t *facts_parse(char *text, struct err *e)
{
	json_t *facts = json_array();
	char *line;

	while (facts && (line = strsep(&text, "\n"))) {
		json_t *o = *line == ' ' ? json_loads(line, 0, NULL) : NULL;

		if (*line == ' ' && !json_is_object(o)) {
			json_decref(o);
			json_decref(facts);
			err_set(e, -EBADMSG, "the server's answer is not a fact: %s",
				printable(line));
			return NULL;
		}
		if (o)
			json_array_append_new(facts, o);
	}
	return facts;
}

/* ---- this end ---- */

/* Add the facts that depend on the process, its options and dir. */
static void add_own(struct doctor *d)
{
	int fd CLEANUP_CLOSE = open(d->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct transfer_tuning t;

	fd = fd < 0 ? -errno : fd;
	transfer_tuning_default(&t);
	t.memory = d->job->o.memory;
	json_array_append_new(d->here.facts, transfer_limits(&t));
	json_array_append_new(d->here.facts, storage_fact(fd, d->dir, d->time_ns, NULL));
}

static int check_here(struct doctor *d, const struct sockaddr_storage *peer, struct err *e)
{
	struct stat st = { 0 };

	if (stat(d->dir, &st))
		st.st_dev = 0;
	d->here.facts = facts_read(peer, st.st_dev, e);
	if (!d->here.facts)
		return e->code;
	d->here.card =
		json_string_value(json_object_get(fact_get(d->here.facts, "path", 0), "card"));
	return 0;
}

/* ---- the path ---- */

/* Look the name up, and try the port at each of its addresses. False: nothing else can be
 * checked. */
static bool check_port(struct doctor *d, const struct url *p)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	unsigned n = 0, good = 0;
	struct err e = ERR_INIT;
	uint16_t port = url_port(p);
	char remedy[160];
	int rc = getaddrinfo(p->host, NULL, &hints, &list);

	if (rc) {
		snprintf(remedy, sizeof(remedy), "getent hosts %.100s", printable(p->host));
		doctor_say(d, WRONG, "path", "name", remedy, "%s: %s", printable(p->host),
			   rc == EAI_SYSTEM ? strerror(errno) : gai_strerror(rc));
		return false;
	}
	for (const struct addrinfo *a = list; a; a = a->ai_next)
		n++;
	doctor_say(d, OK, "path", "name", NULL, "%s has %u address%s", printable(p->host), n,
		   n == 1 ? "" : "es");
	for (const struct addrinfo *a = list; a; a = a->ai_next) {
		char host[NI_MAXHOST];
		int fd;

		if (getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof(host), NULL, 0,
				NI_NUMERICHOST))
			continue;
		e = (struct err)ERR_INIT;
		fd = tcp_connect(host, port, signals_fd(), PORT_MS, &e);
		good += fd >= 0;
		if (fd >= 0) {
			doctor_say(d, OK, "path", "port", NULL,
				   "there is an answer from %s port %u", host, port);
			close(fd);
			continue;
		}
		snprintf(remedy, sizeof(remedy),
			 e.code == -ECONNREFUSED ? "there: systemctl start rftpd" :
						   "there: nft list ruleset; ss -ltn 'sport = %u'",
			 port);
		doctor_say(d, a->ai_next || good ? WARNING : WRONG, "path", "port", remedy, "%s",
			   e.text);
	}
	freeaddrinfo(list);
	return good;
}

/* Measure round trips of short commands. */
static void check_rtt(struct doctor *d, struct server *s)
{
	uint64_t least = UINT64_MAX, most = 0;
	struct err e = ERR_INIT;

	for (int i = 0; i < 5; i++) {
		uint64_t start = now_ns(), took;

		if (ftp_simple(s->client, FTP_NOOP, NULL, NULL, &e) < 0)
			return;
		took = now_ns() - start;
		least = min_u64(least, took);
		most = took > most ? took : most;
	}
	d->rtt_ns = s->client->rtt_ns && s->client->rtt_ns < least ? s->client->rtt_ns : least;
	doctor_say(d, OK, "path", "RTT", NULL, "%.3f ms; a command takes %.3f to %.3f ms",
		   (double)d->rtt_ns / 1e6, (double)least / 1e6, (double)most / 1e6);
}

/* Get the server's facts. path: with the rates of the storage there; NULL: without. NULL with
 * text. */
static json_t *ask_facts(struct server *s, const char *path, struct err *e)
{
	CLEANUP_FREE char *text = NULL, *command = NULL;
	int rc;

	if (asprintf(&command, path ? "FACTS %s" : "FACTS", path) < 0) {
		command = NULL;
		err_nomem(e);
		return NULL;
	}
	rc = ftp_simple(s->client, FTP_SITE, command, &text, e);
	return rc < 0 ? NULL : facts_parse(text, e);
}

static void check_clock(struct doctor *d, double before, double after)
{
	double there =
		json_number_value(json_object_get(fact_get(d->there.facts, "host", 0), "time"));
	double offset = there - (before + after) / 2, unsure = (after - before) / 2;

	if (there <= 0)
		doctor_say(d, UNKNOWN, "path", "clock", NULL, "the server does not tell its time");
	else if (offset > CLOCK_MOST + unsure || offset < -CLOCK_MOST - unsure)
		doctor_say(d, WARNING, "path", "clock", "chronyc makestep, at both ends",
			   "the server's clock "
			   "is %.1f s %s: --update compares times of both",
			   offset > 0 ? offset : -offset, offset > 0 ? "ahead" : "behind");
	else
		doctor_say(d, OK, "path", "clock", NULL,
			   "the difference is %.3f s, known to %.3f s", offset, unsure);
}

static void check_version(struct doctor *d)
{
	const json_t *here = fact_get(d->here.facts, "host", 0),
		     *there = fact_get(d->there.facts, "host", 0);
	const char *ours = fact_text(here, "version"), *theirs = fact_text(there, "version");

	if (!strcmp(ours, theirs))
		doctor_say(d, OK, "path", "version", NULL, "%s at both ends", ours);
	else
		doctor_say(d, WARNING, "path", "version", "install the newer one at both ends",
			   "%s here, %s there", ours, *theirs ? theirs : "unknown");
}

static void check_mtu(struct doctor *d)
{
	int64_t out = fact_number(fact_get(d->here.facts, "path", 0), "mtu");
	int64_t in = fact_number(fact_get(d->there.facts, "path", 0), "mtu");
	int64_t ours = fact_number(side_card(&d->here), "mtu");
	int64_t theirs = fact_number(side_card(&d->there), "mtu");
	int64_t least = out < in ? out : in, cards = ours < theirs ? ours : theirs;
	char remedy[160];

	snprintf(remedy, sizeof(remedy), "tracepath -n %.100s", printable(d->host));
	if (out < 0 || in < 0)
		doctor_say(d, UNKNOWN, "path", "MTU", NULL, "the %s does not know it",
			   out < 0 ? "client" : "server");
	else if (ours > 0 && theirs > 0 && ours != theirs)
		doctor_say(d, WARNING, "path", "MTU", "ip link set dev CARD mtu BYTES",
			   "the cards differ: %lld here, %lld there", (long long)ours,
			   (long long)theirs);
	else if (cards > 0 && least < cards)
		doctor_say(d, WARNING, "path", "MTU", remedy,
			   "%lld bytes out, %lld in, although the cards "
			   "have %lld",
			   (long long)out, (long long)in, (long long)cards);
	else
		doctor_say(d, OK, "path", "MTU", NULL, "%lld bytes out, %lld in", (long long)out,
			   (long long)in);
}

/* Move data from memory to memory, and judge the transport. */
static double check_way(struct doctor *d, struct server *s, bool put)
{
	CLEANUP_FREE struct transfer_result *r = calloc(1, sizeof(*r));
	const struct agreement *a = &r->agreement;
	struct err e = ERR_INIT;
	double rate, share;
	char text[32];
	int rc = r ? bench_measure(d->job, s, put, d->time_ns, r, &e) : err_nomem(&e);
	unsigned percent;
	enum stage_of_transfer slow;

	if (rc) {
		doctor_say(d, WRONG, "path", put ? "put" : "get", NULL, "%s", e.text);
		return 0;
	}
	d->agreement = *a;
	d->measured = true;
	rate = r->wall_ns ? (double)r->bytes * 1e9 / (double)r->wall_ns : 0;
	slow = stage_slowest(r->stages, &percent);
	share = d->mbps ? rate * 8 * 100 / ((double)d->mbps * 1e6) : 100;
	doctor_say(d, share < SPEED_PERCENT ? WARNING : OK, "path", put ? "put" : "get",
		   share < SPEED_PERCENT ? "rftp bench --time 20s --both URL" : NULL,
		   "%s over %s, %u channel%s%s%s", format_rate(text, sizeof(text), rate),
		   transport_name(a->transport), r->nchannels, plural(r->nchannels),
		   slow < STAGES ? ", held back by " : "", slow < STAGES ? stage_name(slow) : "");
	return rate;
}

static void check_ways(struct doctor *d, struct server *s)
{
	bool rdma = fact_get(d->here.facts, "rdma", 0) && fact_get(d->there.facts, "rdma", 0);
	uint64_t need, flight;
	char want[32], have[32];

	d->put = check_way(d, s, true);
	if (server_connected(s))
		d->get = check_way(d, s, false);
	if (!d->measured)
		return;

	if (d->agreement.transport == TRANSPORT_INBAND && d->job->o.transport == USE_AUTO)
		doctor_say(d, WRONG, "path", "data ports",
			   "there: rftpd --data-ports LO-HI, and open these "
			   "ports in the firewall",
			   "they cannot be reached: data goes over the control "
			   "connection");
	else
		doctor_say(d, OK, "path", "data ports", NULL, "reachable, over %s",
			   transport_name(d->agreement.transport));
	if (rdma && d->agreement.transport != TRANSPORT_RDMA && d->job->o.transport == USE_AUTO)
		doctor_say(d, WARNING, "path", "RDMA", "rftp bench --transport rdma URL",
			   "both ends have RDMA, but data goes over %s",
			   transport_name(d->agreement.transport));

	need = (uint64_t)((double)d->mbps * 1e6 / 8 * (double)d->rtt_ns / 1e9);
	flight = (uint64_t)d->agreement.block * d->agreement.inflight * d->agreement.paths;
	format_size(want, sizeof(want), need);
	format_size(have, sizeof(have), flight);
	if (!d->mbps)
		doctor_say(d, UNKNOWN, "path", "memory", NULL,
			   "%s in flight; the need is not known, because "
			   "no card tells its speed",
			   have);
	else if (flight < need)
		doctor_say(d, WARNING, "path", "memory",
			   d->agreement.capped ? d->agreement.capped : "--memory SIZE",
			   "%s in flight are less than speed times RTT, %s", have, want);
	else
		doctor_say(d, OK, "path", "memory", NULL,
			   "%s in flight are enough: speed times RTT is %s", have, want);
}

/* The speed of the slower card of the path, in Mbit/s; 0: not known. */
static uint64_t path_speed(const struct doctor *d)
{
	int64_t a = fact_number(side_card(&d->here), "mbps"),
		b = fact_number(side_card(&d->there), "mbps");

	return a > 0 && (b <= 0 || a < b) ? (uint64_t)a : b > 0 ? (uint64_t)b : 0;
}

static double clock_s(void)
{
	return (double)clock_ns(CLOCK_REALTIME) / 1e9;
}

/* Check the connected server s, an rftpd. */
static void check_there(struct doctor *d, struct server *s, const char *path)
{
	struct err e = ERR_INIT;
	double before;

	check_rtt(d, s);
	before = clock_s();
	d->there.facts = ask_facts(s, NULL, &e);
	if (d->there.facts) {
		d->there.card = json_string_value(
			json_object_get(fact_get(d->there.facts, "path", 0), "card"));
		check_version(d);
		check_clock(d, before, clock_s());
		check_mtu(d);
	} else {
		doctor_say(d, UNKNOWN, "there", "facts", NULL, "%s", e.text);
	}
	d->mbps = path_speed(d);
	if (server_connected(s))
		check_ways(d, s);

	e = (struct err)ERR_INIT;
	if (d->there.facts && server_connected(s)) {
		d->there.later = ask_facts(s, path, &e);
		if (!d->there.later)
			doctor_say(d, UNKNOWN, "there", "storage", NULL, "%s", e.text);
	}
	d->here.later = facts_read(NULL, 0, &e);
}

static void check_server(struct doctor *d, struct server *s, const struct url *p)
{
	struct err e = ERR_INIT;

	d->host = p->host;
	if (p->kind != URL_SSH && !check_port(d, p))
		return;
	if (server_connect(s, &e)) {
		doctor_say(d, WRONG, "path", "login",
			   e.code == -EKEYREJECTED ? "rftp ls --accept-new URL" : NULL, "%s",
			   e.text);
		return;
	}
	if (s->foreign) {
		doctor_say(d, OK, "path", "login", NULL, "%s accepts it", printable(p->host));
		doctor_say(d, UNKNOWN, "there", "facts", NULL,
			   "only rftpd tells the facts of its machine");
		return;
	}
	doctor_say(d, OK, "path", "login", NULL, "%s%s", s->client->describe,
		   s->o.ca ? ", certificate checked" :
		   s->pin  ? ", known key" :
			     "");
	check_here(d, &s->client->peer, &e);
	check_there(d, s, server_path(p));
}

/* ---- the command ---- */

static enum exit_status conclude(struct doctor *d)
{
	enum exit_status status = signals_stopped() ? EXIT_INTERRUPTED :
				  d->count[WRONG]   ? EXIT_SOME_FAILED :
						      EXIT_DONE;

	if (d->job->o.json)
		json_emit(stdout,
			  json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "event", "summary", "ok",
				    d->count[OK], "unknown", d->count[UNKNOWN], "warning",
				    d->count[WARNING], "wrong", d->count[WRONG], "exit", status));
	else
		printf("%u ok, %u unknown, %u warning%s, %u wrong\n", d->count[OK],
		       d->count[UNKNOWN], d->count[WARNING], d->count[WARNING] == 1 ? "" : "s",
		       d->count[WRONG]);
	json_decref(d->here.facts);
	json_decref(d->here.later);
	json_decref(d->there.facts);
	json_decref(d->there.later);
	return status;
}

enum exit_status command_doctor(struct job *j)
{
	struct doctor d = { .job = j,
			    .here.name = "here",
			    .there.name = "there",
			    .time_ns = j->o.bench_ns ? j->o.bench_ns : MEASURE_NS };
	bool remote = j->nwords && word_is_remote(j->words[j->nwords - 1]);
	struct server *s = NULL;
	struct err e = ERR_INIT;
	struct url p = { 0 };

	d.dir = j->nwords > remote ? j->words[0] : ".";
	if (j->nwords == 2 && !remote)
		return usage_error(j, "the second word must be the URL of a server");
	if (remote && url_of_server(j->words[j->nwords - 1], &p, &e))
		return usage_error(j, "%s", e.text);
	if (remote) {
		s = server_take(j, &p, &e);
		if (!s) {
			url_clear(&p);
			return e.code == -EINVAL ? usage_error(j, "%s", e.text) : failed(&e, false);
		}
		check_server(&d, s, &p);
	}
	e = (struct err)ERR_INIT;
	if (!d.here.facts && check_here(&d, NULL, &e)) {
		doctor_say(&d, UNKNOWN, "here", "facts", NULL, "%s", e.text);
	} else if (!signals_stopped()) {
		add_own(&d);
		doctor_check_side(&d, &d.here);
		doctor_check_side(&d, &d.there);
	}
	server_give(j, s);
	url_clear(&p);
	return conclude(&d);
}
