// SPDX-License-Identifier: Apache-2.0
/* A plan, what LIO has and what is looked at besides: all as it should be, and then with one thing
 * after the other broken, of which the one that is broken must be named and nothing else. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/iser-scene.h"

/* ---- what is broken ---- */

static struct lio_store *store(struct scene *s, const char *name)
{
	for (size_t i = 0; i < s->lio->n_stores; i++)
		if (!strcmp(s->lio->stores[i].name, name))
			return &s->lio->stores[i];
	fail();
	return NULL;
}

/* By another name what is there is not there. */
static void no_target(struct scene *s) { set(&s->lio->targets[0].iqn, "iqn.2026-01.org.test:x"); }
static void other_group(struct scene *s) { s->lio->targets[0].tag = 2; }
static void disabled(struct scene *s) { s->lio->targets[0].enabled = false; }
static void iser_off(struct scene *s) { s->lio->targets[0].portals[0].iser = false; }
static void iser_on(struct scene *s) { s->lio->targets[1].portals[0].iser = true; }
static void no_lio(struct scene *s) { s->lio->there = s->lio->iscsi = false; }
static void no_iscsi(struct scene *s) { s->lio->iscsi = false; }
static void no_address(struct scene *s) { s->facts->targets[0].cards[0].here = false; }
static void other_card(struct scene *s) { s->facts->targets[0].cards[0].node = 1; }
static void no_rdma(struct scene *s) { *s->facts->targets[0].cards[0].rdma = '\0'; }
static void other_cpus(struct scene *s) { set(&s->lio->cpus, "0-8"); }
static void no_store(struct scene *s) { set(&store(s, "mem")->name, "men"); }
static void dead_store(struct scene *s) { store(s, "nvme")->enabled = false; }
static void other_path(struct scene *s) { set(&store(s, "file")->path, "/srv/other"); }
static void other_size(struct scene *s) { store(s, "mem")->size--; }
static void other_serial(struct scene *s) { set(&store(s, "mem")->serial, "another"); }
static void through(struct scene *s) { store(s, "mem")->write_back = false; }
static void back(struct scene *s) { store(s, "file")->write_back = true; }
static void no_mount(struct scene *s) { set(&s->lio->mounts[0].path, "/elsewhere"); }
static void no_lun(struct scene *s) { s->lio->targets[0].luns[1].lun = 1000; }
static void other_lun(struct scene *s) { set(&s->lio->targets[0].luns[1].store, "other"); }
static void other_plugin(struct scene *s) { set(&s->lio->targets[0].luns[1].plugin, "pscsi"); }
static void no_acl(struct scene *s) { set(&s->lio->targets[0].acls[0].initiator, "iqn.x"); }
static void not_given(struct scene *s)
{
	struct lio_mapped *m = &s->lio->targets[0].acls[0].mapped[1];

	m->as = m->lun = 7;
}
static void moved_lun(struct scene *s) { s->lio->targets[0].acls[0].mapped[1].as = 5; }
static void no_writes(struct scene *s) { s->lio->targets[0].acls[0].mapped[0].read_only = true; }
static void other_user(struct scene *s) { set(&s->lio->targets[0].acls[0].user, "x"); }
static void no_secret(struct scene *s) { set(&s->lio->targets[0].acls[0].mutual_secret, ""); }
static void restarted(struct scene *s) { s->facts->restarted = true; }
static void unfinished(struct scene *s) { s->unfinished = true; }
static void other_irq(struct scene *s) { ids_add(&s->facts->irqs[0].now, 9); }
static void no_irq(struct scene *s) { s->facts->irqs[0].known = false; }

static void broken_link(struct scene *s)
{
	free(s->lio->targets[0].luns[0].store);
	free(s->lio->targets[0].luns[0].plugin);
	s->lio->targets[0].luns[0].store = s->lio->targets[0].luns[0].plugin = NULL;
}

static void no_auth(struct scene *s)
{
	s->facts->targets[0].fixed[FIXED_AUTHENTICATION].value = 0;
}

static void too_much_auth(struct scene *s)
{
	s->facts->targets[1].fixed[FIXED_AUTHENTICATION].value = 1;
}

