// SPDX-License-Identifier: Apache-2.0
/* Stripes as mdadm and LVM make them, by programs that only say they did; who has the lock. */
#include "iser_setup/kept.h"
#include "iser_setup/run.h"
#include "iser_setup/stripe.h"
#include "tests/support/programs.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static int find(enum stripe_kind kind, struct err *e)
{
	const struct stripe_disks d = { .path = { "/dev/sdy", "/dev/sdz" }, .n = 2 };
	char device[STRIPE_DEVICE_ROOM];
	struct stripe s;
	bool started;

	*e = (struct err)ERR_INIT;
	return stripe_find(kind, &d, NULL, &s, device, &started, e);
}

/* That a program fails to tell of a stripe does not make its disks free. */
static void test_untold(void **state)
{
	struct err e;

	(void)state;
	only_ours();
	program("pvs", "", 5);
	program("mdadm", "", 1);
	program("wipefs", "LVM2_member", 0);
	assert_int_equal(find(STRIPE_LVM, &e), -EEXIST);
	assert_non_null(strstr(e.text, "/dev/sdy holds data (LVM2_member), but of which stripe"));
	/* Another kind's is asked for later. */
	assert_int_equal(find(STRIPE_MD, &e), 0);
	program("wipefs", "linux_raid_member", 0);
	assert_int_equal(find(STRIPE_MD, &e), -EEXIST);
	assert_int_equal(find(STRIPE_LVM, &e), 0);
	program("wipefs", "", 1);
	assert_true(find(STRIPE_LVM, &e) < 0);
	program("wipefs", "", 0);
	assert_int_equal(find(STRIPE_LVM, &e), 0);
	assert_int_equal(find(STRIPE_MD, &e), 0);
	path_back();
}

/* What came onto a disk after it was looked at is not written over. */
static void test_unforced(void **state)
{
	const struct stripe_disks d = { .path = { "/dev/sdy", "/dev/sdz" }, .n = 2 };
	struct stripe s = { .kind = STRIPE_MD, .name = "rftp-iser" };
	char device[STRIPE_DEVICE_ROOM], id[STRIPE_ID_ROOM];
	CLEANUP_FREE char *args = NULL;
	struct err e = ERR_INIT;

	(void)state;
	only_ours();
	unlink(tmp_at("args"));
	program("mkfs.xfs", "", 0);
	program("mdadm", "", 1);
	program("pvcreate", "", 5);
	assert_int_equal(stripe_mkfs("/dev/sdy", 0, 1, false, NULL, &e), 0);
	assert_int_not_equal(stripe_make(&s, &d, 65536, NULL, device, id, &e), 0);
	s.kind = STRIPE_LVM;
	assert_int_not_equal(stripe_make(&s, &d, 65536, NULL, device, id, &e), 0);
	assert_int_equal(read_file(tmp_at("args"), 10000, &args, NULL), 0);
	assert_non_null(strstr(args, "mdadm --create"));
	assert_non_null(strstr(args, "pvcreate"));
	assert_null(strstr(args, "-f"));
	assert_null(strstr(args, "--run"));
	assert_null(strstr(args, "--yes"));
	free(args);
	/* But what was found, and is to go, is. */
	assert_int_equal(stripe_mkfs("/dev/sdy", 65536, 2, true, NULL, &e), 0);
	assert_int_equal(read_file(tmp_at("args"), 10000, &args, NULL), 0);
	assert_non_null(strstr(args, "mkfs.xfs -q -f -d su=65536,sw=2 /dev/sdy"));
	path_back();
}

static void take(int sig) { (void)sig; }

