// SPDX-License-Identifier: Apache-2.0
/* The table of rftp's options, and the functions that set options from rftp.conf(5) and the command
 * line. */
#include "client/options.h"

#include "proto/proto.h"
#include "storage/storage.h"
#include "transport/transport.h"

#include <assert.h>
#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>
#include <time.h>

#define SYSTEM_CONF "/etc/rftp.conf"
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
	{ .name = name_, .arg = arg_, .kind = &kind_, .where = ON_COPY | ON_LS | ON_RM | ON_HASH, \
	  AT(filter), .low = include_, .help = help_ }

const struct option_def rftp_options[] = {
	OPTION_HEADING("Selection"),
	FLAG("recursive", 'r', ON_COPY | ON_RM | ON_HASH, recursive, "directories with all their contents"),
	STRING("files-from", 0, "FILE", ON_COPY, files_from,
	       "read the names, one per line, from FILE (- is standard input)"),
	STRING("manifest", 0, "FILE", ON_COPY | ON_FINISH, manifest,
	       "list the copied files with their digests in FILE, as sha256sum does"),
	FLAG("no-glob", 0, ON_GLOB | IN_CONF, no_glob,
	     "* ? and [ in URLs stand for themselves"),
	RULE("exclude", "PATTERN", option_pattern, false,
	     "leave out names that match, as with rsync; the first rule decides"),
	RULE("include", "PATTERN", option_pattern, true, "do not leave out names that match"),
	RULE("filter-from", "FILE", option_filter_file, 0,
	     "read \"- PATTERN\" and \"+ PATTERN\" lines from FILE"),
	NUMBER("max-size", "SIZE", option_size, ON_COPY, filter.size_most, 1, 0,
	       "leave out bigger files"),
	NUMBER("min-size", "SIZE", option_size, ON_COPY, filter.size_least, 0, 0,
	       "leave out smaller files"),
	NUMBER("newer-than", "TIME", option_moment, ON_COPY, filter.newer_s, 0, 0,
	       "leave out files that were not modified since TIME"),
	FLAG("one-file-system", 'x', ON_COPY, filter.one_filesystem,
	     "do not enter other filesystems' directories"),
	FLAG("null", '0', ON_COPY | ON_LS, null, "names in such lists end in NUL, not newline"),
	CONSTANT("overwrite", ON_COPY | IN_CONF, policy, POLICY_OVERWRITE,
		 "replace files that exist (default)"),
	CONSTANT("skip-existing", ON_COPY | IN_CONF, policy, POLICY_SKIP,
		 "leave files that exist alone"),
	CONSTANT("update", ON_COPY | IN_CONF, policy, POLICY_UPDATE,
		 "replace files only when the source is newer"),
	CONSTANT("skip-same", ON_COPY | IN_CONF, policy, POLICY_SAME,
		 "leave files alone that have the same size and time"),
	CONSTANT("checksum", ON_COPY | IN_CONF, policy, POLICY_CHECKSUM,
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
	FLAG("dry-run", 0, ON_COPY | ON_RM, dry_run, "show the actions without taking them"),
	FLAG("inplace", 0, ON_COPY | IN_CONF, inplace,
	     "write straight into the file, not into a part beside it"),
	FLAG("no-resume", 0, ON_COPY | IN_CONF, no_resume,
	     "keep no journal, and do not continue partial files"),
	FLAG("archive", 'a', ON_COPY, archive,
	     "-r, and keep owner, group, attributes and ACLs where permitted"),
	FLAG("owner", 0, ON_COPY | IN_CONF, owner, "keep owner and group, or fail"),
	FLAG("xattrs", 0, ON_COPY | IN_CONF, xattrs, "keep extended attributes and ACLs"),
	FLAG("follow", 0, ON_COPY | IN_CONF, follow, "copy the targets of symbolic links"),
	FLAG("no-times", 0, ON_COPY | IN_CONF, no_times, "do not keep modification times"),
	FLAG("no-modes", 0, ON_COPY | IN_CONF, no_modes, "do not keep permission bits"),

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
	STRING("alg", 0, "NAME", ON_HASH | ON_VERIFY | ON_COPY | IN_CONF, alg,
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

/* ---- files ---- */

#define SECTION_NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define NO_URL "this section needs a line such as \"url = rftp://host/path\""

/* A file that is being read. */
struct conf_source {
	struct conf_reader reader;
	struct options *o;
	struct options other;      /* receives the sections that do not apply, to check them */
	const struct url *server;  /* host NULL: none */
	bool named;                /* only [NAME] sections apply */
	unsigned file;             /* FROM_SECOND, or 0 */
	unsigned no_url;           /* the line of the current [NAME], until its url is read; or 0 */
	const char *wanted;        /* the NAME whose url is wanted; NULL: none */
	struct url found;          /* this url; host NULL: not found */
};

/* In the origin of a value: the file is the second one, the user's own. */
#define FROM_SECOND (1u << 30)

static const char *config_file; /* of --config */

/* The sections that words have named, and their servers. */
static struct {
	char *name;
	struct url url;
} *sections;
static size_t nsections;

static bool section_is_of(const char *name, const struct url *server)
{
	for (size_t i = 0; i < nsections; i++)
		if (!strcmp(sections[i].name, name) && url_same_server(&sections[i].url, server))
			return true;
	return false;
}

static int conf_set_url(struct conf_source *r, const char *name, const char *value, struct err *e)
{
	struct url url;
	int rc = url_parse(value, &url, e);

	if (rc == 0 && !url_is_remote(&url))
		rc = err_set(e, -EINVAL, URL_LOCAL_WHY, printable(value));
	if (rc == 0 && r->wanted && !strcmp(r->wanted, name)) {
		url_clear(&r->found);
		r->found = url;
		return 0;
	}
	url_clear(&url);
	return rc ? err_prefix(e, "url") : 0;
}

static int conf_set_line(void *arg, const char *section, const char *key, const char *value,
			 struct err *e)
{
	struct conf_source *r = arg;
	size_t blanks = strncmp(section, "host", 4) ? 0 : strspn(section + 4, " \t");
	bool host = blanks, named = *section && !host, applies = !r->named;
	struct option_target t;

	if (!key && r->no_url) {
		r->reader.line = r->no_url;
		return err_set(e, -EINVAL, NO_URL);
	}
	if (named && (section[strspn(section, SECTION_NAME)] || strchr("._-", *section) ||
		      !strcmp(section, "host") || !strcmp(section, "zero") ||
		      !strcmp(section, "null")))
		return err_set(e, -EINVAL, "there is no section [%s], only [host PATTERN] and "
			       "[NAME] with a url", printable(section));

	if (!key) {
		r->no_url = named ? r->reader.line : 0;
		return 0;
	}
	if (named && !strcmp(key, "url")) {
		r->no_url = 0;
		return conf_set_url(r, section, value, e);
	}
	if (host)
		applies &= r->server->host && !fnmatch(section + 4 + blanks, r->server->host,
							FNM_CASEFOLD);
	else if (named)
		applies = r->named && section_is_of(section, r->server);
	t = options_target(applies ? r->o : &r->other);
	return option_set_key(&t, key, value, r->reader.line | r->file, e);
}

/* Read file; NULL: both files. */
static int conf_read_files(const char *file, struct conf_source *r, struct err *e)
{
	CLEANUP_FREE char *own = file ? NULL : own_file(OWN_CONFIG, "rftp.conf");
	const char *const files[] = { file ? file : SYSTEM_CONF, own };
	int rc = 0;

	r->reader = (struct conf_reader){ .fn = conf_set_line, .arg = r };
	for (size_t i = 0; rc == 0 && i < 2 && files[i]; i++) {
		options_default(&r->other);
		r->file = i ? FROM_SECOND : 0;
		r->no_url = 0;
		rc = conf_read_with(files[i], &r->reader, e);
		options_clear(&r->other);
		if (rc == -ENOENT && file)
			return err_path(e, rc, file, CANNOT_READ);
		if (rc == 0 && r->no_url)
			return err_set(e, -EINVAL, "%s:%u: " NO_URL, printable(files[i]),
				       r->no_url);
		if (rc == -ENOENT)
			rc = 0;
	}
	return rc;
}

int conf_load(const char *file, const struct url *p, struct options *o, struct err *e)
{
	struct conf_source r = { .o = o, .server = p };
	int rc = conf_read_files(file, &r, e);

	r.named = true;
	return rc || !p->host || !nsections ? rc : conf_read_files(file, &r, e);
}

void conf_use(const struct option_args *a)
{
	const struct setting *config = option_args_last(a, "config");

	config_file = config ? config->value : NULL;
}

/* Find the url of section name. 0 with *url, whose host is NULL if there is no such section; or a
 * negative errno with text. */
static int section_find(const char *name, struct url *url, struct err *e)
{
	static const struct url none;
	struct conf_source r = { .o = &r.other, .server = &none, .wanted = name };
	int rc = conf_read_files(config_file, &r, e);

	if (rc)
		url_clear(&r.found);
	*url = r.found;
	return rc;
}

/* Remember that a word has named a section, whose server is that of url. */
static int section_note(const char *name, const struct url *url, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(name);
	CLEANUP_FREE char *text = url_text(url, "");
	void *more;
	int rc;

	if (section_is_of(name, url))
		return 0;
	more = reallocarray(sections, nsections + 1, sizeof(*sections));
	sections = more ? more : sections;
	if (!copy || !text || !more)
		return err_nomem(e);
	rc = url_parse(text, &sections[nsections].url, e);
	if (rc == 0)
		sections[nsections++].name = steal_ptr(&copy);
	return rc;
}

bool word_names_section(const char *word)
{
	CLEANUP_FREE char *name = strndup(word, strcspn(word, ":"));
	struct err ignored = ERR_INIT;
	struct url url = { 0 };
	bool yes = name && !section_find(name, &url, &ignored) && url.host;

	url_clear(&url);
	return yes;
}

int word_parse(const char *word, struct url *p, struct err *e)
{
	struct url url = { 0 };
	const char *base;
	char *path;
	int rc = url_parse(word, p, e);

	if (rc || p->kind != URL_SSH || p->user || !strncasecmp(word, "ssh://", 6))
		return rc;
	rc = section_find(p->host, &url, e);
	if (rc == 0 && url.host)
		rc = section_note(p->host, &url, e);
	if (rc == 0 && url.host) {
		/* With one slash between the URL and the path; "~" is the home, as in a URL. */
		base = *url.path || url.kind != URL_RFTP ? url.path : "/";
		path = *p->path == '~' ? strdup(p->path) :
		       name_below(base, p->path + (*base ? strspn(p->path, "/") : 0));
		rc = path ? 0 : err_sys(e, -ENOMEM, "%s", printable(word));
		free(url.path);
		url.path = path;
	}
	if (rc == 0 && !url.host)
		return 0;
	url_clear(p);
	if (rc)
		url_clear(&url);
	*p = url;
	return rc;
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

/* ---- the environment ---- */

/* The variable of d: "RFTP_CONNECT_TIMEOUT". */
static const char *env_name(const struct option_def *d, char out[64])
{
	snprintf(out, 64, "RFTP_%s", d->name);
	for (char *c = out + 5; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper(*c);
	return out;
}

/* Set o from the variables of options that a file may have. An empty variable counts as unset. A
 * variable of another option is an error: a user might rely on RFTP_DRY_RUN. */
static int env_load(struct options *o, struct err *e)
{
	const struct option_target t = options_target(o);
	char name[64];

	for (const struct option_def *d = rftp_options; d->name || d->help; d++) {
		const char *value = d->name ? getenv(env_name(d, name)) : NULL;

		if (!value || !*value)
			continue;
		if (d->where & IN_CONF) {
			if (option_set(&t, d, value, OPTION_ENV, e))
				return err_prefix(e, "%s", name);
		} else if (d->where & ON_ALL & ~(unsigned)ON_SHELL &&
			   !(d->where & (OPTION_BARE | NOT_IN_SHELL))) {
			return err_set(e, -EINVAL, "%s: --%s is for the command line only", name,
				       d->name);
		}
	}
	return 0;
}

void options_show(FILE *out, const struct option_args *a, const struct options *o)
{
	const struct setting *config = option_args_last(a, "config");
	CLEANUP_FREE char *own = own_file(OWN_CONFIG, "rftp.conf");
	char name[64], source[PATH_MAX + 32];

	for (const struct option_def *d = rftp_options; d->name || d->help; d++) {
		unsigned from = o->from[d - rftp_options];
		const char *file = config ? config->value : own && from & FROM_SECOND ? own :
				   SYSTEM_CONF;

		if (!from || !(d->where & IN_CONF))
			continue;
		snprintf(source, sizeof(source), "%s:%u", printable(file), from & ~FROM_SECOND);
		option_show(out, o, d, from == OPTION_ARGV ? "command line" :
			    from == OPTION_ENV ? env_name(d, name) : source);
	}
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

int options_load(const struct option_args *a, const struct url *p, const struct options *first,
		 struct options *o, struct err *e)
{
	const struct setting *config = option_args_last(a, "config");
	const struct option_target t = options_target(o);
	int rc;

	options_default(o);
	if (first && filter_copy(&o->filter, &first->filter))
		return err_nomem(e);
	o->filter.fixed = first;
	rc = conf_load(config ? config->value : NULL, p, o, e);
	if (rc == 0)
		rc = env_load(o, e);
	if (rc == 0)
		rc = option_args_set(a, &t, e);
	o->recursive |= o->archive;
	if (first && first->sync)
		options_sync(o);
	if (rc)
		options_clear(o);
	return rc;
}
