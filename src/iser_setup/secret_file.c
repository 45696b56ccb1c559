// SPDX-License-Identifier: Apache-2.0
/* Makes and checks secrets; never says one. */
#include "iser_setup/secret_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Some initiators insist on 12 to 16 bytes, and RFC 7143 §9.2.1 on 96 bits; letters and digits
 * pass through every configuration file. */
#define LENGTH 16
#define LENGTH_LEAST 12
#define LENGTH_MOST 255 /* LIO's and open-iscsi's */
#define OTHERS (S_IRWXG | S_IRWXO)
#define NOTHING "NULL" /* iscsi_target_configfs.c: the beginning of a value that clears it */

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

#define LETTERS (sizeof(letters) - 1)

/* The letters of a new one, and a newline. */
static int draw(char out[LENGTH + 1])
{
	unsigned n = 0;

	while (n < LENGTH) {
		unsigned char byte;

		if (getrandom(&byte, 1, 0) != 1)
			return errno ? -errno : -EIO;
		/* Each letter as likely as any other. */
		if (byte < 256 / LETTERS * LETTERS)
			out[n++] = letters[byte % LETTERS];
		if (n == strlen(NOTHING) && !strncmp(out, NOTHING, n))
			n = 0;
	}
	out[LENGTH] = '\n';
	return 0;
}

/* ---- read ---- */

void secret_free(char *secret)
{
	if (secret)
		explicit_bzero(secret, strlen(secret));
	free(secret);
}

void cleanup_secret(char **secret)
{
	secret_free(*secret);
}

/* NULL, or what is wrong with who may read it. */
static const char *exposed(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return "cannot be looked at";
	if (!S_ISREG(st.st_mode))
		return "is no file";
	if (st.st_uid && st.st_uid != geteuid())
		return "belongs to somebody else; chown root it, and draw a new secret";
	if (st.st_mode & OTHERS)
		return "may be read by others than its owner; chmod 600 it, and draw a new secret";
	return NULL;
}

/* NULL, or what is wrong with it for CHAP between LIO and any initiator. */
static const char *unfit(const char *secret)
{
	const size_t n = strlen(secret);

	for (const char *p = secret; *p; p++)
		if (*p <= ' ' || *p > '~')
			return "its first line has more in it than visible ASCII characters";
	if (n < LENGTH_LEAST)
		return "its first line, the secret, is shorter than 12 characters";
	if (n > LENGTH_MOST)
		return "its first line, the secret, is longer than 255 characters";
	return strncmp(secret, NOTHING, strlen(NOTHING)) ? NULL :
		"a secret that begins with NULL is none for LIO";
}

/* What is wrong with it as a line of open-iscsi's. */
static const char *no_line(const char *secret)
{
	const size_t n = strlen(secret);

	if (!n)
		return "the secret is empty";
	if (n > LENGTH_MOST)
		return "the secret is longer than 255 bytes";
	for (const char *p = secret; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return "the secret has a control character in it";
	return secret[0] == ' ' || secret[n - 1] == ' ' ?
		"the secret begins or ends with a blank, which open-iscsi would drop" : NULL;
}

char *secret_read(const char *path, enum secret_of of, struct err *e)
{
	/* Not blocked by a pipe. */
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	/* So that one too long is seen. */
	CLEANUP_SECRET char *text = calloc(1, LENGTH_MOST + 3);
	const char *wrong = fd < 0 ? strerror(errno) : NULL;
	ssize_t n = 0;

	if (!text) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	if (!wrong)
		wrong = exposed(fd);
	if (!wrong)
		n = read_full(fd, text, LENGTH_MOST + 2);
	if (n < 0)
		wrong = strerror((int)-n);
	/* A file from elsewhere may have come with the other kind of line. */
	text[strcspn(text, of == SECRET_THEIRS ? "\r\n" : "\n")] = '\0';
	if (!wrong)
		wrong = of == SECRET_THEIRS ? no_line(text) : unfit(text);
	if (!wrong)
		return steal_ptr(&text);
	err_set(e, -EINVAL, "%s, a CHAP secret: %s", printable(path), wrong);
	return NULL;
}

int secret_check(const char *path, struct err *e)
{
	CLEANUP_SECRET char *secret = secret_read(path, SECRET_OURS, e);

	return secret ? 0 : -EINVAL;
}

/* ---- make ---- */

static int make_directory(const char *path, struct err *e)
{
	CLEANUP_FREE char *dir = strdup(path);
	struct stat st;
	int r;

	if (!dir)
		return err_set(e, -ENOMEM, "out of memory");
	*strrchr(dir, '/') = '\0';
	if (!*dir)
		return 0;
	r = make_dirs(dir, S_IRWXU);
	if (r)
		return err_sys(e, r, "the directory %s for secrets", printable(dir));
	if (stat(dir, &st))
		return err_sys(e, -errno, "the directory %s for secrets", printable(dir));
	if (st.st_uid && st.st_uid != geteuid())
		return err_set(e, -EPERM, "the directory %s for secrets belongs to somebody else: "
			       "chown root it, or name another with --secrets", printable(dir));
	if (st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, -EPERM, "the directory %s for secrets may be written by others: "
			       "chmod 700 it, or name another with --secrets", printable(dir));
	return 0;
}

static int fill(int fd)
{
	char text[LENGTH + 1];
	int r = draw(text);

	if (!r)
		r = write_full(fd, text, sizeof(text));
	explicit_bzero(text, sizeof(text));
	if (!r && fsync(fd))
		r = -errno;
	return r;
}

int secret_make(const char *path, bool *made, struct err *e)
{
	CLEANUP_CLOSE int fd = -1;
	int r;

	*made = false;
	r = make_directory(path, e);
	if (r)
		return r;
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
	if (fd < 0 && errno == EEXIST)
		return secret_check(path, e);
	if (fd < 0)
		return err_sys(e, -errno, "the secret %s", printable(path));
	r = fill(fd);
	if (r) {
		unlink(path);
		return err_sys(e, r, "the secret %s", printable(path));
	}
	*made = true;
	return 0;
}
