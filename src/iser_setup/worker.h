// SPDX-License-Identifier: Apache-2.0
/* Hands that change LIO: a Python program with rtslib, run under numactl on a node, that is told
 * one thing at a time, as a line of JSON, and answers it before the next. Secrets go through the
 * pipe, never by arguments or the environment. */
#ifndef RFTP_ISER_WORKER_H
#define RFTP_ISER_WORKER_H

#include "numa/numa.h"
#include "util/util.h"

/* The program: RFTP_ISER_LIO of the environment, or else the one that was installed. */
#define WORKER_PROGRAM "rftp-iser-lio"
#define WORKER_LINE_MAX (1u << 20) /* bytes of a request, and of an answer */
/* So long, in seconds, an answer is waited for; RFTP_ISER_LIMIT of the environment is another
 * number. The memory of a big back store takes its time, as do sessions that end. */
#define WORKER_LIMIT 1800u

struct worker;

/* Whose CPUs and memory it has, for what it allocates in the kernel: node, or NODE_UNKNOWN for
 * wherever. NULL with text: -ENOENT when python3, rtslib or numactl is missing, with the package
 * to install. It is started by its first worker_do. */
struct worker *worker_new(int node, struct err *e);
/* fd, a descriptor that stays the caller's, is open as long as the worker lives: when we are killed
 * it still ends what it was told, and what fd locks stays locked until then. Before its first
 * worker_do. */
void worker_hold(struct worker *w, int fd);
/* Ends it, when it has done what it was told; NULL is harmless. */
void worker_free(struct worker *w);

/* One request, {"do": "create-target", "iqn": ...}; its reference is taken. 0; or -EIO with what
 * went wrong as rtslib told it, and then it has taken back what it did of the request. Half of it
 * may be left of these: -EPIPE: it has died; the next request finds a new one. -EPROTO: what it
 * said is no answer; likewise. -ETIMEDOUT: it has not answered, may still be at it, and will not be
 * asked again. No signal that comes meanwhile ends what is begun. */
int worker_do(struct worker *w, json_t *request, struct err *e);

#endif
