// SPDX-License-Identifier: Apache-2.0
/* rftpd's command line, from a table. */
#include "server/options.h"
#include "proto/proto.h"

#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_MIN (1u << 20)
#define BALANCE_NS_MIN 100000000u
#define BALANCE_NS_MAX 3600000000000u

struct option_def {
	const char *name;
	char letter;       /* 0: none */
	const char *arg;   /* what --help calls it; NULL: none */
	int (*set)(struct srv_options *o, const char *value, struct err *e);
	const char *help;
};

/* ---- setting ---- */

static int numeric_family(const char *addr)
{
	uint8_t bytes[16];

	if (inet_pton(AF_INET, addr, bytes) == 1)
		return AF_INET;
	return strchr(addr, ':') ? AF_INET6 : -1;
}

/* "ADDR:PORT" or "[ADDR]:PORT" into its halves. */
static int split_address(const char *value, struct listen_addr *l)
{
	const char *colon = strrchr(value, ':');
	const char *addr = value;
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
	return numeric_family(l->addr) < 0 || (addr == value && strchr(l->addr, ':')) ? -EINVAL : 0;
}

static int set_listen(struct srv_options *o, const char *value, struct err *e)
{
	if (o->nlisten == LISTEN_MAX)
		return err_set(e, -EINVAL, "more than %d addresses", LISTEN_MAX);
	if (split_address(value, &o->listen[o->nlisten]) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not ADDR:PORT with a numeric address, as in "
			       "0.0.0.0:7321 or [::]:7321", printable(value));
	o->nlisten++;
	return 0;
}

static int set_data_ports(struct srv_options *o, const char *value, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(value);
	char *dash = copy ? strchr(copy, '-') : NULL;
	uint64_t lo, hi;

	if (dash)
		*dash = '\0';
	if (!dash || parse_uint(copy, 1, UINT16_MAX, &lo) < 0 ||
	    parse_uint(dash + 1, lo, UINT16_MAX, &hi) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a range of ports, as in 50000-50100",
			       printable(value));
	o->port_lo = (uint16_t)lo;
	o->port_hi = (uint16_t)hi;
	return 0;
}

static int set_anonymous(struct srv_options *o, const char *value, struct err *e)
{
	if (strcmp(value, "ro") && strcmp(value, "rw"))
		return err_set(e, -EINVAL, "\"%s\" is neither ro nor rw", printable(value));
	o->anonymous = value[1] == 'o' ? ANONYMOUS_RO : ANONYMOUS_RW;
	return 0;
}

static int set_prot_min(struct srv_options *o, const char *value, struct err *e)
{
	if (prot_parse(value, &o->prot_min) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not clear, safe or private",
			       printable(value));
	return 0;
}

static int set_memory(struct srv_options *o, const char *value, struct err *e)
{
	if (parse_size(value, &o->memory) < 0)
		return err_set(e, -EINVAL, "\"%s\" is not a size, as in 512M", printable(value));
	/* As rftp has it: with less no transfer can be agreed on. */
	if (o->memory < MEMORY_MIN)
		return err_set(e, -EINVAL, "%s is too little, the least is 1M", printable(value));
	return 0;
}

/* Which of words, which end in NULL, value is: *choice; text names them all. */
static int set_word(unsigned *choice, const char *const *words, const char *text,
		    const char *value, struct err *e)
{
	for (*choice = 0; words[*choice]; ++*choice)
		if (!strcmp(words[*choice], value))
			return 0;
	return err_set(e, -EINVAL, "\"%s\" is not %s", printable(value), text);
}

static int set_user(struct srv_options *o, const char *value, struct err *e)
{
	o->user = value;
	return 0;
}

static int set_files_user(struct srv_options *o, const char *value, struct err *e)
{
	o->files_user = value;
	return 0;
}

static int set_one_process(struct srv_options *o, const char *value, struct err *e)
{
	o->one_process = true;
	return 0;
}

