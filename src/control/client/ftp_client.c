// SPDX-License-Identifier: Apache-2.0
/* The client: interruption by the user, the greeting, TLS, login, connecting, and the state of a
 * connection.
 *
 * The first command is sent after four round trips: TCP, AUTH TLS with the greeting, TLS, login;
 * over ssh: those of ssh, greeting, login. The commands of the login are sent together, because
 * none depends on another's reply. */
#include "control/client/client.h"

#include <netinet/in.h>
#include <poll.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>

enum {
	TIMEOUT_MS = 30 * 1000,
	OWED_MS = 1000,
	PEEK_BYTES = 64,
	ATTEMPTS = 3,
	PAUSE_MS = 10 * 1000, /* time for a server to refuse a password */
};

enum step { STEP_USER, STEP_PASS, STEP_FEAT, STEP_NAMES, STEP_INLINE, STEP_TYPE, STEPS };

struct login {
	struct ftp_client *c;
	const char *user;
	const char *password;
	bool named;               /* false: ssh or the certificate has identified the user */
	int code[STEPS];          /* replies; 0: not sent */
};

/* ---- interruption by the user: shutting the socket wakes every wait, also in TLS ---- */

static void client_shut_socket(void *arg)
{
	struct client_interrupt *w = arg;

	LOCK_GUARD(held, &w->lock);
	w->came = true;
	if (w->socket >= 0)
		shutdown(w->socket, SHUT_RDWR);
}

static bool client_stopped(struct ftp_client *c)
{
	LOCK_GUARD(held, &c->interrupt.lock);

	return c->interrupt.came;
}

static int client_interrupted(struct err *e)
{
	return err_set(e, -EINTR, "interrupted");
}

int client_begin(struct ftp_client *c, struct err *e)
{
	struct client_interrupt *w = &c->interrupt;
	int rc;

	if (w->depth++)
		return 0;
	w->fd = w->stop ? w->stop(w->arg) : -1;

	/* Nothing has been sent yet, so the connection stays usable. */
	if (w->fd >= 0 && poll_fd(w->fd, POLLIN, 0) > 0)
		rc = client_interrupted(e);
	else
		rc = sentry_start(&w->sentry, "interrupt", w->fd, client_shut_socket, w, e);
	if (rc < 0)
		w->depth--;
	return rc;
}

int client_end(struct ftp_client *c, int rc, struct err *e)
{
	struct client_interrupt *w = &c->interrupt;
	bool woken;

	if (--w->depth)
		return rc;
	sentry_end(&w->sentry);

	/* tcp_connect() checks the descriptor itself. */
	woken = w->came || (rc == -ECANCELED && w->fd >= 0);
	w->fd = -1;
	c->lost |= w->came;

	/* A call that succeeded before stays successful; a failure is due to the interruption. */
	return woken && rc < 0 ? client_interrupted(e) : rc;
}

/* ---- the greeting ---- */

/* The first bytes of servers of other protocols. */
static const struct {
	const char *start;
	size_t len;
	const char *what;
} others[] = {
	{ "SSH-", 4, "is an SSH server; to go through it write host:path" },
	{ "HTTP/", 5, "is a web server, not an FTP server" },
	{ "<", 1, "is a web server, not an FTP server" },
	{ "\x15\x03", 2, "speaks TLS from the first byte on (a web server?), which rftp's "
	  "port does not" },
	{ "* OK", 4, "is a mail server, not an FTP server" },
	{ "+OK", 3, "is a mail server, not an FTP server" },
	{ "@RSYNCD:", 8, "is an rsync server, not an FTP server" },
};

int ftp_not_ftp(const char *host, uint16_t port, const char *text, size_t len, struct err *e)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (len >= others[i].len && !memcmp(text, others[i].start, others[i].len))
			return err_set(e, -EPROTO, "%s port %u %s", host, port, others[i].what);
	return err_set(e, -EPROTO, "%s port %u does not speak FTP (it sent \"%s\")", host, port,
		       printable(text));
}

