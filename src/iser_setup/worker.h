// SPDX-License-Identifier: Apache-2.0
/* Hands that change LIO: a Python program with rtslib, run under numactl on a node, that is told
 * one thing at a time, as a line of JSON, and answers it before the next. Secrets go through the
 * pipe, never by arguments or the environment. */
#ifndef RFTP_ISER_WORKER_H
#define RFTP_ISER_WORKER_H

#include "numa/numa.h"
#include "util/util.h"

struct worker;

/* Whose CPUs and memory it has, for what it allocates in the kernel: node, or NODE_UNKNOWN for
 * wherever. NULL with text: -ENOENT when python3, rtslib or numactl is missing, with the package
 * to install. It is started by its first worker_do. */
struct worker *worker_new(int node, struct err *e);
/* Ends it, when it has done what it was told; NULL is harmless. */
void worker_free(struct worker *w);

/* One request, {"do": "create-target", "iqn": ...}; its reference is taken. 0; or -EIO with what
 * went wrong as rtslib told it; -EPIPE: it has died. What it did of a request that failed it has
 * taken back. */
int worker_do(struct worker *w, json_t *request, struct err *e);

#endif
