// SPDX-License-Identifier: Apache-2.0
/* From any plan to any other, on a host in memory: it arrives, what is stopped goes back, what is
 * killed goes on or away, and what is others' or holds data is not touched. */
#include "tests/support/iser-model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define NODE0 "iqn.2026-01.org.example:node0"
#define NODE1 "iqn.2026-01.org.example:node1"
#define ME "iqn.2026-01.org.example:me"
#define YOU "iqn.2026-01.org.example:you"
#define SERIAL(n) "\"serial\": \"00000000-0000-4000-8000-00000000000" #n "\""

#define TARGET0 "{\"node\": 0, \"iqn\": \"" NODE0 "\", " \
	"\"portals\": [{\"address\": \"192.0.2.1\"}], " \
	"\"initiators\": [{\"name\": \"" ME "\", \"chap\": {\"user\": \"me\", \"secret-file\": " \
	"\"/s/me\"}, \"mutual-chap\": {\"user\": \"it\", \"secret-file\": \"/s/it\"}}], " \
	"\"luns\": [{\"lun\": 0, \"name\": \"t\", \"kind\": \"tmpfs\", " \
	"\"node\": 0, \"size\": 1048576, \"path\": " \
	"\"/m/t\", \"write-back\": true, \"attributes\": {\"emulate_tpu\": 1}, " SERIAL(1) "}, " \
	"{\"lun\": 1, \"name\": \"r\", \"kind\": \"ramdisk\", \"node\": 0, \"size\": 1048576, " \
	SERIAL(2) "}]}"
#define TARGET1 "{\"node\": 1, \"iqn\": \"" NODE1 "\", \"open\": true, " \
	"\"portals\": [{\"address\": " \
	"\"192.0.2.2\"}], \"luns\": [" \
	"{\"lun\": 0, \"name\": \"f\", \"kind\": \"file\", \"size\": 1048576, " \
	"\"path\": \"/d/f\", " \
	SERIAL(3) "}, {\"lun\": 7, \"name\": \"b\", \"kind\": \"block\", \"path\": \"/dev/b\", " \
	SERIAL(4) "}], \"attributes\": {\"default_cmdsn_depth\": 32}}"
#define PLAN(targets) "{\"rftp-iser-plan\": 1, \"name\": \"p\", \"targets\": [" targets "]}"

static const char both[] = PLAN(TARGET0 ", " TARGET1);

/* ---- plans ---- */

/* both, with what in it changed to that; NULL: as it is. */
static struct iser_plan *plan(const char *what, const char *that)
{
	const char *at = what ? strstr(both, what) : both;
	struct err e = ERR_INIT;
	CLEANUP_FREE char *text = NULL;
	struct iser_plan *p;

	assert_non_null(at);
	assert_true(asprintf(&text, "%.*s%s%s", (int)(at - both), both, what ? that : "",
			     at + (what ? strlen(what) : 0)) > 0);
	p = iser_plan_parse("test", text, &e);
	if (!p)
		fail_msg("%s", e.text);
	return p;
}

static struct iser_secret secret_list[] = {
	{ (char *)NODE0, (char *)ME, (char *)"mine-is-a-secret", (char *)"its-is-another" },
	{ (char *)NODE0, (char *)YOU, (char *)"yours-is-a-third", (char *)"" },
};
static const struct iser_secrets secrets = { secret_list, 2 };

/* ---- one change ---- */

struct where {
	struct iser_state state;
	struct iser_steps steps;
	struct iser_state other;
	bool destroy, force, restarted;
	const char *cpus;
};

static void steps_to(struct where *w, const struct iser_plan *want)
{
	const struct iser_ask ask = {
		.want = want, .state = &w->state, .others = &w->other,
		.n_others = w->other.name ? 1 : 0, .secrets = &secrets, .now = &model,
		.look = &model_look, .cpus = w->cpus, .destroy = w->destroy, .force = w->force,
		.restarted = w->restarted,
	};

	iser_steps_clear(&w->steps);
	assert_int_equal(iser_steps_make(&ask, &w->steps), 0);
}

