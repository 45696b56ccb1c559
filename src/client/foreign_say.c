// SPDX-License-Identifier: Apache-2.0
/* What cannot be had from a foreign server, said before it is asked for. */
#include "client/foreign.h"

#include <errno.h>
#include <string.h>

static const char blocks[] = "there are no blocks and no bulk mode there";
static const char rdma[] = "there is no RDMA there";
static const char local[] = "files are read and written by each connection's thread";

/* only: the value that asks for it; NULL: any, but "auto" of those options that have that value. */
static const struct refusal {
	const char *option, *only, *why;
	bool put, get;
} refusals[] = {
	{ "transport", "rdma", rdma, true, true },
	{ "op", NULL, rdma, true, true },
	{ "poll", NULL, rdma, true, true },
	{ "nic", NULL, "data goes by the way that the control connection goes", true, true },
	{ "block", NULL, blocks, true, true },
	{ "inflight", NULL, blocks, true, true },
	{ "memory", NULL, blocks, true, true },
	{ "hugepages", NULL, blocks, true, true },
	{ "tos", NULL, "it is for bulk data", true, true },
	{ "congestion", NULL, "it is for bulk data", true, true },
	{ "numa", NULL, blocks, true, true },
	{ "numa-balance", NULL, blocks, true, true },
	{ "numa-interval", NULL, blocks, true, true },
	{ "nic-node", NULL, blocks, true, true },
	{ "pin", NULL, blocks, true, true },
	{ "io", NULL, local, true, true },
	{ "direct", NULL, local, true, true },
	{ "readers", NULL, local, true, true },
	{ "writers", NULL, local, true, true },
	{ "sort", NULL, local, true, true },
	{ "prot", "safe", "there is TLS for data (--prot private) or nothing (--prot clear)", true,
	  true },
	{ "ack", "verified", "nothing is read back there", true, true },
	{ "ack", "synced", "the server does not tell when a file is on stable storage", true,
	  false },
	{ "owner", NULL, "FTP does not carry owners", true, true },
	{ "xattrs", NULL, "FTP does not carry extended attributes", true, true },
};

static bool asks_for(const struct refusal *r, const struct setting *s)
{
	const char *value = s->value ? s->value : "";

	if (strcmp(r->option, s->def->name))
		return false;
	if (r->only)
		return !strcmp(value, r->only);
	/* "--owner=no" asks for nothing. */
	if (s->def->type == OPT_FLAG) {
		bool on = true;

		return !s->value || parse_bool(value, &on) || on;
	}
	return strcmp(value, "auto") != 0 || (s->def->type == OPT_STRING && strcmp(r->option, "numa"));
}

static const struct refusal *refusal_of(const struct setting *s, bool put)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if ((put ? refusals[i].put : refusals[i].get) && asks_for(&refusals[i], s))
			return &refusals[i];
	return NULL;
}

static bool is_said(const struct args *a, const char *name)
{
	for (int i = 0; i < a->nsettings; i++)
		if (!strcmp(a->settings[i].def->name, name))
			return true;
	return false;
}

/* What a file of defaults says is for servers that have it; what was said for this command is not
 * passed over. The last one of an option counts. */
int foreign_check(const struct job *j, bool put, struct err *e)
{
	const struct args *a = j->args;

	for (int i = a->nsettings - 1; i >= 0; i--) {
		const struct setting *s = &a->settings[i];
		const struct refusal *r = refusal_of(s, put);
		bool later = false;

		for (int k = i + 1; k < a->nsettings; k++)
			later |= a->settings[k].def == s->def;
		if (r && !later)
			return err_set(e, -EINVAL, "--%s%s%s cannot be had from an FTP server that "
				       "is not rftpd: %s", s->def->name, s->value ? " " : "",
				       s->value ? printable(s->value) : "", r->why);
	}
	if (is_said(a, "channels") && j->o.channels > FOREIGN_CONNECTIONS_MOST)
		return err_set(e, -EINVAL, "--channels %u: at most %u control connections go to "
			       "one FTP server", (unsigned)j->o.channels, FOREIGN_CONNECTIONS_MOST);
	return 0;
}

void foreign_note(const struct server *s)
{
	static bool said;

	if (said || !place_is_foreign(&s->place))
		return;
	said = true;
	log_warn("%s is talked to by FTP: RDMA and the integrity of blocks are not available there",
		 printable(s->place.host));
}
