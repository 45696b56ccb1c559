// SPDX-License-Identifier: Apache-2.0
/* The table of FTP commands, and the split of lines into verb and argument. */
#include "proto/ftp.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_table(void **state)
{
	for (int v = 0; v < FTP_VERBS; v++) {
		const struct ftp_command *c = ftp_command_of((enum ftp_verb)v);

		assert_non_null(c);
		assert_int_equal(c->verb, v);
		assert_non_null(c->name);
		assert_true(strlen(c->name) >= 3 && strlen(c->name) <= 4);
		assert_ptr_equal(ftp_command_find(c->name), c);
		assert_int_not_equal(c->needs, FTP_NEEDS_UNSAID);
		/* HELP shows the syntax: the verb first, and brackets around an optional
		 * argument. */
		assert_int_equal(strncmp(c->syntax, c->name, strlen(c->name)), 0);
		assert_int_equal(c->arg == FTP_ARG_NONE, !strchr(c->syntax, ' '));
		assert_int_equal(strspn(c->codes, "0123456789 "), strlen(c->codes));
		assert_true(ftp_command_answers(c, 501));
		assert_false(ftp_command_answers(c, 220));
	}
	assert_null(ftp_command_of(FTP_VERBS));
}

/* All commands that touch files need a login. */
static void test_login(void **state)
{
	static const enum ftp_verb before[] = {
		FTP_USER, FTP_PASS, FTP_AUTH, FTP_PBSZ, FTP_PROT, FTP_FEAT, FTP_OPTS,
		FTP_SYST, FTP_ABOR, FTP_NOOP, FTP_HELP, FTP_QUIT,
	};
	int open = 0;

	for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
		assert_false(ftp_command_of(before[i])->login);
	for (int v = 0; v < FTP_VERBS; v++)
		open += !ftp_command_of((enum ftp_verb)v)->login;
	assert_int_equal(open, sizeof(before) / sizeof(before[0]));
}

static void test_codes(void **state)
{
	const struct ftp_command *pasv = ftp_command_find("pasv");

	assert_true(ftp_command_answers(pasv, 227));
	assert_true(ftp_command_answers(pasv, 502));
	assert_false(ftp_command_answers(pasv, 229));
	assert_false(ftp_command_answers(pasv, 22));
	assert_true(ftp_command_answers(ftp_command_of(FTP_STOR), 553));
	assert_false(ftp_command_answers(ftp_command_of(FTP_STOR), 550));
}

/* The aliases of RFC 775 map to the later standard commands. */
static void test_aliases(void **state)
{
	assert_int_equal(ftp_command_find("XMKD")->verb, FTP_MKD);
	assert_int_equal(ftp_command_find("xrmd")->verb, FTP_RMD);
	assert_int_equal(ftp_command_find("XPWD")->verb, FTP_PWD);
	assert_int_equal(ftp_command_find("XCUP")->verb, FTP_CDUP);
	assert_int_equal(ftp_command_find("XCWD")->verb, FTP_CWD);
	assert_null(ftp_command_find("XDELE"));
}

static void test_feat(void **state)
{
	assert_true(ftp_command_of(FTP_BULK)->feat);
	assert_true(ftp_command_of(FTP_SIZE)->feat);
	assert_true(ftp_command_of(FTP_MDTM)->feat);
	assert_true(ftp_command_of(FTP_EPSV)->feat);
	/* FEAT lists these with parameters, or not at all. */
	assert_false(ftp_command_of(FTP_AUTH)->feat);
	assert_false(ftp_command_of(FTP_MLST)->feat);
	assert_false(ftp_command_of(FTP_MLSD)->feat);
	assert_false(ftp_command_of(FTP_REST)->feat);
	assert_false(ftp_command_of(FTP_USER)->feat);
}

static void test_parse(void **state)
{
	static const struct {
		const char *line;
		int err;
		int verb;         /* -1: unknown */
		const char *arg;
	} cases[] = {
		{ "USER joe", 0, FTP_USER, "joe" },
		{ "user joe", 0, FTP_USER, "joe" },
		{ "UsEr joe", 0, FTP_USER, "joe" },
		{ "PWD", 0, FTP_PWD, NULL },
		{ "PWD ", 0, FTP_PWD, NULL },
		{ "PWD x", -EINVAL, FTP_PWD, NULL },
		{ "RETR", -EINVAL, FTP_RETR, NULL },
		{ "RETR ", -EINVAL, FTP_RETR, NULL },
		{ "RETR  two blanks ", 0, FTP_RETR, " two blanks " },
		{ "RETR a\tb", 0, FTP_RETR, "a\tb" },
		{ "RETR \377\1", 0, FTP_RETR, "\377\1" },
		{ "PASS", 0, FTP_PASS, NULL },
		{ "PASS ", 0, FTP_PASS, NULL },
		{ "PASS  ", 0, FTP_PASS, " " },
		{ "MLSD", 0, FTP_MLSD, NULL },
		{ "MLSD /", 0, FTP_MLSD, "/" },
		{ "BULK 4711", 0, FTP_BULK, "4711" },
		{ "BULK", -EINVAL, FTP_BULK, NULL },
		{ "", -EINVAL, -1, NULL },
		{ " ", -EINVAL, -1, NULL },
		{ " PWD", -EINVAL, -1, NULL },
		{ "PW", -ENOSYS, -1, NULL },
		{ "PWDX", -ENOSYS, -1, NULL },
		{ "P\127D\t", -ENOSYS, -1, NULL },
		{ "XYZZY plugh", -ENOSYS, -1, NULL },
		{ "RETR\tx", -ENOSYS, -1, NULL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct ftp_command *cmd = (const void *)1;
		char line[64], *arg = line;

		strcpy(line, cases[i].line);
		assert_int_equal(ftp_command_parse(line, &cmd, &arg), cases[i].err);
		if (cases[i].verb < 0)
			assert_null(cmd);
		else
			assert_int_equal(cmd->verb, cases[i].verb);
		if (cases[i].arg)
			assert_string_equal(arg, cases[i].arg);
		else
			assert_null(arg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_login),
		cmocka_unit_test(test_codes),
		cmocka_unit_test(test_aliases),
		cmocka_unit_test(test_feat),
		cmocka_unit_test(test_parse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
