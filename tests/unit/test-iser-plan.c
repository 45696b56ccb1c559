// SPDX-License-Identifier: Apache-2.0
/* A plan's JSON, there and back, and what may not be in one. */
#include "iser_setup/plan.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define A "11111111-1111-1111-1111-111111111111"
#define B "22222222-2222-2222-2222-222222222222"
#define IQN "iqn.2026-01.org.example:node0"
#define ME "iqn.2026-01.org.example:me"
#define YOU "iqn.2026-01.org.example:you"

/* Small plans: their parts, and what stands in their place in the broken ones. */
#define PLAN(name, targets) \
	"{\"rftp-iser-plan\": 1, \"name\": " name ", \"targets\": [" targets "]}"
#define TARGET(iqn, more, portals, initiators, luns) \
	"{\"iqn\": \"" iqn "\"" more ", \"portals\": [" portals "], \"initiators\": [" initiators \
	"], \"luns\": [" luns "]}"
#define PORTAL "{\"address\": \"192.0.2.1\"}"
#define WHO "{\"name\": \"" ME "\"}"
#define LUN(n, more) "{\"lun\": " #n ", \"name\": \"disk" #n "\"" more "}"
#define RAM(serial) ", \"kind\": \"ramdisk\", \"size\": 1048576, \"serial\": \"" serial "\""
#define TMPFS(serial, path) ", \"kind\": \"tmpfs\", \"node\": 0, \"size\": 1048576, " \
	"\"path\": \"" path "\", \"serial\": \"" serial "\""
#define DISK LUN(0, RAM(A))
#define NEXT LUN(1, RAM(B))

#define NAMED(name) PLAN(name, TARGET(IQN, "", PORTAL, WHO, DISK))
#define TARGETS(targets) PLAN("\"p\"", targets)
#define IQN_IS(iqn) TARGETS(TARGET(iqn, "", PORTAL, WHO, DISK))
#define MORE(more) TARGETS(TARGET(IQN, more, PORTAL, WHO, DISK))
#define PORTALS(portals) TARGETS(TARGET(IQN, "", portals, WHO, DISK))
#define ADDRESS(address) PORTALS("{\"address\": \"" address "\"}")
#define WHOS(initiators) TARGETS(TARGET(IQN, "", PORTAL, initiators, DISK))
#define CHAP(user, file) "{\"user\": \"" user "\", \"secret-file\": \"" file "\"}"
#define CHAPS(chap, mutual) \
	WHOS("{\"name\": \"" ME "\", \"chap\": " chap ", \"mutual-chap\": " mutual "}")
#define LUNS(luns) TARGETS(TARGET(IQN, "", PORTAL, WHO, luns))
#define STORE(more) LUNS(LUN(0, more))
#define SIZED(kind, size) STORE(", \"kind\": \"" kind "\", \"size\": " size ", \"path\": \"/f\", " \
				"\"serial\": \"" A "\", \"node\": 0")
#define PATH(kind, path) STORE(", \"kind\": \"" kind "\", \"size\": 1048576, \"serial\": \"" A \
			       "\", \"path\": \"" path "\", \"node\": 0")
#define ATTRIBUTE(name, value) STORE(RAM(A) ", \"attributes\": {\"" name "\": " value "}")

