// SPDX-License-Identifier: Apache-2.0
/* The script is a file without a name, and the picture what gnuplot prints: no shell sees any of
 * it, and no file is left of it. */
#include "numa/gnuplot.h"


#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define SCRIPT_PATH 32

/* Closed when it goes out of scope; a negative errno when there is none. */
static int nameless(const char *text, size_t len)
{
	CLEANUP_CLOSE int fd = memfd_create("script", MFD_CLOEXEC);
	int r = fd < 0 ? -errno : pwrite_full(fd, text, len, 0);

	return r ? r : steal_fd(&fd);
}

static int run(int script, struct child_said *said, struct err *e)
{
	/* -d: nobody's start-up file. */
	char name[] = "gnuplot", defaults[] = "-d", path[SCRIPT_PATH];
	char *const argv[] = { name, defaults, path, NULL };
	struct stop stop;
	int r;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", CHILD_FD);
	stop_begin(&stop);
	r = child_run(argv, script, &stop, said, e);
	/* A signal that came ends the process here. */
	stop_end(&stop);
	if (r == -ENOENT)
		err_set(e, r, "there is no gnuplot to draw with; install the package gnuplot-nox "
			"(Debian) or gnuplot (RHEL)");
	return r;
}

/* The first thing that it says which is not a blank line or a mark under one. */
static const char *complaint(char *text)
{
	text += strspn(text, " \t\r\n^");
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static int check(struct child_said *said, struct err *e)
{
	const char *text = said->status ? complaint(said->err) : "";

	if (said->status)
		return err_set(e, -EIO, "gnuplot could not draw it, status %d%s%s", said->status,
			       *text ? ": " : "", printable(text));
	if (!said->out_len)
		return err_set(e, -EIO, "gnuplot made no picture");
	if (said->out_len == CHILD_SAID_MAX)
		return err_set(e, -EFBIG, "gnuplot's picture is too large");
	return 0;
}

int gnuplot(const char *script, size_t script_len, char **out, size_t *len, struct err *e)
{
	CLEANUP_CLOSE int fd = nameless(script, script_len);
	struct child_said said;
	int r;

	if (fd < 0)
		return err_sys(e, fd, "no memory for a picture");
	r = run(fd, &said, e);
	r = r ? r : check(&said, e);
	if (!r) {
		*len = said.out_len;
		*out = steal_ptr(&said.out);
	}
	child_clear(&said);
	return r;
}

int gnuplot_check(struct err *e)
{
	static const char script[] = "set print '-'\nprint 'here'\n";
	CLEANUP_FREE char *out = NULL;
	size_t len;

	return gnuplot(script, strlen(script), &out, &len, e);
}
