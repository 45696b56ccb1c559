// SPDX-License-Identifier: Apache-2.0
/* The files rftp.conf(5) and where rftp's own files are. */
#ifndef RFTP_CLIENT_CONF_H
#define RFTP_CLIENT_CONF_H

#include "client/options.h"

/* Set o from file alone; NULL: from /etc/rftp.conf, then from the user's. Sections
 * "[host PATTERN]" count when the pattern fits host (NULL: none does). What is in a
 * section that does not fit is checked all the same. 0, or -EINVAL and the like with
 * file and line in the text. */
int conf_load(const char *file, const char *host, struct options *o, struct err *e);

/* $XDG_CONFIG_HOME/rftp/NAME or ~/.config/rftp/NAME, malloc'd; NULL: neither variable is
 * set, or memory is out. */
char *own_file(const char *name);

#endif
