// SPDX-License-Identifier: Apache-2.0
/* Hard and symbolic links, and the files that hard links may name. */
#ifndef RFTP_TRANSFER_SINK_LINK_H
#define RFTP_TRANSFER_SINK_LINK_H

#include "storage/storage.h"
#include "transfer/sets.h"

#include <pthread.h>

struct sink;
struct sink_file;

/* LINK_LATER: the file will be sent by another attempt. */
enum link_state { LINK_PENDING, LINK_THERE, LINK_FAILED, LINK_LATER };

struct sink_links {
	pthread_mutex_t lock;
	struct inodes table;     /* guarded by lock: the address of a struct linkable by entry id */
};

/* Links to f's entry may follow. 0; -EPROTO: too many entries may have links, or they hold too many
 * directories; or -ENOMEM. */
int linkable_add(struct sink *s, const struct sink_file *f);
/* f is over: make the links that wait for it, or fail them. */
void linkable_settle(struct sink *s, const struct sink_file *f, enum link_state state);
/* No further link to this entry will arrive. */
void linkable_last(struct sink *s, uint64_t id);
/* At the end, without other threads. */
void linkables_free(struct sink *s);
/* Make the hard link f, at once or when its target exists. Control reader's thread. */
int sink_file_hardlink(struct sink *s, struct sink_file *f);
/* True: the hard link f exists already. Control reader's thread. */
bool sink_link_stands(struct sink *s, const struct sink_file *f);
/* Make the symbolic link f to target. Control reader's thread. */
void sink_file_symlink(struct sink *s, struct sink_file *f, const char *target);

#endif
