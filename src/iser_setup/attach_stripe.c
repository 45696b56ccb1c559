// SPDX-License-Identifier: Apache-2.0
/* One device of all disks, and a filesystem; over nothing that somebody may want, without having
 * been told to. */
#include "iser_setup/attach.h"

#include "iser_setup/holders.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define ANSWER_ROOM 16
#define FOUND_ROOM 128

/* A line from the terminal; "" when the end was asked for instead. */
static void ask(const struct stop *stop, char *answer, int room)
{
	CLEANUP_CLOSE int fd = stop_fd(stop);
	struct pollfd p[] = { { STDIN_FILENO, POLLIN, 0 }, { fd, POLLIN, 0 } };

	*answer = '\0';
	while (poll(p, 2, -1) < 0)
		if (errno != EINTR)
			return;
	if (!p[1].revents && !fgets(answer, room, stdin))
		*answer = '\0';
}

static bool can_ask(void)
{
	return isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
}

/* May what is on device be lost? what: what would be made. 0; a negative errno with text. */
static int may_lose(const struct attach *a, const char *device, const char *what,
		    const char *found, struct err *e)
{
	char answer[ANSWER_ROOM];

	if (!*found || a->o->yes)
		return 0;
	if (!can_ask())
		return err_set(e, -EEXIST, "%s holds data (%s), which %s would destroy: --yes does "
			       "so", device, found, what);
	fprintf(stderr, "%s holds data (%s), which %s destroys. Type yes to go on: ", device, found,
		what);
	ask(&a->stop, answer, sizeof(answer));
	if (!strcmp(answer, "yes\n"))
		return 0;
	return err_set(e, -ECANCELED, "%s was left as it is", device);
}

/* What is on a device that nobody uses: -EBUSY with text: somebody does. */
static int look(const struct attach *a, const char *device, char found[FOUND_ROOM], struct err *e)
{
	char kernel[DISK_ROOM];
	int r;

	if (!*attach_kernel_name(device, kernel))
		return err_set(e, -ENODEV, "%s is gone", device);
	r = holders_free(NULL, kernel, e);
	return r ? r : stripe_look(device, &a->stop, found, FOUND_ROOM, e);
}

static bool is_same(const struct attach_disk *d, const struct sessions *s)
{
	char kernel[DISK_ROOM];

	for (size_t i = 0; i < s->n; i++)
		for (size_t k = 0; s->v[i].id == d->session && k < s->v[i].n_disks; k++)
			if (s->v[i].disks[k].lun == d->lun &&
			    !strcmp(s->v[i].disks[k].name, d->kernel))
				return !strcmp(attach_kernel_name(d->path, kernel), d->kernel);
	return false;
}

int attach_same(const struct attach *a, struct err *e)
{
	struct sessions s;
	int r = sessions_read(NULL, &s, e);

	for (size_t i = 0; !r && i < a->n_disks; i++)
		if (!is_same(&a->disks[i], &s))
			r = err_set(e, -ENODEV, "%s is not LUN %u of %s any more: somebody has "
				    "logged out of it; nothing was written to it",
				    a->disks[i].path, a->disks[i].lun,
				    printable(a->disks[i].target->iqn));
	sessions_clear(&s);
	return r;
}

/* ---- the stripe ---- */

static int check_members(const struct attach *a, bool *wipe, struct err *e)
{
	char found[FOUND_ROOM];

	*wipe = false;
	for (size_t i = 0; i < a->n_disks; i++) {
		const char *path = a->disks[i].path;
		int r = look(a, path, found, e);

		if (!r)
			r = may_lose(a, path, "making a stripe", found, e);
		if (r)
			return r;
		*wipe |= *found;
	}
	return attach_same(a, e);
}

/* Known before it is there, and on which disks. */
static int note(struct attach *a, const char *name, struct kept_half *new, struct err *e)
{
	int r;

	new->stripe.kind = a->o->kind;
	stripe_name(name, new->stripe.name);
	r = stripe_draw(new->stripe.kind, new->stripe.id, e);
	for (size_t i = 0; i < a->n_disks; i++, new->n++) {
		strcpy(new->disks[i].iqn, a->disks[i].target->iqn);
		new->disks[i].lun = a->disks[i].lun;
	}
	if (!r && kept_add_half(&a->kept, new))
		r = err_set(e, -ENOMEM, "out of memory");
	return r ? r : kept_write(&a->kept, e);
}

