// SPDX-License-Identifier: Apache-2.0
/* What an administrator writes of a plan, read. */
#include "iser_setup/spec.h"

#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#define ME "iqn.2026-01.org.example:me"

static const char whole[] =
	"[plan]\n"
	"name = store\n"
	"iqn = iqn.2026-01.org.example\n"
	"cpus = any\n"
	"tcp = yes\n"
	"mounts = /run/x\n"
	"secrets = /etc/x\n"
	"[node *]\n"
	"tmpfs = 4G      # on each\n"
	"policy = prefer\n"
	"write = back\n"
	"lun-attribute = emulate_tpu 1\n"
	"[node 1]\n"
	"file = /srv/disk 100G\n"
	"block = /dev/nvme1n1\n"
	"ramdisk = 1M\n"
	"portal = 192.0.2.2:3261\n"
	"portal = auto\n"
	"policy = bind\n"
	"target-attribute = default_cmdsn_depth  128\n"
	"[node *]\n"
	"tmpfs = 1G\n"
	"[initiator " ME "]\n"
	"chap-secret = generate\n"
	"mutual-user = it\n"
	"mutual-secret = /etc/it\n"
	"[initiator iqn.2026-01.org.example:you]\n";

static void test_whole(void **state)
{
	CLEANUP_SPEC struct spec *s = spec_new();
	const struct spec_node *each, *one;
	struct err e = ERR_INIT;

	(void)state;
	if (spec_parse(s, "f", whole, &e))
		fail_msg("%s", e.text);
	assert_string_equal(s->name, "store");
	assert_string_equal(s->iqn, "iqn.2026-01.org.example");
	assert_int_equal(s->cpus, ISER_CPUS_ANY);
	assert_true(s->tcp);
	assert_false(s->open);
	assert_string_equal(s->mounts, "/run/x");
	assert_string_equal(s->secrets, "/etc/x");
	assert_int_equal(s->n_nodes, 2);
	each = spec_node(s, SPEC_EACH);
	assert_int_equal(each->n_stores, 2); /* a section goes on where it was left */
	assert_int_equal(each->stores[1].size, 1ull << 30);
	assert_int_equal(each->policy, ISER_PREFER);
	assert_int_equal(each->write_back, 1);
	assert_string_equal(each->lun_attributes[0].name, "emulate_tpu");
	one = spec_node(s, 1);
	assert_int_equal(one->n_stores, 3);
	assert_int_equal(one->stores[0].kind, ISER_FILE);
	assert_string_equal(one->stores[0].path, "/srv/disk");
	assert_int_equal(one->stores[0].size, 100ull << 30);
	assert_int_equal(one->stores[1].kind, ISER_BLOCK);
	assert_int_equal(one->stores[1].size, 0);
	assert_int_equal(one->stores[2].kind, ISER_RAMDISK);
	assert_int_equal(one->n_portals, 2);
	assert_string_equal(one->portals[0], "192.0.2.2:3261");
	assert_int_equal(one->policy, ISER_BIND);
	assert_int_equal(one->write_back, SPEC_UNSAID);
	assert_int_equal(one->target_attributes[0].value, 128);
	assert_int_equal(s->n_initiators, 2);
	assert_string_equal(s->initiators[0].chap_secret, SPEC_GENERATE);
	assert_string_equal(s->initiators[0].mutual_user, "it");
	assert_null(s->initiators[1].chap_secret);
	assert_null(spec_node(s, 0));
}

