// SPDX-License-Identifier: Apache-2.0
/* Sessions: made, and taken back. */
#include "iser_setup/attach.h"

#include "iser_setup/holders.h"
#include "iser_setup/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LATE_MS 5000 /* that a login which nobody waits for any more may take */
#define LATE_POLL_US 100000

/* ---- one session ---- */

/* One that is there is as it should be? */
static int check_there(const struct attach *a, const struct session *s, struct err *e)
{
	const char *want = login_transports[a->o->with];

	if (!strcmp(s->transport, want))
		return 0;
	return err_set(e, -EEXIST, "this host is logged in to %s already, over %s and not %s: log "
		       "out first", printable(s->iqn), printable(s->transport), want);
}

static int read_secrets(const struct login_target *t, struct initiator_wish *w, char **secret,
			char **mutual, struct err *e)
{
	if (t->chap) {
		*secret = secret_read(t->chap->secret_file, SECRET_THEIRS, e);
		if (!*secret)
			return e->code;
		w->user = t->chap->user;
		w->secret = *secret;
	}
	if (t->mutual) {
		*mutual = secret_read(t->mutual->secret_file, SECRET_THEIRS, e);
		if (!*mutual)
			return e->code;
		w->mutual_user = t->mutual->user;
		w->mutual_secret = *mutual;
	}
	if (t->mutual && !strcmp(*mutual, *secret ? *secret : ""))
		return err_set(e, -EINVAL, "target %s: the secrets of both directions are the "
			       "same, which RFC 7143 forbids", printable(t->iqn));
	return 0;
}

/* With somebody else's record we log in as it says, or not at all. */
static int check_foreign(const struct login_target *t, const char *path, struct err *e)
{
	if (!t->chap)
		return 0;
	return err_set(e, -EEXIST, "open-iscsi has a record of %s that is not login's, %s: log in "
		       "with iscsiadm, or take it away with iscsiadm -m node -T %s -o delete",
		       printable(t->iqn), printable(path), printable(t->iqn));
}

/* A record of an earlier run's that is at another portal, or of another transport. */
static int drop_stale(const struct attach *a, const struct kept_session *before,
		      const struct kept_session *now, struct err *e)
{
	struct login_target t;

	if (!before || !before->record || (before->transport == now->transport &&
					   login_same_portal(&before->portal, &now->portal)))
		return 0;
	t = kept_target(before);
	return initiator_forget(&a->place, &t, before->transport, &a->stop, e);
}

/* Ours is made anew, for the plan or the options may have changed since a run that was killed.
 * noted: it is known now, and what was known before of the target is not any more. */
static int make_record(struct attach *a, const struct login_target *t, struct kept_session *kept,
		       bool *noted, struct err *e)
{
	CLEANUP_SECRET char *secret = NULL, *mutual = NULL;
	const struct kept_session *before = kept_find(&a->kept, t->iqn);
	struct initiator_wish w = { .transport = a->o->with, .tune = a->o->tune,
				    .wait = a->o->wait };
	char path[PATH_MAX];
	int r = read_secrets(t, &w, &secret, &mutual, e);

	if (!r)
		r = drop_stale(a, before, kept, e);
	if (r)
		return r;
	kept->record = true;
	if (!record_file(&a->place, t, login_ifaces[a->o->with], path, sizeof(path)) &&
	    !(before && before->record)) {
		kept->record = false;
		r = check_foreign(t, path, e);
	}
	/* Known before it is there: of a run that is killed, logout finds it all. */
	if (!r && kept_add(&a->kept, kept))
		r = err_set(e, -ENOMEM, "out of memory");
	if (!r)
		r = kept_write(&a->kept, e);
	*noted = !r;
	return r || !kept->record ? r : initiator_record(&a->place, t, &w, &a->stop, e);
}

static int drop(struct attach *a, const struct kept_session *s, const struct stop *stop,
		struct err *e)
{
	const struct login_target t = kept_target(s);
	int r = s->record ? initiator_forget(&a->place, &t, s->transport, stop, e) : 0;

	if (r)
		return r;
	kept_drop(&a->kept, s->iqn);
	return kept_write(&a->kept, e);
}

