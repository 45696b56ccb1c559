// SPDX-License-Identifier: Apache-2.0
/* getifaddrs(3), and what sysfs and /proc/irq tell. */
#include "iser_setup/card.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 65536u

static const char *from_environment(const char *variable, const char *otherwise)
{
	const char *value = getenv(variable);

	return value && *value ? value : otherwise;
}

struct host_dirs host_dirs(void)
{
	return (struct host_dirs){ .sysfs = from_environment("RFTP_SYSFS", "/sys"),
				   .proc = from_environment("RFTP_PROC", "/proc") };
}

int host_cpus(struct ids *cpus, const char *fmt, ...)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];
	va_list args;
	int r;

	memset(cpus, 0, sizeof(*cpus));
	va_start(args, fmt);
	vsnprintf(path, sizeof(path), fmt, args);
	va_end(args);
	r = read_file(path, LIST_MAX, &text, NULL);
	return r ? r : ids_parse(text, cpus);
}

/* ---- interrupts ---- */

int card_irq(unsigned irq, struct ids *cpus)
{
	return host_cpus(cpus, "%s/irq/%u/smp_affinity_list", host_dirs().proc, irq);
}

/* Where it really is handled now, or else where it may be. */
static void add_irq(struct card_facts *c, unsigned irq)
{
	struct ids cpus;

	if (host_cpus(&cpus, "%s/irq/%u/effective_affinity_list", host_dirs().proc, irq) ||
	    !ids_count(&cpus))
		if (card_irq(irq, &cpus))
			return;
	c->irqs++;
	ids_unite(&c->irq_cpus, &cpus);
}

/* A PCI function lists them; a virtio device, which a card may be, stands one level lower. */
DIR *card_interrupts(const char *sysfs, const char *netdev)
{
	static const char *const places[] = { "device", "device/.." };
	DIR *d = NULL;

	for (size_t i = 0; !d && i < sizeof(places) / sizeof(places[0]); i++) {
		char path[PATH_MAX];

		snprintf(path, sizeof(path), "%s/class/net/%s/%s/msi_irqs", sysfs, netdev,
			 places[i]);
		d = opendir(path);
	}
	return d;
}

static void find_irqs(struct card_facts *c)
{
	DIR *d = card_interrupts(host_dirs().sysfs, c->netdev);
	struct dirent *entry;
	uint64_t irq;

	while (d && (entry = readdir(d)))
		if (!parse_uint(entry->d_name, 0, UINT_MAX, &irq))
			add_irq(c, (unsigned)irq);
	if (d)
		closedir(d);
}

/* ---- addresses ---- */

bool card_address(const struct ifaddrs *a, char text[INET6_ADDRSTRLEN])
{
	const void *bytes = NULL;
	int family = a->ifa_addr ? a->ifa_addr->sa_family : AF_UNSPEC;

	if (family == AF_INET)
		bytes = &((const struct sockaddr_in *)(const void *)a->ifa_addr)->sin_addr;
	else if (family == AF_INET6)
		bytes = &((const struct sockaddr_in6 *)(const void *)a->ifa_addr)->sin6_addr;
	return bytes && inet_ntop(family, bytes, text, INET6_ADDRSTRLEN);
}

struct card_facts card_of(const struct topo *t, const char *netdev)
{
	struct card_facts c = { .here = true, .node = topo_netdev(t, netdev) };

	snprintf(c.netdev, sizeof(c.netdev), "%s", netdev);
	if (topo_netdev_rdma(t, netdev, c.rdma))
		*c.rdma = '\0';
	find_irqs(&c);
	return c;
}

struct card_facts card_read(const struct topo *t, const char *address)
{
	struct card_facts c = { .node = NODE_UNKNOWN };
	char text[INET6_ADDRSTRLEN];
	struct ifaddrs *all;

	if (getifaddrs(&all))
		return c;
	for (const struct ifaddrs *a = all; a && !c.here; a = a->ifa_next)
		if (card_address(a, text) && !strcmp(text, address))
			c = card_of(t, a->ifa_name);
	freeifaddrs(all);
	return c;
}