static const char whole[] =
	"{\"rftp-iser-plan\":1,\"name\":\"store\",\"cpus\":\"any\",\"targets\":["
	"{\"node\":0,\"iqn\":\"" IQN "\",\"open\":false,\"portals\":["
	"{\"address\":\"192.0.2.1\",\"port\":3261,\"netdev\":\"ens1f0\",\"iser\":true},"
	"{\"address\":\"2001:db8::1\",\"port\":3260,\"iser\":false}],"
	"\"initiators\":[{\"name\":\"" ME "\",\"chap\":{\"user\":\"me\",\"secret-file\":\"/s/me\"},"
	"\"mutual-chap\":{\"user\":\"it\",\"secret-file\":\"/s/it\"}},"
	"{\"name\":\"eui.0123456789abcdef\",\"chap\":{\"user\":\"e\",\"secret-file\":\"/s/e\"}}],"
	"\"luns\":[{\"lun\":0,\"name\":\"m\",\"kind\":\"tmpfs\",\"node\":0,\"size\":2097152,"
	"\"policy\":\"prefer\",\"path\":\"/run/m\",\"write-back\":true,\"serial\":\"" A "\","
	"\"attributes\":{\"emulate_tpu\":1,\"block_size\":4096}},"
	"{\"lun\":7,\"name\":\"f\",\"kind\":\"file\",\"node\":-1,\"size\":1048576,"
	"\"path\":\"/srv/f\",\"write-back\":false,\"serial\":\"" B "\"}],"
	"\"attributes\":{\"default_cmdsn_depth\":128}},"
	"{\"node\":1,\"iqn\":\"naa.0123456789abcdef\",\"open\":true,\"portals\":["
	"{\"address\":\"192.0.2.1\",\"port\":3261,\"netdev\":\"ens1f0\",\"iser\":true}],"
	"\"initiators\":[],\"luns\":[{\"lun\":0,\"name\":\"b\",\"kind\":\"block\",\"node\":1,"
	"\"size\":0,\"path\":\"/dev/disk/by-id/nvme-x:1\",\"write-back\":false,"
	"\"serial\":\"33333333-3333-3333-3333-333333333333\"},"
	"{\"lun\":1,\"name\":\"r\",\"kind\":\"ramdisk\",\"node\":1,\"size\":1048576,"
	"\"write-back\":false,\"serial\":\"44444444-4444-4444-4444-444444444444\"}]}]}";

static void test_there_and_back(void **state)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
	CLEANUP_FREE char *text = NULL;
	struct err e = ERR_INIT;
	json_t *json;

	(void)state;
	p = iser_plan_parse("p", whole, &e);
	if (!p)
		fail_msg("%s", e.text);
	json = iser_plan_json(p);
	text = json_dumps(json, JSON_COMPACT);
	json_decref(json);
	assert_string_equal(text, whole);
	assert_int_equal(p->cpus, ISER_CPUS_ANY);
	assert_int_equal(p->n_targets, 2);
	assert_int_equal(p->targets[0].portals[0].port, 3261);
	assert_int_equal(p->targets[0].stores[0].policy, ISER_PREFER);
	assert_int_equal(p->targets[0].stores[1].node, NODE_UNKNOWN);
	assert_string_equal(p->targets[0].initiators[0].mutual.secret_file, "/s/it");
	assert_true(p->targets[1].open);
}

/* What is not said. */
static void test_defaults(void **state)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
	struct err e = ERR_INIT;

	(void)state;
	p = iser_plan_parse("p", NAMED("\"p\""), &e);
	if (!p)
		fail_msg("%s", e.text);
	assert_int_equal(p->cpus, ISER_CPUS_NODES);
	assert_int_equal(p->targets[0].node, NODE_UNKNOWN);
	assert_false(p->targets[0].open);
	assert_int_equal(p->targets[0].portals[0].port, ISER_PORT);
	assert_true(p->targets[0].portals[0].iser);
	assert_false(p->targets[0].stores[0].write_back);
}

