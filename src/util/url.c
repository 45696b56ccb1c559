// SPDX-License-Identifier: Apache-2.0
/* Words of the command line taken apart into places. */
#include "util/url.h"

#include "util/cleanup.h"
#include "util/text.h"
#include "util/units.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- percent encoding (RFC 3986 §2) ---- */

static bool is_alnum(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool stays_plain(char c)
{
	return is_alnum(c) || strchr("-._~/", c);
}

char *percent_encode(const char *s)
{
	static const char digits[] = "0123456789ABCDEF";
	char *text = malloc(strlen(s) * 3 + 1), *out = text;

	if (!text)
		return NULL;
	for (; *s; s++) {
		if (stays_plain(*s)) {
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

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

/* The byte that the two digits at s stand for; -1 when they are not such. */
static int hex_byte(const char *s)
{
	int high = hex_digit(s[0]), low;

	if (high < 0)
		return -1;
	low = hex_digit(s[1]);
	return low < 0 ? -1 : high << 4 | low;
}

int percent_decode(const char *s, char **out)
{
	CLEANUP_FREE char *text = malloc(strlen(s) + 1);
	char *p = text;
	int byte;

	*out = NULL;
	if (!text)
		return -ENOMEM;
	for (; *s; s++) {
		if (*s != '%') {
			*p++ = *s;
			continue;
		}
		byte = hex_byte(s + 1);
		if (byte <= 0) /* a name with a NUL in it would be cut there */
			return -EINVAL;
		*p++ = (char)byte;
		s += 2;
	}
	*p = '\0';
	*out = steal_ptr(&text);
	return 0;
}

/* ---- parts of an authority: [user@]host[:port] ---- */

static bool has_control(const char *s)
{
	for (; *s; s++)
		if (is_control((unsigned char)*s))
			return true;
	return false;
}

/* Users and hosts go into ssh's arguments, where a leading "-" is an option, and
 * into its ProxyCommand, which a shell reads; into FTP lines, which end at CR LF. */
static int check_word(const struct place *p, const char *what, const char *word, struct err *e)
{
	bool bad = !*word || has_control(word);

	if (p->kind == PLACE_SSH || strcmp(what, "host") == 0)
		bad |= word[0] == '-' || strpbrk(word, " '\"`$\\;&<>|(){}");
	if (bad)
		return err_set(e, -EINVAL, "\"%s\" is not a valid %s name", printable(word), what);
	return 0;
}

/* An IPv6 address, maybe with a zone ("%eth0"). */
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

/* The host between the brackets of "[...]"; in URLs the zone's "%" is written "%25"
 * (RFC 6874), and nothing else there needs an escape. */
static int take_ipv6(struct place *p, const char *s, size_t n, struct err *e)
{
	char *zone;

	p->host = strndup(s, n);
	if (!p->host)
		return err_sys(e, -ENOMEM, "host");
	zone = strstr(p->host, "%25");
	if (zone)
		memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
	if (!is_ipv6(p->host))
		return err_set(e, -EINVAL, "\"[%s]\" is not an IPv6 address", printable(p->host));
	return check_word(p, "host", p->host, e);
}

static int take_host(struct place *p, const char *s, size_t n, struct err *e)
{
	if (n >= 2 && s[0] == '[' && s[n - 1] == ']')
		return take_ipv6(p, s + 1, n - 2, e);
	p->host = strndup(s, n);
	if (!p->host)
		return err_sys(e, -ENOMEM, "host");
	if (strpbrk(p->host, "[]:@%"))
		return err_set(e, -EINVAL,
			       "\"%s\" is not a valid host name (IPv6 addresses go in [ ])",
			       printable(p->host));
	return check_word(p, "host", p->host, e);
}

uint16_t place_default_port(enum place_kind kind)
{
	return kind == PLACE_RFTP ? RFTP_PORT : kind == PLACE_FTP ? FTP_CONTROL_PORT :
	       kind == PLACE_FTPS ? FTPS_PORT : 0;
}

uint16_t place_port(const struct place *p)
{
	return p->port ? p->port : place_default_port(p->kind);
}

static int take_port(struct place *p, const char *s, struct err *e)
{
	uint64_t port = 0;

	if (*s && parse_uint(s, 1, UINT16_MAX, &port))
		return err_set(e, -EINVAL, "\"%s\" is not a port (1 to 65535)", printable(s));
	p->port = (uint16_t)port;
	return 0;
}

static int decode(const char *s, char **out, const char *what, struct err *e)
{
	int rc = percent_decode(s, out);

	if (rc)
		err_set(e, rc, "\"%s\": bad %% escape in the %s", printable(s), what);
	return rc;
}

/* The user of a URL. What stands behind a ":" is a password, and must not show in
 * the error either. */
static int take_url_user(struct place *p, const char *s, size_t n, struct err *e)
{
	CLEANUP_FREE char *raw = strndup(s, n);
	int rc;

	if (!raw)
		return err_sys(e, -ENOMEM, "user");
	if (strchr(raw, ':'))
		return err_set(e, -EINVAL, "a password in a URL shows in process lists: "
			       "leave it out, it will be asked for");
	rc = decode(raw, &p->user, "user", e);
	return rc ? rc : check_word(p, "user", p->user, e);
}

/* Where the host of "host[:port]" ends: brackets hide the colons of IPv6. */
static const char *host_end(const char *s)
{
	const char *close = *s == '[' ? strchr(s, ']') : NULL;

	return close ? close + 1 : s + strcspn(s, ":");
}

static int take_authority(struct place *p, char *s, struct err *e)
{
	char *user_end = strrchr(s, '@'), *host = user_end ? user_end + 1 : s;
	const char *end = host_end(host);
	int rc = 0;

	if (user_end)
		rc = take_url_user(p, s, (size_t)(user_end - s), e);
	if (rc == 0)
		rc = take_host(p, host, (size_t)(end - host), e);
	if (rc == 0 && *end == ':')
		rc = take_port(p, end + 1, e);
	else if (rc == 0 && *end)
		rc = err_set(e, -EINVAL, "\"%s\": only \":PORT\" may follow the host",
			     printable(host));
	return rc;
}

/* ---- whole words ---- */

struct scheme {
	const char *name;
	enum place_kind kind;
};

static const struct scheme schemes[] = {
	{ "rftp", PLACE_RFTP },
	{ "ssh", PLACE_SSH },
	{ "ftp", PLACE_FTP },
	{ "ftps", PLACE_FTPS },
};

static const struct scheme *find_scheme(const char *word, size_t n)
{
	size_t i;

	for (i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (strlen(schemes[i].name) == n && strncasecmp(word, schemes[i].name, n) == 0)
			return &schemes[i];
	return NULL;
}

/* The length of the scheme of "scheme://..."; 0 when word is nothing like that. */
static size_t scheme_length(const char *word)
{
	size_t n = 0;

	while (is_alnum(word[n]) || (n && word[n] && strchr("+-.", word[n])))
		n++;
	return strncmp(word + n, "://", 3) == 0 ? n : 0;
}

static bool is_ftp(enum place_kind kind)
{
	return kind == PLACE_FTP || kind == PLACE_FTPS;
}

/* "/~/x" means x in the home directory: the "/" only separates it from the host. It always does
 * so in FTP's URLs. */
static int take_url_path(struct place *p, const char *s, struct err *e)
{
	char *path;
	int rc = decode(is_ftp(p->kind) && *s ? s + 1 : s, &path, "path", e);

	if (rc)
		return rc;
	if (!is_ftp(p->kind) && strncmp(path, "/~", 2) == 0 && (path[2] == '/' || !path[2]))
		memmove(path, path + 1, strlen(path));
	p->path = path;
	return 0;
}

static int parse_url(const char *word, size_t n, struct place *p, struct err *e)
{
	const struct scheme *scheme = find_scheme(word, n);
	const char *rest = word + n + 3, *slash = strchrnul(rest, '/');
	CLEANUP_FREE char *authority = NULL;
	int rc;

	if (!scheme)
		return err_set(e, -EINVAL,
			       "\"%.*s://\" is not known (rftp://, ssh://, ftp:// and ftps:// are)",
			       n < 32 ? (int)n : 32, word);
	p->kind = scheme->kind;
	authority = strndup(rest, (size_t)(slash - rest));
	if (!authority)
		return err_sys(e, -ENOMEM, "URL");
	rc = take_authority(p, authority, e);
	return rc ? rc : take_url_path(p, slash, e);
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

static int parse_host_path(const char *word, const char *colon, struct place *p, struct err *e)
{
	const char *user_end = memrchr(word, '@', (size_t)(colon - word));
	const char *host = user_end ? user_end + 1 : word;
	int rc = 0;

	p->kind = PLACE_SSH;
	if (user_end) {
		p->user = strndup(word, (size_t)(user_end - word));
		rc = p->user ? check_word(p, "user", p->user, e) : err_sys(e, -ENOMEM, "user");
	}
	if (rc == 0)
		rc = take_host(p, host, (size_t)(colon - host), e);
	if (rc) {
		err_prefix(e, "%s (a local file would be ./%s)", printable(word), printable(word));
		return rc;
	}
	p->path = strdup(colon + 1);
	return p->path ? 0 : err_sys(e, -ENOMEM, "path");
}

static int parse_zero(const char *size, struct place *p, struct err *e)
{
	p->kind = PLACE_ZERO;
	if (parse_size(size, &p->size))
		return err_set(e, -EINVAL, "\"zero:%s\": a size must follow, like zero:10G",
			       printable(size));
	return 0;
}

/* The words that are neither URL nor path. 0: it was none of them. */
static int parse_special(const char *word, struct place *p, struct err *e)
{
	if (strcmp(word, "-") == 0)
		p->kind = PLACE_STDIO;
	else if (strcmp(word, "null:") == 0)
		p->kind = PLACE_NULL;
	else if (strncmp(word, "zero:", 5) == 0)
		return parse_zero(word + 5, p, e);
	else
		return -ENOENT;
	return 0;
}

static int parse_word(const char *word, struct place *p, struct err *e)
{
	size_t n = scheme_length(word);
	const char *colon;
	int rc;

	if (!*word)
		return err_set(e, -EINVAL, "an empty word names no file");
	if (n)
		return parse_url(word, n, p, e);
	rc = parse_special(word, p, e);
	if (rc != -ENOENT)
		return rc;
	colon = find_colon(word);
	if (colon)
		return parse_host_path(word, colon, p, e);
	p->kind = PLACE_LOCAL;
	p->path = strdup(word);
	return p->path ? 0 : err_sys(e, -ENOMEM, "path");
}

int place_parse(const char *word, struct place *p, struct err *e)
{
	int rc;

	memset(p, 0, sizeof(*p));
	rc = parse_word(word, p, e);
	if (rc == 0 && !p->path) {
		p->path = strdup("");
		if (!p->path)
			rc = err_sys(e, -ENOMEM, "path");
	}
	if (rc)
		place_clear(p);
	return rc;
}

void place_clear(struct place *p)
{
	free(p->user);
	free(p->host);
	free(p->path);
	memset(p, 0, sizeof(*p));
}

bool place_is_foreign(const struct place *p)
{
	return is_ftp(p->kind);
}

static const char *scheme_of(enum place_kind kind)
{
	for (size_t i = 0; i < sizeof(schemes) / sizeof(schemes[0]); i++)
		if (schemes[i].kind == kind)
			return schemes[i].name;
	return "";
}

/* What comes between the authority and the path, so that it is read as it is meant. */
static const char *path_prefix(const char *path)
{
	bool home = path[0] == '~' && (path[1] == '/' || !path[1]);

	if (*path == '/')
		return path[1] == '~' && (path[2] == '/' || !path[2]) ? "/" : "";
	return home ? "/" : *path ? "/~/" : "";
}

/* The same of FTP, whose paths begin at the home. */
static const char *ftp_prefix(const char *path)
{
	return *path == '/' ? "/%2F" : *path ? "/" : "";
}

static void put_host(FILE *out, const char *host)
{
	bool brackets = strchr(host, ':');

	fputs(brackets ? "[" : "", out);
	for (; *host; host++) {
		fputc(*host, out);
		if (*host == '%')
			fputs("25", out);
	}
	fputs(brackets ? "]" : "", out);
}

char *place_url(const struct place *p, const char *path)
{
	CLEANUP_FREE char *user = percent_encode(p->user ? p->user : "");
	CLEANUP_FREE char *coded = percent_encode(path);
	char *url = NULL;
	size_t size;
	FILE *out = open_memstream(&url, &size);

	if (!out)
		return NULL;
	fprintf(out, "%s://%s%s", scheme_of(p->kind), user ? user : "", p->user ? "@" : "");
	put_host(out, p->host);
	if (p->port)
		fprintf(out, ":%u", p->port);
	if (is_ftp(p->kind))
		fprintf(out, "%s%s", ftp_prefix(path), coded ? coded + (*path == '/') : "");
	else
		fprintf(out, "%s%s", path_prefix(path), coded ? coded : "");
	if (fclose(out) || !user || !coded) {
		free(url);
		return NULL;
	}
	return url;
}

bool place_is_remote(const struct place *p)
{
	return p->kind >= PLACE_RFTP;
}
