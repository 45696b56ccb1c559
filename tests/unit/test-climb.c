// SPDX-License-Identifier: Apache-2.0
/* The number of streams that hill climbing reaches on simulated paths. */
#include "transport/tcp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define MS 1000000ull
#define SECOND (1000 * MS)

/* A path: each stream carries `each` bytes per second, all together at most `most`. lost_percent of
 * the packets are lost; the measured rate is off by up to `noise` percent. */
struct simulated {
	uint64_t rtt_ns, each, most;
	unsigned lost_percent, limited_percent, noise;
	struct tcp_sample s;
	uint16_t comes; /* the peer opens at most this many streams; 0: no limit */
};

/* Simulates ns of n streams. */
static void go(struct simulated *p, uint16_t n, uint64_t ns)
{
	uint64_t rate = p->each * n < p->most ? p->each * n : p->most;
	uint64_t bytes = rate * (ns / MS) / 1000;

	bytes += p->noise ? bytes / 100 * ((unsigned)rand() % (2 * p->noise + 1)) -
			    bytes / 100 * p->noise : 0;
	p->s.n = n;
	p->s.rtt_ns = p->rtt_ns;
	p->s.now_ns += ns;
	p->s.bytes += bytes;
	p->s.packets += bytes / 1448;
	p->s.lost += bytes / 1448 * p->lost_percent / 100;
	p->s.limited_ns += ns / 100 * p->limited_percent * n;
}

/* The wanted number of streams after `seconds`. *steps: how often that number grew. */
static uint16_t after(struct simulated *p, struct climb *c, unsigned seconds, unsigned *steps)
{
	uint64_t end = p->s.now_ns + seconds * SECOND;
	uint16_t n = c->wanted;

	*steps = 0;
	while (p->s.now_ns < end) {
		uint16_t before = c->wanted, now;

		go(p, n, 100 * MS);
		now = climb_step(c, &p->s);
		assert_int_equal(now, c->wanted);
		*steps += c->wanted > before;
		assert_true(c->wanted >= before && c->wanted <= c->most);
		n = p->comes && c->wanted > p->comes ? p->comes : c->wanted;
	}
	return c->wanted;
}

static struct simulated path(uint64_t each, uint64_t most, unsigned lost_percent)
{
	return (struct simulated){ .rtt_ns = 95 * MS, .each = each, .most = most,
				   .lost_percent = lost_percent, .s.now_ns = SECOND };
}

/* A lossy path with room for all: the number grows to the limit within seconds. */
static void test_lossy(void **state)
{
	struct simulated p = path(600000, 1000000000, 1);
	struct climb c;
	unsigned steps;

	(void)state;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 5, &steps), 32);
	assert_int_equal(steps, 3);
	after(&p, &c, 2, &steps);
	assert_false(c.on);
}

/* The same with a noisy rate. */
static void test_noise(void **state)
{
	struct simulated p = path(600000, 1000000000, 1);
	struct climb c;
	unsigned steps;

	(void)state;
	srand(7);
	p.noise = 20;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 6, &steps), 32);
}

/* Without losses and with no window full, the number of streams stays, at any speed. */
static void test_no_loss(void **state)
{
	struct simulated p = path(600000, 1000000000, 0);
	struct climb c;
	unsigned steps;

	(void)state;
	climb_init(&c, 4, 32);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(after(&p, &c, 1, &steps), 4);
		p.each *= 2;
	}
	assert_true(c.on);
	/* Windows too small for the path make the number grow, as losses do. */
	p.limited_percent = 60;
	p.each = 1000000;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 6, &steps), 32);
}

/* More streams only share the path's rate: one step does not pay off, then the pauses grow. */
static void test_full(void **state)
{
	struct simulated p = path(600000, 2400000, 1);
	struct climb c;
	unsigned steps;

	(void)state;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 4, &steps), 8);
	assert_int_equal(steps, 1);
	after(&p, &c, 60, &steps);
	assert_true(steps <= 2);
	/* The path becomes wider. */
	p.most = 1000000000;
	assert_int_equal(after(&p, &c, 120, &steps), 32);
}

