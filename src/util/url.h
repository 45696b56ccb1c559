// SPDX-License-Identifier: Apache-2.0
/* The sources and destinations that command-line arguments name: a local path, standard input or
 * output, a memory source or sink, a path on a server; and paths as text. */
#ifndef RFTP_UTIL_URL_H
#define RFTP_UTIL_URL_H

#include "util/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum url_kind {
	URL_LOCAL, /* a path */
	URL_STDIO, /* "-" */
	URL_NULL,  /* "null:" */
	URL_ZERO,  /* "zero:SIZE" */
	URL_RFTP,  /* rftp://[user@]host[:port]/path */
	URL_SSH,   /* [user@]host:path, or ssh://... */
	URL_FTP,   /* ftp:// */
	URL_FTPS,  /* ftps:// */
};

struct url {
	enum url_kind kind;
	char *user;        /* NULL: not given */
	char *host;        /* without the brackets of an IPv6 address; NULL for local kinds */
	uint16_t port;     /* 0: not given */
	/* Path bytes after percent-decoding of a URL; "/~/x" is kept as "~/x" and
	 * "host:x" (relative to the home) as "x". "" when absent. No NUL inside. With
	 * ftp:// and ftps:// (RFC 1738 §3.2.2) "/x" is "x"; "/%2Fx" and "//x" are "/x". */
	char *path;
	uint64_t size;     /* URL_ZERO */
};

/* rftpd's control port. */
#define RFTP_PORT 7321
#define FTP_CONTROL_PORT 21
#define FTPS_PORT 990 /* TLS from the first byte on */

/* The control port of a scheme; 0: none (ssh, local kinds). */
uint16_t url_default_port(enum url_kind kind);
/* The port of p, or the scheme's default port. */
uint16_t url_port(const struct url *p);

/* Parse word. As scp does, a word with a ":" before any "/" is host:path; "./a:b" names a local
 * file with a colon. A password in a URL is refused (-EINVAL): it would show in process lists. The
 * caller frees p with url_clear(). 0, or a negative errno with text. */
int url_parse(const char *word, struct url *p, struct err *e);
/* Parse a port, 1 to 65535. 0, or -EINVAL with text. */
int url_parse_port(const char *s, uint16_t *port, struct err *e);
/* For messages: an empty word; a word (%s) that is no URL of a server. */
#define URL_EMPTY_WHY "an empty word names no file"
#define URL_LOCAL_WHY "%s is not on a server: write rftp://host/path or host:path"
void url_clear(struct url *p);
bool url_is_remote(const struct url *p);
/* True: ftp:// or ftps://, an FTP server that need not be rftpd. */
bool url_is_foreign(const struct url *p);

/* Do a and b name one server, with the same user? Both are remote. */
bool url_same_server(const struct url *a, const struct url *b);

/* A URL that url_parse() turns into p's server and this path; a path that begins with neither "/"
 * nor "~" is below the home. malloc'd; NULL: out of memory. p must be remote. */
char *url_text(const struct url *p, const char *path);

/* Percent-encode bytes for a URL or an FTP line: all but unreserved characters and "/". The caller
 * frees the result; NULL: out of memory. */
char *percent_encode(const char *s);
/* The inverse; the caller frees *out. 0; -EINVAL: a bad escape or an encoded NUL; -ENOMEM. */
int percent_decode(const char *s, char **out);

/* Is path the home directory "~" or below it? */
bool path_at_home(const char *path);
/* "DIR/NAME", malloc'd; NULL: out of memory. */
char *name_below(const char *dir, const char *name);
/* Append the components of p to the absolute path in out, which has length n and enough room: "."
 * is left out, ".." removes a component. A p that begins with "/" may be out + n itself. Returns
 * the new length; there is no "/" and no NUL behind it. */
size_t path_append(char *out, size_t n, const char *p);

#endif
