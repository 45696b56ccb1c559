// SPDX-License-Identifier: Apache-2.0
/* The system's users, and the drop from root to one of them (credentials(7),
 * capabilities(7)). */
#include "server/identity.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	GROUPS_MOST = 65536,   /* as many as the kernel takes */
	RECORD_MOST = 1 << 20, /* of passwd(5) in memory */
};

void identity_clear(struct identity *id)
{
	free(id->name);
	free(id->home);
	free(id->groups);
	memset(id, 0, sizeof(*id));
}

/* ---- the system's tables ---- */

/* The record's strings are in *room, which is the caller's. */
static int find_user(const char *name, struct passwd *pw, char **room, struct err *e)
{
	struct passwd *found = NULL;
	int rc = ERANGE;

	*room = NULL;
	for (size_t size = 1024; rc == ERANGE && size <= RECORD_MOST; size *= 4) {
		free(*room);
		*room = malloc(size);
		if (!*room)
			return err_sys(e, -ENOMEM, "user %s", printable(name));
		rc = getpwnam_r(name, pw, *room, size, &found);
	}
	if (rc)
		return err_sys(e, -rc, "user %s", printable(name));
	return found ? 0 : err_set(e, -ENOENT, "there is no user \"%s\" on this system",
				   printable(name));
}

static int fill_groups(struct identity *id)
{
	int room = 32, n = 0, had = -1;

	while (had < 0 && room <= GROUPS_MOST) {
		gid_t *more = realloc(id->groups, (size_t)room * sizeof(*more));

		if (!more)
			return -ENOMEM;
		id->groups = more;
		n = room;
		had = getgrouplist(id->name, id->gid, id->groups, &n);
		room *= 4;
	}
	id->ngroups = n;
	return had < 0 ? -ERANGE : 0;
}

int identity_of(const char *name, struct identity *id, struct err *e)
{
	CLEANUP_FREE char *room = NULL;
	struct passwd pw;
	int rc = find_user(name, &pw, &room, e);

	memset(id, 0, sizeof(*id));
	if (rc < 0)
		return rc;
	id->name = strdup(pw.pw_name);
	id->home = strdup(pw.pw_dir && *pw.pw_dir == '/' ? pw.pw_dir : "/");
	id->uid = pw.pw_uid;
	id->gid = pw.pw_gid;
	rc = id->name && id->home ? fill_groups(id) : -ENOMEM;
	if (rc == 0)
		return 0;
	identity_clear(id);
	return err_sys(e, rc, "groups of %s", printable(name));
}

/* ---- the drop ---- */

/* None can come back by running a program, or otherwise. Needs CAP_SETPCAP. */
static int drop_bounding_set(void)
{
	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c) >= 0; c++)
		if (prctl(PR_CAPBSET_DROP, c) < 0)
			return -errno;
	return 0;
}

/* Also of user 0, who would have them whatever he becomes. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };

	if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, none) < 0)
		return -errno;
	return 0;
}

static int change_ids(const struct identity *id)
{
	if (setgroups((size_t)id->ngroups, id->groups) < 0 ||
	    setresgid(id->gid, id->gid, id->gid) < 0 || setresuid(id->uid, id->uid, id->uid) < 0)
		return -errno;
	return 0;
}

/* What was asked for has happened, and there is no way back. */
static bool is_dropped(const struct identity *id)
{
	uid_t u[3];
	gid_t g[3];

	if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
		return false;
	for (int i = 0; i < 3; i++)
		if (u[i] != id->uid || g[i] != id->gid)
			return false;
	return id->uid == 0 || (setuid(0) < 0 && errno == EPERM);
}

/* The kernel forgets it with the change of user; the parent may have gone since. */
static int keep_death_signal(int signal, pid_t parent)
{
	if (!signal)
		return 0;
	if (prctl(PR_SET_PDEATHSIG, signal) < 0)
		return -errno;
	return getppid() == parent ? 0 : -EOWNERDEAD;
}

/* Sanitizers look for leaks by tracing themselves. */
int identity_assume(const struct identity *id, struct err *e)
{
	pid_t parent = getppid();
	int signal = 0, rc;

	prctl(PR_GET_PDEATHSIG, &signal);
	rc = drop_bounding_set();

	if (rc == 0)
		rc = change_ids(id);
	if (rc == 0)
		rc = drop_capabilities();
	if (rc == 0 && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
			prctl(PR_SET_DUMPABLE, SANITIZED, 0, 0, 0) < 0))
		rc = -errno;
	if (rc == 0 && !is_dropped(id))
		rc = -EPERM;
	if (rc == 0)
		rc = keep_death_signal(signal, parent);
	return rc < 0 ? err_sys(e, rc, "cannot become user %s", printable(id->name)) : 0;
}
