// SPDX-License-Identifier: Apache-2.0
/* Input: a bulk request; the same bytes are also decoded as the server's agreement. An accepted
 * message must come out of our own encoder unchanged, and negotiate() must accept any offer and keep
 * the agreement within the bounds of both. */
#include "proto/proto.h"

#include "tests/support/agreement-check.h"
#include "tests/support/bytes.h"
#include "tests/support/fuzz.h"

#include <string.h>

static void judge(const struct offer *client, const struct offer *server)
{
	struct agreement a;
	struct err e;

	if (negotiate(client, server, &a, &e))
		return;
	MUST(!agreement_check(&a, client, &e));
	MUST(!agreement_check(&a, server, &e));
}

static void check_request(struct bulk_request *r)
{
	struct buf *b = buf_new(BULK_REQUEST_MAX), *again = buf_new(BULK_REQUEST_MAX), *in;
	struct bulk_request back;

	MUST(r->base && r->sources && !r->sources[r->nsources]);
	judge(&r->offer, &r->offer);
	r->minor = BULK_MINOR;
	MUST(!bulk_request_put(b, r));
	in = bytes_of(buf_ptr(b), buf_len(b));
	MUST(!bulk_request_get(in, &back, NULL));
	MUST(!bulk_request_put(again, &back));
	MUST(buf_len(b) == buf_len(again) && !memcmp(buf_ptr(b), buf_ptr(again), buf_len(b)));
	bulk_request_clear(&back);
	buf_free(in);
	buf_free(again);
	buf_free(b);
}

static void check_agree(struct bulk_agree *a)
{
	struct buf *b = buf_new(BULK_FRAME_MAX);
	struct bulk_agree back;

	a->minor = BULK_MINOR;
	MUST(!bulk_agree_put(b, a));
	MUST(!bulk_agree_get(b, &back, NULL));
	MUST(agreement_equal(&a->agreement, &back.agreement));
	MUST(a->nports == back.nports);
	buf_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf *b = bytes_of(data, size);
	struct bulk_request r;
	struct bulk_agree a;

	if (!bulk_request_get(b, &r, NULL)) {
		check_request(&r);
		bulk_request_clear(&r);
	}
	buf_free(b);
	b = bytes_of(data, size);
	if (!bulk_agree_get(b, &a, NULL))
		check_agree(&a);
	buf_free(b);
	return 0;
}
