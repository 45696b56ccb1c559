// SPDX-License-Identifier: Apache-2.0
/* numa: where the parts of this machine are. Its nodes, and on which of them network
 * interfaces, RDMA devices, disks and files are, as sysfs tells (Documentation/ABI in the
 * kernel's source: stable/sysfs-devices-node, testing/sysfs-bus-pci). */
#ifndef RFTP_NUMA_H
#define RFTP_NUMA_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ---- sets of CPUs and of nodes ---- */

#define IDS_MAX 8192   /* the kernel's most CPUs */
#define NODE_MOST 1023 /* its greatest number of a node */

struct ids {
	uint64_t word[IDS_MAX / 64];
};

static inline bool ids_has(const struct ids *s, unsigned id)
{
	return id < IDS_MAX && s->word[id / 64] >> id % 64 & 1;
}

static inline void ids_add(struct ids *s, unsigned id)
{
	if (id < IDS_MAX)
		s->word[id / 64] |= 1ull << id % 64;
}

unsigned ids_count(const struct ids *s);
/* The least member that is not below from; -1: there is none. */
int ids_next(const struct ids *s, unsigned from);
/* Its only member; -1 when it has none or several. */
int ids_only(const struct ids *s);
void ids_unite(struct ids *s, const struct ids *other);
void ids_intersect(struct ids *s, const struct ids *other);
/* "0-3,8,10-11" as in sysfs; white space at the end is harmless. 0; -EINVAL; -ERANGE. */
int ids_parse(const char *text, struct ids *s);
/* The same the other way; "" when empty, "..." at the end when room does not suffice. out. */
char *ids_format(char *out, size_t room, const struct ids *s);

/* ---- the machine ---- */

#define NODE_UNKNOWN (-1) /* no preference */
#define DISTANCE_UNKNOWN 0

struct node {
	int id;               /* the kernel's number; they may have gaps */
	struct ids cpus;      /* online; empty for a node that is memory only */
	unsigned *distance;   /* to each node, in the order of topo_node(); 10 is itself */
};

/* What was found when it was read; nothing in it changes. Any thread. */
struct topo;

/* sysfs: NULL for RFTP_SYSFS of the environment or else /sys. A kernel without NUMA is one
 * node, 0, with all CPUs. NULL with text. */
struct topo *topo_read(const char *sysfs, struct err *e);
void topo_free(struct topo *t);
unsigned topo_nodes(const struct topo *t);
const struct node *topo_node(const struct topo *t, unsigned i); /* i < topo_nodes */
/* By the kernel's number; NULL: there is no such node. */
const struct node *topo_find(const struct topo *t, int id);
/* Those of a node's CPUs that are in allowed; empty also when there is no such node. */
struct ids topo_cpus(const struct topo *t, int id, const struct ids *allowed);
/* From node to node, by their numbers; DISTANCE_UNKNOWN when either is not there. */
unsigned topo_distance(const struct topo *t, int from, int to);

/* Bytes. */
struct node_memory {
	uint64_t total, free;
	uint64_t room;            /* what it could give: free, or the page cache's */
	uint64_t huge, huge_free; /* in huge pages that were set aside, of any size */
};

/* Now, not when t was read. 0; or -ENOENT: it is not known. */
int topo_memory(const struct topo *t, int node, struct node_memory *m);
/* Free bytes in huge pages of size, that were set aside on the node; 0: none, or not known. */
uint64_t topo_huge_free(const struct topo *t, int node, uint64_t size);

/* ---- what CPUs share ---- */

#define PACKAGE_UNKNOWN (-1)

/* The package (socket) that all of a node's CPUs are in; PACKAGE_UNKNOWN: the firmware does not
 * tell, the node has no CPUs, or they are in several. */
int topo_package(const struct topo *t, int node);
/* One CPU, the first, of each core that has any of cpus. */
struct ids topo_cores(const struct topo *t, const struct ids *cpus);

/* The last level's caches, in bytes; 0: not known. */
struct caches {
	uint64_t all;     /* of all there are */
	uint64_t biggest; /* of one */
};

/* Those that cpus stand on, each counted once. */
struct caches topo_caches(const struct topo *t, const struct ids *cpus);

/* ---- what is where ---- */

/* The node of a network interface, or of an RDMA device; NODE_UNKNOWN when the firmware does
 * not tell, or when it has none, as a tunnel. What stands on others (a bond, a VLAN, a bridge,
 * a soft-RoCE device) is where all of those are. */
int topo_netdev(const struct topo *t, const char *ifname);
int topo_rdma(const struct topo *t, const char *device);
/* The RDMA device that network interface ifname is used by: its card's, a soft one that stands on
 * it, or, of a VLAN or a bond, one that has a GID by it; the card's own when there are several.
 * 0; -ENOENT: there is none, or no such interface. */
#define RDMA_NAME 64
int topo_netdev_rdma(const struct topo *t, const char *ifname, char device[RDMA_NAME]);
/* A network interface's speed in Mbit/s; 0: not known, or no link. */
uint32_t topo_netdev_mbps(const struct topo *t, const char *ifname);
/* Of the completion vectors 0 to vectors - 1 of an RDMA device the nth, counted around, whose
 * interrupt is handled on one of cpus, as far as that is known; a guess where it is not. */
unsigned topo_vector(const struct topo *t, const char *device, const struct ids *cpus,
		     unsigned vectors, unsigned nth);
