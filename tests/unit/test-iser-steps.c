// SPDX-License-Identifier: Apache-2.0
/* From any plan to any other, on a host in memory: it arrives, what is stopped goes back, what is
 * killed goes on or away. */
#include "tests/support/iser-way.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void test_arrives(void **state)
{
	(void)state;
	for (size_t i = 0; i < way_n_changes; i++) {
		struct iser_plan *a = way_plan(NULL, NULL);
		struct iser_plan *b = way_plan(way_changes[i].what, way_changes[i].that);
		CLEANUP_FREE char *want = way_alone(b), *nothing = way_alone(NULL);
		struct way w;

		way_begin(&w);
		way_arrive(&w, a);
		way_arrive(&w, b);
		/* A file, which holds data, stays when nobody wants it. */
		if (!strstr(way_changes[i].name, "target less"))
			way_same(want, way_changes[i].name);
		way_steps(&w, b);
		way_no_problems(&w);
		if (w.steps.n)
			fail_msg("%s, again: %s", way_changes[i].name, w.steps.v[0].text);
		w.cpus = "0-7";
		way_steps(&w, NULL);
		way_no_problems(&w);
		way_do(&w, w.steps.n);
		way_same(nothing, "removed");
		way_leave(&w, a, b);
	}
}

/* Undone after any number of steps it is as before, but for what was given up with
 * --destroy-data; the files of memory stores are there again. */
static void goes_back(struct iser_plan *from, const struct iser_plan *to, const char *name)
{
	size_t n = 1;

	for (size_t k = 0; k <= n; k++) {
		CLEANUP_FREE char *before = NULL;
		struct way w;

		way_begin(&w);
		if (from)
			way_arrive(&w, from);
		before = model_text();
		way_steps(&w, to);
		way_no_problems(&w);
		n = w.steps.n;
		way_do(&w, k);
		way_undo(&w, k);
		way_same(before, name);
		way_end(&w);
	}
}

static void test_goes_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < way_n_changes; i++) {
		struct iser_plan *a = way_plan(NULL, NULL);
		struct iser_plan *b = way_plan(way_changes[i].what, way_changes[i].that);

		goes_back(i ? a : NULL, b, way_changes[i].name);
		goes_back(b, a, way_changes[i].name);
		iser_plan_free(a);
		iser_plan_free(b);
	}
}

/* A worker that was ended in the midst of a request leaves half of it: an initiator that is not
 * given a LUN, a user without a secret, a target without its portal group. */
static void test_halves(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);
	CLEANUP_FREE char *want = way_alone(a);
	struct way w;
	json_t *half;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	for (size_t t = 0; t < model.n_targets; t++)
		if (!strcmp(model.targets[t].iqn, NODE0))
			model.targets[t].acls[0].n_mapped--;
	way_arrive(&w, a);
	way_same(want, "an initiator that lacks a LUN");
	for (size_t t = 0; t < model.n_targets; t++)
		if (!strcmp(model.targets[t].iqn, NODE0))
			*model.targets[t].acls[0].secret = '\0';
	way_steps(&w, a);
	assert_int_equal(w.steps.n, 1);
	/* The worker would not take him as he is. */
	assert_string_equal(json_string_value(json_object_get(w.steps.v[0].undo, "user")), "");
	way_arrive(&w, a);
	way_same(want, "a user without a secret");
	w.cpus = NULL;
	way_steps(&w, NULL);
	way_do(&w, w.steps.n);
	half = json_pack("{s:s, s:s}", "do", "create-target", "iqn", NODE1);
	model_do(half);
	json_decref(half);
	model.targets[model.n_targets - 1].tag = LIO_NO_GROUP;
	w.cpus = "0-3";
	way_arrive(&w, a);
	way_same(want, "a target without its portal group");
	way_leave(&w, a, NULL);
}

/* Killed after any number of steps it can go on, go to yet another plan, or go away. */
static void test_killed(void **state)
{
	struct iser_plan *a = way_plan(NULL, NULL);
	CLEANUP_FREE char *nothing = way_alone(NULL), *only_a = way_alone(a);

	(void)state;
	for (size_t i = 0; i < way_n_changes; i++) {
		struct iser_plan *b = way_plan(way_changes[i].what, way_changes[i].that);
		CLEANUP_FREE char *only_b = way_alone(b);
		size_t n = 1;

		for (size_t k = 0; k <= n; k++)
			for (int then = 0; then < 3; then++) {
				struct way w;

				way_begin(&w);
				if (i)
					way_arrive(&w, a);
				way_steps(&w, b);
				n = w.steps.n;
				way_do(&w, k);
				w.state.applying = b;
				if (then < 2)
					way_arrive(&w, then ? b : a);
				if (!then)
					way_same(only_a, way_changes[i].name);
				else if (then == 1 && !strstr(way_changes[i].name, "target less") &&
					 !strstr(way_changes[i].name, "IQN"))
					way_same(only_b, way_changes[i].name);
				w.cpus = "0-7";
				way_steps(&w, NULL);
				way_no_problems(&w);
				way_do(&w, w.steps.n);
				way_same(nothing, way_changes[i].name);
				way_end(&w);
			}
		iser_plan_free(b);
	}
	iser_plan_free(a);
}

/* ---- only what differs ---- */

