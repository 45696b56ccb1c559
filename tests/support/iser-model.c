// SPDX-License-Identifier: Apache-2.0
/* The model of a host. */
#include "tests/support/iser-model-files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct lio model = { .there = true, .iscsi = true };

/* ---- requests ---- */

static const char *text(const json_t *r, const char *key)
{
	const char *v = json_string_value(json_object_get(r, key));

	if (!v)
		fail_msg("a request has no text \"%s\"", key);
	return v;
}

static long long number(const json_t *r, const char *key)
{
	if (!json_is_integer(json_object_get(r, key)))
		fail_msg("a request has no number \"%s\"", key);
	return json_integer_value(json_object_get(r, key));
}

static bool flag(const json_t *r, const char *key)
{
	return json_is_true(json_object_get(r, key));
}

/* ---- files and mounts ---- */

static void do_mount(const json_t *r)
{
	const char *path = text(r, "path"), *asked = text(r, "options"), *mpol;
	unsigned long long bytes;
	struct tmpfs_mount *m;
	char options[200];

	assert_non_null(model_file(path));
	assert_null(lio_mount(&model, path));
	assert_int_equal(sscanf(asked, "size=%llu", &bytes), 1);
	mpol = strstr(asked, "mpol=");
	snprintf(options, sizeof(options), "rw,size=%lluk,mode=700,%s", bytes / 1024, mpol);
	m = model_added(iser_plan_add(model.mounts, model.n_mounts));
	m->path = strdup(path);
	m->source = strdup(ISER_MOUNT_SOURCE);
	m->options = strdup(options);
	ids_add(&m->nodes, (unsigned)atoi(strrchr(mpol, ':') + 1));
}

static void do_unmount(const json_t *r)
{
	const struct tmpfs_mount *m = lio_mount(&model, text(r, "path"));
	size_t len = strlen(text(r, "path")), i;

	if (!m)
		return;
	for (i = 0; i < model.n_stores; i++)
		if (!strncmp(model.stores[i].path, m->path, len) &&
		    model.stores[i].path[len] == '/')
			fail_msg("%s is unmounted below a back store", m->path);
	model_drop_files(m->path);
	i = (size_t)(m - model.mounts);
	free(model.mounts[i].path);
	free(model.mounts[i].source);
	free(model.mounts[i].options);
	model_drop(model.mounts, model.n_mounts, i);
}

/* Its directory must be there, and a tmpfs for it. */
static void do_make_file(const json_t *r)
{
	const char *path = text(r, "path");
	char dir[MODEL_KEY_MAX];

	snprintf(dir, sizeof(dir), "%.*s", (int)(strrchr(path, '/') - path), path);
	assert_non_null(model_file(dir));
	model_add_file(path, number(r, "size"));
}

static void do_cut_file(const json_t *r)
{
	assert_non_null(model_file(text(r, "path")));
	model_add_file(text(r, "path"), number(r, "size"));
}

static void do_make_dir(const json_t *r)
{
	model_add_dir(text(r, "path"));
}

static void do_remove(const json_t *r)
{
	model_drop_file(text(r, "path"));
}

/* ---- back stores ---- */

static void do_create_store(const json_t *r)
{
	const char *plugin = text(r, "plugin"), *path = text(r, "path");
	struct lio_store *s;
	char dir[MODEL_KEY_MAX];

	assert_null(lio_store(&model, plugin, text(r, "name")));
	if (!strcmp(plugin, "fileio") && !model_file(path))
		model_add_file(path, number(r, "size")); /* the worker does, too */
	if (!strcmp(plugin, "fileio"))
		assert_int_equal(model_file(path)->size, number(r, "size"));
	snprintf(dir, sizeof(dir), "core/%s/%s", plugin, text(r, "name"));
	s = model_added(iser_plan_add(model.stores, model.n_stores));
	*s = (struct lio_store){ .plugin = strdup(plugin), .name = strdup(text(r, "name")),
				 .dir = strdup(dir), .path = strdup(path),
				 .serial = strdup(text(r, "serial")),
				 .size = (uint64_t)number(r, "size"), .enabled = true,
				 .write_back = flag(r, "write-back") };
	model_set_value(dir, "emulate_tpu", 0);
}

