// SPDX-License-Identifier: Apache-2.0
/* Locations on the command line: URLs, remote and local paths, and refused words. */
#include "util/base.h"
#include "util/url.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

struct good_case {
	const char *word;
	enum url_kind kind;
	const char *user, *host;
	unsigned int port;
	const char *path;
	uint64_t size;
};

static const struct good_case good[] = {
	{ "-", URL_STDIO, NULL, NULL, 0, "", 0 },
	{ "null:", URL_NULL, NULL, NULL, 0, "", 0 },
	{ "zero:10M", URL_ZERO, NULL, NULL, 0, "", 10 << 20 },
	{ "file", URL_LOCAL, NULL, NULL, 0, "file", 0 },
	{ "./a:b", URL_LOCAL, NULL, NULL, 0, "./a:b", 0 },
	{ "/x/a:b", URL_LOCAL, NULL, NULL, 0, "/x/a:b", 0 },
	{ ":x", URL_LOCAL, NULL, NULL, 0, ":x", 0 },
	{ "-x", URL_LOCAL, NULL, NULL, 0, "-x", 0 },
	{ "50%", URL_LOCAL, NULL, NULL, 0, "50%", 0 },
	{ "a@b", URL_LOCAL, NULL, NULL, 0, "a@b", 0 },
	{ "[x]", URL_LOCAL, NULL, NULL, 0, "[x]", 0 },
	{ "rftp", URL_LOCAL, NULL, NULL, 0, "rftp", 0 },

	{ "rftp://h/a/b", URL_RFTP, NULL, "h", 0, "/a/b", 0 },
	{ "RFTP://h/a", URL_RFTP, NULL, "h", 0, "/a", 0 },
	{ "rftp://h", URL_RFTP, NULL, "h", 0, "", 0 },
	{ "rftp://h/", URL_RFTP, NULL, "h", 0, "/", 0 },
	{ "rftp://h//a", URL_RFTP, NULL, "h", 0, "//a", 0 },
	{ "rftp://joe@h:99/a", URL_RFTP, "joe", "h", 99, "/a", 0 },
	{ "rftp://h:65535", URL_RFTP, NULL, "h", 65535, "", 0 },
	{ "rftp://h:/a", URL_RFTP, NULL, "h", 0, "/a", 0 },
	{ "rftp://joe%40site.org@h/a", URL_RFTP, "joe@site.org", "h", 0, "/a", 0 },
	{ "rftp://a%3Ab@h/", URL_RFTP, "a:b", "h", 0, "/", 0 },
	{ "rftp://[::1]:99/a", URL_RFTP, NULL, "::1", 99, "/a", 0 },
	{ "rftp://u@[fe80::1%25eth0]/a", URL_RFTP, "u", "fe80::1%eth0", 0, "/a", 0 },
	{ "rftp://h/~/a", URL_RFTP, NULL, "h", 0, "~/a", 0 },
	{ "rftp://h/%7e/a", URL_RFTP, NULL, "h", 0, "~/a", 0 },
	{ "rftp://h/~", URL_RFTP, NULL, "h", 0, "~", 0 },
	{ "rftp://h/~joe/a", URL_RFTP, NULL, "h", 0, "/~joe/a", 0 },
	{ "rftp://h/a%20b%0Ac%ff", URL_RFTP, NULL, "h", 0, "/a b\nc\xff", 0 },
	{ "rftp://h/a?b#c;d@e:f", URL_RFTP, NULL, "h", 0, "/a?b#c;d@e:f", 0 },
	{ "rftp://h/a+b", URL_RFTP, NULL, "h", 0, "/a+b", 0 },
	/* RFC 1738 §3.2.2: the "/" after the host is not part of the path */
	{ "ftp://h/a", URL_FTP, NULL, "h", 0, "a", 0 },
	{ "ftp://h", URL_FTP, NULL, "h", 0, "", 0 },
	{ "ftp://h/", URL_FTP, NULL, "h", 0, "", 0 },
	{ "ftp://h/a/", URL_FTP, NULL, "h", 0, "a/", 0 },
	{ "ftp://h/%2Fa/b", URL_FTP, NULL, "h", 0, "/a/b", 0 },
	{ "ftp://h//a/b", URL_FTP, NULL, "h", 0, "/a/b", 0 },
	{ "ftp://h/%2f", URL_FTP, NULL, "h", 0, "/", 0 },
	{ "ftp://h/~/a", URL_FTP, NULL, "h", 0, "~/a", 0 },
	{ "ftp://h/%2F~/a", URL_FTP, NULL, "h", 0, "/~/a", 0 },
	{ "ftps://anonymous@h/a", URL_FTPS, "anonymous", "h", 0, "a", 0 },
	{ "ssh://joe@h:22/a", URL_SSH, "joe", "h", 22, "/a", 0 },
	{ "ssh://h/~/a", URL_SSH, NULL, "h", 0, "~/a", 0 },

	{ "h:a/b", URL_SSH, NULL, "h", 0, "a/b", 0 },
	{ "h:/a", URL_SSH, NULL, "h", 0, "/a", 0 },
	{ "h:", URL_SSH, NULL, "h", 0, "", 0 },
	{ "h:~/x", URL_SSH, NULL, "h", 0, "~/x", 0 },
	{ "joe@h:a", URL_SSH, "joe", "h", 0, "a", 0 },
	{ "joe@site@h:a", URL_SSH, "joe@site", "h", 0, "a", 0 },
	{ "h:50%20", URL_SSH, NULL, "h", 0, "50%20", 0 },
	{ "h:a:b@c", URL_SSH, NULL, "h", 0, "a:b@c", 0 },
	{ "[::1]:a", URL_SSH, NULL, "::1", 0, "a", 0 },
	{ "joe@[fe80::1%eth0]:/a", URL_SSH, "joe", "fe80::1%eth0", 0, "/a", 0 },
	{ "my_host-1.example.org:a", URL_SSH, NULL, "my_host-1.example.org", 0, "a", 0 },
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
	struct url p;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(good); i++) {
		if (url_parse(good[i].word, &p, &e))
			fail_msg("%s: %s", good[i].word, e.text);
		check_text(good[i].word, "user", p.user, good[i].user);
		check_text(good[i].word, "host", p.host, good[i].host);
		check_text(good[i].word, "path", p.path, good[i].path);
		if (p.kind != good[i].kind || p.port != good[i].port || p.size != good[i].size)
			fail_msg("%s: kind %d, port %u", good[i].word, p.kind, p.port);
		assert_int_equal(url_is_remote(&p), good[i].kind >= URL_RFTP);
		url_clear(&p);
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
		/* ssh would take these for options, or a shell would interpret them. */
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
	struct url p;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(bad); i++) {
		struct err e = ERR_INIT;

		if (url_parse(bad[i], &p, &e) != -EINVAL)
			fail_msg("%s was taken", bad[i]);
		assert_int_equal(e.code, -EINVAL);
		assert_true(strlen(e.text) > 10);
		assert_null(p.user);
		assert_null(p.host);
		assert_null(p.path);
		assert_int_equal(url_parse(bad[i], &p, NULL), -EINVAL);
	}
}

