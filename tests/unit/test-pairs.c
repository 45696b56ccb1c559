// SPDX-License-Identifier: Apache-2.0
/* The NIC pairs of two offers, as a table: each NIC is written as a word. */
#include "proto/negotiate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* "rcns:ADDRESS/PREFIX@GBIT ...": r: can do RDMA, c: carries the control connection, n: has a name,
 * s: near its storage; without @GBIT the speed is unknown. */
static void add_nic(struct offer *o, const char *word)
{
	struct nic_offer *n = &o->nics[o->nnics++];
	const char *colon = strchr(word, ':');
	char address[64];

	snprintf(address, sizeof(address), "%s", colon + 1);
	*strchr(address, '/') = '\0';
	if (strchr(word, '@'))
		n->mbps = (uint32_t)atoi(strchr(word, '@') + 1) * 1000;
	snprintf(n->addr, sizeof(n->addr), "%s", address);
	n->prefix = (uint8_t)atoi(strrchr(word, '/') + 1);
	n->rdma = memchr(word, 'r', (size_t)(colon - word));
	n->control = memchr(word, 'c', (size_t)(colon - word));
	n->named = memchr(word, 'n', (size_t)(colon - word));
	n->near = memchr(word, 's', (size_t)(colon - word));
}

static struct offer nics(const char *words)
{
	struct offer o = { 0 };
	char *copy = strdup(words), *save = NULL;

	for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		add_nic(&o, w);
	free(copy);
	return o;
}

/* "0-1 2-0": the client's NIC 0 with the server's NIC 1, and so on. */
static void written(char out[256], uint32_t n, const uint8_t *c, const uint8_t *s)
{
	size_t at = 0;

	out[0] = '\0';
	for (uint32_t i = 0; i < n; i++)
		at += (size_t)snprintf(out + at, 256 - at, "%s%u-%u", i ? " " : "", c[i], s[i]);
}

