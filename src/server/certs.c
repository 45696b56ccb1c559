// SPDX-License-Identifier: Apache-2.0
/* Reads the map of certificates. */
#include "server/certs.h"
#include "server/users.h"
#include "crypto/crypto.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BLANKS " \t"

enum {
	FILE_MAX = 16 << 20,
	NAME_LEN_MAX = 63,
};

void cert_line_clear(struct cert_line *c)
{
	free(c->pin);
	free(c->subject);
	free(c->user);
	memset(c, 0, sizeof(*c));
}

/* ---- one line ---- */

/* What stands in quotes at *rest, which is then behind them. A backslash and what follows it stay
 * as they are: so subjects are written. */
static char *quoted(char **rest)
{
	char *from = *rest, *p;

	if (*from++ != '"')
		return NULL;
	for (p = from; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	if (!*p)
		return NULL;
	*p = '\0';
	*rest = p + 1;
	return from;
}

/* The word at *rest, which is then behind it and at the next. */
static char *word(char **rest)
{
	char *from = *rest;
	size_t n = strcspn(from, BLANKS);

	*rest = from + n + strspn(from + n, BLANKS);
	from[n] = '\0';
	return from;
}

static int parse_who(char **rest, char **pin, char **subject, struct err *e)
{
	char *first = word(rest);

	if (strcmp(first, "subject")) {
		*pin = first;
		return tls_is_pin(first) ? 0 :
		       err_set(e, -EINVAL, "\"%s\" is neither the word subject nor the pin of a key, "
			       "as in SHA256:...", printable(first));
	}
	*subject = quoted(rest);
	if (!*subject || !**subject)
		return err_set(e, -EINVAL, "the subject is not in quotes, or is empty");
	if (!**rest || !strchr(BLANKS, **rest))
		return err_set(e, -EINVAL, "there is no user behind the subject");
	*rest += strspn(*rest, BLANKS);
	return 0;
}

static int fill(struct cert_line *c, const char *pin, const char *subject, const char *user,
		struct err *e)
{
	c->pin = pin ? strdup(pin) : NULL;
	c->subject = subject ? strdup(subject) : NULL;
	c->user = strdup(user);
	if ((c->pin || c->subject) && c->user)
		return 1;
	cert_line_clear(c);
	return err_sys(e, -ENOMEM, "certificates");
}

int cert_line_parse(const char *line, struct cert_line *c, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(line);
	char *rest = copy, *pin = NULL, *subject = NULL, *user;
	int rc;

	memset(c, 0, sizeof(*c));
	if (!copy)
		return err_sys(e, -ENOMEM, "certificates");
	copy[strcspn(copy, "\r\n")] = '\0';
	rest += strspn(rest, BLANKS);
	if (!*rest || *rest == '#')
		return 0;
	rc = parse_who(&rest, &pin, &subject, e);
	if (rc < 0)
		return rc;
	user = word(&rest);
	if (!*user || strlen(user) > NAME_LEN_MAX)
		return err_set(e, -EINVAL, "the user's name is missing, or longer than %d bytes",
			       NAME_LEN_MAX);
	if (*rest)
		return err_set(e, -EINVAL, "\"%s\" is behind the user's name", printable(rest));
	return fill(c, pin, subject, user, e);
}

/* ---- the file ---- */

/* Calls fn for each entry, until it returns other than 0; then that. A bad line ends it when
 * strict; otherwise it must not lock out those behind it. */
static int each_line(const char *file, bool strict,
		     int (*fn)(void *arg, const struct cert_line *c, struct err *e), void *arg,
		     struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	int rc = read_file(file, FILE_MAX, &text, NULL);
	char *rest = text, *next;
	struct cert_line c;
	unsigned line = 0;

	if (rc < 0)
		return err_sys(e, rc, "certificates %s", printable(file));
	for (rc = 0; rc == 0 && (next = strsep(&rest, "\n")); ) {
		struct err why = ERR_INIT;

		line++;
		rc = cert_line_parse(next, &c, &why);
		if (rc > 0)
			rc = fn(arg, &c, &why);
		cert_line_clear(&c);
		if (rc < 0 && strict)
			err_set(e, rc, "%s:%u: %s", printable(file), line, why.text);
		if (rc < 0 && !strict) {
			log_warn("%s:%u: %s", printable(file), line, why.text);
			rc = 0;
		}
	}
	return rc;
}

struct shown {
	const char *pin, *subject, *user;
};

static int is_allowed(void *arg, const struct cert_line *c, struct err *e)
{
	const struct shown *s = arg;

	if (strcmp(c->user, s->user))
		return 0;
	return (c->pin && s->pin && !strcmp(c->pin, s->pin)) ||
	       (c->subject && s->subject && !strcmp(c->subject, s->subject));
}

int certs_allow(const char *file, const char *pin, const char *subject, const char *user,
		struct err *e)
{
	struct shown s = { pin, subject, user };

	return each_line(file, false, is_allowed, &s, e);
}

static int check_line(void *arg, const struct cert_line *c, struct err *e)
{
	const bool *have_ca = arg;

	if (c->subject && !*have_ca)
		return err_set(e, -EINVAL, "a subject is worth nothing without --ca");
	return 0;
}

int certs_verify(const char *file, bool have_ca, struct err *e)
{
	int rc = owner_writes("certificates", file, e);

	return rc < 0 ? rc : each_line(file, true, check_line, &have_ca, e);
}
