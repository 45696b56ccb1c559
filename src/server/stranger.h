// SPDX-License-Identifier: Apache-2.0
/* A process that has to do with what strangers send. */
#ifndef RFTP_SERVER_STRANGER_H
#define RFTP_SERVER_STRANGER_H

#include "server/server.h"

/* This process, which is root's, has no rights from now on: it is the fronts' user in an empty
 * root, with small limits, and its system calls are filtered. What it has open it keeps. 0, or a
 * negative errno with text: it is something between the two and must end. One thread only. */
int stranger_become(const struct server *sv, struct err *e);

#endif
