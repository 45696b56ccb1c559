// SPDX-License-Identifier: Apache-2.0
/* child_run(), for programs whose failure is told in a line. */
#include "iser_setup/run.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MOST 96 /* mdadm is told of up to TOOL_LIST_MOST devices */
#define REASON_ROOM 300

/* Who lives on when we are killed. None is ended with us: in its midst mdadm, LVM or mkfs would
 * leave a half, and iscsiadm open-iscsi's lock. */
enum holding {
	HOLDS_NOTHING, /* iscsid stays for ever; the others do no harm beside another login */
	HOLDS,         /* iscsiadm, too: until it ends iscsid is at what it was told */
	HOLDS_LVM,     /* the same, and closes what it does not know what it is for */
};

#define OPEN_ISCSI "open-iscsi (iscsi-initiator-utils on RHEL)"

static const struct program {
	const char *name, *package;
	enum holding holding;
} programs[] = {
	{ "iscsiadm", OPEN_ISCSI, HOLDS }, { "iscsid", OPEN_ISCSI, HOLDS_NOTHING },
	{ "iscsi-iname", OPEN_ISCSI, HOLDS_NOTHING }, { "modprobe", "kmod", HOLDS_NOTHING },
	{ "mdadm", "mdadm", HOLDS }, { "mkfs.xfs", "xfsprogs", HOLDS },
	{ "wipefs", "util-linux", HOLDS }, { "pvs", "lvm2", HOLDS_NOTHING },
	{ "lvs", "lvm2", HOLDS_NOTHING }, { "pvcreate", "lvm2", HOLDS_LVM },
	{ "pvremove", "lvm2", HOLDS_LVM }, { "vgcreate", "lvm2", HOLDS_LVM },
	{ "vgremove", "lvm2", HOLDS_LVM }, { "vgchange", "lvm2", HOLDS_LVM },
	{ "lvcreate", "lvm2", HOLDS_LVM },
};

static int held = -1;

/* Of iscsiadm's own search for systemd, and what only repeats that it failed. */
static const char *const noise[] = {
	"System has not been booted with systemd", "Failed to connect to bus",
	"Could not log into all portals", "can not connect to iSCSI daemon",
	"Maybe you are not root", "Could not login to [", "Logging in to [",
	"Could not logout of [", "Could not execute operation on all",
	"--help' for more information",
};

static const char usage[] = "Usage:";

static bool is_noise(const char *line)
{
	for (size_t i = 0; i < sizeof(noise) / sizeof(noise[0]); i++)
		if (strstr(line, noise[i]))
			return true;
	return false;
}

void run_reason(const char *said, char *reason, size_t room)
{
	const char *at = said, *line = "";
	size_t len = 0;

	while (at && *at) {
		size_t n = strcspn(at, "\n");
		CLEANUP_FREE char *copy = strndup(at, n);

		/* Some recite their manual behind what was wrong. */
		if (len && !strncmp(at, usage, strlen(usage)))
			break;
		if (copy && copy[strspn(copy, " \t\r")] && (!len || !is_noise(copy))) {
			line = at + strspn(at, " \t");
			len = n - (size_t)(line - at);
		}
		at += n + (at[n] == '\n');
	}
	snprintf(reason, room, "%.*s", (int)(len < room ? len : room - 1), line);
	snprintf(reason, room, "%.*s", (int)room - 1, printable(reason));
}

static const struct program *find(const char *name)
{
	static const struct program unknown = { .holding = HOLDS_NOTHING };

	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		if (!strcmp(programs[i].name, name))
			return &programs[i];
	return &unknown;
}

static int missing(const char *name, struct err *e)
{
	const char *package = find(name)->package;

	return err_set(e, -ENOENT, "%s is not in PATH%s%s", name, package ? ": install " : "",
		       package ? package : "");
}

static int failed(const char *program, const struct child_said *said, struct err *e)
{
	const char *name = strrchr(program, '/');
	char reason[REASON_ROOM], own[80];
	const char *text = reason;

	run_reason(*said->err ? said->err : said->out, reason, sizeof(reason));
	name = name ? name + 1 : program;
	snprintf(own, sizeof(own), "%s: ", name);
	if (!strncmp(text, own, strlen(own)))
		text += strlen(own);
	if (*text)
		err_set(e, -EIO, "%s: %s", name, text);
	else
		err_set(e, -EIO, "%s ended with status %d and said nothing", name, said->status);
	return said->status;
}

/* ---- what is held ---- */

void run_hold(int fd)
{
	held = fd;
}

/* lvm(8): a descriptor for reports is not closed. Of what holds it none makes any. */
static const char lvm_keeps[] = "LVM_REPORT_FD";

static int run_holding(const struct stop *stop, const char *const argv[], struct child_said *said,
		       struct err *e)
{
	const enum holding holding = find(argv[0])->holding;
	const bool keeps = held >= 0 && holding == HOLDS_LVM;
	char number[16];
	int r;

	snprintf(number, sizeof(number), "%d", CHILD_FD);
	if (keeps)
		setenv(lvm_keeps, number, 1);
	r = child_run((char *const *)(uintptr_t)argv, holding == HOLDS_NOTHING ? -1 : held, stop,
		      said, e);
	if (keeps)
		unsetenv(lvm_keeps);
	return r;
}

/* ---- a run ---- */

int run_words(const struct stop *stop, char **out, struct err *e, const char *const argv[])
{
	struct child_said said = { 0 };
	int r = run_holding(stop, argv, &said, e);

	if (r == -ENOENT)
		missing(argv[0], e);
	else if (!r && said.status)
		r = failed(argv[0], &said, e);
	if (!r && out)
		*out = steal_ptr(&said.out);
	child_clear(&said);
	return r;
}

int run_program(const struct stop *stop, char **out, struct err *e, const char *program, ...)
{
	const char *argv[WORDS_MOST + 2] = { program };
	size_t n = 1;
	va_list words;

	va_start(words, program);
	while (n <= WORDS_MOST && (argv[n] = va_arg(words, const char *)))
		n++;
	va_end(words);
	argv[n] = NULL;
	return run_words(stop, out, e, argv);
}

void run_settle(const struct stop *stop, unsigned seconds)
{
	struct err ignored = ERR_INIT;
	char timeout[24];

	if (access("/run/udev/control", F_OK))
		return;
	snprintf(timeout, sizeof(timeout), "--timeout=%u", seconds);
	run_program(stop, NULL, &ignored, "udevadm", "settle", timeout, NULL);
}
