// SPDX-License-Identifier: Apache-2.0
/* The parts of lio_read(), each for one kind of thing; 0 or -ENOMEM. */
#ifndef RFTP_ISER_LIO_H
#define RFTP_ISER_LIO_H

#include "iser_setup/configfs.h"
#include "iser_setup/system.h"

#define LIO_TAG_MOST 65535u /* of a portal group */

/* Those below target/core, of every plugin. */
int lio_read_stores(const char *target, struct lio *l);
/* Those below target/iscsi. */
int lio_read_targets(const char *target, struct lio *l);
/* proc: where it is mounted. */
int lio_read_mounts(const char *proc, struct lio *l);

#endif
