// SPDX-License-Identifier: Apache-2.0
/* A picture of the I/O model: heat maps of all cells, and bars for each target, by gnuplot. No
 * word of a user's reaches it: it reads a script of numbers and writes to standard output. */
#include "numa/gnuplot.h"
#include "numa/model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define GBIT 125e6
#define WIDTH 1200 /* pixels, of two columns */
#define HEIGHT 420 /* of a row */
#define FILE_MODE 0644
/* Of the highest bandwidth: what all colours are for at least. Nodes that are alike but for noise
 * would else be red and green; those that are a class apart are half of that. */
#define COLOURS (2 * CLASS_GAP)

/* ---- the file's name ---- */

static const struct format {
	const char *ending, *terminal;
} formats[] = {
	{ ".png", "pngcairo" },
	{ ".svg", "svg" },
};

static const struct format *format_of(const char *file)
{
	size_t len = strlen(file);

	for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
		size_t end = strlen(formats[i].ending);

		if (len > end && !strcasecmp(file + len - end, formats[i].ending))
			return &formats[i];
	}
	return NULL;
}

int model_plot_name(const char *file, struct err *e)
{
	return format_of(file) ? 0 :
	       err_set(e, -EINVAL, "a picture's name ends in .png or .svg, not as \"%s\"",
		       printable(file));
}

/* ---- the script ---- */

/* Columns are the nodes, by their place, for their numbers may have gaps. */
static void put_node_tics(FILE *f, const struct model *m)
{
	fputs("set xtics (", f);
	for (unsigned i = 0; i < m->nodes; i++)
		fprintf(f, "%s\"%d\" %u", i ? ", " : "", m->node[i].id, i);
	fprintf(f, ")\nset xlabel \"node\"\nset xrange [-0.5:%u.5]\n", m->nodes - 1);
}

static void put_target_tics(FILE *f, const struct model *m)
{
	fputs("set ytics (", f);
	for (unsigned i = 0; i < m->targets; i++)
		fprintf(f, "%s\"%d\" %u", i ? ", " : "", m->target[i].node, i);
	fprintf(f, ")\nset ylabel \"target\"\nset yrange [%u.5:-0.5]\n", m->targets - 1);
}

static bool has_row(const struct model *m, enum model_op op)
{
	for (unsigned i = 0; i < m->targets; i++)
		if (m->target[i].row[op].n)
			return true;
	return false;
}

static void put_colours(FILE *f, const struct model *m, enum model_op op)
{
	double least = INFINITY, most = 0;

	for (unsigned i = 0; i < m->targets; i++)
		for (unsigned k = 0; k < m->target[i].row[op].n; k++) {
			least = fmin(least, m->target[i].row[op].cell[k].median);
			most = fmax(most, m->target[i].row[op].cell[k].median);
		}
	least = fmin(least, (1 - COLOURS) * most);
	fprintf(f, "set cbrange [%.9g:%.9g]\n", least / GBIT, most / GBIT);
}

/* A box and a number for each cell. */
static void put_map(FILE *f, const struct model *m, enum model_op op)
{
	if (!has_row(m, op)) {
		fputs("set multiplot next\n", f);
		return;
	}
	fprintf(f, "$map%d << EOD\n", op);
	for (unsigned i = 0; i < m->targets; i++)
		for (unsigned k = 0; k < m->nodes; k++) {
			const struct cell *c = row_cell(&m->target[i].row[op], m->node[k].id);

			if (c)
				fprintf(f, "%u %u %.3f\n", k, i, c->median / GBIT);
		}
	fprintf(f, "EOD\nset title \"device %s, Gbit/s\"\n", model_op_name(op));
	put_node_tics(f, m);
	put_target_tics(f, m);
	put_colours(f, m, op);
	fprintf(f, "plot $map%d using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid "
		"fillcolor palette notitle, $map%d using 1:2:(sprintf(\"%%.1f\", $3)) with labels "
		"notitle\n", op, op);
}

static void put_bar(FILE *f, const struct cell *c)
{
	if (c)
		fprintf(f, " %.3f %.3f %.3f", c->median / GBIT, c->low / GBIT, c->high / GBIT);
	else
		fputs(" NaN NaN NaN", f);
}

/* Medians, with the spread from decile to decile. */
static void put_bars(FILE *f, const struct model *m, const struct target *t)
{
	fprintf(f, "$bars%d << EOD\n", t->node);
	for (unsigned k = 0; k < m->nodes; k++) {
		fprintf(f, "%u", k);
		for (int op = 0; op < MODEL_OPS; op++)
			put_bar(f, row_cell(&t->row[op], m->node[k].id));
		fputc('\n', f);
	}
	fprintf(f, "EOD\nset title \"target %d: medians, first to ninth decile\"\n", t->node);
	put_node_tics(f, m);
	fputs("set ytics autofreq\nset ylabel \"Gbit/s\"\nset yrange [0:*]\n", f);
	fprintf(f, "plot $bars%d using ($1-0.2):2:3:4:(0.38) with boxerrorbars fillstyle solid 0.5 "
		"title \"device write\", $bars%d using ($1+0.2):5:6:7:(0.38) with boxerrorbars "
		"fillstyle solid 0.5 title \"device read\"\n", t->node, t->node);
}

static void put_script(FILE *f, const struct model *m, const struct format *format)
{
	unsigned rows = 1 + (m->targets + 1) / 2;

	fprintf(f, "set terminal %s size %u,%u\n", format->terminal, WIDTH, rows * HEIGHT);
	fprintf(f, "set multiplot layout %u,2\n", rows);
	fputs("unset colorbox\nset palette defined (0 \"#e06060\", 1 \"#f0e0a0\", 2 \"#70b070\")\n"
	      "set key outside bottom center horizontal\n", f);
	put_map(f, m, MODEL_WRITE);
	put_map(f, m, MODEL_READ);
	for (unsigned i = 0; i < m->targets; i++)
		put_bars(f, m, &m->target[i]);
	fputs("unset multiplot\n", f);
}

int model_plot(const struct model *m, const char *file, struct err *e)
{
	const struct format *format = format_of(file);
	CLEANUP_FREE char *script = NULL;
	CLEANUP_FREE char *picture = NULL;
	size_t script_len, len;
	FILE *f;
	int r;

	if (!format)
		return model_plot_name(file, e);
	f = open_memstream(&script, &script_len);
	if (!f)
		return err_sys(e, -errno, "no memory for a picture");
	put_script(f, m, format);
	if (fclose(f))
		return err_sys(e, -errno, "no memory for a picture");
	r = gnuplot(script, script_len, &picture, &len, e);
	if (r)
		return r;
	r = write_file_atomic(file, picture, len, FILE_MODE, e);
	return r ? err_prefix(e, "the picture is not saved") : 0;
}
