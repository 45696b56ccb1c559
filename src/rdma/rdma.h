// SPDX-License-Identifier: Apache-2.0
/* rdma: blocks by RDMA_WRITE and RDMA_READ over queue pairs that rdma_cm connects. Who
 * builds a transfer gets at it by the endpoints of src/transport only. */
#ifndef RFTP_RDMA_H
#define RFTP_RDMA_H

#include "transport/transport.h"

#ifdef HAVE_VERBS
/* An end of a path on whichever RDMA device has the address that it listens on, or that it
 * connects from. */
endpoint_maker verbs_endpoint;
nic_device verbs_device;
extern const struct device_transport verbs_transport;
#define VERBS_TRANSPORT (&verbs_transport)
#else
#define VERBS_TRANSPORT NULL /* this build has none */
#endif

#endif
