// SPDX-License-Identifier: Apache-2.0
/* Fault injection: the grammar of the rules, and the calls each rule matches. */
#include "tests/support/faults.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef ENABLE_FAULTS
int main(void)
{
	puts("1..0 # SKIP without fault injection (configure --enable-faults)");
	return 0;
}
#else

static void set(const char *rules)
{
	struct err e = ERR_INIT;

	assert_int_equal(faults_set(rules, &e), 0);
	assert_string_equal(e.text, "");
}

static int clear(void **state)
{
	(void)state;
	return faults_set(NULL, NULL);
}

static void test_off(void **state)
{
	(void)state;
	assert_false(faults_on);
	assert_int_equal(FAULT("write", 1), 0);
	set("write:EIO");
	assert_true(faults_on);
	assert_int_equal(FAULT("write", 1), -EIO);
	set("");
	assert_false(faults_on);
	assert_int_equal(FAULT("write", 1), 0);
	set(";");
	assert_false(faults_on);
}

static void test_points(void **state)
{
	static const char *const points[] = { "open", "read", "write", "sync", "rename",
					      "mkdir", "commit", "journal", "connect", "accept",
					      "send", "recv", "sendfile" };
	const size_t n = sizeof(points) / sizeof(points[0]);
	char rule[64];

	(void)state;
	for (size_t i = 0; i < n; i++) {
		snprintf(rule, sizeof(rule), "%s:EDQUOT", points[i]);
		set(rule);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(FAULT(points[k], 0), i == k ? -EDQUOT : 0);
	}
}

/* The caller implements these effects, so FAULT() only reports that a rule matches. */
static void test_effects(void **state)
{
	static const char *const effects[] = { "corrupt", "corrupt-head", "cut", "lossy", "far",
					       "wrong-key", "wrong-place", "flip-message",
					       "lose-message", "repeat-message" };
	const size_t n = sizeof(effects) / sizeof(effects[0]);

	(void)state;
	for (size_t i = 0; i < n; i++) {
		set(effects[i]);
		for (size_t k = 0; k < n; k++)
			assert_int_equal(FAULT(effects[k], 0) < 0, i == k);
	}
}

static void test_stall(void **state)
{
	uint64_t before = now_ns();

	(void)state;
	set("stall:count=1");
	assert_int_equal(FAULT("stall", 0), 0);
	assert_true(now_ns() - before >= 100000000);
	before = now_ns();
	assert_int_equal(FAULT("stall", 0), 0);
	assert_true(now_ns() - before < 100000000);
}

static void test_after(void **state)
{
	(void)state;
	set("write:ENOSPC:after=10K");
	for (int i = 0; i < 10; i++)
		assert_int_equal(FAULT("write", 1024), 0);
	assert_int_equal(FAULT("read", 1024), 0);
	assert_int_equal(FAULT("write", 1), -ENOSPC);
	assert_int_equal(FAULT("write", 1024), -ENOSPC);
	/* The write that would pass the limit fails. */
	set("write:ENOSPC:after=10");
	assert_int_equal(FAULT("write", 11), -ENOSPC);
	/* Operations without bytes count calls. */
	set("rename:EIO:after=2");
	assert_int_equal(FAULT("rename", 0), 0);
	assert_int_equal(FAULT("rename", 0), 0);
	assert_int_equal(FAULT("rename", 0), -EIO);
}

static void test_count(void **state)
{
	(void)state;
	set("sync:EIO:count=2:after=1");
	assert_int_equal(FAULT("sync", 0), 0);
	assert_int_equal(FAULT("sync", 0), -EIO);
	assert_int_equal(FAULT("sync", 0), -EIO);
	assert_int_equal(FAULT("sync", 0), 0);
}

/* The number of failures in 10000 calls; *which is a hash of their positions. */
static int strike(const char *rules, uint64_t *which)
{
	int n = 0;

	set(rules);
	*which = 0;
	for (int i = 0; i < 10000; i++) {
		bool hit = FAULT("read", 4096) == -EIO;

		n += hit;
		*which = *which * 31 + hit;
	}
	return n;
}

static void test_rate(void **state)
{
	uint64_t a, b, c, d;

	(void)state;
	assert_int_equal(strike("read:EIO:rate=0", &a), 0);
	assert_int_equal(strike("read:EIO:rate=1", &a), 10000);
	assert_int_equal(strike("read:EIO:rate=100%", &a), 10000);
	assert_in_range(strike("read:EIO:rate=0.01", &a), 70, 130);
	strike("read:EIO:rate=1%", &b);
	strike("read:EIO:seed=1:rate=.01", &c);
	strike("read:EIO:rate=0.01:seed=2", &d);
	assert_true(a == b && a == c && a != d);
	assert_in_range(strike("read:EIO:rate=0.5:seed=77", &a), 4800, 5200);
}

static void test_trigger_file(void **state)
{
	char dir[] = "./test-fault-XXXXXX", path[64], rules[128];
	int fd;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/trigger", dir);
	snprintf(rules, sizeof(rules), "write:EIO:file=%s:after=4", path);
	set(rules);
	for (int i = 0; i < 10; i++)
		assert_int_equal(FAULT("write", 1), 0);
	fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0);
	close(fd);
	/* Bytes written before the file existed do not count. */
	assert_int_equal(FAULT("write", 4), 0);
	assert_int_equal(FAULT("write", 1), -EIO);
	unlink(path);
	assert_int_equal(FAULT("write", 1), 0);
	rmdir(dir);
}

static void test_several(void **state)
{
	(void)state;
	set("write:EIO:after=100:count=1;write:ENOSPC:after=200;;open:EMFILE;");
	assert_int_equal(FAULT("write", 100), 0);
	assert_int_equal(FAULT("write", 50), -EIO);
	/* A call that another rule decided does not count for later rules. */
	assert_int_equal(FAULT("write", 60), 0);
	assert_int_equal(FAULT("write", 60), -ENOSPC);
	assert_int_equal(FAULT("open", 0), -EMFILE);
}

