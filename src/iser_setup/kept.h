// SPDX-License-Identifier: Apache-2.0
/* What login has made on this host, kept over a restart, so that logout takes away that and no
 * more: sessions with their records, and stripes. Written before anything is made. */
#ifndef RFTP_ISER_KEPT_H
#define RFTP_ISER_KEPT_H

#include "iser_setup/lock.h"
#include "iser_setup/login.h"
#include "iser_setup/stripe.h"

struct kept_session {
	char iqn[ISCSI_NAME_ROOM];
	struct login_portal portal;
	unsigned tag;
	enum login_transport transport;
	bool record;                 /* the record is login's own, too */
};

/* A stripe that is being made, or was when login was killed. */
struct kept_half {
	struct stripe stripe;        /* its id is what was drawn */
	struct kept_disk {
		char iqn[ISCSI_NAME_ROOM];
		unsigned lun;
	} disks[STRIPE_MEMBERS_MOST]; /* that it is to be of, in its order */
	unsigned n;
};

struct kept {
	char *dir;
	int lock;                    /* a descriptor; -1 */
	struct kept_session *sessions;
	size_t n_sessions;
	struct stripe *stripes;
	size_t n_stripes;
	struct kept_half *halves;
	size_t n_halves;
};

/* dir: NULL for RFTP_ISER_STATE of the environment or else ISER_STATE_DIR; made when it is not
 * there. Nobody else logs in or out meanwhile: -EBUSY when one still does after this wait, -EINTR
 * when that was stopped. -EBADMSG: the file is damaged. 0, or another negative errno with text. k
 * is kept_close's in any case. */
int kept_open(struct kept *k, const char *dir, const struct lock_wait *wait, struct err *e);
void kept_close(struct kept *k);
/* As it is now, synced. 0, or a negative errno with text. */
int kept_write(const struct kept *k, struct err *e);

/* Pure: the file's text, without newline, which the caller frees (NULL: memory is out), and back.
 * name: the file's, for text. */
char *kept_text(const struct kept *k);
int kept_parse(struct kept *k, const char *name, const char *text, struct err *e);

/* As what its record is for. */
struct login_target kept_target(const struct kept_session *s);
struct kept_session *kept_find(const struct kept *k, const char *iqn);
/* -ENOMEM, or 0; one that is there is replaced. */
int kept_add(struct kept *k, const struct kept_session *s);
void kept_drop(struct kept *k, const char *iqn);
/* Of one name there may be several: those of hosts without a plan are called the same. */
struct stripe *kept_stripe(const struct kept *k, const struct stripe *like);
int kept_add_stripe(struct kept *k, const struct stripe *s);
void kept_drop_stripe(struct kept *k, const struct stripe *s);
int kept_add_half(struct kept *k, const struct kept_half *h);
/* By the id that was drawn. */
void kept_drop_half(struct kept *k, const char *id);

#endif
