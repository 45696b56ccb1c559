// SPDX-License-Identifier: Apache-2.0
/* The secrets that a plan names files of, in memory. */
#ifndef RFTP_ISER_SECRETS_H
#define RFTP_ISER_SECRETS_H

#include "iser_setup/lines.h"
#include "iser_setup/plan.h"

/* "" where the plan has none. */
struct iser_secret {
	char *iqn, *initiator;
	char *secret, *mutual;
};

struct iser_secrets {
	struct iser_secret *v;
	size_t n;
};

/* All of p's; what is wrong with a file goes into problems. 0, or -ENOMEM. s is
 * iser_secrets_clear's in any case. */
int iser_secrets_read(const struct iser_plan *p, struct iser_secrets *s, struct lines *problems);
void iser_secrets_clear(struct iser_secrets *s); /* wiped */
/* NULL: there is none. */
const struct iser_secret *iser_secret(const struct iser_secrets *s, const char *iqn,
				      const char *initiator);

#endif
