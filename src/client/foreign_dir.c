// SPDX-License-Identifier: Apache-2.0
/* Directories of a transfer with a foreign server. */
#include "client/foreign.h"

#include "client/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what has been in one ---- */

struct there {
	struct ftp_facts facts;
	UT_hash_handle hh;
};

int there_add(struct there **all, const struct ftp_facts *f)
{
	struct there *one = calloc(1, sizeof(*one)), *old = NULL;
	char *name = strdup(f->name);

	if (!one || !name) {
		free(one);
		free(name);
		return -ENOMEM;
	}
	one->facts = *f;
	one->facts.target = NULL;
	one->facts.name = name;
	HASH_FIND_STR(*all, name, old);
	if (old) {
		ftp_facts_clear(&one->facts);
		free(one);
		return 0;
	}
	HASH_ADD_KEYPTR(hh, *all, one->facts.name, strlen(name), one);
	return 0;
}

const struct ftp_facts *there_find(const struct there *all, const char *name)
{
	struct there *one = NULL;

	HASH_FIND_STR(all, name, one);
	return one ? &one->facts : NULL;
}

void there_free(struct there *all)
{
	struct there *one, *next;

	HASH_ITER(hh, all, one, next) {
		HASH_DEL(all, one);
		ftp_facts_clear(&one->facts);
		free(one);
	}
}

/* ---- names ---- */

bool foreign_is_part(const char *name)
{
	const char *tail = part_tail(name);

	return part_is_ours(name) ||
	       (tail && (!strcmp(tail, FOREIGN_PART) || !strcmp(tail, FOREIGN_OLD)));
}

void foreign_hex(char out[2 * RUN_DIGEST_BYTES + 1], const char *text)
{
	uint8_t digest[RUN_DIGEST_BYTES];

	crypto_run_digest(digest, text, strlen(text));
	for (size_t i = 0; i < sizeof(digest); i++)
		snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- directories ---- */

struct fdir *fdir_new(struct fdir *parent, char *remote, char *shown, struct dir *local)
{
	struct fdir *d = remote && shown ? calloc(1, sizeof(*d)) : NULL;

	if (!d) {
		free(remote);
		free(shown);
		if (local)
			dir_put(local);
		return NULL;
	}
	atomic_init(&d->refs, 1);
	d->parent = parent ? fdir_ref(parent) : NULL;
	d->depth = parent ? parent->depth + 1 : 0;
	d->remote = remote;
	d->shown = shown;
	d->local = local;
	return d;
}

struct fdir *fdir_sub(struct fdir *d, const char *name, bool dry)
{
	struct dir *local = d->local ? dir_sub(d->local, name) : NULL;

	if (d->local && !local && !dry)
		return NULL;
	return fdir_new(d, name_below(d->remote, name), name_below(d->shown, name), local);
}

struct fdir *fdir_ref(struct fdir *d)
{
	atomic_fetch_add(&d->refs, 1);
	return d;
}

void fdir_put(struct worker *w, struct fdir *d)
{
	while (d && atomic_fetch_sub(&d->refs, 1) == 1) {
		struct fdir *parent = d->parent;

		if (w && !atomic_load(&w->f->stop))
			w->f->ops->leave(w, d);
		if (d->local)
			dir_put(d->local);
		there_free(d->there);
		free(d->remote);
		free(d->shown);
		free(d);
		d = parent;
	}
}
