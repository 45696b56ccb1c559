// SPDX-License-Identifier: Apache-2.0
/* The FTP session with one client, shared by its command handlers. A session has one thread.
 * Functions that send a reply return 0, or a negative errno that ends the session, unless their
 * comment says otherwise. */
#ifndef RFTP_CONTROL_SERVER_SESSION_H
#define RFTP_CONTROL_SERVER_SESSION_H

#include "control/control.h"

#include <sys/stat.h>

enum {
	SESSION_HANDSHAKE_MS = 30 * 1000,
	SESSION_BATCH = 64 << 10,      /* bytes of a listing that are sent together */
	SESSION_LINE_MAX = 256 << 10,  /* the longest line: a name and a link's target, both
					* encoded */
};

/* Facts of MLST and MLSD, RFC 3659 §7.5; OPTS MLST chooses among them. */
enum {
	FACT_TYPE = 1 << 0,
	FACT_SIZE = 1 << 1,
	FACT_MODIFY = 1 << 2,
	FACT_MODE = 1 << 3,
	FACT_UID = 1 << 4,
	FACT_GID = 1 << 5,
	FACTS_ALL = (1 << 6) - 1,
};

struct ftp_session {
	const struct ftp_server_config *c;
	struct err *e;               /* why the session ends */
	struct mstream *ms;          /* not owned */
	int fd;                      /* the descriptor below ms, for poll() */
	struct sockaddr_storage peer;
	bool has_peer;               /* a socket with an address; not stdio */
	char peer_text[80];
	struct tls *tls;             /* the TLS of ms; NULL: in clear, or TLS is in another
				      * process */

	bool logged_in;
	struct ftp_account account;  /* valid if logged_in */
	char *user;                  /* from USER, until PASS */
	unsigned failures;           /* wrong passwords so far */
	bool clear_refused;          /* a login without TLS */
	unsigned certificate_asked;  /* users that the certificate was checked for */
	uint64_t login_by;           /* now_ns() */

	const struct ftp_command *running; /* the current command, to which replies belong; NULL:
					    * none */
	struct ftp_handed agreed;    /* the settings by OPTS, TYPE, PBSZ and PROT; key is set only
				      * if TLS is in another process */
	char *cwd;                   /* absolute, below the account's root */
	uint64_t rest;               /* the offset of REST, for the next RETR or STOR */
	char *rename_from;           /* the path of RNFR, for the RNTO that follows at once */

	int lfd;                     /* listener of EPSV or PASV; -1: none */
	struct sockaddr_storage dial; /* the address of PORT or EPRT; AF_UNSPEC: none */
	bool epsv_all;               /* EPSV ALL: other commands may not set up a connection */
	struct stream *data;         /* the data connection of the running command */
	bool data_is_local;          /* its peer is on this host */
	uint64_t moved;              /* bytes transferred over it */
	uint64_t began;              /* now_ns(), when it was opened */
	uint64_t control_checked;    /* now_ns() of the last check for ABOR */
	struct dirs *dirs;

	char *stash;                 /* a command that arrived during a transfer */
	bool quit;
	char line[FTP_LINE_MAX];
};

/* The handler of a command. arg: "" if the line has none; a resolved path if its row in
 * ftp_server.c says so. Returns 0 or 1; a negative errno ends the session. */
typedef int ftp_handler(struct ftp_session *s, char *arg);

ftp_handler cmd_user, cmd_pass, cmd_auth, cmd_pbsz, cmd_prot, cmd_quit;
ftp_handler cmd_feat, cmd_opts, cmd_syst, cmd_type, cmd_mode, cmd_stru, cmd_allo, cmd_noop,
	cmd_help, cmd_stat;
ftp_handler cmd_pwd, cmd_cwd, cmd_cdup, cmd_size, cmd_mdtm, cmd_hash, cmd_mkd, cmd_rmd, cmd_dele,
	cmd_avbl, cmd_rmda, cmd_rnfr, cmd_rnto, cmd_mfmt, cmd_site;
ftp_handler cmd_epsv, cmd_pasv, cmd_port, cmd_eprt;
ftp_handler cmd_rest, cmd_retr, cmd_stor, cmd_appe, cmd_abor;
ftp_handler cmd_mlsd, cmd_mlst, cmd_list, cmd_nlst;

/* ---- ftp_server.c ---- */

/* The result of a function that returns 1 after a reply. rc: the result of ftp_session_reply(). */
static inline int session_replied(int rc)
{
	return rc < 0 ? rc : 1;
}

/* Check that the account has the right. 0: yes; 1: refused with a reply; negative: the session
 * ends. Handlers call this only if their command's row says FTP_NEEDS_DEPENDS; for other commands
 * it is done before. */
int session_check(struct ftp_session *s, enum ftp_needs needs);
/* The running command is refused. If it uses a data connection, forget the prepared one and the
 * offset of REST, so that the next command does not use them. */
