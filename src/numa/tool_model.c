// SPDX-License-Identifier: Apache-2.0
/* rftp-numa model: what copies between nodes cost, and which nodes are alike. */
#include "numa/gnuplot.h"
#include "numa/measure.h"
#include "numa/tool.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GBIT 125e6 /* bytes per second */
#define COPIES 10
#define ROUNDS 10  /* with ten copies, as many copies of each buffer as were published */
#define SIZE_MOST (1ull << 40)
#define COPIES_MOST 1000000
#define ROUNDS_MOST 1000
#define DIR_MODE 0755

struct model_options {
	unsigned target, threads, copies, rounds;
	uint64_t size;
	const char *save, *from, *predict, *op, *plot, *sysfs;
	bool install, json;
};

#define FIELD(name) offsetof(struct model_options, name)

static const struct tool_option options[] = {
	{ "target", TOOL_COUNT, FIELD(target), "NODE", "only this node as target", 0, NODE_MOST },
	{ "threads", TOOL_COUNT, FIELD(threads), "N", "threads on the target (its cores)", 1,
	  IDS_MAX },
	{ "size", TOOL_SIZE, FIELD(size), "SIZE", "a thread's buffer (by the caches, 32M or more)",
	  1 << 20, SIZE_MOST },
	{ "copies", TOOL_COUNT, FIELD(copies), "N", "copies of it in a round (10)", 1,
	  COPIES_MOST },
	{ "rounds", TOOL_COUNT, FIELD(rounds), "N", "repetitions (10)", CLASS_ROUNDS_MIN,
	  ROUNDS_MOST },
	{ "save", TOOL_TEXT, FIELD(save), "FILE", "keep what was measured there", 0, 0 },
	{ "install", TOOL_SWITCH, FIELD(install), NULL, "keep it where rftp and rftpd look", 0, 0 },
	{ "from", TOOL_TEXT, FIELD(from), "FILE", "measure nothing, take what was kept there", 0,
	  0 },
	{ "predict", TOOL_TEXT, FIELD(predict), "LIST",
	  "bandwidth of mixed access, NODE:PERCENT,...", 0, 0 },
	{ "op", TOOL_TEXT, FIELD(op), "write|read", "predict this (both)", 0, 0 },
	{ "plot", TOOL_TEXT, FIELD(plot), "FILE", "draw it, FILE.png or FILE.svg", 0, 0 },
	TOOL_JSON(struct model_options),
	TOOL_SYSFS(struct model_options),
	{ 0 },
};

/* ---- what fits together ---- */

static bool is_op(const char *word, enum model_op op)
{
	return !word || !strcmp(word, model_op_name(op));
}

static enum tool_status check_words(const struct model_options *o)
{
	CLEANUP_FREE struct share *v = o->predict ? calloc(SHARES_MAX, sizeof(*v)) : NULL;
	struct err e = ERR_INIT;
	unsigned n;

	if (o->op && !is_op(o->op, MODEL_WRITE) && !is_op(o->op, MODEL_READ))
		return tool_misused("--op takes write or read, not", o->op);
	if (o->op && !o->predict)
		return tool_misused("--op goes with --predict", NULL);
	if (v && shares_parse(o->predict, v, &n, &e))
		return tool_misused(e.text, NULL);
	if (o->plot && model_plot_name(o->plot, &e))
		return tool_misused(e.text, NULL);
	return TOOL_DONE;
}

static enum tool_status check_options(const struct model_options *o)
{
	bool measuring = o->threads || o->size || o->copies || o->rounds;

	if (o->from && measuring)
		return tool_misused("with --from nothing is measured: no --threads, --size, "
				    "--copies, --rounds", NULL);
	if (o->from && (o->save || o->install))
		return tool_misused("--save and --install keep what is measured, not what comes "
				    "--from a file", NULL);
	if (o->save && o->install)
		return tool_misused("either --save or --install", NULL);
	if (o->sysfs && !o->from)
		return tool_misused("--sysfs is another machine's, which cannot be measured here: "
				    "it goes with --from", NULL);
	return check_words(o);
}

