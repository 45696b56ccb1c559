// SPDX-License-Identifier: Apache-2.0
/* No path below a confined root leads out of it, with the kernel's lookup and with the walk by
 * components. */
#include "storage/internal.h"

#include "tests/support/tmptree.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

static void make_link(const char *text, const char *name)
{
	assert_int_equal(symlink(text, tmp_at(name)), 0);
}

static void make_chain(int n)
{
	char name[64], text[64];

	make_link("file", "in/chain0");
	for (int i = 1; i <= n; i++) {
		snprintf(name, sizeof(name), "in/chain%d", i);
		snprintf(text, sizeof(text), "chain%d", i - 1);
		make_link(text, name);
	}
}

static int make_tree(void **state)
{
	if (tmp_setup(state))
		return -1;
	tmp_mkdir("in");
	tmp_mkdir("in/dir");
	tmp_mkdir("in/dir/deep");
	tmp_mkdir("in-evil");
	tmp_mkdir("out");
	tmp_put("in/file", "inside");
	tmp_put("in/dir/deep/file2", "inside");
	tmp_put("in-evil/x", "secret");
	tmp_put("out/secret", "secret");
	make_link("in", "alias");
	make_link("file", "in/l-file");
	make_link("../out/secret", "in/l-out");
	make_link("../out", "in/l-outdir");
	make_link(tmp_at("out/secret"), "in/l-abs-out");
	make_link(tmp_at("in/dir/deep/file2"), "in/l-abs-in");
	make_link(tmp_at("in/../in/file"), "in/l-abs-dots");
	make_link(tmp_at("in/dir"), "in/l-dir-abs");
	make_link(tmp_at("alias/dir"), "in/l-dir-alias");
	make_link(tmp_at("in"), "in/l-root");
	make_link(tmp_at("in-evil/x"), "in/l-prefix");
	make_link(tmp_at(""), "in/l-above");
	make_link("dir/../file", "in/l-up-in");
	make_link("l-loop", "in/l-loop");
	make_link("../file", "in/dir/l-back");
	make_link("../../out/secret", "in/dir/l-climb");
	make_link("../l-dir-abs/deep", "in/dir/l-mixed");
	make_link("/", "in/l-slash");
	make_chain(40);
	return 0;
}

/* ---- one table for both lookups ---- */

struct way {
	const char *name;
	bool walk;
};

static const struct way ways[] = { { "kernel", false }, { "components", true } };

static struct root *confined(const char *dir, const struct way *w)
{
	struct err e = ERR_INIT;
	struct root *r = root_new(dir, true, &e);

	if (!r)
		fail_msg("root_new: %s", e.text);
	if (w->walk)
		root_walk_only(r, true);
	return r;
}

static const struct {
	const char *path;
	int flags;
	int want; /* 0: its content is "inside" */
} opens[] = {
	{ "file", 0, 0 },
	{ "/file", 0, 0 },
	{ "///dir//deep///file2", 0, 0 },
	{ "./dir/./deep/file2", 0, 0 },
	{ "dir/../file", 0, 0 },
	{ "dir/deep/../../dir/../file", 0, 0 },
	{ "none", 0, -ENOENT },
	{ "none/file", 0, -ENOENT },
	{ "file/", 0, -ENOTDIR },
	{ "file/x", 0, -ENOTDIR },
	{ "file/..", 0, -ENOTDIR },
	{ "..", 0, -EXDEV },
	{ "../in/file", 0, -EXDEV },
	{ "/../in/file", 0, -EXDEV },
	{ "dir/../../out/secret", 0, -EXDEV },
	{ "dir/deep/../../../out/secret", 0, -EXDEV },
	{ "l-file", 0, 0 },
	{ "l-file", O_NOFOLLOW, -ELOOP },
	{ "l-up-in", 0, 0 },
	{ "dir/l-back", 0, 0 },
	{ "l-out", 0, -EXDEV },
	{ "l-out", O_NOFOLLOW, -ELOOP },
	{ "l-outdir/secret", 0, -EXDEV },
	{ "l-outdir/secret", O_NOFOLLOW, -EXDEV },
	{ "dir/l-climb", 0, -EXDEV },
	{ "l-abs-out", 0, -EXDEV },
	{ "l-abs-in", 0, 0 },
	{ "l-abs-in", O_NOFOLLOW, -ELOOP },
	{ "l-abs-dots", 0, -EXDEV },
	{ "l-dir-abs/deep/file2", 0, 0 },
	{ "l-dir-abs/deep/file2", O_NOFOLLOW, 0 },
	{ "l-dir-abs/../file", 0, 0 },
	{ "l-dir-abs/../../out/secret", 0, -EXDEV },
	{ "l-dir-alias/deep/file2", 0, -EXDEV },
	{ "dir/l-mixed/file2", 0, 0 },
	{ "l-root/l-root/l-root/file", 0, 0 },
	{ "l-root/../out/secret", 0, -EXDEV },
	{ "l-prefix", 0, -EXDEV },
	{ "l-above/out/secret", 0, -EXDEV },
	{ "l-slash/etc/passwd", 0, -EXDEV },
	{ "l-loop", 0, -ELOOP },
	{ "l-loop/x", 0, -ELOOP },
	{ "chain39", 0, 0 },
	{ "chain40", 0, -ELOOP },
	{ "file", O_WRONLY | O_CREAT | O_EXCL, -EEXIST },
	{ "l-out", O_WRONLY | O_CREAT | O_EXCL, -EEXIST },
	{ "../out/new", O_WRONLY | O_CREAT, -EXDEV },
	{ "l-outdir/new", O_WRONLY | O_CREAT, -EXDEV },
};

