// SPDX-License-Identifier: Apache-2.0
/* The tables of rftpd's options, in the order of rftpd(8), and the types of values that only rftpd
 * has: addresses, networks, ports, umasks. */
#include "server/config/options.h"

#include <arpa/inet.h>
#include <inttypes.h>

#define MEMORY_MIN (1u << 20) /* as in rftp: the least with which a transfer can work */
#define SECOND 1000000000ull
#define HOUR (3600 * SECOND)

/* ---- listen: of struct srv_options ---- */

/* Split "ADDR:PORT" or "[ADDR]:PORT". */
static int split_listen_addr(const char *value, struct listen_addr *l)
{
	const char *colon = strrchr(value, ':');
	const char *addr = value;
	struct in_addr v4;
	uint64_t port;
	size_t len;

	if (!colon || parse_uint(colon + 1, 0, UINT16_MAX, &port) < 0)
		return -EINVAL;

	len = (size_t)(colon - value);
	if (len >= 2 && addr[0] == '[' && addr[len - 1] == ']') {
		addr++;
		len -= 2;
	}
	if (len >= sizeof(l->addr))
		return -EINVAL;

	memcpy(l->addr, addr, len);
	l->addr[len] = '\0';
	l->port = (uint16_t)port;
	l->optional = false;

	if (strchr(l->addr, ':'))
		return addr == value ? -EINVAL : 0;
	return inet_pton(AF_INET, l->addr, &v4) == 1 ? 0 : -EINVAL;
}

static int set_listen(void *at, const struct option_def *d, const char *value, struct err *e)
{
	struct srv_options *o = at;

	if (o->nlisten == LISTEN_MAX)
		return option_too_often(LISTEN_MAX, e);
	if (split_listen_addr(value, &o->listen[o->nlisten]) < 0)
		return err_set(e, -EINVAL, "must be ADDR:PORT with a numeric address, such as "
			       "0.0.0.0:7321 or [::]:7321, not \"%s\"", printable(value));
	o->nlisten++;
	return 0;
}

static void show_listen(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	const struct srv_options *o = at;
	char text[96];

	for (int i = 0; i < o->nlisten; i++) {
		bool v6 = strchr(o->listen[i].addr, ':');

		snprintf(text, sizeof(text), v6 ? "[%s]:%u" : "%s:%u", o->listen[i].addr,
			 o->listen[i].port);
		put(arg, text);
	}
}

static void clear_listen(void *at)
{
	((struct srv_options *)at)->nlisten = 0;
}

static const struct option_kind kind_listen = { set_listen, show_listen, clear_listen };

/* ---- networks ---- */

enum { V4_BITS = 96 };

int network_parse(const char *text, struct network *n, struct err *e)
{
	char copy[NETWORK_TEXT] = "", *slash;
	uint64_t most, bits;
	bool v4, rest = false;

	*n = (struct network){ .all = !strcmp(text, "all") };
	if (n->all)
		return 0;

	if (strlen(text) < sizeof(copy))
		strcpy(copy, text);
	slash = strchr(copy, '/');
	if (slash)
		*slash++ = '\0';
	n->addr.s6_addr[10] = n->addr.s6_addr[11] = 0xff;
	v4 = inet_pton(AF_INET, copy, &n->addr.s6_addr[12]) == 1;
	most = bits = v4 ? 32 : 128;
	if ((!v4 && inet_pton(AF_INET6, copy, &n->addr) != 1) ||
	    (slash && parse_uint(slash, 0, most, &bits) < 0))
		return err_set(e, -EINVAL, "\"%s\" is not a network, as in 192.0.2.0/24 or "
			       "2001:db8::/32, nor \"all\"", printable(text));

	n->bits = (uint8_t)(bits + (v4 ? V4_BITS : 0));
	for (unsigned i = n->bits; i < 128; i++)
		rest |= n->addr.s6_addr[i / 8] & (0x80 >> i % 8);
	return !rest ? 0 :
	       err_set(e, -EINVAL, "%s has bits set after its prefix: write the network's first "
		       "address, or the address without a prefix", text);
}

