// SPDX-License-Identifier: Apache-2.0
/* Facts of this machine that decide how fast and how safely a transfer can run: cards, RDMA ports,
 * TCP settings, memory and processors. rftp doctor judges them, its own and the server's. */
#include "numa/topo.h"

#include <arpa/inet.h>
#include <glob.h>
#include <ifaddrs.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>

enum {
	CARDS_MOST = 32,
	PORTS_MOST = 32,
	GIDS_MOST = 256,
	GIDS_SHOWN = 16,
	ADDRESSES_MOST = 16,
	STATISTICS_MOST = 4096,
	PROC_FILE_MAX = 1 << 18,
};

struct facts {
	const struct topo *t;
	json_t *all;               /* an array; NULL: out of memory */
	struct ifaddrs *addresses; /* NULL: none, or not known */
	bool brief;                /* do not ask drivers for statistics */
};

/* Add a fact, with its kind; takes the reference. */
static void fact_add(struct facts *f, const char *kind, json_t *o)
{
	json_t *whole = json_pack("{s:s}", "fact", kind);

	if (json_object_update(whole, o) || json_array_append_new(f->all, json_incref(whole))) {
		json_decref(f->all);
		f->all = NULL;
	}
	json_decref(whole);
	json_decref(o);
}

static void set_number(json_t *o, const char *key, uint64_t v)
{
	json_object_set_new(o, key, json_integer((json_int_t)min_u64(v, INT64_MAX)));
}

/* ---- files of proc ---- */

/* The n-th number in a file below $RFTP_PROC/sys; -1: there is none. */
static int64_t sysctl_number(const struct topo *t, const char *name, int n)
{
	char text[SYS_TEXT], *p = text, *end = text;
	int64_t v = -1;

	if (sys_line(t, text, "%s/sys/%s", t->proc, name))
		return -1;
	for (; n >= 0; n--, p = end) {
		v = strtoll(p, &end, 10);
		if (end == p)
			return -1;
	}
	return v;
}

static void set_sysctl(const struct facts *f, json_t *o, const char *key, const char *name, int n)
{
	int64_t v = sysctl_number(f->t, name, n);

	if (v >= 0)
		set_number(o, key, (uint64_t)v);
}

static void set_line(const struct facts *f, json_t *o, const char *key, const char *name)
{
	char text[SYS_TEXT];

	if (!sys_line(f->t, text, "%s/sys/%s", f->t->proc, name))
		json_set_name(o, key, text);
}

/* Set key to the counter name in a file of two lines, "Group: NAME..." and "Group: NUMBER...". */
static void set_counter(const struct facts *f, json_t *o, const char *key, const char *file,
			const char *group, const char *name)
{
	CLEANUP_FREE char *path = NULL, *text = NULL;
	char *names, *numbers, *word, *number, *at_name, *at_number;

	if (asprintf(&path, "%s/net/%s", f->t->proc, file) < 0)
		path = NULL;
	if (!path || read_file(path, PROC_FILE_MAX, &text, NULL))
		return;
	names = strstr(text, group);
	numbers = names ? strstr(names + 1, group) : NULL;
	if (!numbers)
		return;
	numbers[-1] = '\0';
	numbers[strcspn(numbers, "\n")] = '\0';
	word = strtok_r(names, " ", &at_name);
	number = strtok_r(numbers, " ", &at_number);
	while (word && number && strcmp(word, name)) {
		word = strtok_r(NULL, " ", &at_name);
		number = strtok_r(NULL, " ", &at_number);
	}
	if (word && number)
		set_number(o, key, strtoull(number, NULL, 10));
}

/* ---- the machine ---- */

static void add_host(struct facts *f)
{
	json_t *o = json_pack("{s:s, s:s, s:f}", "version", PACKAGE_VERSION, "features",
			      RFTP_FEATURES, "time", (double)clock_ns(CLOCK_REALTIME) / 1e9);
	struct utsname u;

	if (!uname(&u)) {
		json_set_name(o, "name", u.nodename);
		json_set_name(o, "kernel", u.release);
	}
	fact_add(f, "host", o);
}

