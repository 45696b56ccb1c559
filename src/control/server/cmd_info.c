// SPDX-License-Identifier: Apache-2.0
/* Commands that show or change settings of the session: FEAT, OPTS (RFC 2389), TYPE, STAT, HELP and
 * others of RFC 959. */
#include "control/server/session.h"

#include <fcntl.h>
#include <inttypes.h>
#include <strings.h>
#include <sys/statvfs.h>

/* Reply with the text that print writes, of any length. */
static int reply_written(struct ftp_session *s, int code,
			 void (*print)(struct ftp_session *s, FILE *out))
{
	CLEANUP_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (out)
		print(s, out);
	if (!out || fclose(out))
		return ftp_session_reply(s, 451, NO_MEMORY);
	return ftp_session_reply(s, code, "%s", text);
}

/* ---- facts (RFC 3659 §7.8, §7.9) ---- */

static const struct {
	unsigned bit;
	const char *name;
} facts[] = {
	{ FACT_TYPE, "type" },
	{ FACT_SIZE, "size" },
	{ FACT_MODIFY, "modify" },
	{ FACT_MODE, "UNIX.mode" },
	{ FACT_UID, "UNIX.owner" },
	{ FACT_GID, "UNIX.group" },
};

enum { NFACTS = sizeof(facts) / sizeof(facts[0]) };

void facts_text(char out[128], unsigned on, bool all)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < NFACTS; i++)
		if (all || (on & facts[i].bit))
			n += (size_t)snprintf(out + n, 128 - n, "%s%s;", facts[i].name,
					      all && (on & facts[i].bit) ? "*" : "");
}

unsigned facts_parse(const char *list)
{
	unsigned on = 0;

	while (*list) {
		size_t len = strcspn(list, ";");

		for (size_t i = 0; i < NFACTS; i++)
			if (strlen(facts[i].name) == len && !strncasecmp(facts[i].name, list, len))
				on |= facts[i].bit;
		list += len + (list[len] == ';');
	}
	return on;
}

/* ---- FEAT ---- */

static bool has_command(const struct ftp_session *s, enum ftp_verb v)
{
	switch (v) {
	case FTP_EPRT:
		return s->has_peer && s->c->active;
	case FTP_PBSZ:
	case FTP_PROT:
		return session_has_tls(s);
	case FTP_EPSV:
		return s->has_peer;
	case FTP_BULK:
		return s->c->bulk;
	case FTP_GIVE:
		return s->c->give;
	case FTP_TAKE:
		return s->c->take;
	default:
		return true;
	}
}

static void print_features(struct ftp_session *s, FILE *out)
{
	const char *const *names = digest_names();
	char text[128], version[BULK_VERSION_TEXT];

	fprintf(out, "Features:\n");
	if (session_has_tls(s))
		fprintf(out, " AUTH TLS\n");
	for (int v = 0; v < FTP_VERBS; v++) {
		const struct ftp_command *cmd = ftp_command_of((enum ftp_verb)v);

		if (cmd->feat && has_command(s, cmd->verb))
			fprintf(out, " %s%s%s\n", cmd->name, v == FTP_BULK ? " " : "",
				v == FTP_BULK ? bulk_version_text(version) : "");
	}
	facts_text(text, s->agreed.facts, true);
	fprintf(out, " MLST %s\n REST STREAM\n UTF8\n TVFS\n HASH ", text);
	for (uint32_t i = 0; names[i]; i++)
		fprintf(out, "%s%s%s", names[i], i == s->agreed.hash ? "*" : "",
			names[i + 1] ? ";" : "\n");
	fprintf(out, " NAMES PERCENT\n INLINE MLSD\nEnd");
}

int cmd_feat(struct ftp_session *s, char *arg)
{
	return reply_written(s, 211, print_features);
}

/* ---- OPTS ---- */

static int opts_utf8(struct ftp_session *s, const char *arg)
{
	if (strcasecmp(arg, "ON") && *arg)
		return ftp_session_reply(s, 504, "Names are bytes; UTF-8 cannot be turned off");
	return ftp_session_reply(s, 200, "UTF-8 is on");
}

