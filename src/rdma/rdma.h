// SPDX-License-Identifier: Apache-2.0
/* rdma: transfers blocks by RDMA_WRITE and RDMA_READ over queue pairs that rdma_cm connects. A
 * transfer uses it only through the endpoints of src/transport. */
#ifndef RFTP_RDMA_H
#define RFTP_RDMA_H

#include "transport/transport.h"

#ifdef HAVE_VERBS
/* Its endpoints use the RDMA device that has the address on which they listen or from which they
 * connect. */
extern const struct device_transport verbs_transport;
#define VERBS_TRANSPORT (&verbs_transport)
#else
#define VERBS_TRANSPORT NULL /* this build has none */
#endif

#endif
