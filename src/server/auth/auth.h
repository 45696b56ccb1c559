// SPDX-License-Identifier: Apache-2.0
/* Logins: the check of a password or a certificate, the account that results, and the auth process
 * that does both and becomes the session (docs/TRUST.md). One thread only. */
#ifndef RFTP_SERVER_AUTH_AUTH_H
#define RFTP_SERVER_AUTH_AUTH_H

#include "control/control.h"
#include "server/config/options.h"

#include <limits.h>
#include <sys/types.h>

/* ---- users.c: system users, and the switch from root to one of them ---- */

enum {
	IDENTITY_NAME = 256,
	IDENTITY_GROUPS = 65536, /* the kernel's limit */
};

/* A system user. */
struct identity {
	char name[IDENTITY_NAME], home[PATH_MAX];
	uid_t uid;
	gid_t gid;
	gid_t *groups;   /* all groups, gid included */
	int ngroups;
};

/* Look user name up in the system's user database. 0: id is filled; -ENOENT with text: there is no
 * such user; or another negative errno with text. identity_clear() frees id's contents. */
int no_user(const char *name, int code, struct err *e); /* returns code, with text */
/* Log that a certificate does not prove user. pin NULL: there is none yet. */
void certificate_refused(const char *user, const char *peer, const char *pin, const char *why);
int identity_of(const char *name, struct identity *id, struct err *e);
void identity_clear(struct identity *id);
/* Change this root process for good to the user and groups of id, without capabilities and without
 * a way to gain any; other processes of that user cannot trace it. Its parent death signal stays
 * set. 0; or a negative errno with text: the process may be half changed and must end. One thread
 * only. */
int identity_assume(const struct identity *id, struct err *e);

/* ---- users.c: the users file and the map of certificates ---- */

/* Each login reads the file again, so changes need no restart; malformed lines are logged and
 * skipped. Empty lines and lines that begin with "#" are ignored. */

/* A line "name:hash:root:home:rights[:system user]". An empty root means the server's --root, an
 * empty home "/", and a missing system user the server's --files-user. rights: "ro", "rw",
 * "nodelete" (write, but not remove or rename), or "upload" (as nodelete, but not list or read). */
struct user {
	char *name, *hash, *root, *home;
	char *system_user;   /* NULL: the line has none */
	enum rights rights;
};

void user_clear(struct user *u);
/* Parse one line without its newline. 1: u is a user, which user_clear() frees; 0: the line has no
 * entry; -EINVAL with text. */
int user_parse(const char *line, struct user *u, struct err *e);
/* Look name up in the file. 1: u is that user; 0: there is no such user, and u has no hash, with
 * which password_check() takes the same time; or a negative errno with text. */
int users_find(const char *file, const char *name, struct user *u, struct err *e);
typedef void user_fn(void *arg, const struct user *u);
/* At the start: check that each line is well formed, and that only the owner may write the file.
 * Call fn, if not NULL, for each user. 0 or a negative errno with text. */
int users_verify(const char *file, user_fn *fn, void *arg, struct err *e);

/* A line 'SHA256:... user' names a certificate by its key, whatever its issuer; a line 'subject
 * "CN=..." user' names one that a CA of --ca has signed, by its subject in the form of RFC 2253.
 * Several lines may name the same certificate, or the same user. */
struct cert_line {
	char *pin, *subject; /* one of them is NULL */
	char *user;
};

void cert_line_clear(struct cert_line *c);
/* Parse one line without its newline. 1: c is an entry, which cert_line_clear() frees; 0: the line
 * has no entry; or a negative errno with text. */
int cert_line_parse(const char *line, struct cert_line *c, struct err *e);
/* May a client with this certificate log in as user? subject NULL: no CA of --ca has signed it. 1:
 * yes; 0: no; or a negative errno with text. */
int certs_allow(const char *file, const char *pin, const char *subject, const char *user,
		struct err *e);
/* At the start: check that each line is well formed, that only the owner may write the file, and
 * that there is a CA if a line names a subject. 0 or a negative errno with text. */
int certs_verify(const char *file, bool have_ca, struct err *e);

/* ---- auth.c: the check and the account ---- */

