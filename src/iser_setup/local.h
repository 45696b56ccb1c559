// SPDX-License-Identifier: Apache-2.0
/* What apply does itself, for it is no part of LIO: directories, files, tmpfs, interrupts. */
#ifndef RFTP_ISER_LOCAL_H
#define RFTP_ISER_LOCAL_H

#include "numa/numa.h"
#include "util/util.h"

/* Is it one of these requests, and no worker's? */
bool local_is(const json_t *request);

/* {"do": "make-dir"|"remove-dir"|"remove-file"|"unmount", "path"}, {"do": "make-file", "path",
 * "size", "bound", "new"}, {"do": "cut-file", "path", "size"}, {"do": "mount", "path", "options"},
 * {"do": "set-irq", "irq", "list"}. What is there, or gone, already is no error, but for a file
 * that is to be new. make-file: its bytes are allocated by a thread on node (or NODE_UNKNOWN),
 * bound: of no other's memory; all of them, or it is as before. stop: looked at while it does
 * (-EINTR), or NULL. 0, or a negative errno with text. */
int local_do(const json_t *request, const struct topo *t, int node, const struct stop *stop,
	     struct err *e);

#endif
