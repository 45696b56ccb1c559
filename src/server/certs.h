// SPDX-License-Identifier: Apache-2.0
/* The map of certificates: as whom the holder of a client's certificate may log in. */
#ifndef RFTP_SERVER_CERTS_H
#define RFTP_SERVER_CERTS_H

#include "util/util.h"

#include <stdbool.h>

/* A line 'SHA256:... user', by the certificate's key, whoever signed it; or
 * 'subject "CN=..." user', by its subject as RFC 2253 writes it, if a CA of --ca vouches
 * for it. Several lines may name the same certificate, or user. Empty lines and lines that begin
 * with "#" are passed over. */
struct cert_line {
	char *pin, *subject; /* one of them, the other NULL */
	char *user;
};

void cert_line_clear(struct cert_line *c);
/* One line without its newline: 1 an entry; 0 nothing on it; a negative errno with text. */
int cert_line_parse(const char *line, struct cert_line *c, struct err *e);
/* May who has shown a certificate with this pin, and subject (NULL: nobody vouches for one), be
 * user? 1, 0, or a negative errno with text. The file is read anew each time. */
int certs_allow(const char *file, const char *pin, const char *subject, const char *user,
		struct err *e);
/* Every line is good, nobody else may write the file, and what needs a CA has one. For the
 * start. */
int certs_verify(const char *file, bool have_ca, struct err *e);

#endif
