// SPDX-License-Identifier: Apache-2.0
/* The I/O model: parser and checks of its JSON file, comparison with this machine, queries. */
#include "numa/model.h"

/* On the same machine a node's memory may differ by 1/MEMORY_SLACK, because kernels reserve
 * different amounts. A removed memory module makes a larger difference. */
#define MEMORY_SLACK 8

static const char *const op_names[MODEL_OPS] = { [MODEL_WRITE] = "write", [MODEL_READ] = "read" };

void model_free(struct model *m)
{
	if (m)
		json_decref(m->root);
	free(m);
}

/* ---- queries ---- */

static json_int_t member(const json_t *obj, const char *key)
{
	return json_integer_value(json_object_get(obj, key));
}

/* The element of list in which key is node; NULL: there is none. */
static const json_t *of_node(const json_t *list, const char *key, int node)
{
	for (size_t i = 0; i < json_array_size(list); i++)
		if (member(json_array_get(list, i), key) == node)
			return json_array_get(list, i);
	return NULL;
}

/* The row with a cell for each node, measured between target and that node; NULL: not measured. */
static const json_t *model_row(const struct model *m, int target, enum model_op op)
{
	const json_t *targets = m ? json_object_get(m->root, "targets") : NULL;

	return json_object_get(of_node(targets, "node", target), op_names[op]);
}

struct ids model_near(const struct model *m, int node, enum model_op op)
{
	const json_t *row = model_row(m, node, op);
	struct ids s = { 0 };

	ids_add(&s, (unsigned)node);
	for (size_t i = 0; i < json_array_size(row); i++)
		if (member(json_array_get(row, i), "class") == 1)
			ids_add(&s, (unsigned)member(json_array_get(row, i), "node"));
	return s;
}

unsigned model_class(const struct model *m, int target, enum model_op op, int node)
{
	return (unsigned)member(of_node(model_row(m, target, op), "node", node), "class");
}

/* ---- comparison with this machine ---- */

static int node_fits(const json_t *was, const struct topo *t, const struct node *is, struct err *e)
{
	uint64_t had = (uint64_t)member(was, "memory"), more, less;
	const json_t *distances = json_object_get(was, "distances");
	char then[64], now[64];
	struct node_memory m;
	struct ids cpus;

	if (member(was, "id") != is->id)
		return err_set(e, -ESTALE, "it had a node %d, and not %d", (int)member(was, "id"),
			       is->id);
	ids_parse(json_string_value(json_object_get(was, "cpus")), &cpus);
	if (memcmp(&cpus, &is->cpus, sizeof(cpus)))
		return err_set(e, -ESTALE, "node %d had the CPUs \"%s\", and has \"%s\"", is->id,
			       ids_format(then, sizeof(then), &cpus),
			       ids_format(now, sizeof(now), &is->cpus));
	for (unsigned i = 0; i < topo_nodes(t); i++) {
		unsigned distance = (unsigned)json_integer_value(json_array_get(distances, i));

		if (distance != is->distance[i])
			return err_set(e, -ESTALE, "a distance of node %d was %u, and is %u",
				       is->id, distance, is->distance[i]);
	}

	if (topo_memory(t, is->id, &m))
		m.total = 0;
	more = had > m.total ? had : m.total;
	less = had > m.total ? m.total : had;
	if (!less || more - less <= more / MEMORY_SLACK) /* 0: not known */
		return 0;
	return err_set(e, -ESTALE, "node %d had %s of memory, and has %s", is->id,
		       format_size(then, sizeof(then), had),
		       format_size(now, sizeof(now), m.total));
}

int model_fits(const struct model *m, const struct topo *t, struct err *e)
{
	const json_t *nodes = json_object_get(m->root, "nodes");
	int r = 0;

	if (json_array_size(nodes) != topo_nodes(t))
		return err_set(e, -ESTALE, "it had %zu node%s, and has %u now",
			       json_array_size(nodes), plural(json_array_size(nodes)),
			       topo_nodes(t));
	for (unsigned i = 0; !r && i < topo_nodes(t); i++)
		r = node_fits(json_array_get(nodes, i), t, topo_node(t, i), e);
	return r;
}

/* ---- checks of the JSON file ---- */

#define VERSION_KEY "rftp_numa_model"
#define FORMAT_VERSION 1

/* More than any machine has: a larger value means a damaged file. */
#define BYTES_MOST ((json_int_t)1 << 60)
#define COUNT_MOST 1000000000
#define DISTANCE_MOST 65535
#define DATE_MOST 31 /* ISO 8601, UTC */

