// SPDX-License-Identifier: Apache-2.0
/* Files appear complete or not at all, under any fault; data already written is found again for a
 * resume. */
#include "storage/internal.h"

#include "tests/support/faults.h"
#include "tests/support/tmptree.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>

#include <cmocka.h>

#define RUN 4096u
#define RUNS 11
#define SIZE ((RUNS - 1) * (uint64_t)RUN + 100) /* the last run is short */

/* ---- fixture ---- */

static int begin_all(void **state)
{
	umask(0); /* as in the programs */
	return tmp_setup(state);
}

static int begin_one(void **state)
{
	set_faults(NULL);
	return tmp_parts_setup(state);
}

/* The number of part files and journals that remain. */
static int litter(void)
{
	return tmp_count("d", PART_PREFIX);
}

static struct part_spec spec(const char *name)
{
	struct part_spec s = { .dir = tmp_top, .name = name, .set_mode = true, .set_times = true };

	s.meta.mode = 0640;
	s.meta.mtime_s = 1234567890;
	s.meta.mtime_ns = 42;
	return s;
}

static struct part_spec journalled(const char *name)
{
	struct part_spec s = spec(name);

	s.journal = true;
	s.meta.size = SIZE;
	return s;
}

static struct part *begin(const struct part_spec *s)
{
	struct err e = ERR_INIT;
	struct part *p = part_begin(s, &e);

	if (!p)
		fail_msg("%s", e.text);
	return p;
}

static int refused(const struct part_spec *s, const char *why)
{
	struct err e = ERR_INIT;

	assert_null(part_begin(s, &e));
	if (!strstr(e.text, why))
		fail_msg("\"%s\" does not say \"%s\"", e.text, why);
	return e.code;
}

static void put(struct part *p, const char *text, uint64_t at)
{
	assert_int_equal(pwrite_full(part_fd(p), text, strlen(text), (off_t)at), 0);
}

static void commit(struct part *p)
{
	struct err e = ERR_INIT;

	if (part_commit(p, &e))
		fail_msg("%s", e.text);
	part_free(p);
}

static struct stat stat_of(const char *name)
{
	struct stat st;

	assert_int_equal(lstat(tmp_at(name), &st), 0);
	return st;
}

/* With O_TMPFILE, and without it as on some filesystems. */
static const bool without_tmpfile[] = { false, true };

static void choose(bool no_tmpfile)
{
	dir_put(tmp_top);
	tmp_top = tmp_open_top();
	if (no_tmpfile)
		dir_set_no_tmpfile(tmp_top);
}

/* ---- commit and abandon ---- */

static void check_attributes(const char *name, mode_t mode)
{
	struct stat st = stat_of(name);

	assert_int_equal(st.st_mode, S_IFREG | mode);
	assert_int_equal(st.st_mtim.tv_sec, 1234567890);
	assert_int_equal(st.st_mtim.tv_nsec, 42);
	assert_int_equal(st.st_nlink, 1);
}

static void commit_replaces(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) { /* unnamed, named, journalled */
		for (int there = 0; there < 2; there++) {
			struct part_spec s;
			struct part *p;

			choose(i == 1);
			s = i == 2 ? journalled("f") : spec("f");
			s.meta.size = 3;
			if (there)
				tmp_put("d/f", "old and longer");
			p = begin(&s);
			put(p, "new", 0);
			assert_string_equal(tmp_get("d/f"), there ? "old and longer" : "(none)");
			assert_int_equal(part_sync(p, NULL), 0);
			assert_string_equal(tmp_get("d/f"), there ? "old and longer" : "(none)");
			commit(p);
			assert_string_equal(tmp_get("d/f"), "new");
			check_attributes("d/f", 0640);
			assert_int_equal(litter(), 0);
			unlink(tmp_at("d/f"));
		}
	}
}

static void abandon_leaves_nothing(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int keep = 0; keep < 2; keep++) {
			struct part_spec s;
			struct part *p;

			choose(i == 1);
			s = i == 2 ? journalled("f") : spec("f");
			tmp_put("d/f", "old");
			p = begin(&s);
			put(p, "new", 0);
			part_abandon(p, keep); /* no run was noted, so keep has no effect */
			part_free(p);
			assert_int_equal(litter(), 0);
			assert_string_equal(tmp_get("d/f"), "old");
			part_free(begin(&s)); /* neither committed nor abandoned */
			assert_int_equal(litter(), 0);
		}
	}
}

static void size_is_told_later(void **state)
{
	struct part_spec s = spec("f");
	struct part *p = begin(&s);

	(void)state;
	put(p, "0123456789", 0);
	assert_int_equal(part_set_size(p, 7), 0);
	commit(p);
	assert_string_equal(tmp_get("d/f"), "0123456");
	s = journalled("f");
	p = begin(&s);
	assert_int_equal(part_set_size(p, 7), -EINVAL);
	part_free(p);
}

