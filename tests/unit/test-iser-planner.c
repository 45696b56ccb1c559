// SPDX-License-Identifier: Apache-2.0
/* Plans for machines of one, two, four and eight nodes. */
#include "iser_setup/planner.h"

#include "tests/support/sysfs.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define ME "iqn.2026-01.org.example:me"
#define LAST_GROUP 24    /* of a UUID */
#define VERSION_DIGIT 14
#define WHO "[initiator " ME "]\nchap-secret = generate\n"

/* One planned: of the machine, its addresses, what was asked. */
struct planned {
	struct iser_plan *p;
	struct lines notes;
	struct err e;
};

/* addresses: "ens1f0 192.0.2.1\n..." */
static void plan_into(struct planned *out, const char *machine, const char *addresses,
		      const char *text)
{
	struct topo *t = sysfs_topo(machine);
	CLEANUP_SPEC struct spec *s = spec_new();
	struct host_addresses a;
	struct planner_host h = { t, &a, "store1.example.org", "2026-11", false };

	*out = (struct planned){ 0 };
	tmp_put("addresses", addresses);
	if (host_addresses_read(tmp_at("addresses"), &a, &out->e) ||
	    spec_parse(s, "f", text, &out->e))
		fail_msg("%s", out->e.text);
	spec_locate(s, t, false);
	out->p = planner_plan(s, &h, &out->notes, &out->e);
	host_addresses_clear(&a);
	topo_free(t);
}

static void clear(struct planned *p)
{
	iser_plan_free(p->p);
	lines_clear(&p->notes);
}

static struct planned good(const char *machine, const char *addresses, const char *text)
{
	struct planned p;

	plan_into(&p, machine, addresses, text);
	if (!p.p)
		fail_msg("%s", p.e.text);
	return p;
}

static void fails(const char *machine, const char *addresses, const char *text, const char *says)
{
	struct planned p;

	plan_into(&p, machine, addresses, text);
	if (p.p || !strstr(p.e.text, says))
		fail_msg("\"%s\" lacks \"%s\"", p.e.text, says);
	clear(&p);
}

static bool noted(const struct planned *p, const char *text)
{
	for (size_t i = 0; i < p->notes.n; i++)
		if (strstr(p->notes.v[i], text))
			return true;
	return false;
}

static void notes_are(const struct planned *p, size_t n)
{
	if (p->notes.n == n)
		return;
	for (size_t i = 0; i < p->notes.n; i++)
		print_message("%s\n", p->notes.v[i]);
	fail_msg("%zu notes, not %zu", p->notes.n, n);
}

static const char two[] = "lo 127.0.0.1\neth0 192.0.2.9\nens2f0 2001:db8::2\nens2f0 192.0.2.2\n"
			  "ens1f0 192.0.2.1\n";

static void test_two(void **state)
{
	struct planned p = good("two", two, "[node *]\ntmpfs = 4M\n" WHO);
	const struct iser_target *t = p.p->targets;

	(void)state;
	assert_string_equal(p.p->name, "store1");
	assert_int_equal(p.p->cpus, ISER_CPUS_NODES);
	assert_int_equal(p.p->n_targets, 2);
	assert_string_equal(t[0].iqn, "iqn.2026-11.org.example.store1:store1-node0");
	assert_string_equal(t[1].iqn, "iqn.2026-11.org.example.store1:store1-node1");
	assert_string_equal(t[0].portals[0].address, "192.0.2.1");
	assert_string_equal(t[0].portals[0].netdev, "ens1f0");
	assert_true(t[0].portals[0].iser);
	assert_string_equal(t[1].portals[0].address, "192.0.2.2"); /* IPv4 before IPv6 */
	assert_int_equal(t[1].n_portals, 1);
	assert_int_equal(t[1].stores[0].node, 1);
	assert_int_equal(t[1].stores[0].policy, ISER_BIND);
	assert_string_equal(t[1].stores[0].name, "store1-node1-disk0");
	assert_string_equal(t[1].stores[0].path, PLANNER_MOUNTS "/store1-node1-disk0");
	assert_string_equal(t[0].initiators[0].chap.user, ME);
	assert_string_equal(t[0].initiators[0].chap.secret_file, PLANNER_SECRETS "/store1." ME ".chap");
	assert_null(t[0].initiators[0].mutual.user);
	notes_are(&p, 0);
	clear(&p);
}

