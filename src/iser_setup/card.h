// SPDX-License-Identifier: Apache-2.0
/* The network card that an address of this host is on. */
#ifndef RFTP_ISER_CARD_H
#define RFTP_ISER_CARD_H

#include "iser_setup/facts.h"

/* What this host says of itself. */
struct host_dirs {
	const char *sysfs, *proc;
};

/* RFTP_SYSFS and RFTP_PROC of the environment, or else /sys and /proc. */
struct host_dirs host_dirs(void);
/* Its list of CPUs in a file of /proc or sysfs made of a format. 0, or a negative errno. */
int host_cpus(struct ids *cpus, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* address: numerical, as inet_ntop writes it. */
struct card_facts card_read(const struct topo *t, const char *address);
/* What netdev is; the same without the address. */
struct card_facts card_of(const struct topo *t, const char *netdev);
/* The CPUs that may handle an interrupt. 0, or a negative errno. */
int card_irq(unsigned irq, struct ids *cpus);

#endif
