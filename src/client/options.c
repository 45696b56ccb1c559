// SPDX-License-Identifier: Apache-2.0
/* The table of options, and how a value gets from a word to its place. */
#include "client/options.h"

#include "proto/proto.h"
#include "storage/storage.h"
#include "transport/transport.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define AT(field) offsetof(struct options, field)

/* In the order of the enums that the indexes become. */
static const char *const transports[] = { "auto", "rdma", "tcp", NULL };
static const char *const ops[] = { "auto", "write", "read", NULL };
static const char *const polls[] = { "auto", "always", "never", NULL };
static const char *const pins[] = { "node", "cores", NULL };
static const char *const hugepages[] = { "auto", "on", "off", NULL };
static const char *const ios[] = { "auto", "posix", "uring", NULL };
static const char *const directs[] = { "auto", "on", "off", NULL };
static const char *const sorts[] = { "auto", "physical", "none", NULL };
static const char *const prots[] = { "clear", "safe", "private", NULL };
static const char *const acks[] = { "received", "written", "synced", "verified", NULL };
static const char *const progresses[] = { "auto", "always", "never", NULL };

_Static_assert(IO_AUTO == 0 && IO_POSIX == 1 && IO_URING == 2, "as ios[]");
_Static_assert(POLL_AUTO == 0 && POLL_ALWAYS == 1 && POLL_NEVER == 2, "as polls[]");
_Static_assert(PROT_CLEAR == 0 && PROT_SAFE == 1 && PROT_PRIVATE == 2, "as prots[]");
_Static_assert(ACK_RECEIVED == 0 && ACK_VERIFIED == 3, "as acks[]");

#define HEADING(text) { .help = text }
#define FLAG(name, letter, where, field, help) \
	{ name, letter, NULL, OPT_FLAG, where, AT(field), 0, 0, NULL, help }
#define SET(name, where, field, number, help) \
	{ name, 0, NULL, OPT_SET, where, AT(field), number, 0, NULL, help }
#define CHOICE(name, words, where, field, help) \
	{ name, 0, "WORD", OPT_CHOICE, where, AT(field), 0, 0, words, help }
#define NUMBER(name, arg, type, where, field, low, high, help) \
	{ name, 0, arg, type, where, AT(field), low, high, NULL, help }
#define STRING(name, arg, where, field, help) \
	{ name, 0, arg, OPT_STRING, where, AT(field), 0, 0, NULL, help }