/* ---- measuring ---- */

static void clear_line(void)
{
	fputs("\r\033[K", stderr);
}

static void show_progress(unsigned target, unsigned targets, unsigned round, unsigned rounds)
{
	fprintf(stderr, "\r\033[Ktarget %u of %u, round %u of %u", target, targets, round, rounds);
}

static struct model *measure_here(const struct model_options *o, const struct topo *t,
				  struct err *e)
{
	bool terminal = isatty(STDERR_FILENO);
	struct stop stop;
	struct measure_config c = {
		.target = (int)o->target, .threads = o->threads, .bytes = o->size,
		.copies = o->copies ? o->copies : COPIES, .rounds = o->rounds ? o->rounds : ROUNDS,
		.stop = &stop, .progress = terminal ? show_progress : NULL,
	};
	struct model *m;

	stop_begin(&stop);
	log_set_hook(terminal ? clear_line : NULL, NULL);
	m = measure(t, &c, e);
	log_set_hook(NULL, NULL);
	if (terminal)
		clear_line();
	if (!m && e->code == -EINTR)
		log_error("interrupted; nothing is kept");
	/* A signal that came ends the process here. */
	stop_end(&stop);
	return m;
}

static struct model *get(const struct model_options *o, const struct topo *t, struct err *e)
{
	struct model *m = o->from ? model_read(o->from, t, e) : measure_here(o, t, e);

	if (!m || !o->from || (int)o->target == NODE_UNKNOWN || !model_only(m, (int)o->target))
		return m;
	err_set(e, -ENOENT, "%s: has nothing of node %d as target", printable(o->from),
		(int)o->target);
	model_free(m);
	return NULL;
}

/* ---- predictions ---- */

static int take_shares(const struct model_options *o, struct share *v, unsigned *n, struct err *e)
{
	*n = 0;
	return v ? shares_parse(o->predict, v, n, e) : err_set(e, -ENOMEM, "out of memory");
}

/* What is to be measured must have their nodes. */
static int check_shares(const struct model_options *o, const struct topo *t, struct err *e)
{
	CLEANUP_FREE struct share *v = calloc(SHARES_MAX, sizeof(*v));
	unsigned n;
	int r = take_shares(o, v, &n, e);

	for (unsigned i = 0; !r && i < n; i++)
		if (!topo_find(t, v[i].node))
			r = err_set(e, -ENOENT, "no prediction: there is no node %d (rftp-numa "
				    "topo lists them)", v[i].node);
	return r;
}

static int predict_row(const struct model_options *o, const struct target *t, enum model_op op,
		       double *bw, struct err *e)
{
	CLEANUP_FREE struct share *v = calloc(SHARES_MAX, sizeof(*v));
	unsigned n;
	int r = take_shares(o, v, &n, e);

	return r ? r : shares_predict(&t->row[op], v, n, bw, e);
}

/* Says each, or puts it into list. */
static int predict(const struct model_options *o, const struct model *m, json_t *list,
		   struct err *e)
{
	bool any = false;

	for (unsigned i = 0; i < m->targets; i++)
		for (int k = 0; k < MODEL_OPS; k++) {
			const struct target *t = &m->target[i];
			enum model_op op = (enum model_op)k;
			double bw;

			if (!is_op(o->op, op) || !t->row[op].n)
				continue;
			if (predict_row(o, t, op, &bw, e))
				return err_prefix(e, "no prediction for device %s on node %d",
						  model_op_name(op), t->node);
			any = true;
			if (!list)
				printf("device %s on node %d with %s: %.3f Gbit/s\n",
				       model_op_name(op), t->node, o->predict, bw / GBIT);
			else
				json_array_append_new(list, json_pack("{s:i, s:s, s:f}", "target",
						      t->node, "op", model_op_name(op),
						      "bytes_per_second", bw));
		}
	return any ? 0 : err_set(e, -ENOENT, "no prediction: no device %ss were measured", o->op);
}

