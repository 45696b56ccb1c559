// SPDX-License-Identifier: Apache-2.0
/* The table of FTP commands and the parser of command lines. The parser and the formatter of
 * replies (RFC 959 §4.2). */
#include "proto/ftp.h"
#include "proto/wire.h"

/* Replies of transfers: RFC 959 §5.4, and RFC 4217 §10 for TLS that is required or fails. */
#define TRANSFER "125 150 226 250 425 426 521 522"
#define BULK_CODES "150 226 503 504 522 550 552"
/* Replies of any command: syntax (RFC 959 §4.2.1), no login, out of memory, the server ends. */
#define ANY "421 451 500 501 502 530"

#define ROW(verb, arg, login, feat, needs, syntax, codes)                                          \
	[FTP_##verb] = { FTP_##verb, #verb, FTP_ARG_##arg, login, feat, FTP_NEEDS_##needs, syntax, \
			 codes }

/* The columns: verb, argument, only after login, in FEAT under its own name, right, syntax, codes
 * of RFC 959 §5.4, 2228 §5, 2389, 2428, 3659, 4217 and the drafts of HASH and MFMT. The server adds
 * the lines of FEAT that have parameters: AUTH TLS, REST STREAM, MLST and its facts, HASH, UTF8. */
static const struct ftp_command commands[FTP_VERBS] = {
	ROW(USER, REQUIRED, false, false, NOTHING, "USER <name>", "230 232 331 332 503"),
	/* Some clients send an empty password as "PASS" without an argument. */
	ROW(PASS, OPTIONAL, false, false, NOTHING, "PASS <password>", "202 230 332 503"),
	ROW(AUTH, REQUIRED, false, false, NOTHING, "AUTH TLS", "234 334 431 503 504 533 534"),
	ROW(PBSZ, REQUIRED, false, true, NOTHING, "PBSZ 0", "200 503"),
	ROW(PROT, REQUIRED, false, true, NOTHING, "PROT C|P", "200 431 503 504 534 536"),
	ROW(FEAT, NONE, false, false, NOTHING, "FEAT", "211"),
	ROW(OPTS, REQUIRED, false, false, NOTHING, "OPTS <command> [<options>]", "200 504"),
	ROW(SYST, NONE, false, false, NOTHING, "SYST", "215"),
	ROW(TYPE, REQUIRED, true, false, NOTHING, "TYPE A|I|L 8", "200 504"),
	ROW(MODE, REQUIRED, true, false, NOTHING, "MODE S", "200 504"),
	ROW(STRU, REQUIRED, true, false, NOTHING, "STRU F", "200 504"),
	ROW(ALLO, REQUIRED, true, false, NOTHING, "ALLO <bytes> [R <bytes>]", "200 202 504 552"),
	ROW(PWD, NONE, true, false, NOTHING, "PWD", "257 550"),
	ROW(CWD, REQUIRED, true, false, NOTHING, "CWD <directory>", "250 550"),
	ROW(CDUP, NONE, true, false, NOTHING, "CDUP", "200 250 550"),
	ROW(EPSV, OPTIONAL, true, true, NOTHING, "EPSV [1|2|ALL]", "200 229 425 522"),
	ROW(PASV, NONE, true, false, NOTHING, "PASV", "227 425"),
	ROW(PORT, REQUIRED, true, false, NOTHING, "PORT <h1,h2,h3,h4,p1,p2>", "200 504"),
	ROW(EPRT, REQUIRED, true, true, NOTHING, "EPRT |<1|2>|<address>|<port>|", "200 504 522"),
	ROW(RETR, REQUIRED, true, false, SEE, "RETR <file>", TRANSFER " 450 550 554 555"),
	ROW(STOR, REQUIRED, true, false, CREATE, "STOR <file>",
	    TRANSFER " 450 452 532 551 552 553 554 555"),
	ROW(APPE, REQUIRED, true, false, CREATE, "APPE <file>",
	    TRANSFER " 450 452 532 550 551 552 553 555"),
	ROW(REST, REQUIRED, true, false, NOTHING, "REST <offset>", "350"),
	ROW(SIZE, REQUIRED, true, true, NOTHING, "SIZE <file>", "213 550"),
	ROW(MDTM, REQUIRED, true, true, DEPENDS, "MDTM <file>", "213 550"),
	ROW(MFMT, REQUIRED, true, true, CHANGE, "MFMT <YYYYMMDDhhmmss> <path>", "213 550"),
	ROW(HASH, REQUIRED, true, false, SEE, "HASH <file>", "213 226 426 450 504 550 552 553 556"),
	ROW(MLSD, OPTIONAL, true, false, SEE, "MLSD [<directory>]", TRANSFER " 550"),
	ROW(MLST, OPTIONAL, true, false, NOTHING, "MLST [<path>]", "250 550 553"),
	ROW(LIST, OPTIONAL, true, false, SEE, "LIST [-aAdR1] [<path>]", TRANSFER " 450"),
	ROW(NLST, OPTIONAL, true, false, SEE, "NLST [-aAdRl] [<path>]", TRANSFER " 450"),
	ROW(MKD, REQUIRED, true, false, CREATE, "MKD <directory>", "257 550"),
	ROW(RMD, REQUIRED, true, false, CHANGE, "RMD <directory>", "250 550"),
	ROW(DELE, REQUIRED, true, false, CHANGE, "DELE <file>", "250 450 550"),
	ROW(RNFR, REQUIRED, true, false, CHANGE, "RNFR <path>", "350 450 550"),
	ROW(RNTO, REQUIRED, true, false, CHANGE, "RNTO <path>", "250 503 532 553"),
	ROW(SITE, REQUIRED, true, false, DEPENDS, "SITE <command>", "200 202 214 504 550"),
	ROW(ABOR, NONE, false, false, NOTHING, "ABOR", "225 226"),
	ROW(NOOP, NONE, false, false, NOTHING, "NOOP", "200"),
	ROW(STAT, OPTIONAL, true, false, DEPENDS, "STAT [<path>]", "211 212 213 450"),
	ROW(HELP, OPTIONAL, false, false, NOTHING, "HELP [<command>]", "211 214"),
	ROW(QUIT, NONE, false, false, NOTHING, "QUIT", "221"),
	ROW(ACCT, REQUIRED, true, false, NOTHING, "ACCT <account>", ""),
	ROW(SMNT, REQUIRED, true, false, NOTHING, "SMNT <directory>", ""),
	ROW(REIN, NONE, true, false, NOTHING, "REIN", ""),
	ROW(STOU, OPTIONAL, true, false, NOTHING, "STOU [<file>]", ""),
	ROW(BULK, REQUIRED, true, true, DEPENDS, "BULK <bytes>", BULK_CODES),
	ROW(GIVE, REQUIRED, true, true, DEPENDS, "GIVE <bytes>", BULK_CODES),
	ROW(TAKE, REQUIRED, true, true, DEPENDS, "TAKE <bytes>", BULK_CODES),
	ROW(RMDA, REQUIRED, true, true, CHANGE, "RMDA <path>", "250 450 550"),
	ROW(AVBL, OPTIONAL, true, true, NOTHING, "AVBL [<directory>]", "213 550"),
};

