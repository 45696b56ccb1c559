// SPDX-License-Identifier: Apache-2.0
/* rftp-iser logout: what login made is taken away, unless somebody uses it. */
#include "iser_setup/halves.h"
#include "iser_setup/holders.h"
#include "iser_setup/initiator.h"
#include "iser_setup/kept.h"
#include "iser_setup/prepare.h"
#include "iser_setup/run.h"
#include "iser_setup/sessions.h"
#include "iser_setup/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct logout_options {
	const char *plan, *state;
	struct tool_list targets;
	unsigned lock_wait; /* seconds */
	bool all, json;
};

static const struct tool_option options[] = {
	{ "plan", TOOL_TEXT, offsetof(struct logout_options, plan), "FILE",
	  "out of the targets of this plan", 0, 0 },
	{ "target", TOOL_LIST, offsetof(struct logout_options, targets), "IQN",
	  "out of this one; may be there several times", 0, 0 },
	{ "all", TOOL_SWITCH, offsetof(struct logout_options, all), NULL,
	  "out of all that login has logged in to", 0, 0 },
	ISER_LOCK_WAIT(struct logout_options, "login or logout (0)"),
	ISER_STATE(struct logout_options, "login made"),
	TOOL_JSON(struct logout_options),
	{ 0 },
};

struct leaving {
	const struct logout_options *o;
	struct stop stop;
	struct kept kept;
	struct record_place place;
	struct sessions there;
	struct kept_session *out;   /* copies of the kept's */
	size_t n_out;
	struct stripe *stopped;
	size_t n_stopped;
};

/* ---- out of which ---- */

static int add(struct leaving *l, const struct kept_session *s, struct err *e)
{
	struct kept_session *copy;

	for (size_t i = 0; i < l->n_out; i++)
		if (!strcmp(l->out[i].iqn, s->iqn))
			return 0;
	copy = iser_plan_add(l->out, l->n_out);
	if (!copy)
		return err_set(e, -ENOMEM, "out of memory");
	*copy = *s;
	return 0;
}

/* A target that is not login's, but there, is somebody else's; one that is not there is what logout
 * is for. */
static int add_named(struct leaving *l, const char *iqn, struct err *e)
{
	const struct kept_session *s = kept_find(&l->kept, iqn);

	if (s)
		return add(l, s, e);
	if (sessions_find(&l->there, iqn))
		return err_set(e, -EPERM, "%s was not logged in to by rftp-iser login, so it is "
			       "left as it is; iscsiadm -m node -T %s --logout ends it",
			       printable(iqn), printable(iqn));
	return 0;
}

static int add_plan(struct leaving *l, struct err *e)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = iser_plan_read(l->o->plan, e);
	int r = p ? 0 : e->code;

	for (size_t i = 0; !r && i < p->n_targets; i++)
		if (kept_find(&l->kept, p->targets[i].iqn))
			r = add_named(l, p->targets[i].iqn, e);
	return r;
}

static int add_address(struct leaving *l, const char *word, struct err *e)
{
	struct login_portal p;
	int r = prepare_portal(word, &p, e);

	for (size_t i = 0; !r && i < l->kept.n_sessions; i++)
		if (login_same_portal(&l->kept.sessions[i].portal, &p))
			r = add(l, &l->kept.sessions[i], e);
	return r;
}

static int choose(struct leaving *l, const struct tool_words *words, struct err *e)
{
	int r = l->o->plan ? add_plan(l, e) : 0;

	for (unsigned i = 0; !r && i < l->o->targets.n; i++)
		r = add_named(l, l->o->targets.word[i], e);
	for (unsigned i = 0; !r && i < words->n; i++)
		r = add_address(l, words->word[i], e);
	for (size_t i = 0; !r && l->o->all && i < l->kept.n_sessions; i++)
		r = add(l, &l->kept.sessions[i], e);
	return r;
}

/* ---- what stands on their disks ---- */

/* "rftp--iser-data" is volume data of the group rftp-iser. */
static bool in_group(const char *dm, const char *group)
{
	for (; *group; group++) {
		if (*dm++ != *group)
			return false;
		if (*group == '-' && *dm++ != '-')
			return false;
	}
	return dm[0] == '-' && dm[1] != '-';
}