static void no_problems(const struct where *w)
{
	if (w->steps.problems.n)
		fail_msg("%s", w->steps.problems.v[0]);
}

/* The first n; what apply keeps of them, too. */
static void do_steps(struct where *w, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const json_t *r = w->steps.v[i].request;
		const char *path = json_string_value(json_object_get(r, "path"));
		const char *what = json_string_value(json_object_get(r, "do"));

		if (path && model_look.size(path) < 0 &&
		    (!strcmp(what, "make-dir") || !strcmp(what, "make-file")) &&
		    !json_is_true(json_object_get(r, "in-tmpfs")))
			assert_int_equal(iser_state_made(&w->state, path), 0);
		if (r)
			model_do(r);
	}
}

static void undo_steps(const struct where *w, size_t n)
{
	while (n--)
		if (w->steps.v[n].undo)
			model_do(w->steps.v[n].undo);
}

static void arrive(struct where *w, struct iser_plan *want)
{
	steps_to(w, want);
	no_problems(w);
	do_steps(w, w->steps.n);
	w->state.applied = want;
	w->state.applying = NULL;
}

/* A host with others' things, of which these tests are to know nothing. */
static void begin(struct where *w)
{
	static const char *const theirs[] = {
		"{\"do\": \"create-store\", \"plugin\": \"rd_mcp\", \"name\": \"theirs\", "
		"\"path\": \"\", \"size\": 4096, \"write-back\": false, \"serial\": \"x\"}",
		"{\"do\": \"create-target\", \"iqn\": \"iqn.2026-01.org.example:theirs\"}",
		"{\"do\": \"create-lun\", \"iqn\": \"iqn.2026-01.org.example:theirs\", \"lun\": 0, "
		"\"plugin\": \"rd_mcp\", \"store\": \"theirs\"}",
	};

	*w = (struct where){ .destroy = true, .cpus = "0-3" };
	w->state.boot = (char *)"boot";
	w->state.lock = -1;
	model_clear();
	model.cpus = strdup("0-7");
	model_add_dir("/d");
	model_add_dir("/dev/b");
	for (size_t i = 0; i < sizeof(theirs) / sizeof(theirs[0]); i++) {
		json_t *r = json_loads(theirs[i], 0, NULL);

		model_do(r);
		json_decref(r);
	}
}

static void forget_made(struct where *w)
{
	for (size_t i = 0; i < w->state.n_made; i++)
		free(w->state.made[i]);
	free(w->state.made);
	w->state.made = NULL;
	w->state.n_made = 0;
}

static void end(struct where *w)
{
	iser_steps_clear(&w->steps);
	forget_made(w);
	model_clear();
}

static void same_text(const char *want, const char *what)
{
	CLEANUP_FREE char *is = model_text();

	if (strcmp(want, is))
		fail_msg("%s:\n---- wanted\n%s---- is\n%s", what, want, is);
}

/* What a host is like with only this plan; malloc'd. */
static char *alone(struct iser_plan *p)
{
	struct where w;
	char *text;

	begin(&w);
	if (p)
		arrive(&w, p);
	text = model_text();
	end(&w);
	return text;
}

/* ---- all ways ---- */

