// SPDX-License-Identifier: Apache-2.0
/* LIST lines as printed by various servers. */
#include "proto/ftp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* 2024-06-15 12:00:00 UTC */
#define NOW 1718452800

static const struct good {
	const char *line;
	char type;
	const char *name;
	int64_t size;          /* -1: none */
	int mode;              /* -1: none */
	int64_t mtime;         /* 0: not compared */
	const char *target;
	int64_t uid;           /* -1: none */
} good[] = {
	/* vsftpd */
	{ "-rw-r--r--    1 0        0         5000000 Jun 14 18:00 big",
	  'f', "big", 5000000, 0644, 1718388000, NULL, 0 },
	{ "drwxr-xr-x    3 1000     1000         4096 Jan 01  2020 a b",
	  'd', "a b", -1, 0755, 1577836800, NULL, 1000 },
	{ "-rw-r--r--    1 ftp      ftp             3 Feb 29  2024  leads with a blank",
	  'f', " leads with a blank", 3, 0644, 1709164800, NULL, -1 },
	{ "-rw-r--r--    1 ftp      ftp             3 Feb 29  2024 two  blanks ",
	  'f', "two  blanks ", 3, 0644, 1709164800, NULL, -1 },
	{ "lrwxrwxrwx    1 0        0               3 Nov 22  2023 link -> big",
	  'l', "link", -1, 0777, 1700611200, "big", 0 },
	/* A date without a year is in the past, but the server's clock may be up to a day ahead. */
	{ "-rw-r--r--    1 0        0               1 Dec 24 10:00 x",
	  'f', "x", 1, 0644, 1703412000, NULL, 0 },
	{ "-rw-r--r--    1 0        0               1 Jun 16 10:00 x",
	  'f', "x", 1, 0644, 1718532000, NULL, 0 },
	{ "-rw-r--r--    1 0        0               1 Jun 17 10:00 x",
	  'f', "x", 1, 0644, 1686996000, NULL, 0 },
	/* 29 February without a year is in the last leap year. */
	{ "-rw-r--r--    1 0        0               1 Feb 29 10:00 x",
	  'f', "x", 1, 0644, 1709200800, NULL, 0 },
	/* proftpd, pure-ftpd, wu-ftpd */
	{ "-rwsr-Sr-T   1 joe      users     1234567 Mar  3 00:00 s",
	  'f', "s", 1234567, 07744, 0, NULL, -1 },
	{ "drwxrwxrwt  12 root     root         4096 Mar  3 00:00 tmp",
	  'd', "tmp", -1, 01777, 0, NULL, -1 },
	{ "-rw-r--r--+  1 joe      users          10 Mar  3 00:00 acl",
	  'f', "acl", 10, 0644, 0, NULL, -1 },
	{ "-rw-r--r--.  1 joe      users          10 Mar  3 00:00 selinux",
	  'f', "selinux", 10, 0644, 0, NULL, -1 },
	/* no group; a group with blanks; no link count */
	{ "-rw-r--r--   1 owner             10 Mar  3 00:00 nogroup",
	  'f', "nogroup", 10, 0644, 0, NULL, -1 },
	{ "-rw-r--r--   1 joe      domain users       10 Mar  3 00:00 g",
	  'f', "g", 10, 0644, 0, NULL, -1 },
	/* FileZilla Server, Serv-U, IIS as Unix */
	{ "-rw-r--r-- 1 ftp ftp      11164210 Sep 28  2009 file.zip",
	  'f', "file.zip", 11164210, 0644, 0, NULL, -1 },
	{ "drwxrwxrwx   1 owner    group               0 May  9 19:45 Softlib",
	  'd', "Softlib", -1, 0777, 1715283900, NULL, -1 },
	/* --time-style=long-iso, and the day before the month */
	{ "-rw-r--r-- 1 root root 18 2023-09-01 13:37 iso",
	  'f', "iso", 18, 0644, 1693575420, NULL, -1 },
	{ "-rw-r--r-- 1 root root 18 1 Sep 2023 european",
	  'f', "european", 18, 0644, 1693526400, NULL, -1 },
	/* ambiguous names */
	{ "-rw-r--r-- 1 0 0 5 Jan  1  2020 Jan 2 2021 5",
	  'f', "Jan 2 2021 5", 5, 0644, 1577836800, NULL, 0 },
	{ "-rw-r--r-- 1 0 0 5 Jan  1  2020 a -> b", 'f', "a -> b", 5, 0644, 1577836800, NULL, 0 },
	{ "lrwxrwxrwx 1 0 0 1 Jan  1  2020 a -> b -> c", 'l', "a -> b", -1, 0777, 0, "c", 0 },
	{ "lrwxrwxrwx 1 0 0 6 Jan  1  2020 a -> b -> c", 'l', "a", -1, 0777, 0, "b -> c", 0 },
	{ "lrwxrwxrwx 1 0 0 9 Jan  1  2020 nowhere", 'l', "nowhere", -1, 0777, 0, NULL, 0 },
	/* devices have two numbers instead of a size */
	{ "brw-rw---- 1 root disk 8, 0 Jan  1  2020 sda", 'o', "sda", -1, 0660, 0, NULL, -1 },
	{ "prw-r--r-- 1 0 0 0 Jan  1  2020 pipe", 'o', "pipe", -1, 0644, 0, NULL, 0 },
	/* kept for the caller to refuse */
	{ "-rw-r--r-- 1 0 0 5 Jan  1  2020 ../../etc/passwd",
	  'f', "../../etc/passwd", 5, 0644, 0, NULL, 0 },
	{ "-rw-r--r-- 1 0 0 9223372036854775807 Jan  1  2020 huge",
	  'f', "huge", INT64_MAX, 0644, 0, NULL, 0 },
	/* DOS and IIS */
	{ "04-27-00  09:09PM       <DIR>          licensed",
	  'd', "licensed", -1, -1, 956869740, NULL, -1 },
	{ "07-18-2010  12:16AM       <DIR>          pub dir",
	  'd', "pub dir", -1, -1, 1279412160, NULL, -1 },
	{ "10-23-12  12:25PM                   14 read me.txt",
	  'f', "read me.txt", 14, -1, 1350995100, NULL, -1 },
	{ "2012-10-23  15:25                   14 x", 'f', "x", 14, -1, 1351005900, NULL, -1 },
	{ "2012-10-23  03:25PM                 14 x", 'f', "x", 14, -1, 1351005900, NULL, -1 },
	{ "10-11-12  15:25       <DIR>          x", 'd', "x", -1, -1, 1349969100, NULL, -1 },
	{ "10-23-12  03:25PM       <SYMLINKD>     l [C:\\inetpub\\x]",
	  'l', "l", -1, -1, 0, "C:\\inetpub\\x", -1 },
	{ "10-23-12  03:25PM       <JUNCTION>     j", 'o', "j", -1, -1, 0, NULL, -1 },
	/* NetWare */
	{ "d [RWCEAFMS] supervisor            512       Jan 16 18:53    login",
	  'd', "login", -1, -1, 1705431180, NULL, -1 },
	{ "- [R----F--] rhesus             214059       Oct 20 15:27 cx.exe",
	  'f', "cx.exe", 214059, -1, 1697815620, NULL, -1 },
	/* EPLF */
	{ "+i8388621.29609,m824255902,/,\tdev", 'd', "dev", -1, -1, 824255902, NULL, -1 },
	{ "+i8388621.44468,m839956783,r,s10376,\tRFCEPLF",
	  'f', "RFCEPLF", 10376, -1, 839956783, NULL, -1 },
};

