// SPDX-License-Identifier: Apache-2.0
/* The table of rftp's options, and the functions that parse them on the command line. */
#include "client/options.h"

#include "proto/proto.h"
#include "storage/storage.h"
#include "transport/transport.h"

#include <assert.h>
#include <time.h>

#define SECOND 1000000000ull
#define HOUR (3600 * SECOND)

/* The words of choices. The index of a word is the value of the enum. */
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

#define AT(member) .at = offsetof(struct options, member)
#define IN_CONF OPTION_IN_FILE

#define FLAG(name_, letter_, where_, member, help_)                                         \
	{ .name = name_, .letter = letter_, .kind = &option_flag, .where = where_,          \
	  AT(member), .help = help_ }
#define CONSTANT(name_, where_, member, value, help_)                                       \
	{ .name = name_, .kind = &option_constant, .where = where_, AT(member),             \
	  .low = value, .help = help_ }
#define CHOICE(name_, words_, where_, member, help_)                                        \
	{ .name = name_, .arg = "WORD", .kind = &option_choice, .where = where_, AT(member), \
	  .words = words_, .help = help_ }
#define NUMBER(name_, arg_, kind_, where_, member, low_, high_, help_)                      \
	{ .name = name_, .arg = arg_, .kind = &kind_, .where = where_, AT(member),          \
	  .low = low_, .high = high_, .help = help_ }
#define STRING(name_, letter_, arg_, where_, member, help_)                                 \
	{ .name = name_, .letter = letter_, .arg = arg_, .kind = &option_string,            \
	  .where = (where_) | OPTION_MAY_BE_EMPTY, AT(member), .help = help_ }

/* The rows of a filter's rules share the member filter, because their order counts. */
static int set_pattern(void *at, const struct option_def *d, const char *value, struct err *e)
{
	return ((struct filter *)at)->fixed ? 0 : filter_add_text(at, d->low, value, e);
}

static int set_filter_file(void *at, const struct option_def *d, const char *value, struct err *e)
{
	return ((struct filter *)at)->fixed ? 0 : filter_read(at, value, e);
}

static void clear_filter(void *at)
{
	filter_clear(at);
}

static int set_moment(void *at, const struct option_def *d, const char *value, struct err *e)
{
	return parse_moment(value, time(NULL), at) ?
	       err_set(e, -EINVAL, "must be a time, like 2026-01-31 or \"2026-01-31 12:00\", or an "
		       "age, like 36h or 7d, not \"%s\"", printable(value)) : 0;
}

static const struct option_kind option_pattern = { set_pattern, NULL, clear_filter };
static const struct option_kind option_filter_file = { set_filter_file, NULL, clear_filter };
static const struct option_kind option_moment = { set_moment, NULL, NULL };

#define RULE(name_, arg_, kind_, include_, help_)                                           \
	{ .name = name_, .arg = arg_, .kind = &kind_,                                       \
	  .where = ON_COPY | ON_LS | ON_RM | ON_HASH | OF_PLAN, AT(filter),                 \
	  .low = include_, .help = help_ }

