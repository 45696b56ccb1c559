// SPDX-License-Identifier: Apache-2.0
/* The first words of a data channel, on whatever transport. */
#include "transport/transport.h"

#include <errno.h>
#include <string.h>

static const char *label_of(bool server)
{
	return server ? "rftp server channel" : "rftp client channel";
}

static int make_proof(uint8_t proof[MAC_BYTES], bool server, const struct channel_auth *a,
		      uint16_t channel, uint32_t key)
{
	const char *label = label_of(server);
	uint8_t number[14];
	const struct iovec iov[] = {
		{ .iov_base = (void *)label, .iov_len = strlen(label) },
		{ .iov_base = (void *)a->client_nonce, .iov_len = NONCE_BYTES },
		{ .iov_base = (void *)a->server_nonce, .iov_len = NONCE_BYTES },
		{ .iov_base = number, .iov_len = sizeof(number) },
	};

	put_be64(number, a->session);
	put_be16(number + 8, channel);
	put_be32(number + 10, key);
	return crypto_hmac(proof, a->token, sizeof(a->token), iov, 4);
}

int channel_hello_put(uint8_t p[HELLO_BYTES], bool server, const struct channel_auth *a,
		      uint16_t channel, uint32_t key)
{
	struct channel_hello h = { .major = BULK_MAJOR, .channel = channel,
				   .session = a->session, .key = key };
	int r = make_proof(h.proof, server, a, channel, key);

	if (r < 0)
		return r;
	hello_put(p, &h);
	return 0;
}

const char *channel_hello_check(const uint8_t p[HELLO_BYTES], bool server,
				const struct channel_auth *a, uint16_t *channel, uint32_t *key)
{
	struct channel_hello h;
	uint8_t proof[MAC_BYTES];
	int r = hello_get(p, &h);

	if (r == -EPROTO)
		return "it speaks another version of this protocol";
	if (r < 0)
		return "it does not speak this protocol";
	if (h.session != a->session)
		return "it belongs to another session";
	if (make_proof(proof, server, a, h.channel, h.key) < 0)
		return "its proof cannot be computed";
	if (!crypto_equal(proof, h.proof, sizeof(proof)))
		return "its proof is wrong";
	*channel = h.channel;
	*key = h.key;
	return NULL;
}
