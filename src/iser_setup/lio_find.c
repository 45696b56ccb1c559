// SPDX-License-Identifier: Apache-2.0
/* One of what LIO has. */
#include "iser_setup/lio.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <string.h>

const struct lio_store *lio_store(const struct lio *l, const char *plugin, const char *name)
{
	for (size_t i = 0; i < l->n_stores; i++)
		if (!strcmp(l->stores[i].plugin, plugin) && !strcmp(l->stores[i].name, name))
			return &l->stores[i];
	return NULL;
}

const struct lio_target *lio_target(const struct lio *l, const char *iqn)
{
	const struct lio_target *first = NULL;

	for (size_t i = 0; i < l->n_targets; i++) {
		const struct lio_target *t = &l->targets[i];

		if (strcmp(t->iqn, iqn))
			continue;
		if (t->tag == LIO_TAG)
			return t;
		first = first ? first : t;
	}
	return first;
}

/* An address in its bytes; false: it is none, or has a scope, and its text is all there is. */
static bool bytes_of(const char *address, int *family, unsigned char bytes[16])
{
	static const int families[] = { AF_INET, AF_INET6 };

	memset(bytes, 0, 16);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (inet_pton(families[i], address, bytes) == 1) {
			*family = families[i];
			return true;
		}
	return false;
}

bool lio_same_address(const char *a, const char *b)
{
	unsigned char of_a[16], of_b[16];
	int family_a, family_b;

	if (!bytes_of(a, &family_a, of_a) || !bytes_of(b, &family_b, of_b))
		return !strcmp(a, b);
	return family_a == family_b && !memcmp(of_a, of_b, sizeof(of_a));
}

const struct lio_portal *lio_portal(const struct lio_target *t, const char *address, unsigned port)
{
	for (size_t i = 0; i < t->n_portals; i++)
		if (t->portals[i].port == port && lio_same_address(t->portals[i].address, address))
			return &t->portals[i];
	return NULL;
}

const struct lio_lun *lio_lun(const struct lio_target *t, unsigned lun)
{
	for (size_t i = 0; i < t->n_luns; i++)
		if (t->luns[i].lun == lun)
			return &t->luns[i];
	return NULL;
}

bool lio_given(const struct lio_acl *a, unsigned lun)
{
	for (size_t i = 0; i < a->n_mapped; i++)
		if (a->mapped[i].lun == lun)
			return true;
	return false;
}

const struct lio_acl *lio_acl(const struct lio_target *t, const char *initiator)
{
	for (size_t i = 0; i < t->n_acls; i++)
		if (!strcmp(t->acls[i].initiator, initiator))
			return &t->acls[i];
	return NULL;
}

/* The last one hides those mounted there before. */
const struct tmpfs_mount *lio_mount(const struct lio *l, const char *path)
{
	for (size_t i = l->n_mounts; i-- > 0;)
		if (!strcmp(l->mounts[i].path, path))
			return &l->mounts[i];
	return NULL;
}

int lio_attribute(const char *dir, const char *name, unsigned long long *value)
{
	CLEANUP_FREE char *attributes = cfs_path(dir, "attrib"), *path = NULL, *text = NULL;
	char *end;
	int r;

	if (!*name || strchr(name, '/') || *name == '.')
		return -EINVAL;
	path = attributes ? cfs_path(attributes, name) : NULL;
	if (!path)
		return -ENOMEM;
	r = read_file(path, LIO_ATTRIBUTE_MAX, &text, NULL);
	if (r)
		return r == -ENOMEM ? r : r == -ENOENT ? -ENOENT : -EINVAL;
	if (!isdigit((unsigned char)*text))
		return -EINVAL;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno || end[strspn(end, "\n")] ? -EINVAL : 0;
}
