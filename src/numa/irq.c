// SPDX-License-Identifier: Apache-2.0
/* Which of an RDMA device's completion vectors interrupts a CPU that is near. Nothing tells it
 * for every driver: mlx5 names its interrupts by vector and PCI function, "mlx5_comp3@pci:
 * 0000:03:00.0". Others deal them out to the CPUs of the card's node first, as the kernel's
 * cpumask_local_spread does. */
#include "numa/topo.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INTERRUPTS_MAX (16u << 20)
#define VECTORS_MAX IDS_MAX

/* "0000:03:00.0"; "" when the device is none of PCI's. */
static void pci_name(const struct topo *t, const char *device, char name[64])
{
	char path[PATH_MAX], real[PATH_MAX];
	const char *base;

	snprintf(path, sizeof(path), "%.*s/class/infiniband/%.64s/device", PATH_MAX - 128, t->sys,
		 device);
	base = realpath(path, real) ? strrchr(real, '/') + 1 : "";
	snprintf(name, 64, "%.63s", strchr(base, ':') ? base : "");
}

static bool handled_on(const struct topo *t, unsigned irq, const struct ids *cpus)
{
	char text[SYS_TEXT];
	struct ids on;

	if (sys_line(t, text, "%s/irq/%u/effective_affinity_list", t->proc, irq) &&
	    sys_line(t, text, "%s/irq/%u/smp_affinity_list", t->proc, irq))
		return false;
	if (ids_parse(text, &on))
		return false;
	ids_intersect(&on, cpus);
	return ids_count(&on);
}

/* " 45:  0  12  PCI-MSI  mlx5_comp3@pci:0000:03:00.0": interrupt 45 is vector 3's. */
static bool parse_line(const char *line, size_t len, const char *pci, unsigned *irq,
		       unsigned *vector)
{
	char one[256], function[64];
	const char *last;
	char *end;

	*irq = (unsigned)strtoul(line, &end, 10);
	if (end == line || *end != ':')
		return false;
	/* The counters between, one for each CPU, may be many. */
	last = memrchr(line, ' ', len);
	snprintf(one, sizeof(one), "%.*s", last ? (int)(line + len - last - 1) : 0,
		 last ? last + 1 : "");
	return sscanf(one, "mlx5_comp%u@pci:%63s", vector, function) == 2 &&
	       !strcmp(function, pci) && *vector < VECTORS_MAX;
}

static struct ids near_vectors(const struct topo *t, const char *device, const struct ids *cpus)
{
	CLEANUP_FREE char *all = NULL, *path = NULL;
	struct ids near = { 0 };
	char pci[64];

	pci_name(t, device, pci);
	if (!*pci || asprintf(&path, "%s/interrupts", t->proc) < 0) {
		path = NULL;
		return near;
	}
	if (read_file(path, INTERRUPTS_MAX, &all, NULL))
		return near;
	for (const char *line = all; *line; line += strspn(line, "\n")) {
		size_t len = strcspn(line, "\n");
		unsigned irq, vector;

		if (parse_line(line, len, pci, &irq, &vector) && handled_on(t, irq, cpus))
			ids_add(&near, vector);
		line += len;
	}
	return near;
}

unsigned topo_vector(const struct topo *t, const char *device, const struct ids *cpus,
		     unsigned vectors, unsigned nth)
{
	struct ids near = near_vectors(t, device, cpus);
	unsigned n = ids_count(&near), local = ids_count(cpus);
	int v = ids_next(&near, 0);

	if (vectors < 2)
		return 0;
	for (unsigned skip = n ? nth % n : 0; skip; skip--)
		v = ids_next(&near, (unsigned)v + 1);
	if (v >= 0 && (unsigned)v < vectors)
		return (unsigned)v;
	return nth % (local && local < vectors ? local : vectors);
}
