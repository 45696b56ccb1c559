// SPDX-License-Identifier: Apache-2.0
/* Which targets a login is for: by a plan, by a discovery, and by words. */
#include "iser_setup/initiator.h"
#include "iser_setup/login.h"
#include "iser_setup/run.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define IQN "iqn.2026-01.org.example:"
#define ME IQN "me"

static const char plan_text[] =
	"{\"rftp-iser-plan\": 1, \"name\": \"p\", \"targets\": ["
	"{\"iqn\": \"" IQN "both\", \"portals\": [{\"address\": \"10.0.0.1\", \"iser\": false}, "
	"{\"address\": \"10.0.1.1\", \"port\": 3261}, {\"address\": \"10.0.2.1\"}], "
	"\"initiators\": [{\"name\": \"" IQN "you\"}, {\"name\": \"" ME "\", "
	"\"chap\": {\"user\": \"u\", \"secret-file\": \"/s\"}}, {\"name\": \"" IQN "she\", "
	"\"chap\": {\"user\": \"s\", \"secret-file\": \"/t\"}}], "
	"\"luns\": [{\"lun\": 0, \"name\": \"a\", \"kind\": \"ramdisk\", \"size\": 1048576, "
	"\"serial\": \"11111111-1111-1111-1111-111111111111\"}, "
	"{\"lun\": 1, \"name\": \"b\", \"kind\": \"ramdisk\", \"size\": 1048576, "
	"\"serial\": \"22222222-2222-2222-2222-222222222222\"}]}, "
	"{\"iqn\": \"" IQN "yours\", \"portals\": [{\"address\": \"10.0.3.1\"}], "
	"\"initiators\": [{\"name\": \"" IQN "you\"}], "
	"\"luns\": [{\"lun\": 0, \"name\": \"c\", \"kind\": \"ramdisk\", \"size\": 1048576, "
	"\"serial\": \"33333333-3333-3333-3333-333333333333\"}]}, "
	"{\"iqn\": \"" IQN "open\", \"open\": true, \"portals\": [{\"address\": \"10.0.4.1\"}], "
	"\"luns\": [{\"lun\": 0, \"name\": \"d\", \"kind\": \"ramdisk\", \"size\": 1048576, "
	"\"serial\": \"44444444-4444-4444-4444-444444444444\"}]}]}";

/* The plan above; without what its check would not have in one target. */
static struct iser_plan *plan(void)
{
	struct err e = ERR_INIT;
	struct iser_plan *p;
	char *text = strdup(plan_text), *you;

	/* One of the initiators has no secret, where the others have. */
	you = strstr(text, "{\"name\": \"" IQN "you\"}, ");
	memset(you, ' ', strlen("{\"name\": \"" IQN "you\"}, "));
	p = iser_plan_parse("plan", text, &e);
	free(text);
	if (!p)
		fail_msg("%s", e.text);
	return p;
}

/* "IQN-END at PORTAL" of each, with "!" for CHAP. */
static const char *list_text(const struct login_list *l)
{
	static char text[1024];

	*text = '\0';
	for (size_t i = 0; i < l->n; i++) {
		char at[ISCSI_PORTAL_ROOM];
		size_t used = strlen(text);

		snprintf(text + used, sizeof(text) - used, "%s%s%s %s", i ? ", " : "",
			 strrchr(l->v[i].iqn, ':') + 1, l->v[i].chap ? "!" : "",
			 login_portal_text(at, &l->v[i].portal));
	}
	return text;
}

static void planned(const char *initiator, const struct login_wish *w, int want_r, const char *want)
{
	struct iser_plan *p = plan();
	struct err e = ERR_INIT;
	struct login_list l;
	int r = login_from_plan(p, initiator, w, &l, &e);

	assert_int_equal(r, want_r);
	if (r && !strstr(e.text, want))
		fail_msg("\"%s\" is not in \"%s\"", want, e.text);
	if (!r)
		assert_string_equal(list_text(&l), want);
	login_list_clear(&l);
	iser_plan_free(p);
}

