// SPDX-License-Identifier: Apache-2.0
/* Which targets this host logs in to, and at which of their addresses: chosen out of a plan, or out
 * of what a storage host offers. Pure. */
#ifndef RFTP_ISER_LOGIN_H
#define RFTP_ISER_LOGIN_H

#include "iser_setup/plan.h"

#include <net/if.h>
#include <netinet/in.h>

#define ISCSI_NAME_ROOM 224 /* RFC 7143 §4.2.7: 223 bytes */
#define ISCSI_ADDRESS_ROOM (INET6_ADDRSTRLEN + IF_NAMESIZE)
#define ISCSI_PORTAL_ROOM (ISCSI_ADDRESS_ROOM + 16)

enum login_transport {
	LOGIN_ISER,
	LOGIN_TCP,
	LOGIN_TRANSPORTS
};

extern const char *const login_transports[LOGIN_TRANSPORTS]; /* "iser", "tcp" */
extern const char *const login_ifaces[LOGIN_TRANSPORTS];     /* open-iscsi's: "iser", "default" */
extern const char *const login_modules[LOGIN_TRANSPORTS];    /* the kernel's: "ib_iser", ... */

struct login_portal {
	char address[ISCSI_ADDRESS_ROOM]; /* numerical, without brackets */
	unsigned port;
};

/* "10.0.0.1:3260", "[fd00::1]:3260"; out. */
const char *login_portal_text(char out[ISCSI_PORTAL_ROOM], const struct login_portal *p);

/* "HOST", "HOST:PORT", "fd00::1", "[fd00::1]:PORT": host, which the caller frees, and port. 0, or
 * -EINVAL with text. */
int login_address(const char *word, char **host, unsigned *port, struct err *e);
bool login_same_portal(const struct login_portal *a, const struct login_portal *b);

struct login_target {
	char iqn[ISCSI_NAME_ROOM];
	struct login_portal portal;
	unsigned tag;                  /* of the portal group */
	const struct iser_target *plan; /* what it serves, by the plan; NULL: not known */
	const struct iser_chap *chap, *mutual; /* NULL: none; whoever chose owns them */
};

/* The plan's back store of this LUN; NULL: it has none. Of a target with a plan. */
const struct iser_store *login_store(const struct login_target *t, unsigned lun);
/* Is a disk with this LUN and serial ("": it tells none) what the plan says, as far as it is known?
 * 0; -ENXIO with text. */
int login_check_disk(const struct login_target *t, unsigned lun, const char *serial,
		     struct err *e);

struct login_list {
	struct login_target *v;
	size_t n;
};
void login_list_clear(struct login_list *l);

struct login_wish {
	enum login_transport transport;
	const struct tool_list *iqns;  /* these alone; empty: all there are */
	const struct login_portal *portals; /* at these alone; of a plan, none: at any */
	size_t n_portals;
	const struct iser_chap *chap, *mutual; /* for what is offered; a plan has its own */
};

/* Those of p that let initiator in, each at the first of its portals that will do. -ENOENT: it has
 * none for it, or not the one that is wished; -EPROTONOSUPPORT: its portals do no iSER; with
 * text. l is login_list_clear's in any case. */
int login_from_plan(const struct iser_plan *p, const char *initiator, const struct login_wish *w,
		    struct login_list *l, struct err *e);

/* Those of what iscsiadm printed of a discovery ("ADDRESS:PORT,TAG IQN" on each line) that are at
 * the wish's portals; each once, at the portal that comes first in the wish. *left, the caller's,
 * is the list of those that are elsewhere only, for a word about them; "" without. -ENOENT: nothing
 * is left; -EBADMSG: it is no such text. l is login_list_clear's in any case. */
int login_from_discovery(const char *text, const struct login_wish *w, struct login_list *l,
			 char **left, struct err *e);

/* The InitiatorName of the text of initiatorname.iscsi; NULL: it has none that is well-formed. The
 * caller frees it. */
char *login_initiator_name(const char *text);

/* May c be in a record of open-iscsi's: a user or a secret, one line that is neither empty nor
 * begins or ends with a blank. 0, or -EINVAL with text that does not hold it. what: "the user". */
int login_check_word(const char *what, const char *word, struct err *e);

#endif
