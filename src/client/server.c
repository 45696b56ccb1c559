// SPDX-License-Identifier: Apache-2.0
/* Connections to servers: the check of the server's key, the login, and commands. */
#include "client/engine.h"

#include "client/credentials.h"
#include "client/foreign/foreign.h"

#include <strings.h>
#include <sys/stat.h>

enum { LINKS_MOST = 40 /* as the kernel */ };
enum { PASSWORD_ATTEMPTS = 3 };

/* ns. A connection that was used less than this ago, and on which no data has arrived since, is
 * used again without a check. */
#define FRESH_NS 200000000ull

/* ---- errors ---- */

static bool code_is_in(int code, const int *codes)
{
	while (*codes && *codes != code)
		codes++;
	return *codes;
}

bool error_is_lost(int code)
{
	static const int codes[] = { -EPIPE, -ECONNRESET, -ECONNABORTED, -ETIMEDOUT, 0 };

	return code_is_in(code, codes);
}

bool error_is_damaged(int code)
{
	return code == -EPROTO || code == -EBADMSG;
}

bool error_is_connection(int code)
{
	static const int codes[] = {
		-ENOTCONN, -ECONNREFUSED, -EHOSTUNREACH, -ENETUNREACH, -ENETDOWN,
		-EPROTONOSUPPORT, -EKEYREJECTED, -EKEYEXPIRED,
		-EAGAIN, /* the server is busy */
		-ENODEV, /* no RDMA device reaches it */
		0,
	};

	return error_is_lost(code) || error_is_damaged(code) || code_is_in(code, codes);
}

/* ---- the server's key ---- */

static enum pin_answer server_check_pin(void *arg, const char *host, uint16_t port,
					const char *pin, struct err *e)
{
	const struct server *s = arg;
	const struct engine_env *env = s->env;
	const struct options *o = &s->o;
	CLEANUP_FREE char *file = o->known_hosts ? strdup(o->known_hosts) :
				  own_file(OWN_CONFIG, "known_hosts");
	CLEANUP_FREE char *name = known_hosts_name(host, port);
	char line[ERR_TEXT] = "";
	struct err why = ERR_INIT;
	struct known_answer a;
	struct stat st;
	int rc;

	if (!file)
		err_set(e, -ENOENT, "there is no home directory for known_hosts: use "
			"--known-hosts FILE");
	if (!file || !name || known_hosts_check(file, host, port, pin, &a, e))
		return PIN_REFUSED;

	if (a.kind == HOST_SAME)
		return PIN_OK;
	if (a.kind == HOST_CHANGED) {
		/* Print several lines, so that the user notices. */
		log_error("THE KEY OF %s HAS CHANGED", name);
		log_error("either the server was given a new key, or the connection is being "
			  "intercepted");
		log_error("known: %s (%s line %u)", a.pin, printable(file), a.line);
		log_error("now:   %s", pin);
		log_error("ask its administrator; if the new key is right, remove the old line: "
			  "sed -i %ud %s", a.line, printable(file));
		err_set(e, -EKEYREJECTED, "%s: its key is not the one in line %u of %s", name,
			a.line, printable(file));
		return PIN_REFUSED;
	}

	if (o->accept_new || (env->trusts && env->trusts(env->arg, name, pin))) {
		rc = known_hosts_add(file, host, port, pin, &why);
		/* If a trusted key cannot be saved, only warn. */
		if (rc == -ENODEV) /* the user has named a device, such as /dev/null, to save no
				    * keys */
			log_info("%s has the key %s", name, pin);
		else if (rc && env->silent)
			return err_set(e, -EKEYREJECTED, "the key of %s cannot be remembered: %s",
				       name, why.text), PIN_REFUSED;
		else if (rc)
			log_warn("the key of %s is not remembered: %s", name, why.text);
		else
			log_warn("%s is known from now on, by its key %s", name, pin);
		return PIN_OK;
	}

	if (stat(file, &st) || S_ISREG(st.st_mode))
		snprintf(line, sizeof(line), " or add the line \"%s %s\" to %s", name, pin,
			 printable(file));
	err_set(e, -EKEYREJECTED, "%s is not known, its key is %s: to trust it, use --accept-new%s",
		name, pin, line);
	return PIN_REFUSED;
}

