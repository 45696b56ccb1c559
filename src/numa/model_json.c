// SPDX-License-Identifier: Apache-2.0
/* Reads the JSON of the I/O model; rftp-numa(1) describes the format. */
#include "numa/model.h"

#include <errno.h>
#include <string.h>

#define VERSION_KEY "rftp_numa_model"
#define FORMAT_VERSION 1

/* Beyond any machine; what is larger is damage. */
#define BYTES_MOST ((json_int_t)1 << 60)
#define COUNT_MOST 1000000000
#define DISTANCE_MOST 65535

/* ---- what is in an object ---- */

static int take_int(const json_t *obj, const char *key, json_int_t least, json_int_t most,
		    json_int_t *v, struct err *e)
{
	const json_t *field = json_object_get(obj, key);

	*v = json_integer_value(field);
	if (json_is_integer(field) && *v >= least && *v <= most)
		return 0;
	return err_set(e, -EBADMSG, "\"%s\" is not a whole number from %lld to %lld", key,
		       (long long)least, (long long)most);
}

static int take_count(const json_t *obj, const char *key, json_int_t most, unsigned *v,
		      struct err *e)
{
	json_int_t i;
	int r = take_int(obj, key, 1, most, &i, e);

	*v = (unsigned)i;
	return r;
}

static int take_bandwidth(const json_t *obj, const char *key, double *v, struct err *e)
{
	const json_t *field = json_object_get(obj, key);

	*v = json_number_value(field);
	if (json_is_number(field) && *v >= 1 && *v <= (double)BYTES_MOST)
		return 0;
	return err_set(e, -EBADMSG, "\"%s\" is no bandwidth in bytes per second", key);
}

/* The array called key, which has from 1 to most elements. NULL with text. */
static const json_t *take_array(const json_t *obj, const char *key, unsigned most, struct err *e)
{
	const json_t *list = json_object_get(obj, key);

	if (json_is_array(list) && json_array_size(list) && json_array_size(list) <= most)
		return list;
	err_set(e, -EBADMSG, "\"%s\" is not a list with 1 to %u elements", key, most);
	return NULL;
}

/* ---- the machine ---- */

static int parse_distances(const json_t *obj, struct node *n, unsigned nodes, struct err *e)
{
	const json_t *list = take_array(obj, "distances", nodes, e);

	if (!list)
		return -EBADMSG;
	n->distance = calloc(nodes, sizeof(*n->distance));
	if (!n->distance)
		return err_set(e, -ENOMEM, "out of memory");
	if (json_array_size(list) != nodes)
		return err_set(e, -EBADMSG, "there are %u nodes, but %zu distances", nodes,
			       json_array_size(list));
	for (unsigned i = 0; i < nodes; i++) {
		const json_t *d = json_array_get(list, i);

		if (!json_is_integer(d) || json_integer_value(d) < 0 ||
		    json_integer_value(d) > DISTANCE_MOST)
			return err_set(e, -EBADMSG, "distance %u is none", i);
		n->distance[i] = (unsigned)json_integer_value(d);
	}
	return 0;
}

static int parse_node(const json_t *obj, struct model *m, unsigned which, int least, struct err *e)
{
	struct node *n = &m->node[which];
	const char *cpus = json_string_value(json_object_get(obj, "cpus"));
	json_int_t id, memory;
	int r = take_int(obj, "id", least, NODE_MOST, &id, e);

	if (!r)
		r = take_int(obj, "memory", 0, BYTES_MOST, &memory, e);
	if (r)
		return r;
	n->id = (int)id;
	m->memory[which] = (uint64_t)memory;
	if (!cpus || ids_parse(cpus, &n->cpus))
		return err_set(e, -EBADMSG, "\"cpus\" is no list of CPUs, as \"0-3,8\"");
	return parse_distances(obj, n, m->nodes, e);
}

static int parse_nodes(const json_t *root, struct model *m, struct err *e)
{
	const json_t *list = take_array(root, "nodes", NODE_MOST + 1, e);
	int r = 0, least = 0;

	if (!list)
		return -EBADMSG;
	m->nodes = (unsigned)json_array_size(list);
	m->node = calloc(m->nodes, sizeof(*m->node));
	m->memory = calloc(m->nodes, sizeof(*m->memory));
	if (!m->node || !m->memory)
		return err_set(e, -ENOMEM, "out of memory");
	for (unsigned i = 0; !r && i < m->nodes; i++) {
		r = parse_node(json_array_get(list, i), m, i, least, e);
		least = m->node[i].id + 1;
		if (r)
			err_prefix(e, "nodes[%u]", i);
	}
	return r;
}

static bool has_node(const struct model *m, json_int_t id)
{
	for (unsigned i = 0; i < m->nodes; i++)
		if (m->node[i].id == id)
			return true;
	return false;
}

/* ---- what was measured ---- */

static int parse_cell(const json_t *obj, const struct model *m, struct cell *c, json_int_t least,
		      struct err *e)
{
	json_int_t node;
	int r = take_int(obj, "node", least, NODE_MOST, &node, e);

	if (!r && !has_node(m, node))
		r = err_set(e, -EBADMSG, "\"nodes\" has no node %lld", (long long)node);
	if (!r)
		r = take_bandwidth(obj, "low", &c->low, e);
	if (!r)
		r = take_bandwidth(obj, "median", &c->median, e);
	if (!r)
		r = take_bandwidth(obj, "high", &c->high, e);
	if (!r)
		r = take_count(obj, "rounds", COUNT_MOST, &c->rounds, e);
	if (!r)
		r = take_count(obj, "class", m->nodes, &c->class, e);
	if (!r && (c->low > c->median || c->median > c->high))
		r = err_set(e, -EBADMSG, "\"low\", \"median\" and \"high\" do not rise");
	c->node = r ? 0 : (int)node;
	return r;
}

