// SPDX-License-Identifier: Apache-2.0
/* Sessions and their disks by sysfs, their settings, who has them, and stripes of them. */
#include "iser_setup/attach.h"
#include "iser_setup/holders.h"
#include "iser_setup/sessions.h"
#include "iser_setup/stripe.h"
#include "iser_setup/tune.h"
#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

/* ---- sessions ---- */

/* The disk's page of its serial, as a target sends it. */
static void put_serial(const char *top, const char *device, const char *serial)
{
	char page[64] = { 0, (char)0x80, 0, (char)strlen(serial) }, path[9000];

	snprintf(path, sizeof(path), "%s/devices/platform/host5/session1/target5:0:0/%s/vpd_pg80",
		 top, device);
	strcpy(page + 4, serial);
	assert_int_equal(write_file_atomic(path, page, 4 + strlen(serial), 0600, NULL), 0);
}

static void test_sessions(void **state)
{
	const char *top = sysfs_make("initiator");
	static const struct login_portal iser = { "10.0.0.1", 3260 }, other = { "10.0.0.1", 3261 };
	const struct session *s;
	struct err e = ERR_INIT;
	struct sessions all;

	(void)state;
	put_serial(top, "5:0:0:0", "4d2f8f2e-0000-4000-8000-000000000001 ");
	assert_int_equal(sessions_read(top, &all, &e), 0);
	assert_int_equal(all.n, 4);
	s = sessions_at(&all, "iqn.2026-01.org.example:node0", &iser, LOGIN_ISER);
	assert_non_null(s);
	assert_string_equal(s->transport, "iser");
	assert_string_equal(s->state, "LOGGED_IN");
	assert_string_equal(s->portal.address, "10.0.0.1");
	assert_int_equal(s->portal.port, 3260);
	assert_int_equal(s->host, 5);
	/* Two disks, by LUN, and an enclosure that is none. */
	assert_int_equal(s->luns, 2);
	assert_int_equal(s->n_disks, 2);
	assert_string_equal(s->disks[0].name, "sdc");
	assert_string_equal(s->disks[1].name, "sdb");
	assert_int_equal(s->disks[1].lun, 10);
	assert_int_equal(s->disks[0].size, 1024 * 512);
	assert_string_equal(s->disks[0].serial, "4d2f8f2e-0000-4000-8000-000000000001");
	assert_string_equal(s->disks[1].serial, "");
	/* Somebody else's with the same target is not taken for it. */
	s = sessions_at(&all, "iqn.2026-01.org.example:node0", &iser, LOGIN_TCP);
	assert_int_equal(s->host, 8);
	assert_null(sessions_at(&all, "iqn.2026-01.org.example:node0", &other, LOGIN_ISER));
	assert_null(sessions_at(&all, "iqn.2026-01.org.example:node", &iser, LOGIN_ISER));
	s = sessions_find(&all, "iqn.2026-01.org.example:node1");
	assert_string_equal(s->transport, "tcp");
	assert_string_equal(s->portal.address, "fd00::1");
	/* Its disk has no block device yet. */
	assert_int_equal(s->luns, 1);
	assert_int_equal(s->n_disks, 0);
	s = sessions_find(&all, "iqn.2026-01.org.example:node2");
	assert_int_equal(s->luns, 0);
	assert_null(sessions_find(&all, "iqn.2026-01.org.example:node"));
	assert_int_equal(tune_can_queue(top, 5), 128);
	assert_int_equal(tune_can_queue(top, 6), 0);
	sessions_clear(&all);
	assert_int_equal(sessions_read(tmp_at("nowhere"), &all, &e), 0);
	assert_int_equal(all.n, 0);
	sessions_clear(&all);
}

static void link_to(const char *name, const char *to)
{
	char path[9000];

	snprintf(path, sizeof(path), "%s", tmp_at(name));
	sysfs_parent(path);
	assert_int_equal(symlink(to, path), 0);
}

static void is_at(const char *name, const char *want)
{
	char out[256];

	assert_string_equal(disk_path(tmp_at("dev"), name, out), tmp_at(want));
}