/* Initiators know the disk again by its serial. */
static void test_serials(void **state)
{
	struct planned p = good("two", two, "[node *]\ntmpfs = 4M\ntmpfs = 4M\n" WHO);
	struct planned again = good("two", two, "[node *]\ntmpfs = 4M\ntmpfs = 4M\n" WHO);
	struct planned other = good("two", two, "[plan]\nname=b\n[node *]\ntmpfs = 4M\n" WHO);

	(void)state;
	for (int t = 0; t < 2; t++)
		for (int i = 0; i < 2; i++)
			assert_string_equal(p.p->targets[t].stores[i].serial,
					    again.p->targets[t].stores[i].serial);
	/* In each half, so that neither is for nothing. */
	assert_string_not_equal(p.p->targets[0].stores[0].serial,
				other.p->targets[0].stores[0].serial);
	assert_string_not_equal(p.p->targets[0].stores[0].serial + LAST_GROUP,
				other.p->targets[0].stores[0].serial + LAST_GROUP);
	assert_string_not_equal(p.p->targets[0].stores[0].serial + LAST_GROUP,
				p.p->targets[0].stores[1].serial + LAST_GROUP);
	assert_int_equal(p.p->targets[0].stores[0].serial[VERSION_DIGIT], '8');
	clear(&p);
	clear(&again);
	clear(&other);
}

/* A device's own node decides; a section's is what was asked for, and what is said. */
static void test_devices(void **state)
{
	struct planned p = good("two", two, "[node *]\nblock = /dev/nvme1n1\nwrite = back\n" WHO);

	(void)state;
	assert_int_equal(p.p->n_targets, 1);
	assert_int_equal(p.p->targets[0].node, 1);
	assert_int_equal(p.p->targets[0].stores[0].kind, ISER_BLOCK);
	assert_false(p.p->targets[0].stores[0].write_back);
	assert_null(strstr(p.p->targets[0].stores[0].path, PLANNER_MOUNTS));
	clear(&p);

	p = good("two", two, "[node 0]\nblock = /dev/nvme1n1\nfile = /srv/x 1M\nwrite = "
		 "back\n" WHO);
	assert_int_equal(p.p->targets[0].node, 0);
	assert_int_equal(p.p->targets[0].stores[0].node, 1);
	assert_int_equal(p.p->targets[0].stores[1].node, 0);
	assert_true(p.p->targets[0].stores[1].write_back);
	assert_true(noted(&p, "/dev/nvme1n1 is on node 1, but is served by node 0"));
	assert_true(noted(&p, "/dev/nvme1n1 may be another device after the next start"));
	notes_are(&p, 2);
	clear(&p);

	fails("two", two, "[node *]\nblock = /dev/md0\n" WHO,
	      "/dev/md0: its node is not known, or it "
	      "has several");
	fails("two", two, "[node *]\nfile = /srv/x 1M\n" WHO, "/srv/x: its node is not known");
}

static bool has_attribute(const struct iser_store *s, const char *name, unsigned value)
{
	for (size_t i = 0; i < s->n_attributes; i++)
		if (!strcmp(s->attributes[i].name, name))
			return s->attributes[i].value == value;
	return false;
}

static void test_turning(void **state)
{
	struct planned p = good("two", two, "[node 0]\ntmpfs = 1M\nramdisk = 1M\nfile = /srv/x 1M\n"
				"[node 1]\ntmpfs = 1M\nlun-attribute = is_nonrot 0\n" WHO);
	const struct iser_target *t = p.p->targets;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_true(has_attribute(&t[0].stores[i], "is_nonrot", 1));
	/* Whether its disk turns is not known here. */
	assert_int_equal(t[0].stores[2].n_attributes, 0);
	assert_true(has_attribute(&t[1].stores[0], "is_nonrot", 0));
	clear(&p);
}

static void test_sections(void **state)
{
	struct planned p = good("two", two, "[node *]\ntmpfs = 4M\npolicy = prefer\nwrite = back\n"
				"lun-attribute = a 1\nlun-attribute = b 2\n"
				"target-attribute = c 3\n"
				"[node 1]\nramdisk = 1M\nwrite = through\nlun-attribute = b 4\n"
				"target-attribute = d 5\n" WHO);
	const struct iser_target *t = p.p->targets;

	(void)state;
	assert_int_equal(t[0].n_stores, 1);
	assert_true(t[0].stores[0].write_back);
	assert_true(has_attribute(&t[0].stores[0], "b", 2));
	assert_int_equal(t[1].n_stores, 2);
	assert_false(t[1].stores[0].write_back);
	assert_int_equal(t[1].stores[0].policy, ISER_PREFER);
	assert_int_equal(t[1].stores[0].n_attributes, 3);
	assert_true(has_attribute(&t[1].stores[0], "b", 4));
	assert_int_equal(t[1].stores[1].lun, 1);
	assert_int_equal(t[1].n_attributes, 2);
	assert_true(noted(&p, "store1-node0-disk0 is written back into memory"));
	notes_are(&p, 1);
	clear(&p);
}

