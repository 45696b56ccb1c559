// SPDX-License-Identifier: Apache-2.0
/* URLs, scp-like words and local paths of the command line. */
#include "util/url.h"

#include "util/base.h"
#include "util/units.h"

#include <arpa/inet.h>
#include <strings.h>

/* ---- percent encoding (RFC 3986 §2) ---- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

char *percent_encode(const char *s)
{
	static const char digits[] = "0123456789ABCDEF";
	char *text = malloc(strlen(s) * 3 + 1), *out = text;

	if (!text)
		return NULL;
	for (; *s; s++) {
		if (is_alnum(*s) || strchr("-._~/", *s)) {
			*out++ = *s;
			continue;
		}
		*out++ = '%';
		*out++ = digits[(unsigned char)*s >> 4];
		*out++ = digits[(unsigned char)*s & 15];
	}

	*out = '\0';
	return text;
}

int percent_decode(const char *s, char **out)
{
	CLEANUP_FREE char *text = malloc(strlen(s) + 1);
	char *p = text, hex[3];

	*out = NULL;
	if (!text)
		return -ENOMEM;
	for (; *s; s++) {
		if (*s != '%') {
			*p++ = *s;
			continue;
		}
		snprintf(hex, sizeof(hex), "%.2s", s + 1);
		*p = (char)strtoul(hex, NULL, 16);
		/* A NUL would cut the name short. */
		if (strspn(hex, "0123456789abcdefABCDEF") != 2 || !*p++)
			return -EINVAL;
		s += 2;
	}

	*p = '\0';
	*out = steal_ptr(&text);
	return 0;
}

/* ---- paths ---- */

bool path_at_home(const char *path)
{
	return path[0] == '~' && (path[1] == '/' || !path[1]);
}

char *name_below(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	char *path;

	if (asprintf(&path, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name) < 0)
		return NULL;
	return path;
}

