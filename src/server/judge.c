// SPDX-License-Identifier: Apache-2.0
/* Has a stranger's certificate read by a child without rights, which it believes no more than
 * that. */
#include "server/judge.h"
#include "server/apart.h"
#include "server/pages.h"
#include "server/stranger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct plea {
	const struct server *sv;
	const struct gate_proof *proof;
	struct judged *found; /* of both processes */
};

/* ---- in the child ---- */

static void write_down(const struct tls_proven *shown, struct judged *j)
{
	if (shown->pin && strlen(shown->pin) < sizeof(j->pin))
		strcpy(j->pin, shown->pin);
	if (shown->subject && strlen(shown->subject) < sizeof(j->subject))
		strcpy(j->subject, shown->subject);
}

/* No byte of what the stranger sent is looked at before there are no rights left. */
static int judge(void *arg, struct err *e)
{
	struct tls_proven shown = { .pin = NULL };
	const struct plea *p = arg;
	struct state state;
	int rc = state_open_judge(&state, p->sv->sealed, e);

	close(p->sv->sealed);
	if (rc == 0)
		rc = stranger_become(p->sv, e);
	if (rc == 0)
		rc = tls_proof_check(state.tls, p->proof->bytes, p->proof->len, state.pin, &shown,
				     e);
	write_down(&shown, p->found);
	tls_proven_clear(&shown);
	return rc;
}

/* ---- in the parent ---- */

/* As tls_peer_subject has it: of ASCII, for the rest is escaped. */
static bool is_text(const char *s)
{
	while (*s >= ' ' && *s <= '~')
		s++;
	return !*s;
}

static int take(const char *from, size_t room, char **to)
{
	*to = strndup(from, room);
	if (!*to)
		return -ENOMEM;
	if (strlen(*to) == room || !is_text(*to))
		return -EPROTO;
	if (!**to)
		free(steal_ptr(to));
	return 0;
}

static bool is_known_form(const struct tls_proven *shown)
{
	return shown->pin ? tls_is_pin(shown->pin) : !shown->subject;
}

int judged_read(const struct judged *j, struct tls_proven *shown)
{
	int rc = take(j->pin, sizeof(j->pin), &shown->pin);

	if (rc == 0)
		rc = take(j->subject, sizeof(j->subject), &shown->subject);
	if (rc == 0 && !is_known_form(shown))
		rc = -EPROTO;
	if (rc < 0)
		tls_proven_clear(shown);
	return rc;
}

/* rc: what the child says became of it. Whose certificate it was counts then, too: for the log. */
static int hear(const struct judged *j, int rc, const char *why, struct tls_proven *shown,
		struct err *e)
{
	int read = judged_read(j, shown);

	if (rc < 0)
		return err_set(e, rc, "%s", printable(why));
	if (read == 0 && !shown->pin)
		read = -EPROTO;
	return read < 0 ? err_sys(e, read, "what was found out of a certificate") : 0;
}

int judge_proof(const struct server *sv, const struct gate_proof *p, unsigned limit_s,
		struct tls_proven *shown, struct err *e)
{
	struct plea plea = { sv, p, pages_shared(sizeof(struct judged)) };
	struct err why = ERR_INIT;
	int rc;

	*shown = (struct tls_proven){ .pin = NULL };
	if (!plea.found)
		return err_sys(e, -ENOMEM, "certificate");
	rc = p->len > sizeof(p->bytes) ? err_set(&why, -EPROTO, "a proof without an end") :
	     apart_closed(judge, &plea, sv->sealed, limit_s, &why);
	rc = hear(plea.found, rc, why.text, shown, e);
	pages_free(plea.found, sizeof(*plea.found));
	return rc;
}