static void check_open(struct root *r, const char *way, size_t i)
{
	char text[16] = "";
	int fd = root_open(r, opens[i].path, opens[i].flags, 0644);

	if (opens[i].want ? fd != opens[i].want : fd < 0)
		fail_msg("%s, %s: %d, not %d", way, opens[i].path, fd, opens[i].want);
	if (fd < 0)
		return;
	assert_int_equal(read_full(fd, text, sizeof(text) - 1), 6);
	assert_string_equal(text, "inside");
	assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	close(fd);
}

static void opens_stay_inside(void **state)
{
	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);

		for (size_t i = 0; i < sizeof(opens) / sizeof(opens[0]); i++)
			check_open(r, ways[w].name, i);
		root_free(r);
	}
	assert_int_equal(access(tmp_at("out/new"), F_OK), -1);
}

/* A root opened through a symlink accepts both of its absolute names. */
static void root_has_two_names(void **state)
{
	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("alias"), &ways[w]);
		int a = root_open(r, "l-dir-alias/deep/file2", O_RDONLY, 0);
		int b = root_open(r, "l-dir-abs/deep/file2", O_RDONLY, 0);

		assert_true(a >= 0);
		assert_true(b >= 0);
		close(a);
		close(b);
		root_free(r);
	}
}

static void creates_through_links_inside_only(void **state)
{
	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);
		int fd;

		make_link("dir/made", "in/l-new");
		make_link("../out/made", "in/l-new-out");
		fd = root_open(r, "l-new", O_WRONLY | O_CREAT, 0640);
		assert_true(fd >= 0);
		close(fd);
		assert_int_equal(access(tmp_at("in/dir/made"), F_OK), 0);
		assert_int_equal(root_open(r, "l-new-out", O_WRONLY | O_CREAT, 0640), -EXDEV);
		assert_int_equal(access(tmp_at("out/made"), F_OK), -1);
		unlink(tmp_at("in/l-new"));
		unlink(tmp_at("in/l-new-out"));
		unlink(tmp_at("in/dir/made"));
		root_free(r);
	}
}

static void magic_links_are_not_followed(void **state)
{
	static const struct {
		const char *path;
		int want; /* 0: opens */
	} t[] = {
		{ "proc/self/status", 0 },
		{ "proc/self/root/etc/passwd", -ELOOP },
		{ "proc/self/cwd/x", -ELOOP },
		{ "proc/self/cwd", -ELOOP },
		{ "proc/self/exe", -ELOOP },
		{ "proc/self/fd/1", -ELOOP },
	};

	(void)state;
	if (access("/proc/self/status", R_OK))
		skip();
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined("/", &ways[w]);

		for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			int fd = root_open(r, t[i].path, O_RDONLY, 0);

			if (t[i].want ? fd != t[i].want : fd < 0)
				fail_msg("%s, %s: %d", ways[w].name, t[i].path, fd);
			if (fd >= 0)
				close(fd);
		}
		root_free(r);
	}
}

