// SPDX-License-Identifier: Apache-2.0
/* All that is on a node: the list that rftp-numa topo shows. */
#ifndef RFTP_NUMA_PARTS_H
#define RFTP_NUMA_PARTS_H

#include "numa/numa.h"

enum part_kind { PART_NETWORK, PART_RDMA, PART_DISK, PART_KINDS };

struct part {
	enum part_kind kind;
	char name[64];
	struct ids nodes;   /* empty: not known, or none */
	uint64_t size;      /* network: Mbit/s; disk: bytes; 0: not known */
};

struct parts {
	struct part *v;
	size_t n;
};

/* Network interfaces, RDMA devices and disks (no partitions, no RAM or loop devices, nothing
 * empty), by kind and name. 0 or -ENOMEM; parts_free after either. */
int parts_find(const struct topo *t, struct parts *p);
void parts_free(struct parts *p);

#endif