static void test_short(void **state)
{
	(void)state;
	assert_int_equal(FAULT_SHORT("short-write", 1 << 20), 1 << 20);
	set("short-write");
	assert_int_equal(FAULT("write", 1 << 20), 0);
	assert_int_equal(FAULT_SHORT("short-write", 1 << 20), 1 << 19);
	assert_int_equal(FAULT_SHORT("short-read", 1 << 20), 1 << 20);
	assert_int_equal(FAULT_SHORT("short-write", 12288), 4096);
	assert_int_equal(FAULT_SHORT("short-write", 4096), 2048);
	assert_int_equal(FAULT_SHORT("short-write", 1), 1);
	set("short-read:count=1");
	assert_int_equal(FAULT_SHORT("short-write", 100), 100);
	assert_int_equal(FAULT_SHORT("short-read", 100), 50);
	assert_int_equal(FAULT_SHORT("short-read", 100), 100);
}

/* The signal that kills a process with two commits; 0: none. */
static int death(const char *rules)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		if (faults_set(rules, NULL) < 0 || FAULT("rename", 0) || FAULT("commit", 0))
			_exit(1);
		_exit(FAULT("commit", 0) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	assert_int_equal(status, 0);
	return 0;
}

static void test_signals(void **state)
{
	(void)state;
	assert_int_equal(death("commit:SIGKILL"), SIGKILL);
	assert_int_equal(death("commit:SIGTERM"), SIGTERM);
	assert_int_equal(death("commit:SIGKILL:after=1"), SIGKILL);
	assert_int_equal(death("commit:SIGKILL:after=2"), 0);
	assert_int_equal(death("journal:SIGKILL"), 0);
	/* After a signal that does not kill, the operation succeeds. */
	assert_int_equal(death("commit:SIGCONT"), 0);
}

/* Invalid rules are refused with a reason. */
static void test_bad(void **state)
{
	static const struct {
		const char *rules, *word;
	} bad[] = {
		{ "write", "write" },
		{ "frobnicate:EIO", "frobnicate" },
		{ "write:EFOO", "EFOO" },
		{ "write:eio", "eio" },
		{ "write:", "neither" },
		{ "write:SIGFOO", "SIGFOO" },
		{ "write:5", "5" },
		{ "lunch:SIGKILL", "lunch" },
		{ "cut:SIGKILL", "SIGKILL" },
		{ "cut:ECONNRESET", "ECONNRESET" },
		{ "write:EIO:at=commit", "at=commit" },
		{ "write:EIO:after", "after" },
		{ "write:EIO:after=", "after=" },
		{ "write:EIO:after=x", "after=x" },
		{ "write:EIO:rate=1.5", "rate=1.5" },
		{ "write:EIO:rate=-1", "rate=-1" },
		{ "write:EIO:rate=", "rate=" },
		{ "write:EIO:rate=.", "rate=." },
		{ "write:EIO:rate=1x", "rate=1x" },
		{ "write:EIO:rate=101%", "rate=101%" },
		{ "write:EIO:count=0", "count=0" },
		{ "write:EIO:seed=", "seed=" },
		{ "write:EIO:file=", "file=" },
		{ "write:EIO:colour=red", "colour=red" },
		{ "write:EIO:", "\"\"" },
		{ "short-write:EIO", "EIO" },
		{ "read:EIO;write:EFOO", "EFOO" },
	};

	(void)state;
	set("open:EMFILE");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;

		if (faults_set(bad[i].rules, &e) >= 0 || !strstr(e.text, bad[i].word))
			fail_msg("%s: %s", bad[i].rules, e.text);
		/* The old rules remain in force. */
		assert_int_equal(FAULT("open", 0), -EMFILE);
		assert_int_equal(FAULT("write", 1), 0);
	}
}

static char *self;

/* Runs this program as `self probe` with the rules in its environment. Returns its exit status, and
 * its stderr in text. */
static int probe(const char *rules, char *text, size_t size)
{
	ssize_t n;
	int status, p[2];
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		dup2(p[1], 2);
		setenv("RFTP_FAULT", rules, 1);
		execl(self, self, "probe", NULL);
		_exit(99);
	}
	close(p[1]);
	n = read_full(p[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(p[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_environment(void **state)
{
	char text[1024];

	(void)state;
	assert_int_equal(probe("journal:EXDEV", text, sizeof(text)), EXDEV);
	assert_int_equal(probe("", text, sizeof(text)), 0);
	assert_int_equal(probe("journal:EXDEF", text, sizeof(text)), 2);
	assert_non_null(strstr(text, "RFTP_FAULT"));
	assert_non_null(strstr(text, "EXDEF"));
	assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_off, clear),
		cmocka_unit_test_teardown(test_points, clear),
		cmocka_unit_test_teardown(test_effects, clear),
		cmocka_unit_test_teardown(test_stall, clear),
		cmocka_unit_test_teardown(test_after, clear),
		cmocka_unit_test_teardown(test_count, clear),
		cmocka_unit_test_teardown(test_rate, clear),
		cmocka_unit_test_teardown(test_trigger_file, clear),
		cmocka_unit_test_teardown(test_several, clear),
		cmocka_unit_test_teardown(test_short, clear),
		cmocka_unit_test_teardown(test_signals, clear),
		cmocka_unit_test_teardown(test_bad, clear),
		cmocka_unit_test_teardown(test_environment, clear),
	};

	if (argc > 1)
		return -FAULT("journal", 0);
	self = argv[0];
	unsetenv("RFTP_FAULT");
	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
#endif