static void holes_stay(void **state)
{
	struct part_spec s = spec("f");
	struct part *p;
	struct stat st;

	(void)state;
	s.meta.size = UINT64_C(1) << 40;
	p = begin(&s);
	put(p, "end", s.meta.size - 3);
	commit(p);
	st = stat_of("d/f");
	assert_int_equal(st.st_size, s.meta.size);
	assert_true(st.st_blocks < 1000);
}

/* ---- modes and owners ---- */

static const struct {
	bool set, owner;
	mode_t mode, old, umask, want; /* old 0: no existing file */
} modes[] = {
	{ true, false, 0640, 0, 0, 0640 },
	{ true, false, 0640, 0600, 0, 0640 },
	{ true, false, 0666, 0, 077, 0666 },
	{ true, false, 0666, 0600, 077, 0666 },
	{ true, false, 04755, 0, 0, 0755 },
	{ true, false, 06711, 0644, 022, 0711 },
	{ true, false, 07777, 07777, 0, 0777 },
	{ true, true, 04755, 0, 0, 04755 },
	{ true, true, 06711, 0644, 022, 06711 },
	{ true, true, 0711, 04711, 0, 0711 },
	{ true, false, 0, 0644, 0, 0 },
	{ true, false, 0400, 0, 0, 0400 },
	{ false, false, 0644, 0, 0, 0644 },
	{ false, false, 04755, 0, 0, 0755 },
	{ false, true, 04755, 0, 0, 0755 },
	{ false, false, 0, 0, 0, 0666 },
	{ false, false, 0644, 0604, 0, 0604 },
	{ false, false, 0644, 04711, 0, 0711 },
	{ false, true, 0644, 04711, 0, 0711 },
};

static void check_modes(bool whole, bool no_tmpfile)
{
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct part_spec s;
		mode_t want;

		choose(no_tmpfile);
		s = spec("f");
		s.set_mode = modes[i].set;
		s.set_owner = modes[i].owner;
		s.meta.uid = geteuid();
		s.meta.gid = getegid();
		s.meta.mode = modes[i].mode;
		s.meta.size = 3;
		if (modes[i].old) {
			tmp_put("d/f", "old");
			assert_int_equal(chmod(tmp_at("d/f"), modes[i].old), 0);
		}
		umask(modes[i].umask);
		for (int again = 0; again < 2; again++) { /* the second replaces the first */
			if (whole) {
				assert_int_equal(part_write_whole(&s, "new", 3, NULL), 0);
			} else {
				struct part *p = begin(&s);

				put(p, "new", 0);
				commit(p);
			}
		}
		umask(0);
		want = geteuid() == 0 ? modes[i].want : modes[i].want & 0777;
		if ((stat_of("d/f").st_mode & 07777) != want)
			fail_msg("row %zu: %o", i, stat_of("d/f").st_mode);
		check_attributes("d/f", want);
		unlink(tmp_at("d/f"));
	}
}

static void modes_follow_the_rules(void **state)
{
	(void)state;
	for (int whole = 0; whole < 2; whole++)
		for (size_t i = 0; i < 2; i++)
			check_modes(whole, without_tmpfile[i]);
}

static void owners(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	for (int whole = 0; whole < 2; whole++) {
		for (size_t i = 0; i < 2; i++) {
			struct part_spec s;
			struct stat st;

			choose(without_tmpfile[i]);
			s = spec("f");
			s.set_owner = true;
			s.meta.uid = 1234;
			s.meta.gid = 4321;
			s.meta.mode = 04750; /* chown() would clear setuid */
			s.meta.size = 3;
			if (whole) {
				assert_int_equal(part_write_whole(&s, "new", 3, NULL), 0);
			} else {
				struct part *p = begin(&s);

				put(p, "new", 0);
				commit(p);
			}
			st = stat_of("d/f");
			assert_int_equal(st.st_uid, 1234);
			assert_int_equal(st.st_gid, 4321);
			check_attributes("d/f", 04750);
			unlink(tmp_at("d/f"));
		}
	}
}

/* In place the file has its setuid bit already, until chown() clears it. */
static void a_new_owner_in_place(void **state)
{
	struct part_spec s = spec("f");
	struct stat st;

	(void)state;
	if (geteuid() != 0)
		skip();
	s.inplace = s.set_owner = true;
	s.meta.uid = 1234;
	s.meta.mode = 04750;
	tmp_put("d/f", "old");
	assert_int_equal(chmod(tmp_at("d/f"), 04750), 0);
	assert_int_equal(part_write_whole(&s, "x", 1, NULL), 0);
	st = stat_of("d/f");
	assert_int_equal(st.st_uid, 1234);
	check_attributes("d/f", 04750);
}

static void an_unknown_atime_is_left(void **state)
{
	struct part_spec s = spec("f");

	(void)state;
	assert_int_equal(part_write_whole(&s, "x", 1, NULL), 0);
	assert_true(stat_of("d/f").st_atim.tv_sec > 1500000000);
	s.meta.atime_s = 99;
	assert_int_equal(part_write_whole(&s, "x", 1, NULL), 0);
	assert_int_equal(stat_of("d/f").st_atim.tv_sec, 99);
}

/* ---- names ---- */