static void unseen_auth(struct scene *s)
{
	s->facts->targets[0].fixed[FIXED_AUTHENTICATION].known = false;
}

static void opened(struct scene *s) { s->facts->targets[0].fixed[FIXED_GENERATE].value = 1; }
static void closed(struct scene *s) { s->facts->targets[1].fixed[FIXED_GENERATE].value = 0; }
static void uncached(struct scene *s) { s->facts->targets[1].fixed[FIXED_CACHE].value = 0; }
static void read_only(struct scene *s) { s->facts->targets[1].fixed[FIXED_PROTECT].value = 1; }

static void other_secret(struct scene *s)
{
	s->facts->targets[0].initiators[0].chap = SECRET_DIFFERS;
}

static void unread_secret(struct scene *s)
{
	s->facts->targets[0].initiators[0].mutual = SECRET_UNREAD;
}

static void unplanned_chap(struct scene *s)
{
	free(s->plan->targets[0].initiators[0].mutual.user);
	s->plan->targets[0].initiators[0].mutual.user = NULL;
}

static void other_attribute(struct scene *s) { s->facts->targets[0].attributes[0].value = 65; }
static void no_attribute(struct scene *s) { s->facts->targets[0].attributes[0].known = false; }

static void store_attribute(struct scene *s)
{
	s->facts->targets[0].stores[0].attributes[0].value = 0;
}

static void elsewhere(struct scene *s)
{
	struct file_pages *p = &s->facts->targets[0].stores[0].pages;

	p->on[0].bytes -= 4096;
	add_pages(p, 1, 4096);
}

static void rather_elsewhere(struct scene *s)
{
	s->facts->targets[1].stores[2].pages.on[0].node = 0;
}

static void empty(struct scene *s) { s->facts->targets[0].stores[0].pages.n_on = 0; }
static void swapped(struct scene *s) { s->facts->targets[1].stores[2].pages.swapped = 4096; }

static void unseen_pages(struct scene *s)
{
	s->facts->targets[0].stores[0].where = STORE_UNSEEN;
	s->facts->targets[0].stores[0].why = copy("/ram0: Permission denied");
}

static void other_thread(struct scene *s) { add_thread(s->facts, "iscsi_ttx", "3-4"); }

static void gone_file(struct scene *s)
{
	s->facts->targets[1].stores[0].where = STORE_GONE;
}

static void other_policy(struct scene *s) { ids_add(&s->lio->mounts[0].nodes, 1); }

static void mounted_over(struct scene *s)
{
	s->facts->targets[0].stores[0].where = STORE_CACHED;
}

static void other_device(struct scene *s)
{
	struct ids *nodes = &s->facts->targets[0].stores[1].nodes;

	memset(nodes, 0, sizeof(*nodes));
	ids_add(nodes, 1);
}

static void unknown_device(struct scene *s)
{
	memset(&s->facts->targets[0].stores[1].nodes, 0, sizeof(struct ids));
}

static void unknown_card(struct scene *s) { s->facts->targets[0].cards[0].node = NODE_UNKNOWN; }

static void no_list(struct scene *s)
{
	free(s->lio->cpus);
	s->lio->cpus = NULL;
}

static void anywhere(struct scene *s)
{
	set(&s->lio->cpus, "0-63");
	s->plan->cpus = ISER_CPUS_ANY;
}

/* ---- what nobody planned ---- */

static void extra_portal(struct scene *s)
{
	struct lio_target *t = &s->lio->targets[1];
	struct lio_portal *p = MORE(t->portals, t->n_portals);

	*p = (struct lio_portal){ .address = copy("fd00::1"), .port = 3260 };
}

static void extra_lun(struct scene *s)
{
	struct lio_target *t = &s->lio->targets[0];
	struct lio_lun *lun = MORE(t->luns, t->n_luns);

	*lun = (struct lio_lun){ .lun = 9, .plugin = copy("fileio"), .store = copy("mine") };
}

static void extra_acl(struct scene *s)
{
	struct lio_target *t = &s->lio->targets[1];
	struct lio_acl *a = MORE(t->acls, t->n_acls);

	*a = (struct lio_acl){ .initiator = copy("iqn.\x1b[31m"), .user = copy(""),
			       .secret = copy(""), .mutual_user = copy(""),
			       .mutual_secret = copy(""), .session = copy("") };
}

