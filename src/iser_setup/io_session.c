// SPDX-License-Identifier: Apache-2.0
/* iscsiadm is told, sysfs is looked at. An interface of open-iscsi's, made for this session,
 * carries the initiator name, so that the host's own does not change. */
#include "iser_setup/io_session.h"

#include "iser_setup/card.h"
#include "iser_setup/prepare.h"
#include "iser_setup/run.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DISK_WAIT_MS 30000
#define STEP_MS 50
#define IFACE "rftp-verify-io" /* one test at a time has it */
#define TEXT_MAX 4096u

/* ---- iscsiadm ---- */

static int set_iface(const struct io_session *s, const char *name, const char *value,
		     struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "update",
				      "-n", name, "-v", value, NULL };

	return run_words(s->stop, NULL, e, words);
}

static int set_node(const struct io_session *s, const char *name, const char *value,
		    struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", s->iqn, "-p", s->address,
				      "-I", IFACE, "-o", "update", "-n", name, "-v", value, NULL };

	return run_words(s->stop, NULL, e, words);
}

/* One that a killed test has left goes first. */
static int make_iface(struct io_session *s, struct err *e)
{
	const char *const gone[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete", NULL };
	const char *const words[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "new", NULL };
	struct err none = ERR_INIT;
	int r;

	if (run_words(s->stop, NULL, &none, gone) == -EINTR)
		return err_set(e, -EINTR, "stopped by a signal");
	r = run_words(s->stop, NULL, e, words);
	if (r)
		return r;
	s->iface_made = true;
	r = set_iface(s, "iface.transport_name", "iser", e);
	return r ? r : set_iface(s, "iface.initiatorname", s->initiator, e);
}

/* Whatever iscsid.conf says for others. */
static int make_node(struct io_session *s, struct err *e)
{
	static const struct { const char *name, *value; } settings[] = {
		{ "node.startup", "manual" }, { "node.session.auth.authmethod", "None" },
		{ "node.session.initial_login_retry_max", "1" },
		{ "node.session.scan", "auto" },
	};
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", s->iqn, "-p", s->address,
				      "-I", IFACE, "-o", "new", NULL };
	int r = run_words(s->stop, NULL, e, words);

	if (r)
		return r;
	s->node_made = true;
	for (size_t i = 0; !r && i < sizeof(settings) / sizeof(settings[0]); i++)
		r = set_node(s, settings[i].name, settings[i].value, e);
	return r;
}

static int log_in(const struct io_session *s, struct err *e)
{
	const char *const words[] = { "iscsiadm", "-m", "node", "-T", s->iqn, "-p", s->address,
				      "-I", IFACE, "--login", NULL };

	return run_words(s->stop, NULL, e, words);
}

/* ---- sysfs ---- */

/* The first name in dir that begins so, into name. */
static bool first_in(const char *dir, const char *prefix, char name[NAME_MAX + 1])
{
	struct dirent *entry;
	DIR *d = opendir(dir);

	*name = '\0';
	while (d && !*name && (entry = readdir(d)))
		if (entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix)))
			snprintf(name, NAME_MAX + 1, "%s", entry->d_name);
	if (d)
		closedir(d);
	return *name;
}

/* dir becomes the first one in it that begins so. */
static bool descend(char dir[PATH_MAX], const char *prefix)
{
	char name[NAME_MAX + 1];
	size_t n = strlen(dir);

	if (!first_in(dir, prefix, name) || n + strlen(name) + 2 > PATH_MAX)
		return false;
	snprintf(dir + n, PATH_MAX - n, "/%s", name);
	return true;
}

static bool holds(const char *path, const char *text)
{
	char *is = NULL;
	size_t len = 0;
	bool found = !read_file(path, TEXT_MAX, &is, &len) && memmem(is, len, text, strlen(text));

	free(is);
	return found;
}

/* The session's directory below class/iscsi_session. */
static bool find_session(const char *iqn, char dir[PATH_MAX])
{
	char classes[PATH_MAX - NAME_MAX - 16], path[PATH_MAX];
	struct dirent *entry;
	bool found = false;
	DIR *d;

	snprintf(classes, sizeof(classes), "%s/class/iscsi_session", host_dirs().sysfs);
	d = opendir(classes);
	while (d && !found && (entry = readdir(d))) {
		char line[IO_NAME_ROOM + 1];

		snprintf(line, sizeof(line), "%s\n", iqn);
		snprintf(path, sizeof(path), "%s/%s/targetname", classes, entry->d_name);
		found = entry->d_name[0] != '.' && holds(path, line);
		if (found)
			snprintf(dir, PATH_MAX, "%s/%s/device", classes, entry->d_name);
	}
	if (d)
		closedir(d);
	return found;
}

