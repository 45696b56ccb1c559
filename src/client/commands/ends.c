// SPDX-License-Identifier: Apache-2.0
/* rftp doctor: its lines, and the checks of one end's facts. */
#include "client/commands/doctor.h"

#include <arpa/inet.h>

#define FAR_NS 10000000u        /* a round trip from which one stream needs big buffers */
#define BUFFER_LEAST (4u << 20) /* bytes: the kernel's defaults are larger */
#define STORAGE_PERCENT 80.0    /* of the network's rate */
#define RESENT_PERCENT 0.1      /* of TCP's packets */
#define SEGMENT 1448            /* bytes of data in a packet, for an estimate */

static const char *const verdict_words[VERDICTS] = { "ok", "unknown", "warning", "wrong" };

/* ---- the lines ---- */

void doctor_say(struct doctor *d, enum verdict v, const char *where, const char *check,
		const char *remedy, const char *fmt, ...)
{
	char text[ERR_TEXT];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	one_line(text);
	d->count[v]++;
	if (v < WARNING && d->job->o.quiet)
		return;
	if (d->job->o.json) {
		json_t *o = json_pack("{s:s, s:s, s:s, s:s}", "event", "check", "verdict",
				      verdict_words[v], "where", where, "check", check);

		json_set_name(o, "text", text);
		if (remedy)
			json_set_name(o, "remedy", remedy);
		json_emit(stdout, o);
	} else {
		printf("%-7s  %-5s  %-10s  %s%s%s%s\n", verdict_words[v], where, check, text,
		       remedy ? " (" : "", remedy ? remedy : "", remedy ? ")" : "");
		fflush(stdout);
	}
}

/* ---- facts ---- */

json_t *fact_get(const json_t *facts, const char *kind, size_t i)
{
	size_t k;
	json_t *o;

	json_array_foreach(facts, k, o) {
		const char *is = json_string_value(json_object_get(o, "fact"));

		if (is && !strcmp(is, kind) && !i--)
			return o;
	}
	return NULL;
}

const char *fact_text(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? printable(s) : "";
}

int64_t fact_number(const json_t *o, const char *key)
{
	const json_t *v = json_object_get(o, key);
	double real = json_real_value(v);

	return json_is_integer(v)                          ? json_integer_value(v) :
	       json_is_real(v) && real >= 0 && real < 1e15 ? (int64_t)real :
							     -1;
}

static bool fact_is(const json_t *o, const char *key, const char *text)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s && !strcmp(s, text);
}

/* The member of a fact for a command, which users may paste into a shell: a server could send a
 * name with a command in it. Then, and without the member: other. */
static const char *fact_word(const json_t *o, const char *key, const char *other)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:@";
	const char *s = json_string_value(json_object_get(o, key));

	return s && *s && strlen(s) < 32 && !s[strspn(s, plain)] ? s : other;
}

json_t *side_card(const struct side *s)
{
	json_t *o;

	for (size_t i = 0; s->card && (o = fact_get(s->facts, "card", i)); i++)
		if (fact_is(o, "name", s->card))
			return o;
	return NULL;
}

/* ---- checks of one end ---- */

/* The first address of a port that belongs to a card; or an address; NULL: there is none. */
static const json_t *gid_of(const json_t *o)
{
	const json_t *gids = json_object_get(o, "gids"), *gid;
	size_t i;

	json_array_foreach(gids, i, gid)
		if (*fact_text(gid, "card"))
			return gid;
	return json_array_get(gids, 0);
}

static bool has_roce_v2(const json_t *o)
{
	const json_t *gid;
	size_t i;

	json_array_foreach(json_object_get(o, "gids"), i, gid)
		if (fact_is(gid, "type", "RoCE v2"))
			return true;
	return false;
}

