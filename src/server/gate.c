// SPDX-License-Identifier: Apache-2.0
/* The gate: has a name and a password checked by a child, becomes the user, and serves his
 * session. It is root's until then, and reads no byte of a client's. */
#include "server/gate.h"
#include "server/check.h"
#include "server/identity.h"
#include "server/jail.h"
#include "server/locked.h"
#include "server/login.h"
#include "server/monitor.h"
#include "server/msg.h"
#include "server/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ASK_MS = 60 * 1000 };

struct gate {
	const struct server *sv;
	const struct ends *ends;
	const char *user; /* as the monitor has heard it */
	int line, monitor;
	char peer_text[80];
	bool by_certificate;
	struct auth_answer who;
	struct gate_orders orders;
};

/* ---- the login ---- */

static int ask_monitor(struct gate *g, int code, struct err *e)
{
	struct gate_report r = { .code = code };
	int rc;

	if (code == -EACCES && g->by_certificate)
		r.code = -EKEYREJECTED;
	snprintf(r.name, sizeof(r.name), "%s", code ? "" : g->who.name);
	rc = msg_send(g->monitor, &r, sizeof(r), -1, ASK_MS);
	if (rc == 0)
		rc = msg_receive(g->monitor, &g->orders, sizeof(g->orders), NULL, ASK_MS);
	if (rc < 0)
		return err_sys(e, rc, "no answer from the monitor");
	return g->orders.code < 0 ? err_sys(e, g->orders.code, "login") : 0;
}

/* ---- the session's identity ---- */

static int set_limits(const struct gate *g, struct err *e)
{
	struct rlimit none = { 0, 0 };

	if (setrlimit(RLIMIT_CORE, &none) < 0)
		return err_sys(e, -errno, "limits of a session");
	return locked_limit(0, g->orders.lock, e);
}

static int become_user(struct gate *g, struct err *e)
{
	int rc = set_limits(g, e);

	return rc < 0 ? rc : identity_assume(&g->who.as, e);
}

/* With the user's own rights: what he cannot enter is no root of his. */
static int open_account(struct gate *g, struct ftp_account *a, struct err *e)
{
	int rc = become_user(g, e);

	return rc < 0 ? rc : login_enter(&g->who, g->peer_text, a, e);
}

/* ---- the session ---- */

/* What the front has agreed with the client, from where it goes on. */
static int hear_front(struct gate *g, struct ftp_handed *h, struct err *e)
{
	int rc = msg_receive(g->line, h, sizeof(*h), NULL, ASK_MS);

	if (rc == 0)
		rc = ftp_handed_check(h);
	return rc < 0 ? err_sys(e, rc, "the front handed nothing over that is a session") : 0;
}

static int tell_front(struct gate *g, int code, int control, const struct err *why)
{
	struct gate_answer a = { .code = code };

	snprintf(a.name, sizeof(a.name), "%s", code ? "" : g->who.name);
	snprintf(a.why, sizeof(a.why), "%.*s", (int)sizeof(a.why) - 1,
		 code == -EKEYEXPIRED ? why->text : "");
	return msg_send(g->line, &a, sizeof(a), control, ASK_MS);
}

static int serve(struct gate *g, struct ftp_account *a, int fd, struct err *e)
{
	struct srv_handed h = { .account = a, .line = g->line, .monitor = -1, .memory = g->orders.memory,
				.anonymous = g->who.method == AUTH_ANONYMOUS };
	int rc = hear_front(g, &h.handed, e);

	if (g->orders.counted)
		h.monitor = g->monitor;
	else
		cleanup_close(&g->monitor); /* there is nothing more to say to root */
	if (rc == 0)
		rc = srv_jail(g->sv, jail_session, e);
	if (rc < 0) {
		close(fd);
		ftp_account_clear(a);
		return rc;
	}
	srv_session_handed(g->sv, fd, g->ends, &h);
	crypto_wipe(&h, sizeof(h));
	return 0;
}

static int run(struct gate *g, struct err *e)
{
	const struct asked q = { g->sv, g->peer_text, g->user, g->line };
	struct ftp_account account = { .name = "" };
	int pair[2] = { -1, -1 };
	uint64_t began = now_ns();
	int rc = check_login_apart(&q, &g->who, &g->by_certificate, e);
	int told;
	struct err why = *e;

	told = ask_monitor(g, rc, e);
	/* A certificate is nothing that is guessed. */
	if (rc == -EACCES && !g->by_certificate)
		auth_fill_up(began);
	if (rc == 0)
		rc = told;
	if (rc == 0)
		rc = open_account(g, &account, &why);
	if (rc == 0)
		rc = msg_pair(pair);
	told = tell_front(g, rc, pair[1], &why);
	cleanup_close(&pair[1]);
	if (rc == 0 && told < 0)
		rc = err_sys(e, told, "the front has gone");
	if (rc == 0)
		return serve(g, &account, pair[0], e);
	ftp_account_clear(&account);
	cleanup_close(&pair[0]);
	return rc;
}

int gate_run(const struct server *sv, int line, int monitor, const struct ends *ends,
	     const char *user)
{
	struct gate g = { .sv = sv, .ends = ends, .user = user, .line = line, .monitor = monitor };
	struct err e = ERR_INIT;
	int rc;

	srv_peer_text(&ends->peer, g.peer_text);
	rc = run(&g, &e);
	if (rc < 0 && rc != -EACCES && rc != -EKEYEXPIRED)
		log_error("%s: %s", g.peer_text, *e.text ? e.text : strerror(-rc));
	auth_answer_clear(&g.who);
	return EXIT_SUCCESS;
}