static void names(void **state)
{
	char longest[NAME_MAX + 2];
	struct part_spec s;
	struct part *p;

	(void)state;
	memset(longest, 'n', sizeof(longest));
	longest[NAME_MAX] = '\0';
	s = journalled(longest);
	p = begin(&s);
	assert_int_equal(litter(), 2);
	commit(p);
	s = spec(longest);
	for (size_t i = 0; i < 2; i++) {
		choose(without_tmpfile[i]);
		s.dir = tmp_top;
		assert_int_equal(part_write_whole(&s, "x", 1, NULL), 0);
	}
	assert_int_equal(litter(), 0);
	longest[NAME_MAX] = 'n';
	longest[NAME_MAX + 1] = '\0';
	assert_int_equal(refused(&s, "cannot"), -ENAMETOOLONG);
}

static void no_names(void **state)
{
	static const char *const t[] = { "", ".", "..", "a/b", "/",
					 ".rftp-0123456789abcdef0123456789abcdef",
					 ".rftp-0123456789abcdef0123456789abcdef.j" };

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct part_spec s = spec(t[i]);

		assert_int_equal(refused(&s, ":"), -EINVAL);
		assert_int_equal(part_write_whole(&s, "x", 1, NULL), -EINVAL);
	}
}

static void over_what_is_no_file(void **state)
{
	(void)state;
	tmp_put("target", "target");
	for (size_t i = 0; i < 2; i++) {
		struct part_spec s;
		struct part *p;

		choose(without_tmpfile[i]);
		tmp_mkdir("d/dir");
		s = spec("dir");
		assert_int_equal(refused(&s, "directory"), -EISDIR);
		assert_int_equal(part_write_whole(&s, "x", 1, NULL), -EISDIR);
		assert_int_equal(litter(), 0);
		rmdir(tmp_at("d/dir"));
		/* a symlink is replaced, not followed */
		s = spec("link");
		s.meta.size = 1;
		assert_int_equal(symlink("../target", tmp_at("d/link")), 0);
		assert_int_equal(part_write_whole(&s, "x", 1, NULL), 0);
		assert_true(S_ISREG(stat_of("d/link").st_mode));
		unlink(tmp_at("d/link"));
		assert_int_equal(symlink("../target", tmp_at("d/link")), 0);
		p = begin(&s);
		put(p, "y", 0);
		commit(p);
		assert_string_equal(tmp_get("d/link"), "y");
		assert_string_equal(tmp_get("target"), "target");
		unlink(tmp_at("d/link"));
		assert_int_equal(litter(), 0);
	}
}

/* ---- two writers ---- */

static void the_second_writer_is_refused(void **state)
{
	struct part_spec s = journalled("f");
	struct part *p = begin(&s);
	struct part_spec other = spec("f");

	(void)state;
	assert_int_equal(refused(&s, "another transfer is writing it"), -EBUSY);
	choose(true);
	s.dir = other.dir = tmp_top;
	assert_int_equal(refused(&other, "another transfer"), -EBUSY);
	assert_int_equal(part_write_whole(&other, "x", 1, NULL), -EBUSY);
	assert_int_equal(litter(), 2); /* the first writer's part and journal remain */
	commit(p);
	assert_int_equal(litter(), 0);
	part_free(begin(&s)); /* the file is free again */
	/* in place too */
	s.inplace = true;
	p = begin(&s);
	assert_int_equal(refused(&s, "another transfer"), -EBUSY);
	commit(p);
}

struct writers {
	atomic_int bad, done;
	struct dir *dir;
};

static void *write_same(void *arg)
{
	struct writers *w = arg;
	char data[5000];

	for (int i = 0; i < 1000; i++) {
		struct part_spec s = spec("same");
		size_t len = 1 + (size_t)(i % 200) * 20;
		int r;

		s.dir = w->dir;
		memset(data, 'a' + i % 200 % 26, len);
		r = part_write_whole(&s, data, len, NULL);
		if (r && r != -EBUSY)
			atomic_fetch_add(&w->bad, 1);
	}
	atomic_fetch_add(&w->done, 1);
	return NULL;
}

