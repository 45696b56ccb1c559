// SPDX-License-Identifier: Apache-2.0
/* The keys of known servers, and passwords from a file like ~/.netrc. */
#ifndef RFTP_CLIENT_CREDENTIALS_H
#define RFTP_CLIENT_CREDENTIALS_H

#include "util/util.h"

/* ---- known servers ---- A file like ssh's known_hosts: lines "HOST:PORT PIN", an IPv6 address in
 * brackets, "#" comments. If a server has several lines, each of these keys is valid: so a key can
 * be replaced without an interruption. */

enum known_host {
	HOST_UNKNOWN,  /* no line */
	HOST_SAME,     /* a line with this pin */
	HOST_CHANGED,  /* only lines with other pins */
};

struct known_answer {
	enum known_host kind;
	unsigned line;  /* HOST_CHANGED: number of the last line of this host, from 1 */
	char pin[128];  /* HOST_CHANGED: the pin in that line */
};

/* Look host:port with pin up in file. If the file is missing, all hosts are unknown. 0 with *a; or
 * a negative errno with text: the file cannot be read, or a line is malformed. */
int known_hosts_check(const char *file, const char *host, uint16_t port, const char *pin,
		      struct known_answer *a, struct err *e);
/* Add a line, unless the file has it already. The file is replaced atomically, and locked, so that
 * two programs can add lines at the same time. Missing directories are made. 0; -ENODEV: file is a
 * device, such as /dev/null, and is not changed; or another negative errno; with text. */
int known_hosts_add(const char *file, const char *host, uint16_t port, const char *pin,
		    struct err *e);
/* "host:port" or "[v6]:port", malloc'd; NULL: out of memory. */
char *known_hosts_name(const char *host, uint16_t port);

/* ---- passwords ---- */

/* A login from a netrc. Either member may be NULL; both are owned. */
struct login {
	char *user, *password;
};

void login_clear(struct login *l);  /* wipes the password, frees both */

/* The server to look up. */
struct netrc_server {
	const char *host;     /* an IPv6 address without brackets */
	uint16_t port;
	bool is_default_port; /* port is the default of the URL's scheme */
	const char *user;     /* NULL: the URL names none */
};

/* Find the login for server in text, the contents of file name. If the server has a user, only
 * entries of that user match. The order: "machine host:port"; then "machine host" (for another port
 * than the default only if no entry names the host with a port); then, if the server has a user,
 * "default". Of equal matches the first one counts. 1: *l is filled, and login_clear() frees it; 0:
 * none; or a negative errno with text: the file is malformed. */
int netrc_parse(const char *name, const char *text, const struct netrc_server *server,
		struct login *l, struct err *e);
/* The same, but read file. Also -EACCES with text: others than its owner may read it; -ENOENT
 * without text: it is missing. */
int netrc_find(const char *file, const struct netrc_server *server, struct login *l,
	       struct err *e);
/* The path of ~/.netrc, malloc'd; NULL: HOME is not set. */
char *netrc_default(void);

#endif
