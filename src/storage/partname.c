// SPDX-License-Identifier: Apache-2.0
/* The names of part files and journals: of fixed length, from the target's name. */
#include "storage/part.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#define PREFIX_LEN (sizeof(PART_PREFIX) - 1)
#define HEX_LEN (2 * NAME_HASH_BYTES)

static const char journal_suffix[] = ".j", link_suffix[] = ".l";

void name_hash(uint8_t hash[NAME_HASH_BYTES], const char *name)
{
	crypto_run_digest(hash, name, strlen(name));
}

void part_name(char part[PART_NAME_MAX], const char *name)
{
	static const char digits[] = "0123456789abcdef";
	uint8_t hash[NAME_HASH_BYTES];
	char *at = part + PREFIX_LEN;

	name_hash(hash, name);
	memcpy(part, PART_PREFIX, PREFIX_LEN);
	for (size_t i = 0; i < sizeof(hash); i++) {
		*at++ = digits[hash[i] >> 4];
		*at++ = digits[hash[i] & 15];
	}
	*at = '\0';
}

void journal_name(char journal[PART_NAME_MAX], const char *name)
{
	part_name(journal, name);
	memcpy(journal + PREFIX_LEN + HEX_LEN, journal_suffix, sizeof(journal_suffix));
}

void link_temporary(char temporary[PART_NAME_MAX], const char *part)
{
	memcpy(temporary, part, PREFIX_LEN + HEX_LEN);
	memcpy(temporary + PREFIX_LEN + HEX_LEN, link_suffix, sizeof(link_suffix));
}

void part_of(char part[PART_NAME_MAX], const char *name)
{
	memcpy(part, name, PREFIX_LEN + HEX_LEN);
	part[PREFIX_LEN + HEX_LEN] = '\0';
}

const char *part_tail(const char *name)
{
	if (strncmp(name, PART_PREFIX, PREFIX_LEN) != 0 ||
	    strspn(name + PREFIX_LEN, "0123456789abcdef") != HEX_LEN)
		return NULL;
	return name + PREFIX_LEN + HEX_LEN;
}

bool part_is_ours(const char *name)
{
	const char *tail = part_tail(name);

	return tail && (!*tail || !strcmp(tail, journal_suffix) || !strcmp(tail, link_suffix));
}

bool part_in_path(const char *path)
{
	char name[PART_NAME_MAX];

	while (*path) {
		size_t n = strcspn(path, "/");

		if (n < sizeof(name)) {
			memcpy(name, path, n);
			name[n] = '\0';
			if (part_is_ours(name))
				return true;
		}
		path += n;
		path += strspn(path, "/");
	}
	return false;
}

int part_name_err(struct err *e, int r, const struct part_spec *s)
{
	if (r == -EBUSY)
		return part_err(e, r, s, "another transfer is writing it");
	if (r == -EEXIST && s->keep_old)
		return part_err(e, -EPERM, s, "exists, and may not be replaced");
	if (r == -EEXIST || r == -EISDIR)
		return part_err(e, r, s, "cannot be replaced by a file");
	return r ? part_err(e, r, s, "cannot get its name") : 0;
}

int part_err(struct err *e, int code, const struct part_spec *s, const char *what)
{
	char *path CLEANUP_FREE = dir_path(s->dir, s->name);

	return err_sys(e, code, "%s: %s", printable(path ? path : s->name), what);
}

int part_check_name(const struct part_spec *s, struct err *e)
{
	const char *n = s->name;

	if (strlen(n) > NAME_MAX)
		return part_err(e, -ENAMETOOLONG, s, "cannot be written");
	if (!*n || strchr(n, '/') || strcmp(n, ".") == 0 || strcmp(n, "..") == 0)
		return part_err(e, -EINVAL, s, "is no name of a file");
	if (part_is_ours(n))
		return part_err(e, -EINVAL, s, PART_NAME_WHY);
	return 0;
}
