// SPDX-License-Identifier: Apache-2.0
/* Looks passwords up in files like ~/.netrc. */
#include "client/passwords.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define NETRC_MAX (1u << 20)
#define TOKEN_MAX 1024

struct reader {
	const char *at;
	unsigned line;
	char token[TOKEN_MAX];
};

void login_clear(struct login *l)
{
	if (l->password)
		explicit_bzero(l->password, strlen(l->password));
	free(l->user);
	free(l->password);
	memset(l, 0, sizeof(*l));
}

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_line(struct reader *r)
{
	r->at += strcspn(r->at, "\n");
}

/* Past blanks, and comments where there may be any: a password may begin with "#". */
static void skip_space(struct reader *r, bool comments)
{
	for (; is_space(*r->at) || (comments && *r->at == '#'); r->at++) {
		if (*r->at == '#')
			skip_line(r);
		if (*r->at == '\0')
			return;
		r->line += *r->at == '\n';
	}
}

/* The next word: up to a blank, or in quotes with \ before what is meant as it is.
 * 1; 0 at the end; -EINVAL: quotes that do not end, or a word too long. */
static int next_token(struct reader *r, bool comments)
{
	bool quoted;
	size_t n = 0;

	skip_space(r, comments);
	if (!*r->at)
		return 0;
	quoted = *r->at == '"';
	r->at += quoted;
	for (;; r->at++) {
		if (*r->at == '\0' || (quoted ? *r->at == '"' : is_space(*r->at)))
			break;
		if (quoted && *r->at == '\\' && r->at[1])
			r->at++;
		if (n == sizeof(r->token) - 1)
			return -EINVAL;
		r->token[n++] = *r->at;
	}
	if (quoted && *r->at != '"')
		return -EINVAL;
	r->at += quoted;
	r->token[n] = '\0';
	return 1;
}

/* A macro goes to the next empty line. */
static void skip_macro(struct reader *r)
{
	const char *end = strstr(r->at, "\n\n");

	for (; *r->at && r->at != end; r->at++)
		r->line += *r->at == '\n';
}

/* How well an entry fits the server, best last. */
enum fit { FIT_NONE, FIT_DEFAULT, FIT_HOST, FIT_PORT };

struct search {
	const struct netrc_server *server;
	enum fit now; /* of the entry being read */
	struct login login;
	bool names_port; /* an entry names a port of the host */
	struct login found[FIT_PORT + 1];
};

static int take_value(struct reader *r, char **out)
{
	int rc = next_token(r, false);

	if (rc <= 0)
		return -EINVAL;
	free(*out);
	*out = strdup(r->token);
	return *out ? 0 : -ENOMEM;
}

/* Keep the entry that ends here if it is the first that fits so well. One without a login is for
 * any user. */
static void keep_entry(struct search *n)
{
	const char *user = n->server->user;
	struct login *l = &n->login, *best = &n->found[n->now];

	if (n->now != FIT_NONE && !best->user && !best->password &&
	    (!user || !l->user || !strcmp(l->user, user))) {
		*best = *l;
		memset(l, 0, sizeof(*l));
	}
	login_clear(l);
	n->now = FIT_NONE;
}

/* "host", "[host]", "host:port" or "[host]:port"; an IPv6 address with a port has brackets. */
static enum fit machine_fit(struct search *n, const char *word)
{
	const char *host = n->server->host;
	size_t len = strlen(host), bracket = *word == '[';
	uint64_t port;

	if (strncasecmp(word + bracket, host, len) || (bracket && word[1 + len] != ']'))
		return FIT_NONE;
	word += len + 2 * bracket;
	if (!*word)
		return FIT_HOST;
	if (*word != ':' || (!bracket && strchr(host, ':')) || parse_uint(word + 1, 1, UINT16_MAX, &port))
		return FIT_NONE;
	n->names_port = true;
	return port == n->server->port ? FIT_PORT : FIT_NONE;
}

/* One word and those that belong to it. */
static int take_word(struct reader *r, struct search *n)
{
	char *ignored = NULL;
	int rc;

	if (!strcmp(r->token, "machine")) {
		keep_entry(n);
		rc = next_token(r, false);
		n->now = rc > 0 ? machine_fit(n, r->token) : FIT_NONE;
		return rc > 0 ? 0 : -EINVAL;
	}
	if (!strcmp(r->token, "default")) {
		keep_entry(n);
		n->now = FIT_DEFAULT;
		return 0;
	}
	if (!strcmp(r->token, "login"))
		return take_value(r, &n->login.user);
	if (!strcmp(r->token, "password"))
		return take_value(r, &n->login.password);
	if (!strcmp(r->token, "macdef")) {
		skip_macro(r);
		return 0;
	}
	if (strcmp(r->token, "account"))
		return -EINVAL;
	rc = take_value(r, &ignored);
	free(ignored);
	return rc;
}

/* Once the file names a port of the host, an entry without one is for the default port only;
 * "default" is for users that were named. */
static bool applies(const struct search *n, enum fit fit)
{
	const struct netrc_server *s = n->server;

	if (!n->found[fit].user && !n->found[fit].password)
		return false;
	return fit == FIT_PORT || (fit == FIT_HOST && (s->is_default_port || !n->names_port)) ||
	       (fit == FIT_DEFAULT && s->user);
}

int netrc_parse(const char *name, const char *text, const struct netrc_server *server,
		struct login *l, struct err *e)
{
	struct reader r = { .at = text, .line = 1 };
	struct search n = { .server = server };
	int rc;

	memset(l, 0, sizeof(*l));
	do {
		rc = next_token(&r, true);
		if (rc > 0)
			rc = take_word(&r, &n) ?: 1;
	} while (rc > 0);
	explicit_bzero(r.token, sizeof(r.token));
	keep_entry(&n);
	for (enum fit fit = FIT_PORT; fit > FIT_NONE && !rc; fit--) {
		if (applies(&n, fit)) {
			*l = n.found[fit];
			memset(&n.found[fit], 0, sizeof(*l));
			rc = 1;
		}
	}
	for (enum fit fit = FIT_DEFAULT; fit <= FIT_PORT; fit++)
		login_clear(&n.found[fit]);
	/* Not the word itself: it may be a part of a password. */
	return rc >= 0 ? rc : err_set(e, rc, "%s:%u: makes no sense there", printable(name), r.line);
}

/* Passwords that others may read are not used, so that the owner notices. */
static int check_mode(const char *file, struct err *e)
{
	struct stat st;

	if (stat(file, &st) < 0)
		return errno == ENOENT ? -ENOENT :
			err_sys(e, -errno, "cannot read %s", printable(file));
	/* /dev/null is no password file, and a pipe is from the shell that made it. */
	if (S_ISREG(st.st_mode) && (st.st_mode & 077))
		return err_set(e, -EACCES, "%s is not used: others may read it (chmod 600 %s)",
			       printable(file), printable(file));
	return 0;
}

int netrc_find(const char *file, const struct netrc_server *server, struct login *l,
	       struct err *e)
{
	char *text = NULL;
	int rc = check_mode(file, e);

	memset(l, 0, sizeof(*l));
	if (rc)
		return rc;
	rc = read_file(file, NETRC_MAX, &text, NULL);
	if (rc)
		return err_sys(e, rc, "cannot read %s", printable(file));
	rc = netrc_parse(file, text, server, l, e);
	explicit_bzero(text, strlen(text));
	free(text);
	return rc;
}

char *netrc_default(void)
{
	const char *home = getenv("HOME");
	char *file;

	return home && *home && asprintf(&file, "%s/.netrc", home) >= 0 ? file : NULL;
}