/* Any of the writers may win, but the file is complete. */
static void check_same(void)
{
	char data[5000];
	int fd = open(tmp_at("d/same"), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return;
	n = read_full(fd, data, sizeof(data));
	close(fd);
	assert_true(n > 0);
	assert_int_equal((n - 1) % 20, 0);
	for (ssize_t i = 0; i < n; i++)
		assert_int_equal(data[i], 'a' + (n - 1) / 20 % 26);
}

static void many_whole_writers_of_one_name(void **state)
{
	(void)state;
	for (size_t way = 0; way < 2; way++) {
		struct writers w = { 0 };
		pthread_t t[4];

		choose(without_tmpfile[way]);
		w.dir = tmp_top;
		for (int i = 0; i < 4; i++)
			assert_int_equal(thread_start(&t[i], "w", write_same, &w), 0);
		while (atomic_load(&w.done) < 4)
			check_same();
		for (int i = 0; i < 4; i++)
			pthread_join(t[i], NULL);
		check_same();
		assert_int_equal(atomic_load(&w.bad), 0);
		assert_int_equal(litter(), 0);
		unlink(tmp_at("d/same"));
	}
}

/* Leftovers under the part's name, from a killed writer or from an attacker. */
static void stale_parts_do_not_hinder(void **state)
{
	char part[PART_NAME_MAX], path[64];

	(void)state;
	part_name(part, "f");
	snprintf(path, sizeof(path), "d/%s", part);
	tmp_put("victim", "victim");
	for (int way = 0; way < 2; way++) {
		for (int kind = 0; kind < 4; kind++) {
			struct part_spec s;

			choose(without_tmpfile[way]);
			s = spec("f");
			tmp_put("d/f", "old"); /* forces the use of a part file */
			switch (kind) {
			case 0: tmp_put(path, "stale and longer"); break;
			case 1: assert_int_equal(symlink("../victim", tmp_at(path)), 0); break;
			case 2: assert_int_equal(link(tmp_at("victim"), tmp_at(path)), 0); break;
			default: assert_int_equal(mkfifo(tmp_at(path), 0600), 0);
			}
			assert_int_equal(part_write_whole(&s, "new", 3, NULL), 0);
			assert_string_equal(tmp_get("d/f"), "new");
			check_attributes("d/f", 0640);
			assert_string_equal(tmp_get("victim"), "victim");
			assert_int_equal(litter(), 0);
		}
	}
}

/* ---- resume ---- */

/* Notes run number `run` in a file of `size` bytes. */
static int note_in(struct part *p, uint64_t size, uint64_t run, const uint8_t *digest)
{
	struct part_run r = { .offset = run * RUN, .length = RUN };

	if (size > r.offset && size - r.offset < RUN)
		r.length = (uint32_t)(size - r.offset);
	memcpy(r.digest, digest, sizeof(r.digest));
	return part_note_run(p, &r);
}

static int note_run(struct part *p, uint64_t run, const uint8_t *digest)
{
	return note_in(p, SIZE, run, digest);
}

static void fill_run(uint8_t *p, uint64_t run)
{
	memset(p, 'A' + (int)run, RUN);
}

static void write_run(struct part *p, uint64_t run, bool note)
{
	uint8_t data[RUN], digest[RUN_DIGEST_BYTES];
	size_t len = run == RUNS - 1 ? SIZE % RUN : RUN;

	fill_run(data, run);
	assert_int_equal(pwrite_full(part_fd(p), data, len, (off_t)(run * RUN)), 0);
	crypto_run_digest(digest, data, len);
	if (note)
		assert_int_equal(note_run(p, run, digest), 0);
}

/* A writer dies after writing all runs and journalling those of the mask. */
static void die_with_runs(const struct part_spec *s, unsigned int mask)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct part *p = part_begin(s, NULL);

		if (!p)
			_exit(1);
		for (uint64_t i = 0; i < RUNS; i++)
			write_run(p, i, mask >> i & 1);
		part_checkpoint(p);
		raise(SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static int collect(void *arg, const struct part_run *r)
{
	uint64_t run = r->offset / RUN;
	uint8_t data[RUN], want[RUN_DIGEST_BYTES];

	fill_run(data, run);
	assert_int_equal(r->offset % RUN, 0);
	assert_int_equal(r->length, run == RUNS - 1 ? SIZE % RUN : RUN);
	crypto_run_digest(want, data, r->length);
	assert_memory_equal(r->digest, want, sizeof(want));
	*(unsigned int *)arg |= 1u << run;
	return 0;
}

#define ALL ((1u << RUNS) - 1)
#define REC 32

static void change(const char *path, off_t at, const char *text)
{
	int fd = open(tmp_at(path), O_WRONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (at < 0)
		at += lseek(fd, 0, SEEK_END);
	assert_int_equal(pwrite_full(fd, text, strlen(text), at), 0);
	close(fd);
}

static void cut(const char *path, off_t by)
{
	assert_int_equal(truncate(tmp_at(path), stat_of(path).st_size - by), 0);
}

/* Changes between the crash and the next attempt; part and journal are paths. */
static void nothing(const char *part, const char *journal) { (void)part; (void)journal; }
static void torn(const char *part, const char *journal) { (void)part; cut(journal, 5); }
static void torn2(const char *part, const char *journal) { (void)part; cut(journal, REC + 5); }
static void garbage(const char *part, const char *journal)
{
	(void)part;
	change(journal, stat_of(journal).st_size, "garbage that is longer than a record....");
}
static void bad_record(const char *part, const char *journal)
{
	(void)part;
	change(journal, 64 + 3 * REC + 10, "!");
}
static void bad_header(const char *part, const char *journal)
{
	(void)part;
	change(journal, 20, "!");
}
static void no_journal(const char *part, const char *journal)
{
	(void)part;
	unlink(tmp_at(journal));
}
static void no_part(const char *part, const char *journal)
{
	(void)journal;
	unlink(tmp_at(part));
}
static void bad_run(const char *part, const char *journal)
{
	(void)journal;
	change(part, 2 * RUN + 77, "!");
}
static void bad_last(const char *part, const char *journal)
{
	(void)journal;
	change(part, SIZE - 1, "!");
}
static void short_part(const char *part, const char *journal)
{
	(void)journal;
	cut(part, 100 + RUN);
}
static void cut_header(const char *part, const char *journal)
{
	(void)part;
	assert_int_equal(truncate(tmp_at(journal), 30), 0);
}
static void read_only(const char *part, const char *journal)
{
	(void)journal;
	chmod(tmp_at(part), 0444);
}

static const struct {
	const char *name;
	void (*happens)(const char *part, const char *journal);
	unsigned int noted, want;
} crashes[] = {
	{ "nothing", nothing, ALL, ALL },
	{ "some noted", nothing, 0x2a5, 0x2a5 },
	{ "none noted", nothing, 0, 0 },
	{ "torn record", torn, ALL, ALL >> 1 },
	{ "torn records", torn2, ALL, ALL >> 2 },
	{ "garbage behind", garbage, ALL, ALL },
	{ "bad record", bad_record, ALL, 7 },
	{ "bad header", bad_header, ALL, 0 },
	{ "cut header", cut_header, ALL, 0 },
	{ "no journal", no_journal, ALL, 0 },
	{ "no part", no_part, ALL, 0 },
	{ "bad run", bad_run, ALL, ALL & ~4u },
	{ "bad last run", bad_last, ALL, ALL >> 1 },
	{ "short part", short_part, ALL, ALL >> 2 },
	{ "read-only part", read_only, ALL, ALL },
};

/* Resumes and completes the file; returns the mask of runs that were kept. */
static unsigned int resume(const struct part_spec *s)
{
	struct err e = ERR_INIT;
	struct part *p = begin(s);
	unsigned int have = 0;
	int64_t n = part_runs(p, collect, &have, &e);

	assert_int_equal(n, __builtin_popcount(have));
	for (uint64_t i = 0; i < RUNS; i++)
		if (!(have >> i & 1))
			write_run(p, i, true);
	commit(p);
	return have;
}

static void check_content(const char *path)
{
	uint8_t data[RUN], want[RUN];
	int fd = open(tmp_at(path), O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	for (uint64_t i = 0; i < RUNS; i++) {
		size_t len = i == RUNS - 1 ? SIZE % RUN : RUN;

		fill_run(want, i);
		assert_int_equal(read_full(fd, data, len), len);
		assert_memory_equal(data, want, len);
	}
	assert_int_equal(read_full(fd, data, 1), 0);
	close(fd);
}

static void crashed_writers_are_resumed(void **state)
{
	char part[PART_NAME_MAX], journal[PART_NAME_MAX], pp[64], jp[64];

	(void)state;
	part_name(part, "f");
	journal_name(journal, "f");
	snprintf(pp, sizeof(pp), "d/%s", part);
	snprintf(jp, sizeof(jp), "d/%s", journal);
	for (size_t i = 0; i < sizeof(crashes) / sizeof(crashes[0]); i++) {
		struct part_spec s = journalled("f");
		unsigned int have;

		die_with_runs(&s, crashes[i].noted);
		crashes[i].happens(pp, jp);
		have = resume(&s);
		if (have != crashes[i].want)
			fail_msg("%s: %x, not %x", crashes[i].name, have, crashes[i].want);
		check_content("d/f");
		assert_int_equal(litter(), 0);
		unlink(tmp_at("d/f"));
	}
}

static void crashed_in_place_too(void **state)
{
	struct part_spec s = journalled("f");

	(void)state;
	s.inplace = true;
	tmp_put("d/f", "old");
	die_with_runs(&s, 0x155);
	assert_int_equal(resume(&s), 0x155);
	check_content("d/f");
	assert_int_equal(litter(), 0);
}

/* A source that has changed since is a different file. */
static void only_what_fits_is_taken_over(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		struct part_spec s = journalled("f"), t = s;
		unsigned int have = 0;
		struct part *p;

		switch (i) {
		case 0: t.meta.size++; break;
		default: t.meta.mtime_ns++; break;
		}
		die_with_runs(&s, ALL);
		p = begin(&t);
		assert_int_equal(part_runs(p, collect, &have, NULL), 0);
		assert_int_equal(lseek(part_fd(p), 0, SEEK_DATA), -1); /* its data is gone too */
		part_abandon(p, true);
		part_free(p);
		assert_int_equal(litter(), 0);
	}
}

struct far_runs {
	uint64_t run[8];
	unsigned n;
};

static int note_far(void *arg, const struct part_run *r)
{
	struct far_runs *f = arg;
	uint8_t zeros[4096] = { 0 }, want[RUN_DIGEST_BYTES];

	crypto_run_digest(want, zeros, sizeof(zeros));
	assert_memory_equal(r->digest, want, sizeof(want));
	assert_true(f->n < 8);
	f->run[f->n++] = r->offset / RUN;
	return 0;
}

/* More records than are processed together: each record that matches its data is found, however far
 * apart the runs are. A record with a wrong digest does not hide a correct one for the same run. */
static void many_runs(void **state)
{
	static const uint64_t runs[] = { 0, 131071, 131072, 262143, 262144, 299999 };
	enum { N = sizeof(runs) / sizeof(runs[0]) };
	static const uint8_t wrong[RUN_DIGEST_BYTES];
	uint8_t zeros[4096] = { 0 }, digest[RUN_DIGEST_BYTES];
	struct part_spec s = journalled("many");
	struct far_runs far = { .n = 0 };
	struct part *p;

	(void)state;
	s.meta.size = 300000ull * 4096;
	crypto_run_digest(digest, zeros, sizeof(zeros));
	p = begin(&s);
	assert_int_equal(note_in(p, s.meta.size, runs[2], wrong), 0);
	for (int i = 0; i < N; i++) {
		/* Records of one-page runs with wrong digests. */
		for (int k = 0; k < 50000; k++)
			assert_int_equal(note_in(p, s.meta.size, 8 + (uint64_t)k, wrong), 0);
		assert_int_equal(note_in(p, s.meta.size, runs[i], digest), 0);
	}
	assert_int_equal(note_in(p, s.meta.size, 7, wrong), 0);
	part_abandon(p, true);
	part_free(p);
	p = begin(&s);
	assert_int_equal(part_runs(p, note_far, &far, NULL), N);
	assert_int_equal(far.n, N);
	assert_memory_equal(far.run, runs, sizeof(runs));
	part_abandon(p, false);
	part_free(p);
}

static void kept_and_noted_twice(void **state)
{
	static const uint8_t wrong[RUN_DIGEST_BYTES];
	struct part_spec s = journalled("f");
	unsigned int have = 0;
	struct part *p = begin(&s);

	(void)state;
	assert_int_equal(note_run(p, 3, wrong), 0);
	assert_int_equal(part_checkpoint(p), 0);
	write_run(p, 3, true); /* the later record counts */
	write_run(p, 1, true);
	assert_int_equal(note_run(p, RUNS, wrong), -ERANGE);
	part_abandon(p, true); /* writes the pending records */
	part_free(p);
	assert_int_equal(litter(), 2);
	p = begin(&s);
	assert_int_equal(part_runs(p, collect, &have, NULL), 2);
	assert_int_equal(have, 0xa);
	part_abandon(p, false);
	part_free(p);
	assert_int_equal(litter(), 0);
}

struct seen {
	struct part_run v[8];
	unsigned n;
};

static int see_run(void *arg, const struct part_run *r)
{
	struct seen *seen = arg;

	assert_true(seen->n < 8);
	seen->v[seen->n++] = *r;
	return 0;
}

/* A journal with runs of several lengths: part_runs() returns the longest runs that match their
 * data, without overlaps. */
static void runs_of_several_lengths(void **state)
{
	static const struct { uint64_t offset; uint32_t length; bool fits; } runs[] = {
		{ 0, RUN, true }, { 0, 4 * RUN, true }, { 2 * RUN, 4 * RUN, true },
		{ 4 * RUN, 2 * RUN + 5, false }, { 4 * RUN, RUN + 5, true },
		{ 6 * RUN, (uint32_t)(SIZE - 6 * RUN), true }, { SIZE, 1, true }, { 5, 0, true },
		{ SIZE - 1, 2, true }, { UINT64_MAX, 1, true }, { UINT64_MAX - 5, UINT32_MAX, true },
	};
	static const struct { uint64_t offset; uint32_t length; } want[] = {
		{ 0, 4 * RUN }, { 4 * RUN, RUN + 5 }, { 6 * RUN, (uint32_t)(SIZE - 6 * RUN) },
	};
	struct part_spec s = journalled("f");
	struct seen seen = { .n = 0 };
	struct part *p = begin(&s);

	(void)state;
	for (uint64_t i = 0; i < RUNS; i++)
		write_run(p, i, false);
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		struct part_run r = { .offset = runs[i].offset, .length = runs[i].length };
		static uint8_t data[SIZE];
		bool inside = r.length && r.offset < SIZE && r.length <= SIZE - r.offset;

		if (inside && runs[i].fits) {
			assert_int_equal(pread(part_fd(p), data, r.length, (off_t)r.offset),
					 r.length);
			crypto_run_digest(r.digest, data, r.length);
		}
		assert_int_equal(part_note_run(p, &r), inside ? 0 : -ERANGE);
	}
	part_abandon(p, true);
	part_free(p);
	p = begin(&s);
	assert_int_equal(part_runs(p, see_run, &seen, NULL), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(seen.v[i].offset, want[i].offset);
		assert_int_equal(seen.v[i].length, want[i].length);
	}
	part_abandon(p, false);
	part_free(p);
}

static void *note_many(void *arg)
{
	struct part *p = arg;
	uint8_t digest[RUN_DIGEST_BYTES] = { 0 };
	long bad = 0;

	for (int i = 0; i < 2000; i++) {
		bad += note_run(p, (uint64_t)i % RUNS, digest) != 0;
		if (i % 100 == 0)
			bad += part_checkpoint(p) != 0;
	}
	return (void *)bad;
}

static void threads_note_together(void **state)
{
	struct part_spec s = journalled("f");
	struct part *p = begin(&s);
	pthread_t t[4];
	void *bad;

	(void)state;
	for (int i = 0; i < 4; i++)
		assert_int_equal(thread_start(&t[i], "note", note_many, p), 0);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &bad);
		assert_null(bad);
	}
	for (uint64_t i = 0; i < RUNS; i++)
		write_run(p, i, true);
	part_abandon(p, true);
	part_free(p);
	assert_int_equal(resume(&s), ALL);
}

