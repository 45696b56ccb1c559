// SPDX-License-Identifier: Apache-2.0
/* An end of a path while it is made: its device, its memory, its connections. */
#ifndef RFTP_RDMA_ENDPOINT_H
#define RFTP_RDMA_ENDPOINT_H

#include "rdma/path.h"
#include "rdma/rdma.h"

#define RD_READS_MAX 128 /* of one queue pair under way; devices have 16, some 128 */

struct rd_endpoint {
	struct endpoint ep;
	struct endpoint_config cfg;
	const struct verbs *v;
	bool server;
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;      /* server: listens; client: first channel's until open */
	struct rdma_cm_id *refused; /* to be freed */
	struct sockaddr_storage to, from;
	struct ibv_context *ctx;
	struct ibv_device_attr attr;
	struct ibv_pd *pd;
	struct ibv_mr *mr;          /* of the pool, between its hooks */
	bool gone;                  /* the device is being removed */
	struct pool_hooks hooks;
	char name[80];              /* device and port, for people */
};

struct endpoint *rd_endpoint_new(const struct endpoint_config *c, const struct verbs *v,
				 struct err *e);
/* Both in ns; the exponent n of 4.096 µs × 2^n. */
uint8_t rd_ack_timeout(uint64_t rtt_ns, uint64_t queued_ns);
/* As nic_device, with sysfs mounted there. */
int rd_device_of(const char *sysfs, const struct sockaddr_storage *a, const char *ifname,
		 char name[NIC_DEVICE_NAME], struct err *why);
/* There is no channel for rdma_cm's events, for reason r: say it. Returns r. */
int rd_no_events(int r, struct err *e);
/* There are devices, but this user may use none. */
bool rd_devices_forbidden(void);

/* ep->id has a device: check it against the agreement and take a protection domain there
 * (device.c). 0 or a negative errno with text. */
int rd_use_device(struct rd_endpoint *ep, struct err *e);
/* Free all that the endpoint has of its device, and with gone set see that the device can be
 * removed. The pool's memory stays, and is registered no more. Not while a path has anything. */
void rd_leave_device(struct rd_endpoint *ep);
const struct pool_hooks *rd_hooks(struct endpoint *endpoint);
/* Log which GID and MTU c has, which is up. */
void rd_say_way(const struct rd_endpoint *ep, const struct rd_channel *c);
/* A path without connections; its channels are RD_NEW. */
struct rd_path *rd_path_new(struct rd_endpoint *ep, const struct path_config *c, struct err *e);

#endif