/* root_without_proc() with root "/": all paths except those in proc(5) work as in the kernel. */
static void nothing_of_proc_is_opened(void **state)
{
	static const struct {
		const char *path;
		int flags;
		int want; /* 0: opens */
	} t[] = {
		{ "/", O_DIRECTORY, 0 },
		{ "", O_DIRECTORY, 0 },
		{ "/../../etc/passwd", 0, 0 },
		{ "/dev/null", 0, 0 },
		{ "/proc", O_DIRECTORY, -EACCES },
		{ "/proc", O_PATH, -EACCES },
		{ "/proc/self", 0, -EACCES },
		{ "/proc/self", O_PATH | O_NOFOLLOW, -EACCES },
		{ "//proc/./self/maps", 0, -EACCES },
		{ "/proc/self/mem", O_WRONLY, -EACCES },
		{ "/etc/../proc/self/status", 0, -EACCES },
		{ "/proc/self/root/etc/passwd", 0, -ELOOP },
		{ "/proc/self/exe", 0, -ELOOP },
		{ "/proc/self/exe", O_PATH | O_NOFOLLOW, -EACCES },
		{ "/proc/self/fd/1", 0, -ELOOP },
		{ "/dev/fd/1", 0, -ELOOP },
	};
	static const bool confine[] = { true, false };
	struct err e = ERR_INIT;

	(void)state;
	if (access("/proc/self/status", R_OK) || access("/dev/fd/1", F_OK))
		skip();
	for (size_t w = 0; w < 4; w++) {
		struct root *r = root_new("/", confine[w / 2], &e);

		assert_non_null(r);
		assert_int_equal(root_without_proc(r, &e), 0);
		if (ways[w % 2].walk)
			root_walk_only(r, true);
		for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			int fd = root_open(r, t[i].path, t[i].flags, 0);

			/* In a confined root, ".." of "/" is refused; otherwise it is "/". */
			if (strncmp(t[i].path, "/../", 4) == 0 && confine[w / 2])
				assert_int_equal(fd, -EXDEV);
			else if (t[i].want ? fd != t[i].want : fd < 0)
				fail_msg("%s, %d, %s: %d", ways[w % 2].name, confine[w / 2],
					 t[i].path, fd);
			if (fd >= 0)
				close(fd);
		}
		root_free(r);
	}
}

/* Symbolic links work as usual. */
static void links_lead_as_ever_without_proc(void **state)
{
	static const char *const good[] = {
		"in/l-file", "in/l-abs-in", "alias/file", "in/l-abs-dots", "in/dir/l-back",
		"in/l-out", "in/l-abs-out", "in/l-dir-alias/deep/file2", "in/l-above/out/secret",
	};
	struct err e = ERR_INIT;
	struct stat st;

	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = root_new("/", false, &e);

		assert_non_null(r);
		assert_int_equal(root_without_proc(r, &e), 0);
		if (ways[w].walk)
			root_walk_only(r, true);
		for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
			int fd = root_open(r, tmp_at(good[i]), O_RDONLY, 0);

			if (fd < 0)
				fail_msg("%s, %s: %d", ways[w].name, good[i], fd);
			close(fd);
		}
		assert_int_equal(root_stat(r, tmp_at("in/l-out"), false, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_int_equal(root_stat(r, tmp_at("in/l-out"), true, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		assert_int_equal(root_stat(r, "/proc/self/status", true, &st), -EACCES);
		root_free(r);
	}
}

/* A path longer than PATH_MAX works, because the walk opens one component at a time. */
static void long_paths_work(void **state)
{
	char path[3 * PATH_MAX];

	(void)state;
	for (size_t i = 0; i + 8 < sizeof(path); i += 2)
		memcpy(path + i, "./\0", 3);
	strcat(path, "file");
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);
		int fd = root_open(r, path, O_RDONLY, 0);

		assert_true(fd >= 0);
		close(fd);
		root_free(r);
	}
}

/* ---- renames during lookups ---- */

struct swapper {
	const char *a, *b;
	unsigned int flags; /* flags of renameat2() */
	atomic_bool stop;
};

static void *swap(void *arg)
{
	struct swapper *s = arg;

	while (!atomic_load(&s->stop)) {
		renameat2(AT_FDCWD, s->a, AT_FDCWD, s->b, s->flags);
		renameat2(AT_FDCWD, s->b, AT_FDCWD, s->a, s->flags);
	}
	return NULL;
}

