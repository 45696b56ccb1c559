// SPDX-License-Identifier: Apache-2.0
/* The table of FTP commands and how a line is cut into verb and argument. */
#include "proto/ftp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define NONE     FTP_ARG_NONE
#define OPTIONAL FTP_ARG_OPTIONAL
#define REQUIRED FTP_ARG_REQUIRED

#define NOTHING FTP_NEEDS_NOTHING
#define SEE     FTP_NEEDS_SEE
#define CREATE  FTP_NEEDS_CREATE
#define CHANGE  FTP_NEEDS_CHANGE
#define DEPENDS FTP_NEEDS_DEPENDS

/* Of what moves data: RFC 959 §5.4, and RFC 4217 §10 for what TLS forbids or breaks. */
#define TRANSFER "125 150 226 250 425 426 521 522"
#define BULK_CODES "150 226 503 504 522 550 552"
/* Of any: what was understood or not (RFC 959 §4.2.1), who is not logged in, and that the server
 * is out of memory, or leaves. */
#define ANY "421 451 500 501 502 530"

/* verb, name, argument, only after login, in FEAT under its own name, right, syntax; codes of
 * RFC 959 §5.4, 2228 §5, 2389, 2428, 3659, 4217 and the drafts of HASH and MFMT. What FEAT
 * shows with parameters (AUTH TLS, REST STREAM, MLST and its facts, HASH, UTF8) is put
 * there by who knows the parameters. */
