// SPDX-License-Identifier: Apache-2.0
/* Waiting for disks, with udev and without; and their settings. */
#include "iser_setup/attach.h"

#include "iser_setup/prepare.h"
#include "iser_setup/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define POLL_US 100000
#define RESCAN_MS 2000
/* How long the number of disks must stay the same when it is not known how many there are; and when
 * one that comes later would be missing in a stripe. */
#define SETTLE_MS 500
#define SETTLE_STRIPE_MS 2000

/* ---- waiting ---- */

/* What is served beside the plan may be anybody's. */
static bool is_wanted(const struct login_target *t, const struct session_disk *d)
{
	return !t->plan || login_store(t, d->lun);
}

/* Are all disks of a target there? How many of them are wanted; else 0, and why not in e. */
static size_t complete_one(const struct login_target *t, const struct session *s, struct err *e)
{
	size_t wanted = 0;
	char path[64];

	if (!s || strcmp(s->state, "LOGGED_IN"))
		err_set(e, -ETIMEDOUT, "%s: the session is %s", printable(t->iqn), s ?
			printable(s->state) : "gone");
	else if (!s->luns)
		err_set(e, -ETIMEDOUT, "%s: the target shows no disk: it has no LUN, or "
			"none for this host", printable(t->iqn));
	else if (s->n_disks < s->luns)
		err_set(e, -ETIMEDOUT, "%s: %u disks, but %zu block devices: is the "
			"kernel's sd_mod loaded?", printable(t->iqn), s->luns, s->n_disks);
	for (size_t i = 0; !e->code && i < s->n_disks; i++) {
		if (!is_wanted(t, &s->disks[i]))
			continue;
		wanted++;
		snprintf(path, sizeof(path), "/dev/%s", s->disks[i].name);
		if (!disk_is_there(path))
			err_set(e, -ETIMEDOUT, "%s has not appeared: neither udev nor "
				"devtmpfs made it", path);
		else if (!s->disks[i].size)
			err_set(e, -ETIMEDOUT, "%s has no size yet", path);
	}
	if (!e->code && t->plan && wanted < t->plan->n_stores)
		err_set(e, -ETIMEDOUT, "%s: %zu disks of %zu that the plan has",
			printable(t->iqn), wanted, t->plan->n_stores);
	return e->code ? 0 : wanted;
}

/* How many disks there are of all targets, when each has all of its own; 0: not yet. Why not is in
 * e. */
static size_t complete(const struct attach *a, const struct sessions *s, struct err *e)
{
	size_t all = 0;

	*e = (struct err)ERR_INIT;
	for (size_t i = 0; i < a->list.n; i++) {
		const struct login_target *t = &a->list.v[i];

		all += complete_one(t, sessions_find(s, t->iqn), e);
		if (e->code)
			return 0;
	}
	return all;
}

/* The kernel looks for disks when a session begins, and by itself never again: those that a target,
 * which is just being made, has got since then are only found when it is told to look once more. */
static void look_again(const struct attach *a, const struct sessions *s)
{
	for (size_t i = 0; i < a->list.n; i++) {
		const struct login_target *t = &a->list.v[i];
		const struct session *one = sessions_find(s, t->iqn);

		if (one && !strcmp(one->state, "LOGGED_IN") &&
		    (!one->luns || (t->plan && one->luns < t->plan->n_stores)))
			session_rescan(NULL, one);
	}
}

/* For how long there must be as many, in ms. */
static int settle_ms(const struct attach *a)
{
	bool known = true;

	for (size_t i = 0; i < a->list.n; i++)
		known &= a->list.v[i].plan != NULL;
	return known ? 0 : a->o->kind ? SETTLE_STRIPE_MS : SETTLE_MS;
}

