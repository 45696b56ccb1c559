// SPDX-License-Identifier: Apache-2.0
/* Lines of LIST, which no standard describes: as ls -l prints them, as DOS and IIS do, NetWare's,
 * and EPLF. */
#ifndef RFTP_PROTO_FTP_LIST_H
#define RFTP_PROTO_FTP_LIST_H

#include "proto/ftp.h"

/* One line without CRLF. now: seconds since 1970, for dates that leave the year out. Times are
 * taken for UTC, since the line does not tell, and marked (time_about) where they may be off by
 * hours or lack seconds. The name is as it stands there: who makes files of it asks
 * bulk_name_ok(). 1 with f, to be cleared; 0: a line that names nothing ("total 8", ".", "..");
 * -EBADMSG: none that is known; -ENOMEM. */
int ftp_list_parse(const char *line, int64_t now, struct ftp_facts *f);

/* "227 ... (h1,h2,h3,h4,p1,p2)", brackets or not: the port alone, for whoever answers from one
 * address and names another is behind a translator, or up to something. 0 or -EBADMSG. */
int ftp_pasv_parse(const char *text, uint16_t *port);

#endif