/* The journal fails, as on a full disk, but the file itself does not. The runs recorded before the
 * failure can be resumed, and the file can be committed. */
static void journal_that_fails(void **state)
{
	(void)state;
	need_faults();
	for (int i = 0; i < 2; i++) {
		struct part_spec s = journalled("f");
		struct part *p = begin(&s);

		write_run(p, 2, true);
		assert_int_equal(part_checkpoint(p), 0);
		set_faults("journal:EIO");
		write_run(p, 3, true);
		assert_int_equal(part_checkpoint(p), -EIO);
		set_faults(NULL);
		/* Further runs are not recorded; noting them is not an error. */
		for (uint64_t run = 0; run < RUNS; run++)
			write_run(p, run, true);
		assert_int_equal(part_checkpoint(p), -EIO);
		if (i) {
			commit(p);
		} else {
			part_abandon(p, true);
			part_free(p);
			assert_int_equal(litter(), 2);
			assert_int_equal(resume(&s), 1u << 2);
		}
		check_content("d/f");
		assert_int_equal(litter(), 0);
		unlink(tmp_at("d/f"));
	}
}

/* The same if a note writes the journal because the batch is large and old enough. */
static void journal_that_fails_while_noting(void **state)
{
	struct part_run run = { .length = 64u << 20 };
	struct part_spec s = journalled("f");
	struct part *p;

	(void)state;
	need_faults();
	s.meta.size = 4ull * run.length;
	p = begin(&s);
	set_faults("journal:EIO");
	usleep(300000);
	assert_int_equal(part_note_run(p, &run), 0);
	run.offset = run.length;
	assert_int_equal(part_note_run(p, &run), 0);
	/* The write was attempted: with no pending record there would be no error. */
	set_faults(NULL);
	assert_int_equal(part_checkpoint(p), -EIO);
	put(p, "whole", 0);
	commit(p);
	assert_int_equal(stat_of("d/f").st_size, s.meta.size);
	assert_int_equal(litter(), 0);
}

