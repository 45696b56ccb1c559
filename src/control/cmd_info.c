// SPDX-License-Identifier: Apache-2.0
/* Commands that tell or set how the session works: FEAT, OPTS (RFC 2389), TYPE and its
 * kin (RFC 959). */
#include "control/session.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/statvfs.h>

/* ---- FEAT ---- */

static void feat_hash(struct ftp_session *s, FILE *out)
{
	fprintf(out, " HASH ");
	for (const char *const *name = digest_names(); *name; name++)
		fprintf(out, "%s%s%s", *name, strcmp(*name, s->hash) ? "" : "*",
			name[1] ? ";" : "\n");
}

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
	case FTP_LANE:
		return s->c->bulk;
	case FTP_GIVE:
		return s->c->give;
	case FTP_TAKE:
		return s->c->take;
	default:
		return true;
	}
}

static void feat_lines(struct ftp_session *s, FILE *out)
{
	char facts[128], version[BULK_VERSION_TEXT];

	facts_text(facts, s->facts, true);
	fprintf(out, "What there is beyond RFC 959:\n");
	if (session_has_tls(s))
		fprintf(out, " AUTH TLS\n");
	for (int v = 0; v < FTP_VERBS; v++) {
		const struct ftp_command *cmd = ftp_command_of((enum ftp_verb)v);

		if (cmd->feat && has_command(s, cmd->verb))
			fprintf(out, " %s%s%s\n", cmd->name, v == FTP_BULK ? " " : "",
				v == FTP_BULK ? bulk_version_text(version) : "");
	}
	fprintf(out, " MLST %s\n REST STREAM\n UTF8\n TVFS\n", facts);
	feat_hash(s, out);
	fprintf(out, " NAMES PERCENT\n INLINE MLSD\nThat is all");
}

int cmd_feat(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return ftp_session_reply(s, 451, "Out of memory");
	feat_lines(s, out);
	if (fclose(out))
		return ftp_session_reply(s, 451, "Out of memory");
	return ftp_session_reply(s, 211, "%s", text);
}

/* ---- OPTS ---- */

static int opts_utf8(struct ftp_session *s, const char *arg)
{
	if (strcasecmp(arg, "ON") && *arg)
		return ftp_session_reply(s, 504, "Names are bytes, UTF-8 where they can be");
	return ftp_session_reply(s, 200, "UTF-8 it is");
}

/* Paths of commands, names in listings and in replies are percent-encoded from now on,
 * so that every byte can be in a name. */
static int opts_names(struct ftp_session *s, const char *arg)
{
	if (strcasecmp(arg, "PERCENT") && strcasecmp(arg, "PLAIN"))
		return ftp_session_reply(s, 501, "OPTS NAMES PERCENT|PLAIN");
	s->percent = !strcasecmp(arg, "PERCENT");
	return ftp_session_reply(s, 200, s->percent ? "Names are percent-encoded" :
						      "Names are as they are");
}

/* MLSD answers with its listing in the reply: no data connection, three round trips less,
 * and the only way on stdio. */
static int opts_inline(struct ftp_session *s, const char *arg)
{
	if (strcasecmp(arg, "MLSD"))
		return ftp_session_reply(s, 501, "OPTS INLINE MLSD");
	s->inline_list = true;
	return ftp_session_reply(s, 200, "MLSD lists in its reply");
}

/* NULL: memory is out. */
static char *algorithms(void)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	for (const char *const *name = digest_names(); *name; name++)
		fprintf(out, "%s%s", *name, name[1] ? ", " : "");
	if (fclose(out))
		free(steal_ptr(&text));
	return text;
}

static int refuse_hash(struct ftp_session *s)
{
	CLEANUP_FREE char *all = algorithms();

	return ftp_session_reply(s, 504, "Not known; there is %s", all ? all : "SHA-256");
}

