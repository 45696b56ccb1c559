// SPDX-License-Identifier: Apache-2.0
/* The names that planner.c gives. All are malloc'd; NULL: memory is out, unless e tells else. */
#ifndef RFTP_ISER_PLANNER_NAMES_H
#define RFTP_ISER_PLANNER_NAMES_H

#include "iser_setup/planner.h"

/* "iqn.2026-11.org.example" */
char *planner_iqn_prefix(const struct spec *s, const struct planner_host *h, struct err *e);
/* "iqn.2026-11.org.example:store1-node0" */
char *planner_iqn(const char *prefix, const char *name, int node);
/* A UUID, of the same names always the same. */
char *planner_serial(const char *iqn, const char *store);

#endif
