// SPDX-License-Identifier: Apache-2.0
/* Files with a secret in their first line, which nobody but root reads. */
#include "iser_setup/secrets.h"

#include "iser_setup/secret_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void iser_secrets_clear(struct iser_secrets *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].iqn);
		free(s->v[i].initiator);
		secret_free(s->v[i].secret);
		secret_free(s->v[i].mutual);
	}
	free(s->v);
	*s = (struct iser_secrets){ 0 };
}

const struct iser_secret *iser_secret(const struct iser_secrets *s, const char *iqn,
				      const char *initiator)
{
	for (size_t i = 0; s && i < s->n; i++)
		if (!strcmp(s->v[i].iqn, iqn) && !strcmp(s->v[i].initiator, initiator))
			return &s->v[i];
	return NULL;
}

/* Its first line into *out; "" with a line in problems when it is not fit. */
static int read_secret(const char *file, char **out, struct lines *problems)
{
	struct err e = ERR_INIT;
	char *secret = secret_read(file, SECRET_OURS, &e);

	if (!secret && e.code == -ENOMEM)
		return -ENOMEM;
	if (!secret) {
		lines_add(problems, "%s", e.text);
		return 0;
	}
	free(*out);
	*out = secret;
	return 0;
}

static int read_both(const struct iser_initiator *i, struct iser_secret *s,
		     struct lines *problems)
{
	int r = 0;

	if (i->chap.user)
		r = read_secret(i->chap.secret_file, &s->secret, problems);
	if (!r && i->mutual.user)
		r = read_secret(i->mutual.secret_file, &s->mutual, problems);
	/* Or a stranger could have the target's own answer from it (RFC 7143 §9.2.1). */
	if (!r && *s->secret && !strcmp(s->secret, s->mutual))
		lines_add(problems, "%s and %s: both sides would prove themselves by the same "
			  "secret; draw another", printable(i->chap.secret_file),
			  printable(i->mutual.secret_file));
	return r;
}

int iser_secrets_read(const struct iser_plan *p, struct iser_secrets *s, struct lines *problems)
{
	*s = (struct iser_secrets){ 0 };
	for (size_t i = 0; i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_initiators; k++) {
			const struct iser_initiator *one = &p->targets[i].initiators[k];
			struct iser_secret *slot = iser_plan_add(s->v, s->n);

			if (!slot)
				return -ENOMEM;
			slot->iqn = strdup(p->targets[i].iqn);
			slot->initiator = strdup(one->name);
			slot->secret = strdup("");
			slot->mutual = strdup("");
			if (!slot->iqn || !slot->initiator || !slot->secret || !slot->mutual)
				return -ENOMEM;
			if (read_both(one, slot, problems))
				return -ENOMEM;
		}
	return 0;
}