const char *network_text(const struct network *n, char out[NETWORK_TEXT])
{
	bool v4 = n->bits >= V4_BITS && IN6_IS_ADDR_V4MAPPED(&n->addr);
	char addr[INET6_ADDRSTRLEN] = "?";

	inet_ntop(v4 ? AF_INET : AF_INET6, &n->addr.s6_addr[v4 ? 12 : 0], addr, sizeof(addr));
	if (n->all)
		snprintf(out, NETWORK_TEXT, "all");
	else
		snprintf(out, NETWORK_TEXT, "%s/%u", addr, n->bits - (v4 ? V4_BITS : 0u));
	return out;
}

int networks_add(struct networks *l, const char *list, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(list);
	struct network n, *at;
	char *rest = copy, *word;
	int rc = copy ? 0 : err_nomem(e);

	while (!rc && (word = strsep(&rest, ", \t"))) {
		if (!*word)
			continue;
		rc = network_parse(word, &n, e);
		at = rc ? NULL : realloc(l->at, (l->n + 1) * sizeof(*at));
		if (at) {
			at[l->n++] = n;
			l->at = at;
		} else if (!rc) {
			rc = err_nomem(e);
		}
	}
	return rc;
}

void networks_clear(struct networks *l)
{
	free(l->at);
	*l = (struct networks){ 0 };
}

/* -1: a is not in n; otherwise a number that is higher for a longer prefix. */
static int network_match(const struct network *n, const struct in6_addr *a)
{
	uint8_t mask = (uint8_t)(0xff00 >> n->bits % 8);

	if (n->all)
		return 0;
	if (memcmp(&n->addr, a, n->bits / 8))
		return -1;
	if (n->bits % 8 && ((n->addr.s6_addr[n->bits / 8] ^ a->s6_addr[n->bits / 8]) & mask))
		return -1;

	/* A shorter IPv6 prefix may contain ::ffff:0:0/96, but its author did not mean IPv4
	 * addresses. */
	if (n->bits < V4_BITS && IN6_IS_ADDR_V4MAPPED(a))
		return -1;
	return n->bits + 1;
}

static int networks_best_match(const struct networks *l, const struct in6_addr *a)
{
	int best = -1;

	for (size_t i = 0; i < l->n; i++) {
		int m = network_match(&l->at[i], a);

		if (m > best)
			best = m;
	}
	return best;
}

bool networks_admit(const struct networks *allow, const struct networks *refuse,
		    const struct sockaddr_storage *peer)
{
	struct in6_addr a = address_as_v6(peer);
	int yes = networks_best_match(allow, &a), no = networks_best_match(refuse, &a);

	if (yes < 0 && no < 0)
		return allow->n == 0;
	return yes > no;
}

static int set_networks(void *at, const struct option_def *d, const char *value, struct err *e)
{
	return networks_add(at, value, e);
}

static void show_networks(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	const struct networks *l = at;
	char text[NETWORK_TEXT];

	if (!l->n)
		put(arg, "");
	for (size_t i = 0; i < l->n; i++)
		put(arg, network_text(&l->at[i], text));
}

static void clear_networks(void *at)
{
	networks_clear(at);
}

static const struct option_kind kind_networks = { set_networks, show_networks, clear_networks };

/* ---- ports: struct port_range ---- */

static int set_port_range(void *at, const struct option_def *d, const char *value, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(value);
	char *dash = copy ? strchr(copy, '-') : NULL;
	struct port_range *r = at;
	uint64_t lo, hi;

	if (!strcmp(value, "any")) {
		*r = (struct port_range){ 0 };
		return 0;
	}

	if (dash)
		*dash = '\0';
	if (!dash || parse_uint(copy, 1, UINT16_MAX, &lo) < 0 ||
	    parse_uint(dash + 1, lo, UINT16_MAX, &hi) < 0)
		return err_set(e, -EINVAL, "must be any, or a range of ports such as 50000-50100, "
			       "not \"%s\"", printable(value));
	*r = (struct port_range){ (uint16_t)lo, (uint16_t)hi };
	return 0;
}

static void show_port_range(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	const struct port_range *r = at;
	char text[16];

	snprintf(text, sizeof(text), "%u-%u", r->lo, r->hi);
	put(arg, r->hi ? text : "any");
}

static const struct option_kind kind_ports = { set_port_range, show_port_range, NULL };

/* ---- umask: unsigned; if a row has unset, that word sets 0, and a value has UMASK_GIVEN ---- */

