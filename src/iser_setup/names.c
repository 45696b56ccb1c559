// SPDX-License-Identifier: Apache-2.0
/* The rules for names. */
#include "iser_setup/names.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define IQN_MAX 223  /* bytes, RFC 7143 §4.2.7.1 */
#define PATH_MOST 255 /* bytes; LIO cuts longer ones without a word */
#define USER_MAX 255 /* bytes, LIO's and open-iscsi's */
#define UUID_LENGTH 36
#define ATTRIBUTE_MAX 64

#define LOWER "abcdefghijklmnopqrstuvwxyz"
#define UPPER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define HEX DIGITS "abcdef"

static const char missing[] = "is missing";

static bool only_of(const char *s, const char *chars)
{
	return !s[strspn(s, chars)];
}

/* ---- plans, back stores, attributes ---- */

const char *iser_name_wrong(const char *name)
{
	if (!name || !*name)
		return missing;
	if (strlen(name) > ISER_NAME_MAX)
		return "is longer than 64 bytes";
	if (!only_of(name, LOWER UPPER DIGITS "._-"))
		return "has other characters than letters, digits, '.', '_' and '-'";
	if (!isalnum((unsigned char)*name))
		return "does not begin with a letter or a digit";
	return NULL;
}

const char *iser_plan_name_wrong(const char *name)
{
	const char *wrong = iser_name_wrong(name);
	const size_t n = wrong ? 0 : strlen(name), end = strlen(ISER_LIO_SUFFIX);

	if (n >= end && !strcmp(name + n - end, ISER_LIO_SUFFIX))
		return "ends in " ISER_LIO_SUFFIX ", which is for files beside the plan's";
	return wrong;
}

const char *iser_attribute_wrong(const char *name)
{
	if (!name || !*name)
		return "is an attribute without a name";
	if (strlen(name) > ATTRIBUTE_MAX || !only_of(name, LOWER DIGITS "_"))
		return "is no attribute's name: those have lower case letters, digits and '_'";
	return NULL;
}

const char *iser_serial_wrong(const char *serial)
{
	static const char form[] = "is no UUID in lower case, as "
				   "6d9f1f6e-5a0c-4a5e-9d0b-3f1a2b4c5d6e";

	if (!serial || !*serial)
		return missing;
	if (strlen(serial) != UUID_LENGTH)
		return form;
	for (size_t i = 0; i < UUID_LENGTH; i++) {
		const bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? serial[i] != '-' : !strchr(HEX, serial[i]))
			return form;
	}
	return NULL;
}

/* ---- iSCSI names ---- */

/* Labels with dots between them, at least two, up to the end of s or a colon. */
static const char *domain_wrong(const char *s)
{
	unsigned labels = 0;

	for (;; s++) {
		const size_t n = strspn(s, LOWER DIGITS "-");

		if (!n || *s == '-' || s[n - 1] == '-')
			return "has no domain behind its date, as in iqn.2026-01.org.example:disk";
		labels++;
		s += n;
		if (*s != '.')
			break;
	}
	if (*s && *s != ':')
		return "has other characters than letters, digits, '-', '.' and ':'";
	return labels > 1 ? NULL : "has a domain without a dot: LIO takes \"org.example\", not "
				   "\"example\"";
}

/* What is behind "iqn." */
static const char *dated_wrong(const char *s)
{
	static const char date[] = "has no date behind \"iqn.\", as in "
				   "iqn.2026-01.org.example:disk";
	const char *wrong, *rest;

	if (strspn(s, DIGITS) != 4 || s[4] != '-' || strspn(s + 5, DIGITS) != 2 || s[7] != '.')
		return date;
	if (strncmp(s + 5, "01", 2) < 0 || strncmp(s + 5, "12", 2) > 0)
		return "has a month that is not 01 to 12";
	wrong = domain_wrong(s + 8);
	rest = strchr(s, ':');
	if (wrong || !rest)
		return wrong;
	return rest[1] ? NULL : "has nothing behind its colon";
}

static bool is_hex(const char *s, size_t one, size_t other)
{
	return (strlen(s) == one || strlen(s) == other) && only_of(s, HEX);
}

