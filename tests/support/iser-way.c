// SPDX-License-Identifier: Apache-2.0
/* Plans for the model of a host, and the ways between them. */
#include "tests/support/iser-way.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

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
struct iser_plan *way_plan(const char *what, const char *that)
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
	{ (char *)NODE0, (char *)YOU, (char *)"yours-is-a-third",
	  (char *)"its-is-another" },
};
static const struct iser_secrets secrets = { secret_list, 2 };

/* ---- one change ---- */

void way_steps(struct way *w, const struct iser_plan *want)
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

void way_no_problems(const struct way *w)
{
	if (w->steps.problems.n)
		fail_msg("%s", w->steps.problems.v[0]);
}

/* The first n; what apply keeps of them, too. */
void way_do(struct way *w, size_t n)
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

void way_undo(const struct way *w, size_t n)
{
	while (n--)
		if (w->steps.v[n].undo)
			model_do(w->steps.v[n].undo);
}

void way_arrive(struct way *w, struct iser_plan *want)
{
	way_steps(w, want);
	way_no_problems(w);
	way_do(w, w->steps.n);
	w->state.applied = want;
	w->state.applying = NULL;
}

/* A host with others' things, of which these tests are to know nothing. */
void way_begin(struct way *w)
{
	static const char *const theirs[] = {
		"{\"do\": \"create-store\", \"plugin\": \"rd_mcp\", \"name\": \"theirs\", "
		"\"path\": \"\", \"size\": 4096, \"write-back\": false, \"serial\": \"x\"}",
		"{\"do\": \"create-target\", \"iqn\": \"iqn.2026-01.org.example:theirs\"}",
		"{\"do\": \"create-lun\", \"iqn\": \"iqn.2026-01.org.example:theirs\", \"lun\": 0, "
		"\"plugin\": \"rd_mcp\", \"store\": \"theirs\"}",
	};

	*w = (struct way){ .destroy = true, .cpus = "0-3" };
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

void way_forget_made(struct way *w)
{
	for (size_t i = 0; i < w->state.n_made; i++)
		free(w->state.made[i]);
	free(w->state.made);
	w->state.made = NULL;
	w->state.n_made = 0;
}

void way_end(struct way *w)
{
	iser_steps_clear(&w->steps);
	way_forget_made(w);
	model_clear();
}

void way_leave(struct way *w, struct iser_plan *a, struct iser_plan *b)
{
	way_end(w);
	iser_plan_free(a);
	iser_plan_free(b);
}

void way_begin_again(struct way *w, struct iser_plan *applied)
{
	way_begin(w);
	w->state.applied = applied;
	w->restarted = true;
	w->destroy = false;
}

void way_same(const char *want, const char *what)
{
	CLEANUP_FREE char *is = model_text();

	if (strcmp(want, is))
		fail_msg("%s:\n---- wanted\n%s---- is\n%s", what, want, is);
}

/* What a host is like with only this plan; malloc'd. */
char *way_alone(struct iser_plan *p)
{
	struct way w;
	char *text;

	way_begin(&w);
	if (p)
		way_arrive(&w, p);
	text = model_text();
	way_end(&w);
	return text;
}

/* ---- what differs ---- */

const struct way_change way_changes[] = {
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
	{ "closed", "\"open\": true", "\"initiators\": [{\"name\": \"" YOU "\"}]" },
	{ "another attribute", "\"default_cmdsn_depth\": 32", "\"default_cmdsn_depth\": 16" },
	{ "another of a store", "\"emulate_tpu\": 1", "\"emulate_tpu\": 0" },
	{ "another name", "\"name\": \"r\"", "\"name\": \"q\"" },
	{ "another IQN", NODE1, "iqn.2026-01.org.example:other" },
	{ "one target less", ", " TARGET1, "" },
	{ "the other less", TARGET0 ", ", "" },
};

const size_t way_n_changes = sizeof(way_changes) / sizeof(way_changes[0]);

const struct way_change *way_named(const char *name)
{
	for (size_t i = 0; i < way_n_changes; i++)
		if (!strcmp(way_changes[i].name, name))
			return &way_changes[i];
	fail_msg("there is no change called \"%s\"", name);
	return NULL;
}
