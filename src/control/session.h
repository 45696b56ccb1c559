// SPDX-License-Identifier: Apache-2.0
/* The server half's own view of a session: what the commands in cmd_*.c share. */
#ifndef RFTP_CONTROL_SESSION_H
#define RFTP_CONTROL_SESSION_H

#include "control/control.h"

/* Facts that MLST and MLSD give, RFC 3659 §7.5; OPTS MLST chooses among them. */
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
	int fd;                      /* what ms reads from, to sleep on */
	struct sockaddr_storage peer;
	bool has_peer;               /* a socket with an address; not stdio */
	char peer_text[80];
	struct tls *tls;             /* ms's; NULL: in clear */

	bool logged_in;
	struct ftp_account account;  /* good once logged_in */
	char *user;                  /* of USER, waiting for PASS */
	unsigned failures;           /* wrong passwords so far */
	unsigned certificate_asked;  /* times that its user was asked for */
	uint64_t login_by;           /* now_ns() */

	const struct ftp_command *running; /* whose replies these are; NULL: none's */
	char *cwd;                   /* absolute, below the account's root */
	bool percent;                /* names are percent-encoded, OPTS NAMES PERCENT */
	bool inline_list;            /* MLSD answers in its reply, OPTS INLINE MLSD */
	bool ascii;                  /* TYPE A */
	bool pbsz, prot_p;
	unsigned facts;
	const char *hash;            /* algorithm of HASH */
	uint64_t rest;               /* of REST, for the next RETR or STOR */
	char *rename_from;           /* of RNFR, for the RNTO that follows at once */

	int lfd;                     /* listener of EPSV or PASV; -1: none */
	struct sockaddr_storage dial; /* of PORT or EPRT; AF_UNSPEC: none */
	bool epsv_all;               /* EPSV ALL: no other command may set up data */
	struct stream *data;         /* the data connection of the command under way */
	bool data_stays;             /* it does not leave this host */
	uint64_t moved;              /* bytes that it has carried */
	uint64_t began;              /* now_ns(), when it was opened */
	uint64_t control_checked;    /* now_ns() of the last look for ABOR */
	struct dirs *dirs;

	struct ftp_session *whole;   /* of a lane: the session it is one of, which owns
				      * account and cwd; NULL: no lane */
	unsigned lanes;              /* of a lane: how many there are */

	char *stash;                 /* a command that came during a transfer */
	bool quit;
	char line[FTP_LINE_MAX];
};

/* One per verb. arg is "" when absent. 0, or a negative errno that ends the session. */
typedef int ftp_handler(struct ftp_session *s, char *arg);

ftp_handler cmd_user, cmd_pass, cmd_auth, cmd_pbsz, cmd_prot, cmd_quit;
ftp_handler cmd_feat, cmd_opts, cmd_syst, cmd_type, cmd_mode, cmd_stru, cmd_allo, cmd_noop,
	cmd_help;
ftp_handler cmd_pwd, cmd_cwd, cmd_cdup, cmd_size, cmd_mdtm, cmd_hash, cmd_mkd, cmd_rmd, cmd_dele,
	cmd_rmda, cmd_rnfr, cmd_rnto;
ftp_handler cmd_mfmt, cmd_site;
ftp_handler cmd_epsv, cmd_pasv, cmd_port, cmd_eprt;
ftp_handler cmd_rest, cmd_retr, cmd_stor, cmd_appe, cmd_abor;
ftp_handler cmd_mlsd, cmd_mlst, cmd_list, cmd_nlst, cmd_stat;
ftp_handler cmd_bulk, cmd_give, cmd_take, cmd_lanes;

/* ---- ftp_server.c ---- */

/* Log in without a password: the stream has authenticated its user. */
int session_login_trusted(struct ftp_session *s);
/* The account is filled: the session is this user's from now on. */
int session_login_done(struct ftp_session *s);
/* Serve commands until QUIT, the end of s->ms (-EPIPE) or an error. */
int session_commands(struct ftp_session *s);
/* Sleep, but not beyond the server's stop. */
void session_pause(struct ftp_session *s, int ms);
bool session_stopping(const struct ftp_session *s);
int session_idle_ms(const struct ftp_session *s);
/* Has the account the right to this? 0; 1: refused, the reply has been given; negative: the
 * session ends. Only for commands whose row says FTP_NEEDS_DEPENDS: others are checked
 * before their handler runs. */