const char *iser_iqn_wrong(const char *iqn)
{
	if (!iqn || !*iqn)
		return missing;
	if (strlen(iqn) > IQN_MAX)
		return "is longer than 223 bytes";
	if (!strncmp(iqn, "InitiatorName=", strlen("InitiatorName=")))
		return "is a line of initiatorname.iscsi: write what is behind its '='";
	if (strpbrk(iqn, UPPER))
		return "has upper case letters: write it in lower case";
	if (!only_of(iqn, LOWER DIGITS ".:-"))
		return "has other characters than letters, digits, '-', '.' and ':'";
	if (!strncmp(iqn, "iqn.", 4))
		return dated_wrong(iqn + 4);
	if (!strncmp(iqn, "eui.", 4))
		return is_hex(iqn + 4, 16, 16) ? NULL : "has not 16 hexadecimal digits behind "
							 "\"eui.\"";
	if (!strncmp(iqn, "naa.", 4))
		return is_hex(iqn + 4, 16, 32) ? NULL : "has neither 16 nor 32 hexadecimal digits "
							 "behind \"naa.\"";
	return "is no iSCSI name: that begins with iqn., eui. or naa.";
}

/* ---- paths ---- */

/* One part of a path, of n bytes. */
static bool part_is_odd(const char *part, size_t n)
{
	return !n || (n == 1 && *part == '.') || (n == 2 && !strncmp(part, "..", 2));
}

const char *iser_path_wrong(const char *path)
{
	if (!path || !*path)
		return missing;
	if (*path != '/')
		return "does not begin with a slash";
	if (strlen(path) > PATH_MOST)
		return "is longer than 255 bytes, which LIO would cut";
	for (const char *s = path; *s; s++)
		if (*s == ',' || *s == ' ' || *s == '\\' || *s == '"' || *s == '\'' ||
		    iscntrl((unsigned char)*s) || (unsigned char)*s > 0x7e)
			return "has a comma, a blank, a quote, a backslash or what is not ASCII in "
			       "it, which LIO's configuration does not keep";
	for (const char *s = path; s; s = strchr(s + 1, '/'))
		if (part_is_odd(s + 1, strcspn(s + 1, "/")))
			return "has an empty part, \".\" or \"..\" in it";
	return NULL;
}

/* ---- addresses ---- */

/* inet_ntop writes each address in one way. */
static const char *spelt_wrong(int family, const void *bytes, const char *address)
{
	char text[INET6_ADDRSTRLEN];

	if (!inet_ntop(family, bytes, text, sizeof(text)) || strcmp(text, address) != 0)
		return "is not in its usual form: lower case, the longest run of zeros as \"::\"";
	return NULL;
}

static const char any[] = "stands for all addresses: with it no other target could listen on this "
			  "port";
static const char many[] = "is a multicast or a broadcast address";

static const char *v4_wrong(const struct in_addr *v4)
{
	const uint32_t a = ntohl(v4->s_addr);

	if (a == INADDR_ANY)
		return any;
	return IN_MULTICAST(a) || a == INADDR_BROADCAST ? many : NULL;
}

static const char *v6_wrong(const struct in6_addr *v6, const char *address)
{
	if (IN6_IS_ADDR_UNSPECIFIED(v6))
		return any;
	if (IN6_IS_ADDR_MULTICAST(v6))
		return many;
	if (IN6_IS_ADDR_LINKLOCAL(v6))
		return "is an address of its link only, which does not say of which";
	if (IN6_IS_ADDR_V4MAPPED(v6))
		return "is an IPv4 address: write it as such";
	return spelt_wrong(AF_INET6, v6, address);
}

const char *iser_address_wrong(const char *address)
{
	struct in6_addr v6;
	struct in_addr v4;

	if (!address || !*address)
		return missing;
	if (inet_pton(AF_INET, address, &v4) == 1)
		return v4_wrong(&v4);
	if (inet_pton(AF_INET6, address, &v6) == 1)
		return v6_wrong(&v6, address);
	return "is no numerical address";
}

/* ---- CHAP ---- */

const char *iser_user_wrong(const char *user)
{
	if (!user || !*user)
		return missing;
	if (strlen(user) > USER_MAX)
		return "is longer than 255 bytes";
	for (const char *s = user; *s; s++)
		if (*s <= ' ' || *s > '~' || *s == ',')
			return "has a blank, a comma or what is not ASCII in it";
	/* iscsi_target_configfs.c: the value that clears it. */
	if (!strncmp(user, "NULL", strlen("NULL")))
		return "begins with \"NULL\", which is LIO's word for none";
	return NULL;
}
