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

static int make_certificate(const char *cert, const char *key, struct err *e)
{
	char host[256] = "";

	/* A truncated name may come without its NUL. */
	if (gethostname(host, sizeof(host) - 1) < 0 || !*host)
		snprintf(host, sizeof(host), "rftpd");
	return tls_make_certificate(cert, key, host, e);
}

static int open_certificate(struct state *s, const struct srv_options *o, const char *cert,
			    const char *key, struct err *e)
{
	struct tls_server_settings t = {
		.certfile = cert, .keyfile = key, .ciphers = o->tls_ciphers,
		.also_1_2 = o->tls_min == TLS_LEAST_1_2,
	};

	s->tls = tls_server_new_with(&t, e);
	if (!s->tls || ((o->ca || o->certificates) && tls_ask_client(s->tls, o->ca, e) < 0))
		return e->code;
	if (!cert) /* it was for the rest */
		return 0;
	s->pin = tls_certificate_pin(cert, e);
	return s->pin ? 0 : e->code;
}

/* Both are made where they are missing. */
static int open_own(struct state *s, const struct srv_options *o, struct err *e)
{
	CLEANUP_FREE char *dir = o->state ? strdup(o->state) : default_dir();
	CLEANUP_FREE char *cert = dir ? format_path(dir, "cert.pem") : NULL;
	CLEANUP_FREE char *key = dir ? format_path(dir, "key.pem") : NULL;
	int rc;

	if (!dir)
		return err_set(e, -ENOENT, "no place for the state: give --state DIR");
	if (!cert || !key)
		return err_sys(e, -ENOMEM, "state");
	rc = make_dirs(dir, 0700);
	if (rc < 0)
		return err_sys(e, rc, "state directory %s", printable(dir));
	rc = make_certificate(cert, key, e);
	return rc < 0 ? rc : open_certificate(s, o, cert, key, e);
}

int state_open(struct state *s, const struct srv_options *o, struct err *e)
{
	int rc;

	memset(s, 0, sizeof(*s));
	rc = o->certificate ? open_certificate(s, o, o->certificate, o->key, e) :
			      open_own(s, o, e);
	if (rc < 0)
		state_close(s);
	return rc;
}

char *state_empty(const struct srv_options *o, struct err *e)
{
	CLEANUP_FREE char *state = o->state ? strdup(o->state) : default_dir();
	CLEANUP_FREE char *path = state ? format_path(state, "empty") : NULL;
	struct stat st;
	int rc = path ? make_dirs(state, 0700) : -ENOMEM;

	if (rc == 0)
		rc = make_dirs(path, 0555);
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

static int check_with(const struct srv_options *o, const char *cert, const char *key,
		      struct err *e)
{
	struct state s = { 0 };
	int rc = open_certificate(&s, o, cert, key, e);

	state_close(&s);
	return rc;
}

int state_check(const struct srv_options *o, struct err *e)
{
	CLEANUP_FREE char *dir = o->state ? strdup(o->state) : default_dir();
	CLEANUP_FREE char *cert = dir ? format_path(dir, "cert.pem") : NULL;
	CLEANUP_FREE char *key = dir ? format_path(dir, "key.pem") : NULL;

	if (o->certificate)
		return check_with(o, o->certificate, o->key, e);
	if (!dir)
		return err_set(e, -ENOENT, "no place for the state: give --state DIR");
	if (!cert || !key)
		return err_sys(e, -ENOMEM, "state");
	if (access(cert, F_OK) && access(key, F_OK))
		return check_with(o, NULL, NULL, e);
	return check_with(o, cert, key, e);
}

void state_close(struct state *s)
{
	tls_ctx_free(s->tls);
	free(s->pin);
	memset(s, 0, sizeof(*s));
}
