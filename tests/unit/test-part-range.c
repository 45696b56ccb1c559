// SPDX-License-Identifier: Apache-2.0
/* Ranges of a file are written by several transfers; the file appears when all are complete. */
#include "storage/internal.h"

#include "crypto/crypto.h"
#include "tests/support/faults.h"
#include "tests/support/tmptree.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define PIECE 8192u
#define PIECES 3
#define SIZE (PIECES * (uint64_t)PIECE)

static uint8_t data[SIZE];

static int begin_all(void **state)
{
	umask(0);
	crypto_random(data, sizeof(data));
	return tmp_setup(state);
}

static struct part_spec whole(void)
{
	struct part_spec s = { .dir = tmp_top, .name = "f", .set_mode = true, .set_times = true,
			       .journal = true };

	s.meta = (struct meta){ .size = SIZE, .mode = 0640, .mtime_s = 1234567890, .mtime_ns = 42 };
	return s;
}

static struct part_spec piece(unsigned i)
{
	struct part_spec s = whole();

	s.range = (struct part_range){ .offset = i * (uint64_t)PIECE, .length = PIECE };
	return s;
}

static uint32_t sum(unsigned i)
{
	return crypto_crc32c(0, data + i * PIECE, PIECE);
}

static struct part *begin(const struct part_spec *s)
{
	struct err e = ERR_INIT;
	struct part *p = part_begin(s, &e);

	if (!p)
		fail_msg("%s", e.text);
	return p;
}

static int refused(const struct part_spec *s)
{
	struct err e = ERR_INIT;

	assert_null(part_begin(s, &e));
	return e.code;
}

static void fill(struct part *p, unsigned i)
{
	struct part_run run = { .offset = i * (uint64_t)PIECE, .length = PIECE };

	assert_int_equal(pwrite_full(part_fd(p), data + i * PIECE, PIECE, (off_t)run.offset), 0);
	crypto_run_digest(run.digest, data + i * PIECE, PIECE);
	assert_int_equal(part_note_run(p, &run), 0);
}

/* s: piece i */
static void complete_as(const struct part_spec *s, unsigned i)
{
	struct part *p = begin(s);

	fill(p, i);
	assert_int_equal(part_range_complete(p, sum(i), NULL), 0);
	part_free(p);
}

static void complete(unsigned i)
{
	struct part_spec s = piece(i);

	complete_as(&s, i);
}

static bool unseen;

static int join_ranges(const struct part_spec *s, const struct part_range *v, size_t n,
		       struct err *e)
{
	const struct part_ranges g = { .v = v, .n = n, .unseen = unseen };

	return part_join(s, &g, e);
}

static int join_of(const struct part_spec *s, const char **why)
{
	static struct err e;
	struct part_range v[PIECES];

	e = (struct err)ERR_INIT;
	for (unsigned i = 0; i < PIECES; i++)
		v[i] = (struct part_range){ i * (uint64_t)PIECE, PIECE, sum(i) };
	if (why)
		*why = e.text;
	return join_ranges(s, v, PIECES, &e);
}

static int join(const char **why)
{
	struct part_spec s = whole();

	s.set_mode = false; /* the ranges have named it */
	s.meta.mode = 0;
	return join_of(&s, why);
}

static void check_file(void)
{
	uint8_t is[SIZE];
	struct stat st;
	int fd CLEANUP_CLOSE = open(tmp_at("d/f"), O_RDONLY | O_CLOEXEC);

	assert_int_equal(pread_full(fd, is, SIZE, 0), SIZE);
	assert_memory_equal(is, data, SIZE);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_int_equal(st.st_mtim.tv_sec, 1234567890);
	assert_int_equal(st.st_mtim.tv_nsec, 42);
	assert_int_equal(tmp_count("d", PART_PREFIX), 0);
}

