// SPDX-License-Identifier: Apache-2.0
/* Derives a transfer's keys from its master secret. */
#include "transfer/keys.h"

#include <string.h>

int xkeys_init(struct xkeys *k, const uint8_t master[KEY_BYTES],
	       const uint8_t client_nonce[NONCE_BYTES],
	       const uint8_t server_nonce[NONCE_BYTES], uint64_t session)
{
	static const char session_label[] = "rftp bulk session";
	static const char token_label[] = "rftp channel token";
	uint8_t salt[2 * NONCE_BYTES], info[sizeof(session_label) - 1 + 8];
	int r;

	memcpy(salt, client_nonce, NONCE_BYTES);
	memcpy(salt + NONCE_BYTES, server_nonce, NONCE_BYTES);
	memcpy(info, session_label, sizeof(session_label) - 1);
	put_be64(info + sizeof(session_label) - 1, session);
	r = crypto_hkdf(k->session, KEY_BYTES, master, KEY_BYTES, salt, sizeof(salt), info,
			sizeof(info));
	if (r)
		return r;
	k->auth.session = session;
	memcpy(k->auth.client_nonce, client_nonce, NONCE_BYTES);
	memcpy(k->auth.server_nonce, server_nonce, NONCE_BYTES);
	return crypto_hkdf(k->auth.token, KEY_BYTES, k->session, KEY_BYTES, NULL, 0, token_label,
			   sizeof(token_label) - 1);
}

static int message_key(const struct xkeys *k, enum direction dir, uint8_t key[KEY_BYTES])
{
	static const char label[] = "rftp channel message";
	uint8_t info[sizeof(label) - 1 + 1];

	memcpy(info, label, sizeof(label) - 1);
	info[sizeof(label) - 1] = (uint8_t)dir;
	return crypto_hkdf(key, KEY_BYTES, k->session, KEY_BYTES, NULL, 0, info, sizeof(info));
}

int xkeys_messages(const struct xkeys *k, enum direction dir, struct message_keys *m)
{
	int r = message_key(k, dir, m->from_source);

	return r ? r : message_key(k, dir == CLIENT_TO_SERVER ? SERVER_TO_CLIENT :
				   CLIENT_TO_SERVER, m->from_sink);
}

int xkeys_block(const struct xkeys *k, enum direction dir, uint32_t number,
		uint8_t key[KEY_BYTES])
{
	static const char label[] = "rftp block";
	uint8_t info[sizeof(label) - 1 + 1 + 4];

	memcpy(info, label, sizeof(label) - 1);
	info[sizeof(label) - 1] = (uint8_t)dir;
	put_be32(info + sizeof(label), number);
	return crypto_hkdf(key, KEY_BYTES, k->session, KEY_BYTES, NULL, 0, info, sizeof(info));
}

void xkeys_wipe(struct xkeys *k)
{
	crypto_wipe(k, sizeof(*k));
}
