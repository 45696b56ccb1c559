// SPDX-License-Identifier: Apache-2.0
/* Ends the client's waits for a server when the user wants to stop. A transfer under way
 * looks for that itself and takes leave of the peer; what comes before and after it
 * sleeps in the message stream, or connects, and is woken from here. */
#ifndef RFTP_TRANSFER_LEASH_H
#define RFTP_TRANSFER_LEASH_H

#include "transport/transport.h"

#include <stdatomic.h>

/* How long taking leave may last: a peer that is there needs a round trip. */
#define LEAVE_MS 2000

struct leash {
	/* Set before the thread starts. */
	struct mstream *ms;
	int fd;                /* readable once it has been pulled, for connecting; or -1 */
	struct sentry sentry;

	atomic_bool begun;     /* the transfer is under way, or was */
	bool pulled;           /* the thread's, until it is joined */
};

/* stop: a descriptor that becomes, and stays, readable when the user wants to stop; -1: there
 * is none, and nothing is watched. 0, or a negative errno with text. leash_end() is harmless
 * after either. */
int leash_start(struct leash *l, int stop, struct mstream *ms, struct err *e);
/* From now on a stop leaves LEAVE_MS for the end of the conversation. */
void leash_begun(struct leash *l);
/* Watch no longer. True when ms was aborted: nothing more can be said or heard on it. */
bool leash_end(struct leash *l);

#endif
