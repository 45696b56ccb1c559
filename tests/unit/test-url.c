// SPDX-License-Identifier: Apache-2.0
/* Words of the command line: which place each names, and which are refused. */
#include "util/cleanup.h"
#include "util/url.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct good_case {
	const char *word;
	enum place_kind kind;
	const char *user, *host;
	unsigned int port;
	const char *path;
	uint64_t size;
};

static const struct good_case good[] = {
	{ "-", PLACE_STDIO, NULL, NULL, 0, "", 0 },
	{ "null:", PLACE_NULL, NULL, NULL, 0, "", 0 },
	{ "zero:10M", PLACE_ZERO, NULL, NULL, 0, "", 10 << 20 },
	{ "file", PLACE_LOCAL, NULL, NULL, 0, "file", 0 },
	{ "./a:b", PLACE_LOCAL, NULL, NULL, 0, "./a:b", 0 },
	{ "/x/a:b", PLACE_LOCAL, NULL, NULL, 0, "/x/a:b", 0 },
	{ ":x", PLACE_LOCAL, NULL, NULL, 0, ":x", 0 },
	{ "-x", PLACE_LOCAL, NULL, NULL, 0, "-x", 0 },
	{ "50%", PLACE_LOCAL, NULL, NULL, 0, "50%", 0 },
	{ "a@b", PLACE_LOCAL, NULL, NULL, 0, "a@b", 0 },
	{ "[x]", PLACE_LOCAL, NULL, NULL, 0, "[x]", 0 },
	{ "rftp", PLACE_LOCAL, NULL, NULL, 0, "rftp", 0 },

	{ "rftp://h/a/b", PLACE_RFTP, NULL, "h", 0, "/a/b", 0 },
	{ "RFTP://h/a", PLACE_RFTP, NULL, "h", 0, "/a", 0 },
	{ "rftp://h", PLACE_RFTP, NULL, "h", 0, "", 0 },
	{ "rftp://h/", PLACE_RFTP, NULL, "h", 0, "/", 0 },
	{ "rftp://h//a", PLACE_RFTP, NULL, "h", 0, "//a", 0 },
	{ "rftp://joe@h:99/a", PLACE_RFTP, "joe", "h", 99, "/a", 0 },
	{ "rftp://h:65535", PLACE_RFTP, NULL, "h", 65535, "", 0 },
	{ "rftp://h:/a", PLACE_RFTP, NULL, "h", 0, "/a", 0 },
	{ "rftp://joe%40site.org@h/a", PLACE_RFTP, "joe@site.org", "h", 0, "/a", 0 },
	{ "rftp://a%3Ab@h/", PLACE_RFTP, "a:b", "h", 0, "/", 0 },
	{ "rftp://[::1]:99/a", PLACE_RFTP, NULL, "::1", 99, "/a", 0 },
	{ "rftp://u@[fe80::1%25eth0]/a", PLACE_RFTP, "u", "fe80::1%eth0", 0, "/a", 0 },
	{ "rftp://h/~/a", PLACE_RFTP, NULL, "h", 0, "~/a", 0 },
	{ "rftp://h/%7e/a", PLACE_RFTP, NULL, "h", 0, "~/a", 0 },
	{ "rftp://h/~", PLACE_RFTP, NULL, "h", 0, "~", 0 },
	{ "rftp://h/~joe/a", PLACE_RFTP, NULL, "h", 0, "/~joe/a", 0 },
	{ "rftp://h/a%20b%0Ac%ff", PLACE_RFTP, NULL, "h", 0, "/a b\nc\xff", 0 },
	{ "rftp://h/a?b#c;d@e:f", PLACE_RFTP, NULL, "h", 0, "/a?b#c;d@e:f", 0 },
	{ "rftp://h/a+b", PLACE_RFTP, NULL, "h", 0, "/a+b", 0 },
	/* RFC 1738 §3.2.2: the "/" behind the host is none of the path's */
	{ "ftp://h/a", PLACE_FTP, NULL, "h", 0, "a", 0 },
	{ "ftp://h", PLACE_FTP, NULL, "h", 0, "", 0 },
	{ "ftp://h/", PLACE_FTP, NULL, "h", 0, "", 0 },
	{ "ftp://h/a/", PLACE_FTP, NULL, "h", 0, "a/", 0 },
	{ "ftp://h/%2Fa/b", PLACE_FTP, NULL, "h", 0, "/a/b", 0 },
	{ "ftp://h//a/b", PLACE_FTP, NULL, "h", 0, "/a/b", 0 },
	{ "ftp://h/%2f", PLACE_FTP, NULL, "h", 0, "/", 0 },
	{ "ftp://h/~/a", PLACE_FTP, NULL, "h", 0, "~/a", 0 },
	{ "ftp://h/%2F~/a", PLACE_FTP, NULL, "h", 0, "/~/a", 0 },
	{ "ftps://anonymous@h/a", PLACE_FTPS, "anonymous", "h", 0, "a", 0 },
	{ "ssh://joe@h:22/a", PLACE_SSH, "joe", "h", 22, "/a", 0 },
	{ "ssh://h/~/a", PLACE_SSH, NULL, "h", 0, "~/a", 0 },

	{ "h:a/b", PLACE_SSH, NULL, "h", 0, "a/b", 0 },
	{ "h:/a", PLACE_SSH, NULL, "h", 0, "/a", 0 },
	{ "h:", PLACE_SSH, NULL, "h", 0, "", 0 },
	{ "h:~/x", PLACE_SSH, NULL, "h", 0, "~/x", 0 },
	{ "joe@h:a", PLACE_SSH, "joe", "h", 0, "a", 0 },
	{ "joe@site@h:a", PLACE_SSH, "joe@site", "h", 0, "a", 0 },
	{ "h:50%20", PLACE_SSH, NULL, "h", 0, "50%20", 0 },
	{ "h:a:b@c", PLACE_SSH, NULL, "h", 0, "a:b@c", 0 },
	{ "[::1]:a", PLACE_SSH, NULL, "::1", 0, "a", 0 },
	{ "joe@[fe80::1%eth0]:/a", PLACE_SSH, "joe", "fe80::1%eth0", 0, "/a", 0 },
	{ "my_host-1.example.org:a", PLACE_SSH, NULL, "my_host-1.example.org", 0, "a", 0 },
};

