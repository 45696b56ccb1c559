// SPDX-License-Identifier: Apache-2.0
/* A session: its login, BULK transfers, and the log of its transfers. */
#include "server/session/session.h"
#include "server/auth/auth.h"
#include "server/monitor/msg.h"
#include "server/server.h"

#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <netinet/in.h>

/* ---- login ---- */

/* Become the user before opening the root, because maybe only that user can open it. */
static int session_enter_account(struct session *s, const struct auth_answer *answer,
				 struct ftp_account *a, struct err *e)
{
	int rc = login_become(answer, e);

	s->method = answer->method;
	if (rc < 0) {
		log_error("session of %s from %s: %s", printable(answer->name), s->peer_text,
			  e->text);
		return rc;
	}

	rc = login_enter(answer, s->peer_text, a, e);
	if (rc < 0)
		return rc;

	root_set_parts_age(a->root, s->sv->opt.parts_age / 1000000000);
	return 0;
}

static int session_check_password(struct session *s, const struct auth_ask *ask,
				  struct auth_answer *answer, struct err *e)
{
	int rc = channel_await_login(s->monitor, ask->user, s->fd, NULL, e), sent;
	struct check_report report = { .code = 0 };
	uint64_t began = now_ns();

	memset(answer, 0, sizeof(*answer));
	if (rc < 0)
		return rc;

	rc = login_check(&s->sv->opt, s->peer_text, ask, answer, e);
	report.code = rc;
	sent = channel_send(s->monitor, REQUEST_REPORT, &report, sizeof(report), -1);
	if (rc == -EACCES)
		auth_fill_up(began);
	if (rc < 0 || sent == 0)
		return rc;
	return err_sys(e, sent, "cannot report to the monitor");
}

static int session_login(void *arg, const char *user, const char *password, struct ftp_account *a,
			 struct err *e)
{
	struct auth_ask ask = { .user = user, .password = password };
	struct session *s = arg;
	struct auth_answer answer;
	int rc;

	if (s->handed) {
		*a = *s->account;
		*s->account = (struct ftp_account){ .root = NULL };
		root_set_parts_age(a->root, s->sv->opt.parts_age / 1000000000);
		return 0;
	}

	rc = user ? session_check_password(s, &ask, &answer, e) :
		    login_self(&s->sv->opt, &answer, e);
	if (rc == 0)
		rc = session_enter_account(s, &answer, a, e);
	if (rc == 0 && !user)
		log_info("login of %s from %s", printable(a->name), s->peer_text);
	auth_answer_clear(&answer);
	return rc;
}

static int session_cert_login(void *arg, const char *user, struct tls *tls, struct ftp_account *a,
			      struct err *e)
{
	CLEANUP_FREE char *pin = tls_peer_pin(tls);
	CLEANUP_FREE char *subject = tls_peer_subject(tls);
	struct auth_ask ask = { .user = user, .pin = pin, .subject = subject };
	struct session *s = arg;
	struct auth_answer answer;
	int rc;

	/* No certificate: log nothing, because the client may log in by password. */
	if (!pin)
		return -EACCES;
	if (tls_peer_validity(tls, e) < 0) {
		certificate_refused(user, s->peer_text, pin, e->text);
		return -EACCES;
	}

	rc = login_check(&s->sv->opt, s->peer_text, &ask, &answer, e);
	if (rc == 0)
		rc = session_enter_account(s, &answer, a, e);
	auth_answer_clear(&answer);
	return rc;
}

/* ---- reports and questions to the monitor ---- */

enum { REPORT_EVERY_NS = 1000000000, REPORT_MS = 10 * 1000, ANSWER_MS = 60 * 1000 };

int srv_monitor_ask(const struct channel *c, enum request_type type, const void *q, size_t q_len,
		    void *answer, size_t len)
{
	int rc = channel_send(c, type, q, q_len, ANSWER_MS);

	if (rc == 0)
		rc = msg_receive(c->down, answer, len, NULL, ANSWER_MS);

	/* Shut the channel: a late answer would be read as the answer to the next request. */
	if (rc == -ETIMEDOUT)
		shutdown(c->down, SHUT_RDWR);
	return rc;
}

