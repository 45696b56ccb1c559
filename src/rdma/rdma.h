// SPDX-License-Identifier: Apache-2.0
/* rdma: blocks by RDMA_WRITE and RDMA_READ over queue pairs that rdma_cm connects. Who
 * builds a transfer gets at it by the endpoints of src/transport only. */
#ifndef RFTP_RDMA_H
#define RFTP_RDMA_H

#include "transport/transport.h"

/* An end of a path on whichever RDMA device has the address that it listens on, or the route
 * to the one that it connects to. */
#ifdef HAVE_VERBS
endpoint_maker verbs_endpoint;
#else
#define verbs_endpoint NULL /* this build has none */
#endif

#endif
