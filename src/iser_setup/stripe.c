// SPDX-License-Identifier: Apache-2.0
/* What disks say of the stripe they are in, and what is on them. Decisions, but for the programs
 * that are asked. */
#include "iser_setup/stripe.h"

#include "iser_setup/run.h"
#include "iser_setup/sessions.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#define NUMBER_ROOM 24

const char *const stripe_kinds[STRIPE_KINDS] = { "none", "md", "lvm" };

/* ---- what members say ---- */

/* The value of "KEY=value" in text, cut to room. */
static void value_of(const char *text, const char *key, char *out, size_t room)
{
	size_t n = strlen(key);

	*out = '\0';
	while (text && *text) {
		if (!strncmp(text, key, n) && text[n] == '=') {
			text += n + 1;
			snprintf(out, room, "%.*s", (int)strcspn(text, "\r\n"), text);
			return;
		}
		text = strchr(text, '\n');
		text = text ? text + 1 : NULL;
	}
}

/* It comes from a disk that anybody may have written, and becomes a name below /dev/md. */
static void keep_word(char *name)
{
	static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				   "0123456789._+-";

	if (name[strspn(name, good)] || !*name || *name == '-' || *name == '.')
		snprintf(name, STRIPE_NAME_ROOM, "rftp-found");
}

void stripe_md_member(const char *exported, struct stripe_member *m)
{
	char level[16], devices[NUMBER_ROOM], name[STRIPE_NAME_ROOM * 2];
	const char *colon;
	uint64_t of;

	*m = (struct stripe_member){ 0 };
	value_of(exported, "MD_UUID", m->id, sizeof(m->id));
	if (!*m->id)
		return;
	m->kind = STRIPE_MD;
	value_of(exported, "MD_LEVEL", level, sizeof(level));
	value_of(exported, "MD_DEVICES", devices, sizeof(devices));
	value_of(exported, "MD_NAME", name, sizeof(name));
	m->striped = !strcmp(level, "raid0");
	m->of = parse_uint(devices, 1, UINT32_MAX, &of) ? 0 : (unsigned)of;
	/* "HOST:NAME", where a host's is put before it. */
	colon = strchr(name, ':');
	snprintf(m->name, sizeof(m->name), "%.*s", STRIPE_NAME_ROOM - 1, colon ? colon + 1 : name);
	keep_word(m->name);
}

/* "  rftp-iser|UUID|2": of pvs. A disk that is in no group yet has no name of one. */
void stripe_lvm_member(const char *line, struct stripe_member *m)
{
	const char *bar, *last;
	uint64_t of;
	char count[NUMBER_ROOM];

	*m = (struct stripe_member){ 0 };
	line += strspn(line, " \t");
	bar = strchr(line, '|');
	last = bar ? strchr(bar + 1, '|') : NULL;
	if (!last || bar == line)
		return;
	m->kind = STRIPE_LVM;
	snprintf(m->name, sizeof(m->name), "%.*s", (int)(bar - line), line);
	snprintf(m->id, sizeof(m->id), "%.*s", (int)(last - bar - 1), bar + 1);
	snprintf(count, sizeof(count), "%.*s", (int)strcspn(last + 1, " \t\r\n"), last + 1);
	m->of = parse_uint(count, 0, UINT32_MAX, &of) ? 0 : (unsigned)of;
	m->striped = true;
}

int stripe_whole(enum stripe_kind kind, const struct stripe_member *m, unsigned n, struct err *e)
{
	unsigned in = 0;

	for (unsigned i = 0; i < n; i++)
		in += m[i].kind == kind;
	if (!in)
		return 0;
	for (unsigned i = 0; i < n; i++)
		if (m[i].kind != kind || strcmp(m[i].id, m[0].id))
			return err_set(e, -EEXIST, "%u of the %u disks belong to %s stripes "
				       "already, and not all to the same: log in to the targets of "
				       "one", in, n, stripe_kinds[kind]);
	if (m[0].of != n)
		return err_set(e, -EEXIST, "the %u disks belong to a stripe of %u, %s: log in to "
			       "all of its targets", n, m[0].of, printable(m[0].name));
	if (!m[0].striped)
		return err_set(e, -EEXIST, "the disks belong to an array that is no RAID 0, %s",
			       printable(m[0].name));
	return 1;
}

