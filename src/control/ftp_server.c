// SPDX-License-Identifier: Apache-2.0
/* The server half's loop: wait for a command, look it up, ask its handler. */
#include "control/session.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
	LOGIN_MS = 60 * 1000,
	IDLE_MS = 15 * 60 * 1000,
	SLICE_MS = 500,           /* how late the server's stop may be seen */
	LOOK_NS = 100 * 1000000,  /* between looks for ABOR */
	DIRS_OPEN = 16,
};

/* NULL: not implemented. */
static ftp_handler *const handlers[FTP_VERBS] = {
	[FTP_USER] = cmd_user, [FTP_PASS] = cmd_pass, [FTP_AUTH] = cmd_auth,
	[FTP_PBSZ] = cmd_pbsz, [FTP_PROT] = cmd_prot, [FTP_FEAT] = cmd_feat,
	[FTP_OPTS] = cmd_opts, [FTP_SYST] = cmd_syst, [FTP_TYPE] = cmd_type,
	[FTP_MODE] = cmd_mode, [FTP_STRU] = cmd_stru, [FTP_ALLO] = cmd_allo,
	[FTP_PWD] = cmd_pwd,   [FTP_CWD] = cmd_cwd,   [FTP_CDUP] = cmd_cdup,
	[FTP_EPSV] = cmd_epsv, [FTP_PASV] = cmd_pasv, [FTP_PORT] = cmd_port,
	[FTP_EPRT] = cmd_eprt,
	[FTP_RETR] = cmd_retr, [FTP_STOR] = cmd_stor, [FTP_APPE] = cmd_appe,
	[FTP_REST] = cmd_rest, [FTP_SIZE] = cmd_size, [FTP_MDTM] = cmd_mdtm,
	[FTP_MFMT] = cmd_mfmt, [FTP_HASH] = cmd_hash,
	[FTP_MLSD] = cmd_mlsd, [FTP_MLST] = cmd_mlst,
	[FTP_LIST] = cmd_list, [FTP_NLST] = cmd_nlst, [FTP_STAT] = cmd_stat,
	[FTP_MKD] = cmd_mkd,   [FTP_RMD] = cmd_rmd,   [FTP_DELE] = cmd_dele,
	[FTP_RNFR] = cmd_rnfr, [FTP_RNTO] = cmd_rnto, [FTP_SITE] = cmd_site,
	[FTP_ABOR] = cmd_abor, [FTP_NOOP] = cmd_noop, [FTP_HELP] = cmd_help,
	[FTP_QUIT] = cmd_quit, [FTP_BULK] = cmd_bulk, [FTP_RMDA] = cmd_rmda,
	[FTP_LANE] = cmd_lanes, [FTP_GIVE] = cmd_give, [FTP_TAKE] = cmd_take,
};

/* ---- replies ---- */

int ftp_session_reply(struct ftp_session *s, int code, const char *fmt, ...)
{
	CLEANUP_BUF struct buf *out = buf_new(FTP_REPLY_MAX);
	CLEANUP_FREE char *text = NULL;
	va_list ap;
	int rc;

	if (s->running && !ftp_command_answers(s->running, code))
		log_warn("%s: %d is no reply to %s", s->peer_text, code, s->running->name);
	va_start(ap, fmt);
	rc = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (rc < 0) {
		text = NULL;
		return err_sys(s->e, -ENOMEM, "reply");
	}
	rc = out ? ftp_reply_format(out, code, text) : -ENOMEM;
	if (rc == 0)
		rc = ms_write(s->ms, buf_ptr(out), buf_len(out));
	return rc < 0 ? err_sys(s->e, rc, "cannot send a reply") : 0;
}

static int errno_reply_code(int rc)
{
	switch (rc) {
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return 552;
	case -EBUSY:
		return 450;
	case -EIO:
	case -ENOMEM:
		return 451;
	case -ENAMETOOLONG:
	case -EILSEQ:
		return 553;
	default:
		return 550;
	}
}

/* code, or the nearest that the command may be answered with. */
static int fitting_code(const struct ftp_session *s, int code)
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

int session_reply_errno(struct ftp_session *s, int rc, const char *path)
{
	/* The client finds the errno by these words. */
	return session_reply_about(s, fitting_code(s, errno_reply_code(rc)), path, root_why(rc));
}

/* ---- rights ---- */

const char *ftp_account_refuses(const struct ftp_account *a, enum ftp_needs needs)
{
	switch (needs) {
	case FTP_NEEDS_NOTHING:
	case FTP_NEEDS_DEPENDS:
		return NULL;
	case FTP_NEEDS_SEE:
		return a->can_see ? NULL : "Permission denied: this account may only upload";
	case FTP_NEEDS_CREATE:
		return a->can_create ? NULL : "Permission denied: this account may only read";
	case FTP_NEEDS_CHANGE:
		if (a->can_change)
			return NULL;
		return a->can_create ? "Permission denied: this account may not change what exists" :
				       "Permission denied: this account may only read";
	default:
		return "Permission denied: no right covers this command";
	}
}

