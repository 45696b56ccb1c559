// SPDX-License-Identifier: Apache-2.0
/* Loads the settings of rftpd (defaults, then rftpd.conf(5), then the command line), checks their
 * combinations, prints them, and finds the settings of an account or a peer. */
#include "server/config/options.h"
#include "proto/proto.h"
#include "rdma/rdma.h"
#include "server/auth/auth.h"
#include "server/server.h"

#include <grp.h>
#include <libgen.h>
#include <pwd.h>
#include <sys/stat.h>

#define SECOND_NS 1000000000ull

enum { SECTIONS_MAX = 10000 };

/* ---- defaults, allocation and clearing ---- */

static void set_defaults(struct srv_options *o)
{
	*o = (struct srv_options){
		.max_sessions = 256, .max_per_host = 64,
		.login_timeout = 60 * SECOND_NS, .idle_timeout = 15 * 60 * SECOND_NS,
		.stall = 30 * SECOND_NS, .log_level = LOG_LV_INFO,
	};
	transfer_tuning_default(&o->tuning);
	o->tuning.memory = 0;
	o->tuning.umask = 022;
	o->tuning.rdma = VERBS_TRANSPORT;
	o->tuning.balance_percent = 60;
	o->tuning.balance_ns = 5 * SECOND_NS;
}

static void clear_rules(struct srv_rules *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		option_clear(srv_user_rows, &r[i]);
		free(r[i].name);
	}
}

void srv_options_clear(struct srv_options *o)
{
	option_clear(rftpd_options, o);
	clear_rules(o->user_rules, o->nuser_rules);
	clear_rules(o->group_rules, o->ngroup_rules);
	clear_rules(&o->anonymous_rules, 1);
	for (size_t i = 0; i < o->nnics; i++) {
		option_clear(srv_nic_rows, &o->nics[i]);
		free(o->nics[i].name);
	}
	free(o->user_rules);
	free(o->group_rules);
	free(o->nics);
	memset(o, 0, sizeof(*o));
}

/* ---- errors, and the origin of a setting ---- */

/* The state of a load. */
struct load {
	struct srv_options *o;
	struct err last;
	unsigned errors;
	struct conf_reader r;
	struct option_target to;  /* the current section's options; rows NULL: the section is
				   * unknown */
};

/* Record an error. The load logs each error except the last one, which its caller gets in e. */
static void load_error(void *arg, const struct err *e)
{
	struct load *l = arg;

	if (l->errors++)
		log_error("%s", l->last.text);
	l->last = *e;
}

static unsigned origin_of(const struct srv_options *o, const char *name)
{
	return o->from[option_find(rftpd_options, name) - rftpd_options];
}

bool srv_option_given(const struct srv_options *o, const char *name)
{
	return origin_of(o, name);
}

const char *srv_option_where(const struct srv_options *o, const char *name, char out[512])
{
	unsigned from = origin_of(o, name);

	if (from && from != OPTION_ARGV)
		snprintf(out, 512, "%s:%u: %s", printable(o->config), from, name);
	else
		snprintf(out, 512, "--%s", name);
	return out;
}

/* ---- rftpd.conf ---- */

/* Find the item called name in *list, which has *n items of size bytes; the first member of an item
 * is its name. A missing item is appended. NULL: out of memory, or too many items. */
static void *find_or_add(void **list, size_t *n, size_t size, const char *name)
{
	char *grown, *copy;

	for (size_t i = 0; i < *n; i++)
		if (!strcmp(*(char **)((char *)*list + i * size), name))
			return (char *)*list + i * size;

	copy = *n < SECTIONS_MAX ? strdup(name) : NULL;
	grown = copy ? realloc(*list, (*n + 1) * size) : NULL;
	if (!grown) {
		free(copy);
		return NULL;
	}

	*list = grown;
	grown += (*n)++ * size;
	memset(grown, 0, size);
	*(char **)grown = copy;
	return grown;
}