static void add_processors(struct facts *f)
{
	json_t *o = json_object(), *governors = json_object();
	unsigned n = 0;

	for (unsigned i = 0; i < topo_nodes(f->t); i++) {
		const struct ids *cpus = &topo_node(f->t, i)->cpus;

		for (int cpu = ids_next(cpus, 0); cpu >= 0;
		     cpu = ids_next(cpus, (unsigned)cpu + 1)) {
			char text[SYS_TEXT];

			n++;
			if (!sys_line(f->t, text,
				      "devices/system/cpu/cpu%d/cpufreq/scaling_governor", cpu))
				set_number(governors, text,
					   (uint64_t)json_integer_value(
						   json_object_get(governors, text)) +
						   1);
		}
	}
	set_number(o, "cpus", n);
	json_object_set_new(o, "governors", governors);
	fact_add(f, "processors", o);
}

/* Huge pages of 2 MiB: the reserved ones, and the policy for transparent ones. */
static void add_memory(struct facts *f)
{
	uint64_t free_bytes = 0, huge = 0;
	char text[SYS_TEXT], *word, *end;
	json_t *o = json_object();

	for (unsigned i = 0; i < topo_nodes(f->t); i++) {
		struct node_memory m;

		topo_memory(f->t, topo_node(f->t, i)->id, &m);
		free_bytes += m.room;
		huge += topo_huge_free(f->t, topo_node(f->t, i)->id, 2 << 20);
	}
	set_number(o, "nodes", topo_nodes(f->t));
	set_number(o, "available", free_bytes);
	set_number(o, "huge_free", huge);
	if (!sys_line(f->t, text, "kernel/mm/transparent_hugepage/enabled") &&
	    (word = strchr(text, '[')) && (end = strchr(word, ']'))) {
		*end = '\0';
		json_set_name(o, "transparent", word + 1);
	}
	fact_add(f, "memory", o);
}

static void add_tcp(struct facts *f)
{
	json_t *o = json_object();

	set_sysctl(f, o, "receive", "net/ipv4/tcp_rmem", 2);
	set_sysctl(f, o, "send", "net/ipv4/tcp_wmem", 2);
	set_line(f, o, "congestion", "net/ipv4/tcp_congestion_control");
	set_line(f, o, "available", "net/ipv4/tcp_available_congestion_control");
	set_line(f, o, "allowed", "net/ipv4/tcp_allowed_congestion_control");
	set_sysctl(f, o, "mtu_probing", "net/ipv4/tcp_mtu_probing", 0);
	set_counter(f, o, "retransmits", "snmp", "Tcp:", "RetransSegs");
	set_counter(f, o, "congestion_marks", "netstat", "IpExt:", "InCEPkts");
	fact_add(f, "tcp", o);
}

/* ---- network cards ---- */

/* Call SIOCETHTOOL. */
static int ethtool(int fd, const char *name, void *data)
{
	struct ifreq r = { .ifr_data = data };

	snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", name);
	return ioctl(fd, SIOCETHTOOL, &r) < 0 ? -errno : 0;
}

bool facts_trouble(const char *counter)
{
	static const char *const words[] = {
		"err",     "retry", "rnr",     "nak", "out_of", "dup",
		"timeout", "drop",  "discard", "cnp", "ecn",    "pause",
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strstr(counter, words[i]))
			return true;
	return false;
}