const struct option_def rftp_options[] = {
	OPTION_HEADING("Selection"),
	FLAG("recursive", 'r', ON_COPY | ON_RM | ON_HASH | OF_PLAN, recursive,
	     "directories with all their contents"),
	STRING("files-from", 0, "FILE", ON_COPY | OF_PLAN, files_from,
	       "read the names, one per line, from FILE (- is standard input)"),
	STRING("manifest", 0, "FILE", ON_COPY | ON_FINISH | OF_PLAN, manifest,
	       "list the copied files with their digests in FILE, as sha256sum does"),
	FLAG("no-glob", 0, ON_GLOB | IN_CONF, no_glob,
	     "* ? and [ in URLs stand for themselves"),
	RULE("exclude", "PATTERN", option_pattern, false,
	     "leave out names that match, as with rsync; the first rule decides"),
	RULE("include", "PATTERN", option_pattern, true, "do not leave out names that match"),
	RULE("filter-from", "FILE", option_filter_file, 0,
	     "read \"- PATTERN\" and \"+ PATTERN\" lines from FILE"),
	NUMBER("max-size", "SIZE", option_size, ON_COPY | OF_PLAN, filter.size_most, 1, 0,
	       "leave out bigger files"),
	NUMBER("min-size", "SIZE", option_size, ON_COPY | OF_PLAN, filter.size_least, 0, 0,
	       "leave out smaller files"),
	NUMBER("newer-than", "TIME", option_moment, ON_COPY | OF_PLAN, filter.newer_s, 0, 0,
	       "leave out files that were not modified since TIME"),
	FLAG("one-file-system", 'x', ON_COPY | OF_PLAN, filter.one_filesystem,
	     "do not enter other filesystems' directories"),
	FLAG("null", '0', ON_COPY | ON_LS | OF_PLAN, null,
	     "names in such lists end in NUL, not newline"),
	CONSTANT("overwrite", ON_COPY | IN_CONF | OF_PLAN, policy, POLICY_OVERWRITE,
		 "replace files that exist (default)"),
	CONSTANT("skip-existing", ON_COPY | IN_CONF | OF_PLAN, policy, POLICY_SKIP,
		 "leave files that exist alone"),
	CONSTANT("update", ON_COPY | IN_CONF | OF_PLAN, policy, POLICY_UPDATE,
		 "replace files only when the source is newer"),
	CONSTANT("skip-same", ON_COPY | IN_CONF | OF_PLAN, policy, POLICY_SAME,
		 "leave files alone that have the same size and time"),
	CONSTANT("checksum", ON_COPY | IN_CONF | OF_PLAN, policy, POLICY_CHECKSUM,
		 "leave files alone that have the same size and digest"),
	FLAG("delete", 0, ON_SYNC | ON_PLAN, delete,
	     "remove names that the source does not have, after all else went well"),
	FLAG("delete-excluded", 0, ON_SYNC | ON_PLAN, delete_excluded,
	     "with --delete: names that the rules leave out, too"),
	NUMBER("max-delete", "N", option_number, ON_SYNC | ON_PLAN | IN_CONF, max_delete, 0,
	       UINT32_MAX, "remove nothing if it were more than N names"),
	STRING("trash", 0, "DIR", ON_SYNC | ON_PLAN | IN_CONF, trash,
	       "move removed names there, at the destination"),
	FLAG("force", 0, ON_SYNC | ON_PLAN, force,
	     "--delete also for an empty source, or after a failure"),
	FLAG("incomplete", 0, ON_FINISH, incomplete,
	     "although items are missing: copy them from here"),
	NUMBER("shards", "N", option_number, ON_PLAN, shards, 1, 1000,
	       "the number of lists to write"),
	STRING("out", 0, "DIR", ON_PLAN, out, "a new directory for the lists"),
	NUMBER("file-cost", "SIZE", option_size, ON_PLAN | IN_CONF, file_cost, 1, 1 << 30,
	       "the bytes that take as long as the creation of a file (128K)"),
	STRING("shard-list", 0, "FILE", ON_PUT | ON_GET, shard_list,
	       "copy the files and ranges in FILE, a list of plan-shards"),
	FLAG("dry-run", 0, ON_COPY | ON_RM | OF_PLAN, dry_run,
	     "show the actions without taking them"),
	FLAG("inplace", 0, ON_COPY | IN_CONF | OF_PLAN, inplace,
	     "write straight into the file, not into a part beside it"),
	FLAG("no-resume", 0, ON_COPY | IN_CONF, no_resume,
	     "keep no journal, and do not continue partial files"),
	FLAG("archive", 'a', ON_COPY | OF_PLAN, archive,
	     "-r, and keep owner, group, attributes and ACLs where permitted"),
	FLAG("owner", 0, ON_COPY | IN_CONF | OF_PLAN, owner, "keep owner and group, or fail"),
	FLAG("xattrs", 0, ON_COPY | IN_CONF | OF_PLAN, xattrs, "keep extended attributes and ACLs"),
	FLAG("follow", 0, ON_COPY | IN_CONF | OF_PLAN, follow,
	     "copy the targets of symbolic links"),
	FLAG("no-times", 0, ON_COPY | IN_CONF | OF_PLAN, no_times,
	     "do not keep modification times"),
	FLAG("no-modes", 0, ON_COPY | IN_CONF | OF_PLAN, no_modes, "do not keep permission bits"),

	OPTION_HEADING("Transfer options"),
	CHOICE("transport", transports, ON_WIRE | IN_CONF, transport,
	       "transport of the data (auto)"),
	CHOICE("op", ops, ON_WIRE | IN_CONF, op, "RDMA operation (auto)"),
	STRING("nic", 0, "LIST", ON_BULK | IN_CONF, nic, "network devices to use, with commas"),
	NUMBER("channels", "N", option_number, ON_WIRE | IN_CONF, channels, 1, CHANNELS_MAX,
	       "streams or queue pairs per network device"),
	NUMBER("block", "SIZE", option_size, ON_WIRE | IN_CONF, block, 64 << 10, 64 << 20,
	       "bytes of data per block, 64K to 64M"),
	NUMBER("inflight", "N", option_number, ON_WIRE | IN_CONF, inflight, 2, 65536,
	       "blocks in flight at once"),
	CHOICE("poll", polls, ON_BULK | IN_CONF, poll,
	       "poll for RDMA completions before sleeping (auto)"),
	NUMBER("tos", "N", option_tos, ON_BULK | IN_CONF, tos, 0, 255,
	       "type of service of data: 0 to 255, or cs1, af41, ef"),
	STRING("congestion", 0, "NAME", ON_BULK | IN_CONF, congestion,
	       "TCP congestion control, by its name in the kernel"),
	STRING("numa", 0, "WHERE", ON_BULK | IN_CONF, numa,
	       "nodes of memory and threads: auto, off, node:N, nic, storage"),
	NUMBER("numa-balance", "PERCENT", option_number, ON_BULK | IN_CONF, balance, 1, 100,
	       "use all nodes when one's links are this much busier (60)"),
	NUMBER("numa-interval", "TIME", option_time, ON_BULK | IN_CONF, balance_ns, SECOND / 10,
	       HOUR, "time between two such comparisons (5s)"),
	CHOICE("pin", pins, ON_BULK | IN_CONF, pin,
	       "threads may run on any CPU of their node, or have one each (node)"),
	STRING("nic-node", 0, "LIST", ON_BULK | IN_CONF, nic_node,
	       "the nodes of network devices, as in eth0=1,eth1=any"),
	CHOICE("hugepages", hugepages, ON_BULK | IN_CONF, hugepages,
	       "put blocks in reserved huge pages (auto)"),
	CHOICE("io", ios, ON_BULK | IN_CONF, io, "interface to read and write files (auto)"),
	CHOICE("direct", directs, ON_BULK | IN_CONF, direct,
	       "direct I/O past the page cache (auto)"),
	CHOICE("sort", sorts, ON_PUT | ON_SYNC | IN_CONF, sort,
	       "read files in the order of their places on the disk (auto)"),
	CHOICE("prot", prots, ON_ALL | IN_CONF, prot,
	       "protection of the data on the wire (private)"),
	CHOICE("ack", acks, ON_WIRE | IN_CONF, ack,
	       "state in which a file counts as done (synced)"),
	NUMBER("rate", "RATE", option_rate, ON_WIRE | IN_CONF, rate, 0, 0,
	       "at most this, like 100M (bytes) or 10Gbit per second"),
	NUMBER("retries", "N", option_number, ON_COPY | IN_CONF, retries, 0, 1000000,
	       "reconnect up to N times when the connection is lost (5)"),
	NUMBER("readers", "N", option_number, ON_BULK | IN_CONF, readers, 0, 64,
	       "threads that read files"),
	NUMBER("writers", "N", option_number, ON_BULK | IN_CONF, writers, 0, 64,
	       "threads that write files"),
	NUMBER("memory", "SIZE", option_size, ON_BULK | IN_CONF, memory, 1 << 20, 0,
	       "memory for blocks (a quarter of the available, at most 4G)"),

	OPTION_HEADING("Server and login"),
	STRING("known-hosts", 0, "FILE", ON_ALL | IN_CONF, known_hosts,
	       "the keys of known servers"),
	FLAG("accept-new", 0, ON_ALL | IN_CONF, accept_new,
	     "trust the key of a server that is not known yet"),
	STRING("ca", 0, "FILE", ON_ALL | IN_CONF, ca,
	       "check the server's certificate against the CA in FILE"),
	STRING("cert", 0, "FILE", ON_ALL | IN_CONF, cert, "client certificate, to log in with"),
	STRING("key", 0, "FILE", ON_ALL | IN_CONF, key, "the key of --cert (in the same file)"),
	FLAG("plain", 0, ON_ALL | IN_CONF, plain, "without TLS; no password is sent"),
	FLAG("plain-password", 0, ON_ALL | IN_CONF, plain_password,
	     "with --plain, send the password in clear"),
	STRING("netrc", 0, "FILE", ON_ALL | IN_CONF, netrc, "users and passwords (~/.netrc)"),
	NUMBER("connect-timeout", "TIME", option_time, ON_ALL | IN_CONF, connect_timeout,
	       SECOND / 10, HOUR, "give up connecting after this (15s)"),
	NUMBER("stall", "TIME", option_time, ON_ALL | IN_CONF, stall, SECOND, HOUR,
	       "give up a data channel without progress after this (30s)"),
	STRING("ssh", 0, "COMMAND", ON_ALL | IN_CONF, ssh, "for host:path (ssh)"),
	STRING("rftpd-path", 0, "PATH", ON_ALL | IN_CONF, rftpd_path,
	       "the server's program at host:path (rftpd)"),

	OPTION_HEADING("Output"),
	{ .name = "progress", .arg = "WORD", .kind = &option_choice,
	  .where = ON_WIRE | ON_HASH | ON_VERIFY | IN_CONF, AT(progress), .words = progresses,
	  .bare = "always", .help = "show progress (auto)" },
	FLAG("stats", 0, ON_COPY | IN_CONF, stats,
	     "all counters at the end: stages, channels, processor time"),
	STRING("log-file", 0, "FILE", ON_ALL | IN_CONF, log_file,
	       "append the log to FILE, each file and the summary, too"),
	FLAG("json", 0, ON_ALL | IN_CONF, json, "one JSON object per line on standard output"),
	FLAG("quiet", 'q', ON_ALL | IN_CONF, quiet, "errors only"),
	{ .name = "verbose", .letter = 'v', .kind = &option_count,
	  .where = ON_ALL | IN_CONF | OPTION_LIST, AT(verbose), .high = 3,
	  .help = "each file and the chosen settings; twice: more" },

	OPTION_HEADING("Command-specific options"),
	FLAG("long", 'l', ON_LS, longer, "mode, owner, size and time with each name (default)"),
	FLAG("names", '1', ON_LS, names, "names only, one per line"),
	FLAG("slash", 'p', ON_LS, slash, "a slash behind the names of directories"),
	FLAG("all", 'a', ON_LS, all, "names that begin with a dot, too: they are always shown"),
	FLAG("human", 0, ON_LS, human, "sizes like 1.5 GiB; also -h among other letters, as -lh"),
	FLAG("directory", 'd', ON_LS, directory, "directories themselves, not their contents"),
	FLAG("tree", 'R', ON_LS, tree, "the contents of all directories below, too"),
	FLAG("by-time", 't', ON_LS, by_time, "the newest first"),
	FLAG("by-size", 'S', ON_LS, by_size, "the biggest first"),
	FLAG("reverse", 'r', ON_LS, reverse, "in reverse order"),
	FLAG("parts", 0, ON_RM, parts,
	     "unfinished files that no transfer is writing, in directories"),
	FLAG("parents", 'p', ON_MKDIR, parents,
	     "missing parents too; an existing directory is not an error"),
	STRING("alg", 0, "NAME", ON_HASH | ON_VERIFY | ON_COPY | IN_CONF | OF_PLAN, alg,
	       "of digests: SHA-256, XXH128, MD5, CRC32C, Adler-32, SHA-1, SHA-512"),
	NUMBER("time", "TIME", option_time, ON_BENCH | ON_DOCTOR, bench_ns, SECOND / 10, 24 * HOUR,
	       "duration (10s); of each measurement of doctor (1s)"),
	NUMBER("size", "SIZE", option_size, ON_BENCH, bench_bytes, 1, 0,
	       "amount of data, instead of a duration"),
	CONSTANT("put", ON_BENCH, bench_way, WAY_PUT, "to the server (default)"),
	CONSTANT("get", ON_BENCH, bench_way, WAY_GET, "from the server"),
	CONSTANT("both", ON_BENCH, bench_way, WAY_BOTH, "both ways at once"),
	{ .name = "crc", .arg = "on|off", .kind = &option_flag, .where = ON_BENCH, AT(crc),
	  .help = "off: data is not checked at all" },

	OPTION_HEADING("Shell options"),
	STRING("batch", 'b', "FILE", ON_SHELL, batch,
	       "run the commands in FILE (- is standard input)"),
	STRING("command", 'c', "COMMANDS", ON_SHELL, commands,
	       "run these commands, with ; between them"),
	FLAG("keep-going", 'k', ON_SHELL, keep_going, "continue after a command that fails"),

	OPTION_HEADING("General options"),
	STRING("config", 0, "FILE", ON_ALL | NOT_IN_SHELL, config,
	       "read FILE instead of the rftp.conf files"),
	{ .name = "show-config", .kind = &option_nothing,
	  .where = ON_ALL | NOT_IN_SHELL | OPTION_BARE,
	  .help = "print the settings that are not defaults, and their sources" },
	{ .name = "help", .letter = 'h', .kind = &option_nothing, .where = ON_ALL | OPTION_BARE,
	  .help = "this help; with a command: that command's help" },
	{ .name = "version", .letter = 'V', .kind = &option_nothing,
	  .where = ON_ALL | NOT_IN_SHELL | OPTION_BARE,
	  .help = "version and features of this build" },
	OPTION_END,
};