static void extra_group(struct scene *s)
{
	struct lio_target *t = MORE(s->lio->targets, s->lio->n_targets);

	*t = (struct lio_target){ .iqn = copy(IQN), .tag = 2, .dir = copy("/t2") };
}

/* Nothing to us. */
static void others(struct scene *s)
{
	struct lio_target *t = MORE(s->lio->targets, s->lio->n_targets);
	struct lio_store *b = MORE(s->lio->stores, s->lio->n_stores);

	*t = (struct lio_target){ .iqn = copy("iqn.2026-01.org.other:x"), .tag = 1,
				  .dir = copy("/t3") };
	*b = (struct lio_store){ .plugin = copy("fileio"), .name = copy("theirs"), .dir = copy("/"),
				 .path = copy("/srv/disk"), .serial = copy("") };
}

/* ---- the table ---- */

/* The findings that are not ok, all of check; with these words in about and text, and mend. */
static const struct {
	void (*break_it)(struct scene *s);
	size_t wrong, unseen;
	const char *check, *says, *mends;
} cases[] = {
	{ no_target, 1, 0, "target", "target " IQN " is not there", "apply the plan again" },
	{ other_group, 1, 0, "target", IQN " is not there", "apply" },
	{ disabled, 1, 0, "enabled", IQN " is disabled", "apply" },
	{ iser_off, 1, 0, "iser", "portal 10.0.0.1 port 3260 of " IQN " iSER is off", "apply" },
	{ iser_on, 1, 0, "iser", "fd00::1 port 3261 of " OPEN_IQN " iSER is on", "apply" },
	{ no_lio, 1, 0, "lio", "plan two the kernel's target (LIO) is not loaded", "apply" },
	{ no_iscsi, 1, 0, "lio", "iscsi_target_mod", "apply" },
	{ no_address, 1, 0, "address", "10.0.0.1 port 3260", "10.0.0.1/PREFIX dev eth0" },
	{ other_card, 1, 0, "card-node", "eth0 is a card of node 1, and the target is for node 0",
	  "node 0" },
	{ unknown_card, 0, 0, NULL, NULL, NULL },
	{ no_rdma, 1, 0, "rdma", "no RDMA device uses eth0", "RDMA driver" },
	{ other_cpus, 1, 0, "cpus", "is 0-8, and should be 0-3,8", "apply" },
	{ other_thread, 1, 0, "thread", "iscsi_ttx 77 may run on CPUs 3-4",
	  "log that initiator out" },
	{ no_list, 0, 0, NULL, NULL, NULL },
	{ anywhere, 0, 0, NULL, NULL, NULL },
	{ no_store, 1, 0, "store", "back store mem of " IQN " is not there", "apply" },
	{ dead_store, 1, 0, "store-enabled", "nvme", "apply" },
	{ other_path, 1, 0, "path", "serves /srv/other, and should serve /srv/disk", "remove" },
	{ other_size, 1, 0, "size", "has 67108863 bytes, and should have 67108864", "remove" },
	{ other_serial, 1, 0, "serial", "\"another\"", "apply" },
	{ through, 1, 0, "write-cache", "mem of " IQN " is write-through, and should be "
	  "write-back", "apply" },
	{ back, 1, 0, "write-cache", "is write-back, and should be write-through", "apply" },
	{ no_mount, 1, 0, "tmpfs", "no tmpfs is mounted on /ram0", "apply" },
	{ mounted_over, 1, 0, "tmpfs", "another filesystem is mounted on /ram0", "umount /ram0" },
	{ other_policy, 1, 0, "tmpfs", "from node 0-1, and should from node 0",
	  "remount,mpol=bind:0 /ram0" },
	{ elsewhere, 1, 0, "pages", "64.0 MiB on node 0, 4.0 KiB on node 1", "save what it holds" },
	{ rather_elsewhere, 0, 0, NULL, NULL, NULL },
	{ empty, 0, 0, NULL, NULL, NULL },
	{ swapped, 1, 0, "pages", "4.0 KiB of its pages are in swap space", "node 1" },
	{ unseen_pages, 0, 1, "pages", "/ram0: Permission denied", "as root" },
	{ gone_file, 1, 0, "file", "file of " OPEN_IQN " what it serves is not there any more",
	  "save what it holds" },
	{ other_device, 1, 0, "device-node", "is a device of node 1, and was planned on node 0",
	  "target of node 1" },
	{ unknown_device, 0, 0, NULL, NULL, NULL },
	{ other_attribute, 1, 0, "attribute", "default_cmdsn_depth is 65, and should be 64",
	  "apply" },
	{ no_attribute, 1, 0, "attribute", "no such attribute", "leave it out" },
	{ store_attribute, 1, 0, "attribute", "mem of " IQN " emulate_tpu is 0, and should be 1",
	  "apply" },
	{ broken_link, 1, 0, "lun", "LUN 0 serves nothing", "luns delete lun0" },
	{ other_lun, 1, 0, "lun", "nvme of " IQN " LUN 1 serves other", "luns delete lun1" },
	{ other_plugin, 1, 0, "lun", "LUN 1 serves nvme", "apply" },
	{ no_auth, 1, 0, "authentication", "authentication is off", "apply" },
	{ too_much_auth, 1, 0, "authentication", OPEN_IQN " authentication is on", "apply" },
	{ unseen_auth, 0, 1, "authentication", "cannot be read", "root" },
	{ opened, 1, 0, "open", IQN " any initiator may log in", "apply" },
	{ closed, 1, 0, "open", "only initiators with an ACL", "apply" },
	{ read_only, 1, 0, "write-protect", "initiators cannot write", "apply" },
	{ uncached, 1, 0, "attribute", "cache_dynamic_acls is 0, and should be 1", "apply" },
	{ not_given, 1, 0, "acl-lun", INITIATOR " at " IQN " is not given LUN 1", "apply" },
	{ moved_lun, 1, 0, "acl-lun", INITIATOR " at " IQN " sees LUN 1 as LUN 5",
	  "/acls/" INITIATOR " delete mapped_lun5; then apply" },
	{ no_writes, 1, 0, "acl-lun", "may not write to LUN 0", "delete mapped_lun0" },
	{ other_user, 1, 0, "chap", "the user is \"x\", and should be \"front\"", "apply" },
	{ no_secret, 1, 0, "chap", "mutual CHAP: it has no secret", "apply" },
	{ other_secret, 1, 0, "chap", "is not that of /etc/front", "apply" },
	{ unread_secret, 0, 1, "chap", "mutual CHAP: /etc/back cannot be read", "root" },
	{ unplanned_chap, 1, 0, "chap", "has mutual CHAP, which was not planned", "apply" },
	{ restarted, 1, 0, "restarted", "what tmpfs and ramdisks held is gone", "apply" },
	{ unfinished, 1, 0, "unfinished", "ended in its midst", "or remove it" },
	{ other_irq, 1, 0, "interrupt", "interrupt 45 of eth0 is handled on CPUs 1,9, and was put "
	  "on 1", "irqbalance" },
	{ no_irq, 1, 0, "interrupt", "is not there any more", "apply" },
	{ extra_portal, 1, 0, "portal-extra", OPEN_IQN " has a portal fd00::1 port 3260",
	  "targetcli /iscsi/" OPEN_IQN "/tpg1/portals delete fd00::1 3260" },
	{ extra_lun, 1, 0, "lun-extra", "a LUN 9 that is not planned, of the back store mine",
	  "targetcli /iscsi/" IQN "/tpg1/luns delete lun9" },
	{ extra_acl, 1, 0, "acl-extra", "initiator iqn.\\x1b[31m in", "acls delete" },
	{ extra_group, 1, 0, "group-extra", "a portal group 2", "targetcli" },
	{ others, 0, 0, NULL, NULL, NULL },
};