/* The driver's counters of trouble that are not 0. */
static void set_statistics(json_t *o, int fd, const char *card)
{
	CLEANUP_FREE struct ethtool_sset_info *ask = calloc(1, sizeof(*ask) + sizeof(uint32_t));
	CLEANUP_FREE struct ethtool_gstrings *names = NULL;
	CLEANUP_FREE struct ethtool_stats *values = NULL;
	json_t *counters;
	uint32_t n;

	if (!ask)
		return;
	ask->cmd = ETHTOOL_GSSET_INFO;
	ask->sset_mask = 1ull << ETH_SS_STATS;
	if (ethtool(fd, card, ask) || !ask->sset_mask)
		return;
	n = ask->data[0];
	if (!n || n > STATISTICS_MOST)
		return;
	names = calloc(1, sizeof(*names) + ((size_t)n + 1) * ETH_GSTRING_LEN);
	values = calloc(1, sizeof(*values) + ((size_t)n + 1) * sizeof(uint64_t));
	if (!names || !values)
		return;
	*names = (struct ethtool_gstrings){ .cmd = ETHTOOL_GSTRINGS,
					    .string_set = ETH_SS_STATS,
					    .len = n };
	*values = (struct ethtool_stats){ .cmd = ETHTOOL_GSTATS, .n_stats = n };
	if (ethtool(fd, card, names) || ethtool(fd, card, values))
		return;
	counters = json_object();
	for (uint32_t i = 0; i < n; i++) {
		char name[ETH_GSTRING_LEN + 1];
		uint64_t v;

		snprintf(name, sizeof(name), "%.*s", ETH_GSTRING_LEN,
			 (const char *)names->data + (size_t)i * ETH_GSTRING_LEN);
		memcpy(&v, values->data + i, sizeof(v));
		if (v && facts_trouble(name))
			set_number(counters, name, v);
	}
	json_object_set_new(o, "counters", counters);
}

static void set_pause(json_t *o, const char *card)
{
	int fd CLEANUP_CLOSE = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ethtool_pauseparam p = { .cmd = ETHTOOL_GPAUSEPARAM };

	if (fd < 0)
		return;
	if (!ethtool(fd, card, &p)) {
		json_object_set_new(o, "pause_receive", json_boolean(p.rx_pause));
		json_object_set_new(o, "pause_send", json_boolean(p.tx_pause));
	}
	set_statistics(o, fd, card);
}

static unsigned prefix_of(const struct sockaddr *mask)
{
	const uint8_t *p = mask->sa_family == AF_INET6 ?
				   ((const struct sockaddr_in6 *)mask)->sin6_addr.s6_addr :
				   (const uint8_t *)&((const struct sockaddr_in *)mask)->sin_addr;
	unsigned bits = 0, len = mask->sa_family == AF_INET6 ? 16 : 4;

	for (unsigned i = 0; i < len; i++)
		bits += (unsigned)__builtin_popcount(p[i]);
	return bits;
}

