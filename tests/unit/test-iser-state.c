// SPDX-License-Identifier: Apache-2.0
/* What apply keeps: there and back, locked, whole, and damaged. */
#include "iser_setup/change.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define PLAN(iqn) \
	"{\"rftp-iser-plan\": 1, \"name\": \"p\", \"targets\": [{\"iqn\": \"" iqn "\", \"open\": " \
	"true, \"portals\": [{\"address\": \"192.0.2.1\"}], \"luns\": [{\"lun\": 0, \"name\": " \
	"\"r\", \"kind\": \"ramdisk\", \"size\": 1048576, \"serial\": " \
	"\"00000000-0000-4000-8000-000000000000\"}]}]}"
#define A "iqn.2026-01.org.example:a"
#define B "iqn.2026-01.org.example:b"
#define C "iqn.2026-01.org.example:c"

static char top[64], dir[80];

static int setup(void **state)
{
	(void)state;
	snprintf(top, sizeof(top), "/tmp/test-iser-state.XXXXXX");
	if (!mkdtemp(top))
		return -1;
	snprintf(dir, sizeof(dir), "%s/new/state", top);
	return 0;
}

static int teardown(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", top);
	return system(command);
}

static struct iser_plan *plan(const char *text)
{
	struct iser_plan *p = iser_plan_parse("test", text, NULL);

	assert_non_null(p);
	return p;
}

/* Longer than any of it takes. */
static const struct lock_wait soon = { .seconds = 20 };

static void opened(struct iser_state *s, const char *name, bool change)
{
	struct err e = ERR_INIT;

	if (iser_state_open(s, dir, name, change ? &soon : NULL, &e))
		fail_msg("%s", e.text);
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		fail_msg("%s: %s", path, strerror(errno));
	return st.st_mode & 07777;
}

static void file_path(char out[128], const char *name)
{
	snprintf(out, 128, "%s/%s", dir, name);
}

static void test_there_and_back(void **state)
{
	struct iser_plan *a = plan(PLAN(A)), *b = plan(PLAN(B)), *c = plan(PLAN(C));
	struct iser_state s, again;
	char path[128];

	(void)state;
	opened(&s, "p", true);
	assert_null(s.applied);
	assert_string_equal(s.boot, "");
	assert_int_equal(iser_state_begin_boot(&s, NULL), 0);
	assert_int_equal(iser_state_applying(&s, a), 0);
	iser_state_applied(&s);
	assert_int_equal(iser_state_applying(&s, b), 0);
	/* Killed, and another one; what b has made stays known. */
	assert_int_equal(iser_state_applying(&s, c), 0);
	assert_int_equal(iser_state_applying(&s, c), 0);
	assert_int_equal(iser_state_made(&s, "/m"), 0);
	assert_int_equal(iser_state_made(&s, "/m/t"), 0);
	assert_int_equal(iser_state_made(&s, "/m"), 0);
	s.cpus = strdup("0-7");
	s.irqs = calloc(1, sizeof(*s.irqs));
	s.n_irqs = 1;
	s.irqs[0] = (struct iser_irq){ 45, strdup("eth0"), strdup("0-3"), strdup("0-1") };
	assert_int_equal(iser_state_write(&s, NULL), 0);
	file_path(path, "p.json");
	assert_int_equal(mode_of(path), 0600);
	assert_int_equal(mode_of(dir), 0700);
	snprintf(path, sizeof(path), "%s/new", top);
	assert_int_equal(mode_of(path), 0755);

	opened(&again, "p", false);
	assert_non_null(iser_plan_target(again.applied, A));
	assert_non_null(iser_plan_target(again.applying, C));
	assert_int_equal(again.n_older, 1);
	assert_int_equal(iser_state_plans(&again), 3);
	assert_non_null(iser_plan_target(iser_state_plan(&again, 2), B));
	assert_int_equal(again.n_made, 2);
	assert_string_equal(again.made[1], "/m/t");
	assert_string_equal(again.cpus, "0-7");
	assert_int_equal(again.n_irqs, 1);
	assert_int_equal(again.irqs[0].irq, 45);
	assert_string_equal(again.irqs[0].was, "0-3");
	assert_string_equal(again.irqs[0].set, "0-1");
	assert_false(iser_state_restarted(&again));
	iser_state_close(&again);

	iser_state_applied(&s);
	assert_int_equal(s.n_older, 0);
	assert_int_equal(iser_state_remove(&s, NULL), 0);
	file_path(path, "p.json");
	assert_int_equal(access(path, F_OK), -1);
	iser_state_close(&s);
	iser_plan_free(a);
	iser_plan_free(b);
	iser_plan_free(c);
}

