// SPDX-License-Identifier: Apache-2.0
/* Base64 without padding, on OpenSSL's. */
#include "crypto/base64.h"
#include "crypto/crypto.h"

#include <errno.h>
#include <openssl/evp.h>
#include <string.h>

#define DECODE_MAX 64 /* bytes: salts and hashes */

size_t base64_encode(char *text, const uint8_t *p, size_t len)
{
	size_t n = (size_t)EVP_EncodeBlock((unsigned char *)text, p, (int)len);

	while (n > 0 && text[n - 1] == '=')
		n--;
	text[n] = '\0';
	return n;
}

int base64_decode(uint8_t *out, size_t max, const char *text)
{
	char padded[BASE64_ROOM(DECODE_MAX)], again[BASE64_ROOM(DECODE_MAX)];
	uint8_t bytes[DECODE_MAX + 2]; /* and what the padding decodes to */
	size_t len = strlen(text), full = (len + 3) / 4 * 4, n = len * 3 / 4;

	if (full >= sizeof(padded) || n > max)
		return -EINVAL;
	memset(padded, '=', full);
	memcpy(padded, text, len);
	if (EVP_DecodeBlock(bytes, (const unsigned char *)padded, (int)full) < 0)
		return -EINVAL;
	/* OpenSSL lets blanks, stray padding and spare bits pass; one way to write a
	 * thing is enough. */
	base64_encode(again, bytes, n);
	if (strcmp(again, text) != 0)
		return -EINVAL;
	memcpy(out, bytes, n);
	crypto_wipe(bytes, sizeof(bytes));
	return (int)n;
}
