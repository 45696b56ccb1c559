// SPDX-License-Identifier: Apache-2.0
/* class/iscsi_session, and what hangs below. */
#include "iser_setup/sessions.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SECTOR 512u
#define LINE_MAX_BYTES 4096u
#define PAGE_HEAD 4u /* SPC-4 §7.8: in front of a page of vital product data */

/* ---- sysfs ---- */

const char *sysfs_or(const char *sysfs)
{
	const char *own = getenv("RFTP_SYSFS");

	if (sysfs)
		return sysfs;
	return own && *own ? own : "/sys";
}

void sysfs_text(const char *sysfs, char *out, size_t room, const char *fmt, ...)
{
	CLEANUP_FREE char *text = NULL;
	char below[PATH_MAX], path[PATH_MAX + 256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(below, sizeof(below), fmt, args);
	va_end(args);
	snprintf(path, sizeof(path), "%s/%s", sysfs_or(sysfs), below);
	*out = '\0';
	if (read_file(path, LINE_MAX_BYTES, &text, NULL))
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(out, room, "%s", text);
}

static uint64_t sysfs_number(const char *sysfs, const char *below, const char *file)
{
	char text[32];
	uint64_t v;

	sysfs_text(sysfs, text, sizeof(text), "%s/%s", below, file);
	return parse_uint(text, 0, UINT64_MAX, &v) ? 0 : v;
}

typedef int entry_fn(const char *sysfs, const char *path, const char *name, void *arg);

/* fn for each entry of sysfs/path that begins with prefix. */
static int each_entry(const char *sysfs, const char *path, const char *prefix, entry_fn *fn,
		      void *arg)
{
	char dir[PATH_MAX + 256];
	struct dirent *d;
	DIR *dirp;
	int r = 0;

	snprintf(dir, sizeof(dir), "%s/%s", sysfs_or(sysfs), path);
	dirp = opendir(dir);
	if (!dirp)
		return errno == ENOENT ? 0 : -errno;
	while (!r && (d = readdir(dirp)))
		if (*d->d_name != '.' && !strncmp(d->d_name, prefix, strlen(prefix)))
			r = fn(sysfs, path, d->d_name, arg);
	closedir(dirp);
	return r;
}

/* ---- disks ---- */

struct finding {
	struct session *session;
	unsigned lun;
	char serial[SERIAL_ROOM];
};

/* The page "unit serial number", which the kernel keeps as it came. */
static void take_serial(const char *sysfs, const char *device, char serial[SERIAL_ROOM])
{
	CLEANUP_FREE char *page = NULL;
	char path[PATH_MAX + 256];
	size_t len = 0, n;

	snprintf(path, sizeof(path), "%s/%s/vpd_pg80", sysfs_or(sysfs), device);
	*serial = '\0';
	if (read_file(path, LINE_MAX_BYTES, &page, &len) || len <= PAGE_HEAD)
		return;
	n = strnlen(page + PAGE_HEAD, len - PAGE_HEAD);
	while (n && page[PAGE_HEAD + n - 1] == ' ')
		n--;
	if (n < SERIAL_ROOM)
		snprintf(serial, SERIAL_ROOM, "%.*s", (int)n, page + PAGE_HEAD);
}

static int take_disk(const char *sysfs, const char *path, const char *name, void *arg)
{
	struct finding *f = arg;
	struct session *s = f->session;
	struct session_disk *d;
	char below[PATH_MAX + DISK_ROOM];

	if (strlen(name) >= DISK_ROOM)
		return 0;
	snprintf(below, sizeof(below), "%s/%s", path, name);
	d = iser_plan_add(s->disks, s->n_disks);
	if (!d)
		return -ENOMEM;
	*d = (struct session_disk){ .lun = f->lun,
				    .size = sysfs_number(sysfs, below, "size") * SECTOR };
	snprintf(d->name, sizeof(d->name), "%s", name);
	memcpy(d->serial, f->serial, sizeof(d->serial));
	return 0;
}

/* "5:0:0:1" is a device of LUN 1; of type 0 it is a disk. */
static int take_device(const char *sysfs, const char *path, const char *name, void *arg)
{
	struct finding f = { .session = arg };
	char below[PATH_MAX], type[8];
	unsigned h, c, t;

	if (sscanf(name, "%u:%u:%u:%u", &h, &c, &t, &f.lun) != 4)
		return 0;
	sysfs_text(sysfs, type, sizeof(type), "%s/%s/type", path, name);
	if (strcmp(type, "0"))
		return 0;
	f.session->luns++;
	if (snprintf(below, sizeof(below), "%s/%s", path, name) >= (int)sizeof(below))
		return 0;
	take_serial(sysfs, below, f.serial);
	if (snprintf(below, sizeof(below), "%s/%s/block", path, name) >= (int)sizeof(below))
		return 0;
	return each_entry(sysfs, below, "", take_disk, &f);
}

static int take_scsi_target(const char *sysfs, const char *path, const char *name, void *arg)
{
	char below[PATH_MAX];

	if (snprintf(below, sizeof(below), "%s/%s", path, name) >= (int)sizeof(below))
		return 0;
	return each_entry(sysfs, below, "", take_device, arg);
}

static int by_lun(const void *a, const void *b)
{
	const struct session_disk *one = a, *other = b;

	return one->lun < other->lun ? -1 : one->lun > other->lun;
}

/* ---- sessions ---- */

/* The number of the host whose directory sysfs/path/device is in; -1. */
static int host_of(const char *sysfs, const char *path)
{
	char link[PATH_MAX + 256], real[PATH_MAX], *at;
	int host = -1;

	snprintf(link, sizeof(link), "%s/%s/device", sysfs_or(sysfs), path);
	if (!realpath(link, real))
		return -1;
	/* The last one: the card that it is on may be below one of its own. */
	for (at = strstr(real, "/host"); at; at = strstr(at + 1, "/host"))
		if (sscanf(at, "/host%d/", &host) != 1)
			host = -1;
	return host;
}

static int take_connection(const char *sysfs, const char *path, const char *name, void *arg)
{
	struct session *s = arg;
	char port[16];
	uint64_t v;

	(void)path;
	sysfs_text(sysfs, s->portal.address, sizeof(s->portal.address),
		   "class/iscsi_connection/%s/persistent_address", name);
	sysfs_text(sysfs, port, sizeof(port), "class/iscsi_connection/%s/persistent_port", name);
	if (!parse_uint(port, 1, UINT16_MAX, &v))
		s->portal.port = (unsigned)v;
	return 0;
}

/* The driver tells its name, "iscsi_iser"; what the record wishes for is something else. */
static void take_transport(const char *sysfs, struct session *s)
{
	static const char prefix[] = "iscsi_";
	char text[32];

	sysfs_text(sysfs, text, sizeof(text), "class/scsi_host/host%u/proc_name", s->host);
	snprintf(s->transport, sizeof(s->transport), "%.15s",
		 strncmp(text, prefix, strlen(prefix)) ? text : text + strlen(prefix));
}

static int take_session(const char *sysfs, const char *path, const char *name, void *arg)
{
	struct sessions *all = arg;
	char below[PATH_MAX], connection[40];
	struct session *s;
	unsigned id;
	int host;

	if (sscanf(name, "session%u", &id) != 1)
		return 0;
	snprintf(below, sizeof(below), "%s/%s", path, name);
	host = host_of(sysfs, below);
	if (host < 0)
		return 0; /* it has just gone */
	s = iser_plan_add(all->v, all->n);
	if (!s)
		return -ENOMEM;
	s->id = id;
	s->host = (unsigned)host;
	sysfs_text(sysfs, s->iqn, sizeof(s->iqn), "%s/targetname", below);
	sysfs_text(sysfs, s->state, sizeof(s->state), "%s/state", below);
	sysfs_text(sysfs, s->iface, sizeof(s->iface), "%s/ifacename", below);
	take_transport(sysfs, s);
	snprintf(connection, sizeof(connection), "connection%u:", id);
	if (each_entry(sysfs, "class/iscsi_connection", connection, take_connection, s))
		return -EIO;
	strcat(below, "/device");
	if (each_entry(sysfs, below, "target", take_scsi_target, s))
		return -ENOMEM;
	if (s->n_disks)
		qsort(s->disks, s->n_disks, sizeof(*s->disks), by_lun);
	return 0;
}

int sessions_read(const char *sysfs, struct sessions *s, struct err *e)
{
	int r;

	*s = (struct sessions){ 0 };
	r = each_entry(sysfs, "class/iscsi_session", "session", take_session, s);
	return r ? err_sys(e, r, "the sessions in %s", printable(sysfs_or(sysfs))) : 0;
}

void sessions_clear(struct sessions *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].disks);
	free(s->v);
	*s = (struct sessions){ 0 };
}

