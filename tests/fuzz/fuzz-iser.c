// SPDX-License-Identifier: Apache-2.0
/* Input: a text file, taken as both that rftp-iser has written by people: a plan, and what is
 * asked of one, which is planned for a machine of two nodes. */
#include "iser_setup/planner.h"

#include "tests/support/fuzz.h"

#include <ftw.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the machine ---- */

/* Of two nodes, each with a card that has RDMA; made once. Its cards are read again for each
 * plan, so it stays until the end. */
static const char *top;
static struct topo *topo;

static void put(const char *name, const char *text)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	*strrchr(path, '/') = '\0';
	MUST(!make_dirs(path, 0755));
	path[strlen(path)] = '/';
	MUST(!write_file_atomic(path, text, strlen(text), 0644, NULL));
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void remove_machine(void)
{
	topo_free(topo);
	nftw(top, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const struct topo *machine(void)
{
	static const char *const files[][2] = {
		{ "devices/system/node/online", "0-1\n" },
		{ "devices/system/node/node0/cpulist", "0\n" },
		{ "devices/system/node/node1/cpulist", "1\n" },
		{ "devices/system/node/node0/distance", "10 20\n" },
		{ "devices/system/node/node1/distance", "20 10\n" },
		{ "class/net/n0/numa_node", "0\n" }, { "class/net/n1/numa_node", "1\n" },
		{ "class/infiniband/r0/parent", "n0\n" },
		{ "class/infiniband/r1/parent", "n1\n" },
		{ "class/block/nvme0n1/numa_node", "1\n" },
	};
	struct err e = ERR_INIT;

	if (topo)
		return topo;
	top = fuzz_directory();
	atexit(remove_machine);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		put(files[i][0], files[i][1]);
	topo = topo_read(top, &e);
	MUST(topo && topo_netdev(topo, "n1") == 1);
	return topo;
}

static struct planner_host host(void)
{
	static struct host_address at[] = { { "n0", "192.0.2.1" }, { "n1", "2001:db8::1" } };
	static const struct host_addresses addresses = { at, 2 };

	return (struct planner_host){ machine(), &addresses, "host.example.org", "2026-11",
				      false };
}

/* ---- plans ---- */

static char *dumped(const struct iser_plan *p)
{
	json_t *json = iser_plan_json(p);
	char *text = json_dumps(json, JSON_COMPACT);

	MUST(text);
	json_decref(json);
	return text;
}

/* What is a plan is the same one when it is written and read again. */
static void comes_again(const struct iser_plan *p)
{
	struct err e = ERR_INIT;
	char *text = dumped(p), *again;
	struct iser_plan *q = iser_plan_parse("again", text, &e);

	if (!q)
		fprintf(stderr, "%s\n", e.text);
	MUST(q);
	again = dumped(q);
	MUST(!strcmp(text, again));
	free(again);
	free(text);
	iser_plan_free(q);
}

static void look_at(const struct iser_plan *p)
{
	const struct planner_host h = host();
	struct lines notes CLEANUP_LINES = { 0 };

	comes_again(p);
	iser_plan_doubts(p, &h, &notes);
	iser_plan_stores(p, &notes);
	MUST(notes.n);
	for (size_t t = 0; t < p->n_targets; t++)
		for (size_t i = 0; i < p->targets[t].n_stores; i++) {
			char *file = iser_store_file(&p->targets[t].stores[i]);

			/* LIO is told of it in a list with commas. */
			MUST(file && !strpbrk(file, ", \n"));
			free(file);
		}
}

static void take_plan(const char *text)
{
	struct err e = ERR_INIT;
	struct iser_plan *p = iser_plan_parse("plan", text, &e);

	MUST(p ? !e.code : e.code < 0 && *e.text && !strchr(e.text, '\n'));
	if (p)
		look_at(p);
	iser_plan_free(p);
}

/* ---- what is asked ---- */

static void take_spec(const char *text)
{
	const struct planner_host h = host();
	struct lines notes CLEANUP_LINES = { 0 };
	CLEANUP_SPEC struct spec *s = spec_new();
	struct err e = ERR_INIT;
	struct iser_plan *p;

	MUST(s);
	if (spec_parse(s, "spec", text, &e)) {
		MUST(*e.text && !strchr(e.text, '\n'));
		return;
	}
	spec_locate(s, h.topo, false);
	p = planner_plan(s, &h, &notes, &e);
	MUST(p ? !e.code : e.code < 0 && *e.text);
	if (p)
		look_at(p);
	iser_plan_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);

	MUST(text);
	take_plan(text);
	take_spec(text);
	free(text);
	return 0;
}
