// SPDX-License-Identifier: Apache-2.0
/* The text of an I/O model file, as rftp-numa model writes it, for one machine and one target. */
#ifndef RFTP_TESTS_MODEL_TEXT_H
#define RFTP_TESTS_MODEL_TEXT_H

#include "numa/model.h"

#include <stdio.h>
#include <stdlib.h>

/* One direction: bandwidth and class of each node. */
struct text_row {
	double gbit[8];
	unsigned class[8];
};

static inline void put_row(FILE *f, const struct topo *t, const char *op, const struct text_row *r)
{
	fprintf(f, ",\"%s\":[", op);
	for (unsigned i = 0; i < topo_nodes(t); i++)
		fprintf(f, "%s{\"node\":%d,\"median\":%.0f,\"low\":%.0f,\"high\":%.0f,\"rounds\":5,"
			"\"class\":%u}", i ? "," : "", topo_node(t, i)->id, r->gbit[i] * 125e6,
			r->gbit[i] * .99 * 125e6, r->gbit[i] * 1.01 * 125e6, r->class[i]);
	fputs("]", f);
}

/* The caller frees the result. */
static inline char *model_text(const struct topo *t, int target, const struct text_row *write,
			       const struct text_row *read)
{
	char *text = NULL, cpus[256];
	size_t len;
	FILE *f = open_memstream(&text, &len);

	fputs("{\"rftp_numa_model\":1,\"date\":\"2015-05-01T00:00:00Z\",\"nodes\":[", f);
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		const struct node *n = topo_node(t, i);
		struct node_memory m;

		topo_memory(t, n->id, &m);
		fprintf(f, "%s{\"id\":%d,\"cpus\":\"%s\",\"memory\":%llu,\"distances\":[",
			i ? "," : "", n->id, ids_format(cpus, sizeof(cpus), &n->cpus),
			(unsigned long long)m.total);
		for (unsigned k = 0; k < topo_nodes(t); k++)
			fprintf(f, "%s%u", k ? "," : "", n->distance[k]);
		fputs("]}", f);
	}
	fprintf(f, "],\"targets\":[{\"node\":%d,\"threads\":8,\"buffer\":33554432,\"placed\":"
		"100663296,\"copies\":10", target);
	put_row(f, t, "write", write);
	put_row(f, t, "read", read);
	fputs("}]}\n", f);
	return fclose(f) ? NULL : text;
}

#endif
