// SPDX-License-Identifier: Apache-2.0
/* Walks of deep, wide and unusual trees: each name once and in order. */
#include "storage/internal.h"

#include "tests/support/tmptree.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MAX_OPEN 8

/* The events of a walk, as text: "d name", "f name size", "l name target", "o name", "- name"
 * (leaving), "! name errno"; and counts. */
struct log {
	char *text;
	size_t len;
	unsigned int files, dirs, left, links, others, errors;
	unsigned int depth, deepest;
	int stop_after; /* number of items; 0: never */
	bool quiet;     /* counts only */
	struct dir *in[4]; /* the directories on the current path, as far as they fit */
};

static void say(struct log *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void say(struct log *l, const char *fmt, ...)
{
	char line[1024];
	va_list ap;
	int n;

	if (l->quiet)
		return;
	va_start(ap, fmt);
	n = vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	l->text = realloc(l->text, l->len + (size_t)n + 2);
	memcpy(l->text + l->len, line, (size_t)n);
	l->len += (size_t)n;
	memcpy(l->text + l->len++, "\n", 2);
}

static void note_dir(struct log *l, const struct walk_item *it)
{
	assert_non_null(it->dir);
	if (it->leaving) {
		say(l, "- %s", it->name);
		l->left++;
		l->depth--;
		assert_true(dir_pin(it->parent) >= 0); /* as a removal does */
		dir_unpin(it->parent);
		return;
	}
	say(l, "d %s", it->name);
	l->dirs++;
	if (++l->depth > l->deepest)
		l->deepest = l->depth;
	if (l->depth <= 4)
		l->in[l->depth - 1] = it->dir;
	if (l->depth > 1 && l->depth <= 4)
		assert_ptr_equal(it->parent, l->in[l->depth - 2]);
}

static int note(void *arg, const struct walk_item *it)
{
	struct log *l = arg;

	if (it->error) {
		say(l, "! %s %d", it->name, -it->error);
		l->errors++;
	} else if (it->meta.type == FT_DIR) {
		note_dir(l, it);
	} else if (it->meta.type == FT_FILE) {
		say(l, "f %s %d", it->name, (int)it->meta.size);
		l->files++;
	} else if (it->meta.type == FT_LINK) {
		say(l, "l %s %s", it->name, it->target);
		l->links++;
	} else {
		say(l, "o %s", it->name);
		l->others++;
	}
	return l->stop_after && --l->stop_after == 0 ? -ECANCELED : 0;
}

/* Walks below name. The caller frees l->text. */
static int walk_by(const char *name, struct root *follow, struct log *l)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	int r, fd = open(tmp_at(name), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct dir *top;

	assert_true(fd >= 0);
	top = dir_top(s, fd, name);
	assert_non_null(top);
	r = walk_tree(top, 0, follow, note, l);
	dir_put(top);
	dirs_free(s);
	return r;
}

static int walk(const char *name, bool follow, struct log *l)
{
	struct root *r = follow ? root_new("/", false, NULL) : NULL;
	int rc = walk_by(name, r, l);

	root_free(r);
	return rc;
}

static void check(const char *name, bool follow, const char *want)
{
	struct log l = { 0 };

	assert_int_equal(walk(name, follow, &l), 0);
	assert_string_equal(l.text ? l.text : "", want);
	assert_int_equal(l.dirs, l.left);
	free(l.text);
}

static void in_order(void **state)
{
	(void)state;
	tmp_mkdir("order");
	check("order", false, "");
	tmp_mkdir("order/a");
	tmp_mkdir("order/a/b");
	tmp_put("order/a/b/f", "12345");
	tmp_put("order/a/g", "123");
	tmp_put("order/h", "1");
	check("order", false, "f h 1\nd a\nf g 3\nd b\nf f 5\n- b\n- a\n");
}

static void odd_names(void **state)
{
	static const char *const names[] = { "new\nline", "\xff\xfe", " ", "-rf", "...",
					     "\xc3\xa4", "a\\b", "*", ".rftp-notes" };

	(void)state;
	tmp_mkdir("odd");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		char name[64], want[300];

		snprintf(name, sizeof(name), "odd/%s", names[i]);
		tmp_put(name, "");
		snprintf(want, sizeof(want), "f %s 0\n", names[i]);
		check("odd", false, want);
		unlink(tmp_at(name));
		tmp_mkdir(name);
		snprintf(want, sizeof(want), "d %s\n- %s\n", names[i], names[i]);
		check("odd", false, want);
		rmdir(tmp_at(name));
	}
}