static void test_names(void **state)
{
	(void)state;
	for (const char *const *d = (const char *const []){ "dev/sda", "dev/sdb", "dev/sdc",
							     "dev/sdd", NULL }; *d; d++) {
		char path[9000];

		snprintf(path, sizeof(path), "%s", tmp_at(*d));
		sysfs_parent(path);
		assert_int_equal(write_file_atomic(path, "", 0, 0600, NULL), 0);
	}
	link_to("dev/disk/by-path/ip-10.0.0.1:3260-lun-0", "../../sda");
	link_to("dev/disk/by-path/ip-10.0.0.1:3260-lun-1", "../../sdb");
	link_to("dev/disk/by-id/scsi-1", "../../sda");
	link_to("dev/disk/by-id/wwn-1", "../../sda");
	link_to("dev/disk/by-id/ata-3", "../../sdc");
	link_to("dev/disk/by-id/wwn-9", "../../gone");
	is_at("sda", "dev/disk/by-id/wwn-1");
	is_at("sdb", "dev/disk/by-path/ip-10.0.0.1:3260-lun-1");
	is_at("sdc", "dev/sdc");
	is_at("sdd", "dev/sdd");
}

/* A name alone, behind which there is no driver yet, is no disk. */
static void test_opened(void **state)
{
	const char *path = tmp_at("disk-to-be");

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(mknod(path, S_IFBLK | 0600, makedev(4095, 1)), 0);
	assert_false(disk_is_there(path));
	assert_int_equal(unlink(path), 0);
	assert_false(disk_is_there(path));
	assert_false(disk_is_there("/dev/null"));
}

/* Before something is written to a disk: is it still the one that was found? */
static void test_same(void **state)
{
	struct login_target t = { .iqn = "iqn.2026-01.org.example:node0" };
	struct attach_disk d = { .target = &t, .kernel = "sdc", .lun = 0, .session = 1 };
	struct attach a = { .disks = &d, .n_disks = 1 };
	struct err e = ERR_INIT;

	(void)state;
	setenv("RFTP_SYSFS", sysfs_make("initiator"), 1);
	snprintf(d.path, sizeof(d.path), "%s", tmp_at("dev/sdc"));
	assert_int_equal(attach_same(&a, &e), 0);
	d.lun = 1;
	assert_int_equal(attach_same(&a, &e), -ENODEV);
	assert_non_null(strstr(e.text, "is not LUN 1 of " "iqn.2026-01.org.example:node0 any more"));
	d.lun = 0;
	/* The name was given to another session's, or leads to another disk. */
	d.session = 2;
	assert_int_equal(attach_same(&a, &e), -ENODEV);
	d.session = 1;
	snprintf(d.path, sizeof(d.path), "%s", tmp_at("dev/sdb"));
	assert_int_equal(attach_same(&a, &e), -ENODEV);
	unsetenv("RFTP_SYSFS");
}

/* ---- settings ---- */

static const struct tune_step *step_for(const struct tune_step *s, unsigned n, const char *file)
{
	for (unsigned i = 0; i < n; i++)
		if (!strcmp(s[i].file, file))
			return &s[i];
	fail_msg("no step for %s", file);
	return NULL;
}

static void test_tune_table(void **state)
{
	struct tune_step s[TUNE_STEPS_MOST];
	unsigned n = tune_disk("sdb", 128, s);

	(void)state;
	assert_string_equal(step_for(s, n, "device/queue_depth")->want, "64");
	assert_string_equal(step_for(s, n, "queue/nr_requests")->want, "128");
	assert_string_equal(step_for(s, n, "queue/read_ahead_kb")->want, "4096");
	assert_string_equal(step_for(s, n, "queue/rq_affinity")->want, "2");
	/* Its change makes the others anew. */
	assert_true(step_for(s, n, "queue/scheduler") < step_for(s, n, "queue/nr_requests"));
	n = tune_disk("sdb", 32, s);
	assert_string_equal(step_for(s, n, "device/queue_depth")->want, "32");
	n = tune_disk("sdb", 0, s);
	for (unsigned i = 0; i < n; i++)
		assert_string_not_equal(s[i].file, "queue/nr_requests");
	assert_int_equal(tune_stripe("md127", 4, s), 1);
	assert_string_equal(s[0].want, "16384");
}

