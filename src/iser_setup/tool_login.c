// SPDX-License-Identifier: Apache-2.0
/* rftp-iser login: this host becomes an initiator of targets, and has their disks. */
#include "iser_setup/attach.h"
#include "iser_setup/halves.h"
#include "iser_setup/names.h"
#include "iser_setup/prepare.h"
#include "iser_setup/run.h"
#include "iser_setup/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_SECONDS 30
#define WAIT_MOST 3600
#define CHUNK_LEAST 4096u
#define CHUNK_MOST (64u << 20)

static const struct tool_option options[] = {
	{ "plan", TOOL_TEXT, offsetof(struct login_options, plan), "FILE",
	  "targets, portals and secrets of this host, by the storage host's plan", 0, 0 },
	{ "target", TOOL_LIST, offsetof(struct login_options, targets), "IQN",
	  "this target alone; may be there several times", 0, 0 },
	{ "transport", TOOL_TEXT, offsetof(struct login_options, transport), "iser|tcp",
	  "what sessions go over (iser)", 0, 0 },
	{ "user", TOOL_TEXT, offsetof(struct login_options, user), "NAME",
	  "CHAP: who this host is", 0, 0 },
	{ "secret-file", TOOL_TEXT, offsetof(struct login_options, secret_file), "FILE",
	  "and its secret, the file's first line", 0, 0 },
	{ "mutual-user", TOOL_TEXT, offsetof(struct login_options, mutual_user), "NAME",
	  "mutual CHAP: who the target is", 0, 0 },
	{ "mutual-secret-file", TOOL_TEXT, offsetof(struct login_options, mutual_secret_file),
	  "FILE", "and its secret", 0, 0 },
	{ "wait", TOOL_COUNT, offsetof(struct login_options, wait), "SECONDS",
	  "for a login, and for the disks (30)", 1, WAIT_MOST },
	{ "tune", TOOL_SWITCH, offsetof(struct login_options, tune), NULL,
	  "set queues and readahead for big files (see rftp-iser(8))", 0, 0 },
	{ "stripe", TOOL_TEXT, offsetof(struct login_options, stripe), "md|lvm",
	  "one device of all disks", 0, 0 },
	{ "chunk", TOOL_SIZE, offsetof(struct login_options, chunk), "SIZE",
	  "of a new stripe, a power of two (512K)", CHUNK_LEAST, CHUNK_MOST },
	{ "mkfs", TOOL_SWITCH, offsetof(struct login_options, mkfs), NULL,
	  "make XFS on the stripe, or on each disk", 0, 0 },
	{ "yes", TOOL_SWITCH, offsetof(struct login_options, yes), NULL,
	  "--stripe and --mkfs may destroy what is on the disks", 0, 0 },
	{ "keep", TOOL_SWITCH, offsetof(struct login_options, keep), NULL,
	  "leave what was done when something fails after it", 0, 0 },
	ISER_LOCK_WAIT(struct login_options, "login or logout (0)"),
	ISER_STATE(struct login_options, "login made"),
	TOOL_JSON(struct login_options),
	{ 0 },
};

/* ---- the command line ---- */

static enum tool_status check_chap(const struct login_options *o)
{
	if (!o->user != !o->secret_file)
		return tool_misused("CHAP wants --user and --secret-file", NULL);
	if (!o->mutual_user != !o->mutual_secret_file)
		return tool_misused("mutual CHAP wants --mutual-user and --mutual-secret-file",
				    NULL);
	if (o->mutual_user && !o->user)
		return tool_misused("mutual CHAP wants --user and --secret-file, too", NULL);
	if (o->user && o->plan)
		return tool_misused("a plan has users and secrets of its own, so not also --user",
				    NULL);
	return TOOL_DONE;
}

static enum tool_status check_users(const struct login_options *o)
{
	struct err e = ERR_INIT;

	if (o->user && login_check_word("CHAP's user", o->user, &e))
		return tool_misused(e.text, NULL);
	if (o->mutual_user && login_check_word("CHAP's user", o->mutual_user, &e))
		return tool_misused(e.text, NULL);
	return TOOL_DONE;
}

static enum tool_status check(struct login_options *o, const struct tool_words *words)
{
	enum tool_status status;

