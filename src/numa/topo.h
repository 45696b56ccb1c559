// SPDX-License-Identifier: Apache-2.0
/* What the readers of sysfs share. */
#ifndef RFTP_NUMA_TOPO_H
#define RFTP_NUMA_TOPO_H

#include "numa/numa.h"

#include <net/if.h>

struct topo {
	char *sys;           /* sysfs, without links */
	const char *proc;    /* RFTP_PROC of the environment, or /proc */
	unsigned n;
	struct node *node;   /* by rising id */
};

#define SYS_TEXT 8192

/* The first line of a file of sysfs, below t->sys. 0, or a negative errno, and text is ""
 * then. */
int sys_line(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The number in a file there; 0 when there is none, or one that is not positive. */
uint64_t sys_number(const struct topo *t, const char *dir, const char *name, const char *file);
/* Is it this machine's own? Of a copy, what the kernel says of files and routes is not true. */
bool sys_is_own(const struct topo *t);

/* The network interface that packets to a numerical address go out by. 0; -EINVAL: it is no
 * address; another negative errno: there is no way to it. */
int route_netdev(const char *address, char ifname[IF_NAMESIZE]);

#endif