/* What differs in the plan that comes after both. */
static const struct change {
	const char *name, *what, *that;
} changes[] = {
	{ "the same", NULL, NULL },
	{ "one initiator more", "\"initiators\": [", "\"initiators\": [{\"name\": \"" YOU "\", "
	  "\"chap\": {\"user\": \"you\", \"secret-file\": \"/s/you\"}}, " },
	{ "another initiator", ME, YOU },
	{ "one LUN more", "\"luns\": [", "\"luns\": [{\"lun\": 3, \"name\": \"more\", \"kind\": "
	  "\"ramdisk\", \"size\": 4194304, " SERIAL(9) "}, " },
	{ "another number", "\"lun\": 1", "\"lun\": 2" },
	{ "another user", "\"user\": \"me\"", "\"user\": \"him\"" },
	{ "another address", "192.0.2.1\"", "192.0.2.9\"" },
	{ "another port", "192.0.2.1\"", "192.0.2.1\", \"port\": 3261" },
	{ "no iSER", "192.0.2.1\"", "192.0.2.1\", \"iser\": false" },
	{ "write-through", "\"write-back\": true, ", "" },
	{ "another serial", SERIAL(3), SERIAL(8) },
	{ "a bigger tmpfs", "\"node\": 0, \"size\": 1048576, \"path\"",
	  "\"node\": 0, \"size\": 2097152, \"path\"" },
	{ "on the other node", "\"kind\": \"tmpfs\", \"node\": 0",
	  "\"kind\": \"tmpfs\", \"node\": 1" },
	{ "preferred", "\"path\": \"/m/t\"", "\"policy\": \"prefer\", \"path\": \"/m/t\"" },
	{ "another mount point", "/m/t", "/n/t" },
	{ "a bigger ramdisk", "\"ramdisk\", \"node\": 0, \"size\": 1048576",
	  "\"ramdisk\", \"node\": 0, \"size\": 2097152" },
	{ "a bigger file", "\"kind\": \"file\", \"size\": 1048576",
	  "\"kind\": \"file\", \"size\": 2097152" },
	{ "another attribute", "\"default_cmdsn_depth\": 32", "\"default_cmdsn_depth\": 16" },
	{ "another of a store", "\"emulate_tpu\": 1", "\"emulate_tpu\": 0" },
	{ "another name", "\"name\": \"r\"", "\"name\": \"q\"" },
	{ "another IQN", NODE1, "iqn.2026-01.org.example:other" },
	{ "one target less", ", " TARGET1, "" },
	{ "the other less", TARGET0 ", ", "" },
};

#define CHANGES (sizeof(changes) / sizeof(changes[0]))

static void test_arrives(void **state)
{
	(void)state;
	for (size_t i = 0; i < CHANGES; i++) {
		struct iser_plan *a = plan(NULL, NULL), *b = plan(changes[i].what, changes[i].that);
		CLEANUP_FREE char *want = alone(b), *nothing = alone(NULL);
		struct where w;

		begin(&w);
		arrive(&w, a);
		arrive(&w, b);
		/* A file, which holds data, stays when nobody wants it. */
		if (!strstr(changes[i].name, "target less"))
			same_text(want, changes[i].name);
		steps_to(&w, b);
		no_problems(&w);
		if (w.steps.n)
			fail_msg("%s, again: %s", changes[i].name, w.steps.v[0].text);
		w.cpus = "0-7";
		steps_to(&w, NULL);
		no_problems(&w);
		do_steps(&w, w.steps.n);
		same_text(nothing, "removed");
		end(&w);
		iser_plan_free(a);
		iser_plan_free(b);
	}
}

/* Undone after any number of steps it is as before, but for what was given up with
 * --destroy-data; the files of memory stores are there again. */
static void goes_back(struct iser_plan *from, const struct iser_plan *to, const char *name)
{
	size_t n = 1;

	for (size_t k = 0; k <= n; k++) {
		CLEANUP_FREE char *before = NULL;
		struct where w;

		begin(&w);
		if (from)
			arrive(&w, from);
		before = model_text();
		steps_to(&w, to);
		no_problems(&w);
		n = w.steps.n;
		do_steps(&w, k);
		undo_steps(&w, k);
		same_text(before, name);
		end(&w);
	}
}