static int set_umask(void *at, const struct option_def *d, const char *value, struct err *e)
{
	bool unset = d->unset && !strcmp(value, d->unset);

	if (!unset && (!*value || strspn(value, "01234567") != strlen(value) ||
		       strlen(value) > 5 || strtoul(value, NULL, 8) > d->high))
		return err_set(e, -EINVAL, "must be an octal number from 000 to %03" PRIo64
			       "%s%s, not \"%s\"", d->high, d->unset ? ", or " : "",
			       d->unset ? d->unset : "", printable(value));
	*(unsigned *)at = unset ? 0 : (unsigned)strtoul(value, NULL, 8) |
				      (d->unset ? UMASK_GIVEN : 0);
	return 0;
}

static void show_umask(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	unsigned v = *(const unsigned *)at;
	char text[16];

	snprintf(text, sizeof(text), "%03o", v & ~(unsigned)UMASK_GIVEN);
	put(arg, d->unset && !v ? d->unset : text);
}

static const struct option_kind kind_umask = { set_umask, show_umask, NULL };

/* ---- checks of strings ---- */

static int check_absolute(const char *value, struct err *e)
{
	if (*value == '/')
		return 0;
	return err_set(e, -EINVAL, "must begin with a slash, not \"%s\"", printable(value));
}

static int check_data_address(const char *value, struct err *e)
{
	struct sockaddr_storage ss;

	if (address_parse(value, &ss))
		return 0;
	return err_set(e, -EINVAL, "must be a numeric address, not \"%s\"", printable(value));
}

static int check_numa(const char *value, struct err *e)
{
	struct place_wish wish = { 0 };
	int rc = place_wish_parse(&wish, value, e);

	return rc ? rc : place_wish_check(&wish, e);
}

static int check_nodes(const char *value, struct err *e)
{
	const struct place_wish wish = { .nics = value };

	return place_wish_check(&wish, e);
}

int srv_log_target(const char *value, enum log_target *target)
{
	static const char *const words[] = {
		[LOG_TO_STDERR] = "stderr", [LOG_TO_SYSLOG] = "syslog",
		[LOG_TO_JOURNAL] = "journal",
	};

	*target = LOG_TO_STDERR;
	if (!value)
		return 0;
	*target = LOG_TO_FILE;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(value, words[i]))
			*target = (enum log_target)i;

	/* A word without a slash is a mistyped target such as "sylog", not the name of a file. */
	return *target == LOG_TO_FILE && !strchr(value, '/') ? -EINVAL : 0;
}

static int check_log_target(const char *value, struct err *e)
{
	enum log_target target;

	if (!srv_log_target(value, &target))
		return 0;
	return err_set(e, -EINVAL, "must be stderr, syslog, journal or the path of a file, with a "
		       "slash in it, not \"%s\"", printable(value));
}

/* ---- words of choices ---- */

static const char *const third_words[] = {
	[THIRD_PARTY_USERS] = "users", [THIRD_PARTY_ALL] = "all", [THIRD_PARTY_OFF] = "off", NULL,
};
const char *const srv_rights_words[] = {
	[RIGHTS_NONE] = "off", [RIGHTS_RO] = "ro", [RIGHTS_RW] = "rw",
	[RIGHTS_NODELETE] = "nodelete", [RIGHTS_UPLOAD] = "upload", NULL,
};
static const char *const rules_words[] = {
	[RIGHTS_NONE] = "default", [RIGHTS_RO] = "ro", [RIGHTS_RW] = "rw",
	[RIGHTS_NODELETE] = "nodelete", [RIGHTS_UPLOAD] = "upload", NULL,
};
static const char *const prot_words[] = { "clear", "safe", "private", NULL };
static const char *const poll_words[] = {
	[POLL_AUTO] = "auto", [POLL_ALWAYS] = "always", [POLL_NEVER] = "never", NULL,
};
static const char *const pin_words[] = { "node", "cores", NULL };
static const char *const pages_words[] = { "auto", "on", "off", NULL };
static const char *const tls_words[] = {
	[TLS_LEAST_1_3] = "1.3", [TLS_LEAST_1_2] = "1.2", NULL,
};
static const char *const data_words[] = {
	[TLS_DATA_RESUMED] = "resumed", [TLS_DATA_ANY] = "any", NULL,
};
static const char *const format_words[] = {
	[LOG_AS_TEXT] = "text", [LOG_AS_JSON] = "json", NULL,
};
static const char *const level_words[] = {
	[LOG_LV_ERROR] = "error", [LOG_LV_WARN] = "warning", [LOG_LV_INFO] = "info",
	[LOG_LV_DEBUG] = "debug", NULL,
};