static int begin_section(struct load *l, const char *section, struct err *e)
{
	struct srv_options *o = l->o;
	const struct {
		const char *kind;
		const struct option_def *rows;
		void **list;
		size_t *n, size;
	} kinds[] = {
		{ "user", srv_user_rows, (void **)&o->user_rules, &o->nuser_rules,
		  sizeof(*o->user_rules) },
		{ "group", srv_user_rows, (void **)&o->group_rules, &o->ngroup_rules,
		  sizeof(*o->group_rules) },
		{ "nic", srv_nic_rows, (void **)&o->nics, &o->nnics, sizeof(*o->nics) },
	};

	l->to = (struct option_target){ .rows = NULL };
	if (!strcmp(section, "anonymous")) {
		l->to = (struct option_target){ .rows = srv_anonymous_rows,
						.base = &o->anonymous_rules };
		return 0;
	}

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		size_t len = strlen(kinds[i].kind), blanks;

		if (strncmp(section, kinds[i].kind, len))
			continue;
		blanks = strspn(section + len, " \t");
		if (!blanks)
			continue;
		l->to.rows = kinds[i].rows;
		l->to.base = find_or_add(kinds[i].list, kinds[i].n, kinds[i].size,
					 section + len + blanks);
		return l->to.base ? 0 : err_nomem(e);
	}
	return err_set(e, -EINVAL, "there is no section [%s], only [user NAME], [group NAME], "
		       "[anonymous] and [nic NAME]", printable(section));
}

static int load_line(void *arg, const char *section, const char *key, const char *value,
		     struct err *e)
{
	struct load *l = arg;

	if (!key)
		return begin_section(l, section, e);
	if (!l->to.rows) /* begin_section() has reported it */
		return 0;
	if (l->to.rows != rftpd_options && !option_find(l->to.rows, key) &&
	    option_find(rftpd_options, key))
		return err_set(e, -EINVAL, "\"%s\" belongs before the first section",
			       printable(key));
	return option_set_key(&l->to, key, value, l->r.line, e);
}

/* must: report an error if the file is missing. */
static void load_file(struct load *l, const char *file, bool must)
{
	CLEANUP_FREE char *name = strdup(file); /* a line of the file could change, and free, o's
						 * own string */
	struct err e = ERR_INIT;
	int rc;

	l->r = (struct conf_reader){ .fn = load_line, .arg = l, .bad = load_error };
	l->to = (struct option_target){ rftpd_options, l->o, l->o->from };
	rc = name ? conf_read_with(name, &l->r, &e) : err_nomem(&e);
	if (rc == -ENOENT && !must)
		return;

	if (rc == -ENOENT)
		err_path(&e, rc, file, CANNOT_READ);
	if (rc)
		load_error(l, &e);
	if (!rc && !l->o->config)
		l->o->config = steal_ptr(&name);
}

/* ---- combinations ---- */

static bool only_prints(const struct srv_options *o)
{
	return o->help || o->version || o->hash_password;
}

static int check_logins(const struct srv_options *o, struct err *e)
{
	char where[512];

	if (!o->anonymous && !o->users && !o->pam)
		return err_set(e, -EINVAL, "no account could log in: give --anonymous ro|rw, "
			       "--users FILE or --pam");
	if (o->certificates && !o->users && !o->pam)
		return err_set(e, -EINVAL, "%s names users: give --users FILE or --pam, which "
			       "define them", srv_option_where(o, "certificates", where));
	if (o->ca && !o->certificates)
		return err_set(e, -EINVAL, "%s checks client certificates, but maps none to a "
			       "user: give --certificates FILE", srv_option_where(o, "ca", where));
	if (o->pam && !AUTH_HAS_PAM)
		return err_set(e, -EINVAL, "%s: this build has no PAM",
			       srv_option_where(o, "pam", where));
	if (o->anonymous && !o->root && !o->anonymous_rules.root)
		return err_set(e, -EINVAL, "%s needs --root DIR, the directory to serve",
			       srv_option_where(o, "anonymous", where));
	if (!o->certificate != !o->key)
		return err_set(e, -EINVAL, "%s needs --%s, too: they belong together",
			       srv_option_where(o, o->key ? "key" : "certificate", where),
			       o->key ? "certificate" : "key");
	return 0;
}

static void check_combinations(struct load *l)
{
	const struct srv_options *o = l->o;
	struct err e = ERR_INIT;
	bool logins = srv_option_given(o, "users") || srv_option_given(o, "anonymous");
	char where[512];

	/* After an error, a setting may only seem to be missing, because its line was wrong. */
	if (only_prints(o) || (l->errors && logins))
		return;
	if (!o->stdio)
		check_logins(o, &e);

	/* Refuse settings of logins together with --stdio: an administrator that sets --users must
	 * learn that --stdio asks for no password. */
	for (const struct option_def *d = rftpd_options; o->stdio && (d->name || d->help); d++)
		if (!e.code && o->from[d - rftpd_options] && (d->where & NOT_STDIO))
			err_set(&e, -EINVAL, "%s: --stdio has no login, no TLS and no port: leave "
				"out the settings for these", srv_option_where(o, d->name, where));
	if (e.code)
		load_error(l, &e);
}