int session_check(struct ftp_session *s, enum ftp_needs needs)
{
	const char *why = ftp_account_refuses(&s->account, needs);
	int rc;

	if (!why)
		return 0;
	/* What was set up for the refused command is not for the next one. */
	if (ftp_command_answers(s->running, 150)) {
		data_forget(s);
		s->rest = 0;
	}
	rc = ftp_session_reply(s, fitting_code(s, 550), "%s", why);
	return rc < 0 ? rc : 1;
}

/* ---- paths in commands ---- */

char *session_name(struct ftp_session *s, const char *path)
{
	char *name;

	if (s->percent)
		return percent_encode(path);
	name = strdup(path);
	for (char *p = name; p && *p; p++)
		if (*p == '\r' || *p == '\n')
			*p = '?';
	return name;
}

char *session_arg_path(struct ftp_session *s, const char *arg)
{
	CLEANUP_FREE char *decoded = NULL;
	char *path;

	if (s->percent && percent_decode(arg, &decoded) < 0) {
		ftp_session_reply(s, 501, "A name with a broken percent-encoding");
		return NULL;
	}
	path = ftp_session_path(s, decoded ? decoded : arg);
	if (!path)
		ftp_session_reply(s, 451, "Out of memory");
	return path;
}

/* A part belongs to the transfer that writes it. A link put at its name by another client
 * could lead that transfer's calls elsewhere. */
char *session_change_path(struct ftp_session *s, const char *arg)
{
	CLEANUP_FREE char *path = session_arg_path(s, arg);

	if (!path || !part_in_path(path))
		return steal_ptr(&path);
	session_reply_about(s, fitting_code(s, 550), path, PART_NAME_WHY);
	return NULL;
}

/* ---- for handlers ---- */

struct mstream *ftp_session_stream(struct ftp_session *s)
{
	return s->ms;
}

const struct ftp_account *ftp_session_account(struct ftp_session *s)
{
	return s->logged_in ? &s->account : NULL;
}

const char *ftp_session_cwd(struct ftp_session *s)
{
	return s->cwd;
}

unsigned ftp_session_lanes(const struct ftp_session *s)
{
	return s->whole ? s->lanes : 1;
}

char *ftp_session_path(struct ftp_session *s, const char *arg)
{
	return ftp_path_resolve(s->cwd, s->account.home, arg);
}

/* ---- login ---- */

int session_login_done(struct ftp_session *s)
{
	s->cwd = ftp_path_resolve("/", "/", s->account.home);
	if (!s->cwd)
		return err_sys(s->e, -ENOMEM, "login");
	s->logged_in = true;
	return 0;
}