static size_t store_at(const json_t *r)
{
	const struct lio_store *s = lio_store(&model, text(r, "plugin"), text(r, "name"));

	if (!s)
		fail_msg("there is no back store %s", text(r, "name"));
	return (size_t)(s - model.stores);
}

static void free_store(struct lio_store *s)
{
	free(s->plugin);
	free(s->name);
	free(s->dir);
	free(s->path);
	free(s->serial);
}

static void do_delete_store(const json_t *r)
{
	size_t i = store_at(r);
	const struct lio_store *s = &model.stores[i];

	for (size_t t = 0; t < model.n_targets; t++)
		for (size_t k = 0; k < model.targets[t].n_luns; k++)
			if (model.targets[t].luns[k].store &&
			    !strcmp(model.targets[t].luns[k].store, s->name) &&
			    !strcmp(model.targets[t].luns[k].plugin, s->plugin))
				fail_msg("%s is a LUN, and deleted", s->name);
	model_drop_values(s->dir);
	free_store(&model.stores[i]);
	model_drop(model.stores, model.n_stores, i);
}

static void do_set_store_attribute(const json_t *r)
{
	model_set_value(model.stores[store_at(r)].dir, text(r, "attribute"),
		  (unsigned long long)number(r, "value"));
}

/* ---- targets ---- */

static struct lio_target *target_of(const json_t *r)
{
	const struct lio_target *t = lio_target(&model, text(r, "iqn"));

	if (!t)
		fail_msg("there is no target %s", text(r, "iqn"));
	return &model.targets[t - model.targets];
}

static void do_create_target(const json_t *r)
{
	char dir[MODEL_KEY_MAX];
	struct lio_target *t;

	assert_null(lio_target(&model, text(r, "iqn")));
	snprintf(dir, sizeof(dir), "iscsi/%s", text(r, "iqn"));
	t = model_added(iser_plan_add(model.targets, model.n_targets));
	t->iqn = strdup(text(r, "iqn"));
	t->dir = strdup(dir);
	t->tag = LIO_TAG;
	model_set_value(dir, "authentication", 1);
	model_set_value(dir, "generate_node_acls", 0);
	model_set_value(dir, "demo_mode_write_protect", 1);
	model_set_value(dir, "cache_dynamic_acls", 0);
	model_set_value(dir, "default_cmdsn_depth", 64);
}

static void drop_lun(struct lio_target *t, size_t i)
{
	unsigned lun = t->luns[i].lun;

	free(t->luns[i].plugin);
	free(t->luns[i].store);
	model_drop(t->luns, t->n_luns, i);
	for (size_t a = 0; a < t->n_acls; a++)
		for (size_t k = t->acls[a].n_mapped; k--;)
			if (t->acls[a].mapped[k].lun == lun)
				model_drop(t->acls[a].mapped, t->acls[a].n_mapped, k);
}

static void drop_acl(struct lio_target *t, size_t i)
{
	struct lio_acl *a = &t->acls[i];

	free(a->initiator);
	free(a->user);
	free(a->secret);
	free(a->mutual_user);
	free(a->mutual_secret);
	free(a->mapped);
	free(a->session);
	model_drop(t->acls, t->n_acls, i);
}

static void drop_target(struct lio_target *t)
{
	while (t->n_luns)
		drop_lun(t, 0);
	while (t->n_acls)
		drop_acl(t, 0);
	for (size_t i = 0; i < t->n_portals; i++)
		free(t->portals[i].address);
	model_drop_values(t->dir);
	free(t->portals);
	free(t->luns);
	free(t->acls);
	free(t->iqn);
	free(t->dir);
	model_drop(model.targets, model.n_targets, (size_t)(t - model.targets));
}

static void do_delete_target(const json_t *r)
{
	drop_target(target_of(r));
}

