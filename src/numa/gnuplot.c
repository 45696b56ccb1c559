// SPDX-License-Identifier: Apache-2.0
/* A process that reads, prints and complains into files without names: neither can stop the
 * other, and no shell sees any of it. */
#include "numa/gnuplot.h"

#include <errno.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPLAINT 256
#define PICTURE_MAX ((off_t)1 << 30)

/* Closed when it goes out of scope; a negative errno when there is none. */
static int nameless(const char *what)
{
	int fd = memfd_create(what, MFD_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

static int start(int in, int out, int complaints, pid_t *pid)
{
	/* -d: nobody's start-up file. */
	static char name[] = "gnuplot", defaults[] = "-d", standard_input[] = "-";
	char *const argv[] = { name, defaults, standard_input, NULL };
	posix_spawn_file_actions_t files;
	int r;

	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&files, complaints, STDERR_FILENO);
	r = posix_spawnp(pid, name, &files, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* The first thing that it says which is not a blank line or a mark under one. */
static void complaint(int fd, char text[COMPLAINT])
{
	ssize_t n = pread_full(fd, text, COMPLAINT - 1, 0);
	char *from;

	text[n > 0 ? n : 0] = '\0';
	from = text + strspn(text, " \t\r\n^");
	from[strcspn(from, "\n")] = '\0';
	memmove(text, from, strlen(from) + 1);
}

static int wait_for(pid_t pid, int complaints, struct err *e)
{
	char text[COMPLAINT];
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_sys(e, -errno, "gnuplot");
	if (WIFEXITED(status) && !WEXITSTATUS(status))
		return 0;
	complaint(complaints, text);
	return err_set(e, -EIO, "gnuplot could not draw it, %s %d%s%s",
		       WIFSIGNALED(status) ? "signal" : "status",
		       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status),
		       *text ? ": " : "", printable(text));
}

static int read_picture(int fd, char **out, size_t *len, struct err *e)
{
	struct stat st;
	ssize_t n;

	if (fstat(fd, &st))
		return err_sys(e, -errno, "gnuplot's picture");
	if (!st.st_size || st.st_size > PICTURE_MAX)
		return err_set(e, -EIO, "gnuplot made no picture");
	*len = (size_t)st.st_size;
	*out = malloc(*len);
	if (!*out)
		return err_set(e, -ENOMEM, "out of memory");
	n = pread_full(fd, *out, *len, 0);
	return n < 0 ? err_sys(e, (int)n, "gnuplot's picture") : 0;
}

int gnuplot(const char *script, size_t script_len, char **out, size_t *len, struct err *e)
{
	CLEANUP_CLOSE int in = nameless("script");
	CLEANUP_CLOSE int picture = nameless("picture");
	CLEANUP_CLOSE int complaints = nameless("complaints");
	pid_t pid;
	int r;

	if (in < 0 || picture < 0 || complaints < 0)
		return err_sys(e, in < 0 ? in : picture < 0 ? picture : complaints,
			       "no memory for a picture");
	r = pwrite_full(in, script, script_len, 0);
	if (r)
		return err_sys(e, r, "no memory for a picture");
	r = start(in, picture, complaints, &pid);
	if (r == -ENOENT)
		return err_set(e, r, "there is no gnuplot to draw with; install the package gnuplot-nox "
			       "(Debian) or gnuplot (RHEL)");
	if (r)
		return err_sys(e, r, "cannot run gnuplot");
	r = wait_for(pid, complaints, e);
	return r ? r : read_picture(picture, out, len, e);
}
