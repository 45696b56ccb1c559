// SPDX-License-Identifier: Apache-2.0
/* rftpd's settings: the command line, rftpd.conf, their precedence, and the refused settings. */
#include "proto/proto.h"
#include "server/config/options.h"
#include "util/util.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char file[] = "/tmp/rftp-test-conf-XXXXXX";
static FILE *logged; /* the messages of a load, which otherwise go to stderr */

static int begin(void **state)
{
	strcpy(file + strlen(file) - 6, "XXXXXX");
	close(mkstemp(file));
	logged = tmpfile();
	return 0;
}

static int end(void **state)
{
	unlink(file);
	fclose(logged);
	return 0;
}

/* Loads "rftpd WORDS..."; single blanks separate the words. */
static int load(struct srv_options *o, struct err *e, const char *words)
{
	static char copy[512];
	char *argv[32] = { (char *)"rftpd" }, *rest = copy, *word;
	int argc = 1, old = dup(STDERR_FILENO), rc;

	snprintf(copy, sizeof(copy), "%s", words);
	while ((word = strsep(&rest, " ")))
		if (*word)
			argv[argc++] = word;
	fflush(stderr);
	dup2(fileno(logged), STDERR_FILENO);
	rc = srv_options_load(o, argc, argv, e);
	dup2(old, STDERR_FILENO);
	close(old);
	return rc;
}

/* The same, with text as the configuration file. */
static int load_file(struct srv_options *o, struct err *e, const char *text, const char *words)
{
	char all[512];
	FILE *f = fopen(file, "w");

	fputs(text, f);
	fclose(f);
	snprintf(all, sizeof(all), "--config %s %s", file, words);
	return load(o, e, all);
}

/* ---- the command line ---- */

static void test_line(void **state)
{
	struct srv_options o;
	struct err e = ERR_INIT;

	assert_int_equal(load(&o, &e, "--root /srv --anonymous ro"), 0);
	assert_int_equal(o.nlisten, 2);
	assert_string_equal(o.listen[0].addr, "0.0.0.0");
	assert_int_equal(o.listen[1].port, 7321);
	assert_int_equal(o.anonymous, RIGHTS_RO);
	assert_false(o.plain);
	srv_options_clear(&o);

	assert_int_equal(load(&o, &e, "-l 127.0.0.1:0 -l [::1]:99 -r /x -a rw -d 5000-5001 "
			      "--prot-min private --memory 64M -v --users u --tos af41"), 0);
	assert_int_equal(o.nlisten, 2);
	assert_string_equal(o.listen[1].addr, "::1");
	assert_int_equal(o.listen[1].port, 99);
	assert_int_equal(o.data_ports.lo, 5000);
	assert_int_equal(o.data_ports.hi, 5001);
	assert_int_equal(o.prot_min, PROT_PRIVATE);
	assert_int_equal(o.tuning.memory, 64 << 20);
	assert_int_equal(o.log_level, LOG_LV_DEBUG);
	assert_int_equal(o.tuning.tos, 0x88);
	srv_options_clear(&o);

	assert_int_equal(load(&o, &e, "--stdio"), 0);
	srv_options_clear(&o);
	assert_int_equal(load(&o, &e, "--help"), 0);
	srv_options_clear(&o);
}

static void test_bad_line(void **state)
{
	static const char *const lines[] = {
		"", "--root /srv", "--anonymous ro", "--anonymous yes --root /", "--root",
		"--nonsense", "-x", "word --stdio", "--stdio=1", "--stdio --listen 1234",
		"--stdio --listen localhost:1", "--stdio --listen ::1:1",
		"--stdio --listen 1.2.3.4:65536", "--stdio --listen [1.2.3.4:1",
		"--stdio --data-ports 5", "--stdio --data-ports 6-5", "--stdio --data-ports 0-5",
		"--stdio --memory lots", "--stdio --prot-min none",
		/* options that --stdio does not have */
		"--stdio --listen 0.0.0.0:1", "--stdio --anonymous ro", "--stdio --users u",
		"--stdio --state s", "--stdio --port-file p", "--stdio --plain", "--stdio --ca c",
		"--stdio --allow all", "--stdio --max-sessions 3",
		"--users u --key k", "--users u --certificate c", "--users u --allow",
		"--users u --allow 1.2.3.4/33", "--users u --umask 8", "--users u --umask 1000",
		"--users u --log sylog", "--users u --log-level loud", "--users u --max-sessions 0",
		"--users u --login-timeout 0s", "--users u --idle-timeout 25h",
		"--users u --data-address eth0", "--users u --tls-min 1.1", "--users u --plain=ja",
		"--users u --memory 1", "--users u --tos 256", "--users u --config /nonexistent",
	};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		struct srv_options o;
		struct err e = ERR_INIT;
		int rc = load(&o, &e, lines[i]);

		if (rc != (strstr(lines[i], "/nonexistent") ? -ENOENT : -EINVAL))
			fail_msg("\"%s\": %d", lines[i], rc);
		assert_true(*e.text);
	}
}

