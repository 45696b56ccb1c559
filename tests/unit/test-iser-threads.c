// SPDX-License-Identifier: Apache-2.0
/* The target's threads among others, in a directory that looks like /proc. */
#include "iser_setup/threads.h"
#include "tests/support/tmptree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define KERNEL 2129984u /* the flags of a kernel thread: PF_KTHREAD is among them */
#define USER 4194304u

static void put(int pid, const char *file, const char *text)
{
	char path[5000];

	snprintf(path, sizeof(path), "%s/%d", tmp_dir, pid);
	assert_int_equal(make_dirs(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/%d/%s", tmp_dir, pid, file);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void make(int pid, const char *name, unsigned flags, const char *cpus, unsigned last)
{
	char text[500];

	snprintf(text, sizeof(text), "%s\n", name);
	put(pid, "comm", text);
	snprintf(text, sizeof(text), "%d (%s) S 2 0 0 0 -1 %u 0 0 0 0 0 0 0 0 20 0 1 0 305 0 0 "
		 "18446744073709551615 0 0 0 0 0 0 0 2147483647 0 0 0 0 17 %u 0 0 0 0 0\n", pid,
		 name, flags, last);
	put(pid, "stat", text);
	snprintf(text, sizeof(text), "Name:\t%s\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\n"
		 "Mems_allowed_list:\t0\n", name, cpus);
	put(pid, "status", text);
}

static void test_threads(void **state)
{
	static const struct {
		const char *name;
		int pid;
		bool worker;
		const char *cpus;
		unsigned last;
	} want[] = {
		{ "ib-comp-wq", 31, true, "5", 5 }, { "iscsi_np", 20, false, "0-63", 9 },
		{ "iscsi_np", 100, false, "0-63", 1 }, { "iscsi_trx", 22, false, "0-7", 2 },
		{ "iscsi_ttx", 21, false, "3", 3 }, { "isert_comp_wq", 32, true, "0-3", 0 },
	};
	struct lio_threads l;
	struct err e = ERR_INIT;
	char text[64];

	(void)state;
	make(100, "iscsi_np", KERNEL, "0-63", 1);
	make(20, "iscsi_np", KERNEL, "0-63", 9);
	make(21, "iscsi_ttx", KERNEL, "3", 3);
	make(22, "iscsi_trx", KERNEL, "0-7", 2);
	make(31, "kworker/5:1H-ib-comp-wq", KERNEL, "5", 5);
	make(32, "kworker/u8:0+isert_comp_wq", KERNEL, "0-3", 0);
	make(33, "kworker/5:2-events", KERNEL, "5", 5);
	make(34, "kworker/5:3", KERNEL, "5", 5);
	make(35, "ib-comp-wq", KERNEL, "0-63", 5);      /* works only when memory is out */
	make(36, "iscsi_ttx", USER, "0-63", 5);         /* calls itself so */
	make(37, "iscsi_ttx", KERNEL, "nonsense", 5);
	make(38, "iscsi_ctrl", KERNEL, "0", 5);         /* an initiator's */
	put(39, "comm", "iscsi_ttx\n");                 /* ends now */
	assert_int_equal(lio_threads_read(tmp_dir, &l, &e), 0);
	assert_int_equal(l.n, sizeof(want) / sizeof(want[0]));
	for (size_t i = 0; i < l.n; i++) {
		assert_string_equal(l.v[i].name, want[i].name);
		assert_int_equal(l.v[i].pid, want[i].pid);
		assert_int_equal(l.v[i].worker, want[i].worker);
		assert_int_equal(l.v[i].last, want[i].last);
		assert_string_equal(ids_format(text, sizeof(text), &l.v[i].cpus), want[i].cpus);
	}
	lio_threads_clear(&l);
}

static void test_no_proc(void **state)
{
	struct lio_threads l;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(lio_threads_read("/none/of/it", &l, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/none/of/it"));
	lio_threads_clear(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_no_proc),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
