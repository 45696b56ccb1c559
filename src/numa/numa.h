// SPDX-License-Identifier: Apache-2.0
/* numa: the NUMA nodes of this machine, and the nodes of its network interfaces, RDMA devices,
 * disks and files, read from sysfs (Documentation/ABI in the kernel's source:
 * stable/sysfs-devices-node, testing/sysfs-bus-pci). */
#ifndef RFTP_NUMA_H
#define RFTP_NUMA_H

#include "util/util.h"

#include <sys/socket.h>
#include <sys/types.h>

/* ---- sets of CPUs and of nodes ---- */

#define IDS_MAX 8192   /* the most CPUs of a Linux kernel */
#define NODE_MOST 1023 /* the greatest node number of a Linux kernel */

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
/* The smallest member that is at least from; -1: there is none. */
int ids_next(const struct ids *s, unsigned from);
/* The only member of s; -1: s has none or several. */
int ids_only(const struct ids *s);
void ids_unite(struct ids *s, const struct ids *other);
void ids_intersect(struct ids *s, const struct ids *other);
/* Parse a list as in sysfs, "0-3,8,10-11"; trailing white space is allowed. 0; -EINVAL; -ERANGE. */
int ids_parse(const char *text, struct ids *s);

/* Write s in the format of ids_parse(); "" for an empty set. The text ends with "..." if room, the
 * size of out, is too small. Returns out. */
char *ids_format(char *out, size_t room, const struct ids *s);

/* ---- the machine ---- */

#define NODE_UNKNOWN (-1) /* no preference */
#define DISTANCE_UNKNOWN 0

struct node {
	int id;               /* the kernel's number; the numbers may have gaps */
	struct ids cpus;      /* online; empty for a node that is memory only */
	unsigned *distance;   /* to each node, in the order of topo_node(); 10: to itself */
};

/* The topology at the time of topo_read(); it never changes. Any thread. */
struct topo;

/* Read the topology below sysfs; NULL: below $RFTP_SYSFS, or /sys if that is not set. A kernel
 * without NUMA counts as one node, 0, with all CPUs. NULL with text. */
struct topo *topo_read(const char *sysfs, struct err *e);
void topo_free(struct topo *t);
unsigned topo_nodes(const struct topo *t);
const struct node *topo_node(const struct topo *t, unsigned i); /* i < topo_nodes */
/* The node with the kernel's number id; NULL: there is none. */
const struct node *topo_find(const struct topo *t, int id);
/* The CPUs of a node that are in allowed; empty if there is no such node. */
struct ids topo_cpus(const struct topo *t, int id, const struct ids *allowed);
/* The distance between two nodes, given by number; DISTANCE_UNKNOWN: one of them does not exist. */
unsigned topo_distance(const struct topo *t, int from, int to);

/* Bytes. */
struct node_memory {
	uint64_t total, free;
	uint64_t room;            /* available: free, or used by the page cache */
};

/* The node's memory at the time of this call, not of topo_read(). 0; -ENOENT: not known. */
int topo_memory(const struct topo *t, int node, struct node_memory *m);
/* Free bytes in huge pages of size bytes that are reserved on the node; 0: none, or not known. */
uint64_t topo_huge_free(const struct topo *t, int node, uint64_t size);

/* The first CPU of each core, among cpus. */
struct ids topo_cores(const struct topo *t, const struct ids *cpus);

/* ---- nodes of devices ---- */

/* The node of a network interface or an RDMA device. A device on top of others (a bond, a VLAN, a
 * bridge, soft RoCE) has their node. NODE_UNKNOWN: the firmware does not report it, or the device
 * has no node (a tunnel) or several. */
int topo_netdev(const struct topo *t, const char *ifname);
int topo_rdma(const struct topo *t, const char *device);