/* A login to check. The strings are the caller's, which wipes the password. */
struct auth_ask {
	const char *user;
	const char *password;  /* NULL: the login is by certificate */
	const char *pin;       /* the pin of the key that the client has proved to own; NULL:
				* none */
	const char *subject;   /* the subject of its certificate, if a CA of --ca has signed it;
				* NULL otherwise */
	const char *peer;      /* the client's address as text, without the port */
};

enum auth_method { AUTH_ANONYMOUS, AUTH_USERS, AUTH_PAM, AUTH_CERTIFICATE, AUTH_SELF };

struct auth_answer {
	char name[IDENTITY_NAME]; /* the account's name */
	enum auth_method method;
	bool is_system;        /* the account is the system user in as; otherwise only rftpd knows
				* the account */
	struct identity as;
	bool confined;         /* root is the client's "/"; otherwise the system's "/" is */
	char root[PATH_MAX];
	char home[PATH_MAX];   /* absolute, below root */
	enum rights rights;
	unsigned umask;
};

/* The least time between a password and its refusal, ms. A check that takes longer is refused after
 * a multiple of this, so that the time does not show whether a user exists. */
enum { AUTH_REFUSAL_MS = 500 };

/* Check a login. 0: the caller clears *a with auth_answer_clear(). Otherwise *a is empty, and the
 * result is -EACCES: wrong credentials, or the account may not log in; the reason in e is for the
 * log only. -EKEYEXPIRED: the password was right, but must be changed first; the text in e is for
 * the user. -EAGAIN: a temporary failure; another negative errno: a lasting one; the text is for
 * the log. */
int auth_check(const struct srv_options *o, const struct auth_ask *ask, struct auth_answer *a,
	       struct err *e);
void auth_answer_clear(struct auth_answer *a);
/* Before a refusal: sleep until AUTH_REFUSAL_MS, or a multiple, have passed since began (ns). */
void auth_fill_up(uint64_t began);
/* Is user one of the names of the anonymous account? */
bool auth_is_anonymous(const char *user);

/* auth_check() for a client at peer_text, an address with its port; logs the result. */
int login_check(const struct srv_options *o, const char *peer_text, const struct auth_ask *ask,
		struct auth_answer *a, struct err *e);
/* For --stdio: fill a with the account of the user that runs this process. 0, or a negative errno
 * with text. */
int login_self(const struct srv_options *o, struct auth_answer *a, struct err *e);
/* If this process is root's and a is a system user, become that user. 0; or a negative errno with
 * text: the process must end. */
int login_become(const struct auth_answer *a, struct err *e);
/* After the login of a client at peer_text: fill account from a, and open its root with the
 * permissions of this process. 0, and ftp_account_clear() frees the contents; or -EKEYEXPIRED with
 * a text for the user (the reason and the root's path are logged). */
int login_enter(const struct auth_answer *a, const char *peer_text, struct ftp_account *account,
		struct err *e);

/* The name of rftpd's file in /etc/pam.d. */
#define AUTH_PAM_SERVICE "rftpd"

#ifdef HAVE_PAM
#define AUTH_HAS_PAM true
#else
#define AUTH_HAS_PAM false
#endif

/* Does PAM accept ask's password; or, if there is no password, may ask's user log in? u becomes the
 * user that PAM names, with the groups that PAM adds; identity_clear() frees its contents. Results
 * as of auth_check(); -EOPNOTSUPP: this build has no PAM. */
int auth_pam_check(const struct auth_ask *ask, struct identity *u, struct err *e);

/* ---- auth_process.c ---- */

struct server;
struct ends;
struct channel;

/* The main function of an auth process, a root process that was forked for one login: read a login
 * of user (and of no other user) from the preauth process on line; have a child check it; report
 * the result to the monitor; become the user and serve the session. Returns the exit status. */
int auth_process_run(const struct server *sv, int line, struct channel *monitor,
		     const struct ends *ends, const char *user);

enum {
	PIN_ROOM = 64,
	SUBJECT_ROOM = 64 << 10, /* a longer subject matches no user */
};

/* The result of a certificate check, from a child that an attacker may control. */
struct cert_result {
	char pin[PIN_ROOM];         /* "": none */
	char subject[SUBJECT_ROOM]; /* "": none */
};

/* Is r well formed? 0 or -EPROTO. */
int cert_result_check(const struct cert_result *r);

#endif
