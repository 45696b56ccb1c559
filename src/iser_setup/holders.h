// SPDX-License-Identifier: Apache-2.0
/* Who has a disk, so that taking it away would take it from under somebody: filesystems, swap,
 * other block devices on it, programs. */
#ifndef RFTP_ISER_HOLDERS_H
#define RFTP_ISER_HOLDERS_H

#include "util/util.h"

#include <sys/types.h>

#define HOLDERS_MOST 256 /* a GPT has up to 128 partitions */

/* A device and what stands on it, by the kernel's names: itself, partitions, md, device-mapper,
 * loop. */
struct holders_stack {
	char name[HOLDERS_MOST][32];
	unsigned n;
	bool more;             /* than are here */
};

/* sysfs: NULL for this machine's. */
void holders_stack(const char *sysfs, const char *name, struct holders_stack *s);
/* device-mapper's name of "dm-0", "rftp--iser-data"; "" when it is none. */
void holders_dm_name(const char *sysfs, const char *name, char out[128]);

/* Pure. Where the device with this number is mounted, by the text of mountinfo: into out; false: it
 * is not. */
bool holders_mounted(const char *mountinfo, dev_t dev, char *out, size_t room);
/* Is path in the text of /proc/swaps? */
bool holders_swapped(const char *swaps, const char *path);

bool holders_is_partition(const char *sysfs, const char *name);
/* The first that stands on the device and is no partition, "md127"; NULL: there is none. s's. */
const char *holders_above(const char *sysfs, const struct holders_stack *s);

/* Does anybody use one of the stack? 0; -EBUSY with text: who, and how it is released; another
 * negative errno with text: that cannot be told. sysfs: NULL for this machine's. */
int holders_check(const char *sysfs, const struct holders_stack *s, struct err *e);
/* The same of the device called name, of which no other device may be made, either. */
int holders_free(const char *sysfs, const char *name, struct err *e);

#endif