/* Check that the member key of obj is an integer from least to most. */
static int no_node(int node, struct err *e)
{
	return err_set(e, -EBADMSG, "\"nodes\" has no node %d", node);
}

static int check_int(const json_t *obj, const char *key, json_int_t least, json_int_t most,
		     struct err *e)
{
	const json_t *field = json_object_get(obj, key);

	if (json_is_integer(field) && json_integer_value(field) >= least &&
	    json_integer_value(field) <= most)
		return 0;
	return err_set(e, -EBADMSG, "\"%s\" is not a whole number from %lld to %lld", key,
		       (long long)least, (long long)most);
}

/* The array key of obj, which must have 1 to most elements. NULL with text. */
static const json_t *check_array(const json_t *obj, const char *key, size_t most, struct err *e)
{
	const json_t *list = json_object_get(obj, key);

	if (json_is_array(list) && json_array_size(list) && json_array_size(list) <= most)
		return list;
	err_set(e, -EBADMSG, "\"%s\" is not a list with at least 1 and at most %zu elements", key,
		most);
	return NULL;
}

static int model_check_node(const json_t *obj, json_int_t least, size_t nodes, struct err *e)
{
	const char *cpus = json_string_value(json_object_get(obj, "cpus"));
	const json_t *distances;
	struct ids ignored;

	if (check_int(obj, "id", least, NODE_MOST, e) ||
	    check_int(obj, "memory", 0, BYTES_MOST, e))
		return -EBADMSG;
	if (!cpus || ids_parse(cpus, &ignored))
		return err_set(e, -EBADMSG, "\"cpus\" is not a list of CPUs, as \"0-3,8\"");
	distances = check_array(obj, "distances", nodes, e);
	if (!distances)
		return -EBADMSG;
	if (json_array_size(distances) != nodes)
		return err_set(e, -EBADMSG, "%zu distance%s for %zu node%s",
			       json_array_size(distances), plural(json_array_size(distances)),
			       nodes, plural(nodes));
	for (size_t i = 0; i < nodes; i++) {
		const json_t *d = json_array_get(distances, i);

		if (!json_is_integer(d) || json_integer_value(d) < 0 ||
		    json_integer_value(d) > DISTANCE_MOST)
			return err_set(e, -EBADMSG, "distance %zu must be a whole number from 0 to "
				       "%d", i, DISTANCE_MOST);
	}

	return 0;
}

/* ---- measured values ---- */

static int check_cell(const json_t *obj, const json_t *nodes, json_int_t least, struct err *e)
{
	static const char *const keys[] = { "low", "median", "high" };
	double v[3];

	if (check_int(obj, "node", least, NODE_MOST, e))
		return -EBADMSG;
	if (!of_node(nodes, "id", (int)member(obj, "node")))
		return no_node((int)member(obj, "node"), e);
	for (int i = 0; i < 3; i++) {
		const json_t *field = json_object_get(obj, keys[i]);

		v[i] = json_number_value(field);
		if (!json_is_number(field) || !(v[i] >= 1 && v[i] <= (double)BYTES_MOST))
			return err_set(e, -EBADMSG, "\"%s\" is not a bandwidth in bytes per second",
				       keys[i]);
	}

	if (check_int(obj, "rounds", 1, COUNT_MOST, e) ||
	    check_int(obj, "class", 1, (json_int_t)json_array_size(nodes), e))
		return -EBADMSG;
	return v[0] <= v[1] && v[1] <= v[2] ? 0 :
	       err_set(e, -EBADMSG, "\"low\", \"median\" and \"high\" do not rise");
}

/* Check that the classes count from 1 without gaps, and that the target is in class 1. */
static int check_classes(const json_t *row, int target, struct err *e)
{
	json_int_t most = 0;

	for (size_t i = 0; i < json_array_size(row); i++)
		if (member(json_array_get(row, i), "class") > most)
			most = member(json_array_get(row, i), "class");
	for (int class = 1; class <= most; class++)
		if (!of_node(row, "class", class))
			return err_set(e, -EBADMSG, "no node is in class %d", class);
	if (member(of_node(row, "node", target), "class") != 1)
		return err_set(e, -EBADMSG, "node %d is not in its own class 1", target);
	return 0;
}