/* Opens path again and again during the renames: its content is never "secret". */
static void race(struct swapper *s, const struct way *w, const char *path)
{
	struct root *r = confined(tmp_at("in"), w);
	uint64_t until = now_ns() + 300000000u;
	/* With threads run in turns, as in valgrind, the first success may take long. */
	uint64_t last = until + 30000000000u;
	unsigned int good = 0;
	pthread_t t;

	atomic_store(&s->stop, false);
	assert_int_equal(thread_start(&t, "swap", swap, s), 0);
	while (now_ns() < until || (!good && now_ns() < last)) {
		char text[16] = "";
		int fd = root_open(r, path, O_RDONLY, 0);

		if (fd < 0)
			continue;
		good++;
		assert_int_equal(read_full(fd, text, 6), 6);
		close(fd);
		assert_string_equal(text, "inside");
	}
	atomic_store(&s->stop, true);
	pthread_join(t, NULL);
	root_free(r);
	assert_true(good > 0);
}

static void swapping_does_not_help(void **state)
{
	char a[4200], b[4200];
	struct swapper s = { .a = a, .b = b, .flags = RENAME_EXCHANGE };

	(void)state;
	/* a directory and a symlink are exchanged */
	tmp_mkdir("in/swap");
	tmp_put("in/swap/secret", "inside");
	make_link("../out", "in/swap2");
	snprintf(a, sizeof(a), "%s", tmp_at("in/swap"));
	snprintf(b, sizeof(b), "%s", tmp_at("in/swap2"));
	for (size_t w = 0; w < 2; w++)
		race(&s, &ways[w], "swap/secret");
	/* a file and a symlink are exchanged */
	tmp_put("in/swap3", "inside");
	make_link("../out/secret", "in/swap4");
	snprintf(a, sizeof(a), "%s", tmp_at("in/swap3"));
	snprintf(b, sizeof(b), "%s", tmp_at("in/swap4"));
	for (size_t w = 0; w < 2; w++)
		race(&s, &ways[w], "swap3");
}

/* A directory is moved out of the root during the lookup, so that ".." leads outside. */
static void moving_away_does_not_help(void **state)
{
	char a[4200], b[4200];
	struct swapper s = { .a = a, .b = b };

	(void)state;
	tmp_mkdir("in/x");
	tmp_mkdir("in/x/y");
	tmp_put("in/probe", "inside");
	tmp_put("probe", "secret");
	snprintf(a, sizeof(a), "%s", tmp_at("in/x/y"));
	snprintf(b, sizeof(b), "%s", tmp_at("out/y"));
	for (size_t w = 0; w < 2; w++)
		race(&s, &ways[w], "x/y/../../probe");
}

/* ---- parents, and changes in them ---- */

static void parents(void **state)
{
	static char long_name[300];
	const struct {
		const char *path;
		const char *name; /* NULL: error */
		const char *dir;  /* the expected directory */
		int want;
	} t[] = {
		{ "file", "file", "in", 0 },
		{ "/file", "file", "in", 0 },
		{ "dir/deep/file2", "file2", "in/dir/deep", 0 },
		{ "dir/deep///", "deep", "in/dir", 0 },
		{ "l-out", "l-out", "in", 0 },
		{ "none", "none", "in", 0 },
		{ "", ".", "in", 0 },
		{ "/", ".", "in", 0 },
		{ ".", ".", "in", 0 },
		{ "dir/.", ".", "in/dir", 0 },
		{ "dir/deep/..", ".", "in/dir", 0 },
		{ "dir/deep/../", ".", "in/dir", 0 },
		{ long_name, long_name, "in", 0 },
		{ "..", NULL, NULL, -EXDEV },
		{ "../x", NULL, NULL, -EXDEV },
		{ "l-outdir/x", NULL, NULL, -EXDEV },
		{ "none/x", NULL, NULL, -ENOENT },
		{ "file/x", NULL, NULL, -ENOTDIR },
		{ long_name + 256, NULL, NULL, -ENOENT },
	};
	char name[256], too_long[257];

	(void)state;
	memset(long_name, 'n', 255);
	strcpy(long_name + 256, "none/y");
	memset(too_long, 'n', 256);
	too_long[256] = '\0';
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);

		for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			int fd = root_open_parent(r, t[i].path, name);
			struct stat is, want;

			if (t[i].want) {
				assert_int_equal(fd, t[i].want);
				continue;
			}
			assert_true(fd >= 0);
			assert_string_equal(name, t[i].name);
			assert_int_equal(fstat(fd, &is), 0);
			assert_int_equal(stat(tmp_at(t[i].dir), &want), 0);
			assert_int_equal(is.st_ino, want.st_ino);
			close(fd);
		}
		assert_int_equal(root_open_parent(r, too_long, name), -ENAMETOOLONG);
		root_free(r);
	}
}