/* ---- what comes of it ---- */

static int emit(const struct model_options *o, const struct model *m, struct err *e)
{
	json_t *obj = model_json(m), *list = o->predict ? json_array() : NULL;
	int r = list ? predict(o, m, list, e) : 0;

	if (list)
		json_object_set_new(obj, "predictions", list);
	if (r) {
		json_decref(obj);
		return r;
	}
	r = obj ? json_emit(stdout, obj) : -ENOMEM;
	return r ? err_sys(e, r, "standard output") : 0;
}

static int say(const struct model_options *o, const struct model *m, const struct topo *t,
	       struct err *e)
{
	int r = 0;

	model_say(m, t);
	if (o->predict)
		r = predict(o, m, NULL, e);
	if (fflush(stdout) && !r)
		r = err_sys(e, -errno, "standard output");
	return r;
}

/* Can a file be made there, take the place of one, or be written to a device? The directory may be
 * made for it. */
static int check_place(const char *file, bool make)
{
	CLEANUP_FREE char *dir = strdup(file);
	char *slash = dir ? strrchr(dir, '/') : NULL;
	struct stat st;
	int r;

	if (!dir)
		return -ENOMEM;
	if (!stat(file, &st) && !S_ISREG(st.st_mode) && !S_ISCHR(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EEXIST;
	if (!*(slash ? slash + 1 : dir))
		return -ENOENT; /* no name */
	if (slash > dir)
		*slash = '\0';
	r = make && slash > dir ? make_dirs(dir, DIR_MODE) : 0;
	if (!r && access(slash > dir ? dir : slash ? "/" : ".", W_OK))
		r = -errno;
	return r;
}

/* Said before what takes minutes, and not after it. */
static int check_places(const struct model_options *o, struct err *e)
{
	const char *model = o->install ? model_default() : o->save;
	int r = model ? check_place(model, o->install) : 0;

	if (r)
		return err_sys(e, r, "the model cannot be kept as %s (--save FILE keeps it "
			       "elsewhere)", printable(model));
	r = o->plot ? check_place(o->plot, false) : 0;
	if (r)
		return err_sys(e, r, "the picture cannot be kept as %s", printable(o->plot));
	return o->plot && !o->from ? gnuplot_check(e) : 0;
}

static int keep(const struct model_options *o, const struct model *m, struct err *e)
{
	if (o->save)
		return model_write(m, o->save, e);
	return o->install ? model_write(m, model_default(), e) : 0;
}

/* What could not be kept is shown all the same, and the other way round: it took minutes. */
static int show(const struct model_options *o, const struct topo *t, struct err *e)
{
	struct err unkept = ERR_INIT;
	int r = check_places(o, e);
	struct model *m;

	if (!r && o->predict && !o->from)
		r = check_shares(o, t, e);
	m = r ? NULL : get(o, t, e);
	if (!m)
		return r ? r : e->code;
	keep(o, m, &unkept);
	r = o->json ? emit(o, m, e) : say(o, m, t, e);
	if (!r && o->plot)
		r = model_plot(m, o->plot, e);
	model_free(m);
	if (r && unkept.code)
		log_error("%s", unkept.text);
	return r || !unkept.code ? r : err_set(e, unkept.code, "%s", unkept.text);
}

enum tool_status tool_model(int argc, char **argv)
{
	struct model_options o = { .target = (unsigned)NODE_UNKNOWN };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(
		argc, argv, "What copies between nodes cost, and which are alike.", options, &o,
		&helped);
	struct topo *t;

	if (status || helped)
		return status;
	status = check_options(&o);
	if (status)
		return status;
	t = topo_read(o.sysfs, &e);
	if (!t || show(&o, t, &e)) {
		log_error("%s", e.text);
		status = TOOL_FAILED;
	}
	topo_free(t);
	return status;
}
