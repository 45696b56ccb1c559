// SPDX-License-Identifier: Apache-2.0
/* The file that a model is kept in. */
#include "numa/model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (64u << 20) /* 64 nodes are 1 MB */
#define FILE_MODE 0644

const char *model_default(void)
{
	const char *file = getenv("RFTP_NUMA_MODEL");

	return file && *file ? file : MODEL_FILE;
}

/* A file of another machine says what to do, too. */
static int check_machine(const struct model *m, const struct topo *t, const char *file,
			 struct err *e)
{
	struct err why = ERR_INIT;

	if (!model_fits(m, t, &why))
		return 0;
	return err_set(e, why.code, "%s: was made on another machine, or before this one changed "
		       "(%s); measure again with rftp-numa model", printable(file), why.text);
}

struct model *model_read(const char *file, const struct topo *t, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	struct model *m;
	size_t len;
	int r;

	if (!file)
		file = model_default();
	r = read_file(file, FILE_MAX, &text, &len);
	if (r) {
		err_sys(e, r, "%s", printable(file));
		return NULL;
	}
	m = model_parse(file, text, len, e);
	if (m && check_machine(m, t, file, e)) {
		model_free(m);
		return NULL;
	}
	return m;
}
