// SPDX-License-Identifier: Apache-2.0
/* Lines of machine listings, and their times. */
#include "proto/ftp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_time_parse(void **state)
{
	static const struct {
		const char *s;
		int err;
		int64_t sec;
		uint32_t ns;
	} cases[] = {
		{ "19700101000000", 0, 0, 0 },
		{ "20000229120000", 0, 951825600, 0 },
		{ "20261231235959", 0, 1798761599, 0 },
		{ "19691231235959", 0, -1, 0 },
		{ "20380119031408", 0, 2147483648, 0 },
		{ "20161231235960", 0, 1483228800, 0 },
		{ "19700101000000.5", 0, 0, 500000000 },
		{ "19700101000000.123456789", 0, 0, 123456789 },
		{ "19700101000000.1234567899", 0, 0, 123456789 },
		{ "19700101000000.", -EINVAL, 0, 0 },
		{ "19700101000000.x", -EINVAL, 0, 0 },
		{ "19700101000000.1x", -EINVAL, 0, 0 },
		{ "19700101000000Z", -EINVAL, 0, 0 },
		{ "20010229000000", -EINVAL, 0, 0 },
		{ "19000229000000", -EINVAL, 0, 0 },
		{ "20000431000000", -EINVAL, 0, 0 },
		{ "20001301000000", -EINVAL, 0, 0 },
		{ "20000001000000", -EINVAL, 0, 0 },
		{ "20000100000000", -EINVAL, 0, 0 },
		{ "20000101240000", -EINVAL, 0, 0 },
		{ "20000101006000", -EINVAL, 0, 0 },
		{ "20000101000061", -EINVAL, 0, 0 },
		{ "2000010100000", -EINVAL, 0, 0 },
		{ "200001010000", -EINVAL, 0, 0 },
		{ "2000", -EINVAL, 0, 0 },
		{ "", -EINVAL, 0, 0 },
		{ "2000-101000000", -EINVAL, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* In memory of the exact size, so that a sanitizer detects reads beyond the end. */
		char *s = strdup(cases[i].s);
		int64_t sec = 42;
		uint32_t ns = 42;

		assert_int_equal(ftp_time_parse(s, &sec, &ns), cases[i].err);
		assert_true(sec == cases[i].sec);
		assert_int_equal(ns, cases[i].ns);
		free(s);
	}
}

static void test_time_format(void **state)
{
	static const struct {
		int64_t sec;
		uint32_t ns;
		const char *s;
	} cases[] = {
		{ 0, 0, "19700101000000" },
		{ -1, 0, "19691231235959" },
		{ 951825600, 1, "20000229120000.000000001" },
		{ 951825600, 120000000, "20000229120000.12" },
		{ 253402300799, 0, "99991231235959" },
		{ INT64_MAX, 0, "99991231235959" },
		{ INT64_MIN, 0, "00000101000000" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[32];

		ftp_time_format(out, cases[i].sec, cases[i].ns);
		assert_string_equal(out, cases[i].s);
	}
}

/* Formatting and parsing are inverse over all years. */
static void test_time_round_trip(void **state)
{
	for (int64_t t = -62135596800; t < 253402300800; t += 7654321987) {
		uint32_t ns = (uint32_t)(t & 0xfffffff), back_ns;
		char out[32];
		int64_t back;

		ftp_time_format(out, t, ns);
		assert_int_equal(ftp_time_parse(out, &back, &back_ns), 0);
		assert_true(back == t);
		assert_int_equal(back_ns, ns);
	}
}

static void test_parse(void **state)
{
	struct ftp_facts f;

	assert_int_equal(ftp_facts_parse("Type=file;Size=1024990;Modify=19970214165800;"
					 "UNIX.mode=0644;UNIX.uid=1000;unix.gid=100; a; b=c ",
					 false, &f), 0);
	assert_int_equal(f.type, 'f');
	assert_true(f.has_size && f.size == 1024990);
	assert_true(f.has_mtime && f.mtime_s == 855939480);
	assert_true(f.has_mode && f.mode == 0644);
	assert_true(f.has_owner && f.uid == 1000 && f.gid == 100);
	assert_null(f.target);
	assert_string_equal(f.name, "a; b=c ");
	ftp_facts_clear(&f);
	assert_null(f.name);
}

static void test_types(void **state)
{
	static const struct {
		const char *line;
		char type;
		const char *name, *target;
	} cases[] = {
		{ "type=file; x", 'f', "x", NULL },
		{ "TYPE=DIR; x", 'd', "x", NULL },
		{ "type=cdir; /home/x", 'c', "/home/x", NULL },
		{ "type=pdir; ..", 'p', "..", NULL },
		{ "type=OS.unix=slink:/a/b; x", 'l', "x", "/a/b" },
		{ "type=OS.unix=slink; x", 'l', "x", NULL },
		{ "type=OS.unix=slink:; x", 'l', "x", NULL },
		{ "type=OS.unix=symlink; x", 'l', "x", NULL },
		{ "type=OS.unix=chr-4/64; x", 'o', "x", NULL },
		{ "type=; x", 'o', "x", NULL },
		{ "size=1; x", 'o', "x", NULL },
		{ " x", 'o', "x", NULL },
		{ "  x", 'o', " x", NULL },
		{ " type=file;size=0; /mlst", 'f', "/mlst", NULL },
		{ " type=file; a b", 'f', "a b", NULL },
		{ "type=file;;;=;x; x", 'f', "x", NULL },
		{ "type=OS.unix=slink:/a;type=OS.unix=slink:/b; x", 'l', "x", "/b" },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ftp_facts f;

		assert_int_equal(ftp_facts_parse(cases[i].line, false, &f), 0);
		assert_int_equal(f.type, cases[i].type);
		assert_string_equal(f.name, cases[i].name);
		if (cases[i].target)
			assert_string_equal(f.target, cases[i].target);
		else
			assert_null(f.target);
		ftp_facts_clear(&f);
	}
}

/* An invalid fact counts as absent; the entry itself is kept. */
static void test_nonsense(void **state)
{
	static const char *const lines[] = {
		"size=18446744073709551616; x", "size=-1; x", "size=; x", "size=1x; x",
		"size=9223372036854775808; x", "modify=yesterday; x", "UNIX.mode=0888; x",
		"UNIX.mode=7777777; x", "UNIX.uid=root;UNIX.gid=0; x", "UNIX.uid=0; x",
		"UNIX.uid=4294967296;UNIX.gid=1; x",
		"size=3;size=x; x", "UNIX.mode=0644;UNIX.mode=x; x",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct ftp_facts f;

		assert_int_equal(ftp_facts_parse(lines[i], false, &f), 0);
		assert_false(f.has_size || f.has_mtime || f.has_mode || f.has_owner);
		assert_true(!f.size && !f.mode && !f.uid && !f.gid && !f.mtime_s);
		ftp_facts_clear(&f);
	}
}

static void test_refused(void **state)
{
	static const char *const lines[] = {
		"", " ", "type=file;", "type=file; ", "name",
	};
	struct ftp_facts f;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(ftp_facts_parse(lines[i], false, &f), -EBADMSG);
		assert_null(f.name);
		assert_int_equal(f.type, 0);
	}
	/* A decoded NUL or half an escape would make another name. */
	assert_int_equal(ftp_facts_parse("type=file; a%00b", true, &f), -EBADMSG);
	assert_int_equal(ftp_facts_parse("type=file; a%4", true, &f), -EBADMSG);
	assert_int_equal(ftp_facts_parse("type=OS.unix=slink:%00; a", true, &f), -EBADMSG);
	assert_null(f.target);
	assert_null(f.name);
}

static void check_round_trip(const struct ftp_facts *f, bool encoded)
{
	struct buf *b CLEANUP_BUF = buf_new(FTP_LINE_MAX);
	struct ftp_facts g;
	char *line;

	assert_int_equal(ftp_facts_format(b, f, encoded), 0);
	line = strndup((const char *)buf_ptr(b), buf_len(b));
	assert_null(strpbrk(line, "\r\n"));
	assert_int_equal(ftp_facts_parse(line, encoded, &g), 0);
	assert_int_equal(g.type, f->type);
	assert_int_equal(g.has_size, f->has_size);
	assert_true(g.size == f->size);
	assert_int_equal(g.has_mode, f->has_mode);
	assert_int_equal(g.mode, f->mode);
	assert_int_equal(g.has_mtime, f->has_mtime);
	assert_true(g.mtime_s == f->mtime_s && g.mtime_ns == f->mtime_ns);
	assert_int_equal(g.has_owner, f->has_owner);
	assert_true(g.uid == f->uid && g.gid == f->gid);
	assert_string_equal(g.name, f->name);
	if (f->target)
		assert_string_equal(g.target, f->target);
	else
		assert_null(g.target);
	ftp_facts_clear(&g);
	free(line);
}

static void test_unique(void **state)
{
	static const char *const lines[] = {
		"type=dir;unique=801g4e2; a", "Unique=801g4e2;type=dir; b",
		"type=dir;unique=801g4e3; a", "type=dir;unique=; a", "type=dir; a",
	};
	uint64_t u[sizeof(lines) / sizeof(lines[0])];
	struct ftp_facts f;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		assert_int_equal(ftp_facts_parse(lines[i], false, &f), 0);
		u[i] = f.unique;
		ftp_facts_clear(&f);
	}
	assert_true(u[0] && u[0] == u[1]);
	assert_true(u[2] && u[2] != u[0]);
	assert_true(!u[3] && !u[4]);
}