/* ---- in place ---- */

static void in_place(void **state)
{
	struct part_spec s = spec("f");
	struct part *p;

	(void)state;
	s.inplace = true;
	s.meta.size = 5;
	tmp_put("d/f", "old and longer");
	p = begin(&s);
	assert_string_equal(tmp_get("d/f"), "old and longer"); /* truncated only at the end */
	put(p, "NEW", 0);
	assert_string_equal(tmp_get("d/f"), "NEW and longer");
	commit(p);
	assert_string_equal(tmp_get("d/f"), "NEW a");
	check_attributes("d/f", 0640);
	assert_int_equal(part_write_whole(&s, "x", 1, NULL), 0);
	assert_string_equal(tmp_get("d/f"), "x");
	/* abandoned: an existing file stays, a new one is removed */
	part_free(begin(&s));
	assert_string_equal(tmp_get("d/f"), "x");
	s.name = "g";
	part_free(begin(&s));
	assert_string_equal(tmp_get("d/g"), "(none)");
	/* in place works only for regular files */
	assert_int_equal(symlink("f", tmp_at("d/g")), 0);
	assert_int_equal(refused(&s, "symbolic link"), -ELOOP);
	unlink(tmp_at("d/g"));
	assert_int_equal(mkfifo(tmp_at("d/g"), 0644), 0);
	assert_true(refused(&s, "place") < 0);
	assert_int_equal(litter(), 0);
}

