// SPDX-License-Identifier: Apache-2.0
/* Copies for the I/O model on this machine. */
#include "numa/measure.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define MIB (1ull << 20)

/* A plan for one thread, with the target alone. */
struct one {
	struct copy_plan plan;
	unsigned cpu;
	int node;
};

static void plan_one(struct one *o)
{
	struct topo *t = topo_read(NULL, NULL);
	struct ids allowed;

	assert_non_null(t);
	assert_int_equal(place_cpus(&allowed), 0);
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		struct ids cpus = topo_cpus(t, topo_node(t, i)->id, &allowed);

		if (!ids_count(&cpus))
			continue;
		o->node = topo_node(t, i)->id;
		o->cpu = (unsigned)ids_next(&cpus, 0);
		break;
	}

	o->plan = (struct copy_plan){
		.target = o->node, .cpus = &o->cpu, .threads = 1, .nodes = &o->node, .n = 1,
		.bytes = MIB, .copies = 1, .rounds = 5, .progress = "",
	};
	topo_free(t);
}

static void test_this(void **state)
{
	static const char *const ops[] = { "write", "read" };
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	struct ids allowed;
	unsigned cpus[4];
	int nodes[NODE_MOST];
	struct copy_plan p;
	struct one o;
	json_t *found;

	(void)state;
	assert_non_null(t);
	plan_one(&o);
	p = o.plan;
	p.nodes = nodes;
	for (p.n = 0; p.n < topo_nodes(t); p.n++)
		nodes[p.n] = topo_node(t, p.n)->id;
	assert_int_equal(place_cpus(&allowed), 0);
	p.cpus = cpus;
	p.threads = 0;
	for (int cpu = -1; p.threads < 4 && (cpu = ids_next(&allowed, (unsigned)(cpu + 1))) >= 0;)
		cpus[p.threads++] = (unsigned)cpu;
	p.bytes = 4 * MIB;
	p.copies = 2;
	p.bind = !place_may_have(p.target);

	found = copy_run(&p, &e);
	if (!found)
		fail_msg("%s", e.text);
	/* With one node and without libnuma the placement is not checked. */
	assert_int_equal(json_integer_value(json_object_get(found, "placed")),
			 p.bind ? (json_int_t)(4 * MIB * (p.n + 1)) * p.threads : 0);
	for (int op = 0; op < 2; op++) {
		const json_t *row = json_object_get(found, ops[op]);

		assert_int_equal(json_array_size(row), p.n);
		for (size_t k = 0; k < p.n; k++) {
			const json_t *rounds = json_array_get(row, k);

			assert_int_equal(json_array_size(rounds), 5);
			for (size_t r = 0; r < 5; r++)
				assert_true(json_real_value(json_array_get(rounds, r)) > 0);
		}
	}
	json_decref(found);
	topo_free(t);
}

/* Binding buffers to a node that does not exist, and a thread to a CPU that does not exist. */
static void test_copies_fail(void **state)
{
	int nowhere[] = { NODE_MOST };
	struct err e = ERR_INIT;
	struct one o;

	(void)state;
	plan_one(&o);
	o.plan.nodes = nowhere;
	o.plan.bind = true;
	assert_null(copy_run(&o.plan, &e));
	assert_true(e.text[0] && e.code);
	plan_one(&o);
	o.cpu = IDS_MAX - 1;
	assert_null(copy_run(&o.plan, &e));
	assert_non_null(strstr(e.text, "CPU 8191"));
}

static void test_copies_are_checked(void **state)
{
	const struct place_count all = { .there = MIB },
		some = { .there = MIB / 2, .elsewhere = MIB / 2 },
		gone = { .there = MIB - 4096, .untouched = 4096 };
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(copy_check(&all, 3, MIB, &e), 0);
	assert_int_equal(copy_check(&some, 3, MIB, &e), -EIO);
	assert_non_null(strstr(e.text, "node 3, only 512 KiB of 1.0 MiB are on it"));
	assert_int_equal(copy_check(&gone, 3, MIB, &e), -EIO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_this),
		cmocka_unit_test(test_copies_fail),
		cmocka_unit_test(test_copies_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