static int opts_hash(struct ftp_session *s, const char *arg)
{
	if (*arg) {
		const char *const *name = digest_names();

		while (*name && strcasecmp(*name, arg))
			name++;
		if (!*name)
			return refuse_hash(s);
		s->hash = *name;
	}
	return ftp_session_reply(s, 200, "%s", s->hash);
}

static int opts_mlst(struct ftp_session *s, const char *arg)
{
	char facts[128];

	s->facts = facts_parse(arg);
	facts_text(facts, s->facts, false);
	return ftp_session_reply(s, 200, "MLST OPTS%s%s", *facts ? " " : "", facts);
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
	return ftp_session_reply(s, 501, "No such option");
}

/* ---- what RFC 959 asks for and has one answer ---- */

/* Where the session is; false: not known. */
static bool free_space(struct ftp_session *s, uint64_t *bytes)
{
	CLEANUP_CLOSE int fd = root_open(s->account.root, s->cwd, O_PATH | O_CLOEXEC, 0);
	struct statvfs fs;

	if (fd < 0 || fstatvfs(fd, &fs) < 0 || !fs.f_blocks)
		return false;
	*bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	return true;
}

int cmd_syst(struct ftp_session *s, char *arg)
{
	return ftp_session_reply(s, 215, "UNIX Type: L8");
}

int cmd_type(struct ftp_session *s, char *arg)
{
	bool ascii = !strcasecmp(arg, "A") || !strcasecmp(arg, "A N");

	if (!ascii && strcasecmp(arg, "I") && strcasecmp(arg, "L 8"))
		return ftp_session_reply(s, 504, "Types are A and I");
	s->ascii = ascii;
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

/* "ALLO bytes [R record]": no place is kept, but what can never fit is told at once. */
int cmd_allo(struct ftp_session *s, char *arg)
{
	char *record = strcasestr(arg, " R ");
	uint64_t bytes, of_record, space;

	if (record) {
		*record = '\0';
		if (parse_uint(record + 3, 0, INT64_MAX, &of_record) < 0)
			return ftp_session_reply(s, 501, "Syntax: ALLO <bytes> [R <bytes>]");
	}
	if (parse_uint(arg, 0, INT64_MAX, &bytes) < 0)
		return ftp_session_reply(s, 501, "Syntax: ALLO <bytes> [R <bytes>]");
	if (free_space(s, &space) && bytes > space)
		return ftp_session_reply(s, 552, "No space left on device: %" PRIu64
					 " bytes are free", space);
	return ftp_session_reply(s, 202, "No need to");
}

int cmd_noop(struct ftp_session *s, char *arg)
{
	return ftp_session_reply(s, 200, "Done: nothing");
}

/* ---- HELP ---- */

int cmd_help(struct ftp_session *s, char *arg)
{
	CLEANUP_FREE char *text = NULL;
	const struct ftp_command *cmd = *arg ? ftp_command_find(arg) : NULL;
	char site_help[] = "HELP";
	size_t len;
	FILE *out;

	if (cmd && !*cmd->codes)
		return ftp_session_reply(s, 502, "%s is not done here", cmd->name);
	if (cmd && cmd->verb == FTP_SITE)
		return cmd_site(s, site_help);
	if (cmd)
		return ftp_session_reply(s, 214, "Syntax: %s", cmd->syntax);
	if (*arg)
		return ftp_session_reply(s, 501, "Not a command of this server");
	out = open_memstream(&text, &len);
	if (!out)
		return ftp_session_reply(s, 451, "Out of memory");
	fprintf(out, "Commands:\n");
	for (int v = 0; v < FTP_VERBS; v++)
		if (*ftp_command_of((enum ftp_verb)v)->codes)
			fprintf(out, " %s\n", ftp_command_of((enum ftp_verb)v)->syntax);
	fprintf(out, "That is all");
	if (fclose(out))
		return ftp_session_reply(s, 451, "Out of memory");
	return ftp_session_reply(s, 214, "%s", text);
}
