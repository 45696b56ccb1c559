// SPDX-License-Identifier: Apache-2.0
/* Loads rftpd's settings: defaults, the file, the command line, and what only makes sense
 * together. */
#include "server/options.h"
#include "server/auth_pam.h"
#include "server/option_table.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECOND_NS 1000000000ull

static void set_defaults(struct srv_options *o)
{
	*o = (struct srv_options){
		.max_sessions = 256, .max_per_host = 64,
		.login_timeout = 60 * SECOND_NS, .idle_timeout = 15 * 60 * SECOND_NS,
		.umask = 022, .balance_percent = 60, .balance_ns = 5 * SECOND_NS, .stall = 30 * SECOND_NS, .tos = -1,
		.log_level = LOG_LV_INFO,
	};
}

/* ---- freeing ---- */

static void clear_fields(void *base, const struct option_def *d)
{
	for (; d->name; d++)
		if (d->type->clear)
			d->type->clear((char *)base + d->at);
}

static void clear_rules(struct srv_rules *r, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		clear_fields(&r[i], srv_user_table);
		free(r[i].name);
	}
}

void srv_options_clear(struct srv_options *o)
{
	clear_fields(o, srv_table);
	clear_rules(o->user_rules, o->nuser_rules);
	clear_rules(o->group_rules, o->ngroup_rules);
	clear_rules(&o->anonymous_rules, 1);
	for (size_t i = 0; i < o->nnics; i++) {
		clear_fields(&o->nics[i], srv_nic_table);
		free(o->nics[i].name);
	}
	free(o->user_rules);
	free(o->group_rules);
	free(o->nics);
	memset(o, 0, sizeof(*o));
}

/* ---- errors and settings ---- */

void load_error(struct load *l, const struct err *e)
{
	if (l->errors++)
		log_error("%s", l->last.text);
	l->last = *e;
}

int load_take(struct load *l, const struct option_def *d, const char *value, unsigned line,
	      struct err *e)
{
	size_t row = (size_t)(d - srv_table);

	/* The command line's list is instead of the file's. */
	if ((d->where & IS_LIST) && !line && l->o->line[row]) {
		d->type->clear((char *)l->o + d->at);
		l->o->line[row] = 0;
	}
	l->o->given[row] = true;
	l->o->line[row] = line;
	return option_take(l->o, d, value, line != 0, e);
}

bool srv_option_given(const struct srv_options *o, const char *name)
{
	return o->given[option_named(srv_table, name) - srv_table];
}

const char *srv_option_where(const struct srv_options *o, const char *name, char out[512])
{
	unsigned line = o->line[option_named(srv_table, name) - srv_table];

	if (line)
		snprintf(out, 512, "%s:%u: %s", printable(o->config), line, name);
	else
		snprintf(out, 512, "--%s", name);
	return out;
}

/* ---- the command line ---- */

/* getopt's own tables; values are the rows' numbers behind LONG. */
enum { LONG = 256 };

struct getting {
	struct option longs[OPTIONS_MAX];
	char shorts[2 * OPTIONS_MAX + 2];
};

/* A flag of the file can be taken back: --plain=no. */
static int has_argument(const struct option_def *d)
{
	if (d->arg)
		return required_argument;
	return d->type == &type_flag && (d->where & IN_FILE) ? optional_argument : no_argument;
}

static void make_getopt(struct getting *g)
{
	char *s = g->shorts;
	size_t n = srv_table_rows();

	*s++ = ':'; /* tell a missing argument from an unknown option */
	for (size_t i = 0; i < n; i++) {
		const struct option_def *d = &srv_table[i];

		g->longs[i] = (struct option){ .name = d->name, .has_arg = has_argument(d),
					       .val = LONG + (int)i };
		if (d->letter)
			*s++ = d->letter;
		if (d->letter && d->arg)
			*s++ = ':';
	}
	g->longs[n] = (struct option){ 0 };
	*s = '\0';
}

static const struct option_def *find_option(int c)
{
	if (c >= LONG)
		return &srv_table[c - LONG];
	for (const struct option_def *d = srv_table; d->name; d++)
		if (d->letter == c)
			return d;
	return NULL;
}

static int take_option(struct load *l, int c, char **argv, struct err *e)
{
	const struct option_def *d = find_option(c);
	char letter[3] = { '-', (char)optopt, '\0' };
	int rc;

	if (c == ':')
		return err_set(e, -EINVAL, "%s needs an argument", printable(argv[optind - 1]));
	if (!d)
		return err_set(e, -EINVAL, "%s is not an option, or takes no argument",
			       printable(optopt && optopt < LONG ? letter : argv[optind - 1]));
	rc = load_take(l, d, optarg, 0, e);
	if (rc < 0)
		err_prefix(e, "--%s", d->name);
	return rc;
}

/* early: only what says which file there is, and nothing that is wrong. */
static void read_line(struct load *l, int argc, char **argv, bool early)
{
	const struct option_def *d;
	struct err e = ERR_INIT;
	struct getting g;
	int c, rc = 0;

	make_getopt(&g);
	optind = 0; /* glibc: begin anew */
	opterr = 0;
	while (!rc && (c = getopt_long(argc, argv, g.shorts, g.longs, NULL)) != -1) {
		d = find_option(c);
		if (!early)
			rc = take_option(l, c, argv, &e);
		else if (d && (d->where & EARLY))
			load_take(l, d, optarg, 0, NULL);
	}
	if (!early && !rc && optind < argc)
		rc = err_set(&e, -EINVAL, "\"%s\" is not an option", printable(argv[optind]));
	if (rc)
		load_error(l, &e);
}