static int set_poll(struct srv_options *o, const char *value, struct err *e)
{
	static const char *const words[] = {
		[POLL_AUTO] = "auto", [POLL_ALWAYS] = "always", [POLL_NEVER] = "never", NULL,
	};
	unsigned i;
	int r = set_word(&i, words, "auto, always or never", value, e);

	if (!r)
		o->poll = (enum poll_mode)i;
	return r;
}

static int set_third_party(struct srv_options *o, const char *value, struct err *e)
{
	static const char *const words[] = {
		[THIRD_PARTY_USERS] = "users", [THIRD_PARTY_ALL] = "all",
		[THIRD_PARTY_OFF] = "off", NULL,
	};
	unsigned i;
	int r = set_word(&i, words, "users, all or off", value, e);

	if (!r)
		o->third_party = (enum third_party)i;
	return r;
}

static int set_numa(struct srv_options *o, const char *value, struct err *e)
{
	int r = place_wish_parse(&o->place, value, e);

	return r ? r : place_wish_check(&o->place, e);
}

static int set_nic_node(struct srv_options *o, const char *value, struct err *e)
{
	o->place.nics = value;
	return place_wish_check(&o->place, e);
}

static int set_numa_balance(struct srv_options *o, const char *value, struct err *e)
{
	uint64_t percent;

	if (parse_uint(value, 1, 100, &percent))
		return err_set(e, -EINVAL, "\"%s\" is not a number from 1 to 100",
			       printable(value));
	o->balance_percent = (unsigned)percent;
	return 0;
}

static int set_numa_interval(struct srv_options *o, const char *value, struct err *e)
{
	if (parse_duration(value, &o->balance_ns) || o->balance_ns < BALANCE_NS_MIN ||
	    o->balance_ns > BALANCE_NS_MAX)
		return err_set(e, -EINVAL, "\"%s\" is not a time from 100ms to 1h, as in 5s",
			       printable(value));
	return 0;
}

static int set_pin(struct srv_options *o, const char *value, struct err *e)
{
	static const char *const words[] = { "node", "cores", NULL };
	unsigned i;
	int r = set_word(&i, words, "node or cores", value, e);

	o->place.cores = !r && i;
	return r;
}

static int set_hugepages(struct srv_options *o, const char *value, struct err *e)
{
	static const char *const words[] = { "auto", "on", "off", NULL };
	static const enum page_choice pages[] = { PAGES_AUTO, PAGES_HUGE, PAGES_SMALL };
	unsigned i;
	int r = set_word(&i, words, "auto, on or off", value, e);

	if (!r)
		o->pages = pages[i];
	return r;
}

static int set_tos(struct srv_options *o, const char *value, struct err *e)
{
	uint64_t tos;

	if (parse_tos(value, &tos) < 0)
		return err_set(e, -EINVAL, "\"%s\" is neither a number from 0 to 255 nor a class "
			       "like cs1, af41 or ef", printable(value));
	o->tos = (int)tos;
	return 0;
}

#define SET_STRING(member)                                                                  \
	static int set_##member(struct srv_options *o, const char *value, struct err *e)    \
	{                                                                                   \
		o->member = value;                                                          \
		return *value ? 0 : err_set(e, -EINVAL, "it is empty");                     \
	}
SET_STRING(root)
SET_STRING(users)
SET_STRING(state)
SET_STRING(port_file)
SET_STRING(nic)

#define SET_FLAG(member, value_)                                                            \
	static int set_##member(struct srv_options *o, const char *value, struct err *e)    \
	{                                                                                   \
		o->member = value_;                                                         \
		return 0;                                                                   \
	}
SET_FLAG(foreground, true)
SET_FLAG(stdio, true)
SET_FLAG(plain, true)
SET_FLAG(active, true)
SET_FLAG(hash_password, true)
SET_FLAG(version, true)
SET_FLAG(help, true)

static int set_verbose(struct srv_options *o, const char *value, struct err *e)
{
	o->verbosity = 1;
	return 0;
}

static int set_quiet(struct srv_options *o, const char *value, struct err *e)
{
	o->verbosity = -1;
	return 0;
}

