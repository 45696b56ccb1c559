// SPDX-License-Identifier: Apache-2.0
/* The sessions of this host's initiator and the disks they gave it, as sysfs tells. */
#ifndef RFTP_ISER_SESSIONS_H
#define RFTP_ISER_SESSIONS_H

#include "iser_setup/login.h"

#define DISK_ROOM 32
#define SERIAL_ROOM 64

struct session_disk {
	char name[DISK_ROOM];  /* "sda" */
	unsigned lun;
	uint64_t size;         /* bytes */
	char serial[SERIAL_ROOM]; /* that the target tells; "" when it tells none */
};

struct session {
	unsigned id, host;
	char iqn[ISCSI_NAME_ROOM];
	char state[24];        /* "LOGGED_IN" */
	char iface[32];        /* open-iscsi's */
	char transport[16];    /* really used: "iser", "tcp" */
	struct login_portal portal; /* as the record has it */
	unsigned luns;         /* disks that the target has */
	struct session_disk *disks; /* those that are block devices by now, by LUN */
	size_t n_disks;
};

struct sessions {
	struct session *v;
	size_t n;
};

/* sysfs: NULL for RFTP_SYSFS of the environment or else /sys. A host without any is no error. 0, or
 * a negative errno with text. s is sessions_clear's in any case. */
int sessions_read(const char *sysfs, struct sessions *s, struct err *e);
void sessions_clear(struct sessions *s);
/* The first one with the target, whoever made it; NULL: there is none. */
const struct session *sessions_find(const struct sessions *s, const char *iqn);
/* The one that a record of open-iscsi's makes: others have sessions with the same target, by
 * another way. */
const struct session *sessions_at(const struct sessions *s, const char *iqn,
				  const struct login_portal *p, enum login_transport transport);

/* Have the kernel look for disks of s that it does not know. Whether it finds any is seen by reading
 * the sessions again. */
void session_rescan(const char *sysfs, const struct session *s);

/* The directory that sysfs means. */
const char *sysfs_or(const char *sysfs);
/* The line of a file below it, made of a format; "" when it has none. */
void sysfs_text(const char *sysfs, char *out, size_t room, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* Where people should look for a disk, which is not called the same after every start:
 * /dev/disk/by-id/... or by-path, or else /dev/NAME. dev: NULL for /dev. out. */
const char *disk_path(const char *dev, const char *name, char out[256]);
/* Is path a block device that can be opened by now? */
bool disk_is_there(const char *path);

#endif