_Static_assert(sizeof(rftp_options) / sizeof(rftp_options[0]) <= OPTION_ROWS_MAX,
	       "options.from has a member for each row");

/* ---- values ---- */

void options_default(struct options *o)
{
	*o = (struct options){
		.prot = PROT_PRIVATE, .ack = ACK_SYNCED, .retries = 5, .tos = -1,
		.connect_timeout = 15 * SECOND, .stall = 30 * SECOND, .crc = true,
		.max_delete = UINT32_MAX,
	};
}

void options_clear(struct options *o)
{
	option_clear(rftp_options, o);
	memset(o, 0, sizeof(*o));
}

struct option_target options_target(struct options *o)
{
	return (struct option_target){ rftp_options, o, o->from };
}

bool option_given(const struct options *o, const char *name)
{
	const struct option_def *d = option_find(rftp_options, name);

	assert(d);
	return o->from[d - rftp_options];
}

char *own_file(const char *xdg, const char *dir, const char *name)
{
	const char *base = getenv(xdg), *home = getenv("HOME");
	char *path = NULL;
	int n = -1;

	if (base && *base == '/')
		n = asprintf(&path, "%s/rftp/%s", base, name);
	else if (home && *home)
		n = asprintf(&path, "%s/%s/rftp/%s", home, dir, name);
	return n < 0 ? NULL : path;
}