/* A UUID as others write it: "1:2-3" is "123". */
static void plain(const char *id, char out[STRIPE_ID_ROOM])
{
	for (; *id; id++)
		if (*id != '-' && *id != ':')
			*out++ = *id;
	*out = '\0';
}

/* device-mapper calls a volume "LVM-" and its group's UUID and its own. */
static bool is_volume(const char *dm, const char *dm_uuid, const struct stripe *s)
{
	static const char prefix[] = "LVM-";
	char id[STRIPE_ID_ROOM];

	plain(s->id, id);
	return *id && in_group(dm, s->name) && !strncmp(dm_uuid, prefix, strlen(prefix)) &&
	       !strncmp(dm_uuid + strlen(prefix), id, strlen(id));
}

/* The stripe of login's that the device is; NULL: it is none. */
static const struct stripe *stripe_of(const struct leaving *l, const char *name)
{
	char dm[128], dm_uuid[160], text[STRIPE_ID_ROOM], uuid[STRIPE_ID_ROOM], id[STRIPE_ID_ROOM];

	holders_dm_name(NULL, name, dm);
	sysfs_text(NULL, dm_uuid, sizeof(dm_uuid), "class/block/%s/dm/uuid", name);
	sysfs_text(NULL, text, sizeof(text), "class/block/%s/md/uuid", name);
	plain(text, uuid);
	for (size_t i = 0; i < l->kept.n_stripes; i++) {
		const struct stripe *s = &l->kept.stripes[i];

		plain(s->id, id);
		if (s->kind == STRIPE_LVM ? is_volume(dm, dm_uuid, s) : *uuid && !strcmp(uuid, id))
			return s;
	}
	return NULL;
}

/* Of one disk: the stripe it is in, "" without. -EBUSY: it is in another's, or that is. */
static int look_above(const struct leaving *l, const char *disk, char stripe[32],
		      const struct stripe **which, struct err *e)
{
	struct holders_stack stack;
	int r;

	holders_stack(NULL, disk, &stack);
	*stripe = '\0';
	*which = NULL;
	r = holders_check(NULL, &stack, e);
	for (unsigned i = 1; !r && i < stack.n; i++) {
		const struct stripe *one = stripe_of(l, stack.name[i]);

		if (one && !*which) {
			*which = one;
			strcpy(stripe, stack.name[i]);
		} else if (!one && !holders_is_partition(NULL, stack.name[i])) {
			r = err_set(e, -EBUSY, "/dev/%s is part of /dev/%s, which is not login's: "
				    "stop that first", disk, stack.name[i]);
		}
	}
	return r;
}

/* Others may have sessions with the same target, by another way: what is theirs is not looked at,
 * and not taken for ours. */
static const struct session *session_of(const struct leaving *l, const struct kept_session *s)
{
	return sessions_at(&l->there, s->iqn, &s->portal, s->transport);
}

typedef int disk_fn(struct leaving *l, const char *disk, struct err *e);

static int disks_of(struct leaving *l, const struct kept_session *kept, disk_fn *fn, struct err *e)
{
	const struct session *s = session_of(l, kept);
	int r = 0;

	for (size_t i = 0; s && !r && i < s->n_disks; i++)
		r = fn(l, s->disks[i].name, e);
	return r;
}

static int each_disk(struct leaving *l, disk_fn *fn, struct err *e)
{
	int r = 0;

	for (size_t i = 0; !r && i < l->n_out; i++)
		r = disks_of(l, &l->out[i], fn, e);
	return r;
}

static int check_disk(struct leaving *l, const char *disk, struct err *e)
{
	const struct stripe *which;
	char stripe[32];

	return look_above(l, disk, stripe, &which, e);
}

static int stop_above(struct leaving *l, const char *disk, struct err *e)
{
	const struct stripe *which;
	char stripe[32], device[64];
	struct stripe *copy, gone;
	int r = look_above(l, disk, stripe, &which, e);

	if (r || !which)
		return r;
	gone = *which;
	snprintf(device, sizeof(device), "/dev/%s", stripe);
	r = stripe_stop(&gone, device, &l->stop, e);
	if (r)
		return r;
	kept_drop_stripe(&l->kept, &gone);
	copy = iser_plan_add(l->stopped, l->n_stopped);
	if (copy)
		*copy = gone;
	return kept_write(&l->kept, e);
}

/* ---- out ---- */