static void test_tune_do(void **state)
{
	const char *top = sysfs_make("initiator");
	struct tune_step s[TUNE_STEPS_MOST];
	unsigned n = tune_disk("sdc", 128, s);
	char text[64];

	(void)state;
	tune_do(top, s, n);
	assert_string_equal(step_for(s, n, "queue/read_ahead_kb")->before, "128");
	assert_string_equal(step_for(s, n, "queue/read_ahead_kb")->after, "4096");
	assert_int_equal(step_for(s, n, "queue/read_ahead_kb")->failed, 0);
	/* Nothing is written where it is so already: the brackets are still there. */
	assert_string_equal(step_for(s, n, "queue/scheduler")->before, "none");
	sysfs_text(top, text, sizeof(text), "class/block/sdc/queue/scheduler");
	assert_string_equal(text, "mq-deadline [none]");
	/* The tree has no such file, and that is no reason to stop. */
	assert_int_equal(step_for(s, n, "queue/rq_affinity")->failed, -ENOENT);
	assert_string_equal(step_for(s, n, "device/queue_depth")->after, "64");
}

/* ---- holders ---- */

static void test_stack(void **state)
{
	const char *top = sysfs_make("initiator");
	struct holders_stack s;
	char dm[128];

	(void)state;
	holders_stack(top, "sdc", &s);
	assert_int_equal(s.n, 4);
	assert_string_equal(s.name[0], "sdc");
	assert_string_equal(s.name[1], "sdc1");
	assert_string_equal(s.name[2], "md127");
	assert_string_equal(s.name[3], "dm-0");
	holders_dm_name(top, "dm-0", dm);
	assert_string_equal(dm, "rftp--iser-data");
	holders_dm_name(top, "sdc", dm);
	assert_string_equal(dm, "");
	assert_string_equal(holders_above(top, &s), "md127");
	assert_true(holders_is_partition(top, "sdc1"));
	holders_stack(top, "sdb", &s);
	assert_int_equal(s.n, 2);
	assert_string_equal(s.name[1], "loop3");
	holders_stack(top, "dm-0", &s);
	assert_int_equal(s.n, 1);
	assert_null(holders_above(top, &s));
}

/* One that nobody looked at could be mounted. */
static void test_big_stack(void **state)
{
	const char *top = sysfs_make("initiator");
	struct err e = ERR_INIT;
	struct holders_stack s;

	(void)state;
	for (unsigned i = 0; i < HOLDERS_MOST + 9; i++) {
		char path[9000];

		snprintf(path, sizeof(path), "%s/devices/virtual/block/dm-0/holders/dm-%u", top,
			 i + 1);
		assert_int_equal(make_dirs(path, 0700), 0);
	}
	holders_stack(top, "sdc", &s);
	assert_true(s.more);
	assert_int_equal(holders_check(top, &s, &e), -EBUSY);
	assert_non_null(strstr(e.text, "cannot be told"));
}

static void test_mounted(void **state)
{
	static const char info[] =
		"22 1 8:16 / / rw,relatime shared:1 - ext4 /dev/sdb rw\n"
		"36 22 8:1 /root /mnt/point rw - xfs /dev/sda1 rw\n";
	char where[64];

	(void)state;
	assert_true(holders_mounted(info, makedev(8, 1), where, sizeof(where)));
	assert_string_equal(where, "/mnt/point");
	assert_false(holders_mounted(info, makedev(8, 0), where, sizeof(where)));
	assert_false(holders_mounted(info, makedev(22, 1), where, sizeof(where)));
	assert_true(holders_swapped("Filename Type\n/dev/sda2  partition 1\n", "/dev/sda2"));
	assert_false(holders_swapped("Filename Type\n/dev/sda21 partition 1\n", "/dev/sda2"));
}

/* ---- stripes ---- */

#define MD(level, n, name, id) \
	"MD_LEVEL=" level "\nMD_DEVICES=" n "\nMD_NAME=" name "\nMD_UUID=" id "\nMD_ROLE=0\n"

