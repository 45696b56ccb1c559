// SPDX-License-Identifier: Apache-2.0
/* Addresses, and the network cards of this machine for an offer. */
#include "transport/tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#define FOUND_MAX 128 /* most addresses of a machine */

struct nic_found {
	struct nic_offer nic;
	struct sockaddr_storage addr;
	char device[NIC_DEVICE_NAME]; /* of RDMA; "": none */
	bool loopback;
	bool taken;
};

struct nic_search {
	struct nic_found *f;
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

void address_set_port(struct sockaddr_storage *a, uint16_t port)
{
	if (a->ss_family == AF_INET6)
		((struct sockaddr_in6 *)a)->sin6_port = htons(port);
	else
		((struct sockaddr_in *)a)->sin_port = htons(port);
}

const char *sockaddr_text(const struct sockaddr_storage *a, char out[80])
{
	const struct sockaddr_in6 *a6 = (const void *)a;
	const struct sockaddr_in *a4 = (const void *)a;
	char addr[INET6_ADDRSTRLEN] = "?";

	if (!a) {
		snprintf(out, 80, "stdio");
	} else if (a->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &a6->sin6_addr, addr, sizeof(addr));
		snprintf(out, 80, "[%s]:%u", addr, ntohs(a6->sin6_port));
	} else {
		inet_ntop(AF_INET, &a4->sin_addr, addr, sizeof(addr));
		snprintf(out, 80, "%s:%u", addr, ntohs(a4->sin_port));
	}
	return out;
}

struct in6_addr address_as_v6(const struct sockaddr_storage *a)
{
	struct in6_addr out = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	if (a->ss_family != AF_INET)
		return ((const struct sockaddr_in6 *)a)->sin6_addr;
	memcpy(&out.s6_addr[12], &((const struct sockaddr_in *)a)->sin_addr, 4);
	return out;
}

void address_unmap(struct sockaddr_storage *a)
{
	struct sockaddr_in four = { .sin_family = AF_INET };
	struct sockaddr_in6 six;

	memcpy(&six, a, sizeof(six));
	if (six.sin6_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six.sin6_addr))
		return;
	four.sin_port = six.sin6_port;
	memcpy(&four.sin_addr, &six.sin6_addr.s6_addr[12], sizeof(four.sin_addr));
	memset(a, 0, sizeof(*a));
	memcpy(a, &four, sizeof(four));
}

int address_source(const struct sockaddr_storage *to, socklen_t len,
		   struct sockaddr_storage *from)
{
	socklen_t room = sizeof(*from);
	int fd CLEANUP_CLOSE = socket(to->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(from, 0, sizeof(*from));
	/* This sends nothing, but looks the route up. */
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

const char *address_host(const struct sockaddr_storage *a, char out[INET6_ADDRSTRLEN])
{
	size_t len;

	return inet_ntop(a->ss_family, address_bytes(a, &len), out, INET6_ADDRSTRLEN) ? out :
	       strcpy(out, "?");
}

bool address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	size_t len;
	const void *x = address_bytes(a, &len), *y = address_bytes(b, &len);

	return a->ss_family == b->ss_family && !memcmp(x, y, len);
}

static socklen_t address_length(int family)
{
	return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

/* ---- this machine's addresses ---- */

static bool nic_is_usable(const struct ifaddrs *i, int family)
{
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)i->ifa_addr;

	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return false;
	if (family != AF_UNSPEC && i->ifa_addr->sa_family != family)
		return false;
	if (i->ifa_addr->sa_family == AF_INET6) /* other hosts need a scope for link-local ones */
		return !IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr);
	return i->ifa_addr->sa_family == AF_INET;
}