	for (o->with = 0; strcmp(o->transport, login_transports[o->with]);)
		if (++o->with == LOGIN_TRANSPORTS)
			return tool_misused("--transport takes iser or tcp, not", o->transport);
	for (o->kind = o->stripe ? STRIPE_MD : STRIPE_NONE;
	     o->stripe && strcmp(o->stripe, stripe_kinds[o->kind]);)
		if (++o->kind == STRIPE_KINDS)
			return tool_misused("--stripe takes md or lvm, not", o->stripe);
	if (o->chunk & (o->chunk - 1))
		return tool_misused("--chunk takes a power of two", NULL);
	if (!o->plan && !words->n)
		return tool_misused("login wants the storage hosts' addresses, or --plan", NULL);
	for (unsigned i = 0; i < o->targets.n; i++)
		if (iser_iqn_wrong(o->targets.word[i]))
			return tool_misused("--target takes an iSCSI name, not",
					    o->targets.word[i]);
	status = check_chap(o);
	if (!status)
		status = check_users(o);
	return status ? status : tool_addresses(words);
}

/* ---- which targets ---- */

struct source {
	struct iser_plan *plan;
	struct login_portal portals[ISER_ADDRESSES_MOST];
	size_t n_portals;
	struct iser_chap chap, mutual;  /* of the options, which own what is in it */
	struct login_wish wish;
	bool wrong;                     /* the plan is none */
	char *left;                     /* what is at other addresses only; NULL */
};

static int resolve(struct source *s, const struct tool_words *words, struct err *e)
{
	for (unsigned i = 0; i < words->n; i++) {
		int r = prepare_portal(words->word[i], &s->portals[s->n_portals], e);

		if (r)
			return r;
		s->n_portals++;
	}
	return 0;
}

static int check_secret(const char *user, const char *file, struct err *e)
{
	char *secret;

	if (!user)
		return 0;
	if (login_check_word("CHAP's user", user, e))
		return e->code;
	secret = secret_read(file, SECRET_THEIRS, e);
	secret_free(secret);
	return secret ? 0 : e->code;
}

/* All that can be known to be wrong before anything is asked of anybody. */
static int read_source(struct source *s, const struct login_options *o,
		       const struct tool_words *words, struct err *e)
{
	int r = resolve(s, words, e);

	if (!r)
		r = check_secret(o->user, o->secret_file, e);
	if (!r)
		r = check_secret(o->mutual_user, o->mutual_secret_file, e);
	if (r)
		return r;
	s->chap = (struct iser_chap){ (char *)o->user, (char *)o->secret_file };
	s->mutual = (struct iser_chap){ (char *)o->mutual_user, (char *)o->mutual_secret_file };
	s->wish = (struct login_wish){
		.transport = o->with, .iqns = &o->targets, .portals = s->portals,
		.n_portals = s->n_portals, .chap = o->user ? &s->chap : NULL,
		.mutual = o->mutual_user ? &s->mutual : NULL,
	};
	if (o->plan) {
		s->plan = iser_plan_read(o->plan, e);
		s->wrong = !s->plan && TOOL_BAD_PLAN(*e) == TOOL_USAGE;
		return s->plan ? 0 : e->code;
	}
	return 0;
}

static int ask_all(struct attach *a, const struct source *s, char **text, struct err *e)
{
	*text = strdup("");
	for (size_t i = 0; i < s->n_portals; i++) {
		CLEANUP_FREE char *one = NULL, *before = *text;
		int r = initiator_discover(&s->portals[i], &a->stop, &one, e);

		if (r) {
			*text = strdup("");
			return r;
		}
		if (!before || asprintf(text, "%s%s", before, one) < 0) {
			*text = NULL;
			return err_set(e, -ENOMEM, "out of memory");
		}
	}
	return 0;
}

static int discover(struct attach *a, struct source *s, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	/* Discovery goes over TCP. */
	int r = prepare_modules(LOGIN_TCP, &a->stop, e);

	if (!r)
		r = prepare_daemon(&a->stop, e);
	if (!r)
		r = ask_all(a, s, &text, e);
	if (!r)
		r = login_from_discovery(text, &s->wish, &a->list, &s->left, e);
	return r;
}

