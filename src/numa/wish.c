// SPDX-License-Identifier: Apache-2.0
/* What people say of where things should be. */
#include "numa/topo.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
		return err_set(e, -EINVAL, "\"%s\" is none of auto, off, node:N, nic, storage",
			       printable(text));
	w->mode = PLACE_NODE;
	w->node = (int)node;
	return 0;
}

/* One of list's "NAME=NODE", and where the next begins. */
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

/* A card may come later: no error. */
static void say_missing(const struct nic_node *n, const struct topo *t)
{
	CLEANUP_FREE char *path = NULL;

	if (asprintf(&path, "%s/class/net/%.*s", t->sys, (int)n->len, n->name) < 0) {
		path = NULL;
		return;
	}
	if (access(path, F_OK))
		log_warn("%.*s: there is no such network interface now", (int)n->len,
			 printable(n->name));
}

static int check_nics(const char *list, const struct topo *t, struct err *e)
{
	struct nic_node n;

	while (*list) {
		if (take_pair(list, &n))
			return err_set(e, -EINVAL, "\"%.*s\" is not CARD=NODE, as in eth0=1 or "
				       "eth0=any", (int)strcspn(list, ","), printable(list));
		if (n.node != NODE_UNKNOWN && !topo_find(t, n.node))
			return err_set(e, -EINVAL, "%.*s=%d: there is no node %d here", (int)n.len,
				       printable(n.name), n.node, n.node);
		say_missing(&n, t);
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
		r = err_set(e, -EINVAL, "node:%d: there is no such node here; rftp-numa topo lists "
			    "those there are", w->node);
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
