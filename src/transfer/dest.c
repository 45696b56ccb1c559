// SPDX-License-Identifier: Apache-2.0
/* Decides where a named source goes. */
#include "transfer/dest.h"

#include <errno.h>

int dest_resolve(const struct dest *d, const char *path, bool dir, bool contents,
		 enum dest_place *place, bool *make, struct err *e)
{
	*make = !d->exists;
	if (d->exists && !d->is_dir && (d->slash || dir || d->several))
		return err_set(e, -ENOTDIR, "%s: is not a directory", printable(path));
	if (d->several && !d->slash)
		return err_set(e, -EINVAL,
			       "%s: several sources need a directory: write it with a / at the end",
			       printable(path));
	if (dir && (contents || !d->slash))
		*place = DEST_CONTENTS;
	else if (dir || d->slash || (d->exists && d->is_dir))
		*place = DEST_INTO;
	else
		*place = DEST_AS;
	if (*place == DEST_AS)
		*make = false;
	return 0;
}
