// SPDX-License-Identifier: Apache-2.0
/* A data set in shards: lists of files, and of ranges of big files, for transfers that run at
 * the same time, also on several hosts. A plan is a directory, which the hosts share:
 *
 *   plan.json             source, destination, options and the lists; written last
 *   shard-0001.jsonl ...  the lists: a line with the plan's id, then a struct shard_item in each
 *                         line
 *   split.jsonl           the files that are cut into ranges, a struct shard_item in each line
 *   shard-0001.result.jsonl ...  the results of the transfers of a list
 *   split.result.jsonl    the files that finish-shards has joined, copied or left alone
 *
 * Main thread, unless a comment says otherwise. */
#ifndef RFTP_CLIENT_SHARDS_H
#define RFTP_CLIENT_SHARDS_H

#include "client/client.h"
#include "client/servers.h"
#include "transfer/transfer.h"

#include <jansson.h>

/* ---- a plan, plan.json ---- */

struct shard_plan {
	char *dir;
	json_t *json;              /* the members below belong to it */
	bool get;                  /* from the server */
	const char *id;            /* 32 hex digits */
	struct bulk_set set;       /* the same */
	const char *words[2];      /* source and destination as they were typed, but a local path is
				    * absolute */
	const char *source, *destination; /* paths of the directories that items are in */
	unsigned n;                /* of lists */
	char *own;                 /* malloc'd copy of the word that names the server */
};

/* 0, and shard_plan_clear() frees p; or a negative errno with text. */
int shard_plan_read(const char *dir, struct shard_plan *p, struct err *e);
void shard_plan_clear(struct shard_plan *p);
/* word may name several servers, as in rftp://dtn[1-4].example.org/x: the one for turn i, which
 * counts from 0 and around; malloc'd. *n: their number. NULL with text: out of memory, or not
 * such a list. */
char *shard_server(const char *word, unsigned i, unsigned *n, struct err *e);
#define SHARD_NO_LIST "%s: not a list of plan-shards"
#define SHARD_LEFT_OUT "%s: this server is left out"
/* Connect to the server for turn i; one that does not answer is left out, with a warning. j's
 * options become those of the plan. Until shard_plan_clear() and option_args_clear() they stay.
 * The server; NULL with text. *url is cleared by the caller. */
struct server *shard_plan_connect(struct shard_plan *p, struct job *j, struct option_args *args,
				  unsigned i, struct url *url, struct err *e);
/* The file of list i, from 1; 0: of split.jsonl; result: of its results. malloc'd; NULL: out of
 * memory. */
char *shard_path(const struct shard_plan *p, unsigned i, bool result);
/* Take away the options that only plan-shards and finish-shards use. */
void shard_options(struct options *o);

/* ---- files of lines ---- */

/* Create a file, which must not exist. NULL with errno. */
FILE *shard_new_file(const char *path);
/* Bring f to stable storage, and close it. NULL is harmless. 0, or -1 with errno. */
int shard_file_close(FILE *f);
/* Sort the lines of dir/SHARD_UNSORTED, which is removed, into dir/SHARD_SORTED. 0, or a
 * negative errno with text. */
#define SHARD_UNSORTED "unsorted"
#define SHARD_SORTED "sorted"
int shard_sort(char *dir, struct err *e);

/* ---- items ---- */

/* A file, or a range of one. */
struct shard_item {
	char *path;                /* below the plan's source and destination */
	uint64_t size;             /* of the file */
	int64_t mtime_s;
	uint32_t mtime_ns;
	struct bulk_range range;   /* length 0: the whole file */
};

/* Write or read a line. Writing: 0 or a negative errno. Reading: 1; 0: the end; or a negative errno
 * with text; shard_item_clear() frees it. */
int shard_item_write(FILE *out, const struct shard_item *it);
int shard_item_read(FILE *in, const char *file, struct shard_item *it, struct err *e);
void shard_item_clear(struct shard_item *it);
/* A number that is the same for equal paths and ranges, and for no others. */
struct shard_key { uint8_t digest[16]; };
struct shard_key shard_key(const char *path, const struct bulk_range *range);

/* ---- results ----
 *
 * Lines with the key event: "done", an item with its bytes, mtime, mtime_ns and digest; with
 * left in place of the digest, a file at the destination that --update or --skip-existing has
 * left alone; "failed", with text; "lost": the item is no longer done, finish-shards did not
 * find its bytes at the destination; "shard": the end of a run. The results of finish-shards are
 * "done": files that it has joined, copied itself, or left alone. */

/* The items that are done. */
struct shard_done {
	struct shard_key key;
	uint32_t sum;              /* CRC32C, unless it was left alone */
	bool left;
	unsigned shard;            /* the list with the item */
};

struct shard_results {
	struct shard_done *v;      /* [n] sorted by key */
	size_t n, room;
	uint64_t bytes;
};
/* Open the results of list i for appending, one line at a time, and lock them: until they are
 * closed, no other rftp copies the list or finishes the plan. NULL with text. */
FILE *shard_results_open(const struct shard_plan *p, unsigned i, struct err *e);
/* Append a line: o, whose reference this takes, with the path and range of it. 0 or a negative
 * errno. Any thread, one at a time. */
int shard_result_write(FILE *results, json_t *o, const struct shard_item *it);
/* Read the results of list i into r, which is empty, and sort them; the last line may be
 * incomplete. 0, and shard_results_clear() frees r; or a negative errno with text. */
int shard_results_read(struct shard_results *r, unsigned i, FILE *results, struct err *e);
/* Add one; shard_results_sort() follows. 0 or -ENOMEM. */
int shard_results_add(struct shard_results *r, const struct shard_done *d);
void shard_results_sort(struct shard_results *r);
/* NULL: the item is not done. */
const struct shard_done *shard_results_find(const struct shard_results *r,
					    const struct shard_item *it);
/* Has finish-shards joined, copied or left alone the file of it? of_finish: results of list 0. */
bool shard_is_whole(const struct shard_results *of_finish, const struct shard_item *it);
void shard_results_clear(struct shard_results *r);

/* ---- events ---- */

/* Let file_done be called in place of that of the events to, which get all other calls. A source
 * that has another size or time than its item (-ESTALE) fails with SHARD_CHANGED. */
struct shard_tap {
	struct transfer_events to;
	void (*file_done)(void *arg, const struct file_report *f);
	void *arg;
};
#define SHARD_CHANGED "has changed since the plan"
/* t must outlive the transfer. */
struct transfer_events shard_events(struct shard_tap *t);
/* Let t have the events of b, which asks for the CRC32C of files, and makes the parents of the
 * destination. */
struct bulk;
void shard_tap_bulk(struct shard_tap *t, struct bulk *b);
/* The path of a report below the directory prefix. NULL: it is not there. */
const char *shard_below(const char *prefix, const char *path);

/* ---- the commands ---- */

/* The reason why rftp sync refuses the words and options of j, its own or those of plan-shards;
 * NULL: it does not. (commands/copy.c) */
const char *sync_refuses(const struct job *j);
/* rftp put or rftp get with --shard-list. */
enum exit_status shard_run(struct job *j);

#endif