int session_login_trusted(struct ftp_session *s)
{
	int rc = s->c->login(s->c->arg, NULL, NULL, &s->account, s->e);

	return rc < 0 ? rc : session_login_done(s);
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

void session_pause(struct ftp_session *s, int ms)
{
	uint64_t end = now_ns() + (uint64_t)ms * 1000000;

	while (!session_stopping(s) && now_ns() < end)
		poll(NULL, 0, ms < SLICE_MS ? ms : SLICE_MS);
}

/* The next command, however long it takes to come: in slices, to see the server's stop.
 * A line that came during a transfer comes first. */
static ssize_t next_line(struct ftp_session *s)
{
	uint64_t end = now_ns() + (uint64_t)session_idle_ms(s) * 1000000;
	ssize_t n = -ETIMEDOUT;

	if (s->stash) {
		n = stpcpy(s->line, s->stash) - s->line;
		free(steal_ptr(&s->stash));
		return n;
	}
	if (!s->logged_in)
		end = s->login_by;
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

	/* With a command waiting there is nothing more to learn: it must be run first. */
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

/* ---- commands ---- */

/* Is followed by bytes that are no command? Who refuses it must read them, or end. */
static bool has_body(enum ftp_verb v)
{
	return v == FTP_BULK || v == FTP_GIVE || v == FTP_TAKE;
}

static int run_command(struct ftp_session *s, const struct ftp_command *cmd, char *arg)
{
	int rc;

	/* RNTO must follow RNFR at once (RFC 959 §4.1.3). */
	if (cmd->verb != FTP_RNTO)
		free(steal_ptr(&s->rename_from));
	if (s->whole && cmd->verb != FTP_BULK && cmd->verb != FTP_NOOP &&
	    cmd->verb != FTP_QUIT) {
		s->quit |= has_body(cmd->verb);
		return ftp_session_reply(s, 503, "A lane is for BULK");
	}
	if (!handlers[cmd->verb])
		return ftp_session_reply(s, 502, "%s is not done here", cmd->name);
	/* What has a body looks for itself: that must be read whatever is answered. */
	if (cmd->login && !s->logged_in && !has_body(cmd->verb))
		return ftp_session_reply(s, 530, "Log in first, with USER and PASS");
	s->running = cmd;
	rc = session_check(s, cmd->needs);
	if (!rc)
		rc = handlers[cmd->verb](s, arg);
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

	/* Others would take it for the end of a line, in a listing at the latest. */
	if (cr)
		rc = -EINVAL;
	if (rc < 0) /* nor may a broken command come between */
		free(steal_ptr(&s->rename_from));
	if (rc == -ENOSYS || (rc < 0 && !cmd))
		return ftp_session_reply(s, 500, "Not a command of this server; HELP lists them");
	/* Without the length of its body there is no way to find the next command. */
	if (rc < 0 && has_body(cmd->verb))
		s->quit = true;
	if (cr)
		return ftp_session_reply(s, 501, "The line holds a CR; by OPTS NAMES PERCENT "
					 "a name may have %%0D");
	if (rc < 0)
		return ftp_session_reply(s, 501, "Syntax: %s", cmd->syntax);
	return run_command(s, cmd, arg ? arg : empty);
}

/* What a line that could not be had means: 0: answered, go on. */
static int line_error(struct ftp_session *s, int rc)
{
	switch (rc) {
	case -EMSGSIZE:
		return ftp_session_reply(s, 500, "The line is too long");
	case -EILSEQ:
		return ftp_session_reply(s, 501, "The line holds a NUL");
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

int session_commands(struct ftp_session *s)
{
	int rc = 0;

	while (rc == 0 && !s->quit) {
		ssize_t n = next_line(s);

		if (n < 0)
			rc = line_error(s, (int)n);
		else
			rc = handle_line(s);
	}
	return rc;
}

/* ---- the session ---- */

static void describe_peer(struct ftp_session *s, const struct sockaddr_storage *peer)
{
	char addr[INET6_ADDRSTRLEN] = "";

	snprintf(s->peer_text, sizeof(s->peer_text), "stdio");
	if (!peer)
		return;
	s->peer = *peer;
	if (peer->ss_family == AF_INET) {
		const struct sockaddr_in *a = (const struct sockaddr_in *)peer;

		inet_ntop(AF_INET, &a->sin_addr, addr, sizeof(addr));
		snprintf(s->peer_text, sizeof(s->peer_text), "%s:%u", addr, ntohs(a->sin_port));
		s->has_peer = true;
	} else if (peer->ss_family == AF_INET6) {
		const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)peer;

		inet_ntop(AF_INET6, &a->sin6_addr, addr, sizeof(addr));
		snprintf(s->peer_text, sizeof(s->peer_text), "[%s]:%u", addr,
			 ntohs(a->sin6_port));
		s->has_peer = true;
	}
}

void ftp_account_clear(struct ftp_account *a)
{
	root_free(steal_ptr(&a->root));
	free(steal_ptr(&a->home));
}

static void session_free(struct ftp_session *s)
{
	data_forget(s);
	ftp_account_clear(&s->account);
	dirs_free(s->dirs);
	free(s->user);
	free(s->cwd);
	free(s->rename_from);
	free(s->stash);
	crypto_wipe(s->line, sizeof(s->line)); /* a password may have been there */
	free(s);
}

static struct ftp_session *session_new(const struct ftp_server_config *c, struct mstream *ms,
				       int fd, const struct sockaddr_storage *peer,
				       struct err *e)
{
	struct ftp_session *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->c = c;
	s->e = e;
	s->ms = ms;
	s->fd = fd;
	s->lfd = -1;
	s->facts = FACTS_ALL;
	s->hash = digest_names()[0];
	s->ascii = true; /* RFC 959 §5.1 */
	s->login_by = now_ns() +
		(uint64_t)(c->login_timeout_ms > 0 ? c->login_timeout_ms : LOGIN_MS) * 1000000;
	describe_peer(s, peer);
	if (c->handed)
		session_take_over(s);
	s->dirs = dirs_new(DIRS_OPEN);
	if (!s->dirs) {
		session_free(s);
		return NULL;
	}
	return s;
}

int ftp_serve(const struct ftp_server_config *c, struct mstream *ms, int fd,
	      const struct sockaddr_storage *peer, struct err *e)
{
	struct err own = ERR_INIT;
	struct ftp_session *s = session_new(c, ms, fd, peer, e ? e : &own);
	int rc;

	if (!s)
		return err_sys(e, -ENOMEM, "session");
	rc = c->trusted || c->handed ? session_login_trusted(s) : 0;
	if (rc < 0)
		ftp_session_reply(s, 421, "%s", s->e->text);
	else if (!c->handed)
		rc = ftp_session_reply(s, 220, "%s", c->greeting ? c->greeting : "ready");
	if (rc == 0)
		rc = session_commands(s);
	session_free(s);
	return rc;
}
