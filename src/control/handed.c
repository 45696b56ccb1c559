// SPDX-License-Identifier: Apache-2.0
/* A session whose TLS may be in another process: what is asked of it there and here, and how
 * the session goes from the one that a stranger talks to to the one of who has logged in. */
#include "control/session.h"

#include <errno.h>
#include <string.h>

enum { HANDSHAKE_MS = 30 * 1000 };

bool session_has_tls(const struct ftp_session *s)
{
	return s->c->tls || s->c->guard;
}

bool session_under_tls(const struct ftp_session *s)
{
	return s->tls || (s->c->handed && s->c->handed->tls);
}

int ftp_session_key(struct ftp_session *s, uint8_t key[KEY_BYTES])
{
	if (s->whole)
		return ftp_session_key(s->whole, key);
	if (s->tls)
		return tls_export(s->tls, "EXPORTER-rftp-bulk-1", key, KEY_BYTES);
	if (!session_under_tls(s))
		return -ENOENT;
	memcpy(key, s->c->handed->key, KEY_BYTES);
	return 0;
}

bool ftp_session_secret(const struct ftp_session *s)
{
	return s->whole ? ftp_session_secret(s->whole) : session_under_tls(s) || s->c->trusted;
}

/* The session of the control connection is named so that no tickets are sent, which would lie
 * unread when an uploader closes. */
static struct stream *guard_here(struct ftp_session *s, int fd, struct err *e)
{
	struct tls *tls = tls_start(s->c->tls, fd, NULL, s->tls, HANDSHAKE_MS, e);
	struct stream *st = tls ? stream_tls(fd, tls) : NULL;

	if (!st && tls) {
		tls_free(tls);
		err_sys(e, -ENOMEM, "TLS");
	}
	return st;
}

int session_guard_data(struct ftp_session *s, int fd, struct err *e)
{
	s->data = s->tls ? guard_here(s, fd, e) : s->c->guard(s->c->arg, fd, e);
	return s->data ? 0 : e->code;
}

struct tls *ftp_session_tls(struct ftp_session *s)
{
	return s->tls;
}

/* ---- the session moves ---- */

static uint32_t hash_number(const char *name)
{
	const char *const *names = digest_names();
	uint32_t i = 0;

	while (strcmp(names[i], name))
		i++;
	return i;
}

static int hand_over(struct ftp_session *s)
{
	struct ftp_handed h = {
		.tls = s->tls != NULL,
		.percent = s->percent,
		.inline_list = s->inline_list,
		.ascii = s->ascii,
		.pbsz = s->pbsz,
		.prot_p = s->prot_p,
		.facts = s->facts,
		.hash = hash_number(s->hash),
	};
	int rc = s->tls ? ftp_session_key(s, h.key) : 0;

	s->quit = true;
	if (rc == 0)
		rc = s->c->handover(s->c->arg, s, &h, s->e);
	crypto_wipe(&h, sizeof(h));
	return rc;
}

int session_welcome(struct ftp_session *s, int code)
{
	int rc = session_login_done(s);

	if (rc == 0)
		rc = ftp_session_reply(s, code, "Welcome, %s", s->account.name);
	return rc < 0 || !s->c->handover ? rc : hand_over(s);
}

void session_take_over(struct ftp_session *s)
{
	const struct ftp_handed *h = s->c->handed;

	s->percent = h->percent;
	s->inline_list = h->inline_list;
	s->ascii = h->ascii;
	s->pbsz = h->pbsz;
	s->prot_p = h->prot_p;
	s->facts = h->facts;
	s->hash = digest_names()[h->hash];
}

int ftp_handed_check(const struct ftp_handed *h)
{
	const char *const *names = digest_names();

	if (h->facts & ~(uint32_t)FACTS_ALL)
		return -EPROTO;
	if ((h->tls | h->percent | h->inline_list | h->ascii | h->pbsz | h->prot_p) > 1)
		return -EPROTO;
	/* Without TLS there is nothing that data could be protected by. */
	if (h->prot_p && !(h->tls && h->pbsz))
		return -EPROTO;
	for (uint32_t i = 0; names[i]; i++)
		if (i == h->hash)
			return 0;
	return -EPROTO;
}
