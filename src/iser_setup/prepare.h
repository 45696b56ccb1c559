// SPDX-License-Identifier: Apache-2.0
/* What must be there before this host can log in anywhere, and is made if it can be. */
#ifndef RFTP_ISER_PREPARE_H
#define RFTP_ISER_PREPARE_H

#include "iser_setup/login.h"

/* The module of the transport, and of disks; open-iscsi's daemon. What had to be started is
 * said on standard error. 0, or a negative errno with text that tells how to mend it. */
int prepare_modules(enum login_transport transport, const struct stop *stop, struct err *e);
int prepare_daemon(const struct stop *stop, struct err *e);
/* This host's InitiatorName, made by iscsi-iname when it has none; file: NULL for open-iscsi's.
 * NULL with text; else the caller's. */
char *prepare_initiator(const char *file, const struct stop *stop, struct err *e);

/* What login_address takes, as a numerical address. 0; -EINVAL, -ENOENT, both with text. */
int prepare_portal(const char *word, struct login_portal *p, struct err *e);
/* The network interface that leads to a numerical address: of its route, or, for an address of this
 * host's own, that which has it; "" when none does. */
void prepare_netdev(const char *address, char ifname[IF_NAMESIZE]);
/* Is there an RDMA device on the way to each? 0; -ENODEV with text. */
int prepare_rdma(const struct topo *t, const struct login_list *l, struct err *e);

#endif
