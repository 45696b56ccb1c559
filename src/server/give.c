// SPDX-License-Identifier: Apache-2.0
/* GIVE: files of this server go to another one, of which we are the client. Its door, and the
 * token that opens it, come from our own client; the key that the door wants is made here, and
 * never leaves. */
#include "rdma/rdma.h"
#include "server/session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DOOR_MS = 60 * 1000,   /* for our client to learn it from the sink */
	CONNECT_MS = 15 * 1000,
	SLICE_MS = 500,        /* how late the server's stop may be seen */
};

#define GIVE_MEMORY ((uint64_t)128 << 20) /* bytes */

struct give {
	struct session *s;
	struct ftp_session *fs;
	struct third_give g;
	struct third_door door;
	struct relay relay;
	struct committed *committed; /* by earlier attempts, as the client says */
	struct tls_ctx *tls;
	char *pin;                   /* of our key */
	struct transfer_item *items;
	char **paths;                /* what items point to */
	uint32_t nitems;
	struct mstream *ms;          /* to the sink */
	struct sockaddr_storage sink;
	socklen_t sink_len;
	uint8_t key[KEY_BYTES];
	uint8_t where;               /* enum third_where, of a failure */
};

static void give_clear(struct give *v)
{
	ms_free(v->ms);
	committed_free(v->committed);
	tls_ctx_free(v->tls);
	free(v->pin);
	for (uint32_t i = 0; v->paths && i < v->nitems; i++)
		free(v->paths[i]);
	free(v->paths);
	free(v->items);
	third_give_clear(&v->g);
	crypto_wipe(v->key, sizeof(v->key));
	crypto_wipe(&v->door, sizeof(v->door));
}

/* ---- what is given ---- */

/* --files-from: the first is a directory, below which the others are. */
static bool is_list(const struct give *v)
{
	return v->g.request.flags & BULK_F_INTO;
}

static char *path_of(struct give *v, uint32_t i)
{
	char *const *words = v->g.request.sources;
	char *joined, *full;

	if (!is_list(v))
		return ftp_session_path(v->fs, words[i]);
	if (asprintf(&joined, "%s/%s", words[0], words[i + 1]) < 0)
		return NULL;
	full = ftp_session_path(v->fs, joined);
	free(joined);
	return full;
}

static int make_items(struct give *v, struct err *e)
{
	uint32_t n = v->g.request.nsources - (is_list(v) ? 1 : 0);

	v->items = calloc(n ? n : 1, sizeof(*v->items));
	v->paths = calloc(n ? n : 1, sizeof(*v->paths));
	if (!v->items || !v->paths)
		return err_sys(e, -ENOMEM, "sources");
	for (v->nitems = 0; v->nitems < n; v->nitems++) {
		char *path = path_of(v, v->nitems);

		if (!path)
			return err_sys(e, -ENOMEM, "sources");
		v->paths[v->nitems] = path;
		v->items[v->nitems] = (struct transfer_item){ .kind = ITEM_PATH, .path = path };
	}
	return 0;
}

/* ---- the way to the sink ---- */

/* Whose key is at the other end? No byte of ours goes to another. */
static int check_pin(const struct give *v, struct tls *tls, const char *addr, struct err *e)
{
	char *pin CLEANUP_FREE = tls_peer_pin(tls);

	if (pin && !strcmp(pin, v->door.pin))
		return 0;
	return err_set(e, -EKEYREJECTED, "at %s port %u there is somebody else", addr,
		       v->door.port);
}

static void shut_fd(void *arg)
{
	shutdown(*(const int *)arg, SHUT_RDWR);
}

/* tls_start, ended when the client wants to stop. */
static struct tls *shake_hands(struct give *v, int fd, int ms, struct err *e)
{
	struct sentry stop;
	struct tls *tls = NULL;

	if (!sentry_start(&stop, "stop", v->relay.stop, shut_fd, &fd, e))
		tls = tls_start(v->tls, fd, NULL, NULL, ms, e);
	sentry_end(&stop);
	return tls;
}

/* fd is taken over. */
static int greet(struct give *v, int fd, const char *addr, int ms, struct err *e)
{
	struct tls *tls = shake_hands(v, fd, ms, e);
	struct stream *st = NULL;
	int rc = tls ? check_pin(v, tls, addr, e) : err_prefix(e, "%s port %u", addr, v->door.port);

	v->sink_len = sizeof(v->sink);
	if (getpeername(fd, (struct sockaddr *)&v->sink, &v->sink_len))
		v->sink_len = 0;
	v->g.request.offer.rtt_ns = tcp_rtt_ns(fd);
	if (!rc)
		rc = tls_export(tls, "EXPORTER-rftp-bulk-1", v->key, sizeof(v->key));
	if (!rc)
		st = stream_tls(fd, tls);
	v->ms = st ? ms_new(st) : NULL;
	if (v->ms) {
		rc = ms_write(v->ms, v->door.token, sizeof(v->door.token));
		if (rc)
			ms_free(steal_ptr(&v->ms));
		return rc ? err_sys(e, rc, "connection to %s", addr) : 0;
	}
	if (st) {
		stream_free(st);
	} else {
		tls_free(tls);
		close(fd);
	}
	return e->code ? e->code : err_sys(e, rc ? rc : -ENOMEM, "connection to %s", addr);
}

