// SPDX-License-Identifier: Apache-2.0
/* Input: lines. Each is parsed as a command, a listing (plain and encoded), a time and a reply to
 * EPSV; all together are parsed as a sequence of replies. */
#include "proto/proto.h"

#include "tests/support/fuzz.h"

#include <string.h>

static void take_command(const char *line)
{
	const struct ftp_command *cmd;
	char *copy = strdup(line), *arg;
	int r = ftp_command_parse(copy, &cmd, &arg);

	MUST(r || cmd);
	MUST(r || cmd->arg != FTP_ARG_REQUIRED || (arg && *arg));
	MUST(r || cmd->arg != FTP_ARG_NONE || !arg);
	free(copy);
}

/* A parsed listing can be written again, as one line. */
static void take_facts(const char *line, bool encoded)
{
	struct buf *b = buf_new(1 << 20);
	struct ftp_facts f, g;
	char *again;

	if (!ftp_facts_parse(line, encoded, &f)) {
		MUST(f.name && *f.name);
		if (!ftp_facts_format(b, &f, encoded)) {
			again = strndup((const char *)buf_ptr(b), buf_len(b));
			MUST(!strpbrk(again, "\r\n"));
			MUST(!ftp_facts_parse(again, encoded, &g));
			MUST(!strcmp(f.name, g.name) && f.type == g.type);
			MUST(f.has_size == g.has_size && f.size == g.size);
			ftp_facts_clear(&g);
			free(again);
		}
		ftp_facts_clear(&f);
	}
	buf_free(b);
}

static void take_time(const char *line)
{
	char out[32];
	int64_t sec;
	uint32_t ns;

	if (ftp_time_parse(line, &sec, &ns))
		return;
	ftp_time_format(out, sec, ns);
	MUST(strlen(out) >= 14);
}

static void take_line(const char *line, struct ftp_reply *r)
{
	take_command(line);
	take_facts(line, false);
	take_facts(line, true);
	take_time(line);
	if (ftp_reply_line(r, line) < 0)
		ftp_reply_clear(r);
	MUST(!r->done || (r->text && r->code >= 100 && r->code <= 599));
	MUST(!r->text || strlen(r->text) == r->len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = strndup((const char *)data, size);
	struct buf *b = buf_new(1 << 20);
	struct ftp_reply r = { 0 };
	char *save = text;

	ftp_reply_format(b, 200, text);
	for (char *line; (line = strsep(&save, "\n"));)
		take_line(line, &r);
	ftp_reply_clear(&r);
	buf_free(b);
	free(text);
	return 0;
}
