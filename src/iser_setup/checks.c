// SPDX-License-Identifier: Apache-2.0
/* What the host must have. */
#include "iser_setup/checks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define MODULES "/sys/module"
#define CONFIGFS "/sys/kernel/config"
#define CONFIGFS_MAGIC 0x62656570
#define FABRIC CONFIGFS "/target/iscsi"
#define NUMACTL "numactl"
#define BUS "/run/dbus/system_bus_socket"

/* ---- modules ---- */

static bool is_loaded(const char *module)
{
	char path[128];

	snprintf(path, sizeof(path), MODULES "/%s", module);
	return !access(path, F_OK);
}

/* modprobe is content with what is built in. */
static void check_module(const struct checks *c, const char *module, bool load)
{
	char *const words[] = {
		(char *)"modprobe", (char *)"-q", (char *)(load ? "--" : "-n"), (char *)module,
		NULL,
	};
	struct child_said said = { 0 };
	struct err e = ERR_INIT;
	struct stop stop;

	if (is_loaded(module))
		return;
	stop_begin(&stop);
	if (child_run(words, -1, &stop, &said, &e))
		lines_add(c->problems, "the kernel's module %s is not loaded: %s", module, e.text);
	else if (said.status)
		lines_add(c->problems, "the kernel's module %s cannot be loaded: is it in the "
			  "package of this kernel's modules (Debian linux-image, RHEL "
			  "kernel-modules-extra), and not forbidden in /etc/modprobe.d?", module);
	stop_end(&stop);
	child_clear(&said);
}

static bool has_kind(const struct iser_plan *p, const char *plugin)
{
	for (size_t i = 0; i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_stores; k++)
			if (!strcmp(iser_store_plugin(&p->targets[i].stores[k]), plugin))
				return true;
	return false;
}

static bool has_iser(const struct iser_plan *p)
{
	for (size_t i = 0; i < p->n_targets; i++)
		for (size_t k = 0; k < p->targets[i].n_portals; k++)
			if (p->targets[i].portals[k].iser)
				return true;
	return false;
}

static void check_modules(const struct checks *c, bool load)
{
	check_module(c, "target_core_mod", load);
	if (has_kind(c->plan, "fileio"))
		check_module(c, "target_core_file", load);
	if (has_kind(c->plan, "iblock"))
		check_module(c, "target_core_iblock", load);
	check_module(c, "iscsi_target_mod", load);
	if (has_iser(c->plan))
		check_module(c, "ib_isert", load);
}

/* ---- configfs ---- */

static void check_configfs(const struct checks *c)
{
	struct statfs fs;
	bool there = !statfs(CONFIGFS, &fs) && fs.f_type == CONFIGFS_MAGIC;

	if (!there)
		there = !mount("configfs", CONFIGFS, "configfs", 0, NULL);
	if (!there) {
		lines_add(c->problems, "configfs cannot be mounted at " CONFIGFS ": %s",
			  strerror(errno));
		return;
	}
	/* With it the fabric's list of CPUs is there to be read. */
	if (mkdir(FABRIC, 0755) && errno != EEXIST)
		lines_add(c->problems, FABRIC ": %s: is the module iscsi_target_mod loaded?",
			  strerror(errno));
}

/* ---- programs ---- */

static bool in_path(const char *program)
{
	const char *env = getenv("PATH");
	CLEANUP_FREE char *dirs = strdup(env ? env : "");
	char *rest = dirs, *dir;

	while (rest && (dir = strsep(&rest, ":"))) {
		CLEANUP_FREE char *path = NULL;

		if (asprintf(&path, "%s/%s", dir, program) < 0)
			path = NULL;
		if (path && !access(path, X_OK))
			return true;
	}
	return false;
}

void check_tools(const struct checks *c, struct carry *carry)
{
	struct err e = ERR_INIT;

	if (carry_ready(carry, &e))
		lines_add(c->problems, "%s", e.text);
	if (c->plan && !in_path(NUMACTL))
		lines_add(c->problems, NUMACTL " is missing, which places back stores: install the "
			  "package numactl");
	if (access(BUS, F_OK))
		log_debug("no system bus is running (dbus): targetcli does not start without one; "
			  "rftp-iser needs none");
}

void check_kernel(const struct checks *c, bool load)
{
	check_modules(c, load);
	if (!c->problems->n && load)
		check_configfs(c);
}
