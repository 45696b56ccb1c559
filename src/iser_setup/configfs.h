// SPDX-License-Identifier: Apache-2.0
/* Small files and directories of the kernel, of which any may be gone by the time it is read:
 * then it is as if it was empty. But not when there is no memory, or no descriptor, to look: what
 * is there would be taken for gone. "Memory is out" stands for either. */
#ifndef RFTP_ISER_CONFIGFS_H
#define RFTP_ISER_CONFIGFS_H

#include "util/util.h"

/* Is it this errno's fault, and not the file's? */
bool cfs_is_out(int error);
/* What dir/name holds, without newlines at its end, malloc'd; "" when it cannot be read or is
 * far too big. NULL: memory is out. */
char *cfs_text(const char *dir, const char *name);
/* The same with all bytes, NUL too; *len of them. */
char *cfs_bytes(const char *dir, const char *name, size_t *len);
/* Its number; 0 when it is none. */
unsigned long long cfs_number(const char *dir, const char *name);
/* dir/name, malloc'd; NULL: memory is out. */
char *cfs_path(const char *dir, const char *name);

/* One of a directory's, at path; 0, or a negative errno that ends it. */
typedef int cfs_each(void *context, const char *path, const char *name);

/* Those that are directories, by their names' bytes. 0, or what each returned, or -ENOMEM. */
int cfs_dirs(const char *dir, cfs_each *each, void *context);
/* Where the link in dir leads, as it is written; "" when there is none, or nothing is there any
 * more. NULL: memory is out. */
char *cfs_link(const char *dir);
/* "lun_3" after "lun_" is 3; false: it is not so, or above most. */
bool cfs_numbered(const char *name, const char *prefix, unsigned long most, unsigned *n);

#endif
