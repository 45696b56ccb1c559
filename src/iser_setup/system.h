// SPDX-License-Identifier: Apache-2.0
/* What the kernel's target (LIO) serves now, and what it stands on: read from configfs
 * (/sys/kernel/config/target), /proc and the filesystems; changes nothing, and needs neither
 * targetcli nor rtslib. */
#ifndef RFTP_ISER_SYSTEM_H
#define RFTP_ISER_SYSTEM_H

#include "iser_setup/plan.h"

#include <sys/types.h>

struct lio_store {
	char *plugin, *name;  /* "fileio", "node0-disk0" */
	char *dir;            /* its directory in configfs */
	char *path;           /* the file or device; "" for a ramdisk */
	char *serial;         /* "" as long as it is not enabled */
	uint64_t size;        /* bytes */
	dev_t device;         /* that an iblock has open; 0: not known */
	bool enabled;
	bool write_back;      /* what was written may be lost until it is flushed, and initiators
	                       * are told; an iblock's is its device's, which LIO leaves alone */
};

struct lio_portal {
	char *address;        /* without brackets */
	unsigned port;
	bool iser;
};

struct lio_lun {
	unsigned lun;
	char *plugin, *store; /* NULL: its link is broken */
};

struct lio_mapped {
	unsigned as, lun;     /* the number that the initiator sees, and the portal group's */
	bool read_only;
};

struct lio_acl {
	char *initiator;
	char *user, *secret, *mutual_user, *mutual_secret; /* "": none; never to be printed */
	struct lio_mapped *mapped; /* LUNs that it is given, in the order of lun */
	size_t n_mapped;
	bool logged_in;
	char *session;        /* what LIO tells of the session, one line; "" without */
};

#define LIO_TAG 1u      /* of the one portal group that a target of ours has */
#define LIO_NO_GROUP 0u

struct lio_target {
	char *iqn;
	unsigned tag;         /* of the portal group; LIO_NO_GROUP: it has none, and nothing else */
	char *dir;            /* the portal group's directory */
	bool enabled;
	struct lio_portal *portals;
	size_t n_portals;
	struct lio_lun *luns;
	size_t n_luns;
	struct lio_acl *acls;
	size_t n_acls;
	unsigned dynamic;     /* sessions of initiators without an ACL */
};

struct tmpfs_mount {
	char *path, *source, *options;
	struct ids nodes;     /* mpol's; empty: it has none */
	bool covered;         /* something else is mounted over it */
};

struct lio {
	bool there;           /* configfs has target at all: target_core_mod is loaded */
	bool iscsi;           /* and the fabric: iscsi_target_mod */
	char *cpus;           /* cpus_allowed_list; NULL: this kernel has none */
	struct lio_store *stores;
	size_t n_stores;
	struct lio_target *targets; /* one per portal group */
	size_t n_targets;
	struct tmpfs_mount *mounts;
	size_t n_mounts;
};

/* configfs: NULL for RFTP_CONFIGFS of the environment or else /sys/kernel/config; mounts likewise
 * by RFTP_PROC or /proc. A kernel without LIO is no error. NULL with text. */
struct lio *lio_read(const char *configfs, struct err *e);
void lio_free(struct lio *l); /* wipes secrets */
void cleanup_lio(struct lio **l);
#define CLEANUP_LIO CLEANUP(cleanup_lio)

/* However they are written. */
bool lio_same_address(const char *a, const char *b);
/* NULL: there is none. Of several portal groups lio_target is LIO_TAG's, if there is that one.
 * An address is the same however it is written. */
const struct lio_store *lio_store(const struct lio *l, const char *plugin, const char *name);
const struct lio_target *lio_target(const struct lio *l, const char *iqn);
/* Is the portal group's LUN given to the initiator, as whichever? */
bool lio_given(const struct lio_acl *a, unsigned lun);
const struct lio_portal *lio_portal(const struct lio_target *t, const char *address,
				    unsigned port);
const struct lio_lun *lio_lun(const struct lio_target *t, unsigned lun);
const struct lio_acl *lio_acl(const struct lio_target *t, const char *initiator);
const struct tmpfs_mount *lio_mount(const struct lio *l, const char *path);
/* An attribute's value, of what has dir: 0; -ENOENT: it has none of this name; -EINVAL. */
#define LIO_ATTRIBUTE_MAX 4096u /* bytes */
int lio_attribute(const char *dir, const char *name, unsigned long long *value);

#endif
