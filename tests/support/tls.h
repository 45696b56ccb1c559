// SPDX-License-Identifier: Apache-2.0
/* TLS servers and pins of certificate files, with the default settings. */
#ifndef RFTP_TESTS_SUPPORT_TLS_H
#define RFTP_TESTS_SUPPORT_TLS_H

#include "crypto/crypto.h"

static inline struct tls_ctx *tls_server_new(const char *certfile, const char *keyfile,
					     struct err *e)
{
	const struct tls_server_settings s = { .cert.file = certfile, .key.file = keyfile };

	return tls_server_new_with(&s, e);
}

static inline char *tls_certificate_pin(const char *certfile, struct err *e)
{
	const struct tls_pem p = { .file = certfile };

	return tls_certificate_pin_pem(&p, e);
}

#endif
