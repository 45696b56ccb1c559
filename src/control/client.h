// SPDX-License-Identifier: Apache-2.0
/* The client half's own view of a connection: what ftp_client.c, client_*.c and ssh.c
 * share. */
#ifndef RFTP_CONTROL_CLIENT_H
#define RFTP_CONTROL_CLIENT_H

#include "control/control.h"

#include <pthread.h>
#include <stdatomic.h>

struct ssh;

enum client_socket { CLIENT_CONTROL, CLIENT_DATA };

/* The user's wish to stop, while one call of control.h lasts: client_stop.c's. */
struct client_wish {
	int (*stop)(void *arg);    /* the config's */
	void *arg;
	int fd;                    /* what it said for this call */
	unsigned depth;            /* calls within calls */
	struct sentry sentry;
	pthread_mutex_t lock;      /* guards what follows, which the sentry's thread shares */
	int sockets[2];            /* by enum client_socket; -1: none */
	bool came;
};

struct ftp_client {
	struct client_wish wish;
	char *host;
	uint16_t port;             /* 0 over ssh */
	int timeout_ms;            /* for each step of the connecting */
	struct mstream *ms;
	int fd;                    /* ms's, for getsockopt; */
	struct tls_ctx *ctx;       /* NULL: no TLS */
	struct tls *tls;           /* ms's; NULL: in clear, or by ssh */
	char *pin;                 /* of the server's key; data connections must have it, too */
	struct ssh *ssh;           /* NULL: a socket of our own */
	struct sockaddr_storage peer;
	socklen_t peer_len;        /* 0: not known */
	struct bulk_version bulk;
	bool lanes, give, take, percent, inline_list, prot_p;
	bool lost;                 /* no command can be sent any more */
	bool owed;                 /* BULK's closing reply, which says nothing new, is still to be
				    * read, before any other; client_read_owed() */
	/* Of a server by ftp:// or ftps://, whatever it is: */
	bool foreign, implicit;    /* implicit: TLS from the first byte on */
	unsigned has;              /* enum ftp_feature; what turns out not to be is taken out */
	char *home;                /* where the login started; absolute */
	bool pasv;                 /* EPSV was refused */
	bool list_plain;           /* LIST -a was */
	uint64_t rate;             /* of the file that is read; 0: no limit */
	char digests[128];         /* names that HASH knows, with ";" */
	pthread_mutex_t lock;      /* guards data, which ftp_client_abort() looks at */
	struct stream *data;       /* of the data connection under way; NULL: none */
	atomic_bool aborted;       /* by it, for good */
	atomic_uint *said;         /* the config's */
	uint64_t rtt_ns;
	struct ftp_reply reply;
	char line[FTP_LINE_MAX];
	char describe[256];
};

/* ---- ftp_client.c ---- */

/* The message stream over fd, which is taken over. 0, or a negative errno with text. */
int client_open_messages(struct ftp_client *c, int fd, struct err *e);
void client_learn_peer(struct ftp_client *c);

/* ---- client_stop.c ---- */

void client_stop_init(struct ftp_client *c, const struct ftp_client_config *cfg);
void client_stop_clear(struct ftp_client *c);
/* Around what waits for the server: in between the user's wish to stop ends all waits. Calls nest.
 * 0; -EINTR with text: it had come before, and nothing must be said; or another negative errno. */
int client_begin(struct ftp_client *c, struct err *e);
/* After client_begin() returned 0. rc; or -EINTR with text, when rc is a failure and the wish its
 * reason. */
int client_end(struct ftp_client *c, int rc, struct err *e);
/* Any thread: as the wish does, for good. */
void client_stop(struct ftp_client *c);
/* From now on this is the socket that is waited on; -1: before it is closed. */
void client_stop_socket(struct ftp_client *c, enum client_socket which, int fd);
/* Has the user wished to stop, so that the connection is of no more use? */
bool client_stopped(struct ftp_client *c);

/* ---- client_greet.c ---- */

/* Read the 220, or say what else there is at that port. */
int client_greeting(struct ftp_client *c, struct err *e);

/* ---- client_tls.c ---- */

