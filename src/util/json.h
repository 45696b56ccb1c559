// SPDX-License-Identifier: Apache-2.0
/* Events for programs: one JSON object per line on a stream, built with jansson. */
#ifndef RFTP_UTIL_JSON_H
#define RFTP_UTIL_JSON_H

#include <jansson.h>
#include <stdio.h>

/* A name as a JSON string, with U+FFFD for each byte that is not UTF-8. New reference. */
json_t *json_name(const char *name);

/* obj[key] = json_name(name); and when the name is not UTF-8, obj[key "_hex"] = its
 * bytes in hex, so that programs can distinguish such names. 0 or -ENOMEM. */
int json_set_name(json_t *obj, const char *key, const char *name);
/* The name that json_set_name() has set, malloc'd. 0; -EBADMSG: there is none; or -ENOMEM. */
int json_get_name(const json_t *obj, const char *key, char **name);
/* obj as one line with its newline; malloc'd; drops the reference. NULL: out of memory. */
char *json_line(json_t *obj);
/* Make jansson wipe memory before it frees it. Call before creating the first object. */
void json_wipes(void);
/* Write obj on one line, flush, and drop the reference. 0 or a negative errno. */
int json_emit(FILE *out, json_t *obj);

#endif
