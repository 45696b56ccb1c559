// SPDX-License-Identifier: Apache-2.0
/* Checks a login in a child, and brings home what became of it. */
#include "server/check.h"
#include "server/login.h"
#include "server/monitor.h"
#include "server/msg.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ASK_MS = 60 * 1000,
	GROUPS_MOST = 65536,
};

/* All of an answer but the groups, which follow it. */
struct verdict {
	int32_t code;
	uint32_t by_certificate, method, rights, umask, is_system, has_root;
	uint32_t uid, gid, ngroups;
	char name[NAME_ROOM], system_name[NAME_ROOM];
	char root[PATH_MAX], home[PATH_MAX], system_home[PATH_MAX];
	char why[ERR_TEXT];
};

/* ---- in the child ---- */

/* user: whom the monitor counts. */
static bool is_whole(const struct gate_ask *ask, const char *user)
{
	return memchr(ask->user, '\0', sizeof(ask->user)) && !strcmp(ask->user, user) &&
	       memchr(ask->password, '\0', sizeof(ask->password)) && ask->by_certificate <= 1;
}

static int hear_proof(const struct asked *q, struct tls_proven *shown, struct err *e)
{
	CLEANUP_FREE struct gate_proof *p = calloc(1, sizeof(*p));
	struct state state = { .tls = NULL };
	int rc = p ? msg_receive(q->line, p, sizeof(*p), NULL, ASK_MS) : -ENOMEM;

	if (rc == 0 && p->len > sizeof(p->bytes))
		rc = -EPROTO;
	if (rc < 0)
		return err_sys(e, rc, "the front passed nothing on that shows a certificate");
	rc = state_open_sealed(&state, &q->sv->opt, q->sv->sealed, e);
	if (rc == 0)
		rc = tls_proof_check(state.tls, p->bytes, p->len, state.pin, shown, e);
	state_close(&state);
	return rc;
}

/* Whose certificate the client has: -EACCES, nobody's. */
static int find_certificate(const struct asked *q, struct tls_proven *shown, struct err *e)
{
	int rc;

	if (!q->sv->opt.certificates)
		return err_set(e, -EPROTO, "a certificate, where they say nothing");
	rc = hear_proof(q, shown, e);
	if (rc == -EBADMSG || rc == -EKEYREJECTED || rc == -EKEYEXPIRED) {
		log_warn("login of \"%s\" from %s by certificate %s: %s", printable(q->user),
			 q->peer_text, shown->pin ? shown->pin : "of nobody", e->text);
		rc = e->code = -EACCES;
	}
	return rc;
}

static int check(const struct srv_options *o, const char *peer_text, const struct gate_ask *ask,
		 const struct tls_proven *shown, struct auth_answer *who, struct err *e)
{
	struct auth_ask said = {
		.user = ask->user,
		.password = ask->by_certificate ? NULL : ask->password,
		.pin = shown->pin,
		.subject = shown->subject,
	};
	int rc = login_check(o, peer_text, &said, who, e);

	/* Who is no user of this system shares the one for that. */
	if (rc == 0 && !who->is_system)
		rc = identity_of(o->files_user, &who->as, e);
	return rc;
}

static int hear_login(const struct asked *q, struct auth_answer *who, uint32_t *by_certificate,
		      struct err *e)
{
	struct tls_proven shown = { .pin = NULL };
	struct gate_ask ask;
	int rc = msg_receive(q->line, &ask, sizeof(ask), NULL, ASK_MS);

	if (rc < 0)
		return err_sys(e, rc, "the front asked for a login and did not say whose");
	if (!is_whole(&ask, q->user))
		rc = err_set(e, -EPROTO, "a login without an end");
	else if (ask.by_certificate)
		rc = find_certificate(q, &shown, e);
	if (rc == 0)
		rc = check(&q->sv->opt, q->peer_text, &ask, &shown, who, e);
	tls_proven_clear(&shown);
	*by_certificate = ask.by_certificate != 0;
	crypto_wipe(&ask, sizeof(ask));
	return rc;
}

static int copy(char *to, size_t room, const char *from)
{
	if (strlen(from) >= room)
		return -ENAMETOOLONG;
	strcpy(to, from);
	return 0;
}