static void test_goes_back(void **state)
{
	(void)state;
	for (size_t i = 0; i < CHANGES; i++) {
		struct iser_plan *a = plan(NULL, NULL), *b = plan(changes[i].what, changes[i].that);

		goes_back(i ? a : NULL, b, changes[i].name);
		goes_back(b, a, changes[i].name);
		iser_plan_free(a);
		iser_plan_free(b);
	}
}

/* A worker that was ended in the midst of a request leaves half of it: an initiator that is not
 * given a LUN, a target without its portal group. */
static void test_halves(void **state)
{
	struct iser_plan *a = plan(NULL, NULL);
	CLEANUP_FREE char *want = alone(a);
	struct where w;
	json_t *half;

	(void)state;
	begin(&w);
	arrive(&w, a);
	for (size_t t = 0; t < model.n_targets; t++)
		if (!strcmp(model.targets[t].iqn, NODE0))
			model.targets[t].acls[0].n_luns--;
	arrive(&w, a);
	same_text(want, "an initiator that lacks a LUN");
	w.cpus = NULL;
	steps_to(&w, NULL);
	do_steps(&w, w.steps.n);
	half = json_pack("{s:s, s:s}", "do", "create-target", "iqn", NODE1);
	model_do(half);
	json_decref(half);
	model.targets[model.n_targets - 1].tag = LIO_NO_GROUP;
	w.cpus = "0-3";
	arrive(&w, a);
	same_text(want, "a target without its portal group");
	end(&w);
	iser_plan_free(a);
}

/* Killed after any number of steps it can go on, go to yet another plan, or go away. */
static void test_killed(void **state)
{
	struct iser_plan *a = plan(NULL, NULL);
	CLEANUP_FREE char *nothing = alone(NULL), *only_a = alone(a);

	(void)state;
	for (size_t i = 0; i < CHANGES; i++) {
		struct iser_plan *b = plan(changes[i].what, changes[i].that);
		CLEANUP_FREE char *only_b = alone(b);
		size_t n = 1;

		for (size_t k = 0; k <= n; k++)
			for (int then = 0; then < 3; then++) {
				struct where w;

				begin(&w);
				if (i)
					arrive(&w, a);
				steps_to(&w, b);
				n = w.steps.n;
				do_steps(&w, k);
				w.state.applying = b;
				if (then < 2)
					arrive(&w, then ? b : a);
				if (!then)
					same_text(only_a, changes[i].name);
				else if (then == 1 && !strstr(changes[i].name, "target less") &&
					 !strstr(changes[i].name, "IQN"))
					same_text(only_b, changes[i].name);
				w.cpus = "0-7";
				steps_to(&w, NULL);
				no_problems(&w);
				do_steps(&w, w.steps.n);
				same_text(nothing, changes[i].name);
				end(&w);
			}
		iser_plan_free(b);
	}
	iser_plan_free(a);
}

/* ---- only what differs ---- */

static void test_only_what_differs(void **state)
{
	static const struct {
		const char *change, *texts[6];
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
		/* What it holds stays in its tmpfs. */
		{ "write-through", { "delete LUN 0 of the target " NODE0,
		  "take the back store t away",
		  "create the back store t: tmpfs of 1.0 MiB on node 0, write-through",
		  "set emulate_tpu of the back store t to 1",
		  "create LUN 0 of the target " NODE0 ": the back store t" } },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t c = 0; c < CHANGES; c++) {
			struct iser_plan *a, *b;
			struct where w;
			size_t k = 0;

			if (strcmp(changes[c].name, table[i].change))
				continue;
			a = plan(NULL, NULL);
			b = plan(changes[c].what, changes[c].that);
			begin(&w);
			arrive(&w, a);
			w.destroy = false;
			steps_to(&w, b);
			no_problems(&w);
			for (size_t s = 0; s < w.steps.n; s++) {
				if (!w.steps.v[s].text)
					continue;
				assert_non_null(table[i].texts[k]);
				assert_string_equal(w.steps.v[s].text, table[i].texts[k]);
				k++;
			}
			assert_null(table[i].texts[k]);
			end(&w);
			iser_plan_free(a);
			iser_plan_free(b);
		}
}

