// SPDX-License-Identifier: Apache-2.0
/* PEM files in memory, and in sealed memory (memfd_create(2)). */
#include "server/pems.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PEM_MOST = 16 << 20 };

/* What stands first in sealed memory; the texts follow. */
struct head {
	uint64_t there[PEMS], len[PEMS];
};

void pems_clear(struct pems *p)
{
	for (int i = 0; i < PEMS; i++) {
		if (p->text[i])
			crypto_wipe(p->text[i], p->pem[i].len);
		free(p->text[i]);
		free(p->file[i]);
	}
	memset(p, 0, sizeof(*p));
}

static int read_one(struct pems *p, int i, const char *what, const char *file, struct err *e)
{
	int rc = read_file(file, PEM_MOST, &p->text[i], &p->pem[i].len);

	if (rc < 0)
		return err_sys(e, rc, "cannot read %s %s", what, printable(file));
	p->file[i] = strdup(file);
	p->pem[i].file = p->file[i];
	p->pem[i].text = p->text[i];
	return p->file[i] ? 0 : err_sys(e, -ENOMEM, "state");
}

/* Whoever owns it may make it readable, and change it. */
static int check_owner(const char *key, struct err *e)
{
	struct stat st;

	if (stat(key, &st) < 0)
		return err_sys(e, -errno, "cannot read key %s", printable(key));
	if (st.st_uid == 0 || st.st_uid == geteuid())
		return 0;
	return err_set(e, -EPERM, "key %s is that of another user (uid %u): chown %u %s",
		       printable(key), (unsigned int)st.st_uid, (unsigned int)geteuid(),
		       printable(key));
}

int pems_read(struct pems *p, const char *cert, const char *key, const char *ca, struct err *e)
{
	int rc;

	memset(p, 0, sizeof(*p));
	rc = tls_check_key_file(key, e);
	if (rc == 0)
		rc = check_owner(key, e);
	if (rc == 0)
		rc = read_one(p, PEM_CERT, "certificate", cert, e);
	if (rc == 0)
		rc = read_one(p, PEM_KEY, "key", key, e);
	if (rc == 0 && ca)
		rc = read_one(p, PEM_CA, "the CA certificates in", ca, e);
	if (rc < 0)
		pems_clear(p);
	return rc;
}

/* ---- sealed ---- */

int pems_memory(struct err *e)
{
	int fd = memfd_create("certificate", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	return fd < 0 ? err_sys(e, -errno, "memory for the certificate") : fd;
}

int pems_seal(const struct pems *p, int fd, struct err *e)
{
	struct head head;
	int rc;

	for (int i = 0; i < PEMS; i++) {
		head.there[i] = p->text[i] != NULL;
		head.len[i] = p->pem[i].len;
	}
	rc = write_full(fd, &head, sizeof(head));
	for (int i = 0; rc == 0 && i < PEMS; i++)
		rc = p->text[i] ? write_full(fd, p->text[i], p->pem[i].len) : 0;
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE |
			     F_SEAL_SEAL) < 0)
		rc = -errno;
	return rc < 0 ? err_sys(e, rc, "memory for the certificate") : 0;
}

static int unseal_one(struct pems *p, int i, const struct head *head, int fd, off_t *at)
{
	static const char *const names[PEMS] = { "certificate", "key", "CA" };
	size_t len = head->len[i];

	if (!head->there[i])
		return 0;
	if (len > PEM_MOST)
		return -EINVAL;
	p->text[i] = malloc(len + 1);
	if (!p->text[i])
		return -ENOMEM;
	p->pem[i] = (struct tls_pem){ .file = names[i], .text = p->text[i], .len = len };
	if (pread_full(fd, p->text[i], len, *at) != (ssize_t)len)
		return -EINVAL;
	p->text[i][len] = '\0';
	*at += (off_t)len;
	return 0;
}

/* All processes that have fd share where it stands: that does not matter here. */
static int unseal(struct pems *p, bool with_key, int fd, struct err *e)
{
	off_t at = sizeof(struct head);
	struct head head;
	int rc = 0;

	memset(p, 0, sizeof(*p));
	if (pread_full(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		rc = -EINVAL;
	for (int i = 0; rc == 0 && i < PEMS; i++) {
		if (i == PEM_KEY && !with_key)
			at += (off_t)head.len[i];
		else
			rc = unseal_one(p, i, &head, fd, &at);
	}
	if (rc < 0)
		pems_clear(p);
	return rc < 0 ? err_sys(e, rc, "memory of the certificate") : 0;
}

int pems_unseal(struct pems *p, int fd, struct err *e)
{
	return unseal(p, true, fd, e);
}

int pems_unseal_public(struct pems *p, int fd, struct err *e)
{
	return unseal(p, false, fd, e);
}
