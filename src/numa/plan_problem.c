// SPDX-License-Identifier: Apache-2.0
/* A staged problem out of its file, the options and the machine. */
#include "numa/plan_problem.h"

#include "numa/parts.h"
#include "numa/topo.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES_OF_MBIT (1e6 / 8)

static int place_of(const struct staged_problem *p, int id)
{
	for (unsigned i = 0; i < p->n; i++)
		if (p->id[i] == id)
			return (int)i;
	return -1;
}

/* ---- --data ---- */

static int take_data(struct staged_problem *p, char *word, struct ids *seen, struct err *e)
{
	char *size = strchr(word, ':');
	uint64_t id, bytes;
	int at;

	if (size)
		*size++ = '\0';
	if (!size || parse_uint(word, 0, INT_MAX, &id) || parse_size(size, &bytes))
		return err_set(e, -EINVAL, "--data takes NODE:SIZE,... as 0:100G,1:50G, not %s%s%s",
			       printable(word), size ? ":" : "", size ? printable(size) : "");
	at = place_of(p, (int)id);
	if (at < 0)
		return err_set(e, -EINVAL, "--data: node %d is not among the nodes of the problem",
			       (int)id);
	if (ids_has(seen, (unsigned)at))
		return err_set(e, -EINVAL, "--data: node %d is there twice", (int)id);
	ids_add(seen, (unsigned)at);
	p->data[at] = (double)bytes;
	return 0;
}

static int set_data(struct staged_problem *p, const char *option, struct err *e)
{
	CLEANUP_FREE char *text = strdup(option);
	char *rest = text, *word;
	struct ids seen = { 0 };
	int r = text ? 0 : err_sys(e, -ENOMEM, "--data");

	memset(p->data, 0, sizeof(p->data));
	while (!r && (word = strsep(&rest, ",")))
		r = take_data(p, word, &seen, e);
	return r;
}

/* ---- the machine ---- */

/* CPUs of the node that this process may run on; of another machine's all. */
static int set_threads(struct staged_problem *p, const struct topo *t, bool here, struct err *e)
{
	struct ids allowed, cpus;
	int r = here ? place_cpus(&allowed) : 0;

	if (r)
		return err_sys(e, r, "asking for the CPUs that are allowed");
	for (unsigned i = 0; i < p->n; i++) {
		const struct node *n = topo_find(t, p->id[i]);

		if (!n)
			return err_set(e, -ENOENT, "this machine has no node %d: give the problem "
				       "threads, or leave that node out", p->id[i]);
		cpus = here ? topo_cpus(t, p->id[i], &allowed) : n->cpus;
		p->threads[i] = ids_count(&cpus) < STAGED_THREADS ? ids_count(&cpus) :
				STAGED_THREADS;
	}
	return 0;
}

/* What stands on others, or on nothing, must not be counted beside them; nor a virtual function
 * beside the card that it is a part of. */
static bool is_card(const struct topo *t, const struct part *nic)
{
	char path[PATH_MAX], real[PATH_MAX];

	snprintf(path, sizeof(path), "%.*s/class/net/%s", PATH_MAX - 96, t->sys, nic->name);
	if (!realpath(path, real) || strstr(real, "/devices/virtual/"))
		return false;
	snprintf(path, sizeof(path), "%.*s/class/net/%s/device/physfn", PATH_MAX - 96, t->sys,
		 nic->name);
	return access(path, F_OK) != 0;
}

/* Where its node is in the problem; firmware need not tell it of the only one. */
static int place_of_card(const struct staged_problem *p, const struct topo *t,
			 const struct part *nic)
{
	bool only = topo_nodes(t) == 1 && !ids_count(&nic->nodes);

	return place_of(p, only ? topo_node(t, 0)->id : ids_only(&nic->nodes));
}

static void set_all_nics(struct staged_problem *p, const struct topo *t, const struct parts *all)
{
	for (size_t i = 0; i < all->n; i++) {
		const struct part *nic = &all->v[i];
		int at = -1;

		if (nic->kind == PART_NETWORK && is_card(t, nic))
			at = place_of_card(p, t, nic);
		if (at >= 0)
			p->network_limit[at] += (double)nic->size * BYTES_OF_MBIT;
	}
}

static const struct part *find_nic(const struct parts *all, const char *name)
{
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].kind == PART_NETWORK && !strcmp(all->v[i].name, name))
			return &all->v[i];
	return NULL;
}

static int take_nic(struct staged_problem *p, const struct topo *t, const struct parts *all,
		    const char *name, struct err *e)
{
	const struct part *nic = find_nic(all, name);
	int at;

	if (!nic)
		return err_set(e, -EINVAL, "--nic: there is no network interface %s (rftp-numa "
			       "topo lists them)", printable(name));
	at = place_of_card(p, t, nic);
	if (at < 0)
		return err_set(e, -EINVAL, "--nic: the node of %s is not known, or not among those "
			       "of the problem; give the problem network_limit instead",
			       printable(name));
	if (!nic->size)
		return err_set(e, -EINVAL, "--nic: %s does not tell its speed (is it up?); give "
			       "the problem network_limit instead", printable(name));
	p->network_limit[at] += (double)nic->size * BYTES_OF_MBIT;
	return 0;
}