/* ---- refused ---- */

/* The only problem, or the first, has these words; nothing without. */
static void problem_is(const struct where *w, const char *words, const char *what)
{
	if (!words && w->steps.problems.n)
		fail_msg("%s: %s", what, w->steps.problems.v[0]);
	if (words && !w->steps.problems.n)
		fail_msg("%s: is not refused", what);
	if (words && !strstr(w->steps.problems.v[0], words))
		fail_msg("%s: %s", what, w->steps.problems.v[0]);
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
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t c = 0; c < CHANGES; c++) {
			struct iser_plan *a, *b;
			struct where w;

			if (strcmp(changes[c].name, table[i].change))
				continue;
			a = plan(NULL, NULL);
			b = plan(changes[c].what, changes[c].that);
			begin(&w);
			arrive(&w, a);
			w.destroy = false;
			steps_to(&w, b);
			problem_is(&w, table[i].words, table[i].change);
			if (table[i].words)
				assert_non_null(strstr(w.steps.problems.v[0], "--destroy-data"));
			end(&w);
			iser_plan_free(a);
			iser_plan_free(b);
		}
}

/* What a file held is cut off when it gets smaller. */
static void test_smaller_file(void **state)
{
	struct iser_plan *a = plan("\"kind\": \"file\", \"size\": 1048576",
				   "\"kind\": \"file\", \"size\": 2097152");
	struct iser_plan *b = plan(NULL, NULL);
	struct where w;

	(void)state;
	begin(&w);
	arrive(&w, a);
	w.destroy = false;
	steps_to(&w, b);
	problem_is(&w, "back store f: another size", "smaller");
	w.destroy = true;
	arrive(&w, b);
	assert_int_equal(model_look.size("/d/f"), 1048576);
	end(&w);
	iser_plan_free(a);
	iser_plan_free(b);
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
		{ "one initiator more", NULL },
		{ "one LUN more", NULL },
		{ "another port", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		for (size_t c = 0; c < CHANGES; c++) {
			struct iser_plan *a, *b;
			struct where w;

			if (strcmp(changes[c].name, table[i].change))
				continue;
			a = plan(NULL, NULL);
			b = plan(changes[c].what, changes[c].that);
			begin(&w);
			arrive(&w, a);
			for (size_t t = 0; t < model.n_targets; t++) {
				if (!strcmp(model.targets[t].iqn, NODE0))
					model.targets[t].acls[0].logged_in = true;
				if (!strcmp(model.targets[t].iqn, NODE1))
					model.targets[t].dynamic = 2;
			}
			steps_to(&w, b);
			problem_is(&w, table[i].words, table[i].change);
			if (table[i].words)
				assert_non_null(strstr(w.steps.problems.v[0], "--force"));
			w.force = true;
			steps_to(&w, b);
			problem_is(&w, NULL, "forced");
			end(&w);
			iser_plan_free(a);
			iser_plan_free(b);
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
	};

	(void)state;
	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		struct iser_plan *a = plan(NULL, NULL);
		struct where w;

		begin(&w);
		for (size_t k = 0; k < 3 && table[i].there[k]; k++) {
			json_t *r = json_loads(table[i].there[k], 0, NULL);

			model_do(r);
			json_decref(r);
		}
		steps_to(&w, a);
		problem_is(&w, table[i].words, table[i].words);
		end(&w);
		iser_plan_free(a);
	}
}