/* What a signal has ended in its midst is taken away all the same. */
static void test_stopped(void **state)
{
	const struct stripe_disks d = { .path = { "/dev/sdy", "/dev/sdz" }, .n = 2 };
	struct stripe s = { .kind = STRIPE_LVM, .name = "rftp-iser", .id = "1" };
	char device[STRIPE_DEVICE_ROOM], id[STRIPE_ID_ROOM];
	CLEANUP_FREE char *args = NULL;
	struct err e = ERR_INIT;
	struct stop stop;

	(void)state;
	only_ours();
	signal(SIGTERM, take); /* it comes when nobody waits for it any more */
	script("pvcreate", "exit 0");
	program("pvs", "", 5);
	script("vgcreate", "kill -TERM $PPID; sleep 9");
	script("pvremove", "sleep 0.3; echo took them back >>$0.args");
	script("mdadm", "case $1 in --create) kill -TERM $PPID; sleep 9;; "
	       "--examine) echo MD_UUID=1; echo MD_NAME=any:rftp-iser;; "
	       "*) sleep 0.3; echo \"$@\" >>$0.args;; esac");
	stop_begin(&stop);
	assert_int_equal(stripe_make(&s, &d, 65536, &stop, device, id, &e), -EINTR);
	stop_end(&stop);
	assert_int_equal(read_file(tmp_at("bin/pvremove.args"), 1000, &args, NULL), 0);
	free(args);
	s.kind = STRIPE_MD;
	stop_begin(&stop);
	assert_int_equal(stripe_make(&s, &d, 65536, &stop, device, id, &e), -EINTR);
	stop_end(&stop);
	assert_int_equal(read_file(tmp_at("bin/mdadm.args"), 1000, &args, NULL), 0);
	assert_string_equal(args, "--zero-superblock /dev/sdy\n--zero-superblock /dev/sdz\n");
	signal(SIGTERM, SIG_DFL);
	path_back();
}

/* What is there and cannot be asked for its id is not left for nobody to know. */
static void test_made_and_not_known(void **state)
{
	const struct stripe_disks d = { .path = { "/dev/sdy", "/dev/sdz" }, .n = 2 };
	const struct stripe s = { .kind = STRIPE_LVM, .name = "rftp-iser" };
	char device[STRIPE_DEVICE_ROOM], id[STRIPE_ID_ROOM];
	CLEANUP_FREE char *args = NULL;
	struct err e = ERR_INIT;

	(void)state;
	only_ours();
	unlink(tmp_at("args"));
	program("pvcreate", "", 0);
	program("vgcreate", "", 0);
	program("lvcreate", "", 0);
	program("lvs", "/dev/rftp-iser/data", 0);
	program("pvs", "", 5);
	program("wipefs", "LVM2_member", 0);
	program("vgremove", "", 0);
	program("pvremove", "", 0);
	assert_int_equal(stripe_make(&s, &d, 65536, NULL, device, id, &e), -EEXIST);
	assert_int_equal(read_file(tmp_at("args"), 9000, &args, NULL), 0);
	assert_non_null(strstr(args, "vgremove --config"));
	assert_non_null(strstr(args, "pvremove "));
	path_back();
}

static bool is_held(const char *name)
{
	static const char body[] = "exec 3>&1; readlink /proc/$$/fd/* >$0.fds 2>/dev/null; "
				   "echo \"$LVM_REPORT_FD\"";
	CLEANUP_FREE char *fds = NULL, *out = NULL;
	struct err e = ERR_INIT;
	char path[9000];
	bool held, told;

	script(name, body);
	assert_int_equal(run_program(NULL, &out, &e, name, NULL), 0);
	snprintf(path, sizeof(path), "%s/bin/%s.fds", tmp_dir, name);
	assert_int_equal(read_file(path, 10000, &fds, NULL), 0);
	held = strstr(fds, tmp_at("the-lock"));
	told = !strcmp(out, "9\n");
	/* LVM would close it, and what reports would do so there. */
	assert_int_equal(told, held && (*name == 'v' || *name == 'p' || *name == 'l'));
	return held;
}

