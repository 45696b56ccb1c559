// SPDX-License-Identifier: Apache-2.0
/* What is others', or in use, or holds data, is not touched on the way to a plan unless that was
 * asked for. */
#include "tests/support/iser-way.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* The only problem, or the first, has these words; nothing without. */
static void problem_is(const struct way *w, const char *words, const char *what)
{
	if (!words && w->steps.problems.n)
		fail_msg("%s: %s", what, w->steps.problems.v[0]);
	if (words && !w->steps.problems.n)
		fail_msg("%s: is not refused", what);
	if (words && !strstr(w->steps.problems.v[0], words))
		fail_msg("%s: %s", what, w->steps.problems.v[0]);
}

/* The host as the first plan has it, *a, on its way to what differs so, which is returned. */
static struct iser_plan *arrived(struct way *w, const char *change, struct iser_plan **a)
{
	const struct way_change *c = way_named(change);

	*a = way_plan(NULL, NULL);
	way_begin(w);
	way_arrive(w, *a);
	return way_plan(c->what, c->that);
}

static void test_data(void **state)
{
	static const struct {
		const char *change, *words;
	} table[] = {
		{ "a bigger tmpfs", "back store t: another size" },
		{ "on the other node", "back store t: another size, node or policy" },
		{ "preferred", "back store t: another size, node or policy" },
		{ "another mount point", "back store t: another path" },
		{ "a bigger ramdisk", "back store r: another size" },
		{ "another name", "back store r: the plan has it no more" },
		{ "the other less", "the plan has it no more" },
		{ "a bigger file", NULL },
		{ "another serial", NULL },
		{ "one target less", NULL },
		{ "write-through", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct way w;
		struct iser_plan *a, *b = arrived(&w, table[i].change, &a);

		w.destroy = false;
		way_steps(&w, b);
		problem_is(&w, table[i].words, table[i].change);
		if (table[i].words)
			assert_non_null(strstr(w.steps.problems.v[0], "--destroy-data"));
		way_leave(&w, a, b);
	}
}

/* What a file held is cut off when it gets smaller. */
static void test_smaller_file(void **state)
{
	struct iser_plan *a = way_plan("\"kind\": \"file\", \"size\": 1048576",
				   "\"kind\": \"file\", \"size\": 2097152");
	struct iser_plan *b = way_plan(NULL, NULL);
	struct way w;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	w.destroy = false;
	way_steps(&w, b);
	problem_is(&w, "back store f: another size", "smaller");
	w.destroy = true;
	way_arrive(&w, b);
	assert_int_equal(model_look.size("/d/f"), 1048576);
	way_leave(&w, a, b);
}

/* What is only in a file, for LIO was started again, is no less data. */
static void test_smaller_file_restarted(void **state)
{
	struct iser_plan *a = way_plan("\"kind\": \"file\", \"size\": 1048576",
				       "\"kind\": \"file\", \"size\": 2097152");
	struct iser_plan *b = way_plan(NULL, NULL);
	struct way w;

	(void)state;
	way_begin_again(&w, a);
	model_add_file("/d/f", 2097152);
	way_steps(&w, b);
	problem_is(&w, "back store f: a smaller size", "smaller");
	assert_non_null(strstr(w.steps.problems.v[0], "--destroy-data"));
	w.destroy = true;
	way_arrive(&w, b);
	assert_int_equal(model_look.size("/d/f"), 1048576);
	way_leave(&w, a, b);
}

/* A back store that goes to another file takes that as it is, or not at all. */
static void test_strangers_file(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan("/d/f", "/d/g");
	struct way w;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	model_add_file("/d/g", 5 << 20);
	way_steps(&w, b);
	problem_is(&w, "/d/g is there already, and has 5242880 bytes", "a longer file");
	model_add_file("/d/g", 5);
	way_steps(&w, b);
	problem_is(&w, "/d/g is there already, and has 5 bytes", "a shorter file");
	way_leave(&w, a, b);
}

/* Who serves a file whose name is gone lets go of what it held, whatever the reason. */
static void test_nameless_file(void **state)
{
	static const char *const ways[] = { "another serial", "one target less", "a bigger file" };

	(void)state;
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		json_t *gone = json_pack("{s:s, s:s}", "do", "remove-file", "path", "/d/f");
		struct way w;
		struct iser_plan *a, *b = arrived(&w, ways[i], &a);

		model_do(gone);
		w.destroy = false;
		way_steps(&w, a);
		problem_is(&w, NULL, "the same plan");
		assert_int_equal(w.steps.n, 0);
		way_steps(&w, b);
		problem_is(&w, "back store f: its file was removed or renamed", ways[i]);
		way_steps(&w, NULL);
		problem_is(&w, "back store f: its file was removed or renamed", "remove");
		w.destroy = true;
		way_steps(&w, b);
		problem_is(&w, NULL, "data may be lost");
		json_decref(gone);
		way_leave(&w, a, b);
	}
}