static int write_down(const struct auth_answer *a, struct verdict *v)
{
	int rc = copy(v->name, sizeof(v->name), a->name);

	if (rc == 0)
		rc = copy(v->system_name, sizeof(v->system_name), a->as.name);
	if (rc == 0)
		rc = copy(v->root, sizeof(v->root), a->root ? a->root : "");
	if (rc == 0)
		rc = copy(v->home, sizeof(v->home), a->home);
	if (rc == 0)
		rc = copy(v->system_home, sizeof(v->system_home), a->as.home);
	v->method = a->method;
	v->rights = a->rights;
	v->umask = a->umask;
	v->is_system = a->is_system;
	v->has_root = a->root != NULL;
	v->uid = a->as.uid;
	v->gid = a->as.gid;
	v->ngroups = (uint32_t)a->as.ngroups;
	return rc;
}

static void run_child(const struct asked *q, int out)
{
	struct auth_answer who = { .name = NULL };
	struct verdict v = { .code = 0 };
	struct err e = ERR_INIT;
	int rc = hear_login(q, &who, &v.by_certificate, &e);

	if (rc == 0)
		rc = write_down(&who, &v);
	if (rc < 0 && !*e.text)
		err_sys(&e, rc, "account");
	v.code = rc;
	memcpy(v.why, e.text, sizeof(v.why));
	rc = write_full(out, &v, sizeof(v));
	if (rc == 0 && v.code == 0)
		rc = write_full(out, who.as.groups, v.ngroups * sizeof(gid_t));
	_exit(rc < 0);
}

/* ---- in the gate ---- */

static bool is_good(struct verdict *v)
{
	v->why[sizeof(v->why) - 1] = '\0';
	return memchr(v->name, '\0', sizeof(v->name)) &&
	       memchr(v->system_name, '\0', sizeof(v->system_name)) &&
	       memchr(v->root, '\0', sizeof(v->root)) &&
	       memchr(v->home, '\0', sizeof(v->home)) &&
	       memchr(v->system_home, '\0', sizeof(v->system_home)) &&
	       v->code <= 0 && v->method <= AUTH_SELF && v->rights <= RIGHTS_UPLOAD &&
	       v->ngroups <= GROUPS_MOST;
}

static int read_down(const struct verdict *v, struct auth_answer *a)
{
	*a = (struct auth_answer){
		.name = strdup(v->name),
		.method = (enum auth_method)v->method,
		.is_system = v->is_system != 0,
		.as = {
			.name = strdup(v->system_name), .home = strdup(v->system_home),
			.uid = v->uid, .gid = v->gid, .ngroups = (int)v->ngroups,
			.groups = calloc((size_t)v->ngroups + 1, sizeof(gid_t)),
		},
		.root = v->has_root ? strdup(v->root) : NULL,
		.home = strdup(v->home),
		.rights = (enum rights)v->rights,
		.umask = v->umask,
	};
	return a->name && a->as.name && a->as.home && a->as.groups && a->home &&
	       (a->root || !v->has_root) ? 0 : -ENOMEM;
}

static int hear_verdict(int in, struct auth_answer *who, bool *by_certificate, struct err *e)
{
	struct verdict v;
	int rc;

	if (read_full(in, &v, sizeof(v)) != (ssize_t)sizeof(v) || !is_good(&v))
		return err_set(e, -ECHILD, "the process that checked it has said nothing of use");
	*by_certificate = v.by_certificate;
	if (v.code < 0)
		return err_set(e, v.code, "%s", v.why);
	rc = read_down(&v, who);
	if (rc == 0 && read_full(in, who->as.groups, v.ngroups * sizeof(gid_t)) !=
		       (ssize_t)(v.ngroups * sizeof(gid_t)))
		rc = -ECHILD;
	return rc < 0 ? err_sys(e, rc, "account") : 0;
}

int check_login_apart(const struct asked *q, struct auth_answer *who, bool *by_certificate,
		      struct err *e)
{
	int in CLEANUP_CLOSE = -1, out CLEANUP_CLOSE = -1, pair[2], status = 0, rc;
	pid_t pid, gate = getpid();

	if (pipe2(pair, O_CLOEXEC) < 0)
		return err_sys(e, -errno, "pipe");
	in = pair[0];
	out = pair[1];
	pid = fork();
	if (pid < 0)
		return err_sys(e, -errno, "process for a login");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != gate)
			_exit(EXIT_FAILURE);
		run_child(q, out);
	}
	cleanup_close(&out);
	close(q->sv->sealed); /* what becomes of this process has no business with the key */
	rc = hear_verdict(in, who, by_certificate, e);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (rc == -ECHILD && WIFSIGNALED(status))
		err_set(e, rc, "the process that checked a login died of signal %d (%s)",
			WTERMSIG(status), strsignal(WTERMSIG(status)));
	return rc;
}