/* Check the first bytes, and leave them in the socket: other servers may never send a full line. */
static int peek_greeting(struct ftp_client *c, struct err *e)
{
	char text[PEEK_BYTES + 1];
	ssize_t n;
	int rc = poll_fd(c->fd, POLLIN, c->timeout_ms);

	if (rc == 0)
		return err_set(e, -ETIMEDOUT, "%s port %u took the connection but sent nothing "
			       "within %g s: is it rftpd's port?", c->host, c->port,
			       c->timeout_ms / 1000.0);

	n = rc < 0 ? rc : recv(c->fd, text, PEEK_BYTES, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return err_set(e, -ECONNRESET, "%s port %u closed the connection without "
			       "sending anything: is it rftpd's port?", c->host, c->port);
	if (n < 0)
		return err_sys(e, rc < 0 ? rc : -errno, "%s port %u", c->host, c->port);

	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	if (text[0] >= '1' && text[0] <= '5')
		return 0;
	return ftp_not_ftp(c->host, c->port, text, (size_t)n, e);
}

/* Read the 220, or report the protocol that the server speaks instead. */
static int client_greeting(struct ftp_client *c, struct err *e)
{
	/* Under TLS the socket has only encrypted bytes. */
	int code, rc = c->ssh || c->tls ? 0 : peek_greeting(c, e);

	if (rc < 0)
		return rc;

	/* ssh may be asking for a password, and has its own timeout for the rest. */
	code = client_final_reply(c, c->ssh ? -1 : c->timeout_ms, e);
	if (code < 0 && c->ssh && code == -EPROTO)
		return err_prefix(e, "login scripts on %s may print text before rftpd can speak; "
				  "make them silent without a terminal", c->host);
	if (code < 0)
		return code;
	return code / 100 == 2 ? 0 : client_refused(c, e);
}

/* ---- TLS ---- */

int ftp_no_tls(const char *host, uint16_t port, int code, const char *text, struct err *e)
{
	return err_set(e, -EPROTO, "%s port %u offers no TLS (%d %s); --plain sends all in clear",
		       host, port, code, printable(text ? text : ""));
}

int ftp_key_refused(const char *host, uint16_t port, struct err *e)
{
	return err_set(e, -EKEYREJECTED, "the key of %s port %u was refused", host, port);
}

/* An attacker may have sent bytes in clear after the answer. */
static int tls_injected(const struct ftp_client *c, int rc, struct err *e)
{
	return err_set(e, rc, "%s port %u sent bytes in clear after its answer to AUTH",
		       c->host, c->port);
}

/* AUTH TLS has been sent: read its answer, do the handshake, check the server. */
static int client_start_tls(struct ftp_client *c, const struct ftp_client_config *cfg,
			    struct err *e)
{
	int rc, code = client_final_reply(c, c->timeout_ms, e);
	struct stream *st = NULL;
	struct tls *tls;

	if (code < 0)
		return code;
	if (code == 421)
		return client_refused(c, e);
	if (code != 234)
		return ftp_no_tls(c->host, c->port, code, c->reply.text, e);
	if (ms_readable(c->ms))
		return tls_injected(c, -EPROTO, e);

	c->ctx = tls_client_new(cfg->cafile, e);
	if (!c->ctx)
		return e->code;

	rc = cfg->certfile ? tls_use_certificate(c->ctx, cfg->certfile, cfg->keyfile, e) : 0;
	if (rc < 0)
		return rc;

	tls = tls_start(c->ctx, c->fd, c->host, NULL, c->timeout_ms, e);
	if (!tls)
		return err_prefix(e, "%s port %u", c->host, c->port);

	/* Check the key before anything is sent to the server. */
	rc = tls_peer_validity(tls, e);
	if (rc < 0)
		err_prefix(e, "%s port %u", c->host, c->port);
	c->pin = rc < 0 ? NULL : tls_peer_pin(tls);
	if (rc == 0 && !c->pin)
		rc = err_set(e, -EKEYREJECTED, "%s port %u shows no certificate", c->host, c->port);
	if (rc == 0 && !cfg->cafile && cfg->check_pin &&
	    cfg->check_pin(cfg->arg, c->host, c->port, c->pin, e) != PIN_OK) {
		rc = -EKEYREJECTED;
		if (!*e->text)
			ftp_key_refused(c->host, c->port, e);
		e->code = rc;
	}

	if (rc == 0) {
		st = stream_tls(c->fd, tls);
		rc = st ? ms_replace(c->ms, st) : -ENOMEM;
		if (rc < 0)
			tls_injected(c, rc, e);
	}
	if (rc == 0) {
		c->tls = tls;
		return 0;
	}
	if (st) {
		st->disowned = true;
		stream_free(st);
	} else {
		tls_free(tls);
	}
	return rc;
}

/* ---- the commands of a login ---- */

static bool is_feature(const char *line, const char *name)
{
	size_t n = strlen(name);

	return !strncasecmp(line, name, n) && (!line[n] || line[n] == ' ');
}

static void parse_features(struct ftp_client *c)
{
	char *rest = c->reply.text, *line;

	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " ");
		/* An old server announces "BULK 1", without a list of features. */
		if (is_feature(line, "BULK") &&
		    bulk_version_parse(line + strlen("BULK"), &c->bulk) < 0)
			c->bulk = (struct bulk_version){ .major = 1 };
		c->give |= is_feature(line, "GIVE");
		c->take |= is_feature(line, "TAKE");
	}
}