static void changes_stay_inside(void **state)
{
	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);

		assert_int_equal(root_mkdir(r, "new/", 0755), 0);
		assert_int_equal(root_mkdir(r, "new", 0755), -EEXIST);
		assert_int_equal(root_mkdir(r, "../out/new", 0755), -EXDEV);
		assert_int_equal(root_mkdir(r, "l-outdir/new", 0755), -EXDEV);
		assert_int_equal(root_mkdir(r, "l-dir-abs/new", 0755), 0);
		assert_int_equal(root_rmdir(r, "dir/new"), 0);
		assert_int_equal(root_rename(r, "file", "../out/file"), -EXDEV);
		assert_int_equal(root_rename(r, "../out/secret", "file"), -EXDEV);
		assert_int_equal(root_rename(r, "l-outdir/secret", "file"), -EXDEV);
		assert_int_equal(root_rename(r, "new", "newer"), 0);
		assert_int_equal(root_unlink(r, "l-outdir/secret"), -EXDEV);
		assert_int_equal(root_rmdir(r, "../out"), -EXDEV);
		assert_int_equal(root_rmdir(r, "newer"), 0);
		make_link("../out/secret", "in/gone");
		assert_int_equal(root_unlink(r, "gone"), 0);
		assert_string_equal(tmp_get("out/secret"), "secret");
		assert_string_equal(tmp_get("in/file"), "inside");
		root_free(r);
	}
}

static void stats(void **state)
{
	struct stat st;

	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);

		assert_int_equal(root_stat(r, "l-abs-in", false, &st), 0);
		assert_true(S_ISLNK(st.st_mode));
		assert_int_equal(root_stat(r, "l-abs-in", true, &st), 0);
		assert_true(S_ISREG(st.st_mode));
		assert_int_equal(root_stat(r, "l-out", false, &st), 0);
		assert_int_equal(root_stat(r, "l-out", true, &st), -EXDEV);
		assert_int_equal(root_stat(r, "..", true, &st), -EXDEV);
		assert_int_equal(root_stat(r, "", true, &st), 0);
		assert_true(S_ISDIR(st.st_mode));
		root_free(r);
	}
}

static void unconfined_opens_as_the_kernel_does(void **state)
{
	struct root *r = root_new("/", false, NULL);
	struct stat st;
	char cwd[4200];
	int fd;

	(void)state;
	assert_non_null(r);
	assert_non_null(getcwd(cwd, sizeof(cwd)));
	assert_int_equal(chdir(tmp_at("in")), 0);
	fd = root_open(r, "../out/secret", O_RDONLY, 0);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(root_stat(r, tmp_at("in/l-out"), true, &st), 0);
	assert_int_equal(root_stat(r, "", true, &st), 0);
	assert_int_equal(chdir(cwd), 0);
	root_free(r);
	root_free(NULL);
}

static void missing_root_is_told(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_null(root_new(tmp_at("nowhere"), true, &e));
	assert_int_equal(e.code, -ENOENT);
	assert_non_null(strstr(e.text, "nowhere"));
}

/* ---- rm -r ---- */

#define DEEP 3000