static void test_other_plan(void **state)
{
	struct iser_plan *a = plan(NULL, NULL), *b = plan(NULL, NULL);
	struct where w;

	(void)state;
	begin(&w);
	w.other = (struct iser_state){ .name = (char *)"q", .boot = (char *)"boot", .applying = b };
	steps_to(&w, a);
	assert_int_equal(w.steps.problems.n, 6); /* four stores, two targets */
	problem_is(&w, "back store t: the plan q has one of this name", "another plan");
	end(&w);
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
	struct iser_plan *a = plan(NULL, NULL), *b = plan(changes[3].what, changes[3].that);
	json_t *r = json_loads(acl, 0, NULL), *s = json_loads(lun, 0, NULL);
	struct where w;

	(void)state;
	begin(&w);
	arrive(&w, a);
	model_do(r);
	model_do(s);
	steps_to(&w, a);
	no_problems(&w);
	assert_int_equal(w.steps.n, 0);
	steps_to(&w, b);
	problem_is(&w, "its LUN 3 serves the back store theirs", "a LUN that is a guest's");
	end(&w);
	json_decref(r);
	json_decref(s);
	iser_plan_free(a);
	iser_plan_free(b);
}

/* ---- another boot ---- */

static void test_restarted(void **state)
{
	struct iser_plan *a = plan(NULL, NULL);
	CLEANUP_FREE char *want = alone(a);
	struct where w;

	(void)state;
	begin(&w);
	arrive(&w, a);
	forget_made(&w);
	end(&w);
	begin(&w);
	model_add_file("/d/f", 1048576);
	w.state.applied = a;
	w.destroy = false;
	w.restarted = true;
	steps_to(&w, a);
	no_problems(&w);
	assert_int_equal(w.steps.notes.n, 2);
	assert_string_equal(w.steps.notes.v[0], "back store t: what it held is gone: it was in "
			    "memory, and the host was started again");
	assert_string_equal(w.steps.notes.v[1], "back store r: what it held is gone: it was in "
			    "memory, and the host was started again");
	do_steps(&w, w.steps.n);
	same_text(want, "after another boot");
	end(&w);
	iser_plan_free(a);
}

/* A tmpfs that somebody has unmounted under a back store, which goes on with what it has open. */
static void test_unmounted(void **state)
{
	struct iser_plan *a = plan(NULL, NULL);
	struct where w;

	(void)state;
	begin(&w);
	arrive(&w, a);
	model.n_mounts--;
	free(model.mounts[0].path);
	free(model.mounts[0].source);
	free(model.mounts[0].options);
	w.destroy = false;
	steps_to(&w, a);
	problem_is(&w, "back store t: its tmpfs was unmounted", "unmounted");
	end(&w);
	iser_plan_free(a);
}

/* Memory that steps take and give back is what checks go by. */
static void test_memory(void **state)
{
	struct iser_plan *a = plan(NULL, NULL), *b = plan(changes[11].what, changes[11].that);
	int64_t sum = 0;
	struct where w;

	(void)state;
	assert_string_equal(changes[11].name, "a bigger tmpfs");
	begin(&w);
	steps_to(&w, a);
	for (size_t i = 0; i < w.steps.n; i++) {
		sum += w.steps.v[i].memory;
		if (w.steps.v[i].memory)
			assert_true(w.steps.v[i].node == 0 && w.steps.v[i].strictly);
	}
	assert_int_equal(sum, 2 << 20);
	arrive(&w, a);
	steps_to(&w, b);
	sum = 0;
	for (size_t i = 0; i < w.steps.n; i++)
		sum += w.steps.v[i].memory;
	assert_int_equal(sum, 1 << 20);
	end(&w);
	iser_plan_free(a);
	iser_plan_free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arrives), cmocka_unit_test(test_goes_back),
		cmocka_unit_test(test_halves), cmocka_unit_test(test_killed),
		cmocka_unit_test(test_only_what_differs),
		cmocka_unit_test(test_data), cmocka_unit_test(test_smaller_file),
		cmocka_unit_test(test_sessions), cmocka_unit_test(test_others),
		cmocka_unit_test(test_other_plan), cmocka_unit_test(test_guests),
		cmocka_unit_test(test_restarted), cmocka_unit_test(test_unmounted),
		cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