/* One text each, of which the beginning is where it is. */
static void test_broken(void **state)
{
	static const struct { const char *json, *text; } cases[] = {
		{ "[]", "is no JSON object" },
		{ "{}", "is no plan" },
		{ "{\"rftp-iser-plan\": 2}", "is of a later format" },
		{ "{\"a\": 1, \"a\": 2}", "duplicate object key" },
		{ "{\"rftp-iser-plan\": 1", "expected near end of file" },
		{ NAMED("7"), "name is no text" },
		{ NAMED("\"\""), "name is missing" },
		{ NAMED("null"), "name is missing" },
		{ NAMED("\"a/b\""), "name \"a/b\" has other characters" },
		{ NAMED("\"..\""), "name \"..\" does not begin with" },
		{ NAMED("\"p.lio\""), "name \"p.lio\" ends in .lio" },
		{ NAMED("\"a\\u0000b\""), "is not allowed" },
		{ NAMED("\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\""),
		  "is longer than 64 bytes" },
		{ NAMED("\"p\", \"extra\": 1"), "extra is not known" },
		{ NAMED("\"p\", \"cpus\": \"all\""), "cpus is none of nodes, any" },
		{ TARGETS(""), "targets are missing" },
		{ TARGETS("1"), "targets[0] is no object" },
		{ IQN_IS(""), "targets[0].iqn is missing" },
		{ IQN_IS("disk"), "targets[0].iqn \"disk\" is no iSCSI name" },
		{ IQN_IS("iqn.2026-01.example:a"), "has a domain without a dot" },
		{ IQN_IS("iqn.2026-13.org.example:a"), "has a month that is not" },
		{ IQN_IS("iqn.2026-00.org.example:a"), "has a month that is not" },
		{ IQN_IS("iqn.26-01.org.example:a"), "has no date" },
		{ IQN_IS("iqn.2026-01.org..example:a"), "has no domain" },
		{ IQN_IS("iqn.2026-01.org.-e"), "has no domain" },
		{ IQN_IS("iqn.2026-01.org.example:"), "has nothing behind its colon" },
		{ IQN_IS("iqn.2026-01.org.example:A"), "has upper case letters" },
		{ IQN_IS("iqn.2026-01.org.example:a_b"), "has other characters" },
		{ IQN_IS("iqn.2026-01.org.example:a b"), "has other characters" },
		{ IQN_IS("eui.0123"), "has not 16 hexadecimal digits" },
		{ IQN_IS("naa.0123456789abcdeg"), "has neither 16 nor 32" },
		{ IQN_IS("iqn.2026-01.org.example:"
			 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
			 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
			 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
		  "is longer than 223 bytes" },
		{ MORE(", \"node\": 1024"), "targets[0].node is not between" },
		{ MORE(", \"open\": 1"), "targets[0].open is neither true nor false" },
		{ MORE(", \"open\": true"), "targets[0].open is true, which lets anyone in, and" },
		{ MORE(", \"attributes\": {\"authentication\": 0}"),
		  "targets[0].attributes.authentication is what chap decides" },
		{ MORE(", \"attributes\": {\"generate_node_acls\": 1}"), "is what open decides" },
		{ TARGETS(TARGET(IQN, "", "", WHO, DISK)), "targets[0].portals are missing" },
		{ TARGETS(TARGET(IQN, "", PORTAL, "", DISK)), "targets[0].initiators are missing" },
		{ TARGETS(TARGET(IQN, "", PORTAL, WHO, "")), "targets[0].luns are missing" },
		{ TARGETS(TARGET(IQN, "", PORTAL, WHO, DISK) ", "
			  TARGET(IQN, "", PORTAL, WHO, NEXT)),
		  "targets[1].iqn \"" IQN "\" is there twice" },

		{ PORTALS("{}"), "targets[0].portals[0].address is missing" },
		{ ADDRESS("storage1"), "portals[0].address \"storage1\" is no numerical address" },
		{ ADDRESS("192.0.2.256"), "is no numerical address" },
		{ ADDRESS("0.0.0.0"), "stands for all addresses" },
		{ ADDRESS("::"), "stands for all addresses" },
		{ ADDRESS("255.255.255.255"), "is a multicast or a broadcast" },
		{ ADDRESS("224.0.0.1"), "is a multicast" },
		{ ADDRESS("ff02::1"), "is a multicast" },
		{ ADDRESS("fe80::1"), "is an address of its link only" },
		{ ADDRESS("::ffff:192.0.2.1"), "is an IPv4 address" },
		{ ADDRESS("2001:DB8::1"), "is not in its usual form" },
		{ ADDRESS("[2001:db8::1]"), "is no numerical address" },
		{ PORTALS("{\"address\": \"192.0.2.1\", \"port\": 0}"),
		  "portals[0].port is not between" },
		{ PORTALS("{\"address\": \"192.0.2.1\", \"port\": 65536}"),
		  "portals[0].port is not" },
		{ PORTALS("{\"address\": \"192.0.2.1\", \"netdev\": \"../x\"}"),
		  "portals[0].netdev \"../x\" is no network interface" },
		{ PORTALS(PORTAL ", " PORTAL),
		  "targets[0].portals[1].address \"192.0.2.1\" is there "
		  "twice" },

		{ WHOS("{}"), "targets[0].initiators[0].name is missing" },
		{ WHOS("{\"name\": \"IQN.2026-01.org.example:me\"}"), "has upper case letters" },
		{ WHOS(WHO ", " WHO), "targets[0].initiators[1].name \"" ME "\" is there twice" },
		{ WHOS("{\"name\": \"" ME "\", \"chap\": {\"user\": \"u\"}}"),
		  "initiators[0].chap wants user and secret-file" },
		{ WHOS("{\"name\": \"" ME "\", \"chap\": {\"user\": \"u\", \"secret\": \"s\"}}"),
		  "targets[0].initiators[0].chap.secret is not known" },
		{ CHAPS(CHAP("a b", "/s"), "null"), "initiators[0].chap.user \"a b\" has a blank" },
		{ CHAPS(CHAP("", "/s"), "null"), "initiators[0].chap.user is missing" },
		{ CHAPS(CHAP("NULLA", "/s"), "null"), "chap.user \"NULLA\" begins with \"NULL\"" },
		{ CHAPS(CHAP("u", "s"), "null"),
		  "chap.secret-file \"s\" does not begin with a slash" },
		{ CHAPS("null", CHAP("u", "/s")),
		  "initiators[0].mutual-chap is there without chap" },
		{ CHAPS(CHAP("u", "/s"), CHAP("v", "/s")),
		  "initiators[0].mutual-chap.secret-file \"/s\" is a secret of chap, too" },
		{ WHOS(WHO ", {\"name\": \"" YOU "\", \"chap\": " CHAP("u", "/s") "}"),
		  "targets[0].initiators[1].chap is there, but not of all" },
		{ WHOS("{\"name\": \"" YOU "\", \"chap\": " CHAP("u", "/s") "}, " WHO),
		  "targets[0].initiators[1].chap is missing" },

		{ STORE(""), "targets[0].luns[0].kind is missing" },
		{ STORE(", \"kind\": \"disk\""),
		  "luns[0].kind is none of tmpfs, file, block, ramdisk" },
		{ LUNS("{\"lun\": 256, \"kind\": \"file\"}"),
		  "luns[0].lun is not between 0 and 255" },
		{ LUNS("{\"lun\": -1, \"kind\": \"file\"}"), "luns[0].lun is not between" },
		{ LUNS("{\"lun\": 0" RAM(A) "}"), "targets[0].luns[0].name is missing" },
		{ LUNS("{\"lun\": 0, \"name\": \"a b\"" RAM(A) "}"),
		  "luns[0].name \"a b\" has other" },
		{ LUNS(DISK ", {\"lun\": 0, \"name\": \"x\"" RAM(B) "}"),
		  "targets[0].luns[1].lun is there twice in its target" },
		{ LUNS(DISK ", {\"lun\": 1, \"name\": \"disk0\"" RAM(B) "}"),
		  "targets[0].luns[1].name \"disk0\" is there twice" },
		{ LUNS(DISK ", " LUN(1, RAM(A))),
		  "targets[0].luns[1].serial \"" A "\" is there twice" },
		{ STORE(RAM("disk")), "luns[0].serial \"disk\" is no UUID" },
		{ STORE(RAM("111111111111-1111-1111-1111-11111111")), "is no UUID" },
		{ STORE(RAM("AAAAAAAA-1111-1111-1111-111111111111")), "is no UUID in lower case" },
		{ STORE(", \"kind\": \"ramdisk\", \"size\": 1048576"),
		  "luns[0].serial is missing" },
		{ SIZED("tmpfs", "0"), "luns[0].size is missing" },
		{ SIZED("file", "0"), "luns[0].size is missing" },
		{ SIZED("tmpfs", "1048575"), "luns[0].size is less than 1 MiB" },
		{ SIZED("file", "1048577"), "luns[0].size is no multiple of 512 bytes" },
		{ SIZED("file", "-1"), "luns[0].size is not between" },
		{ SIZED("file", "1e9"), "luns[0].size is no whole number" },
		{ SIZED("block", "1048576"), "luns[0].size is there, but a block device" },
		{ STORE(", \"kind\": \"ramdisk\", \"size\": 1049088, \"serial\": \"" A "\""),
		  "luns[0].size is no multiple of 4096 bytes" },
		{ STORE(", \"kind\": \"tmpfs\", \"size\": 1048576, \"serial\": \"" A
			"\", \"path\": \"/m\""), "luns[0].node is missing: whose memory" },
		{ STORE(", \"kind\": \"file\", \"size\": 1048576, \"serial\": \"" A "\""),
		  "luns[0].path is missing" },
		{ PATH("file", "f"), "luns[0].path \"f\" does not begin with a slash" },
		{ PATH("file", "/"), "has an empty part" },
		{ PATH("file", "/a/../b"), "has an empty part, \".\" or \"..\"" },
		{ PATH("file", "/a/./b"), "has an empty part" },
		{ PATH("tmpfs", "/a/"), "has an empty part" },
		{ PATH("file", "/a,fd_dev_size=1"), "has a comma" },
		{ PATH("file", "/a b"), "has a comma, a blank" },
		{ PATH("file", "/a\\nb"), "has a comma, a blank" },
		{ PATH("file", "/\\u00e9"), "what is not ASCII" },
		{ PATH("ramdisk", "/a"), "luns[0].path is there, but a ramdisk has none" },
		{ STORE(", \"kind\": \"block\", \"path\": \"/srv/x\", \"serial\": \"" A "\""),
		  "luns[0].path \"/srv/x\" is not below /dev" },
		{ LUNS(LUN(0, TMPFS(A, "/m")) ", " LUN(1, TMPFS(B, "/m"))),
		  "targets[0].luns[1].path \"/m\" is there twice" },
		{ LUNS(LUN(0, TMPFS(A, "/m")) ", " LUN(1, TMPFS(B, "/m/n"))),
		  "targets[0].luns[1].path \"/m/n\" is beneath another" },
		{ LUNS(LUN(0, TMPFS(A, "/m/n")) ", " LUN(1, TMPFS(B, "/m"))),
		  "targets[0].luns[1].path \"/m\" is beneath another store's tmpfs, or above" },
		{ TARGETS(TARGET(IQN, "", PORTAL, WHO, DISK) ", "
			  TARGET(IQN "x", "", PORTAL, WHO, LUN(0, RAM(B)))),
		  "targets[1].luns[0].name \"disk0\" is there twice" },
		{ STORE(RAM(A) ", \"write-back\": true"),
		  "luns[0].write-back is for a tmpfs or a file" },
		{ STORE(", \"kind\": \"block\", \"path\": \"/dev/x\", \"write-back\": true"),
		  "luns[0].write-back is the device's own matter" },
		{ STORE(RAM(A) ", \"write-back\": \"yes\""), "luns[0].write-back is neither" },
		{ STORE(RAM(A) ", \"policy\": \"local\""),
		  "luns[0].policy is none of bind, prefer" },
		{ ATTRIBUTE("Emulate", "1"), "luns[0].attributes.Emulate is no attribute's name" },
		{ ATTRIBUTE("../x", "1"), "attributes.../x is no attribute's name" },
		{ ATTRIBUTE("", "1"), "is an attribute without a name" },
		{ ATTRIBUTE("emulate_tpu", "\"1\""), "attributes.emulate_tpu is no whole number" },
		{ ATTRIBUTE("emulate_tpu", "-1"), "attributes.emulate_tpu is no whole number" },
		{ ATTRIBUTE("emulate_tpu", "4294967296"), "attributes.emulate_tpu is above" },
		{ ATTRIBUTE("emulate_write_cache", "1"), "is what write-back decides" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
		struct err e = ERR_INIT;

		p = iser_plan_parse("p", cases[i].json, &e);
		if (p)
			fail_msg("taken: %s", cases[i].json);
		if (e.code >= 0 || strncmp(e.text, "p:", 2) != 0 || !strstr(e.text, cases[i].text))
			fail_msg("\"%s\" lacks \"%s\"", e.text, cases[i].text);
	}
}

/* Some that look odd. */
static void test_good(void **state)
{
	static const char *const cases[] = {
		IQN_IS("iqn.1999-12.org.example"), IQN_IS("iqn.2026-01.a.b:x:y.z-"),
		IQN_IS("naa.0123456789abcdef0123456789abcdef"), ADDRESS("127.0.0.1"),
		ADDRESS("2001:db8::1"), PATH("file", "/a..b/.c"), SIZED("file", "1049088"),
		CHAPS(CHAP("u", "/s"), CHAP("v", "/t")),
		LUNS(LUN(0, TMPFS(A, "/m")) ", " LUN(1, TMPFS(B, "/mn"))),
		/* one portal for two targets */
		TARGETS(TARGET(IQN, "", PORTAL, WHO, DISK) ", " TARGET(IQN "x", "", PORTAL, WHO,
								       NEXT)),
		PORTALS(PORTAL ", {\"address\": \"192.0.2.1\", \"port\": 3261}"),
		TARGETS(TARGET(IQN, ", \"open\": true", PORTAL, "", DISK)),
		ATTRIBUTE("emulate_tpu", "4294967295"),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
		struct err e = ERR_INIT;

		p = iser_plan_parse("p", cases[i], &e);
		if (!p)
			fail_msg("%s", e.text);
	}
}

/* As one that was made by hand may be. */
static void test_in_memory(void **state)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = iser_plan_parse("p", whole, NULL);
	struct iser_attribute *a = p->targets[0].stores[0].attributes;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(iser_plan_check(p, &e), 0);
	assert_int_equal(iser_plan_check(p, NULL), 0);
	free(a[1].name);
	a[1].name = strdup(a[0].name);
	assert_int_equal(iser_plan_check(p, NULL), -EINVAL);
	assert_int_equal(iser_plan_check(p, &e), -EINVAL);
	assert_string_equal(e.text, "targets[0].luns[0].attributes.emulate_tpu is there twice");
	p->targets[0].stores[0].n_attributes = 1;
	free(a[1].name);
	p->targets[0].stores[1].lun = ISER_LUN_MOST + 1;
	assert_int_equal(iser_plan_check(p, &e), -EINVAL);
	assert_string_equal(e.text, "targets[0].luns[1].lun is above 255");
}

static void test_looking(void **state)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = iser_plan_parse("p", whole, NULL);
	CLEANUP_FREE char *file = iser_store_file(iser_plan_store(p, "m"));

	(void)state;
	assert_string_equal(file, "/run/m/disk.img");
	assert_string_equal(iser_store_plugin(iser_plan_store(p, "b")), "iblock");
	assert_true(iser_store_forgets(iser_plan_store(p, "r")));
	assert_false(iser_store_forgets(iser_plan_store(p, "f")));
	assert_null(iser_plan_store(p, "none"));
	assert_int_equal(iser_plan_target(p, "naa.0123456789abcdef")->node, 1);
	assert_null(iser_plan_target(p, "none"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_defaults),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_in_memory),
		cmocka_unit_test(test_looking),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