/* ---- the table ---- */

#define IN_FILE OPTION_IN_FILE
#define OF_NET (IN_FILE | NOT_STDIO) /* settings of ports, logins and TLS */
#define AT(member) .at = offsetof(struct srv_options, member)

#define FLAG(name_, letter_, member, where_, help_)                                         \
	{ .name = name_, .letter = letter_, .kind = &option_flag, .where = where_,          \
	  AT(member), .help = help_ }
#define STRING(name_, letter_, arg_, member, where_, help_)                                 \
	{ .name = name_, .letter = letter_, .arg = arg_, .kind = &option_string,            \
	  .where = where_, AT(member), .help = help_ }
#define CHECKED(name_, arg_, member, check_, unset_, help_)                                 \
	{ .name = name_, .arg = arg_, .kind = &option_string, .where = IN_FILE, AT(member), \
	  .check = check_, .unset = unset_, .help = help_ }
#define CHOICE(name_, letter_, member, words_, where_, help_)                               \
	{ .name = name_, .letter = letter_, .arg = "WORD", .kind = &option_choice,          \
	  .where = where_, AT(member), .words = words_, .help = help_ }
#define NUMBER(name_, arg_, member, low_, high_, unset_, where_, help_)                     \
	{ .name = name_, .arg = arg_, .kind = &option_number, .where = where_, AT(member),  \
	  .low = low_, .high = high_, .unset = unset_, .help = help_ }
#define TIME(name_, member, low_, high_, unset_, where_, help_)                             \
	{ .name = name_, .arg = "TIME", .kind = &option_time, .where = where_, AT(member),  \
	  .low = low_, .high = high_, .unset = unset_, .help = help_ }
#define SIZE(name_, letter_, member, help_)                                                 \
	{ .name = name_, .letter = letter_, .arg = "SIZE", .kind = &option_size,            \
	  .where = IN_FILE, AT(member), .low = MEMORY_MIN, .unset = "auto", .help = help_ }
#define OWN(name_, letter_, arg_, member, kind_, where_, help_)                             \
	{ .name = name_, .letter = letter_, .arg = arg_, .kind = &kind_, .where = where_,   \
	  AT(member), .help = help_ }
#define LEVEL(name_, letter_, level, help_)                                                 \
	{ .name = name_, .letter = letter_, .kind = &option_constant, .where = OPTION_BARE, \
	  AT(log_level), .low = level, .help = help_ }

