// SPDX-License-Identifier: Apache-2.0
/* On which nodes the pages of a file in a tmpfs are, looked at without making or moving any. */
#ifndef RFTP_ISER_WHERE_H
#define RFTP_ISER_WHERE_H

#include "numa/numa.h"
#include "util/util.h"

struct node_bytes {
	int node;
	uint64_t bytes;
};

/* All in bytes; together the file's size. */
struct file_pages {
	struct node_bytes *on; /* nodes that have any, by number */
	size_t n_on;
	uint64_t holes;        /* not written yet, so that they read as zeros: no pages; or, when the
	                        * file has any of these, pages that were allocated beforehand */
	uint64_t swapped;      /* their pages are in swap space */
	bool sampled;          /* the file is big: a part was looked at, and stands for the rest */
};

/* 0, or a negative errno with text: -ENOTSUP when path is no file of a tmpfs, -ENOSYS or -EPERM
 * when this build or container does not tell where pages are. p is file_pages_clear's in any
 * case. */
int file_pages_read(const struct topo *t, const char *path, struct file_pages *p, struct err *e);
void file_pages_clear(struct file_pages *p);
uint64_t file_pages_on(const struct file_pages *p, int node);
/* Those that are on other nodes than this one. */
uint64_t file_pages_elsewhere(const struct file_pages *p, int node);

#endif
