// SPDX-License-Identifier: Apache-2.0
/* What the rest of the program sees of RDMA: endpoints, and which addresses have a device. */
#include "rdma/endpoint.h"

#include <errno.h>
#include <stdio.h>

int rd_no_events(int r, struct err *e)
{
	if (r == -ENOENT || r == -ENODEV || r == -ENOSYS)
		return err_set(e, r, "this kernel has no RDMA connections: load rdma_ucm (and, "
			       "without an RDMA card, see scripts/softroce)");
	return err_sys(e, r, "RDMA connections");
}

/* The kernel tells which device an address is of to who binds to it. */
static int device_of(const struct verbs *v, struct rdma_event_channel *events,
		     const struct sockaddr_storage *a, char name[NIC_DEVICE_NAME])
{
	struct rdma_cm_id *id;
	int r = v->id_new(events, &id, NULL);

	if (r)
		return r;
	r = v->bind(id, (const struct sockaddr *)a);
	if (!r && id->verbs && id->verbs->device) {
		snprintf(name, NIC_DEVICE_NAME, "%s", id->verbs->device->name);
		r = 1;
	}
	v->id_free(id);
	return r < 0 ? 0 : r; /* refused: it is no device's */
}

int verbs_device(const struct sockaddr_storage *a, char name[NIC_DEVICE_NAME], struct err *why)
{
	struct rdma_event_channel *events;
	int r = verbs_real.channel_new(&events);

	if (r)
		return rd_no_events(r, why);
	r = device_of(&verbs_real, events, a, name);
	verbs_real.channel_free(events);
	return r;
}

struct endpoint *verbs_endpoint(const struct endpoint_config *c, struct err *e)
{
	return rd_endpoint_new(c, &verbs_real, e);
}

const struct device_transport verbs_transport = {
	.endpoint = verbs_endpoint,
	.device = verbs_device,
};