static void ranges_become_a_file(void **state)
{
	struct part_spec a = piece(2), b = piece(0);
	struct part *p = begin(&a), *q = begin(&b);

	(void)state;
	fill(q, 0);
	fill(p, 2);
	assert_int_equal(part_range_complete(p, sum(2), NULL), 0);
	assert_int_equal(part_range_complete(q, sum(0), NULL), 0);
	part_free(q);
	part_free(p);
	complete(1);
	assert_string_equal(tmp_get("d/f"), "(none)");
	assert_int_equal(join(NULL), 0);
	check_file();
	assert_int_equal(join(NULL), 0); /* an earlier call did it */
	check_file();
}

static void all_must_be_complete(void **state)
{
	struct part_spec s = piece(1);
	struct part_range v = { 0, PIECE, sum(0) };
	struct part *p;
	struct err e = ERR_INIT;
	const char *why;

	(void)state;
	assert_int_equal(join(&why), -ENODATA);
	complete(0);
	complete(2);
	assert_int_equal(join(&why), -ENODATA);
	p = begin(&s);
	fill(p, 1);
	assert_int_equal(join(&why), -EBUSY); /* it is being written */
	part_abandon(p, true);
	part_free(p);
	assert_int_equal(join(&why), -ENODATA);
	p = begin(&s);
	assert_int_equal(part_range_complete(p, sum(1) + 1, NULL), 0);
	part_free(p);
	assert_int_equal(join(&why), -ENODATA);
	assert_non_null(strstr(why, "have the CRC32C"));
	s = whole();
	complete(1);
	assert_int_equal(join_ranges(&s, &v, 1, &e), -EINVAL);
	assert_string_equal(tmp_get("d/f"), "(none)");
	assert_int_equal(join(NULL), 0);
	check_file();
}

static int count_run(void *arg, const struct part_run *run)
{
	assert_int_equal(run->offset, PIECE);
	++*(int *)arg;
	return 0;
}

static void a_range_resumes(void **state)
{
	struct part_spec s = piece(1);
	struct part *p;
	int runs = 0;

	(void)state;
	complete(0);
	complete(1);
	complete(2);
	p = begin(&s); /* once more: what it has is offered, and it is not complete */
	assert_int_equal(part_runs(p, count_run, &runs, NULL), 1);
	assert_int_equal(runs, 1);
	part_abandon(p, true);
	part_free(p);
	assert_int_equal(join(NULL), -ENODATA);
	complete(1);
	assert_int_equal(join(NULL), 0);
	check_file();
}

static void writers_exclude_each_other(void **state)
{
	struct part_spec one = piece(0), other = piece(1), all = whole();
	struct part *p = begin(&one), *q = begin(&other);

	(void)state;
	assert_int_equal(refused(&one), -EBUSY);
	part_abandon(q, false);
	part_free(q);
	part_abandon(p, false);
	part_free(p);
	assert_int_equal(join_ranges(&all, NULL, 0, NULL), 0);
	assert_int_equal(tmp_count("d", PART_PREFIX), 0);
}

/* A transfer of the whole file, of another set, or of another version of the file, has its own
 * part: neither changes the other's bytes. */
static void sets_do_not_meet(void **state)
{
	struct part_spec other[4] = { whole(), piece(0), piece(0), piece(0) };

	(void)state;
	other[1].set.id[3] = 1;
	other[1].range.length = PIECE / 2;
	other[2].meta.size = SIZE - PIECE;
	other[3].meta.mtime_ns++;
	for (int keep = 0; keep < 2; keep++) {
		for (unsigned i = 0; i < PIECES; i++)
			complete(i);
		for (int k = 0; k < 4; k++) {
			struct part *p = begin(&other[k]);

			assert_int_equal(pwrite_full(part_fd(p), "other", 5, 0), 0);
			part_abandon(p, keep);
			part_free(p);
		}
		assert_int_equal(join_of(&other[2], NULL), -ENODATA);
		assert_int_equal(join_of(&other[3], NULL), -ENODATA);
		assert_int_equal(join(NULL), 0);
		for (int k = 0; k < 4; k++)
			assert_int_equal(join_ranges(&other[k], NULL, 0, NULL), 0);
		check_file();
		unlink(tmp_at("d/f"));
	}
}

