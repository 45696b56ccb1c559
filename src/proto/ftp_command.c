// SPDX-License-Identifier: Apache-2.0
/* The table of FTP commands and how a line is cut into verb and argument. */
#include "proto/ftp.h"

#include <errno.h>
#include <string.h>

#define NONE     FTP_ARG_NONE
#define OPTIONAL FTP_ARG_OPTIONAL
#define REQUIRED FTP_ARG_REQUIRED

/* verb, name, argument, only after login, in FEAT under its own name, syntax. What FEAT
 * shows with parameters (AUTH TLS, REST STREAM, MLST and its facts, HASH, UTF8) is put
 * there by who knows the parameters. */
static const struct ftp_command commands[FTP_VERBS] = {
	[FTP_USER] = { FTP_USER, "USER", REQUIRED, false, false, "USER <name>" },
	/* "PASS" alone is how some clients send an empty password. */
	[FTP_PASS] = { FTP_PASS, "PASS", OPTIONAL, false, false, "PASS <password>" },
	[FTP_AUTH] = { FTP_AUTH, "AUTH", REQUIRED, false, false, "AUTH TLS" },
	[FTP_PBSZ] = { FTP_PBSZ, "PBSZ", REQUIRED, false, true, "PBSZ 0" },
	[FTP_PROT] = { FTP_PROT, "PROT", REQUIRED, false, true, "PROT C|P" },
	[FTP_FEAT] = { FTP_FEAT, "FEAT", NONE, false, false, "FEAT" },
	[FTP_OPTS] = { FTP_OPTS, "OPTS", REQUIRED, false, false, "OPTS <command> [<options>]" },
	[FTP_SYST] = { FTP_SYST, "SYST", NONE, false, false, "SYST" },
	[FTP_TYPE] = { FTP_TYPE, "TYPE", REQUIRED, true, false, "TYPE A|I|L 8" },
	[FTP_MODE] = { FTP_MODE, "MODE", REQUIRED, true, false, "MODE S" },
	[FTP_STRU] = { FTP_STRU, "STRU", REQUIRED, true, false, "STRU F" },
	[FTP_ALLO] = { FTP_ALLO, "ALLO", REQUIRED, true, false, "ALLO <bytes>" },
	[FTP_PWD] = { FTP_PWD, "PWD", NONE, true, false, "PWD" },
	[FTP_CWD] = { FTP_CWD, "CWD", REQUIRED, true, false, "CWD <directory>" },
	[FTP_CDUP] = { FTP_CDUP, "CDUP", NONE, true, false, "CDUP" },
	[FTP_EPSV] = { FTP_EPSV, "EPSV", OPTIONAL, true, true, "EPSV [1|2|ALL]" },
	[FTP_RETR] = { FTP_RETR, "RETR", REQUIRED, true, false, "RETR <file>" },
	[FTP_STOR] = { FTP_STOR, "STOR", REQUIRED, true, false, "STOR <file>" },
	[FTP_REST] = { FTP_REST, "REST", REQUIRED, true, false, "REST <offset>" },
	[FTP_SIZE] = { FTP_SIZE, "SIZE", REQUIRED, true, true, "SIZE <file>" },
	[FTP_MDTM] = { FTP_MDTM, "MDTM", REQUIRED, true, true, "MDTM <file>" },
	[FTP_HASH] = { FTP_HASH, "HASH", REQUIRED, true, false, "HASH <file>" },
	[FTP_MLSD] = { FTP_MLSD, "MLSD", OPTIONAL, true, false, "MLSD [<directory>]" },
	[FTP_MLST] = { FTP_MLST, "MLST", OPTIONAL, true, false, "MLST [<path>]" },
	[FTP_MKD] = { FTP_MKD, "MKD", REQUIRED, true, false, "MKD <directory>" },
	[FTP_RMD] = { FTP_RMD, "RMD", REQUIRED, true, false, "RMD <directory>" },
	[FTP_DELE] = { FTP_DELE, "DELE", REQUIRED, true, false, "DELE <file>" },
	[FTP_RNFR] = { FTP_RNFR, "RNFR", REQUIRED, true, false, "RNFR <path>" },
	[FTP_RNTO] = { FTP_RNTO, "RNTO", REQUIRED, true, false, "RNTO <path>" },
	[FTP_SITE] = { FTP_SITE, "SITE", REQUIRED, true, false, "SITE <command>" },
	[FTP_ABOR] = { FTP_ABOR, "ABOR", NONE, false, false, "ABOR" },
	[FTP_NOOP] = { FTP_NOOP, "NOOP", NONE, false, false, "NOOP" },
	[FTP_HELP] = { FTP_HELP, "HELP", OPTIONAL, false, false, "HELP [<command>]" },
	[FTP_QUIT] = { FTP_QUIT, "QUIT", NONE, false, false, "QUIT" },
	[FTP_BULK] = { FTP_BULK, "BULK", REQUIRED, true, true, "BULK <bytes>" },
	[FTP_LANE] = { FTP_LANE, "LANE", REQUIRED, true, true, "LANE <n>" },
	[FTP_GIVE] = { FTP_GIVE, "GIVE", REQUIRED, true, true, "GIVE <bytes>" },
	[FTP_TAKE] = { FTP_TAKE, "TAKE", REQUIRED, true, true, "TAKE <bytes>" },
	[FTP_RMDA] = { FTP_RMDA, "RMDA", REQUIRED, true, true, "RMDA <path>" },
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

const struct ftp_command *ftp_command_find(const char *name)
{
	for (int v = 0; v < FTP_VERBS; v++) {
		if (same_verb(commands[v].name, name))
			return &commands[v];
	}
	return NULL;
}

const struct ftp_command *ftp_command_of(enum ftp_verb v)
{
	return (unsigned)v < FTP_VERBS ? &commands[v] : NULL;
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