static void parts_are_passed_over(void **state)
{
	(void)state;
	tmp_mkdir("parts");
	tmp_put("parts/.rftp-0123456789abcdef0123456789abcdef", "");
	tmp_put("parts/.rftp-0123456789abcdef0123456789abcdef.j", "");
	check("parts", false, "");
	tmp_put("parts/.rftp-0123456789abcdef0123456789abcde", "");
	check("parts", false, "f .rftp-0123456789abcdef0123456789abcde 0\n");
}

static void links(void **state)
{
	static const struct {
		const char *text, *plain, *followed;
	} t[] = {
		{ "../order/h", "l x ../order/h\n", "f x 1\n" },
		{ "../order", "l x ../order\n", "l x ../order\n" },
		{ "nothing", "l x nothing\n", "l x nothing\n" },
		{ "x", "l x x\n", "! x 40\n" },
		{ ".", "l x .\n", "l x .\n" },
	};

	(void)state;
	assert_int_equal(ELOOP, 40);
	tmp_mkdir("links");
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		assert_int_equal(symlink(t[i].text, tmp_at("links/x")), 0);
		check("links", false, t[i].plain);
		check("links", true, t[i].followed);
		unlink(tmp_at("links/x"));
	}
	assert_int_equal(mkfifo(tmp_at("links/x"), 0644), 0);
	check("links", true, "o x\n");
}

/* With a confined root, links reveal nothing about files outside it. */
static void links_that_lead_out(void **state)
{
	static const struct {
		const char *text, *followed;
	} t[] = {
		{ "../f", "f x 1\n" }, { "/../f", NULL }, { "nothing", "l x nothing\n" },
		{ "../out", "l x ../out\n" }, { "x", "! x 40\n" },
		/* outside the root: a file, a directory, a device, nothing, an unreadable path, a
		 * loop */
		{ "../../order/h", NULL }, { "../../order", NULL }, { "/dev/null", NULL },
		{ "../../nothing", NULL }, { "/nothing", NULL }, { "/root/x/y", NULL },
		{ "../../loop", NULL }, { "/proc/self/exe", NULL }, { "../../order/h/x", NULL },
	};
	struct root *r;

	(void)state;
	assert_int_equal(EXDEV, 18);
	tmp_mkdir("confined");
	tmp_mkdir("confined/out");
	tmp_put("confined/f", "1");
	assert_int_equal(symlink("loop", tmp_at("loop")), 0);
	for (int kernel = 0; kernel < 2; kernel++) {
		r = root_new(tmp_at("confined"), true, NULL);
		assert_non_null(r);
		if (!kernel)
			root_walk_only(r, true);
		for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
			const char *want = t[i].followed ? t[i].followed : "! x 18\n";
			struct log l = { 0 };
			struct dirs *s = dirs_new(MAX_OPEN);
			struct dir *top;

			assert_int_equal(symlink(t[i].text, tmp_at("confined/out/x")), 0);
			top = dir_top(s, root_open(r, "out", O_RDONLY | O_DIRECTORY, 0), "/out");
			assert_int_equal(walk_tree(top, 0, r, note, &l), 0);
			assert_string_equal(l.text, want);
			free(l.text);
			dir_put(top);
			dirs_free(s);
			unlink(tmp_at("confined/out/x"));
		}
		root_free(r);
	}
}