static void test_members(void **state)
{
	struct stripe_member m;

	(void)state;
	stripe_md_member(MD("raid0", "2", "host:rftp-iser", "1:2:3:4"), &m);
	assert_int_equal(m.kind, STRIPE_MD);
	assert_string_equal(m.name, "rftp-iser");
	assert_string_equal(m.id, "1:2:3:4");
	assert_int_equal(m.of, 2);
	assert_true(m.striped);
	stripe_md_member(MD("raid5", "3", "x", "1:2:3:4"), &m);
	assert_false(m.striped);
	/* What anybody may have written on a disk becomes no path. */
	stripe_md_member(MD("raid0", "2", "host:../../etc/x", "1:2:3:4"), &m);
	assert_string_equal(m.name, "rftp-found");
	stripe_md_member(MD("raid0", "2", "-f", "1:2:3:4"), &m);
	assert_string_equal(m.name, "rftp-found");
	stripe_md_member("", &m);
	assert_int_equal(m.kind, STRIPE_NONE);
	stripe_md_member("MD_LEVEL=container\n", &m);
	assert_int_equal(m.kind, STRIPE_NONE);

	stripe_lvm_member("  rftp-iser|abc-def|2\n", &m);
	assert_int_equal(m.kind, STRIPE_LVM);
	assert_string_equal(m.name, "rftp-iser");
	assert_string_equal(m.id, "abc-def");
	assert_int_equal(m.of, 2);
	stripe_lvm_member("", &m);
	assert_int_equal(m.kind, STRIPE_NONE);
	/* Made for LVM, and in no group yet. */
	stripe_lvm_member("  ||0\n", &m);
	assert_int_equal(m.kind, STRIPE_NONE);
}

static int whole(enum stripe_kind kind, const char *a, const char *b, const char *c)
{
	const char *const texts[] = { a, b, c };
	struct stripe_member m[3];
	struct err e = ERR_INIT;
	unsigned n = 0;

	for (; n < 3 && texts[n]; n++)
		stripe_md_member(texts[n], &m[n]);
	return stripe_whole(kind, m, n, &e);
}

static void test_whole(void **state)
{
	static const char one[] = MD("raid0", "2", "a", "1:2:3:4"), two[] = MD("raid0", "2", "b",
									       "5:6:7:8"),
			  of_three[] = MD("raid0", "3", "a", "1:2:3:4"), mirror[] = MD("raid1", "2",
			  "a", "1:2:3:4");

	(void)state;
	assert_int_equal(whole(STRIPE_MD, one, one, NULL), 1);
	assert_int_equal(whole(STRIPE_MD, "", "", NULL), 0);
	/* None of these may ever become a new one. */
	assert_int_equal(whole(STRIPE_MD, one, "", NULL), -EEXIST);
	assert_int_equal(whole(STRIPE_MD, "", one, NULL), -EEXIST);
	assert_int_equal(whole(STRIPE_MD, one, two, NULL), -EEXIST);
	assert_int_equal(whole(STRIPE_MD, one, one, one), -EEXIST);
	assert_int_equal(whole(STRIPE_MD, of_three, of_three, NULL), -EEXIST);
	assert_int_equal(whole(STRIPE_MD, mirror, mirror, NULL), -EEXIST);
}

static void test_signatures(void **state)
{
	char out[16], name[STRIPE_NAME_ROOM];

	(void)state;
	stripe_signatures("", out, sizeof(out));
	assert_string_equal(out, "");
	stripe_signatures("  \n", out, sizeof(out));
	assert_string_equal(out, "");
	stripe_signatures("xfs\ndos\n", out, sizeof(out));
	assert_string_equal(out, "xfs, dos");
	/* Too long to be told is not nothing. */
	stripe_signatures("a_very_long_signature_it_is\n", out, sizeof(out));
	assert_string_equal(out, "?");
	assert_string_equal(stripe_name("two", name), "rftp-two");
	assert_string_equal(stripe_name(NULL, name), "rftp-iser");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sessions),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_opened),
		cmocka_unit_test(test_same),
		cmocka_unit_test(test_tune_table),
		cmocka_unit_test(test_tune_do),
		cmocka_unit_test(test_stack),
		cmocka_unit_test(test_big_stack),
		cmocka_unit_test(test_mounted),
		cmocka_unit_test(test_members),
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_signatures),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
