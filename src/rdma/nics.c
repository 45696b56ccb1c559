// SPDX-License-Identifier: Apache-2.0
/* What the rest of the program sees of RDMA: endpoints, and which addresses have a device. */
#include "rdma/endpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <net/if.h>
#include <glob.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Of what is there in /dev/infiniband by the name pattern we may not use anything. */
static bool is_forbidden(const char *pattern)
{
	bool forbidden = false;
	glob_t g;

	if (glob(pattern, GLOB_NOSORT, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		forbidden = faccessat(AT_FDCWD, g.gl_pathv[i], R_OK | W_OK, AT_EACCESS) < 0;
		if (!forbidden)
			break;
	}
	globfree(&g);
	return forbidden;
}

bool rd_devices_forbidden(void)
{
	return is_forbidden("/dev/infiniband/uverbs*");
}

int rd_no_events(int r, struct err *e)
{
	if (is_forbidden("/dev/infiniband/rdma_cm"))
		return err_set(e, -EACCES, "/dev/infiniband/rdma_cm may not be used by this user");
	if (r == -ENOENT || r == -ENODEV || r == -ENOSYS)
		return err_set(e, r, "this kernel has no RDMA connections: load rdma_ucm (and, "
			       "without an RDMA card, see scripts/softroce)");
	return err_sys(e, r, "RDMA connections");
}

/* ---- which device has an address ---- */

/* Asked of sysfs: rdma_cm would open the device, and one that is open, be it used or not,
 * cannot be removed under some drivers. */

#define EMPTY_GIDS 8 /* so many in a row: the table's end, as far as it is used */

/* A GID as sysfs writes it: eight groups of four digits. */
static bool read_gid(int port, unsigned index, uint8_t gid[16])
{
	char name[32], text[40];
	unsigned g[8];
	ssize_t n;
	int fd CLEANUP_CLOSE = -1;

	snprintf(name, sizeof(name), "gids/%u", index);
	fd = openat(port, name, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n < 0)
		return false;
	text[n] = '\0';
	if (sscanf(text, "%4x:%4x:%4x:%4x:%4x:%4x:%4x:%4x", &g[0], &g[1], &g[2], &g[3], &g[4],
		   &g[5], &g[6], &g[7]) != 8)
		return false;
	for (int i = 0; i < 8; i++) {
		gid[2 * i] = (uint8_t)(g[i] >> 8);
		gid[2 * i + 1] = (uint8_t)g[i];
	}
	return true;
}

/* RoCE: an address is a GID, IPv4 as IPv6 maps it. */
static void gid_of(const struct sockaddr_storage *a, uint8_t gid[16])
{
	memset(gid, 0, 16);
	if (a->ss_family == AF_INET6) {
		memcpy(gid, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
		return;
	}
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
}

static bool port_has(int ports, const char *name, const uint8_t want[16])
{
	static const uint8_t none[16];
	unsigned empty = 0;
	uint8_t gid[16];
	int port CLEANUP_CLOSE = openat(ports, name, O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (unsigned i = 0; port >= 0 && empty < EMPTY_GIDS && read_gid(port, i, gid); i++) {
		empty = memcmp(gid, none, sizeof(gid)) ? 0 : empty + 1;
		if (!empty && !memcmp(gid, want, sizeof(gid)))
			return true;
	}
	return false;
}

/* The first name in the directory at path, below it, that fits; "": none. */
static void find_name(int at, const char *path, bool (*fits)(int dir, const char *, const void *),
		      const void *arg, char name[NIC_DEVICE_NAME])
{
	int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	name[0] = '\0';
	if (!d) {
		cleanup_close(&fd);
		return;
	}
	while (!name[0] && (e = readdir(d)))
		if (e->d_name[0] != '.' && fits(fd, e->d_name, arg))
			snprintf(name, NIC_DEVICE_NAME, "%.*s", NIC_DEVICE_NAME - 1, e->d_name);
	closedir(d);
}

static bool is_port(int dir, const char *name, const void *gid)
{
	return port_has(dir, name, gid);
}

static bool is_device(int dir, const char *name, const void *gid)
{
	char path[NAME_MAX + 8], port[NIC_DEVICE_NAME];

	snprintf(path, sizeof(path), "%s/ports", name);
	find_name(dir, path, is_port, gid, port);
	return port[0];
}

static bool is_any(int dir, const char *name, const void *arg)
{
	(void)dir;
	(void)name;
	(void)arg;
	return true;
}

/* IPoIB: GIDs are not addresses, but the interface names its device. */
static void device_below(int sys, const char *ifname, char name[NIC_DEVICE_NAME])
{
	char path[64 + IFNAMSIZ];

	snprintf(path, sizeof(path), "class/net/%.*s/device/infiniband", IFNAMSIZ, ifname);
	find_name(sys, path, is_any, NULL, name);
}

int rd_device_of(const char *sysfs, const struct sockaddr_storage *a, const char *ifname,
		 char name[NIC_DEVICE_NAME], struct err *why)
{
	int sys CLEANUP_CLOSE = open(sysfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	uint8_t gid[16];

	name[0] = '\0';
	find_name(sys, "class/infiniband", is_any, NULL, name);
	if (sys < 0 || !name[0])
		return err_set(why, -ENODEV, "there is no RDMA device here (without a card, see "
			       "scripts/softroce)");
	gid_of(a, gid);
	find_name(sys, "class/infiniband", is_device, gid, name);
	if (!name[0])
		device_below(sys, ifname, name);
	return name[0] != '\0';
}

int verbs_device(const struct sockaddr_storage *a, const char *ifname,
		 char name[NIC_DEVICE_NAME], struct err *why)
{
	return rd_device_of("/sys", a, ifname, name, why);
}

struct endpoint *verbs_endpoint(const struct endpoint_config *c, struct err *e)
{
	return rd_endpoint_new(c, &verbs_real, e);
}

const struct device_transport verbs_transport = {
	.endpoint = verbs_endpoint,
	.device = verbs_device,
};