/* AUTH TLS has been sent: its answer, the handshake, the checks. */
int client_start_tls(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e);
/* The same from the handshake on. */
int client_shake_hands(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e);
/* TLS on a data connection: the session of the control connection may be used again, and
 * the key must be the same. fd is taken over on success only. */
struct stream *client_data_tls(struct ftp_client *c, int fd, struct err *e);

/* ---- client_login.c ---- */

/* USER, PASS, FEAT and all else that needs to be said, in one round trip. */
int client_login(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e);

/* ---- client_foreign.c ---- */

/* From the TCP connection to the login's end, one step after the other: foreign servers need not
 * take commands before they have answered the last. */
int client_connect_foreign(struct ftp_client *c, const struct ftp_client_config *cfg,
			   struct err *e);
/* After the login: what the server can do, where it starts, how data goes. */
int client_learn(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e);
/* verb, of machine listings, was refused: what is done in its place, said once. */
void client_say_old(struct ftp_client *c, const char *verb, int code);
/* path as such a server is to be asked for it: absolute, no "~", no slash at the end; malloc'd. */
char *client_absolute(const struct ftp_client *c, const char *path);

/* ---- client_data.c ---- */

/* A data connection, by EPSV or else PASV. A descriptor, or a negative errno with text. */
int client_connect_data(struct ftp_client *c, struct err *e);
/* The stream over fd, as PROT has it, while ftp_client_abort() can reach it; takes fd over in any
 * case. NULL with text. */
struct stream *client_open_data(struct ftp_client *c, int fd, struct err *e);
void client_close_data(struct ftp_client *c, struct stream *st);

/* ---- client_stat.c ---- */

/* A verb, or what it would be asked for, that the server has not at all (RFC 959 §4.2). */
bool client_not_known(int code);
/* What MLST tells, of a server that has it not. */
int client_stat(struct ftp_client *c, const char *path, struct ftp_facts *f, struct err *e);

/* ---- client_cmd.c ---- */

/* No command can be sent any more, for rc, a negative errno; rc, with text. */
int client_lost(struct ftp_client *c, int rc, struct err *e);
/* Read the owed reply, if there is one, until the time end (0: no limit). Code that reads the
 * stream without the functions below calls this first. 0; 421: the server ended the session; or
 * a negative errno with text. */
int client_read_owed(struct ftp_client *c, uint64_t end, struct err *e);
/* One reply, preliminary ones (1xx) too, into c->reply. Its code, or a negative errno with
 * text. */
int client_read_reply(struct ftp_client *c, int timeout_ms, struct err *e);
/* The same but for preliminary ones, which are passed over. */
int client_final_reply(struct ftp_client *c, int timeout_ms, struct err *e);
/* Send "VERB arg"; arg may be NULL. 0, or a negative errno with text. */
int client_send(struct ftp_client *c, enum ftp_verb v, const char *arg, struct err *e);
/* The same of a command by its name. path: arg, or what stands from that byte on, is one. */
int client_send_word(struct ftp_client *c, const char *verb, const char *arg, const char *path,
		     struct err *e);
/* Send it, and its final reply's code; or a negative errno with text. */
int client_word(struct ftp_client *c, const char *verb, const char *arg, bool path, struct err *e);
/* Put a reply that refuses something into e, with the errno that fits it best. */
int client_refused(const struct ftp_client *c, struct err *e);

/* ---- ssh.c ---- */

/* Run ssh to place's host with rftpd at its end. *fd: its standard input and output. */
struct ssh *ssh_start(const struct ftp_client_config *cfg, int *fd, struct err *e);
/* The conversation has begun: from now on what ssh and rftpd say on stderr is logged. */
void ssh_connected(struct ssh *s);
/* Why there is no conversation, in plain words. */
int ssh_explain(struct ssh *s, struct err *e);
/* Where ssh would connect to. *len 0: it cannot be told. */
void ssh_address(const struct ftp_client_config *cfg, struct sockaddr_storage *a,
		 socklen_t *len);
/* The user does not want to wait for its end. */
void ssh_stop(struct ssh *s);
/* Ends ssh when it does not end by itself (our end of fd is closed by now). */
void ssh_free(struct ssh *s);

#endif
