// SPDX-License-Identifier: Apache-2.0
/* FTP replies, read and written: no text can break the framing. */
#include "proto/ftp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_single(void **state)
{
	static const struct {
		const char *line;
		int r, code;
		const char *text;
	} cases[] = {
		{ "220 hello", 1, 220, "hello" },
		{ "220", 1, 220, "" },
		{ "220 ", 1, 220, "" },
		{ "150  two blanks", 1, 150, " two blanks" },
		{ "599 last", 1, 599, "last" },
		{ "600 beyond", -EBADMSG, 0, NULL },
		{ "099 below", -EBADMSG, 0, NULL },
		{ "22", -EBADMSG, 0, NULL },
		{ "", -EBADMSG, 0, NULL },
		{ "220x", -EBADMSG, 0, NULL },
		{ "2a0 x", -EBADMSG, 0, NULL },
		{ "SSH-2.0-OpenSSH", -EBADMSG, 0, NULL },
		{ " 220 x", -EBADMSG, 0, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct ftp_reply r = { 0 };

		assert_int_equal(ftp_reply_line(&r, cases[i].line), cases[i].r);
		assert_int_equal(r.code, cases[i].code);
		assert_int_equal(r.done, cases[i].r == 1);
		if (cases[i].text) {
			assert_string_equal(r.text, cases[i].text);
			assert_int_equal(r.len, strlen(cases[i].text));
		}
		ftp_reply_clear(&r);
		assert_null(r.text);
	}
}

static void test_multi(void **state)
{
	struct ftp_reply r = { 0 };

	assert_int_equal(ftp_reply_line(&r, "211-Features:"), 0);
	assert_false(r.done);
	assert_int_equal(ftp_reply_line(&r, " SIZE"), 0);
	assert_int_equal(ftp_reply_line(&r, "211-still"), 0);
	assert_int_equal(ftp_reply_line(&r, "212 other code"), 0);
	assert_int_equal(ftp_reply_line(&r, "2110 no"), 0);
	assert_int_equal(ftp_reply_line(&r, ""), 0);
	assert_int_equal(ftp_reply_line(&r, "211 End"), 1);
	assert_true(r.done);
	assert_true(r.multi);
	assert_int_equal(r.code, 211);
	assert_string_equal(r.text, "Features:\n SIZE\n211-still\n212 other code\n2110 no\n\nEnd");

	/* The next reply starts from empty. */
	assert_int_equal(ftp_reply_line(&r, "200 ok"), 1);
	assert_int_equal(r.code, 200);
	assert_false(r.multi);
	assert_string_equal(r.text, "ok");
	ftp_reply_clear(&r);
}

static void test_endless(void **state)
{
	struct ftp_reply r = { 0 };
	char line[1001];
	int n = 0, err;

	memset(line, 'x', 1000);
	line[1000] = '\0';
	assert_int_equal(ftp_reply_line(&r, "211-"), 0);
	while (!(err = ftp_reply_line(&r, line)))
		n++;
	assert_int_equal(err, -EMSGSIZE);
	assert_in_range(n, FTP_REPLY_MAX / 1001 - 1, FTP_REPLY_MAX / 1001);
	assert_true(r.room <= 2 * FTP_REPLY_MAX + 2);
	ftp_reply_clear(&r);
}

static void test_format(void **state)
{
	static const struct {
		int code;
		const char *text, *wire;
	} cases[] = {
		{ 200, "ok", "200 ok\r\n" },
		{ 200, "", "200 \r\n" },
		{ 211, "Features:\n SIZE\nEnd", "211-Features:\r\n SIZE\r\n211 End\r\n" },
		{ 250, "a\n250 fake\nb", "250-a\r\n 250 fake\r\n250 b\r\n" },
		{ 550, "name\r: no", "550 name?: no\r\n" },
		{ 550, "a\r\nb", "550-a?\r\n550 b\r\n" },
		{ 214, "a\n\nb", "214-a\r\n\r\n214 b\r\n" },
		{ 214, "a\n", "214-a\r\n214 \r\n" },
		{ 257, "a\xff" "b", "257 a\xff\xff" "b\r\n" }, /* Telnet's IAC */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf *b CLEANUP_BUF = buf_new(4096);

		assert_int_equal(ftp_reply_format(b, cases[i].code, cases[i].text), 0);
		assert_int_equal(buf_len(b), strlen(cases[i].wire));
		assert_memory_equal(buf_ptr(b), cases[i].wire, buf_len(b));
	}
}

static void test_format_refused(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(8);

	assert_int_equal(ftp_reply_format(b, 99, "x"), -EINVAL);
	assert_int_equal(ftp_reply_format(b, 600, "x"), -EINVAL);
	assert_int_equal(ftp_reply_format(b, 200, "long"), -ENOBUFS);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(ftp_reply_format(b, 200, "ok"), 0);
}

/* Any text is read back as one reply, with no bytes after it. */
static void test_round_trip(void **state)
{
	static const char alphabet[] = "2250 -\n\n\rab";

	srand(7);
	for (int n = 0; n < 2000; n++) {
		struct buf *b CLEANUP_BUF = buf_new(4096);
		struct ftp_reply r = { 0 };
		char text[40], *wire, *line, *save = NULL;
		size_t len = (size_t)rand() % sizeof(text);
		int lines = 0, done = 0;

		for (size_t i = 0; i < len; i++)
			text[i] = alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
		text[len] = '\0';
		assert_int_equal(ftp_reply_format(b, 225, text), 0);
		wire = strndup((const char *)buf_ptr(b), buf_len(b));
		for (line = wire; *line; line = save) {
			char *end = strstr(line, "\r\n");

			assert_non_null(end);
			assert_int_equal(done, 0);
			*end = '\0';
			save = end + 2;
			done = ftp_reply_line(&r, line);
			assert_true(done >= 0);
			lines++;
		}
		assert_int_equal(done, 1);
		assert_int_equal(r.code, 225);
		for (const char *p = text; *p; p++)
			lines -= *p == '\n';
		assert_int_equal(lines, 1);
		ftp_reply_clear(&r);
		free(wire);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_single),
		cmocka_unit_test(test_multi),
		cmocka_unit_test(test_endless),
		cmocka_unit_test(test_format),
		cmocka_unit_test(test_format_refused),
		cmocka_unit_test(test_round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
