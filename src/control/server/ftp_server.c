// SPDX-License-Identifier: Apache-2.0
/* The server's loop: wait for a command, look it up, call its handler. Functions of a session for
 * these handlers, and for BULK, GIVE and TAKE: replies, rights, paths, TLS. */
#include "control/server/session.h"

#include <poll.h>
#include <stdarg.h>
#include <strings.h>

enum {
	LOGIN_MS = 60 * 1000,
	IDLE_MS = 15 * 60 * 1000,
	SLICE_MS = 500,           /* between checks for the server's stop */
	LOOK_NS = 100 * 1000000,  /* between checks for ABOR */
	DIRS_OPEN = 16,
	BODY_MS = 60 * 1000,      /* time without a byte of a request's body */
	LINGER_MS = 2000,
};

/* The argument of a handler: the text as received, or the path from session_arg_path() or
 * session_change_path(). */
enum path_rule { ARG_TEXT, ARG_PATH, ARG_CHANGED_PATH };

static ftp_handler cmd_body;

/* The handlers of the commands. Login, right, argument and replies of a command are in proto's
 * table. A command without a handler is not implemented. */
static const struct {
	ftp_handler *run;
	enum path_rule path;
} handlers[FTP_VERBS] = {
	[FTP_USER] = { cmd_user, ARG_TEXT }, [FTP_PASS] = { cmd_pass, ARG_TEXT },
	[FTP_AUTH] = { cmd_auth, ARG_TEXT }, [FTP_PBSZ] = { cmd_pbsz, ARG_TEXT },
	[FTP_PROT] = { cmd_prot, ARG_TEXT }, [FTP_FEAT] = { cmd_feat, ARG_TEXT },
	[FTP_OPTS] = { cmd_opts, ARG_TEXT }, [FTP_SYST] = { cmd_syst, ARG_TEXT },
	[FTP_TYPE] = { cmd_type, ARG_TEXT }, [FTP_MODE] = { cmd_mode, ARG_TEXT },
	[FTP_STRU] = { cmd_stru, ARG_TEXT }, [FTP_ALLO] = { cmd_allo, ARG_TEXT },
	[FTP_PWD] = { cmd_pwd, ARG_TEXT }, [FTP_CWD] = { cmd_cwd, ARG_PATH },
	[FTP_CDUP] = { cmd_cdup, ARG_TEXT },
	[FTP_EPSV] = { cmd_epsv, ARG_TEXT }, [FTP_PASV] = { cmd_pasv, ARG_TEXT },
	[FTP_PORT] = { cmd_port, ARG_TEXT }, [FTP_EPRT] = { cmd_eprt, ARG_TEXT },
	[FTP_RETR] = { cmd_retr, ARG_PATH }, [FTP_STOR] = { cmd_stor, ARG_CHANGED_PATH },
	[FTP_APPE] = { cmd_appe, ARG_CHANGED_PATH }, [FTP_REST] = { cmd_rest, ARG_TEXT },
	[FTP_SIZE] = { cmd_size, ARG_PATH }, [FTP_MDTM] = { cmd_mdtm, ARG_TEXT },
	[FTP_MFMT] = { cmd_mfmt, ARG_TEXT }, [FTP_HASH] = { cmd_hash, ARG_PATH },
	[FTP_MLSD] = { cmd_mlsd, ARG_PATH }, [FTP_MLST] = { cmd_mlst, ARG_PATH },
	[FTP_AVBL] = { cmd_avbl, ARG_PATH },
	[FTP_LIST] = { cmd_list, ARG_TEXT }, [FTP_NLST] = { cmd_nlst, ARG_TEXT },
	[FTP_STAT] = { cmd_stat, ARG_TEXT },
	[FTP_MKD] = { cmd_mkd, ARG_CHANGED_PATH }, [FTP_RMD] = { cmd_rmd, ARG_CHANGED_PATH },
	/* DELE may name a part: root_unlink() removes it if no transfer is writing it. */
	[FTP_DELE] = { cmd_dele, ARG_PATH }, [FTP_RMDA] = { cmd_rmda, ARG_CHANGED_PATH },
	[FTP_RNFR] = { cmd_rnfr, ARG_CHANGED_PATH }, [FTP_RNTO] = { cmd_rnto, ARG_TEXT },
	[FTP_SITE] = { cmd_site, ARG_TEXT }, [FTP_ABOR] = { cmd_abor, ARG_TEXT },
	[FTP_NOOP] = { cmd_noop, ARG_TEXT }, [FTP_HELP] = { cmd_help, ARG_TEXT },
	[FTP_QUIT] = { cmd_quit, ARG_TEXT },
	[FTP_BULK] = { cmd_body, ARG_TEXT }, [FTP_GIVE] = { cmd_body, ARG_TEXT },
	[FTP_TAKE] = { cmd_body, ARG_TEXT },
};

