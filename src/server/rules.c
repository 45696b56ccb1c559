// SPDX-License-Identifier: Apache-2.0
/* What the settings say of an account, and of an address. Pure. */
#include "server/options.h"

#include <string.h>

static const struct srv_rules *rules_of(const struct srv_rules *r, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(r[i].name, name))
			return &r[i];
	return NULL;
}

/* The first of the file's, whatever the order of the account's groups. */
static const struct srv_rules *rules_of_groups(const struct srv_options *o,
					       const char *const *groups, size_t n)
{
	for (size_t i = 0; i < o->ngroup_rules; i++)
		for (size_t k = 0; k < n; k++)
			if (!strcmp(o->group_rules[i].name, groups[k]))
				return &o->group_rules[i];
	return NULL;
}

static void fill(struct srv_rules *out, const struct srv_rules *from)
{
	if (!from)
		return;
	out->root = out->root ? out->root : from->root;
	out->home = out->home ? out->home : from->home;
	out->system_user = out->system_user ? out->system_user : from->system_user;
	out->rights = out->rights ? out->rights : from->rights;
	out->umask = out->umask ? out->umask : from->umask;
}

void srv_account_rules(const struct srv_options *o, const char *name, const char *const *groups,
		       size_t ngroups, struct srv_rules *out)
{
	*out = (struct srv_rules){ 0 };
	fill(out, rules_of(o->user_rules, o->nuser_rules, name));
	fill(out, rules_of_groups(o, groups, ngroups));
}

bool srv_admits(const struct srv_options *o, const struct sockaddr_storage *peer)
{
	return networks_admit(&o->allow, &o->refuse, peer);
}