/* The nodes of a block device, by its name in class/block, or its number: a partition has its
 * disk's; RAID, LVM and multipath those of all their members, iSCSI and iSER that of the
 * initiator's card, a loop device those of what its file is on. Empty: not known. */
struct ids topo_block(const struct topo *t, const char *name);
/* Is there a block device of this name? */
bool topo_has_block(const struct topo *t, const char *name);
struct ids topo_device(const struct topo *t, dev_t dev);
/* Those that a tmpfs takes its memory from, as the options of its mount tell, "size=1g,mpol=
 * bind:0,2" (tmpfs(5)). Empty: they do not. */
struct ids tmpfs_nodes(const char *options);

/* ---- what is wanted ---- */

enum place_mode {
	PLACE_AUTO,    /* each path on its card's node, files by their storage's */
	PLACE_OFF,     /* wherever the kernel puts it */
	PLACE_NODE,    /* all on one node */
	PLACE_NIC,     /* files by the cards' nodes, too */
	PLACE_STORAGE, /* paths on the storage's node, too */
};

struct place_wish {
	enum place_mode mode;
	int node;         /* PLACE_NODE's */
	bool cores;       /* each thread has a CPU of its own, as far as they go */
	const char *nics; /* "eth0=1,eth1=any": the nodes of cards, whatever sysfs says; or NULL */
};

/* "auto", "off", "node:N", "nic" or "storage" into mode and node. 0, or -EINVAL with text. */
int place_wish_parse(struct place_wish *w, const char *text, struct err *e);
/* Are the nodes that it names there, and is nics as it has to be? 0, or -EINVAL with text. */
int place_wish_check(const struct place_wish *w, struct err *e);
/* The node that list (or NULL) gives to a card, maybe NODE_UNKNOWN; false: it does not name
 * it. */
bool place_nic(const char *list, const char *ifname, int *node);

/* ---- placement ---- */

/* Without libnuma in the build, or in a container that forbids it, all of these are -ENOSYS or
 * -EPERM, and nothing is changed. */

/* Pages of [base, base + bytes) that have not been touched yet come from node: strict, from
 * nowhere else, so that the kernel rather ends the process than take another node's when it is
 * full; otherwise from others then, too. base is page-aligned. -EINVAL: there is no such node,
 * or this process may have no memory of it. */
int place_memory(void *base, size_t bytes, int node, bool strict);
/* May this process have memory of node? 0; or what place_memory says of it. */
int place_may_have(int node);
/* Untouched pages of it come from anywhere again. */
void place_anywhere(void *base, size_t bytes);
/* Have all pages of [base, base + bytes) now, by whatever was said with place_memory. 0;
 * -ENOMEM or -EFAULT, when some are not to be had, and a touch would end the process; -EINVAL
 * before Linux 5.14. */
int place_fault_in(void *base, size_t bytes);

/* A thread's policy (set_mempolicy(2)). */
struct place_policy {
	int mode;            /* < 0: none was kept */
	unsigned long nodes[(NODE_MOST + 1) / (8 * sizeof(long))];
};

/* What this thread allocates from now on, and the kernel for it, comes from node as long as it
 * has any; until place_back, which takes what was before from old. */
void place_prefer(int node, struct place_policy *old);
void place_back(const struct place_policy *old);

struct place_count {
	size_t there;       /* bytes on the node */
	size_t elsewhere;
	size_t untouched;   /* no page yet */
};

/* Where the pages of a region are; of more than 1 GiB every so many-th is looked at, and
 * stands for those behind it. */
int place_count(const void *base, size_t bytes, int node, struct place_count *c);

/* The CPUs that this thread may run on, or may not run beyond from now on: of cpus those that
 * it is allowed (cpuset, affinity). -EINVAL: none of them is; it stays as it is. */
int place_cpus(struct ids *cpus);
int place_thread(const struct ids *cpus);
/* For a thread to begin with: on cpus, or wherever it is when there are none in it, or none that
 * it may use, which is logged. */
void place_self(const struct ids *cpus);

/* ---- the I/O model ---- */

/* What rftp-numa model measured: the bandwidth of copies between a node that a device hangs on,
 * with threads there, and each other node. Nodes alike are in one class; class 1 has the node
 * itself and those of its package, and all when no classes were seen. Nothing in it changes.
 * Any thread. */
struct model;

enum model_op {
	MODEL_WRITE, /* to the device: from the other node to the device's */
	MODEL_READ,  /* from the device: from its node to the other */
	MODEL_OPS
};

/* Where one is looked for: RFTP_NUMA_MODEL of the environment, or else MODEL_FILE. */
#define MODEL_FILE "/var/lib/rftp/numa-model.json"
const char *model_default(void);

/* file: NULL for the default. t: the machine it must have been made on. NULL with text and e's
 * code: -ENOENT when there is none, which is no error for who can do without; -EBADMSG when it
 * is damaged; -ESTALE when it was made on another machine, or before this one changed. */
struct model *model_read(const char *file, const struct topo *t, struct err *e);
void model_free(struct model *m);
/* The nodes whose memory a device on node may as well use when its own is full: those in class
 * 1 of it, itself among them. Itself alone without a model (m NULL), or when the model has
 * nothing of it. */
struct ids model_near(const struct model *m, int node, enum model_op op);
/* The class that memory of node is in for a device on target, from 1; 0: not known. */
unsigned model_class(const struct model *m, int target, enum model_op op, int node);

#endif
