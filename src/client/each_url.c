// SPDX-License-Identifier: Apache-2.0
/* Commands that do the same thing to each of their URLs. */
#include "client/server.h"

#include "client/signals.h"

#include <stdio.h>

/* The server of p, connected: the one at hand, or another in its place. */
static enum exit_status reach(struct job *j, struct server **s, const struct place *p,
			      struct err *e)
{
	if (*s && server_is(*s, p) && (*s)->client)
		return EXIT_DONE;
	server_give(j, *s);
	*s = server_take(j, p, e);
	if (!*s)
		return EXIT_USAGE;
	return exit_of(server_connect(*s, e), false);
}

static enum exit_status one_url(struct job *j, struct server **s, const char *word,
				int (*fn)(struct job *j, struct server *s,
					  const struct place *p, struct err *e))
{
	struct err e = ERR_INIT;
	struct place p;
	enum exit_status status;
	int rc;

	if (place_of_server(word, &p, &e))
		return usage_error(j, "%s", e.text);
	status = reach(j, s, &p, &e);
	if (status != EXIT_DONE) {
		log_error("%s", e.text);
	} else {
		rc = fn(j, *s, &p, &e);
		status = rc ? failed(&e, false) : EXIT_DONE;
		/* After a lost connection the next word gets a new one. */
		if (status == EXIT_CONNECT)
			server_close(*s);
	}
	place_clear(&p);
	return status;
}

enum exit_status each_url(struct job *j, int (*fn)(struct job *j, struct server *s,
						   const struct place *p, struct err *e))
{
	enum exit_status status = EXIT_DONE;
	struct server *s = NULL;

	/* Who stops one means those behind it, too. */
	for (int i = 0; i < j->nwords && !signals_stopped(); i++) {
		j->name = j->typed ? j->typed[i] : NULL;
		status = exit_worse(status, one_url(j, &s, j->words[i], fn));
	}
	server_give(j, s);
	return status;
}

void each_done(const struct job *j, const char *event, const struct place *p)
{
	json_t *obj;

	if (!j->o.json)
		return;
	obj = json_pack("{s:s}", "event", event);
	json_set_name(obj, "path", server_path(p));
	json_emit(stdout, obj);
}
