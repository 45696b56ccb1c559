// SPDX-License-Identifier: Apache-2.0
/* What nodes.c and devices.c share. */
#ifndef RFTP_NUMA_TOPO_H
#define RFTP_NUMA_TOPO_H

#include "numa/numa.h"

#include <sys/types.h>

struct topo {
	char *sys;           /* sysfs, without links */
	unsigned n;
	struct node *node;   /* by rising id */
};

#define SYS_TEXT 8192

/* A file of sysfs, below t->sys or at an absolute path: all of it, up to SYS_TEXT; or its
 * first line. 0, or a negative errno, and text is "" then. */
int sys_text(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
int sys_line(const struct topo *t, char text[SYS_TEXT], const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* The nodes of the filesystem with the number dev, as mountinfo (proc(5)) describes it. */
struct ids mount_nodes(const struct topo *t, const char *mountinfo, dev_t dev);

#endif
