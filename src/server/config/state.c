// SPDX-License-Identifier: Apache-2.0
/* The state directory, PEM files in memory, and sealed memory (memfd_create(2)). */
#include "server/server.h"

#include <dirent.h>
#include <fcntl.h>
#include <libgen.h>
#include <pwd.h>
#include <sys/stat.h>

enum { PEM_CERT, PEM_KEY, PEM_CA, PEMS };
enum { PEM_MOST = 16 << 20 };

/* Each file is read once, so that exactly the checked bytes are used. */
struct pems {
	struct tls_pem pem[PEMS];      /* text NULL: there is no such file */
	char *file[PEMS], *text[PEMS]; /* the strings of pem; owned */
};

/* ---- PEM files ---- */

static void pems_clear(struct pems *p)
{
	for (int i = 0; i < PEMS; i++) {
		if (p->text[i])
			crypto_wipe(p->text[i], p->pem[i].len);
		free(p->text[i]);
		free(p->file[i]);
	}
	memset(p, 0, sizeof(*p));
}

static int pems_read_file(struct pems *p, int i, const char *kind, const char *file, struct err *e)
{
	int rc = read_file(file, PEM_MOST, &p->text[i], &p->pem[i].len);

	if (rc < 0)
		return err_sys(e, rc, "%s %s: " CANNOT_READ, kind, printable(file));
	p->file[i] = strdup(file);
	p->pem[i].file = p->file[i];
	p->pem[i].text = p->text[i];
	return p->file[i] ? 0 : err_nomem(e);
}

/* Read the files into p; ca may be NULL. A key that others may read is refused. After an error p is
 * empty. */
static int pems_read(struct pems *p, const char *cert, const char *key, const char *ca,
		     struct err *e)
{
	struct stat st;
	int rc;

	memset(p, 0, sizeof(*p));
	rc = tls_check_key_file(key, e);
	if (rc == 0 && stat(key, &st) < 0)
		rc = err_sys(e, -errno, "key %s: " CANNOT_READ, printable(key));

	/* The owner of a key file can change it, or make it readable for others. */
	if (rc == 0 && st.st_uid != 0 && st.st_uid != geteuid())
		rc = err_set(e, -EPERM, "key %s belongs to another user (uid %u): chown %u %s",
			     printable(key), (unsigned int)st.st_uid, (unsigned int)geteuid(),
			     printable(key));

	if (rc == 0)
		rc = pems_read_file(p, PEM_CERT, "certificate", cert, e);
	if (rc == 0)
		rc = pems_read_file(p, PEM_KEY, "key", key, e);
	if (rc == 0 && ca)
		rc = pems_read_file(p, PEM_CA, "the CA certificates in", ca, e);
	if (rc < 0)
		pems_clear(p);
	return rc;
}

/* ---- sealed memory ---- */

/* The header of sealed memory; the texts of the PEM files follow it. */
struct sealed_head {
	uint64_t len[PEMS]; /* 0: there is no such file */
};

static int pems_seal(const struct pems *p, int fd, struct err *e)
{
	struct sealed_head head;
	int rc;

	for (int i = 0; i < PEMS; i++)
		head.len[i] = p->pem[i].len;

	rc = write_full(fd, &head, sizeof(head));
	for (int i = 0; rc == 0 && i < PEMS; i++)
		rc = write_full(fd, p->text[i], p->pem[i].len);
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
			     F_SEAL_SEAL) < 0)
		rc = -errno;
	return rc < 0 ? err_sys(e, rc, "cannot keep the certificate") : 0;
}