static void check_text(const char *word, const char *what, const char *got, const char *want)
{
	if (!got != !want || (got && strcmp(got, want) != 0))
		fail_msg("%s: %s is %s, not %s", word, what, got ? got : "(null)",
			 want ? want : "(null)");
}

static void test_good(void **state)
{
	struct err e = ERR_INIT;
	struct place p;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(good); i++) {
		if (place_parse(good[i].word, &p, &e))
			fail_msg("%s: %s", good[i].word, e.text);
		check_text(good[i].word, "user", p.user, good[i].user);
		check_text(good[i].word, "host", p.host, good[i].host);
		check_text(good[i].word, "path", p.path, good[i].path);
		if (p.kind != good[i].kind || p.port != good[i].port || p.size != good[i].size)
			fail_msg("%s: kind %d, port %u", good[i].word, p.kind, p.port);
		assert_int_equal(place_is_remote(&p), good[i].kind >= PLACE_RFTP);
		place_clear(&p);
		assert_null(p.path);
	}
}

static void test_bad(void **state)
{
	static const char *const bad[] = {
		"",
		"http://h/a",
		"rftp://",
		"rftp:///a",
		"rftp://@h/a",
		"rftp://h:0/a",
		"rftp://h:65536/a",
		"rftp://h:-1/a",
		"rftp://h:1x/a",
		"rftp://h:1:2/a",
		"rftp://::1/a",
		"rftp://[::1/a",
		"rftp://[::1]x/a",
		"rftp://[x]/a",
		"rftp://[::1%25]/a",
		"rftp://[]/a",
		"rftp://h/%",
		"rftp://h/%4",
		"rftp://h/%zz",
		"rftp://h/a%00b",
		"rftp://u%0d%0aDELE%20x@h/a",
		"rftp://h\r\n/a",
		"rftp://%68/a",
		"rftp://-oProxyCommand=x/a",
		"zero:",
		"zero:x",
		"zero:-1",
		"zero:99999P",
		/* ssh would take them for options, or a shell would read them. */
		"-oProxyCommand=x:a",
		"-l@h:a",
		"u@-h:a",
		"$(id):a",
		"h`id`:a",
		"u;id@h:a",
		"h h:a",
		"ssh://-h/a",
		"ssh://-u@h/a",
		"ssh://%2du@h/a",
		"@h:a",
		"u@:a",
		"[::1%$(id)]:a",
		"[x]y:a",
	};
	struct place p;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		struct err e = ERR_INIT;

		if (place_parse(bad[i], &p, &e) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(e.code, -EINVAL);
		assert_true(strlen(e.text) > 10);
		assert_null(p.user);
		assert_null(p.host);
		assert_null(p.path);
		assert_int_equal(place_parse(bad[i], &p, NULL), -EINVAL);
	}
}