static int wait_for_all(const struct attach *a, struct sessions *s, struct err *e)
{
	uint64_t until = ns_after((int)a->o->wait * 1000), same = 0;
	uint64_t rescan = ns_after(RESCAN_MS);
	struct err why = ERR_INIT;
	size_t last = 0;

	for (;;) {
		size_t n;
		int r = sessions_read(NULL, s, e);

		if (r)
			return r;
		n = complete(a, s, &why);
		if (n != last || !n)
			same = ns_after(settle_ms(a));
		last = n;
		if (n && now_ns() >= same)
			break;
		if (stop_asked(&a->stop))
			return err_set(e, -EINTR, "stopped by a signal");
		if (!n && now_ns() > until)
			return err_set(e, -ETIMEDOUT, "%s (after %u s; --wait has more patience)",
				       why.text, a->o->wait);
		if (!n && now_ns() >= rescan) {
			look_again(a, s);
			rescan = ns_after(RESCAN_MS);
		}
		sessions_clear(s);
		usleep(POLL_US);
	}
	/* udev's names come a moment later. */
	run_settle(&a->stop, (unsigned)ms_to(until) / 1000 + 1);
	return 0;
}

/* ---- what has come ---- */

static int take_disk(struct attach *a, const struct topo *t, const struct login_target *target,
		     const struct session *s, const struct session_disk *from, struct err *e)
{
	struct attach_disk *d;
	int node, r = login_check_disk(target, from->lun, from->serial, e);

	if (r)
		return r;
	if (!is_wanted(target, from)) {
		log_warn("%s serves LUN %u, too, which is not in the plan: it is left alone",
			 printable(target->iqn), from->lun);
		return 0;
	}
	d = iser_plan_add(a->disks, a->n_disks);
	if (!d)
		return err_set(e, -ENOMEM, "out of memory");
	d->target = target;
	d->lun = from->lun;
	d->size = from->size;
	d->host = s->host;
	d->session = s->id;
	strcpy(d->kernel, from->name);
	strcpy(d->transport, s->transport);
	disk_path(NULL, from->name, d->path);
	prepare_netdev(s->portal.address, d->netdev);
	d->nodes = topo_block(t, from->name);
	/* The route to an address of this host's own is by no card. */
	node = topo_netdev(t, d->netdev);
	if (!ids_count(&d->nodes) && node >= 0)
		ids_add(&d->nodes, (unsigned)node);
	return 0;
}

static int take_all(struct attach *a, const struct topo *t, const struct sessions *s,
		    struct err *e)
{
	for (size_t i = 0; i < a->list.n; i++) {
		const struct session *one = sessions_find(s, a->list.v[i].iqn);

		for (size_t k = 0; one && k < one->n_disks; k++)
			if (take_disk(a, t, &a->list.v[i], one, &one->disks[k], e))
				return e->code;
		if (one && strcmp(one->transport, login_transports[a->o->with]))
			return err_set(e, -EPROTONOSUPPORT, "%s: the session is over %s, not %s",
				       printable(one->iqn), printable(one->transport),
				       login_transports[a->o->with]);
	}
	return 0;
}

int attach_disks(struct attach *a, const struct topo *t, struct err *e)
{
	struct sessions s = { 0 };
	int r = wait_for_all(a, &s, e);

	if (!r)
		r = take_all(a, t, &s, e);
	sessions_clear(&s);
	return r;
}

const char *attach_kernel_name(const char *path, char out[DISK_ROOM])
{
	char real[PATH_MAX];
	const char *slash = realpath(path, real) ? strrchr(real, '/') : NULL;

	snprintf(out, DISK_ROOM, "%.*s", DISK_ROOM - 1, slash ? slash + 1 : "");
	return out;
}

/* ---- settings ---- */

void attach_tune(struct attach *a)
{
	struct tune_step *all;
	char stripe[DISK_ROOM];
	size_t n = 0;

	if (!a->o->tune)
		return;
	all = calloc(a->n_disks + 1, TUNE_STEPS_MOST * sizeof(*all));
	if (!all)
		return;
	for (size_t i = 0; i < a->n_disks; i++)
		n += tune_disk(a->disks[i].kernel, tune_can_queue(NULL, a->disks[i].host), &all[n]);
	if (a->stripe.kind && *attach_kernel_name(a->device, stripe))
		n += tune_stripe(stripe, (unsigned)a->n_disks, &all[n]);
	tune_do(NULL, all, (unsigned)n);
	a->tuned = all;
	a->n_tuned = n;
}
