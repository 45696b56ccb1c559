// SPDX-License-Identifier: Apache-2.0
/* How much memory a session may lock. */
#ifndef RFTP_SERVER_LOCKED_H
#define RFTP_SERVER_LOCKED_H

#include "util/util.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Process pid, 0: this one, may lock what pools of so many bytes need, and what is beside them; it
 * cannot change that itself. 0, or a negative errno with text. */
int locked_limit(pid_t pid, uint64_t pools, struct err *e);
/* May this process give others a higher limit than they have? It loses some of its own. */
bool locked_can_raise(void);

#endif