static const struct option_def table[] = {
	HEADING("What goes"),
	FLAG("recursive", 'r', ON_COPY | ON_RM, recursive, "directories with all that is in them"),
	STRING("files-from", "FILE", ON_COPY, files_from,
	       "take the names, one per line, from FILE (- is standard input)"),
	FLAG("null", '0', ON_COPY | ON_LS, null, "names in such lists end in NUL, not newline"),
	SET("overwrite", ON_COPY | IN_CONF, policy, POLICY_OVERWRITE,
	    "replace files that exist (default)"),
	SET("skip-existing", ON_COPY | IN_CONF, policy, POLICY_SKIP,
	    "leave files that exist alone"),
	SET("update", ON_COPY | IN_CONF, policy, POLICY_UPDATE,
	    "replace files only when the source is newer"),
	SET("skip-same", ON_COPY | IN_CONF, policy, POLICY_SAME,
	    "leave files alone that have the same size and time"),
	FLAG("dry-run", 0, ON_COPY, dry_run, "show what would be done, change nothing"),
	FLAG("inplace", 0, ON_COPY | IN_CONF, inplace,
	     "write straight into the file, not into a part beside it"),
	FLAG("no-resume", 0, ON_COPY | IN_CONF, no_resume,
	     "keep no journal, take over no partial file"),
	FLAG("owner", 'a', ON_COPY | IN_CONF, owner, "keep owner and group"),
	FLAG("xattrs", 0, ON_COPY | IN_CONF, xattrs, "keep extended attributes and ACLs"),
	FLAG("follow", 0, ON_COPY | IN_CONF, follow, "copy what symbolic links point to"),
	FLAG("no-times", 0, ON_COPY | IN_CONF, no_times, "do not keep modification times"),
	FLAG("no-modes", 0, ON_COPY | IN_CONF, no_modes, "do not keep permission bits"),

	HEADING("How it goes"),
	CHOICE("transport", transports, ON_WIRE | IN_CONF, transport,
	       "what carries the data (auto)"),
	CHOICE("op", ops, ON_WIRE | IN_CONF, op, "RDMA operation (auto)"),
	STRING("nic", "LIST", ON_BULK | IN_CONF, nic, "network devices to use, with commas"),
	NUMBER("channels", "N", OPT_UINT, ON_WIRE | IN_CONF, channels, 1, CHANNELS_MAX,
	       "streams or queue pairs per network device"),
	NUMBER("block", "SIZE", OPT_SIZE, ON_WIRE | IN_CONF, block, 64 << 10, 64 << 20,
	       "bytes of data per block, 64K to 64M"),
	NUMBER("inflight", "N", OPT_UINT, ON_WIRE | IN_CONF, inflight, 2, 65536,
	       "blocks on the way at once"),
	CHOICE("poll", polls, ON_BULK | IN_CONF, poll,
	       "look for RDMA's completions awake before sleeping (auto)"),
	NUMBER("tos", "N", OPT_TOS, ON_BULK | IN_CONF, tos, 0, 255,
	       "type of service of data: 0 to 255, or cs1, af41, ef"),
	STRING("congestion", "NAME", ON_BULK | IN_CONF, congestion,
	       "congestion control of TCP, as the kernel names it"),
	STRING("numa", "WHERE", ON_BULK | IN_CONF, numa,
	       "nodes of memory and threads: auto, off, node:N, nic, storage"),
	NUMBER("numa-balance", "PERCENT", OPT_UINT, ON_BULK | IN_CONF, balance, 1, 100,
	       "use all nodes' paths when one's are so much fuller (60)"),
	NUMBER("numa-interval", "TIME", OPT_TIME, ON_BULK | IN_CONF, balance_ns, 100000000,
	       3600000000000, "look for that so often (5s)"),
	CHOICE("pin", pins, ON_BULK | IN_CONF, pin,
	       "threads may run on any CPU of their node, or have one each (node)"),
	STRING("nic-node", "LIST", ON_BULK | IN_CONF, nic_node,
	       "the nodes of network devices, as in eth0=1,eth1=any"),
	CHOICE("hugepages", hugepages, ON_BULK | IN_CONF, hugepages,
	       "blocks in huge pages that were set aside (auto)"),
	CHOICE("io", ios, ON_BULK | IN_CONF, io, "how files are read and written (auto)"),
	CHOICE("direct", directs, ON_BULK | IN_CONF, direct,
	       "direct I/O past the page cache (auto)"),
	CHOICE("sort", sorts, ON_PUT | IN_CONF, sort,
	       "read files in the order of their places on the disk (auto)"),
	CHOICE("prot", prots, ON_ALL | IN_CONF, prot,
	       "protection of the data on the wire (private)"),
	CHOICE("ack", acks, ON_WIRE | IN_CONF, ack,
	       "what has happened to a file that is done (synced)"),
	NUMBER("rate", "RATE", OPT_RATE, ON_WIRE | IN_CONF, rate, 0, 0,
	       "at most this, like 100M (bytes) or 10Gbit per second"),
	NUMBER("retries", "N", OPT_UINT, ON_COPY | IN_CONF, retries, 0, 1000000,
	       "connect again so often when the connection is lost (5)"),
	NUMBER("readers", "N", OPT_UINT, ON_BULK | IN_CONF, readers, 0, 64,
	       "threads that read files"),
	NUMBER("writers", "N", OPT_UINT, ON_BULK | IN_CONF, writers, 0, 64,
	       "threads that write files"),
	NUMBER("memory", "SIZE", OPT_SIZE, ON_BULK | IN_CONF, memory, 1 << 20, 0,
	       "memory for blocks (a quarter of what there is, at most 4G)"),

	HEADING("Which server"),
	STRING("known-hosts", "FILE", ON_ALL | IN_CONF, known_hosts, "the keys of known servers"),
	FLAG("accept-new", 0, ON_ALL | IN_CONF, accept_new,
	     "trust the key of a server that is not known yet"),
	STRING("ca", "FILE", ON_ALL | IN_CONF, ca,
	       "check the server's certificate against the CA in FILE"),
	STRING("cert", "FILE", ON_ALL | IN_CONF, cert,
	       "our own certificate, for servers that know us by it"),
	STRING("key", "FILE", ON_ALL | IN_CONF, key, "the key of --cert (in the same file)"),
	FLAG("plain", 0, ON_ALL | IN_CONF, plain, "without TLS; no password is sent"),
	FLAG("plain-password", 0, ON_ALL | IN_CONF, plain_password,
	     "with --plain, the password is sent, in clear"),
	STRING("netrc", "FILE", ON_ALL | IN_CONF, netrc, "users and passwords (~/.netrc)"),
	NUMBER("connect-timeout", "TIME", OPT_TIME, ON_ALL | IN_CONF, connect_timeout,
	       100000000, 3600000000000, "give up connecting after this (15s)"),
	NUMBER("stall", "TIME", OPT_TIME, ON_ALL | IN_CONF, stall, 1000000000, 3600000000000,
	       "give up a data channel without progress after this (30s)"),
	STRING("ssh", "COMMAND", ON_ALL | IN_CONF, ssh, "for host:path (ssh)"),
	STRING("rftpd-path", "PATH", ON_ALL | IN_CONF, rftpd_path,
	       "the server's program at host:path (rftpd)"),

	HEADING("What is said"),
	CHOICE("progress", progresses, ON_WIRE | IN_CONF, progress, "show how far it is (auto)"),
	FLAG("json", 0, ON_ALL | IN_CONF, json, "one JSON object per line on standard output"),
	FLAG("quiet", 'q', ON_ALL | IN_CONF, quiet, "errors only"),
	{ "verbose", 'v', NULL, OPT_COUNT, ON_ALL | IN_CONF, AT(verbose), 0, 3, NULL,
	  "each file and what was chosen; twice: more" },

	HEADING("Of single commands"),
	FLAG("long", 'l', ON_LS, longer, "mode, owner, size and time with each name (default)"),
	FLAG("names", '1', ON_LS, names, "names only, one per line"),
	FLAG("all", 'a', ON_LS, all, "names that begin with a dot, too: they are always shown"),
	FLAG("human", 0, ON_LS, human, "sizes like 1.5 GiB; also -h beside other letters"),
	FLAG("directory", 'd', ON_LS, directory, "directories themselves, not what is in them"),
	FLAG("tree", 'R', ON_LS, tree, "what is in the directories below, too"),
	FLAG("by-time", 't', ON_LS, by_time, "the newest first"),
	FLAG("by-size", 'S', ON_LS, by_size, "the biggest first"),
	FLAG("reverse", 'r', ON_LS, reverse, "in the other order"),
	FLAG("parts", 0, ON_RM, parts, "unfinished files that no transfer is writing, in directories"),
	FLAG("parents", 'p', ON_MKDIR, parents, "missing parents too; one that exists is right"),
	STRING("alg", "NAME", ON_HASH | IN_CONF, alg, "SHA-256, or what else the server has"),
	NUMBER("time", "TIME", OPT_TIME, ON_BENCH, bench_ns, 100000000, 86400000000000,
	       "how long (10s)"),
	NUMBER("size", "SIZE", OPT_SIZE, ON_BENCH, bench_bytes, 1, 0,
	       "how much, instead of how long"),
	SET("put", ON_BENCH, bench_way, WAY_PUT, "to the server (default)"),
	SET("get", ON_BENCH, bench_way, WAY_GET, "from the server"),
	SET("both", ON_BENCH, bench_way, WAY_BOTH, "both ways at once"),
	{ "crc", 0, "on|off", OPT_BOOL, ON_BENCH, AT(crc), 0, 0, NULL,
	  "off: data is not checked at all" },

	HEADING("Of the shell"),
	{ "batch", 'b', "FILE", OPT_STRING, ON_SHELL, AT(batch), 0, 0, NULL,
	  "run the commands in FILE (- is standard input)" },
	{ "command", 'c', "COMMANDS", OPT_STRING, ON_SHELL, AT(commands), 0, 0, NULL,
	  "run these commands, with ; between them" },
	FLAG("keep-going", 'k', ON_SHELL, keep_going, "go on after a command that fails"),

	HEADING("In general"),
	STRING("config", "FILE", ON_ALL | NOT_IN_SHELL, config,
	       "read FILE instead of the rftp.conf files"),
	FLAG("help", 'h', ON_ALL, help, "this text; with a command: about it"),
	FLAG("version", 'V', ON_ALL | NOT_IN_SHELL, version, "version and what this build can do"),
	{ .name = NULL },
};

