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

/* The entry being read. */
struct entry {
	bool fits;
	struct login login;
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

/* Does what has been read so far answer the question? An entry without a login is for
 * whoever asks. */
static bool answers(const struct entry *n, const char *user)
{
	return n->fits && (!user || !n->login.user || !strcmp(n->login.user, user)) &&
	       (n->login.user || n->login.password);
}

static int take_machine(struct reader *r, struct entry *n, const char *host)
{
	int rc = next_token(r, false);

	if (rc <= 0)
		return -EINVAL;
	n->fits = !strcasecmp(r->token, host);
	return 0;
}

/* One word and what belongs to it. 1: the entry before it was the one. */
static int take_word(struct reader *r, struct entry *n, const char *host, const char *user)
{
	char *ignored = NULL;
	bool begins = !strcmp(r->token, "machine") || !strcmp(r->token, "default");
	int rc;

	if (begins && answers(n, user))
		return 1;
	if (begins)
		login_clear(&n->login);
	if (!strcmp(r->token, "machine"))
		return take_machine(r, n, host);
	if (!strcmp(r->token, "default")) {
		n->fits = true;
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

int netrc_parse(const char *name, const char *text, const char *host, const char *user,
		struct login *l, struct err *e)
{
	struct reader r = { .at = text, .line = 1 };
	struct entry n = { 0 };
	int rc;

	memset(l, 0, sizeof(*l));
	do {
		rc = next_token(&r, true);
		if (rc == 0)
			break;
		if (rc > 0)
			rc = take_word(&r, &n, host, user);
	} while (rc == 0);
	explicit_bzero(r.token, sizeof(r.token));
	if (rc < 0) {
		login_clear(&n.login);
		/* Not the word itself: it may be a part of a password. */
		return err_set(e, rc, "%s:%u: makes no sense there", printable(name), r.line);
	}
	if (rc == 0 && !answers(&n, user)) {
		login_clear(&n.login);
		return 0;
	}
	*l = n.login;
	return 1;
}

/* Passwords that others may read are not used, so that the owner notices. */
static int check_mode(const char *file, struct err *e)
{
	struct stat st;

	if (stat(file, &st) < 0)
		return errno == ENOENT ? -ENOENT :
			err_sys(e, -errno, "cannot read %s", printable(file));
	if (st.st_mode & 077)
		return err_set(e, -EACCES, "%s is not used: others may read it (chmod 600 %s)",
			       printable(file), printable(file));
	return 0;
}

int netrc_find(const char *file, const char *host, const char *user, struct login *l,
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
	rc = netrc_parse(file, text, host, user, l, e);
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