static int check_row(const json_t *target, const char *op, const json_t *nodes, struct err *e)
{
	const json_t *row = check_array(target, op, json_array_size(nodes), e);
	json_int_t least = 0;

	if (!row)
		return -EBADMSG;
	for (size_t i = 0; i < json_array_size(row); i++) {
		if (check_cell(json_array_get(row, i), nodes, least, e))
			return err_prefix(e, "%s[%zu]", op, i);
		least = member(json_array_get(row, i), "node") + 1;
	}
	return check_classes(row, (int)member(target, "node"), e) ? err_prefix(e, "%s", op) : 0;
}

/* Check one target; targets: the list that contains obj. */
static int check_target(const json_t *obj, const json_t *targets, const json_t *nodes,
			struct err *e)
{
	int node = (int)member(obj, "node"), rows = 0;

	if (check_int(obj, "node", 0, NODE_MOST, e))
		return -EBADMSG;
	if (!of_node(nodes, "id", node))
		return no_node(node, e);
	if (of_node(targets, "node", node) != obj)
		return err_set(e, -EBADMSG, "node %d is listed twice", node);
	if (check_int(obj, "threads", 1, IDS_MAX, e) ||
	    check_int(obj, "copies", 1, COUNT_MOST, e) ||
	    check_int(obj, "buffer", 1, BYTES_MOST, e) ||
	    check_int(obj, "placed", 0, BYTES_MOST, e))
		return -EBADMSG;
	for (int op = 0; op < MODEL_OPS; op++) {
		if (!json_object_get(obj, op_names[op]))
			continue;
		if (check_row(obj, op_names[op], nodes, e))
			return -EBADMSG;
		rows++;
	}

	return rows ? 0 : err_set(e, -EBADMSG, "has neither \"write\" nor \"read\"");
}

/* ---- the whole file ---- */

static int check_root(const json_t *root, struct err *e)
{
	const char *date = json_string_value(json_object_get(root, "date"));
	const json_t *nodes, *targets;
	json_int_t least = 0;

	if (check_int(root, VERSION_KEY, 1, COUNT_MOST, NULL))
		return err_set(e, -EBADMSG, "is not a model made by rftp-numa");
	if (member(root, VERSION_KEY) != FORMAT_VERSION)
		return err_set(e, -EBADMSG, "has version %lld of the format, this program knows "
			       "%d; measure again", (long long)member(root, VERSION_KEY),
			       FORMAT_VERSION);
	if (!date || !*date || strlen(date) > DATE_MOST)
		return err_set(e, -EBADMSG, "\"date\" is missing, empty or too long");

	nodes = check_array(root, "nodes", NODE_MOST + 1, e);
	if (!nodes)
		return -EBADMSG;
	for (size_t i = 0; i < json_array_size(nodes); i++) {
		const json_t *node = json_array_get(nodes, i);

		if (model_check_node(node, least, json_array_size(nodes), e))
			return err_prefix(e, "nodes[%zu]", i);
		least = member(node, "id") + 1;
	}

	targets = check_array(root, "targets", json_array_size(nodes), e);
	if (!targets)
		return -EBADMSG;
	for (size_t i = 0; i < json_array_size(targets); i++)
		if (check_target(json_array_get(targets, i), targets, nodes, e))
			return err_prefix(e, "targets[%zu]", i);
	return 0;
}

struct model *model_parse(const char *name, const char *text, size_t len, struct err *e)
{
	struct model *m = calloc(1, sizeof(*m));
	struct err unread = ERR_INIT;
	json_error_t where;

	if (!e)
		e = &unread; /* err_prefix() returns the code from an err */
	if (m)
		m->root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	if (!m)
		err_nomem(e);
	else if (!m->root)
		err_set(e, -EBADMSG, "line %d: %s", where.line, printable(where.text));
	else if (!check_root(m->root, e))
		return m;
	err_prefix(e, "%s", printable(name));
	model_free(m);
	return NULL;
}

/* ---- the file ---- */

#define FILE_MAX (64u << 20) /* a model of 64 nodes has 1 MB */

const char *model_default(void)
{
	const char *file = getenv("RFTP_NUMA_MODEL");

	return file && *file ? file : MODEL_FILE;
}

struct model *model_read(const char *file, const struct topo *t, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	struct err why = ERR_INIT;
	struct model *m;
	size_t len;
	int r;

	if (!file)
		file = model_default();
	r = read_file(file, FILE_MAX, &text, &len);
	if (r) {
		err_sys(e, r, "%s", printable(file));
		return NULL;
	}
	m = model_parse(file, text, len, e);
	if (!m || !model_fits(m, t, &why))
		return m;
	err_set(e, why.code, "%s: was made on another machine, or before this one changed (%s); "
		"measure again with rftp-numa model", printable(file), why.text);
	model_free(m);
	return NULL;
}
