// SPDX-License-Identifier: Apache-2.0
/* Reads and extends the file of known servers. */
#include "client/known_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_MAX (16u << 20)

char *known_hosts_name(const char *host, uint16_t port)
{
	char *name;
	int n = asprintf(&name, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);

	return n < 0 ? NULL : name;
}

/* Cut a line into its words. 1; 0: nothing but blanks or a comment; -EINVAL. */
static int split_line(char *line, char **name, char **pin)
{
	static const char blank[] = " \t\r";
	char *rest;

	line += strspn(line, blank);
	if (!*line || *line == '#')
		return 0;
	*name = strtok_r(line, blank, &rest);
	*pin = strtok_r(NULL, blank, &rest);
	if (!*pin || strtok_r(NULL, blank, &rest))
		return -EINVAL;
	return 1;
}

static void judge(struct known_answer *a, unsigned line, const char *known, const char *pin)
{
	if (!strcmp(known, pin)) {
		*a = (struct known_answer){ .what = HOST_SAME };
	} else if (a->what != HOST_SAME) {
		a->what = HOST_CHANGED;
		a->line = line;
		snprintf(a->pin, sizeof(a->pin), "%s", known);
	}
}

static int search(const char *file, char *text, const char *name, const char *pin,
		  struct known_answer *a, struct err *e)
{
	char *line, *known_name, *known_pin;
	unsigned number = 0;
	int rc;

	while ((line = strsep(&text, "\n"))) {
		number++;
		rc = split_line(line, &known_name, &known_pin);
		if (rc < 0)
			return err_set(e, rc, "%s:%u: is not \"HOST:PORT PIN\"", printable(file),
				       number);
		/* Names of hosts have no case. */
		if (rc && !strcasecmp(known_name, name))
			judge(a, number, known_pin, pin);
	}
	return 0;
}

/* The file's text, "" when there is none; malloc'd. */
static int read_text(const char *file, char **text, struct err *e)
{
	int rc = read_file(file, FILE_MAX, text, NULL);

	if (rc == -ENOENT) {
		*text = strdup("");
		rc = *text ? 0 : -ENOMEM;
	}
	return rc ? err_sys(e, rc, "cannot read %s", printable(file)) : 0;
}

int known_hosts_check(const char *file, const char *host, uint16_t port, const char *pin,
		      struct known_answer *a, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *name = known_hosts_name(host, port);
	int rc;

	memset(a, 0, sizeof(*a));
	if (!name)
		return err_sys(e, -ENOMEM, "%s", printable(host));
	rc = read_text(file, &text, e);
	return rc ? rc : search(file, text, name, pin, a, e);
}

static int make_parent(const char *file)
{
	const char *slash = strrchr(file, '/');
	CLEANUP_FREE char *parent = NULL;

	if (!slash || slash == file)
		return 0;
	parent = strndup(file, (size_t)(slash - file));
	return parent ? make_dirs(parent, 0700) : -ENOMEM;
}

/* A file of its own is locked, because the other one is replaced. */
static int lock_file(const char *file, int *fd)
{
	CLEANUP_FREE char *lock = NULL;
	int rc;

	if (asprintf(&lock, "%s.lock", file) < 0) {
		lock = NULL;
		return -ENOMEM;
	}
	*fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (*fd < 0)
		return -errno;
	do {
		rc = flock(*fd, LOCK_EX);
	} while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : 0;
}

/* Under the lock. */
static int append_line(const char *file, const char *name, const char *pin, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *longer = NULL;
	const char *gap;
	size_t len;
	int n, rc = read_text(file, &text, e);

	if (rc)
		return rc;
	len = strlen(text);
	gap = len && text[len - 1] != '\n' ? "\n" : "";
	n = asprintf(&longer, "%s%s%s %s\n", text, gap, name, pin);
	if (n < 0) {
		longer = NULL;
		return err_sys(e, -ENOMEM, "%s", printable(file));
	}
	return write_file_atomic(file, longer, (size_t)n, 0600, e);
}

int known_hosts_add(const char *file, const char *host, uint16_t port, const char *pin,
		    struct err *e)
{
	CLEANUP_FREE char *name = known_hosts_name(host, port);
	CLEANUP_CLOSE int fd = -1;
	struct known_answer a;
	struct stat st;
	int rc;

	if (!name)
		return err_sys(e, -ENOMEM, "%s", printable(host));
	if (!stat(file, &st) && S_ISCHR(st.st_mode))
		return err_set(e, -ENODEV, "%s is a device", printable(file));
	rc = make_parent(file);
	if (rc == 0)
		rc = lock_file(file, &fd);
	if (rc)
		return err_sys(e, rc, "cannot write %s", printable(file));
	rc = known_hosts_check(file, host, port, pin, &a, e);
	if (rc || a.what == HOST_SAME)
		return rc;
	return append_line(file, name, pin, e);
}