static void test_portals(void **state)
{
	struct planned p = good("two", two, "[node 0]\ntmpfs = 4M\nportal = 192.0.2.1:3261\n"
				"portal = ens2f0\nportal = [2001:db8::2]:3262\nportal = auto\n"
				"portal = 2001:db8::2\n" WHO);
	const struct iser_portal *at = p.p->targets[0].portals;

	(void)state;
	assert_int_equal(p.p->targets[0].n_portals, 5);
	assert_int_equal(at[0].port, 3261);
	assert_string_equal(at[0].netdev, "ens1f0");
	assert_string_equal(at[1].address, "192.0.2.2");
	assert_string_equal(at[2].address, "2001:db8::2");
	assert_int_equal(at[2].port, 3262);
	assert_string_equal(at[3].address, "192.0.2.1");
	assert_string_equal(at[4].netdev, "ens2f0");
	assert_true(noted(&p, "node 0 is served by ens2f0, which is on node 1"));
	notes_are(&p, 3);
	clear(&p);

	p = good("two", two, "[node 0]\ntmpfs = 4M\nportal = 192.0.2.77\n" WHO);
	assert_null(p.p->targets[0].portals[0].netdev);
	assert_true(noted(&p, "no interface that is up has 192.0.2.77"));
	clear(&p);

	fails("two", two, "[node 0]\ntmpfs = 4M\nportal = ens9\n" WHO, "the portal ens9 of node 0: "
	      "\"ens9\" is no numerical address");
	fails("two", two, "[node 1]\ntmpfs = 4M\nportal = eth0\n" WHO,
	      "eth0 (192.0.2.9), for node 1, "
	      "has no RDMA device");
	fails("two", two, "[node 0]\ntmpfs = 4M\nportal = auto\nportal = 192.0.2.1\n" WHO,
	      "targets[0].portals[1].address \"192.0.2.1\" is there twice");
}

/* Where a node has no card of its own that can do RDMA. */
static void test_far(void **state)
{
	struct planned p = good("two", "ens2f0 192.0.2.2\n", "[node 0]\ntmpfs = 4M\n" WHO);

	(void)state;
	assert_string_equal(p.p->targets[0].portals[0].netdev, "ens2f0");
	assert_true(p.p->targets[0].portals[0].iser);
	assert_true(noted(&p, "node 0 is served by ens2f0, which is on node 1"));
	notes_are(&p, 1);
	clear(&p);

	/* [node *] is for nodes with RDMA only. */
	p = good("two", "ens2f0 192.0.2.2\nens1f0 127.0.0.2\n", "[node *]\ntmpfs = 4M\n" WHO);
	assert_int_equal(p.p->n_targets, 1);
	assert_int_equal(p.p->targets[0].node, 1);
	clear(&p);

	fails("two", "eth0 192.0.2.9\n", "[node 1]\ntmpfs = 4M\n" WHO,
	      "no network interface that has "
	      "an address has an RDMA device");
	fails("two", "eth0 192.0.2.9\n", "[node *]\ntmpfs = 4M\n" WHO, "has an RDMA device");
	fails("two", "", "[node 0]\ntmpfs = 4M\n" WHO, "there is no network interface");
	fails("two", "", "[node *]\ntmpfs = 4M\n" WHO, "RDMA device");
	p = good("two", "eth0 192.0.2.9\n", "[plan]\ntcp = yes\n[node *]\ntmpfs = 4M\n" WHO);
	assert_int_equal(p.p->n_targets, 1);
	assert_false(p.p->targets[0].portals[0].iser);
	assert_true(noted(&p, "plain iSCSI over TCP"));
	clear(&p);
	/* RDMA over there rather than none here */
	p = good("two", "eth0 192.0.2.9\nens1f0 192.0.2.1\n",
		 "[plan]\ntcp = yes\n[node 1]\ntmpfs = 4M\n"
		 WHO);
	assert_string_equal(p.p->targets[0].portals[0].netdev, "ens1f0");
	clear(&p);
}

