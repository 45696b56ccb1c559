// SPDX-License-Identifier: Apache-2.0
/* What is read of LIO's configfs, as Linux 6.1 shows it: tests/unit/sysfs/lio. */
#include "iser_setup/configfs.h"
#include "iser_setup/system.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/support/sysfs.h"

#define NODE1 "iqn.2026-01.org.test:node1"
#define INI "iqn.2026-01.org.test:ini"

static char top[2 * PATH_MAX];

#define GROUP_PATH (sizeof(top) + 256)

static struct lio *read_it(const char *configfs)
{
	struct err e = ERR_INIT;
	struct lio *l = lio_read(configfs, &e);

	assert_non_null(l);
	assert_string_equal(e.text, "");
	return l;
}

static int begin(void **state)
{
	char path[sizeof(top) + 8];

	if (tmp_setup(state))
		return -1;
	snprintf(top, sizeof(top), "%s", sysfs_make("lio"));
	setenv("RFTP_CONFIGFS", top, 1);
	snprintf(path, sizeof(path), "%s/sys", top);
	setenv("RFTP_SYSFS", path, 1);
	snprintf(path, sizeof(path), "%s/proc", top);
	return setenv("RFTP_PROC", path, 1);
}

/* ---- back stores ---- */

static void store_is(const struct lio *l, const char *plugin, const char *name, const char *path,
		     uint64_t size, bool write_back, const char *serial)
{
	const struct lio_store *s = lio_store(l, plugin, name);

	assert_non_null(s);
	assert_string_equal(s->path, path);
	assert_int_equal(s->size, size);
	assert_int_equal(s->write_back, write_back);
	assert_string_equal(s->serial, serial);
}

static void test_stores(void **state)
{
	struct lio *l CLEANUP_LIO = read_it(NULL);

	(void)state;
	assert_true(l->there && l->iscsi);
	assert_int_equal(l->n_stores, 7);
	store_is(l, "fileio", "d1", "/ram1/disk.img", 67108864, true,
		 "11111111-2222-3333-4444-555555555555");
	/* A path that looks like what comes behind it. */
	store_is(l, "fileio", "d2", "/a  Size: 5 Mode: Buffered-WCE b", 1048576, false,
		 "e9fd02cc-eeb3-4001-b75e-11aedb0e857e");
	store_is(l, "iblock", "b1", "/dev/loop0", 67108864, true,
		 "7810f858-7c57-468b-9790-68faf291947b");
	store_is(l, "iblock", "b_2", "/dev/sda1", 1048576, false, "");
	store_is(l, "rd_mcp", "r1", "", 8388608, false, "");
	store_is(l, "rd_mcp", "half", "", 0, false, "");
	store_is(l, "pscsi", "tape", "/dev/sg0", 0, false, "");
	assert_true(lio_store(l, "rd_mcp", "r1")->enabled);
	assert_false(lio_store(l, "rd_mcp", "half")->enabled);
	assert_null(lio_store(l, "iblock", "d1"));
	assert_null(lio_store(l, "fileio", "d"));
}

static void test_attributes(void **state)
{
	struct lio *l CLEANUP_LIO = read_it(NULL);
	const char *dir = lio_store(l, "fileio", "d1")->dir;
	unsigned long long v = 7;

	(void)state;
	assert_int_equal(lio_attribute(dir, "emulate_write_cache", &v), 0);
	assert_int_equal(v, 1);
	assert_int_equal(lio_attribute(dir, "big", &v), 0);
	assert_true(v == ULLONG_MAX);
	assert_int_equal(lio_attribute(dir, "bigger", &v), -EINVAL);
	assert_int_equal(lio_attribute(dir, "odd", &v), -EINVAL);
	assert_int_equal(lio_attribute(dir, "negative", &v), -EINVAL);
	assert_int_equal(lio_attribute(dir, "missing", &v), -ENOENT);
	assert_int_equal(lio_attribute(dir, "../enable", &v), -EINVAL);
	assert_int_equal(lio_attribute(dir, "", &v), -EINVAL);
	assert_int_equal(lio_attribute(lio_target(l, NODE1)->dir, "authentication", &v), 0);
	assert_int_equal(v, 1);
}