static void test_sessions(void **state)
{
	static const struct {
		const char *change, *words;
	} table[] = {
		{ "another initiator", "the initiator " ME " is logged in, and is to lose" },
		{ "another number", "the initiator " ME " is logged in, and a LUN of it" },
		{ "write-through", "the initiator " ME " is logged in, and a LUN of it" },
		{ "the other less", "the initiator " ME " is logged in, and it is to go" },
		{ "one target less", "2 initiators that it does not name are logged in" },
		{ "another serial", "2 initiators that it does not name are logged in" },
		{ "closed", "2 initiators that it does not name are logged in, and it is to be" },
		{ "one initiator more", NULL },
		{ "one LUN more", NULL },
		{ "another port", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct way w;
		struct iser_plan *a, *b = arrived(&w, table[i].change, &a);

		for (size_t t = 0; t < model.n_targets; t++) {
			if (!strcmp(model.targets[t].iqn, NODE0))
				model.targets[t].acls[0].logged_in = true;
			if (!strcmp(model.targets[t].iqn, NODE1))
				model.targets[t].dynamic = 2;
		}
		way_steps(&w, b);
		problem_is(&w, table[i].words, table[i].change);
		if (table[i].words)
			assert_non_null(strstr(w.steps.problems.v[0], "--force"));
		w.force = true;
		way_steps(&w, b);
		problem_is(&w, NULL, "forced");
		way_leave(&w, a, b);
	}
}

/* What is in LIO, or of another plan, before a first plan that wants it, too. */
static void test_others(void **state)
{
	static const struct {
		const char *there[3], *words;
	} table[] = {
		{ { "{\"do\": \"create-target\", \"iqn\": \"" NODE1 "\"}" },
		  "target " NODE1 ": LIO has it already" },
		{ { "{\"do\": \"create-store\", \"plugin\": \"rd_mcp\", \"name\": \"r\", \"path\": "
		    "\"\", \"size\": 4096, \"write-back\": false, \"serial\": \"x\"}" },
		  "back store r: LIO has a rd_mcp of this name" },
		{ { "{\"do\": \"make-dir\", \"path\": \"/m/t\"}",
		    "{\"do\": \"mount\", \"path\": \"/m/t\", \"options\": "
		    "\"size=1048576,mode=0700,mpol=bind:0\"}" },
		  "back store t: a tmpfs that this plan did not mount" },
		{ { "{\"do\": \"make-file\", \"path\": \"/d/f\", \"size\": 5}" },
		  "/d/f is there already, and has 5 bytes, not 1048576" },
		{ { "{\"do\": \"create-target\", \"iqn\": \"iqn.2026-01.org.example:wild\"}",
		    "{\"do\": \"create-portal\", \"iqn\": \"iqn.2026-01.org.example:wild\", "
		    "\"address\": \"0.0.0.0\", \"port\": 3260, \"iser\": false}" },
		  "portal 192.0.2.1, port 3260: the target iqn.2026-01.org.example:wild listens" },
		{ { "{\"do\": \"create-target\", \"iqn\": \"iqn.2026-01.org.example:wild\"}",
		    "{\"do\": \"create-portal\", \"iqn\": \"iqn.2026-01.org.example:wild\", "
		    "\"address\": \"::0\", \"port\": 3260, \"iser\": false}" },
		  "portal 192.0.2.1, port 3260: the target iqn.2026-01.org.example:wild listens" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct iser_plan *a = way_plan(NULL, NULL);
		struct way w;

		way_begin(&w);
		for (size_t k = 0; k < 3 && table[i].there[k]; k++) {
			json_t *r = json_loads(table[i].there[k], 0, NULL);

			model_do(r);
			json_decref(r);
		}
		way_steps(&w, a);
		problem_is(&w, table[i].words, table[i].words);
		way_leave(&w, a, NULL);
	}
}

static void test_other_plan(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan(NULL, NULL);
	struct way w;

	(void)state;
	way_begin(&w);
	w.other = (struct iser_state){ .name = (char *)"q", .boot = (char *)"boot", .applying = b };
	way_steps(&w, a);
	assert_int_equal(w.steps.problems.n, 6); /* four stores, two targets */
	problem_is(&w, "back store t: the plan q has one of this name", "another plan");
	way_leave(&w, a, b);
}

/* One problem, with these words. */
static void one_problem(const struct way *w, const char *words)
{
	problem_is(w, words, words);
	assert_int_equal(w->steps.problems.n, 1);
}

/* Another plan's, though called otherwise. */
static void test_other_plans_store(void **state)
{
	static const struct {
		const char *what, *that, *words;
	} table[] = {
		{ "/x/f", "/d/f", "back store f: the plan q has one at /d/f, too" },
		{ "000000000001\"", "000000000003\"", "back store f: the plan q has one of its serial" },
		{ "/x/f", "/m/t/f", "back store t: the plan q has one at /m/t/f" },
		{ "/x/f", "/m/t/disk.img", "back store t: the plan q has one at /m/t/disk.img" },
		{ "/y/t", "/d", "back store f: the plan q has one at /d" },
		{ "/x/f", "/m/tt", NULL },
	};
	static const char other[] = "{\"rftp-iser-plan\": 1, \"name\": \"q\", \"targets\": [{"
		"\"iqn\": \"iqn.2026-01.org.example:q\", \"open\": true, \"portals\": "
		"[{\"address\": \"192.0.2.1\"}], \"luns\": [{\"name\": \"qf\", \"kind\": "
		"\"file\", \"size\": 1048576, \"path\": \"/x/f\", \"serial\": "
		"\"10000000-0000-4000-8000-000000000001\"}, {\"lun\": 1, \"name\": \"qt\", "
		"\"kind\": \"tmpfs\", \"node\": 0, \"size\": 1048576, \"path\": \"/y/t\", "
		"\"serial\": \"10000000-0000-4000-8000-000000000002\"}]}]}";
	struct iser_plan *a = way_plan(NULL, NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const char *at = strstr(other, table[i].what);
		CLEANUP_ISER_PLAN struct iser_plan *q = NULL;
		CLEANUP_FREE char *text = NULL;
		struct way w;

		assert_true(asprintf(&text, "%.*s%s%s", (int)(at - other), other, table[i].that,
				     at + strlen(table[i].what)) > 0);
		if (strstr(table[i].words ? table[i].words : "", "serial"))
			*strstr(text, "10000000-") = '0';
		q = iser_plan_parse("q", text, NULL);
		assert_non_null(q);
		way_begin(&w);
		w.other = (struct iser_state){ .name = (char *)"q", .boot = (char *)"boot",
					       .applied = q };
		way_steps(&w, a);
		if (table[i].words)
			one_problem(&w, table[i].words);
		else
			way_no_problems(&w);
		way_end(&w);
	}
	iser_plan_free(a);
}

/* By its serial an initiator knows a disk: two of one would be mixed up. */
static void test_strangers_serial(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);
	struct way w;

	(void)state;
	way_begin(&w);
	free(model.stores[0].serial);
	model.stores[0].serial = strdup("00000000-0000-4000-8000-000000000003");
	way_steps(&w, a);
	one_problem(&w, "back store f: LIO's back store theirs has its serial");
	way_leave(&w, a, NULL);
}

/* A file that this plan once made, and that others use by now, is not this plan's to remove. */
static void test_made_and_given_away(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan("\"lun\": 0, \"name\": \"f\", "
		"\"kind\": \"file\", \"size\": 1048576, \"path\": \"/d/f\", ", "\"name\": \"f\", "
		"\"kind\": \"ramdisk\", \"size\": 1048576, ");

	(void)state;
	for (int lio = 0; lio < 2; lio++) {
		struct way w;

		way_begin(&w);
		way_arrive(&w, a);
		way_arrive(&w, b);
		assert_int_equal(model_look.size("/d/f"), 1048576);
		if (lio) {
			free(model.stores[0].path);
			model.stores[0].path = strdup("/d/f");
		} else {
			w.other = (struct iser_state){ .name = (char *)"q", .boot = (char *)"boot",
						       .applied = a };
		}
		way_steps(&w, NULL);
		way_no_problems(&w);
		way_do(&w, w.steps.n);
		assert_int_equal(model_look.size("/d/f"), 1048576);
		assert_non_null(strstr(w.steps.notes.v[w.steps.notes.n - 1], "/d/f stays"));
		way_end(&w);
	}
	iser_plan_free(a);
	iser_plan_free(b);
}

/* What others have put into a target of ours stays there. */
static void test_guests(void **state)
{
	static const char acl[] = "{\"do\": \"create-acl\", \"iqn\": \"" NODE0 "\", \"initiator\": "
		"\"iqn.2026-01.org.example:guest\"}";
	static const char lun[] = "{\"do\": \"create-lun\", \"iqn\": \"" NODE0 "\", \"lun\": 3, "
		"\"plugin\": \"rd_mcp\", \"store\": \"theirs\"}";
	const struct way_change *c = way_named("one LUN more");
	struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan(c->what, c->that);
	json_t *r = json_loads(acl, 0, NULL), *s = json_loads(lun, 0, NULL);
	struct way w;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	model_do(r);
	model_do(s);
	way_steps(&w, a);
	way_no_problems(&w);
	assert_int_equal(w.steps.n, 0);
	way_steps(&w, b);
	problem_is(&w, "its LUN 3 serves the back store theirs", "a LUN that is a guest's");
	json_decref(r);
	json_decref(s);
	way_leave(&w, a, b);
}

static bool is_noted(const struct way *w, const char *words)
{
	for (size_t i = 0; i < w->steps.notes.n; i++)
		if (strstr(w->steps.notes.v[i], words))
			return true;
	return false;
}

/* But a target that is closed, or goes, has to be taken apart. */
static void test_guests_go(void **state)
{
	static const struct {
		const char *request, *words;
	} table[] = {
		{ "{\"do\": \"create-lun\", \"iqn\": \"" NODE1 "\", \"lun\": 3, "
		  "\"plugin\": \"rd_mcp\", \"store\": \"theirs\"}",
		  "its LUN 3, the back store theirs, which this plan did not make" },
		{ "{\"do\": \"create-portal\", \"iqn\": \"" NODE1 "\", \"address\": "
		  "\"192.0.2.77\", \"port\": 3260, \"iser\": false}",
		  "its portal 192.0.2.77, port 3260, which this plan did not make" },
		{ "{\"do\": \"create-acl\", \"iqn\": \"" NODE1 "\", \"initiator\": "
		  "\"iqn.2026-01.org.example:guest\"}",
		  "the access of iqn.2026-01.org.example:guest, which this plan did not make" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct way w;
		struct iser_plan *a, *b = arrived(&w, "closed", &a);
		json_t *r = json_loads(table[i].request, 0, NULL);

		way_steps(&w, b);
		way_no_problems(&w);
		model_do(r);
		w.force = true;
		way_steps(&w, b);
		problem_is(&w, table[i].words, "closed");
		way_steps(&w, NULL);
		way_no_problems(&w);
		assert_true(is_noted(&w, table[i].words));
		json_decref(r);
		way_leave(&w, a, b);
	}
}

/* ---- another boot ---- */

static void test_restarted(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);
	CLEANUP_FREE char *want = way_alone(a);
	struct way w;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	way_forget_made(&w);
	way_end(&w);
	way_begin_again(&w, a);
	model_add_file("/d/f", 1048576);
	way_steps(&w, a);
	way_no_problems(&w);
	assert_int_equal(w.steps.notes.n, 2);
	assert_string_equal(w.steps.notes.v[0], "back store t: what it held is gone: it was in "
			    "memory, and the host was started again");
	assert_string_equal(w.steps.notes.v[1], "back store r: what it held is gone: it was in "
			    "memory, and the host was started again");
	way_do(&w, w.steps.n);
	way_same(want, "after another boot");
	way_leave(&w, a, NULL);
}

/* What a file is on may not be mounted yet: below it there is no place for a new one. */
static void test_not_mounted_yet(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);
	struct iser_plan *b = way_plan("\"name\": \"f\"", "\"name\": \"other\"");
	struct way w;

	(void)state;
	way_begin_again(&w, a);
	way_steps(&w, a);
	problem_is(&w, "back store f: its file /d/f is not there any more", "not mounted");
	/* Whatever it is called. */
	way_steps(&w, b);
	problem_is(&w, "back store other: its file /d/f is not there any more", "another name");
	w.destroy = true;
	way_arrive(&w, a);
	assert_int_equal(model_look.size("/d/f"), 1048576);
	way_leave(&w, a, b);
}