static void test_one(void **state)
{
	struct planned p;

	(void)state;
	fails("one", "eth0 192.0.2.1\n", "[node *]\ntmpfs = 4M\n" WHO, "--tcp");
	p = good("one", "eth0 192.0.2.1\n", "[plan]\ntcp = yes\n[node *]\ntmpfs = 4M\n" WHO);
	assert_int_equal(p.p->n_targets, 1);
	assert_int_equal(p.p->targets[0].node, 0);
	notes_are(&p, 1); /* the card is on the only node there is */
	clear(&p);
	/* So are files and disks, whatever sysfs says of them. */
	p = good("one", "eth0 192.0.2.1\n", "[plan]\ntcp = yes\n[node *]\nfile = /srv/x 4M\n"
		 "block = /dev/disk/by-id/x\n" WHO);
	assert_int_equal(p.p->targets[0].n_stores, 2);
	assert_int_equal(p.p->targets[0].stores[0].node, 0);
	assert_int_equal(p.p->targets[0].stores[1].node, 0);
	clear(&p);
}

static void test_four(void **state)
{
	struct planned p = good("four", "p1 192.0.2.1\n",
				"[plan]\ntcp = yes\n[node 0]\ntmpfs = 1M\n[node 4]\ntmpfs = "
				"1M\n" WHO);

	(void)state;
	assert_int_equal(p.p->n_targets, 2);
	assert_int_equal(p.p->targets[1].node, 4);
	/* one portal serves both */
	assert_string_equal(p.p->targets[1].portals[0].address, "192.0.2.1");
	assert_true(noted(&p, "how much memory node 4 has is not known"));
	assert_true(noted(&p, "node 4 is served by p1, which is on node 3"));
	clear(&p);
	fails("four", "p1 192.0.2.1\n", "[node 1]\ntmpfs = 1M\n" WHO,
	      "there is no node 1 here, but "
	      "0,2-4");
}

static void test_eight(void **state)
{
	struct planned p = good("eight", "eth4 192.0.2.1\n", "[node *]\nramdisk = 1M\n" WHO);

	(void)state;
	assert_int_equal(p.p->n_targets, 1);
	assert_int_equal(p.p->targets[0].node, 7);
	assert_true(p.p->targets[0].portals[0].iser);
	clear(&p);
	p = good("eight", "eth4 192.0.2.1\n", "[node 2]\nramdisk = 1M\n[node 7]\ntmpfs = 1M\n" WHO);
	assert_int_equal(p.p->n_targets, 2);
	assert_true(noted(&p, "node 2 is served by eth4, which is on node 7"));
	clear(&p);
}

