// SPDX-License-Identifier: Apache-2.0
/* Which facts a listing gives: FEAT's and OPTS's words for them (RFC 3659 §7.8, §7.9). */
#include "control/session.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
	unsigned bit;
	const char *name;
} facts[] = {
	{ FACT_TYPE, "type" },
	{ FACT_SIZE, "size" },
	{ FACT_MODIFY, "modify" },
	{ FACT_MODE, "UNIX.mode" },
	{ FACT_UID, "UNIX.owner" },
	{ FACT_GID, "UNIX.group" },
};

enum { NFACTS = sizeof(facts) / sizeof(facts[0]) };

void facts_text(char out[128], unsigned on, bool all)
{
	size_t n = 0;

	out[0] = '\0';
	for (size_t i = 0; i < NFACTS; i++)
		if (all || (on & facts[i].bit))
			n += (size_t)snprintf(out + n, 128 - n, "%s%s;", facts[i].name,
					      all && (on & facts[i].bit) ? "*" : "");
}

unsigned facts_parse(const char *list)
{
	unsigned on = 0;

	while (*list) {
		size_t len = strcspn(list, ";");

		for (size_t i = 0; i < NFACTS; i++)
			if (strlen(facts[i].name) == len && !strncasecmp(facts[i].name, list, len))
				on |= facts[i].bit;
		list += len + (list[len] == ';');
	}
	return on;
}
