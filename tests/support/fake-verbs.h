// SPDX-License-Identifier: Apache-2.0
/* A fabric without hardware: all of the seam of src/rdma/verbs.h in one process. Its queue
 * pairs move bytes between registered memory, its devices check keys, bounds and rights,
 * its connections send events; nothing happens by itself, so that what a test does happens
 * in the same order in every run. Tests make any step fail.
 *
 * Devices are numbered from 1; device n has the address 192.0.2.n, on the port of that name
 * there is one listener. What a real device or librdmacm would crash on, wait for without
 * end, or leak ends the program with a line on stderr.
 *
 * Ends may be driven from several threads, while the settings below stay as they are. */
#ifndef RFTP_TESTS_FAKE_VERBS_H
#define RFTP_TESTS_FAKE_VERBS_H

#include "rdma/verbs.h"

#include <stdbool.h>
#include <sys/socket.h>

#define FAKE_DEVICES 3

extern const struct verbs fake_verbs;

/* An empty fabric; then its end: whatever was made must have been freed. */
void fake_begin(void);
void fake_end(void);
void fake_address(unsigned device, struct sockaddr_storage *a);

/* ---- what the devices are like; after fake_begin(), before they are used ---- */

struct ibv_device_attr *fake_device_attr(unsigned device);
struct ibv_port_attr *fake_port_attr(unsigned device);

struct fake_settings {
	unsigned route;         /* device by which a client without a source address goes: 2 */
	unsigned request_by;    /* device by which requests come; 0: by the listener's */
	bool exact_data;        /* private data as long as it was sent (iWARP), not as the room
				 * that messages have for it (InfiniBand, RoCE) */
	uint32_t inline_max;    /* most bytes of an inline send: 64; 0: no queue pair with any */
	uint32_t send_wr_max;   /* most sends of a queue pair, whatever the device says; 0: that */
	bool purge;             /* a queue pair takes its completions out of the queue when it
				 * goes (mlx5 does, rxe does not) */
	bool may_starve;        /* a message may meet no receive, and waits for one */
	bool gives_up;          /* what nobody takes fails at once, not when its queue pair does */
	bool hold;              /* what is posted waits for fake_run() */
	uint8_t ack_timeout;    /* told: the exponent that was set last */
	/* Called when event_next has nothing to say: the other side's turn, where one thread
	 * drives both. */
	void (*idle)(void *arg);
	void *idle_arg;
};
extern struct fake_settings fake;

/* ---- what goes wrong ---- */

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
/* So many calls there were; the nth from now on (from 1) fails, nothing else happens. */
unsigned fake_calls(enum fake_call call);
void fake_fail(enum fake_call call, unsigned nth, int error);

enum fake_fate {
	FAKE_DROP,
	FAKE_TWICE,
	FAKE_LATE,      /* comes behind those that come until fake_late_events() */
	FAKE_INSTEAD,   /* another, with another status, comes in its place */
};
/* The nth event of the type from now on. */
void fake_event_fate(enum rdma_cm_event_type type, unsigned nth, enum fake_fate fate);
void fake_event_instead(enum rdma_cm_event_type type, unsigned nth,
			enum rdma_cm_event_type other, int status);
void fake_late_events(void);

/* The nth piece of work that is done from now on fails, and its queue pair with it. arrives:
 * the other side has it all the same. */
void fake_break(unsigned nth, enum ibv_wc_status status, bool arrives);
unsigned fake_done(void);       /* pieces of work done, or tried */
unsigned fake_starved(void);    /* of them, so many met no receive at first */
/* With fake.hold: do at most n pieces, taking turns among queue pairs. How many it did. */
unsigned fake_run(unsigned n);
/* id's queue pair dies; the other side does not hear of it. */
void fake_kill(struct rdma_cm_id *id);
/* The device goes: its queue pairs fail, nothing can be posted, and all its ids are told.
 * quiet: the ids are not. */
void fake_remove(unsigned device, bool quiet);
/* Whoever had it has been told so, and has given all of it back. */
bool fake_let_go(unsigned device);

/* ---- what there is ---- */

struct fake_census {
	unsigned channels, ids, pds, mrs, cqs, qps;
};
struct fake_census fake_census(void);
/* The most RDMA_READs that were posted at once on one queue pair, of all so far. */
unsigned fake_reads_at_once(void);

#endif
