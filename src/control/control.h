// SPDX-License-Identifier: Apache-2.0
/* control: both halves of FTP over a message stream. The server half knows the
 * protocol's state and asks handlers for everything that is policy; the client half
 * logs in, checks who it talks to, and sends commands. */
#ifndef RFTP_CONTROL_H
#define RFTP_CONTROL_H

#include "crypto/crypto.h"
#include "proto/proto.h"
#include "storage/storage.h"
#include "transport/transport.h"
#include "util/util.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

/* ---- server ---- */

struct ftp_session;

/* What a user may do once logged in. */
struct ftp_account {
	char name[64];
	struct root *root;       /* owned by the session from login on */
	char *home;              /* where CWD starts and "~" leads, below root; "/" */
	mode_t umask;            /* taken off the modes of what is made and preserves none */
	bool can_see, can_create, can_change; /* enum ftp_needs; session_check decides */
};

/* Why a cannot do what needs says; NULL: it can. For replies. */
const char *ftp_account_refuses(const struct ftp_account *a, enum ftp_needs needs);

/* What a client had agreed when it logged in, for the session that goes on in another process
 * while TLS stays in this one. */
struct ftp_handed {
	uint8_t tls;                /* the control connection is under it; key is its exporter */
	uint8_t key[KEY_BYTES];
	uint8_t percent, inline_list, ascii, pbsz, prot_p; /* 0 or 1 */
	uint32_t facts;             /* of MLST, as session.h has them */
	uint32_t hash;              /* of digest_names() */
};

/* Free what an account holds. */
void ftp_account_clear(struct ftp_account *a);

struct ftp_server_config {
	struct tls_ctx *tls;        /* NULL: no AUTH TLS (stdio) */
	/* The client has logged in: the session goes on elsewhere, its bytes come and go by
	 * ftp_session_stream (ms_read_some). Returns when the connection is at its end: 0, or a
	 * negative errno with text in e. NULL: the session goes on here. */
	int (*handover)(void *arg, struct ftp_session *s, const struct ftp_handed *h,
			struct err *e);
	/* The other half: the client has logged in elsewhere, which holds TLS. The account is
	 * taken from login(arg, NULL, NULL), there is no greeting, and a data connection is
	 * put under TLS by guard: the stream that takes fd over, or NULL with text. */
	const struct ftp_handed *handed;
	struct stream *(*guard)(void *arg, int fd, struct err *e);
	const struct sockaddr_storage *local; /* where the client has reached us; NULL: fd tells */
	bool require_tls;           /* USER before AUTH TLS is refused with 530 */
	bool require_prot;          /* data connections by PROT P only, else 521 */
	bool trusted;               /* the stream has authenticated its user (ssh): no login,
				     * account is taken from login(arg, NULL, NULL) */
	const char *greeting;       /* text of 220 */
	const char *data_addr;      /* for EPSV listeners; "": the control connection's */
	uint16_t port_lo, port_hi;
	bool active;                /* PORT and EPRT may be used, to the client's own host */
	int login_timeout_ms, idle_timeout_ms;
	/* Who is it? 0 and a filled account; -EACCES: wrong; -EKEYEXPIRED: right, but not let in,
	 * with a text for the user; -EAGAIN: try again later. */
	int (*login)(void *arg, const char *user, const char *password,
		     struct ftp_account *a, struct err *e);
	/* The same at USER under TLS: does the client's certificate say that it is user? -EACCES:
	 * no, or there is none, and the password is asked for. NULL: certificates say nothing. */
	int (*cert_login)(void *arg, const char *user, struct tls *tls,
			  struct ftp_account *a, struct err *e);
	/* BULK: body is the request's bytes. The handler answers on the session
	 * (ftp_session_reply) and runs it. A negative errno closes the connection. */
	int (*bulk)(void *arg, struct ftp_session *s, struct buf *body);
	/* The same for GIVE and TAKE; NULL: they are not offered. */
	int (*give)(void *arg, struct ftp_session *s, struct buf *body);
	int (*take)(void *arg, struct ftp_session *s, struct buf *body);
	/* A whole file of RETR or STOR went by, for the log. */
	void (*transferred)(void *arg, struct ftp_session *s, const char *verb,
			    const char *path, uint64_t bytes, double seconds, int error);
	void *arg;
	const volatile sig_atomic_t *stop; /* finish the command under way, then 421 */
};