static void test_plan(void **state)
{
	static const struct login_portal second = { "10.0.2.1", 3260 }, none = { "10.9.9.9", 3260 },
					 first = { "10.0.0.1", 3260 };
	struct tool_list both = { { IQN "both" }, 1 }, yours = { { IQN "yours" }, 1 };
	struct login_wish w = { .transport = LOGIN_ISER };

	(void)state;
	planned(ME, &w, 0, "both! 10.0.1.1:3261, open 10.0.4.1:3260");
	planned(IQN "you", &w, 0, "yours 10.0.3.1:3260, open 10.0.4.1:3260");
	w.transport = LOGIN_TCP;
	planned(ME, &w, 0, "both! 10.0.0.1:3260, open 10.0.4.1:3260");
	w = (struct login_wish){ .iqns = &both };
	planned(ME, &w, 0, "both! 10.0.1.1:3261");
	w.iqns = &yours;
	planned(ME, &w, -ENOENT, IQN "yours");
	w = (struct login_wish){ .portals = &second, .n_portals = 1 };
	planned(ME, &w, 0, "both! 10.0.2.1:3260");
	w.portals = &none;
	planned(ME, &w, -ENOENT, "addresses given");
	/* It is there, but for TCP alone. */
	w.portals = &first;
	planned(ME, &w, -ENOENT, "addresses given");
}

static void test_plan_without_us(void **state)
{
	struct login_wish w = { .transport = LOGIN_ISER };
	struct iser_plan *p = plan();
	struct err e = ERR_INIT;
	struct login_list l;

	(void)state;
	p->targets[2].open = false;
	assert_int_equal(login_from_plan(p, IQN "nobody", &w, &l, &e), -ENOENT);
	assert_non_null(strstr(e.text, "plan p "));
	assert_non_null(strstr(e.text, IQN "nobody"));
	login_list_clear(&l);
	p->targets[0].portals[1].iser = p->targets[0].portals[2].iser = false;
	assert_int_equal(login_from_plan(p, ME, &w, &l, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, IQN "both"));
	assert_non_null(strstr(e.text, "--transport tcp"));
	login_list_clear(&l);
	iser_plan_free(p);
}

static void test_plan_facts(void **state)
{
	struct login_wish w = { .transport = LOGIN_ISER };
	struct iser_plan *p = plan();
	struct err e = ERR_INIT;
	struct login_list l;

	(void)state;
	assert_int_equal(login_from_plan(p, ME, &w, &l, &e), 0);
	assert_int_equal(l.v[0].plan->n_stores, 2);
	assert_string_equal(login_store(&l.v[0], 1)->name, "b");
	assert_null(login_store(&l.v[0], 2));
	/* The disk that is to be written on is the plan's. */
	assert_int_equal(login_check_disk(&l.v[0], 1, "22222222-2222-2222-2222-222222222222", &e),
			 0);
	assert_int_equal(login_check_disk(&l.v[0], 1, "11111111-1111-1111-1111-111111111111", &e),
			 -ENXIO);
	assert_non_null(strstr(e.text, "LUN 1 of " IQN "both has the serial 1111"));
	assert_int_equal(login_check_disk(&l.v[0], 1, "", &e), 0);
	assert_int_equal(l.v[0].tag, 1);
	assert_string_equal(l.v[0].chap->secret_file, "/s");
	assert_null(l.v[0].mutual);
	assert_null(l.v[1].chap);
	login_list_clear(&l);
	iser_plan_free(p);
	/* Of what is offered nothing is known. */
	assert_int_equal(login_check_disk(&(struct login_target){ .iqn = "x" }, 0, "any", &e), 0);
}

static const char offered[] =
	"10.0.0.1:3260,1 " IQN "a\n"
	"10.0.1.1:3260,2 " IQN "a\n"
	"[fd00::1]:3260,1 " IQN "v6\n"
	"10.0.9.1:3260,1 " IQN "far\n"
	"10.0.0.1:3260,1 " IQN "a\n"; /* as two hosts that were asked both say it */

