// SPDX-License-Identifier: Apache-2.0
/* The keys of servers that have been seen before, as in ssh: lines "HOST:PORT PIN", an
 * IPv6 address in brackets, "#" comments. A server may have several lines: any of its
 * keys is right, so that a key can be changed without a gap. */
#ifndef RFTP_CLIENT_KNOWN_HOSTS_H
#define RFTP_CLIENT_KNOWN_HOSTS_H

#include "util/util.h"

#include <stdint.h>

enum known_host {
	HOST_UNKNOWN,  /* no line */
	HOST_SAME,     /* a line with this pin */
	HOST_CHANGED,  /* only lines with other pins */
};

struct known_answer {
	enum known_host what;
	unsigned line;  /* CHANGED: the last line of this host, from 1 */
	char pin[128];  /* CHANGED: what stands there */
};

/* Look host:port up. A file that is not there knows nobody. 0, or a negative errno with
 * text: it cannot be read, or a line makes no sense. */
int known_hosts_check(const char *file, const char *host, uint16_t port, const char *pin,
		      struct known_answer *a, struct err *e);
/* Add a line, unless it is there; the file is whole at any time, and two programs that
 * add at once both get their line in. Missing directories are made. -ENODEV: file is a device, such
 * as /dev/null, and stays as it is. */
int known_hosts_add(const char *file, const char *host, uint16_t port, const char *pin,
		    struct err *e);
/* "host:port", "[v6]:port"; malloc'd. */
char *known_hosts_name(const char *host, uint16_t port);

#endif
