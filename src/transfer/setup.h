// SPDX-License-Identifier: Apache-2.0
/* A transfer from the agreement to its stages, for both roles and both ends. transfer_client() and
 * transfer_serve() fill the settings of a struct xfer, agree with the peer, and call these
 * functions in the order below. The thread that set the transfer up calls all of them. */
#ifndef RFTP_TRANSFER_SETUP_H
#define RFTP_TRANSFER_SETUP_H

#include "transfer/transfer.h"
#include "transfer/xfer.h"

/* ---- one side of a transfer ---- */

/* One side of a transfer: a source or a sink. From now on a stop ends all waits for the peer. own:
 * the offer of this side, to be filled in. NULL with text. */
struct xfer *setup_new(struct transfer_config *c, bool client, struct offer *own, struct err *e);
/* End the watch for a stop, and free x and everything that was set up for it. rc: the result so
 * far. Returns the result: after the user's stop every error is a consequence of it. *aborted: the
 * control stream is unusable. */
int setup_end(struct xfer *x, int rc, bool *aborted, struct err *e);

/* Set x->storage to the filesystem of the files of x->c->items. */
void setup_storage(struct xfer *x);
/* True: the items are files so few and small that the control connection delivers them before a
 * data channel would be open, which takes two round trips. */
bool setup_is_small(const struct xfer *x);
/* path itself if it is absolute, otherwise path below cwd (which may be NULL or ""). The caller
 * frees it. NULL: out of memory. */
char *setup_below(const char *cwd, const char *path);

/* Copy the agreement from ag, derive the keys, and note the facts that follow from both offers.
 * x->own is this side's offer. 0, or a negative errno with text, like all functions below that have
 * e. */
int setup_agreed(struct xfer *x, const struct bulk_agree *ag, struct err *e);
/* Choose NUMA nodes for x->agr; call it again after a new agreement. */
int setup_placement(struct xfer *x, struct err *e);
/* Create one endpoint for each agreed path. When this or one of the next two functions fails,
 * x->path_failed is the failed path. */
int setup_endpoints(struct xfer *x, struct err *e);
/* Create the pools, and register them if a device requires it. Call it once all endpoints listen or
 * are resolved. */
int setup_pools(struct xfer *x, struct err *e);
/* Connect, or accept, the channels of all paths; a stop ends this. */
int setup_channels(struct xfer *x, int timeout_ms, struct err *e);
/* Run the transfer on the open channels, or in-band if there are none. 0, or the transfer's error
 * with text; *in_line: the control stream is in line mode again. */
int setup_run(struct xfer *x, struct transfer_result *r, bool *in_line, struct err *e);

/* End a transfer that has not begun: send ABORT (not if code is 0: the peer sent one) and exchange
 * BULK_END. True: the stream is in line mode again. */
bool setup_abort(struct mstream *ms, int code, const char *text);
/* Read the first frame of the peer, which must have this type. An ABORT returns its error and sets
 * *aborted. */
int setup_expect(struct mstream *ms, uint8_t type, struct buf *p, bool *aborted,
		 struct err *e);

/* ---- this side's offer, and the limits of this machine behind it ---- */

/* Fill in the limits of this machine and of t; members that the caller has set do not change. */
void offer_fill(struct offer *o, const struct transfer_tuning *t);
/* Read the limit of locked memory again: it may have been raised since. */
void offer_locked(struct offer *o, const struct transfer_tuning *t);
/* Put this machine's network cards into o. Without an RDMA device among them o loses RDMA, and *why
 * says the reason (-EPROTONOSUPPORT: a device exists, but a limit forbids its use). local: this
 * end of the control connection, AF_UNSPEC when it is not known. 0, or a negative errno with
 * text: a card that t names does not exist, unless lenient. */
int offer_nics(struct offer *o, const struct transfer_tuning *t,
	       const struct sockaddr_storage *local, bool lenient, struct err *why,
	       struct err *e);
/* An identifier of the running kernel, the same for all of its processes (copies of a running
 * virtual machine share it). It is derived with the client's nonce, so that it serves only to
 * find that both sides run on one host. Zeros if /proc does not have it. */
void offer_host(uint8_t host[HOST_ID_BYTES], const uint8_t client_nonce[NONCE_BYTES]);
/* Both offers have an identifier, and it is the same. */
bool offers_same_host(const struct offer *a, const struct offer *b);
/* True: this side has set options of TCP streams, so data channels are opened for small files,
 * too. */
bool tuning_has_streams(const struct transfer_tuning *t);
/* The I/O engine for files on the filesystem of fd (-1: not known). direct: the page cache is
 * bypassed. */
enum io_kind tuning_io(const struct transfer_tuning *t, int fd, bool direct);
/* Threads that read or write files: one for each of cpus (0: the CPUs of this process), but
 * no more than the agreed paths can keep busy. */
unsigned tuning_threads(const struct agreement *a, unsigned cpus);
/* The most directories of a tree, and the most part files, that may be open at the same time. */
unsigned open_files_most(void);

#endif
