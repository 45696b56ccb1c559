// SPDX-License-Identifier: Apache-2.0
/* Lines. */
#include "iser_setup/lines.h"

#include "iser_setup/plan.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void lines_add(struct lines *l, const char *fmt, ...)
{
	char *text, **slot;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	slot = n < 0 ? NULL : iser_plan_add(l->v, l->n);
	if (slot) {
		*slot = text;
		return;
	}
	l->lost = true;
	if (n >= 0)
		free(text);
}

json_t *lines_json(const struct lines *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->n; i++)
		if (json_array_append_new(list, json_name(l->v[i]))) {
			json_decref(list);
			return NULL;
		}
	return list;
}

void lines_clear(struct lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
	*l = (struct lines){ 0 };
}
