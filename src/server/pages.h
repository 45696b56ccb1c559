// SPDX-License-Identifier: Apache-2.0
/* Memory of whole pages. A process that begins with a copy of it, which fork(2) makes of a page when
 * it is written to, lets go of it without a trace, and without the copy that wiping would be. */
#ifndef RFTP_SERVER_PAGES_H
#define RFTP_SERVER_PAGES_H

#include <stddef.h>

/* len bytes of 0; NULL: there are none. */
void *pages_new(size_t len);
/* Of as many bytes as it was made of; NULL is harmless. */
void pages_free(void *p, size_t len);

#endif
