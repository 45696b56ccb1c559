// SPDX-License-Identifier: Apache-2.0
/* What login tells: a block of lines for each disk, or one JSON object. */
#include "iser_setup/attach.h"

#include <stdio.h>
#include <string.h>

static bool is_new(const struct attach *a, const struct attach_disk *d)
{
	return a->new[d->target - a->list.v];
}

static const char *nodes_text(const struct attach_disk *d, char text[IDS_MAX])
{
	return ids_count(&d->nodes) ? ids_format(text, IDS_MAX, &d->nodes) : "not known";
}

/* ---- for people ---- */

/* A disk that a program should use from where its card is. */
static void say_hint(const char *device, const struct ids *nodes)
{
	int node = ids_only(nodes);

	printf("    %-9s", "mount");
	if (node >= 0)
		printf("numactl --cpunodebind=%d ", node);
	printf("mount -o noatime %s DIR  (in fstab with _netdev,nofail)\n", device);
}

static void say_disk(const struct attach *a, const struct attach_disk *d)
{
	char size[32], portal[ISCSI_PORTAL_ROOM], nodes[IDS_MAX];

	printf("%s\n", d->path);
	printf("    %-9s%s, LUN %u%s%s\n", "disk", format_size(size, sizeof(size), d->size), d->lun,
	       strcmp(d->path + strlen("/dev/"), d->kernel) ? ", " : "",
	       strcmp(d->path + strlen("/dev/"), d->kernel) ? d->kernel : "");
	printf("    %-9s%s\n", "target", printable(d->target->iqn));
	printf("    %-9s%s by %s%s\n", "portal", login_portal_text(portal, &d->target->portal),
	       d->transport, is_new(a, d) ? "" : ", logged in before");
	printf("    %-9s%s, node %s\n", "card", *d->netdev ? printable(d->netdev) : "not known",
	       nodes_text(d, nodes));
	if (!a->stripe.kind)
		say_hint(d->path, &d->nodes);
}

static void say_tuned(const struct tune_step *s)
{
	const char *name = strrchr(s->file, '/') + 1;

	if (s->failed)
		log_warn("%s: %s stays %s: %s (wanted %s)", s->device, name, s->before,
			 strerror(-s->failed), s->want);
	else if (strcmp(s->before, s->after))
		printf("tuned %s: %s %s -> %s\n", s->device, name, s->before, s->after);
	else
		printf("tuned %s: %s is %s\n", s->device, name, s->after);
}

void attach_show(const struct attach *a)
{
	struct ids nodes = { 0 };

	for (size_t i = 0; i < a->n_disks; i++) {
		say_disk(a, &a->disks[i]);
		ids_unite(&nodes, &a->disks[i].nodes);
	}
	if (a->stripe.kind) {
		printf("%s\n    %-9s%s over %zu disks, %s%s\n", a->device, "stripe",
		       stripe_kinds[a->stripe.kind], a->n_disks, a->stripe.name,
		       a->stripe_new ? ", new" : "");
		say_hint(a->device, &nodes);
	}
	if (a->made_fs)
		puts("made XFS");
	for (size_t i = 0; i < a->n_tuned; i++)
		say_tuned(&a->tuned[i]);
}

/* ---- for programs ---- */

static json_t *disk_json(const struct attach *a, const struct attach_disk *d)
{
	char nodes[IDS_MAX];
	json_t *o = json_pack("{s:s, s:s, s:I, s:i, s:s, s:s, s:i, s:s, s:b}", "path", d->path,
			      "device", d->kernel, "bytes", (json_int_t)d->size, "lun", (int)d->lun,
			      "target", d->target->iqn, "address", d->target->portal.address,
			      "port", (int)d->target->portal.port, "transport", d->transport, "new",
			      is_new(a, d));

	if (o && *d->netdev)
		json_set_name(o, "netdev", d->netdev);
	if (o && ids_count(&d->nodes))
		json_object_set_new(o, "nodes", json_string(ids_format(nodes, sizeof(nodes),
								       &d->nodes)));
	return o;
}

static json_t *tuned_json(const struct tune_step *s)
{
	json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:s}", "device", s->device, "setting",
			      strrchr(s->file, '/') + 1, "before", s->before, "after", s->after,
			      "wanted", s->want);

	if (o && s->failed)
		json_object_set_new(o, "error", json_string(strerror(-s->failed)));
	return o;
}

int attach_emit(const struct attach *a)
{
	json_t *disks = json_array(), *tuned = json_array(), *o;

	for (size_t i = 0; i < a->n_disks; i++)
		json_array_append_new(disks, disk_json(a, &a->disks[i]));
	for (size_t i = 0; i < a->n_tuned; i++)
		json_array_append_new(tuned, tuned_json(&a->tuned[i]));
	o = json_pack("{s:o, s:o, s:b}", "disks", disks, "tuned", tuned, "made_fs", a->made_fs);
	if (o && a->stripe.kind)
		json_object_set_new(o, "stripe", json_pack("{s:s, s:s, s:s, s:s, s:b}", "kind",
				    stripe_kinds[a->stripe.kind], "name", a->stripe.name, "id",
				    a->stripe.id, "path", a->device, "new", a->stripe_new));
	return json_emit(stdout, o);
}
