// SPDX-License-Identifier: Apache-2.0
/* rftp-iser plan: what a host is to serve, as a file to read, change and apply. */
#include "iser_setup/plan_ask.h"
#include "iser_setup/planner.h"
#include "iser_setup/secret_file.h"
#include "iser_setup/tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define HOST_NAME 256
#define MONTH sizeof("2026-11")
#define PLAN_INDENT 2

static const struct tool_option options[] = {
	{ "tmpfs", TOOL_LIST, offsetof(struct plan_options, tmpfs), "SIZE",
	  "a file in memory of each node that has an RDMA card", 0, 0 },
	{ "ramdisk", TOOL_LIST, offsetof(struct plan_options, ramdisk), "SIZE",
	  "the kernel's own disk in memory, likewise", 0, 0 },
	{ "file", TOOL_LIST, offsetof(struct plan_options, file), "FILE:SIZE",
	  "a file, served by the node that it is on", 0, 0 },
	{ "block", TOOL_LIST, offsetof(struct plan_options, block), "DEVICE",
	  "a disk, served by the node that it is on", 0, 0 },
	{ "node", TOOL_TEXT, offsetof(struct plan_options, node), "LIST",
	  "these nodes only, as 0,1", 0, 0 },
	{ "policy", TOOL_TEXT, offsetof(struct plan_options, policy), "bind|prefer",
	  "a tmpfs has memory of its node only, or of others', too (bind)", 0, 0 },
	{ "write", TOOL_TEXT, offsetof(struct plan_options, write), "through|back",
	  "what is written is kept at once, or when it is flushed (through)", 0, 0 },
	{ "portal", TOOL_LIST, offsetof(struct plan_options, portal), "NODE=ADDRESS",
	  "where a node is served, or the interface: 1=ens2f0", 0, 0 },
	{ "tcp", TOOL_SWITCH, offsetof(struct plan_options, tcp), NULL,
	  "plain iSCSI where there is no RDMA", 0, 0 },
	{ "initiator", TOOL_LIST, offsetof(struct plan_options, initiator), "IQN",
	  "a host that may log in", 0, 0 },
	{ "open", TOOL_SWITCH, offsetof(struct plan_options, open), NULL,
	  "anyone may log in, and write", 0, 0 },
	{ "chap", TOOL_TEXT, offsetof(struct plan_options, chap), "generate|FILE",
	  "initiators prove who they are by a secret", 0, 0 },
	{ "mutual-chap", TOOL_TEXT, offsetof(struct plan_options, mutual), "generate|FILE",
	  "and the targets do", 0, 0 },
	{ "secrets", TOOL_TEXT, offsetof(struct plan_options, secrets), "DIR",
	  "generated secrets go there (" PLANNER_SECRETS ")", 0, 0 },
	{ "mounts", TOOL_TEXT, offsetof(struct plan_options, mounts), "DIR",
	  "tmpfs are mounted below it (" PLANNER_MOUNTS ")", 0, 0 },
	{ "name", TOOL_TEXT, offsetof(struct plan_options, name), "NAME",
	  "of the plan (the host's name up to its first dot)", 0, 0 },
	{ "domain", TOOL_TEXT, offsetof(struct plan_options, domain), "DOMAIN",
	  "of the targets' names (the host's name)", 0, 0 },
	{ "iqn", TOOL_TEXT, offsetof(struct plan_options, iqn), "PREFIX",
	  "the targets' names up to the colon, as iqn.2026-01.org.example", 0, 0 },
	{ "out", TOOL_TEXT, offsetof(struct plan_options, out), "FILE",
	  "write the plan there (standard output)", 0, 0 },
	{ "force", TOOL_SWITCH, offsetof(struct plan_options, force), NULL,
	  "also over a file that is there", 0, 0 },
	{ "check", TOOL_TEXT, offsetof(struct plan_options, check), "FILE",
	  "only check this plan; - is standard input", 0, 0 },
	{ "addresses", TOOL_TEXT, offsetof(struct plan_options, addresses), "FILE",
	  "another machine's: lines of NETDEV ADDRESS", 0, 0 },
	TOOL_SYSFS(struct plan_options),
	{ 0 },
};

/* ---- the host ---- */

/* What a plan is for, or judged by. */
struct host {
	struct topo *topo;
	struct host_addresses addresses;
	char name[HOST_NAME], month[MONTH];
	struct planner_host h;
};