static void find_transport(struct io_session *s, const char *disk)
{
	CLEANUP_FREE char *text = NULL;
	char path[PATH_MAX];
	unsigned host;

	if (sscanf(strrchr(disk, '/') + 1, "%u:", &host) != 1)
		return;
	snprintf(path, sizeof(path), "%s/class/scsi_host/host%u/proc_name", host_dirs().sysfs,
		 host);
	if (read_file(path, TEXT_MAX, &text, NULL))
		return;
	text[strcspn(text, "\n")] = '\0';
	snprintf(s->transport, sizeof(s->transport), "%.31s", text);
}

/* -EAGAIN: it is not there yet. What has another serial is somebody's disk. */
static int find_disk(struct io_session *s, struct err *e)
{
	char dir[PATH_MAX], disk[PATH_MAX], page[PATH_MAX + 16], name[NAME_MAX + 1];

	if (!find_session(s->iqn, dir) || !descend(dir, "target"))
		return -EAGAIN;
	/* "target2:0:0" has "2:0:0:0", and power and others. */
	snprintf(name, sizeof(name), "%.200s:", strrchr(dir, '/') + 1 + strlen("target"));
	if (!descend(dir, name))
		return -EAGAIN;
	memcpy(disk, dir, sizeof(disk));
	if (!descend(dir, "block") || !descend(dir, "sd"))
		return -EAGAIN;
	snprintf(s->device, sizeof(s->device), "/dev/%.40s", strrchr(dir, '/') + 1);
	if (access(s->device, F_OK))
		return -EAGAIN;
	snprintf(page, sizeof(page), "%s/vpd_pg80", disk);
	if (!holds(page, s->serial))
		return err_set(e, -ENXIO, "%s has not the serial of the disk that was made for the "
			       "test: it is left alone", s->device);
	find_transport(s, disk);
	return 0;
}

static int wait_for_disk(struct io_session *s, struct err *e)
{
	const uint64_t end = ns_after(DISK_WAIT_MS);
	int r = find_disk(s, e);

	while (r == -EAGAIN && ms_to(end)) {
		if (stop_asked(s->stop))
			return err_set(e, -EINTR, "stopped by a signal");
		poll_fd(-1, 0, STEP_MS);
		r = find_disk(s, e);
	}
	return r == -EAGAIN ? err_set(e, -ETIMEDOUT, "logged in, but no disk has appeared within "
				      "%d seconds: is the module sd_mod loaded?",
				      DISK_WAIT_MS / 1000) : r;
}

/* ---- all ---- */

int io_session_begin(struct io_session *s, struct err *e)
{
	const bool v6 = strchr(s->portal->address, ':');
	int r;

	snprintf(s->address, sizeof(s->address), "%s%s%s:%u", v6 ? "[" : "", s->portal->address,
		 v6 ? "]" : "", s->portal->port);
	r = prepare_modules(LOGIN_ISER, s->stop, e);
	if (!r)
		r = prepare_daemon(s->stop, e);
	if (!r)
		r = make_iface(s, e);
	if (!r)
		r = make_node(s, e);
	if (!r)
		r = log_in(s, e);
	if (!r)
		r = wait_for_disk(s, e);
	return r > 0 ? -EIO : r;
}

/* Before all others: a session that stays would hang when its target goes. */
void io_session_forget(const char *iqn)
{
	const char *const out[] = { "iscsiadm", "-m", "node", "-T", iqn, "--logout", NULL };
	const char *const gone[] = { "iscsiadm", "-m", "node", "-T", iqn, "-o", "delete", NULL };
	char dir[PATH_MAX];
	struct err e = ERR_INIT;

	if (find_session(iqn, dir))
		(void)run_words(NULL, NULL, &e, out);
	(void)run_words(NULL, NULL, &e, gone);
}

void io_session_end(struct io_session *s)
{
	const char *const words[] = { "iscsiadm", "-m", "iface", "-I", IFACE, "-o", "delete",
				      NULL };
	struct err e = ERR_INIT;

	if (s->node_made)
		io_session_forget(s->iqn);
	if (s->iface_made && run_words(NULL, NULL, &e, words))
		log_warn("%s", e.text);
	s->iface_made = s->node_made = false;
}