static void on_logged_in(void *arg, struct ftp_session *fs)
{
	struct session *s = arg;
	struct session_report r = { ftp_session_secret(fs), s->method, "" };

	snprintf(r.name, sizeof(r.name), "%s", ftp_session_account(fs)->name);
	if (s->monitor)
		channel_send(s->monitor, REQUEST_SESSION, &r, sizeof(r), REPORT_MS);
}

/* If the monitor is slow, a later report of a running transfer will do. */
static void report_transfer(struct session *s, enum transfer_state state, uint64_t bytes,
			    uint64_t files)
{
	bool runs = state == TRANSFER_RUNS;

	if (!s->monitor || (runs && now_ns() - s->reported < REPORT_EVERY_NS))
		return;
	s->report.state = state;
	s->report.bytes = bytes;
	s->report.files = files;
	s->reported = now_ns();
	channel_send(s->monitor, REQUEST_TRANSFER, &s->report, sizeof(s->report),
		     runs ? 0 : REPORT_MS);
}

void srv_report_begin(struct session *s, bool sends, uint32_t carrier, const char *path)
{
	s->report = (struct transfer_report){ .sends = sends, .carrier = carrier };
	snprintf(s->report.path, sizeof(s->report.path), "%s", path);
	report_transfer(s, TRANSFER_BEGINS, 0, 0);
}

void srv_on_progress(void *arg, const struct transfer_progress *p, const struct agreement *a)
{
	struct session *s = arg;

	s->report.carrier = a->transport;
	report_transfer(s, TRANSFER_RUNS, p->bytes - p->bytes_kept, p->files_done);
}

/* ---- the log of transfers ---- */

static void log_transfer(const struct session *s, struct ftp_session *fs, const char *verb,
			 const char *path, uint64_t bytes, double seconds, const char *result)
{
	const struct ftp_account *a = ftp_session_account(fs);
	const char *user = a ? a->name : "?";
	struct log_field fields[] = {
		LOG_NAME("event", "transfer"), LOG_NAME("verb", verb), LOG_NAME("path", path),
		LOG_NAME("user", user), LOG_NAME("peer", s->peer_text), LOG_NUMBER("bytes", bytes),
		LOG_REAL("seconds", seconds), LOG_NAME("result", result),
	};
	char rate[32];

	log_event(LOG_LV_INFO, fields, sizeof(fields) / sizeof(fields[0]),
		  "%s \"%s\" by %s from %s: %" PRIu64 " bytes in %.3f s, %s: %s", verb,
		  printable(path), printable(user), s->peer_text, bytes, seconds,
		  format_rate(rate, sizeof(rate), seconds > 0 ? (double)bytes / seconds : 0),
		  result);
}

void srv_log_result(struct session *s, struct ftp_session *fs, const char *verb,
		    const char *path, const struct transfer_result *res, int rc,
		    const struct err *e)
{
	log_transfer(s, fs, verb, path, res->bytes, (double)res->wall_ns / 1e9,
		     rc < 0 ? e->text : res->failed ? "some files failed" : "ok");
	s->report.carrier = res->agreement.transport;
	s->report.failed = res->failed;
	s->report.code = rc < 0 ? rc : 0;
	report_transfer(s, TRANSFER_ENDS, res->bytes, res->files);
}

static void on_ftp_moving(void *arg, struct ftp_session *fs, const char *verb, const char *path,
			  uint64_t bytes)
{
	if (!bytes)
		srv_report_begin(arg, !strcmp(verb, "RETR"), BY_FTP, path);
	else
		report_transfer(arg, TRANSFER_RUNS, bytes, 0);
}

static void on_ftp_transferred(void *arg, struct ftp_session *fs, const char *verb,
			       const char *path, uint64_t bytes, double seconds, int error)
{
	struct session *s = arg;

	log_transfer(s, fs, verb, path, bytes, seconds,
		     error == -ECANCELED ? "aborted" : error < 0 ? strerror(-error) : "ok");
	s->report.failed = error < 0;
	s->report.code = error < 0 ? error : 0;
	report_transfer(s, TRANSFER_ENDS, bytes, error == 0);
}

/* ---- memory from the monitor ---- */

