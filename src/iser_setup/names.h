// SPDX-License-Identifier: Apache-2.0
/* What the names in a plan may be: what iSCSI says of them, and what LIO can take. Each of these
 * is NULL when the name is good, or what is wrong with it, to stand behind where it is: "has no
 * ...". NULL for a name is one that is missing. */
#ifndef RFTP_ISER_NAMES_H
#define RFTP_ISER_NAMES_H

#define ISER_NAME_MAX 64 /* bytes of a plan's or a back store's name */

#define ISER_LIO_SUFFIX ".lio" /* behind a plan's name: of files beside the plan's own */

/* Of a back store: letters, digits, '.', '_', '-', the first a letter or a digit. */
const char *iser_name_wrong(const char *name);
/* Of a plan, by which its files are called: the same, but not with ISER_LIO_SUFFIX at its end. */
const char *iser_plan_name_wrong(const char *name);
/* An iSCSI name (RFC 7143 §4.2.7): iqn.YYYY-MM.reversed.domain[:rest], eui., naa.; in lower case,
 * for they are compared as text. */
const char *iser_iqn_wrong(const char *iqn);
/* An absolute path in its shortest form. */
const char *iser_path_wrong(const char *path);
/* A numerical address that one network interface can have, spelt as inet_ntop does. */
const char *iser_address_wrong(const char *address);
/* A user's name for CHAP. */
const char *iser_user_wrong(const char *user);
/* A UUID. */
const char *iser_serial_wrong(const char *serial);
/* One of LIO's attributes. */
const char *iser_attribute_wrong(const char *name);

#endif
