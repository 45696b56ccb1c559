// SPDX-License-Identifier: Apache-2.0
/* Input: all that a server says to a client that logs in, asks for a file's facts, lists a
 * directory and removes something, in clear: once to one that takes it for rftpd, once to one that
 * came by ftp://. What a name says later is what the terminal
 * can show, and the client comes to an end. */
#include "control/client.h"

#include "tests/support/fuzz.h"
#include "tests/support/memory-stream.h"

static char *password(void *arg, const char *user, const char *host, int attempt)
{
	return attempt < 2 ? strdup("secret") : NULL;
}

static int on_facts(void *arg, const struct ftp_facts *f)
{
	MUST(f->name && f->name[0] && f->type != 'c' && f->type != 'p');
	return 0;
}

static void ask_foreign(struct ftp_client *c, struct err *e)
{
	char hex[2 * DIGEST_MAX + 1];
	const char *alg = NULL;
	uint64_t size;
	int64_t sec;
	uint32_t ns;

	MUST(c->home[0] == '/');
	if (!c->lost && !ftp_size(c, "a b", &size, e))
		MUST(size <= INT64_MAX);
	if (!c->lost)
		ftp_mtime(c, "/x", &sec, &ns, e);
	if (!c->lost)
		ftp_set_mtime(c, "x", 0, e);
	if (!c->lost)
		ftp_set_mode(c, "x", 0644, e);
	if (!c->lost && !ftp_digest(c, "x", &alg, 10, hex, e))
		MUST(alg && strlen(hex) >= 32 && strspn(hex, "0123456789abcdef") == strlen(hex));
}

static void talk(struct ftp_client *c, const struct ftp_client_config *cfg, struct err *e)
{
	struct ftp_facts f;
	char *text;

	/* client_greeting() looks at a socket first. */
	if (client_final_reply(c, c->timeout_ms, e) != 220 || client_login(c, cfg, e))
		return;
	if (c->foreign && client_learn(c, cfg, e))
		return;
	if (c->foreign)
		ask_foreign(c, e);
	if (!ftp_stat(c, "/file", &f, e)) {
		MUST(f.name);
		ftp_facts_clear(&f);
	}
	if (!c->lost && ftp_list(c, "/a b\n", on_facts, NULL, e) < 0)
		MUST(e->text[0]);
	if (!c->lost && ftp_simple(c, FTP_DELE, "/x", &text, e) >= 0)
		free(text);
}

static void once(const uint8_t *data, size_t size, bool foreign)
{
	struct place place = { .kind = foreign ? PLACE_FTP : PLACE_RFTP, .user = (char *)"joe",
			       .host = (char *)"h" };
	struct ftp_client_config cfg = { .place = &place, .plain = true, .plain_password = true,
					 .password = password };
	struct ftp_client *c = calloc(1, sizeof(*c));
	struct err e = ERR_INIT;

	MUST(c);
	c->fd = -1;
	c->host = place.host;
	c->port = 21;
	c->foreign = foreign;
	c->timeout_ms = 1000;
	pthread_mutex_init(&c->lock, NULL);
	c->ms = ms_new(memory_stream(data, size, SIZE_MAX));
	talk(c, &cfg, &e);
	ms_free(c->ms);
	ftp_reply_clear(&c->reply);
	free(c->pin);
	free(c->home);
	free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	once(data, size, false);
	once(data, size, true);
	return 0;
}
