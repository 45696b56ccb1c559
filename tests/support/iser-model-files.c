// SPDX-License-Identifier: Apache-2.0
/* Files and values by their paths. */
#include "tests/support/iser-model-files.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct value {
	char key[MODEL_KEY_MAX]; /* directory/attribute */
	unsigned long long value;
};

static struct model_file *files;
static size_t n_files;
static struct value *values;
static size_t n_values;

void *model_added(void *slot)
{
	assert_non_null(slot);
	return slot;
}

static int attribute(const char *dir, const char *name, unsigned long long *value)
{
	char key[MODEL_KEY_MAX];

	snprintf(key, sizeof(key), "%s/%s", dir, name);
	for (size_t i = 0; i < n_values; i++)
		if (!strcmp(values[i].key, key)) {
			*value = values[i].value;
			return 0;
		}
	return -2;
}

struct model_file *model_file(const char *path)
{
	for (size_t i = 0; i < n_files; i++)
		if (!strcmp(files[i].path, path))
			return &files[i];
	return NULL;
}

static int64_t size(const char *path)
{
	const struct model_file *f = model_file(path);

	return f ? f->size : -1;
}

static bool is_dir(const char *path)
{
	const struct model_file *f = model_file(path);

	return f && f->is_dir;
}

const struct iser_look model_look = { .attribute = attribute, .size = size, .is_dir = is_dir };

/* ---- values ---- */

void model_set_value(const char *dir, const char *name, unsigned long long value)
{
	struct value *v = NULL;
	char key[MODEL_KEY_MAX];

	snprintf(key, sizeof(key), "%s/%s", dir, name);
	for (size_t i = 0; i < n_values; i++)
		if (!strcmp(values[i].key, key))
			v = &values[i];
	if (!v) {
		v = model_added(iser_plan_add(values, n_values));
		snprintf(v->key, sizeof(v->key), "%s", key);
	}
	v->value = value;
}

void model_drop_values(const char *dir)
{
	for (size_t i = n_values; i--;)
		if (!strncmp(values[i].key, dir, strlen(dir)) &&
		    values[i].key[strlen(dir)] == '/')
			model_drop(values, n_values, i);
}

/* ---- files ---- */

static void add_file(const char *path, int64_t bytes, bool is_dir)
{
	struct model_file *f = model_file(path);

	if (!f)
		f = model_added(iser_plan_add(files, n_files));
	snprintf(f->path, sizeof(f->path), "%s", path);
	f->size = bytes;
	f->is_dir = is_dir;
}

void model_add_dir(const char *path)
{
	add_file(path, 0, true);
}

void model_add_file(const char *path, int64_t bytes)
{
	add_file(path, bytes, false);
}

void model_drop_file(const char *path)
{
	struct model_file *f = model_file(path);

	if (f)
		model_drop(files, n_files, (size_t)(f - files));
}

void model_drop_files(const char *dir)
{
	for (size_t i = n_files; i--;)
		if (!strncmp(files[i].path, dir, strlen(dir)) &&
		    files[i].path[strlen(dir)] == '/')
			model_drop(files, n_files, i);
}

/* ---- all ---- */

void model_clear_files(void)
{
	free(files);
	free(values);
	files = NULL;
	values = NULL;
	n_files = n_values = 0;
}

void model_tell_files(struct lines *l)
{
	for (size_t i = 0; i < n_files; i++)
		lines_add(l, "file %s %lld", files[i].path, (long long)files[i].size);
	for (size_t i = 0; i < n_values; i++)
		lines_add(l, "value %s %llu", values[i].key, values[i].value);
}