static void check_port_of(struct doctor *d, const struct side *s, const json_t *o)
{
	const char *device = fact_word(o, "device", "DEVICE"), *port = fact_word(o, "port", "PORT");
	const char *card = fact_word(gid_of(o), "card", "CARD");
	bool infiniband = fact_is(o, "link_layer", "InfiniBand");
	char name[80], remedy[160], node[32] = "";

	snprintf(name, sizeof(name), "%s port %s", fact_text(o, "device"), fact_text(o, "port"));
	if (fact_number(o, "node") >= 0)
		snprintf(node, sizeof(node), ", node %d", (int)fact_number(o, "node"));
	if (!strstr(fact_text(o, "state"), "ACTIVE")) {
		snprintf(remedy, sizeof(remedy), "rdma link show %s/%s; ip link set dev %s up",
			 device, port, card);
		doctor_say(d, WARNING, s->name, "RDMA", remedy, "%s is not active: %s", name,
			   fact_text(o, "state"));
	} else if (json_is_false(json_object_get(o, "usable"))) {
		doctor_say(d, WRONG, s->name, "RDMA", "chmod 666 /dev/infiniband/uverbs*",
			   "%s: this user may not open the device", name);
	} else if (!gid_of(o)) {
		snprintf(remedy, sizeof(remedy), "ip address add ADDRESS/BITS dev %s", card);
		doctor_say(d, WRONG, s->name, "RDMA", remedy, "%s has no address (GID)", name);
	} else if (!infiniband && !has_roce_v2(o)) {
		snprintf(remedy, sizeof(remedy), "cma_roce_mode -d %s -p %s -m 2", device, port);
		doctor_say(d, WARNING, s->name, "RDMA", remedy,
			   "%s has RoCE v1 only, which routers do not pass on", name);
	} else {
		doctor_say(d, OK, s->name, "RDMA", NULL, "%s is active, %s%s%s%s%s%s", name,
			   infiniband ? "InfiniBand" : "RoCE v2",
			   *fact_text(gid_of(o), "card") ? " on " : "",
			   fact_text(gid_of(o), "card"), *fact_text(o, "rate") ? ", " : "",
			   fact_text(o, "rate"), node);
	}
}

static void check_rdma(struct doctor *d, const struct side *s)
{
	bool built = strstr(fact_text(fact_get(s->facts, "host", 0), "features"), "+rdma");
	const json_t *o;

	for (size_t i = 0; (o = fact_get(s->facts, "rdma", i)); i++)
		check_port_of(d, s, o);
	if (!fact_get(s->facts, "rdma", 0))
		doctor_say(d, OK, s->name, "RDMA", NULL, "none, %s: data goes over TCP",
			   built ? "because no card has it" : "in this build");
}

static void check_locked(struct doctor *d, const struct side *s, bool service)
{
	const json_t *limits = fact_get(s->facts, "limits", 0);
	int64_t locked = fact_number(limits, "locked"), memory = fact_number(limits, "memory");
	bool rdma = fact_get(s->facts, "rdma", 0);
	char size[32], all[32];

	if (locked < 0)
		doctor_say(d, UNKNOWN, s->name, "memlock", NULL,
			   "the limit of locked memory is not known");
	else if (locked == INT64_MAX)
		doctor_say(d, OK, s->name, "memlock", NULL, "no limit of locked memory");
	else if (rdma && locked < memory)
		doctor_say(d, WARNING, s->name, "memlock",
			   service ? "systemctl edit rftpd: [Service] LimitMEMLOCK=infinity" :
				     "ulimit -l unlimited",
			   "RDMA may lock only %s of the %s for blocks",
			   format_size(size, sizeof(size), (uint64_t)locked),
			   format_size(all, sizeof(all), (uint64_t)memory));
	else
		doctor_say(d, OK, s->name, "memlock", NULL, "%s of memory may be locked%s",
			   format_size(size, sizeof(size), (uint64_t)locked),
			   rdma ? "" : ", enough without RDMA");
}

static void check_memory(struct doctor *d, const struct side *s)
{
	const json_t *o = fact_get(s->facts, "memory", 0);
	int64_t most = fact_number(fact_get(s->facts, "limits", 0), "memory");
	const char *policy = fact_text(o, "transparent");
	char size[32], all[32];

	if (most >= 0)
		doctor_say(d, OK, s->name, "memory", NULL, "up to %s for blocks, %s are available",
			   format_size(size, sizeof(size), (uint64_t)most),
			   fact_number(o, "available") > 0 ?
				   format_size(all, sizeof(all),
					       (uint64_t)fact_number(o, "available")) :
				   "an unknown number of bytes");
	if (fact_number(o, "huge_free") > 0)
		doctor_say(d, OK, s->name, "huge pages", NULL, "%s are reserved and free",
			   format_size(size, sizeof(size), (uint64_t)fact_number(o, "huge_free")));
	else if (!strcmp(policy, "always") || !strcmp(policy, "madvise"))
		doctor_say(d, OK, s->name, "huge pages", NULL, "transparent ones (%s)", policy);
	else if (*policy)
		doctor_say(d, WARNING, s->name, "huge pages", "sysctl -w vm.nr_hugepages=1024",
			   "none are reserved, and transparent ones are off");
	else
		doctor_say(d, UNKNOWN, s->name, "huge pages", NULL,
			   "the kernel does not tell its policy");
}

