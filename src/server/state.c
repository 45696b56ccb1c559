// SPDX-License-Identifier: Apache-2.0
/* Finds the state directory, makes the certificate at first start. */
#include "server/state.h"
#include "server/pems.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
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

static int use(struct state *s, const struct srv_options *o, const struct pems *p,
	       struct err *e)
{
	const struct tls_pem *ca = p->text[PEM_CA] ? &p->pem[PEM_CA] : NULL;
	struct tls_server_settings t = {
		.cert = p->pem[PEM_CERT], .key = p->pem[PEM_KEY], .ciphers = o->tls_ciphers,
		.also_1_2 = o->tls_min == TLS_LEAST_1_2, .any_data = o->tls_data == TLS_DATA_ANY,
	};

	s->tls = tls_server_new_with(&t, e);
	if (!s->tls || ((ca || o->certificates) && tls_ask_client_pem(s->tls, ca, e) < 0))
		return e->code;
	s->pin = tls_certificate_pin_pem(&p->pem[PEM_CERT], e);
	return s->pin ? 0 : e->code;
}

/* Both are made where they are missing. */
static int read_own(struct pems *p, const struct srv_options *o, struct err *e)
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
	if (own_dir_check(dir, e))
		return err_prefix(e, "state directory");
	rc = make_certificate(cert, key, e);
	return rc < 0 ? rc : pems_read(p, cert, key, o->ca, e);
}

static int read_files(struct pems *p, const struct srv_options *o, struct err *e)
{
	CLEANUP_FREE char *key = o->certificate ? strdup(o->key) : NULL;

	if (!o->certificate)
		return read_own(p, o, e);
	if (!key || own_dir_check(dirname(key), e))
		return key ? err_prefix(e, "directory of the key") : err_sys(e, -ENOMEM, "state");
	return pems_read(p, o->certificate, o->key, o->ca, e);
}

/* Takes p. */
static int open_with(struct state *s, const struct srv_options *o, struct pems *p, struct err *e)
{
	int rc = use(s, o, p, e);

	pems_clear(p);
	if (rc < 0)
		state_close(s);
	return rc;
}

int state_open(struct state *s, const struct srv_options *o, struct err *e)
{
	struct pems p;
	int rc = read_files(&p, o, e);

	memset(s, 0, sizeof(*s));
	return rc < 0 ? rc : open_with(s, o, &p, e);
}

int state_seal(const struct srv_options *o, int fd, struct err *e)
{
	struct state tried = { .tls = NULL };
	struct pems p;
	int rc = read_files(&p, o, e);

	if (rc < 0)
		return rc;
	rc = use(&tried, o, &p, e);
	state_close(&tried);
	if (rc == 0)
		rc = pems_seal(&p, fd, e);
	pems_clear(&p);
	return rc;
}

int state_open_sealed(struct state *s, const struct srv_options *o, int fd, struct err *e)
{
	struct pems p;
	int rc = pems_unseal(&p, fd, e);

	memset(s, 0, sizeof(*s));
	return rc < 0 ? rc : open_with(s, o, &p, e);
}

static int judge(struct state *s, const struct pems *p, struct err *e)
{
	const struct tls_server_settings none = { .also_1_2 = false };

	s->tls = tls_server_new_with(&none, e);
	if (!s->tls ||
	    tls_ask_client_pem(s->tls, p->text[PEM_CA] ? &p->pem[PEM_CA] : NULL, e) < 0)
		return e->code;
	s->pin = tls_certificate_pin_pem(&p->pem[PEM_CERT], e);
	return s->pin ? 0 : e->code;
}

int state_open_judge(struct state *s, int fd, struct err *e)
{
	struct pems p;
	int rc = pems_unseal_public(&p, fd, e);

	memset(s, 0, sizeof(*s));
	if (rc < 0)
		return rc;
	rc = judge(s, &p, e);
	pems_clear(&p);
	if (rc < 0)
		state_close(s);
	return rc;
}

/* What lies there all strangers' processes could open. */
static int check_empty(const char *path, struct err *e)
{
	const struct dirent *d;
	int rc = 0;
	DIR *dir = opendir(path);

	if (!dir)
		return err_sys(e, -errno, "empty directory %s", printable(path));
	errno = 0;
	while (rc == 0 && (d = readdir(dir)))
		if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
			rc = err_set(e, -ENOTEMPTY, "%s is not empty: there is \"%s\" in it, which "
				     "strangers could reach", printable(path),
				     printable(d->d_name));
	if (rc == 0 && errno)
		rc = err_sys(e, -errno, "empty directory %s", printable(path));
	closedir(dir);
	return rc;
}

char *state_empty(const struct srv_options *o, struct err *e)
{
	CLEANUP_FREE char *state = o->state ? strdup(o->state) : default_dir();
	CLEANUP_FREE char *path = state ? format_path(state, "empty") : NULL;
	struct stat st;
	int rc = path ? make_dirs(state, 0700) : -ENOMEM;

	if (rc == 0 && own_dir_check(state, e)) {
		err_prefix(e, "state directory");
		return NULL;
	}
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
	return check_empty(path, e) < 0 ? NULL : steal_ptr(&path);
}

/* Without a certificate the rest may be good or not. */
static int check_rest(const struct srv_options *o, struct err *e)
{
	struct tls_server_settings t = { .ciphers = o->tls_ciphers };
	struct tls_ctx *tls = tls_server_new_with(&t, e);
	int rc = tls ? 0 : e->code;

	if (rc == 0 && o->ca)
		rc = tls_ask_client(tls, o->ca, e);
	tls_ctx_free(tls);
	return rc;
}

static int check_with(const struct srv_options *o, const char *cert, const char *key,
		      struct err *e)
{
	struct state s = { 0 };
	struct pems p;
	int rc = pems_read(&p, cert, key, o->ca, e);

	if (rc == 0)
		rc = open_with(&s, o, &p, e);
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
		return check_rest(o, e);
	return check_with(o, cert, key, e);
}

void state_close(struct state *s)
{
	tls_ctx_free(s->tls);
	free(s->pin);
	memset(s, 0, sizeof(*s));
}
