// SPDX-License-Identifier: Apache-2.0
/* control: FTP server and client over a message stream. The server keeps the state of the protocol,
 * and calls handlers for each decision of policy. The client logs in, checks the server's identity,
 * and sends commands. Unless a comment says otherwise, a session or a client is used by one thread
 * at a time. */
#ifndef RFTP_CONTROL_H
#define RFTP_CONTROL_H

#include "crypto/crypto.h"
#include "proto/proto.h"
#include "storage/storage.h"
#include "transport/transport.h"
#include "util/util.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

/* ---- server ---- */

struct ftp_session;

/* A logged-in user and its rights. */
struct ftp_account {
	char name[64];
	struct root *root;       /* after the login the session owns it */
	char *home;              /* the directory after the login, and the meaning of "~"; a path
				  * below root, such as "/" */
	mode_t umask;            /* applied to the mode of a created file that does not preserve its
				  * source's mode */
	bool can_see, can_create, can_change; /* enum ftp_needs; session_check decides */
};

/* NULL if a has the needed right; otherwise the reason of the refusal, as text for a reply. */
const char *ftp_account_refuses(const struct ftp_account *a, enum ftp_needs needs);

/* The settings that a client has agreed before its login. Another process continues the session
 * with these settings, while TLS stays in this process. */
struct ftp_handed {
	uint8_t tls;                /* 1: the control connection is under TLS, and key is its
				     * exported key */
	uint8_t key[KEY_BYTES];
	uint8_t percent, inline_list, ascii, pbsz, prot_p; /* 0 or 1 */
	uint32_t facts;             /* enabled facts of MLST: FACT_... of session.h */
	uint32_t hash;              /* an index in digest_names() */
};

/* Free the contents of a. */
void ftp_account_clear(struct ftp_account *a);

struct ftp_server_config {
	struct tls_ctx *tls;        /* NULL: no AUTH TLS (stdio) */
	/* Called after the login: continue the session in another process, and relay its bytes from
	 * and to ftp_session_stream(), by ms_read_some(). Returns at the end of the connection: 0,
	 * or a negative errno with text in e. NULL: the session continues in this process. */
	int (*handover)(void *arg, struct ftp_session *s, const struct ftp_handed *h,
			struct err *e);
	/* For that other process: handed is not NULL if the client has logged in through another
	 * process, which keeps TLS. login(arg, NULL, NULL) gives the account, no greeting is sent,
	 * and guard starts TLS on a data connection: it returns a stream that owns fd; or NULL with
	 * text, and fd stays the caller's. */
	const struct ftp_handed *handed;
	struct stream *(*guard)(void *arg, int fd, struct err *e);
	const struct sockaddr_storage *local; /* our address that the client connected to; NULL:
					       * take it from fd */
	bool require_tls;           /* USER before AUTH TLS is refused with 530 */
	bool require_prot;          /* data connections without PROT P are refused with 521 */
	bool trusted;               /* the stream has authenticated its user (ssh): there is no
				     * login, and login(arg, NULL, NULL) gives the account */
	const char *greeting;       /* the text of the greeting, reply 220 */
	const char *data_addr;      /* the address of EPSV listeners; "": that of the control
				     * connection */
	uint16_t port_lo, port_hi;
	bool active;                /* allow PORT and EPRT, to the client's own host only */
	int login_timeout_ms, idle_timeout_ms;
	/* Check a login by password. 0: a is filled; -EACCES: wrong; -EKEYEXPIRED: right, but the
	 * login is refused, with a text for the user; -EAGAIN: try again later. */
	int (*login)(void *arg, const char *user, const char *password,
		     struct ftp_account *a, struct err *e);
	/* The same by certificate, at USER under TLS: may the owner of the client's certificate log
	 * in as user? -EACCES: no, or the client has no certificate; the server then asks for the
	 * password. NULL: there is no login by certificate. */
	int (*cert_login)(void *arg, const char *user, struct tls *tls,
			  struct ftp_account *a, struct err *e);
	/* Run BULK. body: the bytes of the request. The handler sends the replies by
	 * ftp_session_reply(). 0; a negative errno closes the connection. */
	int (*bulk)(void *arg, struct ftp_session *s, struct buf *body);
	/* The same for GIVE and TAKE; NULL: FEAT does not offer them. */
	int (*give)(void *arg, struct ftp_session *s, struct buf *body);
	int (*take)(void *arg, struct ftp_session *s, struct buf *body);
	/* For accounting; both may be NULL. A session begins; a RETR, STOR or APPE begins (bytes
	 * 0), or has moved bytes in total. */
	void (*logged_in)(void *arg, struct ftp_session *s);
	void (*moving)(void *arg, struct ftp_session *s, const char *verb, const char *path,
		       uint64_t bytes);
	/* Reply to SITE STATUS, and to SITE FACTS; path: measure the storage there; NULL: do
	 * not. */
	int (*status)(void *arg, struct ftp_session *s);
	int (*facts)(void *arg, struct ftp_session *s, const char *path);
	/* A RETR, STOR or APPE has ended; for the log. error: 0 or a negative errno. */
	void (*transferred)(void *arg, struct ftp_session *s, const char *verb,
			    const char *path, uint64_t bytes, double seconds, int error);
	void *arg;
	const volatile sig_atomic_t *stop; /* not 0: finish the current command, then reply 421 and
					    * end */
};