static int host_read(struct host *host, const struct plan_options *o, struct err *e)
{
	const bool own = !o->sysfs && !getenv("RFTP_SYSFS");
	const time_t now = time(NULL);
	struct tm tm;

	*host = (struct host){ .topo = topo_read(o->sysfs, e) };
	if (!host->topo)
		return e->code;
	gethostname(host->name, sizeof(host->name) - 1);
	strftime(host->month, sizeof(host->month), "%Y-%m", gmtime_r(&now, &tm));
	host->h = (struct planner_host){ host->topo, &host->addresses, host->name, host->month,
					 own };
	/* This host's would not be those of another one's cards. */
	return own || o->addresses ? host_addresses_read(o->addresses, &host->addresses, e) : 0;
}

static void host_clear(struct host *host)
{
	host_addresses_clear(&host->addresses);
	topo_free(host->topo);
}

/* ---- the plan ---- */

static struct iser_plan *make(struct spec *s, const struct plan_options *o, struct lines *notes,
			      struct err *e)
{
	struct iser_plan *p = NULL;
	struct host host;

	if (!host_read(&host, o, e)) {
		spec_locate(s, host.topo, host.h.own);
		p = planner_plan(s, &host.h, notes, e);
	}
	host_clear(&host);
	return p;
}

static void say(const struct iser_plan *p, const struct lines *notes)
{
	struct lines stores CLEANUP_LINES = { 0 };

	iser_plan_stores(p, &stores);
	for (size_t i = 0; i < stores.n; i++)
		log_info("%s", stores.v[i]);
	for (size_t i = 0; i < notes->n; i++)
		log_warn("%s", notes->v[i]);
}

/* ---- secrets ---- */

/* Takes back what was made for a plan that comes to nothing. */
static void unmake(const struct lines *made)
{
	for (size_t i = 0; i < made->n; i++)
		unlink(made->v[i]);
}

/* Of the initiators of several targets it is one file. */
static void note_secret(const char *file, struct lines *notes)
{
	struct err why = ERR_INIT;

	if (!file || !secret_check(file, &why))
		return;
	for (size_t i = 0; i < notes->n; i++)
		if (!strcmp(notes->v[i], why.text))
			return;
	lines_add(notes, "%s", why.text);
}

static void note_secrets(const struct iser_plan *p, struct lines *notes)
{
	for (size_t t = 0; t < p->n_targets; t++)
		for (size_t i = 0; i < p->targets[t].n_initiators; i++) {
			note_secret(p->targets[t].initiators[i].chap.secret_file, notes);
			note_secret(p->targets[t].initiators[i].mutual.secret_file, notes);
		}
}

/* One secret of an initiator: NULL for none, SPEC_GENERATE, or a file, which may be still to
 * come. */
static int provide(const struct spec *s, const char *plan_name, const char *initiator,
		   const char *secret, bool mutual, struct lines *made, struct lines *notes, struct err *e)
{
	CLEANUP_FREE char *path = NULL;
	bool fresh;
	int r;

	if (!secret || strcmp(secret, SPEC_GENERATE) != 0) {
		note_secret(secret, notes);
		return 0;
	}
	path = planner_secret(s, plan_name, initiator, mutual);
	if (!path)
		return err_set(e, -ENOMEM, "out of memory");
	r = secret_make(path, &fresh, e);
	if (!r && fresh)
		lines_add(made, "%s", path);
	return r;
}

static int provide_all(const struct spec *s, const char *plan_name, struct lines *made,
		       struct lines *notes, struct err *e)
{
	for (size_t i = 0; i < s->n_initiators; i++) {
		const struct spec_initiator *in = &s->initiators[i];

		if (provide(s, plan_name, in->name, in->chap_secret, false, made, notes, e) ||
		    provide(s, plan_name, in->name, in->mutual_secret, true, made, notes, e))
			return e->code;
	}
	return 0;
}

/* ---- out ---- */

/* Before anything is made. */
static int may_write(const struct plan_options *o, struct err *e)
{
	struct stat st;

	if (!o->out || lstat(o->out, &st))
		return 0;
	/* It would be replaced by a file, a device too. */
	if (!S_ISREG(st.st_mode))
		return err_set(e, -EEXIST, "%s is there already, and is no file: without --out the "
			       "plan goes to standard output", printable(o->out));
	return o->force ? 0 : err_set(e, -EEXIST, "%s is there already; --force writes over it",
		       printable(o->out));
}