/* A tmpfs that somebody has unmounted under a back store, which goes on with what it has open. */
static void test_unmounted(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);
	struct way w;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	model.n_mounts--;
	free(model.mounts[0].path);
	free(model.mounts[0].source);
	free(model.mounts[0].options);
	w.destroy = false;
	way_steps(&w, a);
	problem_is(&w, "back store t: its tmpfs was unmounted", "unmounted");
	way_leave(&w, a, NULL);
}

/* A back store that somebody has made in the place of ours is not ours by its name. */
static void test_strangers_store(void **state)
{
	struct way w;
	struct iser_plan *a, *b = arrived(&w, "another name", &a);

	(void)state;
	for (size_t i = 0; i < model.n_stores; i++)
		if (!strcmp(model.stores[i].name, "r")) {
			free(model.stores[i].serial);
			model.stores[i].serial = strdup("somebody's");
		}
	way_steps(&w, b);
	problem_is(&w, "back store r: what LIO has by this name has another serial", "apply");
	way_steps(&w, NULL);
	problem_is(&w, "back store r: what LIO has by this name has another serial", "remove");
	way_leave(&w, a, b);
}

/* What others have mounted over a tmpfs of ours is not unmounted for it, nor written to. */
static void test_covered(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);

	(void)state;
	for (int tmpfs = 0; tmpfs < 2; tmpfs++) {
		struct tmpfs_mount *over;
		struct way w;

		way_begin(&w);
		way_arrive(&w, a);
		model.mounts[0].covered = true;
		if (tmpfs) {
			over = iser_plan_add(model.mounts, model.n_mounts);
			*over = (struct tmpfs_mount){ .path = strdup("/m/t"),
						      .source = strdup("theirs"),
						      .options = strdup("rw") };
		}
		way_steps(&w, a);
		problem_is(&w, tmpfs ? "a tmpfs that this plan did not mount is at /m/t" :
			   "something else is mounted over its tmpfs", "apply");
		way_steps(&w, NULL);
		problem_is(&w, "something else is mounted over its tmpfs at /m/t", "remove");
		way_end(&w);
	}
	iser_plan_free(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_data), cmocka_unit_test(test_smaller_file),
		cmocka_unit_test(test_smaller_file_restarted),
		cmocka_unit_test(test_strangers_file), cmocka_unit_test(test_nameless_file),
		cmocka_unit_test(test_other_plans_store), cmocka_unit_test(test_strangers_serial),
		cmocka_unit_test(test_made_and_given_away),
		cmocka_unit_test(test_sessions), cmocka_unit_test(test_others),
		cmocka_unit_test(test_other_plan), cmocka_unit_test(test_guests),
		cmocka_unit_test(test_guests_go),
		cmocka_unit_test(test_not_mounted_yet), cmocka_unit_test(test_restarted),
		cmocka_unit_test(test_unmounted), cmocka_unit_test(test_covered),
		cmocka_unit_test(test_strangers_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
