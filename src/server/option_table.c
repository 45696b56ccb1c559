// SPDX-License-Identifier: Apache-2.0
/* The options of rftpd, in the order of rftpd(8). */
#include "server/option_table.h"

#include <stddef.h>
#include <string.h>

#define MEMORY_MIN (1u << 20) /* as rftp has it: with less no transfer can be agreed on */
#define MS 1000000ull
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)

#define AT(member) offsetof(struct srv_options, member)

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

#define FLAG(name_, letter_, member, where_, help_)                                         \
	{ .name = name_, .letter = letter_, .type = &type_flag, .where = where_,            \
	  .at = AT(member), .help = help_ }
#define STRING(name_, letter_, arg_, member, where_, help_)                                 \
	{ .name = name_, .letter = letter_, .arg = arg_, .type = &type_string,              \
	  .where = where_, .at = AT(member), .help = help_ }
#define WORD(name_, letter_, arg_, member, words_, where_, help_)                           \
	{ .name = name_, .letter = letter_, .arg = arg_, .type = &type_word,                \
	  .where = where_, .at = AT(member), .words = words_, .help = help_ }
#define KIND(name_, letter_, arg_, member, type_, where_, help_)                            \
	{ .name = name_, .letter = letter_, .arg = arg_, .type = &type_, .where = where_,   \
	  .at = AT(member), .help = help_ }
#define NUMBER(name_, arg_, member, low_, high_, zero_, where_, help_)                      \
	{ .name = name_, .arg = arg_, .type = &type_number, .where = where_,                \
	  .at = AT(member), .low = low_, .high = high_, .zero = zero_, .help = help_ }
#define TIME(name_, member, low_, high_, where_, help_)                                     \
	{ .name = name_, .arg = "TIME", .type = &type_time, .where = where_,                \
	  .at = AT(member), .low = low_, .high = high_, .help = help_ }
#define SIZE(name_, letter_, member, help_)                                                 \
	{ .name = name_, .letter = letter_, .arg = "SIZE", .type = &type_size,              \
	  .where = IN_FILE, .at = AT(member), .low = MEMORY_MIN, .zero = "auto", .help = help_ }

#define OF_NET (IN_FILE | NOT_STDIO) /* about ports, logins and TLS */

