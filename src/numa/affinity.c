// SPDX-License-Identifier: Apache-2.0
/* The placements, and the medians. */
#include "numa/affinity.h"

#include "numa/stats.h"

#include <math.h>
#include <stddef.h>

unsigned placements(int device, int remote, struct placement out[PLACEMENTS_MAX])
{
	unsigned n = 0;

	out[n++] = (struct placement){ "TRLCPL", device, device };
	if (remote != NODE_UNKNOWN) {
		out[n++] = (struct placement){ "TRLCPR", device, remote };
		out[n++] = (struct placement){ "TRRCPL", remote, remote };
		out[n++] = (struct placement){ "TRRCPR", remote, device };
	}
	out[n++] = (struct placement){ "none", NODE_UNKNOWN, NODE_UNKNOWN };
	return n;
}

int farthest_node(const struct topo *t, int node, const struct ids *cpus, const struct ids *memory)
{
	unsigned most = 0;
	int found = NODE_UNKNOWN;

	for (unsigned i = 0; i < topo_nodes(t); i++) {
		int id = topo_node(t, i)->id;
		struct ids usable = topo_cpus(t, id, cpus);
		struct node_memory m;

		topo_memory(t, id, &m);
		if (id == node || !m.total || !ids_has(memory, (unsigned)id) || !ids_count(&usable))
			continue;
		if (found == NODE_UNKNOWN || topo_distance(t, node, id) > most) {
			most = topo_distance(t, node, id);
			found = id;
		}
	}
	return found;
}

/* ---- many runs ---- */

/* Of the field at offset. */
static double median(const struct fio_result *runs, unsigned n, size_t offset)
{
	double v[RUNS_MAX];

	for (unsigned i = 0; i < n; i++)
		v[i] = *(const double *)((const char *)&runs[i] + offset);
	return stats_median(v, n);
}

static double deviation(const struct fio_result *runs, unsigned n)
{
	double sum = 0, squares = 0, mean;

	for (unsigned i = 0; i < n; i++)
		sum += runs[i].bytes_per_second;
	mean = sum / n;
	for (unsigned i = 0; i < n; i++)
		squares += (runs[i].bytes_per_second - mean) * (runs[i].bytes_per_second - mean);
	return n > 1 && mean > 0 ? sqrt(squares / (n - 1)) / mean : 0;
}

struct summary summarise(const struct fio_result *runs, unsigned n)
{
	return (struct summary){
		.bytes_per_second = median(runs, n, offsetof(struct fio_result, bytes_per_second)),
		.mean_ns = median(runs, n, offsetof(struct fio_result, mean_ns)),
		.p99_ns = median(runs, n, offsetof(struct fio_result, p99_ns)),
		.deviation = deviation(runs, n),
	};
}
