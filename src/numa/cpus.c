// SPDX-License-Identifier: Apache-2.0
/* What the CPUs of a node share: a package, cores, caches (devices/system/cpu of sysfs). */
#include "numa/topo.h"

#include <string.h>

#define CPU "devices/system/cpu/cpu%d"

/* Caches of a CPU that are looked at: the kernel lists two of level 1 and one of each other. */
#define CACHES_MAX 16

static int next_cpu(const struct ids *cpus, int cpu)
{
	return ids_next(cpus, (unsigned)(cpu + 1));
}

/* ---- packages ---- */

static int cpu_package(const struct topo *t, int cpu)
{
	char text[SYS_TEXT];
	uint64_t id;

	/* -1: the firmware did not say. */
	if (sys_line(t, text, CPU "/topology/physical_package_id", cpu) ||
	    parse_uint(text, 0, INT32_MAX, &id))
		return PACKAGE_UNKNOWN;
	return (int)id;
}

int topo_package(const struct topo *t, int node)
{
	const struct node *n = topo_find(t, node);
	int package = PACKAGE_UNKNOWN;

	for (int cpu = -1; n && (cpu = next_cpu(&n->cpus, cpu)) >= 0;) {
		int one = cpu_package(t, cpu);

		if (one == PACKAGE_UNKNOWN || (package != PACKAGE_UNKNOWN && one != package))
			return PACKAGE_UNKNOWN;
		package = one;
	}
	return package;
}

/* ---- cores ---- */

/* The CPUs of one core: its threads. thread_siblings_list: kernels before 5.3. */
static struct ids core_of(const struct topo *t, int cpu)
{
	char text[SYS_TEXT];
	struct ids core;

	if ((!sys_line(t, text, CPU "/topology/core_cpus_list", cpu) ||
	     !sys_line(t, text, CPU "/topology/thread_siblings_list", cpu)) &&
	    !ids_parse(text, &core) && ids_has(&core, (unsigned)cpu))
		return core;
	memset(&core, 0, sizeof(core));
	ids_add(&core, (unsigned)cpu);
	return core;
}

struct ids topo_cores(const struct topo *t, const struct ids *cpus)
{
	struct ids firsts = { 0 }, seen = { 0 };

	for (int cpu = -1; (cpu = next_cpu(cpus, cpu)) >= 0;) {
		struct ids core;

		if (ids_has(&seen, (unsigned)cpu))
			continue;
		core = core_of(t, cpu);
		ids_add(&firsts, (unsigned)cpu);
		ids_unite(&seen, &core);
	}
	return firsts;
}

/* ---- caches ---- */

/* The last level's size, and the CPUs that share it; 0: not told. */
static uint64_t last_cache(const struct topo *t, int cpu, struct ids *sharers)
{
	uint64_t best = 0, level, size, best_level = 0;
	char text[SYS_TEXT];

	memset(sharers, 0, sizeof(*sharers));
	ids_add(sharers, (unsigned)cpu);
	for (int i = 0; i < CACHES_MAX; i++) {
		if (sys_line(t, text, CPU "/cache/index%d/level", cpu, i) ||
		    parse_uint(text, 1, CACHES_MAX, &level) || level <= best_level ||
		    sys_line(t, text, CPU "/cache/index%d/size", cpu, i) ||
		    parse_size(text, &size))
			continue;
		best = size;
		best_level = level;
		if (!sys_line(t, text, CPU "/cache/index%d/shared_cpu_list", cpu, i))
			ids_parse(text, sharers);
	}
	return best;
}

struct caches topo_caches(const struct topo *t, const struct ids *cpus)
{
	struct caches c = { 0 };
	struct ids seen = { 0 };

	for (int cpu = -1; (cpu = next_cpu(cpus, cpu)) >= 0;) {
		struct ids sharers;
		uint64_t size;

		if (ids_has(&seen, (unsigned)cpu))
			continue;
		size = last_cache(t, cpu, &sharers);
		ids_add(&seen, (unsigned)cpu);
		ids_unite(&seen, &sharers);
		c.all += size;
		if (size > c.biggest)
			c.biggest = size;
	}
	return c;
}
