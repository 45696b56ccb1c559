// SPDX-License-Identifier: Apache-2.0
/* Counts failed logins.
 *
 * A count is kept as one number, the time at which all of it will be forgiven: each failure
 * puts that off by PENALTY_FORGIVE_MS. So nothing has to be done as time goes by, and of two
 * entries it is plain which is the worse, now and later. A full table gives up the least bad:
 * to drive out a host with five failures takes as many hosts with five as the table has room
 * for, not as many with one. */
#include "server/penalty.h"

#include "crypto/crypto.h"
#include "server/pages.h"

#include <stdlib.h>
#include <string.h>

enum {
	KEY = 16,
	COUNT_MAX = 3 * PENALTY_HOST_MAX, /* what is beyond is not counted: it has an end */
	HOST_STEP_MS = 1000,
	USER_STEP_MS = 250,
	USER_FREE = 3,   /* slips of the finger */
};

/* How long a login from a host makes it the user's own. */
#define KNOWN_MS ((uint64_t)30 * 24 * 3600 * 1000)

struct slot {
	uint8_t key[KEY];
	uint64_t clean;  /* ms; a slot whose time has come is free */
};

struct penalty {
	uint8_t secret[KEY_BYTES]; /* names as they are stored cannot be chosen to collide */
	unsigned most;
	struct slot *hosts, *users, *known;
};

/* Of all slots of p. */
static size_t slots_bytes(const struct penalty *p)
{
	return 3 * (size_t)p->most * sizeof(struct slot);
}

struct penalty *penalty_new(unsigned most)
{
	struct penalty *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->most = most;
	p->hosts = pages_new(slots_bytes(p));
	if (!p->hosts) {
		free(p);
		return NULL;
	}
	p->users = p->hosts + most;
	p->known = p->users + most;
	crypto_random(p->secret, sizeof(p->secret));
	return p;
}

void penalty_free(struct penalty *p)
{
	if (!p)
		return;
	pages_free(p->hosts, slots_bytes(p));
	crypto_wipe(p, sizeof(*p));
	free(p);
}

/* ---- slots ---- */

/* Some tens of microseconds for thousands: less than a password takes by far. */
static struct slot *find(struct slot *t, unsigned n, const uint8_t key[KEY])
{
	for (unsigned i = 0; i < n; i++)
		if (!memcmp(t[i].key, key, KEY))
			return &t[i];
	return NULL;
}

/* Its slot, or else that of whoever matters least. */
static struct slot *claim(struct slot *t, unsigned n, const uint8_t key[KEY])
{
	struct slot *s = find(t, n, key);

	if (s)
		return s;
	s = t;
	for (unsigned i = 1; i < n; i++)
		if (t[i].clean < s->clean)
			s = &t[i];
	memcpy(s->key, key, KEY);
	s->clean = 0;
	return s;
}

/* Failures that are not forgiven yet. */
static unsigned count(struct slot *t, unsigned n, const uint8_t key[KEY], uint64_t now)
{
	const struct slot *s = find(t, n, key);

	if (!s || s->clean <= now)
		return 0;
	return (unsigned)((s->clean - now + PENALTY_FORGIVE_MS - 1) / PENALTY_FORGIVE_MS);
}

static void add_failure(struct slot *t, unsigned n, const uint8_t key[KEY], uint64_t now)
{
	const uint64_t most = now + (uint64_t)COUNT_MAX * PENALTY_FORGIVE_MS;
	struct slot *s = claim(t, n, key);

	s->clean = (s->clean > now ? s->clean : now) + PENALTY_FORGIVE_MS;
	if (s->clean > most)
		s->clean = most;
}

/* ---- names ---- */

/* host NULL: the user wherever he comes from. */
static void name_key(const struct penalty *p, const uint8_t *host, const char *user,
		     uint8_t key[KEY])
{
	const struct iovec parts[] = {
		{ (void *)(uintptr_t)host, host ? KEY : 0 },
		{ (void *)(uintptr_t)user, strlen(user) },
	};
	uint8_t mac[MAC_BYTES] = { 0 };

	crypto_hmac(mac, p->secret, sizeof(p->secret), parts, 2);
	memcpy(key, mac, KEY);
}

struct keys {
	uint8_t host[KEY], user[KEY], pair[KEY];
};

static struct keys keys_of(const struct penalty *p, const struct sockaddr_storage *host,
			   const char *user)
{
	struct keys k;

	srv_host_key(host, k.host);
	name_key(p, NULL, user, k.user);
	name_key(p, k.host, user, k.pair);
	return k;
}

/* ---- what is asked ---- */

_Static_assert(HOST_KEY_BYTES == KEY, "a host's key is a slot's");

/* step for the first, and twice as much for each one more. */
static int doubled(unsigned failures, int step, int most)
{
	int ms = step;

	if (!failures)
		return 0;
	while (--failures && ms < most)
		ms *= 2;
	return ms < most ? ms : most;
}

int penalty_ask(const struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		const char *user)
{
	struct keys k = keys_of(p, host, user);
	unsigned by_host = count(p->hosts, p->most, k.host, now);
	unsigned of_user = count(p->users, p->most, k.user, now);
	const struct slot *known = find(p->known, p->most, k.pair);
	int wait = doubled(by_host, HOST_STEP_MS, PENALTY_HOST_WAIT_MS), more;

	if (by_host >= PENALTY_HOST_MAX)
		return PENALTY_REFUSED;
	if ((known && known->clean > now) || of_user <= USER_FREE)
		return wait;
	more = doubled(of_user - USER_FREE, USER_STEP_MS, PENALTY_USER_WAIT_MS);
	return more > wait ? more : wait;
}

void penalty_failed(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		    const char *user)
{
	struct keys k = keys_of(p, host, user);

	add_failure(p->hosts, p->most, k.host, now);
	add_failure(p->users, p->most, k.user, now);
}

void penalty_succeeded(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		       const char *user)
{
	struct keys k = keys_of(p, host, user);

	claim(p->known, p->most, k.pair)->clean = now + KNOWN_MS;
}