/* ---- the file ---- */

static const char whole[] =
	"listen 127.0.0.1:1\n"
	"listen 127.0.0.1:2\n"
	"root /srv\n"
	"anonymous upload\n"
	"allow 10.0.0.0/8, 2001:db8::/32\n"
	"allow 192.0.2.7\n"
	"plain yes\n"
	"umask 077\n"
	"login-timeout 20s\n"
	"log /var/log/rftpd.log\n"
	"max-per-user 3\n"
	"[user bob]\n"
	"root /home/bob\n"
	"rights ro\n"
	"[group staff]\n"
	"home /in\n"
	"rights nodelete\n"
	"umask 002\n"
	"system-user files\n"
	"[group others]\n"
	"rights rw\n"
	"[anonymous]\n"
	"root /srv/drop\n"
	"[nic eth1]\n"
	"data-address 10.0.0.1\n"
	"data-ports 5000-5009\n";

static void test_file(void **state)
{
	struct srv_options o;
	struct err e = ERR_INIT;
	char where[512], want[600];

	if (load_file(&o, &e, whole, ""))
		fail_msg("%s", e.text);
	assert_int_equal(o.nlisten, 2);
	assert_int_equal(o.anonymous, RIGHTS_UPLOAD);
	assert_int_equal(o.allow.n, 3);
	assert_true(o.plain);
	assert_int_equal(o.tuning.umask, 077);
	assert_int_equal(o.login_timeout, 20000000000ull);
	assert_int_equal(o.idle_timeout, 900000000000ull);
	assert_int_equal(o.max_per_user, 3);
	assert_string_equal(o.anonymous_rules.root, "/srv/drop");
	assert_int_equal(o.nnics, 1);
	assert_string_equal(o.nics[0].name, "eth1");
	assert_string_equal(o.nics[0].address, "10.0.0.1");
	assert_int_equal(o.nics[0].ports.hi, 5009);
	assert_string_equal(o.config, file);
	snprintf(want, sizeof(want), "%s:8: umask", file);
	assert_string_equal(srv_option_where(&o, "umask", where), want);
	assert_string_equal(srv_option_where(&o, "config", where), "--config");
	srv_options_clear(&o);
}

/* The command line overrides the file, and its lists replace those of the file. */
static void test_both(void **state)
{
	struct srv_options o;
	struct err e = ERR_INIT;

	assert_int_equal(load_file(&o, &e, whole, "-l 127.0.0.1:3 -l 127.0.0.1:4 -a off --users u "
				   "--plain=no --umask 002 --allow ::1 --log stderr"), 0);
	assert_int_equal(o.nlisten, 2);
	assert_int_equal(o.listen[0].port, 3);
	assert_int_equal(o.anonymous, RIGHTS_NONE);
	assert_false(o.plain);
	assert_int_equal(o.tuning.umask, 002);
	assert_int_equal(o.allow.n, 1);
	assert_string_equal(o.log, "stderr");
	assert_string_equal(o.root, "/srv");
	srv_options_clear(&o);
}

static void test_rules(void **state)
{
	static const char *const groups[] = { "wheel", "others", "staff" };
	struct srv_options o;
	struct srv_rules r;
	struct err e = ERR_INIT;

	assert_int_equal(load_file(&o, &e, whole, ""), 0);
	srv_account_rules(&o, "bob", NULL, 0, &r);
	assert_string_equal(r.root, "/home/bob");
	assert_null(r.home);
	assert_int_equal(r.rights, RIGHTS_RO);
	/* The user's own section overrides those of the user's groups. Of these, the first in the
	 * file counts. */
	srv_account_rules(&o, "bob", groups, 3, &r);
	assert_string_equal(r.root, "/home/bob");
	assert_string_equal(r.home, "/in");
	assert_string_equal(r.system_user, "files");
	assert_int_equal(r.umask, UMASK_GIVEN | 002);
	assert_int_equal(r.rights, RIGHTS_RO);
	srv_account_rules(&o, "eve", groups, 3, &r);
	assert_null(r.root);
	assert_int_equal(r.rights, RIGHTS_NODELETE);
	srv_account_rules(&o, "eve", groups, 2, &r);
	assert_int_equal(r.rights, RIGHTS_RW);
	assert_int_equal(r.umask, 0);
	srv_account_rules(&o, "eve", groups, 1, &r);
	assert_int_equal(r.rights, RIGHTS_NONE);
	srv_options_clear(&o);
}