/* Looked at once more, for those before it have taken their time. */
static int leave(struct leaving *l, const struct kept_session *s, struct err *e)
{
	const struct login_target t = kept_target(s);
	int r = disks_of(l, s, check_disk, e);

	if (!r && session_of(l, s))
		r = initiator_logout(s->iqn, &s->portal, s->transport, &l->stop, e);
	if (!r && s->record)
		r = initiator_forget(&l->place, &t, s->transport, &l->stop, e);
	if (r)
		return r;
	kept_drop(&l->kept, s->iqn);
	return kept_write(&l->kept, e);
}

/* Nothing is taken away unless all can be. */
static int leave_all(struct leaving *l, struct err *e)
{
	int r;

	r = l->n_out ? halves_settle(&l->kept, &l->stop, e) : 0;
	if (r)
		return r;
	/* udev has a look into what has just been closed, and would be taken for its user. */
	run_settle(&l->stop, RUN_SETTLE_SECONDS);
	sessions_clear(&l->there);
	r = sessions_read(NULL, &l->there, e);
	if (!r)
		r = each_disk(l, check_disk, e);
	if (!r)
		r = each_disk(l, stop_above, e);
	if (!r && l->n_stopped)
		run_settle(&l->stop, RUN_SETTLE_SECONDS);
	for (size_t i = 0; !r && i < l->n_out; i++)
		r = leave(l, &l->out[i], e);
	/* Stripes whose disks were not there any more. */
	if (!r && !l->kept.n_sessions && l->kept.n_stripes) {
		l->kept.n_stripes = 0;
		r = kept_write(&l->kept, e);
	}
	return r;
}

static int show(const struct leaving *l)
{
	json_t *out, *stopped;

	if (!l->o->json) {
		for (size_t i = 0; i < l->n_stopped; i++)
			printf("stopped the %s stripe %s\n", stripe_kinds[l->stopped[i].kind],
			       l->stopped[i].name);
		for (size_t i = 0; i < l->n_out; i++)
			printf("logged out of %s\n", printable(l->out[i].iqn));
		if (!l->n_out)
			puts("nothing to log out of");
		return 0;
	}
	out = json_array();
	stopped = json_array();
	for (size_t i = 0; i < l->n_out; i++)
		json_array_append_new(out, json_string(l->out[i].iqn));
	for (size_t i = 0; i < l->n_stopped; i++)
		json_array_append_new(stopped, json_string(l->stopped[i].name));
	return json_emit(stdout, json_pack("{s:o, s:o}", "targets", out, "stripes", stopped));
}

static int logout(const struct logout_options *o, const struct tool_words *words, struct err *e)
{
	struct leaving l = { .o = o, .kept = { .lock = -1 } };
	int r;

	record_place_find(&l.place, "");
	tool_go_on();
	stop_begin(&l.stop);
	r = tool_root("logout", e);
	if (!r)
		r = initiator_there(&l.stop, e);
	if (!r)
		r = kept_open(&l.kept, o->state, &(struct lock_wait){ o->lock_wait, &l.stop }, e);
	run_hold(l.kept.lock);
	if (!r)
		r = sessions_read(NULL, &l.there, e);
	if (!r)
		r = choose(&l, words, e);
	if (!r && l.n_out)
		r = prepare_daemon(&l.stop, e);
	if (!r)
		r = leave_all(&l, e);
	if (!r)
		r = show(&l);
	if (r && !e->code)
		err_sys(e, r, "standard output");
	/* Before a signal that was waiting ends us. */
	if (r)
		tool_failed(o->json, e);
	stop_end(&l.stop);
	run_hold(-1);
	kept_close(&l.kept);
	sessions_clear(&l.there);
	free(l.out);
	free(l.stopped);
	return r;
}

enum tool_status tool_logout(int argc, char **argv)
{
	struct logout_options o = { 0 };
	struct tool_words words = ISER_ADDRESSES;
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(argc, argv,
		"Logs this host out of targets that login has logged it in to.", options, &o,
		&words, &helped);

	if (status != TOOL_DONE || helped)
		return status;
	if (!o.plan && !o.targets.n && !words.n && !o.all)
		return tool_misused("logout wants --plan, --target, addresses, or --all", NULL);
	status = tool_addresses(&words);
	if (status)
		return status;
	return logout(&o, &words, &e) ? TOOL_FAILED : TOOL_DONE;
}