/* rftpd(8) has the same options in the same order. */
static const struct option_def options[] = {
	{ "listen", 'l', "ADDR:PORT", set_listen,
	  "listen there; may be given again; port 0: any (0.0.0.0:7321 and [::]:7321)" },
	{ "root", 'r', "DIR", set_root, "nothing outside of DIR can be reached" },
	{ "anonymous", 'a', "ro|rw", set_anonymous,
	  "let anonymous in, to read (ro) or to write as well (rw)" },
	{ "users", 'u', "FILE", set_users, "users and their passwords; see rftpd(8)" },
	{ "state", 's', "DIR", set_state,
	  "where the certificate is kept ($XDG_STATE_HOME/rftpd; /var/lib/rftpd for root)" },
	{ "data-ports", 'd', "LO-HI", set_data_ports, "ports of data connections (any)" },
	{ "port-file", 0, "FILE", set_port_file,
	  "write the ports that are listened on to FILE, one per line" },
	{ "prot-min", 0, "clear|safe|private", set_prot_min,
	  "refuse data that is protected less (clear)" },
	{ "third-party", 0, "users|all|off", set_third_party,
	  "who may copy from here to another server: also anonymous (all), or nobody (users)" },
	{ "memory", 'm', "SIZE", set_memory, "memory for the blocks of a transfer (chosen)" },
	{ "nic", 0, "LIST", set_nic, "network cards for data, with commas" },
	{ "poll", 0, "auto|always|never", set_poll,
	  "look for RDMA's completions awake before sleeping (auto)" },
	{ "numa", 0, "WHERE", set_numa,
	  "nodes of memory and threads: auto, off, node:N, nic, storage" },
	{ "numa-balance", 0, "PERCENT", set_numa_balance,
	  "use all nodes' paths when one's are so much fuller (60)" },
	{ "numa-interval", 0, "TIME", set_numa_interval, "look for that so often (5s)" },
	{ "pin", 0, "node|cores", set_pin,
	  "threads may run on any CPU of their node, or have one each (node)" },
	{ "nic-node", 0, "LIST", set_nic_node,
	  "the nodes of network cards, as in eth0=1,eth1=any" },
	{ "hugepages", 0, "auto|on|off", set_hugepages,
	  "blocks in huge pages that were set aside (auto)" },
	{ "tos", 0, "N", set_tos,
	  "type of service of data: 0 to 255, or cs1, af41, ef" },
	{ "plain", 0, NULL, set_plain, "allow logins without TLS" },
	{ "active", 0, NULL, set_active,
	  "let FTP clients have data connections made to them (PORT, EPRT)" },
	{ "user", 0, "NAME", set_user,
	  "run by root: as whom strangers are talked to (rftpd, else nobody)" },
	{ "files-user", 0, "NAME", set_files_user,
	  "run by root: as whom those are served who are no system user (ftp)" },
	{ "one-process", 0, NULL, set_one_process,
	  "run by root: no process with fewer rights for a connection" },
	{ "foreground", 'f', NULL, set_foreground, "do not detach (it never does, for now)" },
	{ "stdio", 0, NULL, set_stdio,
	  "serve who runs it on standard input and output, as by ssh" },
	{ "hash-password", 0, NULL, set_hash_password,
	  "read a password, print its hash for the users file, and exit" },
	{ "verbose", 'v', NULL, set_verbose, "log more" },
	{ "quiet", 'q', NULL, set_quiet, "log warnings and errors only" },
	{ "version", 'V', NULL, set_version, "print version and features, and exit" },
	{ "help", 'h', NULL, set_help, "print this, and exit" },
};

enum { NOPTIONS = sizeof(options) / sizeof(options[0]) };

/* ---- help ---- */

void srv_options_help(FILE *out)
{
	fprintf(out, "Usage: rftpd [OPTION]...\n"
		     "Serve files to rftp and to FTP clients.\n\n");
	for (int i = 0; i < NOPTIONS; i++) {
		const struct option_def *d = &options[i];
		char left[64], letter[5] = "    ";

		if (d->letter)
			snprintf(letter, sizeof(letter), "-%c, ", d->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, d->name, d->arg ? " " : "",
			 d->arg ? d->arg : "");
		if (strlen(left) > 28)
			fprintf(out, "  %s\n  %-28s  %s\n", left, "", d->help);
		else
			fprintf(out, "  %-28s  %s\n", left, d->help);
	}
	fprintf(out, "\nExit status: 0 all is well; 1 with --stdio: not served; 2 usage; 3 it "
		     "cannot listen,\nor cannot use its state.\n");
}