/* ---- targets ---- */

static void test_targets(void **state)
{
	struct lio *l CLEANUP_LIO = read_it(NULL);
	const struct lio_target *t = lio_target(l, NODE1);

	(void)state;
	assert_string_equal(l->cpus, "0-1");
	/* Three groups of one, one each of two, and one that has none; no loopback's. */
	assert_int_equal(l->n_targets, 6);
	assert_non_null(t);
	assert_true(t->enabled);
	assert_int_equal(t->tag, 1);
	assert_int_equal(lio_target(l, "iqn.2026-01.org.test:groups")->tag, 1);
	assert_false(lio_target(l, "iqn.2026-01.org.test:groups")->enabled);
	assert_int_equal(lio_target(l, "iqn.2026-01.org.test:other")->tag, 2);
	assert_int_equal(lio_target(l, "iqn.2026-01.org.test:none")->tag, LIO_NO_GROUP);
	assert_null(lio_target(l, "discovery_auth"));
	assert_null(lio_target(l, "naa.5001405000000001"));
}

static void test_portals(void **state)
{
	struct lio *l CLEANUP_LIO = read_it(NULL);
	const struct lio_target *t = lio_target(l, NODE1);

	(void)state;
	assert_int_equal(t->n_portals, 2);
	assert_true(lio_portal(t, "10.0.0.1", 3260)->iser);
	assert_false(lio_portal(t, "fd00::1", 3261)->iser);
	assert_string_equal(lio_portal(t, "fd00:0::0001", 3261)->address, "fd00::1");
	assert_null(lio_portal(t, "fd00::1", 3260));
	assert_null(lio_portal(t, "10.0.0.2", 3260));
	assert_null(lio_portal(t, "::ffff:10.0.0.1", 3260));
}

static void test_luns(void **state)
{
	static const unsigned order[] = { 0, 2, 3, 4, 10 };
	struct lio *l CLEANUP_LIO = read_it(NULL);
	const struct lio_target *t = lio_target(l, NODE1);

	(void)state;
	assert_int_equal(t->n_luns, 5);
	for (size_t i = 0; i < t->n_luns; i++)
		assert_int_equal(t->luns[i].lun, order[i]);
	assert_string_equal(lio_lun(t, 0)->plugin, "fileio");
	assert_string_equal(lio_lun(t, 0)->store, "d1");
	assert_string_equal(lio_lun(t, 10)->plugin, "iblock");
	assert_string_equal(lio_lun(t, 10)->store, "b_2");
	assert_string_equal(lio_lun(t, 2)->plugin, "rd_mcp");
	/* A link to nowhere, and none. */
	assert_null(lio_lun(t, 3)->plugin);
	assert_null(lio_lun(t, 3)->store);
	assert_null(lio_lun(t, 4)->store);
	assert_null(lio_lun(t, 1));
}

static void test_initiators(void **state)
{
	struct lio *l CLEANUP_LIO = read_it(NULL);
	const struct lio_target *t = lio_target(l, NODE1);
	const struct lio_acl *a = lio_acl(t, INI), *b = lio_acl(t, INI "2");

	(void)state;
	assert_int_equal(t->n_acls, 2);
	assert_string_equal(a->user, "u");
	assert_string_equal(a->secret, "secretsecret1");
	assert_string_equal(a->mutual_user, "m");
	assert_string_equal(a->mutual_secret, "othersecret12");
	/* By the target's numbers, which may be others than the initiator's; one leads nowhere. */
	assert_int_equal(a->n_mapped, 2);
	assert_int_equal(a->mapped[0].lun, 0);
	assert_int_equal(a->mapped[1].lun, 2);
	assert_int_equal(a->mapped[1].as, 0);
	assert_true(a->mapped[1].read_only);
	assert_false(a->mapped[0].read_only);
	assert_true(a->logged_in);
	assert_string_equal(a->session, "InitiatorName: " INI ", InitiatorAlias: guest, LIO Session "
			    "ID: 1   ISID: 0x00 02 3d 00 00 01  TSIH: 1  SessionType: Normal, "
			    "Session State: TARG_SESS_STATE_LOGGED_IN, CID: 0  Connection State: "
			    "TARG_CONN_STATE_LOGGED_IN, Address 10.0.0.1 SCTP  StatSN: 0x1e443b8b");
	assert_string_equal(b->user, "");
	assert_string_equal(b->secret, "");
	assert_int_equal(b->n_mapped, 0);
	assert_false(b->logged_in);
	assert_string_equal(b->session, "");
	assert_null(lio_acl(t, "iqn.2026-01.org.test:in"));
}

