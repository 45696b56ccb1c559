// SPDX-License-Identifier: Apache-2.0
/* Puts settings in force, at the start and at a reload: the users of the processes, the
 * certificate, the empty directory, the log. */
#include "server/auth/auth.h"
#include "server/server.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The user of the preauth processes, if --user is not given and there is no user rftpd. */
#define PREAUTH_USER_ELSE "nobody"

/* Time limit of a child: a driver or a network file system may be slow, and meanwhile the monitor
 * accepts no clients. */
enum { CHILD_S = 20 };

/* With settings o: is each connection served by several processes? */
static bool srv_is_separate(const struct srv_options *o)
{
	return geteuid() == 0 && !o->one_process;
}

int srv_jail(const struct server *sv, int (*jail)(struct err *e), struct err *e)
{
	return sv->filters ? jail(e) : 0;
}

/* ---- separate processes ---- */

static int try_jail(void *arg, struct err *e)
{
	return jail_preauth(e);
}

/* May this process raise the limit of locked memory? A test of the capability is not enough: root
 * in a container has it, too. */
static int try_raise(void *arg, struct err *e)
{
	struct rlimit r;

	if (getrlimit(RLIMIT_MEMLOCK, &r) < 0)
		return -errno;
	r.rlim_cur = r.rlim_max = r.rlim_max == RLIM_INFINITY ? 1 << 20 : r.rlim_max / 2;
	if (setrlimit(RLIMIT_MEMLOCK, &r) < 0)
		return -errno;
	r.rlim_max++;
	return setrlimit(RLIMIT_MEMLOCK, &r) < 0 ? -errno : 0;
}

/* The preauth processes get the bytes that were checked here, even if the files change later. Only
 * this child and the preauth processes ever have the key in memory. */
static int seal_state(void *arg, struct err *e)
{
	const struct server *sv = arg;
	struct state state;
	int rc = state_open(&state, &sv->opt, sv->sealed, e);

	state_close(&state);
	return rc;
}