static bool stopped(const struct give *v)
{
	return poll_fd(v->relay.stop, POLLIN, 0) > 0;
}

static int reach(struct give *v, struct err *e)
{
	int ms = v->g.connect_ms ? (int)v->g.connect_ms : CONNECT_MS;
	int rc = err_set(e, -EHOSTUNREACH, "no address of the other server is known");

	for (uint32_t i = 0; rc && !stopped(v) && i < v->door.naddrs; i++) {
		int fd;

		*e = (struct err)ERR_INIT;
		fd = tcp_connect(v->door.addrs[i], v->door.port, v->relay.stop, ms, e);
		rc = fd < 0 ? fd : greet(v, fd, v->door.addrs[i], ms, e);
		if (rc)
			log_info("%s: %s", v->s->peer_text, e->text);
	}
	return rc;
}

/* ---- the transfer ---- */

/* Narrow the client's offer to what this server allows and can do. */
static int narrow_offer(const struct give *v, struct offer *o, struct err *e)
{
	const struct device_transport *rdma = VERBS_TRANSPORT;
	uint8_t prot = v->s->sv->opt.prot_min;

	if (o->prot_min < prot)
		o->prot_min = prot;
	if (!rdma)
		o->transports &= (uint8_t)~TRANSPORT_RDMA;
	return o->transports ? 0 : err_set(e, -ENODEV, "no RDMA: rftpd was built without it");
}

static int fill_config(struct give *v, struct transfer_client_config *c, struct err *e)
{
	struct bulk_request *q = &v->g.request;

	*c = (struct transfer_client_config){
		.ms = v->ms, .master = v->key, .peer = v->sink, .peer_len = v->sink_len,
		.inband_ok = q->offer.transports & TRANSPORT_INBAND,
		.items = v->items, .nitems = v->nitems,
		.root = ftp_session_account(v->fs)->root, .committed = v->committed,
		.stranger = true, .port_least = THIRD_PORT_LEAST,
		.events = relay_events(&v->relay), .stop = v->relay.stop,
		.connect_timeout_ms = v->g.connect_ms ? (int)v->g.connect_ms : CONNECT_MS,
	};
	bulk_request_onward(q, &c->request);
	if (is_list(v))
		c->targets = (const char *const *)(q->sources + 1);
	srv_tuning(v->s->sv, &c->tuning);
	return narrow_offer(v, &c->request.offer, e);
}

/* What will be agreed on only the other server can tell, when all else is settled: what is
 * enough for most is what there is. */
static int give_within(struct give *v, struct transfer_client_config *c,
		       struct transfer_result *res, struct err *e)
{
	struct loan *l = &v->s->loan;
	uint64_t got = 0;
	int rc = l->line < 0 ? 0 : loan_take(l, GIVE_MEMORY, &got, e);

	if (rc == 0 && got)
		c->tuning.memory = got;
	if (rc == 0)
		rc = transfer_client(c, res, e);
	if (got)
		loan_give_back(l, got);
	return rc;
}

/* Whose fault is it that a conversation with the sink came to nothing? */
static uint8_t blame(int rc)
{
	static const int others[] = { -EPIPE, -ETIMEDOUT, -EPROTO, -EBADMSG, -EMSGSIZE, -EPERM,
				      -ECONNRESET, -EOPNOTSUPP };

	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (rc == others[i])
			return THIRD_OTHER;
	return THIRD_HERE;
}

static int run(struct give *v, struct transfer_result *res, struct err *e)
{
	struct transfer_client_config c;
	int rc = reach(v, e);

	v->where = THIRD_REACH;
	if (!rc) {
		v->where = THIRD_HERE;
		rc = fill_config(v, &c, e);
	}
	if (!rc) {
		rc = give_within(v, &c, res, e);
		v->where = blame(rc);
	}
	/* What failed on the way there because it was woken has that one reason. */
	if (rc == -EINTR || (rc && v->where == THIRD_REACH && stopped(v))) {
		v->where = THIRD_CLIENT;
		rc = err_set(e, -EINTR, "interrupted");
	}
	return rc;
}

/* ---- the conversation ---- */

/* 0; -ECANCELED: the client wants no more; another negative errno: it has gone, or makes no
 * sense. */
