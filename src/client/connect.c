// SPDX-License-Identifier: Apache-2.0
/* From a place to a session: is it the right server, and who are we there? */
#include "client/server.h"

#include "client/conf.h"
#include "client/known_hosts.h"
#include "client/passwords.h"
#include "client/signals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum { PASSWORD_ATTEMPTS = 3 };

/* ---- is it the right server? ---- */

static char *known_hosts_file(const struct options *o, struct err *e)
{
	char *file = o->known_hosts ? strdup(o->known_hosts) : own_file("known_hosts");

	if (!file)
		err_set(e, -ENOENT, "there is no home directory for known_hosts: use "
			"--known-hosts FILE");
	return file;
}

/* Several lines, because this one must not be missed. */
static void refuse_changed(const char *name, const char *file, const char *pin,
			   const struct known_answer *a, struct err *e)
{
	log_error("THE KEY OF %s HAS CHANGED", name);
	log_error("either the server was given a new key, or somebody else is listening");
	log_error("known: %s (%s line %u)", a->pin, printable(file), a->line);
	log_error("now:   %s", pin);
	log_error("ask its administrator; if the new key is right, remove the old line: "
		  "sed -i %ud %s", a->line, printable(file));
	err_set(e, -EKEYREJECTED, "%s: its key is not the one in line %u of %s", name, a->line,
		printable(file));
}

static enum pin_answer add_pin(const char *file, const char *host, uint16_t port,
			       const char *pin, const char *name, struct err *e)
{
	struct err why = ERR_INIT;
	int r = known_hosts_add(file, host, port, pin, &why);

	/* It was trusted; that it cannot be remembered is a nuisance, not a danger. */
	if (r == -ENODEV) /* as the user wished */
		log_info("%s has the key %s", name, pin);
	else if (r)
		log_warn("the key of %s is not remembered: %s", name, why.text);
	else
		log_warn("%s is known from now on, by its key %s", name, pin);
	return PIN_OK;
}

static bool trusts_new(const struct options *o, const char *name, const char *pin)
{
	char question[512];

	if (o->accept_new)
		return true;
	snprintf(question, sizeof(question), "%s is not known yet. Its key is\n  %s\n"
		 "Is that the key its administrator told you (yes, no)? ", name, pin);
	return ask_yes(question);
}

static enum pin_answer judge_pin(const struct options *o, const char *file, const char *host,
				 uint16_t port, const char *pin, struct err *e)
{
	CLEANUP_FREE char *name = known_hosts_name(host, port);
	char line[ERR_TEXT] = "";
	struct known_answer a;
	struct stat st;

	if (!name || known_hosts_check(file, host, port, pin, &a, e))
		return PIN_REFUSED;
	if (a.what == HOST_SAME)
		return PIN_OK;
	if (a.what == HOST_CHANGED) {
		refuse_changed(name, file, pin, &a, e);
		return PIN_REFUSED;
	}
	if (trusts_new(o, name, pin))
		return add_pin(file, host, port, pin, name, e);
	if (stat(file, &st) || S_ISREG(st.st_mode))
		snprintf(line, sizeof(line), " or add the line \"%s %s\" to %s", name, pin,
			 printable(file));
	err_set(e, -EKEYREJECTED, "%s is not known, its key is %s: to trust it, use --accept-new%s",
		name, pin, line);
	return PIN_REFUSED;
}

static enum pin_answer check_pin(void *arg, const char *host, uint16_t port, const char *pin,
				 struct err *e)
{
	const struct server *s = arg;
	CLEANUP_FREE char *file = known_hosts_file(&s->o, e);

	return file ? judge_pin(&s->o, file, host, port, pin, e) : PIN_REFUSED;
}

/* ---- who are we there? ---- */

/* What the netrc says; a default one that cannot be used is only worth a warning. 1, 0, or
 * a negative errno. */
static int look_up(const struct server *s, const char *user, struct login *l, struct err *e)
{
	CLEANUP_FREE char *own = s->o.netrc ? NULL : netrc_default();
	const char *file = s->o.netrc ? s->o.netrc : own;
	struct netrc_server server = { s->place.host, place_port(&s->place),
				       place_port(&s->place) == place_default_port(s->place.kind), user };
	struct err why = ERR_INIT;
	int rc;

	memset(l, 0, sizeof(*l));
	if (!file)
		return 0;
	rc = netrc_find(file, &server, l, &why);
	if (rc == -ENOENT && s->o.netrc)
		return err_sys(e, rc, "cannot read %s", printable(file));
	if (rc >= 0 || rc == -ENOENT)
		return rc > 0;
	if (s->o.netrc)
		return err_set(e, rc, "%s", why.text);
	log_warn("%s", why.text);
	return 0;
}

/* Before connecting: a URL without a user takes the one of the netrc; with neither the
 * login is anonymous. */
static int choose_user(struct server *s, struct err *e)
{
	struct login l;
	int rc;

	if (s->place.kind == PLACE_SSH || s->login || s->password)
		return 0;
	rc = look_up(s, s->place.user, &l, e);
	if (rc > 0) {
		if (!s->place.user)
			s->login = steal_ptr(&l.user);
		s->password = steal_ptr(&l.password);
		s->by_netrc = s->password;
	}
	login_clear(&l);
	return rc < 0 ? rc : 0;
}

static void forget_password(struct server *s)
{
	if (s->password)
		explicit_bzero(s->password, strlen(s->password));
	free(s->password);
	s->password = NULL;
}

static char *give_password(void *arg, const char *user, const char *host, int attempt)
{
	struct server *s = arg;

	if (attempt >= PASSWORD_ATTEMPTS)
		return NULL;
	if (attempt > 0)
		forget_password(s); /* it was wrong */
	if (!s->password)
		s->password = ask_password(user, host);
	return s->password ? strdup(s->password) : NULL;
}