/* ---- replies ---- */

int ftp_session_reply(struct ftp_session *s, int code, const char *fmt, ...)
{
	CLEANUP_BUF struct buf *out = buf_new(FTP_REPLY_MAX);
	CLEANUP_FREE char *text = NULL;
	va_list ap;
	int rc;

	if (s->running && !ftp_command_answers(s->running, code))
		log_warn("%s: %d is not a reply to %s", s->peer_text, code, s->running->name);

	va_start(ap, fmt);
	rc = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (rc < 0) {
		text = NULL;
		return err_nomem(s->e);
	}

	rc = out ? ftp_reply_format(out, code, text) : -ENOMEM;
	if (rc == 0)
		rc = ms_write(s->ms, buf_ptr(out), buf_len(out));
	return rc < 0 ? err_sys(s->e, rc, "cannot send a reply") : 0;
}

/* Returns code, or a similar code if the running command may not reply with code. */
static int allowed_code(const struct ftp_session *s, int code)
{
	static const int refusals[] = { 550, 553, 450 };

	if (!s->running || ftp_command_answers(s->running, code))
		return code;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (ftp_command_answers(s->running, refusals[i]))
			return refusals[i];
	return 451;
}

int session_reply_about(struct ftp_session *s, int code, const char *path, const char *why)
{
	CLEANUP_FREE char *name = session_name(s, path);

	return ftp_session_reply(s, code, "%s: %s", name ? name : "", why);
}

int session_not_plain(struct ftp_session *s, int code, const char *path)
{
	return session_reply_about(s, code, path, "Not a plain file");
}

int session_client_gone(struct ftp_session *s)
{
	return err_set(s->e, -EPIPE, "the client closed the connection");
}

int session_not_implemented(struct ftp_session *s, const struct ftp_command *cmd)
{
	return ftp_session_reply(s, 502, "%s is not implemented", cmd->name);
}

int session_reply_errno(struct ftp_session *s, int rc, const char *path)
{
	static const struct {
		int error, code;
	} codes[] = {
		{ ENOSPC, 552 }, { EDQUOT, 552 }, { EFBIG, 552 }, { EBUSY, 450 }, { EIO, 451 },
		{ ENOMEM, 451 }, { ENAMETOOLONG, 553 }, { EILSEQ, 553 },
	};
	int code = 550;

	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].error == -rc)
			code = codes[i].code;

	/* The client derives the errno from these words. */
	return session_reply_about(s, allowed_code(s, code), path, root_why(rc));
}

/* ---- rights ---- */

#define ONLY_READ "Permission denied: this account may only read"
#define LOGIN_FIRST "Log in first, with USER and PASS"

const char *ftp_account_refuses(const struct ftp_account *a, enum ftp_needs needs)
{
	switch (needs) {
	case FTP_NEEDS_NOTHING:
	case FTP_NEEDS_DEPENDS:
		return NULL;
	case FTP_NEEDS_SEE:
		return a->can_see ? NULL : "Permission denied: this account may only upload";
	case FTP_NEEDS_CREATE:
		return a->can_create ? NULL : ONLY_READ;
	case FTP_NEEDS_CHANGE:
		if (a->can_change)
			return NULL;
		return a->can_create ?
		       "Permission denied: this account may not change existing files" : ONLY_READ;
	default:
		return "Permission denied: no right covers this command";
	}
}

void session_forget_setup(struct ftp_session *s)
{
	if (ftp_command_answers(s->running, 150)) {
		data_forget(s);
		s->rest = 0;
	}
}

int session_check(struct ftp_session *s, enum ftp_needs needs)
{
	const char *why = ftp_account_refuses(&s->account, needs);

	if (!why)
		return 0;
	session_forget_setup(s);
	return session_replied(ftp_session_reply(s, allowed_code(s, 550), "%s", why));
}

const struct ftp_account *ftp_session_account(struct ftp_session *s)
{
	return s->logged_in ? &s->account : NULL;
}

