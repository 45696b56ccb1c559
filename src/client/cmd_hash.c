// SPDX-License-Identifier: Apache-2.0
/* rftp hash: digests that the server computes (draft-bryan-ftp-ext-hash). */
#include "client/server.h"
#include "client/show.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "SHA-256 0-4095 HEX name" */
struct hash_reply {
	char alg[32], range[48], hex[2 * DIGEST_MAX + 1];
};

static int parse_reply(const char *text, struct hash_reply *r)
{
	return sscanf(text, "%31s %47s %128[0-9a-fA-F]", r->alg, r->range, r->hex) == 3 ?
		0 : -EBADMSG;
}

static void show_hash(const struct job *j, const struct hash_reply *r, const struct place *p)
{
	json_t *obj;

	if (!j->o.json) {
		printf("%s  ", r->hex);
		show_name(stdout, server_shown(j, p), show_raw(stdout), '\n');
		return;
	}
	obj = json_pack("{s:s, s:s, s:s}", "event", "hash", "alg", r->alg, "hash", r->hex);
	json_set_name(obj, "name", p->path);
	json_emit(stdout, obj);
}

/* The algorithm stays chosen, but the server may be another one than before: one more
 * command on a connection costs less than remembering. */
static int choose_alg(const struct job *j, struct server *s, struct err *e)
{
	char arg[128];
	int rc;

	if (!j->o.alg)
		return 0;
	snprintf(arg, sizeof(arg), "HASH %s", j->o.alg);
	rc = ftp_simple(s->client, FTP_OPTS, arg, NULL, e);
	return rc < 0 ? err_prefix(e, "%s", j->o.alg) : 0;
}

/* What it is called by default is a good one; else whatever there is. */
static int hash_foreign(const struct job *j, struct server *s, const struct place *p, struct err *e)
{
	struct hash_reply r = { .alg = "" };
	const char *alg = j->o.alg;
	int rc = ftp_digest(s->client, server_path(p), &alg, UINT64_MAX, r.hex, e);

	if (rc < 0)
		return rc;
	snprintf(r.alg, sizeof(r.alg), "%s", alg);
	show_hash(j, &r, p);
	return 0;
}

static int hash_one(struct job *j, struct server *s, const struct place *p, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	struct hash_reply r;
	int rc;

	if (ftp_is_foreign(s->client))
		return hash_foreign(j, s, p, e);
	rc = choose_alg(j, s, e);
	if (rc)
		return rc;
	rc = ftp_simple(s->client, FTP_HASH, p->path, &text, e);
	if (rc < 0)
		return rc;
	if (parse_reply(text, &r))
		return err_set(e, -EBADMSG, "%s: the server's answer is no digest: %s",
			       printable(p->path), printable(text));
	show_hash(j, &r, p);
	return 0;
}

enum exit_status rftp_hash(struct job *j)
{
	return each_url(j, hash_one);
}