static void nic_add(struct nic_search *d, const struct ifaddrs *i)
{
	struct nic_found *f = &d->f[d->n++];
	struct sockaddr_storage mask = { .ss_family = i->ifa_addr->sa_family };
	size_t len;
	const uint8_t *bits = address_bytes(&mask, &len);

	memcpy(&f->addr, i->ifa_addr, address_length(mask.ss_family));
	address_host(&f->addr, f->nic.addr);
	snprintf(f->nic.name, sizeof(f->nic.name), "%s", i->ifa_name);
	if (i->ifa_netmask)
		memcpy(&mask, i->ifa_netmask, address_length(f->addr.ss_family));
	for (size_t k = 0; i->ifa_netmask && k < len; k++)
		f->nic.prefix = (uint8_t)(f->nic.prefix + __builtin_popcount(bits[k]));
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

static bool nic_has_address(const struct ifaddrs *i, const struct sockaddr_storage *a)
{
	struct sockaddr_storage is = { 0 };

	if (!i->ifa_addr || i->ifa_addr->sa_family != a->ss_family)
		return false;
	memcpy(&is, i->ifa_addr, address_length(a->ss_family));
	return address_equal(&is, a);
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
		if (nic_has_address(i, addr))
			r = nic_rule_of(rules, i->ifa_name);
	freeifaddrs(all);
	return r;
}

/* True: the card's rule names another address of the card. */
static bool nic_is_passed_over(const struct nic_rules *rules, const struct ifaddrs *i)
{
	const struct nic_rule *r = nic_rule_of(rules, i->ifa_name);
	struct sockaddr_storage wanted;

	return r && r->address && address_parse(r->address, &wanted) &&
	       wanted.ss_family == i->ifa_addr->sa_family && !nic_has_address(i, &wanted);
}

/* ---- the choice ---- */

static void nic_take(struct nic_search *d, struct nic_found *f)
{
	if (f->taken || d->nout == NICS_MAX)
		return;
	f->taken = true;
	d->out[d->nout++] = f->nic;
}

static int nic_unknown(const struct nic_search *d, const char *name, size_t len, struct err *e)
{
	char there[400] = "";
	size_t at = 0;

	for (uint32_t i = 0; i < d->n && at < sizeof(there) - 100; i++)
		at += (size_t)snprintf(there + at, sizeof(there) - at, "%s%s (%s%s%s)",
				       at ? ", " : "", d->f[i].nic.name, d->f[i].nic.addr,
				       d->f[i].device[0] ? ", RDMA by " : "", d->f[i].device);
	return err_set(e, -ENODEV, "--nic %.*s: there is no network card or address of this name; "
		       "there are %s", (int)len, name, there);
}

/* Choose the named cards; the name of a card stands for its first address. */
static int nic_take_named(struct nic_search *d, const char *names, bool lenient, struct err *e)
{
	for (const char *name = names; *name;) {
		size_t len = strcspn(name, ",");
		uint32_t i = 0;
		char one[NIC_DEVICE_NAME];

		snprintf(one, sizeof(one), "%.*s", (int)len, name);
		while (i < d->n && strcmp(d->f[i].nic.name, one) &&
		       strcmp(d->f[i].nic.addr, one) && strcmp(d->f[i].device, one))
			i++;

		if (i == d->n && nic_unknown(d, name, len, e) && !lenient)
			return e->code;
		if (i == d->n) {
			log_warn("%s", e->text);
			*e = (struct err)ERR_INIT;
		} else {
			d->f[i].nic.named = true;
			nic_take(d, &d->f[i]);
		}
		name += len;
		name += *name == ',';
	}
	return 0;
}

/* One address per card: another would be a second path over the same wire. */
static bool nic_has_card(const struct nic_search *d, const char *name)
{
	for (uint32_t i = 0; i < d->nout; i++)
		if (!strcmp(d->out[i].name, name))
			return true;
	return false;
}

/* Fill in the speed of each card, and its node if there are several. */
static void nic_describe(struct nic_offer *nics, uint32_t n, const char *nodes)
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
			log_info("%s: its NUMA node is not known; any node is used", nics[i].name);
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
	struct nic_found *f CLEANUP_FREE = calloc(FOUND_MAX, sizeof(*f));
	struct nic_search d = { .f = f, .out = nics };
	struct ifaddrs *all;
	int r = !f ? -ENOMEM : getifaddrs(&all) < 0 ? -errno : 0;

	*n = 0;
	if (r)
		return err_sys(e, r, "looking for network cards");

	for (const struct ifaddrs *i = all; i && d.n < FOUND_MAX; i = i->ifa_next)
		if (nic_is_usable(i, w->local.ss_family) && !nic_is_passed_over(&w->rules, i))
			nic_add(&d, i);
	freeifaddrs(all);

	/* If the search for RDMA devices fails, the cards count as without RDMA; *why tells. */
	for (uint32_t i = 0; w->device && i < d.n; i++) {
		int found = w->device(&f[i].addr, f[i].nic.name, f[i].device, why);

		if (found < 0)
			break;
		f[i].nic.rdma = found;
	}

	for (uint32_t i = 0; i < d.n; i++)
		f[i].nic.control = address_equal(&f[i].addr, &w->local);

	if (w->names && *w->names) {
		r = nic_take_named(&d, w->names, w->lenient, e);
	} else {
		for (uint32_t i = 0; i < d.n; i++)
			if (f[i].nic.control)
				nic_take(&d, &f[i]);
		for (uint32_t i = 0; i < d.n; i++)
			if (f[i].nic.rdma && !f[i].loopback && !nic_has_card(&d, f[i].nic.name))
				nic_take(&d, &f[i]);
	}

	*n = r ? 0 : d.nout;
	nic_describe(nics, *n, w->nodes);
	return r;
}
