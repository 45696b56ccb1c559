// SPDX-License-Identifier: Apache-2.0
/* Head and tag of the messages of a data channel that are not blocks. */
#include "transport/transport.h"

#include <errno.h>
#include <string.h>

/* The nonce is the channel and the sequence: one key serves all channels of a direction. */
#define SEQUENCE_BITS 48

int messages_open(struct messages *m, const uint8_t *key, uint16_t channel)
{
	*m = (struct messages){ .channel = channel };
	if (!key)
		return 0;
	m->sealer = sealer_new(key);
	return m->sealer ? 0 : -ENOMEM;
}

void messages_close(struct messages *m)
{
	sealer_free(m->sealer);
	m->sealer = NULL;
}

static uint64_t nonce_of(const struct messages *m)
{
	return (uint64_t)m->channel << SEQUENCE_BITS | m->next;
}

int message_seal(struct messages *m, uint8_t *p, uint32_t magic, uint32_t count, size_t len)
{
	const struct message_head h = { m->channel, (uint16_t)count, m->next };
	const struct iovec all = { .iov_base = p, .iov_len = MESSAGE_HEAD + len };
	uint8_t *tag = p + MESSAGE_HEAD + len;
	int r = 0;

	if (m->next >> SEQUENCE_BITS)
		return -EIO;
	message_head_put(p, magic, &h);
	if (m->sealer) {
		r = sealer_seal(m->sealer, nonce_of(m), &all, 1, NULL, NULL, 0, tag);
	} else {
		memset(tag, 0, MESSAGE_TAG);
		put_be32(tag, crypto_crc32c(0, p, all.iov_len));
	}
	m->next++;
	return r;
}

static int check_tag(struct messages *m, const uint8_t *p, size_t len)
{
	const struct iovec all = { .iov_base = (void *)p, .iov_len = len };
	uint8_t tag[MESSAGE_TAG] = { 0 };

	if (m->sealer)
		return sealer_open(m->sealer, nonce_of(m), &all, 1, NULL, NULL, 0, p + len);
	put_be32(tag, crypto_crc32c(0, p, len));
	return memcmp(tag, p + len, MESSAGE_TAG) ? -EBADMSG : 0;
}

int message_check(struct messages *m, const uint8_t *p, size_t len, uint32_t magic,
		  size_t item, uint32_t max, uint32_t *count)
{
	struct message_head h;
	int r = len < MESSAGE_HEAD ? -EBADMSG : message_head_get(p, magic, max, &h);

	*count = 0;
	if (r || len != MESSAGE_HEAD + h.count * item + MESSAGE_TAG ||
	    h.channel != m->channel || h.sequence != m->next)
		return -EBADMSG;
	r = check_tag(m, p, len - MESSAGE_TAG);
	if (r)
		return r;
	m->next++;
	*count = h.count;
	return 0;
}