static void discovered(const char *text, const struct login_wish *w, int want_r, const char *want,
		       const char *want_left)
{
	struct err e = ERR_INIT;
	struct login_list l;
	char *left;
	int r = login_from_discovery(text, w, &l, &left, &e);

	assert_int_equal(r, want_r);
	if (r && !strstr(e.text, want))
		fail_msg("\"%s\" is not in \"%s\"", want, e.text);
	if (!r) {
		assert_string_equal(list_text(&l), want);
		assert_string_equal(left, want_left);
	}
	free(left);
	login_list_clear(&l);
}

static void test_discovery(void **state)
{
	static const struct login_portal portals[] = {
		{ "10.0.1.1", 3260 }, { "10.0.0.1", 3260 }, { "fd00:0::1", 3260 },
	}, other_port = { "10.0.0.1", 3261 };
	struct iser_chap chap = { (char *)"u", (char *)"/s" };
	struct tool_list v6 = { { IQN "v6" }, 1 }, two = { { IQN "v6", IQN "none" }, 2 };
	struct login_wish w = { .portals = portals, .n_portals = 3, .chap = &chap };

	(void)state;
	discovered(offered, &w, 0, "a! 10.0.1.1:3260, v6! [fd00::1]:3260",
		   IQN "far at 10.0.9.1:3260");
	w.portals = &portals[1];
	w.n_portals = 1;
	w.chap = NULL;
	discovered(offered, &w, 0, "a 10.0.0.1:3260", IQN "v6 at [fd00::1]:3260, " IQN
		   "far at 10.0.9.1:3260");
	w.portals = &other_port;
	discovered(offered, &w, -ENOENT, IQN "a at 10.0.0.1:3260", NULL);
	discovered("", &w, -ENOENT, "no target to this host", NULL);
	w = (struct login_wish){ .portals = portals, .n_portals = 3, .iqns = &v6 };
	discovered(offered, &w, 0, "v6 [fd00::1]:3260", "");
	w.iqns = &two;
	discovered(offered, &w, -ENOENT, IQN "none", NULL);
}

static void test_discovery_garbage(void **state)
{
	static const char *const bad[] = {
		"nonsense\n", "10.0.0.1:3260 " IQN "a\n", "10.0.0.1:3260,x " IQN "a\n",
		"10.0.0.1:3260,1\n", "10.0.0.1:3260,1 \n", ",1 " IQN "a\n", "10.0.0.1:0,1 x\n",
		"10.0.0.1:3260,1 ../../etc\n", "10.0.0.1:3260,1 a b\n", "10.0.0.1:3260,70000 a\n",
		"10.0.0.1:3260,1 ..\n", "10.0.0.1:3260,1 a*\n",
		"10.0.0.1:3260,1 -oX\n", "10.0.0.1:3260,1 a\x1b[2J\n",
		"10.0.0.1:3260,1 a\xff\n", "-p:3260,1 a\n", "10.0.0.1\xff:3260,1 a\n",
	};
	static const struct login_portal portal = { "10.0.0.1", 3260 };
	struct login_wish w = { .portals = &portal, .n_portals = 1 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		discovered(bad[i], &w, -EBADMSG, "not understood", NULL);
}

/* Those beyond a bound are not left out in silence. */
static void test_discovery_many(void **state)
{
	static const struct login_portal portal = { "10.0.0.1", 3260 };
	struct login_wish w = { .portals = &portal, .n_portals = 1 };
	struct tool_list last = { { IQN "4999" }, 1 };
	char *text = calloc(5000, 80), *to = text;

	(void)state;
	for (unsigned i = 0; i < 5000; i++)
		to += sprintf(to, "10.0.0.1:3260,1 " IQN "%u\n", i);
	discovered(text, &w, -E2BIG, "--target names", NULL);
	w.iqns = &last;
	discovered(text, &w, 0, "4999 10.0.0.1:3260", "");
	free(text);
}

static void test_address(void **state)
{
	static const struct { const char *word, *host; unsigned port; } good[] = {
		{ "10.0.0.1", "10.0.0.1", 3260 }, { "10.0.0.1:99", "10.0.0.1", 99 },
		{ "store", "store", 3260 }, { "fd00::1", "fd00::1", 3260 },
		{ "[fd00::1]", "fd00::1", 3260 }, { "[fd00::1]:65535", "fd00::1", 65535 },
		{ "fe80::1%eth0", "fe80::1%eth0", 3260 },
	};
	static const char *const bad[] = {
		"", ":", ":3260", "a:", "a:0", "a:65536", "a:x", "[a", "[]", "[a]b", "[a]:", "/a",
	};
	struct err e = ERR_INIT;
	unsigned port;
	char *host;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(login_address(good[i].word, &host, &port, &e), 0);
		assert_string_equal(host, good[i].host);
		assert_int_equal(port, good[i].port);
		free(host);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (login_address(bad[i], &host, &port, &e) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i]);
		free(host);
	}
}

