// SPDX-License-Identifier: Apache-2.0
/* Names that nobody gave, out of those that there are. */
#include "iser_setup/planner_names.h"

#include "iser_setup/names.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text as it may be in an iSCSI name. */
static void to_iqn(char *s)
{
	for (; *s; s++)
		*s = *s == '_' ? '-' : (char)tolower((unsigned char)*s);
}

char *planner_name(const struct spec *s, const struct planner_host *h)
{
	if (s->name)
		return strdup(s->name);
	return strndup(h->name, strcspn(h->name, "."));
}

char *planner_secret(const struct spec *s, const char *plan, const char *initiator, bool mutual)
{
	char *path;

	/* A front end has the secrets of several storage hosts in one directory. */
	return asprintf(&path, "%s/%s.%s.%s", s->secrets ? s->secrets : PLANNER_SECRETS, plan,
			initiator, mutual ? "mutual" : "chap") < 0 ? NULL : path;
}

/* "store1.example.org" into "org.example.store1"; malloc'd. */
static char *reversed(const char *domain)
{
	const size_t n = strlen(domain);
	char *out = malloc(n + 1), *at = out;
	size_t end = n;

	if (!out)
		return NULL;
	for (size_t i = n; i-- > 0;)
		if (domain[i] == '.') {
			at = mempcpy(at, domain + i + 1, end - i - 1);
			*at++ = '.';
			end = i;
		}
	at = mempcpy(at, domain, end);
	*at = '\0';
	return out;
}

char *planner_iqn_prefix(const struct spec *s, const struct planner_host *h, struct err *e)
{
	const char *domain = s->domain ? s->domain : h->name;
	CLEANUP_FREE char *back = NULL;
	char *iqn = NULL;

	if (s->iqn)
		return strdup(s->iqn);
	if (!s->domain && !strchr(h->name, '.')) {
		err_set(e, -EINVAL, "what are the targets to be called? This host, %s, has no "
			"domain: say one with --domain example.org", printable(h->name));
		return NULL;
	}
	back = reversed(domain);
	if (!back || asprintf(&iqn, "iqn.%s.%s", h->month, back) < 0)
		return NULL;
	to_iqn(iqn);
	if (!iser_iqn_wrong(iqn))
		return iqn;
	err_set(e, -EINVAL, "%s %s makes the name %s, which %s", s->domain ? "the domain" :
		"this host's name", printable(domain), printable(iqn), iser_iqn_wrong(iqn));
	free(iqn);
	return NULL;
}

char *planner_iqn(const char *prefix, const char *name, int node)
{
	char *iqn;

	if (asprintf(&iqn, "%s:%s-node%d", prefix, name, node) < 0)
		return NULL;
	to_iqn(iqn);
	return iqn;
}

/* ---- serials ---- */

#define UUID_VERSION_BITS 0xf000u /* of the third group: RFC 9562, version 8, as its maker likes */
#define UUID_VERSION 0x8000u
#define UUID_VARIANT_BITS 0xc000u /* of the fourth */
#define UUID_VARIANT 0x8000u

/* 64 bits of text; another seed, others. */
static uint64_t digest(const char *text, uint64_t seed)
{
	uint64_t h = seed;

	for (; *text; text++) {
		uint64_t state = h ^ (unsigned char)*text;

		h = random_next(&state);
	}
	return h;
}

char *planner_serial(const char *iqn, const char *store)
{
	CLEANUP_FREE char *text = NULL;
	uint64_t high, low;
	char *out;

	if (asprintf(&text, "%s %s", iqn, store) < 0) {
		text = NULL; /* asprintf leaves it undefined */
		return NULL;
	}
	high = digest(text, 1);
	low = digest(text, 2);
	return asprintf(&out, "%08x-%04x-%04x-%04x-%012llx", (unsigned)(high >> 32),
			(unsigned)(high >> 16) & 0xffff,
			((unsigned)high & 0xffff & ~UUID_VERSION_BITS) | UUID_VERSION,
			((unsigned)(low >> 48) & 0xffff & ~UUID_VARIANT_BITS) | UUID_VARIANT,
			(unsigned long long)low & 0xffffffffffffull) < 0 ? NULL : out;
}
