// SPDX-License-Identifier: Apache-2.0
/* What both entry points share between the request and the first block: this side's
 * offer, pools and paths, and a clean end when it comes to nothing. */
#ifndef RFTP_TRANSFER_SETUP_H
#define RFTP_TRANSFER_SETUP_H

#include "transfer/ends.h"
#include "transfer/xfer.h"

/* Fill in what this machine and tuning say; keeps what the caller has set. */
void setup_offer(struct offer *o, const struct transfer_tuning *t);
/* What may be locked, of that, now. */
void setup_locked(struct offer *o, const struct transfer_tuning *t);
/* Our network cards into o; without an RDMA device among them o offers no RDMA, which *why
 * tells (-EPROTONOSUPPORT: there is one, but a limit forbids its use). local: our end of the
 * control connection, AF_UNSPEC when it is not known. 0, or a
 * negative errno with text: a card was named that there is not, and not lenient. */
int setup_nics(struct offer *o, const struct transfer_tuning *t,
	       const struct sockaddr_storage *local, bool lenient, struct err *why,
	       struct err *e);
/* Pools and paths of x from its agreement: those that were opened, which are x's then, with
 * the standby behind them; in-band when there are none. */
int setup_paths(struct xfer *x, bool source, struct ends *d, struct err *e);
/* path, which starts at cwd unless it is absolute; the caller frees it. NULL: out of memory. */
char *setup_below(const char *cwd, const char *path);
/* Where what is sent lies, by its first source, for the sources seldom lie apart; and where what
 * comes is to go: a descriptor (O_PATH), or negative, when there is none, or no such place. */
int setup_source_storage(struct root *root, const char *cwd, const struct transfer_item *items,
			 uint32_t n);
int setup_sink_storage(struct root *root, const char *cwd, const struct transfer_item *item);
/* So few and small files that they go over the control connection before a data channel, which takes
 * two round trips to open, would be up. As setup_source_storage(). */
bool setup_is_little(struct root *root, const char *cwd, const struct transfer_item *items,
		     uint32_t n);
/* An option of this side concerns its data streams: then there must be some, for little files, too. */
bool setup_tunes_streams(const struct transfer_tuning *t);
/* The I/O engine for files that lie where fd does (-1: nowhere in particular), past the
 * page cache when direct. */
enum io_kind setup_io(const struct transfer_tuning *t, int fd, bool direct);
/* How many threads read or write files: as many as there are CPUs for them (0: those of this
 * process), but no more than what the paths carry can need. */
unsigned setup_threads(const struct agreement *a, unsigned cpus);
/* How many directories of a tree may be open at once, and how many files that are written. */
unsigned setup_open_files(const struct transfer_tuning *t);
/* No data channel could be opened: what was agreed, by way of the control stream. */
void setup_inband(struct agreement *a);
/* Who we run on, the same for all processes of a kernel from its start to its end (copies
 * of a running virtual machine share it), but of no use to whoever has another nonce: to
 * find that both sides are on one host. Zeros where /proc does not tell. */
void setup_host(uint8_t host[HOST_ID_BYTES], const uint8_t client_nonce[NONCE_BYTES]);
/* Both have said who they are, and are the same. */
bool setup_same_host(const struct offer *a, const struct offer *b);
/* Nothing comes of it: tell the peer (code 0: it told us), exchange BULK_END. True when
 * the stream is in line mode again. */
bool setup_abort(struct mstream *ms, int code, const char *text);
/* The first frame of the other side, of this type; an ABORT gives its own error. */
int setup_expect(struct mstream *ms, uint8_t type, struct buf *p, bool *aborted,
		 struct err *e);

#endif
