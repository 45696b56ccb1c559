// SPDX-License-Identifier: Apache-2.0
/* Sets of small numbers, in the kernel's text format for lists of CPUs and nodes. */
#include "numa/numa.h"

#define NO_NODE "there is no node %d (rftp-numa topo lists them)"

#include "numa/topo.h"

#include <ctype.h>
#include <limits.h>

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

/* Parse the number at *p, and move *p past it. */
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
		/* Unless this is the last range, "..." must still fit after it. */
		if (len + (size_t)n + (ids_next(s, (unsigned)to + 1) < 0 ? 1 : 5) > room) {
			snprintf(out + len, room - len, "...");
			break;
		}
		memcpy(out + len, one, (size_t)n + 1);
		len += (size_t)n;
	}

	return out;
}

/* ---- the user's placement option ---- */

int place_wish_parse(struct place_wish *w, const char *text, struct err *e)
{
	static const struct { const char *word; enum place_mode mode; } words[] = {
		{ "auto", PLACE_AUTO }, { "off", PLACE_OFF }, { "nic", PLACE_NIC },
		{ "storage", PLACE_STORAGE },
	};
	uint64_t node;

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strcmp(text, words[i].word)) {
			w->mode = words[i].mode;
			return 0;
		}
	if (strncmp(text, "node:", 5) || parse_uint(text + 5, 0, NODE_MOST, &node))
		return err_set(e, -EINVAL, "must be auto, off, node:N, nic or storage, not \"%s\"",
			       printable(text));
	w->mode = PLACE_NODE;
	w->node = (int)node;
	return 0;
}

/* One "NAME=NODE" of the list, and the start of the next. */
struct nic_node {
	const char *name, *next;
	size_t len;
	int node;
};

static int take_pair(const char *list, struct nic_node *n)
{
	size_t len = strcspn(list, ","), eq = strcspn(list, "=");
	char value[16];
	uint64_t node = 0;

	if (eq == 0 || eq >= len || len - eq - 1 >= sizeof(value))
		return -EINVAL;
	memcpy(value, list + eq + 1, len - eq - 1);
	value[len - eq - 1] = '\0';
	if (strcmp(value, "any") && parse_uint(value, 0, NODE_MOST, &node))
		return -EINVAL;
	*n = (struct nic_node){ .name = list, .len = eq, .next = list + len + (list[len] == ',') };
	n->node = strcmp(value, "any") ? (int)node : NODE_UNKNOWN;
	return 0;
}

static int check_nics(const char *list, const struct topo *t, struct err *e)
{
	struct nic_node n;

	while (*list) {
		char name[NAME_MAX + 1], path[PATH_MAX];

		if (take_pair(list, &n))
			return err_set(e, -EINVAL, "\"%.*s\" is not CARD=NODE, as in eth0=1 or "
				       "eth0=any", (int)strcspn(list, ","), printable(list));
		if (n.node != NODE_UNKNOWN && !topo_find(t, n.node))
			return err_set(e, -EINVAL, "%.*s=%d: " NO_NODE, (int)n.len,
				       printable(n.name), n.node, n.node);
		/* Not an error: the card may be added later. */
		snprintf(name, sizeof(name), "%.*s", (int)n.len, n.name);
		snprintf(path, sizeof(path), "%.*s/class/net/%s", PATH_MAX - 300, t->sys, name);
		if (access(path, F_OK))
			log_warn("there is no network interface %s", printable(name));
		list = n.next;
	}

	return 0;
}

int place_wish_check(const struct place_wish *w, struct err *e)
{
	struct topo *t;
	int r = 0;

	if (w->mode != PLACE_NODE && !w->nics)
		return 0;
	t = topo_read(NULL, e);
	if (!t)
		return e->code;
	if (w->mode == PLACE_NODE && !topo_find(t, w->node))
		r = err_set(e, -EINVAL, NO_NODE, w->node);
	if (!r && w->nics)
		r = check_nics(w->nics, t, e);
	topo_free(t);
	return r;
}

bool place_nic(const char *list, const char *ifname, int *node)
{
	struct nic_node n;

	for (; list && *list && !take_pair(list, &n); list = n.next) {
		if (strlen(ifname) != n.len || memcmp(ifname, n.name, n.len))
			continue;
		*node = n.node;
		return true;
	}
	return false;
}
