// SPDX-License-Identifier: Apache-2.0
/* rftpd --check-config: what the settings need of this machine, and what they leave open. */
#include "proto/proto.h"
#include "server/options.h"
#include "server/state.h"
#include "server/users.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct check {
	const struct srv_options *o;
	void (*bad)(const char *text);
	void (*weak)(const char *text);
};

static void say(void (*fn)(const char *text), const struct srv_options *o, const char *name,
		const char *text)
{
	char where[512], all[ERR_TEXT + 600];

	snprintf(all, sizeof(all), "%s: %s", srv_option_where(o, name, where), text);
	fn(all);
}

/* ---- what has to be there ---- */

static void need_dir(const struct check *c, const char *name, const char *dir, const char *whose)
{
	char text[ERR_TEXT];
	struct stat st;
	int error = stat(dir, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? 0 : ENOTDIR;

	if (!error)
		return;
	snprintf(text, sizeof(text), "%s%s: %s", whose, printable(dir), strerror(error));
	say(c->bad, c->o, name, text);
}

static void check_sections(const struct check *c, const char *kind, const struct srv_rules *r,
			   size_t n)
{
	char text[ERR_TEXT];

	for (size_t i = 0; i < n; i++) {
		struct stat st;
		const char *why = NULL;

		if (r[i].root && (stat(r[i].root, &st) < 0 || !S_ISDIR(st.st_mode)))
			why = "its root is no directory";
		else if (r[i].system_user && !getpwnam(r[i].system_user))
			why = "there is no such system user";
		else if (r[i].system_user && !strcmp(r[i].system_user, c->o->user))
			why = "its system user is that of --user: they must be two";
		else if (!strcmp(kind, "group") && !getgrnam(r[i].name))
			why = "there is no such group";
		if (!why)
			continue;
		snprintf(text, sizeof(text), "%s: [%s%s%s]: %s", printable(c->o->config), kind,
			 r[i].name ? " " : "", r[i].name ? printable(r[i].name) : "", why);
		c->bad(text);
	}
}

static void check_tls(const struct check *c)
{
	struct err e = ERR_INIT;

	if (state_check(c->o, &e) < 0)
		say(c->bad, c->o, c->o->certificate ? "certificate" : "state", e.text);
}

static void check_files(const struct check *c)
{
	const struct srv_options *o = c->o;
	struct err e = ERR_INIT;

	if (o->root)
		need_dir(c, "root", o->root, "");
	if (o->users && users_verify(o->users, &e) < 0)
		say(c->bad, o, "users", e.text);
	check_sections(c, "user", o->user_rules, o->nuser_rules);
	check_sections(c, "group", o->group_rules, o->ngroup_rules);
	check_sections(c, "anonymous", &o->anonymous_rules, 1);
	if (!o->stdio)
		check_tls(c);
}

/* ---- what is weak ---- */

static void check_login(const struct check *c)
{
	const struct srv_options *o = c->o;
	struct stat st;

	if (o->users && !stat(o->users, &st) && (st.st_mode & 044))
		say(c->weak, o, "users", "others can read the passwords' hashes: chmod go-r");
	if (o->anonymous > RIGHTS_RO && o->anonymous != RIGHTS_UPLOAD)
		say(c->weak, o, "anonymous", "whoever reaches the port can fill the disk, and "
		    "have others get what he put there");
	if (o->allow_root)
		say(c->weak, o, "allow-root", "whoever learns root's password has the machine");
	if (o->one_process && !geteuid())
		say(c->weak, o, "one-process", "what strangers send is read with all of root's "
		    "rights");
	if (o->third_party == THIRD_PARTY_ALL && o->anonymous)
		say(c->weak, o, "third-party", "anonymous can have this server connect to hosts of "
		    "his choice");
}

static void check_line(const struct check *c)
{
	const struct srv_options *o = c->o;

	if (o->plain)
		say(c->weak, o, "plain", "passwords and names may be read on the way");
	if (o->prot_min == PROT_CLEAR)
		say(c->weak, o, "prot-min", "clients may have data in clear; \"safe\" or "
		    "\"private\" forbids it");
	if (o->tls_min == TLS_LEAST_1_2)
		say(c->weak, o, "tls-min", "TLS 1.2 is old: for clients that know nothing else");
}

static void check_file_itself(const struct check *c)
{
	char text[ERR_TEXT];
	struct stat st;

	if (!c->o->config || stat(c->o->config, &st) < 0 || !(st.st_mode & 022))
		return;
	snprintf(text, sizeof(text), "%s: others can write it (mode %04o): chmod go-w",
		 printable(c->o->config), st.st_mode & 07777u);
	c->weak(text);
}

void srv_options_check(const struct srv_options *o, void (*bad)(const char *text),
		       void (*weak)(const char *text))
{
	struct check c = { .o = o, .bad = bad, .weak = weak };

	check_files(&c);
	check_file_itself(&c);
	if (o->stdio)
		return;
	check_login(&c);
	check_line(&c);
}