static void metadata(void **state)
{
	struct stat st = { .st_mode = S_IFREG | 04755, .st_uid = 3, .st_gid = 4, .st_size = 5,
			   .st_mtim = { -7, 8 }, .st_atim = { 9, 10 }, .st_dev = 11,
			   .st_ino = 12, .st_nlink = 13, .st_blocks = 14 };
	struct meta m;

	(void)state;
	meta_from_stat(&m, &st);
	assert_int_equal(m.type, FT_FILE);
	assert_int_equal(m.mode, 04755);
	assert_true(m.uid == 3 && m.gid == 4 && m.size == 5);
	assert_true(m.mtime_s == -7 && m.mtime_ns == 8 && m.atime_s == 9 && m.atime_ns == 10);
	assert_true(m.dev == 11 && m.ino == 12 && m.nlink == 13 && m.blocks == 14);
}

/* ---- big ---- */

/* Makes a chain of nested directories; the last one has a file. */
static void make_chain(const char *top, const char *name, int levels)
{
	int fd = open(tmp_at(top), O_RDONLY | O_DIRECTORY | O_CLOEXEC), f;

	for (int i = 0; i < levels; i++) {
		int sub;

		assert_int_equal(mkdirat(fd, name, 0755), 0);
		sub = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		assert_true(sub >= 0);
		close(fd);
		fd = sub;
	}
	f = openat(fd, "bottom", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_true(f >= 0);
	close(f);
	close(fd);
}

static void two_hundred_levels_of_long_names(void **state)
{
	struct log l = { .quiet = true };
	char name[NAME_MAX + 1];

	(void)state;
	memset(name, 'n', NAME_MAX);
	name[NAME_MAX] = '\0';
	tmp_mkdir("long");
	make_chain("long", name, 200);
	assert_int_equal(walk("long", false, &l), 0);
	assert_int_equal(l.deepest, 200);
	assert_int_equal(l.files, 1);
	assert_int_equal(l.left, 200);
	assert_int_equal(l.errors, 0);
}

#define LEVELS 15000

struct deep {
	struct log l;
	const char *name;
	uint64_t ns;
};

static void *walk_deep(void *arg)
{
	struct deep *d = arg;
	uint64_t start = now_ns();
	int r = walk(d->name, false, &d->l);

	d->ns = now_ns() - start;
	return (void *)(intptr_t)r;
}

/* The stack is too small for recursion. With few open directories the way up must not start at the
 * top each time: that would take hundreds of times as long as a flat tree. */
static void deeper_than_the_stack(void **state)
{
	struct deep d[] = { { .name = "flat" }, { .name = "deep" } };
	pthread_attr_t attr;

	(void)state;
	tmp_mkdir("flat");
	for (int i = 0; i < LEVELS; i++) {
		char name[32];

		snprintf(name, sizeof(name), "flat/%d", i);
		tmp_mkdir(name);
	}
	tmp_mkdir("deep");
	make_chain("deep", "s", LEVELS);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 256 << 10);
	for (int i = 0; i < 2; i++) {
		pthread_t t;
		void *r;

		d[i].l.quiet = true;
		assert_int_equal(pthread_create(&t, &attr, walk_deep, &d[i]), 0);
		pthread_join(t, &r);
		assert_null(r);
		assert_int_equal(d[i].l.left, LEVELS);
	}
	pthread_attr_destroy(&attr);
	assert_int_equal(d[1].l.deepest, LEVELS);
	assert_int_equal(d[1].l.files, 1);
	assert_true(d[1].ns < 50 * d[0].ns);
}