const struct option_def rftpd_options[] = {
	OPTION_HEADING("Connections"),
	{ .name = "listen", .letter = 'l', .arg = "ADDR:PORT", .kind = &kind_listen,
	  .where = OF_NET | OPTION_LIST,
	  .help = "listen there; may be given again; port 0: any (0.0.0.0:7321 and [::]:7321)" },
	OWN("allow", 0, "LIST", allow, kind_networks, OF_NET | OPTION_LIST,
	    "networks that may connect, with commas; may be given again (all)"),
	OWN("refuse", 0, "LIST", refuse, kind_networks, OF_NET | OPTION_LIST,
	    "networks that may not; the longest prefix decides (none)"),
	NUMBER("max-sessions", "N", max_sessions, 1, 100000, NULL, OF_NET,
	       "serve at most N connections at once (256)"),
	NUMBER("max-per-host", "N", max_per_host, 1, 100000, NULL, OF_NET,
	       "the same for each host (64)"),
	NUMBER("max-per-user", "N", max_per_user, 1, 100000, "none", OF_NET,
	       "the same for each user (none: no limit)"),
	NUMBER("max-checks", "N", max_checks, 1, CHECKS_MAX, "auto", OF_NET,
	       "check at most N passwords at once; others wait (auto: by memory, 4 at most)"),
	TIME("login-timeout", login_timeout, SECOND, HOUR, NULL, OF_NET,
	     "close a connection without a login after this (1m)"),
	TIME("idle-timeout", idle_timeout, SECOND, 24 * HOUR, NULL, OF_NET,
	     "close an idle session after this (15m)"),

	OPTION_HEADING("Accounts and rights"),
	STRING("root", 'r', "DIR", root, IN_FILE, "serve the files below DIR only"),
	CHOICE("anonymous", 'a', anonymous, srv_rights_words, OF_NET,
	       "let anonymous log in, to read (ro) or to write as well (rw) (off)"),
	STRING("users", 'u', "FILE", users, OF_NET, "users and their passwords; see rftpd(8)"),
	FLAG("pam", 0, pam, OF_NET, "users of this system, with their passwords"),
	STRING("certificates", 0, "FILE", certificates, OF_NET,
	       "users of client certificates; see rftpd(8)"),
	STRING("files-user", 0, "NAME", files_user, OF_NET,
	       "the system user of accounts that are not system users (ftp)"),
	FLAG("allow-root", 0, allow_root, OF_NET, "let accounts with user id 0 log in"),
	STRING("admin", 0, "LIST", admin, OF_NET,
	       "users that see all transfers in rftp status, separated by commas (none)"),
	{ .name = "umask", .arg = "OCTAL", .kind = &kind_umask, .where = IN_FILE,
	  AT(tuning.umask), .high = 0777, .help = "permission bits that new files do not get (022)" },
	TIME("parts-age", parts_age, SECOND, 36500 * 24 * HOUR, "never", IN_FILE,
	     "remove older unfinished files when a transfer writes beside them (never)"),
	CHOICE("third-party", 0, third_party, third_words, IN_FILE,
	       "accounts that may copy from here to another server; all: also anonymous (users)"),

	OPTION_HEADING("TLS"),
	STRING("state", 's', "DIR", state, OF_NET,
	       "directory of the certificate ($XDG_STATE_HOME/rftpd; /var/lib/rftpd for root)"),
	STRING("certificate", 0, "FILE", certificate, OF_NET,
	       "the certificate, in PEM, and those that sign it (of --state)"),
	STRING("key", 0, "FILE", key, OF_NET, "the certificate's key (of --state)"),
	STRING("ca", 0, "FILE", ca, OF_NET,
	       "ask clients for a certificate that one of these CAs signed (none)"),
	CHOICE("tls-min", 0, tls_min, tls_words, OF_NET, "the oldest TLS version (1.3)"),
	STRING("tls-ciphers", 0, "LIST", tls_ciphers, OF_NET,
	       "ciphers, by their OpenSSL names, with colons (the system's)"),
	CHOICE("tls-data", 0, tls_data, data_words, OF_NET,
	       "FTP data connections: with the control connection's session, or any (resumed)"),
	FLAG("plain", 0, plain, OF_NET, "allow logins without TLS"),
	CHOICE("prot-min", 0, prot_min, prot_words, IN_FILE,
	       "refuse data with less protection (clear)"),

	OPTION_HEADING("Data connections and memory"),
	CHECKED("data-address", "ADDR", data_address, check_data_address, NULL,
		"the address that data connections come to (any)"),
	OWN("data-ports", 'd', "LO-HI", data_ports, kind_ports, IN_FILE,
	    "ports of data connections (any)"),
	FLAG("active", 0, active, OF_NET, "connect to FTP clients that ask for it (PORT, EPRT)"),
	STRING("port-file", 0, "FILE", port_file, OF_NET,
	       "write the listening ports to FILE, one per line"),
	SIZE("memory", 'm', tuning.memory, "memory for the blocks of a transfer (auto: chosen)"),
	SIZE("memory-budget", 0, memory_budget,
	     "memory for the blocks of all transfers (auto: chosen)"),
	STRING("nic", 0, "LIST", tuning.nics, IN_FILE, "network cards for data, with commas"),
	CHOICE("poll", 0, tuning.poll, poll_words, IN_FILE,
	       "poll for RDMA completions before sleeping (auto)"),
	TIME("stall", stall, SECOND, HOUR, NULL, IN_FILE,
	     "give up a data channel without progress after this (30s)"),
	CHECKED("numa", "WHERE", numa, check_numa, "auto",
		"nodes of memory and threads: auto, off, node:N, nic, storage"),
	NUMBER("numa-balance", "PERCENT", tuning.balance_percent, 1, 100, NULL, IN_FILE,
	       "use all nodes when one's links are this much busier (60)"),
	TIME("numa-interval", tuning.balance_ns, SECOND / 10, HOUR, NULL, IN_FILE,
	     "time between two such comparisons (5s)"),
	CHOICE("pin", 0, pin, pin_words, IN_FILE,
	       "threads may run on any CPU of their node, or have one each (node)"),
	CHECKED("nic-node", "LIST", tuning.place.nics, check_nodes, NULL,
		"the nodes of network cards, as in eth0=1,eth1=any"),
	CHOICE("hugepages", 0, hugepages, pages_words, IN_FILE,
	       "put blocks in reserved huge pages (auto)"),
	{ .name = "tos", .arg = "N", .kind = &option_tos, .where = IN_FILE, AT(tuning.tos),
	  .high = 255, .unset = "system",
	  .help = "type of service of data: 0 to 255, or cs1, af41, ef" },
	STRING("congestion", 0, "NAME", tuning.congestion, IN_FILE,
	       "TCP congestion control, by its name in the kernel"),

	OPTION_HEADING("Log"),
	CHECKED("log", "stderr|syslog|journal|FILE", log, check_log_target, "stderr",
		"destination of the log (stderr)"),
	CHOICE("log-format", 0, log_format, format_words, IN_FILE,
	       "lines of text, or JSON for programs (text)"),
	CHOICE("log-level", 0, log_level, level_words, IN_FILE,
	       "log messages of this level and above (info)"),
	STRING("metrics-file", 0, "FILE", metrics_file, OF_NET,
	       "write counters to FILE, for Prometheus (none)"),
	LEVEL("verbose", 'v', LOG_LV_DEBUG, "log more: --log-level debug"),
	LEVEL("quiet", 'q', LOG_LV_WARN, "log warnings and errors only: --log-level warning"),

	OPTION_HEADING("General options"),
	STRING("config", 'c', "FILE", config, EARLY,
	       "read settings from FILE (rftpd.conf for root, if it exists)"),
	FLAG("check-config", 0, check_config, OPTION_BARE,
	     "print all errors and weaknesses of the settings, and exit"),
	FLAG("show-config", 0, show_config, OPTION_BARE,
	     "print the settings in force, and exit"),
	STRING("user", 0, "NAME", user, OF_NET,
	       "the system user of processes that serve clients before their login (rftpd)"),
	FLAG("one-process", 0, one_process, OF_NET,
	     "as root: one process for each connection, with all of root's rights"),
	FLAG("foreground", 'f', foreground, OPTION_BARE, "do not detach (it never does, for now)"),
	FLAG("stdio", 0, stdio, EARLY | OPTION_BARE,
	     "serve the calling user on standard input and output, as by ssh"),
	FLAG("hash-password", 0, hash_password, EARLY | OPTION_BARE,
	     "read a password, print its hash for the users file, and exit"),
	FLAG("version", 'V', version, EARLY | OPTION_BARE, "print version and features, and exit"),
	FLAG("help", 'h', help, EARLY | OPTION_BARE, "print this, and exit"),
	OPTION_END,
};

