// SPDX-License-Identifier: Apache-2.0
/* Faults of changes. */
#include "iser_setup/fault.h"

#include "util/util.h"

static const char *const points[] = { "before", "after", "undo", "kept", NULL };
static const char *const bare[] = { NULL };

static bool on;

static struct faults faults = {
	.env = "RFTP_FAULT_ISER",
	.points = points,
	.bare = bare,
	.on = &on,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

__attribute__((constructor)) static void read_environment(void)
{
	faults_from_env(&faults);
}

int fault_iser(const char *point)
{
	return on ? faults_strike(&faults, point, 0, 0) : 0;
}
