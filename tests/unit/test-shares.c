// SPDX-License-Identifier: Apache-2.0
/* The stages that hold a transfer back: both sides' states together, and their frame. */
#include "transfer/xfer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void combined(void **state)
{
	uint64_t source[SIDE_STATES] = { 0 }, sink[SIDE_STATES] = { 0 }, out[STAGES];
	unsigned percent;

	(void)state;
	shares_combine(source, sink, out);
	assert_int_equal(stage_slowest(out, &percent), STAGES);

	/* The source waits for the sink, which is busy, mostly with its storage. */
	source[SIDE_FLIGHT] = 600;
	source[SIDE_CREDITS] = 300;
	source[SIDE_STORAGE] = 100;
	sink[SIDE_STORAGE] = 750;
	sink[SIDE_CPU] = 250;
	shares_combine(source, sink, out);
	assert_int_equal(out[STAGE_SINK_STORAGE], 675);
	assert_int_equal(out[STAGE_SINK_CPU], 225);
	assert_int_equal(out[STAGE_SOURCE_STORAGE], 100);
	assert_true(!out[STAGE_NETWORK] && !out[STAGE_CREDITS]);
	assert_int_equal(stage_slowest(out, &percent), STAGE_SINK_STORAGE);
	assert_int_equal(percent, 68);

	/* Both wait: for the network, or for credits on their way. */
	memset(sink, 0, sizeof(sink));
	sink[SIDE_IDLE] = 1000;
	shares_combine(source, sink, out);
	assert_int_equal(out[STAGE_NETWORK], 600);
	assert_int_equal(out[STAGE_CREDITS], 300);
	assert_string_equal(stage_name(stage_slowest(out, &percent)), "network");
	assert_int_equal(percent, 60);

	/* Nothing is known of an older peer. */
	memset(sink, 0, sizeof(sink));
	shares_combine(source, sink, out);
	assert_int_equal(out[STAGE_NETWORK], 600);
}

/* Shares lately follow a change; the frame carries the sums. */
static void over_time(void **state)
{
	struct shares s = { .sampled_ns = 0 }, peer = { .sampled_ns = 0 };
	struct buf *b CLEANUP_BUF = buf_new(100);
	uint64_t out[STAGES];
	unsigned percent;

	(void)state;
	shares_init(&s);
	shares_init(&peer);
	for (int i = 0; i < 1000; i++)
		shares_add(&s, SIDE_STORAGE, 20000000);
	for (int i = 0; i < 500; i++)
		shares_add(&s, SIDE_RATE, 20000000);
	shares_of(&s, true, false, out);
	assert_int_equal(stage_slowest(out, &percent), STAGE_SOURCE_STORAGE);
	assert_int_equal(percent, 67);
	shares_of(&s, true, true, out);
	assert_int_equal(stage_slowest(out, &percent), STAGE_RATE);
	assert_true(percent > 95);

	assert_int_equal(shares_put(&s, b), 0);
	assert_int_equal(shares_get(&peer, b), 0);
	shares_of(&peer, false, false, out);
	assert_int_equal(out[STAGE_SOURCE_STORAGE], 20000000000);
	assert_int_equal(out[STAGE_RATE], 10000000000);
	buf_reset(b);
	assert_int_equal(buf_put(b, "12345678", 8), 0);
	assert_int_equal(shares_get(&peer, b), -EBADMSG);

	/* Numbers with sums that would overflow. */
	for (int i = 0; i < SIDE_STATES; i++) {
		uint64_t v[SIDE_STATES] = { 0 };

		v[i] = UINT64_MAX / 2;
		buf_reset(b);
		assert_int_equal(bulk_stages_put(b, v), 0);
		assert_int_equal(shares_get(&peer, b), -EBADMSG);
	}
	shares_destroy(&s);
	shares_destroy(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(combined), cmocka_unit_test(over_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
