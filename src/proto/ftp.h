// SPDX-License-Identifier: Apache-2.0
/* FTP's lines: commands (RFC 959 §4.1 and its successors), replies (§4.2) and
 * machine listings (RFC 3659 §7). */
#ifndef RFTP_PROTO_FTP_H
#define RFTP_PROTO_FTP_H

#include "util/util.h"

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
	FTP_BULK,   /* rftp's own: BULK <bytes>, see bulk.h */
	FTP_GIVE,   /* rftp's own: GIVE <bytes>, TAKE <bytes>, see third.h */
	FTP_TAKE,
	FTP_RMDA,   /* RMDA <path>: remove a tree; other servers use this name, too */
	FTP_AVBL,   /* draft-peterson-streamlined-ftp-command-extensions §4 */
	FTP_VERBS
};

enum ftp_arg { FTP_ARG_NONE, FTP_ARG_OPTIONAL, FTP_ARG_REQUIRED };

/* The right that an account needs for a command. A command without a right in its table row
 * (UNSAID) is refused to every account. */
enum ftp_needs {
	FTP_NEEDS_UNSAID,
	FTP_NEEDS_NOTHING, /* reveals at most size, times and mode of a named file */
	FTP_NEEDS_SEE,     /* contents, digests, names that the client does not know */
	FTP_NEEDS_CREATE,  /* a name that does not exist yet, bytes after a file's end */
	FTP_NEEDS_CHANGE,  /* attributes, names and bytes of existing files */
	FTP_NEEDS_DEPENDS, /* on its argument: its handler calls session_check */
};

/* For SITE: before its arguments, which rftp-protocol(7) lists under "Ranges of files". */
#define SITE_JOIN "JOIN "

struct ftp_command {
	enum ftp_verb verb;
	const char *name;
	enum ftp_arg arg;
	bool login;         /* only after login */
	bool feat;          /* announced by FEAT under its own name */
	enum ftp_needs needs;
	const char *syntax; /* for HELP */
	const char *codes;  /* its replies besides those of any command; "": not implemented */
};

/* Find a command by name, in upper or lower case; also by the older names of RFC 1123 §4.1.3.1,
 * such as XMKD. NULL: unknown. Static. */
const struct ftp_command *ftp_command_find(const char *name);
const struct ftp_command *ftp_command_of(enum ftp_verb v);
/* True: the RFCs allow code as a reply to the command. */
bool ftp_command_answers(const struct ftp_command *cmd, int code);

/* Cut a command line (without its CRLF and without Telnet IAC sequences) into verb and argument, in
 * place. 0; -EINVAL: no verb, or an argument that is missing or not allowed; -ENOSYS: unknown verb.
 * *cmd is set whenever the verb is known; *arg is NULL if there is none or it is empty. */
int ftp_command_parse(char *line, const struct ftp_command **cmd, char **arg);

/* A reply as a client reads it, line by line. */
struct ftp_reply {
	int code;       /* 100..599 */
	char *text;     /* all lines, joined by '\n'; first and last without the code */
	size_t len, room;
	bool done;
	bool multi;     /* it has several lines */
};

void ftp_reply_clear(struct ftp_reply *r);

/* Add one line (without CRLF). 1: the reply is complete; 0: more lines follow; -EBADMSG: not FTP;
 * -EMSGSIZE: longer than FTP_REPLY_MAX. The line after a complete reply begins the next one. */
int ftp_reply_line(struct ftp_reply *r, const char *line);

/* Append a reply to out; text with '\n' becomes a multi-line reply. No character of text can break
 * the framing. 0; -EINVAL: not a reply code; or the error of buf_put(). */
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
	bool time_about;       /* mtime has no seconds or no time zone (LIST) */
	uint64_t unique;       /* a digest of the fact UNIQUE, the same for all names of a file; 0:
			        * not given */
	char *target;          /* of a link; NULL: not given */
	char *name;            /* as on the line, percent-decoded when encoded */
};

void ftp_facts_clear(struct ftp_facts *f);

/* One MLSD or MLST line without CRLF. encoded: names are percent-encoded (both sides agreed by
 * OPTS). A fact with an invalid value counts as not given. The name may be a path (MLST): code that
 * creates files from a listing must call bulk_name_ok(). 0, -EBADMSG or -ENOMEM; the caller clears
 * f in any case. */
int ftp_facts_parse(const char *line, bool encoded, struct ftp_facts *f);

/* The same for the reply to MLST: its facts are the only line between the first and the last one
 * (RFC 3659 §7.2). */
int ftp_facts_of_reply(struct ftp_reply *r, bool encoded, struct ftp_facts *f);

/* Append the line without CRLF. 0; -EILSEQ: the name needs encoding to fit into a line; or another
 * negative errno. */
int ftp_facts_format(struct buf *out, const struct ftp_facts *f, bool encoded);
/* YYYYMMDDHHMMSS[.fraction] in UTC, RFC 3659 §2.3. parse: 0 or -EINVAL. */
int ftp_time_parse(const char *s, int64_t *sec, uint32_t *ns);
void ftp_time_format(char out[32], int64_t sec, uint32_t ns);

/* ---- lines of LIST ----
 *
 * No standard describes LIST. Known formats: ls -l, DOS and IIS, NetWare, EPLF. */

/* One line without CRLF. now: seconds since 1970, for dates without a year. Times are taken as UTC,
 * since the line does not contain the zone, and marked (time_about) if they may be off by hours or
 * lack seconds. The name is not checked: code that creates files from it must call bulk_name_ok().
 * 1 with f, which the caller clears; 0: a line without a file ("total 8", ".", ".."); -EBADMSG: an
 * unknown format; -ENOMEM. */
int ftp_list_parse(const char *line, int64_t now, struct ftp_facts *f);

/* ---- listings ---- */

/* The text of a listing, as it arrives. */
struct listing_text {
	const char *host;   /* the server, for error texts */
	struct buf *text;   /* freed by the owner; NULL: nothing has arrived */
	uint64_t lines;
};

/* Append n bytes to listing, a struct listing_text. 0; -EOVERFLOW: no directory has so many
 * lines or bytes; or -ENOMEM; with text. */
int listing_add(void *listing, const void *p, size_t n, struct err *e);

/* Entries of a listing. */
struct facts_list {
	struct ftp_facts *all;
	size_t n, room;
};

enum listing_form { LISTING_LIST, LISTING_FACTS, LISTING_PERCENT /* encoded names */ };

/* Replace the contents of list by the entries of l, except the directory itself and its parent;
 * the text is overwritten. A name is never empty, "." or "..", and has no "/" and no NUL: a
 * listing with such a name fails with -EPROTO. Otherwise a name may have any bytes. 0, or a
 * negative errno with text; the caller clears list in any case. */
int listing_parse(struct listing_text *l, enum listing_form form, struct facts_list *list,
		  struct err *e);
void facts_clear(struct facts_list *l);
/* Compare two struct ftp_facts by name, for qsort() and bsearch(). */
int facts_by_name(const void *a, const void *b);

#endif