/* What could not be taken back stays known. */
static void forget(struct attach *a, const struct stripe_disks *d, const struct kept_half *new)
{
	struct stripe s = new->stripe;
	struct err also = ERR_INIT;

	if (stripe_left(&s, d, NULL, &also) != STRIPE_GONE) {
		log_warn("not taken back: what there is of the %s stripe %s%s%s; the next login or "
			 "logout takes it down, unless it is whole", stripe_kinds[s.kind], s.name,
			 also.code ? ": " : "", also.text);
		return;
	}
	kept_drop_half(&a->kept, new->stripe.id);
	if (kept_write(&a->kept, &also))
		log_warn("%s", also.text);
}

static int make_stripe(struct attach *a, const struct stripe_disks *d, const char *name,
		       struct err *e)
{
	struct kept_half new = { .n = 0 };
	bool wipe;
	int r = check_members(a, &wipe, e);

	if (r)
		return r;
	if (wipe)
		r = stripe_wipe(d, &a->stop, e);
	if (!r)
		r = note(a, name, &new, e);
	if (r)
		return r;
	r = stripe_make(&new.stripe, d, a->o->chunk, &a->stop, a->device, a->stripe.id, e);
	if (r) {
		forget(a, d, &new);
		return r;
	}
	kept_drop_half(&a->kept, new.stripe.id);
	a->stripe.kind = new.stripe.kind;
	memcpy(a->stripe.name, new.stripe.name, sizeof(new.stripe.name));
	a->stripe_new = a->stripe_started = true;
	return 0;
}

int attach_stripe(struct attach *a, const char *name, struct err *e)
{
	struct stripe_disks d = { .n = 0 };
	int found;

	if (!a->o->kind)
		return 0;
	if (a->n_disks < 2 || a->n_disks > STRIPE_MEMBERS_MOST)
		return err_set(e, -EINVAL, "a stripe takes 2 to %d disks, and there %s %zu",
			       STRIPE_MEMBERS_MOST, a->n_disks == 1 ? "is" : "are", a->n_disks);
	for (size_t i = 0; i < a->n_disks; i++)
		d.path[d.n++] = a->disks[i].path;
	found = stripe_find(a->o->kind, &d, &a->stop, &a->stripe, a->device, &a->stripe_started, e);
	if (found < 0)
		return found;
	if (!found && make_stripe(a, &d, name, e))
		return e->code;
	/* One that is known by now, with its id. */
	if (kept_add_stripe(&a->kept, &a->stripe))
		return err_set(e, -ENOMEM, "out of memory");
	return kept_write(&a->kept, e);
}

/* ---- the filesystem ---- */

static int make_fs(struct attach *a, const char *device, unsigned n, struct err *e)
{
	char kernel[DISK_ROOM], found[FOUND_ROOM];
	uint64_t chunk;
	int r = look(a, device, found, e);

	if (!r)
		r = may_lose(a, device, "mkfs.xfs", found, e);
	if (!r)
		r = attach_same(a, e);
	if (r)
		return r;
	chunk = n > 1 ? stripe_chunk(attach_kernel_name(device, kernel)) : 0;
	r = stripe_mkfs(device, chunk, n, *found, &a->stop, e);
	a->made_fs |= !r;
	return r;
}

/* All are looked at before the first is written to. */
static int check_all(const struct attach *a, struct err *e)
{
	char found[FOUND_ROOM];

	for (size_t i = 0; i < a->n_disks; i++) {
		const char *path = a->disks[i].path;
		int r = look(a, path, found, e);

		if (!r && !can_ask())
			r = may_lose(a, path, "mkfs.xfs", found, e);
		if (r)
			return r;
	}
	return 0;
}

int attach_mkfs(struct attach *a, struct err *e)
{
	int r = 0;

	if (a->o->mkfs && a->stripe.kind) {
		r = make_fs(a, a->device, (unsigned)a->n_disks, e);
	} else if (a->o->mkfs) {
		r = check_all(a, e);
		for (size_t i = 0; !r && i < a->n_disks; i++)
			r = make_fs(a, a->disks[i].path, 1, e);
	}
	return r;
}