static void test_only_what_differs(void **state)
{
	static const struct {
		const char *change, *texts[17];
	} table[] = {
		{ "one initiator more", { "let the initiator " YOU " log in to the target " NODE0,
		  "ask for the CHAP secret of " YOU " at the target " NODE0 } },
		{ "one LUN more", { "create the back store more: ramdisk of 4.0 MiB",
		  "create LUN 3 of the target " NODE0 ": the back store more" } },
		{ "another port", { "delete the portal 192.0.2.1, port 3260, of the target " NODE0,
		  "create the portal 192.0.2.1, port 3261, of the target " NODE0 ", for iSER" } },
		{ "another user", { "ask for the CHAP secret of " ME " at the target " NODE0
		  ", and give one in return" } },
		{ "another attribute", { "set default_cmdsn_depth of the target " NODE1
		  " to 16" } },
		/* LIO would go on to let in all who were in there before. */
		{ "closed", { "disable the target " NODE1,
		  "delete the portal 192.0.2.2, port 3260, of the target " NODE1,
		  "delete LUN 0 of the target " NODE1, "delete LUN 7 of the target " NODE1,
		  "delete the target " NODE1, "create the target " NODE1,
		  "set authentication of the target " NODE1 " to 0",
		  "set generate_node_acls of the target " NODE1 " to 0",
		  "set demo_mode_write_protect of the target " NODE1 " to 1",
		  "set cache_dynamic_acls of the target " NODE1 " to 0",
		  "set default_cmdsn_depth of the target " NODE1 " to 32",
		  "create LUN 0 of the target " NODE1 ": the back store f",
		  "create LUN 7 of the target " NODE1 ": the back store b",
		  "let the initiator " YOU " log in to the target " NODE1,
		  "create the portal 192.0.2.2, port 3260, of the target " NODE1 ", for iSER",
		  "enable the target " NODE1 } },
		/* What it holds stays in its tmpfs. */
		{ "write-through", { "delete LUN 0 of the target " NODE0,
		  "take the back store t away",
		  "create the back store t: tmpfs of 1.0 MiB on node 0, write-through",
		  "set emulate_tpu of the back store t to 1",
		  "create LUN 0 of the target " NODE0 ": the back store t" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		const struct way_change *c = way_named(table[i].change);
		struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan(c->what, c->that);
		struct way w;
		size_t k = 0;

		way_begin(&w);
		way_arrive(&w, a);
		w.destroy = false;
		way_steps(&w, b);
		way_no_problems(&w);
		for (size_t s = 0; s < w.steps.n; s++) {
			if (!w.steps.v[s].text)
				continue;
			assert_non_null(table[i].texts[k]);
			assert_string_equal(w.steps.v[s].text, table[i].texts[k]);
			k++;
		}
		assert_null(table[i].texts[k]);
		way_leave(&w, a, b);
	}
}

/* LIO may have a portal's address as somebody else has written it. */
static void test_other_spelling(void **state)
{
	struct iser_plan *a = way_plan("192.0.2.1\"", "2001:db8::1\"");
	struct iser_plan *b = way_plan("192.0.2.1\"", "2001:db8::1\", \"iser\": false");
	CLEANUP_FREE char *want = way_alone(b);
	struct way w;

	(void)state;
	way_begin(&w);
	way_arrive(&w, a);
	for (size_t t = 0; t < model.n_targets; t++)
		if (!strcmp(model.targets[t].iqn, NODE0)) {
			free(model.targets[t].portals[0].address);
			model.targets[t].portals[0].address = strdup("2001:db8:0:0::1");
		}
	way_steps(&w, a);
	assert_int_equal(w.steps.n, 0);
	way_arrive(&w, b);
	way_same(want, "written otherwise");
	way_leave(&w, a, b);
}

/* What is not put back is said. */
static void test_attributes_dropped(void **state)
{
	static const char *const told[] = {
		"back store t: emulate_tpu stays 1, though the plan names it no more",
		"target " NODE1 ": default_cmdsn_depth stays 32, though the plan names it no more",
	};
	static const char *const what[] = { "\"emulate_tpu\": 1", "\"default_cmdsn_depth\": 32" };

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan(what[i], "");
		struct way w;

		way_begin(&w);
		way_arrive(&w, a);
		way_steps(&w, b);
		way_no_problems(&w);
		assert_int_equal(w.steps.n, 0);
		assert_int_equal(w.steps.notes.n, 1);
		assert_string_equal(w.steps.notes.v[0], told[i]);
		way_leave(&w, a, b);
	}
}

/* Memory that steps take and give back is what checks go by. */
static void test_memory(void **state)
{
	const struct way_change *c = way_named("a bigger tmpfs");
	struct iser_plan *a = way_plan(NULL, NULL), *b = way_plan(c->what, c->that);
	int64_t sum = 0;
	struct way w;

	(void)state;
	way_begin(&w);
	way_steps(&w, a);
	for (size_t i = 0; i < w.steps.n; i++) {
		sum += w.steps.v[i].memory;
		if (w.steps.v[i].memory)
			assert_true(w.steps.v[i].node == 0 && w.steps.v[i].strictly);
	}
	assert_int_equal(sum, 2 << 20);
	way_arrive(&w, a);
	way_steps(&w, b);
	sum = 0;
	for (size_t i = 0; i < w.steps.n; i++)
		sum += w.steps.v[i].memory;
	assert_int_equal(sum, 1 << 20);
	way_leave(&w, a, b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrives), cmocka_unit_test(test_goes_back),
		cmocka_unit_test(test_halves), cmocka_unit_test(test_killed),
		cmocka_unit_test(test_only_what_differs), cmocka_unit_test(test_memory),
		cmocka_unit_test(test_other_spelling), cmocka_unit_test(test_attributes_dropped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