/* Compare without regard to the case of ASCII letters: toupper() would depend on the locale. */
static bool same_verb(const char *name, const char *given)
{
	while (*name && *name == (*given >= 'a' && *given <= 'z' ? *given - 'a' + 'A' : *given)) {
		name++;
		given++;
	}
	return !*name && !*given;
}

/* Older names, which clients still send (RFC 1123 §4.1.3.1). */
static const struct {
	const char *name;
	enum ftp_verb verb;
} aliases[] = {
	{ "XMKD", FTP_MKD }, { "XRMD", FTP_RMD }, { "XPWD", FTP_PWD }, { "XCUP", FTP_CDUP },
	{ "XCWD", FTP_CWD },
};

const struct ftp_command *ftp_command_find(const char *name)
{
	for (int v = 0; v < FTP_VERBS; v++)
		if (same_verb(commands[v].name, name))
			return &commands[v];
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++)
		if (same_verb(aliases[i].name, name))
			return &commands[aliases[i].verb];
	return NULL;
}

const struct ftp_command *ftp_command_of(enum ftp_verb v)
{
	return (unsigned)v < FTP_VERBS ? &commands[v] : NULL;
}

bool ftp_command_answers(const struct ftp_command *cmd, int code)
{
	char text[12];

	if (code < 100 || code > 599)
		return false;
	snprintf(text, sizeof(text), "%d", code);
	return strstr(ANY, text) || strstr(cmd->codes, text);
}