/* ---- the load ---- */

/* Set the missing settings, and the members of tuning that no row of the table sets. */
static void complete_settings(struct load *l)
{
	static const enum page_choice pages[] = { PAGES_AUTO, PAGES_HUGE, PAGES_SMALL };
	struct srv_options *o = l->o;
	struct err e = ERR_INIT;

	if (!o->nlisten) {
		o->listen[0] = (struct listen_addr){ "0.0.0.0", RFTP_PORT, false };
		o->listen[1] = (struct listen_addr){ "::", RFTP_PORT, true };
		o->nlisten = 2;
	}

	if (!o->user)
		o->user = strdup("rftpd");
	if (!o->files_user)
		o->files_user = strdup("ftp");
	if (!o->user || !o->files_user) {
		err_nomem(&e);
		load_error(l, &e);
	}

	place_wish_parse(&o->tuning.place, o->numa ? o->numa : "auto", NULL);
	o->tuning.place.cores = o->pin;
	o->tuning.pages = pages[o->hugepages];
	o->tuning.stall_ms = (uint32_t)(o->stall / 1000000);
	o->tuning.nic_rules = (struct nic_rules){ o->nics, o->nnics };
}

int srv_options_load(struct srv_options *o, int argc, char **argv, struct err *e)
{
	static const struct option_syntax syntax = {
		.rows = rftpd_options, .help = "rftpd --help",
	};
	const struct option_target t = { rftpd_options, o, o->from };
	struct load l = { .o = o };
	struct err wrong = ERR_INIT, why = ERR_INIT;
	struct option_args a;
	int parsed = option_parse(&a, &syntax, argc, argv, &wrong);

	set_defaults(o);

	/* EARLY options come first: they decide which file is read. Their errors are reported
	 * later, after those of the file. */
	for (int i = 0; i < a.nsettings; i++)
		if (a.settings[i].def->where & EARLY)
			option_set(&t, a.settings[i].def, a.settings[i].value, OPTION_ARGV, NULL);

	if (o->config)
		load_file(&l, o->config, true);
	else if (!geteuid() && !o->stdio && !only_prints(o))
		load_file(&l, SYSCONFDIR "/rftpd.conf", false);

	/* Set all options of the command line, up to the first wrong one. */
	if (option_args_set(&a, &t, &why)) {
		load_error(&l, &why);
	} else if (parsed) {
		load_error(&l, &wrong);
	} else if (a.nwords) {
		err_set(&why, -EINVAL, "\"%s\" is not an option: rftpd takes nothing else",
			printable(a.words[0]));
		load_error(&l, &why);
	}

	option_args_clear(&a);
	check_combinations(&l);
	complete_settings(&l);
	if (!l.errors)
		return 0;
	srv_options_clear(o);
	*e = l.last;
	return e->code;
}

/* ---- --show-config ---- */

static void show_section(FILE *out, const char *kind, const char *name,
			 const struct option_def *rows, const void *base)
{
	fprintf(out, "\n[%s%s%s]\n", kind, name ? " " : "", name ? name : "");
	for (; rows->name; rows++)
		option_show(out, base, rows, NULL);
}

void srv_options_show(FILE *out, const struct srv_options *o)
{
	for (const struct option_def *d = rftpd_options; d->name || d->help; d++)
		if (d->where & OPTION_IN_FILE)
			option_show(out, o, d, NULL);
	show_section(out, "anonymous", NULL, srv_anonymous_rows, &o->anonymous_rules);
	for (size_t i = 0; i < o->nuser_rules; i++)
		show_section(out, "user", o->user_rules[i].name, srv_user_rows,
			     &o->user_rules[i]);
	for (size_t i = 0; i < o->ngroup_rules; i++)
		show_section(out, "group", o->group_rules[i].name, srv_user_rows,
			     &o->group_rules[i]);
	for (size_t i = 0; i < o->nnics; i++)
		show_section(out, "nic", o->nics[i].name, srv_nic_rows, &o->nics[i]);
}

/* ---- --check-config ---- */

static bool log_bad(const struct srv_options *o, const char *name, const char *text)
{
	char where[512];

	log_error("%s: %s", srv_option_where(o, name, where), text);
	return false;
}