/* Refused, and not repeated where others could read it. */
static void test_password(void **state)
{
	static const char *const words[] = {
		"rftp://joe:s3cret@h/a",
		"ftp://joe:s3cret@h/a",
		"ftp://:s3cret@h/a",
		"ssh://joe:s3cret@h/a",
		"rftp://joe:s3cret%zz@h/a",
		"rftp://joe:s3@cret@h/a",
	};
	struct place p;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(words); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(place_parse(words[i], &p, &e), -EINVAL);
		assert_non_null(strstr(e.text, "password"));
		assert_null(strstr(e.text, "s3"));
	}
}

static void test_percent(void **state)
{
	char all[256], *code, *back;
	int i;

	(void)state;
	for (i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	code = percent_encode(all);
	assert_int_equal(strspn(code, "%/-._~0123456789abcdefghijklmnopqrstuvwxyz"
				      "ABCDEFGHIJKLMNOPQRSTUVWXYZ"), strlen(code));
	assert_int_equal(percent_decode(code, &back), 0);
	assert_string_equal(back, all);
	free(code);
	free(back);

	code = percent_encode("/a b%\xff~");
	assert_string_equal(code, "/a%20b%25%FF~");
	free(code);
}

static void test_percent_bad(void **state)
{
	static const char *const bad[] = { "%", "%4", "a%zz", "%4g", "%00", "%%41", "%-1", "% 1" };
	char *out;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		assert_int_equal(percent_decode(bad[i], &out), -EINVAL);
		assert_null(out);
	}
}

/* A URL that was made of a place and a path is taken apart into just these. */
static void test_url_of(void **state)
{
	static const struct { struct place p; const char *path, *url, *back; } rows[] = {
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "/a b", "rftp://h/a%20b", "/a b" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "", "rftp://h", "" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "x/y", "rftp://h/~/x/y", "~/x/y" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "~", "rftp://h/~", "~" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "~/x", "rftp://h/~/x", "~/x" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "~x", "rftp://h/~/~x", "~/~x" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "/~x", "rftp://h/~x", "/~x" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "/~/x", "rftp://h//~/x", "//~/x" },
		{ { .kind = PLACE_RFTP, .host = (char *)"h" }, "/a//b/", "rftp://h/a//b/",
		  "/a//b/" },
		{ { .kind = PLACE_SSH, .user = (char *)"joe", .host = (char *)"h", .port = 22 },
		  "/a", "ssh://joe@h:22/a", "/a" },
		{ { .kind = PLACE_FTP, .user = (char *)"j@x", .host = (char *)"h" }, "/%",
		  "ftp://j%40x@h/%2F%25", "/%" },
		{ { .kind = PLACE_FTP, .host = (char *)"h" }, "a b", "ftp://h/a%20b", "a b" },
		{ { .kind = PLACE_FTP, .host = (char *)"h" }, "/", "ftp://h/%2F", "/" },
		{ { .kind = PLACE_FTP, .host = (char *)"h" }, "", "ftp://h", "" },
		{ { .kind = PLACE_FTPS, .host = (char *)"h" }, "~/x", "ftps://h/~/x", "~/x" },
		{ { .kind = PLACE_RFTP, .host = (char *)"fe80::1%eth0", .port = 7 }, "/a",
		  "rftp://[fe80::1%25eth0]:7/a", "/a" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_FREE char *url = place_url(&rows[i].p, rows[i].path);
		struct err e = ERR_INIT;
		struct place p;

		assert_string_equal(url, rows[i].url);
		assert_int_equal(place_parse(url, &p, &e), 0);
		assert_int_equal(p.kind, rows[i].p.kind);
		assert_int_equal(p.port, rows[i].p.port);
		assert_string_equal(p.host, rows[i].p.host);
		assert_string_equal(p.user ? p.user : "", rows[i].p.user ? rows[i].p.user : "");
		assert_string_equal(p.path, rows[i].back);
		place_clear(&p);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_password),
		cmocka_unit_test(test_percent),
		cmocka_unit_test(test_percent_bad),
		cmocka_unit_test(test_url_of),
	};

	return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