static int prepare_processes(struct server *sv, struct err *e)
{
	const char *user = sv->opt.user, *files_user = sv->opt.files_user;
	struct err why = ERR_INIT;
	struct identity id = { .groups = NULL };
	int rc = identity_of(user, &sv->preauth, e);

	if (rc == -ENOENT && !srv_option_given(&sv->opt, "user")) {
		rc = identity_of(PREAUTH_USER_ELSE, &sv->preauth, e);
		if (rc == 0)
			log_warn("there is no user rftpd: unauthenticated clients are served as "
				 PREAUTH_USER_ELSE ", which other programs use, too "
				 "(useradd --system rftpd)");
	}
	if (rc == 0 && sv->preauth.uid == 0)
		rc = err_set(e, -EPERM, "--user %s is root: the preauth processes must have no "
			     "rights", printable(user));
	sv->opt.preauth_uid = rc == 0 ? sv->preauth.uid : 0;

	/* Check at the start, so that an administrator learns of a wrong --files-user before the
	 * first login. */
	if (rc == 0 && (sv->opt.anonymous || sv->opt.users)) {
		rc = identity_of(files_user, &id, e);
		if (rc == 0 && id.uid == 0 && !sv->opt.allow_root)
			rc = err_set(e, -EPERM, "--files-user %s is root: that needs --allow-root",
				     printable(id.name));
		else if (rc == 0 && id.uid == sv->preauth.uid)
			rc = err_set(e, -EPERM, "--files-user %s is the user of --user, too: they "
				     "must be two users", printable(id.name));
		else if (rc == -ENOENT)
			rc = err_set(e, rc, "there is no user \"%s\" for accounts that are not "
				     "system users: create it (useradd --system %s), name another "
				     "with --files-user, or give --one-process",
				     printable(files_user), printable(files_user));
		identity_clear(&id);
	}
	if (rc < 0)
		return rc;

	sv->empty = state_empty(&sv->opt, e);
	if (!sv->empty)
		return e->code;

	sv->sealed = memfd_create("certificate", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (sv->sealed < 0)
		return err_sys(e, -errno, "memfd");

	rc = child_call(seal_state, sv, CHILD_S, NULL, NULL, 0, e);
	if (rc == -ETIMEDOUT)
		err_prefix(e, "certificate and key");
	if (rc < 0)
		return rc;

	sv->raises = child_call(try_raise, NULL, CHILD_S, NULL, NULL, 0, &why) == 0;
	why = (struct err)ERR_INIT;
	rc = child_call(try_jail, NULL, CHILD_S, NULL, NULL, 0, &why);
	sv->filters = rc == 0;

	if (rc == -EOPNOTSUPP) {
		log_warn("%s", why.text);
		return 0;
	}
	return rc < 0 ? err_set(e, rc, "%s", why.text) : 0;
}

int srv_prepare(struct server *sv, struct err *e)
{
	sv->separate = srv_is_separate(&sv->opt);
	if (sv->separate)
		return prepare_processes(sv, e);

	if (sv->opt.max_per_user || sv->opt.memory_budget)
		log_warn("max-per-user and memory-budget have no effect: they need separate "
			 "processes, which only root can run");
	return state_open(&sv->state, &sv->opt, -1, e);
}

void srv_clear(struct server *sv)
{
	srv_options_clear(&sv->opt);
	state_close(&sv->state);
	cleanup_close(&sv->sealed);
	identity_clear(&sv->preauth);
	free(steal_ptr(&sv->empty));
}

/* ---- the log's first lines ---- */

static void warn_of_root(const struct srv_options *o, const char *root, enum rights rights)
{
	if (!root || rights == RIGHTS_NONE || rights == RIGHTS_RO || !access(root, W_OK | X_OK))
		return;
	log_warn("root %s: user %s of --files-user cannot write there: %s (chown %s %s, or a "
		 "directory in it that the user may write)", printable(root),
		 printable(o->files_user), strerror(errno), printable(o->files_user),
		 printable(root));
}

/* The root of a user whom the process of --files-user serves. */
struct user_root {
	char *path;
	enum rights rights;
	struct user_root *next;
};

static void user_root_add(void *arg, const struct user *u)
{
	struct user_root **list = arg, *r;

	if (u->system_user || !*u->root)
		return;
	r = calloc(1, sizeof(*r));
	if (!r)
		return;
	*r = (struct user_root){ strdup(u->root), u->rights, *list };
	*list = r;
}

/* Run in a child, which keeps the memory of the list. The users file is read before the change of
 * identity: --files-user may not read it. */
static int warn_of_roots(void *arg, struct err *e)
{
	const struct srv_options *o = arg;
	const struct srv_rules *anonymous = &o->anonymous_rules;
	enum rights shared = anonymous->root ? RIGHTS_NONE : o->anonymous;
	struct user_root *roots = NULL;
	struct identity id;
	int rc = identity_of(o->files_user, &id, e);

	if (rc == 0 && o->users)
		rc = users_verify(o->users, user_root_add, &roots, e);
	if (rc == 0)
		rc = identity_assume(&id, e);
	if (rc < 0)
		return rc;

	for (; roots; roots = roots->next)
		warn_of_root(o, roots->path, roots->rights);
	warn_of_root(o, o->root, o->users ? RIGHTS_RW : shared);
	warn_of_root(o, anonymous->root, o->anonymous);
	for (size_t i = 0; i < o->nuser_rules; i++)
		if (!o->user_rules[i].system_user)
			warn_of_root(o, o->user_rules[i].root, o->user_rules[i].rights);
	return 0;
}

void srv_warn_roots(const struct srv_options *o)
{
	struct err e = ERR_INIT;

	if (srv_is_separate(o) && (o->anonymous || o->users) &&
	    child_call(warn_of_roots, (void *)(uintptr_t)o, CHILD_S, NULL, NULL, 0, &e) < 0)
		log_warn("%s", e.text);
}

static int say_certificate_and_cards(void *arg, struct err *e)
{
	struct server *sv = arg;

	if (!sv->state.pin && state_open_sealed(&sv->state, &sv->opt, sv->sealed, e) < 0)
		log_error("%s", e->text);
	else
		log_info("certificate %s", sv->state.pin);
	transfer_say_cards(&sv->opt.tuning);
	return 0;
}

void srv_say_start(struct server *sv)
{
	struct err e = ERR_INIT;

	srv_warn_roots(&sv->opt);
	if (sv->separate)
		log_info("unauthenticated clients are served as %s, in %s",
			 printable(sv->preauth.name), printable(sv->empty));
	if (child_call(say_certificate_and_cards, sv, CHILD_S, NULL, NULL, 0, &e) < 0)
		log_warn("%s", e.text);
}

int srv_open_log(const struct srv_options *o, struct err *e)
{
	enum log_level level = o->log_level;
	enum log_target target;
	int rc;

	/* Over ssh the log appears on the user's terminal: warnings and errors are enough there. */
	if (o->stdio && !o->log && level == LOG_LV_INFO)
		level = LOG_LV_WARN;
	srv_log_target(o->log, &target);
	rc = log_open(target, o->log, o->log_format, e);
	if (rc == 0)
		log_init("rftpd", level, !o->stdio || target == LOG_TO_FILE);
	return rc;
}

/* ---- files ---- */

int srv_check_root(const char *setting, const char *dir, struct err *e)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return err_sys(e, -errno, "%s%s", setting, printable(dir));
	return S_ISDIR(st.st_mode) ? 0 : err_sys(e, -ENOTDIR, "%s%s", setting, printable(dir));
}

