// SPDX-License-Identifier: Apache-2.0
/* One connection: policy for control's server half, and the bulk mode. */
#include "server/session.h"
#include "rdma/rdma.h"
#include "server/guard.h"
#include "server/login.h"
#include "server/monitor.h"
#include "server/msg.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *srv_peer_text(const struct sockaddr_storage *peer, char out[80])
{
	char addr[INET6_ADDRSTRLEN] = "?";
	const struct sockaddr_in6 *a6 = (const void *)peer;
	const struct sockaddr_in *a4 = (const void *)peer;

	if (!peer) {
		snprintf(out, 80, "stdio");
	} else if (peer->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &a6->sin6_addr, addr, sizeof(addr));
		snprintf(out, 80, "[%s]:%u", addr, ntohs(a6->sin6_port));
	} else {
		inet_ntop(AF_INET, &a4->sin_addr, addr, sizeof(addr));
		snprintf(out, 80, "%s:%u", addr, ntohs(a4->sin_port));
	}
	return out;
}

/* ---- login ---- */

/* The root is opened with his rights: there may be none to open it with others'. */
static int enter(struct session *s, const struct auth_answer *who, struct ftp_account *a,
		 struct err *e)
{
	int rc = login_become(who, e);

	s->anonymous = who->method == AUTH_ANONYMOUS;
	if (rc == 0)
		rc = login_enter(who, s->peer_text, a, e);
	else
		log_error("session of %s from %s: %s", printable(who->name), s->peer_text,
			  e->text);
	if (rc == 0)
		root_set_parts_age(a->root, s->sv->opt.parts_age / 1000000000);
	return rc;
}

/* Sleeps while the monitor lets others check their passwords. */
static int await_turn(struct session *s, const char *user, struct err *e)
{
	struct front_answer a = { .code = 0 };
	struct front_ask ask = { { 0 } };
	int rc;

	snprintf(ask.user, sizeof(ask.user), "%s", user);
	rc = msg_send(s->monitor, &ask, sizeof(ask), -1, -1);
	if (rc == 0)
		rc = msg_await(s->monitor, s->fd);
	if (rc == -ECONNRESET)
		return err_set(e, rc, "the client left while its login waited");
	if (rc == 0)
		rc = msg_receive(s->monitor, &a, sizeof(a), NULL, -1);
	if (rc < 0)
		return err_sys(e, rc, "no answer from the monitor");
	return a.code < 0 ? err_sys(e, a.code, "login") : 0;
}

static int end_turn(struct session *s, int code, struct err *e)
{
	struct gate_report r = { .code = code };
	int rc = msg_send(s->monitor, &r, sizeof(r), -1, -1);

	return rc < 0 ? err_sys(e, rc, "no line to the monitor") : 0;
}

static int check_password(struct session *s, const struct auth_ask *ask, struct auth_answer *who,
			  struct err *e)
{
	int rc = await_turn(s, ask->user, e), told;
	struct err why = ERR_INIT;
	uint64_t began = now_ns();

	memset(who, 0, sizeof(*who));
	if (rc < 0)
		return rc;
	rc = login_check(&s->sv->opt, s->peer_text, ask, who, e);
	told = end_turn(s, rc, &why);
	if (rc == -EACCES)
		auth_fill_up(began);
	if (rc < 0 || told == 0)
		return rc;
	*e = why;
	return told;
}

/* Into what control wants: the account is opened in this process, or was before. */
static int login(void *arg, const char *user, const char *password, struct ftp_account *a,
		 struct err *e)
{
	struct auth_ask ask = { .user = user, .password = password };
	struct session *s = arg;
	struct auth_answer who;
	int rc;

	if (s->handed) {
		*a = *s->handed->account;
		*s->handed->account = (struct ftp_account){ .root = NULL };
		root_set_parts_age(a->root, s->sv->opt.parts_age / 1000000000);
		return 0;
	}
	rc = user ? check_password(s, &ask, &who, e) : login_self(&s->sv->opt, &who, e);
	if (rc == 0)
		rc = enter(s, &who, a, e);
	if (rc == 0)
		cleanup_close(&s->monitor);
	if (rc == 0 && !user)
		log_info("login of %s from %s", printable(a->name), s->peer_text);
	auth_answer_clear(&who);
	return rc;
}

static int cert_login(void *arg, const char *user, struct tls *tls, struct ftp_account *a,
		      struct err *e)
{
	CLEANUP_FREE char *pin = tls_peer_pin(tls);
	CLEANUP_FREE char *subject = tls_peer_subject(tls);
	struct auth_ask ask = { .user = user, .pin = pin, .subject = subject };
	struct session *s = arg;
	struct auth_answer who;
	int rc;