static void test_good(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		const struct good *g = &good[i];
		struct ftp_facts f;

		print_message("# %s\n", g->line);
		assert_int_equal(ftp_list_parse(g->line, NOW, &f), 1);
		assert_int_equal(f.type, g->type);
		assert_string_equal(f.name, g->name);
		assert_int_equal(f.has_size, g->size >= 0);
		if (f.has_size)
			assert_int_equal(f.size, g->size);
		assert_int_equal(f.has_mode, g->mode >= 0);
		if (f.has_mode)
			assert_int_equal(f.mode, g->mode);
		if (g->mtime) {
			assert_true(f.has_mtime);
			assert_int_equal(f.mtime_s, g->mtime);
		}
		assert_int_equal(f.time_about, *g->line != '+');
		assert_int_equal(f.has_owner, g->uid >= 0);
		if (f.has_owner)
			assert_int_equal(f.uid, g->uid);
		assert_int_equal(!!f.target, !!g->target);
		if (g->target)
			assert_string_equal(f.target, g->target);
		ftp_facts_clear(&f);
	}
}

static void test_nothing(void **state)
{
	static const char *const lines[] = {
		"", "   ", "total 12", "Total 0",
		"drwxr-xr-x    3 0        0            4096 Jan 01  2020 .",
		"drwxr-xr-x    3 0        0            4096 Jan 01  2020 ..",
		"04-27-00  09:09PM       <DIR>          ..",
		"+/,\t.",
	};
	struct ftp_facts f;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		assert_int_equal(ftp_list_parse(lines[i], NOW, &f), 0);
}

static void test_bad(void **state)
{
	static const char *const lines[] = {
		"hello", "total x", "-rw-r--r--", "-rw-r--r-- 1 0 0 5",
		"-rw-r--r-- 1 0 0 5 Jan  1  2020", "-rw-r--r-- 1 0 0 5 Jan  1  2020 ",
		"-rw-r--r-- 1 0 0 5 Jan 32  2020 x", "-rw-r--r-- 1 0 0 5 Jan  1  25:00 x",
		"-rw-r--r-- 1 0 0 99999999999999999999 Jan  1  2020 x",
		"-rw-r--r-- 1 0 0 -5 Jan  1  2020 x", "?rw-r--r-- 1 0 0 5 Jan  1  2020 x",
		"-rw-r-?r-- 1 0 0 5 Jan  1  2020 x", "drwx 1 0 0 5 Jan  1  2020 x",
		"13-27-00  09:09PM       <DIR>          x", "04-27-00  13:09PM  5 x",
		"04-27-00  09:09PM  -5 x", "04-27-00  09:09PM       <DIR>",
		"LOGIN.COM;1 2 4-NOV-2023 04:09:00 [SYSTEM] (RWE,RWE,,)",
		"+no tab", "+/,\t", "- [R----F--", "226 Transfer complete.",
		"ls: cannot access 'x': No such file or directory",
	};
	struct ftp_facts f;

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		print_message("# %s\n", lines[i]);
		assert_int_equal(ftp_list_parse(lines[i], NOW, &f), -EBADMSG);
		assert_null(f.name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_bad),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