/* No other than those that were broken has a word about it. */
static void is_named(const struct finding *f, const char *check, const char *says,
		     const char *mends)
{
	char text[2048];

	snprintf(text, sizeof(text), "%s %s", f->about, f->text);
	if (!check || strcmp(f->check, check))
		fail_msg("%s is named, and not %s: %s", f->check, check ? check : "nothing", text);
	if (!strstr(text, says))
		fail_msg("%s: \"%s\" is not in: %s", check, says, text);
	if (!f->mend || !strstr(f->mend, mends))
		fail_msg("%s: \"%s\" is not in: %s", check, mends, f->mend ? f->mend : "(nothing)");
}

static struct findings judged(const struct scene *s)
{
	const struct judge_ask a = { .plan = s->plan, .unfinished = s->unfinished, .now = s->lio,
				     .facts = s->facts };
	struct findings f;

	assert_int_equal(judge(&a, &f), 0);
	return f;
}

static void test_broken(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct scene s = scene_new();
		struct findings f;

		cases[i].break_it(&s);
		f = judged(&s);
		if (f.wrong != cases[i].wrong || f.unseen != cases[i].unseen)
			fail_msg("case %zu, %s: %zu are wrong and %zu unseen", i,
				 cases[i].check ? cases[i].check : "nothing", f.wrong, f.unseen);
		for (size_t k = 0; k < f.n; k++)
			if (f.v[k].judged != JUDGED_OK)
				is_named(&f.v[k], cases[i].check, cases[i].says, cases[i].mends);
		findings_clear(&f);
		scene_free(&s);
	}
}

