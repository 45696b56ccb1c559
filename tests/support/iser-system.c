// SPDX-License-Identifier: Apache-2.0
/* What lio_read() reads, as JSON, for tests in the guest. Of secrets it tells whether there is
 * one. */
#include "iser_setup/system.h"

static json_t *store_json(const struct lio_store *s)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:I, s:b, s:b}", "plugin", s->plugin, "name", s->name,
			 "path", s->path, "serial", s->serial, "size", (json_int_t)s->size,
			 "enabled", s->enabled, "write-back", s->write_back);
}

static json_t *acl_json(const struct lio_acl *a)
{
	json_t *luns = json_array();

	for (size_t i = 0; i < a->n_mapped; i++)
		json_array_append_new(luns, json_integer(a->mapped[i].lun));
	return json_pack("{s:s, s:s, s:b, s:s, s:b, s:o, s:b, s:s}", "initiator", a->initiator,
			 "user", a->user, "secret", *a->secret != '\0', "mutual-user",
			 a->mutual_user, "mutual-secret", *a->mutual_secret != '\0', "luns", luns,
			 "logged-in", a->logged_in, "session", a->session);
}

static json_t *target_json(const struct lio_target *t)
{
	json_t *portals = json_array(), *luns = json_array(), *acls = json_array();

	for (size_t i = 0; i < t->n_portals; i++)
		json_array_append_new(portals, json_pack("{s:s, s:i, s:b}", "address",
							 t->portals[i].address, "port",
							 (int)t->portals[i].port, "iser",
							 t->portals[i].iser));
	for (size_t i = 0; i < t->n_luns; i++)
		json_array_append_new(luns, json_pack("{s:i, s:s?, s:s?}", "lun",
						      (int)t->luns[i].lun, "plugin",
						      t->luns[i].plugin, "store",
						      t->luns[i].store));
	for (size_t i = 0; i < t->n_acls; i++)
		json_array_append_new(acls, acl_json(&t->acls[i]));
	return json_pack("{s:s, s:i, s:b, s:i, s:o, s:o, s:o}", "iqn", t->iqn, "tag", (int)t->tag,
			 "enabled", t->enabled, "dynamic", (int)t->dynamic, "portals", portals,
			 "luns", luns, "initiators", acls);
}

static json_t *mount_json(const struct tmpfs_mount *m)
{
	char nodes[256];

	return json_pack("{s:s, s:s, s:s}", "path", m->path, "source", m->source, "nodes",
			 ids_format(nodes, sizeof(nodes), &m->nodes));
}

int main(void)
{
	struct err e = ERR_INIT;
	struct lio *l CLEANUP_LIO = lio_read(NULL, &e);
	json_t *stores = json_array(), *targets = json_array(), *mounts = json_array();

	if (!l) {
		fprintf(stderr, "iser-system: %s\n", e.text);
		return 1;
	}
	for (size_t i = 0; i < l->n_stores; i++)
		json_array_append_new(stores, store_json(&l->stores[i]));
	for (size_t i = 0; i < l->n_targets; i++)
		json_array_append_new(targets, target_json(&l->targets[i]));
	for (size_t i = 0; i < l->n_mounts; i++)
		json_array_append_new(mounts, mount_json(&l->mounts[i]));
	return json_emit(stdout, json_pack("{s:b, s:b, s:s?, s:o, s:o, s:o}", "there", l->there,
					   "iscsi", l->iscsi, "cpus", l->cpus, "stores", stores,
					   "targets", targets, "mounts", mounts)) ? 1 : 0;
}