	/* Who has none has said nothing wrong. */
	if (!pin)
		return -EACCES;
	if (tls_peer_validity(tls, e) < 0) {
		log_warn("login of \"%s\" from %s by certificate %s: %s", printable(user),
			 s->peer_text, pin, e->text);
		return -EACCES;
	}
	rc = login_check(&s->sv->opt, s->peer_text, &ask, &who, e);
	if (rc == 0)
		rc = enter(s, &who, a, e);
	if (rc == 0)
		cleanup_close(&s->monitor);
	auth_answer_clear(&who);
	return rc;
}

/* ---- the log of transfers ---- */

void srv_log_transfer(const struct session *s, const char *who, const char *what,
		      const char *path, uint64_t bytes, double seconds, const char *result)
{
	struct log_field fields[] = {
		LOG_NAME("event", "transfer"), LOG_NAME("verb", what), LOG_NAME("path", path),
		LOG_NAME("user", who), LOG_NAME("peer", s->peer_text), LOG_NUMBER("bytes", bytes),
		LOG_REAL("seconds", seconds), LOG_NAME("result", result),
	};
	char rate[32];

	log_event(LOG_LV_INFO, fields, sizeof(fields) / sizeof(fields[0]),
		  "%s \"%s\" by %s from %s: %" PRIu64 " bytes in %.3f s, %s: %s", what,
		  printable(path), printable(who), s->peer_text, bytes, seconds,
		  format_rate(rate, sizeof(rate), seconds > 0 ? (double)bytes / seconds : 0),
		  result);
}

static void transferred(void *arg, struct ftp_session *fs, const char *verb, const char *path,
			uint64_t bytes, double seconds, int error)
{
	const struct ftp_account *a = ftp_session_account(fs);

	srv_log_transfer(arg, a ? a->name : "?", verb, path, bytes, seconds,
			 error == -ECANCELED ? "aborted" : error < 0 ? strerror(-error) : "ok");
}

/* ---- bulk ---- */

static const char *op_name(uint8_t op)
{
	static const char *const names[] = {
		[BULK_PUT] = "put", [BULK_GET] = "get",
		[BULK_BENCH_PUT] = "bench put", [BULK_BENCH_GET] = "bench get",
	};

	return op < sizeof(names) / sizeof(names[0]) ? names[op] : "bulk";
}

/* The one path of the log: the destination, or the first source. */
static const char *subject(const struct bulk_request *r)
{
	if (r->op == BULK_GET && r->nsources && !*r->base)
		return r->sources[0];
	return r->base ? r->base : "";
}

/* "~" is the account's home; everything else is resolved by who serves the request. */
static int expand_home(struct ftp_session *fs, char **path)
{
	char *full;

	if (!*path || (*path)[0] != '~' || ((*path)[1] && (*path)[1] != '/'))
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

	for (uint32_t i = 0; rc == 0 && i < r->nsources; i++)
		rc = expand_home(fs, &r->sources[i]);
	return rc;
}

/* 0, or the code of the reply that refuses it, with its text in e. */
static int check_request(const struct session *s, struct ftp_session *fs,
			 const struct bulk_request *r, bool have_key, struct err *e)
{
	/* What a put changes its sink decides, by keep_old. */
	static const enum ftp_needs needs[UINT8_MAX + 1] = {
		[BULK_PUT] = FTP_NEEDS_CREATE, [BULK_GET] = FTP_NEEDS_SEE,
		[BULK_BENCH_PUT] = FTP_NEEDS_NOTHING, [BULK_BENCH_GET] = FTP_NEEDS_NOTHING,
	};
	const char *why = ftp_account_refuses(ftp_session_account(fs), needs[r->op]);

	if (why) {
		err_set(e, -EACCES, "%s", why);
		return 550;
	}
	if (!have_key && !r->has_key) {
		err_set(e, -EPROTO, "The request brings no key, and there is no TLS");
		return 522;
	}
	/* The client's key would be one that a listener on the line has, too. */
	if (have_key && r->has_key) {
		err_set(e, -EPROTO, "Under TLS the key is exported, not sent");
		return 501;
	}
	return 0;
}