static void test_boots(void **state)
{
	struct iser_state s;

	(void)state;
	opened(&s, "p", true);
	assert_false(iser_state_restarted(&s)); /* nothing was applied */
	free(s.boot);
	s.boot = strdup("another");
	s.cpus = strdup("0-7");
	s.irqs = calloc(1, sizeof(*s.irqs));
	s.n_irqs = 1;
	assert_true(iser_state_restarted(&s));
	assert_int_equal(iser_state_begin_boot(&s, NULL), 0);
	assert_false(iser_state_restarted(&s));
	assert_null(s.cpus);
	assert_int_equal(s.n_irqs, 0);
	iser_state_close(&s);
}

static void put(const char *name, const char *text)
{
	char path[128];

	file_path(path, name);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0600, NULL), 0);
}

static void test_names(void **state)
{
	struct iser_state s;
	char **names;
	size_t n;

	(void)state;
	assert_int_equal(iser_state_names("/nonexistent", &names, &n, NULL), 0);
	assert_int_equal(n, 0);
	opened(&s, "p", true);
	iser_state_close(&s);
	put("zwei.json", "{}");
	put("eins.json", "{}");
	put("eins.lio.json", "{}");
	put("eins.json.AbCdEf", "{}");
	put(".json", "{}");
	assert_int_equal(iser_state_names(dir, &names, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(names[0], "eins");
	assert_string_equal(names[1], "zwei");
	free(names[0]);
	free(names[1]);
	free(names);
}

static void test_bad_names(void **state)
{
	static const char *const bad[] = {
		"", ".", "..", "a/b", "../p", "-p", "a b", "p.lio", "\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;
		struct iser_state s;

		if (iser_state_open(&s, dir, bad[i], NULL, &e) != -EINVAL)
			fail_msg("\"%s\" is a name", bad[i]);
		iser_state_close(&s);
	}
}

static void test_damaged(void **state)
{
	static const char *const bad[] = {
		"", "{", "[]", "{}", "{\"rftp-iser-state\": 2}",
		"{\"rftp-iser-state\": 1, \"applied\": {}}",
		"{\"rftp-iser-state\": 1, \"applied\": \"p\"}",
		"{\"rftp-iser-state\": 1, \"applying\": 1}",
		"{\"rftp-iser-state\": 1, \"older\": [1]}",
		"{\"rftp-iser-state\": 1, \"boot\": 1}",
		"{\"rftp-iser-state\": 1, \"cpus\": []}",
		"{\"rftp-iser-state\": 1, \"made\": \"/m\"}",
		"{\"rftp-iser-state\": 1, \"made\": [\"m\"]}",
		"{\"rftp-iser-state\": 1, \"irqs\": [1]}",
		"{\"rftp-iser-state\": 1, \"irqs\": [{\"irq\": -1}]}",
		"{\"rftp-iser-state\": 1, \"irqs\": [{\"irq\": 1, \"netdev\": \"e\"}]}",
	};

	struct iser_state s;

	(void)state;
	opened(&s, "p", true);
	iser_state_close(&s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;

		put("p.json", bad[i]);
		if (iser_state_open(&s, dir, "p", NULL, &e) != -EBADMSG)
			fail_msg("%s is taken, or %s", bad[i], e.text);
		assert_non_null(strstr(e.text, "/p.json"));
		assert_non_null(strstr(e.text, "move it away"));
		iser_state_close(&s);
	}
	put("p.json", "{\"rftp-iser-state\": 1}");
	opened(&s, "p", false);
	iser_state_close(&s);
}

/* Another process finds it locked, whatever its plan's name; looking is free. */
static void test_lock(void **state)
{
	struct iser_state s, other;
	int status;
	pid_t pid;

	(void)state;
	opened(&s, "p", true);
	opened(&other, "p", false);
	iser_state_close(&other);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct err e = ERR_INIT;
		char who[32];
		int r;

		close(s.lock);
		r = iser_state_open(&other, dir, "q", &(struct lock_wait){ .seconds = 1 }, &e);
		snprintf(who, sizeof(who), "process %ld", (long)getppid());
		_exit(r == -EBUSY && strstr(e.text, who) ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	iser_state_close(&s);
	opened(&s, "q", true);
	iser_state_close(&s);
}

/* A directory that others may write to is not trusted. */
static void test_open_directory(void **state)
{
	struct err e = ERR_INIT;
	struct iser_state s;

	(void)state;
	opened(&s, "p", true);
	iser_state_close(&s);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_int_equal(iser_state_open(&s, dir, "p", &soon, &e), -EPERM);
	assert_non_null(strstr(e.text, "chmod 700"));
	iser_state_close(&s);
}

/* What is too long to be read again is not written over what can be. */
static void test_too_long(void **state)
{
	struct err e = ERR_INIT;
	struct iser_state s;

	(void)state;
	opened(&s, "p", true);
	s.applied = plan(PLAN(A));
	assert_int_equal(iser_state_write(&s, NULL), 0);
	free(s.boot);
	s.boot = calloc(1, 3 * ISER_PLAN_MAX);
	assert_non_null(s.boot);
	memset(s.boot, 'x', 3 * ISER_PLAN_MAX - 1);
	assert_int_equal(iser_state_write(&s, &e), -EFBIG);
	assert_non_null(strstr(e.text, "/p.json would be too long"));
	iser_state_close(&s);
	opened(&s, "p", false);
	assert_non_null(s.applied);
	iser_state_close(&s);
}

/* ---- what apply makes ---- */

static void say(void *arg, const char *line)
{
	(void)arg;
	(void)line;
}

static struct iser_step file_step(const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return (struct iser_step){
		.text = (char *)(uintptr_t)name, .node = NODE_UNKNOWN,
		.request = json_pack("{s:s, s:s, s:I, s:b}", "do", "make-file", "path", path,
				     "size", (json_int_t)4096, "new", 1),
	};
}

/* The paths that the file says were made, as of now. */
static void kept_is(const char *want)
{
	struct iser_state s;
	char got[512] = "";

	opened(&s, "made", false);
	for (size_t i = 0; i < s.n_made; i++) {
		strcat(got, " ");
		strcat(got, s.made[i] + strlen(top) + 1);
	}
	assert_string_equal(got, want);
	iser_state_close(&s);
}

/* What somebody else makes before apply comes to it is never ours, whenever apply ends. */
static void test_made(void **state)
{
	struct iser_step v[] = { file_step("first"), file_step("second"), file_step("third") };
	struct change c = { .steps = { .v = v, .n = 3 },
			    .carry = { .say = say, .hold = -1, .keep = change_made,
				       .keeper = &c } };
	char theirs[128];
	struct err e = ERR_INIT;
	size_t done;

	(void)state;
	opened(&c.state, "made", true);
	assert_int_equal(iser_state_begin_boot(&c.state, NULL), 0);
	assert_int_equal(change_keep(&c, &e), 0);
	kept_is("");
	snprintf(theirs, sizeof(theirs), "%s/second", top);
	assert_int_equal(write_file_atomic(theirs, "x", 1, 0600, NULL), 0);
	assert_int_equal(carry_out(&c.carry, &c.steps, &done, &e), -EEXIST);
	assert_int_equal(done, 1);
	kept_is(" first");
	/* It came between the look and the step. */
	assert_int_equal(iser_state_made(&c.state, theirs), 0);
	assert_int_equal(change_made(&c, v[1].request, -EEXIST, &e), 0);
	kept_is(" first");
	/* One of ours that could not grow stays ours. */
	assert_int_equal(change_made(&c, v[0].request, -ENOSPC, &e), 0);
	kept_is(" first");
	/* What was never there is no one's. */
	assert_int_equal(change_made(&c, v[2].request, 0, &e), 0);
	kept_is(" first third");
	assert_int_equal(change_made(&c, v[2].request, -ENOSPC, &e), 0);
	kept_is(" first");
	carry_end(&c.carry);
	iser_state_close(&c.state);
	for (size_t i = 0; i < 3; i++)
		json_decref(v[i].request);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
		TEST(test_there_and_back), TEST(test_boots), TEST(test_names),
		cmocka_unit_test(test_bad_names), TEST(test_lock), TEST(test_open_directory),
		TEST(test_too_long), TEST(test_made),
		cmocka_unit_test_setup_teardown(test_damaged, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
