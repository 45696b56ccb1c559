// SPDX-License-Identifier: Apache-2.0
/* Makes the network fail on purpose, as RFTP_FAULT_TRANSPORT says. */
#include "transport/fault.h"

#include <errno.h>
#include <string.h>

#define STALL_NS 100000000
#define NUMBER_END 15 /* the last byte of the block number in a head, proto/bulk.h */

static const char *const points[] = { "connect", "accept", "send", "recv", "sendfile", NULL };
static const char *const bare[] = { "corrupt", "corrupt-head", "cut", "stall", "wrong-key",
				   "wrong-place", "flip-message", "lose-message",
				   "repeat-message", "lossy", "far", NULL };

bool fault_transport_on;

static struct faults faults = {
	.env = "RFTP_FAULT_TRANSPORT",
	.points = points,
	.bare = bare,
	.on = &fault_transport_on,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

__attribute__((constructor)) static void read_environment(void)
{
	faults_from_env(&faults);
}

int fault_transport_set(const char *rules, struct err *e)
{
	return faults_set(&faults, rules, e);
}

static int stall(void)
{
	const struct timespec t = { .tv_nsec = STALL_NS };
	int r = faults_strike(&faults, "stall", 0, -EAGAIN);

	if (r != -EAGAIN)
		return r;
	nanosleep(&t, NULL);
	return 0;
}

int fault_transport(const char *point, uint64_t bytes)
{
	if (strcmp(point, "stall") == 0)
		return stall();
	return faults_strike(&faults, point, bytes, -ECONNRESET);
}

void fault_corrupt(struct block *b)
{
	if (FAULT("corrupt", b->len) && b->len)
		block_payload(b)[b->len / 2] ^= 0x20;
	if (FAULT("corrupt-head", b->len)) {
		b->base[NUMBER_END] ^= 1;
		b->number ^= 1;
	}
}