/* Is word in list, which ends before it? */
static bool is_before(const char *list, const char *end, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at < end; at += strcspn(at, ",") + 1)
		if (strcspn(at, ",") == len && !memcmp(at, word, len))
			return true;
	return false;
}

static int set_nics(struct staged_problem *p, const struct topo *t, const struct parts *all,
		    const char *option, struct err *e)
{
	CLEANUP_FREE char *text = strdup(option);
	char *rest = text, *word;
	int r = text ? 0 : err_sys(e, -ENOMEM, "--nic");

	while (!r && (word = strsep(&rest, ","))) {
		if (is_before(option, option + (word - text), word))
			r = err_set(e, -EINVAL, "--nic: %s is there twice", printable(word));
		else
			r = take_nic(p, t, all, word, e);
	}
	return r;
}

static int set_cards(struct staged_problem *p, const struct topo *t, const char *option,
		     struct err *e)
{
	struct parts all;
	double sum = 0;
	int r = parts_find(t, &all);

	for (unsigned i = 0; i < p->n; i++)
		p->network_limit[i] = 0;
	if (r)
		err_sys(e, r, "looking for network cards");
	else if (option)
		r = set_nics(p, t, &all, option, e);
	else
		set_all_nics(p, t, &all);
	for (unsigned i = 0; i < p->n; i++)
		sum += p->network_limit[i];
	if (!r && sum <= 0)
		r = err_set(e, -ENODEV, "no network card of this machine tells both its node and "
			    "its speed: name one that is up with --nic, or give the problem "
			    "network_limit");
	parts_free(&all);
	return r;
}

/* ---- the model ---- */

static bool has_model(const struct plan_source *from)
{
	return from->model || !from->file;
}

/* All of the machine, nothing of which is known yet. */
static int set_nodes(struct staged_problem *p, const struct topo *t, struct err *e)
{
	*p = (struct staged_problem){ 0 };
	if (topo_nodes(t) > STAGED_NODES)
		return err_set(e, -E2BIG, "this machine has %u nodes, and a plan at most %d: give "
			       "those that count as nodes in a file, --problem FILE", topo_nodes(t),
			       STAGED_NODES);
	p->n = topo_nodes(t);
	for (unsigned i = 0; i < p->n; i++)
		p->id[i] = topo_node(t, i)->id;
	plan_unlimited(p);
	return 0;
}

static struct model *get_model(const char *file, const struct topo *t, struct err *e)
{
	struct model *m = model_read(file, t, e);

	if (!m && !file && e->code == -ENOENT)
		err_prefix(e, "this machine has no model yet (rftp-numa model --install makes one; "
			   "--model FILE takes another, --problem FILE does without)");
	return m;
}

static int ask_model(const char *file, const struct model *m, const struct topo *t,
		     const struct plan_lacks *lacks, struct staged_problem *p, struct err *e)
{
	int r = plan_model(m, t, lacks, p, e);

	return r ? err_prefix(e, "%s", printable(file ? file : model_default())) : 0;
}

/* ---- all of it ---- */

static int check_file(const struct plan_source *from, const struct plan_lacks *lacks, struct err *e)
{
	const char *file = printable(from->file);

	if (!from->model && (lacks->disk || lacks->network))
		return err_set(e, -EBADMSG, "%s: %s is missing: the bandwidth of a thread from "
			       "each node to each, or --model", file,
			       lacks->disk ? "disk" : "network");
	if (!from->data && lacks->data)
		return err_set(e, -EBADMSG, "%s: data is missing: the bytes of each node, or "
			       "--data", file);
	if (!from->data && !from->nics && !from->model && lacks->threads)
		return err_set(e, -EBADMSG, "%s: threads is missing: how many each node can run; "
			       "or say --data to plan for this machine", file);
	return 0;
}

static int ask_machine(const struct plan_source *from, const struct plan_lacks *lacks,
		       const struct topo *t, struct staged_problem *p, struct err *e)
{
	const char *env = getenv("RFTP_SYSFS");
	bool here = !from->sysfs && !(env && *env);
	int r = from->file ? 0 : set_nodes(p, t, e);

	if (!r && from->data)
		r = set_data(p, from->data, e);
	if (!r && lacks->threads)
		r = set_threads(p, t, here, e);
	if (!r && (from->nics || lacks->network_limit))
		r = set_cards(p, t, from->nics, e);
	return r;
}

static int with_machine(const struct plan_source *from, const struct plan_lacks *lacks,
			struct staged_problem *p, struct err *e)
{
	struct topo *t = topo_read(from->sysfs, e);
	struct model *m = NULL;
	int r = t ? 0 : e->code;

	/* First: with another machine's all else is beside the point. */
	if (!r && has_model(from)) {
		m = get_model(from->model, t, e);
		r = m ? 0 : e->code;
	}
	r = r ? r : ask_machine(from, lacks, t, p, e);
	if (!r && m)
		r = ask_model(from->model, m, t, lacks, p, e);
	model_free(m);
	topo_free(t);
	return r;
}

int plan_problem(const struct plan_source *from, struct staged_problem *p, struct err *e)
{
	struct plan_lacks lacks = { true, true, true, true, true, true };
	bool machine = from->data || from->nics || has_model(from);
	int r = from->file ? plan_file(from->file, p, &lacks, e) : 0;

	if (!r && from->file)
		r = check_file(from, &lacks, e);
	return r || !machine ? r : with_machine(from, &lacks, p, e);
}
