// SPDX-License-Identifier: Apache-2.0
/* For the files of this folder that read sysfs. */
#ifndef RFTP_NUMA_TOPO_H
#define RFTP_NUMA_TOPO_H

#include "numa/numa.h"

#include <net/if.h>

struct topo {
	char *sys;           /* path of sysfs, without symbolic links */
	const char *proc;    /* $RFTP_PROC, or /proc */
	unsigned n;
	struct node *node;   /* in ascending order of id */
};

#define SYS_TEXT 8192

/* The first line of a sysfs file below t->sys. 0; or a negative errno, with "" in text. */
int sys_line(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The number in a file of the directory dir/name; 0: there is none, or it is not positive. */
uint64_t sys_number(const struct topo *t, const char *dir, const char *name, const char *file);

/* True: t is from this machine's sysfs. The kernel's answers about files and routes do not apply to
 * a copied sysfs. */
bool sys_is_own(const struct topo *t);

/* The network interface that sends packets to a numeric address. 0; -EINVAL: not an address;
 * another negative errno: there is no route to it. */
int route_netdev(const char *address, char ifname[IF_NAMESIZE]);

#endif
