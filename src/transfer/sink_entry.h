// SPDX-License-Identifier: Apache-2.0
/* What entries of all kinds need at the sink, and those of directories (sink_dir.c) for who
 * takes them all (sink_entry.c). The control reader's thread alone. */
#ifndef RFTP_TRANSFER_SINK_ENTRY_H
#define RFTP_TRANSFER_SINK_ENTRY_H

#include "transfer/sink.h"

/* sink_entry.c */
/* As sink_place_top, for any entry. -EPROTO: its parent is not open. Other errors mean that
 * the destination cannot be used: the transfer ends. */
int sink_place(struct sink *s, const struct bulk_entry *en, char namebuf[256],
	       struct kdir **parent, const char **name, struct err *e);
struct meta sink_entry_meta(const struct bulk_entry *en);
/* A copy of en's attributes, malloc'd, where they are to be kept; else *x and *len stay. */
int sink_keep_xattrs(struct sink *s, const struct bulk_entry *en, uint8_t **x, uint32_t *len);

/* sink_dir.c */
/* The directory of this id while entries may name it; NULL: there is none. */
struct kdir *sink_find_dir(struct sink *s, uint64_t id);
/* A directory, wherever it goes. */
int sink_on_dir(struct sink *s, const struct bulk_entry *en, struct err *e);
int sink_on_dir_end(struct sink *s, const struct bulk_entry *en);

#endif