/* ---- the login ---- */

/* Before connecting: find the user and the password in the netrc. If only the default file cannot
 * be used, warn. If neither the URL nor the netrc has a user, the login is anonymous. */
static int server_choose_user(struct server *s, struct err *e)
{
	CLEANUP_FREE char *own = s->o.netrc ? NULL : netrc_default();
	const char *file = s->o.netrc ? s->o.netrc : own;
	uint16_t port = url_port(&s->url);
	const struct netrc_server server = { s->url.host, port,
					     port == url_default_port(s->url.kind),
					     s->url.user };
	struct err why = ERR_INIT;
	struct login l;
	int rc;

	if (!file || s->url.kind == URL_SSH || s->login || s->password)
		return 0;

	rc = netrc_find(file, &server, &l, &why);
	if (rc == -ENOENT && s->o.netrc)
		return err_path(e, rc, file, CANNOT_READ);
	if (rc < 0 && rc != -ENOENT) {
		if (s->o.netrc)
			return err_set(e, rc, "%s", why.text);
		log_warn("%s", why.text);
	}
	if (rc > 0) {
		if (!s->url.user)
			s->login = steal_ptr(&l.user);
		s->password = steal_ptr(&l.password);
		s->by_netrc = s->password;
		login_clear(&l);
	}
	return 0;
}

static void server_forget_password(struct server *s)
{
	if (s->password)
		explicit_bzero(s->password, strlen(s->password));
	free(s->password);
	s->password = NULL;
}

static char *server_password(void *arg, const char *user, const char *host, int attempt)
{
	struct server *s = arg;

	if (attempt >= PASSWORD_ATTEMPTS)
		return NULL;
	if (attempt > 0)
		server_forget_password(s); /* it was wrong */
	if (!s->password && s->env->password)
		s->password = s->env->password(s->env->arg, user, host, attempt > 0);
	return s->password ? strdup(s->password) : NULL;
}

/* ---- the connection ---- */

struct server *server_make(const struct engine_env *env, const struct url *p)
{
	size_t digits = p->kind == URL_SSH ? strspn(p->path, "0123456789") : 0;
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->env = env;
	s->url = *p;
	s->url.user = p->user ? strdup(p->user) : NULL;
	s->url.host = p->host ? strdup(p->host) : NULL;
	s->url.path = strdup("");
	s->port_path = digits > 0 && (!p->path[digits] || p->path[digits] == '/');
	if (!(p->user && !s->url.user) && !(p->host && !s->url.host) && s->url.path)
		return s;
	server_free(s);
	return NULL;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	server_close(s);
	server_forget_password(s);
	free(s->login);
	free(s->pin);
	url_clear(&s->url);
	options_clear(&s->o);
	free(s);
}

bool server_is(const struct server *s, const struct url *p)
{
	return url_same_server(&s->url, p);
}

/* Add a likely cause to e, and replace codes that mean errors of files. Returns the code. */
static int server_connect_failed(struct server *s, struct err *e)
{
	const struct url *p = &s->url;

	s->refused = e->code;
	if (e->code == -EACCES && s->by_netrc && !s->o.plain)
		err_set(e, e->code, "%s (with the password in %s)", e->text,
			s->o.netrc ? printable(s->o.netrc) : "~/.netrc");
	else if (p->kind == URL_SSH && !strcasecmp(p->host, "rftp"))
		err_set(e, e->code, "%s (did you mean %s://? %s is a host here, by ssh)", e->text,
			p->host, p->host);
	else if (s->port_path)
		err_set(e, e->code, "%s (did you mean rftp://%s:PORT/? Without rftp:// the digits "
			"are a path, by ssh)", e->text, p->host);

	if (e->code != -EINTR && e->code != -ECANCELED && !error_is_connection(e->code))
		e->code = -ENOTCONN;
	return e->code;
}

static enum pin_answer server_same_pin(void *arg, const char *host, uint16_t port,
				       const char *pin, struct err *e)
{
	const struct server *s = arg;

	if (s->pin && !strcmp(s->pin, pin))
		return PIN_OK;
	err_set(e, -EKEYREJECTED, "%s port %u shows another key than before", host, port);
	return PIN_REFUSED;
}