void ftp_account_clear(struct ftp_account *a)
{
	root_free(steal_ptr(&a->root));
	free(steal_ptr(&a->home));
}

/* ---- paths ---- */

char *session_name(struct ftp_session *s, const char *path)
{
	char *name;

	if (s->agreed.percent)
		return percent_encode(path);
	name = strdup(path);
	for (char *p = name; p && *p; p++)
		if (*p == '\r' || *p == '\n')
			*p = '?';
	return name;
}

int session_decode(struct ftp_session *s, const char *arg, char **decoded)
{
	*decoded = NULL;
	if (!s->agreed.percent || percent_decode(arg, decoded) == 0)
		return 0;
	return session_replied(ftp_session_reply(s, 501, "A name with invalid percent-encoding"));
}

char *session_arg_path(struct ftp_session *s, const char *arg)
{
	CLEANUP_FREE char *decoded = NULL;
	char *path;

	if (session_decode(s, arg, &decoded))
		return NULL;
	path = ftp_session_path(s, decoded ? decoded : arg);
	if (!path)
		ftp_session_reply(s, 451, NO_MEMORY);
	return path;
}

/* Refuse names of parts: a part belongs to the transfer that writes it. If another client put a
 * link at that name, it could redirect the system calls of that transfer. */
char *session_change_path(struct ftp_session *s, const char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);

	if (!path || !part_in_path(path))
		return steal_ptr(&path);
	session_reply_about(s, allowed_code(s, 550), path, PART_NAME_WHY);
	return NULL;
}

char *ftp_path_resolve(const char *cwd, const char *home, const char *arg)
{
	size_t len = strlen(arg), n = 0;
	bool slash = len && arg[len - 1] == '/';
	const char *from = cwd;
	char *out;

	if (arg[0] == '/') {
		from = "";
	} else if (path_at_home(arg)) {
		from = home;
		arg++;
	}

	out = malloc(strlen(from) + len + 4);
	if (!out)
		return NULL;
	n = path_append(out, n, from);
	n = path_append(out, n, arg);
	if (n == 0 || slash)
		out[n++] = '/';
	out[n] = '\0';
	return out;
}

char *ftp_session_path(struct ftp_session *s, const char *arg)
{
	return ftp_path_resolve(s->cwd, s->account.home, arg);
}

const char *ftp_session_cwd(struct ftp_session *s)
{
	return s->cwd;
}

/* ---- the connection ---- */

struct mstream *ftp_session_stream(struct ftp_session *s)
{
	return s->ms;
}

struct tls *ftp_session_tls(struct ftp_session *s)
{
	return s->tls;
}

bool session_has_tls(const struct ftp_session *s)
{
	return s->c->tls || s->c->guard;
}

int ftp_session_key(struct ftp_session *s, uint8_t key[KEY_BYTES])
{
	if (s->tls)
		return tls_export(s->tls, "EXPORTER-rftp-bulk-1", key, KEY_BYTES);
	if (!s->agreed.tls)
		return -ENOENT;
	memcpy(key, s->agreed.key, KEY_BYTES);
	return 0;
}

bool ftp_session_secret(const struct ftp_session *s)
{
	return s->agreed.tls || s->c->trusted;
}

int ftp_handed_check(const struct ftp_handed *h)
{
	const char *const *names = digest_names();

	if (h->facts & ~(uint32_t)FACTS_ALL)
		return -EPROTO;
	if ((h->tls | h->percent | h->inline_list | h->ascii | h->pbsz | h->prot_p) > 1)
		return -EPROTO;

	/* PROT P needs TLS and PBSZ. */
	if (h->prot_p && !(h->tls && h->pbsz))
		return -EPROTO;
	for (uint32_t i = 0; names[i]; i++)
		if (i == h->hash)
			return 0;
	return -EPROTO;
}

/* ---- waiting ---- */

bool session_stopping(const struct ftp_session *s)
{
	return s->c->stop && *s->c->stop;
}

int session_idle_ms(const struct ftp_session *s)
{
	return s->c->idle_timeout_ms > 0 ? s->c->idle_timeout_ms : IDLE_MS;
}

/* Read the next command, in slices to notice the server's stop. A line that arrived during a
 * transfer comes first. */