static void do_set_target_attribute(const json_t *r)
{
	model_set_value(target_of(r)->dir, text(r, "attribute"), (unsigned long long)number(r, "value"));
}

static void do_enable(const json_t *r)
{
	target_of(r)->enabled = flag(r, "enabled");
}

static void give(struct lio_acl *a, unsigned lun)
{
	*(struct lio_mapped *)model_added(iser_plan_add(a->mapped, a->n_mapped)) =
		(struct lio_mapped){ .as = lun, .lun = lun };
}

static void do_create_lun(const json_t *r)
{
	struct lio_target *t = target_of(r);
	struct lio_lun *l;

	assert_null(lio_lun(t, (unsigned)number(r, "lun")));
	assert_non_null(lio_store(&model, text(r, "plugin"), text(r, "store")));
	l = model_added(iser_plan_add(t->luns, t->n_luns));
	l->lun = (unsigned)number(r, "lun");
	l->plugin = strdup(text(r, "plugin"));
	l->store = strdup(text(r, "store"));
	for (size_t i = 0; i < t->n_acls; i++)
		give(&t->acls[i], l->lun);
}

static void do_delete_lun(const json_t *r)
{
	struct lio_target *t = target_of(r);
	const struct lio_lun *l = lio_lun(t, (unsigned)number(r, "lun"));

	assert_non_null(l);
	drop_lun(t, (size_t)(l - t->luns));
}

static void do_create_portal(const json_t *r)
{
	struct lio_target *t = target_of(r);
	struct lio_portal *p;

	assert_null(lio_portal(t, text(r, "address"), (unsigned)number(r, "port")));
	p = model_added(iser_plan_add(t->portals, t->n_portals));
	p->address = strdup(text(r, "address"));
	p->port = (unsigned)number(r, "port");
	p->iser = flag(r, "iser");
}

static void do_delete_portal(const json_t *r)
{
	struct lio_target *t = target_of(r);
	const struct lio_portal *p = lio_portal(t, text(r, "address"),
						(unsigned)number(r, "port"));

	assert_non_null(p);
	free(p->address);
	model_drop(t->portals, t->n_portals, (size_t)(p - t->portals));
}

static struct lio_acl *acl_of(const json_t *r)
{
	struct lio_target *t = target_of(r);
	const struct lio_acl *a = lio_acl(t, text(r, "initiator"));

	if (!a)
		fail_msg("there is no initiator %s", text(r, "initiator"));
	return &t->acls[a - t->acls];
}

static void set_auth(struct lio_acl *a, const char *user, const char *secret,
		     const char *mutual_user, const char *mutual)
{
	free(a->user);
	free(a->secret);
	free(a->mutual_user);
	free(a->mutual_secret);
	a->user = strdup(user);
	a->secret = strdup(secret);
	a->mutual_user = strdup(mutual_user);
	a->mutual_secret = strdup(mutual);
}

static void do_create_acl(const json_t *r)
{
	struct lio_target *t = target_of(r);
	struct lio_acl *a;

	assert_null(lio_acl(t, text(r, "initiator")));
	a = model_added(iser_plan_add(t->acls, t->n_acls));
	a->initiator = strdup(text(r, "initiator"));
	a->session = strdup("");
	set_auth(a, "", "", "", "");
	for (size_t i = 0; i < t->n_luns; i++)
		give(a, t->luns[i].lun);
}

static void do_delete_acl(const json_t *r)
{
	const struct lio_acl *a = acl_of(r);
	struct lio_target *t = target_of(r);

	drop_acl(t, (size_t)(a - t->acls));
}

static void do_set_auth(const json_t *r)
{
	set_auth(acl_of(r), text(r, "user"), text(r, "secret"), text(r, "mutual-user"),
		 text(r, "mutual-secret"));
}

static void do_set_cpus(const json_t *r)
{
	free(model.cpus);
	model.cpus = strdup(text(r, "list"));
}

static void do_set_irq(const json_t *r)
{
	char key[32];

	snprintf(key, sizeof(key), "irq/%lld", number(r, "irq"));
	model_set_value(key, text(r, "list"), 1);
}