static void make_deep(const char *name)
{
	int fd = open(tmp_at(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	for (int i = 0; i < DEEP; i++) {
		int sub;

		assert_int_equal(mkdirat(fd, "sub", 0755), 0);
		sub = openat(fd, "sub", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(sub >= 0);
		close(fd);
		fd = sub;
	}
	close(fd);
}

static void remove_tree(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	for (size_t w = 0; w < 2; w++) {
		struct root *r = confined(tmp_at("in"), &ways[w]);

		tmp_mkdir("in/rm");
		tmp_mkdir("in/rm/sub2");
		tmp_put("in/rm/sub2/.rftp-0123456789abcdef0123456789abcdef", "part");
		tmp_put("in/rm/new\nline", "x");
		make_link("../../out", "in/rm/l-out");
		make_deep("in/rm");
		assert_int_equal(root_remove_tree(r, "rm", &e), 0);
		assert_int_equal(access(tmp_at("in/rm"), F_OK), -1);
		assert_string_equal(tmp_get("out/secret"), "secret");
		make_link("../out", "in/l-tree");
		assert_int_equal(root_remove_tree(r, "l-tree", &e), 0);
		assert_string_equal(tmp_get("out/secret"), "secret");
		assert_int_equal(root_remove_tree(r, "../out", &e), -EXDEV);
		assert_int_equal(root_remove_tree(r, "nothing", &e), -ENOENT);
		assert_non_null(strstr(e.text, "nothing"));
		root_free(r);
	}
}

/* A directory that cannot be listed is removed if empty, and named in the error if not. */
static void remove_unreadable(void **state)
{
	struct err e = ERR_INIT;
	struct root *r;
	uid_t uid = geteuid();

	(void)state;
	tmp_mkdir("in/ur");
	tmp_mkdir("in/ur/empty");
	tmp_mkdir("in/ur/full");
	tmp_put("in/ur/full/f", "x");
	chmod(tmp_at("in/ur/empty"), 0);
	chmod(tmp_at("in/ur/full"), 0311);
	chmod(tmp_at("in/ur"), 0777);
	chmod(tmp_at("in"), 0777);
	r = confined(tmp_at("in"), &ways[0]);
	if (uid == 0)
		assert_int_equal(seteuid(65534), 0);
	assert_int_equal(root_remove_tree(r, "ur", &e), -EACCES);
	if (uid == 0)
		assert_int_equal(seteuid(0), 0);
	assert_non_null(strstr(e.text, "ur/full"));
	assert_int_equal(access(tmp_at("in/ur/empty"), F_OK), -1);
	assert_string_equal(tmp_get("in/ur/full/f"), "x");
	chmod(tmp_at("in/ur/full"), 0755);
	assert_int_equal(root_remove_tree(r, "ur", &e), 0);
	root_free(r);
}

/* In a sticky directory writable by all, only links of the directory's owner or of the caller are
 * followed. The kernel does this too if fs.protected_symlinks is set. */
static void links_of_others_are_not_followed(void **state)
{
	static const struct { uid_t dir, link; mode_t mode; bool good; } t[] = {
		{ 4711, 4712, 01777, false }, { 4711, 0, 01777, true }, { 4711, 4711, 01777, true },
		{ 4711, 4712, 0777, true }, { 4711, 4712, 01755, true },
	};
	struct err e = ERR_INIT;
	struct root *r = root_new(tmp_at("in"), true, &e);

	(void)state;
	assert_non_null(r);
	root_walk_only(r, true);
	if (geteuid() != 0) {
		root_free(r);
		skip();
	}
	assert_int_equal(mkdir(tmp_at("in/sticky"), 0755), 0);
	make_link("../dir/deep", "in/sticky/link");
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		int fd;

		assert_int_equal(chown(tmp_at("in/sticky"), t[i].dir, 0), 0);
		assert_int_equal(chmod(tmp_at("in/sticky"), t[i].mode), 0);
		assert_int_equal(lchown(tmp_at("in/sticky/link"), t[i].link, 0), 0);
		fd = root_open(r, "sticky/link/file2", O_RDONLY, 0);
		if (t[i].good ? fd < 0 : fd != -EACCES)
			fail_msg("%zu: %d", i, fd);
		if (fd >= 0)
			close(fd);
	}
	assert_int_equal(unlink(tmp_at("in/sticky/link")), 0);
	assert_int_equal(rmdir(tmp_at("in/sticky")), 0);
	root_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(opens_stay_inside),
		cmocka_unit_test(root_has_two_names),
		cmocka_unit_test(creates_through_links_inside_only),
		cmocka_unit_test(magic_links_are_not_followed),
		cmocka_unit_test(nothing_of_proc_is_opened),
		cmocka_unit_test(links_lead_as_ever_without_proc),
		cmocka_unit_test(long_paths_work),
		cmocka_unit_test(swapping_does_not_help),
		cmocka_unit_test(moving_away_does_not_help),
		cmocka_unit_test(parents),
		cmocka_unit_test(changes_stay_inside),
		cmocka_unit_test(stats),
		cmocka_unit_test(unconfined_opens_as_the_kernel_does),
		cmocka_unit_test(missing_root_is_told),
		cmocka_unit_test(remove_tree),
		cmocka_unit_test(remove_unreadable),
		cmocka_unit_test(links_of_others_are_not_followed),
	};

	return cmocka_run_group_tests_name("root", tests, make_tree, tmp_teardown);
}