static void test_wrong(void **state)
{
	static const struct { const char *text, *says; } cases[] = {
		{ "name = x", "f:1: \"name\" is in no section" },
		{ "[plans]", "f:1: [plans] is none of [plan], [node N]" },
		{ "[plan]\nsize = 1", "f:2: [plan] has no \"size\"" },
		{ "[plan]\nname = a/b", "f:2: \"a/b\" has other characters" },
		{ "[plan]\niqn = example.org", "f:2: \"example.org\" is no iSCSI name" },
		{ "[plan]\niqn = iqn.2026-01.org.example:x",
		  "is more than the beginning of names" },
		{ "[plan]\niqn = eui.0123456789abcdef", "is more than the beginning of names" },
		{ "[plan]\ncpus = all", "f:2: \"all\" is none of nodes, any" },
		{ "[plan]\nopen = maybe", "f:2: \"maybe\" is neither yes nor no" },
		{ "[plan]\nmounts = run", "\"run\" does not begin with a slash" },
		{ "[plan]\nsecrets = /a/../b", "\"/a/../b\" has an empty part" },
		{ "[node]\n", "f:1: [node] is none of" },
		{ "[node x]\n", "f:1: \"x\" is no node" },
		{ "[node 1024]\n", "f:1: \"1024\" is no node" },
		{ "[node -1]\n", "f:1: \"-1\" is no node" },
		{ "[node 0]\nsize = 1", "f:2: [node] has no \"size\"" },
		{ "[node 0]\ntmpfs = big", "f:2: \"big\" is no size" },
		{ "[node 0]\ntmpfs = -1G", "is no size" },
		{ "[node 0]\ntmpfs = 1K", "f:2: \"1K\" is less than 1 MiB" },
		{ "[node 0]\nfile = /x", "f:2: a file wants its size, too: /x 100G" },
		{ "[node 0]\nfile = x 1G", "\"x\" does not begin with a slash" },
		{ "[node 0]\nfile = /x,y 1G", "\"/x,y\" has a comma" },
		{ "[node 0]\nfile = /x 1G 2G", "\"1G 2G\" is no size" },
		{ "[node 0]\nblock = nvme0n1", "\"nvme0n1\" is not below /dev" },
		{ "[node 0]\npolicy = local", "\"local\" is none of bind, prefer" },
		{ "[node 0]\nwrite = later", "\"later\" is none of through, back" },
		{ "[node *]\nportal = 192.0.2.1", "a portal belongs into the section of its node" },
		{ "[node 0]\nportal = 192.0.2.1:0", "f:2: \"0\" is no port" },
		{ "[node 0]\nportal = [2001:db8::2]x", "\"x\" is no port" },
		{ "[node 0]\nportal = ens1f0:65536", "\"65536\" is no port" },
		{ "[node 0]\nportal = 0.0.0.0", "f:2: \"0.0.0.0\" stands for all addresses" },
		{ "[node 0]\nportal = 2001:DB8::2", "is not in its usual form" },
		{ "[node 0]\nportal = [fe80::1]:3260", "is an address of its link only" },
		{ "[node 0]\nlun-attribute = emulate_tpu",
		  "the attribute emulate_tpu wants a number" },
		{ "[node 0]\nlun-attribute = ../x 1", "\"../x\" is no attribute's name" },
		{ "[node 0]\ntarget-attribute = a 4294967296",
		  "wants a number from 0 to 4294967295" },
		{ "[plan]\n; what it is for", "f:2: a comment begins with \"#\"" },
		{ "[node 0]\n\n ;tmpfs = 4G", "f:3: a comment begins with \"#\"" },
		{ "[node 0]\ntmpfs = 4G ; on each", "\"4G ; on each\" is no size" },
		{ "[node 0]\nblock = /dev/sdb ;mine", "\"/dev/sdb ;mine\" has a comma, a blank" },
		{ "[initiator me]", "f:1: the initiator \"me\" is no iSCSI name" },
		{ "[initiator " ME "]\nuser = x", "f:2: [initiator] has no \"user\"" },
		{ "[initiator " ME "]\nchap-user = \"a b\"", "\"a b\" has a blank" },
		{ "[initiator " ME "]\nchap-secret = topsecret",
		  "\"topsecret\" does not begin with" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_SPEC struct spec *s = spec_new();
		struct err e = ERR_INIT;

		assert_int_equal(spec_parse(s, "f", cases[i].text, &e), -EINVAL);
		if (!strstr(e.text, cases[i].says))
			fail_msg("\"%s\" lacks \"%s\"", e.text, cases[i].says);
		assert_int_equal(spec_parse(s, "f", cases[i].text, NULL), -EINVAL);
	}
}

/* A character as others are: the half of a user's name would let nobody in. */
static void test_semicolon(void **state)
{
	CLEANUP_SPEC struct spec *s = spec_new();
	struct err e = ERR_INIT;

	(void)state;
	if (spec_parse(s, "f", "[plan]\nmounts = /run/a;b\n[initiator " ME "]\nchap-user = me;you\n"
		       "mutual-user = \"you;me\" # not ; it\n", &e))
		fail_msg("%s", e.text);
	assert_string_equal(s->mounts, "/run/a;b");
	assert_string_equal(s->initiators[0].chap_user, "me;you");
	assert_string_equal(s->initiators[0].mutual_user, "you;me");
}

/* As options do it: over what a file has said. */
static void test_set(void **state)
{
	CLEANUP_SPEC struct spec *s = spec_new();
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(spec_parse(s, "f", whole, &e), 0);
	assert_int_equal(spec_set(s, "plan", "name", "other", &e), 0);
	assert_int_equal(spec_set(s, "node *", "write", "through", &e), 0);
	assert_int_equal(spec_set(s, "node 3", "tmpfs", "1M", &e), 0);
	assert_int_equal(spec_set(s, "initiator " ME, NULL, NULL, &e), 0);
	assert_string_equal(s->name, "other");
	assert_int_equal(spec_node(s, SPEC_EACH)->write_back, 0);
	assert_int_equal(spec_node(s, 3)->n_stores, 1);
	assert_int_equal(s->n_initiators, 2);
	assert_int_equal(spec_set(s, "node 3", "tmpfs", "", NULL), -EINVAL);
}

static void test_locate(void **state)
{
	struct topo *t = sysfs_topo("two");
	CLEANUP_SPEC struct spec *s = spec_new();
	const struct spec_node *n;

	(void)state;
	assert_int_equal(spec_parse(s, "f", "[node *]\nblock = /dev/nvme0n1p1\n"
				    "block = /dev/nvme1n1\nblock = /dev/md0\nblock = /dev/none\n"
				    "file = /srv/none/disk 1G\ntmpfs = 1G\n", NULL), 0);
	spec_locate(s, t, false);
	n = spec_node(s, SPEC_EACH);
	assert_int_equal(n->stores[0].found, 0);
	assert_int_equal(n->stores[1].found, 1);
	assert_int_equal(n->stores[2].found, NODE_UNKNOWN); /* on both */
	assert_int_equal(n->stores[3].found, NODE_UNKNOWN);
	assert_int_equal(n->stores[4].found, NODE_UNKNOWN); /* not looked for here */
	assert_int_equal(n->stores[5].found, NODE_UNKNOWN);
	topo_free(t);
}

/* A file that is still to be made is where the directory above it is. */
static void test_locate_file(void **state)
{
	CLEANUP_SPEC struct spec *s = spec_new();
	CLEANUP_FREE char *line = NULL;
	char top[8192], path[9000];
	struct err e = ERR_INIT;
	struct stat st;
	struct topo *t;

	(void)state;
	snprintf(top, sizeof(top), "%s", sysfs_make("two"));
	assert_int_equal(stat(tmp_dir, &st), 0);
	snprintf(path, sizeof(path), "%s/dev/block", top);
	assert_int_equal(make_dirs(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/dev/block/%u:%u", top, major(st.st_dev),
		 minor(st.st_dev));
	unlink(path);
	assert_int_equal(symlink("../../class/block/nvme1n1", path), 0);
	t = topo_read(top, &e);
	assert_non_null(t);
	assert_true(asprintf(&line, "%s/new/er/disk 1G", tmp_dir) > 0);
	assert_int_equal(spec_set(s, "node *", "file", line, &e), 0);
	spec_locate(s, t, true);
	assert_int_equal(spec_node(s, SPEC_EACH)->stores[0].found, 1);
	topo_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_whole),
		cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_semicolon),
		cmocka_unit_test(test_set),
		cmocka_unit_test(test_locate),
		cmocka_unit_test(test_locate_file),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