void srv_tuning(const struct server *sv, struct transfer_tuning *t)
{
	static const enum page_choice pages[] = { PAGES_AUTO, PAGES_HUGE, PAGES_SMALL };

	transfer_tuning_default(t);
	t->rdma = VERBS_TRANSPORT;
	if (sv->opt.memory)
		t->memory = sv->opt.memory;
	t->umask = sv->opt.umask;
	t->nics = sv->opt.nic;
	t->nic_rules = (struct nic_rules){ sv->opt.nics, sv->opt.nnics };
	t->poll = sv->opt.poll;
	t->stall_ms = (uint32_t)(sv->opt.stall / 1000000);
	t->place = sv->opt.place;
	t->balance_percent = sv->opt.balance_percent;
	t->balance_ns = sv->opt.balance_ns;
	t->pages = pages[sv->opt.hugepages];
	t->tos = sv->opt.tos;
	t->congestion = sv->opt.congestion;
}

void srv_transfer_config(struct session *s, struct ftp_session *fs,
			 struct transfer_server_config *c)
{
	*c = (struct transfer_server_config){
		.ms = ftp_session_stream(fs),
		.root = ftp_session_account(fs)->root,
		.cwd = ftp_session_cwd(fs),
		.can_write = ftp_session_account(fs)->can_create,
		.keep_old = !ftp_session_account(fs)->can_change,
		.data_addr = s->sv->opt.data_address ? s->sv->opt.data_address : "",
		.family = s->peer ? s->peer->ss_family : AF_UNSPEC,
		.local = s->local,
		.port_lo = s->sv->opt.data_ports.lo,
		.port_hi = s->sv->opt.data_ports.hi,
		.prot_min = (uint8_t)s->sv->opt.prot_min,
		.stop = -1,
	};
	srv_tuning(s->sv, &c->tuning);
	c->tuning.umask = ftp_session_account(fs)->umask;
	if (s->handed && s->handed->memory)
		c->tuning.memory = s->handed->memory;
	c->purse = loan_purse(&s->loan);
	c->tuning.at_once = ftp_session_lanes(fs);
}

static int serve_request(struct session *s, struct ftp_session *fs, struct bulk_request *r,
			 const uint8_t *master, struct transfer_result *res)
{
	struct transfer_server_config c;
	struct err e = ERR_INIT;
	bool in_line = false;
	int rc;

	srv_transfer_config(s, fs, &c);
	c.request = r;
	c.master = master;
	rc = ftp_session_reply(fs, 150, "Frames follow");
	if (rc < 0)
		return rc;
	rc = transfer_serve(&c, res, &in_line, &e);
	srv_log_transfer(s, ftp_session_account(fs)->name, op_name(r->op), subject(r),
			 res->bytes, (double)res->wall_ns / 1e9,
			 rc < 0 ? e.text : res->failed ? "some files failed" : "ok");
	if (rc < 0 && !in_line)
		return rc;
	if (rc < 0)
		return ftp_session_reply(fs, 451, "%s", e.text);
	return ftp_session_reply(fs, 226, "%" PRIu64 " files, %" PRIu64 " failed, %" PRIu64
				 " bytes", res->files, res->failed, res->bytes);
}

/* fs is logged in: control has seen to that. */
static int bulk(void *arg, struct ftp_session *fs, struct buf *body)
{
	CLEANUP_FREE struct transfer_result *res = calloc(1, sizeof(*res));
	struct bulk_request r = { 0 };
	struct session *s = arg;
	uint8_t key[KEY_BYTES];
	struct err e = ERR_INIT;
	bool have_key = ftp_session_key(fs, key) == 0;
	int rc = bulk_request_get(body, &r, &e), code;

	if (rc < 0) {
		log_warn("bad request from %s: %s", s->peer_text, e.text);
		return ftp_session_reply(fs, rc == -EPROTONOSUPPORT ? 504 : 501, "%s",
					 *e.text ? e.text : "The request is malformed");
	}
	code = check_request(s, fs, &r, have_key, &e);
	if (code)
		rc = ftp_session_reply(fs, code, "%s", e.text);
	else if (!res || srv_expand_homes(fs, &r) < 0)
		rc = ftp_session_reply(fs, 451, "Out of memory");
	else
		rc = serve_request(s, fs, &r, have_key ? key : NULL, res);
	crypto_wipe(key, sizeof(key));
	bulk_request_clear(&r);
	malloc_trim(0); /* what a session waits for may be hours away */
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
		.bulk = bulk,
		.transferred = transferred,
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

static struct stream *guard(void *arg, int fd, struct err *e)
{
	const struct session *s = arg;

	return guard_data(s->handed->line, fd, e);
}

/* FTP's data connections come by the card that the control connection has come by. */
static void use_ports_of_card(const struct session *s, struct ftp_server_config *c)
{
	const struct nic_rules rules = { s->sv->opt.nics, s->sv->opt.nnics };
	struct sockaddr_storage local;
	const struct nic_rule *r;

	srv_unmap(&s->ends->local, &local);
	r = nic_rule_at(&rules, &local);
	if (r && r->ports.hi) {
		c->port_lo = r->ports.lo;
		c->port_hi = r->ports.hi;
	}
}

static void configure(struct session *s, struct ftp_server_config *c)
{
	srv_ftp_config(s->sv, s->ends, c);
	if (s->ends)
		use_ports_of_card(s, c);
	c->login = login;
	c->arg = s;
	if (!s->handed) {
		c->tls = s->ends ? s->sv->state.tls : NULL;
		c->cert_login = s->ends && s->sv->opt.certificates ? cert_login : NULL;
		return;
	}
	c->handed = &s->handed->handed;
	c->guard = guard;
}

/* sshd(8): "client port server port". What it says of the server helps to choose a network
 * card, no more. */
static void note_ssh(struct session *s)
{
	const char *said = getenv("SSH_CONNECTION");
	char server[INET6_ADDRSTRLEN];

	if (said && sscanf(said, "%*s %*s %45s", server) == 1)
		address_parse(server, &s->local);
}

void srv_unmap(const struct sockaddr_storage *from, struct sockaddr_storage *a)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)from;
	struct sockaddr_in in = { .sin_family = AF_INET };

	*a = *from;
	if (in6->sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr))
		return;
	memcpy(&in.sin_addr, &in6->sin6_addr.s6_addr[12], sizeof(in.sin_addr));
	memset(a, 0, sizeof(*a));
	memcpy(a, &in, sizeof(in));
}

