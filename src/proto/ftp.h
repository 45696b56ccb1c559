// SPDX-License-Identifier: Apache-2.0
/* FTP's lines: commands (RFC 959 §4.1 and its successors), replies (§4.2) and
 * machine listings (RFC 3659 §7). */
#ifndef RFTP_PROTO_FTP_H
#define RFTP_PROTO_FTP_H

#include "util/util.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FTP_LINE_MAX 32768   /* bytes of a command line with its CRLF */
#define FTP_REPLY_MAX (1u << 20)

enum ftp_verb {
	FTP_USER, FTP_PASS, FTP_AUTH, FTP_PBSZ, FTP_PROT, FTP_FEAT, FTP_OPTS, FTP_SYST,
	FTP_TYPE, FTP_MODE, FTP_STRU, FTP_ALLO, FTP_PWD, FTP_CWD, FTP_CDUP, FTP_EPSV,
	FTP_PASV, FTP_PORT, FTP_EPRT,
	FTP_RETR, FTP_STOR, FTP_APPE, FTP_REST, FTP_SIZE, FTP_MDTM, FTP_MFMT, FTP_HASH,
	FTP_MLSD, FTP_MLST, FTP_LIST, FTP_NLST,
	FTP_MKD, FTP_RMD, FTP_DELE, FTP_RNFR, FTP_RNTO, FTP_SITE, FTP_ABOR, FTP_NOOP,
	FTP_STAT, FTP_HELP, FTP_QUIT,
	FTP_ACCT, FTP_SMNT, FTP_REIN, FTP_STOU, /* known, and not implemented */
	FTP_BULK,   /* ours: BULK <bytes>, see bulk.h */
	FTP_LANE,  /* ours: LANE <n>, see bulk.h */
	FTP_GIVE,   /* ours: GIVE <bytes>, TAKE <bytes>, see third.h */
	FTP_TAKE,
	FTP_RMDA,   /* RMDA <path>: remove a tree, as other servers spell it */
	FTP_VERBS
};

enum ftp_arg { FTP_ARG_NONE, FTP_ARG_OPTIONAL, FTP_ARG_REQUIRED };

/* What a command does to files, which an account must have the right to. A row of the table
 * that does not say is refused to every account. */
enum ftp_needs {
	FTP_NEEDS_UNSAID,
	FTP_NEEDS_NOTHING, /* at most size, times and mode of what the client names */
	FTP_NEEDS_SEE,     /* contents, digests, names that the client did not know */
	FTP_NEEDS_CREATE,  /* a name that does not exist yet, bytes behind a file's end */
	FTP_NEEDS_CHANGE,  /* attributes, names and bytes of what exists */
	FTP_NEEDS_DEPENDS, /* on its argument: its handler calls session_check */
};

struct ftp_command {
	enum ftp_verb verb;
	const char *name;
	enum ftp_arg arg;
	bool login;         /* only after login */
	bool feat;          /* announced by FEAT under its own name */
	enum ftp_needs needs;
	const char *syntax; /* for HELP */
	const char *codes;  /* what it may be answered with, besides what any command may be;
			     * "": it is not implemented */
};

/* NULL: not known. Any case; also XMKD and its kin of RFC 1123 §4.1.3.1, for MKD and its own. */
const struct ftp_command *ftp_command_find(const char *name);
const struct ftp_command *ftp_command_of(enum ftp_verb v);
/* Is code one that the RFCs have for the command? */
bool ftp_command_answers(const struct ftp_command *cmd, int code);

/* Cut a command line (without its CRLF; Telnet IAC sequences already taken out) into
 * verb and argument, in place. 0; -EINVAL: no verb, or an argument that must not or
 * must be there; -ENOSYS: unknown verb. *cmd is set whenever the verb is known; *arg is
 * NULL when there is none or it is empty. */
int ftp_command_parse(char *line, const struct ftp_command **cmd, char **arg);

/* A reply as a client reads it, line by line. */
struct ftp_reply {
	int code;       /* 100..599 */
	char *text;     /* all lines without codes of first and last, joined by '\n' */
	size_t len, room;
	bool done;
	bool multi;
};

void ftp_reply_clear(struct ftp_reply *r);
/* Take one line (no CRLF). 1: the reply is whole; 0: more lines follow; -EBADMSG:
 * not FTP; -EMSGSIZE beyond FTP_REPLY_MAX. The line after a whole reply begins anew. */
int ftp_reply_line(struct ftp_reply *r, const char *line);
/* Append a reply to out, text split at '\n' into a multi-line reply where needed;
 * CR, LF and NUL in text never break the framing. */
int ftp_reply_format(struct buf *out, int code, const char *text);

/* Facts of one entry, RFC 3659 §7.5 and UNIX.* as commonly used. */
struct ftp_facts {
	char type;             /* 'f' file, 'd' directory, 'l' link, 'c' cdir, 'p' pdir,
				* 'o' other */
	bool has_size, has_mode, has_mtime, has_owner;
	uint64_t size;
	uint32_t mode, uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	bool time_about;       /* mtime lacks seconds or its time zone (LIST) */
	uint64_t unique;       /* a digest of that fact: the same file, by whatever name; 0: not
				* given */
	char *target;          /* of a link; NULL: not given */
	char *name;            /* as on the line, percent-decoded when encoded */
};

void ftp_facts_clear(struct ftp_facts *f);
/* One MLSD or MLST line without CRLF. encoded: names are percent-encoded (both sides
 * agreed by OPTS). A fact whose value is nonsense counts as not given. The name may be a
 * path (MLST): who makes files from a listing asks bulk_name_ok. */
int ftp_facts_parse(const char *line, bool encoded, struct ftp_facts *f);
/* Append the line without CRLF. -EILSEQ: the name cannot stand on a line unencoded. */
int ftp_facts_format(struct buf *out, const struct ftp_facts *f, bool encoded);
/* YYYYMMDDHHMMSS[.fraction] in UTC, RFC 3659 §2.3. */
int ftp_time_parse(const char *s, int64_t *sec, uint32_t *ns);
void ftp_time_format(char out[32], int64_t sec, uint32_t ns);

/* "229 Entering Extended Passive Mode (|||port|)". */
int ftp_epsv_parse(const char *text, uint16_t *port);

#endif
