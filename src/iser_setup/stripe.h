// SPDX-License-Identifier: Apache-2.0
/* Several disks as one, by md (RAID 0) or by LVM: made once, and put together again ever after,
 * for what is on it is there once. */
#ifndef RFTP_ISER_STRIPE_H
#define RFTP_ISER_STRIPE_H

#include "util/util.h"

#define STRIPE_NAME_ROOM 80
#define STRIPE_ID_ROOM 64
#define STRIPE_MEMBERS_MOST 64
#define STRIPE_DEVICE_ROOM 256
#define STRIPE_CHUNK (512u << 10) /* bytes, when none is asked for: mdadm's own */

enum stripe_kind {
	STRIPE_NONE,
	STRIPE_MD,
	STRIPE_LVM,
	STRIPE_KINDS
};

extern const char *const stripe_kinds[STRIPE_KINDS]; /* "none", "md", "lvm" */

struct stripe {
	enum stripe_kind kind;
	char name[STRIPE_NAME_ROOM];   /* md's, or the volume group's */
	char id[STRIPE_ID_ROOM];       /* its UUID; before it is made, what was drawn for it */
};

struct stripe_disks {
	const char *path[STRIPE_MEMBERS_MOST]; /* /dev/..., the caller's */
	unsigned n;
};

/* What a disk says of itself, out of mdadm --examine --export or pvs. */
struct stripe_member {
	enum stripe_kind kind;         /* STRIPE_NONE: it is in none */
	char name[STRIPE_NAME_ROOM];
	char id[STRIPE_ID_ROOM];
	unsigned of;                   /* how many there are in all */
	bool striped;                  /* it is RAID 0; of LVM it is not known here */
};

/* Pure. */
void stripe_md_member(const char *exported, struct stripe_member *m);
void stripe_lvm_member(const char *line, struct stripe_member *m);
/* 1: they are the members of one stripe of this kind, and all of them; 0: none is in any;
 * -EEXIST with text: they are something else. */
int stripe_whole(enum stripe_kind kind, const struct stripe_member *m, unsigned n, struct err *e);
/* NAME of the text "/dev/md/NAME" is: a plan's name, or "iser", after "rftp-". out. */
const char *stripe_name(const char *plan, char out[STRIPE_NAME_ROOM]);

/* An id for one that is going to be made, by which what there is of it will be known: md's UUID, or
 * what the UUIDs of LVM's physical volumes begin with, for LVM draws a group's by itself. 0, or a
 * negative errno with text. */
int stripe_draw(enum stripe_kind kind, char id[STRIPE_ID_ROOM], struct err *e);
/* The UUID of the nth physical volume, out. */
const char *stripe_volume_id(const char *id, unsigned nth, char out[STRIPE_ID_ROOM]);

/* The types of what wipefs prints ("xfs\nlinux_raid_member\n"), in a line; "" when it prints
 * none. */
void stripe_signatures(const char *printed, char *out, size_t room);

/* What has been found on device, as "xfs, dos"; "" when it is empty. 0, or a negative errno with
 * text. */
int stripe_look(const char *device, const struct stop *stop, char *out, size_t room,
		struct err *e);

/* Is there a stripe on these disks? 1: *s is it, and device is where it is, put together now if
 * need be (*started then); 0: the disks are in none; negative errno with text. */
int stripe_find(enum stripe_kind kind, const struct stripe_disks *d, const struct stop *stop,
		struct stripe *s, char device[STRIPE_DEVICE_ROOM], bool *started, struct err *e);
/* Takes all signatures off the disks. */
int stripe_wipe(const struct stripe_disks *d, const struct stop *stop, struct err *e);
/* Makes one of the name and the id that was drawn out of the disks, unless mdadm or LVM finds
 * something on them. device is where it is, id its own. On failure nothing of it is left. */
int stripe_make(const struct stripe *s, const struct stripe_disks *d, uint64_t chunk,
		const struct stop *stop, char device[STRIPE_DEVICE_ROOM], char id[STRIPE_ID_ROOM],
		struct err *e);

/* What a run that was killed has left of s, of the name and the id that was drawn. */
enum stripe_left {
	STRIPE_GONE,           /* nothing that is its */
	STRIPE_HALF,           /* something, and nobody can have put data on it yet */
	STRIPE_WHOLE,          /* it was made */
	STRIPE_UNTOLD,         /* something, and there may be data on it; or disks are missing */
};

/* d: its disks in their order; NULL: one is not there. WHOLE: s->id is its own from now on.
 * Negative errno with text. */
int stripe_left(struct stripe *s, const struct stripe_disks *d, const struct stop *stop,
		struct err *e);
/* Takes off the disks what is HALF. What is left then: GONE, or, of disks that are missing, UNTOLD;
 * negative errno with text: that cannot be told, or it is HALF still. */
int stripe_take_down(const struct stripe *s, const struct stripe_disks *d, struct err *e);

/* Takes it away from the kernel; what is on the disks stays. device: where it is. */
int stripe_stop(const struct stripe *s, const char *device, const struct stop *stop,
		struct err *e);

/* XFS on device, whose stripe has a unit of chunk bytes over n disks (0: it is none); over whatever
 * is there, or else only when mkfs.xfs finds nothing there, either. */
int stripe_mkfs(const char *device, uint64_t chunk, unsigned n, bool over,
		const struct stop *stop, struct err *e);
/* The chunk of a stripe that is there, in bytes; 0: not known. kernel: its name, "md127". */
uint64_t stripe_chunk(const char *kernel);

#endif