static int write_plan(const struct iser_plan *p, const char *out, struct err *e)
{
	json_t *json = iser_plan_json(p);
	char *dumped = json ? json_dumps(json, JSON_INDENT(PLAN_INDENT)) : NULL;
	CLEANUP_FREE char *text = NULL;
	int r = 0;

	json_decref(json);
	if (!dumped || asprintf(&text, "%s\n", dumped) < 0) {
		text = NULL; /* asprintf leaves it undefined */
		free(dumped);
		return err_set(e, -ENOMEM, "out of memory");
	}
	free(dumped);
	if (out)
		return write_file_atomic(out, text, strlen(text), 0644, e);
	if (fputs(text, stdout) < 0 || fflush(stdout))
		r = -errno;
	return r ? err_sys(e, r, "standard output") : 0;
}

/* All or nothing. */
static int finish(const struct spec *s, const struct iser_plan *p, const struct plan_options *o,
		  struct lines *notes, struct err *e)
{
	struct lines made CLEANUP_LINES = { 0 };

	if (may_write(o, e))
		return e->code;
	if (provide_all(s, p->name, &made, notes, e) || write_plan(p, o->out, e)) {
		unmake(&made);
		return e->code;
	}
	for (size_t i = 0; i < made.n; i++)
		log_info("a new secret is in %s", printable(made.v[i]));
	return 0;
}

/* ---- the command ---- */

static int plan(struct spec *s, const struct plan_options *o, struct err *e)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
	struct lines notes CLEANUP_LINES = { 0 };
	int r;

	p = make(s, o, &notes, e);
	if (!p)
		return e->code;
	r = finish(s, p, o, &notes, e);
	if (!r)
		say(p, &notes);
	return r;
}

/* file: NULL for none. */
static enum tool_status ask_and_plan(const struct plan_options *o, const char *file,
				     struct err *e)
{
	CLEANUP_SPEC struct spec *s = spec_new();
	int r;

	if (!s) {
		err_set(e, -ENOMEM, "out of memory");
		return TOOL_FAILED;
	}
	if (file && plan_ask_file(s, file, e))
		return TOOL_FAILED;
	r = plan_ask_options(s, o, e);
	if (r)
		return r == -EINVAL ? TOOL_USAGE : TOOL_FAILED;
	return plan(s, o, e) ? TOOL_FAILED : TOOL_DONE;
}

static enum tool_status check(const struct plan_options *o, struct err *e)
{
	CLEANUP_ISER_PLAN struct iser_plan *p = NULL;
	struct lines notes CLEANUP_LINES = { 0 };
	CLEANUP_FREE char *text = NULL;
	struct host host;
	const char *name;
	int r;

	text = plan_text(o->check, &name, e);
	p = text ? iser_plan_parse(printable(name), text, e) : NULL;
	if (!p)
		return TOOL_FAILED;
	r = host_read(&host, o, e);
	if (!r) {
		iser_plan_doubts(p, &host.h, &notes);
		if (host.h.own)
			note_secrets(p, &notes);
		say(p, &notes);
	}
	host_clear(&host);
	return r ? TOOL_FAILED : TOOL_DONE;
}

/* Was anything said but --check, and of which host? */
static bool checks_only(const struct plan_options *o, const struct tool_words *words)
{
	struct plan_options rest;

	memset(&rest, 0, sizeof(rest)); /* padding, too */
	rest.check = o->check;
	rest.sysfs = o->sysfs;
	rest.addresses = o->addresses;
	return !words->n && !memcmp(&rest, o, sizeof(rest));
}

enum tool_status tool_plan(int argc, char **argv)
{
	struct plan_options o;
	struct tool_words words = { .names = "[SPEC]", .most = 1 };
	struct err e = ERR_INIT;
	enum tool_status status;
	bool helped;

	memset(&o, 0, sizeof(o)); /* as checks_only compares it */
	status = tool_options_words(argc, argv, "What this host is to serve, by the file SPEC and "
				    "by "
				    "options, as a plan for rftp-iser apply.", options, &o, &words,
				    &helped);
	if (status || helped)
		return status;
	if (o.check && !checks_only(&o, &words))
		return tool_misused("--check takes no other option than --sysfs and --addresses, "
				    "and no word", NULL);
	status = o.check ? check(&o, &e) : ask_and_plan(&o, words.n ? words.word[0] : NULL, &e);
	if (status == TOOL_USAGE)
		return tool_misused(e.text, NULL);
	if (status)
		log_error("%s", e.text);
	return status;
}