/* What changes something has the lock as long as it lives; what stays, or only looks, has not. */
static void test_lock_held(void **state)
{
	static const char *const changes[] = {
		"iscsiadm", "mdadm", "mkfs.xfs", "wipefs", "pvcreate", "pvremove", "vgcreate",
		"vgremove", "vgchange", "lvcreate",
	};
	static const char *const stays[] = { "iscsid", "systemctl", "modprobe", "pvs", "lvs" };
	CLEANUP_CLOSE int fd = open(tmp_at("the-lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	(void)state;
	assert_true(fd >= 0);
	only_ours();
	assert_false(is_held("mdadm"));
	run_hold(fd);
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		if (!is_held(changes[i]))
			fail_msg("%s is without the lock", changes[i]);
	for (size_t i = 0; i < sizeof(stays) / sizeof(stays[0]); i++)
		if (is_held(stays[i]))
			fail_msg("%s has the lock", stays[i]);
	run_hold(-1);
	assert_false(is_held("mdadm"));
	path_back();
}

/* ---- what a login that was killed has left ---- */

#define OURS "0123abcd:0123abcd:0123abcd:0123abcd"
#define THEIRS "ffffffff:ffffffff:ffffffff:ffffffff"

/* Of /dev/sdy and /dev/sdz: what mdadm and pvs say; NULL: the second is not there. */
static int left(struct stripe *s, const char *program, const char *y, const char *z)
{
	const struct stripe_disks d = { .path = { "/dev/sdy", z ? "/dev/sdz" : NULL }, .n = 2 };
	struct err e = ERR_INIT;
	char body[1000];

	snprintf(body, sizeof(body), "for last; do :; done\n"
		 "case $last in /dev/sdy) says='%s';; *) says='%s';; esac\n"
		 "[ \"$says\" ] || exit 5\necho \"$says\"", y, z ? z : "");
	script(program, body);
	return stripe_left(s, &d, NULL, &e);
}

static int left_md(const char *y, const char *z)
{
	struct stripe s = { STRIPE_MD, "rftp-iser", OURS };
	int r = left(&s, "mdadm", y, z);

	assert_string_equal(s.id, OURS);
	return r;
}

static void test_left_of_md(void **state)
{
	static const char ours[] = "MD_UUID=" OURS, theirs[] = "MD_UUID=" THEIRS;

	(void)state;
	only_ours();
	program("wipefs", "", 0);
	assert_int_equal(left_md("", ""), STRIPE_GONE);
	assert_int_equal(left_md(ours, ours), STRIPE_WHOLE);
	assert_int_equal(left_md(ours, ""), STRIPE_HALF);
	assert_int_equal(left_md("", ours), STRIPE_HALF);
	assert_int_equal(left_md(ours, theirs), STRIPE_HALF);
	/* What may have been made whole, and data be on it. */
	assert_int_equal(left_md(ours, NULL), STRIPE_UNTOLD);
	assert_int_equal(left_md("", NULL), STRIPE_UNTOLD);
	/* Somebody else's, of whatever name. */
	assert_int_equal(left_md("MD_UUID=" THEIRS "\nMD_NAME=any:rftp-iser", theirs),
			 STRIPE_GONE);
	program("wipefs", "linux_raid_member", 0);
	assert_int_equal(left_md(ours, ""), -EEXIST);
	path_back();
}

/* One that runs was made, whatever its disks say. */
static void test_left_running(void **state)
{
	const char *disk = tmp_at("sdy"), *other = tmp_at("sdz");
	const char *array = tmp_at("sys/class/block/md127/md/array_state");
	const struct stripe_disks d = { .path = { disk, other }, .n = 2 };
	struct stripe s = { STRIPE_MD, "rftp-iser", OURS };
	struct err e = ERR_INIT;

	(void)state;
	only_ours();
	setenv("RFTP_SYSFS", tmp_at("sys"), 1);
	program("wipefs", "", 0);
	script("mdadm", "case $* in *sdy) echo MD_UUID=" OURS ";; *) exit 1;; esac");
	tmp_put("sdy", "");
	assert_int_equal(make_dirs(tmp_at("sys/class/block/sdy/holders/md127"), 0700), 0);
	assert_int_equal(make_dirs(tmp_at("sys/class/block/md127/md"), 0700), 0);
	assert_int_equal(write_file_atomic(array, "clean\n", 6, 0600, NULL), 0);
	assert_int_equal(stripe_left(&s, &d, NULL, &e), STRIPE_UNTOLD);
	assert_int_equal(write_file_atomic(array, "inactive\n", 9, 0600, NULL), 0);
	assert_int_equal(stripe_left(&s, &d, NULL, &e), STRIPE_HALF);
	unsetenv("RFTP_SYSFS");
	path_back();
}

#define TOKEN "abcdef-0123-0123-0123-0123-0123"
#define VOLUME(n, group, filled) " " TOKEN "-00000" #n "|" group "|" filled

static int left_lvm(const char *y, const char *z, const char *id)
{
	struct stripe s = { STRIPE_LVM, "rftp-iser", TOKEN };
	int r = left(&s, "pvs", y, z);

	assert_string_equal(s.id, id);
	return r;
}

static void test_left_of_lvm(void **state)
{
	(void)state;
	only_ours();
	program("wipefs", "", 0);
	assert_int_equal(left_lvm("", "", TOKEN), STRIPE_GONE);
	assert_int_equal(left_lvm(VOLUME(0, "rftp-iser|G", "1"), VOLUME(1, "rftp-iser|G", "1"),
				  "G"), STRIPE_WHOLE);
	assert_int_equal(left_lvm(VOLUME(0, "rftp-iser|G", "0"), VOLUME(1, "rftp-iser|G", "0"),
				  TOKEN), STRIPE_HALF);
	assert_int_equal(left_lvm(VOLUME(0, "|", ""), "", TOKEN), STRIPE_HALF);
	assert_int_equal(left_lvm("", VOLUME(1, "|", ""), TOKEN), STRIPE_HALF);
	assert_int_equal(left_lvm(VOLUME(0, "rftp-iser|G", "0"), NULL, TOKEN), STRIPE_HALF);
	/* A volume may hold data. */
	assert_int_equal(left_lvm(VOLUME(0, "rftp-iser|G", "1"), NULL, TOKEN), STRIPE_UNTOLD);
	assert_int_equal(left_lvm(VOLUME(0, "rftp-iser|G", "1"), "", TOKEN), STRIPE_UNTOLD);
	/* Somebody else's: of another group, or only called the same. */
	assert_int_equal(left_lvm(VOLUME(0, "else|G", "1"), VOLUME(1, "else|G", "1"), TOKEN),
			 STRIPE_GONE);
	assert_int_equal(left_lvm(VOLUME(1, "rftp-iser|G", "0"), VOLUME(0, "rftp-iser|G", "0"),
				  TOKEN), STRIPE_GONE);
	assert_int_equal(left_lvm("nonsense", "", TOKEN), -EBADMSG);
	path_back();
}

/* Nothing but what is known by its id, and no group with volumes. */
static void test_taken_down(void **state)
{
	const struct stripe_disks d = { .path = { "/dev/sdx", "/dev/sdy", NULL, "/dev/sdz" },
					.n = 4 };
	const struct stripe md = { STRIPE_MD, "rftp-iser", OURS },
			    lvm = { STRIPE_LVM, "rftp-iser", TOKEN };
	CLEANUP_FREE char *args = NULL;
	struct err e = ERR_INIT;

	(void)state;
	only_ours();
	program("wipefs", "", 0);
	script("mdadm", "case $* in *--export\\ /dev/sdy) [ -e $0.done ] || echo MD_UUID=" OURS ";;"
	       " *--export*) echo MD_UUID=" THEIRS "; echo MD_NAME=any:rftp-iser;;"
	       " *) echo \"$@\" >>$0.done;; esac");
	/* One more disk is not there, and may have something of it. */
	assert_int_equal(stripe_take_down(&md, &d, &e), STRIPE_UNTOLD);
	assert_int_equal(read_file(tmp_at("bin/mdadm.done"), 1000, &args, NULL), 0);
	assert_string_equal(args, "--zero-superblock /dev/sdy\n");
	free(args);
	args = NULL;
	unlink(tmp_at("args"));
	program("vgremove", "", 0);
	script("pvremove", "echo pvremove \"$@\" >>${0%/bin/*}/args");
	script("pvs", "case $* in */sdx) echo '" VOLUME(0, "else|E", "0") "';;"
	       " */sdy) ! grep -q sdy ${0%/bin/*}/args || exit 5;"
	       " echo '" VOLUME(1, "rftp-iser|G", "0") "';;"
	       " *) echo '" VOLUME(3, "rftp-iser|F", "1") "';; esac");
	tmp_put("args", "");
	assert_int_equal(stripe_take_down(&lvm, &d, &e), STRIPE_UNTOLD);
	assert_int_equal(read_file(tmp_at("args"), 1000, &args, NULL), 0);
	assert_non_null(strstr(args, "--select vg_uuid=G\npvremove --yes --quiet /dev/sdy\n"));
	assert_null(strstr(args, "force"));
	assert_null(strstr(args, "sdx"));
	assert_null(strstr(args, "sdz"));
	/* What does not go is told. */
	script("pvremove", "exit 5");
	unlink(tmp_at("args"));
	tmp_put("args", "");
	script("pvs", "case $* in */sdy) echo '" VOLUME(1, "|", "") "';; *) exit 5;; esac");
	assert_int_equal(stripe_take_down(&lvm, &d, &e), -EIO);
	path_back();
}

/* The ids that are drawn are those by which they are made. */
static void test_drawn(void **state)
{
	const struct stripe_disks d = { .path = { "/dev/sdy", "/dev/sdz" }, .n = 2 };
	struct stripe s = { .kind = STRIPE_MD, .name = "rftp-iser" };
	char device[STRIPE_DEVICE_ROOM], id[STRIPE_ID_ROOM], first[STRIPE_ID_ROOM], want[100];
	CLEANUP_FREE char *args = NULL;
	struct err e = ERR_INIT;

	(void)state;
	only_ours();
	unlink(tmp_at("args"));
	program("mdadm", "", 1);
	program("wipefs", "", 0);
	program("pvcreate", "", 0);
	program("vgcreate", "", 5);
	program("pvremove", "", 0);
	program("pvs", "", 5);
	assert_int_equal(stripe_draw(STRIPE_MD, first, &e), 0);
	assert_int_equal(stripe_draw(STRIPE_MD, s.id, &e), 0);
	assert_string_not_equal(first, s.id);
	assert_int_not_equal(stripe_make(&s, &d, 65536, NULL, device, id, &e), 0);
	assert_int_equal(read_file(tmp_at("args"), 9000, &args, NULL), 0);
	snprintf(want, sizeof(want), " --uuid=%s ", s.id);
	assert_non_null(strstr(args, want));
	assert_int_equal(strspn(s.id, "0123456789abcdef:"), 35);
	free(args);
	args = NULL;
	s.kind = STRIPE_LVM;
	assert_int_equal(stripe_draw(STRIPE_LVM, s.id, &e), 0);
	assert_int_not_equal(stripe_make(&s, &d, 65536, NULL, device, id, &e), 0);
	assert_int_equal(read_file(tmp_at("args"), 9000, &args, NULL), 0);
	snprintf(want, sizeof(want), " --uuid %s-000001 /dev/sdz\n", s.id);
	assert_non_null(strstr(args, want));
	/* 6-4-4-4-4-4-6, as LVM wants it */
	assert_int_equal(strlen(stripe_volume_id(s.id, 1, first)), 38);
	path_back();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_untold),
		cmocka_unit_test(test_unforced),
		cmocka_unit_test(test_stopped),
		cmocka_unit_test(test_made_and_not_known),
		cmocka_unit_test(test_lock_held),
		cmocka_unit_test(test_left_of_md),
		cmocka_unit_test(test_left_running),
		cmocka_unit_test(test_left_of_lvm),
		cmocka_unit_test(test_taken_down),
		cmocka_unit_test(test_drawn),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