static void check_processors(struct doctor *d, const struct side *s)
{
	const json_t *o = fact_get(s->facts, "processors", 0), *v;
	json_t *governors = json_object_get(o, "governors");
	int64_t cpus = fact_number(o, "cpus"), fast = fact_number(governors, "performance"),
		slow = 0;
	const char *name, *other = NULL;

	json_object_foreach(governors, name, v)
		if (strcmp(name, "performance")) {
			slow += json_integer_value(v);
			other = name;
		}
	if (!other && fast < 0)
		doctor_say(d, UNKNOWN, s->name, "CPU", NULL,
			   "%lld CPUs; their frequency is not controlled "
			   "by this kernel",
			   (long long)cpus);
	else if (other)
		doctor_say(d, WARNING, s->name, "CPU", "cpupower frequency-set -g performance",
			   "%lld of %lld CPUs save power (%s)", (long long)slow, (long long)cpus,
			   printable(other));
	else
		doctor_say(d, OK, s->name, "CPU", NULL, "%lld CPUs, governor performance",
			   (long long)cpus);
}

/* The bytes that each stream of the path needs in flight, twice; 0: not known. */
static uint64_t stream_bytes(const struct doctor *d)
{
	unsigned channels =
		d->measured && d->agreement.channels_first ? d->agreement.channels_first : 1;

	return (uint64_t)((double)d->mbps * 1e6 / 8 * (double)d->rtt_ns / 1e9 * 2 / channels);
}

static void check_tcp(struct doctor *d, const struct side *s)
{
	const json_t *o = fact_get(s->facts, "tcp", 0);
	int64_t receive = fact_number(o, "receive"), sends = fact_number(o, "send");
	int64_t least = receive < sends ? receive : sends;
	uint64_t need = stream_bytes(d), more = need > BUFFER_LEAST ? need : BUFFER_LEAST;
	char have[32], want[32], remedy[160];

	snprintf(remedy, sizeof(remedy),
		 "sysctl -w net.ipv4.tcp_rmem=\"4096 131072 %llu\" "
		 "net.ipv4.tcp_wmem=\"4096 16384 %llu\"",
		 (unsigned long long)more, (unsigned long long)more);
	if (least < 0)
		doctor_say(d, UNKNOWN, s->name, "TCP", NULL,
			   "the sizes of its buffers are not known");
	else if ((uint64_t)least < more)
		doctor_say(d, WARNING, s->name, "TCP", remedy, "buffers of at most %s, %s %s",
			   format_size(have, sizeof(have), (uint64_t)least),
			   need ? "each stream of this path needs" : "long paths need at least",
			   format_size(want, sizeof(want), more));
	else
		doctor_say(d, OK, s->name, "TCP", NULL, "buffers of up to %s",
			   format_size(have, sizeof(have), (uint64_t)least));

	if (!*fact_text(o, "congestion"))
		doctor_say(d, UNKNOWN, s->name, "congestion", NULL,
			   "the kernel does not tell its choice");
	else if (d->rtt_ns >= FAR_NS && strcmp(fact_text(o, "congestion"), "bbr") &&
		 !strstr(fact_text(o, "allowed"), "bbr"))
		doctor_say(d, WARNING, s->name, "congestion",
			   "modprobe tcp_bbr; sysctl -w "
			   "net.ipv4.tcp_allowed_congestion_control=\"reno cubic bbr\"",
			   "%s; on long paths that lose packets bbr is faster, and is not allowed",
			   fact_text(o, "congestion"));
	else
		doctor_say(d, OK, s->name, "congestion", NULL, "%s", fact_text(o, "congestion"));
}

/* Parse "ADDRESS/BITS" of IPv4. */
static bool subnet_of(const json_t *v, uint32_t *net, unsigned *bits)
{
	char text[64], *slash;
	struct in_addr a;

	snprintf(text, sizeof(text), "%s", json_is_string(v) ? json_string_value(v) : "");
	slash = strchr(text, '/');
	if (!slash)
		return false;
	*slash = '\0';
	*bits = (unsigned)strtoul(slash + 1, NULL, 10);
	if (inet_pton(AF_INET, text, &a) != 1 || !*bits || *bits > 32)
		return false;
	*net = ntohl(a.s_addr) >> (32 - *bits);
	return true;
}

