// SPDX-License-Identifier: Apache-2.0
/* The queue of logins: a password check takes 32 MiB and a tenth of a second of a processor, so
 * only so many run at once. It knows no clock and touches no file: now is the caller's, in ms.
 *
 * The queue is fair among hosts (start-time fair queueing, Goyal, Vin and Cheng 1996): a login
 * waits for no more than one check of each other host and for those that its own host asked for
 * before. No host has more than half of the checks at once, so that checks that hang leave room
 * for others. */
#ifndef RFTP_SERVER_TURNS_H
#define RFTP_SERVER_TURNS_H

#include "server/conns.h"

struct turns {
	unsigned most;           /* checks at once */
	uint64_t patience;       /* ms that a login may wait */
	uint64_t served;         /* the highest place of a login that got its turn */
	uint64_t asked;          /* logins so far */
};

/* o is in force from now on. */
void turns_change(struct turns *t, const struct srv_options *o);
/* c wants to log in. check: that takes a password check. */
void turn_ask(struct turns *t, const struct conns *all, struct conn *c, bool check, uint64_t now);
/* c may not log in before ready, ms. */
void turn_not_before(struct conn *c, uint64_t ready);
/* Has c waited too long? */
bool turn_is_late(const struct turns *t, const struct conn *c, uint64_t now);
/* The next login that need not wait any more, or has waited too long; NULL: there is none, and
 * *rest is the time until there may be one, in ms; -1: until a check ends. */
struct conn *turns_next(const struct turns *t, const struct conns *all, uint64_t now, int *rest);
/* c has its turn. */
void turn_begin(struct turns *t, struct conn *c);
/* c waits no more, and its check is over. */
void turn_end(struct conn *c);

#endif
