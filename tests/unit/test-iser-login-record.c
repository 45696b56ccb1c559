// SPDX-License-Identifier: Apache-2.0
/* open-iscsi's records, secrets' files, and the file of what login made. */
#include "iser_setup/kept.h"
#include "iser_setup/record.h"
#include "tests/support/tmptree.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define HEAD "# BEGIN RECORD 2.1.8\nnode.name = iqn.2026-01.org.example:a\n"
#define NONE "node.session.auth.authmethod = None\n"
#define TAIL "node.conn[0].port = 3260\n# END RECORD\n"

static const struct record_setting chap[] = {
	{ "node.session.auth.authmethod", "CHAP" }, { "node.session.auth.username", "u" },
	{ "node.session.auth.password", "s e c" }, { "node.session.auth.username_in", NULL },
};

static void edited(const char *text, const char *want)
{
	struct err e = ERR_INIT;
	char *out = record_edit(text, chap, 4, &e);

	assert_non_null(out);
	assert_string_equal(out, want);
	secret_free(out);
}

static void test_edit(void **state)
{
	static const char want[] = HEAD "node.conn[0].port = 3260\n"
		"node.session.auth.authmethod = CHAP\nnode.session.auth.username = u\n"
		"node.session.auth.password = s e c\n# END RECORD\n";
	struct err e = ERR_INIT;

	(void)state;
	edited(HEAD NONE TAIL, want);
	edited(want, want); /* nothing is there twice */
	/* What an administrator's defaults had put there, in whatever spelling. */
	edited(HEAD "node.session.auth.username=old\nnode.session.auth.username_in = back\n" TAIL,
	       want);
	/* Names that only begin alike stay. */
	edited(HEAD "node.session.auth.password_in = x\n" TAIL,
	       HEAD "node.session.auth.password_in = x\nnode.conn[0].port = 3260\n"
	       "node.session.auth.authmethod = CHAP\nnode.session.auth.username = u\n"
	       "node.session.auth.password = s e c\n# END RECORD\n");
	assert_null(record_edit(HEAD, chap, 4, &e));
	assert_int_equal(e.code, -EBADMSG);
	assert_null(record_edit("", chap, 4, &e));
}

static void test_check(void **state)
{
	static const char shown[] = HEAD "node.session.auth.authmethod = CHAP\n"
		"node.session.auth.username = u\nnode.session.auth.password = ********\n"
		"node.session.auth.username_in = <empty>\n" TAIL;
	static const char *const wrong[] = {
		HEAD "node.session.auth.authmethod = None\n" TAIL, HEAD TAIL,
		HEAD "node.session.auth.authmethod = CHAP\nnode.session.auth.username = u\n"
		"node.session.auth.password = <empty>\n" TAIL,
		HEAD "node.session.auth.authmethod = CHAP\nnode.session.auth.username = u\n"
		"node.session.auth.password = ********\nnode.session.auth.username_in = x\n" TAIL,
		HEAD "node.session.auth.authmethod = CHAP\nnode.session.auth.username = uu\n"
		"node.session.auth.password = ********\n" TAIL,
	};
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(record_check(shown, chap, 4, &e), 0);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (record_check(wrong[i], chap, 4, &e) != -EBADMSG)
			fail_msg("%zu was taken", i);
		assert_null(strstr(e.text, "s e c"));
	}
}

static mode_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : st.st_mode & 07777;
}