/* Read the sealed memory by pread(2), because all processes that have fd share its offset. */
static int pems_unseal(struct pems *p, bool with_key, int fd, struct err *e)
{
	static const char *const names[PEMS] = { "certificate", "key", "CA" };
	off_t at = sizeof(struct sealed_head);
	struct sealed_head head;
	int rc = 0;

	memset(p, 0, sizeof(*p));
	if (pread_full(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		rc = -EINVAL;
	for (int i = 0; rc == 0 && i < PEMS; i++) {
		size_t len = head.len[i];

		if (len > PEM_MOST)
			rc = -EINVAL;
		if (rc == 0 && len && (i != PEM_KEY || with_key)) {
			p->text[i] = calloc(1, len + 1);
			p->pem[i] = (struct tls_pem){ names[i], p->text[i], p->text[i] ? len : 0 };
			if (!p->text[i])
				rc = -ENOMEM;
			else if (pread_full(fd, p->text[i], len, at) != (ssize_t)len)
				rc = -EINVAL;
		}
		at += (off_t)len;
	}
	if (rc < 0)
		pems_clear(p);
	return rc < 0 ? err_sys(e, rc, "cannot read the kept certificate") : 0;
}

/* ---- the state directory ---- */

/* Returns the path of the state directory, malloc'd; NULL: none is known. */
static char *state_dir(const struct srv_options *o)
{
	const char *state = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");

	if (o->state)
		return strdup(o->state);
	if (geteuid() == 0)
		return strdup("/var/lib/rftpd");
	if (state && *state == '/')
		return name_below(state, "rftpd");
	if (!home || *home != '/') {
		struct passwd *pw = getpwuid(geteuid());

		home = pw ? pw->pw_dir : NULL;
	}
	return home ? name_below(home, ".local/state/rftpd") : NULL;
}

/* Make the state directory dir, and the two files in it, if they are missing. */
static int make_own_files(const char *dir, const char *cert, const char *key, struct err *e)
{
	char host[256] = "";
	int rc = make_dirs(dir, 0700);

	if (rc < 0)
		return err_sys(e, rc, "state directory %s", printable(dir));
	if (own_dir_check(dir, e))
		return err_prefix(e, "state directory");

	/* gethostname(2) may not end a truncated name with NUL; the last byte of host stays 0. */
	if (gethostname(host, sizeof(host) - 1) < 0 || !*host)
		snprintf(host, sizeof(host), "rftpd");
	return tls_make_certificate(cert, key, host, e);
}

/* Read the files that o names, or those of the state directory. only_check: make no files; if those
 * of the state directory would be made, p has only the CA certificates. */
static int read_files(struct pems *p, const struct srv_options *o, bool only_check, struct err *e)
{
	CLEANUP_FREE char *dir = state_dir(o), *cert = NULL, *key = NULL, *above = NULL;
	bool own = !o->certificate;
	int rc = 0;

	memset(p, 0, sizeof(*p));
	if (own && !dir)
		return err_set(e, -ENOENT, "no state directory: give --state DIR");

	cert = own ? name_below(dir, "cert.pem") : strdup(o->certificate);
	key = own ? name_below(dir, "key.pem") : strdup(o->key);
	above = key ? strdup(key) : NULL;
	if (!cert || !above)
		return err_nomem(e);

	if (own && only_check && access(cert, F_OK) && access(key, F_OK))
		return o->ca ? pems_read_file(p, PEM_CA, "the CA certificates in", o->ca, e) : 0;
	if (own && !only_check)
		rc = make_own_files(dir, cert, key, e);
	else if (!only_check && own_dir_check(dirname(above), e))
		rc = err_prefix(e, "directory of the key");
	return rc < 0 ? rc : pems_read(p, cert, key, o->ca, e);
}

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
				     "unauthenticated clients could reach", printable(path),
				     printable(d->d_name));
	if (rc == 0 && errno)
		rc = err_sys(e, -errno, "empty directory %s", printable(path));
	closedir(dir);
	return rc;
}

char *state_empty(const struct srv_options *o, struct err *e)
{
	CLEANUP_FREE char *state = state_dir(o);
	CLEANUP_FREE char *path = state ? name_below(state, "empty") : NULL;
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
		err_set(e, -EPERM, "%s must be a directory that only root can change",
			printable(path));
		return NULL;
	}
	return check_empty(path, e) < 0 ? NULL : steal_ptr(&path);
}

/* ---- opening ---- */

/* Fill s from p, and clear p. o NULL: without certificate and key, only to check client
 * certificates. */
static int state_fill(struct state *s, const struct srv_options *o, struct pems *p, struct err *e)
{
	const struct tls_pem *ca = p->text[PEM_CA] ? &p->pem[PEM_CA] : NULL;
	struct tls_server_settings t = { .also_1_2 = false };
	int rc = 0;

	memset(s, 0, sizeof(*s));
	if (o)
		t = (struct tls_server_settings){
			.cert = p->pem[PEM_CERT], .key = p->pem[PEM_KEY],
			.ciphers = o->tls_ciphers, .also_1_2 = o->tls_min == TLS_LEAST_1_2,
			.any_data = o->tls_data == TLS_DATA_ANY,
		};

	s->tls = tls_server_new_with(&t, e);
	if (!s->tls)
		rc = e->code;
	if (rc == 0 && (!o || ca || o->certificates))
		rc = tls_ask_client(s->tls, ca, e);
	if (rc == 0 && p->text[PEM_CERT]) {
		s->pin = tls_certificate_pin_pem(&p->pem[PEM_CERT], e);
		rc = s->pin ? 0 : e->code;
	}
	pems_clear(p);
	if (rc < 0)
		state_close(s);
	return rc;
}

int state_open(struct state *s, const struct srv_options *o, int fd, struct err *e)
{
	struct pems p;
	int rc = read_files(&p, o, false, e);

	memset(s, 0, sizeof(*s));
	if (rc == 0 && fd >= 0) {
		rc = pems_seal(&p, fd, e);
		if (rc < 0)
			pems_clear(&p);
	}
	return rc < 0 ? rc : state_fill(s, o, &p, e);
}

int state_open_sealed(struct state *s, const struct srv_options *o, int fd, struct err *e)
{
	struct pems p;
	int rc = pems_unseal(&p, o != NULL, fd, e);

	memset(s, 0, sizeof(*s));
	return rc < 0 ? rc : state_fill(s, o, &p, e);
}

int state_check(const struct srv_options *o, struct err *e)
{
	struct state s = { .tls = NULL };
	struct pems p;
	int rc = read_files(&p, o, true, e);

	if (rc == 0)
		rc = state_fill(&s, o, &p, e);
	state_close(&s);
	return rc;
}

void state_close(struct state *s)
{
	tls_ctx_free(s->tls);
	free(s->pin);
	memset(s, 0, sizeof(*s));
}
