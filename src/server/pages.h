// SPDX-License-Identifier: Apache-2.0
/* Memory of whole pages, which a child of fork(2) shares, or can let go of: there is no trace of
 * them in it then. To wipe them instead would copy each page first. */
#ifndef RFTP_SERVER_PAGES_H
#define RFTP_SERVER_PAGES_H

#include "util/util.h"

#include <stddef.h>

/* len bytes of 0, of this process alone; NULL: there are none. */
void *pages_new(size_t len);
/* The same, but its children write to them, too. */
void *pages_shared(size_t len);
/* Of as many bytes as it was made of; NULL is harmless. */
void pages_free(void *p, size_t len);
/* Children that begin later do not have them at all. 0 or a negative errno with text. */
int pages_alone(void *p, size_t len, struct err *e);

#endif