/* Node 0 of two has 64 of its 128 MiB free, node 1 48 of 256 as page cache and 1 free. */
static void test_memory(void **state)
{
	static const struct { const char *text, *says; } cases[] = {
		{ "[node 0]\ntmpfs = 51M\n", NULL },
		{ "[node 0]\ntmpfs = 52M\n", "memory is tight: of 64.0 MiB that node 0 has to "
		  "give, 52.0 MiB" },
		{ "[node 0]\ntmpfs = 32M\nramdisk = 33M\n", "memory does not suffice: node 0 has "
		  "64.0 MiB to give, and 65.0 MiB" },
		{ "[node 0]\nfile = /srv/x 1G\n", NULL },
		{ "[node 1]\ntmpfs = 22M\n", NULL },
		{ "[node 1]\ntmpfs = 50M\n", "memory does not suffice: node 1" },
		{ "[node 0]\ntmpfs = 4096P\ntmpfs = 4096P\ntmpfs = 4096P\n", "does not suffice" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[256];
		struct planned p;

		snprintf(text, sizeof(text), "%s%s", cases[i].text, WHO);
		p = good("two", two, text);
		if (cases[i].says && !noted(&p, cases[i].says))
			fail_msg("%s: %s", cases[i].text, p.notes.n ? p.notes.v[0] : "no note");
		notes_are(&p, cases[i].says ? 1 : 0);
		clear(&p);
	}
}

static void test_who(void **state)
{
	struct planned p = good("two", two, "[plan]\nopen = yes\n[node 0]\ntmpfs = 4M\n");

	(void)state;
	assert_true(p.p->targets[0].open);
	assert_true(noted(&p, "node0 is open"));
	notes_are(&p, 1);
	clear(&p);

	p = good("two", two, "[node 0]\ntmpfs = 4M\n[initiator " ME "]\n");
	assert_true(noted(&p, "whoever says to be " ME ", without CHAP"));
	clear(&p);

	p = good("two", two, "[plan]\nsecrets = /s\n[node 0]\ntmpfs = 4M\n[initiator " ME "]\n"
		 "chap-user = me\nchap-secret = /me\nmutual-secret = generate\n");
	assert_string_equal(p.p->targets[0].initiators[0].chap.user, "me");
	assert_string_equal(p.p->targets[0].initiators[0].chap.secret_file, "/me");
	assert_string_equal(p.p->targets[0].initiators[0].mutual.user, "store1");
	assert_string_equal(p.p->targets[0].initiators[0].mutual.secret_file, "/s/store1." ME ".mutual");
	clear(&p);

	fails("two", two, "[node 0]\ntmpfs = 4M\n", "who may log in?");
	fails("two", two, "[plan]\nopen = yes\n[node 0]\ntmpfs = 4M\n" WHO, "which is it?");
	fails("two", two, "[node 0]\ntmpfs = 4M\n[initiator " ME "]\nchap-user = me\n",
	      "has a chap-user without a chap-secret");
	fails("two", two, "[node 0]\ntmpfs = 4M\n[initiator " ME "]\nmutual-secret = generate\n",
	      "mutual-chap is there without chap");
}

static void test_names(void **state)
{
	struct planned p = good("two", two, "[plan]\nname = Big_One\ndomain = Example.Org\n"
				"[node 0]\ntmpfs = 4M\n" WHO);

	(void)state;
	assert_string_equal(p.p->targets[0].iqn, "iqn.2026-11.org.example:big-one-node0");
	assert_string_equal(p.p->targets[0].stores[0].name, "Big_One-node0-disk0");
	clear(&p);
	p = good("two", two, "[plan]\nname = x\niqn = iqn.2020-02.a.b\nmounts = /m\n"
		 "[node 0]\ntmpfs = 4M\n" WHO);
	assert_string_equal(p.p->targets[0].iqn, "iqn.2020-02.a.b:x-node0");
	assert_string_equal(p.p->targets[0].stores[0].path, "/m/x-node0-disk0");
	clear(&p);
	fails("two", two, "[plan]\ndomain = localhost\n[node 0]\ntmpfs = 4M\n" WHO,
	      "the domain localhost makes the name iqn.2026-11.localhost, which has a domain "
	      "without");
	fails("two", two, "[plan]\ndomain = a..b\n[node 0]\ntmpfs = 4M\n" WHO, "has no domain");
	fails("two", two, "[node 0]\ntmpfs = 1048577\n" WHO,
	      "targets[0].luns[0].size is no multiple of 512 bytes");
}

static void test_nothing(void **state)
{
	(void)state;
	fails("two", two, WHO, "what is to be served?");
	fails("two", two, "[node 0]\n" WHO, "node 0 is to be a target, but has no storage");
}

/* Only some of the nodes. */
static void test_only(void **state)
{
	struct topo *t = sysfs_topo("two");
	struct lines notes CLEANUP_LINES = { 0 };
	CLEANUP_SPEC struct spec *s = spec_new();
	CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
	struct host_address at[] = { { "ens1f0", "192.0.2.1" }, { "ens2f0", "192.0.2.2" } };
	struct host_addresses a = { at, 2 };
	struct planner_host h = { t, &a, "host", "2026-11", false };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(spec_parse(s, "f", "[plan]\ndomain = a.b\n[node *]\ntmpfs = 4M\n"
				    "block = /dev/nvme0n1\n" WHO, &e), 0);
	spec_locate(s, t, false);
	ids_add(&s->only, 1);
	p = planner_plan(s, &h, &notes, &e);
	assert_non_null(p);
	assert_int_equal(p->n_targets, 1);
	assert_int_equal(p->targets[0].node, 1);
	assert_int_equal(p->targets[0].n_stores, 1);
	assert_int_equal(notes.n, 1);
	assert_string_equal(notes.v[0], "/dev/nvme0n1 is on node 0, which is not planned for");
	ids_add(&s->only, 5);
	assert_null(planner_plan(s, &h, &notes, &e));
	assert_string_equal(e.text, "there is no node 5 here, but 0-1");
	topo_free(t);
}

/* A host that is called nothing but "host". */
static void test_host_without_domain(void **state)
{
	struct topo *t = sysfs_topo("two");
	struct lines notes CLEANUP_LINES = { 0 };
	CLEANUP_SPEC struct spec *s = spec_new();
	struct host_address at = { "ens1f0", "192.0.2.1" };
	struct host_addresses a = { &at, 1 };
	struct planner_host h = { t, &a, "host", "2026-11", false };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(spec_parse(s, "f", "[node 0]\ntmpfs = 4M\n" WHO, &e), 0);
	assert_null(planner_plan(s, &h, &notes, &e));
	assert_non_null(strstr(e.text, "This host, host, has no domain"));
	topo_free(t);
}

/* Of several that can do RDMA. */
static void test_best(void **state)
{
	struct planned p;

	(void)state;
	/* bond1 of siw0 and ens2f0 of mlx5_1 are on node 1, whose speed is not told: the first. */
	p = good("two", "bond1 192.0.2.3\nens2f0 192.0.2.2\n", "[node *]\ntmpfs = 4M\n" WHO);
	assert_string_equal(p.p->targets[0].portals[0].netdev, "bond1");
	clear(&p);
	/* lo of rxe1 is on none that is known, ens1f0 on the other node. */
	p = good("two", "lo 192.0.2.3\nens1f0 192.0.2.1\n", "[node 1]\ntmpfs = 4M\n" WHO);
	assert_string_equal(p.p->targets[0].portals[0].netdev, "ens1f0");
	clear(&p);
	p = good("two", "lo 192.0.2.3\n", "[node 1]\ntmpfs = 4M\n" WHO);
	assert_true(noted(&p, "node 1 is served by lo, which is on no node that is known"));
	clear(&p);
}

/* One line of a file in class/. */
static void put_class(const char *top, const char *name, const char *text)
{
	char path[9000];

	snprintf(path, sizeof(path), "%s/class/%s", top, name);
	sysfs_parent(path);
	assert_int_equal(write_file_atomic(path, text, strlen(text), 0644, NULL), 0);
}

static void test_fastest(void **state)
{
	struct host_address at[] = { { "slow", "192.0.2.1" }, { "fast", "192.0.2.2" },
				     { "slower", "192.0.2.3" } };
	struct host_addresses a = { at, 3 };
	const char *top = sysfs_make("two");
	struct err e = ERR_INIT;
	struct cards c;
	struct topo *t;

	(void)state;
	for (size_t i = 0; i < a.n; i++) {
		char name[256];

		snprintf(name, sizeof(name), "net/%s/numa_node", at[i].netdev);
		put_class(top, name, "1\n");
		snprintf(name, sizeof(name), "net/%s/speed", at[i].netdev);
		put_class(top, name, i == 1 ? "100000\n" : i ? "10000\n" : "25000\n");
		snprintf(name, sizeof(name), "infiniband/rxe1%zu/parent", i);
		put_class(top, name, at[i].netdev);
	}
	t = topo_read(top, &e);
	assert_int_equal(cards_find(t, &a, &c), 0);
	assert_int_equal(c.n, 3);
	assert_string_equal(cards_best(&c, t, 1)->at->netdev, "fast");
	cards_clear(&c);
	topo_free(t);
}

static void test_stores_said(void **state)
{
	struct planned p = good("two", two, "[node 0]\ntmpfs = 4M\nramdisk = 1M\nblock = "
				"/dev/nvme0n1\n"
				"[node 1]\nfile = /srv/x 1G\nwrite = back\n" WHO);
	static const char *const want[] = {
		"store1-node0-disk0: tmpfs /run/rftp-iser/store1-node0-disk0 of 4.0 MiB on node 0; "
		"write-through, and forgotten with the host",
		"store1-node0-disk1: ramdisk of 1.0 MiB on node 0; write-through, and forgotten "
		"with the host",
		"store1-node0-disk2: block /dev/nvme0n1 on node 0; its own cache decides when "
		"what is "
		"written is kept",
		"store1-node1-disk0: file /srv/x of 1.0 GiB on node 1; write-back: what is not "
		"flushed is lost when the host ends",
	};
	struct lines said CLEANUP_LINES = { 0 };

	(void)state;
	iser_plan_stores(p.p, &said);
	assert_int_equal(said.n, 4);
	for (size_t i = 0; i < said.n; i++)
		assert_string_equal(said.v[i], want[i]);
	clear(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_serials),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_turning), cmocka_unit_test(test_sections),
		cmocka_unit_test(test_portals),
		cmocka_unit_test(test_far),
		cmocka_unit_test(test_one),
		cmocka_unit_test(test_four),
		cmocka_unit_test(test_eight),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_who),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_only),
		cmocka_unit_test(test_host_without_domain),
		cmocka_unit_test(test_best),
		cmocka_unit_test(test_fastest),
		cmocka_unit_test(test_stores_said),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