/* iscsiadm was stopped by a signal; iscsid was not, and goes on. */
static bool comes_late(const struct kept_session *s)
{
	const uint64_t until = ns_after(LATE_MS);
	bool there = false;

	while (!there && now_ns() < until) {
		struct sessions all;
		struct err ignored = ERR_INIT;
		const struct session *one;

		if (sessions_read(NULL, &all, &ignored))
			return false;
		one = sessions_at(&all, s->iqn, &s->portal, s->transport);
		there = one && !strcmp(one->state, "LOGGED_IN");
		sessions_clear(&all);
		if (!there)
			usleep(LATE_POLL_US);
	}
	return there;
}

static int log_in(struct attach *a, size_t i, struct err *e)
{
	const struct login_target *t = &a->list.v[i];
	struct kept_session s = { .portal = t->portal, .tag = t->tag, .transport = a->o->with };
	struct err also = ERR_INIT;
	bool begun, noted = false;
	int r;

	snprintf(s.iqn, sizeof(s.iqn), "%s", t->iqn);
	r = make_record(a, t, &s, &noted, e);
	begun = !r;
	if (begun)
		r = initiator_login(t, a->o->with, &a->stop, e);
	a->new[i] = !r;
	/* What an earlier run has left is still known, and still there. */
	if (!r || !noted)
		return r;
	/* Signals are what may have led here: they must not end this, too. */
	if (begun && r == -EINTR && !comes_late(&s)) {
		log_warn("iscsid may still be logging in to %s: rftp-iser logout --target %s takes "
			 "that back", printable(s.iqn), printable(s.iqn));
		return r;
	}
	/* With a session of somebody else's it stays, and so does the record that it is by. */
	if (begun && r == -EEXIST)
		s.record = false;
	else if (begun)
		initiator_logout(s.iqn, &s.portal, s.transport, NULL, &also);
	also = (struct err)ERR_INIT;
	if (drop(a, &s, NULL, &also))
		log_warn("%s", also.text);
	return r;
}

int attach_sessions(struct attach *a, struct err *e)
{
	struct sessions there;
	int r = sessions_read(NULL, &there, e);

	a->new = calloc(a->list.n ? a->list.n : 1, sizeof(*a->new));
	if (!r && !a->new)
		r = err_set(e, -ENOMEM, "out of memory");
	for (size_t i = 0; !r && i < a->list.n; i++) {
		const struct session *s = sessions_find(&there, a->list.v[i].iqn);

		if (stop_asked(&a->stop))
			r = err_set(e, -EINTR, "stopped by a signal");
		else
			r = s ? check_there(a, s, e) : log_in(a, i, e);
	}
	sessions_clear(&there);
	return r;
}

/* ---- back ---- */

/* udev may have made something of its disks by now, or somebody have mounted one. */
static int check_free(const struct kept_session *s, struct err *e)
{
	struct sessions there;
	int r = sessions_read(NULL, &there, e);
	const struct session *now = sessions_at(&there, s->iqn, &s->portal, s->transport);

	for (size_t i = 0; now && !r && i < now->n_disks; i++)
		r = holders_free(NULL, now->disks[i].name, e);
	sessions_clear(&there);
	return r;
}

static void undo_session(struct attach *a, const char *iqn)
{
	const struct kept_session *found = kept_find(&a->kept, iqn);
	struct err e = ERR_INIT;
	struct kept_session s;

	if (!found)
		return;
	s = *found;
	if (check_free(&s, &e) || initiator_logout(s.iqn, &s.portal, s.transport, NULL, &e) ||
	    drop(a, &s, NULL, &e))
		log_warn("not taken back: %s", e.text);
}

static bool any_new(const struct attach *a)
{
	for (size_t i = 0; a->new && i < a->list.n; i++)
		if (a->new[i])
			return true;
	return false;
}

/* Also one that udev has put together: it was not there before its last session. */
static void undo_stripe(struct attach *a)
{
	struct err e = ERR_INIT;

	if (!a->stripe.kind || !*a->device || !(a->stripe_started || any_new(a)))
		return;
	if (stripe_stop(&a->stripe, a->device, NULL, &e)) {
		log_warn("not taken back: %s", e.text);
		return;
	}
	kept_drop_stripe(&a->kept, &a->stripe);
	if (kept_write(&a->kept, &e))
		log_warn("%s", e.text);
}

void attach_undo(struct attach *a)
{
	/* udev looks into what is new, and would be taken for its user. */
	run_settle(NULL, RUN_SETTLE_SECONDS);
	undo_stripe(a);
	for (size_t i = a->list.n; a->new && i-- > 0;)
		if (a->new[i])
			undo_session(a, a->list.v[i].iqn);
}
