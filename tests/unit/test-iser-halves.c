// SPDX-License-Identifier: Apache-2.0
/* What a killed login has left of a stripe stays known as long as a disk may carry it. Disks are
 * files that tell what is on them, by mdadm's and LVM's programs that write there. */
#include "iser_setup/attach.h"
#include "iser_setup/halves.h"
#include "tests/support/programs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define UUID "0123abcd:0123abcd:0123abcd:0123abcd"
#define TOKEN "abcdef-0123-0123-0123-0123-0123"
#define MD "MD_UUID=" UUID "\n"
#define LVM(n) " " TOKEN "-00000" #n "|rftp-iser|G|0\n"
#define IQN "iqn.2026-01.org.example:node"

static char x[5000], y[5000], z[5000]; /* the disks' paths */

static int setup(void **state)
{
	int r = tmp_setup(state);

	snprintf(x, sizeof(x), "%s/x", tmp_dir);
	snprintf(y, sizeof(y), "%s/y", tmp_dir);
	snprintf(z, sizeof(z), "%s/z", tmp_dir);
	only_ours();
	script("udevadm", "exit 0");
	script("wipefs", "exit 0");
	script("mdadm", "for disk; do :; done\n"
	       "case $1 in --examine) [ -s \"$disk\" ] && cat \"$disk\" ;;\n"
	       "--zero-superblock) : >\"$disk\" ;; esac");
	script("pvs", "for disk; do :; done\n[ -s \"$disk\" ] || exit 5\ncat \"$disk\"");
	script("vgremove", "exit 0");
	script("pvremove", "for disk; do :; done\n: >\"$disk\"");
	return r;
}

static int teardown(void **state)
{
	path_back();
	return tmp_teardown(state);
}

static const struct kept_half md = {
	.stripe = { STRIPE_MD, "rftp-iser", UUID }, .n = 3,
	.disks = { { IQN "0", 0 }, { IQN "1", 0 }, { IQN "2", 7 } },
}, lvm = {
	.stripe = { STRIPE_LVM, "rftp-iser", TOKEN }, .n = 2,
	.disks = { { IQN "0", 0 }, { IQN "1", 0 } },
};

static void known(struct kept *k, const struct kept_half *h)
{
	*k = (struct kept){ .lock = -1 };
	assert_int_equal(kept_add_half(k, h), 0);
}

