// SPDX-License-Identifier: Apache-2.0
/* The network cards of this machine, as an offer names them. */
#include "numa/numa.h"
#include "transport/transport.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FOUND_MAX 128 /* addresses that are looked at */

struct found {
	struct nic_offer nic;
	struct sockaddr_storage addr;
	char device[NIC_DEVICE_NAME]; /* of RDMA; "": none */
	bool loopback;
	bool taken;
};

struct finding {
	struct found *f;
	uint32_t n;
	struct nic_offer *out;
	uint32_t nout;
};

/* ---- addresses ---- */

socklen_t address_parse(const char *text, struct sockaddr_storage *ss)
{
	memset(ss, 0, sizeof(*ss));
	if (inet_pton(AF_INET, text, &((struct sockaddr_in *)ss)->sin_addr) == 1) {
		ss->ss_family = AF_INET;
		return sizeof(struct sockaddr_in);
	}
	if (inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)ss)->sin6_addr) == 1) {
		ss->ss_family = AF_INET6;
		return sizeof(struct sockaddr_in6);
	}
	return 0;
}

int address_source(const struct sockaddr_storage *to, socklen_t len,
		   struct sockaddr_storage *from)
{
	socklen_t room = sizeof(*from);
	int fd CLEANUP_CLOSE = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(from, 0, sizeof(*from));
	/* Sends nothing, but looks the route up. */
	if (fd < 0 || connect(fd, (const struct sockaddr *)to, len) < 0 ||
	    getsockname(fd, (struct sockaddr *)from, &room) < 0) {
		memset(from, 0, sizeof(*from));
		return errno ? -errno : -EHOSTUNREACH;
	}
	return 0;
}

static const void *address_bytes(const struct sockaddr_storage *a, size_t *len)
{
	*len = a->ss_family == AF_INET ? 4 : 16;
	return a->ss_family == AF_INET ?
		(const void *)&((const struct sockaddr_in *)a)->sin_addr :
		(const void *)&((const struct sockaddr_in6 *)a)->sin6_addr;
}

static bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	size_t len;
	const void *x = address_bytes(a, &len), *y = address_bytes(b, &len);

	return a->ss_family == b->ss_family && !memcmp(x, y, len);
}

static uint8_t mask_bits(const struct sockaddr *mask, sa_family_t family)
{
	struct sockaddr_storage m = { .ss_family = family };
	size_t len;
	const uint8_t *bytes = address_bytes(&m, &len);
	uint8_t bits = 0;

	if (!mask)
		return 0;
	memcpy(&m, mask, family == AF_INET ? sizeof(struct sockaddr_in) :
					     sizeof(struct sockaddr_in6));
	for (size_t i = 0; i < len; i++)
		bits = (uint8_t)(bits + __builtin_popcount(bytes[i]));
	return bits;
}

/* ---- what there is ---- */

static bool is_usable(const struct ifaddrs *i, int family)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	if (family != AF_UNSPEC && i->ifa_addr->sa_family != family)
		return false;
	if (i->ifa_addr->sa_family == AF_INET6) /* without its scope it is of no use to others */
		return !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
	return i->ifa_addr->sa_family == AF_INET;
}

static void note(struct finding *d, const struct ifaddrs *i)
{
	struct found *f = &d->f[d->n++];
	size_t len;

	memcpy(&f->addr, i->ifa_addr, i->ifa_addr->sa_family == AF_INET ?
	       sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
	inet_ntop(f->addr.ss_family, address_bytes(&f->addr, &len), f->nic.addr,
		  sizeof(f->nic.addr));
	snprintf(f->nic.name, sizeof(f->nic.name), "%s", i->ifa_name);
	f->nic.prefix = mask_bits(i->ifa_netmask, f->addr.ss_family);
	f->nic.node = NODE_UNKNOWN;
	f->loopback = i->ifa_flags & IFF_LOOPBACK;
}

const struct nic_rule *nic_rule_of(const struct nic_rules *rules, const char *name)
{
	for (size_t i = 0; i < rules->n; i++)
		if (!strcmp(rules->at[i].name, name))
			return &rules->at[i];
	return NULL;
}

static bool has_address(const struct ifaddrs *i, const struct sockaddr_storage *a)
{
	struct sockaddr_storage is = { 0 };

	if (!i->ifa_addr || i->ifa_addr->sa_family != a->ss_family)
		return false;
	memcpy(&is, i->ifa_addr, a->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
							   sizeof(struct sockaddr_in6));
	return same_address(&is, a);
}

const struct nic_rule *nic_rule_at(const struct nic_rules *rules,
				   const struct sockaddr_storage *addr)
{
	const struct nic_rule *r = NULL;
	struct ifaddrs *all;

	if (!rules->n || (addr->ss_family != AF_INET && addr->ss_family != AF_INET6) ||
	    getifaddrs(&all) < 0)
		return NULL;
	for (const struct ifaddrs *i = all; i && !r; i = i->ifa_next)
		if (has_address(i, addr))
			r = nic_rule_of(rules, i->ifa_name);
	freeifaddrs(all);
	return r;
}

/* Does a rule of the card want another of its addresses? */
static bool is_passed_over(const struct nic_rules *rules, const struct ifaddrs *i)
{
	const struct nic_rule *r = nic_rule_of(rules, i->ifa_name);
	struct sockaddr_storage wanted;

	return r && r->address && address_parse(r->address, &wanted) &&
	       wanted.ss_family == i->ifa_addr->sa_family && !has_address(i, &wanted);
}

static int look_around(struct finding *d, int family, const struct nic_rules *rules)
{
	struct ifaddrs *all;

	if (getifaddrs(&all) < 0)
		return -errno;
	for (const struct ifaddrs *i = all; i && d->n < FOUND_MAX; i = i->ifa_next)
		if (is_usable(i, family) && !is_passed_over(rules, i))
			note(d, i);
	freeifaddrs(all);
	return 0;
}

/* Not finding out is the same as having none; *why tells. */
static void find_devices(struct finding *d, nic_device *device, struct err *why)
{
	for (uint32_t i = 0; device && i < d->n; i++) {
		int r = device(&d->f[i].addr, d->f[i].nic.name, d->f[i].device, why);

		if (r < 0)
			return;
		d->f[i].nic.rdma = r;
	}
}

/* ---- which of them ---- */

static void take(struct finding *d, struct found *f)
{
	if (f->taken || d->nout == NICS_MAX)
		return;
	f->taken = true;
	d->out[d->nout++] = f->nic;
}

static bool is_called(const struct found *f, const char *name, size_t len)
{
	const char *names[] = { f->nic.name, f->nic.addr, f->device };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strlen(names[i]) == len && !memcmp(names[i], name, len))
			return true;
	return false;
}

