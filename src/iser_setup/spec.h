// SPDX-License-Identifier: Apache-2.0
/* What an administrator asks of a plan: a small file of sections, or the same by options. The
 * format is described in rftp-iser(8). */
#ifndef RFTP_ISER_SPEC_H
#define RFTP_ISER_SPEC_H

#include "iser_setup/plan.h"

#define SPEC_EACH (-1)       /* the node of [node *] */
#define SPEC_UNSAID (-1)
#define SPEC_GENERATE "generate"

struct spec_store {
	enum iser_kind kind;
	uint64_t size;       /* bytes; 0 for a block device */
	char *path;          /* a file's, a device's; NULL */
	int found;           /* the node that its device is on; NODE_UNKNOWN until spec_locate */
};

struct spec_node {
	int node;            /* or SPEC_EACH, whose stores and attributes are for all, and whose
			      * policy and write for those that do not say */
	int policy;          /* of enum iser_policy, or SPEC_UNSAID */
	int write_back;      /* 0, 1, SPEC_UNSAID */
	struct spec_store *stores;
	size_t n_stores;
	char **portals;      /* ADDRESS, NETDEV, with :PORT, or "auto" */
	size_t n_portals;
	struct iser_attribute *lun_attributes, *target_attributes;
	size_t n_lun_attributes, n_target_attributes;
};

struct spec_initiator {
	char *name;
	char *chap_user, *mutual_user;     /* NULL: a name is chosen */
	char *chap_secret, *mutual_secret; /* a file, or SPEC_GENERATE; NULL: none */
};

struct spec {
	char *name, *iqn, *domain; /* NULL: not said */
	char *mounts, *secrets;    /* directories; NULL: the usual */
	enum iser_cpus cpus;
	bool open;
	bool tcp;                  /* plain iSCSI will do where there is no RDMA */
	struct ids only;           /* the nodes to plan for; empty: all that have what it takes */
	struct spec_node *nodes;
	size_t n_nodes;
	struct spec_initiator *initiators;
	size_t n_initiators;
};

struct spec *spec_new(void); /* that says nothing; NULL: memory is out */
void spec_free(struct spec *s); /* NULL is harmless */
void cleanup_spec(struct spec **s);
#define CLEANUP_SPEC CLEANUP(cleanup_spec)

/* What a file's text says, added to s. 0, or a negative errno with text that names file, by name,
 * and line. */
int spec_parse(struct spec *s, const char *name, const char *text, struct err *e);
/* One line of it: section "node 0", key "tmpfs", value "4G". Of what may be there once the last
 * counts. 0, -EINVAL or -ENOMEM with text. */
int spec_set(struct spec *s, const char *section, const char *key, const char *value,
	     struct err *e);
/* What a portal is asked for by, "192.0.2.1:3261": at, an address, an interface or "auto", which
 * the caller frees, and its port, ISER_PORT unless said. An IPv6 address with a port stands in
 * brackets. 0, -EINVAL or -ENOMEM with text. */
int spec_portal(const char *value, char **at, unsigned *port, struct err *e);
/* Of a section; NULL: there is none. */
const struct spec_node *spec_node(const struct spec *s, int node);
/* On which nodes its devices are, and the devices that its files are on, as far as t tells. own:
 * t is of this machine, so that its files may be looked at. */
void spec_locate(struct spec *s, const struct topo *t, bool own);

#endif