/* From now on paths in commands and names in replies and listings are percent-encoded, so that a
 * name may contain any byte. */
static int opts_names(struct ftp_session *s, const char *arg)
{
	if (strcasecmp(arg, "PERCENT") && strcasecmp(arg, "PLAIN"))
		return ftp_session_reply(s, 501, "OPTS NAMES PERCENT|PLAIN");
	s->agreed.percent = !strcasecmp(arg, "PERCENT");
	return ftp_session_reply(s, 200, s->agreed.percent ? "Names are percent-encoded" :
							     "Names are not encoded");
}

/* From now on MLSD sends its listing in the reply. Without a data connection this saves three round
 * trips, and it is the only way on stdio. */
static int opts_inline(struct ftp_session *s, const char *arg)
{
	if (strcasecmp(arg, "MLSD"))
		return ftp_session_reply(s, 501, "OPTS INLINE MLSD");
	s->agreed.inline_list = true;
	return ftp_session_reply(s, 200, "MLSD lists in its reply");
}

static void print_digests(struct ftp_session *s, FILE *out)
{
	fprintf(out, "Unknown algorithm; there are ");
	for (const char *const *name = digest_names(); *name; name++)
		fprintf(out, "%s%s", *name, name[1] ? ", " : "");
}

static int opts_hash(struct ftp_session *s, const char *arg)
{
	const char *const *names = digest_names();
	uint32_t i = 0;

	while (*arg && names[i] && strcasecmp(names[i], arg))
		i++;
	if (!names[i])
		return reply_written(s, 504, print_digests);
	if (*arg)
		s->agreed.hash = i;
	return ftp_session_reply(s, 200, "%s", names[s->agreed.hash]);
}

static int opts_mlst(struct ftp_session *s, const char *arg)
{
	char text[128];

	s->agreed.facts = facts_parse(arg);
	facts_text(text, s->agreed.facts, false);
	return ftp_session_reply(s, 200, "MLST OPTS%s%s", *text ? " " : "", text);
}

int cmd_opts(struct ftp_session *s, char *arg)
{
	static const struct {
		const char *name;
		int (*set)(struct ftp_session *s, const char *arg);
	} options[] = {
		{ "UTF8", opts_utf8 }, { "NAMES", opts_names }, { "INLINE", opts_inline },
		{ "HASH", opts_hash }, { "MLST", opts_mlst },
	};
	size_t len = strcspn(arg, " ");

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i].name) == len && !strncasecmp(options[i].name, arg, len))
			return options[i].set(s, arg + len + (arg[len] == ' '));
	return ftp_session_reply(s, 501, "Unknown option");
}

/* ---- commands of RFC 959 with one possible answer ---- */

int cmd_syst(struct ftp_session *s, char *arg)
{
	return ftp_session_reply(s, 215, "UNIX Type: L8");
}

int cmd_type(struct ftp_session *s, char *arg)
{
	bool ascii = !strcasecmp(arg, "A") || !strcasecmp(arg, "A N");

	if (!ascii && strcasecmp(arg, "I") && strcasecmp(arg, "L 8"))
		return ftp_session_reply(s, 504, "Types are A and I");
	s->agreed.ascii = ascii;
	return ftp_session_reply(s, 200, "Type %c", ascii ? 'A' : 'I');
}

int cmd_mode(struct ftp_session *s, char *arg)
{
	if (strcasecmp(arg, "S"))
		return ftp_session_reply(s, 504, "Only MODE S is known");
	return ftp_session_reply(s, 200, "Mode S");
}

int cmd_stru(struct ftp_session *s, char *arg)
{
	if (strcasecmp(arg, "F"))
		return ftp_session_reply(s, 504, "Only STRU F is known");
	return ftp_session_reply(s, 200, "Structure F");
}