/* The RDMA device of network interface ifname. gid NULL: the device of its card, a software device
 * on it, or, for a VLAN or a bond, a device with a GID on it; the card's own device is preferred.
 * gid, as sysfs writes it: a device with this GID, or else the device of the interface's card
 * (IPoIB: its GIDs are not addresses). 0; -ENOENT: there is no such device or interface; -ENODEV:
 * there is no RDMA device at all. */
#define RDMA_NAME 64
int topo_netdev_rdma(const struct topo *t, const char *ifname, const char *gid,
		     char device[RDMA_NAME]);
/* A network interface's speed in Mbit/s; 0: not known, or no link. */
uint32_t topo_netdev_mbps(const struct topo *t, const char *ifname);

/* Choose a completion vector, from 0 to vectors - 1, of an RDMA device: the nth (modulo their
 * number) of the vectors with interrupts on cpus. If the interrupts are not known, the
 * result is a guess. */
unsigned topo_vector(const struct topo *t, const char *device, const struct ids *cpus,
		     unsigned vectors, unsigned nth);
/* The nodes of a block device, by its name in class/block or (topo_device) by its number. A
 * partition has the nodes of its disk; RAID, LVM and multipath have the nodes of all members; iSCSI
 * and iSER have the node of the initiator's card; a loop device has the nodes of its file's
 * storage. Empty: not known. */
struct ids topo_block(const struct topo *t, const char *name);
/* True: a block device of this name exists. */
bool topo_has_block(const struct topo *t, const char *name);
struct ids topo_device(const struct topo *t, dev_t dev);

/* The nodes that provide the memory of a tmpfs, from its mount options, such as
 * "size=1g,mpol=bind:0,2" (tmpfs(5)). Empty: the options name no nodes. */
struct ids tmpfs_nodes(const char *options);

/* ---- the user's placement option ---- */

enum place_mode {
	PLACE_AUTO,    /* each path on its card's node, file threads on the storage's node */
	PLACE_OFF,     /* the kernel decides */
	PLACE_NODE,    /* all on one node */
	PLACE_NIC,     /* file threads on the cards' nodes, too */
	PLACE_STORAGE, /* paths on the storage's node, too */
};

struct place_wish {
	enum place_mode mode;
	int node;         /* of PLACE_NODE */
	bool cores;       /* give each thread its own CPU while CPUs are free */
	const char *nics; /* "eth0=1,eth1=any": the nodes of cards, which override sysfs; or NULL */
};

/* Parse "auto", "off", "node:N", "nic" or "storage" into mode and node. 0, or -EINVAL with text. */
int place_wish_parse(struct place_wish *w, const char *text, struct err *e);
/* Check that the named nodes exist and that nics is well-formed. 0, or -EINVAL with text. */
int place_wish_check(const struct place_wish *w, struct err *e);

/* Get the node of a card from list, which may be NULL; *node may be NODE_UNKNOWN ("any"). False:
 * the list does not name the card. */
bool place_nic(const char *list, const char *ifname, int *node);

/* ---- facts for rftp doctor ---- */

/* This machine's facts, as an array of objects with a member "fact", rftp-protocol(7). peer: add the
 * path to this address; NULL or AF_UNSPEC: do not. storage: add the nodes of this block device;
 * 0: do not. The caller owns the array. NULL with text. Reads some hundred files of sysfs and proc,
 * and asks drivers for counters, which can take some 10 ms. Any thread. */
json_t *facts_read(const struct sockaddr_storage *peer, dev_t storage, struct err *e);
/* Only the cards and RDMA ports below sysfs (NULL: as topo_read()), without the statistics of
 * drivers. The caller owns the array. NULL: there is no sysfs, or out of memory. */
json_t *facts_cards(const char *sysfs);
/* Does a counter of a driver count lost, late, repeated or held back packets? */
bool facts_trouble(const char *counter);
/* As facts_read(), but as text, one line of JSON for each fact; facts that do not fit into room
 * bytes are left out. 0, or a negative errno with text. */