/* ---- all ---- */

static const struct {
	const char *what;
	void (*fn)(const json_t *r);
} jobs[] = {
	{ "make-dir", do_make_dir }, { "remove-dir", do_remove }, { "make-file", do_make_file },
	{ "cut-file", do_cut_file }, { "remove-file", do_remove }, { "mount", do_mount },
	{ "unmount", do_unmount }, { "set-irq", do_set_irq },
	{ "create-store", do_create_store }, { "delete-store", do_delete_store },
	{ "set-store-attribute", do_set_store_attribute },
	{ "create-target", do_create_target }, { "delete-target", do_delete_target },
	{ "set-target-attribute", do_set_target_attribute }, { "enable-target", do_enable },
	{ "create-lun", do_create_lun }, { "delete-lun", do_delete_lun },
	{ "create-portal", do_create_portal }, { "delete-portal", do_delete_portal },
	{ "create-acl", do_create_acl }, { "delete-acl", do_delete_acl },
	{ "set-auth", do_set_auth }, { "set-cpus", do_set_cpus },
};

void model_do(const json_t *request)
{
	for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++)
		if (!strcmp(jobs[i].what, text(request, "do"))) {
			jobs[i].fn(request);
			return;
		}
	fail_msg("nobody does \"%s\"", text(request, "do"));
}

void model_clear(void)
{
	while (model.n_targets)
		drop_target(&model.targets[0]);
	while (model.n_stores) {
		free_store(&model.stores[0]);
		model_drop(model.stores, model.n_stores, 0);
	}
	while (model.n_mounts) {
		free(model.mounts[0].path);
		free(model.mounts[0].source);
		free(model.mounts[0].options);
		model_drop(model.mounts, model.n_mounts, 0);
	}
	free(model.targets);
	free(model.stores);
	free(model.mounts);
	free(model.cpus);
	model_clear_files();
	model = (struct lio){ .there = true, .iscsi = true };
}

/* ---- as text ---- */

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void text_of_target(struct lines *l, const struct lio_target *t)
{
	lines_add(l, "target %s enabled %d", t->iqn, t->enabled);
	for (size_t i = 0; i < t->n_portals; i++)
		lines_add(l, "%s portal %s %u %d", t->iqn, t->portals[i].address,
			  t->portals[i].port, t->portals[i].iser);
	for (size_t i = 0; i < t->n_luns; i++)
		lines_add(l, "%s lun %u %s", t->iqn, t->luns[i].lun, t->luns[i].store);
	for (size_t i = 0; i < t->n_acls; i++) {
		const struct lio_acl *a = &t->acls[i];

		lines_add(l, "%s acl %s %s %s %s %s", t->iqn, a->initiator, a->user, a->secret,
			  a->mutual_user, a->mutual_secret);
		for (size_t k = 0; k < a->n_mapped; k++)
			lines_add(l, "%s acl %s lun %u", t->iqn, a->initiator, a->mapped[k].lun);
	}
}

char *model_text(void)
{
	struct lines l = { 0 };
	char *out = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&out, &len);

	assert_non_null(f);
	model_tell_files(&l);
	for (size_t i = 0; i < model.n_mounts; i++)
		lines_add(&l, "mount %s %s", model.mounts[i].path, model.mounts[i].options);
	for (size_t i = 0; i < model.n_stores; i++)
		lines_add(&l, "store %s %s %s %llu %d %s", model.stores[i].plugin,
			  model.stores[i].name, model.stores[i].path,
			  (unsigned long long)model.stores[i].size, model.stores[i].write_back,
			  model.stores[i].serial);
	for (size_t i = 0; i < model.n_targets; i++)
		text_of_target(&l, &model.targets[i]);
	lines_add(&l, "cpus %s", model.cpus ? model.cpus : "-");
	qsort(l.v, l.n, sizeof(*l.v), by_text);
	for (size_t i = 0; i < l.n; i++)
		fprintf(f, "%s\n", l.v[i]);
	fclose(f);
	lines_clear(&l);
	return out;
}
