// SPDX-License-Identifier: Apache-2.0
/* Servers that are no rftpd: reaching them, and what they can do. */
#include "control/client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- reaching ---- */

static int auth_tls(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	int rc = client_send_word(c, "AUTH", "TLS", NULL, e);

	return rc ? rc : client_start_tls(c, cfg, e);
}

int client_connect_foreign(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	int fd = tcp_connect(c->host, c->port, c->wish.fd, c->timeout_ms, e);
	int rc = fd < 0 ? fd : client_open_messages(c, fd, e);

	if (rc < 0)
		return rc;
	client_learn_peer(c);
	if (c->implicit)
		rc = client_shake_hands(c, cfg, e);
	if (rc == 0)
		rc = client_greeting(c, e);
	if (rc == 0 && !c->implicit && !cfg->plain)
		rc = auth_tls(c, cfg, e);
	return rc;
}

/* ---- features ---- */

static const struct {
	const char *name;
	unsigned what;
} features[] = {
	{ "MLST", FTP_HAS_MLST | FTP_HAS_MLSD }, { "SIZE", FTP_HAS_SIZE }, { "MDTM", FTP_HAS_MDTM },
	{ "MFMT", FTP_HAS_MFMT }, { "REST", FTP_HAS_REST }, { "HASH", FTP_HAS_HASH },
	{ "XCRC", FTP_HAS_XCRC }, { "XMD5", FTP_HAS_XMD5 }, { "XSHA", FTP_HAS_XSHA1 },
	{ "XSHA1", FTP_HAS_XSHA1 }, { "XSHA256", FTP_HAS_XSHA256 },
	{ "XSHA512", FTP_HAS_XSHA512 }, { "APPE", FTP_HAS_APPE },
};

/* Of the facts after "MLST" those that we read, as OPTS wants them. */
static void choose_facts(const char *offered, char *out, size_t n)
{
	static const char *const known[] = { "type", "size", "modify", "unix.mode", "unix.uid",
					     "unix.gid", "unix.owner", "unix.group",
					     "unique" };
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (strcasestr(offered, known[i]) && used < n)
			used += (size_t)snprintf(out + used, n - used, "%s;", known[i]);
}

static void take_feature(struct ftp_client *c, const char *line, char *facts, size_t n)
{
	size_t len = strcspn(line, " ;:");

	for (size_t i = 0; i < sizeof(features) / sizeof(features[0]); i++)
		if (strlen(features[i].name) == len && !strncasecmp(line, features[i].name, len))
			c->has |= features[i].what;
	if (len == 4 && !strncasecmp(line, "MLST", 4))
		choose_facts(line + len, facts, n);
	if (len == 4 && !strncasecmp(line, "HASH", 4))
		snprintf(c->digests, sizeof(c->digests), "%s",
			 line + len + strspn(line + len, " "));
}

/* One refusal after the other would only cost time; what is unknown is tried. */
static const unsigned common = FTP_HAS_SIZE | FTP_HAS_MDTM | FTP_HAS_REST | FTP_HAS_APPE |
			       FTP_HAS_CHMOD | FTP_HAS_MDTM_SET | FTP_HAS_UTIME;

static int learn_features(struct ftp_client *c, char *facts, size_t n, struct err *e)
{
	int code = client_word(c, "FEAT", NULL, false, e);
	char *rest = c->reply.text, *line;
	bool utf8 = false;

	if (code < 0)
		return code;
	c->has = common;
	if (code / 100 != 2)
		return 0; /* from before there was FEAT */
	while ((line = strsep(&rest, "\n"))) {
		line += strspn(line, " \t");
		utf8 |= !strncasecmp(line, "UTF8", 4);
		take_feature(c, line, facts, n);
	}
	if (utf8)
		code = client_word(c, "OPTS", "UTF8 ON", false, e); /* refused or not */
	return code < 0 ? code : 0;
}

void client_say_old(struct ftp_client *c, const char *verb, int code)
{
	if (ftp_say_once(c, FTP_SAID_MLST))
		log_warn("%s offers machine listings but answers %s with %d: it is asked by LIST "
			 "and the like", c->host, verb, code);
}

/* ---- how data goes ---- */

/* Never weaker than what was asked for. */
static int protect_data(struct ftp_client *c, bool clear, struct err *e)
{
	int code;

	if (!c->tls)
		return 0;
	code = client_word(c, "PBSZ", "0", false, e);
	if (code >= 0)
		code = client_word(c, "PROT", clear ? "C" : "P", false, e);
	if (code < 0)
		return code;
	if (code / 100 == 2) {
		c->prot_p = !clear;
		return 0;
	}
	if (clear)
		return err_set(e, -EPROTONOSUPPORT, "%s wants data protected (%d %s): leave --prot "
			       "clear away", c->host, code, printable(c->reply.text));
	return err_set(e, -EPROTONOSUPPORT, "%s does not protect data (%d %s); --prot clear goes "
		       "on with files and listings in clear", c->host, code,
		       printable(c->reply.text));
}

/* ---- where the login starts ---- */

/* The path between the quotes (RFC 959, appendix II), in place; NULL: there is none. */
static char *quoted_path(char *text)
{
	char *from = text ? strchr(text, '"') : NULL, *out = from;

	for (char *in = from ? from + 1 : NULL; in && *in; in++) {
		if (in[0] == '"' && in[1] != '"') {
			*out = '\0';
			return from;
		}
		in += *in == '"';
		*out++ = *in;
	}
	return NULL;
}

static int learn_home(struct ftp_client *c, struct err *e)
{
	int code = client_word(c, "PWD", NULL, false, e);
	const char *path;

	if (code < 0)
		return code;
	if (code / 100 != 2)
		return client_refused(c, e);
	path = quoted_path(c->reply.text);
	/* Without one there are no paths that can be put together: VMS, for one. */
	if (!path || *path != '/' || strpbrk(path, "\r\n"))
		return err_set(e, -EPROTO, "%s has no paths with slashes: it answers PWD with "
			       "\"%s\"", c->host, printable(path ? path : c->reply.text));
	c->home = strdup(path);
	return c->home ? 0 : err_sys(e, -ENOMEM, "paths");
}

int client_learn(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	char facts[128] = "", opts[160];
	int rc = learn_features(c, facts, sizeof(facts), e);

	if (rc == 0 && *facts) {
		snprintf(opts, sizeof(opts), "MLST %s", facts);
		rc = client_word(c, "OPTS", opts, false, e);
	}
	if (rc >= 0)
		rc = protect_data(c, cfg->data_clear, e);
	if (rc == 0)
		rc = client_word(c, "TYPE", "I", false, e);
	if (rc >= 0 && rc / 100 != 2)
		rc = client_refused(c, e);
	return rc < 0 ? rc : learn_home(c, e);
}

/* ---- paths ---- */

char *client_absolute(const struct ftp_client *c, const char *path)
{
	const char *home = c->home;
	char *out;
	size_t n;

	if (path[0] == '~' && (path[1] == '/' || !path[1]))
		path += 1 + strspn(path + 1, "/");
	else if (*path == '/')
		home = "";
	while (path[0] == '.' && path[1] == '/')
		path += 1 + strspn(path + 1, "/");
	if (!strcmp(path, "."))
		path = "";
	n = strlen(home);
	if (asprintf(&out, "%s%s%s", home, n && home[n - 1] != '/' && *path ? "/" : "", path) < 0)
		return NULL;
	for (n = strlen(out); n > 1 && out[n - 1] == '/'; n--)
		out[n - 1] = '\0';
	return out;
}