const char *stripe_name(const char *plan, char out[STRIPE_NAME_ROOM])
{
	snprintf(out, STRIPE_NAME_ROOM, "rftp-%.64s", plan ? plan : "iser");
	return out;
}

/* ---- ids ---- */

int stripe_draw(enum stripe_kind kind, char id[STRIPE_ID_ROOM], struct err *e)
{
	/* Divided as each writes them; the rest of LVM's tells volumes apart. */
	static const char *const forms[STRIPE_KINDS] = {
		[STRIPE_MD] = "xxxxxxxx:xxxxxxxx:xxxxxxxx:xxxxxxxx",
		[STRIPE_LVM] = "xxxxxx-xxxx-xxxx-xxxx-xxxx-xxxx",
	};
	static const char digits[] = "0123456789abcdef";
	unsigned char drawn[STRIPE_ID_ROOM];
	const char *form = forms[kind];

	if (getrandom(drawn, sizeof(drawn), 0) != (ssize_t)sizeof(drawn))
		return err_sys(e, -errno, "random numbers");
	for (; *form; form++, id++)
		*id = *form == 'x' ? digits[drawn[strlen(form)] & 15] : *form;
	*id = '\0';
	return 0;
}

const char *stripe_volume_id(const char *id, unsigned nth, char out[STRIPE_ID_ROOM])
{
	snprintf(out, STRIPE_ID_ROOM, "%.48s-%06u", id, nth % 1000000);
	return out;
}

/* ---- what is on a device ---- */

void stripe_signatures(const char *printed, char *out, size_t room)
{
	*out = '\0';
	while (*printed) {
		size_t n;

		printed += strspn(printed, " \t\r\n");
		n = strcspn(printed, " \t\r\n");
		if (n && strlen(out) + n + 3 < room) {
			if (*out)
				strcat(out, ", ");
			strncat(out, printed, n);
		} else if (n && !*out) {
			snprintf(out, room, "?"); /* something it is all the same */
		}
		printed += n;
	}
}

int stripe_look(const char *device, const struct stop *stop, char *out, size_t room,
		struct err *e)
{
	CLEANUP_FREE char *printed = NULL;
	int r = run_program(stop, &printed, e, "wipefs", "--no-act", "--noheadings", "--output",
			    "TYPE", device, NULL);

	if (r)
		return err_prefix(e, "what is on %s cannot be told", device);
	stripe_signatures(printed, out, room);
	return 0;
}

uint64_t stripe_chunk(const char *kernel)
{
	char text[NUMBER_ROOM];
	uint64_t bytes;

	/* md tells its own; device-mapper the stripe's, and nothing where it is not striped. */
	sysfs_text(NULL, text, sizeof(text), "class/block/%s/md/chunk_size", kernel);
	if (!*text)
		sysfs_text(NULL, text, sizeof(text), "class/block/%s/queue/minimum_io_size",
			   kernel);
	return parse_uint(text, 0, UINT32_MAX, &bytes) ? 0 : bytes;
}

int stripe_mkfs(const char *device, uint64_t chunk, unsigned n, bool over,
		const struct stop *stop, struct err *e)
{
	const char *words[8] = { "mkfs.xfs", "-q" };
	char geometry[64];
	unsigned at = 2;
	int r;

	snprintf(geometry, sizeof(geometry), "su=%llu,sw=%u", (unsigned long long)chunk, n);
	if (over)
		words[at++] = "-f";
	if (n > 1 && chunk) {
		words[at++] = "-d";
		words[at++] = geometry;
	}
	words[at++] = device;
	r = run_words(stop, NULL, e, words);
	return r ? err_prefix(e, "XFS on %s", device) : 0;
}