/* ---- faults and kills ---- */

static const char *const points[] = { "open", "write", "sync", "commit", "rename", "journal" };

/* Makes one file in one of four ways; in a child if a fault may kill it. */
static int make_one(int way)
{
	struct part_spec s = way == 3 ? journalled("f") : spec("f");
	struct part *p;
	int r;

	s.sync = true;
	s.meta.size = 3;
	if (way < 2)
		return part_write_whole(&s, "new", 3, NULL);
	p = part_begin(&s, NULL);
	if (!p)
		return -EIO;
	r = pwrite_full(part_fd(p), "new", 3, 0);
	if (r == 0 && way == 3) {
		struct part_run run = { .length = 3 };

		crypto_run_digest(run.digest, "new", 3);
		r = part_note_run(p, &run);
		if (r == 0)
			r = part_checkpoint(p);
	}
	if (r == 0)
		r = part_sync(p, NULL);
	if (r == 0)
		r = part_commit(p, NULL);
	part_free(p);
	return r;
}

/* Whether the way reaches the fault point. */
static bool passes(int way, const char *point)
{
	if (strcmp(point, "write") == 0)
		return way < 2;
	return strcmp(point, "journal") != 0 || way == 3;
}

/* Each operation at the point fails with the error, or the signal kills the process. */
static void fail_at(const char *point, const char *action)
{
	char rule[64];

	snprintf(rule, sizeof(rule), "%s:%s", point, action);
	set_faults(rule);
}