/* ---- the command line ---- */

/* Options that users know from rsync, scp and rclone. */
#define IS_DEFAULT "rftp does that by default"
#define NO_SUCH_MODE "rftp has nothing like it"
static const struct option_hint hints[] = {
	{ "--acls", "use --xattrs or -a" },
	{ "--append", "interrupted transfers resume by default" },
	{ "--backup-dir", "use --trash" },
	{ "--bwlimit", "use --rate" },
	{ "--checkers", "use --readers" },
	{ "--chmod", NO_SUCH_MODE },
	{ "--compress", "rftp does not compress data" },
	{ "--copy-links", "use --follow" },
	{ "--delete", "rftp sync --delete removes names that the source does not have" },
	{ "--delete-after", "--delete of rftp sync removes names at the end" },
	{ "--delete-before", "--delete of rftp sync removes names at the end" },
	{ "--delete-during", "--delete of rftp sync removes names at the end" },
	{ "--exclude-from", "use --filter-from, with lines \"- PATTERN\"" },
	{ "--existing", NO_SUCH_MODE },
	{ "--filter", "use --exclude, --include or --filter-from" },
	{ "--group", "use --owner" },
	{ "--hard-links", IS_DEFAULT },
	{ "--human-readable", IS_DEFAULT },
	{ "--ignore-existing", "use --skip-existing" },
	{ "--ignore-times", "use --overwrite" },
	{ "--include-from", "use --filter-from, with lines \"+ PATTERN\"" },
	{ "--info", "use -v or --stats" },
	{ "--interactive", "--dry-run shows the actions" },
	{ "--itemize-changes", "use -v or --dry-run" },
	{ "--link-dest", NO_SUCH_MODE },
	{ "--limit-rate", "use --rate" },
	{ "--links", IS_DEFAULT },
	{ "--log-level", "use -v or -q" },
	{ "--max-age", "use --newer-than" },
	{ "--numeric-ids", IS_DEFAULT },
	{ "--partial", "interrupted transfers resume by default" },
	{ "--partial-dir", "interrupted transfers resume by default" },
	{ "--password-file", "use --netrc" },
	{ "--perms", IS_DEFAULT },
	{ "--port", "write rftp://HOST:PORT/PATH" },
	{ "--remove-source-files", "copy, then remove them with rm or rftp rm" },
	{ "--rsync-path", "use --rftpd-path" },
	{ "--size-only", "use --skip-same or --checksum" },
	{ "--sparse", IS_DEFAULT },
	{ "--timeout", "use --stall or --connect-timeout" },
	{ "--times", IS_DEFAULT },
	{ "--transfers", "use --readers and --channels" },
	{ "--whole-file", IS_DEFAULT },
	{ "-4", "name the host by its address" },
	{ "-6", "name the host by its address" },
	{ "-A", "use --xattrs or -a" },
	{ "-C", "rftp does not compress data" },
	{ "-D", "rftp does not copy devices" },
	{ "-H", IS_DEFAULT },
	{ "-L", "use --follow" },
	{ "-P", "rftp shows progress and resumes by default" },
	{ "-R", "use --files-from to keep paths" },
	{ "-S", IS_DEFAULT },
	{ "-W", IS_DEFAULT },
	{ "-X", "use --xattrs or -a" },
	{ "-c", "use --checksum" },
	{ "-e", "host:path uses ssh; --ssh names another command" },
	{ "-f", "rftp never asks before it removes or replaces" },
	{ "-g", "use --owner" },
	{ "-i", "use -v or --dry-run" },
	{ "-l", "--rate limits the rate" },
	{ "-n", "use --dry-run" },
	{ "-o", "use --owner" },
	{ "-p", "rftp keeps times and modes by default" },
	{ "-t", IS_DEFAULT },
	{ "-u", "use --update" },
	{ "-z", "rftp does not compress data" },
	{ NULL, NULL },
};

const char *options_advice(const struct setting *s, unsigned command)
{
	return command & ON_COPY ? option_advice(hints, setting_text(s)) : NULL;
}

int options_parse(struct option_args *a, int argc, char **argv, struct err *e)
{
	static const struct option_syntax syntax = { .rows = rftp_options, .hints = hints,
						.help = "rftp --help" };
	int rc = option_parse(a, &syntax, argc, argv, e);

	if (rc)
		option_args_clear(a);
	return rc;
}

void options_settle(struct option_args *a, unsigned command)
{
	for (int i = 0; i < a->nsettings; i++) {
		struct setting *s = &a->settings[i];

		/* -h alone means --help; within a cluster such as "ls -lh" it means --human. */
		if (s->letter == 'h' && s->clustered && command == ON_LS)
			s->def = option_find(rftp_options, "human");
		else if (s->letter)
			s->def = option_letter(rftp_options, s->letter, command);
	}
}

void options_sync(struct options *o)
{
	static const char *const policies[] = {
		"overwrite", "skip-existing", "update", "skip-same", "checksum",
	};
	bool given = false;

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++)
		given |= option_given(o, policies[i]);
	if (!given)
		o->policy = POLICY_SAME;
	o->sync = o->recursive = true;
}
