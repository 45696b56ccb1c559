// SPDX-License-Identifier: Apache-2.0
/* A host that has LIO, in memory: what steps ask for is done to it, and it can be looked at as the
 * real one. One per process. */
#ifndef RFTP_TEST_ISER_MODEL_H
#define RFTP_TEST_ISER_MODEL_H

#include "iser_setup/steps.h"

extern struct lio model;
extern const struct iser_look model_look;

void model_clear(void);
/* A request, as steps.h and worker.h have them; fails the test when it could not be done, or is
 * none. */
void model_do(const json_t *request);
/* All of it as text, in an order of its own; malloc'd. */
char *model_text(void);
void model_add_dir(const char *path);
void model_add_file(const char *path, int64_t size);

#endif