/* ---- the command line ---- */

/* getopt's own tables; values are the rows' numbers behind LONG. */
enum { LONG = 256 };

static void make_getopt(struct option longs[NOPTIONS + 1], char shorts[2 * NOPTIONS + 2])
{
	char *s = shorts;

	*s++ = ':'; /* tell a missing argument from an unknown option */
	for (int i = 0; i < NOPTIONS; i++) {
		longs[i] = (struct option){ .name = options[i].name,
					    .has_arg = options[i].arg ? required_argument :
									no_argument,
					    .val = LONG + i };
		if (options[i].letter)
			*s++ = options[i].letter;
		if (options[i].letter && options[i].arg)
			*s++ = ':';
	}
	longs[NOPTIONS] = (struct option){ 0 };
	*s = '\0';
}

static const struct option_def *find_option(int c)
{
	if (c >= LONG)
		return &options[c - LONG];
	for (int i = 0; i < NOPTIONS; i++)
		if (options[i].letter == c)
			return &options[i];
	return NULL;
}

static int take_option(struct srv_options *o, int c, char **argv, struct err *e)
{
	const struct option_def *d = find_option(c);
	char letter[3] = { '-', (char)optopt, '\0' };
	int rc;

	if (c == ':')
		return err_set(e, -EINVAL, "%s needs an argument", printable(argv[optind - 1]));
	if (!d)
		return err_set(e, -EINVAL, "%s is not an option, or takes no argument",
			       printable(optopt && optopt < LONG ? letter : argv[optind - 1]));
	rc = d->set(o, optarg, e);
	if (rc < 0)
		err_prefix(e, "--%s", d->name);
	return rc;
}

static void default_listeners(struct srv_options *o)
{
	if (o->nlisten)
		return;
	o->listen[0] = (struct listen_addr){ "0.0.0.0", RFTP_PORT, false };
	o->listen[1] = (struct listen_addr){ "::", RFTP_PORT, true };
	o->nlisten = 2;
}

/* Who trusts in --users there must learn that nobody is asked for a password. */
static int check_stdio(const struct srv_options *o, struct err *e)
{
	if (o->nlisten || o->anonymous || o->users || o->state || o->port_file || o->plain ||
	    o->active)
		return err_set(e, -EINVAL, "--stdio has no login, no TLS and no port: leave "
			       "--listen, --anonymous, --users, --state, --port-file, --plain and "
			       "--active away");
	return 0;
}

/* What only makes sense together. */
static int check_together(const struct srv_options *o, struct err *e)
{
	if (o->help || o->version || o->hash_password)
		return 0;
	if (o->stdio)
		return check_stdio(o, e);
	if (!o->anonymous && !o->users)
		return err_set(e, -EINVAL, "nobody could log in: give --anonymous ro|rw or "
			       "--users FILE");
	if (o->anonymous && !o->root)
		return err_set(e, -EINVAL, "--anonymous needs --root DIR: what may be seen");
	return 0;
}

int srv_options_parse(struct srv_options *o, int argc, char **argv, struct err *e)
{
	struct option longs[NOPTIONS + 1];
	char shorts[2 * NOPTIONS + 2];
	int c, rc = 0;

	*o = (struct srv_options){ .prot_min = PROT_CLEAR, .tos = -1,
				   .pages = PAGES_AUTO, .files_user = "ftp" };
	make_getopt(longs, shorts);
	optind = 0; /* glibc: begin anew */
	opterr = 0;
	while (rc == 0 && (c = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
		rc = take_option(o, c, argv, e);
	if (rc < 0)
		return rc;
	if (optind < argc)
		return err_set(e, -EINVAL, "\"%s\" is not an option", printable(argv[optind]));
	rc = check_together(o, e);
	default_listeners(o);
	return rc;
}
