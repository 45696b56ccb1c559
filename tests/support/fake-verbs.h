// SPDX-License-Identifier: Apache-2.0
/* A fabric without hardware: it implements all of src/rdma/verbs.h in one process. Its queue pairs
 * move bytes between registered memory, its devices check keys, bounds and access rights, and its
 * connections send events. Nothing happens by itself, so every run of a test has the same order.
 * Tests can make any step fail.
 *
 * Devices are numbered from 1; device n has the address 192.0.2.n, and there is one listener per
 * port. Uses that would crash a real device or librdmacm, block for ever, or leak end the program
 * with a line on stderr.
 *
 * Several threads may use the two ends, but must not change the settings below meanwhile. */
#ifndef RFTP_TESTS_FAKE_VERBS_H
#define RFTP_TESTS_FAKE_VERBS_H

#include "rdma/verbs.h"

#include <stdbool.h>
#include <sys/socket.h>

#define FAKE_DEVICES 3

extern const struct verbs fake_verbs;

/* fake_begin() makes an empty fabric; fake_end() checks that all objects are freed. */
void fake_begin(void);
void fake_end(void);
void fake_address(unsigned device, struct sockaddr_storage *a);

/* ---- properties of the devices: set after fake_begin(), before use ---- */

struct ibv_device_attr *fake_device_attr(unsigned device);
struct ibv_port_attr *fake_port_attr(unsigned device);

struct fake_settings {
	unsigned route;         /* device that a client without a source address uses: 2 */
	unsigned request_by;    /* device on which requests arrive; 0: the listener's */
	bool exact_data;        /* private data has its sent length (iWARP), not the length of
				 * the message's field (InfiniBand, RoCE) */
	uint32_t inline_max;    /* most bytes of an inline send: 64; 0: none is allowed */
	uint32_t send_wr_max;   /* most sends of a queue pair; 0: the device's limit */
	bool purge;             /* freeing a queue pair removes its completions (mlx5 does
				 * this, rxe does not) */
	bool may_starve;        /* a message may wait for a receive */
	bool gives_up;          /* work for a dead peer fails at once, not with its queue pair */
	bool hold;              /* posted work waits for fake_run() */
	uint8_t ack_timeout;    /* output: the last exponent that was set */
	/* Called when event_next finds no event: the turn of the other side, if one thread runs
	 * both. */
	void (*idle)(void *arg);
	void *idle_arg;
};
extern struct fake_settings fake;

/* ---- failures ---- */

enum fake_call {
	FAKE_CHANNEL_NEW, FAKE_EVENT_NEXT, FAKE_ID_NEW, FAKE_BIND, FAKE_LISTEN,
	FAKE_RESOLVE_ADDR, FAKE_RESOLVE_ROUTE, FAKE_SET_TOS, FAKE_SET_ACK_TIMEOUT,
	FAKE_CONNECT, FAKE_ACCEPT, FAKE_REJECT, FAKE_DISCONNECT, FAKE_QUERY_DEVICE,
	FAKE_QUERY_PORT, FAKE_PD_NEW, FAKE_MR_NEW, FAKE_CQ_NEW, FAKE_CQ_ARM, FAKE_POLL,
	FAKE_QP_NEW, FAKE_QP_ERROR, FAKE_QP_WAY, FAKE_QP_RNR_TIMER, FAKE_POST_SEND,
	FAKE_POST_RECV, FAKE_ASYNC_FD,
	FAKE_CALLS
};
const char *fake_call_name(enum fake_call call);
/* fake_calls() returns the number of calls so far; fake_fail() makes the nth call from now on (from
 * 1) fail without any other effect. */
unsigned fake_calls(enum fake_call call);
void fake_fail(enum fake_call call, unsigned nth, int error);

enum fake_fate {
	FAKE_DROP,
	FAKE_TWICE,
	FAKE_LATE,      /* comes after all events before fake_late_events() */
	FAKE_INSTEAD,   /* another event with another status comes in its place */
};
/* The rule is for the nth event of the type from now on. */
void fake_event_fate(enum rdma_cm_event_type type, unsigned nth, enum fake_fate fate);
void fake_event_instead(enum rdma_cm_event_type type, unsigned nth,
			enum rdma_cm_event_type other, int status);
void fake_late_events(void);

/* The nth work request from now on fails, and its queue pair with it. arrives: the other side
 * receives it all the same. */
void fake_break(unsigned nth, enum ibv_wc_status status, bool arrives);
unsigned fake_done(void);       /* work requests run, including failed ones */
unsigned fake_starved(void);    /* of these, the number that had to wait for a receive */
/* With fake.hold: runs at most n work requests, in turn among queue pairs. Returns the number
 * run. */
unsigned fake_run(unsigned n);
/* The queue pair of id fails; the other side is not told. */
void fake_kill(struct rdma_cm_id *id);
/* Removes the device: its queue pairs fail, posts are refused, and all its ids get an event (unless
 * quiet). */
void fake_remove(unsigned device, bool quiet);
/* True when all users of the device were told of the removal and have freed all its objects. */
bool fake_let_go(unsigned device);

/* ---- counters ---- */

struct fake_census {
	unsigned channels, ids, pds, mrs, cqs, qps;
};
struct fake_census fake_census(void);
/* The largest number of RDMA_READs posted at once on one queue pair, so far. */
unsigned fake_reads_at_once(void);

#endif