static int no_such_nic(const struct finding *d, const char *name, size_t len, struct err *e)
{
	char there[400] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < d->n && at < sizeof(there) - 100; i++)
		at += (size_t)snprintf(there + at, sizeof(there) - at, "%s%s (%s%s%s)",
				       at ? ", " : "", d->f[i].nic.name, d->f[i].nic.addr,
				       d->f[i].device[0] ? ", RDMA by " : "", d->f[i].device);
	return err_set(e, -ENODEV, "--nic %.*s: there is no such network card or address here; "
		       "there are %s", (int)len, name, there);
}

/* A card's name stands for its first address. */
static int take_named(struct finding *d, const char *names, bool lenient, struct err *e)
{
	for (const char *name = names; *name;) {
		size_t len = strcspn(name, ",");
		uint32_t i = 0;

		while (i < d->n && !is_called(&d->f[i], name, len))
			i++;
		if (i == d->n && no_such_nic(d, name, len, e) && !lenient)
			return e->code;
		if (i == d->n) {
			log_warn("%s", e->text);
			*e = (struct err)ERR_INIT;
		} else {
			d->f[i].nic.named = true;
			take(d, &d->f[i]);
		}
		name += len;
		name += *name == ',';
	}
	return 0;
}

/* One address of a card is enough: another would be a second path over the same wire. */
static bool has_card(const struct finding *d, const char *name)
{
	for (uint32_t i = 0; i < d->nout; i++)
		if (!strcmp(d->out[i].name, name))
			return true;
	return false;
}

static void take_others(struct finding *d)
{
	for (uint32_t i = 0; i < d->n; i++)
		if (d->f[i].nic.control)
			take(d, &d->f[i]);
	for (uint32_t i = 0; i < d->n; i++)
		if (d->f[i].nic.rdma && !d->f[i].loopback && !has_card(d, d->f[i].nic.name))
			take(d, &d->f[i]);
}

/* How fast each is, and on which node; where there is only one that is no matter. */
static void describe(struct nic_offer *nics, uint32_t n, const char *nodes)
{
	struct err e = ERR_INIT;
	struct topo *t = topo_read(NULL, &e);
	int node;

	if (!t)
		log_debug("network cards: %s", e.text);
	for (uint32_t i = 0; t && i < n; i++) {
		nics[i].mbps = topo_netdev_mbps(t, nics[i].name);
		if (topo_nodes(t) == 1)
			continue;
		if (place_nic(nodes, nics[i].name, &node)) {
			nics[i].node = (int16_t)node;
			continue;
		}
		nics[i].node = (int16_t)topo_netdev(t, nics[i].name);
		if (nics[i].node == NODE_UNKNOWN)
			log_info("%s: its NUMA node is not known; any will do", nics[i].name);
	}
	topo_free(t);
}

const char *nic_text(const struct nic_offer *n, char text[NIC_TEXT])
{
	int len = snprintf(text, NIC_TEXT, "%s (%s)", n->name, n->addr);

	if (n->node != NODE_UNKNOWN)
		snprintf(text + len, NIC_TEXT - (size_t)len, " on node %d", n->node);
	return text;
}

int nics_find(struct nic_offer nics[NICS_MAX], uint32_t *n, const struct nic_wish *w,
	      struct err *why, struct err *e)
{
	struct found *f CLEANUP_FREE = calloc(FOUND_MAX, sizeof(*f));
	struct finding d = { .f = f, .out = nics };
	int r = f ? look_around(&d, w->local.ss_family, &w->rules) : -ENOMEM;

	*n = 0;
	if (r)
		return err_sys(e, r, "looking for network cards");
	find_devices(&d, w->device, why);
	for (uint32_t i = 0; i < d.n; i++)
		f[i].nic.control = same_address(&f[i].addr, &w->local);
	if (w->names && *w->names)
		r = take_named(&d, w->names, w->lenient, e);
	else
		take_others(&d);
	*n = r ? 0 : d.nout;
	describe(nics, *n, w->nodes);
	return r;
}