/* Serve one control connection until QUIT, its end or an error; does not free ms. peer:
 * its address, NULL on stdio. 0, or a negative errno with text. */
int ftp_serve(const struct ftp_server_config *c, struct mstream *ms, int fd,
	      const struct sockaddr_storage *peer, struct err *e);

/* For handlers. */
int ftp_session_reply(struct ftp_session *s, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
struct mstream *ftp_session_stream(struct ftp_session *s);
const struct ftp_account *ftp_session_account(struct ftp_session *s); /* NULL: no login */
unsigned ftp_session_lanes(const struct ftp_session *s); /* transfers that it may run at once */
const char *ftp_session_cwd(struct ftp_session *s);
/* EXPORTER-rftp-bulk-1 of the connection; -ENOENT when it is not under TLS. */
int ftp_session_key(struct ftp_session *s, uint8_t key[KEY_BYTES]);
/* Does nobody but the client read what is said to it? (TLS, or a stream that is trusted) */
bool ftp_session_secret(const struct ftp_session *s);
/* TLS of the control connection, which stays the session's; NULL: it is in clear. */
struct tls *ftp_session_tls(struct ftp_session *s);
/* h is what another process sent: 0, or -EPROTO when no session could have agreed that. */
int ftp_handed_check(const struct ftp_handed *h);
/* The path that arg means below the account's root, from cwd, with "." and ".."
 * resolved as text and "~" as the home; malloc'd. NULL with errno. */
char *ftp_session_path(struct ftp_session *s, const char *arg);

/* ---- client ---- */

struct ftp_client;

enum pin_answer { PIN_OK, PIN_REFUSED };

struct ftp_client_config {
	const struct place *place;   /* any that is remote */
	const char *rftpd_path;      /* over ssh: the remote program, default "rftpd" */
	const char *ssh_command;     /* default "ssh" */
	const char *cafile;          /* check against a CA instead of the pin */
	const char *certfile;        /* our own, for servers that ask for one; NULL: none */
	const char *keyfile;         /* its key; NULL: in certfile */
	bool plain;                  /* no TLS; a password is then refused unless
				      * plain_password */
	bool plain_password;
	const char *netrc;           /* the password file that advice names; NULL: ~/.netrc */
	bool data_clear;             /* foreign servers: PROT C, though control has TLS */
	int connect_timeout_ms;
	/* Is this the right key for host:port? Called before anything is sent. Not
	 * called with cafile. The text of a refusal goes into e. */
	enum pin_answer (*check_pin)(void *arg, const char *host, uint16_t port,
				     const char *pin, struct err *e);
	/* A password for user at host; malloc'd; NULL: none to be had. attempt from 0. */
	char *(*password)(void *arg, const char *user, const char *host, int attempt);
	/* A descriptor that becomes, and stays, readable when the user wants to stop, or -1:
	 * there is none now. NULL: never. Asked for each call below; one that is stopped fails
	 * with -EINTR, and then the connection is lost unless nothing had been said. */
	int (*stop)(void *arg);
	void *arg;                   /* of these; outlives the client */
	/* What has been said of this server, of enum ftp_said: for all connections to it.
	 * NULL: nothing is said. Outlives the client. */
	atomic_uint *said;
};

/* What is told once of a server, however many connections and files there are. */
enum ftp_said { FTP_SAID_MLST = 1 << 0, FTP_SAID_MODES = 1 << 1, FTP_SAID_TIMES = 1 << 2 };
/* Is it to be said now? Any thread. */
bool ftp_say_once(const struct ftp_client *c, enum ftp_said what);


/* Connect, TLS, login, FEAT and the OPTS both sides know. NULL with text; e->code is
 * -EACCES for a refused login, -EKEYREJECTED for a refused pin or certificate. */
struct ftp_client *ftp_connect(const struct ftp_client_config *c, struct err *e);
void ftp_close(struct ftp_client *c);  /* QUIT, politely but briefly */
bool ftp_client_lost(const struct ftp_client *c); /* no command can be sent any more */
/* Send a command, one reply. Argument bytes that FTP's lines cannot carry (CR, LF) are
 * percent-encoded when the server agreed, else -EILSEQ. The reply's code, or a negative
 * errno. text may be NULL; else malloc'd text of the reply. */
int ftp_command(struct ftp_client *c, enum ftp_verb v, const char *arg, char **text,
		struct err *e);
/* The same; a reply outside the 200s is an error: its text in e, and the errno that
 * fits it best (550: from its text, else -ENOENT...). */
int ftp_simple(struct ftp_client *c, enum ftp_verb v, const char *arg, char **text,
	       struct err *e);
/* MLST of one path. */
int ftp_stat(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e);
/* MLSD over a data connection (PROT as the control connection). fn per entry but for
 * cdir and pdir; their names are never empty, "." or "..", nor have they a "/": a server that
 * lists such is refused (-EPROTO). What else is in them is the server's choice. */
int ftp_list(struct ftp_client *c, const char *path,
	     int (*fn)(void *arg, const struct ftp_facts *f), void *arg, struct err *e);
/* The bulk mode that FEAT announced; major 0: none. */
const struct bulk_version *ftp_bulk(const struct ftp_client *c);
bool ftp_has_third(const struct ftp_client *c); /* FEAT announced GIVE and TAKE */
struct mstream *ftp_client_stream(struct ftp_client *c);
/* Say GIVE or TAKE with its request. 0: the server has answered 150, and frames follow; or a
 * negative errno with text. */
int ftp_ask(struct ftp_client *c, enum ftp_verb v, const struct buf *body, struct err *e);
/* After the frames: the closing reply, whatever it says. 0, or a negative errno with text. */
int ftp_closing(struct ftp_client *c, struct err *e);
/* Run transfers at the same time: n streams (at most LANES_MAX), on each of which BULK may be
 * said, and no other command on the connection until ftp_lanes_end. NULL with text:
 * -EOPNOTSUPP, the server is one that cannot; l is freed by ftp_lanes_end only. */
struct lanes *ftp_lanes(struct ftp_client *c, unsigned n, struct err *e);
/* After all lanes are freed; the server has timeout_ms to end its own. 0: commands may follow;
 * or a negative errno with text. */
int ftp_lanes_end(struct ftp_client *c, struct lanes *l, int timeout_ms, struct err *e);
/* The exporter; -ENOENT over ssh and plain. */
int ftp_client_key(struct ftp_client *c, uint8_t key[KEY_BYTES]);
bool ftp_client_secret(const struct ftp_client *c); /* nobody else reads the stream (ssh) */
bool ftp_client_private(const struct ftp_client *c); /* nor this, be it ssh or TLS */
const struct sockaddr_storage *ftp_client_peer(const struct ftp_client *c, socklen_t *len);
uint64_t ftp_client_rtt_ns(const struct ftp_client *c); /* least seen, 0: not measured */
/* Mark that the closing reply of BULK is still unread; the client discards it before the next
 * reply. Returns the previous mark. */
bool ftp_client_owe(struct ftp_client *c, bool owed);
/* No unread data from the server. Reads an owed reply that has arrived. */
bool ftp_client_quiet(struct ftp_client *c);
const char *ftp_client_describe(const struct ftp_client *c); /* "host:port, TLSv1.3 ..." */

/* ---- of servers that were reached by ftp:// or ftps:// ---- */

/* Each file goes over a data connection of its own, one at a time on a control connection. Paths
 * are below the home unless they begin with "/". */

enum ftp_feature {
	FTP_HAS_MLST = 1 << 0, FTP_HAS_SIZE = 1 << 1, FTP_HAS_MDTM = 1 << 2,
	FTP_HAS_MFMT = 1 << 3, FTP_HAS_REST = 1 << 4, FTP_HAS_HASH = 1 << 5,
	FTP_HAS_XCRC = 1 << 6, FTP_HAS_XMD5 = 1 << 7, FTP_HAS_XSHA1 = 1 << 8,
	FTP_HAS_XSHA256 = 1 << 9, FTP_HAS_XSHA512 = 1 << 10,
	FTP_HAS_MDTM_SET = 1 << 11, FTP_HAS_UTIME = 1 << 12, FTP_HAS_CHMOD = 1 << 13,
	FTP_HAS_APPE = 1 << 14, FTP_HAS_MLSD = 1 << 15,
};

bool ftp_is_foreign(const struct ftp_client *c);
/* FEAT named it, or it is common without and has not been refused yet. */
bool ftp_has(const struct ftp_client *c, enum ftp_feature what);
bool ftp_data_private(const struct ftp_client *c); /* PROT P */
const char *ftp_client_pin(const struct ftp_client *c); /* NULL: in clear */
/* Can commands still be sent, as far as is known? */
bool ftp_client_usable(const struct ftp_client *c);
/* Wake the thread that waits for the server, with -ECANCELED, for good. Any thread, while c is
 * there. */
void ftp_client_abort(struct ftp_client *c);

/* SIZE and MDTM. 0, or a negative errno with text; -EOPNOTSUPP: the server has them not. */
int ftp_size(struct ftp_client *c, const char *path, uint64_t *size, struct err *e);
int ftp_mtime(struct ftp_client *c, const char *path, int64_t *sec, uint32_t *ns, struct err *e);
/* MFMT, MDTM with a time, or SITE UTIME; and SITE CHMOD. As above. */
int ftp_set_mtime(struct ftp_client *c, const char *path, int64_t sec, struct err *e);
int ftp_set_mode(struct ftp_client *c, const char *path, uint32_t mode, struct err *e);
/* The digest of the first len bytes of path (UINT64_MAX: of all), alg as digest_new() has it, in
 * lower-case hex. Servers that offer only one of alg NULL's choice give that: it is set. As
 * above. */
int ftp_digest(struct ftp_client *c, const char *path, const char **alg, uint64_t len,
	       char hex[2 * DIGEST_MAX + 1], struct err *e);

struct ftp_data; /* a file on its way */

/* RETR from the byte at on. rate: bytes per second that will be read, so that not much more lies
 * ready; 0: as they come. */
struct ftp_data *ftp_retrieve(struct ftp_client *c, const char *path, uint64_t at, uint64_t rate,
			      struct err *e);
/* STOR; at: of a part that has so many bytes, by REST or else APPE. *at is 0 afterwards where it
 * had to begin anew. NULL with text. */
struct ftp_data *ftp_store(struct ftp_client *c, const char *path, uint64_t *at, struct err *e);
/* Bytes read; 0 at the end; or a negative errno with text. */
ssize_t ftp_data_read(struct ftp_data *d, void *p, size_t len, struct err *e);
int ftp_data_write(struct ftp_data *d, const void *p, size_t len, struct err *e);
/* The end, and what the server says to it; frees d. whole: all bytes that there should be have
 * come, so that a data connection that went without a word of TLS has cut off none. */
int ftp_data_end(struct ftp_data *d, bool whole, struct err *e);
/* It is not wanted any more: the connection may be lost for it. Frees d; NULL is harmless. */
void ftp_data_drop(struct ftp_data *d);

#endif