static char *server_same_password(void *arg, const char *user, const char *host, int attempt)
{
	const struct server *s = arg;

	(void)user;
	(void)host;
	return s->password && attempt == 0 ? strdup(s->password) : NULL;
}

static int server_stop_fd(void *arg)
{
	const struct server *s = arg;

	return s->env->stop_fd(s->env->arg);
}

/* The settings to connect to s. again: it was connected before. *as: becomes the URL with the
 * user of the login; must outlive the result. */
static struct ftp_client_config server_config(struct server *s, bool again, struct url *as)
{
	*as = s->url;
	if (!as->user)
		as->user = s->login;
	return (struct ftp_client_config){
		.url = as,
		.rftpd_path = s->o.rftpd_path,
		.ssh_command = s->o.ssh,
		.cafile = s->o.ca,
		.certfile = s->o.cert,
		.keyfile = s->o.key,
		.plain = s->o.plain,
		.plain_password = s->o.plain && s->o.plain_password,
		.netrc = s->o.netrc,
		.data_clear = s->o.prot == PROT_CLEAR,
		.has_password = s->password,
		.never_asks = !s->env->password,
		.connect_timeout_ms = (int)(s->o.connect_timeout / 1000000),
		.turn = s->turn,
		.check_pin = again ? server_same_pin : server_check_pin,
		.password = again ? server_same_password : server_password,
		.stop = server_stop_fd,
		.said = &s->said,
		.arg = s,
	};
}

int server_connect(struct server *s, struct err *e)
{
	const struct options *o = &s->o;
	struct ftp_client_config c;
	struct url as;
	const char *pin;
	int rc = 0;

	if (server_connected(s))
		return 0;

	if (url_is_foreign(&s->url) && !s->env->foreign)
		rc = err_set(e, -EPROTONOSUPPORT, "%s: only rftpd is reached from here: rftp:// or "
			     "host:path", printable(s->url.host));
	else if (s->url.kind == URL_FTPS && o->plain)
		rc = err_set(e, -EINVAL, "ftps:// always uses TLS: --plain needs ftp://");
	else if (o->key && !o->cert)
		rc = err_set(e, -EINVAL, "--key needs --cert, the certificate of this key");
	else if (url_is_foreign(&s->url) && o->plain && option_given(o, "prot") &&
		 o->prot != PROT_CLEAR)
		rc = err_set(e, -EINVAL, "--plain sends data in clear: it excludes --prot %s",
			     prot_name((int)o->prot));
	if (rc == 0)
		rc = server_choose_user(s, e);
	if (rc)
		return server_connect_failed(s, e);

	c = server_config(s, false, &as);
	if (url_is_foreign(&s->url))
		s->foreign = s->env->foreign->open(&c, e);
	else
		s->client = ftp_connect(&c, e);
	if (!server_connected(s))
		return server_connect_failed(s, e);

	pin = s->foreign ? s->foreign->hook.pin : s->client->pin;
	free(s->pin);
	s->pin = pin ? strdup(pin) : NULL;
	log_info("connected to %s%s%s%s", s->foreign ? s->foreign->describe : s->client->describe,
		 s->login ? ", as " : "", s->login ? printable(s->login) : "",
		 s->login ? " by the netrc" : "");
	return 0;
}

struct ftp_client *server_another(struct server *s, struct err *e)
{
	struct url as;
	struct ftp_client_config c = server_config(s, true, &as);

	return ftp_connect(&c, e);
}

struct fconn *server_another_foreign(struct server *s, struct err *e)
{
	struct url as;
	struct ftp_client_config c = server_config(s, true, &as);

	return s->env->foreign->open(&c, e);
}

void server_close(struct server *s)
{
	ftp_close(s->client);
	if (s->foreign)
		s->env->foreign->close(s->foreign);
	s->client = NULL;
	s->foreign = NULL;
}

bool server_connected(const struct server *s)
{
	return s->client || s->foreign;
}

const char *server_path(const struct url *p)
{
	return *p->path ? p->path : ".";
}

/* ---- commands to a connected server ---- */

int server_simple(struct server *s, enum ftp_verb verb, const char *path, struct err *e)
{
	int rc = s->foreign ? s->env->foreign->simple(s->foreign, verb, path, e) :
		 ftp_simple(s->client, verb, path, NULL, e);

	return rc < 0 ? rc : 0;
}

