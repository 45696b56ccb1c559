// SPDX-License-Identifier: Apache-2.0
/* Finds the state directory, makes the certificate at first start. */
#include "server/state.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char *format_path(const char *dir, const char *name)
{
	char *path;

	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

/* malloc'd; NULL: there is no place for it. */
static char *default_dir(void)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (geteuid() == 0)
		return strdup("/var/lib/rftpd");
	if (state && *state == '/')
		return format_path(state, "rftpd");
	if (!home || *home != '/') {
		struct passwd *pw = getpwuid(geteuid());

		home = pw ? pw->pw_dir : NULL;
	}
	return home ? format_path(home, ".local/state/rftpd") : NULL;
}

static int open_certificate(struct state *s, const char *dir, struct err *e)
{
	CLEANUP_FREE char *cert = format_path(dir, "cert.pem");
	CLEANUP_FREE char *key = format_path(dir, "key.pem");
	char host[256] = "";
	int rc;

	if (!cert || !key)
		return err_sys(e, -ENOMEM, "state");
	/* A truncated name may come without its NUL. */
	if (gethostname(host, sizeof(host) - 1) < 0 || !*host)
		snprintf(host, sizeof(host), "rftpd");
	rc = tls_make_certificate(cert, key, host, e);
	if (rc < 0)
		return rc;
	s->tls = tls_server_new(cert, key, e);
	if (!s->tls)
		return e->code;
	s->pin = tls_certificate_pin(cert, e);
	return s->pin ? 0 : e->code;
}

int state_open(struct state *s, const char *dir, struct err *e)
{
	CLEANUP_FREE char *path = dir ? strdup(dir) : default_dir();
	int rc;

	memset(s, 0, sizeof(*s));
	if (!path)
		return err_set(e, -ENOENT, "no place for the state: give --state DIR");
	rc = make_dirs(path, 0700);
	if (rc < 0)
		return err_sys(e, rc, "state directory %s", printable(path));
	rc = open_certificate(s, path, e);
	if (rc < 0)
		state_close(s);
	return rc;
}

char *state_empty(const char *dir, struct err *e)
{
	CLEANUP_FREE char *state = dir ? strdup(dir) : default_dir();
	CLEANUP_FREE char *path = state ? format_path(state, "empty") : NULL;
	struct stat st;
	int rc = path ? make_dirs(path, 0555) : -ENOMEM;

	if (rc == 0 && lstat(path, &st) < 0)
		rc = -errno;
	if (rc < 0) {
		err_sys(e, rc, "empty directory %s", printable(path ? path : ""));
		return NULL;
	}
	if (!S_ISDIR(st.st_mode) || st.st_uid != 0 || st.st_mode & 022) {
		err_set(e, -EPERM, "%s is no directory that root alone may change",
			printable(path));
		return NULL;
	}
	return steal_ptr(&path);
}

void state_close(struct state *s)
{
	tls_ctx_free(s->tls);
	free(s->pin);
	memset(s, 0, sizeof(*s));
}