size_t path_append(char *out, size_t n, const char *p)
{
	while (*p) {
		size_t len;

		p += strspn(p, "/");
		len = strcspn(p, "/");
		if (len == 2 && p[0] == '.' && p[1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len && !(len == 1 && p[0] == '.')) {
			out[n++] = '/';
			memmove(out + n, p, len);
			n += len;
		}
		p += len;
	}
	return n;
}

/* ---- parts of an authority: [user@]host[:port] ---- */

/* User and host names become arguments of ssh (a leading "-" would be an option), parts of its
 * ProxyCommand (parsed by a shell) and parts of FTP lines (which end at CR LF). */
static int check_name(const struct url *p, const char *what, const char *name, struct err *e)
{
	bool bad = !*name;

	for (const char *s = name; *s; s++)
		bad |= is_control((unsigned char)*s);
	if (p->kind == URL_SSH || strcmp(what, "host") == 0)
		bad |= name[0] == '-' || strpbrk(name, " '\"`$\\;&<>|(){}");
	if (bad)
		return err_set(e, -EINVAL, "\"%s\" is not a valid %s name", printable(name), what);
	return 0;
}

/* True for an IPv6 address with or without a zone ("%eth0"). */
static bool is_ipv6(const char *s)
{
	char address[INET6_ADDRSTRLEN];
	size_t n = strcspn(s, "%");
	struct in6_addr in;

	if (n >= sizeof(address) || (s[n] == '%' && !s[n + 1]))
		return false;
	memcpy(address, s, n);
	address[n] = '\0';
	return inet_pton(AF_INET6, address, &in) == 1;
}

/* The first n bytes of s: a name, an IPv4 address, or "[...]" with an IPv6 address. */
static int set_host(struct url *p, const char *s, size_t n, struct err *e)
{
	bool brackets = n >= 2 && s[0] == '[' && s[n - 1] == ']';
	char *zone;

	p->host = brackets ? strndup(s + 1, n - 2) : strndup(s, n);
	if (!p->host)
		return err_nomem(e);
	if (!brackets && strpbrk(p->host, "[]:@%"))
		return err_set(e, -EINVAL,
			       "\"%s\" is not a valid host name (IPv6 addresses go in [ ])",
			       printable(p->host));
	/* In URLs the "%" before a zone is written "%25" (RFC 6874); no other escape is needed. */
	zone = strstr(p->host, "%25");
	if (zone)
		memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
	if (brackets && !is_ipv6(p->host))
		return err_set(e, -EINVAL, "\"[%s]\" is not an IPv6 address", printable(p->host));
	return check_name(p, "host", p->host, e);
}

uint16_t url_default_port(enum url_kind kind)
{
	return kind == URL_RFTP ? RFTP_PORT : kind == URL_FTP ? FTP_CONTROL_PORT :
	       kind == URL_FTPS ? FTPS_PORT : 0;
}

uint16_t url_port(const struct url *p)
{
	return p->port ? p->port : url_default_port(p->kind);
}

static int decode_part(const char *s, char **out, const char *what, struct err *e)
{
	int rc = percent_decode(s, out);

	if (rc)
		err_set(e, rc, "\"%s\": bad %% escape in the %s", printable(s), what);
	return rc;
}

/* The text after a ":" is a password, and must not appear in the error. */
static int set_url_user(struct url *p, const char *s, size_t n, struct err *e)
{
	CLEANUP_FREE char *raw = strndup(s, n);
	int rc;

	if (!raw)
		return err_nomem(e);
	if (strchr(raw, ':'))
		return err_set(e, -EINVAL, "a password in a URL shows in process lists: "
			       "leave it out, rftp will ask for it");
	rc = decode_part(raw, &p->user, "user", e);
	return rc ? rc : check_name(p, "user", p->user, e);
}

int url_parse_port(const char *s, uint16_t *port, struct err *e)
{
	uint64_t number;

	if (parse_uint(s, 1, UINT16_MAX, &number))
		return err_set(e, -EINVAL, "\"%s\" is not a port (1 to 65535)", printable(s));
	*port = (uint16_t)number;
	return 0;
}

/* s: "[user@]host[:port]". */
static int set_authority(struct url *p, char *s, struct err *e)
{
	char *user_end = strrchr(s, '@'), *host = user_end ? user_end + 1 : s;
	char *close = *host == '[' ? strchr(host, ']') : NULL;
	/* Colons inside brackets belong to an IPv6 address. */
	char *end = close ? close + 1 : host + strcspn(host, ":");
	int rc = 0;

	if (user_end)
		rc = set_url_user(p, s, (size_t)(user_end - s), e);
	if (rc == 0)
		rc = set_host(p, host, (size_t)(end - host), e);
	if (rc)
		return rc;
	if (*end && *end != ':')
		return err_set(e, -EINVAL, "\"%s\": only \":PORT\" may follow the host",
			       printable(host));
	return *end && end[1] ? url_parse_port(end + 1, &p->port, e) : 0;
}

/* ---- whole words ---- */

static const struct {
	const char *name;
	enum url_kind kind;
} schemes[] = {
	{ "rftp", URL_RFTP },
	{ "ssh", URL_SSH },
	{ "ftp", URL_FTP },
	{ "ftps", URL_FTPS },
};

enum { SCHEMES = sizeof(schemes) / sizeof(schemes[0]) };

/* The length of the scheme of "scheme://..."; 0: word is not a URL. */
static size_t scheme_length(const char *word)
{
	size_t n = 0;

	while (is_alnum(word[n]) || (n && word[n] && strchr("+-.", word[n])))
		n++;
	return strncmp(word + n, "://", 3) == 0 ? n : 0;
}

/* word: a URL with a scheme of n letters. */
static int parse_url(const char *word, size_t n, struct url *p, struct err *e)
{
	const char *rest = word + n + 3, *slash = strchrnul(rest, '/');
	CLEANUP_FREE char *authority = NULL;
	size_t i = 0;
	int rc;

	while (i < SCHEMES && (strlen(schemes[i].name) != n || strncasecmp(word, schemes[i].name, n)))
		i++;
	if (i == SCHEMES)
		return err_set(e, -EINVAL,
			       "\"%.*s://\" is not known (rftp://, ssh://, ftp:// and ftps:// are)",
			       n < 32 ? (int)n : 32, word);
	p->kind = schemes[i].kind;
	authority = strndup(rest, (size_t)(slash - rest));
	if (!authority)
		return err_nomem(e);
	rc = set_authority(p, authority, e);

	/* The first "/" of FTP's URLs only separates the path from the host. */
	if (rc == 0)
		rc = decode_part(url_is_foreign(p) && *slash ? slash + 1 : slash, &p->path, "path",
				 e);
	/* The first "/" of "/~/x" (x in the home directory) is only a separator, too. */
	if (rc == 0 && !url_is_foreign(p) && *p->path == '/' && path_at_home(p->path + 1))
		memmove(p->path, p->path + 1, strlen(p->path));
	return rc;
}

/* The ":" of "[user@]host:path", as scp finds it: the first one before any "/",
 * not counting those in the brackets of an IPv6 address, and not at the start. */
static const char *find_colon(const char *word)
{
	size_t n = strcspn(word, "[:/");
	const char *close;

	if (word[n] == '[' && (n == 0 || word[n - 1] == '@')) {
		close = strstr(word + n, "]:");
		if (close && !memchr(word, '/', (size_t)(close - word)))
			return close + 1;
	}
	n = strcspn(word, ":/");
	return n && word[n] == ':' ? word + n : NULL;
}

static int parse_host_path(const char *word, const char *colon, struct url *p, struct err *e)
{
	const char *user_end = memrchr(word, '@', (size_t)(colon - word));
	const char *host = user_end ? user_end + 1 : word;
	int rc = 0;

	p->kind = URL_SSH;
	if (user_end) {
		p->user = strndup(word, (size_t)(user_end - word));
		rc = p->user ? check_name(p, "user", p->user, e) : err_nomem(e);
	}
	if (rc == 0)
		rc = set_host(p, host, (size_t)(colon - host), e);
	if (rc) {
		err_prefix(e, "%s (a local file would be ./%s)", printable(word), printable(word));
		return rc;
	}
	p->path = strdup(colon + 1);
	return p->path ? 0 : err_nomem(e);
}

static int parse_kinds(const char *word, struct url *p, struct err *e)
{
	size_t n = scheme_length(word);
	const char *colon;

	if (!*word)
		return err_set(e, -EINVAL, URL_EMPTY_WHY);
	if (n)
		return parse_url(word, n, p, e);
	if (strcmp(word, "-") == 0 || strcmp(word, "null:") == 0) {
		p->kind = *word == '-' ? URL_STDIO : URL_NULL;
		return 0;
	}
	if (strncmp(word, "zero:", 5) == 0) {
		p->kind = URL_ZERO;
		return parse_size(word + 5, &p->size) ?
		       err_set(e, -EINVAL, "\"%s\": a size must follow, like zero:10G",
			       printable(word)) : 0;
	}
	colon = find_colon(word);
	if (colon)
		return parse_host_path(word, colon, p, e);
	p->kind = URL_LOCAL;
	p->path = strdup(word);
	return p->path ? 0 : err_nomem(e);
}

int url_parse(const char *word, struct url *p, struct err *e)
{
	int rc;

	memset(p, 0, sizeof(*p));
	rc = parse_kinds(word, p, e);
	if (rc == 0 && !p->path) {
		p->path = strdup("");
		if (!p->path)
			rc = err_nomem(e);
	}
	if (rc)
		url_clear(p);
	return rc;
}

void url_clear(struct url *p)
{
	free(p->user);
	free(p->host);
	free(p->path);
	memset(p, 0, sizeof(*p));
}

bool url_is_foreign(const struct url *p)
{
	return p->kind == URL_FTP || p->kind == URL_FTPS;
}

bool url_is_remote(const struct url *p)
{
	return p->kind >= URL_RFTP;
}

bool url_same_server(const struct url *a, const struct url *b)
{
	return a->kind == b->kind && url_port(a) == url_port(b) && !strcasecmp(a->host, b->host) &&
	       (a->user && b->user ? !strcmp(a->user, b->user) : a->user == b->user);
}

/* The text between the authority and the path with which url_parse() returns the same path. */
static const char *path_prefix(const struct url *p, const char *path)
{
	if (url_is_foreign(p)) /* paths begin at the home */
		return *path == '/' ? "/%2F" : *path ? "/" : "";
	if (*path == '/')
		return path_at_home(path + 1) ? "/" : "";
	return path_at_home(path) ? "/" : *path ? "/~/" : "";
}

char *url_text(const struct url *p, const char *path)
{
	CLEANUP_FREE char *user = percent_encode(p->user ? p->user : "");
	CLEANUP_FREE char *coded = percent_encode(path);
	bool brackets = strchr(p->host, ':');
	char *url = NULL;
	size_t size, i = 0;
	FILE *out = user && coded ? open_memstream(&url, &size) : NULL;

	if (!out)
		return NULL;
	while (i + 1 < SCHEMES && schemes[i].kind != p->kind)
		i++;
	fprintf(out, "%s://%s%s%s", schemes[i].name, user, p->user ? "@" : "", brackets ? "[" : "");
	for (const char *s = p->host; *s; s++)
		fprintf(out, "%c%s", *s, *s == '%' ? "25" : "");
	fputs(brackets ? "]" : "", out);
	if (p->port)
		fprintf(out, ":%u", p->port);
	fprintf(out, "%s%s", path_prefix(p, path),
		coded + (url_is_foreign(p) && *path == '/'));
	if (fclose(out)) {
		free(url);
		return NULL;
	}
	return url;
}
