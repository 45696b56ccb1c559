// SPDX-License-Identifier: Apache-2.0
/* uthash, as it is used here. */
#ifndef RFTP_UTIL_HASH_H
#define RFTP_UTIL_HASH_H

/* Its default function falls through switch labels, which clang warns of at every use. */
#define HASH_FUNCTION(key, len, hash) HASH_OAT(key, len, hash)
/* Only main exits: without memory the element is not in the table, and is not found. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#endif
