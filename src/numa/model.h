// SPDX-License-Identifier: Apache-2.0
/* The I/O model; rftp-numa(1) describes its file. The command rftp-numa model
 * (tools/rftp_numa/model.py) writes the file; rftp and rftpd read it. */
#ifndef RFTP_NUMA_MODEL_H
#define RFTP_NUMA_MODEL_H

#include "numa/numa.h"

struct model {
	json_t *root; /* checked: all members that the queries read are present and in range */
};

/* 0: the model was measured on the machine t in its present state. -ESTALE: e names the first
 * difference. */
int model_fits(const struct model *m, const struct topo *t, struct err *e);

/* Parse len bytes of text; errors name the text as name. The caller frees the model with
 * model_free(). NULL with text; e's code is -EBADMSG for a damaged file. */
struct model *model_parse(const char *name, const char *text, size_t len, struct err *e);

#endif
