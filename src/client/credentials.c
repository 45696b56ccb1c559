// SPDX-License-Identifier: Apache-2.0
/* The file of known servers, and logins in a netrc. */
#include "client/credentials.h"

#include <fcntl.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>

#define KNOWN_HOSTS_MAX (16u << 20)
#define NETRC_MAX (1u << 20)
#define TOKEN_MAX 1024

/* ---- known servers ---- */

char *known_hosts_name(const char *host, uint16_t port)
{
	char *name;
	int n = asprintf(&name, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, port);

	return n < 0 ? NULL : name;
}

/* Read the whole file; "" if it is missing. *text is malloc'd. 0, or a negative errno with text. */
static int known_hosts_read(const char *file, char **text, struct err *e)
{
	int rc = read_file(file, KNOWN_HOSTS_MAX, text, NULL);

	if (rc == -ENOENT) {
		*text = strdup("");
		rc = *text ? 0 : -ENOMEM;
	}
	return rc ? err_path(e, rc, file, CANNOT_READ) : 0;
}

int known_hosts_check(const char *file, const char *host, uint16_t port, const char *pin,
		      struct known_answer *a, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *name = known_hosts_name(host, port);
	static const char blank[] = " \t\r";
	char *rest, *line, *words, *known_name, *known_pin;
	unsigned number = 0;
	int rc;

	memset(a, 0, sizeof(*a));
	if (!name)
		return err_sys(e, -ENOMEM, "%s", printable(host));
	rc = known_hosts_read(file, &text, e);
	if (rc)
		return rc;

	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		number++;
		line += strspn(line, blank);
		if (!*line || *line == '#')
			continue;
		known_name = strtok_r(line, blank, &words);
		known_pin = strtok_r(NULL, blank, &words);
		if (!known_pin || strtok_r(NULL, blank, &words))
			return err_set(e, -EINVAL, "%s:%u: is not \"HOST:PORT PIN\"",
				       printable(file), number);
		/* Host names are case-insensitive. */
		if (strcasecmp(known_name, name))
			continue;
		if (!strcmp(known_pin, pin)) {
			*a = (struct known_answer){ .kind = HOST_SAME };
		} else if (a->kind != HOST_SAME) {
			a->kind = HOST_CHANGED;
			a->line = number;
			snprintf(a->pin, sizeof(a->pin), "%s", known_pin);
		}
	}
	return 0;
}

int known_hosts_add(const char *file, const char *host, uint16_t port, const char *pin,
		    struct err *e)
{
	const char *slash = strrchr(file, '/');
	CLEANUP_FREE char *dir = slash && slash > file ?
				 strndup(file, (size_t)(slash - file)) : NULL;
	CLEANUP_FREE char *name = known_hosts_name(host, port);
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *longer = NULL;
	CLEANUP_FREE char *lock_name = NULL;
	CLEANUP_CLOSE int lock = -1;
	struct known_answer a;
	struct stat st;
	size_t len;
	int n, rc;

	if (!name)
		return err_sys(e, -ENOMEM, "%s", printable(host));
	if (!stat(file, &st) && S_ISCHR(st.st_mode))
		return err_set(e, -ENODEV, "%s is a device", printable(file));

	rc = dir ? make_dirs(dir, 0700) : 0;
	if (rc)
		return err_path(e, rc, file, CANNOT_WRITE);

	/* Lock a second file beside it, because file itself is replaced; NFS locks no
	 * directories. */
	if (asprintf(&lock_name, "%s.lock", file) < 0) {
		lock_name = NULL;
		return err_sys(e, -ENOMEM, "%s", printable(file));
	}
	lock = append_file_open(lock_name, 0600, e);
	if (lock < 0)
		return lock;
	while (flock(lock, LOCK_EX))
		if (errno != EINTR)
			return err_sys(e, -errno, "cannot lock %s", printable(lock_name));

	rc = known_hosts_check(file, host, port, pin, &a, e);
	if (rc || a.kind == HOST_SAME)
		return rc;

	rc = known_hosts_read(file, &text, e);
	if (rc)
		return rc;
	len = strlen(text);
	n = asprintf(&longer, "%s%s%s %s\n", text, len && text[len - 1] != '\n' ? "\n" : "", name,
		     pin);
	if (n < 0) {
		longer = NULL;
		return err_sys(e, -ENOMEM, "%s", printable(file));
	}
	return write_file_atomic(file, longer, (size_t)n, 0600, e);
}

/* ---- passwords: a netrc ---- */

struct netrc_reader {
	const char *at;
	unsigned line;
	char token[TOKEN_MAX];
};

/* How well an entry matches the server; the best last. */
enum netrc_fit { FIT_NONE, FIT_DEFAULT, FIT_HOST, FIT_PORT };