/* Have two cards an IPv4 address in one subnet? */
static bool share_subnet(const json_t *a, const json_t *b)
{
	const json_t *x, *y;
	size_t i, k;

	json_array_foreach(json_object_get(a, "addresses"), i, x)
		json_array_foreach(json_object_get(b, "addresses"), k, y) {
			uint32_t net_x, net_y;
			unsigned bits_x, bits_y;

			if (subnet_of(x, &net_x, &bits_x) && subnet_of(y, &net_y, &bits_y) &&
			    bits_x == bits_y && net_x == net_y)
				return true;
		}
	return false;
}

static bool answers_for_itself(const json_t *card)
{
	return fact_number(card, "arp_ignore") > 0 && fact_number(card, "arp_announce") == 2 &&
	       fact_number(card, "rp_filter") != 1;
}

/* Two cards in one subnet: by default each answers ARP for the other's address. */
static void check_arp(struct doctor *d, const struct side *s)
{
	const json_t *a, *b;
	unsigned pairs = 0;

	for (size_t i = 0; (a = fact_get(s->facts, "card", i)); i++)
		for (size_t k = i + 1; (b = fact_get(s->facts, "card", k)); k++) {
			if (!share_subnet(a, b))
				continue;
			pairs++;
			if (answers_for_itself(a) && answers_for_itself(b))
				continue;
			doctor_say(
				d, WARNING, s->name, "ARP",
				"sysctl -w "
				"net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 "
				"net.ipv4.conf.all.rp_filter=2",
				"%s and %s are in one subnet, and one may get the packets of the other",
				fact_text(a, "name"), fact_text(b, "name"));
			return;
		}
	doctor_say(d, OK, s->name, "ARP", NULL, "%s",
		   pairs ? "cards in one subnet answer for themselves only" :
			   "no two cards are in one subnet");
}

static void check_cards(struct doctor *d, const struct side *s)
{
	bool several = fact_number(fact_get(s->facts, "memory", 0), "nodes") > 1;
	const json_t *o;

	for (size_t i = 0; (o = fact_get(s->facts, "card", i)); i++) {
		int64_t mbps = fact_number(o, "mbps");
		CLEANUP_FREE char *name = strdup(fact_text(o, "name"));
		char speed[64] = "unknown speed", node[32] = "", remedy[96];

		if (s->card && strcmp(name, s->card))
			continue;
		if (mbps > 0)
			snprintf(speed, sizeof(speed), "%lld Mbit/s", (long long)mbps);
		if (fact_number(o, "node") >= 0)
			snprintf(node, sizeof(node), ", node %d", (int)fact_number(o, "node"));
		snprintf(remedy, sizeof(remedy), "--nic-node %s=NODE, by lspci -vv",
			 fact_word(o, "name", "CARD"));
		if (several && !*node)
			doctor_say(d, WARNING, s->name, "card", remedy,
				   "%s: %s, its NUMA node is not known", name, speed);
		else
			doctor_say(d, OK, s->name, "card", NULL, "%s: %s, MTU %lld%s", name, speed,
				   (long long)fact_number(o, "mtu"), node);
	}
}

static void check_storage(struct doctor *d, const struct side *s)
{
	/* A server measures its storage last. */
	const json_t *facts = s == &d->there ? s->later : s->facts;
	const json_t *o = fact_get(facts, "storage", 0), *disk = fact_get(facts, "disk", 0);
	double writes = (double)fact_number(o, "write"), reads = (double)fact_number(o, "read");
	bool there = s == &d->there;
	double in = there ? d->put : d->get, out = there ? d->get : d->put;
	char write[32], read[32], net[32], node[64] = "";
	CLEANUP_FREE char *path = strdup(fact_text(o, "path"));

	if (!o)
		return;
	if (*fact_text(disk, "nodes") && fact_number(fact_get(s->facts, "memory", 0), "nodes") > 1)
		snprintf(node, sizeof(node), ", node %s", fact_text(disk, "nodes"));
	if (*fact_text(o, "error")) {
		doctor_say(d, !there && access(d->dir, F_OK) ? WRONG : UNKNOWN, s->name, "storage",
			   NULL, "%s: rates not measured: %s", path,
			   fact_text(o, "error"));
		return;
	}
	format_rate(write, sizeof(write), writes);
	format_rate(read, sizeof(read), reads);
	if (d->measured && writes * 100 < in * STORAGE_PERCENT)
		doctor_say(d, WARNING, s->name, "storage", NULL,
			   "%s: %s%s writes %s, less than the network "
			   "brings (%s)",
			   path, fact_text(o, "kind"), node, write,
			   format_rate(net, sizeof(net), in));
	else if (d->measured && reads * 100 < out * STORAGE_PERCENT)
		doctor_say(d, WARNING, s->name, "storage", NULL,
			   "%s: %s%s reads %s, less than the network "
			   "takes (%s)",
			   path, fact_text(o, "kind"), node, read,
			   format_rate(net, sizeof(net), out));
	else
		doctor_say(d, OK, s->name, "storage", NULL, "%s: %s%s, writes %s, reads %s%s", path,
			   fact_text(o, "kind"), node, write, read,
			   json_is_true(json_object_get(o, "direct")) ? "" :
									", through the page cache");
}