static void test_round_trip(void **state)
{
	struct ftp_facts f = { .type = 'f', .has_size = true, .size = INT64_MAX,
			       .has_mode = true, .mode = 04755, .has_mtime = true,
			       .mtime_s = 1700000000, .mtime_ns = 5, .has_owner = true,
			       .uid = UINT32_MAX, .gid = 1, .name = (char *)"a b;c" };
	struct ftp_facts dir = { .type = 'd', .name = (char *)"/x y" };
	struct ftp_facts link = { .type = 'l', .name = (char *)"l", .target = (char *)"../t" };
	struct ftp_facts odd = { .type = 'l', .name = (char *)"n\r\n%\377 ;",
				 .target = (char *)"; \nt" };

	check_round_trip(&f, false);
	check_round_trip(&f, true);
	check_round_trip(&dir, false);
	check_round_trip(&dir, true);
	check_round_trip(&link, false);
	check_round_trip(&link, true);
	check_round_trip(&odd, true);
}

static void test_format(void **state)
{
	struct ftp_facts f = { .type = 'f', .has_size = true, .size = 3, .has_mode = true,
			       .mode = 0644, .name = (char *)"x" };
	struct ftp_facts bad = { .type = 'f', .name = (char *)"a\nb" };
	struct ftp_facts spaced = { .type = 'l', .name = (char *)"x", .target = (char *)"a b" };
	struct ftp_facts none = { .type = 'f' };
	struct buf *b CLEANUP_BUF = buf_new(256);

	assert_int_equal(ftp_facts_format(b, &f, false), 0);
	assert_int_equal(buf_len(b), strlen("type=file;size=3;UNIX.mode=0644; x"));
	assert_memory_equal(buf_ptr(b), "type=file;size=3;UNIX.mode=0644; x", buf_len(b));
	buf_reset(b);
	assert_int_equal(ftp_facts_format(b, &bad, false), -EILSEQ);
	assert_int_equal(ftp_facts_format(b, &none, false), -EINVAL);
	assert_int_equal(buf_len(b), 0);
	/* A blank in the target would end the facts, so the target is left out. */
	assert_int_equal(ftp_facts_format(b, &spaced, false), 0);
	assert_memory_equal(buf_ptr(b), "type=OS.unix=slink; x", buf_len(b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_time_parse),
		cmocka_unit_test(test_time_format),
		cmocka_unit_test(test_time_round_trip),
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_nonsense),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_unique),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
