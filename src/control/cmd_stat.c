// SPDX-License-Identifier: Apache-2.0
/* STAT (RFC 959 §4.1.3): how the session stands, how far a transfer is, or a listing. */
#include "control/session.h"

#include <inttypes.h>
#include <stdio.h>

static const char *data_text(const struct ftp_session *s)
{
	if (s->lfd >= 0)
		return "the client may connect";
	if (s->dial.ss_family != AF_UNSPEC)
		return "the server will connect";
	return "none";
}

static int reply_state(struct ftp_session *s)
{
	CLEANUP_FREE char *cwd = session_name(s, s->cwd);

	return ftp_session_reply(s, 211, "This session:\n From %s, logged in as %s\n"
				 " Directory: %s\n Control connection: %s\n"
				 " TYPE: %s; MODE: Stream; STRU: File; PROT: %s\n"
				 " Data connection: %s\nThat is all", s->peer_text,
				 s->account.name, cwd ? cwd : "",
				 session_under_tls(s) ? "TLS" : s->c->trusted ? "trusted" : "in clear",
				 s->ascii ? "ASCII Non-print" : "Image",
				 s->prot_p ? "P" : "C", data_text(s));
}

int cmd_stat(struct ftp_session *s, char *arg)
{
	int rc = *arg ? session_check(s, FTP_NEEDS_SEE) : 0;

	if (rc)
		return rc < 0 ? rc : 0;
	return *arg ? session_stat_path(s, arg) : reply_state(s);
}

/* The command under way goes on, and its own reply follows at its end. */
int session_reply_progress(struct ftp_session *s)
{
	const struct ftp_command *running = s->running;
	double seconds = (double)(now_ns() - s->began) / 1e9;
	int rc;

	s->running = ftp_command_of(FTP_STAT);
	if (s->data)
		rc = ftp_session_reply(s, 211, "%s: %" PRIu64 " bytes in %.1f s so far",
				       running ? running->name : "data", s->moved, seconds);
	else
		rc = ftp_session_reply(s, 211, "%s: no data connection yet",
				       running ? running->name : "data");
	s->running = running;
	return rc;
}