static ssize_t next_line(struct ftp_session *s)
{
	uint64_t end = s->logged_in ? ns_after(session_idle_ms(s)) : s->login_by;
	ssize_t n = -ETIMEDOUT;

	if (s->stash) {
		n = stpcpy(s->line, s->stash) - s->line;
		free(steal_ptr(&s->stash));
		return n;
	}

	while (n == -ETIMEDOUT && now_ns() < end) {
		if (session_stopping(s))
			return -ECANCELED;
		n = ms_read_line(s->ms, s->line, sizeof(s->line), SLICE_MS);
	}
	return n;
}

int session_poll_control(struct ftp_session *s)
{
	uint64_t now = now_ns();
	ssize_t n;

	/* Read nothing while a command is stashed: it must run before later ones. */
	if (s->stash || now - s->control_checked < LOOK_NS)
		return 0;
	s->control_checked = now;

	n = ms_read_line(s->ms, s->line, sizeof(s->line), 0);
	if (n < 0)
		return n == -ETIMEDOUT ? 0 : (int)n;
	if (!strcasecmp(s->line, "ABOR"))
		return -ECANCELED;
	if (!strcasecmp(s->line, "STAT"))
		return session_reply_progress(s);
	s->stash = strdup(s->line);
	return s->stash ? 0 : -ENOMEM;
}

/* ---- commands with a body: BULK, GIVE, TAKE ---- */

/* The body follows the line. It is read even after a refusal, to find the next command. */
static bool has_body(enum ftp_verb v)
{
	return v == FTP_BULK || v == FTP_GIVE || v == FTP_TAKE;
}

static int body_refuse(struct ftp_session *s, size_t n, int code, const char *text)
{
	int rc = ms_skip(s->ms, n, BODY_MS);

	return rc < 0 ? err_sys(s->e, rc, "body of %s", s->running->name) :
			ftp_session_reply(s, code, "%s", text);
}

static int cmd_body(struct ftp_session *s, char *arg)
{
	const struct ftp_server_config *c = s->c;
	enum ftp_verb v = s->running->verb;
	size_t most = v == FTP_BULK ? BULK_REQUEST_MAX : THIRD_BODY_MAX;
	int (*run)(void *arg, struct ftp_session *s, struct buf *body) =
		v == FTP_BULK ? c->bulk : v == FTP_GIVE ? c->give : c->take;
	CLEANUP_BUF struct buf *body = NULL;
	uint8_t *room;
	uint64_t n;
	int rc = parse_uint(arg, 0, UINT64_MAX, &n);

	if (rc == -EINVAL) {
		s->quit = true; /* the start of the next command is unknown */
		return ftp_session_reply(s, 501, "Syntax: %s", s->running->syntax);
	}
	if (rc < 0 || n > most) {
		/* Do not store a body for an unauthenticated client, but read some of it: closing
		 * with unread bytes resets the connection, and the client may lose the 552. */
		rc = ftp_session_reply(s, 552, "The request is longer than %zu bytes", most);
		s->quit = true;
		if (rc == 0)
			ms_skip(s->ms, most, LINGER_MS);
		return rc;
	}

	if (!s->logged_in)
		return body_refuse(s, n, 530, LOGIN_FIRST);
	if (!run)
		return body_refuse(s, n, 502, v == FTP_BULK ? "There is no bulk mode here" :
				   "There are no copies from server to server here");

	body = buf_new(n ? n : 1);
	if (!body || buf_reserve(body, n, &room) < 0)
		return body_refuse(s, n, 451, NO_MEMORY);
	rc = ms_read(s->ms, room, n, BODY_MS);
	return rc < 0 ? err_sys(s->e, rc, "body of %s", s->running->name) : run(c->arg, s, body);
}

/* ---- commands ---- */

static int dispatch_command(struct ftp_session *s, const struct ftp_command *cmd, char *arg)
{
	enum path_rule rule = handlers[cmd->verb].path;
	CLEANUP_FREE char *path = NULL;
	int rc;

	/* RNTO must follow RNFR at once (RFC 959 §4.1.3). */
	if (cmd->verb != FTP_RNTO)
		free(steal_ptr(&s->rename_from));
	if (!handlers[cmd->verb].run)
		return session_not_implemented(s, cmd);

	/* The handlers of commands with a body check the login themselves. */
	if (cmd->login && !s->logged_in && !has_body(cmd->verb))
		return ftp_session_reply(s, 530, LOGIN_FIRST);

	s->running = cmd;
	rc = session_check(s, cmd->needs);
	if (!rc && rule != ARG_TEXT) {
		path = rule == ARG_PATH ? session_arg_path(s, arg) : session_change_path(s, arg);
		if (!path)
			session_forget_setup(s);
		rc = !path;
	}
	if (!rc)
		rc = handlers[cmd->verb].run(s, path ? path : arg);
	s->running = NULL;
	return rc < 0 ? rc : 0;
}