static char *part_path(void)
{
	static char path[PART_NAME_MAX + 2];
	const struct part_spec s = whole();
	char part[PART_NAME_MAX];

	range_part_name(part, &s);
	snprintf(path, sizeof(path), "d/%s", part);
	return path;
}

/* Journals without their part, which another program may have removed or cut, count for nothing. */
static void a_lost_part(void **state)
{
	(void)state;
	for (int way = 0; way < 3; way++) {
		int old CLEANUP_CLOSE = -1; /* its inode is not used again */

		for (unsigned i = 0; i < PIECES; i++)
			complete(i);
		old = open(tmp_at(part_path()), O_RDONLY | O_CLOEXEC);
		if (way == 2)
			assert_int_equal(truncate(tmp_at(part_path()), PIECE), 0);
		else
			assert_int_equal(unlink(tmp_at(part_path())), 0);
		if (way == 1) /* the size that it had: only the inode differs */
			tmp_put(part_path(), "");
		if (way == 1)
			assert_int_equal(truncate(tmp_at(part_path()), SIZE), 0);
		complete(1);
		assert_int_equal(join(NULL), -ENODATA);
		complete(0);
		complete(2);
		assert_int_equal(join(NULL), 0);
		check_file();
		unlink(tmp_at("d/f"));
	}
}

/* A killed join leaves the file, and journals of its ranges: they do not help a later writer. */
static void journals_outlive_their_part(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PIECES; i++)
		complete(i);
	assert_int_equal(rename(tmp_at(part_path()), tmp_at("d/x")), 0);
	assert_int_equal(rename(tmp_at("d/x"), tmp_at("d/f")), 0);
	assert_int_equal(join(NULL), 0);
	assert_int_equal(tmp_count("d", PART_PREFIX), 0);
	unlink(tmp_at("d/f"));
	complete(1);
	assert_int_equal(join(NULL), -ENODATA);
	assert_string_equal(tmp_get("d/f"), "(none)");
}

/* A file of the same size and time is not the joined one if its bytes differ. */
static void another_file_is_not_the_joined_one(void **state)
{
	struct timespec t[2] = { { .tv_sec = 1234567890, .tv_nsec = 42 },
				 { .tv_sec = 1234567890, .tv_nsec = 42 } };

	(void)state;
	tmp_put("d/f", "");
	assert_int_equal(truncate(tmp_at("d/f"), SIZE), 0);
	assert_int_equal(utimensat(AT_FDCWD, tmp_at("d/f"), t, 0), 0);
	assert_int_equal(join(NULL), -ENODATA);
	unseen = true; /* it must not learn that the bytes differ */
	assert_int_equal(join(NULL), 0);
	t[1].tv_nsec++;
	assert_int_equal(utimensat(AT_FDCWD, tmp_at("d/f"), t, 0), 0);
	assert_int_equal(join(NULL), -ENODATA);
	unseen = false;
}

static int poll_result(void *calls)
{
	return ++*(int *)calls == 2 ? -ECANCELED : 0;
}

static void a_comparison_can_be_stopped(void **state)
{
	struct part_range v[PIECES];
	int calls = 0;
	const struct part_ranges g = { .v = v, .n = PIECES, .poll = poll_result, .arg = &calls };
	struct part_spec s = whole();

	(void)state;
	for (unsigned i = 0; i < PIECES; i++) {
		complete(i);
		v[i] = (struct part_range){ i * (uint64_t)PIECE, PIECE, sum(i) };
	}
	assert_int_equal(part_join(&s, &g, NULL), 0);
	assert_int_equal(calls, 0);
	assert_int_equal(part_join(&s, &g, NULL), -ECANCELED);
	assert_int_equal(calls, 2);
	check_file();
}