int ftp_check_user(const char *user, struct err *e)
{
	return strpbrk(user, "\r\n") ?
	       err_set(e, -EILSEQ, "the user's name contains a line end") : 0;
}

int ftp_no_clear_password(const char *host, const char *user, struct err *e)
{
	return err_set(e, -EACCES, "the password of %s is not sent to %s in clear; "
		       "--plain-password allows it", printable(user), host);
}

int ftp_login_refused(const char *host, const char *user, int code, const char *text,
		      struct err *e)
{
	if (code == 332)
		return err_set(e, -EACCES, "%s also needs an account (ACCT), which rftp does not "
			       "send", host);
	return err_set(e, -EACCES, "%s refuses the login of %s: %s", host, printable(user),
		       printable(text ? text : ""));
}

/* Send the commands together and read their replies. 0; -EACCES with text: refused; another
 * negative errno with text: do not try again. */
static int login_attempt(struct ftp_client *c, struct login *l, struct err *e)
{
	const struct {
		bool wanted;
		const char *verb, *arg;
	} steps[STEPS] = {
		[STEP_USER] = { l->named, "USER ", l->user },
		[STEP_PASS] = { l->named, "PASS ", l->password },
		[STEP_FEAT] = { true, "FEAT", "" },
		[STEP_NAMES] = { true, "OPTS NAMES PERCENT", "" },
		[STEP_INLINE] = { true, "OPTS INLINE MLSD", "" },
		[STEP_TYPE] = { true, "TYPE I", "" },
	};
	CLEANUP_BUF struct buf *b = buf_new(FTP_LINE_MAX);
	CLEANUP_FREE char *refusal = NULL;
	uint64_t began = now_ns();
	int rc = b ? 0 : -ENOMEM;

	memset(l->code, 0, sizeof(l->code));
	for (int s = 0; rc == 0 && s < STEPS; s++) {
		if (!steps[s].wanted)
			continue;
		rc = buf_put(b, steps[s].verb, strlen(steps[s].verb));
		if (rc == 0)
			rc = buf_put(b, steps[s].arg, strlen(steps[s].arg));
		if (rc == 0)
			rc = buf_put(b, "\r\n", 2);
	}

	if (rc == 0)
		rc = ms_write(c->ms, buf_ptr(b), buf_len(b));
	if (rc < 0)
		return err_sys(e, rc, "login at %s", c->host);

	for (int s = 0; s < STEPS; s++) {
		if (!steps[s].wanted)
			continue;
		l->code[s] = client_final_reply(c, c->timeout_ms + PAUSE_MS, e);
		if (l->code[s] < 0)
			return l->code[s];
		if ((s == STEP_USER || s == STEP_PASS) && !refusal && l->code[s] / 100 >= 4)
			refusal = c->reply.text ? strdup(c->reply.text) : NULL;
		if (s == STEP_FEAT && l->code[s] / 100 == 2)
			parse_features(c);
		if (l->code[s] == 421)
			return client_refused(c, e);
	}
	c->percent = l->code[STEP_NAMES] / 100 == 2;
	c->inline_list = l->code[STEP_INLINE] / 100 == 2;

	/* Over ssh there is no better measurement. None of these commands takes long. */
	if (c->ssh)
		c->rtt_ns = now_ns() - began;
	if (!l->named || l->code[STEP_USER] / 100 == 2 || l->code[STEP_PASS] / 100 == 2)
		return 0;
	return ftp_login_refused(c->host, l->user, l->code[STEP_USER] == 332 ? 332 :
				 l->code[STEP_PASS], refusal, e);
}

/* ---- users and passwords ---- */