static bool check_sections(const struct srv_options *o, const char *kind,
			   const struct srv_rules *r, size_t n)
{
	bool good = true;

	for (size_t i = 0; i < n; i++) {
		const char *why = NULL;

		if (r[i].root && srv_check_root("", r[i].root, NULL) < 0)
			why = "its root: Not a directory";
		else if (r[i].system_user && !getpwnam(r[i].system_user))
			why = "its system user is missing";
		else if (r[i].system_user && !strcmp(r[i].system_user, o->user))
			why = "its system user must not be that of --user";
		else if (!strcmp(kind, "group") && !getgrnam(r[i].name))
			why = "this group is missing";
		if (!why)
			continue;
		log_error("%s: [%s%s%s]: %s", printable(o->config), kind, r[i].name ? " " : "",
			  r[i].name ? printable(r[i].name) : "", why);
		good = false;
	}
	return good;
}

static void log_weak(const struct srv_options *o, const char *name, const char *text)
{
	char where[512];

	log_warn("%s: %s", srv_option_where(o, name, where), text);
}

/* Warn of settings that are allowed, but not safe. */
static void log_weak_settings(const struct srv_options *o)
{
	struct stat st;

	if (o->config && !stat(o->config, &st) && (st.st_mode & 022))
		log_warn("%s: others can write it (mode %04o): chmod go-w", printable(o->config),
			 st.st_mode & 07777u);
	if (o->stdio)
		return;
	if (o->users && !stat(o->users, &st) && (st.st_mode & 044))
		log_weak(o, "users", "others can read the passwords' hashes: chmod go-r");
	if (o->anonymous > RIGHTS_RO && o->anonymous != RIGHTS_UPLOAD)
		log_weak(o, "anonymous", "any client that reaches the port can fill the disk, and "
			 "other clients can get its files");
	if (o->allow_root)
		log_weak(o, "allow-root", "root's password, once known to an attacker, gives the "
			 "whole machine");
	if (o->one_process && !geteuid())
		log_weak(o, "one-process", "bytes of unauthenticated clients are read with all of "
			 "root's rights");
	if (o->third_party == THIRD_PARTY_ALL && o->anonymous)
		log_weak(o, "third-party", "anonymous clients can make this server connect to any "
			 "host");
	if (o->plain)
		log_weak(o, "plain", "passwords and names may cross the network in clear");
	if (o->prot_min == PROT_CLEAR)
		log_weak(o, "prot-min", "clients may have data in clear; \"safe\" or \"private\" "
			 "forbids it");
	if (o->tls_min == TLS_LEAST_1_2)
		log_weak(o, "tls-min", "TLS 1.2 is old: allow it only for clients that lack 1.3");
}

bool srv_options_check(const struct srv_options *o)
{
	struct err e = ERR_INIT;
	bool good = true;

	if (o->root && srv_check_root("", o->root, &e) < 0)
		good = log_bad(o, "root", e.text);

	if (o->users && users_verify(o->users, NULL, NULL, &e) < 0)
		good = log_bad(o, "users", e.text);

	good = check_sections(o, "user", o->user_rules, o->nuser_rules) && good;
	good = check_sections(o, "group", o->group_rules, o->ngroup_rules) && good;
	good = check_sections(o, "anonymous", &o->anonymous_rules, 1) && good;
	if (!o->stdio && state_check(o, &e) < 0)
		good = log_bad(o, o->certificate ? "certificate" : "state", e.text);
	if (o->metrics_file) {
		CLEANUP_FREE char *file = strdup(o->metrics_file);

		if (file && access(dirname(file), W_OK) < 0)
			good = log_bad(o, "metrics-file", strerror(errno));
	}
	log_weak_settings(o);
	if (good && !o->stdio)
		srv_warn_roots(o);
	return good;
}

/* ---- an account's and a peer's settings ---- */

static void add_rules(struct srv_rules *out, const struct srv_rules *from)
{
	out->root = out->root ? out->root : from->root;
	out->home = out->home ? out->home : from->home;
	out->system_user = out->system_user ? out->system_user : from->system_user;
	out->rights = out->rights ? out->rights : from->rights;
	out->umask = out->umask ? out->umask : from->umask;
}

void srv_account_rules(const struct srv_options *o, const char *name, const char *const *groups,
		       size_t ngroups, struct srv_rules *out)
{
	*out = (struct srv_rules){ 0 };
	for (size_t i = 0; i < o->nuser_rules; i++)
		if (!strcmp(o->user_rules[i].name, name))
			add_rules(out, &o->user_rules[i]);
	/* The first [group] section in the file wins, whatever the order of the account's
	 * groups. */
	for (size_t i = 0; i < o->ngroup_rules; i++)
		for (size_t k = 0; k < ngroups; k++)
			if (!strcmp(o->group_rules[i].name, groups[k])) {
				add_rules(out, &o->group_rules[i]);
				return;
			}
}