/* ---- what only makes sense together ---- */

static void default_listeners(struct srv_options *o)
{
	if (o->nlisten)
		return;
	o->listen[0] = (struct listen_addr){ "0.0.0.0", RFTP_PORT, false };
	o->listen[1] = (struct listen_addr){ "::", RFTP_PORT, true };
	o->nlisten = 2;
}

static bool only_tells(const struct srv_options *o)
{
	return o->help || o->version || o->hash_password;
}

/* Who trusts in --users there must learn that nobody is asked for a password. */
static int check_stdio(const struct srv_options *o, struct err *e)
{
	char where[512];

	for (const struct option_def *d = srv_table; d->name; d++)
		if (o->given[d - srv_table] && (d->where & NOT_STDIO))
			return err_set(e, -EINVAL, "%s: --stdio has no login, no TLS and no port: "
				       "leave what is about these away",
				       srv_option_where(o, d->name, where));
	return 0;
}

static int check_login(const struct srv_options *o, struct err *e)
{
	char where[512];

	if (!o->anonymous && !o->users && !o->pam)
		return err_set(e, -EINVAL, "nobody could log in: give --anonymous ro|rw, --users "
			       "FILE or --pam");
	if (o->certificates && !o->users && !o->pam)
		return err_set(e, -EINVAL, "%s names users: give --users FILE or --pam, who they "
			       "are", srv_option_where(o, "certificates", where));
	if (o->ca && !o->certificates)
		return err_set(e, -EINVAL, "%s says who a client is, but not whom he may be here: "
			       "give --certificates FILE", srv_option_where(o, "ca", where));
	if (o->pam && !auth_pam_available())
		return err_set(e, -EINVAL, "%s: this build has no PAM",
			       srv_option_where(o, "pam", where));
	if (o->anonymous && !o->root && !o->anonymous_rules.root)
		return err_set(e, -EINVAL, "%s needs --root DIR: what may be seen",
			       srv_option_where(o, "anonymous", where));
	if (!o->certificate != !o->key)
		return err_set(e, -EINVAL, "%s needs --%s, too: they belong together",
			       srv_option_where(o, o->key ? "key" : "certificate", where),
			       o->key ? "certificate" : "key");
	return 0;
}

static void check_together(struct load *l)
{
	const struct srv_options *o = l->o;
	struct err e = ERR_INIT;
	/* A line that is wrong may have been the one that is missed. */
	bool unclear = l->errors && (srv_option_given(o, "users") || srv_option_given(o, "anonymous"));

	if (only_tells(o) || unclear)
		return;
	if (o->stdio ? check_stdio(o, &e) : check_login(o, &e))
		load_error(l, &e);
}

static void default_users(struct load *l)
{
	struct srv_options *o = l->o;
	struct err e = ERR_INIT;

	if (!o->user)
		o->user = strdup("rftpd");
	if (!o->files_user)
		o->files_user = strdup("ftp");
	if (!o->user || !o->files_user) {
		err_sys(&e, -ENOMEM, "options");
		load_error(l, &e);
	}
}

/* Its strings are o's, whose own do not move. */
static void fill_place(struct srv_options *o)
{
	o->place = (struct place_wish){ .nics = o->nic_node, .cores = o->pin };
	place_wish_parse(&o->place, o->numa ? o->numa : "auto", NULL);
}

static void load_all(struct load *l, int argc, char **argv)
{
	struct srv_options *o = l->o;

	read_line(l, argc, argv, true);
	if (o->config)
		load_file(l, o->config, true);
	else if (!geteuid() && !o->stdio && !only_tells(o))
		load_file(l, SYSCONFDIR "/rftpd.conf", false);
	read_line(l, argc, argv, false);
	check_together(l);
	default_listeners(o);
	default_users(l);
	fill_place(o);
}

int srv_options_load(struct srv_options *o, int argc, char **argv, struct err *e)
{
	struct load l = { .o = o };

	set_defaults(o);
	load_all(&l, argc, argv);
	if (!l.errors)
		return 0;
	srv_options_clear(o);
	*e = l.last;
	return e->code;
}

/* ---- help ---- */

void srv_options_help(FILE *out)
{
	fprintf(out, "Usage: rftpd [OPTION]...\n"
		     "Serve files to rftp and to FTP clients.\n\n");
	for (const struct option_def *d = srv_table; d->name; d++) {
		char left[64], letter[5] = "    ";

		if (d->letter)
			snprintf(letter, sizeof(letter), "-%c, ", d->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, d->name, d->arg ? " " : "",
			 d->arg ? d->arg : "");
		if (strlen(left) > 28)
			fprintf(out, "  %s\n  %-28s  %s\n", left, "", d->help);
		else
			fprintf(out, "  %-28s  %s\n", left, d->help);
	}
	fprintf(out, "\nWhat rftpd.conf(5) has, too, is the same there, without the dashes.\n"
		     "\nExit status: 0 all is well; 1 with --stdio: not served; 2 usage; 3 it "
		     "cannot listen,\nor cannot use its state.\n");
}