static void faults_leave_the_old_file(void **state)
{
	(void)state;
	need_faults();
	for (int way = 0; way < 4; way++) {
		for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
			choose(way == 1);
			tmp_put("d/f", "old");
			fail_at(points[i], "EIO");
			if (passes(way, points[i])) {
				assert_int_equal(make_one(way), -EIO);
				assert_string_equal(tmp_get("d/f"), "old");
			} else {
				assert_int_equal(make_one(way), 0);
				assert_string_equal(tmp_get("d/f"), "new");
			}
			assert_int_equal(litter(), 0);
			set_faults(NULL);
		}
	}
}

static void kills_leave_the_old_file(void **state)
{
	(void)state;
	need_faults();
	for (int way = 0; way < 4; way++) {
		for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
			int status;
			pid_t pid;

			choose(way == 1);
			if (!passes(way, points[i]))
				continue;
			tmp_put("d/f", "old");
			fail_at(points[i], "SIGKILL");
			pid = fork();
			if (pid == 0)
				_exit(make_one(way) != 0);
			assert_int_equal(waitpid(pid, &status, 0), pid);
			assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
			assert_string_equal(tmp_get("d/f"), "old");
			if (way == 0 || way == 2)
				assert_int_equal(litter(), 0); /* unnamed files leave no part */
			set_faults(NULL);
			assert_int_equal(make_one(way), 0); /* the next attempt works */
			assert_string_equal(tmp_get("d/f"), "new");
			assert_int_equal(litter(), 0);
		}
	}
}

/* Writes files "f" for ever: the length in the first four bytes, then equal bytes. */
static void write_for_ever(int way)
{
	static uint8_t data[200000];
	unsigned int n = (unsigned int)getpid();

	for (;;) {
		struct part_spec s = way == 3 ? journalled("f") : spec("f");
		uint32_t len = 4 + rand_r(&n) % (sizeof(data) - 4);
		struct part *p;

		put_be32(data, len);
		memset(data + 4, (int)(n & 0xff), len - 4);
		s.meta.size = len;
		if (way < 2) {
			if (part_write_whole(&s, data, len, NULL))
				_exit(1);
			continue;
		}
		p = part_begin(&s, NULL);
		if (!p || pwrite_full(part_fd(p), data, len, 0) || part_commit(p, NULL))
			_exit(2);
		part_free(p);
	}
}

static void check_whole(const char *path)
{
	static uint8_t data[200001];
	int fd = open(tmp_at(path), O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return; /* killed before the first commit */
	n = read_full(fd, data, sizeof(data));
	close(fd);
	assert_true(n >= 4);
	assert_int_equal(get_be32(data), n);
	for (ssize_t i = 4; i < n; i++)
		assert_int_equal(data[i], data[4]);
}

static void killed_at_any_instant(void **state)
{
	unsigned int seed = 12345;

	(void)state;
	for (int i = 0; i < 120; i++) {
		int status, way = i % 4;
		pid_t pid;

		choose(way == 1);
		pid = fork();
		if (pid == 0)
			write_for_ever(way);
		usleep((unsigned int)rand_r(&seed) % 4000);
		check_whole("d/f"); /* also while the writer runs */
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_true(WIFSIGNALED(status));
		check_whole("d/f");
	}
	/* a later successful attempt removes all leftovers */
	choose(false);
	assert_int_equal(make_one(3), 0);
	assert_string_equal(tmp_get("d/f"), "new");
	assert_int_equal(litter(), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, begin_one, tmp_parts_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(commit_replaces),
		T(abandon_leaves_nothing),
		T(size_is_told_later),
		T(holes_stay),
		T(modes_follow_the_rules),
		T(owners),
		T(a_new_owner_in_place),
		T(an_unknown_atime_is_left),
		T(names),
		T(no_names),
		T(over_what_is_no_file),
		T(the_second_writer_is_refused),
		T(many_whole_writers_of_one_name),
		T(stale_parts_do_not_hinder),
		T(crashed_writers_are_resumed),
		T(crashed_in_place_too),
		T(only_what_fits_is_taken_over),
		T(kept_and_noted_twice),
		T(many_runs),
		T(runs_of_several_lengths),
		T(threads_note_together),
		T(journal_that_fails),
		T(journal_that_fails_while_noting),
		T(in_place),
		T(faults_leave_the_old_file),
		T(kills_leave_the_old_file),
		T(killed_at_any_instant),
	};

	return cmocka_run_group_tests_name("part", tests, begin_all, tmp_teardown);
}
