// SPDX-License-Identifier: Apache-2.0
/* The settings of --tune: which, to what, and setting them. Reasons are in rftp-iser(8). */
#ifndef RFTP_ISER_TUNE_H
#define RFTP_ISER_TUNE_H

#include "util/util.h"

/* Before the login, in the record: as many commands as LIO lets a session have at once. */
#define TUNE_QUEUE_DEPTH 64u
#define TUNE_CMDS_MAX 128u  /* a power of two */
#define TUNE_READ_AHEAD_KB 4096u

#define TUNE_VALUE_ROOM 40
#define TUNE_FILE_ROOM 64

struct tune_step {
	char device[32];             /* "sda" */
	char file[TUNE_FILE_ROOM];   /* below its directory in class/block */
	char want[TUNE_VALUE_ROOM];
	char before[TUNE_VALUE_ROOM], after[TUNE_VALUE_ROOM]; /* "": it cannot be read */
	int failed;                  /* negative errno of the writing; 0 */
};

#define TUNE_STEPS_MOST 8

/* Pure: what is to be set for a disk whose card takes can_queue commands (0: not known), in this
 * order; how many. */
unsigned tune_disk(const char *device, unsigned can_queue, struct tune_step steps[TUNE_STEPS_MOST]);
/* The same for a stripe over n disks. */
unsigned tune_stripe(const char *device, unsigned n, struct tune_step steps[TUNE_STEPS_MOST]);
/* Of "mq-deadline [none]" the word that is chosen, or all of a text without one; in place. */
void tune_chosen(char *text);

/* Sets what is not so already. A step that fails is only noted in it. sysfs: NULL for this
 * machine's. */
void tune_do(const char *sysfs, struct tune_step *steps, unsigned n);
unsigned tune_can_queue(const char *sysfs, unsigned host);

#endif