static void put_bytes(const char *path, const char *bytes, size_t len)
{
	assert_int_equal(write_file_atomic(path, bytes, len, 0600, NULL), 0);
}

static char *group_file(char path[GROUP_PATH], const char *name)
{
	snprintf(path, GROUP_PATH, "%s/target/iscsi/" NODE1 "/tpgt_1/%s", top, name);
	return path;
}

/* Each name with its newline, and a NUL behind it, as the kernel writes them. */
static void test_dynamic(void **state)
{
	static const char two[] = "iqn.a:b\n\0iqn.c:d\n";
	struct lio *l = read_it(NULL);
	char path[GROUP_PATH];

	(void)state;
	assert_int_equal(lio_target(l, NODE1)->dynamic, 0);
	lio_free(l);
	put_bytes(group_file(path, "dynamic_sessions"), two, sizeof(two));
	l = read_it(NULL);
	assert_int_equal(lio_target(l, NODE1)->dynamic, 2);
	lio_free(l);
	unlink(path);
}

/* ---- mounts ---- */

static void test_mounts(void **state)
{
	struct lio *l CLEANUP_LIO = read_it(NULL);

	(void)state;
	assert_int_equal(l->n_mounts, 4);
	assert_int_equal(ids_count(&lio_mount(l, "/dev/shm")->nodes), 0);
	/* The one on top of the other. */
	assert_string_equal(lio_mount(l, "/ram1")->source, "second");
	assert_int_equal(ids_count(&lio_mount(l, "/ram1")->nodes), 2);
	assert_string_equal(lio_mount(l, "/a b\\")->source, "my\tsource");
	assert_int_equal(ids_only(&lio_mount(l, "/a b\\")->nodes), 2);
	assert_string_equal(lio_mount(l, "/a b\\")->options, "rw,mpol=prefer:2");
	/* The second there is to be seen; of the other it is a disk. */
	assert_false(lio_mount(l, "/ram1")->covered);
	assert_true(l->mounts[1].covered && !strcmp(l->mounts[1].path, "/ram1"));
	assert_true(lio_mount(l, "/a b\\")->covered);
	assert_null(lio_mount(l, "/home"));
	assert_null(lio_mount(l, "/x"));
}

/* ---- less, and more, than there should be ---- */

static void test_nothing(void **state)
{
	struct lio *l;

	(void)state;
	tmp_mkdir("empty");
	l = read_it(tmp_at("empty"));
	assert_false(l->there || l->iscsi);
	assert_int_equal(l->n_stores + l->n_targets, 0);
	assert_null(l->cpus);
	lio_free(l);
	l = read_it("/nowhere/at/all");
	assert_false(l->there);
	lio_free(l);
	/* The module alone, and with the fabric of a kernel that has no list of CPUs. */
	tmp_mkdir("empty/target");
	l = read_it(tmp_at("empty"));
	assert_true(l->there && !l->iscsi);
	lio_free(l);
	tmp_mkdir("empty/target/iscsi");
	l = read_it(tmp_at("empty"));
	assert_true(l->there && l->iscsi && !l->cpus);
	lio_free(l);
}

