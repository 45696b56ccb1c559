// SPDX-License-Identifier: Apache-2.0
/* Penalties for wrong passwords, the queue of logins, deadlines, and quotas of log lines. */
#include "crypto/crypto.h"
#include "server/monitor/monitor.h"
#include "server/monitor/msg.h"

#include <limits.h>
#include <signal.h>

/* ---- penalties ---- */

enum {
	KEY = 16,
	COUNT_MAX = 3 * PENALTY_HOST_MAX, /* further failures are not counted */
	HOST_STEP_MS = 1000,
	USER_STEP_MS = 250,
	USER_FREE = 3,   /* failures without a delay: typing errors */
};

/* The ms for which a user is known at a host after a login from that host. */
#define KNOWN_MS ((uint64_t)30 * 24 * 3600 * 1000)

/* A count of failures is stored as the time at which all of them are forgiven: each failure moves
 * it by PENALTY_FORGIVE_MS. So counts decrease without any work. A full table replaces the entry
 * with the smallest count: to displace a host with five failures, an attacker needs as many hosts
 * with five failures as the table has entries. */
struct penalty_slot {
	uint8_t key[KEY];
	uint64_t clean;  /* ms; after this time the slot is free */
};

struct penalty {
	uint8_t secret[KEY_BYTES]; /* so that clients cannot choose names with colliding keys */
	unsigned most;
	struct penalty_slot *hosts, *users, *known; /* in slots, [most] each */
	struct penalty_slot slots[];
};

static size_t penalty_bytes(unsigned most)
{
	return sizeof(struct penalty) + 3 * (size_t)most * sizeof(struct penalty_slot);
}

struct penalty *penalty_new(unsigned most)
{
	struct penalty *p = pages_new(penalty_bytes(most));

	if (!p)
		return NULL;
	p->most = most;
	p->hosts = p->slots;
	p->users = p->hosts + most;
	p->known = p->users + most;
	crypto_random(p->secret, sizeof(p->secret));
	return p;
}

void penalty_free(struct penalty *p)
{
	if (p)
		pages_free(p, penalty_bytes(p->most));
}

/* A linear search takes tens of microseconds for thousands of slots: much less than a password
 * check. */
static struct penalty_slot *penalty_find(struct penalty_slot *t, unsigned n, const uint8_t key[KEY])
{
	for (unsigned i = 0; i < n; i++)
		if (!memcmp(t[i].key, key, KEY))
			return &t[i];
	return NULL;
}