_Static_assert(COUNT(table) <= 8 * sizeof(((struct options *)0)->given),
	       "options.given has a bit for each row");

const struct option_def *option_table(void)
{
	return table;
}

const struct option_def *option_find(const char *name, size_t len)
{
	for (size_t i = 0; i < COUNT(table); i++)
		if (table[i].name && strlen(table[i].name) == len &&
		    !memcmp(table[i].name, name, len))
			return &table[i];
	return NULL;
}

const struct option_def *option_letter(char letter, unsigned command)
{
	const struct option_def *other = NULL;

	for (size_t i = 0; letter && i < COUNT(table); i++) {
		if (table[i].letter != letter)
			continue;
		if (table[i].where & command)
			return &table[i];
		other = other ? other : &table[i];
	}
	return other;
}

void options_default(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->prot = PROT_PRIVATE;
	o->ack = ACK_SYNCED;
	o->retries = 5;
	o->connect_timeout = 15000000000;
	o->stall = 30000000000;
	o->crc = true;
}

void options_clear(struct options *o)
{
	for (size_t i = 0; i < COUNT(table); i++)
		if (table[i].name && table[i].type == OPT_STRING)
			free(*(char **)((char *)o + table[i].at));
	memset(o, 0, sizeof(*o));
}

/* ---- one function per type ---- */

