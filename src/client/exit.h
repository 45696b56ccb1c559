// SPDX-License-Identifier: Apache-2.0
/* Exit statuses, rftp(1) EXIT STATUS. */
#ifndef RFTP_CLIENT_EXIT_H
#define RFTP_CLIENT_EXIT_H

#include <stdbool.h>

enum exit_status {
	EXIT_DONE = 0,         /* all done */
	EXIT_SOME_FAILED = 1,  /* some files failed, or the whole request was refused */
	EXIT_USAGE = 2,
	EXIT_CONNECT = 3,      /* connection or login */
	EXIT_INTERRUPTED = 4,  /* stopped on the way; the same command resumes */
};

/* The status for a command that ended with code, a negative errno (0: EXIT_DONE). begun:
 * both sides had agreed on a transfer, so that there is something to resume. */
enum exit_status exit_of(int code, bool begun);
/* The control connection was lost: another one may do better. */
bool exit_is_lost(int code);
/* The peer's bytes made no sense (-EPROTO), or failed their check (-EBADMSG): damage on the way, or
 * a peer that does not keep to the protocol. The connection is of no more use. */
bool exit_is_damaged(int code);
/* The one that tells more: of two parts of one command. */
enum exit_status exit_worse(enum exit_status a, enum exit_status b);

#endif
