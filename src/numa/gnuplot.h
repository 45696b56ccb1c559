// SPDX-License-Identifier: Apache-2.0
/* Runs gnuplot. */
#ifndef RFTP_NUMA_GNUPLOT_H
#define RFTP_NUMA_GNUPLOT_H

#include "util/util.h"

/* Run script; what it prints is *out, which the caller frees. 0, or a negative
 * errno with text: -ENOENT when there is no gnuplot. */
int gnuplot(const char *script, size_t script_len, char **out, size_t *len, struct err *e);
/* Would it run? The same. */
int gnuplot_check(struct err *e);

#endif
