// SPDX-License-Identifier: Apache-2.0
/* Memory and threads on the nodes of this machine. */
#include "numa/topo.h"

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#define BYTES (8u << 20)

static struct topo *topo;
static int last;

static int begin(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	topo = topo_read(NULL, &e);
	if (!topo)
		return -1;
	last = topo_node(topo, topo_nodes(topo) - 1)->id;
	return 0;
}

static int end(void **state)
{
	(void)state;
	topo_free(topo);
	return 0;
}

static void *map(void)
{
	void *p = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	/* Small pages, so that only touched pages are allocated. */
	madvise(p, BYTES, MADV_NOHUGEPAGE);
	return p;
}

static void on_node(int node, bool strict)
{
	struct place_count c;
	uint8_t *p = map();
	int r = place_memory(p, BYTES, node, strict);

	if (r == -ENOSYS || r == -EPERM) {
		munmap(p, BYTES);
		skip();
	}
	assert_int_equal(r, 0);
	memset(p, 1, BYTES / 4);
	assert_int_equal(place_count(p, BYTES, node, &c), 0);
	assert_int_equal(c.there, BYTES / 4);
	assert_int_equal(c.elsewhere, 0);
	assert_int_equal(c.untouched, BYTES / 4 * 3);
	/* For another node, the same pages count as elsewhere. */
	assert_int_equal(place_count(p, BYTES, node + 1, &c), 0);
	assert_int_equal(c.there, 0);
	assert_int_equal(c.elsewhere, BYTES / 4);
	munmap(p, BYTES);
}

static void test_memory(void **state)
{
	(void)state;
	for (unsigned i = 0; i < topo_nodes(topo); i++) {
		on_node(topo_node(topo, i)->id, true);
		on_node(topo_node(topo, i)->id, false);
	}
}

static void test_no_such_node(void **state)
{
	uint8_t *p = map();
	int r = place_memory(p, BYTES, last + 1, true);

	(void)state;
	assert_true(r == -EINVAL || r == -ENOSYS || r == -EPERM);
	r = place_memory(p, BYTES, -1, true);
	assert_true(r == -EINVAL || r == -ENOSYS);
	r = place_memory(p, BYTES, 5000, false);
	assert_true(r == -EINVAL || r == -ENOSYS);
	memset(p, 1, BYTES);
	munmap(p, BYTES);
}

static void test_room(void **state)
{
	struct node_memory m;

	(void)state;
	if (topo_memory(topo, last, &m))
		skip();
	assert_true(m.room > BYTES && m.room <= m.total && m.free <= m.room);
	assert_int_equal(topo_memory(topo, last + 1, &m), -ENOENT);
}

static void test_threads(void **state)
{
	struct ids all, one, now;

	(void)state;
	assert_int_equal(place_cpus(&all), 0);
	assert_int_equal(ids_count(&all), cpus_allowed());
	for (int cpu = -1; (cpu = ids_next(&all, (unsigned)(cpu + 1))) >= 0;) {
		memset(&one, 0, sizeof(one));
		ids_add(&one, (unsigned)cpu);
		ids_add(&one, IDS_MAX - 1); /* does not exist */
		assert_int_equal(place_thread(&one), 0);
		assert_int_equal(sched_getcpu(), cpu);
		assert_int_equal(place_cpus(&now), 0);
		assert_int_equal(ids_only(&now), cpu);
		/* Without an allowed CPU the thread stays on its CPU. */
		memset(&one, 0, sizeof(one));
		ids_add(&one, IDS_MAX - 1);
		assert_int_equal(place_thread(&one), -EINVAL);
		assert_int_equal(sched_getcpu(), cpu);
		assert_int_equal(sched_setaffinity(0, sizeof(all), (cpu_set_t *)&all), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_no_such_node),
		cmocka_unit_test(test_room),
		cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