static const struct {
	const char *what;
	uint8_t transport;
	bool same_host;
	const char *client, *server, *pairs;
} cases[] = {
	{ "nothing is known", TRANSPORT_RDMA, false, "", "", "" },
	{ "the way that the control connection goes, over routers", TRANSPORT_RDMA, false,
	  "rc:10.1.0.1/24", "rc:10.2.0.1/24", "0-0" },
	{ "the same, which cannot do RDMA there", TRANSPORT_RDMA, false,
	  "rc:10.1.0.1/24", "c:10.2.0.1/24", "" },
	{ "two that share networks, the other way round", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24 r:10.2.0.1/24", "r:10.2.0.2/24 r:10.1.0.2/24", "0-1 1-0" },
	{ "control by one that has no RDMA", TRANSPORT_RDMA, false,
	  "c:192.0.2.1/24 r:10.1.0.1/24", "c:192.0.2.2/24 r:10.1.0.2/24", "1-1" },
	{ "control first, then the neighbours", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24 rc:10.2.0.1/24", "rc:10.2.0.2/24 r:10.1.0.2/24", "1-0 0-1" },
	{ "prefixes differ", TRANSPORT_RDMA, false, "r:10.1.0.1/24", "r:10.1.0.2/25", "" },
	{ "networks differ in the last bit of an odd prefix", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/23", "r:10.1.2.1/23", "" },
	{ "and are the same but for what is behind it", TRANSPORT_RDMA, false,
	  "r:10.1.2.1/23", "r:10.1.3.1/23", "0-0" },
	{ "families differ", TRANSPORT_RDMA, false, "rn:10.1.0.1/64", "rn:fd00::1/64", "" },
	{ "IPv6", TRANSPORT_RDMA, false, "r:fd00:1::1/64", "r:fd00:1::2/64", "0-0" },
	{ "named, in networks apart: in their order", TRANSPORT_RDMA, false,
	  "rn:10.1.0.1/24 rn:10.2.0.1/24", "rn:10.3.0.1/24 rn:10.4.0.1/24", "0-0 1-1" },
	{ "named here only, in networks apart", TRANSPORT_RDMA, false,
	  "rn:10.1.0.1/24", "r:10.3.0.1/24", "" },
	{ "neighbours before the rest of the named", TRANSPORT_RDMA, false,
	  "rn:10.1.0.1/24 rn:10.2.0.1/24", "rn:10.2.0.2/24 rn:10.9.0.1/24", "1-0 0-1" },
	{ "one machine talks to itself", TRANSPORT_RDMA, true,
	  "rc:10.1.0.1/24 r:10.2.0.1/24", "rc:10.1.0.1/24 r:10.2.0.1/24", "0-0" },
	{ "one machine, by name across", TRANSPORT_RDMA, true,
	  "rn:10.1.0.1/24 rn:10.2.0.1/24",
	  "r:10.1.0.1/24 r:10.2.0.1/24 r:10.1.0.2/24 r:10.2.0.2/24", "0-2 1-3" },
	{ "more here than there", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24 r:10.1.0.3/24", "r:10.1.0.2/24", "0-0" },
	{ "TCP takes one unless told", TRANSPORT_TCP, false,
	  "rc:10.1.0.1/24 r:10.2.0.1/24", "rc:10.1.0.2/24 r:10.2.0.2/24", "0-0" },
	{ "TCP by names", TRANSPORT_TCP, false,
	  "cn:10.1.0.1/24 n:10.2.0.1/24", "c:10.1.0.2/24 :10.2.0.2/24", "0-0 1-1" },
	{ "no address at all", TRANSPORT_RDMA, false, "rn:x/24", "rn:x/24", "" },
	{ "a prefix beyond the address", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/128", "r:10.1.0.2/128", "" },
	{ "no prefix", TRANSPORT_RDMA, false, "r:10.1.0.1/0", "r:10.1.0.2/0", "" },
	{ "the fast with the fast", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24@10 r:10.1.0.3/24@100", "r:10.1.0.2/24@100 r:10.1.0.4/24@10", "1-0 0-1" },
	{ "the slow one is served by a slow one", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24@400 r:10.1.0.3/24@25", "r:10.1.0.2/24@25", "1-0" },
	{ "one here, two there: by the one near the storage", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24@100", "r:10.1.0.2/24@100 rs:10.1.0.4/24@100", "0-1" },
	{ "speed before nearness", TRANSPORT_RDMA, false,
	  "rs:10.1.0.1/24@10 r:10.1.0.3/24@100", "r:10.1.0.2/24@100", "1-0" },
	{ "both sides' storage", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24@100 rs:10.1.0.3/24@100", "r:10.1.0.2/24@100 rs:10.1.0.4/24@100", "1-1 0-0" },
	{ "a speed that is not known", TRANSPORT_RDMA, false,
	  "r:10.1.0.1/24 r:10.1.0.3/24@100", "r:10.1.0.2/24@100", "0-0" },
	{ "the named stay in their order", TRANSPORT_RDMA, false,
	  "rn:10.1.0.1/24@10 rn:10.2.0.1/24@100", "rn:10.3.0.1/24@100 rn:10.4.0.1/24@10", "0-0 1-1" },
};

static void test_pairs(void **state)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct offer c = nics(cases[i].client), s = nics(cases[i].server);
		uint8_t cn[NICS_MAX], sn[NICS_MAX];
		char got[256];

		if (cases[i].same_host)
			c.host[0] = s.host[0] = 1;
		written(got, nic_pairs(&c, &s, cases[i].transport, cn, sn), cn, sn);
		if (strcmp(got, cases[i].pairs))
			fail_msg("%s: \"%s\" instead of \"%s\"", cases[i].what, got,
				 cases[i].pairs);
	}
}

/* For any offers, all pairs have valid indexes, and no NIC is in two pairs. */
static void test_random(void **state)
{
	srand(7);
	for (int round = 0; round < 20000; round++) {
		struct offer o[2] = { { 0 }, { 0 } };
		uint8_t place[2][NICS_MAX];
		bool used[2][NICS_MAX] = { { false } };
		uint32_t n;

		for (int side = 0; side < 2; side++) {
			o[side].nnics = (uint32_t)rand() % (NICS_MAX + 1);
			for (uint32_t i = 0; i < o[side].nnics; i++) {
				struct nic_offer *k = &o[side].nics[i];

				snprintf(k->addr, sizeof(k->addr), "10.0.%d.%d", rand() % 3, rand() % 9);
				k->prefix = (uint8_t)(22 + rand() % 4);
				k->rdma = rand() % 2;
				k->named = rand() % 2;
				k->near = rand() % 2;
				k->mbps = (uint32_t)(rand() % 3) * 10000;
				k->control = !(rand() % 4);
			}
		}
		n = nic_pairs(&o[0], &o[1], rand() % 2 ? TRANSPORT_RDMA : TRANSPORT_TCP, place[0],
			      place[1]);
		assert_true(n <= NICS_MAX);
		for (uint32_t i = 0; i < n; i++) {
			for (int side = 0; side < 2; side++) {
				assert_true(place[side][i] < o[side].nnics);
				assert_false(used[side][place[side][i]]);
				used[side][place[side][i]] = true;
			}
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pairs),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