static const struct ftp_command commands[FTP_VERBS] = {
	[FTP_USER] = { FTP_USER, "USER", REQUIRED, false, false, NOTHING, "USER <name>",
		"230 232 331 332 503" },
	/* "PASS" alone is how some clients send an empty password. */
	[FTP_PASS] = { FTP_PASS, "PASS", OPTIONAL, false, false, NOTHING, "PASS <password>",
		"202 230 332 503" },
	[FTP_AUTH] = { FTP_AUTH, "AUTH", REQUIRED, false, false, NOTHING, "AUTH TLS",
		"234 334 431 503 504 533 534" },
	[FTP_PBSZ] = { FTP_PBSZ, "PBSZ", REQUIRED, false, true, NOTHING, "PBSZ 0",
		"200 503" },
	[FTP_PROT] = { FTP_PROT, "PROT", REQUIRED, false, true, NOTHING, "PROT C|P",
		"200 431 503 504 534 536" },
	[FTP_FEAT] = { FTP_FEAT, "FEAT", NONE, false, false, NOTHING, "FEAT",
		"211" },
	[FTP_OPTS] = { FTP_OPTS, "OPTS", REQUIRED, false, false, NOTHING, "OPTS <command> [<options>]",
		"200 504" },
	[FTP_SYST] = { FTP_SYST, "SYST", NONE, false, false, NOTHING, "SYST",
		"215" },
	[FTP_TYPE] = { FTP_TYPE, "TYPE", REQUIRED, true, false, NOTHING, "TYPE A|I|L 8",
		"200 504" },
	[FTP_MODE] = { FTP_MODE, "MODE", REQUIRED, true, false, NOTHING, "MODE S",
		"200 504" },
	[FTP_STRU] = { FTP_STRU, "STRU", REQUIRED, true, false, NOTHING, "STRU F",
		"200 504" },
	[FTP_ALLO] = { FTP_ALLO, "ALLO", REQUIRED, true, false, NOTHING, "ALLO <bytes> [R <bytes>]",
		"200 202 504 552" },
	[FTP_PWD] = { FTP_PWD, "PWD", NONE, true, false, NOTHING, "PWD",
		"257 550" },
	[FTP_CWD] = { FTP_CWD, "CWD", REQUIRED, true, false, NOTHING, "CWD <directory>",
		"250 550" },
	[FTP_CDUP] = { FTP_CDUP, "CDUP", NONE, true, false, NOTHING, "CDUP",
		"200 250 550" },
	[FTP_EPSV] = { FTP_EPSV, "EPSV", OPTIONAL, true, true, NOTHING, "EPSV [1|2|ALL]",
		"200 229 425 522" },
	[FTP_PASV] = { FTP_PASV, "PASV", NONE, true, false, NOTHING, "PASV",
		"227 425" },
	[FTP_PORT] = { FTP_PORT, "PORT", REQUIRED, true, false, NOTHING, "PORT <h1,h2,h3,h4,p1,p2>",
		"200 504" },
	[FTP_EPRT] = { FTP_EPRT, "EPRT", REQUIRED, true, true, NOTHING, "EPRT |<1|2>|<address>|<port>|",
		"200 504 522" },
	[FTP_RETR] = { FTP_RETR, "RETR", REQUIRED, true, false, SEE, "RETR <file>",
		TRANSFER " 450 550 554 555" },
	[FTP_STOR] = { FTP_STOR, "STOR", REQUIRED, true, false, CREATE, "STOR <file>",
		TRANSFER " 450 452 532 551 552 553 554 555" },
	[FTP_APPE] = { FTP_APPE, "APPE", REQUIRED, true, false, CREATE, "APPE <file>",
		TRANSFER " 450 452 532 550 551 552 553 555" },
	[FTP_REST] = { FTP_REST, "REST", REQUIRED, true, false, NOTHING, "REST <offset>",
		"350" },
	[FTP_SIZE] = { FTP_SIZE, "SIZE", REQUIRED, true, true, NOTHING, "SIZE <file>",
		"213 550" },
	[FTP_MDTM] = { FTP_MDTM, "MDTM", REQUIRED, true, true, DEPENDS, "MDTM <file>",
		"213 550" },
	[FTP_MFMT] = { FTP_MFMT, "MFMT", REQUIRED, true, true, CHANGE, "MFMT <YYYYMMDDhhmmss> <path>",
		"213 550" },
	[FTP_HASH] = { FTP_HASH, "HASH", REQUIRED, true, false, SEE, "HASH <file>",
		"213 226 426 450 504 550 552 553 556" },
	[FTP_MLSD] = { FTP_MLSD, "MLSD", OPTIONAL, true, false, SEE, "MLSD [<directory>]",
		TRANSFER " 550" },
	[FTP_MLST] = { FTP_MLST, "MLST", OPTIONAL, true, false, NOTHING, "MLST [<path>]",
		"250 550 553" },
	[FTP_LIST] = { FTP_LIST, "LIST", OPTIONAL, true, false, SEE, "LIST [-aAdR1] [<path>]",
		TRANSFER " 450" },
	[FTP_NLST] = { FTP_NLST, "NLST", OPTIONAL, true, false, SEE, "NLST [-aAdRl] [<path>]",
		TRANSFER " 450" },
	[FTP_MKD] = { FTP_MKD, "MKD", REQUIRED, true, false, CREATE, "MKD <directory>",
		"257 550" },
	[FTP_RMD] = { FTP_RMD, "RMD", REQUIRED, true, false, CHANGE, "RMD <directory>",
		"250 550" },
	[FTP_DELE] = { FTP_DELE, "DELE", REQUIRED, true, false, CHANGE, "DELE <file>",
		"250 450 550" },
	[FTP_RNFR] = { FTP_RNFR, "RNFR", REQUIRED, true, false, CHANGE, "RNFR <path>",
		"350 450 550" },
	[FTP_RNTO] = { FTP_RNTO, "RNTO", REQUIRED, true, false, CHANGE, "RNTO <path>",
		"250 503 532 553" },
	[FTP_SITE] = { FTP_SITE, "SITE", REQUIRED, true, false, DEPENDS, "SITE <command>",
		"200 202 214 504 550" },
	[FTP_ABOR] = { FTP_ABOR, "ABOR", NONE, false, false, NOTHING, "ABOR",
		"225 226" },
	[FTP_NOOP] = { FTP_NOOP, "NOOP", NONE, false, false, NOTHING, "NOOP",
		"200" },
	[FTP_STAT] = { FTP_STAT, "STAT", OPTIONAL, true, false, DEPENDS, "STAT [<path>]",
		"211 212 213 450" },
	[FTP_HELP] = { FTP_HELP, "HELP", OPTIONAL, false, false, NOTHING, "HELP [<command>]",
		"211 214" },
	[FTP_QUIT] = { FTP_QUIT, "QUIT", NONE, false, false, NOTHING, "QUIT",
		"221" },
	[FTP_ACCT] = { FTP_ACCT, "ACCT", REQUIRED, true, false, NOTHING, "ACCT <account>",
		"" },
	[FTP_SMNT] = { FTP_SMNT, "SMNT", REQUIRED, true, false, NOTHING, "SMNT <directory>",
		"" },
	[FTP_REIN] = { FTP_REIN, "REIN", NONE, true, false, NOTHING, "REIN",
		"" },
	[FTP_STOU] = { FTP_STOU, "STOU", OPTIONAL, true, false, NOTHING, "STOU [<file>]",
		"" },
	[FTP_BULK] = { FTP_BULK, "BULK", REQUIRED, true, true, DEPENDS, "BULK <bytes>",
		BULK_CODES },
	[FTP_LANE] = { FTP_LANE, "LANE", REQUIRED, true, true, NOTHING, "LANE <n>",
		"150 226 503" },
	[FTP_GIVE] = { FTP_GIVE, "GIVE", REQUIRED, true, true, DEPENDS, "GIVE <bytes>",
		BULK_CODES },
	[FTP_TAKE] = { FTP_TAKE, "TAKE", REQUIRED, true, true, DEPENDS, "TAKE <bytes>",
		BULK_CODES },
	[FTP_RMDA] = { FTP_RMDA, "RMDA", REQUIRED, true, true, CHANGE, "RMDA <path>",
		"250 450 550" },
};

/* ASCII only: toupper() would ask the locale. */
static char upper(char c)
{
	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

static bool same_verb(const char *name, const char *given)
{
	while (*name && *name == upper(*given)) {
		name++;
		given++;
	}
	return !*name && !*given;
}

/* From before there were the others; clients still send them. */
static const struct {
	const char *name;
	enum ftp_verb verb;
} aliases[] = {
	{ "XMKD", FTP_MKD }, { "XRMD", FTP_RMD }, { "XPWD", FTP_PWD }, { "XCUP", FTP_CDUP },
	{ "XCWD", FTP_CWD },
};

const struct ftp_command *ftp_command_find(const char *name)
{
	for (int v = 0; v < FTP_VERBS; v++) {
		if (same_verb(commands[v].name, name))
			return &commands[v];
	}
	for (size_t i = 0; i < sizeof(aliases) / sizeof(aliases[0]); i++) {
		if (same_verb(aliases[i].name, name))
			return &commands[aliases[i].verb];
	}
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

	/* One space parts verb and argument; any other belongs to the argument, since names
	 * and passwords may begin and end with blanks. */
	if (space && space[1])
		*arg = space + 1;
	if ((*cmd)->arg == FTP_ARG_NONE && *arg) {
		*arg = NULL;
		return -EINVAL;
	}
	return (*cmd)->arg == FTP_ARG_REQUIRED && !*arg ? -EINVAL : 0;
}