int ftp_command_parse(char *line, const struct ftp_command **cmd, char **arg)
{
	char *space = strchr(line, ' ');

	*cmd = NULL;
	*arg = NULL;
	if (space)
		*space = '\0';
	if (!*line)
		return -EINVAL;
	*cmd = ftp_command_find(line);
	if (!*cmd)
		return -ENOSYS;

	/* One space separates verb and argument; further ones belong to the argument, since names
	 * and passwords may begin and end with blanks. */
	if (space && space[1])
		*arg = space + 1;
	if ((*cmd)->arg == FTP_ARG_NONE && *arg) {
		*arg = NULL;
		return -EINVAL;
	}
	return (*cmd)->arg == FTP_ARG_REQUIRED && !*arg ? -EINVAL : 0;
}

/* ---- reading replies ---- */

void ftp_reply_clear(struct ftp_reply *r)
{
	free(r->text);
	memset(r, 0, sizeof(*r));
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The code at the start of line; *sep is the character after it: ' ', '-' or NUL. 0: not the start
 * of a reply. */
static int reply_code(const char *line, char *sep)
{
	if (line[0] < '1' || line[0] > '5' || !is_digit(line[1]) || !is_digit(line[2]))
		return 0;
	*sep = line[3];
	if (*sep != ' ' && *sep != '-' && *sep != '\0')
		return 0;
	return (line[0] - '0') * 100 + (line[1] - '0') * 10 + (line[2] - '0');
}

/* Append a line to the text. */
static int reply_append(struct ftp_reply *r, const char *line)
{
	size_t len = strlen(line), room = r->room ? r->room : 256;
	char *text;

	if (len > FTP_REPLY_MAX || r->len + len + 1 > FTP_REPLY_MAX)
		return -EMSGSIZE;
	while (room < r->len + len + 2)
		room *= 2;
	if (room != r->room) {
		text = realloc(r->text, room);
		if (!text)
			return -ENOMEM;
		r->text = text;
		r->room = room;
	}

	if (r->code)
		r->text[r->len++] = '\n';
	memcpy(r->text + r->len, line, len + 1);
	r->len += len;
	return 0;
}

int ftp_reply_line(struct ftp_reply *r, const char *line)
{
	char sep = 0;
	int code = reply_code(line, &sep), err;
	bool last;

	if (r->done) {
		r->code = 0;
		r->len = 0;
		r->done = false;
	}
	if (!r->code && !code)
		return -EBADMSG;
	/* The last line repeats the code of the first, without a "-". */
	last = sep != '-' && (!r->code || code == r->code);
	err = reply_append(r, r->code && !last ? line : sep ? line + 4 : "");
	if (err < 0)
		return err;
	if (!r->code) {
		r->code = code;
		r->multi = !last;
	}
	r->done = last;
	return r->done;
}

/* ---- writing replies ---- */

enum { IAC = 255 };

struct reply_out {
	int code;
	const char *text;
};

/* Replace CR, which ends a line for some clients. Double Telnet's IAC (RFC 854). */
static void wire_line(struct wire *w, const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		uint8_t c = s[i] == '\r' ? '?' : (uint8_t)s[i];

		if (c == IAC)
			wire_number(w, &c);
		wire_number(w, &c);
	}
	wire_bytes(w, (char[]){ '\r', '\n' }, 2);
}

static void wire_reply(struct wire *w, void *msg)
{
	const struct reply_out *m = msg;
	const char *s = m->text;

	for (bool first = true;; first = false) {
		const char *end = strchrnul(s, '\n');
		char head[4] = { (char)('0' + m->code / 100), (char)('0' + m->code / 10 % 10),
				 (char)('0' + m->code % 10), *end ? '-' : ' ' };

		if (first || !*end)
			wire_bytes(w, head, sizeof(head));
		else if (is_digit(*s)) /* must not look like the last line */
			wire_bytes(w, (char[]){ ' ' }, 1);
		wire_line(w, s, (size_t)(end - s));
		if (!*end)
			return;
		s = end + 1;
	}
}

int ftp_reply_format(struct buf *out, int code, const char *text)
{
	struct reply_out m = { code, text };

	if (code < 100 || code > 599)
		return -EINVAL;
	return wire_put(out, wire_reply, &m);
}
