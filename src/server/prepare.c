// SPDX-License-Identifier: Apache-2.0
/* What a server needs before it listens, and what is said of it in the log. */
#include "server/apart.h"
#include "server/jail.h"
#include "server/locked.h"
#include "server/pems.h"
#include "server/server.h"
#include "transfer/transfer.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define FRONT_USER_ELSE "nobody"

int srv_jail(const struct server *sv, int (*jail)(struct err *e), struct err *e)
{
	return sv->filters ? jail(e) : 0;
}

/* ---- in a process of its own ---- */

/* A card's driver, or a far file system, may be slow; nobody new is served meanwhile. */
enum { LIMIT_S = 20 };

static int say_start(void *arg, struct err *e)
{
	struct transfer_tuning tuning;
	struct server *sv = arg;

	if (!sv->state.pin && state_open_sealed(&sv->state, &sv->opt, sv->sealed, e) < 0)
		log_error("%s", e->text);
	else
		log_info("certificate %s", sv->state.pin);
	srv_tuning(sv, &tuning);
	transfer_say_cards(&tuning);
	return 0;
}

/* Read once, so that fronts have what was found good, whatever becomes of the files. No process but
 * this child and the fronts ever has the key. */
static int seal_state(void *arg, struct err *e)
{
	const struct server *sv = arg;

	return state_seal(&sv->opt, sv->sealed, e);
}

static int try_jail(void *arg, struct err *e)
{
	return jail_front(e);
}

static int try_raise(void *arg, struct err *e)
{
	return locked_can_raise() ? 0 : -EPERM;
}

/* ---- the three kinds of processes ---- */

static int find_front(struct server *sv, struct err *e)
{
	const char *name = sv->opt.user;
	int rc = identity_of(name, &sv->front, e);

	if (rc == -ENOENT && !srv_option_given(&sv->opt, "user")) {
		rc = identity_of(FRONT_USER_ELSE, &sv->front, e);
		if (rc == 0)
			log_warn("there is no user rftpd to talk to strangers as: it is "
				 FRONT_USER_ELSE ", who does other things here, too");
	}
	if (rc == 0 && sv->front.uid == 0)
		rc = err_set(e, -EPERM, "--user %s is root: fronts must have no rights",
			     printable(name));
	sv->opt.front_uid = rc == 0 ? sv->front.uid : 0;
	return rc;
}

/* Whom the users file and anonymous are served as: better now than at the first login. */
static int check_files_user(const struct server *sv, struct err *e)
{
	struct identity id;
	int rc;

	if (!sv->opt.anonymous && !sv->opt.users)
		return 0;
	rc = identity_of(sv->opt.files_user, &id, e);
	if (rc == 0 && id.uid == 0 && !sv->opt.allow_root)
		rc = err_set(e, -EPERM, "--files-user %s is root: that needs --allow-root",
			     printable(id.name));
	else if (rc == 0 && id.uid == sv->front.uid)
		rc = err_set(e, -EPERM, "--files-user %s is the user whose the fronts are: they "
			     "must be two", printable(id.name));
	identity_clear(&id);
	if (rc == -ENOENT)
		return err_set(e, rc, "there is no user \"%s\" to serve those as who are no user of "
			       "this system: make one (useradd --system %s), name another with "
			       "--files-user, or give --one-process",
			       printable(sv->opt.files_user), printable(sv->opt.files_user));
	return rc;
}

/* Without them it goes on, and says so. */
static int find_filters(struct server *sv, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = apart(try_jail, NULL, LIMIT_S, &why);

	sv->filters = rc == 0;
	if (rc == -EOPNOTSUPP)
		log_warn("%s", why.text);
	return rc < 0 && rc != -EOPNOTSUPP ? err_set(e, rc, "%s", why.text) : 0;
}

static int prepare_processes(struct server *sv, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = find_front(sv, e);

	if (rc == 0)
		rc = check_files_user(sv, e);
	if (rc < 0)
		return rc;
	sv->empty = state_empty(&sv->opt, e);
	if (!sv->empty)
		return e->code;
	sv->sealed = pems_memory(e);
	if (sv->sealed < 0)
		return sv->sealed;
	rc = apart(seal_state, sv, LIMIT_S, e);
	if (rc == -ETIMEDOUT)
		err_prefix(e, "certificate and key");
	if (rc < 0)
		return rc;
	sv->raises = apart(try_raise, NULL, LIMIT_S, &why) == 0;
	return find_filters(sv, e);
}

bool srv_is_separate(const struct srv_options *o)
{
	return geteuid() == 0 && !o->one_process;
}

int srv_prepare(struct server *sv, struct err *e)
{
	int rc;

	sv->separate = srv_is_separate(&sv->opt);
	if (!sv->separate && (sv->opt.max_per_user || sv->opt.memory_budget))
		log_warn("max-per-user and memory-budget hold only where root runs rftpd as "
			 "separate processes: not here");
	if (sv->separate)
		rc = prepare_processes(sv, e);
	else
		rc = state_open(&sv->state, &sv->opt, e);
	return rc;
}

static void warn_of_root(const struct srv_options *o, const char *root, enum rights rights)
{
	if (!root || rights == RIGHTS_NONE || rights == RIGHTS_RO || !access(root, W_OK | X_OK))
		return;
	log_warn("root %s: user %s of --files-user cannot write there: %s (chown %s %s, or a directory "
		 "in it that the user may write)", printable(root),
		 printable(o->files_user), strerror(errno), printable(o->files_user),
		 printable(root));
}

/* Better now than with the first put. */
static int say_roots(void *arg, struct err *e)
{
	const struct srv_options *o = &((struct server *)arg)->opt;
	const struct srv_rules *anonymous = &o->anonymous_rules;
	struct identity id;
	int rc = identity_of(o->files_user, &id, e);

	if (rc == 0)
		rc = identity_assume(&id, e);
	if (rc < 0)
		return rc;
	warn_of_root(o, o->root, o->users ? RIGHTS_RW : anonymous->root ? RIGHTS_NONE : o->anonymous);
	warn_of_root(o, anonymous->root, o->anonymous);
	for (size_t i = 0; i < o->nuser_rules; i++)
		if (!o->user_rules[i].system_user)
			warn_of_root(o, o->user_rules[i].root, o->user_rules[i].rights);
	return 0;
}

void srv_say_start(struct server *sv)
{
	struct err e = ERR_INIT;

	if (sv->separate && (sv->opt.anonymous || sv->opt.users) &&
	    apart(say_roots, sv, LIMIT_S, &e) < 0)
		log_warn("%s", e.text);
	if (sv->separate)
		log_info("strangers are talked to as %s, in %s", printable(sv->front.name),
			 printable(sv->empty));
	if (apart(say_start, sv, LIMIT_S, &e) < 0)
		log_warn("%s", e.text);
}

void srv_clear(struct server *sv)
{
	srv_options_clear(&sv->opt);
	state_close(&sv->state);
	cleanup_close(&sv->sealed);
	identity_clear(&sv->front);
	free(steal_ptr(&sv->empty));
}
