// SPDX-License-Identifier: Apache-2.0
/* Internal to proto: errors as messages carry them, Linux's numbers and a text for people. */
#ifndef RFTP_PROTO_WIRE_TEXT_H
#define RFTP_PROTO_WIRE_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* A peer's text as one harmless line, cut between characters. */
void wire_text(char *out, size_t room, const uint8_t *s, size_t len);
/* The number of a negative errno. */
uint32_t wire_errno(int code);
/* The inverse; -EIO for what is none. */
int wire_code(uint32_t code);

#endif
