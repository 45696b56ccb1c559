// SPDX-License-Identifier: Apache-2.0
/* What was noted before a stripe was made, and what there is of it. */
#include "iser_setup/halves.h"

#include "iser_setup/run.h"
#include "iser_setup/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The disks' paths; those that are not there stay NULL. */
struct paths {
	char text[STRIPE_MEMBERS_MOST][DISK_ROOM + 8];
	struct stripe_disks disks;
};

/* By our own session: others have theirs with the same target. */
static const char *find_disk(const struct kept *k, const struct sessions *there,
			     const struct kept_disk *d, char path[DISK_ROOM + 8])
{
	const struct kept_session *kept = kept_find(k, d->iqn);
	const struct session *s = kept ? sessions_at(there, kept->iqn, &kept->portal,
						     kept->transport) : NULL;

	for (size_t i = 0; s && i < s->n_disks; i++)
		if (s->disks[i].lun == d->lun) {
			snprintf(path, DISK_ROOM + 8, "/dev/%s", s->disks[i].name);
			return disk_is_there(path) ? path : NULL;
		}
	return NULL;
}

static int find_disks(const struct kept *k, const struct kept_half *h, struct paths *p,
		      struct err *e)
{
	struct sessions there;
	int r = sessions_read(NULL, &there, e);

	*p = (struct paths){ .disks.n = h->n };
	for (unsigned i = 0; !r && i < h->n; i++)
		p->disks.path[i] = find_disk(k, &there, &h->disks[i], p->text[i]);
	sessions_clear(&there);
	return r;
}

/* 1: it is known no more, or as another's; 0: it stays a half; negative errno with text. */
static int settle(struct kept *k, const struct kept_half *h, const struct stop *stop,
		  struct err *e)
{
	struct stripe s = h->stripe;
	struct paths p;
	int r = find_disks(k, h, &p, e);

	if (!r)
		r = stripe_left(&s, &p.disks, stop, e);
	if (r < 0 || r == STRIPE_UNTOLD)
		return r < 0 ? r : 0;
	if (r == STRIPE_WHOLE && kept_add_stripe(k, &s))
		return err_set(e, -ENOMEM, "out of memory");
	if (r == STRIPE_HALF) {
		/* udev has a look into what is new. */
		run_settle(stop, RUN_SETTLE_SECONDS);
		r = stripe_take_down(&s, &p.disks, e);
		if (r)
			return r;
		log_info("took down the %s stripe %s, which was being made when login was killed",
			 stripe_kinds[s.kind], s.name);
	}
	kept_drop_half(k, h->stripe.id);
	return 1;
}

int halves_settle(struct kept *k, const struct stop *stop, struct err *e)
{
	bool changed = false;

	for (size_t i = k->n_halves; i-- > 0;) {
		const struct kept_half h = k->halves[i];
		struct err why = ERR_INIT;
		int r = settle(k, &h, stop, &why);

		changed |= r > 0;
		if (r < 0)
			log_warn("%s", why.text);
	}
	return changed ? kept_write(k, e) : 0;
}