/* A URL with a password is refused, and the message does not repeat the password. */
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
	struct url p;
	size_t i;

	(void)state;
	for (i = 0; i < COUNT(words); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(url_parse(words[i], &p, &e), -EINVAL);
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

/* A URL made from a place and a path is parsed into the same place and path. */
static void test_url_of(void **state)
{
	static const struct { struct url p; const char *path, *url, *back; } rows[] = {
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "/a b", "rftp://h/a%20b", "/a b" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "", "rftp://h", "" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "x/y", "rftp://h/~/x/y", "~/x/y" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "~", "rftp://h/~", "~" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "~/x", "rftp://h/~/x", "~/x" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "~x", "rftp://h/~/~x", "~/~x" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "/~x", "rftp://h/~x", "/~x" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "/~/x", "rftp://h//~/x", "//~/x" },
		{ { .kind = URL_RFTP, .host = (char *)"h" }, "/a//b/", "rftp://h/a//b/",
		  "/a//b/" },
		{ { .kind = URL_SSH, .user = (char *)"joe", .host = (char *)"h", .port = 22 },
		  "/a", "ssh://joe@h:22/a", "/a" },
		{ { .kind = URL_FTP, .user = (char *)"j@x", .host = (char *)"h" }, "/%",
		  "ftp://j%40x@h/%2F%25", "/%" },
		{ { .kind = URL_FTP, .host = (char *)"h" }, "a b", "ftp://h/a%20b", "a b" },
		{ { .kind = URL_FTP, .host = (char *)"h" }, "/", "ftp://h/%2F", "/" },
		{ { .kind = URL_FTP, .host = (char *)"h" }, "", "ftp://h", "" },
		{ { .kind = URL_FTPS, .host = (char *)"h" }, "~/x", "ftps://h/~/x", "~/x" },
		{ { .kind = URL_RFTP, .host = (char *)"fe80::1%eth0", .port = 7 }, "/a",
		  "rftp://[fe80::1%25eth0]:7/a", "/a" },
	};

	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		CLEANUP_FREE char *url = url_text(&rows[i].p, rows[i].path);
		struct err e = ERR_INIT;
		struct url p;

		assert_string_equal(url, rows[i].url);
		assert_int_equal(url_parse(url, &p, &e), 0);
		assert_int_equal(p.kind, rows[i].p.kind);
		assert_int_equal(p.port, rows[i].p.port);
		assert_string_equal(p.host, rows[i].p.host);
		assert_string_equal(p.user ? p.user : "", rows[i].p.user ? rows[i].p.user : "");
		assert_string_equal(p.path, rows[i].back);
		url_clear(&p);
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
