// SPDX-License-Identifier: Apache-2.0
/* Networks: parsed, shown, and asked whether an address is of them. */
#include "server/networks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { V4_BITS = 96 };

struct in6_addr address_as_v6(const struct sockaddr_storage *a)
{
	const struct sockaddr_in *a4 = (const void *)a;
	const struct sockaddr_in6 *a6 = (const void *)a;
	struct in6_addr out = { .s6_addr = { [10] = 0xff, [11] = 0xff } };

	if (a->ss_family != AF_INET)
		return a6->sin6_addr;
	memcpy(&out.s6_addr[12], &a4->sin_addr, sizeof(a4->sin_addr));
	return out;
}

/* ---- text ---- */

/* Bits of an address that are behind the prefix. */
static bool has_rest(const struct network *n)
{
	for (unsigned i = n->bits; i < 128; i++)
		if (n->addr.s6_addr[i / 8] & (0x80 >> i % 8))
			return true;
	return false;
}

static int parse_halves(const char *addr, const char *bits, struct network *n, struct err *e)
{
	struct sockaddr_storage ss = { .ss_family = AF_INET };
	uint64_t most = 32, number;

	if (inet_pton(AF_INET, addr, &((struct sockaddr_in *)&ss)->sin_addr) != 1) {
		ss.ss_family = AF_INET6;
		most = 128;
		if (inet_pton(AF_INET6, addr, &((struct sockaddr_in6 *)&ss)->sin6_addr) != 1)
			return -EINVAL;
	}
	number = most;
	if (bits && parse_uint(bits, 0, most, &number) < 0)
		return -EINVAL;
	n->addr = address_as_v6(&ss);
	n->bits = (uint8_t)(number + (most == 32 ? V4_BITS : 0));
	if (has_rest(n))
		return err_set(e, -EINVAL, "%s/%s has bits behind its prefix: is it the network of "
			       "this address, or the address alone?", addr, bits);
	return 0;
}

int network_parse(const char *text, struct network *n, struct err *e)
{
	char copy[NETWORK_TEXT];
	char *slash;
	int rc = -EINVAL;

	*n = (struct network){ .all = !strcmp(text, "all") };
	if (n->all)
		return 0;
	if (strlen(text) < sizeof(copy)) {
		memcpy(copy, text, strlen(text) + 1);
		slash = strchr(copy, '/');
		if (slash)
			*slash++ = '\0';
		if (e)
			e->code = 0;
		rc = parse_halves(copy, slash, n, e);
	}
	if (rc && (!e || !e->code))
		return err_set(e, rc, "\"%s\" is not a network, as in 192.0.2.0/24 or "
			       "2001:db8::/32, nor \"all\"", printable(text));
	return rc;
}

static bool is_v4(const struct network *n)
{
	return n->bits >= V4_BITS && IN6_IS_ADDR_V4MAPPED(&n->addr);
}

const char *network_text(const struct network *n, char out[NETWORK_TEXT])
{
	char addr[INET6_ADDRSTRLEN] = "?";

	if (is_v4(n))
		inet_ntop(AF_INET, &n->addr.s6_addr[12], addr, sizeof(addr));
	else
		inet_ntop(AF_INET6, &n->addr, addr, sizeof(addr));
	if (n->all)
		snprintf(out, NETWORK_TEXT, "all");
	else
		snprintf(out, NETWORK_TEXT, "%s/%u", addr, n->bits - (is_v4(n) ? V4_BITS : 0u));
	return out;
}

/* ---- lists ---- */

static int add(struct networks *l, const struct network *n, struct err *e)
{
	struct network *at = realloc(l->at, (l->n + 1) * sizeof(*at));

	if (!at)
		return err_sys(e, -ENOMEM, "networks");
	at[l->n++] = *n;
	l->at = at;
	return 0;
}

int networks_add(struct networks *l, const char *list, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(list);
	char *rest = copy, *word;
	struct network n;
	int rc = copy ? 0 : err_sys(e, -ENOMEM, "networks");

	while (!rc && (word = strsep(&rest, ", \t"))) {
		if (!*word)
			continue;
		rc = network_parse(word, &n, e);
		if (!rc)
			rc = add(l, &n, e);
	}
	return rc;
}

void networks_clear(struct networks *l)
{
	free(l->at);
	*l = (struct networks){ 0 };
}

/* ---- who may come ---- */

/* -1: it is not of that network; else the more, the longer what they have in common. */
static int match(const struct network *n, const struct in6_addr *a)
{
	uint8_t mask = (uint8_t)(0xff00 >> n->bits % 8);

	if (n->all)
		return 0;
	if (memcmp(&n->addr, a, n->bits / 8))
		return -1;
	if (n->bits % 8 && ((n->addr.s6_addr[n->bits / 8] ^ a->s6_addr[n->bits / 8]) & mask))
		return -1;
	/* An IPv4 address is of no network of IPv6 that is so wide that it has them all. */
	if (n->bits < V4_BITS && IN6_IS_ADDR_V4MAPPED(a))
		return -1;
	return n->bits + 1;
}

static int best_match(const struct networks *l, const struct in6_addr *a)
{
	int best = -1;

	for (size_t i = 0; i < l->n; i++) {
		int m = match(&l->at[i], a);

		if (m > best)
			best = m;
	}
	return best;
}

bool networks_admit(const struct networks *allow, const struct networks *refuse,
		    const struct sockaddr_storage *peer)
{
	struct in6_addr a = address_as_v6(peer);
	int yes = best_match(allow, &a), no = best_match(refuse, &a);

	if (yes < 0 && no < 0)
		return allow->n == 0;
	return yes > no;
}
