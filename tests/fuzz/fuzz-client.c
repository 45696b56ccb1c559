// SPDX-License-Identifier: Apache-2.0
/* Input: all replies of a server to a client that logs in, asks for a file's facts, lists a
 * directory and removes a file, without TLS. Messages must be printable, and the client must end. */
#include "control/client/client.h"

#include "tests/support/fuzz.h"
#include "tests/support/memory-stream.h"

static char *password(void *arg, const char *user, const char *host, int attempt)
{
	return attempt < 2 ? strdup("secret") : NULL;
}

static void talk(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	struct facts_list l = { 0 };
	struct ftp_facts f;
	char *text;

	/* Not client_greeting(), which checks a socket first. */
	if (client_final_reply(c, c->timeout_ms, e) != 220 || client_login(c, cfg, e))
		return;
	if (!ftp_stat(c, "/file", &f, e)) {
		MUST(f.name);
		ftp_facts_clear(&f);
	}
	if (!c->lost && ftp_list(c, "/a b\n", &l, e) < 0)
		MUST(e->text[0]);
	for (size_t i = 0; i < l.n; i++)
		MUST(l.all[i].name[0] && l.all[i].type != 'c' && l.all[i].type != 'p');
	facts_clear(&l);
	if (!c->lost && ftp_simple(c, FTP_DELE, "/x", &text, e) >= 0)
		free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct url place = { .kind = URL_RFTP, .user = (char *)"joe",
			     .host = (char *)"h" };
	struct ftp_client_config cfg = { .url = &place, .plain = true, .plain_password = true,
					 .password = password };
	struct ftp_client *c = calloc(1, sizeof(*c));
	struct err e = ERR_INIT;

	MUST(c);
	c->fd = -1;
	c->host = place.host;
	c->port = 21;
	c->timeout_ms = 1000;
	c->ms = ms_new(memory_stream(data, size, SIZE_MAX));
	talk(c, &cfg, &e);
	ms_free(c->ms);
	ftp_reply_clear(&c->reply);
	free(c->pin);
	free(c);
	return 0;
}
