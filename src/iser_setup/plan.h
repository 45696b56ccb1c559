// SPDX-License-Identifier: Apache-2.0
/* What a storage host is to serve: a target per node, each with its back stores, the addresses
 * it listens on and the initiators that may log in. Read from and written to JSON; changes
 * nothing. */
#ifndef RFTP_ISER_PLAN_H
#define RFTP_ISER_PLAN_H

#include "numa/numa.h"
#include "util/util.h"

#define ISER_PLAN_MAX (4u << 20) /* bytes of a plan's file */
#define ISER_PORT 3260u          /* RFC 7143's */
#define ISER_SIZE_LEAST (1u << 20) /* bytes of a back store; less is a mistake in a unit */
#define ISER_LUN_MOST 255u     /* as far as every initiator looks */

enum iser_kind {
	ISER_TMPFS,   /* a file in a tmpfs of its own, whose mount says of which node */
	ISER_FILE,    /* a file, where its filesystem is */
	ISER_BLOCK,   /* a block device */
	ISER_RAMDISK, /* the kernel's own memory, of whichever node makes it */
	ISER_KINDS
};

enum iser_policy {
	ISER_BIND,   /* the node's memory, or none */
	ISER_PREFER, /* others' when it is full */
	ISER_POLICIES
};

/* One of LIO's attributes of a back store, "emulate_tpu", or of a target's portal group. */
struct iser_attribute {
	char *name;
	unsigned long long value;
};

/* A back store, and its LUN in the target. */
struct iser_store {
	unsigned lun;
	char *name;              /* LIO's; letters, digits, '.', '_', '-'; no two alike in a plan */
	enum iser_kind kind;
	int node;                /* where its pages are to be, or its device is; NODE_UNKNOWN */
	uint64_t size;           /* bytes; 0 for a block device: all of it */
	enum iser_policy policy; /* a tmpfs's */
	char *path;              /* where the tmpfs is mounted; the file; the device; NULL */
	bool write_back;         /* what is written may be in memory only until it is flushed */
	char *serial;            /* by which initiators know the disk again: a UUID */
	struct iser_attribute *attributes;
	size_t n_attributes;
};

struct iser_portal {
	char *address;           /* numerical, without brackets */
	unsigned port;
	char *netdev;            /* that has the address; NULL: not known */
	bool iser;
};

/* RFC 7143 §12.1, RFC 1994. */
struct iser_chap {
	char *user;              /* NULL: none */
	char *secret_file;       /* its first line; 0600 */
};

struct iser_initiator {
	char *name;              /* its IQN */
	struct iser_chap chap;   /* it proves who it is */
	struct iser_chap mutual; /* and the target does */
};

struct iser_target {
	int node;
	char *iqn;
	bool open;               /* any initiator may log in, without proof, and write */
	struct iser_portal *portals;
	size_t n_portals;
	struct iser_initiator *initiators;
	size_t n_initiators;
	struct iser_store *stores;
	size_t n_stores;
	struct iser_attribute *attributes; /* of the portal group */
	size_t n_attributes;
};

enum iser_cpus {
	ISER_CPUS_NODES, /* the target's threads run on the CPUs of its targets' nodes */
	ISER_CPUS_ANY,   /* and are left where they are */
	ISER_CPUS_KINDS
};

struct iser_plan {
	char *name;              /* several may be there side by side; as a store's */
	enum iser_cpus cpus;     /* one list for all targets of the host: LIO has no other */
	struct iser_target *targets;
	size_t n_targets;
};

extern const char *const iser_kinds[ISER_KINDS];       /* "tmpfs", ... */
extern const char *const iser_policies[ISER_POLICIES]; /* "bind", "prefer" */
extern const char *const iser_cpus_words[ISER_CPUS_KINDS]; /* "nodes", "any" */

/* A plan in whose memory all is NULL and 0; NULL: memory is out. */
struct iser_plan *iser_plan_new(void);
void iser_plan_free(struct iser_plan *p); /* NULL is harmless */
void cleanup_iser_plan(struct iser_plan **p);
#define CLEANUP_ISER_PLAN CLEANUP(cleanup_iser_plan)

/* One more at the end of what *list points to, zeroed; NULL: memory is out. */
#define iser_plan_add(list, n) iser_plan_grow((void **)&(list), &(n), sizeof(*(list)))
void *iser_plan_grow(void **list, size_t *n, size_t each);

/* Is it a plan that could be carried out on some machine? 0, or -EINVAL with text that names the
 * place, "targets[1].luns[0].size". What must be there is, and what must differ does: names and
 * serials of back stores, LUNs in a target, IQNs, addresses with their ports. */
int iser_plan_check(const struct iser_plan *p, struct err *e);

/* Checked, too. name: the file's, for the text. NULL with text. */
struct iser_plan *iser_plan_parse(const char *name, const char *text, struct err *e);
struct iser_plan *iser_plan_read(const char *path, struct err *e);
/* The same again. New reference; NULL: memory is out. */
json_t *iser_plan_json(const struct iser_plan *p);
struct iser_plan *iser_plan_unjson(const char *name, json_t *json, struct err *e);

/* The file of a tmpfs's back store, within its mount; malloc'd. NULL: memory is out. A file's or
 * a device's is its path. A ramdisk has none: "". */
char *iser_store_file(const struct iser_store *s);
/* LIO's plugin: "fileio", "iblock", "rd_mcp". */
const char *iser_store_plugin(const struct iser_store *s);
/* Does it forget what it held when it is taken away, or the host ends? */
bool iser_store_forgets(const struct iser_store *s);
/* Is one of this name among them? */
bool iser_attribute_in(const struct iser_attribute *list, size_t n, const char *name);
/* Is one of them a tmpfs, and the other at its mount point, or below it? */
bool iser_stores_overlap(const struct iser_store *a, const struct iser_store *b);
/* NULL: p has none of that name. */
const struct iser_store *iser_plan_store(const struct iser_plan *p, const char *name);
const struct iser_target *iser_plan_target(const struct iser_plan *p, const char *iqn);

#endif