void session_forget_setup(struct ftp_session *s);
/* Reply "path: why". */
int session_reply_about(struct ftp_session *s, int code, const char *path, const char *why);
/* Reply "path: why" for rc, a negative errno, with a code that fits. */
int session_not_plain(struct ftp_session *s, int code, const char *path);
int session_not_implemented(struct ftp_session *s, const struct ftp_command *cmd);
/* -EPIPE with the session's text. */
int session_client_gone(struct ftp_session *s);
int session_reply_errno(struct ftp_session *s, int rc, const char *path);
/* Returns path in the form for replies: percent-encoded if agreed, otherwise printable. malloc'd;
 * NULL: out of memory. */
char *session_name(struct ftp_session *s, const char *path);
/* The argument of a command as an absolute path below the root, decoded if agreed; malloc'd. NULL:
 * refused with a reply. */
char *session_arg_path(struct ftp_session *s, const char *arg);
/* The same for a command that creates or changes the path: names of parts are refused. */
char *session_change_path(struct ftp_session *s, const char *arg);
/* Decode arg if encoding is agreed. 0 with *decoded, malloc'd, or NULL if arg itself is the name;
 * 1: refused with a reply; negative: the session ends. */
int session_decode(struct ftp_session *s, const char *arg, char **decoded);
/* arg as an absolute path: relative to cwd, with "." and ".." resolved as text ("/.." is "/"), and
 * "~" and "~/..." relative to home; one slash at the end is kept. malloc'd; NULL: out of memory. */
char *ftp_path_resolve(const char *cwd, const char *home, const char *arg);
/* Can data connections be under TLS, in this process or in the one that has TLS? */
bool session_has_tls(const struct ftp_session *s);

bool session_stopping(const struct ftp_session *s); /* the server stops */
int session_idle_ms(const struct ftp_session *s); /* time limit of an idle session */
/* Read the control connection during a transfer. STAT is answered; another command is stashed. 0:
 * continue the transfer; -ECANCELED: ABOR has arrived; another negative errno: the connection is
 * lost. */
int session_poll_control(struct ftp_session *s);

/* ---- cmd_login.c ---- */

/* The login has succeeded, and s->account is filled: begin the session of this user. */
int session_login_done(struct ftp_session *s);

/* ---- cmd_info.c ---- */

/* Write facts to out. all: every fact, with "*" after those in on, as for FEAT ("type*;size;...");
 * otherwise only those in on. */
void facts_text(char out[128], unsigned on, bool all);
/* The bits of the facts in "type;size;..."; unknown facts are ignored. */
unsigned facts_parse(const char *list);
/* Answer a STAT that arrived during a transfer (RFC 959 §4.1.3). */
int session_reply_progress(struct ftp_session *s);

/* ---- cmd_list.c ---- */

/* Reply to STAT of a path: 212 or 213 with the lines of LIST. */
int session_stat_path(struct ftp_session *s, char *arg);

/* The texts of LIST and NLST; pure functions. */

struct ls_options {
	bool all;        /* -a: also "." and ".."; other names with a dot are always listed */
	bool itself;     /* -d: a directory itself, not its content */
	bool recursive;  /* -R */
	bool names;      /* -1, without a later -l: names only */
};

/* Set the options at the start of arg in o, which holds the defaults; unknown options are ignored.
 * Returns the path after them, a pointer into arg, "" for none. */
char *ls_options_take(char *arg, struct ls_options *o);

/* Does text contain "*", "?" or "["? */
bool ls_is_pattern(const char *text);
/* Does name, without slashes, match pattern, as by fnmatch(3)? Only a dot matches a leading dot. A
 * pattern of more than LS_PATTERN_MOST bytes matches nothing: clients choose it, and fnmatch(3)
 * needs time up to its length times the square of the name's length. */
enum { LS_PATTERN_MOST = 1024 };
bool ls_match(const char *pattern, const char *name);

/* Write "-rw-r--r-- 1 1000 1000 6 Jan 1 12:34 " to out; the caller appends the name. now: seconds
 * since 1970; times older than half a year, or in the future, are shown with the year instead of
 * the clock. Times are UTC. */
#define LS_LINE 128
void ls_line(char out[LS_LINE], const struct stat *st, int64_t now);

/* ---- data.c ---- */

/* Open the data connection: accept the client on the listener, or connect to s->dial; reply 150,
 * with what as the name of the data; start TLS if PROT is P. 0: s->data is open; 1: it failed, and
 * the reply has been sent; negative: the session ends. */
int data_open(struct ftp_session *s, const char *what);
/* As read and write of a stream, but data_write() writes all len bytes. -ECANCELED: ABOR has
 * arrived. */
ssize_t data_read(struct ftp_session *s, void *p, size_t len);
int data_write(struct ftp_session *s, const void *p, size_t len);
/* As sendfile of a stream; -EOPNOTSUPP: the stream has none, or reading and writing is faster. */
ssize_t data_sendfile(struct ftp_session *s, int fd, uint64_t from, size_t len);
/* Close the data connection. ok: end it cleanly, which tells the peer that the data is complete. */
void data_close(struct ftp_session *s, bool ok);
/* Close the data connection and the listener, and forget the address of PORT. */
void data_forget(struct ftp_session *s);
/* Send the reply at the end of a transfer. rc: 0, or a negative errno about path. */
int data_reply(struct ftp_session *s, int rc, const char *path);

#endif
