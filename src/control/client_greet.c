// SPDX-License-Identifier: Apache-2.0
/* Is it FTP that is spoken at the other end? */
#include "control/client.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

enum { PEEK_BYTES = 64 };

/* What speaks first with these bytes, and what to say of it. */
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

static int not_ftp(struct ftp_client *c, const char *text, size_t len, struct err *e)
{
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (len >= others[i].len && !memcmp(text, others[i].start, others[i].len))
			return err_set(e, -EPROTO, "%s port %u %s", c->host, c->port,
				       others[i].what);
	return err_set(e, -EPROTO, "%s port %u does not speak FTP (it sent \"%s\")", c->host,
		       c->port, printable(text));
}

static const char *right_port(const struct ftp_client *c)
{
	return c->foreign ? "an FTP server's port, without TLS (ftps:// is for those with it)" :
	       "rftpd's port";
}

/* Without taking bytes off the socket: some peers never send a line. */
static int look(struct ftp_client *c, struct err *e)
{
	char text[PEEK_BYTES + 1];
	ssize_t n;
	int rc = poll_fd(c->fd, POLLIN, c->timeout_ms);

	if (rc == 0)
		return err_set(e, -ETIMEDOUT, "%s port %u took the connection but said nothing "
			       "within %g s: is it %s?", c->host, c->port,
			       c->timeout_ms / 1000.0, right_port(c));
	n = rc < 0 ? rc : recv(c->fd, text, PEEK_BYTES, MSG_PEEK | MSG_DONTWAIT);
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return err_set(e, -ECONNRESET, "%s port %u closed the connection without a word: "
			       "is it %s?", c->host, c->port, right_port(c));
	if (n < 0)
		return err_sys(e, rc < 0 ? rc : -errno, "%s port %u", c->host, c->port);
	text[n] = '\0';
	text[strcspn(text, "\r\n")] = '\0';
	return text[0] >= '1' && text[0] <= '5' ? 0 : not_ftp(c, text, (size_t)n, e);
}

int client_greeting(struct ftp_client *c, struct err *e)
{
	/* Below TLS there is nothing to be seen. */
	int code, rc = c->ssh || c->tls ? 0 : look(c, e);

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