struct netrc_search {
	const struct netrc_server *server;
	enum netrc_fit now; /* the match of the current entry */
	struct login login;
	bool names_port; /* some entry names the host with a port */
	struct login found[FIT_PORT + 1];
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

/* Read the next word into r->token. A word ends at a blank, or is in quotes, with a backslash
 * before a literal character. comments: skip comments; not before a password, which may begin with
 * "#". 1; 0: end of the text; -EINVAL: a quote is not closed, or a word is too long. */
static int netrc_token(struct netrc_reader *r, bool comments)
{
	bool quoted;
	size_t n = 0;

	for (; is_space(*r->at) || (comments && *r->at == '#'); r->at++) {
		if (*r->at == '#')
			r->at += strcspn(r->at, "\n");
		if (!*r->at)
			break;
		r->line += *r->at == '\n';
	}
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

static int netrc_value(struct netrc_reader *r, char **out)
{
	if (netrc_token(r, false) <= 0)
		return -EINVAL;
	free(*out);
	*out = strdup(r->token);
	return *out ? 0 : -ENOMEM;
}

/* Keep the entry that ends here if it is the first that matches so well. An entry without a login
 * is for any user. */
static void netrc_end_entry(struct netrc_search *n)
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

/* Match word with the server: "host", "[host]", "host:port" or "[host]:port". An IPv6 address with
 * a port has brackets. */
static enum netrc_fit netrc_fit_machine(struct netrc_search *n, const char *word)
{
	const char *host = n->server->host;
	size_t len = strlen(host), bracket = *word == '[';
	uint64_t port;

	if (strncasecmp(word + bracket, host, len) || (bracket && word[1 + len] != ']'))
		return FIT_NONE;
	word += len + 2 * bracket;
	if (!*word)
		return FIT_HOST;
	if (*word != ':' || (!bracket && strchr(host, ':')) ||
	    parse_uint(word + 1, 1, UINT16_MAX, &port))
		return FIT_NONE;
	n->names_port = true;
	return port == n->server->port ? FIT_PORT : FIT_NONE;
}

/* Handle the keyword in r->token and its value. */
static int netrc_keyword(struct netrc_reader *r, struct netrc_search *n)
{
	char *ignored = NULL;
	const char *end;
	int rc;

	if (!strcmp(r->token, "machine")) {
		netrc_end_entry(n);
		rc = netrc_token(r, false);
		n->now = rc > 0 ? netrc_fit_machine(n, r->token) : FIT_NONE;
		return rc > 0 ? 0 : -EINVAL;
	}
	if (!strcmp(r->token, "default")) {
		netrc_end_entry(n);
		n->now = FIT_DEFAULT;
		return 0;
	}

	if (!strcmp(r->token, "login"))
		return netrc_value(r, &n->login.user);
	if (!strcmp(r->token, "password"))
		return netrc_value(r, &n->login.password);
	if (!strcmp(r->token, "macdef")) { /* skip to the next empty line */
		end = strstr(r->at, "\n\n");
		for (; *r->at && r->at != end; r->at++)
			r->line += *r->at == '\n';
		return 0;
	}

	if (strcmp(r->token, "account"))
		return -EINVAL;
	rc = netrc_value(r, &ignored);
	free(ignored);
	return rc;
}

int netrc_parse(const char *name, const char *text, const struct netrc_server *server,
		struct login *l, struct err *e)
{
	struct netrc_reader r = { .at = text, .line = 1 };
	struct netrc_search n = { .server = server };
	int rc;

	memset(l, 0, sizeof(*l));
	do {
		rc = netrc_token(&r, true);
		if (rc > 0)
			rc = netrc_keyword(&r, &n) ?: 1;
	} while (rc > 0);
	explicit_bzero(r.token, sizeof(r.token));
	netrc_end_entry(&n);

	/* If the file names the host with a port, an entry without a port is for the default port
	 * only; "default" applies only if the URL names a user. */
	if (!server->is_default_port && n.names_port)
		login_clear(&n.found[FIT_HOST]);
	if (!server->user)
		login_clear(&n.found[FIT_DEFAULT]);
	for (enum netrc_fit fit = FIT_PORT; fit > FIT_NONE && !rc; fit--) {
		*l = n.found[fit];
		rc = l->user || l->password;
		if (rc)
			memset(&n.found[fit], 0, sizeof(*l));
	}
	for (enum netrc_fit fit = FIT_DEFAULT; fit <= FIT_PORT; fit++)
		login_clear(&n.found[fit]);

	/* Do not print the word: it may be a part of a password. */
	return rc >= 0 ? rc : err_set(e, rc, "%s:%u: unexpected word", printable(name), r.line);
}

int netrc_find(const char *file, const struct netrc_server *server, struct login *l,
	       struct err *e)
{
	char *text = NULL;
	struct stat st;
	int rc;

	memset(l, 0, sizeof(*l));
	if (stat(file, &st) < 0)
		return errno == ENOENT ? -ENOENT :
			err_path(e, -errno, file, CANNOT_READ);

	/* Refuse a file that others may read, so that the owner notices. Only regular files:
	 * /dev/null has no passwords, and a pipe belongs to the shell that made it. */
	if (S_ISREG(st.st_mode) && (st.st_mode & 077))
		return err_set(e, -EACCES, "%s is not used: others can read it (chmod 600 %s)",
			       printable(file), printable(file));

	rc = read_file(file, NETRC_MAX, &text, NULL);
	if (rc)
		return err_path(e, rc, file, CANNOT_READ);
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