int facts_lines(const struct sockaddr_storage *peer, dev_t storage, char *text, size_t room,
		struct err *e);

/* ---- placement ---- */

/* Without libnuma in the build, or in a container that forbids it, all of these functions fail with
 * -ENOSYS or -EPERM, and change nothing. */

/* Set the node for the untouched pages of [base, base + bytes). strict: use no other node; if the
 * node is full, the kernel kills the process. Otherwise the kernel uses other nodes when this node
 * is full. base is page-aligned. 0; -EINVAL: there is no such node, or this process may not use its
 * memory; or another negative errno. */
int place_memory(void *base, size_t bytes, int node, bool strict);
/* 0: this process may use memory of node; or the error that place_memory() would return. */
int place_may_have(int node);
/* Undo place_memory(): untouched pages may be on any node again. */
void place_anywhere(void *base, size_t bytes);

/* Allocate all pages of [base, base + bytes) now, on the node set by place_memory(). 0; -ENOMEM or
 * -EFAULT: some pages are not available, and access would kill the process; -EINVAL: Linux before
 * 5.14. */
int place_fault_in(void *base, size_t bytes);

/* A thread's memory policy (set_mempolicy(2)). */
struct place_policy {
	int mode;            /* < 0: no policy was saved */
	unsigned long nodes[(NODE_MOST + 1) / (8 * sizeof(long))];
};

/* From now on new memory of this thread, and kernel memory for it, is allocated on node while node
 * has free memory. place_back() restores the old policy. */
void place_prefer(int node, struct place_policy *old);
void place_back(const struct place_policy *old);

struct place_count {
	size_t there;       /* bytes on the node */
	size_t elsewhere;
	size_t untouched;   /* no page yet */
};

/* Count the pages of a region that are on node. In a region of more than 1 GiB (with 4 KiB pages)
 * every n-th page is checked and represents the next n - 1. 0 or a negative errno. */
int place_count(const void *base, size_t bytes, int node, struct place_count *c);

/* place_cpus() gets the CPUs that the calling thread may run on (cpuset, affinity). place_thread()
 * restricts the calling thread to the CPUs in cpus that it may use. 0 or a negative errno; -EINVAL:
 * the thread may use none of them, and nothing changes. */
int place_cpus(struct ids *cpus);
int place_thread(const struct ids *cpus);

/* Called first in a new thread: as place_thread(), but an empty set changes nothing, and a failure
 * is only logged. */
void place_self(const struct ids *cpus);

/* ---- the I/O model ---- */

/* Measured by rftp-numa model: the bandwidth of copies between a device's node, where the copying
 * threads run, and each node. Nodes with similar bandwidth are in one class. Class 1 contains the
 * node itself and the nodes of its package, or all nodes if no classes were found. A model never
 * changes. Any thread. */
struct model;

enum model_op {
	MODEL_WRITE, /* to the device: from the other node to the device's */
	MODEL_READ,  /* from the device: from its node to the other */
	MODEL_OPS
};

/* The path of the default model: $RFTP_NUMA_MODEL, or MODEL_FILE if that is not set. */
#define MODEL_FILE "/var/lib/rftp/numa-model.json"
const char *model_default(void);

/* Read a model. file NULL: the default. t: the machine that the model must match. The caller frees
 * the model. NULL with text and a code in e: -ENOENT: there is no file, which callers without need
 * of a model ignore; -EBADMSG: damaged; -ESTALE: measured on another machine, or before this
 * machine changed. */
struct model *model_read(const char *file, const struct topo *t, struct err *e);
void model_free(struct model *m);

/* Class 1 of node, which includes node: for a device on node their memory is as fast as the node's
 * own. Without a model (m NULL), or if node was not measured: node alone. */
struct ids model_near(const struct model *m, int node, enum model_op op);
/* The class, from 1, of node's memory for a device on target; 0: not known. */
unsigned model_class(const struct model *m, int target, enum model_op op, int node);

#endif