int server_chmod(struct server *s, const char *mode, const char *path, struct err *e)
{
	CLEANUP_FREE char *arg = NULL;

	if (s->foreign)
		return s->env->foreign->set_mode(s->foreign, path,
						 (uint32_t)strtoul(mode, NULL, 8), e);
	if (asprintf(&arg, "CHMOD %s %s", mode, path) < 0)
		return err_sys(e, -ENOMEM, "%s", printable(path));
	return server_simple(s, FTP_SITE, arg, e);
}

int server_rename(struct server *s, const char *from, const char *to, struct err *e)
{
	int rc = server_simple(s, FTP_RNFR, from, e);

	return rc ? rc : server_simple(s, FTP_RNTO, to, e);
}

int server_stat(struct server *s, const char *path, struct ftp_facts *f, struct err *e)
{
	return s->foreign ? s->env->foreign->stat(s->foreign, path, f, e) :
	       ftp_stat(s->client, path, f, e);
}

/* The path that target names in a link at path; malloc'd. */
static char *link_leads_to(const char *path, const char *target)
{
	const char *slash = *target == '/' ? NULL : strrchr(path, '/');
	char *to;

	if (!slash)
		return strdup(target);
	return asprintf(&to, "%.*s%s", (int)(slash + 1 - path), path, target) < 0 ? NULL : to;
}

int server_stat_target(struct server *s, const char *path, struct ftp_facts *f, struct err *e)
{
	CLEANUP_FREE char *at = NULL;
	int rc = server_stat(s, path, f, e);

	for (int links = 0; !rc && f->type == 'l' && f->target; links++) {
		char *next = link_leads_to(at ? at : path, f->target);

		ftp_facts_clear(f);
		memset(f, 0, sizeof(*f));
		free(at);
		at = next;
		if (!at)
			return err_nomem(e);
		rc = links == LINKS_MOST ? err_sys(e, -ELOOP, "%s", printable(path)) :
		     server_stat(s, at, f, e);
	}
	return rc;
}

int server_list(struct server *s, const char *path, struct facts_list *list, struct err *e)
{
	return s->foreign ? s->env->foreign->list(s->foreign, path, list, e) :
	       ftp_list(s->client, path, list, e);
}

bool server_is_directory(struct server *s, const char *path)
{
	struct ftp_facts f = { 0 };
	struct err ignored = ERR_INIT;
	bool yes = server_stat(s, path, &f, &ignored) == 0 && f.type == 'd';

	ftp_facts_clear(&f);
	return yes;
}

/* Try path first, because usually only path is missing. */
int server_make_dirs(struct server *s, const char *path, struct err *e)
{
	CLEANUP_FREE char *parent = strdup(path);
	char *slash = parent ? strrchr(parent, '/') : NULL;
	int rc;

	if (!parent)
		return err_sys(e, -ENOMEM, "%s", printable(path));

	rc = server_simple(s, FTP_MKD, path, e);
	if (rc == 0 || error_is_lost(rc))
		return rc;
	if (server_is_directory(s, path))
		return 0;

	while (slash && slash > parent && slash[-1] == '/')
		slash--;
	if (slash)
		*slash = '\0';

	/* If the parent exists, it is not the reason of the failure, unless another client has made
	 * it just now. */
	if (!slash || !*parent)
		return rc;
	if (!server_is_directory(s, parent))
		rc = server_make_dirs(s, parent, e);
	else if (rc == -ENOENT)
		rc = 0;
	if (!rc)
		rc = server_simple(s, FTP_MKD, path, e);
	/* Another client may have made path, too. */
	return rc && !error_is_lost(rc) && server_is_directory(s, path) ? 0 : rc;
}

/* Not every command can safely be sent twice, so NOOP goes before it. */
void server_check(struct server *s)
{
	struct err dead = ERR_INIT;
	bool fresh = now_ns() - s->used_ns < FRESH_NS &&
		     (s->foreign || (s->client && ftp_client_quiet(s->client)));

	if (!server_connected(s) || fresh || !server_simple(s, FTP_NOOP, NULL, &dead))
		return;
	if (!s->env->stopped(s->env->arg))
		log_info("%s: %s; connecting again", printable(s->url.host), dead.text);
	server_close(s);
}

