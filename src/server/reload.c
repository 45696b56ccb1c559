// SPDX-License-Identifier: Apache-2.0
/* Settings come into force, at the start and when they are read anew. */
#include "server/apart.h"
#include "server/certs.h"
#include "server/server.h"
#include "server/users.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

/* To look at directories and read the files of who may log in: nobody new is served meanwhile. */
enum { CHECK_S = 20 };

int srv_open_log(const struct srv_options *o, struct err *e)
{
	enum log_level level = o->log_level;
	enum log_target target = LOG_TO_STDERR;
	int rc;

	/* By ssh our lines end on the terminal of who called: only what he must see. */
	if (o->stdio && !o->log && level == LOG_LV_INFO)
		level = LOG_LV_WARN;
	if (o->log)
		srv_log_target(o->log, &target);
	rc = log_open(target, o->log, o->log_format, e);
	if (rc == 0)
		log_init("rftpd", level, !o->stdio || target == LOG_TO_FILE);
	return rc;
}

static int check_directory(const char *what, const char *dir, struct err *e)
{
	struct stat st;

	if (stat(dir, &st) < 0)
		return err_sys(e, -errno, "%s %s", what, printable(dir));
	return S_ISDIR(st.st_mode) ? 0 : err_sys(e, -ENOTDIR, "%s %s", what, printable(dir));
}

/* Hashes of passwords are read: in a process that is no more when others are made of this; and what
 * is far may not answer. */
static int check_files(void *arg, struct err *e)
{
	const struct srv_options *o = arg;
	int rc = o->root ? check_directory("root", o->root, e) : 0;

	if (rc == 0 && o->anonymous && o->anonymous_rules.root)
		rc = check_directory("[anonymous]: root", o->anonymous_rules.root, e);
	if (rc == 0 && o->users)
		rc = users_verify(o->users, e);
	if (rc == 0 && o->certificates)
		rc = certs_verify(o->certificates, o->ca, e);
	return rc;
}

int srv_check_files(const struct srv_options *o, struct err *e)
{
	int rc;

	if (!o->root && !o->users && !o->certificates && !(o->anonymous && o->anonymous_rules.root))
		return 0;
	rc = apart(check_files, (void *)(uintptr_t)o, CHECK_S, e);
	return rc == -ETIMEDOUT ? err_prefix(e, "root, users and certificates") : rc;
}

/* ---- anew ---- */

bool srv_has_reload(const struct server *sv)
{
	enum log_target target = LOG_TO_STDERR;

	if (sv->opt.log)
		srv_log_target(sv->opt.log, &target);
	return sv->opt.config || target == LOG_TO_FILE;
}

/* What a connection's processes are is known to all that run. */
static int check_kind(const struct server *sv, const struct srv_options *o, struct err *e)
{
	if (srv_is_separate(o) == sv->separate)
		return 0;
	return err_set(e, -EBUSY, "one-process cannot be changed while rftpd runs: start it anew");
}

int srv_reload_begin(const struct server *sv, struct server *next, struct err *e)
{
	int rc;

	*next = (struct server){ .argc = sv->argc, .argv = sv->argv, .sealed = -1 };
	rc = srv_options_load(&next->opt, sv->argc, sv->argv, e);
	if (rc == 0)
		rc = check_kind(sv, &next->opt, e);
	if (rc == 0)
		rc = srv_check_files(&next->opt, e);
	if (rc == 0)
		rc = srv_prepare(next, e);
	if (rc < 0)
		srv_reload_drop(next);
	return rc;
}

int srv_reload_end(struct server *sv, struct server *next, struct err *e)
{
	int rc = srv_open_log(&next->opt, e);

	srv_clear(sv);
	*sv = *next;
	*next = (struct server){ .sealed = -1 };
	return rc;
}

void srv_reload_drop(struct server *next)
{
	srv_clear(next);
}
