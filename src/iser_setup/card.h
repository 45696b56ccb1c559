// SPDX-License-Identifier: Apache-2.0
/* The network card that an address of this host is on. */
#ifndef RFTP_ISER_CARD_H
#define RFTP_ISER_CARD_H

#include "iser_setup/facts.h"

#include <dirent.h>
#include <ifaddrs.h>
#include <netinet/in.h>

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
/* An interface's address as inet_ntop writes it; false: it is none of IP. */
bool card_address(const struct ifaddrs *a, char text[INET6_ADDRSTRLEN]);
/* The directory below sysfs that has an entry for each message-signalled interrupt of netdev, for
 * the caller to close; NULL: it has none, or sysfs does not tell. */
DIR *card_interrupts(const char *sysfs, const char *netdev);
/* The CPUs that may handle an interrupt. 0, or a negative errno. */
int card_irq(unsigned irq, struct ids *cpus);

#endif