/* "ADDRESS/BITS" of each address of a card. */
static json_t *card_addresses(const struct facts *f, const char *card)
{
	json_t *list = json_array();

	for (const struct ifaddrs *a = f->addresses; a; a = a->ifa_next) {
		char host[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 8];
		const void *address;

		if (strcmp(a->ifa_name, card) || !a->ifa_addr || !a->ifa_netmask ||
		    json_array_size(list) >= ADDRESSES_MOST)
			continue;
		if (a->ifa_addr->sa_family == AF_INET)
			address = &((const struct sockaddr_in *)a->ifa_addr)->sin_addr;
		else if (a->ifa_addr->sa_family == AF_INET6)
			address = &((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr;
		else
			continue;
		if (!inet_ntop(a->ifa_addr->sa_family, address, host, sizeof(host)))
			continue;
		snprintf(text, sizeof(text), "%s/%u", host, prefix_of(a->ifa_netmask));
		json_array_append_new(list, json_string(text));
	}
	return list;
}

/* The kernel uses the larger one of a card's value and that of "all". */
static void set_conf(const struct facts *f, json_t *o, const char *card, const char *name)
{
	int64_t most = -1;

	for (int i = 0; i < 2; i++) {
		char path[128];
		int64_t v;

		snprintf(path, sizeof(path), "net/ipv4/conf/%s/%s", i ? card : "all", name);
		v = sysctl_number(f->t, path, 0);
		most = v > most ? v : most;
	}
	if (most >= 0)
		set_number(o, name, (uint64_t)most);
}

static void set_node(json_t *o, int node)
{
	if (node != NODE_UNKNOWN)
		set_number(o, "node", (uint64_t)node);
}

static void add_card(struct facts *f, char *path)
{
	const char *card = strrchr(path, '/') + 1;
	char state[SYS_TEXT];
	json_t *o;

	if (sys_line(f->t, state, "class/net/%s/operstate", card) || !strcmp(card, "lo") ||
	    (strcmp(state, "up") && strcmp(state, "unknown")))
		return;
	o = json_object();
	json_set_name(o, "name", card);
	set_number(o, "mtu", sys_number(f->t, "class/net", card, "mtu"));
	set_number(o, "mbps", topo_netdev_mbps(f->t, card));
	set_node(o, topo_netdev(f->t, card));
	json_object_set_new(o, "addresses", card_addresses(f, card));
	set_conf(f, o, card, "arp_ignore");
	set_conf(f, o, card, "arp_announce");
	set_conf(f, o, card, "rp_filter");
	set_number(o, "received", sys_number(f->t, path, "statistics", "rx_bytes"));
	set_number(o, "sent", sys_number(f->t, path, "statistics", "tx_bytes"));
	if (sys_is_own(f->t) && !f->brief)
		set_pause(o, card);
	fact_add(f, "card", o);
}

/* ---- ports of RDMA devices ---- */

static bool gid_is_zero(const char *gid)
{
	return !gid[strspn(gid, "0:")];
}

static json_t *port_gids(const struct facts *f, const char *path)
{
	json_t *list = json_array();
	char gid[SYS_TEXT], type[SYS_TEXT], card[SYS_TEXT];

	for (int i = 0; i < GIDS_MOST && json_array_size(list) < GIDS_SHOWN; i++) {
		const struct topo *t = f->t;
		json_t *o;

		if (sys_line(t, gid, "%s/gids/%d", path, i))
			break;
		if (gid_is_zero(gid))
			continue;
		sys_line(t, type, "%s/gid_attrs/types/%d", path, i);
		sys_line(t, card, "%s/gid_attrs/ndevs/%d", path, i);
		o = json_object();
		json_set_name(o, "gid", gid);
		json_set_name(o, "type", type);
		json_set_name(o, "card", card);
		json_array_append_new(list, o);
	}
	return list;
}

/* Add the numbers in files that match pattern to o, by the names of the files. */
static void set_numbers(const struct facts *f, json_t *o, const char *pattern)
{
	glob_t found = { 0 };

	if (glob(pattern, GLOB_NOESCAPE, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		const char *name = strrchr(found.gl_pathv[i], '/') + 1;
		char text[SYS_TEXT];
		uint64_t v;

		if (strcmp(name, "lifespan") && !sys_line(f->t, text, "%s", found.gl_pathv[i]) &&
		    !parse_uint(text, 0, UINT64_MAX, &v))
			set_number(o, name, v);
	}
	globfree(&found);
}

/* Can this process open the device? */
static void set_access(const struct facts *f, json_t *o, const char *device)
{
	glob_t found = { 0 };

	if (!sys_is_own(f->t) || glob("/sys/class/infiniband_verbs/*/ibdev", 0, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char text[SYS_TEXT], node[PATH_MAX], *dir = found.gl_pathv[i];

		if (sys_line(f->t, text, "%s", dir) || strcmp(text, device))
			continue;
		*strrchr(dir, '/') = '\0';
		snprintf(node, sizeof(node), "/dev/infiniband/%s", strrchr(dir, '/') + 1);
		json_object_set_new(o, "usable", json_boolean(!access(node, R_OK | W_OK)));
	}
	globfree(&found);
}

/* path: of "class/infiniband/DEVICE/ports/PORT". */
static void add_port(struct facts *f, char *path)
{
	static const char *const files[] = { "state", "link_layer", "rate" };
	const char *rest = path + strlen(f->t->sys) + strlen("/class/infiniband/");
	CLEANUP_FREE char *device = strndup(rest, strcspn(rest, "/")), *pattern = NULL;
	json_t *o = json_object(), *counters = json_object();
	const char *port = strrchr(path, '/') + 1;
	char text[SYS_TEXT];

	if (!device || asprintf(&pattern, "%s/hw_counters/*", path) < 0)
		pattern = NULL;
	if (pattern) {
		json_set_name(o, "device", device);
		json_set_name(o, "port", port);
		set_node(o, topo_rdma(f->t, device));
		json_object_set_new(o, "gids", port_gids(f, path));
		set_numbers(f, counters, pattern);
		set_access(f, o, device);
	}
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!sys_line(f->t, text, "%s/%s", path, files[i]))
			json_set_name(o, files[i], text);
	json_object_set_new(o, "counters", counters);
	/* In words of 4 bytes. */
	set_number(o, "received", 4 * sys_number(f->t, path, "counters", "port_rcv_data"));
	set_number(o, "sent", 4 * sys_number(f->t, path, "counters", "port_xmit_data"));
	fact_add(f, "rdma", o);
}

/* Call fn for each path below sysfs that matches pattern, in order. */
static void each_path(struct facts *f, const char *pattern, unsigned most,
		      void (*fn)(struct facts *f, char *path))
{
	CLEANUP_FREE char *whole = NULL;
	glob_t found = { 0 };

	if (asprintf(&whole, "%s/%s", f->t->sys, pattern) < 0)
		whole = NULL;
	if (!whole || glob(whole, GLOB_NOESCAPE, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc && i < most; i++)
		fn(f, found.gl_pathv[i]);
	globfree(&found);
}

/* Cards and RDMA ports. */
static void add_cards(struct facts *f)
{
	each_path(f, "class/net/*", CARDS_MOST, add_card);
	each_path(f, "class/infiniband/*/ports/*", PORTS_MOST, add_port);
}

/* ---- the path and the storage ---- */

/* The MTU of the path to peer, as the kernel knows it, and the card that leads there. */
static void add_path(struct facts *f, const struct sockaddr_storage *peer)
{
	bool v6 = peer->ss_family == AF_INET6;
	int fd CLEANUP_CLOSE = socket(peer->ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	socklen_t len = sizeof(int);
	char text[INET6_ADDRSTRLEN], card[IF_NAMESIZE];
	json_t *o;
	int mtu;

	if (fd < 0 || connect(fd, (const struct sockaddr *)peer, sizeof(*peer)) ||
	    getsockopt(fd, v6 ? IPPROTO_IPV6 : IPPROTO_IP, v6 ? IPV6_MTU : IP_MTU, &mtu, &len))
		return;
	o = json_pack("{s:i}", "mtu", mtu);
	if (inet_ntop(peer->ss_family,
		      v6 ? (const void *)&((const struct sockaddr_in6 *)peer)->sin6_addr :
			   (const void *)&((const struct sockaddr_in *)peer)->sin_addr,
		      text, sizeof(text)) &&
	    !route_netdev(text, card))
		json_set_name(o, "card", card);
	fact_add(f, "path", o);
}

json_t *facts_read(const struct sockaddr_storage *peer, dev_t storage, struct err *e)
{
	struct topo *t = topo_read(NULL, e);
	struct facts f = { .t = t, .all = t ? json_array() : NULL };
	struct ids nodes;
	char text[256];

	if (getifaddrs(&f.addresses))
		f.addresses = NULL;
	if (f.all) {
		add_host(&f);
		add_processors(&f);
		add_memory(&f);
		add_tcp(&f);
		add_cards(&f);
		if (peer && peer->ss_family != AF_UNSPEC)
			add_path(&f, peer);
		nodes = storage ? topo_device(t, storage) : (struct ids){ 0 };
		if (storage)
			fact_add(&f, "disk",
				 json_pack("{s:s}", "nodes",
					   ids_format(text, sizeof(text), &nodes)));
	}
	freeifaddrs(f.addresses);
	topo_free(t);
	if (!f.all && !e->code)
		err_nomem(e);
	return f.all;
}

json_t *facts_cards(const char *sysfs)
{
	struct err ignored = ERR_INIT;
	struct topo *t = topo_read(sysfs, &ignored);
	struct facts f = { .t = t, .all = t ? json_array() : NULL, .brief = true };

	if (f.all)
		add_cards(&f);
	topo_free(t);
	return f.all;
}

int facts_lines(const struct sockaddr_storage *peer, dev_t storage, char *text, size_t room,
		struct err *e)
{
	json_t *facts = facts_read(peer, storage, e), *o;
	size_t len = 0, i;

	*text = '\0';
	json_array_foreach(facts, i, o) {
		CLEANUP_FREE char *line = json_line(json_incref(o));
		size_t n = line ? strlen(line) : room;

		if (len + n < room)
			len = (size_t)(stpcpy(text + len, line) - text);
	}
	json_decref(facts);
	return facts ? 0 : e->code;
}
