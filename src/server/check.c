// SPDX-License-Identifier: Apache-2.0
/* Checks a login in a child, and brings home what became of it. */
#include "server/check.h"
#include "server/apart.h"
#include "server/judge.h"
#include "server/login.h"
#include "server/monitor.h"
#include "server/msg.h"
#include "server/pages.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	ASK_MS = 60 * 1000,
	GROUPS_MOST = 65536,
	BEYOND_S = 5,
};

/* What a login has come to, in memory of both processes. */
struct verdict {
	uint32_t by_certificate, method, rights, umask, is_system, has_root;
	uint32_t uid, gid, ngroups;
	char name[NAME_ROOM], system_name[NAME_ROOM];
	char root[PATH_MAX], home[PATH_MAX], system_home[PATH_MAX];
	gid_t groups[GROUPS_MOST];
};

struct task {
	const struct asked *q;
	unsigned limit_s;
	struct verdict *found;
};

/* ---- in the child ---- */

/* user: whom the monitor counts. */
static bool is_whole(const struct gate_ask *ask, const char *user)
{
	return memchr(ask->user, '\0', sizeof(ask->user)) && !strcmp(ask->user, user) &&
	       memchr(ask->password, '\0', sizeof(ask->password)) && ask->by_certificate <= 1;
}

static int hear_proof(const struct task *t, struct tls_proven *shown, struct err *e)
{
	CLEANUP_FREE struct gate_proof *p = calloc(1, sizeof(*p));
	int rc = p ? msg_receive(t->q->line, p, sizeof(*p), NULL, ASK_MS) : -ENOMEM;

	if (rc < 0)
		return err_sys(e, rc, "the front passed nothing on that shows a certificate");
	return judge_proof(t->q->sv, p, t->limit_s, shown, e);
}

/* Whose certificate the client has: -EACCES, nobody's. */
static int find_certificate(const struct task *t, struct tls_proven *shown, struct err *e)
{
	const struct asked *q = t->q;
	int rc;

	if (!q->sv->opt.certificates)
		return err_set(e, -EPROTO, "a certificate, where they say nothing");
	rc = hear_proof(t, shown, e);
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

static int hear_login(const struct task *t, struct auth_answer *who, struct err *e)
{
	struct tls_proven shown = { .pin = NULL };
	const struct asked *q = t->q;
	struct gate_ask ask;
	int rc = msg_receive(q->line, &ask, sizeof(ask), NULL, ASK_MS);

	if (rc < 0)
		return err_sys(e, rc, "the front asked for a login and did not say whose");
	t->found->by_certificate = ask.by_certificate != 0;
	if (!is_whole(&ask, q->user))
		rc = err_set(e, -EPROTO, "a login without an end");
	else if (ask.by_certificate)
		rc = find_certificate(t, &shown, e);
	close(q->sv->sealed); /* PAM's modules have no business with the key */
	if (rc == 0)
		rc = check(&q->sv->opt, q->peer_text, &ask, &shown, who, e);
	tls_proven_clear(&shown);
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
	if (rc == 0 && a->as.ngroups > GROUPS_MOST)
		rc = -E2BIG;
	if (rc < 0)
		return rc;
	v->method = a->method;
	v->rights = a->rights;
	v->umask = a->umask;
	v->is_system = a->is_system;
	v->has_root = a->root != NULL;
	v->uid = a->as.uid;
	v->gid = a->as.gid;
	v->ngroups = (uint32_t)a->as.ngroups;
	if (v->ngroups)
		memcpy(v->groups, a->as.groups, v->ngroups * sizeof(gid_t));
	return 0;
}

static int check_child(void *arg, struct err *e)
{
	struct auth_answer who = { .name = NULL };
	const struct task *t = arg;
	/* What its children become, the judge and what PAM runs, has no say in what it finds. */
	int rc = pages_alone(t->found, sizeof(*t->found), e);

	if (rc == 0)
		rc = hear_login(t, &who, e);
	if (rc == 0)
		rc = write_down(&who, t->found);
	auth_answer_clear(&who);
	return rc < 0 && !*e->text ? err_sys(e, rc, "account") : rc;
}

/* ---- in the gate ---- */

static bool is_good(const struct verdict *v)
{
	return memchr(v->name, '\0', sizeof(v->name)) &&
	       memchr(v->system_name, '\0', sizeof(v->system_name)) &&
	       memchr(v->root, '\0', sizeof(v->root)) &&
	       memchr(v->home, '\0', sizeof(v->home)) &&
	       memchr(v->system_home, '\0', sizeof(v->system_home)) &&
	       v->method <= AUTH_SELF && v->rights <= RIGHTS_UPLOAD &&
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
	if (!a->name || !a->as.name || !a->as.home || !a->as.groups || !a->home ||
	    (v->has_root && !a->root))
		return -ENOMEM;
	memcpy(a->as.groups, v->groups, v->ngroups * sizeof(gid_t));
	return 0;
}

static int take(const struct verdict *v, struct auth_answer *who, struct err *e)
{
	int rc = is_good(v) ? read_down(v, who) : -ECHILD;

	return rc < 0 ? err_sys(e, rc, "account") : 0;
}

/* Beyond what the monitor gives it: that ends what PAM runs, too. */
static unsigned limit_s(const struct srv_options *o)
{
	uint64_t s = o->login_timeout / 1000000000 + BEYOND_S;

	return s < INT_MAX ? (unsigned)s : INT_MAX;
}

int check_login_apart(const struct asked *q, struct auth_answer *who, bool *by_certificate,
		      struct err *e)
{
	struct task t = { q, limit_s(&q->sv->opt), pages_shared(sizeof(struct verdict)) };
	int rc = t.found ? apart(check_child, &t, t.limit_s, e) :
		 err_sys(e, -ENOMEM, "process for a login");

	close(q->sv->sealed); /* what becomes of this process has no business with the key */
	*by_certificate = t.found && t.found->by_certificate;
	if (rc == 0)
		rc = take(t.found, who, e);
	pages_free(t.found, sizeof(*t.found));
	return rc;
}
