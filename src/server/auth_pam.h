// SPDX-License-Identifier: Apache-2.0
/* Users of the system, by PAM. */
#ifndef RFTP_SERVER_AUTH_PAM_H
#define RFTP_SERVER_AUTH_PAM_H

#include "server/auth.h"

/* What is looked for in /etc/pam.d. */
#define AUTH_PAM_SERVICE "rftpd"

/* Has this build PAM? */
bool auth_pam_available(void);
/* Is ask's password right, or, if it has none because who it is is known, may he log in? u, to be
 * cleared, is the user that PAM says it is, with the groups that it gives him. Results as those of
 * auth_check; -EOPNOTSUPP: this build has no PAM. */
int auth_pam_check(const struct auth_ask *ask, struct identity *u, struct err *e);

#endif