/* Else remove would take away nothing, and forget all. */
static void test_no_descriptors(void **state)
{
	struct rlimit before, few;
	struct err e = ERR_INIT;
	struct lio *l;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	few.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	l = lio_read(NULL, &e);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_null(l);
	assert_non_null(strstr(e.text, "descriptors"));
}

static void test_odd_names(void **state)
{
	static const char said[] = "InitiatorName: a\x1b[2J\n x: y\nb";
	char path[GROUP_PATH], *huge;
	struct lio *l;

	(void)state;
	/* A directory where a file should be; a name of no letters; a file that has no end. */
	assert_int_equal(make_dirs(group_file(path, "lun/lun_5"), 0755), 0);
	assert_int_equal(make_dirs(group_file(path, "acls/\xff\x01 \n/info"), 0755), 0);
	assert_int_equal(make_dirs(group_file(path, "acls/huge"), 0755), 0);
	huge = calloc(1, 4u << 20);
	memset(huge, 'I', 4u << 20);
	put_bytes(group_file(path, "acls/huge/info"), huge, 4u << 20);
	free(huge);
	l = read_it(NULL);
	assert_int_equal(lio_target(l, NODE1)->n_acls, 4);
	assert_false(lio_acl(lio_target(l, NODE1), "\xff\x01 \n")->logged_in);
	assert_string_equal(lio_acl(lio_target(l, NODE1), "\xff\x01 \n")->session, "");
	assert_false(lio_acl(lio_target(l, NODE1), "huge")->logged_in);
	assert_null(lio_lun(lio_target(l, NODE1), 5)->plugin);
	lio_free(l);
	/* What an initiator calls itself is one line all the same. */
	put_bytes(group_file(path, "acls/huge/info"), said, strlen(said));
	l = read_it(NULL);
	assert_string_equal(lio_acl(lio_target(l, NODE1), "huge")->session,
			    "InitiatorName: a [2J, b");
	lio_free(l);
}

/* Reading goes on while all of it is taken away. */
static void test_vanishes(void **state)
{
	char command[8 * PATH_MAX];
	pid_t pid;
	int status;

	(void)state;
	snprintf(command, sizeof(command), "i=0; while [ $i -lt 10 ]; do i=$((i+1)); cp -a %s/target "
		 "%s/copy.$i && mkdir -p %s/gone && mv %s/copy.$i %s/gone/target && "
		 "rm -rf %s/gone; done", top, tmp_dir, tmp_dir, tmp_dir, tmp_dir, tmp_dir);
	pid = fork();
	if (!pid) {
		execlp("sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	while (!waitpid(pid, &status, WNOHANG))
		lio_free(read_it(tmp_at("gone")));
	assert_int_equal(status, 0);
}

static void test_numbered(void **state)
{
	unsigned n = 9;

	(void)state;
	assert_true(cfs_numbered("lun_0", "lun_", 255, &n) && n == 0);
	assert_true(cfs_numbered("lun_255", "lun_", 255, &n) && n == 255);
	assert_false(cfs_numbered("lun_256", "lun_", 255, &n));
	assert_false(cfs_numbered("lun_", "lun_", 255, &n));
	assert_false(cfs_numbered("lun_1a", "lun_", 255, &n));
	assert_false(cfs_numbered("lun_-1", "lun_", 255, &n));
	assert_false(cfs_numbered("lun_99999999999999999999999", "lun_", 255, &n));
	assert_false(cfs_numbered("lin_1", "lun_", 255, &n));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stores), cmocka_unit_test(test_attributes),
		cmocka_unit_test(test_targets), cmocka_unit_test(test_portals),
		cmocka_unit_test(test_luns), cmocka_unit_test(test_initiators),
		cmocka_unit_test(test_dynamic), cmocka_unit_test(test_mounts),
		cmocka_unit_test(test_no_descriptors),
		cmocka_unit_test(test_nothing), cmocka_unit_test(test_odd_names),
		cmocka_unit_test(test_vanishes), cmocka_unit_test(test_numbered),
	};

	return cmocka_run_group_tests(tests, begin, tmp_teardown);
}
