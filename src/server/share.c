// SPDX-License-Identifier: Apache-2.0
/* Parts of a budget of memory: each user at most what he leaves free. */
#include "server/share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE ((uint64_t)4096)

struct part {
	uint64_t id, bytes;
	char *user;
};

struct share {
	uint64_t budget, least, most;
	struct part *parts;
	size_t nparts, room;
};

static uint64_t whole_pages(uint64_t bytes)
{
	return bytes & ~(PAGE - 1);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

struct share *share_new(uint64_t budget, uint64_t least, uint64_t most)
{
	struct share *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->budget = whole_pages(budget);
	s->least = least > PAGE ? whole_pages(least + PAGE - 1) : PAGE;
	s->most = most ? whole_pages(most) : UINT64_MAX;
	if (s->most < s->least)
		s->most = s->least;
	return s;
}

/* Not even in memory that is free: it is copied into processes of others. */
static void forget_user(struct part *p)
{
	explicit_bzero(p->user, strlen(p->user));
	free(p->user);
}

void share_free(struct share *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->nparts; i++)
		forget_user(&s->parts[i]);
	free(s->parts);
	free(s);
}

uint64_t share_given(const struct share *s, const char *user)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < s->nparts; i++)
		if (!user || !strcmp(s->parts[i].user, user))
			sum += s->parts[i].bytes;
	return sum;
}

void share_budget(struct share *s, uint64_t budget)
{
	s->budget = whole_pages(budget);
}

/* What a new session of user gets; 0: nothing that is of use. */
static uint64_t fair(const struct share *s, const char *user, struct err *e)
{
	uint64_t given = share_given(s, NULL), own = share_given(s, user), left, part;

	/* A budget that was made smaller may be overdrawn. */
	left = given < s->budget ? s->budget - given : 0;
	if (left < s->least) {
		err_set(e, -EAGAIN, "the memory for transfers is all in use");
		return 0;
	}
	/* own + part <= left - part */
	part = left > own ? (left - own) / 2 : 0;
	if (own && part < s->least) {
		err_set(e, -EAGAIN, "this user's part of the memory for transfers is in use");
		return 0;
	}
	part = whole_pages(part / 2);
	return smaller(part > s->least ? part : s->least, s->most);
}

static int add(struct share *s, uint64_t id, const char *user, uint64_t bytes)
{
	size_t room = s->room ? 2 * s->room : 16;
	struct part *more;
	char *copy;

	if (s->nparts == s->room) {
		more = reallocarray(s->parts, room, sizeof(*more));
		if (!more)
			return -ENOMEM;
		s->parts = more;
		s->room = room;
	}
	copy = strdup(user);
	if (!copy)
		return -ENOMEM;
	s->parts[s->nparts++] = (struct part){ id, bytes, copy };
	return 0;
}

int share_take(struct share *s, uint64_t id, const char *user, uint64_t want, uint64_t *got,
	       struct err *e)
{
	uint64_t bytes = fair(s, user, e);
	int rc;

	*got = 0;
	if (!bytes)
		return -EAGAIN;
	if (want)
		bytes = smaller(bytes, want > s->least ? whole_pages(want) : s->least);
	rc = add(s, id, user, bytes);
	if (rc < 0)
		return err_sys(e, rc, "share of memory");
	*got = bytes;
	return 0;
}

static struct part *part_of(const struct share *s, uint64_t id)
{
	for (size_t i = 0; i < s->nparts; i++)
		if (s->parts[i].id == id)
			return &s->parts[i];
	return NULL;
}

void share_return(struct share *s, uint64_t id)
{
	struct part *p = part_of(s, id);

	if (!p)
		return;
	forget_user(p);
	*p = s->parts[--s->nparts];
}

static int grow(struct share *s, struct part *p, uint64_t bytes, struct err *e)
{
	uint64_t more = fair(s, p->user, e), wanted = bytes - p->bytes;

	if (more && s->most - p->bytes < s->least) {
		more = 0;
		err_set(e, -EAGAIN, "this session's memory for transfers is in use");
	}
	if (!more)
		return -EAGAIN;
	more = smaller(more, wanted > s->least ? wanted : s->least);
	p->bytes += smaller(more, s->most - p->bytes);
	return 0;
}

int share_change(struct share *s, uint64_t id, const char *user, uint64_t bytes, uint64_t *has,
		 struct err *e)
{
	struct part *p = part_of(s, id);
	int rc = 0;

	bytes = bytes < UINT64_MAX - PAGE ? whole_pages(bytes + PAGE - 1) : whole_pages(bytes);
	*has = 0;
	if (!bytes)
		share_return(s, id);
	if (!bytes)
		return 0;
	if (!p)
		return share_take(s, id, user, bytes, has, e);
	if (bytes > p->bytes)
		rc = grow(s, p, bytes, e);
	else
		p->bytes = bytes;
	*has = p->bytes;
	return rc;
}

uint64_t share_most(const struct share *s)
{
	uint64_t quarter = whole_pages(s->budget / 4);

	return smaller(quarter > s->least ? quarter : s->least, s->most);
}