static int share_request(struct session *s, uint64_t total, struct err *e)
{
	struct memory_request q = { .memory = total };
	struct memory_reply a;
	int rc = srv_monitor_ask(s->monitor, REQUEST_MEMORY, &q, sizeof(q), &a, sizeof(a));

	if (rc < 0)
		return monitor_silent(e, rc);

	a.why[sizeof(a.why) - 1] = '\0';
	if (a.code < 0)
		return err_set(e, a.code, "%s; try again later", a.why);
	s->held = a.memory;
	return 0;
}

int share_take(void *session, uint64_t want, uint64_t *got, struct err *e)
{
	struct session *s = session;
	uint64_t before = s->held;
	int rc = share_request(s, before + want, e);

	if (rc == 0 && s->held <= before)
		rc = err_set(e, -EPROTO, "the monitor's answer has no memory");
	*got = rc == 0 ? s->held - before : 0;
	return rc;
}

void share_give_back(void *session, uint64_t bytes)
{
	struct session *s = session;
	struct err e = ERR_INIT;

	if (share_request(s, s->held - bytes, &e) < 0)
		log_warn("the memory of a transfer cannot be returned: %s", e.text);
}

/* ---- BULK ---- */

/* Expand "~" and "~/..." only: the transfer resolves all other paths. */
static int expand_home(struct ftp_session *fs, char **path)
{
	char *full;

	if (!*path || !path_at_home(*path))
		return 0;
	full = ftp_session_path(fs, *path);
	if (!full)
		return -ENOMEM;
	free(*path);
	*path = full;
	return 0;
}

int srv_expand_homes(struct ftp_session *fs, struct bulk_request *r)
{
	int rc = expand_home(fs, &r->base);

	if (rc == 0 && r->sync.trash)
		rc = expand_home(fs, &r->sync.trash);
	for (uint32_t i = 0; rc == 0 && i < r->nsources; i++)
		rc = expand_home(fs, &r->sources[i]);
	return rc;
}

/* May this session run r? 0; or the code of the reply that refuses r, with its text in e. */
static int refuse_bulk(struct ftp_session *fs, const struct bulk_request *r, bool have_key,
		       struct err *e)
{
	/* The right to change files is not checked here: the sink of a put applies it, by
	 * keep_old. */
	static const enum ftp_needs needs[UINT8_MAX + 1] = {
		[BULK_PUT] = FTP_NEEDS_CREATE, [BULK_GET] = FTP_NEEDS_SEE,
		[BULK_BENCH_PUT] = FTP_NEEDS_NOTHING, [BULK_BENCH_GET] = FTP_NEEDS_NOTHING,
	};
	bool removes = r->op == BULK_PUT && (r->sync.flags & SYNC_DELETE);
	const char *why = ftp_account_refuses(ftp_session_account(fs),
					      removes ? FTP_NEEDS_CHANGE : needs[r->op]);

	if (why) {
		err_set(e, -EACCES, "%s", why);
		return 550;
	}
	if (!have_key && !r->has_key) {
		err_set(e, -EPROTO, "The request brings no key, and there is no TLS");
		return 522;
	}

	/* Refuse a key from the client under TLS: only the exported key is known to be secret. */
	if (have_key && r->has_key) {
		err_set(e, -EPROTO, TLS_KEY_WHY);
		return 501;
	}
	return 0;
}

void srv_transfer_config(struct session *s, struct ftp_session *fs,
			 struct transfer_config *c)
{
	const struct srv_options *o = &s->sv->opt;
	const struct ftp_account *a = ftp_session_account(fs);

	*c = (struct transfer_config){
		.ms = ftp_session_stream(fs),
		.root = a->root,
		.cwd = ftp_session_cwd(fs),
		.can_write = a->can_create,
		.keep_old = !a->can_change,
		.data_addr = o->data_address ? o->data_address : "",
		.family = s->ends ? s->ends->peer.ss_family : AF_UNSPEC,
		.local = s->local,
		.port_lo = o->data_ports.lo,
		.port_hi = o->data_ports.hi,
		.prot_min = (uint8_t)o->prot_min,
		.stop = -1,
		.tuning = o->tuning,
	};
	if (s->counted)
		c->budget = (struct transfer_budget){ .take = share_take,
						      .give_back = share_give_back,
						      .arg = s };
	c->watch = srv_on_progress;
	c->watch_arg = s;
	c->tuning.umask = a->umask;
	if (s->memory)
		c->tuning.memory = s->memory;
}

