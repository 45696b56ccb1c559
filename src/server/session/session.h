// SPDX-License-Identifier: Apache-2.0
/* The session of one client: the FTP server (control/) with rftpd's accounts, settings and log. */
#ifndef RFTP_SERVER_SESSION_SESSION_H
#define RFTP_SERVER_SESSION_SESSION_H

#include "control/control.h"
#include "server/monitor/msg.h"
#include "server/server.h"
#include "transfer/transfer.h"

struct session {
	const struct server *sv;
	const struct ends *ends;              /* NULL: stdio */
	/* Of a session that logged in through another process: */
	const struct ftp_handed *handed;      /* NULL: the login takes place in this process */
	struct ftp_account *account;          /* the session takes its contents */
	int line;                             /* connects to the preauth process, which does TLS;
					       * for guard_data() */
	uint64_t memory;                      /* bytes for pools of a transfer; 0: chosen by the
					       * transfer */
	/* Of every session: */
	struct sockaddr_storage local;        /* this server's address that the client connected
					       * to */
	char peer_text[80];
	struct channel *monitor;              /* NULL: there is none, and a login need not wait
					       * for its turn */
	int fd;                               /* the client's connection, used until the login; not
					       * owned */
	enum auth_method method;              /* set at the login */
	struct transfer_report report;        /* the last one to the monitor */
	uint64_t reported;                    /* ns; its time */
	bool counted;                         /* there is a memory budget */
	uint64_t held;                        /* the bytes that the session has of it */
};

/* Request want bytes from the monitor for a transfer of session. 0 with *got, which may be less;
 * -EAGAIN with text: the budget is in use; or another negative errno with text. One thread. */
int share_take(void *session, uint64_t want, uint64_t *got, struct err *e);
/* Return so many bytes that share_take() got. One thread. */
void share_give_back(void *session, uint64_t bytes);
/* Log that a request's body is malformed, and refuse it. rc, e: the error of decoding it. */
/* Texts of refusals. */
#define MALFORMED_WHY "The request is malformed"
#define TLS_KEY_WHY "Under TLS the key is exported, not sent"
int srv_refuse_malformed(const struct session *s, struct ftp_session *fs, int rc,
			 const struct err *e);
/* Send the monitor a request of q_len bytes, and wait for its answer of len bytes. 0 or a negative
 * errno. One thread. */
int srv_monitor_ask(const struct channel *c, enum request_type type, const void *q, size_t q_len,
		    void *answer, size_t len);
/* Handlers of struct ftp_server_config (answers.c): reply to SITE STATUS and SITE FACTS. */
int srv_status(void *arg, struct ftp_session *fs);
int srv_facts(void *arg, struct ftp_session *fs, const char *path);
/* Tell the monitor that a transfer begins. */
void srv_report_begin(struct session *s, bool sends, uint32_t carrier, const char *path);
/* The watch of a transfer's settings; arg is the session. */
void srv_on_progress(void *arg, const struct transfer_progress *p, const struct agreement *a);
/* Log and report the end of a transfer of fs. rc: its result, 0 or a negative errno, with the text
 * in e. */
void srv_log_result(struct session *s, struct ftp_session *fs, const char *verb,
		    const char *path, const struct transfer_result *res, int rc,
		    const struct err *e);
/* Replace "~" at the start of r's paths by the account's home. 0 or -ENOMEM. */
int srv_expand_homes(struct ftp_session *fs, struct bulk_request *r);
/* Fill c with the settings for a transfer on the control connection of fs; the caller sets request
 * and master. */
void srv_transfer_config(struct session *s, struct ftp_session *fs,
			 struct transfer_config *c);
/* Fill c with the settings of the FTP server for a client at ends (NULL: stdio). The caller sets
 * the members that depend on the process: tls, login, arg, handover and handed. */
void srv_ftp_config(const struct server *sv, const struct ends *ends,
		    struct ftp_server_config *c);
/* Serve session s after its login in another process, until its end. Takes fd, which carries the
 * control connection in clear. Returns the process's exit status. */
int srv_session_handed(struct session *s, int fd);

/* Handlers of struct ftp_server_config for copies between two servers (third_party.c): GIVE sends
 * files to the other server, TAKE receives them. Results as of ftp_session_reply(). */
int srv_give(void *arg, struct ftp_session *fs, struct buf *body);
int srv_take(void *arg, struct ftp_session *fs, struct buf *body);

#endif