static int check_server_files(void *arg, struct err *e)
{
	const struct srv_options *o = arg;
	int rc = o->root ? srv_check_root("root ", o->root, e) : 0;

	if (rc == 0 && o->anonymous && o->anonymous_rules.root)
		rc = srv_check_root("[anonymous]: root ", o->anonymous_rules.root, e);
	if (rc == 0 && o->users)
		rc = users_verify(o->users, NULL, NULL, e);
	if (rc == 0 && o->certificates)
		rc = certs_verify(o->certificates, o->ca, e);
	return rc;
}

/* Check in a child: the hashes of passwords must not stay in this process, from which processes
 * that serve clients are forked; and a network file system may not answer. */
int srv_check_files(const struct srv_options *o, struct err *e)
{
	int rc;

	if (!o->root && !o->users && !o->certificates && !(o->anonymous && o->anonymous_rules.root))
		return 0;
	rc = child_call(check_server_files, (void *)(uintptr_t)o, CHILD_S, NULL, NULL, 0, e);
	return rc == -ETIMEDOUT ? err_prefix(e, "root, users and certificates") : rc;
}

/* ---- settings read again ---- */

bool srv_has_reload(const struct server *sv)
{
	enum log_target target;

	srv_log_target(sv->opt.log, &target);
	return sv->opt.config || target == LOG_TO_FILE;
}

int srv_reload(const struct server *sv, struct server *next, struct err *e)
{
	int rc;

	*next = (struct server){ .argc = sv->argc, .argv = sv->argv, .sealed = -1 };
	rc = srv_options_load(&next->opt, sv->argc, sv->argv, e);

	/* All running processes depend on this setting. */
	if (rc == 0 && srv_is_separate(&next->opt) != sv->separate)
		rc = err_set(e, -EBUSY, "one-process cannot be changed while rftpd runs: restart "
			     "it");
	if (rc == 0)
		rc = srv_check_files(&next->opt, e);
	if (rc == 0)
		rc = srv_prepare(next, e);
	if (rc < 0)
		srv_clear(next);
	return rc;
}