static void twenty_thousand_files(void **state)
{
	struct log l = { .quiet = true };
	int fd;

	(void)state;
	tmp_mkdir("many");
	fd = open(tmp_at("many"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int i = 0; i < 20000; i++) {
		char name[64];

		snprintf(name, sizeof(name), "file-with-a-name-of-some-length-%d", i);
		assert_int_equal(mknodat(fd, name, S_IFREG | 0644, 0), 0);
	}
	for (int i = 0; i < 300; i++) {
		char name[64];

		snprintf(name, sizeof(name), "dir%d", i);
		assert_int_equal(mkdirat(fd, name, 0755), 0);
	}
	close(fd);
	assert_int_equal(walk("many", false, &l), 0);
	assert_int_equal(l.files, 20000);
	assert_int_equal(l.dirs, 300);
	assert_int_equal(l.left, 300);
	assert_int_equal(l.deepest, 1);
}

/* ---- errors ---- */

static void a_closed_directory_is_reported_and_the_rest_goes_on(void **state)
{
	static const mode_t modes[] = { 0, 0311 };
	uid_t uid = geteuid();

	(void)state;
	assert_int_equal(EACCES, 13);
	tmp_mkdir("closed");
	tmp_mkdir("closed/c");
	tmp_put("closed/f", "");
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		chmod(tmp_at("closed/c"), modes[i]);
		if (uid == 0)
			assert_int_equal(seteuid(65534), 0);
		check("closed", false, "f f 0\nd c\n! c 13\n- c\n");
		if (uid == 0)
			assert_int_equal(seteuid(0), 0);
	}
	chmod(tmp_at("closed/c"), 0755);
}

struct vanish {
	struct log l;
	bool done;
};

static int note_vanishing(void *arg, const struct walk_item *it)
{
	struct vanish *v = arg;

	if (!v->done) /* at the file, because directories come later */
		v->done = rmdir(tmp_at("vanish/a/1")) == 0;
	return note(&v->l, it);
}

static void a_directory_that_vanishes_is_reported(void **state)
{
	struct vanish v = { .l = { .quiet = true } };
	struct dirs *s = dirs_new(MAX_OPEN);
	struct dir *top;

	(void)state;
	tmp_mkdir("vanish");
	tmp_mkdir("vanish/a");
	tmp_mkdir("vanish/a/1");
	top = dir_top(s, open(tmp_at("vanish/a"), O_RDONLY | O_DIRECTORY | O_CLOEXEC), "a");
	tmp_put("vanish/a/f", "");
	assert_int_equal(walk_tree(top, 0, NULL, note_vanishing, &v), 0);
	assert_int_equal(v.l.files, 1);
	assert_int_equal(v.l.dirs, 0);
	assert_true(v.l.errors <= 1); /* none when the file was listed first */
	dir_put(top);
	dirs_free(s);
}

static void the_callback_ends_it(void **state)
{
	(void)state;
	for (int i = 1; i <= 7; i++) {
		struct log l = { .quiet = true, .stop_after = i };

		assert_int_equal(walk("order", false, &l), -ECANCELED);
		assert_int_equal(l.files + l.dirs + l.left, i);
	}
}

/* The same directory twice, and through an O_PATH descriptor. */
static void again_and_by_place(void **state)
{
	struct dirs *s = dirs_new(MAX_OPEN);
	int fd = open(tmp_at("order"), O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct dir *top = dir_top(s, fd, "order");

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct log l = { .quiet = true };

		assert_int_equal(walk_tree(top, 0, NULL, note, &l), 0);
		assert_int_equal(l.files, 3);
	}
	dir_put(top);
	fd = open(tmp_at("order"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	top = dir_top(s, fd, "order");
	for (int i = 0; i < 2; i++) {
		struct log l = { .quiet = true };

		assert_int_equal(walk_tree(top, 0, NULL, note, &l), 0);
		assert_int_equal(l.files, 3);
	}
	dir_put(top);
	dirs_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(odd_names),
		cmocka_unit_test(parts_are_passed_over),
		cmocka_unit_test(links),
		cmocka_unit_test(links_that_lead_out),
		cmocka_unit_test(metadata),
		cmocka_unit_test(two_hundred_levels_of_long_names),
		cmocka_unit_test(deeper_than_the_stack),
		cmocka_unit_test(twenty_thousand_files),
		cmocka_unit_test(a_closed_directory_is_reported_and_the_rest_goes_on),
		cmocka_unit_test(a_directory_that_vanishes_is_reported),
		cmocka_unit_test(the_callback_ends_it),
		cmocka_unit_test(again_and_by_place),
	};

	return cmocka_run_group_tests_name("walk", tests, tmp_setup, tmp_teardown);
}
