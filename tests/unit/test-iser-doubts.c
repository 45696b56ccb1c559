// SPDX-License-Identifier: Apache-2.0
/* What is said of a plan on a host that it does not go with. */
#include "iser_setup/planner.h"

#include "tests/support/sysfs.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define SECRET "\"chap\": { \"user\": \"u\", \"secret-file\": \"/s\" }"
#define SERIAL "00000000-0000-4000-8000-00000000000"

/* What stands in a plan of one target; the rest is good. */
struct parts {
	int node;             /* the target's */
	const char *portals, *luns;
};

static const char addresses[] = "lo 127.0.0.1\neth0 192.0.2.9\nens1f0 192.0.2.1\n"
				"ens2f0 192.0.2.2\n";

#define PORTAL "{ \"address\": \"192.0.2.1\", \"netdev\": \"ens1f0\" }"
#define RAM(n) \
	"{ \"lun\": 0, \"name\": \"ram\", \"kind\": \"ramdisk\", \"node\": " #n \
	", \"size\": 1048576, \"serial\": \"" SERIAL "1\" }"
#define DEVICE(n, path) \
	"{ \"lun\": 1, \"name\": \"disk\", \"kind\": \"block\", \"node\": " #n \
	", \"path\": \"" path "\", \"serial\": \"" SERIAL "2\" }"

static struct iser_plan *plan_of(const struct parts *parts)
{
	CLEANUP_FREE char *text = NULL;
	struct err e = ERR_INIT;
	struct iser_plan *p;

	assert_true(asprintf(&text, "{ \"rftp-iser-plan\": 1, \"name\": \"p\", \"targets\": [ { "
			     "\"node\": %d, \"iqn\": \"iqn.2026-01.org.example:t\", \"portals\": "
			     "[ %s ], \"initiators\": [ { \"name\": \"iqn.2026-01.org.example:i\", "
			     SECRET " } ], \"luns\": [ %s ] } ] }", parts->node, parts->portals,
			     parts->luns) > 0);
	p = iser_plan_parse("p", text, &e);
	if (!p)
		fail_msg("%s", e.text);
	return p;
}

/* Of the machine "two", which has of listed the addresses, or none known. */
static void doubt(const struct iser_plan *p, const char *listed, bool own, struct lines *notes)
{
	struct topo *t = sysfs_topo("two");
	struct host_addresses a = { 0 };
	const struct planner_host h = { .topo = t, .addresses = &a, .own = own };
	struct err e = ERR_INIT;

	tmp_put("addresses", listed ? listed : "");
	assert_int_equal(host_addresses_read(tmp_at("addresses"), &a, &e), 0);
	iser_plan_doubts(p, &h, notes);
	host_addresses_clear(&a);
	topo_free(t);
}

/* says: the one note; NULL: there is none. */
static void notes_are(const struct lines *notes, const char *says)
{
	if (says ? notes->n == 1 && strstr(notes->v[0], says) : !notes->n)
		return;
	for (size_t i = 0; i < notes->n; i++)
		print_message("%s\n", notes->v[i]);
	fail_msg("%zu notes, not \"%s\"", notes->n, says ? says : "");
}

static void says(const struct parts *parts, const char *listed, bool own, const char *text)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = plan_of(parts);
	struct lines notes CLEANUP_LINES = { 0 };

	doubt(p, listed, own, &notes);
	notes_are(&notes, text);
}