/* What is said until heard() is in "said". */
static int hear(void)
{
	int before = dup(STDERR_FILENO);
	int said = open(tmp_at("said"), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(dup2(said, STDERR_FILENO), STDERR_FILENO);
	close(said);
	return before;
}

static void heard(int before)
{
	assert_int_equal(dup2(before, STDERR_FILENO), STDERR_FILENO);
	close(before);
}

/* On these disks; NULL: it is not there. What is said is in "said". */
static int settle(struct kept *k, const struct kept_half *h, const char *one, const char *two,
		  const char *three)
{
	const struct stripe_disks d = { .path = { one, two, three }, .n = h->n };
	struct err e = ERR_INIT;
	int before = hear(), r = halves_settle_one(k, h, &d, NULL, &e);

	heard(before);
	return r;
}

/* It is taken off the disks that are there, and known until it is off those, too, that are not. */
static void test_missing_md(void **state)
{
	struct kept k;

	(void)state;
	known(&k, &md);
	tmp_put("x", MD);
	tmp_put("y", "");
	tmp_put("z", MD);
	assert_int_equal(settle(&k, &md, x, y, NULL), 0);
	assert_int_equal(k.n_halves, 1);
	assert_string_equal(tmp_get("x"), "");
	assert_non_null(strstr(tmp_get("said"), "md stripe rftp-iser was being made"));
	assert_non_null(strstr(tmp_get("said"), "LUN 7 of " IQN "2 is missing"));
	assert_null(strstr(tmp_get("said"), "took down"));
	/* Also when nothing is on those that are there. */
	assert_int_equal(settle(&k, &md, x, y, NULL), 0);
	assert_int_equal(k.n_halves, 1);
	assert_int_equal(settle(&k, &md, x, y, z), 1);
	assert_int_equal(k.n_halves, 0);
	assert_string_equal(tmp_get("z"), "");
	assert_non_null(strstr(tmp_get("said"), "took down the md stripe rftp-iser"));
	kept_close(&k);
}

static void test_missing_lvm(void **state)
{
	struct kept k;

	(void)state;
	known(&k, &lvm);
	tmp_put("x", LVM(0));
	tmp_put("y", LVM(1));
	assert_int_equal(settle(&k, &lvm, NULL, y, NULL), 0);
	assert_int_equal(k.n_halves, 1);
	assert_string_equal(tmp_get("y"), "");
	assert_non_null(strstr(tmp_get("said"), "LUN 0 of " IQN "0 is missing"));
	assert_int_equal(settle(&k, &lvm, x, y, NULL), 1);
	assert_int_equal(k.n_halves, 0);
	assert_string_equal(tmp_get("x"), "");
	kept_close(&k);
}

static void test_all_there(void **state)
{
	struct kept k;

	(void)state;
	known(&k, &md);
	tmp_put("x", "");
	tmp_put("y", "");
	tmp_put("z", "");
	assert_int_equal(settle(&k, &md, x, y, z), 1);
	assert_int_equal(k.n_halves + k.n_stripes, 0);
	assert_string_equal(tmp_get("said"), "");
	assert_int_equal(kept_add_half(&k, &md), 0);
	tmp_put("x", MD);
	tmp_put("y", MD);
	tmp_put("z", MD);
	assert_int_equal(settle(&k, &md, x, y, z), 1);
	assert_int_equal(k.n_halves, 0);
	assert_int_equal(k.n_stripes, 1);
	assert_string_equal(k.stripes[0].id, UUID);
	kept_close(&k);
	/* What does not go stays, and so does what may hold data. */
	known(&k, &lvm);
	script("pvremove", "exit 5");
	tmp_put("x", LVM(0));
	tmp_put("y", "");
	assert_int_equal(settle(&k, &lvm, x, y, NULL), -EIO);
	assert_int_equal(k.n_halves, 1);
	tmp_put("x", " " TOKEN "-000000|rftp-iser|G|1\n");
	assert_int_equal(settle(&k, &lvm, x, y, NULL), 0);
	assert_int_equal(k.n_halves, 1);
	assert_non_null(strstr(tmp_get("said"), "there may be data on it"));
	kept_close(&k);
}

/* None is there: what is kept is not touched. */
static void test_none_there(void **state)
{
	struct err e = ERR_INIT;
	struct kept k;

	(void)state;
	setenv("RFTP_SYSFS", tmp_at("nowhere"), 1);
	known(&k, &md);
	assert_int_equal(halves_settle(&k, NULL, &e), 0);
	assert_int_equal(k.n_halves, 1);
	kept_close(&k);
	unsetenv("RFTP_SYSFS");
}

/* A session that was there before login is not in what is kept, but its disks are in the half. */
static void test_disks(void **state)
{
	struct session_disk theirs[] = { { .name = "sda", .lun = 0 }, { .name = "sdb", .lun = 7 } },
			    ours[] = { { .name = "sdc", .lun = 7 } };
	struct session v[] = {
		{ .iqn = IQN "0", .iface = "default", .portal = { "10.0.0.1", 3260 },
		  .disks = theirs, .n_disks = 2 },
		{ .iqn = IQN "0", .iface = "iser", .portal = { "10.0.0.1", 3260 }, .disks = ours,
		  .n_disks = 1 },
	};
	const struct sessions both = { v, 2 }, one = { v, 1 };
	const struct kept_session session = { IQN "0", { "10.0.0.1", 3260 }, 1, LOGIN_ISER, true };
	const struct kept_disk d = { IQN "0", 7 }, no_lun = { IQN "0", 3 }, none = { IQN "1", 7 };
	struct kept k = { .lock = -1 };

	(void)state;
	assert_string_equal(halves_disk(&k, &one, &d), "sdb");
	assert_null(halves_disk(&k, &one, &no_lun));
	assert_null(halves_disk(&k, &one, &none));
	assert_int_equal(kept_add(&k, &session), 0);
	assert_string_equal(halves_disk(&k, &both, &d), "sdc");
	assert_string_equal(halves_disk(&k, &one, &d), "sdb");
	kept_close(&k);
}

/* A session with the disks x and y, LUNs 0 and 1. */
static void put_session(const char *top)
{
	static const char *const lines[] = {
		"class/iscsi_session/session1 -> ../../d/host5/session1/iscsi_session/session1",
		"d/host5/session1/iscsi_session/session1/targetname = " IQN "0",
		"d/host5/session1/iscsi_session/session1/device -> ../../../session1",
		"d/host5/session1/target5:0:0/5:0:0:0/type = 0",
		"d/host5/session1/target5:0:0/5:0:0:0/block/x/size = 1024",
		"d/host5/session1/target5:0:0/5:0:0:1/type = 0",
		"d/host5/session1/target5:0:0/5:0:0:1/block/y/size = 1024",
	};
	char line[200];

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		snprintf(line, sizeof(line), "%s", lines[i]);
		sysfs_entry(top, line);
	}
}

/* A stripe that cannot be made, nor what there is of it be taken off its disks. */
static void test_not_taken_back(void **state)
{
	const struct login_options o = { .kind = STRIPE_MD, .chunk = 65536 };
	struct login_target t = { .iqn = IQN "0" };
	struct attach_disk d[] = { { .target = &t, .kernel = "x", .lun = 0, .session = 1 },
				   { .target = &t, .kernel = "y", .lun = 1, .session = 1 } };
	struct attach a = { .o = &o, .disks = d, .n_disks = 2,
			    .kept = { .lock = -1, .dir = strdup(tmp_dir) } };
	struct err e = ERR_INIT;
	int before, r;

	(void)state;
	snprintf(d[0].path, sizeof(d[0].path), "%.255s", x);
	snprintf(d[1].path, sizeof(d[1].path), "%.255s", y);
	setenv("RFTP_SYSFS", tmp_at("sys"), 1);
	put_session(tmp_at("sys"));
	tmp_put("x", "");
	tmp_put("y", "");
	script("mdadm", "for disk; do case $disk in --uuid=*) id=${disk#*=};; esac; done\n"
	       "case $1 in --create) echo MD_UUID=$id >\"$disk\"; exit 1;; "
	       "--examine) [ -s \"$disk\" ] && cat \"$disk\";; *) exit 1;; esac");
	stop_begin(&a.stop);
	before = hear();
	r = attach_stripe(&a, "one", &e);
	heard(before);
	stop_end(&a.stop);
	unsetenv("RFTP_SYSFS");
	assert_int_equal(r, -EIO);
	assert_int_equal(a.kept.n_halves, 1);
	assert_non_null(strstr(tmp_get("said"), "not taken back: what there is of the md stripe "
						"rftp-one; the next login or logout"));
	kept_close(&a.kept);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_md),
		cmocka_unit_test(test_missing_lvm),
		cmocka_unit_test(test_all_there),
		cmocka_unit_test(test_none_there),
		cmocka_unit_test(test_disks),
		cmocka_unit_test(test_not_taken_back),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
