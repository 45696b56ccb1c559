// SPDX-License-Identifier: Apache-2.0
/* The hook of transport's fault points. */
#ifndef RFTP_TRANSPORT_FAULT_H
#define RFTP_TRANSPORT_FAULT_H

#include "transport/transport.h"

#define FAULT(point, bytes) (__builtin_expect(fault_transport_on, 0) ? \
	fault_transport((point), (bytes)) : 0)

/* What corrupt and corrupt-head do to a block that has come. */
void fault_corrupt(struct block *b);

#endif
