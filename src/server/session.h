// SPDX-License-Identifier: Apache-2.0
/* One connection's own view: what session.c, give.c and take.c share. */
#ifndef RFTP_SERVER_SESSION_H
#define RFTP_SERVER_SESSION_H

#include "control/control.h"
#include "server/loan.h"
#include "server/server.h"
#include "transfer/transfer.h"

/* A session that began in another process. */
struct srv_handed {
	struct ftp_handed handed;
	struct ftp_account *account;          /* which the session takes */
	bool anonymous;
	int line;                             /* to where TLS is; monitor.h */
	int monitor;                          /* to who counts memory; -1: nobody does */
	uint64_t memory;                      /* bytes for pools; 0: chosen */
};

struct session {
	const struct server *sv;
	const struct srv_handed *handed;      /* NULL: it begins here */
	const struct ends *ends;              /* NULL: stdio */
	const struct sockaddr_storage *peer;  /* of ends */
	struct sockaddr_storage local;        /* where it has reached us */
	char peer_text[80];
	int monitor;                          /* until the login; -1: no login asks for a turn */
	int fd;                               /* the client's connection until then; not owned */
	bool anonymous;                       /* once logged in */
	struct loan loan;                     /* memory for transfers */
};

/* A line of the log. */
void srv_log_transfer(const struct session *s, const char *who, const char *what,
		      const char *path, uint64_t bytes, double seconds, const char *result);
/* "~" in r's paths becomes the account's home. 0 or -ENOMEM. */
int srv_expand_homes(struct ftp_session *fs, struct bulk_request *r);
/* How a transfer of fs is served on its own control connection; all but request and master. */
void srv_transfer_config(struct session *s, struct ftp_session *fs,
			 struct transfer_server_config *c);
/* Our end of fd, as the devices know it: IPv4 is IPv4, also on a socket for both. AF_UNSPEC:
 * not known. */
void srv_local_address(int fd, struct sockaddr_storage *a);
void srv_unmap(const struct sockaddr_storage *from, struct sockaddr_storage *a);
/* How FTP is served at ends (NULL: stdio), but for what depends on the process: tls, login, arg,
 * and what hands a session on. */
void srv_ftp_config(const struct server *sv, const struct ends *ends,
		    struct ftp_server_config *c);
/* Serve a session that has logged in in another process, whose plaintext is on fd, which it takes
 * over, to its end. The process's status. */
int srv_session_handed(const struct server *sv, int fd, const struct ends *ends,
		       const struct srv_handed *handed);

/* What rights mean for an account. */
void srv_set_rights(struct ftp_account *a, enum rights rights);

/* Handlers of struct ftp_server_config: copies to and from another server. */
int srv_give(void *arg, struct ftp_session *fs, struct buf *body);
int srv_take(void *arg, struct ftp_session *fs, struct buf *body);

#endif
