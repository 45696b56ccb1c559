// SPDX-License-Identifier: Apache-2.0
/* Files with a secret in their first line, which nobody but root reads. */
#include "iser_setup/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define NOTHING "NULL" /* by which LIO is told to forget one */

static void wipe(char *text)
{
	if (text)
		explicit_bzero(text, strlen(text));
	free(text);
}

void iser_secrets_clear(struct iser_secrets *s)
{
	for (size_t i = 0; i < s->n; i++) {
		free(s->v[i].iqn);
		free(s->v[i].initiator);
		wipe(s->v[i].secret);
		wipe(s->v[i].mutual);
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

/* NULL, or what is wrong with who may read it. */
static const char *exposed(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return "cannot be looked at";
	if (!S_ISREG(st.st_mode))
		return "is no file";
	if (st.st_uid && st.st_uid != geteuid())
		return "belongs to somebody else; chown root it, and draw a new secret";
	if (st.st_mode & (S_IRWXG | S_IRWXO))
		return "may be read by others; chmod 600 it, and draw a new secret";
	return NULL;
}

/* NULL, or what is wrong with it. */
static const char *unfit(const char *secret)
{
	size_t n = strlen(secret);

	for (const char *p = secret; *p; p++)
		if (*p <= ' ' || *p > '~')
			return "its first line has more in it than visible ASCII characters";
	if (n < ISER_SECRET_LEAST)
		return "its first line, the secret, is shorter than 12 characters";
	if (n > ISER_SECRET_MOST)
		return "its first line, the secret, is longer than 255 characters";
	return strncmp(secret, NOTHING, strlen(NOTHING)) ? NULL :
		"a secret that begins with NULL is none for LIO";
}

/* Its first line into *out; "" with a line in problems when it is not fit. */
static int read_secret(const char *file, char **out, struct lines *problems)
{
	char text[ISER_SECRET_MOST + 3]; /* one too many would be seen, and a newline, and a NUL */
	CLEANUP_CLOSE int fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	const char *wrong = fd < 0 ? strerror(errno) : exposed(fd);
	ssize_t n = wrong ? 0 : read_full(fd, text, sizeof(text) - 1);

	if (n < 0)
		wrong = strerror((int)-n);
	text[n > 0 ? n : 0] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!wrong)
		wrong = unfit(text);
	if (wrong)
		lines_add(problems, "%s, a CHAP secret: %s", printable(file), wrong);
	free(*out);
	*out = strdup(wrong ? "" : text);
	explicit_bzero(text, sizeof(text));
	return *out ? 0 : -ENOMEM;
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
