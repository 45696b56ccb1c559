// SPDX-License-Identifier: Apache-2.0
/* Functions that the files of this folder share. */
#ifndef RFTP_CONTROL_CLIENT_CLIENT_H
#define RFTP_CONTROL_CLIENT_CLIENT_H

#include "control/control.h"

/* ---- ftp_client.c ---- */

/* Between client_begin() and client_end() an interruption by the user ends all waits for the
 * server. Calls nest. 0; -EINTR with text: the user had interrupted before, and the caller must
 * send nothing; or another negative errno. */
int client_begin(struct ftp_client *c, struct err *e);
/* Call it after client_begin() returned 0. Returns rc, or -EINTR with text if the interruption
 * caused the failure rc. */
int client_end(struct ftp_client *c, int rc, struct err *e);
/* Log in: each attempt takes one round trip. 0, or a negative errno with text. */
int client_login(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e);

/* ---- client_command.c ---- */

/* Read the owed reply, if there is one, until end (as now_ns(); 0: no limit). Code that reads the
 * stream without the functions below calls this first. 0; 421: the server ended the session; or a
 * negative errno with text. */
int client_read_owed(struct ftp_client *c, uint64_t end, struct err *e);
/* Read one reply into c->reply, and skip preliminary ones (1xx). Returns its code, or a negative
 * errno with text. */
int client_final_reply(struct ftp_client *c, int timeout_ms, struct err *e);
/* Send "VERB arg"; arg may be NULL. 0, or a negative errno with text. */
int client_send(struct ftp_client *c, enum ftp_verb v, const char *arg, struct err *e);
/* Put c->reply, a refusal, into e, with the errno that fits it best. */
int client_refused(const struct ftp_client *c, struct err *e);

/* ---- ssh.c ---- */

/* Start ssh, which runs rftpd on cfg's host. *fd: a socket to rftpd. NULL with text. */
struct ssh *ssh_start(const struct ftp_client_config *cfg, int *fd, struct err *e);
/* rftpd has answered: from now on the lines that ssh and rftpd write to stderr are logged. */
void ssh_connected(struct ssh *s);
/* Put the reason why rftpd has not answered into e. Returns its negative errno. */
int ssh_explain(struct ssh *s, struct err *e);
/* Get the address to which ssh connects. *len 0: not known. */
void ssh_address(const struct ftp_client_config *cfg, struct sockaddr_storage *a,
		 socklen_t *len);
/* Terminate ssh: the user does not want to wait for its end. */
void ssh_stop(struct ssh *s);
/* Wait for ssh to end, and end it if it does not. The caller has closed fd. */
void ssh_free(struct ssh *s);

#endif
