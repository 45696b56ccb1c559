// SPDX-License-Identifier: Apache-2.0
/* What lies below a descriptor: memory, a network, or a block device with its queue. */
#ifndef RFTP_STORAGE_DEVICE_H
#define RFTP_STORAGE_DEVICE_H

#include "storage/storage.h"

#define SYSFS "/sys" /* tests have their own */

/* What the kind of fd's filesystem tells; UNKNOWN: its device decides. */
enum storage_class class_by_magic(int fd);
/* The block device below fd; 0: none is known. */
dev_t device_of(int fd);

/* What a filesystem was mounted from, as proc(5) describes mountinfo. */
struct mount_source {
	char type[64], source[256], options[1024];
};

/* The mount with this number among mountinfo's lines. */
bool mount_find(const char *mountinfo, unsigned long long id, struct mount_source *m);

/* A number of the request queue of dev, or of a partition's disk. -1: not told. */
long queue_number(const char *sysfs, dev_t dev, const char *name);
/* Does dev rotate, or anything that it is made of (device mapper, RAID)? 1, 0, or -1: not
 * told. */
int device_rotates(const char *sysfs, dev_t dev);

#endif
