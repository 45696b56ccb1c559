// SPDX-License-Identifier: Apache-2.0
/* Events for programs: one JSON object per line on a stream, built with jansson. */
#ifndef RFTP_UTIL_JSON_H
#define RFTP_UTIL_JSON_H

#include <jansson.h>
#include <stdio.h>

/* A name of bytes as a JSON string: as it is when it is UTF-8, otherwise with each
 * stray byte as U+FFFD; see json_set_name. New reference. */
json_t *json_name(const char *name);
/* obj[key] = json_name(name); and when the name is not UTF-8, obj[key "_hex"] = its
 * bytes in hex, so that programs can tell names apart. 0 or -ENOMEM. */
int json_set_name(json_t *obj, const char *key, const char *name);
/* obj on one line, newline too; malloc'd; drops the reference. NULL: memory is out. */
char *json_line(json_t *obj);
/* From now on nothing that went into an object stays in memory that is free. Before the first. */
void json_wipes(void);
/* Write obj on one line, flush, and drop the reference. 0 or a negative errno. */
int json_emit(FILE *out, json_t *obj);

#endif