static void put(const char *path, const char *text, mode_t mode)
{
	unlink(path);
	assert_int_equal(write_file_atomic(path, text, strlen(text), mode, NULL), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_file(void **state)
{
	struct login_target t = { .iqn = "iqn.2026-01.org.example:a",
				  .portal = { "fd00::1", 3260 }, .tag = 1 };
	CLEANUP_FREE char *text = NULL;
	struct record_place at;
	struct err e = ERR_INIT;
	char path[8192], dir[8192], half[9000], other[9000];

	(void)state;
	snprintf(dir, sizeof(dir), "%s/etc/iscsi/nodes/%s/fd00::1,3260,1", tmp_dir, t.iqn);
	assert_int_equal(make_dirs(dir, 0700), 0);
	record_place_find(&at, tmp_dir);
	assert_int_equal(record_file(&at, &t, "iser", path, sizeof(path)), -ENOENT);
	strcat(dir, "/iser");
	put(dir, HEAD NONE TAIL, 0644);
	assert_int_equal(record_file(&at, &t, "iser", path, sizeof(path)), 0);
	assert_string_equal(path, dir);
	/* What a run that was killed has left of it goes; another's record stays. */
	snprintf(half, sizeof(half), "%s.ab12cd", path);
	put(half, HEAD, 0600);
	snprintf(other, sizeof(other), "%s.other", path);
	put(other, HEAD, 0600);
	assert_int_equal(record_set(&at, path, chap, 4, &e), 0);
	assert_int_equal(access(half, F_OK), -1);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(mode_of(path), 0600);
	assert_int_equal(read_file(path, 10000, &text, NULL), 0);
	assert_non_null(strstr(text, "node.session.auth.password = s e c\n"));
	/* And without another edit. */
	put(half, HEAD, 0600);
	record_drop_halves(&at, &t, "iser");
	assert_int_equal(access(half, F_OK), -1);
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(access(path, F_OK), 0);
	/* The lock is given back, and what it is made of is there. */
	assert_int_equal(mode_of(tmp_at("run/lock/iscsi/lock")) & 0077, 0);
	assert_int_equal(access(tmp_at("run/lock/iscsi/lock"), F_OK), 0);
	assert_int_equal(access(tmp_at("run/lock/iscsi/lock.write"), F_OK), -1);
	/* A record that cannot be edited stays as it is, and the lock is given back, too. */
	put(dir, HEAD, 0600);
	assert_int_equal(record_set(&at, path, chap, 4, &e), -EBADMSG);
	assert_int_equal(access(tmp_at("run/lock/iscsi/lock.write"), F_OK), -1);
	/* The place of RHEL and Debian 13, when it is there, or will be. */
	assert_int_equal(make_dirs(tmp_at("new/var/lib/iscsi"), 0700), 0);
	record_place_find(&at, tmp_at("new"));
	assert_string_equal(at.nodes + strlen(tmp_dir), "/new/var/lib/iscsi/nodes");
	assert_int_equal(make_dirs(tmp_at("new/etc/iscsi/nodes"), 0700), 0);
	record_place_find(&at, tmp_at("new"));
	assert_string_equal(at.nodes + strlen(tmp_dir), "/new/etc/iscsi/nodes");
	assert_int_equal(make_dirs(tmp_at("var/lib/iscsi/nodes"), 0700), 0);
	record_place_find(&at, tmp_dir);
	assert_string_equal(at.nodes + strlen(tmp_dir), "/var/lib/iscsi/nodes");
}

static void refused(const char *path, const char *want)
{
	struct err e = ERR_INIT;
	char *secret = secret_read(path, SECRET_THEIRS, &e);

	if (secret)
		fail_msg("%s was taken", path);
	if (!strstr(e.text, want))
		fail_msg("\"%s\" is not in \"%s\"", want, e.text);
	assert_null(strstr(e.text, "hush"));
}

static void test_secret(void **state)
{
	const char *path = tmp_at("secret");
	struct err e = ERR_INIT;
	char *secret, long_one[300];

	(void)state;
	put(path, "hush hush\nsecond line\n", 0600);
	secret = secret_read(path, SECRET_THEIRS, &e);
	assert_string_equal(secret, "hush hush");
	secret_free(secret);
	put(path, "hush", 0640);
	refused(path, "chmod 600");
	put(path, "hush", 0604);
	refused(path, "chmod 600");
	put(path, "\nhush\n", 0600);
	refused(path, "is empty");
	put(path, " hush\n", 0600);
	refused(path, "blank");
	put(path, "hush\thush\n", 0600);
	refused(path, "control character");
	memset(long_one, 'x', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	put(path, long_one, 0600);
	refused(path, "longer than 255");
	refused(tmp_at("none"), "No such file");
	refused(tmp_dir, "is no file");
}

/* ---- what login made ---- */

static void test_kept(void **state)
{
	const struct lock_wait at_once = { 0 };
	struct kept_session a = { .iqn = "iqn.2026-01.org.example:a", .portal = { "fd00::1", 3261 },
				  .tag = 2, .transport = LOGIN_TCP, .record = true }, b = a;
	struct stripe md = { STRIPE_MD, "rftp-iser", "1:2:3:4" },
		      lvm = { STRIPE_LVM, "rftp-iser", "a-b" },
		      namesake = { STRIPE_MD, "rftp-iser", "5:6:7:8" };
	struct err e = ERR_INIT;
	struct kept k, back;

	(void)state;
	assert_int_equal(kept_open(&k, tmp_at("state"), &at_once, &e), 0);
	assert_int_equal(k.n_sessions, 0);
	strcpy(b.iqn, "iqn.2026-01.org.example:b");
	b.record = false;
	assert_int_equal(kept_add(&k, &b), 0);
	assert_int_equal(kept_add(&k, &a), 0);
	assert_int_equal(kept_add(&k, &a), 0);
	assert_int_equal(k.n_sessions, 2);
	assert_int_equal(kept_add_stripe(&k, &md), 0);
	assert_int_equal(kept_add_stripe(&k, &lvm), 0);
	assert_int_equal(kept_add_stripe(&k, &lvm), 0);
	assert_int_equal(kept_add_stripe(&k, &namesake), 0);
	assert_int_equal(kept_write(&k, &e), 0);
	assert_int_equal(mode_of(tmp_at("state/initiator/login.json")), 0600);
	/* Nobody else meanwhile. */
	assert_int_equal(kept_open(&back, tmp_at("state"), &at_once, &e), -EBUSY);
	kept_close(&back);
	kept_close(&k);

	assert_int_equal(kept_open(&back, tmp_at("state"), &at_once, &e), 0);
	assert_int_equal(back.n_sessions, 2);
	assert_memory_equal(kept_find(&back, a.iqn), &a, sizeof(a));
	assert_false(kept_find(&back, b.iqn)->record);
	assert_int_equal(back.n_stripes, 3);
	assert_non_null(kept_stripe(&back, &lvm));
	assert_non_null(kept_stripe(&back, &namesake));
	assert_null(kept_stripe(&back, &(struct stripe){ STRIPE_LVM, "other", "a-b" }));
	kept_drop(&back, b.iqn);
	assert_null(kept_find(&back, b.iqn));
	assert_non_null(kept_find(&back, a.iqn));
	kept_drop_stripe(&back, &namesake);
	assert_int_equal(back.n_stripes, 2);
	assert_non_null(kept_stripe(&back, &md));
	kept_close(&back);
}

/* What is going to be made, and of which disks. */
static void test_kept_halves(void **state)
{
	struct kept_half a = { .stripe = { STRIPE_MD, "rftp-two", "1:2:3:4" }, .n = 2,
			       .disks = { { "iqn.2026-01.org.example:a", 0 },
					  { "iqn.2026-01.org.example:b", 3 } } }, b = a;
	struct kept k = { .lock = -1 }, back = { .lock = -1 };
	CLEANUP_FREE char *text = NULL;
	struct err e = ERR_INIT;

	(void)state;
	strcpy(b.stripe.id, "5:6:7:8");
	assert_int_equal(kept_add_half(&k, &a), 0);
	assert_int_equal(kept_add_half(&k, &b), 0);
	text = kept_text(&k);
	assert_int_equal(kept_parse(&back, "f", text, &e), 0);
	assert_int_equal(back.n_halves, 2);
	kept_drop_half(&back, "1:2:3:4");
	assert_int_equal(back.n_halves, 1);
	assert_memory_equal(&back.halves[0], &b, sizeof(b));
	kept_close(&back);
	kept_close(&k);
	/* A file from before there were any. */
	assert_int_equal(kept_parse(&back, "f", "{\"rftp-iser-login\":1,\"sessions\":[],"
				    "\"stripes\":[]}", &e), 0);
	assert_int_equal(back.n_halves, 0);
	kept_close(&back);
}

static void test_kept_damaged(void **state)
{
#define SESSION(iqn, port, transport) \
	"{\"target\":\"" iqn "\",\"address\":\"10.0.0.1\",\"port\":" port ",\"tag\":1," \
	"\"transport\":\"" transport "\",\"record\":true}"
#define FILE_OF(sessions, stripes) \
	"{\"rftp-iser-login\":1,\"sessions\":[" sessions "],\"stripes\":[" stripes "]}"
#define HALVES(halves) \
	"{\"rftp-iser-login\":1,\"sessions\":[],\"stripes\":[],\"halves\":[" halves "]}"
#define HALF(id, disks) \
	"{\"kind\":\"md\",\"name\":\"a\",\"id\":\"" id "\",\"disks\":[" disks "]}"
#define DISK "{\"target\":\"a\",\"lun\":0}"
	static const char *const bad[] = {
		"", "[]", "{}", "{\"rftp-iser-login\":1}", "{\"rftp-iser-login\":1",
		"{\"rftp-iser-login\":2,\"sessions\":[],\"stripes\":[]}",
		"{\"rftp-iser-login\":1,\"sessions\":\"x\",\"stripes\":[]}",
		"{\"rftp-iser-login\":1,\"sessions\":[],\"stripes\":{}}",
		FILE_OF("1", ""), FILE_OF("{}", ""), FILE_OF(SESSION("", "3260", "iser"), ""),
		FILE_OF(SESSION("--logoutall=all", "3260", "iser"), ""),
		FILE_OF(SESSION("../a", "3260", "iser"), ""),
		FILE_OF(SESSION("a", "0", "iser"), ""), FILE_OF(SESSION("a", "65536", "iser"), ""),
		FILE_OF(SESSION("a", "3260", "udp"), ""),
		FILE_OF("", "{\"kind\":\"none\",\"name\":\"a\",\"id\":\"\"}"),
		FILE_OF("", "{\"kind\":\"md\",\"name\":\"\",\"id\":\"\"}"),
		FILE_OF("", "{\"kind\":\"md\",\"name\":\"-f\",\"id\":\"\"}"),
		HALVES("{}"), HALVES(HALF("1:2", DISK)),
		HALVES(HALF("1:2", DISK ",{\"target\":\"a\"}")), HALVES(HALF("", DISK "," DISK)),
		HALVES(HALF("1:2", DISK ",{\"target\":\"-a\",\"lun\":0}")),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct kept k = { .lock = -1 };
		struct err e = ERR_INIT;

		if (kept_parse(&k, "f", bad[i], &e) != -EBADMSG)
			fail_msg("%s was taken", bad[i]);
		kept_close(&k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_edit),
		cmocka_unit_test(test_check),
		cmocka_unit_test(test_file),
		cmocka_unit_test(test_secret),
		cmocka_unit_test(test_kept),
		cmocka_unit_test(test_kept_halves),
		cmocka_unit_test(test_kept_damaged),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
