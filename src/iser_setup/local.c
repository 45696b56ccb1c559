// SPDX-License-Identifier: Apache-2.0
/* mkdir, mount and the like, as requests. */
#include "iser_setup/local.h"

#include "iser_setup/steps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE (64ll << 20) /* of a file, after which a signal is looked for */
#define DIR_MODE 0755
#define FILE_MODE 0600

struct job {
	const json_t *request;
	const struct topo *t;
	int node;
	const struct stop *stop;
	struct err *e;
};

static const char *text_of(const struct job *j, const char *key)
{
	const char *text = json_string_value(json_object_get(j->request, key));

	return text ? text : "";
}

static const char *path_of(const struct job *j)
{
	return text_of(j, "path");
}

static off_t size_of(const struct job *j)
{
	return (off_t)json_integer_value(json_object_get(j->request, "size"));
}

/* ---- directories and mounts ---- */

static int make_dir(const struct job *j)
{
	if (mkdir(path_of(j), DIR_MODE) && errno != EEXIST)
		return err_sys(j->e, -errno, "%s", printable(path_of(j)));
	return 0;
}

static int remove_dir(const struct job *j)
{
	if (rmdir(path_of(j)) && errno != ENOENT)
		return err_sys(j->e, -errno, "%s", printable(path_of(j)));
	return 0;
}

static int mount_tmpfs(const struct job *j)
{
	if (mount(ISER_MOUNT_SOURCE, path_of(j), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC,
		  text_of(j, "options")))
		return err_sys(j->e, -errno, "mount of a tmpfs at %s, with %s",
			       printable(path_of(j)), text_of(j, "options"));
	return 0;
}

/* -EINVAL: nothing is mounted there. */
static int unmount(const struct job *j)
{
	if (umount2(path_of(j), UMOUNT_NOFOLLOW) && errno != EINVAL && errno != ENOENT)
		return err_sys(j->e, -errno, "umount %s%s", printable(path_of(j)),
			       errno == EBUSY ? " (fuser -m tells who uses it)" : "");
	return 0;
}

/* ---- files ---- */

/* This thread's CPUs while it has others. */
struct elsewhere {
	struct ids before;
	bool moved;
};

static void go_to_node(const struct job *j, struct elsewhere *x)
{
	struct ids cpus;

	x->moved = false;
	if (j->node == NODE_UNKNOWN || place_cpus(&x->before))
		return;
	cpus = topo_cpus(j->t, j->node, &x->before);
	x->moved = ids_count(&cpus) && !place_thread(&cpus);
}

static void go_back(const struct elsewhere *x)
{
	if (x->moved)
		place_thread(&x->before);
}

/* Has the node no more for a piece? What is bound to it would have the kernel end processes. */
static bool is_full(const struct job *j, off_t piece)
{
	struct node_memory m;

	return json_is_true(json_object_get(j->request, "bound")) &&
	       !topo_memory(j->t, j->node, &m) && m.room < (uint64_t)piece;
}

/* Some filesystems cannot; then it has holes. */
static int allocate(const struct job *j, int fd, off_t from, off_t to)
{
	for (off_t at = from; at < to; at += PIECE) {
		off_t n = to - at < PIECE ? to - at : PIECE;

		if (j->stop && stop_asked(j->stop))
			return -EINTR;
		if (is_full(j, n))
			return -ENOMEM;
		while (fallocate(fd, 0, at, n)) {
			if (errno == EOPNOTSUPP)
				return ftruncate(fd, to) ? -errno : 0;
			if (errno != EINTR)
				return -errno;
			if (j->stop && stop_asked(j->stop))
				return -EINTR;
		}
	}
	return fsync(fd) ? -errno : 0;
}

static int make_file(const struct job *j)
{
	const char *path = path_of(j);
	/* What somebody has put there since we looked is not ours to fill, nor to take back. */
	bool fresh = json_is_true(json_object_get(j->request, "new"));
	bool there = !access(path, F_OK);
	CLEANUP_CLOSE int fd = open(path, O_RDWR | O_CREAT | (fresh ? O_EXCL : 0) | O_NOFOLLOW |
				    O_CLOEXEC, FILE_MODE);
	struct elsewhere x;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return err_sys(j->e, -errno, "%s", printable(path));
	if (!S_ISREG(st.st_mode))
		return err_set(j->e, -EINVAL, "%s is no regular file", printable(path));
	go_to_node(j, &x);
	r = allocate(j, fd, st.st_size, size_of(j));
	go_back(&x);
	if (!r)
		return 0;
	if (there ? ftruncate(fd, st.st_size) : unlink(path))
		log_warn("%s: cannot be made as it was: %s", printable(path), strerror(errno));
	if (r == -EINTR)
		return err_set(j->e, r, "stopped by a signal");
	return err_sys(j->e, r, "%s, of %lld bytes", printable(path), (long long)size_of(j));
}

static int cut_file(const struct job *j)
{
	if (truncate(path_of(j), size_of(j)))
		return err_sys(j->e, -errno, "%s", printable(path_of(j)));
	return 0;
}

static int remove_file(const struct job *j)
{
	if (unlink(path_of(j)) && errno != ENOENT)
		return err_sys(j->e, -errno, "%s", printable(path_of(j)));
	return 0;
}

/* ---- interrupts ---- */

static int set_irq(const struct job *j)
{
	const char *proc = getenv("RFTP_PROC"), *list = text_of(j, "list");
	unsigned irq = (unsigned)json_integer_value(json_object_get(j->request, "irq"));
	char path[PATH_MAX];
	int r;

	snprintf(path, sizeof(path), "%s/irq/%u/smp_affinity_list", proc ? proc : "/proc", irq);
	CLEANUP_CLOSE int fd = open(path, O_WRONLY | O_CLOEXEC);
	r = fd < 0 ? -errno : write_full(fd, list, strlen(list));
	return r ? err_sys(j->e, r, "the CPUs of interrupt %u", irq) : 0;
}

/* ---- all ---- */

static const struct {
	const char *what;
	int (*fn)(const struct job *j);
} jobs[] = {
	{ "cut-file", cut_file }, { "make-dir", make_dir }, { "make-file", make_file },
	{ "mount", mount_tmpfs }, { "remove-dir", remove_dir }, { "remove-file", remove_file },
	{ "set-irq", set_irq }, { "unmount", unmount },
};

static size_t find(const json_t *request)
{
	const char *what = json_string_value(json_object_get(request, "do"));
	size_t i = 0, n = sizeof(jobs) / sizeof(jobs[0]);

	while (i < n && (!what || strcmp(jobs[i].what, what)))
		i++;
	return i;
}

bool local_is(const json_t *request)
{
	return find(request) < sizeof(jobs) / sizeof(jobs[0]);
}

int local_do(const json_t *request, const struct topo *t, int node, const struct stop *stop,
	     struct err *e)
{
	const struct job j = { .request = request, .t = t, .node = node, .stop = stop, .e = e };

	return local_is(request) ? jobs[find(request)].fn(&j) :
		err_set(e, -EINVAL, "no such request");
}