/* A queue shows that the streams themselves fill the path, so losses add no streams. */
static void test_queue(void **state)
{
	struct simulated p = path(600000, 2400000, 1);
	struct climb c;
	unsigned steps;

	(void)state;
	p.s.queue_ns = 60 * MS;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 20, &steps), 4);
	p.limited_percent = 60;
	assert_int_equal(after(&p, &c, 20, &steps), 4);
	p.s.queue_ns = 11 * MS; /* less than an eighth of 95 ms */
	assert_int_equal(after(&p, &c, 4, &steps), 8);
	/* A step pays off but fills the path: it is the last one. */
	p.s.queue_ns = 0;
	p.most = 1000000000;
	climb_init(&c, 4, 32);
	while (c.wanted == 4)
		after(&p, &c, 1, &steps);
	p.s.queue_ns = 60 * MS;
	assert_int_equal(after(&p, &c, 20, &steps), 8);
	p.most = 2400000;
	p.rtt_ns = 10 * MS;
	p.s.queue_ns = 9 * MS; /* small, although near the RTT of 10 ms */
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 4, &steps), 8);
}

/* One sample of a stream: `packets` more sent, `lost` of them lost, with a queue of queue_ms. */
static bool loses(struct climb *c, struct tcp_sample *s, unsigned packets, unsigned lost,
		  unsigned queue_ms)
{
	s->packets += packets;
	s->lost += lost;
	s->queue_ns = queue_ms * MS;
	return climb_loses_by_itself(c, s);
}

static void test_loses_by_itself(void **state)
{
	struct tcp_sample s = { .rtt_ns = 95 * MS };
	struct climb c = { 0 };

	(void)state;
	assert_false(loses(&c, &s, 900, 200, 0)); /* few packets */
	assert_true(loses(&c, &s, 100, 0, 0));
	/* The queue is full; retransmissions continue after it has drained. */
	assert_false(loses(&c, &s, 3000, 500, 45));
	assert_false(loses(&c, &s, 3000, 300, 13));
	assert_false(loses(&c, &s, 3000, 300, 5));
	assert_false(loses(&c, &s, 3000, 14, 5)); /* less than 0.5 % */
	assert_true(loses(&c, &s, 3000, 16, 11));
}

/* A path with room for six: the step to eight pays off, the step to sixteen does not and is the
 * last. */
static void test_in_between(void **state)
{
	struct simulated p = path(600000, 6 * 600000, 1);
	struct climb c;
	unsigned steps;

	(void)state;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 5, &steps), 16);
	assert_int_equal(steps, 2);
}

/* Refused streams are requested only once. */
static void test_refused(void **state)
{
	struct simulated p = path(600000, 1000000000, 1);
	struct climb c;
	unsigned steps;

	(void)state;
	p.comes = 4;
	climb_init(&c, 4, 32);
	assert_int_equal(after(&p, &c, 5, &steps), 8);
	assert_int_equal(steps, 1);
}

/* The number starts at or near its maximum. */
static void test_fixed(void **state)
{
	struct simulated p = path(600000, 1000000000, 5);
	struct climb c;
	unsigned steps;

	(void)state;
	climb_init(&c, 8, 8);
	assert_false(c.on);
	assert_int_equal(after(&p, &c, 20, &steps), 8);
	climb_init(&c, 5, 8);
	assert_int_equal(after(&p, &c, 20, &steps), 8);
	assert_int_equal(steps, 1);
}

static void test_interval(void **state)
{
	(void)state;
	assert_true(climb_interval_ns(0) == 200 * MS);
	assert_true(climb_interval_ns(10 * MS) == 200 * MS);
	assert_true(climb_interval_ns(95 * MS) == 285 * MS);
	assert_true(climb_interval_ns(10 * SECOND) == 2 * SECOND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lossy),
		cmocka_unit_test(test_loses_by_itself),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_no_loss),
		cmocka_unit_test(test_full),
		cmocka_unit_test(test_queue),
		cmocka_unit_test(test_in_between),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_fixed),
		cmocka_unit_test(test_interval),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