static int serve_bulk(struct session *s, struct ftp_session *fs, struct bulk_request *r,
		      const uint8_t *master, struct transfer_result *res)
{
	static const char *const verbs[] = {
		[BULK_PUT] = "put", [BULK_GET] = "get",
		[BULK_BENCH_PUT] = "bench put", [BULK_BENCH_GET] = "bench get",
	};
	/* A log line has one path: the destination, or the first source. */
	bool from_source = r->op == BULK_GET && r->nsources && !*r->base;
	const char *path = from_source ? r->sources[0] : r->base ? r->base : "";
	struct transfer_config c;
	struct err e = ERR_INIT;
	bool in_line = false;
	int rc;

	srv_transfer_config(s, fs, &c);
	c.request = *r;
	c.master = master;
	rc = ftp_session_reply(fs, 150, "Frames follow");
	if (rc < 0)
		return rc;

	srv_report_begin(s, r->op == BULK_GET || r->op == BULK_BENCH_GET, 0, path);
	rc = transfer_serve(&c, res, &in_line, &e);
	srv_log_result(s, fs, r->op < sizeof(verbs) / sizeof(verbs[0]) ? verbs[r->op] : "bulk",
		       path, res, rc, &e);

	if (rc < 0 && !in_line)
		return rc;
	if (rc < 0)
		return ftp_session_reply(fs, 451, "%s", e.text);
	return ftp_session_reply(fs, 226, "%" PRIu64 " file%s, %" PRIu64 " failed, %" PRIu64
				 " bytes", res->files, plural(res->files), res->failed, res->bytes);
}

int srv_refuse_malformed(const struct session *s, struct ftp_session *fs, int rc,
			 const struct err *e)
{
	log_warn("malformed request from %s: %s", s->peer_text, e->text);
	return ftp_session_reply(fs, rc == -EPROTONOSUPPORT ? 504 : 501, "%s",
				 *e->text ? e->text : MALFORMED_WHY);
}

/* Run a BULK command. The FTP server calls this after the login only. */
static int on_bulk(void *arg, struct ftp_session *fs, struct buf *body)
{
	CLEANUP_FREE struct transfer_result *res = calloc(1, sizeof(*res));
	struct bulk_request r = { 0 };
	struct session *s = arg;
	uint8_t key[KEY_BYTES];
	struct err e = ERR_INIT;
	bool have_key = ftp_session_key(fs, key) == 0;
	int rc = bulk_request_get(body, &r, &e), code;

	if (rc < 0)
		return srv_refuse_malformed(s, fs, rc, &e);
	code = refuse_bulk(fs, &r, have_key, &e);
	if (code)
		rc = ftp_session_reply(fs, code, "%s", e.text);
	else if (!res || srv_expand_homes(fs, &r) < 0)
		rc = ftp_session_reply(fs, 451, NO_MEMORY);
	else
		rc = serve_bulk(s, fs, &r, have_key ? key : NULL, res);
	crypto_wipe(key, sizeof(key));
	bulk_request_clear(&r);
	malloc_trim(0); /* return memory to the kernel: the session may be idle for hours */
	return rc;
}

/* ---- the connection ---- */

void srv_ftp_config(const struct server *sv, const struct ends *ends,
		    struct ftp_server_config *c)
{
	const struct srv_options *o = &sv->opt;

	*c = (struct ftp_server_config){
		.greeting = "rftpd " PACKAGE_VERSION " ready",
		.data_addr = "",
		.port_lo = o->data_ports.lo,
		.port_hi = o->data_ports.hi,
		.login_timeout_ms = (int)(o->login_timeout / 1000000),
		.idle_timeout_ms = (int)(o->idle_timeout / 1000000),
		.bulk = on_bulk,
		.moving = on_ftp_moving,
		.transferred = on_ftp_transferred,
		.stop = &srv_stop,
		.trusted = !ends,
	};
	if (o->third_party != THIRD_PARTY_OFF) {
		c->give = srv_give;
		c->take = srv_take;
	}
	if (ends) {
		c->require_tls = !o->plain;
		c->active = o->active;
		c->require_prot = o->prot_min > PROT_CLEAR;
		c->local = &ends->local;
	}
}