/* Report that there is no password for user. */
static int no_password(const struct ftp_client_config *cfg, const char *name, struct err *e)
{
	const char *given = cfg->netrc, *user = printable(name), *host = cfg->url->host;
	bool v6 = strchr(host, ':'); /* netrc files have such addresses in brackets */
	char port[16] = "", advice[ERR_TEXT] = "";
	struct stat st;

	if (url_port(cfg->url) != url_default_port(cfg->url->kind))
		snprintf(port, sizeof(port), ":%u", url_port(cfg->url));
	if (!given || stat(given, &st) || S_ISREG(st.st_mode))
		snprintf(advice, sizeof(advice),
			 "%sput \"machine %s%s%s%s login %s password ...\" into %s%s",
			 cfg->never_asks ? ": " : "", v6 ? "[" : "", host, v6 ? "]" : "", port,
			 user, given ? printable(given) : "~/.netrc",
			 cfg->never_asks ? "" : ", or ");
	return err_set(e, -EACCES, "%sthere is no password for %s at %s%s%s%s",
		       cfg->certfile ? "the certificate is not enough, and " : "", user, host,
		       cfg->never_asks ? "" : ": ", advice,
		       cfg->never_asks ? "" : "run rftp on a terminal, where it asks");
}

int ftp_try_passwords(const struct ftp_client_config *cfg, const char *user,
		      int (*attempt)(void *arg, const char *password, struct err *e), void *arg,
		      struct err *e)
{
	int rc;

	for (int i = 0; i < ATTEMPTS; i++) {
		char *password = cfg->password ?
				 cfg->password(cfg->arg, user, cfg->url->host, i) : NULL;

		if (!password)
			return i ? e->code : no_password(cfg, user, e);
		e->code = 0;
		rc = strpbrk(password, "\r\n") ?
		     err_set(e, -EILSEQ, "the password contains a line end") :
		     attempt(arg, password, e);
		crypto_wipe(password, strlen(password));
		free(password);
		if (rc <= 0)
			return rc;
	}
	return e->code;
}

static int login_with_password(void *arg, const char *password, struct err *e)
{
	struct login *l = arg;
	int rc;

	l->password = password;
	rc = login_attempt(l->c, l, e);

	/* Other passwords do not help if the server refused the name. */
	return rc == -EACCES && l->code[STEP_USER] / 100 == 3 ? 1 : rc;
}

/* Send USER. 1: the client's certificate was enough (232), and no password is needed; 0: the server
 * wants a password; or a negative errno. */
static int try_certificate(struct ftp_client *c, const struct ftp_client_config *cfg,
			  struct login *l, struct err *e)
{
	int code;

	if (!cfg->certfile || !c->tls)
		return 0;

	code = client_send(c, FTP_USER, l->user, e);
	if (code == 0)
		code = client_final_reply(c, c->timeout_ms + PAUSE_MS, e);
	if (code == 421)
		return client_refused(c, e);
	if (code / 100 == 2) {
		l->named = false;
		return 1;
	}
	if (code < 0 || code / 100 == 3)
		return code < 0 ? code : 0;
	return ftp_login_refused(c->host, l->user, code, c->reply.text, e);
}

int client_login(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	struct login l = {
		.c = c,
		.user = cfg->url->user ? cfg->url->user : "anonymous",
		.password = "rftp@",
		.named = !c->ssh,
	};
	int rc;

	rc = ftp_check_user(l.user, e);
	if (rc)
		return rc;

	/* 1: no password is needed. */
	rc = c->ssh || !strcmp(l.user, "anonymous") || !strcmp(l.user, "ftp") ? 1 :
	     try_certificate(c, cfg, &l, e);
	if (rc > 0)
		return login_attempt(c, &l, e);
	if (rc)
		return rc;

	if (!c->tls && !cfg->plain_password)
		return ftp_no_clear_password(c->host, l.user, e);
	return ftp_try_passwords(cfg, l.user, login_with_password, &l, e);
}

/* ---- connecting ---- */

/* Open the message stream over fd. Takes over fd, also on failure. */
static int client_open_messages(struct ftp_client *c, int fd, struct err *e)
{
	struct client_interrupt *w = &c->interrupt;
	struct stream *st = stream_plain(fd, fd);

	c->fd = fd;
	pthread_mutex_lock(&w->lock);
	w->socket = fd;
	if (w->came)
		shutdown(fd, SHUT_RDWR);
	pthread_mutex_unlock(&w->lock);
	if (!st)
		close(fd);
	else
		c->ms = ms_new(st);
	if (st && !c->ms)
		stream_free(st);
	return c->ms ? 0 : err_sys(e, -ENOMEM, "connection to %s", c->host);
}

/* Send AUTH before the greeting has arrived, which saves a round trip. A server of another protocol
 * receives a line that it does not understand. */
