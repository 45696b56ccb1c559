// SPDX-License-Identifier: Apache-2.0
/* Names on the server: facts, listings, directories, removal, digests, space. */
#include "api/api.h"

#include <sys/stat.h>

/* ---- facts ---- */

static void stat_of(const struct ftp_facts *f, struct rftp_stat *st)
{
	bool dir = f->type == 'd' || f->type == 'c' || f->type == 'p';
	uint32_t type = dir ? S_IFDIR : f->type == 'l' ? S_IFLNK : f->type == 'f' ? S_IFREG : 0;
	uint32_t guess = dir ? 0755 : f->type == 'l' ? 0777 : 0644;

	*st = (struct rftp_stat){
		.mode = type | ((f->has_mode ? f->mode : guess) & 07777),
		.uid = f->uid, .gid = f->gid, .size = f->has_size ? f->size : 0,
		.mtime_s = f->mtime_s, .mtime_ns = f->mtime_ns, .has_owner = f->has_owner,
		.has_mode = f->has_mode,
	};
}

static int stat_by(struct rftp *r, const char *path, struct rftp_stat *st,
		   int (*fn)(struct server *s, const char *path, struct ftp_facts *f,
			     struct err *e))
{
	struct ftp_facts f = { 0 };
	int rc = api_begin(r);

	if (!rc)
		rc = fn(r->server, path, &f, &r->error);
	if (!rc)
		stat_of(&f, st);
	ftp_facts_clear(&f);
	return api_end(r, rc);
}

int rftp_lstat(struct rftp *r, const char *path, struct rftp_stat *st)
{
	return stat_by(r, path, st, server_stat);
}

int rftp_stat(struct rftp *r, const char *path, struct rftp_stat *st)
{
	return stat_by(r, path, st, server_stat_target);
}

int rftp_list(struct rftp *r, const char *path, rftp_list_fn *fn, void *arg)
{
	struct facts_list list = { 0 };
	int rc = api_begin(r);

	if (!rc)
		rc = server_list(r->server, path, &list, &r->error);
	rc = api_end(r, rc);
	for (size_t i = 0; !rc && i < list.n; i++) {
		struct rftp_stat st;

		stat_of(&list.all[i], &st);
		rc = fn(arg, list.all[i].name, &st);
	}
	facts_clear(&list);
	return rc;
}

/* ---- changes ---- */

int rftp_mkdir(struct rftp *r, const char *path, int parents)
{
	CLEANUP_FREE char *bare = strdup(path);
	size_t n = bare ? strlen(bare) : 0;
	int rc;

	while (n > 1 && bare[n - 1] == '/')
		bare[--n] = '\0';
	rc = api_begin(r);
	if (!rc && !bare)
		rc = err_nomem(&r->error);
	if (!rc)
		rc = parents ? server_make_dirs(r->server, bare, &r->error) :
		     server_simple(r->server, FTP_MKD, bare, &r->error);
	return api_end(r, rc);
}

int rftp_unlink(struct rftp *r, const char *path)
{
	int rc = api_begin(r);

	if (rc)
		return api_end(r, rc);
	rc = server_simple(r->server, FTP_DELE, path, &r->error);
	if (rc && rc != -ENOENT && !error_is_connection(rc) && rc != -EINTR &&
	    server_connected(r->server) && server_is_directory(r->server, path))
		rc = err_sys(&r->error, -EISDIR, "%s", printable(path));
	return api_end(r, rc);
}

int rftp_rmdir(struct rftp *r, const char *path)
{
	int rc = api_begin(r);

	if (!rc)
		rc = server_simple(r->server, FTP_RMD, path, &r->error);
	return api_end(r, rc);
}

int rftp_remove_tree(struct rftp *r, const char *path)
{
	int rc = api_begin(r);

	if (!rc)
		rc = server_is_directory(r->server, path) ?
		     server_simple(r->server, FTP_RMDA, path, &r->error) :
		     server_simple(r->server, FTP_DELE, path, &r->error);
	return api_end(r, rc);
}

int rftp_rename(struct rftp *r, const char *from, const char *to)
{
	int rc = api_begin(r);

	if (!rc)
		rc = server_rename(r->server, from, to, &r->error);
	return api_end(r, rc);
}

int rftp_chmod(struct rftp *r, const char *path, unsigned mode)
{
	char octal[16];
	int rc = api_begin(r);

	snprintf(octal, sizeof(octal), "%04o", mode & 07777);
	if (!rc)
		rc = server_chmod(r->server, octal, path, &r->error);
	return api_end(r, rc);
}

/* ---- digests and space ---- */

int rftp_checksum(struct rftp *r, const char *path, const char *alg, char *hex, size_t size)
{
	const char *name = digest_name(alg);
	struct hash_reply reply;
	int rc = api_begin(r);

	if (!rc && !name)
		rc = err_set(&r->error, -EOPNOTSUPP, "there is no digest \"%s\"", printable(alg));
	if (!rc)
		rc = hash_choose(r->server->client, name, &r->error);
	if (!rc)
		rc = hash_ask(r->server->client, path, name, &reply, &r->error);
	if (!rc && strlen(reply.hex) >= size)
		rc = err_set(&r->error, -ERANGE, "no room for the digest");
	if (!rc) {
		strcpy(hex, reply.hex);
		for (char *c = hex; *c; c++)
			*c = *c >= 'A' && *c <= 'F' ? (char)(*c - 'A' + 'a') : *c;
	}
	return api_end(r, rc);
}

int rftp_space(struct rftp *r, const char *path, uint64_t *available)
{
	CLEANUP_FREE char *text = NULL;
	int rc = api_begin(r);

	if (!rc) {
		rc = ftp_simple(r->server->client, FTP_AVBL, path, &text, &r->error);
		rc = rc > 0 ? 0 : rc;
	}
	if (!rc && parse_uint(text ? text : "", 0, UINT64_MAX, available))
		rc = err_set(&r->error, -EPROTO, "the server answers AVBL with \"%s\"",
			     printable(text ? text : ""));
	return api_end(r, rc);
}