/* ---- counters ---- */

/* Findings of one check, separated by commas. */
struct findings {
	char text[400];
};

static void __attribute__((format(printf, 2, 3)))
findings_add(struct findings *f, const char *fmt, ...)
{
	size_t len = strlen(f->text);
	va_list ap;

	if (len)
		len += (size_t)snprintf(f->text + len, sizeof(f->text) - len, ", ");
	if (len >= sizeof(f->text))
		return;
	va_start(ap, fmt);
	vsnprintf(f->text + len, sizeof(f->text) - len, fmt, ap);
	va_end(ap);
}

/* The fact of the same card or port after the measurement. */
static const json_t *later_of(const struct side *s, const json_t *o, const char *kind,
			      const char *name)
{
	const json_t *l;

	for (size_t i = 0; (l = fact_get(s->later, kind, i)); i++)
		if (json_equal(json_object_get(l, name), json_object_get(o, name)) &&
		    json_equal(json_object_get(l, "port"), json_object_get(o, "port")))
			return l;
	return NULL;
}

/* Find the counters of trouble that grew during the measurement. */
static void findings_add_growth(struct findings *f, const struct side *s, const json_t *o,
				const char *kind, const char *member)
{
	const json_t *before = json_object_get(o, "counters");
	json_t *after = json_object_get(later_of(s, o, kind, member), "counters"), *v;
	const char *name;

	json_object_foreach(after, name, v) {
		int64_t was = fact_number(before, name);
		int64_t grew = fact_number(after, name) - (was > 0 ? was : 0);

		if (facts_trouble(name) && grew > 0)
			findings_add(f, "%s %s +%lld", fact_text(o, member), printable(name),
				     (long long)grew);
	}
}

static void check_counters(struct doctor *d, const struct side *s)
{
	const json_t *tcp = fact_get(s->facts, "tcp", 0), *tcp_later = fact_get(s->later, "tcp", 0),
		     *o;
	int64_t resent = fact_number(tcp_later, "retransmits") - fact_number(tcp, "retransmits");
	int64_t marks =
		fact_number(tcp_later, "congestion_marks") - fact_number(tcp, "congestion_marks");
	double packets = (d->put + d->get) * (double)d->time_ns / 1e9 / SEGMENT + 1;
	struct findings f = { "" };

	if (!s->later)
		return;
	for (size_t i = 0; (o = fact_get(s->facts, "card", i)); i++)
		findings_add_growth(&f, s, o, "card", "name");
	for (size_t i = 0; (o = fact_get(s->facts, "rdma", i)); i++)
		findings_add_growth(&f, s, o, "rdma", "device");
	if ((double)resent * 100 > packets * RESENT_PERCENT)
		findings_add(&f, "TCP sent %lld packet%s again", (long long)resent,
			     plural((uint64_t)resent));
	if (marks > 0)
		findings_add(&f, "%lld packet%s with congestion marks", (long long)marks,
			     plural((uint64_t)marks));
	if (*f.text)
		doctor_say(d, WARNING, s->name, "counters",
			   "ethtool -S CARD; ethtool -a CARD; rdma statistic; "
			   "nstat -az TcpRetransSegs IpExtInCEPkts",
			   "during the measurement: %s", f.text);
	else
		doctor_say(d, OK, s->name, "counters", NULL,
			   "no retries, pauses or congestion marks during "
			   "the measurement");
}

void doctor_check_side(struct doctor *d, struct side *s)
{
	if (!s->facts)
		return;
	check_rdma(d, s);
	check_locked(d, s, s == &d->there);
	check_memory(d, s);
	check_processors(d, s);
	check_cards(d, s);
	check_arp(d, s);
	check_tcp(d, s);
	check_counters(d, s);
	check_storage(d, s);
}
