// SPDX-License-Identifier: Apache-2.0
/* Who may register how much memory: parts of a budget for sessions that may come and go at any
 * time, none of which can be taken back before its session is done with it. It touches nothing
 * but numbers.
 *
 * A user, however many sessions he has, is given no more than what stays free for others, and
 * a session no more than half of what its user may still have. So the first user alone gets up
 * to a half of the budget, n users who all want much get equal parts as their sessions come and
 * go, and who has nothing yet finds the least that is of use as long as that much is free. */
#ifndef RFTP_SERVER_SHARE_H
#define RFTP_SERVER_SHARE_H

#include "util/util.h"

#include <stdint.h>

struct share;

/* Of budget bytes, no session gets less than least (with less it could do nothing) nor more than
 * most (0: no bound); least is at least a page. One thread at a time. NULL: memory is out. */
struct share *share_new(uint64_t budget, uint64_t least, uint64_t most);
void share_free(struct share *s);
/* Give session id, which has none yet, a share of what is free, and no more than it wants (0: as
 * much as there is for it). 0 with *got, a multiple of the page; -EAGAIN with text: all, or what
 * user may have, is given out, try again later; -ENOMEM. */
int share_take(struct share *s, uint64_t id, const char *user, uint64_t want, uint64_t *got,
	       struct err *e);
/* Session id, with a share or without one, wants to have bytes in all. *has: what it has then, as
 * with share_take more than before, if it is not bytes; 0 bytes are always had. 0; -EAGAIN with
 * text: no more than before; -ENOMEM. */
int share_change(struct share *s, uint64_t id, const char *user, uint64_t bytes, uint64_t *has,
		 struct err *e);
/* The most that a session can have. */
uint64_t share_most(const struct share *s);
/* Session id is done with its share. It need not have one. */
void share_return(struct share *s, uint64_t id);
/* Another budget from now on; shares that were given stay. */
void share_budget(struct share *s, uint64_t budget);
/* Bytes that are given out: to user, NULL: to all. */
uint64_t share_given(const struct share *s, const char *user);

#endif