const struct session *sessions_find(const struct sessions *s, const char *iqn)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].iqn, iqn))
			return &s->v[i];
	return NULL;
}

const struct session *sessions_at(const struct sessions *s, const char *iqn,
				  const struct login_portal *p, enum login_transport transport)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->v[i].iqn, iqn) && login_same_portal(&s->v[i].portal, p) &&
		    !strcmp(s->v[i].iface, login_ifaces[transport]))
			return &s->v[i];
	return NULL;
}

/* ---- names ---- */

/* The first name in dev/disk/KIND, by the alphabet, that begins with prefix and leads to name. */
static bool named(const char *dev, const char *kind, const char *prefix, const char *name,
		  char out[256])
{
	char dir[128], path[PATH_MAX], real[PATH_MAX];
	struct dirent **list;
	bool found = false;
	int n;

	snprintf(dir, sizeof(dir), "%s/disk/%s", dev, kind);
	n = scandir(dir, &list, NULL, alphasort);
	for (int i = 0; i < n; i++) {
		const char *slash;

		snprintf(path, sizeof(path), "%s/%s", dir, list[i]->d_name);
		slash = !found && !strncmp(list[i]->d_name, prefix, strlen(prefix)) &&
			realpath(path, real) ? strrchr(real, '/') : NULL;
		if (slash && !strcmp(slash + 1, name) && strlen(path) < 256) {
			strcpy(out, path);
			found = true;
		}
		free(list[i]);
	}
	if (n >= 0)
		free(list);
	return found;
}

const char *disk_path(const char *dev, const char *name, char out[256])
{
	static const struct { const char *kind, *prefix; } kinds[] = {
		{ "by-id", "wwn-" }, { "by-id", "scsi-" }, { "by-path", "" },
	};

	dev = dev ? dev : "/dev";
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (named(dev, kinds[i].kind, kinds[i].prefix, name, out))
			return out;
	snprintf(out, 256, "%s/%s", dev, name);
	return out;
}

void session_rescan(const char *sysfs, const struct session *s)
{
	static const char all[] = "- - -"; /* channels, targets, LUNs */
	CLEANUP_CLOSE int fd = -1;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%.2000s/class/scsi_host/host%u/scan", sysfs_or(sysfs),
		 s->host);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0)
		(void)!write(fd, all, sizeof(all) - 1);
}

bool disk_is_there(const char *path)
{
	CLEANUP_CLOSE int fd = -1;
	struct stat st;

	if (stat(path, &st) || !S_ISBLK(st.st_mode))
		return false;
	/* devtmpfs has the name a little before the kernel lets anybody in. */
	fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	return fd >= 0;
}