/* ---- the connection ---- */

static int copy_place(struct place *to, const struct place *p)
{
	*to = *p;
	to->path = NULL;
	to->user = p->user ? strdup(p->user) : NULL;
	to->host = p->host ? strdup(p->host) : NULL;
	to->path = strdup("");
	return (p->user && !to->user) || (p->host && !to->host) || !to->path ? -ENOMEM : 0;
}

struct server *server_new(const struct job *j, const struct place *p, struct err *e)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s || copy_place(&s->place, p)) {
		err_sys(e, -ENOMEM, "server");
	} else if (!args_options(j->args, p->host, &s->o, e)) {
		return s;
	}
	server_free(s);
	return NULL;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	server_close(s);
	forget_password(s);
	free(s->login);
	free(s->pin);
	place_clear(&s->place);
	options_clear(&s->o);
	free(s);
}

bool server_is(const struct server *s, const struct place *p)
{
	return s->place.kind == p->kind && place_port(&s->place) == place_port(p) &&
	       !strcasecmp(s->place.host, p->host) && server_same_text(s->place.user, p->user);
}

/* What may be behind the failure that e tells. */
static void add_hint(const struct server *s, struct err *e)
{
	const struct place *p = &s->place;

	if (e->code == -EACCES && s->by_netrc && !s->o.plain)
		err_set(e, e->code, "%s (with the password in %s)", e->text,
			s->o.netrc ? printable(s->o.netrc) : "~/.netrc");
	else if (p->kind == PLACE_SSH && !strcasecmp(p->host, "rftp"))
		err_set(e, e->code, "%s (%s is a host here, by ssh: was %s:// meant?)", e->text,
			p->host, p->host);
}

static int wish(void *arg)
{
	(void)arg;
	return signals_wish();
}

/* Whatever the reason is, it is one of connecting, not of files. */
static int no_connection(const struct server *s, struct err *e)
{
	add_hint(s, e);
	if (exit_of(e->code, false) == EXIT_SOME_FAILED)
		e->code = -ENOTCONN;
	return e->code;
}

/* as: of the place, with the user that logs in. */
static struct ftp_client_config config_of(struct server *s, struct place *as)
{
	*as = s->place;
	if (!as->user)
		as->user = s->login;
	return (struct ftp_client_config){
		.place = as,
		.rftpd_path = s->o.rftpd_path,
		.ssh_command = s->o.ssh,
		.cafile = s->o.ca,
		.certfile = s->o.cert,
		.keyfile = s->o.key,
		.plain = s->o.plain,
		.plain_password = s->o.plain && s->o.plain_password,
		.netrc = s->o.netrc,
		.data_clear = s->o.prot == PROT_CLEAR,
		.connect_timeout_ms = (int)(s->o.connect_timeout / 1000000),
		.stop = wish,
		.said = &s->said,
	};
}

/* Options that contradict the URL. */
static int check_place(const struct server *s, struct err *e)
{
	if (s->place.kind == PLACE_FTPS && s->o.plain)
		return err_set(e, -EINVAL, "ftps:// is TLS from the first byte on: --plain goes "
			       "with ftp://");
	if (s->o.key && !s->o.cert)
		return err_set(e, -EINVAL, "--key without --cert: which certificate is it the key "
			       "of?");
	if (place_is_foreign(&s->place) && s->o.plain && option_given(&s->o, "prot") &&
	    s->o.prot != PROT_CLEAR)
		return err_set(e, -EINVAL, "with --plain data goes in clear: --prot %s cannot be "
			       "had", prot_name((int)s->o.prot));
	return 0;
}

int server_connect(struct server *s, struct err *e)
{
	struct ftp_client_config c;
	struct place as;
	const char *pin;
	int rc;

	if (s->client)
		return 0;
	rc = check_place(s, e);
	if (rc == 0)
		rc = choose_user(s, e);
	if (rc)
		return no_connection(s, e);
	c = config_of(s, &as);
	c.check_pin = check_pin;
	c.password = give_password;
	c.arg = s;
	s->client = ftp_connect(&c, e);
	if (!s->client)
		return no_connection(s, e);
	pin = ftp_client_pin(s->client);
	free(s->pin);
	s->pin = pin ? strdup(pin) : NULL;
	log_info("connected to %s", ftp_client_describe(s->client));
	return 0;
}

/* ---- further connections ---- */

static enum pin_answer same_pin(void *arg, const char *host, uint16_t port, const char *pin,
				struct err *e)
{
	const struct server *s = arg;

	if (s->pin && !strcmp(s->pin, pin))
		return PIN_OK;
	err_set(e, -EKEYREJECTED, "%s port %u shows another key than before", host, port);
	return PIN_REFUSED;
}

static char *same_password(void *arg, const char *user, const char *host, int attempt)
{
	const struct server *s = arg;

	(void)user;
	(void)host;
	return s->password && attempt == 0 ? strdup(s->password) : NULL;
}

struct ftp_client *server_another(struct server *s, struct err *e)
{
	struct place as;
	struct ftp_client_config c = config_of(s, &as);

	c.check_pin = same_pin;
	c.password = same_password;
	c.arg = s;
	return ftp_connect(&c, e);
}

void server_close(struct server *s)
{
	if (s->client)
		ftp_close(s->client);
	s->client = NULL;
}

const char *server_path(const struct place *p)
{
	return *p->path ? p->path : ".";
}

const char *server_shown(const struct job *j, const struct place *p)
{
	return j->name ? j->name : server_path(p);
}
