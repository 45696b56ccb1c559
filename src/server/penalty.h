// SPDX-License-Identifier: Apache-2.0
/* What wrong passwords cost: failed logins are counted per host and per user, in memory that
 * does not grow, and forgiven with time. It knows no clock and touches no file: now is the
 * caller's, in ms, and never goes back.
 *
 * A host that fails is made to wait longer each time, and at last refused. A user who is tried
 * is made to wait too, but is never refused, or anyone could lock him out; and not at all from
 * a host where he has logged in before. */
#ifndef RFTP_SERVER_PENALTY_H
#define RFTP_SERVER_PENALTY_H

#include "server/server.h"

#include <stdint.h>

/* What the caller may want to say. */
enum {
	PENALTY_FORGIVE_MS = 60 * 1000, /* for each failure of a host or a user */
	PENALTY_HOST_MAX = 10,          /* failures not forgiven yet: the host is refused */
	PENALTY_HOST_WAIT_MS = 16 * 1000,
	PENALTY_USER_WAIT_MS = 4 * 1000,
	PENALTY_REFUSED = -1,
};

struct penalty;

/* Remembers at most so many hosts, users, and pairs of them. One thread at a time. NULL: memory
 * is out. */
struct penalty *penalty_new(unsigned most);
void penalty_free(struct penalty *p);
/* How long to wait before a login of user from host is looked at: ms, or PENALTY_REFUSED: not at
 * all for now. */
int penalty_ask(const struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		const char *user);
/* The password was wrong, or the like. */
void penalty_failed(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		    const char *user);
/* It was right. What was wrong before is not forgiven by that: who has an account could go on
 * with others' passwords for ever. Not for anonymous, who is nobody. */
void penalty_succeeded(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		       const char *user);

#endif