static int set_flag(void *at, const struct option_def *def, const char *value, struct err *e)
{
	bool on = true;

	if (value && parse_bool(value, &on))
		return err_set(e, -EINVAL, "\"%s\" is neither yes nor no", printable(value));
	*(bool *)at = on;
	return 0;
}

static int set_number(void *at, const struct option_def *def, const char *value, struct err *e)
{
	bool on = false;
	int rc = set_flag(&on, def, value, e);

	if (rc)
		return rc;
	*(int *)at = on ? (int)def->low : 0;
	return 0;
}

static int set_count(void *at, const struct option_def *def, const char *value, struct err *e)
{
	uint64_t n;
	bool on;

	if (!value) {
		++*(int *)at;
		return 0;
	}
	if (!parse_uint(value, def->low, def->high, &n))
		*(int *)at = (int)n;
	else if (!parse_bool(value, &on))
		*(int *)at = on;
	else
		return err_set(e, -EINVAL, "\"%s\" is not a number up to %llu", printable(value),
			       (unsigned long long)def->high);
	return 0;
}

static int parse_plain(const char *s, uint64_t *v)
{
	return parse_uint(s, 0, UINT64_MAX, v);
}

/* How each kind of number is read, and how it is explained. */
static const struct {
	int (*parse)(const char *s, uint64_t *v);
	const char *what;
} numbers[] = {
	[OPT_UINT] = { parse_plain, "a number" },
	[OPT_SIZE] = { parse_size, "a size like 64K or 1G" },
	[OPT_RATE] = { parse_rate, "a rate like 100M or 10Gbit" },
	[OPT_TIME] = { parse_duration, "a time like 10s or 5m" },
	[OPT_TOS] = { parse_tos, "a number or a class like cs1, af41 or ef" },
};