/* An account that may not replace files joins, and may ask again. */
static void join_keeps_old_files(void **state)
{
	struct part_spec s = whole();

	(void)state;
	s.keep_old = true;
	for (unsigned i = 0; i < PIECES; i++)
		complete(i);
	tmp_put("d/f", "old");
	assert_int_equal(join_of(&s, NULL), -EPERM);
	assert_string_equal(tmp_get("d/f"), "old");
	unlink(tmp_at("d/f"));
	if (have_faults()) { /* it comes in the last moment */
		set_faults("rename:EEXIST");
		assert_int_equal(join_of(&s, NULL), -EPERM);
		set_faults(NULL);
	}
	assert_int_equal(join_of(&s, NULL), 0);
	assert_int_equal(join_of(&s, NULL), 0);
	check_file();
}

/* So does a transfer that skips existing files: its ranges say it, not the join. */
static void ranges_keep_old_files(void **state)
{
	(void)state;
	for (unsigned i = 0; i < PIECES; i++) {
		struct part_spec s = piece(i);

		s.keep_old = true;
		complete_as(&s, i);
	}
	tmp_put("d/f", "old");
	assert_int_equal(join(NULL), -EPERM);
	assert_string_equal(tmp_get("d/f"), "old");
	unlink(tmp_at("d/f"));
	assert_int_equal(join(NULL), 0);
	check_file();
}

/* A transfer that updates older files replaces no other ones. */
static void ranges_keep_newer_files(void **state)
{
	struct timespec t[2] = { { .tv_sec = 1234567890, .tv_nsec = 42 },
				 { .tv_sec = 1234567890, .tv_nsec = 42 } };

	(void)state;
	for (unsigned i = 0; i < PIECES; i++) {
		struct part_spec s = piece(i);

		s.keep_newer = true;
		complete_as(&s, i);
	}
	assert_int_equal(mkfifo(tmp_at("d/f"), 0600), 0); /* no file to be kept */
	assert_int_equal(join(NULL), -EEXIST);
	unlink(tmp_at("d/f"));
	tmp_put("d/f", "as old");
	assert_int_equal(utimensat(AT_FDCWD, tmp_at("d/f"), t, 0), 0);
	assert_int_equal(join(NULL), -EPERM);
	assert_string_equal(tmp_get("d/f"), "as old");
	t[1].tv_nsec--;
	assert_int_equal(utimensat(AT_FDCWD, tmp_at("d/f"), t, 0), 0);
	assert_int_equal(join(NULL), 0);
	check_file();
}

/* The file has its owner before it has its name. */
static void join_gives_the_owner(void **state)
{
	struct stat st;

	(void)state;
	if (geteuid())
		skip();
	for (unsigned i = 0; i < PIECES; i++) {
		struct part_spec s = piece(i);

		s.set_owner = true;
		s.meta.uid = 12;
		s.meta.gid = 34;
		complete_as(&s, i);
	}
	if (have_faults()) { /* afterwards the part is still ours */
		set_faults("rename:EIO");
		assert_int_equal(join(NULL), -EIO);
		set_faults(NULL);
	}
	assert_int_equal(join(NULL), 0);
	assert_int_equal(stat(tmp_at("d/f"), &st), 0);
	assert_int_equal(st.st_uid, 12);
	assert_int_equal(st.st_gid, 34);
	check_file();
}