static int choose(struct attach *a, struct source *s, const char *initiator, struct err *e)
{
	int r;

	if (!s->plan)
		return discover(a, s, e);
	r = login_from_plan(s->plan, initiator, &s->wish, &a->list, e);
	if (r == -ENOENT)
		err_prefix(e, "%s", printable(a->o->plan));
	for (size_t i = 0; !r && i < a->list.n; i++) {
		const struct iser_chap *c = a->list.v[i].chap, *m = a->list.v[i].mutual;

		r = c ? check_secret(c->user, c->secret_file, e) : 0;
		if (!r && m)
			r = check_secret(m->user, m->secret_file, e);
	}
	return r;
}

/* ---- the command ---- */

/* Up to here nothing but modules and the daemon is changed. */
static int prepare(struct attach *a, struct source *s, const struct topo *t, struct err *e)
{
	CLEANUP_FREE char *initiator = NULL;
	int r = initiator_there(&a->stop, e);

	if (!r)
		initiator = prepare_initiator(NULL, &a->stop, e);
	if (!initiator)
		return e->code;
	r = kept_open(&a->kept, a->o->state, &(struct lock_wait){ a->o->lock_wait, &a->stop }, e);
	run_hold(a->kept.lock);
	if (!r)
		r = choose(a, s, initiator, e);
	if (!r && a->o->with == LOGIN_ISER)
		r = prepare_rdma(t, &a->list, e);
	if (!r)
		r = prepare_modules(a->o->with, &a->stop, e);
	return r ? r : prepare_daemon(&a->stop, e);
}

static int attach(struct attach *a, const struct source *s, const struct topo *t, struct err *e)
{
	int r = attach_sessions(a, e);

	if (!r)
		r = attach_disks(a, t, e);
	if (!r)
		r = halves_settle(&a->kept, &a->stop, e);
	if (!r)
		r = attach_stripe(a, s->plan ? s->plan->name : NULL, e);
	if (!r)
		r = attach_mkfs(a, e);
	if (r && a->o->keep)
		log_warn("--keep: what was done until here stays; rftp-iser logout takes it back");
	else if (r)
		attach_undo(a);
	else
		attach_tune(a);
	return r;
}

static enum tool_status login(const struct login_options *o, const struct tool_words *words,
			      struct err *e)
{
	struct attach a = { .o = o, .kept = { .lock = -1 } };
	struct source s = { 0 };
	struct topo *t = NULL;
	int r = tool_root("login", e);

	if (!r) {
		t = topo_read(NULL, e);
		r = t ? read_source(&s, o, words, e) : e->code;
	}
	record_place_find(&a.place, "");
	tool_go_on();
	stop_begin(&a.stop);
	if (!r)
		r = prepare(&a, &s, t, e);
	if (!r)
		r = attach(&a, &s, t, e);
	if (!r && s.left && *s.left)
		log_info("left alone, as they are not at the addresses given: %s", s.left);
	if (!r && o->json)
		r = attach_emit(&a);
	else if (!r)
		attach_show(&a);
	if (r && !e->code)
		err_sys(e, r, "standard output");
	/* Before a signal that was waiting ends us. */
	if (r)
		tool_failed(o->json, e);
	stop_end(&a.stop);
	run_hold(-1);
	kept_close(&a.kept);
	login_list_clear(&a.list);
	free(a.new);
	free(a.disks);
	free(a.tuned);
	free(s.left);
	iser_plan_free(s.plan);
	topo_free(t);
	return !r ? TOOL_DONE : s.wrong ? TOOL_USAGE : TOOL_FAILED;
}

enum tool_status tool_login(int argc, char **argv)
{
	struct login_options o = { .transport = login_transports[LOGIN_ISER],
				   .wait = WAIT_SECONDS, .chunk = STRIPE_CHUNK };
	struct tool_words words = ISER_ADDRESSES;
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(argc, argv,
		"Logs this host in to iSER targets, and waits for their disks.", options, &o,
		&words, &helped);

	if (status != TOOL_DONE || helped)
		return status;
	status = check(&o, &words);
	if (status != TOOL_DONE)
		return status;
	return login(&o, &words, &e);
}