static void test_initiator(void **state)
{
	static const struct { const char *text, *want; } cases[] = {
		{ "InitiatorName=" ME "\n", ME },
		{ "## a comment\n\nInitiatorAlias=x\nInitiatorName=" ME " \n", ME },
		{ "InitiatorName=" ME, ME }, { "InitiatorName=\n", NULL }, { "", NULL },
		{ "#InitiatorName=" ME "\n", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *name = login_initiator_name(cases[i].text);

		if (cases[i].want)
			assert_string_equal(name, cases[i].want);
		else
			assert_null(name);
		free(name);
	}
}

static void test_reason(void **state)
{
	static const struct { const char *said, *want; } cases[] = {
		{ "", "" }, { "one\n", "one" }, { "one\ntwo\n\n", "two" },
		{ "System has not been booted with systemd as init system (PID 1).\n"
		  "iscsiadm: Could not login to [iface: iser].\n"
		  "iscsiadm: initiator reported error (24 - refused)\n"
		  "iscsiadm: Could not log into all portals\n",
		  "iscsiadm: initiator reported error (24 - refused)" },
		{ "too small\nUsage: mkfs.xfs\n<num> is xxx (bytes)\n", "too small" },
		{ "Usage: x\n", "Usage: x" },
		{ "  no kernel\n  Run `lvcreate --help' for more information.\n", "no kernel" },
		{ "iscsiadm: Could not log into all portals\n",
		  "iscsiadm: Could not log into all portals" },
		{ "a \033[31mred\n", "a \\x1b[31mred" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char reason[100];

		run_reason(cases[i].said, reason, sizeof(reason));
		assert_string_equal(reason, cases[i].want);
	}
}

/* What a login's failure means decides what is taken back. */
static void test_explain(void **state)
{
	static const struct { int status, code; const char *says; } cases[] = {
		{ 24, -EACCES, "it lets this host not in without CHAP" },
		{ 15, -EEXIST, "somebody else has just logged in there" },
		{ 8, -EIO, "no answer by RDMA" }, { 19, -EIO, "refused" }, { 99, -EIO, "said so" },
	};
	const struct login_target t = { .iqn = IQN "a", .portal = { "10.0.0.1", 3260 } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err e = ERR_INIT;

		err_set(&e, -EIO, "iscsiadm: said so");
		assert_int_equal(initiator_explain(cases[i].status, &t, LOGIN_ISER, &e),
				 cases[i].code);
		assert_non_null(strstr(e.text, IQN "a at 10.0.0.1:3260: "));
		assert_non_null(strstr(e.text, cases[i].says));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan),
		cmocka_unit_test(test_plan_without_us),
		cmocka_unit_test(test_plan_facts),
		cmocka_unit_test(test_discovery),
		cmocka_unit_test(test_discovery_garbage),
		cmocka_unit_test(test_discovery_many),
		cmocka_unit_test(test_address),
		cmocka_unit_test(test_initiator),
		cmocka_unit_test(test_reason),
		cmocka_unit_test(test_explain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