static bool has_class(const struct row *r, unsigned class)
{
	for (unsigned i = 0; i < r->n; i++)
		if (r->cell[i].class == class)
			return true;
	return false;
}

/* From 1 on without a gap, with the target in the first. */
static int check_classes(struct row *r, int target, struct err *e)
{
	const struct cell *local = row_cell(r, target);

	r->classes = 0;
	for (unsigned i = 0; i < r->n; i++)
		if (r->cell[i].class > r->classes)
			r->classes = r->cell[i].class;
	for (unsigned class = 1; class <= r->classes; class++)
		if (!has_class(r, class))
			return err_set(e, -EBADMSG, "no node is in class %u", class);
	if (!local || local->class != 1)
		return err_set(e, -EBADMSG, "node %d is not in class 1 of itself", target);
	return 0;
}

static int parse_row(const json_t *obj, const struct model *m, struct target *t, enum model_op op,
		     struct err *e)
{
	struct row *row = &t->row[op];
	const json_t *list;
	int r = 0, least = 0;

	if (!json_object_get(obj, model_op_name(op)))
		return 0;
	list = take_array(obj, model_op_name(op), m->nodes, e);
	if (!list)
		return -EBADMSG;
	for (unsigned i = 0; !r && i < json_array_size(list); i++) {
		r = parse_cell(json_array_get(list, i), m, &row->cell[i], least, e);
		least = row->cell[i].node + 1;
		if (r)
			return err_prefix(e, "%s[%u]", model_op_name(op), i);
	}
	row->n = (unsigned)json_array_size(list);
	return check_classes(row, t->node, e) ? err_prefix(e, "%s", model_op_name(op)) : 0;
}

static int parse_target(const json_t *obj, struct model *m, struct err *e)
{
	struct target *t;
	json_int_t node, bytes, placed;
	int r = take_int(obj, "node", 0, NODE_MOST, &node, e);

	if (!r && !has_node(m, node))
		r = err_set(e, -EBADMSG, "\"nodes\" has no node %lld", (long long)node);
	if (!r && model_target(m, (int)node))
		r = err_set(e, -EBADMSG, "node %lld was there before", (long long)node);
	if (r)
		return r;
	t = model_add(m, (int)node);
	if (!t)
		return err_set(e, -ENOMEM, "out of memory");
	r = take_count(obj, "threads", IDS_MAX, &t->threads, e);
	if (!r)
		r = take_count(obj, "copies", COUNT_MOST, &t->copies, e);
	if (!r)
		r = take_int(obj, "buffer", 1, BYTES_MOST, &bytes, e);
	if (!r)
		r = take_int(obj, "placed", 0, BYTES_MOST, &placed, e);
	if (r)
		return r;
	t->bytes = (uint64_t)bytes;
	t->placed = (uint64_t)placed;
	for (int op = 0; !r && op < MODEL_OPS; op++)
		r = parse_row(obj, m, t, (enum model_op)op, e);
	if (!r && !t->row[MODEL_WRITE].n && !t->row[MODEL_READ].n)
		r = err_set(e, -EBADMSG, "has neither \"write\" nor \"read\"");
	return r;
}

static int parse_targets(const json_t *root, struct model *m, struct err *e)
{
	const json_t *list = take_array(root, "targets", m->nodes, e);

	if (!list)
		return -EBADMSG;
	for (unsigned i = 0; i < json_array_size(list); i++)
		if (parse_target(json_array_get(list, i), m, e))
			return err_prefix(e, "targets[%u]", i);
	return 0;
}

/* ---- all of it ---- */

static int parse_root(const json_t *root, struct model *m, struct err *e)
{
	const char *date = json_string_value(json_object_get(root, "date"));
	json_int_t version;
	int r;

	if (take_int(root, VERSION_KEY, 1, COUNT_MOST, &version, NULL))
		return err_set(e, -EBADMSG, "is no model of rftp-numa's");
	if (version != FORMAT_VERSION)
		return err_set(e, -EBADMSG, "has version %lld of the format, this program knows "
			       "%d; measure again", (long long)version, FORMAT_VERSION);
	if (!date || !*date || strlen(date) >= sizeof(m->date))
		return err_set(e, -EBADMSG, "\"date\" is none");
	snprintf(m->date, sizeof(m->date), "%s", date);
	r = parse_nodes(root, m, e);
	return r ? r : parse_targets(root, m, e);
}

struct model *model_parse(const char *name, const char *text, size_t len, struct err *e)
{
	struct model *m = calloc(1, sizeof(*m));
	json_error_t where;
	json_t *root = json_loadb(text, len, JSON_REJECT_DUPLICATES, &where);
	struct err unread = ERR_INIT;
	int r;

	if (!e)
		e = &unread; /* err_prefix() tells by it that something failed */
	if (!m)
		r = err_set(e, -ENOMEM, "out of memory");
	else if (!root)
		r = err_set(e, -EBADMSG, "line %d: %s", where.line, printable(where.text));
	else
		r = parse_root(root, m, e);
	json_decref(root);
	if (!r)
		return m;
	err_prefix(e, "%s", printable(name));
	model_free(m);
	return NULL;
}
