// SPDX-License-Identifier: Apache-2.0
/* Internal to proto: what is more than numbers: paths; errors as messages carry them, Linux's
 * numbers and a text for people. */
#ifndef RFTP_PROTO_WIRE_TEXT_H
#define RFTP_PROTO_WIRE_TEXT_H

#include "proto/wire.h"

#include <stddef.h>
#include <stdint.h>

/* A u32 length and so many bytes, at most BULK_PATH_MAX, of any but NUL; malloc'd. NULL: in is
 * bad. */
char *wire_path(struct wire_in *in);
/* A peer's text as one harmless line, cut between characters. */
void wire_text(char *out, size_t room, const uint8_t *s, size_t len);
/* The number of a negative errno. */
uint32_t wire_errno(int code);
/* The inverse; -EIO for what is none. */
int wire_code(uint32_t code);

#endif