static int connect_tcp(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	static const char auth[] = "AUTH TLS\r\n";
	int fd = tcp_connect_turn(c->host, c->port, cfg->turn, c->interrupt.fd, c->timeout_ms, e);
	int rc = fd < 0 ? fd : client_open_messages(c, fd, e);

	if (rc < 0)
		return rc;

	c->peer_len = sizeof(c->peer);
	if (getpeername(c->fd, (struct sockaddr *)&c->peer, &c->peer_len) < 0)
		c->peer_len = 0;

	/* Reading the greeting reports a failure with a better text. */
	if (!cfg->plain)
		ms_write(c->ms, auth, sizeof(auth) - 1);
	rc = client_greeting(c, e);
	if (rc == 0 && !cfg->plain)
		rc = client_start_tls(c, cfg, e);
	return rc;
}

static int connect_ssh(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	int fd, rc;

	c->ssh = ssh_start(cfg, &fd, e);
	if (!c->ssh)
		return e->code;

	rc = client_open_messages(c, fd, e);
	if (rc < 0)
		return rc;
	ssh_address(cfg, &c->peer, &c->peer_len);

	rc = client_greeting(c, e);
	if ((rc == -EPIPE || rc == -ECANCELED) && !client_stopped(c))
		return ssh_explain(c->ssh, e);
	if (rc == 0)
		ssh_connected(c->ssh);
	return rc;
}

static void client_free(struct ftp_client *c)
{
	ms_free(c->ms);
	if (client_stopped(c))
		ssh_stop(c->ssh);
	ssh_free(c->ssh);
	pthread_mutex_destroy(&c->interrupt.lock);
	tls_ctx_free(c->ctx);
	ftp_reply_clear(&c->reply);
	free(c->pin);
	free(c->host);
	free(c);
}

struct ftp_client *ftp_connect(const struct ftp_client_config *cfg, struct err *e)
{
	struct ftp_client *c = calloc(1, sizeof(*c));
	const struct url *p = cfg->url;
	struct err own = ERR_INIT;
	int rc;

	if (!e)
		e = &own;
	if (!c) {
		err_nomem(e);
		return NULL;
	}

	c->fd = -1;
	c->timeout_ms = cfg->connect_timeout_ms > 0 ? cfg->connect_timeout_ms : TIMEOUT_MS;
	c->port = p->kind == URL_SSH ? 0 : url_port(p);
	c->host = strdup(p->host ? p->host : "");
	c->interrupt = (struct client_interrupt){ .stop = cfg->stop, .arg = cfg->arg, .fd = -1,
						  .socket = -1 };
	pthread_mutex_init(&c->interrupt.lock, NULL);

	rc = c->host ? client_begin(c, e) : err_nomem(e);
	if (rc == 0) {
		if (p->kind == URL_SSH)
			rc = connect_ssh(c, cfg, e);
		else
			rc = p->kind == URL_RFTP ? connect_tcp(c, cfg, e) :
			     err_set(e, -EINVAL, "%s is not a server", c->host);
		if (rc == 0)
			rc = client_login(c, cfg, e);
		rc = client_end(c, rc, e);
	}
	if (rc < 0) {
		e->code = rc;
		client_free(c);
		return NULL;
	}

	if (c->ssh) {
		snprintf(c->describe, sizeof(c->describe), "%s, by ssh", c->host);
	} else {
		c->rtt_ns = tcp_rtt_ns(c->fd);
		snprintf(c->describe, sizeof(c->describe),
			 strchr(c->host, ':') ? "[%s]:%u, %s" : "%s:%u, %s", c->host, c->port,
			 c->tls ? tls_describe(c->tls) : "in clear");
	}
	return c;
}

/* Waiting for the answer to QUIT would only cost a round trip. */
void ftp_close(struct ftp_client *c)
{
	static const char quit[] = "QUIT\r\n";

	if (!c)
		return;
	if (!c->lost) {
		ms_set_write_timeout(c->ms, 1000);
		ms_write(c->ms, quit, sizeof(quit) - 1);
	}
	client_free(c);
}

/* ---- the state of a connection ---- */

bool ftp_client_lost(const struct ftp_client *c)
{
	return c->lost || ms_aborted(c->ms);
}

int ftp_client_key(struct ftp_client *c, uint8_t key[KEY_BYTES])
{
	return c->tls ? tls_export(c->tls, "EXPORTER-rftp-bulk-1", key, KEY_BYTES) : -ENOENT;
}

bool ftp_client_quiet(struct ftp_client *c)
{
	struct err e = ERR_INIT;

	if (c->owed && ms_readable(c->ms) && client_read_owed(c, ns_after(OWED_MS), &e))
		return false;
	return !c->lost && !ms_readable(c->ms);
}
