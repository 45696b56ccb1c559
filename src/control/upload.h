// SPDX-License-Identifier: Apache-2.0
/* Where the bytes of STOR and APPE go: a part that becomes the file when all is there, or, behind
 * REST and by APPE, the file itself from an offset on. */
#ifndef RFTP_CONTROL_UPLOAD_H
#define RFTP_CONTROL_UPLOAD_H

#include "storage/storage.h"

struct upload {
	struct part *part;  /* NULL: in place */
	int dir_fd;         /* to sync the new name; -1 in place */
	int fd;             /* not owned when there is a part */
	uint64_t at;        /* offset of the next byte */
};


struct upload_spec {
	struct root *root;
	struct dirs *dirs;
	const char *path;
	uint64_t from;      /* offset of the first byte, or UPLOAD_APPEND */
	mode_t mode;        /* of a file that is not there yet */
	bool keep_old;      /* bytes that are there must not be lost */
};

/* As from: at the end, whoever else writes there; a file that is not there is made. */
#define UPLOAD_APPEND UINT64_MAX

/* 0, or a negative errno; -ERANGE: from is beyond the end of the file that is there; -EPERM:
 * bytes that are there would be lost, and keep_old. */
int upload_begin(struct upload *u, const struct upload_spec *spec);
int upload_write(struct upload *u, const void *p, size_t len);
/* rc 0: all bytes have come: make them last, and give the file its name. Otherwise give
 * up, which leaves nothing of a part. The first error of rc's and its own. */
int upload_end(struct upload *u, int rc);

#endif