/* An entry that is listed as a directory may be a link, if MLSD follows links; then its target must
 * not be emptied. DELE removes a link, and refuses a directory. If DELE is denied for both, a
 * directory makes RMD fail for another reason, such as "not empty". 0: removed; 1: it is a
 * directory; or a negative errno with text. */
static int remove_link(struct server *s, const char *path, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = server_simple(s, FTP_DELE, path, &why);

	if (rc == -EACCES)
		rc = server_simple(s, FTP_RMD, path, &why);
	if (rc == 0)
		return 0;
	if (rc != -EACCES && rc != -EBUSY && rc != -EIO && rc != -EPIPE && fconn_usable(s->foreign))
		return 1;
	return err_set(e, rc, "%s: %s", printable(path), why.text);
}

/* at: where in path the path for the filter begins. 1: names were kept, and so was path. */
static int remove_below(struct server *s, const char *path, size_t at, unsigned depth,
			const struct tree_removal *r, struct err *e)
{
	struct facts_list list = { 0 };
	struct err why = ERR_INIT;
	bool kept = false;
	int rc, first = 0;

	if (depth > FOREIGN_DEPTH_MOST)
		return err_set(e, -ELOOP, "%s: too deep", printable(path));
	rc = server_list(s, path, &list, e);
	for (size_t i = 0; rc == 0 && i < list.n; i++)
		if (!bulk_name_ok(list.all[i].name))
			rc = err_set(e, -EINVAL, "the server lists \"%s\" in %s: nothing there is "
				     "removed", printable(list.all[i].name), printable(path));

	for (size_t i = 0; rc == 0 && i < list.n && !error_is_lost(first); i++) {
		CLEANUP_FREE char *name = name_below(path, list.all[i].name);
		bool directory = list.all[i].type == 'd';
		struct err *to = first ? &why : e;
		int one;

		if (name && r->filter && !filter_admits(r->filter, name + at, directory)) {
			kept = true;
			continue;
		}
		if (!name)
			one = err_nomem(to);
		else if (!directory)
			one = r->lists ? 0 : server_simple(s, FTP_DELE, name, to);
		else
			one = r->lists || !s->foreign ? 1 : remove_link(s, name, to);

		if (one == 1)
			one = remove_below(s, name, at, depth + 1, r, to);
		else if (one == 0)
			r->removed(r->arg, name, depth + 1);
		kept |= one == 1;
		first = first || one == 1 ? first : one;
	}
	facts_clear(&list);
	if (rc == 0)
		rc = first ? first : kept ? 1 : r->lists ? 0 : server_simple(s, FTP_RMD, path, e);
	if (rc == 0)
		r->removed(r->arg, path, depth);
	return rc;
}

int server_remove_tree(struct server *s, const char *path, const struct tree_removal *r,
		       struct err *e)
{
	int rc = remove_below(s, path, r->rel_at, 0, r, e);

	return rc == 1 ? 0 : rc;
}

/* ---- digests ---- */

int hash_choose(struct ftp_client *client, const char *alg, struct err *e)
{
	char arg[128];
	int rc;

	if (!alg)
		return 0;
	snprintf(arg, sizeof(arg), "HASH %s", alg);
	rc = ftp_simple(client, FTP_OPTS, arg, NULL, e);
	return rc < 0 ? err_prefix(e, "%s", alg) : 0;
}

int hash_ask(struct ftp_client *client, const char *path, const char *alg, struct hash_reply *r,
	     struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	int rc = ftp_simple(client, FTP_HASH, path, &text, e);

	if (rc < 0)
		return rc;
	if (sscanf(text, "%31s %47s %128[0-9a-fA-F]", r->alg, r->range, r->hex) != 3)
		return digest_bad_answer(path, text, e);
	if (alg && strcasecmp(r->alg, alg))
		return err_set(e, -EBADMSG, "%s: the server answers with another digest: %s",
			       printable(path), printable(r->alg));
	return 0;
}

int digest_bad_answer(const char *place, const char *answer, struct err *e)
{
	return err_set(e, -EBADMSG, "%s: the server's answer is not a digest: %s", printable(place),
		       printable(answer));
}
