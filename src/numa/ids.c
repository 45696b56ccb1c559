// SPDX-License-Identifier: Apache-2.0
/* Sets of small numbers, written as the kernel writes lists of CPUs and nodes. */
#include "numa/numa.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WORDS (IDS_MAX / 64)

unsigned ids_count(const struct ids *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < WORDS; i++)
		n += (unsigned)__builtin_popcountll(s->word[i]);
	return n;
}

int ids_next(const struct ids *s, unsigned from)
{
	for (unsigned i = from / 64; i < WORDS; i++) {
		uint64_t w = s->word[i];

		if (i == from / 64)
			w &= ~0ull << from % 64;
		if (w)
			return (int)(i * 64 + (unsigned)__builtin_ctzll(w));
	}
	return -1;
}

int ids_only(const struct ids *s)
{
	int id = ids_next(s, 0);

	return id < 0 || ids_next(s, (unsigned)id + 1) >= 0 ? -1 : id;
}

void ids_unite(struct ids *s, const struct ids *other)
{
	for (unsigned i = 0; i < WORDS; i++)
		s->word[i] |= other->word[i];
}

void ids_intersect(struct ids *s, const struct ids *other)
{
	for (unsigned i = 0; i < WORDS; i++)
		s->word[i] &= other->word[i];
}

/* A number at *p, which moves behind it. */
static int take_id(const char **p, unsigned *id)
{
	char *end;
	unsigned long v;

	if (!isdigit((unsigned char)**p))
		return -EINVAL;
	v = strtoul(*p, &end, 10);
	*p = end;
	*id = (unsigned)v;
	return v < IDS_MAX ? 0 : -ERANGE;
}

static int take_range(const char **p, struct ids *s)
{
	unsigned from, to;
	int r = take_id(p, &from);

	to = from;
	if (!r && **p == '-') {
		++*p;
		r = take_id(p, &to);
	}
	if (!r && to < from)
		r = -EINVAL;
	for (unsigned id = from; !r && id <= to; id++)
		ids_add(s, id);
	return r;
}

int ids_parse(const char *text, struct ids *s)
{
	int r = 0;

	memset(s, 0, sizeof(*s));
	while (!r && *text && !isspace((unsigned char)*text)) {
		r = take_range(&text, s);
		if (!r && *text == ',' && isdigit((unsigned char)text[1]))
			text++;
		else if (!r && *text && !isspace((unsigned char)*text))
			r = -EINVAL;
	}
	if (!r && text[strspn(text, " \t\r\n")])
		r = -EINVAL;
	if (r)
		memset(s, 0, sizeof(*s));
	return r;
}

char *ids_format(char *out, size_t room, const struct ids *s)
{
	size_t len = 0;

	out[0] = '\0';
	for (int from = ids_next(s, 0), to; from >= 0; from = ids_next(s, (unsigned)to + 1)) {
		char one[32];
		int n;

		for (to = from; ids_has(s, (unsigned)to + 1);)
			to++;
		n = snprintf(one, sizeof(one), to == from ? "%s%d" : "%s%d-%d", len ? "," : "",
			     from, to);
		/* "..." must fit, too, unless this is all. */
		if (len + (size_t)n + (ids_next(s, (unsigned)to + 1) < 0 ? 1 : 5) > room) {
			snprintf(out + len, room - len, "...");
			break;
		}
		memcpy(out + len, one, (size_t)n + 1);
		len += (size_t)n;
	}
	return out;
}