const struct option_def srv_table[] = {
	{ .name = "listen", .letter = 'l', .arg = "ADDR:PORT", .type = &type_listen,
	  .where = OF_NET | IS_LIST,
	  .help = "listen there; may be given again; port 0: any (0.0.0.0:7321 and [::]:7321)" },
	KIND("allow", 0, "LIST", allow, type_networks, OF_NET | IS_LIST,
	     "networks that may connect, with commas; may be given again (all)"),
	KIND("refuse", 0, "LIST", refuse, type_networks, OF_NET | IS_LIST,
	     "networks that may not; the longest prefix decides (none)"),
	NUMBER("max-sessions", "N", max_sessions, 1, 100000, NULL, OF_NET,
	       "serve so many connections at once (256)"),
	NUMBER("max-per-host", "N", max_per_host, 1, 100000, NULL, OF_NET,
	       "so many of one host (64)"),
	NUMBER("max-per-user", "N", max_per_user, 1, 100000, "none", OF_NET,
	       "so many of one user (none: no limit)"),
	NUMBER("max-checks", "N", max_checks, 1, CHECKS_MAX, "auto", OF_NET,
	       "check so many passwords at once; others wait (auto: by memory, 4 at most)"),
	TIME("login-timeout", login_timeout, SECOND, HOUR, OF_NET,
	     "end a connection without a login after it (1m)"),
	TIME("idle-timeout", idle_timeout, SECOND, 24 * HOUR, OF_NET,
	     "end a session that does nothing for so long (15m)"),

	STRING("root", 'r', "DIR", root, IN_FILE, "nothing outside of DIR can be reached"),
	WORD("anonymous", 'a', "ro|rw|nodelete|upload|off", anonymous, srv_rights_words, OF_NET,
	     "let anonymous in, to read (ro) or to write as well (rw) (off)"),
	STRING("users", 'u', "FILE", users, OF_NET, "users and their passwords; see rftpd(8)"),
	FLAG("pam", 0, pam, OF_NET, "users of this system, with their passwords"),
	STRING("certificates", 0, "FILE", certificates, OF_NET,
	       "whose the certificates of clients are; see rftpd(8)"),
	STRING("files-user", 0, "NAME", files_user, OF_NET,
	       "the system user of accounts that are none themselves (ftp)"),
	FLAG("allow-root", 0, allow_root, OF_NET, "let accounts with user id 0 log in"),
	{ .name = "umask", .arg = "OCTAL", .type = &type_octal, .where = IN_FILE,
	  .at = AT(umask), .high = 0777, .help = "taken off modes of what is made (022)" },
	{ .name = "parts-age", .arg = "TIME", .type = &type_time, .where = IN_FILE,
	  .at = AT(parts_age), .low = SECOND, .high = 36500 * 24 * HOUR, .zero = "never",
	  .help = "remove unfinished files after it, when others are written there (never)" },
	WORD("third-party", 0, "users|all|off", third_party, third_words, IN_FILE,
	     "who may copy from here to another server: also anonymous (all), or nobody (users)"),

	STRING("state", 's', "DIR", state, OF_NET,
	       "where the certificate is kept ($XDG_STATE_HOME/rftpd; /var/lib/rftpd for root)"),
	STRING("certificate", 0, "FILE", certificate, OF_NET,
	       "the certificate, in PEM, and those that it is signed by (of --state)"),
	STRING("key", 0, "FILE", key, OF_NET, "the certificate's key (of --state)"),
	STRING("ca", 0, "FILE", ca, OF_NET,
	       "ask clients for a certificate; its subject counts when these signed it (none)"),
	WORD("tls-min", 0, "1.3|1.2", tls_min, tls_words, OF_NET, "the oldest TLS (1.3)"),
	STRING("tls-ciphers", 0, "LIST", tls_ciphers, OF_NET,
	       "ciphers, as OpenSSL calls them, with colons (the system's)"),
	WORD("tls-data", 0, "resumed|any", tls_data, data_words, OF_NET,
	     "FTP data connections: with the control connection's session, or any (resumed)"),
	FLAG("plain", 0, plain, OF_NET, "allow logins without TLS"),
	WORD("prot-min", 0, "clear|safe|private", prot_min, prot_words, IN_FILE,
	     "refuse data that is protected less (clear)"),

	KIND("data-address", 0, "ADDR", data_address, type_address, IN_FILE,
	     "the address that data connections come to (any)"),
	KIND("data-ports", 'd', "LO-HI", data_ports, type_ports, IN_FILE,
	     "ports of data connections (any)"),
	FLAG("active", 0, active, OF_NET,
	     "let FTP clients have data connections made to them (PORT, EPRT)"),
	STRING("port-file", 0, "FILE", port_file, OF_NET,
	       "write the ports that are listened on to FILE, one per line"),
	SIZE("memory", 'm', memory, "memory for the blocks of a transfer (auto: chosen)"),
	SIZE("memory-budget", 0, memory_budget, "memory for the blocks of all (auto: chosen)"),
	STRING("nic", 0, "LIST", nic, IN_FILE, "network cards for data, with commas"),
	WORD("poll", 0, "auto|always|never", poll, poll_words, IN_FILE,
	     "look for RDMA's completions awake before sleeping (auto)"),
	TIME("stall", stall, SECOND, HOUR, IN_FILE,
	     "give up a data channel without progress after this (30s)"),
	KIND("numa", 0, "WHERE", numa, type_numa, IN_FILE,
	     "nodes of memory and threads: auto, off, node:N, nic, storage"),
	NUMBER("numa-balance", "PERCENT", balance_percent, 1, 100, NULL, IN_FILE,
	       "use all nodes' paths when one's are so much fuller (60)"),
	TIME("numa-interval", balance_ns, 100 * MS, HOUR, IN_FILE, "look for that so often (5s)"),
	WORD("pin", 0, "node|cores", pin, pin_words, IN_FILE,
	     "threads may run on any CPU of their node, or have one each (node)"),
	KIND("nic-node", 0, "LIST", nic_node, type_nodes, IN_FILE,
	     "the nodes of network cards, as in eth0=1,eth1=any"),
	WORD("hugepages", 0, "auto|on|off", hugepages, pages_words, IN_FILE,
	     "blocks in huge pages that were set aside (auto)"),
	KIND("tos", 0, "N", tos, type_tos, IN_FILE,
	     "type of service of data: 0 to 255, or cs1, af41, ef"),
	STRING("congestion", 0, "NAME", congestion, IN_FILE,
	       "congestion control of TCP, as the kernel names it"),

	KIND("log", 0, "stderr|syslog|journal|FILE", log, type_log, IN_FILE,
	     "where the log goes (stderr)"),
	WORD("log-format", 0, "text|json", log_format, format_words, IN_FILE,
	     "lines of the log for people or for programs (text)"),
	WORD("log-level", 0, "error|warning|info|debug", log_level, level_words, IN_FILE,
	     "log this, and what is worse (info)"),
	KIND("verbose", 'v', NULL, log_level, type_verbose, 0, "log more: --log-level debug"),
	KIND("quiet", 'q', NULL, log_level, type_quiet, 0,
	     "log warnings and errors only: --log-level warning"),

	STRING("config", 'c', "FILE", config, EARLY,
	       "read settings from FILE (rftpd.conf for root, where there is one)"),
	FLAG("check-config", 0, check_config, 0,
	     "say all that is wrong or weak in the settings, and exit"),
	FLAG("show-config", 0, show_config, 0, "print the settings in force, and exit"),
	STRING("user", 0, "NAME", user, OF_NET,
	       "the system user that talks to clients before their login (rftpd)"),
	FLAG("one-process", 0, one_process, OF_NET,
	     "as root: one process for each connection, with all of root's rights"),
	FLAG("foreground", 'f', foreground, 0, "do not detach (it never does, for now)"),
	FLAG("stdio", 0, stdio, EARLY,
	     "serve who runs it on standard input and output, as by ssh"),
	FLAG("hash-password", 0, hash_password, EARLY,
	     "read a password, print its hash for the users file, and exit"),
	FLAG("version", 'V', version, EARLY, "print version and features, and exit"),
	FLAG("help", 'h', help, EARLY, "print this, and exit"),
	{ 0 },
};