static int handle_line(struct ftp_session *s)
{
	const struct ftp_command *cmd;
	char empty[1] = "";
	char *arg;
	int rc = ftp_command_parse(s->line, &cmd, &arg);
	bool cr = rc == 0 && arg && strchr(arg, '\r');

	/* Refuse CR: other programs would read it as a line end, for example in a listing. */
	if (cr)
		rc = -EINVAL;
	if (rc < 0) /* RNTO must follow RNFR at once, without even an invalid command between
		     * them */
		free(steal_ptr(&s->rename_from));
	if (rc == -ENOSYS || (rc < 0 && !cmd))
		return ftp_session_reply(s, 500, "Unknown command; HELP lists the commands");

	/* Without the length of its body the next command cannot be found. */
	if (rc < 0 && has_body(cmd->verb))
		s->quit = true;
	if (cr)
		return ftp_session_reply(s, 501, "The line contains a CR; with OPTS NAMES PERCENT "
					 "a name may contain %%0D");
	if (rc < 0)
		return ftp_session_reply(s, 501, "Syntax: %s", cmd->syntax);
	return dispatch_command(s, cmd, arg ? arg : empty);
}

/* Reply to a failure to read a line. 0: continue. */
static int line_error(struct ftp_session *s, int rc)
{
	switch (rc) {
	case -EMSGSIZE:
		return ftp_session_reply(s, 500, "The line is too long");
	case -EILSEQ:
		return ftp_session_reply(s, 501, "The line contains a NUL");
	case -ECANCELED:
		ftp_session_reply(s, 421, "The server is stopping");
		return err_set(s->e, rc, "ended because the server is stopping");
	case -ETIMEDOUT:
		ftp_session_reply(s, 421, "No command came in time");
		return err_set(s->e, rc, "no command came in time");
	case -EPIPE:
	case -ECONNRESET:
		return err_set(s->e, rc, "the client closed the connection without QUIT");
	default:
		return err_sys(s->e, rc, "cannot read a command");
	}
}

/* ---- the session ---- */

static void session_free(struct ftp_session *s)
{
	data_forget(s);
	ftp_account_clear(&s->account);
	dirs_free(s->dirs);
	free(s->user);
	free(s->cwd);
	free(s->rename_from);
	free(s->stash);
	crypto_wipe(s->agreed.key, sizeof(s->agreed.key));
	crypto_wipe(s->line, sizeof(s->line)); /* it may have held a password */
	free(s);
}

int ftp_serve(const struct ftp_server_config *c, struct mstream *ms, int fd,
	      const struct sockaddr_storage *peer, struct err *e)
{
	struct ftp_session *s = calloc(1, sizeof(*s));
	struct err own = ERR_INIT;
	int rc = 0;

	if (!s)
		return err_nomem(e);
	s->c = c;
	s->e = e ? e : &own;
	s->ms = ms;
	s->fd = fd;
	s->lfd = -1;
	s->login_by = ns_after(c->login_timeout_ms > 0 ? c->login_timeout_ms : LOGIN_MS);
	sockaddr_text(peer, s->peer_text);
	s->has_peer = peer && (peer->ss_family == AF_INET || peer->ss_family == AF_INET6);
	if (s->has_peer)
		s->peer = *peer;
	s->agreed.facts = FACTS_ALL;
	s->agreed.ascii = true; /* RFC 959 §5.1 */
	if (c->handed)
		s->agreed = *c->handed;

	s->dirs = dirs_new(DIRS_OPEN);
	if (!s->dirs) {
		session_free(s);
		return err_nomem(e);
	}

	if (c->trusted || c->handed) {
		rc = c->login(c->arg, NULL, NULL, &s->account, s->e);
		if (rc == 0)
			rc = session_login_done(s);
	}
	if (rc < 0)
		ftp_session_reply(s, 421, "%s", s->e->text);
	else if (!c->handed)
		rc = ftp_session_reply(s, 220, "%s", c->greeting ? c->greeting : "ready");
	while (rc == 0 && !s->quit) {
		ssize_t n = next_line(s);

		rc = n < 0 ? line_error(s, (int)n) : handle_line(s);
	}
	session_free(s);
	return rc;
}
