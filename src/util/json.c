// SPDX-License-Identifier: Apache-2.0
/* JSON lines and the names in them. */
#include "util/json.h"

#include "util/cleanup.h"
#include "util/text.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

static bool is_utf8(const char *name)
{
	const unsigned char *s = (const unsigned char *)name;
	size_t n;

	for (; *s; s += n) {
		n = utf8_step(s);
		if (!n)
			return false;
	}
	return true;
}

json_t *json_name(const char *name)
{
	const unsigned char *s = (const unsigned char *)name;
	CLEANUP_FREE char *text = NULL;
	size_t n;
	char *out;

	if (is_utf8(name))
		return json_string(name);
	text = malloc(strlen(name) * 3 + 1);
	if (!text)
		return NULL;
	for (out = text; *s; s += n ? n : 1) {
		n = utf8_step(s);
		out = n ? mempcpy(out, s, n) : mempcpy(out, replacement, 3);
	}
	*out = '\0';
	return json_string(text);
}

static json_t *hex_of(const char *name)
{
	static const char digits[] = "0123456789abcdef";
	CLEANUP_FREE char *hex = malloc(strlen(name) * 2 + 1);
	char *out = hex;

	if (!hex)
		return NULL;
	for (; *name; name++) {
		*out++ = digits[(unsigned char)*name >> 4];
		*out++ = digits[(unsigned char)*name & 15];
	}
	*out = '\0';
	return json_string(hex);
}

int json_set_name(json_t *obj, const char *key, const char *name)
{
	CLEANUP_FREE char *hex_key = NULL;

	/* json_object_set_new() takes the reference whatever happens, and takes NULL
	 * for a failure. */
	if (json_object_set_new(obj, key, json_name(name)) < 0)
		return -ENOMEM;
	if (is_utf8(name))
		return 0;
	if (asprintf(&hex_key, "%s_hex", key) < 0) {
		hex_key = NULL; /* asprintf leaves it undefined */
		return -ENOMEM;
	}
	return json_object_set_new(obj, hex_key, hex_of(name)) < 0 ? -ENOMEM : 0;
}

char *json_line(json_t *obj)
{
	/* As many digits as a double has for sure: 17 would make 0.10000000000000001 of 0.1. */
	char *text = json_dumps(obj, JSON_COMPACT | JSON_REAL_PRECISION(15)), *line;
	size_t len = text ? strlen(text) : 0;

	json_decref(obj);
	line = text ? malloc(len + 2) : NULL;
	if (line)
		strcpy(mempcpy(line, text, len), "\n");
	if (text)
		explicit_bzero(text, len);
	free(text);
	return line;
}

static void wipe_and_free(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void json_wipes(void)
{
	json_set_alloc_funcs(malloc, wipe_and_free);
}

int json_emit(FILE *out, json_t *obj)
{
	CLEANUP_FREE char *line = json_line(obj);
	int rc = 0;

	if (!line)
		return -ENOMEM;
	/* One line whole, however many threads have something to say. */
	flockfile(out);
	errno = 0;
	if (fputs(line, out) < 0 || fflush(out) < 0)
		rc = errno ? -errno : -EIO;
	funlockfile(out);
	return rc;
}