static void test_portals(void **state)
{
	static const struct {
		int node;
		const char *portal, *says;
	} cases[] = {
		{ 0, PORTAL, NULL },
		{ 0, "{ \"address\": \"192.0.2.1\" }", NULL },
		{ 0, "{ \"address\": \"192.0.2.7\" }",
		  "no interface that is up has 192.0.2.7, on which node 0 is to be served" },
		{ 0, "{ \"address\": \"192.0.2.1\", \"netdev\": \"ens2f0\" }",
		  "192.0.2.1, by which node 0 is to be served, is on ens1f0, and not on ens2f0" },
		{ -1, "{ \"address\": \"192.0.2.7\" }",
		  "no interface that is up has 192.0.2.7, on which iqn.2026-01.org.example:t is" },
		{ -1, "{ \"address\": \"192.0.2.2\" }", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		says(&(struct parts){ cases[i].node, cases[i].portal, RAM(0) }, addresses, false,
		     cases[i].says);
}

/* eth0 has none, and is on node 1. */
static void test_rdma(void **state)
{
	(void)state;
	says(&(struct parts){ 1, "{ \"address\": \"192.0.2.9\" }", RAM(1) }, addresses, false,
	     "node 1 is to be served by iSER, but eth0 has no RDMA device");
	says(&(struct parts){ 1, "{ \"address\": \"192.0.2.9\", \"iser\": false }", RAM(1) },
	     addresses, false, "node 1 is served by plain iSCSI over TCP: eth0 has no RDMA");
}

static void test_other_node(void **state)
{
	(void)state;
	says(&(struct parts){ 1, PORTAL, RAM(1) }, addresses, false,
	     "node 1 is served by ens1f0, which is on node 0");
	says(&(struct parts){ 0, PORTAL, RAM(1) }, addresses, false,
	     "ram has memory of node 1, but is served by node 0");
	says(&(struct parts){ 0, PORTAL, RAM(7) }, addresses, false,
	     "ram is for node 7, which is not there");
	says(&(struct parts){ 7, PORTAL, RAM(7) }, addresses, false,
	     "iqn.2026-01.org.example:t is for node 7, which is not there");
}

/* Of a machine whose addresses nobody told the plan's interface is taken. */
static void test_no_addresses(void **state)
{
	(void)state;
	says(&(struct parts){ 0, PORTAL, RAM(0) }, NULL, false, NULL);
	says(&(struct parts){ 1, PORTAL, RAM(1) }, NULL, false, "which is on node 0");
	says(&(struct parts){ 0, "{ \"address\": \"192.0.2.1\" }", RAM(0) }, NULL, false,
	     "no interface that is up has 192.0.2.1");
}

static void test_devices(void **state)
{
	static const struct {
		const char *luns, *says[2];
		bool own;
	} cases[] = {
		{ DEVICE(0, "/dev/mapper/x"), { NULL }, false },
		{ DEVICE(0, "/dev/no-such-device"), { "no-such-device: No such file" }, true },
		{ DEVICE(0, "/dev/null"), { "/dev/null: no block device" }, true },
		{ DEVICE(0, "/dev/nvme7n1"),
		  { "nvme7n1: no block device is called so there", "may be another" }, false },
		{ DEVICE(0, "/dev/nvme0n1p1"), { "may be another device" }, false },
		{ DEVICE(1, "/dev/nvme0n1p1"),
		  { "nvme0n1p1 is on node 0, and not on node 1 as the plan has it",
		    "may be another" }, false },
		{ DEVICE(1, "/dev/nvme1n1"),
		  { "nvme1n1 is on node 1, but is served by node 0", "may be another" }, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct parts parts = { 0, PORTAL, cases[i].luns };
		CLEANUP_ISER_PLAN struct iser_plan *p = plan_of(&parts);
		struct lines notes CLEANUP_LINES = { 0 };

		doubt(p, addresses, cases[i].own, &notes);
		assert_int_equal(notes.n, !!cases[i].says[0] + !!cases[i].says[1]);
		for (size_t k = 0; k < notes.n; k++)
			if (!strstr(notes.v[k], cases[i].says[k]))
				fail_msg("\"%s\" lacks \"%s\"", notes.v[k], cases[i].says[k]);
	}
}

/* Each node has 64 MiB. */
static void test_memory(void **state)
{
	static const char big[] = "{ \"lun\": 1, \"name\": \"big\", \"kind\": \"ramdisk\", "
				  "\"node\": 0, \"size\": 67108864, \"serial\": \"" SERIAL "3\" }";
	CLEANUP_FREE char *luns = NULL;

	(void)state;
	assert_true(asprintf(&luns, "%s, %s", RAM(0), big) > 0);
	says(&(struct parts){ 0, PORTAL, luns }, addresses, false,
	     "memory does not suffice: node 0");
}

/* What a plan that is carried out has taken it does not want again. */
static void test_taken(void **state)
{
	static const off_t size = 65 << 20;
	CLEANUP_FREE char *lun = NULL;
	CLEANUP_CLOSE int fd = -1;
	struct iser_plan *p;
	char *file;

	(void)state;
	assert_true(asprintf(&lun, "{ \"lun\": 0, \"name\": \"t\", \"kind\": \"tmpfs\", \"node\": "
			     "0, \"size\": %lld, \"path\": \"%s\", \"serial\": \"" SERIAL "4\" }",
			     (long long)size, tmp_dir) > 0);
	says(&(struct parts){ 0, PORTAL, lun }, addresses, true, "memory does not suffice");
	p = plan_of(&(struct parts){ 0, PORTAL, lun });
	file = iser_store_file(&p->targets[0].stores[0]);
	fd = open(file, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(posix_fallocate(fd, 0, size), 0);
	says(&(struct parts){ 0, PORTAL, lun }, addresses, true, NULL);
	says(&(struct parts){ 0, PORTAL, lun }, addresses, false, "memory does not suffice");
	assert_int_equal(unlink(file), 0);
	free(file);
	iser_plan_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_portals),
		cmocka_unit_test(test_rdma),
		cmocka_unit_test(test_other_node),
		cmocka_unit_test(test_no_addresses),
		cmocka_unit_test(test_devices),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_taken),
	};

	return cmocka_run_group_tests(tests, tmp_setup, tmp_teardown);
}
