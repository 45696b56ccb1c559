// SPDX-License-Identifier: Apache-2.0
/* Lines for a person. */
#include "iser_setup/notes.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void notes_add(struct notes *n, const char *fmt, ...)
{
	char **bigger = reallocarray(n->line, n->n + 1, sizeof(*bigger));
	char *text;
	va_list ap;
	int len;

	if (!bigger)
		return;
	n->line = bigger;
	va_start(ap, fmt);
	len = vasprintf(&text, fmt, ap);
	va_end(ap);
	if (len >= 0)
		bigger[n->n++] = text;
}

void notes_clear(struct notes *n)
{
	for (size_t i = 0; i < n->n; i++)
		free(n->line[i]);
	free(n->line);
	*n = (struct notes){ 0 };
}
