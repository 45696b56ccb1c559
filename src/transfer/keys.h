// SPDX-License-Identifier: Apache-2.0
/* The key schedule of one transfer, rftp-protocol(7) "KEYS". */
#ifndef RFTP_TRANSFER_KEYS_H
#define RFTP_TRANSFER_KEYS_H

#include "crypto/crypto.h"
#include "transport/transport.h"

#include <stdint.h>

enum direction { CLIENT_TO_SERVER = 0, SERVER_TO_CLIENT = 1 };

struct xkeys {
	uint8_t session[KEY_BYTES];
	struct channel_auth auth;
};

/* Session key, channel token and nonces from the master secret. 0 or -EIO. */
int xkeys_init(struct xkeys *k, const uint8_t master[KEY_BYTES],
	       const uint8_t client_nonce[NONCE_BYTES],
	       const uint8_t server_nonce[NONCE_BYTES], uint64_t session);
/* The key with this number, of blocks that travel in this direction. */
int xkeys_block(const struct xkeys *k, enum direction dir, uint32_t number,
		uint8_t key[KEY_BYTES]);
/* The keys of messages that are not blocks, where blocks travel in this direction. */
int xkeys_messages(const struct xkeys *k, enum direction dir, struct message_keys *m);
void xkeys_wipe(struct xkeys *k);

#endif
