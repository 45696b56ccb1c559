// SPDX-License-Identifier: Apache-2.0
/* What a file gets on a foreign server once its part is whole there: attributes, then its name. */
#include "client/foreign_store.h"

#include "client/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- attributes ---- */

/* Nothing can be done about it. */
static void cannot_keep(struct store *s, const char *what, enum ftp_said said, const struct err *e)
{
	if (ftp_client_usable(s->w->client) && ftp_say_once(s->w->client, said))
		log_warn("%s does not keep %s: %s",
			 printable(s->w->f->job->server->place.host), what, e->text);
}

int store_dress(struct store *s, struct err *e)
{
	const struct options *o = s->w->f->o;
	struct err why = ERR_INIT;

	if (s->t->item)
		return 0;
	if (!o->no_modes && ftp_set_mode(s->w->client, s->part, s->meta.mode, &why))
		cannot_keep(s, "permission bits", FTP_SAID_MODES, &why);
	if (!o->no_times && ftp_client_usable(s->w->client) &&
	    ftp_set_mtime(s->w->client, s->part, s->meta.mtime_s, &why))
		cannot_keep(s, "modification times", FTP_SAID_TIMES, &why);
	if (ftp_client_usable(s->w->client))
		return 0;
	*e = why;
	return e->code ? e->code : (e->code = -EPIPE);
}

/* ---- its name ---- */

static int rename_there(struct ftp_client *c, const char *from, const char *to, struct err *e)
{
	int rc = ftp_simple(c, FTP_RNFR, from, NULL, e);

	if (rc >= 0)
		rc = ftp_simple(c, FTP_RNTO, to, NULL, e);
	return rc < 0 ? rc : 0;
}

char *store_name_beside(const struct store *s, const char *text, const char *suffix)
{
	char name[sizeof(PART_PREFIX) + 2 * RUN_DIGEST_BYTES + sizeof(FOREIGN_OLD)];
	char hex[2 * RUN_DIGEST_BYTES + 1];

	foreign_hex(hex, text);
	snprintf(name, sizeof(name), "%s%s%s", PART_PREFIX, hex, suffix);
	return name_below(s->t->dir->remote, name);
}

/* Where a file lies while another gets its name; malloc'd. */
static char *name_old(const struct store *s)
{
	return store_name_beside(s, s->t->name, FOREIGN_OLD);
}

/* What has the target's name? 0: nothing; 1: a file or a link, which may go; or a negative errno
 * with text. */
static int look_at_target(struct store *s, struct err *e)
{
	struct ftp_facts facts = { 0 };
	struct err why = ERR_INIT;
	char type;
	int rc = ftp_stat(s->w->client, s->t->remote, &facts, &why);

	if (rc == -ENOENT)
		return 0;
	if (rc) {
		*e = why;
		return err_prefix(e, "%s: what is there cannot be told", printable(s->t->remote));
	}
	type = facts.type;
	ftp_facts_clear(&facts);
	if (type == 'f' || type == 'l')
		return 1;
	return err_set(e, -EISDIR, "%s: cannot be replaced by a file", printable(s->t->remote));
}

int store_restore_old(struct store *s, struct err *e)
{
	struct ftp_client *c = s->w->client;
	CLEANUP_FREE char *old = NULL;
	struct err why = ERR_INIT;
	int rc;

	if (s->w->f->o->inplace || s->t->dir->made)
		return 0;
	old = name_old(s);
	if (!old)
		return err_sys(e, -ENOMEM, "names");
	if (ftp_simple(c, FTP_RNFR, old, NULL, &why) < 0) {
		if (ftp_client_usable(c))
			return 0;
		*e = why;
		return e->code;
	}
	rc = look_at_target(s, e);
	if (rc == 0) {
		rc = rename_there(c, old, s->t->remote, e);
		return rc ? err_prefix(e, "%s lies there as %s and cannot get its name back",
				       printable(s->t->remote), printable(old)) : 0;
	}
	if (rc > 0)
		ftp_simple(c, FTP_DELE, old, NULL, &why);
	return rc < 0 ? rc : 0;
}

/* Some servers want a file gone before another gets its name. It goes only when that has worked:
 * until then it lies beside. */
static int rename_over(struct store *s, struct err *e)
{
	struct ftp_client *c = s->w->client;
	CLEANUP_FREE char *old = name_old(s);
	struct err why = ERR_INIT;
	int rc = old ? rename_there(c, s->t->remote, old, e) : err_sys(e, -ENOMEM, "names");

	if (rc)
		return rc;
	rc = rename_there(c, s->part, s->t->remote, e);
	if (rc == 0) {
		if (ftp_simple(c, FTP_DELE, old, NULL, &why) < 0)
			log_warn("%s: the file that had the name lies there as %s: %s",
				 printable(s->t->remote), printable(old), why.text);
		return 0;
	}
	if (ftp_client_usable(c) && rename_there(c, old, s->t->remote, &why))
		err_set(e, e->code, "%s; and the file that had the name lies there as %s: %s",
			e->text, printable(old), why.text);
	return rc;
}

int store_give_name(struct store *s, struct err *e)
{
	struct ftp_client *c = s->w->client;
	struct err why = ERR_INIT;
	int rc;

	if (s->w->f->o->inplace)
		return 0;
	rc = rename_there(c, s->part, s->t->remote, e);
	if (rc == 0 || !ftp_client_usable(c))
		return rc;
	rc = look_at_target(s, &why);
	if (rc < 0) {
		*e = why;
		if (rc == -EISDIR)
			ftp_simple(c, FTP_DELE, s->part, NULL, &why);
		return rc;
	}
	if (rc > 0) {
		rc = rename_over(s, e);
		if (rc == 0 || !ftp_client_usable(c))
			return rc;
	}
	return err_set(e, e->code == -EIO ? -EPERM : e->code, "%s: it lies there whole as "
		       "%s but cannot be renamed (--inplace does without): %s",
		       printable(s->t->remote), printable(s->part), e->text);
}
