// SPDX-License-Identifier: Apache-2.0
/* One iSCSI session of this host's initiator over iSER, under an initiator name of its own, and
 * the disk that it brings. */
#ifndef RFTP_ISER_IO_SESSION_H
#define RFTP_ISER_IO_SESSION_H

#include "iser_setup/login.h"

struct io_session {
	/* for io_session_begin */
	const char *iqn, *initiator;
	const char *serial;      /* of the only LUN */
	const struct iser_portal *portal;
	const struct stop *stop;
	/* out */
	char device[64];         /* "/dev/sda" */
	char transport[16];      /* what carries it: "iser", "tcp" */
	/* its own */
	char address[ISCSI_PORTAL_ROOM];
	bool iface_made, node_made;
};

/* Logs in and waits for the disk. 0, or a negative errno with text; io_session_end is due in any
 * case. */
int io_session_begin(struct io_session *s, struct err *e);
/* Logs out, and forgets. */
void io_session_end(struct io_session *s);
/* Ends what a process that was killed has left of a session with iqn. */
void io_session_forget(const char *iqn);

#endif
