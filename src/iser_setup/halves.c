// SPDX-License-Identifier: Apache-2.0
/* What was noted before a stripe was made, and what there is of it. */
#include "iser_setup/halves.h"

#include "iser_setup/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The disks' paths; those that are not there stay NULL. */
struct paths {
	char text[STRIPE_MEMBERS_MOST][DISK_ROOM + 8];
	struct stripe_disks disks;
};

const char *halves_disk(const struct kept *k, const struct sessions *there,
			const struct kept_disk *d)
{
	const struct kept_session *kept = kept_find(k, d->iqn);
	const struct session *s = kept ? sessions_at(there, kept->iqn, &kept->portal,
						     kept->transport) : NULL;

	if (!s)
		s = sessions_find(there, d->iqn);
	for (size_t i = 0; s && i < s->n_disks; i++)
		if (s->disks[i].lun == d->lun)
			return s->disks[i].name;
	return NULL;
}

static int find_disks(const struct kept *k, const struct kept_half *h, struct paths *p,
		      struct err *e)
{
	struct sessions there;
	int r = sessions_read(NULL, &there, e);

	*p = (struct paths){ .disks.n = h->n };
	for (unsigned i = 0; !r && i < h->n; i++) {
		const char *name = halves_disk(k, &there, &h->disks[i]);

		snprintf(p->text[i], sizeof(p->text[i]), "/dev/%s", name ? name : "");
		if (name && disk_is_there(p->text[i]))
			p->disks.path[i] = p->text[i];
	}
	sessions_clear(&there);
	return r;
}

/* Why it stays. */
static void tell_untold(const struct kept_half *h, const struct stripe_disks *d)
{
	unsigned i = 0;

	while (i < d->n && d->path[i])
		i++;
	if (i < d->n)
		log_warn("the %s stripe %s was being made when login was killed, and what there is "
			 "of it stays until all its disks are there: LUN %u of %s is missing",
			 stripe_kinds[h->stripe.kind], h->stripe.name, h->disks[i].lun,
			 printable(h->disks[i].iqn));
	else
		log_warn("the %s stripe %s was being made when login was killed, and what there is "
			 "of it stays, for there may be data on it", stripe_kinds[h->stripe.kind],
			 h->stripe.name);
}

int halves_settle_one(struct kept *k, const struct kept_half *h, const struct stripe_disks *d,
		      const struct stop *stop, struct err *e)
{
	struct stripe s = h->stripe;
	int r = stripe_left(&s, d, stop, e);
	bool half = r == STRIPE_HALF;

	if (r == STRIPE_WHOLE && kept_add_stripe(k, &s))
		return err_set(e, -ENOMEM, "out of memory");
	if (half) {
		/* udev has a look into what is new. */
		run_settle(stop, RUN_SETTLE_SECONDS);
		r = stripe_take_down(&s, d, e);
	}
	if (r < 0)
		return r;
	if (half ? r != STRIPE_GONE : r == STRIPE_UNTOLD) {
		tell_untold(h, d);
		return 0;
	}
	if (half)
		log_info("took down the %s stripe %s, which was being made when login was killed",
			 stripe_kinds[s.kind], s.name);
	kept_drop_half(k, h->stripe.id);
	return 1;
}

int halves_settle(struct kept *k, const struct stop *stop, struct err *e)
{
	bool changed = false;

	for (size_t i = k->n_halves; i-- > 0;) {
		const struct kept_half h = k->halves[i];
		struct err why = ERR_INIT;
		struct paths p;
		int r = find_disks(k, &h, &p, &why);

		if (!r)
			r = halves_settle_one(k, &h, &p.disks, stop, &why);
		changed |= r > 0;
		if (r < 0)
			log_warn("%s", why.text);
	}
	return changed ? kept_write(k, e) : 0;
}