void srv_local_address(int fd, struct sockaddr_storage *a)
{
	struct sockaddr_storage own = { 0 };
	socklen_t len = sizeof(own);

	if (getsockname(fd, (struct sockaddr *)&own, &len))
		memset(&own, 0, sizeof(own));
	srv_unmap(&own, a);
}

/* Takes st over; fd: its descriptor to read from. */
static int serve(struct session *s, struct stream *st, int fd)
{
	struct mstream *ms = st ? ms_new(st) : NULL;
	struct ftp_server_config c;
	struct err e = ERR_INIT;
	int rc;

	if (!ms) {
		log_error("%s: out of memory", s->peer_text);
		stream_free(st);
		return EXIT_FAILURE;
	}
	loan_init(&s->loan, s->handed ? s->handed->monitor : -1);
	configure(s, &c);
	if (s->ends)
		srv_unmap(&s->ends->local, &s->local);
	else
		note_ssh(s);
	rc = ftp_serve(&c, ms, fd, s->peer, &e);
	if (rc < 0)
		log_info("%s: %s", s->peer_text, *e.text ? e.text : strerror(-rc));
	else
		log_debug("%s: the session is over", s->peer_text);
	/* Elsewhere the end of a process is no end that was meant. */
	if (s->handed)
		ms_shutdown(ms);
	ms_free(ms);
	loan_destroy(&s->loan);
	return EXIT_SUCCESS;
}

int srv_session(const struct server *sv, int fd, const struct ends *ends, int monitor)
{
	struct session s = { .sv = sv, .ends = ends, .peer = &ends->peer, .monitor = monitor,
			     .fd = fd };
	int status;

	srv_peer_text(s.peer, s.peer_text);
	log_debug("connection from %s", s.peer_text);
	status = serve(&s, stream_plain(fd, fd), fd);
	cleanup_close(&s.monitor);
	return status;
}

int srv_session_handed(const struct server *sv, int fd, const struct ends *ends,
		       const struct srv_handed *handed)
{
	struct session s = { .sv = sv, .ends = ends, .peer = &ends->peer, .handed = handed,
			     .monitor = -1, .anonymous = handed->anonymous };

	srv_peer_text(s.peer, s.peer_text);
	return serve(&s, stream_packets(fd), fd);
}

/* Ours go elsewhere, so that nothing that writes to standard output by accident breaks the
 * protocol. */
static int take_standard(int fd, int with)
{
	int mine = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	int null = open("/dev/null", with | O_CLOEXEC);

	if (mine >= 0 && null >= 0)
		dup2(null, fd);
	if (null >= 0)
		close(null);
	return mine;
}

int srv_session_stdio(const struct server *sv)
{
	struct session s = { .sv = sv, .monitor = -1 };
	int in = take_standard(STDIN_FILENO, O_RDONLY);
	int out = take_standard(STDOUT_FILENO, O_WRONLY);

	srv_peer_text(NULL, s.peer_text);
	if (in < 0 || out < 0) {
		log_error("standard input and output are not there");
		return EXIT_FAILURE;
	}
	return serve(&s, stream_plain(in, out), in);
}
