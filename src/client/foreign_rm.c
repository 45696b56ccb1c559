// SPDX-License-Identifier: Apache-2.0
/* rm -r on a foreign server, which has no command for it: from the bottom up. */
#include "client/foreign.h"

#include "client/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct names_of {
	struct names files, dirs;
	const char *path;
	struct err *e;
};

static int collect(void *arg, const struct ftp_facts *f)
{
	struct names_of *n = arg;

	if (!bulk_name_ok(f->name))
		return err_set(n->e, -EINVAL, "the server lists \"%s\" in %s: nothing there is "
			       "removed", printable(f->name), printable(n->path));
	/* A link is removed, not what it leads to. */
	return names_add(f->type == 'd' ? &n->dirs : &n->files, name_below(n->path, f->name));
}

static int simple(struct server *s, enum ftp_verb verb, const char *path, struct err *e)
{
	int rc = ftp_simple(s->client, verb, path, NULL, e);

	return rc < 0 ? rc : 0;
}

/* What is listed as a directory may be a link to one: where MLSD follows links nothing tells them
 * apart, and what it leads to is not to be emptied. DELE takes a link and refuses a directory;
 * where it may take neither, RMD has to give another reason, which it has not for a link. 0: it is
 * gone; 1: a directory; or a negative errno with text. */
static int remove_link(struct server *s, const char *path, struct err *e)
{
	struct err why = ERR_INIT;
	int rc = simple(s, FTP_DELE, path, &why);

	if (rc == -EACCES)
		rc = simple(s, FTP_RMD, path, &why);
	if (rc == 0)
		return 0;
	if (rc != -EACCES && rc != -EBUSY && rc != -EIO && !exit_is_lost(rc) &&
	    ftp_client_usable(s->client))
		return 1;
	return err_set(e, rc, "%s: %s", printable(path), why.text);
}

static int remove_tree(struct server *s, const char *path, unsigned depth, struct err *e);

static int remove_listed(struct server *s, const char *path, unsigned depth, struct err *e)
{
	int rc = remove_link(s, path, e);

	return rc == 1 ? remove_tree(s, path, depth, e) : rc;
}

/* What fails is told by the first reason; the rest goes on. */
static int remove_tree(struct server *s, const char *path, unsigned depth, struct err *e)
{
	struct err why = ERR_INIT;
	struct names_of n = { .path = path, .e = e };
	int rc, first = 0;

	if (depth > FOREIGN_DEPTH_MOST)
		return err_set(e, -ELOOP, "%s: too deep", printable(path));
	rc = ftp_list(s->client, path, collect, &n, e);
	if (rc == -ENOMEM && !e->code)
		err_sys(e, rc, "listing");
	for (size_t i = 0; rc == 0 && i < n.files.n && !exit_is_lost(first); i++) {
		int r = simple(s, FTP_DELE, n.files.all[i], first ? &why : e);

		first = first ? first : r;
	}
	for (size_t i = 0; rc == 0 && i < n.dirs.n && !exit_is_lost(first); i++) {
		int r = remove_listed(s, n.dirs.all[i], depth + 1, first ? &why : e);

		first = first ? first : r;
	}
	names_clear(&n.files);
	names_clear(&n.dirs);
	if (rc || first)
		return rc ? rc : first;
	return simple(s, FTP_RMD, path, e);
}

int foreign_remove(struct server *s, const char *path, struct err *e)
{
	return remove_tree(s, path, 0, e);
}