_Static_assert(sizeof(srv_table) / sizeof(srv_table[0]) <= OPTIONS_MAX, "OPTIONS_MAX");

size_t srv_table_rows(void)
{
	return sizeof(srv_table) / sizeof(srv_table[0]) - 1;
}

#undef AT
#define AT(member) offsetof(struct srv_rules, member)

#define WHERE_AND_HOW                                                                       \
	KIND("root", 0, "DIR", root, type_path, IN_FILE, ""),                               \
	KIND("home", 0, "DIR", home, type_path, IN_FILE, ""),                               \
	{ .name = "umask", .arg = "OCTAL|default", .type = &type_umask, .where = IN_FILE,   \
	  .at = AT(umask), .high = 0777, .help = "" }

const struct option_def srv_user_table[] = {
	WHERE_AND_HOW,
	WORD("rights", 0, "ro|rw|nodelete|upload|default", rights, rules_words, IN_FILE, ""),
	STRING("system-user", 0, "NAME", system_user, IN_FILE, ""),
	{ 0 },
};

const struct option_def srv_anonymous_table[] = { WHERE_AND_HOW, { 0 } };

#undef AT
#define AT(member) offsetof(struct nic_rule, member)

const struct option_def srv_nic_table[] = {
	KIND("data-address", 0, "ADDR", address, type_address, IN_FILE, ""),
	KIND("data-ports", 0, "LO-HI", ports, type_ports, IN_FILE, ""),
	{ 0 },
};

const struct option_def *option_named(const struct option_def *table, const char *name)
{
	for (; table->name; table++)
		if (!strcmp(table->name, name))
			return table;
	return NULL;
}