/* Without a mode of the source, the file keeps the mode of the one that it replaces. */
static void join_keeps_the_mode(void **state)
{
	struct stat st;

	(void)state;
	for (unsigned i = 0; i < PIECES; i++) {
		struct part_spec s = piece(i);

		s.set_mode = false;
		complete_as(&s, i);
	}
	tmp_put("d/f", "old");
	assert_int_equal(chmod(tmp_at("d/f"), 0604), 0);
	assert_int_equal(join(NULL), 0);
	assert_int_equal(stat(tmp_at("d/f"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0604);
}

static void given_up(void **state)
{
	struct part_spec s = whole(), one = piece(2);
	struct part *p;

	(void)state;
	complete(0);
	p = begin(&one);
	assert_int_equal(join_ranges(&s, NULL, 0, NULL), -EBUSY);
	part_abandon(p, true);
	part_free(p);
	assert_int_equal(join_ranges(&s, NULL, 0, NULL), 0);
	assert_int_equal(tmp_count("d", PART_PREFIX), 0);
	assert_int_equal(join_ranges(&s, NULL, 0, NULL), 0);
}

/* While one writer of a range writes, the part's time changes: only its journal says whether it is
 * alive. */
static void the_stamp_is_that_of_the_range(void **state)
{
	struct part_spec one = piece(0), other = piece(1);
	struct part *p = begin(&one), *q = begin(&other);
	struct timespec before, after;

	(void)state;
	assert_int_equal(part_stamp(&one, &before), 0);
	usleep(20000);
	fill(q, 1);
	assert_int_equal(part_checkpoint(q), 0);
	assert_int_equal(part_stamp(&one, &after), 0);
	assert_memory_equal(&before, &after, sizeof(before));
	fill(p, 0);
	assert_int_equal(part_checkpoint(p), 0);
	assert_int_equal(part_stamp(&one, &after), 0);
	assert_true(memcmp(&before, &after, sizeof(before)) != 0);
	part_abandon(p, false);
	part_free(p);
	part_abandon(q, false);
	part_free(q);
}

static void *write_one(void *arg)
{
	complete((unsigned)(uintptr_t)arg % PIECES);
	return NULL;
}

/* All begin at the same time, when there is no part yet: none is refused. */
static void many_begin_at_once(void **state)
{
	(void)state;
	for (int round = 0; round < 50; round++) {
		pthread_t t[PIECES];

		for (unsigned i = 0; i < PIECES; i++)
			assert_int_equal(pthread_create(&t[i], NULL, write_one,
							(void *)(uintptr_t)i), 0);
		for (unsigned i = 0; i < PIECES; i++)
			pthread_join(t[i], NULL);
		assert_int_equal(join(NULL), 0);
		check_file();
		unlink(tmp_at("d/f"));
	}
}

static void names(void **state)
{
	struct part_spec s = whole();
	char name[PART_NAME_MAX], part[PART_NAME_MAX], of[PART_NAME_MAX];

	(void)state;
	range_part_name(part, &s);
	range_journal_name(name, part, 0x123456789abcdef0);
	assert_string_equal(strrchr(name, '.'), ".r123456789abcdef0");
	assert_true(part_is_ours(name));
	part_of(of, name);
	assert_string_equal(of, part);
	name[strlen(name) - 1] = '\0';
	assert_false(part_is_ours(name));
	part_name(of, "f");
	assert_string_not_equal(of, part);
}

#define T(f) cmocka_unit_test_setup_teardown(f, tmp_parts_setup, tmp_parts_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(ranges_become_a_file),
		T(all_must_be_complete),
		T(a_range_resumes),
		T(writers_exclude_each_other),
		T(sets_do_not_meet),
		T(a_lost_part),
		T(journals_outlive_their_part),
		T(another_file_is_not_the_joined_one),
		T(a_comparison_can_be_stopped),
		T(join_keeps_old_files),
		T(ranges_keep_old_files),
		T(ranges_keep_newer_files),
		T(join_gives_the_owner),
		T(join_keeps_the_mode),
		T(given_up),
		T(the_stamp_is_that_of_the_range),
		T(many_begin_at_once),
		T(names),
	};

	return cmocka_run_group_tests_name("part-range", tests, begin_all, tmp_teardown);
}