/* Serve one control connection until QUIT, its end or an error; ms stays the caller's. fd: the
 * descriptor below ms. peer: the client's address; NULL on stdio. 0, or a negative errno with
 * text. */
int ftp_serve(const struct ftp_server_config *c, struct mstream *ms, int fd,
	      const struct sockaddr_storage *peer, struct err *e);

/* For handlers: send a reply. 0, or a negative errno, which ends the session. */
int ftp_session_reply(struct ftp_session *s, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The control connection, the account (NULL: no login yet), and the current directory. The session
 * owns all three. */
struct mstream *ftp_session_stream(struct ftp_session *s);
const struct ftp_account *ftp_session_account(struct ftp_session *s);
const char *ftp_session_cwd(struct ftp_session *s);
/* Export the key EXPORTER-rftp-bulk-1 from the connection's TLS. 0; -ENOENT: no TLS; or another
 * negative errno. */
int ftp_session_key(struct ftp_session *s, uint8_t key[KEY_BYTES]);
/* Is the connection safe from eavesdroppers: under TLS, or a trusted stream? */
bool ftp_session_secret(const struct ftp_session *s);
/* The TLS of the control connection, owned by the session; NULL: it is in clear. */
struct tls *ftp_session_tls(struct ftp_session *s);
/* Check h from another process. 0; -EPROTO: no session can have agreed these settings. */
int ftp_handed_check(const struct ftp_handed *h);
/* Returns arg as a path below the account's root: relative to cwd, with "." and ".." resolved as
 * text, and "~" as the home; malloc'd. NULL: out of memory. */
char *ftp_session_path(struct ftp_session *s, const char *arg);

/* ---- client ---- */

struct ssh;

/* The user's interruption of a call below. */
struct client_interrupt {
	int (*stop)(void *arg);    /* from the configuration */
	void *arg;
	int fd;                    /* readable: interrupt this call; -1: never */
	unsigned depth;            /* of nested calls */
	struct sentry sentry;
	pthread_mutex_t lock;      /* guards the fields below, which the sentry's thread shares */
	int socket;                /* of the connection; -1: none */
	bool came;
};

/* A connection. Other folders may read the members from ms to describe, and set only owed. */
struct ftp_client {
	struct mstream *ms;
	struct tls *tls;           /* the TLS of ms; NULL: in clear, or by ssh */
	struct ssh *ssh;           /* NULL: TCP */
	char *pin;                 /* the pin of the server's key; NULL: without TLS */
	struct sockaddr_storage peer;
	socklen_t peer_len;        /* 0: not known */
	uint64_t rtt_ns;           /* 0: not measured */
	struct bulk_version bulk;  /* announced by FEAT; major 0: none */
	bool give, take;           /* announced by FEAT */
	bool owed;                 /* BULK's closing reply is still unread; the client discards it
				    * before it reads another reply */
	char describe[256];        /* "host:port, TLSv1.3 ..." */

	struct client_interrupt interrupt;
	char *host;
	uint16_t port;             /* 0 over ssh */
	int timeout_ms;            /* for each step of connecting */
	int fd;                    /* the socket of ms, for getsockopt() */
	struct tls_ctx *ctx;       /* NULL: no TLS */
	bool percent, inline_list;
	bool lost;                 /* no command can be sent any more */
	struct ftp_reply reply;
	char line[FTP_LINE_MAX];
};

enum pin_answer { PIN_OK, PIN_REFUSED };

struct ftp_client_config {
	const struct url *url;   /* a server; must be remote */
	const char *rftpd_path;      /* over ssh: the program to run there; NULL: "rftpd" */
	const char *ssh_command;     /* NULL: "ssh" */
	const char *cafile;          /* check the server by this CA instead of its pin */
	const char *certfile;        /* our certificate, for servers that ask for one; NULL: none */
	const char *keyfile;         /* its key; NULL: the key is in certfile, too */
	bool plain;                  /* no TLS; a password is then sent only with plain_password */
	bool plain_password;
	const char *netrc;           /* the password file to name in error messages; NULL:
				      * ~/.netrc */
	bool data_clear;             /* foreign servers: data in clear (PROT C) even with TLS */
	int connect_timeout_ms;
	unsigned turn;               /* of tcp_connect_turn() */
	/* Is this the right key for host:port? Called before any data is sent; not called with
	 * cafile. If not, set e to the reason. */
	enum pin_answer (*check_pin)(void *arg, const char *host, uint16_t port,
				     const char *pin, struct err *e);
	/* The password of user at host, malloc'd; NULL: not available. attempt counts from 0. */
	char *(*password)(void *arg, const char *user, const char *host, int attempt);
	/* Returns a descriptor that becomes, and stays, readable when the user wants to stop; -1:
	 * none for this call. NULL: no call can be stopped. Each call below asks for it. A stopped
	 * call fails with -EINTR; then the connection is lost, unless nothing was sent yet. */
	int (*stop)(void *arg);
	void *arg;                   /* for these callbacks; must outlive the client */
	bool has_password;           /* password() can answer without asking the user */
	bool never_asks;             /* password() never asks the user: error messages do not
				      * suggest a terminal */
	/* The warnings that were given about a foreign server, shared by all connections to it.
	 * NULL: give none. Must outlive the client. */
	atomic_uint *said;
};

/* Connect, start TLS, log in, and agree features. NULL with text; e->code is -EACCES for a refused
 * login, -EKEYREJECTED for a refused pin or certificate. ftp_close() frees the client. */
struct ftp_client *ftp_connect(const struct ftp_client_config *c, struct err *e);
void ftp_close(struct ftp_client *c);  /* sends QUIT, without waiting for the reply; frees c */
bool ftp_client_lost(const struct ftp_client *c); /* no command can be sent any more */
/* Send a command and read its reply. If the server has agreed, a path is percent-encoded; otherwise
 * CR or LF in arg fails with -EILSEQ. A reply other than 2xx (for RNFR and REST: 350) is an error:
 * e gets its text, and the errno that fits best: from the text, or from the code (550: -ENOENT).
 * Returns the reply's code, or a negative errno with text. *text: the text of the reply, malloc'd;
 * text may be NULL. */
int ftp_simple(struct ftp_client *c, enum ftp_verb v, const char *arg, char **text,
	       struct err *e);
/* Get the facts of path by MLST. 0, and ftp_facts_clear() frees *f; or a negative errno with
 * text. */
int ftp_stat(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e);
/* Replace the contents of list by the entries of directory path, which have valid names, as by
 * listing_parse(). 0, or a negative errno with text; the caller clears list in any case. */
int ftp_list(struct ftp_client *c, const char *path, struct facts_list *list, struct err *e);
/* Send GIVE or TAKE with its request body. 0: the server has replied 150, and frames follow; or a
 * negative errno with text. */
int ftp_ask(struct ftp_client *c, enum ftp_verb v, const struct buf *body, struct err *e);
/* After the frames: read the closing reply, and ignore its code. 0, or a negative errno with
 * text. */
int ftp_closing(struct ftp_client *c, struct err *e);
/* Export the key EXPORTER-rftp-bulk-1 from TLS. 0; -ENOENT over ssh and without TLS; or another
 * negative errno. */
int ftp_client_key(struct ftp_client *c, uint8_t key[KEY_BYTES]);
/* Is there no unread data from the server? Reads an owed reply if it has arrived. */
bool ftp_client_quiet(struct ftp_client *c);

/* ---- for clients that reach other FTP servers by a library ---- */

/* Put a refusal by host into e. Returns the errno that fits its text or code best. */
int ftp_reply_refused(const char *host, int code, const char *text, struct err *e);
/* Put into e that the connection to host is lost, by rc. Returns the errno. */
int ftp_lost(const char *host, int rc, struct err *e);
/* Put into e: host cannot take this name, offers no TLS, or has a key that was refused. Each
 * returns the errno. */
int ftp_bad_name(const char *host, const char *name, struct err *e);
int ftp_no_tls(const char *host, uint16_t port, int code, const char *text, struct err *e);
int ftp_key_refused(const char *host, uint16_t port, struct err *e);
/* Check that user may be sent by FTP. 0, or -EILSEQ with text. */
int ftp_check_user(const char *user, struct err *e);
/* A password would cross the network in clear. Returns -EACCES with text. */
int ftp_no_clear_password(const char *host, const char *user, struct err *e);
/* Put the refusal of a login into e. Returns -EACCES. */
int ftp_login_refused(const char *host, const char *user, int code, const char *text,
		      struct err *e);
/* The server's first len bytes are no FTP reply. Returns -EPROTO; the text guesses the protocol. */
int ftp_not_ftp(const char *host, uint16_t port, const char *text, size_t len, struct err *e);
/* Call attempt with the passwords of user, until it does not return 1, for a wrong password, with
 * text. 0, or a negative errno with text; -EACCES: there is no password, or all were wrong. */
int ftp_try_passwords(const struct ftp_client_config *c, const char *user,
		      int (*attempt)(void *arg, const char *password, struct err *e), void *arg,
		      struct err *e);

#endif
