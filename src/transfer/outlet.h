// SPDX-License-Identifier: Apache-2.0
/* Standard output, written to so that a consumer who has stopped reading can be left. */
#ifndef RFTP_TRANSFER_OUTLET_H
#define RFTP_TRANSFER_OUTLET_H

#include <stdbool.h>
#include <stddef.h>

struct outlet {
	int fd;          /* standard output, or another description of the same pipe */
	int wake;        /* eventfd */
	size_t chunk;    /* most bytes of a write, such that it does not sleep after a poll */
	bool own;        /* fd is ours to close */
	bool socket;
};

/* 0 or a negative errno. Flags of standard output are left alone: it is shared with other
 * processes. */
int outlet_open(struct outlet *o);
/* All of it. 0; -ECANCELED after outlet_wake(), with any part of it written; or the
 * negative errno. One thread. */
int outlet_write(struct outlet *o, const void *p, size_t len);
/* Writes end, now and later. Any thread, between open and close. */
void outlet_wake(struct outlet *o);
void outlet_close(struct outlet *o);

#endif
