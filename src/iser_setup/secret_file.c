// SPDX-License-Identifier: Apache-2.0
/* Makes and checks secrets; never says one. */
#include "iser_setup/secret_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
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
		/* iscsi_target_configfs.c: the beginning of a value that clears it. */
		if (n == 4 && !strncmp(out, "NULL", 4))
			n = 0;
	}
	out[LENGTH] = '\n';
	return 0;
}

/* ---- check ---- */

static int check_mode(int fd, const char *path, struct err *e)
{
	struct stat st;

	if (fstat(fd, &st))
		return err_sys(e, -errno, "the secret %s", printable(path));
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EINVAL, "the secret %s is no file", printable(path));
	if (st.st_mode & OTHERS)
		return err_set(e, -EPERM, "the secret %s may be read by others than its owner: "
			       "chmod 600 it", printable(path));
	return 0;
}

static int check_line(const char *line, const char *path, struct err *e)
{
	const size_t n = strcspn(line, "\n");

	if (n < LENGTH_LEAST || n > LENGTH_MOST)
		return err_set(e, -EINVAL, "the secret in %s is not of %u to %u bytes",
			       printable(path), LENGTH_LEAST, LENGTH_MOST);
	for (size_t i = 0; i < n; i++)
		if (line[i] <= ' ' || line[i] > '~')
			return err_set(e, -EINVAL, "the secret in %s has a blank or what is not "
				       "ASCII in it", printable(path));
	if (!strncmp(line, "NULL", 4))
		return err_set(e, -EINVAL, "the secret in %s begins with LIO's word for none",
			       printable(path));
	return 0;
}

int secret_check(const char *path, struct err *e)
{
	/* Not blocked by a pipe. */
	CLEANUP_CLOSE int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	char line[LENGTH_MOST + 2] = "";
	ssize_t n;
	int r;

	if (fd < 0)
		return err_sys(e, -errno, "the secret %s", printable(path));
	r = check_mode(fd, path, e);
	if (r)
		return r;
	n = read_full(fd, line, sizeof(line) - 1);
	r = n < 0 ? err_sys(e, (int)n, "the secret %s", printable(path)) :
	    check_line(line, path, e);
	explicit_bzero(line, sizeof(line));
	return r;
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
