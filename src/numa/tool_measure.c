// SPDX-License-Identifier: Apache-2.0
/* rftp-numa measure: the bandwidth of copies between nodes, round by round, as JSON. Measures for
 * "rftp-numa model", which makes classes of it; "keep" and "check" write and read its file. */
#include "numa/measure.h"
#include "numa/tool.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COPIES 10
#define ROUNDS 10  /* with ten copies, as many copies of each buffer as were published */
#define ROUNDS_LEAST 5
#define SIZE_MOST (1ull << 40)
#define COPIES_MOST 1000000
#define ROUNDS_MOST 1000
#define KEEP_MOST (64u << 20)

struct measure_options {
	unsigned target, threads, copies, rounds;
	uint64_t size;
	bool json;
};

#define FIELD(name) offsetof(struct measure_options, name)

static const struct tool_option options[] = {
	{ "target", TOOL_COUNT, FIELD(target), "NODE", "only this node as target", 0, NODE_MOST },
	{ "threads", TOOL_COUNT, FIELD(threads), "N", "threads on the target (its cores)", 1,
	  IDS_MAX },
	{ "size", TOOL_SIZE, FIELD(size), "SIZE", "a thread's buffer (by the caches, 32M or more)",
	  1 << 20, SIZE_MOST },
	{ "copies", TOOL_COUNT, FIELD(copies), "N", "copies of it in a round (10)", 1,
	  COPIES_MOST },
	{ "rounds", TOOL_COUNT, FIELD(rounds), "N", "repetitions (10)", ROUNDS_LEAST, ROUNDS_MOST },
	TOOL_JSON(struct measure_options),
	{ 0 },
};

static void clear_line(void)
{
	fputs("\r\033[K", stderr);
}

static void show_progress(unsigned target, unsigned targets, unsigned round, unsigned rounds)
{
	fprintf(stderr, "\r\033[Ktarget %u of %u, round %u of %u", target, targets, round, rounds);
}

static json_t *measure_here(const struct measure_options *o, const struct topo *t, struct err *e)
{
	bool terminal = isatty(STDERR_FILENO);
	struct stop stop;
	struct measure_config c = {
		.target = (int)o->target, .threads = o->threads, .bytes = o->size,
		.copies = o->copies, .rounds = o->rounds,
		.stop = &stop, .progress = terminal ? show_progress : NULL,
	};
	json_t *found;

	stop_begin(&stop);
	log_set_hook(terminal ? clear_line : NULL, NULL);
	found = measure(t, &c, e);
	log_set_hook(NULL, NULL);
	if (terminal)
		clear_line();
	/* A signal that came ends the process here. */
	stop_end(&stop);
	return found;
}

/* ---- its file ---- */

/* The model, or a picture of it, whole or not at all. It is at most 64 MiB. */
enum tool_status tool_keep(int argc, char **argv)
{
	static const struct tool_option none[] = { { 0 } };
	struct tool_words words = { .names = "WHAT FILE", .least = 2, .most = 2 };
	CLEANUP_FREE char *data = NULL;
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options_words(
		argc, argv, "Keeps standard input as FILE.", none, NULL, &words, &helped);
	size_t len;
	int r;

	if (status || helped)
		return status;
	/* A limit of files' size is an error, as a full disk is. */
	signal(SIGXFSZ, SIG_IGN);
	r = read_file("/dev/stdin", KEEP_MOST, &data, &len);
	if (r)
		err_sys(&e, r, "standard input");
	else
		r = write_file_atomic(words.word[1], data, len, 0644, &e);
	if (r)
		log_error("%s is not saved: %s", words.word[0], e.text);
	return r ? TOOL_FAILED : TOOL_DONE;
}

/* ---- rftp-numa check ---- */

struct check_options {
	const char *model, *sysfs;
};

static const struct tool_option check_options[] = {
	{ "model", TOOL_TEXT, offsetof(struct check_options, model), "FILE", "the I/O model", 0, 0 },
	TOOL_SYSFS(struct check_options),
	{ 0 },
};

/* Prints an I/O model as its file has it, if it is this machine's. */
enum tool_status tool_check(int argc, char **argv)
{
	struct check_options o = { 0 };
	struct err e = ERR_INIT;
	bool helped;
	enum tool_status status = tool_options(argc, argv, "An I/O model, once it is checked.",
					       check_options, &o, &helped);
	struct model *m = NULL;
	json_t *obj = NULL;
	struct topo *t;
	int r;

	if (status || helped)
		return status;
	t = topo_read(o.sysfs, &e);
	if (t)
		m = model_read(o.model, t, &e);
	if (m) {
		obj = json_load_file(o.model, 0, NULL);
		if (!obj)
			err_set(&e, -ESTALE, "%s: has changed meanwhile", printable(o.model));
	}
	r = obj ? json_emit(stdout, obj) : e.code;
	if (r)
		log_error("%s", obj ? strerror(-r) : e.text);
	model_free(m);
	topo_free(t);
	return r ? TOOL_FAILED : TOOL_DONE;
}

/* ---- the command ---- */

enum tool_status tool_measure(int argc, char **argv)
{
	struct measure_options o = { .target = (unsigned)NODE_UNKNOWN, .copies = COPIES,
				     .rounds = ROUNDS };
	struct err e = ERR_INIT;
	json_t *found = NULL;
	bool helped;
	enum tool_status status = tool_options(
		argc, argv, "The bandwidth of copies between nodes, round by round, as JSON.",
		options, &o, &helped);
	struct topo *t;
	int r;

	if (status || helped)
		return status;
	t = topo_read(NULL, &e);
	if (t)
		found = measure_here(&o, t, &e);
	r = found ? json_emit(stdout, found) : e.code;
	if (r)
		log_error("%s", found ? strerror(-r) : e.text);
	topo_free(t);
	return r ? TOOL_FAILED : TOOL_DONE;
}