/* Each error is reported once, with its line. */
static void test_all_errors(void **state)
{
	static const char text[] =
		"root \"\"\n"              /* an empty root is allowed */
		"listen 7321\n"
		"users u\n"
		"nonsense 1\n"
		"help yes\n"
		"[nobody]\n"
		"root /there\n"            /* in an unknown section: reported once */
		"[user bob]\n"
		"root there\n"
		"plain yes\n"
		"colour red\n"
		"rights all\n";
	static const char *const wrong[] = {
		":2: listen: must be ADDR:PORT", ":4: there is no setting \"nonsense\"",
		":5: \"help\" is for the command line only", ":6: there is no section [nobody]",
		":9: root: must begin with a slash, not \"there\"",
		":10: \"plain\" belongs before the first section",
		":11: there is no setting \"colour\"", ":12: rights: must be default, ro, rw, nodelete or upload, not \"all\"",
	};
	size_t n = sizeof(wrong) / sizeof(wrong[0]), lines = 0;
	struct srv_options o;
	struct err e = ERR_INIT;
	char said[8192] = "";

	assert_int_equal(load_file(&o, &e, text, ""), -EINVAL);
	assert_true(pread(fileno(logged), said, sizeof(said) - 1, 0) > 0);
	for (size_t i = 0; i < n - 1; i++)
		if (!strstr(said, wrong[i]))
			fail_msg("\"%s\" is not in:\n%s", wrong[i], said);
	for (const char *s = said; (s = strchr(s, '\n')); s++)
		lines++;
	assert_int_equal(lines, n - 1);
	assert_non_null(strstr(e.text, wrong[n - 1]));
}

static void test_together(void **state)
{
	struct srv_options o;
	struct err e = ERR_INIT;
	char want[128];

	assert_int_equal(load_file(&o, &e, "\nanonymous ro\n", ""), -EINVAL);
	snprintf(want, sizeof(want), "%s:2: anonymous needs --root", file);
	assert_memory_equal(e.text, want, strlen(want));
	assert_int_equal(load_file(&o, &e, "anonymous ro\n[anonymous]\nroot /srv\n", ""), 0);
	srv_options_clear(&o);
	/* With ssh there is no password login. */
	assert_int_equal(load_file(&o, &e, "users u\n", "--stdio"), -EINVAL);
	assert_int_equal(load_file(&o, &e, "users \"\"\nanonymous ro\nroot /\n", ""), 0);
	srv_options_clear(&o);
}

/* Loading the printed settings gives the same settings again. */
static void test_show(void **state)
{
	CLEANUP_FREE char *first = NULL, *second = NULL;
	struct srv_options o;
	struct err e = ERR_INIT;
	size_t len;
	FILE *out;

	assert_int_equal(load_file(&o, &e, whole, "--users u --certificates m --ca \"a#b\\c "
				   "--tos ef --numa node:0 -v"), 0);
	out = open_memstream(&first, &len);
	srv_options_show(out, &o);
	fclose(out);
	srv_options_clear(&o);
	if (load_file(&o, &e, first, ""))
		fail_msg("%s in:\n%s", e.text, first);
	assert_string_equal(o.ca, "\"a#b\\c");
	assert_int_equal(o.tuning.place.mode, PLACE_NODE);
	assert_int_equal(o.log_level, LOG_LV_DEBUG);
	assert_int_equal(o.user_rules[0].rights, RIGHTS_RO);
	out = open_memstream(&second, &len);
	srv_options_show(out, &o);
	fclose(out);
	srv_options_clear(&o);
	assert_string_equal(first, second);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_line), TEST(test_bad_line), TEST(test_file), TEST(test_both),
		TEST(test_rules), TEST(test_all_errors), TEST(test_together), TEST(test_show),
	};

	log_init("rftpd", LOG_LV_INFO, false);
	return cmocka_run_group_tests_name("server-conf", tests, NULL, NULL);
}
