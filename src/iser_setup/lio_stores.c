// SPDX-License-Identifier: Apache-2.0
/* Back stores, as target/core has them: <plugin>_<n>/<name>. */
#include "iser_setup/lio.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

#define SERIAL_LABEL "Unit Serial Number: "
#define BUFFERED "Buffered-WCE"
#define SECTOR 512u /* what sysfs counts devices in, whatever theirs are */

/* What is behind the last label in info: before it may be a path, which may be anything. NULL:
 * it is not there. */
static const char *behind(const char *info, const char *label)
{
	const char *at = NULL;

	for (const char *p = info; (p = strstr(p, label)); p++)
		at = p + strlen(label);
	return at;
}

static bool labelled(const char *info, const char *label, unsigned long long *value)
{
	const char *at = behind(info, label);

	return at && sscanf(at, "%llu", value) == 1;
}

/* ---- what is particular to a plugin ---- */

/* O_DSYNC, or the page cache. */
static void read_fileio(const char *info, struct lio_store *s)
{
	const char *mode = behind(info, " Mode: ");
	unsigned long long size = 0;

	labelled(info, " Size: ", &size);
	s->size = size;
	s->write_back = mode && !strncmp(mode, BUFFERED, strlen(BUFFERED));
}

/* The kernel tells no path when none was told to it, but the file it has. */
static int file_of_info(const char *info, struct lio_store *s)
{
	const char *from = strstr(info, " File: "), *size = behind(info, "  Size: ");

	if (*s->path || !from || !size)
		return 0;
	from += strlen(" File: ");
	free(s->path);
	s->path = strndup(from, (size_t)(size - strlen("  Size: ") - from));
	return s->path ? 0 : -ENOMEM;
}

/* Of the device or, for a partition, of its disk. */
static char *write_cache(const char *device)
{
	char *says = cfs_text(device, "queue/write_cache");

	if (!says || *says)
		return says;
	free(says);
	return cfs_text(device, "../queue/write_cache");
}

static int read_iblock(const char *info, struct lio_store *s)
{
	const char *sysfs = getenv("RFTP_SYSFS");
	CLEANUP_FREE char *cache = NULL;
	unsigned long long major, minor;
	char device[PATH_MAX];

	if (!labelled(info, "Major: ", &major) || !labelled(info, "Minor: ", &minor) || !major)
		return 0;
	s->device = makedev((unsigned)major, (unsigned)minor);
	snprintf(device, sizeof(device), "%s/dev/block/%llu:%llu", sysfs ? sysfs : "/sys", major,
		 minor);
	s->size = cfs_number(device, "size") * SECTOR;
	cache = write_cache(device);
	s->write_back = cache && !strcmp(cache, "write back");
	return cache ? 0 : -ENOMEM;
}

static void read_ramdisk(const char *info, struct lio_store *s)
{
	const char *at = strstr(info, "PAGES/PAGE_SIZE: ");
	unsigned long long pages, page, cache = 0;

	if (at && sscanf(at, "PAGES/PAGE_SIZE: %llu*%llu", &pages, &page) == 2)
		s->size = pages * page;
	s->write_back = !lio_attribute(s->dir, "emulate_write_cache", &cache) && cache;
}

static int read_particular(const char *info, struct lio_store *s)
{
	if (!strcmp(s->plugin, "fileio")) {
		read_fileio(info, s);
		return file_of_info(info, s);
	}
	if (!strcmp(s->plugin, "iblock"))
		return read_iblock(info, s);
	if (!strcmp(s->plugin, "rd_mcp"))
		read_ramdisk(info, s);
	return 0;
}

/* ---- all ---- */

static char *read_serial(const char *dir)
{
	char *said = cfs_text(dir, "wwn/vpd_unit_serial");
	const char *at = said ? strstr(said, SERIAL_LABEL) : NULL;

	if (said)
		memmove(said, at ? at + strlen(SERIAL_LABEL) : "",
			at ? strlen(at) - strlen(SERIAL_LABEL) + 1 : 1);
	return said;
}

struct reading {
	struct lio *lio;
	const char *hba; /* "fileio_0" */
};

static int read_store(void *context, const char *path, const char *name)
{
	const struct reading *r = context;
	struct lio_store *s = iser_plan_add(r->lio->stores, r->lio->n_stores);
	CLEANUP_FREE char *info = cfs_text(path, "info");

	if (!s || !info)
		return -ENOMEM;
	s->plugin = strndup(r->hba, (size_t)(strrchr(r->hba, '_') - r->hba));
	s->name = strdup(name);
	s->dir = strdup(path);
	s->path = cfs_text(path, "udev_path");
	s->enabled = cfs_number(path, "enable") != 0;
	s->serial = s->enabled ? read_serial(path) : strdup("");
	if (!s->plugin || !s->name || !s->dir || !s->path || !s->serial)
		return -ENOMEM;
	return read_particular(info, s);
}

/* "alua" is no plugin. */
static int read_hba(void *context, const char *path, const char *name)
{
	struct reading r = { .lio = context, .hba = name };
	const char *number = strrchr(name, '_');
	unsigned n;

	if (!number || number == name || !cfs_numbered(number, "_", UINT_MAX, &n))
		return 0;
	return cfs_dirs(path, read_store, &r);
}

int lio_read_stores(const char *target, struct lio *l)
{
	CLEANUP_FREE char *core = cfs_path(target, "core");

	return core ? cfs_dirs(core, read_hba, l) : -ENOMEM;
}
