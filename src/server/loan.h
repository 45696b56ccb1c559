// SPDX-License-Identifier: Apache-2.0
/* Memory for transfers that a session has from the monitor, as long as they need it. */
#ifndef RFTP_SERVER_LOAN_H
#define RFTP_SERVER_LOAN_H

#include "transfer/transfer.h"

struct loan {
	int line;              /* to the monitor, the caller's; -1: nobody counts */
	pthread_mutex_t lock;  /* one question at a time; guards held */
	uint64_t held;         /* bytes */
};

void loan_init(struct loan *l, int line);
void loan_destroy(struct loan *l);
/* So much of want bytes as there is: 0 with *got; or a negative errno with text, -EAGAIN: there is
 * none for now. Any thread. */
int loan_take(struct loan *l, uint64_t want, uint64_t *got, struct err *e);
/* What loan_take() got is free again. Any thread. */
void loan_give_back(struct loan *l, uint64_t bytes);
/* The same for a transfer; with nobody who counts one that does nothing. */
struct transfer_purse loan_purse(struct loan *l);

#endif
