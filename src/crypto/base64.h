// SPDX-License-Identifier: Apache-2.0
/* Inside src/crypto only: base64 without padding, as ssh and crypt strings show it. */
#ifndef RFTP_CRYPTO_BASE64_H
#define RFTP_CRYPTO_BASE64_H

#include <stddef.h>
#include <stdint.h>

/* What n bytes need, with the padding that is cut off again and the NUL. */
#define BASE64_ROOM(n) (((n) + 2) / 3 * 4 + 1)

/* Writes text and NUL, at most BASE64_ROOM(len) bytes; returns the text's length. */
size_t base64_encode(char *text, const uint8_t *p, size_t len);
/* Bytes written to out, at most max; -EINVAL for anything that base64_encode would
 * not have written, or for more bytes. */
int base64_decode(uint8_t *out, size_t max, const char *text);

#endif
