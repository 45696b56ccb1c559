// SPDX-License-Identifier: Apache-2.0
/* What a word of the command line names: a local path, standard input or output,
 * a memory source or sink, or something on a server. */
#ifndef RFTP_UTIL_URL_H
#define RFTP_UTIL_URL_H

#include "util/err.h"

#include <stdbool.h>
#include <stdint.h>

enum place_kind {
	PLACE_LOCAL, /* a path */
	PLACE_STDIO, /* "-" */
	PLACE_NULL,  /* "null:" */
	PLACE_ZERO,  /* "zero:SIZE" */
	PLACE_RFTP,  /* rftp://[user@]host[:port]/path */
	PLACE_SSH,   /* [user@]host:path, or ssh://... */
	PLACE_FTP,   /* ftp:// */
	PLACE_FTPS,  /* ftps:// */
};

struct place {
	enum place_kind kind;
	char *user;        /* NULL: not given */
	char *host;        /* without the brackets of an IPv6 address; NULL for local kinds */
	uint16_t port;     /* 0: not given */
	/* Path bytes after percent-decoding of a URL; "/~/x" is kept as "~/x" and
	 * "host:x" (relative to the home) as "x". "" when absent. No NUL inside. Of ftp:// and
	 * ftps:// (RFC 1738 §3.2.2) "/x" is "x", "/%2Fx" and "//x" are "/x". */
	char *path;
	uint64_t size;     /* PLACE_ZERO */
};

/* rftp's own control port. */
#define RFTP_PORT 7321
#define FTP_CONTROL_PORT 21
#define FTPS_PORT 990 /* TLS from the first byte on */

/* The control port of a scheme; 0: it has none (ssh, local kinds). */
uint16_t place_default_port(enum place_kind kind);
/* The port that p names, or else its scheme's. */
uint16_t place_port(const struct place *p);

/* Parse word. As scp does, a word with a ":" before any "/" is host:path; "./a:b"
 * names a local file with a colon. A password in a URL is refused (-EINVAL): it
 * would show in process lists. Free with place_clear(). */
int place_parse(const char *word, struct place *p, struct err *e);
void place_clear(struct place *p);
bool place_is_remote(const struct place *p);
/* On an FTP server that need not be rftpd: ftp:// or ftps://. */
bool place_is_foreign(const struct place *p);
/* The word that place_parse() makes p's server and this path of; a path that begins with neither
 * "/" nor "~" is one below the home. malloc'd; NULL: memory is out. p must be remote. */
char *place_url(const struct place *p, const char *path);

/* Percent-encode bytes for a URL or an FTP line: everything but unreserved
 * characters and "/". The caller frees it; NULL when memory is out. */
char *percent_encode(const char *s);
/* The inverse; -EINVAL for a bad escape or an encoded NUL. */
int percent_decode(const char *s, char **out);

#endif