/* "ALLO bytes [R record]": reserves nothing, but refuses a file larger than the free space. */
int cmd_allo(struct ftp_session *s, char *arg)
{
	CLEANUP_CLOSE int fd = -1;
	char *record = strcasestr(arg, " R ");
	uint64_t bytes, of_record, space;
	struct statvfs fs;

	if (record)
		*record = '\0';
	if (parse_uint(arg, 0, INT64_MAX, &bytes) < 0 ||
	    (record && parse_uint(record + 3, 0, INT64_MAX, &of_record) < 0))
		return ftp_session_reply(s, 501, "Syntax: ALLO <bytes> [R <bytes>]");

	fd = root_open(s->account.root, s->cwd, O_PATH | O_CLOEXEC, 0);
	if (fd < 0 || fstatvfs(fd, &fs) < 0 || !fs.f_blocks)
		return ftp_session_reply(s, 202, "Not needed");

	space = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (bytes > space)
		return ftp_session_reply(s, 552, "No space left on device: %" PRIu64
					 " bytes are free", space);
	return ftp_session_reply(s, 202, "Not needed");
}

/* The bytes that this account may still store below path; without an argument, below the current
 * directory. */
int cmd_avbl(struct ftp_session *s, char *path)
{
	const int how = O_PATH | O_DIRECTORY | O_CLOEXEC;
	CLEANUP_CLOSE int fd = root_open(s->account.root, path, how, 0);
	struct statvfs fs;
	int rc = fd < 0 ? fd : fstatvfs(fd, &fs) ? -errno : 0;

	if (rc)
		return session_reply_errno(s, rc, path);
	return ftp_session_reply(s, 213, "%" PRIu64, (uint64_t)fs.f_bavail * fs.f_frsize);
}

int cmd_noop(struct ftp_session *s, char *arg)
{
	return ftp_session_reply(s, 200, "Done: nothing");
}

/* ---- HELP ---- */

static void print_commands(struct ftp_session *s, FILE *out)
{
	fprintf(out, "Commands:\n");
	for (int v = 0; v < FTP_VERBS; v++)
		if (*ftp_command_of((enum ftp_verb)v)->codes)
			fprintf(out, " %s\n", ftp_command_of((enum ftp_verb)v)->syntax);
	fprintf(out, "End");
}

int cmd_help(struct ftp_session *s, char *arg)
{
	const struct ftp_command *cmd = *arg ? ftp_command_find(arg) : NULL;
	char site_help[] = "HELP";

	if (!*arg)
		return reply_written(s, 214, print_commands);
	if (!cmd)
		return ftp_session_reply(s, 501, "Unknown command");
	if (!*cmd->codes)
		return session_not_implemented(s, cmd);
	if (cmd->verb == FTP_SITE)
		return cmd_site(s, site_help);
	return ftp_session_reply(s, 214, "Syntax: %s", cmd->syntax);
}

/* ---- STAT (RFC 959 §4.1.3) ---- */

int cmd_stat(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *cwd = NULL;
	int rc = *arg ? session_check(s, FTP_NEEDS_SEE) : 0;

	if (rc)
		return rc;
	if (*arg)
		return session_stat_path(s, arg);

	cwd = session_name(s, s->cwd);
	return ftp_session_reply(s, 211, "This session:\n From %s, logged in as %s\n"
				 " Directory: %s\n Control connection: %s\n"
				 " TYPE: %s; MODE: Stream; STRU: File; PROT: %s\n"
				 " Data connection: %s\nEnd", s->peer_text,
				 s->account.name, cwd ? cwd : "",
				 s->agreed.tls ? "TLS" : s->c->trusted ? "trusted" : "in clear",
				 s->agreed.ascii ? "ASCII Non-print" : "Image",
				 s->agreed.prot_p ? "P" : "C",
				 s->lfd >= 0 ? "the client may connect" :
				 s->dial.ss_family != AF_UNSPEC ? "the server will connect" :
								  "none");
}

/* The running command continues, and its own reply follows at its end. */
int session_reply_progress(struct ftp_session *s)
{
	const struct ftp_command *running = s->running;
	const char *name = running ? running->name : "data";
	int rc;

	s->running = ftp_command_of(FTP_STAT);
	if (s->data)
		rc = ftp_session_reply(s, 211, "%s: %" PRIu64 " bytes in %.1f s so far", name,
				       s->moved, (double)(now_ns() - s->began) / 1e9);
	else
		rc = ftp_session_reply(s, 211, "%s: no data connection yet", name);
	s->running = running;
	return rc;
}