/* Returns the slot of key. A new key takes over the slot with the smallest count. */
static struct penalty_slot *penalty_claim(struct penalty_slot *t, unsigned n,
					  const uint8_t key[KEY])
{
	struct penalty_slot *s = penalty_find(t, n, key);

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

/* The number of failures of key that are not forgiven yet. */
static unsigned penalty_count(struct penalty_slot *t, unsigned n, const uint8_t key[KEY],
			      uint64_t now)
{
	const struct penalty_slot *s = penalty_find(t, n, key);

	if (!s || s->clean <= now)
		return 0;
	return (unsigned)((s->clean - now + PENALTY_FORGIVE_MS - 1) / PENALTY_FORGIVE_MS);
}

static void penalty_add(struct penalty_slot *t, unsigned n, const uint8_t key[KEY], uint64_t now)
{
	const uint64_t most = now + (uint64_t)COUNT_MAX * PENALTY_FORGIVE_MS;
	struct penalty_slot *s = penalty_claim(t, n, key);

	s->clean = (s->clean > now ? s->clean : now) + PENALTY_FORGIVE_MS;
	if (s->clean > most)
		s->clean = most;
}

struct penalty_keys {
	uint8_t host[KEY], user[KEY], pair[KEY];
};

_Static_assert(HOST_KEY_BYTES == KEY, "a host's key is a slot's");

/* The key of user at host; host NULL: of user at any host. */
static void penalty_name_key(const struct penalty *p, const uint8_t *host, const char *user,
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

static struct penalty_keys penalty_keys_of(const struct penalty *p,
					   const struct sockaddr_storage *host, const char *user)
{
	struct penalty_keys k;

	srv_host_key(host, k.host);
	penalty_name_key(p, NULL, user, k.user);
	penalty_name_key(p, k.host, user, k.pair);
	return k;
}

/* The wait in ms: step for the first failure, doubled for each further one, at most most. */
static int penalty_wait(unsigned failures, int step, int most)
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
	struct penalty_keys k = penalty_keys_of(p, host, user);
	unsigned by_host = penalty_count(p->hosts, p->most, k.host, now);
	unsigned of_user = penalty_count(p->users, p->most, k.user, now);
	const struct penalty_slot *known = penalty_find(p->known, p->most, k.pair);
	int wait = penalty_wait(by_host, HOST_STEP_MS, PENALTY_HOST_WAIT_MS), more;

	if (by_host >= PENALTY_HOST_MAX)
		return PENALTY_REFUSED;
	if ((known && known->clean > now) || of_user <= USER_FREE)
		return wait;
	more = penalty_wait(of_user - USER_FREE, USER_STEP_MS, PENALTY_USER_WAIT_MS);
	return more > wait ? more : wait;
}

void penalty_failed(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		    const char *user)
{
	struct penalty_keys k = penalty_keys_of(p, host, user);

	penalty_add(p->hosts, p->most, k.host, now);
	penalty_add(p->users, p->most, k.user, now);
}

void penalty_succeeded(struct penalty *p, uint64_t now, const struct sockaddr_storage *host,
		       const char *user)
{
	struct penalty_keys k = penalty_keys_of(p, host, user);

	penalty_claim(p->known, p->most, k.pair)->clean = now + KNOWN_MS;
}

/* ---- the queue of logins ---- */

enum { CHECKS_DEFAULT = 4 };

/* If max-checks is not set, one concurrent check is allowed per this many bytes of the host's
 * memory. A check uses an eighth of that. */
#define MEMORY_PER_CHECK ((uint64_t)256 << 20)

void turns_change(struct turns *t, const struct srv_options *o)
{
	uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t limit = cgroup_memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");
	uint64_t n = (ram < limit ? ram : limit) / MEMORY_PER_CHECK;

	t->most = n < 1 ? 1 : n < CHECKS_DEFAULT ? (unsigned)n : CHECKS_DEFAULT;
	if (o->max_checks)
		t->most = o->max_checks;
	t->patience = o->login_timeout / 1000000;
}

/* Is the password of c's login being checked, in its auth process or in the connection's only
 * process? */
static bool turn_runs(const struct conn *c)
{
	return c->used && c->turn.check && c->preauth.state & (STATE_WAITING | STATE_CHECKING);
}

/* Queue c after the last login of its host; if there is none, at the place that the queue has
 * reached. */
void turn_ask(struct turns *t, const struct conns *all, struct conn *c, bool check, uint64_t now)
{
	uint64_t place = t->served;

	for (unsigned i = 0; i < all->nslots; i++) {
		const struct conn *d = &all->slots[i];

		if (((d->used && d->preauth.state == STATE_QUEUED) || turn_runs(d)) &&
		    d->turn.place >= place && srv_same_host(&d->ends.peer, &c->ends.peer))
			place = d->turn.place + 1;
	}
	c->turn = (struct turn){ .check = check, .place = place, .number = t->asked++,
				 .asked = now, .ready = now };
	c->preauth.state = STATE_QUEUED;
}

bool turn_is_late(const struct turns *t, const struct conn *c, uint64_t now)
{
	return now >= c->turn.ready + t->patience;
}

struct conn *turns_next(const struct turns *t, const struct conns *all, uint64_t now, int *rest)
{
	unsigned of_host = t->most > 1 ? t->most / 2 : 1;
	const struct conn *running[CHECKS_MAX];
	struct conn *best = NULL;
	uint64_t at = UINT64_MAX;
	unsigned n = 0;

	for (unsigned i = 0; i < all->nslots && n < CHECKS_MAX; i++)
		if (turn_runs(&all->slots[i]))
			running[n++] = &all->slots[i];

	*rest = -1;
	for (unsigned i = 0; i < all->nslots; i++) {
		struct conn *c = &all->slots[i];
		const struct turn *a = best ? &best->turn : NULL, *b = &c->turn;
		unsigned same = 0;
		uint64_t until;

		/* The auth process of the previous login may not have ended yet. */
		if (!c->used || c->preauth.state != STATE_QUEUED || c->session.pid)
			continue;
		if (turn_is_late(t, c, now))
			return c;
		until = b->ready > now ? b->ready : b->ready + t->patience;
		at = until < at ? until : at;
		if (b->ready > now)
			continue;
		if (a && (a->place != b->place ? a->place < b->place : a->number < b->number))
			continue;
		for (unsigned k = 0; b->check && k < n; k++)
			same += srv_same_host(&running[k]->ends.peer, &c->ends.peer);
		if (!b->check || (n < t->most && same < of_host))
			best = c;
	}
	if (at - now < INT_MAX)
		*rest = (int)(at - now);
	return best;
}

void turn_begin(struct turns *t, struct conn *c)
{
	if (c->turn.place > t->served)
		t->served = c->turn.place;
}

/* ---- deadlines ---- */

/* Time for the client to read the session's last output; ns. */
#define LINGER ((uint64_t)120 * 1000000000)
/* The same while the server stops; more than a preauth process waits for data connections. */
#define LINGER_STOPPING ((uint64_t)40 * 1000000000)
/* Time for a preauth process to end by itself after its own time limit; ns. */
#define GRACE ((uint64_t)10 * 1000000000)
/* The same while the server stops. */
#define GRACE_STOPPING ((uint64_t)3 * 1000000000)

/* A preauth process that follows the rules begins its last login within login_timeout, and then
 * waits for the result. */
void deadline_begin(struct conn *c, uint64_t login_timeout)
{
	c->deadline.preauth = now_ns() + login_timeout + GRACE;
	c->deadline.preauth_last = c->deadline.preauth + login_timeout;
}

/* Move the deadline of the preauth process to until, but not beyond its total time. */
static void deadline_extend(struct conn *c, uint64_t until, uint64_t waited_ms)
{
	struct deadline *d = &c->deadline;

	until = min_u64(until + GRACE, d->preauth_last + waited_ms * 1000000);
	if (until > d->preauth)
		d->preauth = until;
}

void deadline_check(struct conn *c, uint64_t waited_ms, uint64_t login_timeout)
{
	c->deadline.auth = now_ns() + login_timeout;
	deadline_extend(c, c->deadline.auth, waited_ms);
}

void deadline_refused(struct conn *c, uint64_t waited_ms)
{
	if (c->deadline.preauth)
		deadline_extend(c, now_ns(), waited_ms);
}

void deadline_checked(struct conn *c, bool in)
{
	c->deadline.auth = 0;
	if (in)
		c->deadline.preauth = 0;
	else
		deadline_extend(c, now_ns(), 0);
}

void deadline_over(struct conn *c, bool stopping)
{
	c->deadline.preauth = now_ns() + (stopping ? LINGER_STOPPING : LINGER);
	c->deadline.preauth_last = c->deadline.preauth;
	c->deadline.lingers = true;
}

void deadlines_stop(struct conns *t)
{
	uint64_t now = now_ns();

	for (unsigned i = 0; i < t->nslots; i++) {
		struct deadline *d = &t->slots[i].deadline;

		if (!t->slots[i].used || !d->preauth)
			continue;
		d->preauth = d->lingers ? min_u64(d->preauth, now + LINGER_STOPPING) :
					  now + GRACE_STOPPING;
		d->preauth_last = d->preauth;
		if (d->auth)
			d->auth = now;
	}
}

int deadlines_enforce(struct conns *t)
{
	uint64_t now = now_ns(), next = UINT64_MAX;
	char text[80];

	for (unsigned i = 0; i < t->nslots; i++) {
		struct conn *c = &t->slots[i];
		struct deadline *d = &c->deadline;
		/* While a login is queued, the preauth process waits for the monitor, and its time
		 * does not count. */
		bool counts = c->preauth.pid && c->preauth.state != STATE_QUEUED;

		if (!c->used)
			continue;
		if (c->session.pid && d->auth && d->auth <= now) {
			log_error("the check of a login from %s takes too long: killed",
				  sockaddr_text(&c->ends.peer, text));
			/* The whole process group: the auth process leads one, and may wait for a
			 * program that PAM runs. It may not have created its group yet. */
			if (kill(-c->session.pid, SIGKILL) < 0)
				kill(c->session.pid, SIGKILL);
			d->auth = 0;
		}
		if (counts && d->preauth && d->preauth <= now) {
			log_warn("%s: its preauth process takes too long: killed",
				 sockaddr_text(&c->ends.peer, text));
			kill(c->preauth.pid, SIGKILL);
			d->preauth = 0;
		}
		if (c->session.pid && d->auth)
			next = min_u64(next, d->auth);
		if (counts && d->preauth)
			next = min_u64(next, d->preauth);
	}
	if (next == UINT64_MAX)
		return -1;

	/* Round up: otherwise the last millisecond would be a busy loop. */
	return next <= now ? 0 :
	       (int)(min_u64(next - now + 999999, (uint64_t)3600 * 1000000000) / 1000000);
}

/* ---- quotas ---- */

enum {
	COST = 64,             /* bytes that each line costs besides its record */
	REST_MS = 25,          /* time without reads after the quota is used up; the pipe holds the
			        * lines that a normal process sends meanwhile */
};

/* A session logs a line for each file, and files may be small; a preauth process logs little. */
const struct quota_limits quota_preauth = { 256 << 10, 16 << 10 };
const struct quota_limits quota_session = { 4 << 20, 256 << 10 };

void quota_init(struct quota *q, const struct quota_limits *l, uint64_t now_ms)
{
	*q = (struct quota){ .limits = l, .room = l->burst, .at_ms = now_ms };
}

bool quota_take(struct quota *q, uint64_t now_ms, size_t len)
{
	const struct quota_limits *l = q->limits;
	uint64_t gone = now_ms - q->at_ms, cost = len + COST;

	/* After a long time the room is full in any case, and the product could overflow. */
	q->room += gone < 1000 * l->burst / l->rate ? gone * l->rate / 1000 : l->burst;
	if (q->room > l->burst)
		q->room = l->burst;
	q->at_ms = now_ms;
	if (q->room < cost) {
		q->rests_ms = now_ms + REST_MS;
		return false;
	}
	q->room -= cost;
	return true;
}

bool quota_line(struct quota *q, size_t len)
{
	bool ok = quota_take(q, now_ns() / 1000000, len);

	q->dropped += !ok;
	return ok;
}

unsigned quota_rest(const struct quota *q, uint64_t now_ms)
{
	return now_ms < q->rests_ms ? (unsigned)(q->rests_ms - now_ms) : 0;
}
