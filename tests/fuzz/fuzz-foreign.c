// SPDX-License-Identifier: Apache-2.0
/* Input: replies and listings of an FTP server that need not be rftpd, as its client asks for
 * features, facts, digests and lists. A listing ends with the line ".". The connection is replaced:
 * this file has the functions of conn.c that ask.c calls. */
#include "client/foreign/foreign.h"
#include "client/servers.h"

#include "tests/support/fuzz.h"

#include <errno.h>
#include <string.h>

static const char *next, *input_end;

/* The next line of input; false: there is none. */
static bool next_line(struct fconn *c, char line[FTP_LINE_MAX], struct err *e)
{
	const char *end;
	size_t n;

	if (next >= input_end) {
		err_set(&c->gone, -EPIPE, "%s closed the connection", c->host);
		*e = c->gone;
		return false;
	}
	end = memchr(next, '\n', (size_t)(input_end - next));
	end = end ? end : input_end;
	n = (size_t)(end - next) < FTP_LINE_MAX - 1 ? (size_t)(end - next) : FTP_LINE_MAX - 1;
	memcpy(line, next, n);
	line[n] = '\0';
	next = end + 1;
	return true;
}

int fconn_ask(struct fconn *c, const char *verb, const char *before, const char *path,
	      const char *behind, struct err *e)
{
	char line[FTP_LINE_MAX];
	int rc = 0;

	MUST(!before || !strpbrk(before, "\r\n"));
	if (fconn_lost(c, e))
		return e->code;
	ftp_reply_clear(&c->reply);
	while (rc == 0) {
		if (!next_line(c, line, e))
			return e->code;
		rc = ftp_reply_line(&c->reply, line);
	}
	return rc < 0 ? err_set(e, -EPROTO, "no reply") : c->reply.code;
}

int fconn_list_text(struct fconn *c, const char *dir, const char *command,
		    struct listing_text *l, struct err *e)
{
	char line[FTP_LINE_MAX];
	int code;

	if (fconn_lost(c, e))
		return e->code;
	while (next_line(c, line, e) && strcmp(line, ".") != 0)
		if (listing_add(l, line, strlen(line), e) || listing_add(l, "\n", 1, e))
			return e->code;
	if (c->gone.code)
		return e->code;
	code = fconn_ask(c, "LIST", NULL, NULL, NULL, e);
	if (code < 0 || code / 100 != 2)
		return code < 0 ? code : ftp_reply_refused(c->host, code, c->reply.text, e);
	return 0;
}

/* The other functions of conn.c; nothing calls them here. */
struct fconn *fconn_open(const struct ftp_client_config *cfg, struct err *e)
{
	return NULL;
}

void fconn_close(struct fconn *c)
{
}

int fconn_retrieve(struct fconn *c, const char *path, uint64_t at, uint64_t rate,
		   fconn_sink *fn, void *arg, bool *cut, struct err *e)
{
	return -EPROTO;
}

int fconn_store(struct fconn *c, const char *path, uint64_t *at, fconn_source *fn, void *arg,
		struct err *e)
{
	return -EPROTO;
}

static void removed(void *arg, const char *path, unsigned depth)
{
	MUST(*path && depth <= FOREIGN_DEPTH_MOST);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fconn c = { .host = "h", .home = (char *)"/home/a b" };
	const struct engine_env env = { .foreign = &foreign_calls };
	struct server s = { .env = &env, .foreign = &c };
	const struct tree_removal r = { .removed = removed };
	char hex[2 * DIGEST_MAX + 1];
	const char *alg = NULL;
	struct facts_list list = { 0 };
	struct err e = ERR_INIT;
	struct ftp_facts f;
	uint64_t bytes;
	uint32_t ns;
	int64_t sec;

	next = (const char *)data;
	input_end = next + size;
	if (fconn_ask(&c, "FEAT", NULL, NULL, NULL, &e) >= 0)
		fconn_learn(&c, &e);
	if (!fconn_size(&c, "a b", &bytes, &e))
		MUST(bytes <= INT64_MAX);
	fconn_mtime(&c, "/x", &sec, &ns, &e);
	fconn_set_mtime(&c, "x", 0, &e);
	fconn_set_mode(&c, "x", 0644, &e);
	if (!fconn_digest(&c, "x", &alg, hex, &e))
		MUST(alg && strlen(hex) >= 32 && strspn(hex, "0123456789abcdef") == strlen(hex));
	if (!fconn_stat(&c, "/file", &f, &e)) {
		MUST(f.name);
		ftp_facts_clear(&f);
	}
	fconn_list(&c, "/dir", &list, &e);
	for (size_t i = 0; i < list.n; i++) {
		const char *name = list.all[i].name;

		MUST(*name && strlen(printable(name)) < ERR_TEXT);
		MUST(!strchr(name, '/') && strcmp(name, "..") && strcmp(name, "."));
	}
	facts_clear(&list);
	server_remove_tree(&s, "/tree", &r, &e);
	ftp_reply_clear(&c.reply);
	return 0;
}
