// SPDX-License-Identifier: Apache-2.0
/* JSON lines and the names in them. */
#include "util/json.h"

#include "util/base.h"
#include "util/err.h"
#include "util/units.h"

#include <malloc.h>

/* User names must not stay in freed memory: processes for other users inherit it. */
static void json_wipe_text(char **text)
{
	if (*text)
		explicit_bzero(*text, strlen(*text));
	free(*text);
}
#define CLEANUP_WIPE CLEANUP(json_wipe_text)

/* The name as a JSON string, with U+FFFD for each byte that is not UTF-8. *stray: name has such
 * bytes. */
static json_t *json_utf8(const char *name, bool *stray)
{
	const unsigned char *s = (const unsigned char *)name;
	char *text CLEANUP_WIPE = malloc(strlen(name) * 3 + 1), *out = text;

	*stray = false;
	if (!text)
		return NULL;
	for (size_t n; *s; s += n ? n : 1) {
		n = utf8_step(s);
		out = n ? mempcpy(out, s, n) : mempcpy(out, "\xef\xbf\xbd", 3);
		*stray |= !n;
	}
	*out = '\0';
	return json_string(text);
}

json_t *json_name(const char *name)
{
	bool stray;

	return json_utf8(name, &stray);
}

static json_t *json_hex(const char *name)
{
	static const char digits[] = "0123456789abcdef";
	char *hex CLEANUP_WIPE = malloc(strlen(name) * 2 + 1);
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
	bool stray;

	/* json_object_set_new() always takes the reference, and fails when it is NULL. */
	if (json_object_set_new(obj, key, json_utf8(name, &stray)) < 0)
		return -ENOMEM;
	if (!stray)
		return 0;
	if (asprintf(&hex_key, "%s_hex", key) < 0) {
		hex_key = NULL; /* asprintf leaves it undefined */
		return -ENOMEM;
	}
	return json_object_set_new(obj, hex_key, json_hex(name)) < 0 ? -ENOMEM : 0;
}

/* The bytes of hex; NULL: they are not those of a name, or out of memory. */
static char *name_of_hex(const char *hex)
{
	size_t n = strlen(hex) / 2;
	char *name = calloc(1, n + 1);

	if (name && !parse_hex(hex, name, n) && strlen(name) == n)
		return name;
	free(name);
	return NULL;
}

int json_get_name(const json_t *obj, const char *key, char **name)
{
	char hex_key[64];
	const char *text = json_string_value(json_object_get(obj, key)), *hex;

	snprintf(hex_key, sizeof(hex_key), "%s_hex", key);
	hex = json_string_value(json_object_get(obj, hex_key));
	*name = hex ? name_of_hex(hex) : text ? strdup(text) : NULL;
	return *name ? 0 : hex || !text ? -EBADMSG : -ENOMEM;
}

char *json_line(json_t *obj)
{
	/* 15 digits are exact: with 17, 0.1 would become 0.10000000000000001. */
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

static void json_wipe_and_free(void *p)
{
	if (p)
		explicit_bzero(p, malloc_usable_size(p));
	free(p);
}

void json_wipes(void)
{
	json_set_alloc_funcs(malloc, json_wipe_and_free);
}

int json_emit(FILE *out, json_t *obj)
{
	CLEANUP_FREE char *line = json_line(obj);
	int rc = 0;

	if (!line)
		return -ENOMEM;
	/* Keep other threads' lines out of this line. */
	flockfile(out);
	errno = 0;
	if (fputs(line, out) < 0 || fflush(out) < 0)
		rc = errno ? -errno : -EIO;
	funlockfile(out);
	return rc;
}