static struct stream *guard_ftp_data(void *arg, int fd, struct err *e)
{
	const struct session *s = arg;

	return guard_data(s->line, fd, e);
}

/* Serve the connection st, which is taken; fd is the descriptor that st reads from. */
static int session_serve(struct session *s, struct stream *st, int fd)
{
	const struct srv_options *o = &s->sv->opt;
	struct mstream *ms = st ? ms_new(st) : NULL;
	const struct nic_rule *nic;
	const char *ssh = getenv("SSH_CONNECTION");
	char ssh_local[INET6_ADDRSTRLEN];
	struct ftp_server_config c;
	struct err e = ERR_INIT;
	int rc;

	if (!ms) {
		log_error("%s: " NO_MEMORY, s->peer_text);
		stream_free(st);
		return EXIT_FAILURE;
	}

	srv_ftp_config(s->sv, s->ends, &c);
	c.login = session_login;
	c.logged_in = on_logged_in;
	c.status = srv_status;
	c.facts = srv_facts;
	c.arg = s;

	/* FTP's data connections use the network card of the control connection, so its port range
	 * applies. */
	nic = s->ends ? nic_rule_at(&o->tuning.nic_rules, &s->ends->local) : NULL;
	if (nic && nic->ports.hi) {
		c.port_lo = nic->ports.lo;
		c.port_hi = nic->ports.hi;
	}
	if (s->handed) {
		c.handed = s->handed;
		c.guard = guard_ftp_data;
	} else if (s->ends) {
		c.tls = s->sv->state.tls;
		c.cert_login = o->certificates ? session_cert_login : NULL;
	}

	/* sshd(8): "client port server port". The server's address is used only to choose a network
	 * card. */
	if (s->ends)
		s->local = s->ends->local;
	else if (ssh && sscanf(ssh, "%*s %*s %45s", ssh_local) == 1)
		address_parse(ssh_local, &s->local);

	rc = ftp_serve(&c, ms, fd, s->ends ? &s->ends->peer : NULL, &e);
	if (rc < 0)
		log_info("%s: %s", s->peer_text, *e.text ? e.text : strerror(-rc));
	else
		log_debug("%s: the session is over", s->peer_text);

	/* With separate processes, EOF alone does not mean a clean end, so shut down explicitly. */
	if (s->handed)
		ms_shutdown(ms);
	ms_free(ms);
	return EXIT_SUCCESS;
}

int srv_session(const struct server *sv, int fd, const struct ends *ends, struct channel *monitor)
{
	struct session s = { .sv = sv, .ends = ends, .monitor = monitor, .fd = fd };
	int status;

	sockaddr_text(&ends->peer, s.peer_text);
	log_debug("connection from %s", s.peer_text);
	status = session_serve(&s, stream_plain(fd, fd), fd);
	channel_close(monitor);
	return status;
}

int srv_session_handed(struct session *s, int fd)
{
	sockaddr_text(&s->ends->peer, s->peer_text);
	return session_serve(s, stream_packets(fd), fd);
}

/* Move the protocol to another descriptor, and put /dev/null in its place, so that output of a
 * library cannot damage the protocol. */
static int move_standard_fd(int fd, int flags)
{
	int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int null = open("/dev/null", flags | O_CLOEXEC);

	if (moved >= 0 && null >= 0)
		dup2(null, fd);
	if (null >= 0)
		close(null);
	return moved;
}

int srv_session_stdio(const struct server *sv)
{
	struct session s = { .sv = sv };
	int in = move_standard_fd(STDIN_FILENO, O_RDONLY);
	int out = move_standard_fd(STDOUT_FILENO, O_WRONLY);

	sockaddr_text(NULL, s.peer_text);
	if (in < 0 || out < 0) {
		log_error("standard input and output are not open");
		return EXIT_FAILURE;
	}
	return session_serve(&s, stream_plain(in, out), in);
}
