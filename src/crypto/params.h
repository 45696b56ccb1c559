// SPDX-License-Identifier: Apache-2.0
/* Inside src/crypto only: parameters for OpenSSL's key derivation. */
#ifndef RFTP_CRYPTO_PARAMS_H
#define RFTP_CRYPTO_PARAMS_H

#include <openssl/params.h>
#include <string.h>

/* OpenSSL's parameters serve both directions and so drop const; what is made here
 * is only read. It takes NULL for "not given", which an empty key is not. */
static inline OSSL_PARAM param_octets(const char *key, const void *p, size_t len)
{
	OSSL_PARAM param = OSSL_PARAM_construct_octet_string(key, NULL, len);
	const void *data = len > 0 ? p : "";

	memcpy(&param.data, &data, sizeof(param.data));
	return param;
}

#endif