/* Two findings: what is there by another name is missing, and is one that nobody planned. */
static void test_two(void **state)
{
	static const struct {
		void (*break_it)(struct scene *s);
		const char *missing, *extra;
	} pairs[] = {
		{ no_lun, "lun", "lun-extra" }, { no_acl, "acl", "acl-extra" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct scene s = scene_new();
		bool missing = false, extra = false;
		struct findings f;

		pairs[i].break_it(&s);
		f = judged(&s);
		for (size_t k = 0; k < f.n; k++) {
			missing |= f.v[k].judged == JUDGED_WRONG &&
				   !strcmp(f.v[k].check, pairs[i].missing);
			extra |= f.v[k].judged == JUDGED_WRONG &&
				 !strcmp(f.v[k].check, pairs[i].extra);
		}
		assert_true(missing && extra);
		assert_int_equal(f.wrong, 2);
		findings_clear(&f);
		scene_free(&s);
	}
}

static void test_good(void **state)
{
	/* Of each that a good plan has, how many lines. */
	static const struct { const char *check; size_t n; } want[] = {
		{ "lio", 1 }, { "cpus", 1 }, { "thread", 1 }, { "interrupt", 1 }, { "target", 2 },
		{ "enabled", 2 },
		{ "authentication", 2 }, { "open", 2 }, { "write-protect", 2 },
		{ "attribute", 4 }, { "portal", 2 }, { "iser", 2 }, { "address", 2 },
		{ "card-node", 2 }, { "rdma", 1 }, { "acl", 1 }, { "acl-lun", 1 }, { "chap", 2 },
		{ "tmpfs", 2 }, { "path", 4 }, { "size", 5 }, { "serial", 5 },
		{ "write-cache", 3 }, { "pages", 3 }, { "device-node", 2 }, { "lun", 5 },
	};
	struct scene s = scene_new();
	struct findings f = judged(&s);
	size_t all = 0;

	(void)state;
	assert_int_equal(f.wrong + f.unseen, 0);
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		size_t n = 0;

		for (size_t k = 0; k < f.n; k++)
			n += !strcmp(f.v[k].check, want[i].check);
		if (n != want[i].n)
			fail_msg("%zu lines of %s", n, want[i].check);
		all += n;
	}
	assert_int_equal(all, f.n);
	for (size_t k = 0; k < f.n; k++)
		assert_null(f.v[k].mend);
	findings_clear(&f);
	scene_free(&s);
}

/* No secret is in what is said, whatever is wrong. */
static void test_secrets(void **state)
{
	struct scene s = scene_new();
	struct findings f;

	(void)state;
	set(&s.lio->targets[0].acls[0].secret, "hushhush");
	other_secret(&s);
	other_user(&s);
	f = judged(&s);
	for (size_t k = 0; k < f.n; k++)
		assert_null(strstr(f.v[k].text, "hushhush"));
	findings_clear(&f);
	scene_free(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_broken),
		cmocka_unit_test(test_two),
		cmocka_unit_test(test_secrets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