/* bound as it would be typed: the table's are round, so that nothing is cut off. */
static int out_of_bounds(struct err *e, const struct option_def *def, const char *value,
			 const char *what, uint64_t bound)
{
	static const char units[] = "\0KMGTP";
	unsigned i = 0;

	if (!bound) /* it has overflowed, and the row has no limit of its own */
		return err_set(e, -EINVAL, "%s is too much", printable(value));
	if (def->type == OPT_TIME)
		return err_set(e, -EINVAL, "%s is %s %gs", printable(value), what,
			       (double)bound / 1e9);
	while (def->type == OPT_SIZE && bound % 1024 == 0 && units[i + 1]) {
		bound /= 1024;
		i++;
	}
	return err_set(e, -EINVAL, "%s is %s %llu%.1s", printable(value), what,
		       (unsigned long long)bound, &units[i]);
}

static int set_quantity(void *at, const struct option_def *def, const char *value,
			struct err *e)
{
	uint64_t v;
	int rc = numbers[def->type].parse(value, &v);

	if (rc == -EINVAL)
		return err_set(e, rc, "\"%s\" is not %s", printable(value),
			       numbers[def->type].what);
	if (rc || (def->high && v > def->high))
		return out_of_bounds(e, def, value, "too much, the most is", def->high);
	if (v < def->low)
		return out_of_bounds(e, def, value, "too little, the least is", def->low);
	*(uint64_t *)at = v;
	return 0;
}

static int set_string(void *at, const struct option_def *def, const char *value, struct err *e)
{
	char *copy = strdup(value);

	if (!copy)
		return err_sys(e, -ENOMEM, "\"%s\"", printable(value));
	free(*(char **)at);
	*(char **)at = copy;
	return 0;
}

static int set_choice(void *at, const struct option_def *def, const char *value, struct err *e)
{
	char words[128] = "";

	for (int i = 0; def->choices[i]; i++) {
		if (!strcmp(def->choices[i], value)) {
			*(int *)at = i;
			return 0;
		}
		if (i)
			strcat(words, ", ");
		strcat(words, def->choices[i]);
	}
	return err_set(e, -EINVAL, "\"%s\" is none of %s", printable(value), words);
}

static int (*const setters[])(void *at, const struct option_def *def, const char *value,
			      struct err *e) = {
	[OPT_FLAG] = set_flag,
	[OPT_SET] = set_number,
	[OPT_COUNT] = set_count,
	[OPT_BOOL] = set_flag,
	[OPT_UINT] = set_quantity,
	[OPT_SIZE] = set_quantity,
	[OPT_RATE] = set_quantity,
	[OPT_TIME] = set_quantity,
	[OPT_TOS] = set_quantity,
	[OPT_STRING] = set_string,
	[OPT_CHOICE] = set_choice,
};

int option_set(struct options *o, const struct option_def *def, const char *value,
	       struct err *e)
{
	int rc;

	if (!value && def->arg)
		return err_set(e, -EINVAL, "needs a value");
	rc = setters[def->type]((char *)o + def->at, def, value, e);
	if (rc == 0)
		o->given[(def - table) / 64] |= 1ull << (def - table) % 64;
	return rc;
}

int options_check(const struct options *o, struct err *e)
{
	if (o->transport == USE_RDMA && !strstr(RFTP_FEATURES, "+rdma"))
		return err_set(e, -EINVAL, "--transport rdma: this build has no RDMA transport");
	return 0;
}

bool option_given(const struct options *o, const char *name)
{
	const struct option_def *def = option_find(name, strlen(name));

	assert(def);
	return o->given[(def - table) / 64] >> (def - table) % 64 & 1;
}