_Static_assert(sizeof(rftpd_options) / sizeof(rftpd_options[0]) <= OPTION_ROWS_MAX,
	       "srv_options.from has a member for each row");

/* ---- sections of rftpd.conf ---- */

#undef AT
#define AT(member) .at = offsetof(struct srv_rules, member)

#define ROOT_HOME_UMASK                                                                     \
	CHECKED("root", "DIR", root, check_absolute, NULL, ""),                                 \
	CHECKED("home", "DIR", home, check_absolute, NULL, ""),                                 \
	{ .name = "umask", .arg = "OCTAL", .kind = &kind_umask, .where = IN_FILE,           \
	  AT(umask), .high = 0777, .unset = "default", .help = "" }

const struct option_def srv_user_rows[] = {
	ROOT_HOME_UMASK,
	CHOICE("rights", 0, rights, rules_words, IN_FILE, ""),
	STRING("system-user", 0, "NAME", system_user, IN_FILE, ""),
	OPTION_END,
};

const struct option_def srv_anonymous_rows[] = { ROOT_HOME_UMASK, OPTION_END };

#undef AT
#define AT(member) .at = offsetof(struct nic_rule, member)

const struct option_def srv_nic_rows[] = {
	CHECKED("data-address", "ADDR", address, check_data_address, NULL, ""),
	OWN("data-ports", 0, "LO-HI", ports, kind_ports, IN_FILE, ""),
	OPTION_END,
};
