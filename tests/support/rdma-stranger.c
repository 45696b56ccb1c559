// SPDX-License-Identifier: Apache-2.0
/* Connects to an RDMA listener with arbitrary private data:
 *
 *     rdma-stranger ADDRESS PORT HEX
 *
 * requests a connection with the bytes HEX as private data and prints the result: "accepted",
 * "refused" by the listening program, or "nobody" listens. Exit status 0, or 1 if the request could
 * not be sent. */
#include <netdb.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 5000
#define REFUSED_BY_PROGRAM 28 /* an IBTA reject reason; the others are rdma_cm's own */

static int from_hex(const char *hex, uint8_t *out, int max)
{
	int n = 0;

	while (n < max && sscanf(hex + 2 * n, "%2hhx", &out[n]) == 1)
		n++;
	return n;
}

/* Returns the next event, with the status of a reject in *status, or -1 without an event. */
static int next(struct rdma_event_channel *ch, int *status)
{
	struct rdma_cm_event *ev;
	int type;

	if (rdma_get_cm_event(ch, &ev))
		return -1;
	type = ev->event;
	*status = ev->status;
	rdma_ack_cm_event(ev);
	return type;
}

static int find_way(struct rdma_event_channel *ch, struct rdma_cm_id *id, struct sockaddr *to)
{
	int status;

	if (rdma_resolve_addr(id, NULL, to, WAIT_MS) ||
	    next(ch, &status) != RDMA_CM_EVENT_ADDR_RESOLVED ||
	    rdma_resolve_route(id, WAIT_MS) ||
	    next(ch, &status) != RDMA_CM_EVENT_ROUTE_RESOLVED)
		return -1;
	return 0;
}

/* Connects with a queue pair, like a normal client. */
static int knock(struct rdma_event_channel *ch, struct rdma_cm_id *id, const uint8_t *words, int n)
{
	struct ibv_qp_init_attr qp = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct rdma_conn_param param = {
		.private_data = words,
		.private_data_len = (uint8_t)n,
		.responder_resources = 1,
		.initiator_depth = 1,
		.retry_count = 6,
	};
	int status = 0;

	if (rdma_create_qp(id, NULL, &qp) || rdma_connect(id, &param))
		return -1;
	switch (next(ch, &status)) {
	case RDMA_CM_EVENT_ESTABLISHED:
		puts("accepted");
		rdma_disconnect(id);
		break;
	case RDMA_CM_EVENT_REJECTED:
		puts(status == REFUSED_BY_PROGRAM ? "refused" : "nobody");
		break;
	default:
		return -1;
	}
	rdma_destroy_qp(id);
	return 0;
}

int main(int argc, char **argv)
{
	struct addrinfo hints = { .ai_flags = AI_NUMERICHOST }, *to;
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	uint8_t words[56];
	int r;

	if (argc != 4 || getaddrinfo(argv[1], argv[2], &hints, &to)) {
		fprintf(stderr, "usage: rdma-stranger ADDRESS PORT HEX\n");
		return 1;
	}
	if (!ch || rdma_create_id(ch, &id, NULL, RDMA_PS_TCP)) {
		perror("rdma-stranger");
		return 1;
	}
	r = find_way(ch, id, to->ai_addr);
	if (!r)
		r = knock(ch, id, words, from_hex(argv[3], words, sizeof(words)));
	if (r)
		perror("rdma-stranger");
	freeaddrinfo(to);
	rdma_destroy_id(id);
	rdma_destroy_event_channel(ch);
	return r ? 1 : 0;
}