static int read_door(struct give *v)
{
	struct buf *p CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	uint8_t type = 0;
	uint64_t end = now_ns() + DOOR_MS * 1000000ull;
	int rc;

	v->committed = committed_new();
	rc = p && v->committed ? 0 : -ENOMEM;
	while (!rc) {
		rc = ms_read_frame(ftp_session_stream(v->fs), &type, p, BULK_FRAME_MAX, SLICE_MS);
		if (!rc && type == BULK_COMMITTED)
			rc = committed_take(v->committed, p);
		else if (!rc && type != BULK_BEAT && type < BULK_SKIPPED)
			break;
		if (now_ns() >= end || srv_stop)
			rc = -ETIMEDOUT;
		else if (rc == -ETIMEDOUT)
			rc = 0;
	}
	if (rc || type == BULK_ABORT)
		return rc ? rc : -ECANCELED;
	committed_recall(v->committed);
	return type == BULK_DOOR ? third_door_get(p, &v->door) : -EPROTO;
}

static int say_key(struct give *v)
{
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	int rc = ftp_session_reply(v->fs, 150, "Frames follow");

	if (!rc)
		rc = b ? third_key_put(b, v->pin) : -ENOMEM;
	return rc ? rc : ms_write_frame(ftp_session_stream(v->fs), BULK_KEY, buf_ptr(b),
					buf_len(b));
}

static void log_give(const struct give *v, const struct transfer_result *res, int rc,
		     const struct err *e)
{
	srv_log_transfer(v->s, ftp_session_account(v->fs)->name, "give",
			 v->nitems ? v->items[0].path : "", res->bytes,
			 (double)res->wall_ns / 1e9,
			 rc ? e->text : res->failed ? "some files failed" : "ok");
}

/* After 150: frames, until the client is through. */
static int converse(struct give *v, struct transfer_result *res)
{
	struct err e = ERR_INIT;
	int rc = say_key(v), done;

	if (!rc)
		rc = read_door(v);
	if (rc && rc != -ECANCELED) {
		log_warn("%s: a copy to another server ends before it begins: %s",
			 v->s->peer_text, strerror(-rc));
		return rc;
	}
	done = relay_start(&v->relay, ftp_session_stream(v->fs), v->g.flags & THIRD_F_EACH_FILE, &e);
	v->where = THIRD_HERE;
	if (!done && rc == -ECANCELED) {
		v->where = THIRD_CLIENT;
		done = err_set(&e, -EINTR, "interrupted");
	} else if (!done) {
		done = run(v, res, &e);
	}
	ms_free(steal_ptr(&v->ms));
	log_give(v, res, done, &e);
	relay_result(&v->relay, res, done, v->where, e.text);
	rc = relay_end(&v->relay);
	if (rc)
		return rc;
	return ftp_session_reply(v->fs, done ? 451 : 226, "%s", done ? e.text : "It is there");
}

/* 0, or the code of the reply that refuses it, with its text in e. */
static int refusal(const struct give *v, struct err *e)
{
	const char *why = ftp_account_refuses(ftp_session_account(v->fs), FTP_NEEDS_SEE);

	if (v->s->anonymous && v->s->sv->opt.third_party != THIRD_PARTY_ALL) {
		err_set(e, -EACCES, "Permission denied: anonymous may not copy to another server "
			"(rftpd --third-party all)");
		return 550;
	}
	if (why) {
		err_set(e, -EACCES, "%s", why);
		return 550;
	}
	/* Who listens on the line would learn the token, and may change the pins. */
	if (!ftp_session_secret(v->fs) && v->g.request.offer.prot_min > PROT_CLEAR) {
		err_set(e, -EPROTO, "Without TLS nothing can be kept private");
		return 522;
	}
	return 0;
}

static int serve(struct give *v, struct transfer_result *res)
{
	struct err e = ERR_INIT;
	int code = refusal(v, &e);

	if (code)
		return ftp_session_reply(v->fs, code, "%s", e.text);
	if (make_items(v, &e))
		return ftp_session_reply(v->fs, 451, "%s", e.text);
	v->tls = tls_pinned_new(false, &v->pin, &e);
	if (!v->tls)
		return ftp_session_reply(v->fs, 451, "%s", e.text);
	return converse(v, res);
}

int srv_give(void *arg, struct ftp_session *fs, struct buf *body)
{
	struct transfer_result *res CLEANUP_FREE = calloc(1, sizeof(*res));
	struct give v = { .s = arg, .fs = fs };
	struct err e = ERR_INIT;
	int rc = third_give_get(body, &v.g, &e);

	if (rc) {
		log_warn("bad request from %s: %s", v.s->peer_text, e.text);
		return ftp_session_reply(fs, rc == -EPROTONOSUPPORT ? 504 : 501, "%s", e.text);
	}
	rc = res ? serve(&v, res) : ftp_session_reply(fs, 451, "Out of memory");
	give_clear(&v);
	return rc;
}
