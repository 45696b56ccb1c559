// SPDX-License-Identifier: Apache-2.0
/* Of the model of a host: its files, and the attributes of what is in configfs. */
#ifndef RFTP_TEST_ISER_MODEL_FILES_H
#define RFTP_TEST_ISER_MODEL_FILES_H

#include "iser_setup/lines.h"
#include "tests/support/iser-model.h"

#define MODEL_KEY_MAX 300 /* bytes of a path */

struct model_file {
	char path[MODEL_KEY_MAX];
	int64_t size; /* a directory: 0 */
	bool is_dir;
};

/* NULL: it is not there. */
struct model_file *model_file(const char *path);
void model_drop_file(const char *path);
/* All below dir. */
void model_drop_files(const char *dir);
/* An attribute of what is at dir; and all of them. */
void model_set_value(const char *dir, const char *name, unsigned long long value);
void model_drop_values(const char *dir);
void model_clear_files(void);
/* A line for each, added to l. */
void model_tell_files(struct lines *l);

/* items[i] of n is no more. */
#define model_drop(items, n, i) \
	memmove(&(items)[i], &(items)[(i) + 1], (--(n) - (i)) * sizeof(*(items)))
/* What iser_plan_add gave, unless memory was out. */
void *model_added(void *slot);

#endif