int session_check(struct ftp_session *s, enum ftp_needs needs);
/* Reply with why it cannot be, about a path. */
int session_reply_about(struct ftp_session *s, int code, const char *path, const char *why);
/* The same for rc, a negative errno. */
int session_reply_errno(struct ftp_session *s, int rc, const char *path);
/* path as a reply shows it: encoded when agreed, otherwise printable. malloc'd; NULL when
 * memory is out. */
char *session_name(struct ftp_session *s, const char *path);
/* The path a command's argument means, decoded when agreed; malloc'd. NULL: the reply has
 * been given. */
char *session_arg_path(struct ftp_session *s, const char *arg);
/* The same for a command that makes or changes what has the path: parts are refused. */
char *session_change_path(struct ftp_session *s, const char *arg);
/* Look at the control connection during a transfer: 0: go on; -ECANCELED: ABOR came;
 * another negative errno: it is gone. STAT is answered; another command is kept for later. */
int session_poll_control(struct ftp_session *s);

/* ---- handed.c ---- */

/* Is there TLS for whom it is, and is the control connection under it? Be it here or in the
 * process that holds it. */
bool session_has_tls(const struct ftp_session *s);
bool session_under_tls(const struct ftp_session *s);
/* s->data from fd, under TLS; fd is the caller's on an error. */
int session_guard_data(struct ftp_session *s, int fd, struct err *e);
/* The account is filled: say so with code, and go on with the session, or have it go on
 * elsewhere until its end. */
int session_welcome(struct ftp_session *s, int code);
/* Go on where another process has stopped. */
void session_take_over(struct ftp_session *s);

/* ---- cmd_ls.c ---- */

/* LIST of arg, which may begin with options, in a reply 212 or 213. */
int session_stat_path(struct ftp_session *s, char *arg);

/* ---- cmd_attr.c ---- */

/* "MDTM time path", by which clients from before MFMT set a time; *sets: it was that, and has
 * been answered. */
int session_mdtm_sets(struct ftp_session *s, const char *arg, bool *sets);

/* ---- cmd_stat.c ---- */

/* To a STAT during a transfer (RFC 959 §4.1.3). */
int session_reply_progress(struct ftp_session *s);

/* ---- path.c ---- */

/* arg below cwd, "." and ".." taken out as text ("/.." is "/"), "~" and "~/..." from
 * home; one slash at the end is kept. malloc'd; NULL when memory is out. */
char *ftp_path_resolve(const char *cwd, const char *home, const char *arg);

/* ---- facts.c ---- */

/* "type*;size;..." of all facts for FEAT (marked: with an asterisk behind those that are
 * on), or of those that are on alone. */
void facts_text(char out[128], unsigned on, bool all);
unsigned facts_parse(const char *list);

/* ---- data.c ---- */

/* Two addresses of one host; IPv4 mapped by IPv6 is IPv4. */
bool same_host(const struct sockaddr_storage *a, const struct sockaddr_storage *b);

/* Listen for the next data connection; what was to come of it before is forgotten. */
int data_listen(struct ftp_session *s, uint16_t *port, struct err *e);
/* Accept the client on the listener, or connect to it by s->dial, say 150, start TLS when
 * PROT P. 0: s->data is there; 1: it could not be had, the reply has been given; or a negative
 * errno that ends the session. */
int data_open(struct ftp_session *s, const char *what);
/* As read and write of streams, all len bytes for the latter; -ECANCELED when ABOR came. */
ssize_t data_read(struct ftp_session *s, void *p, size_t len);
int data_write(struct ftp_session *s, const void *p, size_t len);
/* As sendfile of streams; -EOPNOTSUPP also where the stream never can, or where reading and
 * writing is cheaper. */
ssize_t data_sendfile(struct ftp_session *s, int fd, uint64_t from, size_t len);
/* Close; in good order when ok. */
void data_close(struct ftp_session *s, bool ok);
/* Neither a connection nor what one could come of. */
void data_forget(struct ftp_session *s);
/* The reply at the end of a data command: rc 0, or a negative errno about path. */
int data_reply(struct ftp_session *s, int rc, const char *path);

#endif
