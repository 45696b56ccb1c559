// SPDX-License-Identifier: Apache-2.0
/* mdadm's and LVM's commands: looking for a stripe, making it, starting and stopping it. */
#include "iser_setup/stripe.h"

#include "iser_setup/run.h"
#include "iser_setup/sessions.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define VOLUME "data" /* the logical volume, in a group of our name */
#define WORDS_MOST (STRIPE_MEMBERS_MOST + 20)

/* A command with all disks as its last words; all are there. */
static int run_disks(const struct stop *stop, const char *const *words, unsigned n,
		     const struct stripe_disks *d, struct err *e)
{
	const char *w[WORDS_MOST + 2] = { 0 };
	unsigned at = 0;
	int r;

	while (at < n && at < WORDS_MOST - STRIPE_MEMBERS_MOST) {
		w[at] = words[at];
		at++;
	}
	for (unsigned i = 0; i < d->n; i++)
		w[at++] = d->path[i];
	r = run_words(stop, NULL, e, w);
	return r > 0 ? -EIO : r;
}

#define RUN_DISKS(stop, d, e, ...) \
	run_disks(stop, (const char *const []){ __VA_ARGS__ }, \
		  sizeof((const char *const []){ __VA_ARGS__ }) / sizeof(char *), d, e)

/* ---- asking ---- */

/* Whoever fails to tell of a disk has not told that it is nobody's. */
static int check_none(const char *path, const char *signature, const struct stop *stop,
		      struct err *e)
{
	char found[256];
	struct err why = *e;
	int r;

	*e = (struct err)ERR_INIT;
	r = stripe_look(path, stop, found, sizeof(found), e);
	if (r || !strstr(found, signature))
		return r;
	return err_set(e, -EEXIST, "%s holds data (%s), but of which stripe it is cannot be "
		       "told%s%s", path, found, why.code ? ": " : "", why.text);
}

static int ask_md(const char *path, const struct stop *stop, struct stripe_member *m,
		  struct err *e)
{
	CLEANUP_FREE char *out = NULL;
	/* Its status is 1 for a disk that is in no array. */
	int r = run_program(stop, &out, e, "mdadm", "--examine", "--export", path, NULL);

	if (r < 0)
		return r;
	stripe_md_member(r ? "" : out, m);
	return m->kind ? 0 : check_none(path, "linux_raid_member", stop, e);
}

static int ask_lvm(const char *path, const struct stop *stop, struct stripe_member *m,
		   struct err *e)
{
	CLEANUP_FREE char *out = NULL;
	int r = run_program(stop, &out, e, "pvs", "--noheadings", "--separator", "|", "-o",
			    "vg_name,vg_uuid,pv_count", path, NULL);

	if (r < 0)
		return r;
	stripe_lvm_member(r ? "" : out, m);
	/* Its status is 5 for a disk that is none of LVM's, and for much else. */
	return r ? check_none(path, "LVM2_member", stop, e) : 0;
}

static int ask_all(enum stripe_kind kind, const struct stripe_disks *d, const struct stop *stop,
		   struct stripe_member *m, struct err *e)
{
	for (unsigned i = 0; i < d->n; i++) {
		int r = kind == STRIPE_MD ? ask_md(d->path[i], stop, &m[i], e) :
					    ask_lvm(d->path[i], stop, &m[i], e);

		if (r)
			return r;
	}
	return stripe_whole(kind, m, d->n, e);
}

/* ---- md ---- */

/* The array that the kernel has put the disk into, "md127"; "" for none. udev's rules start what
 * is whole by themselves. */
static void md_holding(const char *path, char out[DISK_ROOM])
{
	char real[PATH_MAX], dir[PATH_MAX + 64];
	struct dirent *d;
	const char *name;
	DIR *dirp;

	*out = '\0';
	if (!realpath(path, real))
		return;
	name = strrchr(real, '/') + 1;
	snprintf(dir, sizeof(dir), "%s/class/block/%s/holders", sysfs_or(NULL), name);
	dirp = opendir(dir);
	while (dirp && (d = readdir(dirp)))
		if (!strncmp(d->d_name, "md", 2) && strlen(d->d_name) < DISK_ROOM)
			strcpy(out, d->d_name);
	if (dirp)
		closedir(dirp);
}

static bool md_runs(const char *kernel)
{
	char state[32];

	sysfs_text(NULL, state, sizeof(state), "class/block/%s/md/array_state", kernel);
	return *state && strcmp(state, "inactive") && strcmp(state, "clear");
}

/* Where an array is: by its name when that leads there, which takes udev or mdadm itself. */
static int md_device(const char *name, const char *disk, char device[STRIPE_DEVICE_ROOM],
		     struct err *e)
{
	char kernel[DISK_ROOM], real[PATH_MAX], want[64];

	md_holding(disk, kernel);
	if (!*kernel)
		return err_set(e, -ENODEV, "md did not take %s", disk);
	snprintf(device, STRIPE_DEVICE_ROOM, "/dev/md/%s", name);
	snprintf(want, sizeof(want), "/dev/%s", kernel);
	if (!realpath(device, real) || strcmp(real, want))
		snprintf(device, STRIPE_DEVICE_ROOM, "%s", want);
	return 0;
}

static int md_start(const struct stripe *s, const struct stripe_disks *d, const struct stop *stop,
		    char device[STRIPE_DEVICE_ROOM], bool *started, struct err *e)
{
	char kernel[DISK_ROOM], uuid[STRIPE_ID_ROOM + 8], path[STRIPE_DEVICE_ROOM];
	int r = 0;

	md_holding(d->path[0], kernel);
	if (!*kernel || !md_runs(kernel)) {
		snprintf(uuid, sizeof(uuid), "--uuid=%s", s->id);
		snprintf(path, sizeof(path), "/dev/md/%s", s->name);
		r = RUN_DISKS(stop, d, e, "mdadm", "--assemble", path, uuid);
		*started = !r;
	}
	return r ? r : md_device(s->name, d->path[0], device, e);
}

/* Whatever of it there is: a signal may have ended mdadm in its midst, and must not end this. Only
 * what says by its id that it is the one, for others may have been quicker. */
static void md_unmake(const struct stripe *s, const struct stripe_disks *d)
{
	struct err ignored = ERR_INIT;

	for (unsigned i = 0; i < d->n; i++) {
		struct stripe_member m = { 0 };
		char kernel[DISK_ROOM], path[DISK_ROOM + 8];

		if (!d->path[i] || ask_md(d->path[i], NULL, &m, &ignored) || !m.kind ||
		    strcmp(m.id, s->id))
			continue;
		md_holding(d->path[i], kernel);
		snprintf(path, sizeof(path), "/dev/%s", kernel);
		if (*kernel)
			run_program(NULL, NULL, &ignored, "mdadm", "--stop", path, NULL);
		run_program(NULL, NULL, &ignored, "mdadm", "--zero-superblock", d->path[i], NULL);
	}
}

static int md_make(const struct stripe *s, const struct stripe_disks *d, uint64_t chunk,
		   const struct stop *stop, char device[STRIPE_DEVICE_ROOM], struct err *e)
{
	char path[STRIPE_DEVICE_ROOM], name[STRIPE_NAME_ROOM + 8], number[40], size[40];
	char uuid[STRIPE_ID_ROOM + 8];

	snprintf(path, sizeof(path), "/dev/md/%s", s->name);
	snprintf(name, sizeof(name), "--name=%s", s->name);
	snprintf(number, sizeof(number), "--raid-devices=%u", d->n);
	snprintf(size, sizeof(size), "--chunk=%llu", (unsigned long long)(chunk >> 10));
	snprintf(uuid, sizeof(uuid), "--uuid=%s", s->id);
	/* It is the disks' owner's, whichever host logs in to them. When mdadm would ask whether to
	 * write over something, it hears no. */
	if (!RUN_DISKS(stop, d, e, "mdadm", "--create", path, "--metadata=1.2", "--level=0",
		       "--homehost=any", name, uuid, number, size) &&
	    !md_device(s->name, d->path[0], device, e))
		return 0;
	md_unmake(s, d);
	return e->code;
}

/* ---- LVM ---- */

/* Built with udev, LVM leaves the devices' nodes to it, and waits for them in vain where it does
 * not run. */
static const char *lvm_config(void)
{
	return access("/run/udev/control", F_OK) ?
		"activation{udev_sync=0 udev_rules=0}" : "activation{udev_sync=1}";
}

static int lvm_device(const char *group, const struct stop *stop, char device[STRIPE_DEVICE_ROOM],
		      struct err *e)
{
	CLEANUP_FREE char *out = NULL;
	char *at;
	size_t n;
	int r = run_program(stop, &out, e, "lvs", "--noheadings", "-o", "lv_path", group, NULL);

	if (r)
		return err_prefix(e, "the volume group %s", printable(group));
	at = out + strspn(out, " \t\n");
	n = strcspn(at, " \t\n");
	if (!n || n >= STRIPE_DEVICE_ROOM || at[n + strspn(at + n, " \t\n")])
		return err_set(e, -EEXIST, "the volume group %s has not one volume, but none or "
			       "several: it is not login's", printable(group));
	snprintf(device, STRIPE_DEVICE_ROOM, "%.*s", (int)n, at);
	return 0;
}

static int lvm_start(const struct stripe *s, const struct stop *stop,
		     char device[STRIPE_DEVICE_ROOM], bool *started, struct err *e)
{
	int r = lvm_device(s->name, stop, device, e);

	if (r || disk_is_there(device))
		return r;
	r = run_program(stop, NULL, e, "vgchange", "--config", lvm_config(), "--activate", "y",
			s->name, NULL);
	*started = !r;
	return r ? err_prefix(e, "the volume group %s", printable(s->name)) : 0;
}

/* A physical volume. */
struct volume {
	char id[STRIPE_ID_ROOM];
	struct stripe_member group;    /* name and id are "" without one */
	bool filled;                   /* the group has logical volumes */
};

/* All is "" when the disk is none. */
static int ask_volume(const char *path, const struct stop *stop, struct volume *v, struct err *e)
{
	CLEANUP_FREE char *out = NULL;
	char *at, *field[4] = { NULL };
	/* Its status is 5 for a disk that is none of LVM's, and for much else. */
	int r = run_program(stop, &out, e, "pvs", "--noheadings", "--separator", "|", "-o",
			    "pv_uuid,vg_name,vg_uuid,lv_count", path, NULL);

	*v = (struct volume){ .filled = false };
	if (r)
		return r < 0 ? r : check_none(path, "LVM2_member", stop, e);
	at = out + strspn(out, " \t\n");
	at[strcspn(at, " \t\n")] = '\0';
	for (unsigned i = 0; i < 4; i++)
		field[i] = strsep(&at, "|");
	if (!field[3] || at)
		return err_set(e, -EBADMSG, "pvs tells of %s what is not understood", path);
	snprintf(v->id, sizeof(v->id), "%s", field[0]);
	snprintf(v->group.name, sizeof(v->group.name), "%s", field[1]);
	snprintf(v->group.id, sizeof(v->group.id), "%s", field[2]);
	v->filled = *field[3] && strcmp(field[3], "0");
	return 0;
}

/* Is it the nth of s, and has nobody made a group of his own of it? */
static bool is_volume_of(const struct stripe *s, unsigned nth, const struct volume *v)
{
	char id[STRIPE_ID_ROOM];

	return !strcmp(v->id, stripe_volume_id(s->id, nth, id)) &&
	       (!*v->group.name || !strcmp(v->group.name, s->name));
}

/* What is known by its ids, but for a group that has volumes. */
static void lvm_take_down(const struct stripe *s, const struct stripe_disks *d)
{
	struct err ignored = ERR_INIT;
	char group[STRIPE_ID_ROOM + 16];
	struct volume v;

	for (unsigned i = 0; i < d->n; i++) {
		if (!d->path[i] || ask_volume(d->path[i], NULL, &v, &ignored) ||
		    !is_volume_of(s, i, &v) || v.filled)
			continue;
		/* Others may have groups of this name. */
		snprintf(group, sizeof(group), "vg_uuid=%s", v.group.id);
		if (*v.group.name)
			run_program(NULL, NULL, &ignored, "vgremove", "--config", lvm_config(),
				    "--quiet", "--select", group, NULL);
		run_program(NULL, NULL, &ignored, "pvremove", "--yes", "--quiet", d->path[i],
			    NULL);
	}
}

/* How far making has come is how much may be taken back: a group of this name that was there before
 * is somebody else's. */
enum lvm_made { LVM_NOTHING, LVM_DISKS, LVM_GROUP };

/* A signal may have led here, and must not end this. */
static void lvm_unmake(const struct stripe *s, const struct stripe_disks *d, enum lvm_made made)
{
	struct err ignored = ERR_INIT;

	lvm_take_down(s, d);
	if (made == LVM_GROUP)
		run_program(NULL, NULL, &ignored, "vgremove", "--config", lvm_config(), "--force",
			    "--force", "--yes", s->name, NULL);
	if (made != LVM_NOTHING)
		RUN_DISKS(NULL, d, &ignored, "pvremove", "--yes", "--quiet");
}

/* Each by itself, for each has its own id. */
static int lvm_disks(const struct stripe *s, const struct stripe_disks *d, const struct stop *stop,
		     struct err *e)
{
	char id[STRIPE_ID_ROOM];
	int r = 0;

	for (unsigned i = 0; !r && i < d->n; i++)
		/* When it would ask whether to write over something, it hears no. */
		r = run_program(stop, NULL, e, "pvcreate", "--quiet", "--norestorefile", "--uuid",
				stripe_volume_id(s->id, i, id), d->path[i], NULL);
	return r;
}

static int lvm_volume(const struct stripe *s, unsigned n, uint64_t chunk, const struct stop *stop,
		      struct err *e)
{
	char number[16], size[40];

	snprintf(number, sizeof(number), "%u", n);
	snprintf(size, sizeof(size), "%lluk", (unsigned long long)(chunk >> 10));
	return run_program(stop, NULL, e, "lvcreate", "--config", lvm_config(), "--yes", "--quiet",
			   "--wipesignatures", "y", "--type", "striped", "--stripes", number,
			   "--stripesize", size, "--extents", "100%FREE", "--name", VOLUME,
			   s->name, NULL);
}

static int lvm_make(const struct stripe *s, const struct stripe_disks *d, uint64_t chunk,
		    const struct stop *stop, char device[STRIPE_DEVICE_ROOM], struct err *e)
{
	enum lvm_made made = LVM_NOTHING;
	int r = lvm_disks(s, d, stop, e);

	if (!r) {
		made = LVM_DISKS;
		r = RUN_DISKS(stop, d, e, "vgcreate", "--quiet", s->name);
	}
	if (!r) {
		made = LVM_GROUP;
		r = lvm_volume(s, d->n, chunk, stop, e);
	}
	if (!r)
		r = lvm_device(s->name, stop, device, e);
	if (r)
		lvm_unmake(s, d, made);
	return r;
}

/* ---- either ---- */

int stripe_find(enum stripe_kind kind, const struct stripe_disks *d, const struct stop *stop,
		struct stripe *s, char device[STRIPE_DEVICE_ROOM], bool *started, struct err *e)
{
	CLEANUP_FREE struct stripe_member *m = calloc(d->n ? d->n : 1, sizeof(*m));
	int found = m ? ask_all(kind, d, stop, m, e) : err_set(e, -ENOMEM, "out of memory"), r;

	*started = false;
	if (found <= 0)
		return found;
	*s = (struct stripe){ .kind = kind };
	memcpy(s->name, m[0].name, sizeof(s->name));
	memcpy(s->id, m[0].id, sizeof(s->id));
	r = kind == STRIPE_MD ? md_start(s, d, stop, device, started, e) :
				lvm_start(s, stop, device, started, e);
	return r ? (r < 0 ? r : -EIO) : 1;
}

int stripe_make(const struct stripe *s, const struct stripe_disks *d, uint64_t chunk,
		const struct stop *stop, char device[STRIPE_DEVICE_ROOM], char id[STRIPE_ID_ROOM],
		struct err *e)
{
	struct stripe_member m = { 0 };
	int r = s->kind == STRIPE_MD ? md_make(s, d, chunk, stop, device, e) :
				       lvm_make(s, d, chunk, stop, device, e);

	if (r)
		return r < 0 ? r : -EIO;
	/* It is there: a signal must not have it unknown. */
	r = s->kind == STRIPE_MD ? ask_md(d->path[0], NULL, &m, e) :
				   ask_lvm(d->path[0], NULL, &m, e);
	if (r && s->kind == STRIPE_MD)
		md_unmake(s, d);
	else if (r)
		lvm_unmake(s, d, LVM_GROUP);
	memcpy(id, m.id, STRIPE_ID_ROOM);
	return r;
}

/* ---- what is left of one ---- */

struct left {
	unsigned there, has;   /* disks */
	bool in_use;           /* the array runs, or the group has volumes */
	char id[STRIPE_ID_ROOM];
};

static int look_at(const struct stripe *s, unsigned nth, const char *path, const struct stop *stop,
		   struct left *l, struct err *e)
{
	struct stripe_member m;
	char kernel[DISK_ROOM];
	struct volume v;
	int r;

	l->there++;
	if (s->kind == STRIPE_MD) {
		r = ask_md(path, stop, &m, e);
		if (!r && !strcmp(m.id, s->id)) {
			l->has++;
			md_holding(path, kernel);
			l->in_use |= *kernel && md_runs(kernel);
			strcpy(l->id, s->id);
		}
		return r;
	}
	r = ask_volume(path, stop, &v, e);
	if (!r && is_volume_of(s, nth, &v)) {
		l->has++;
		l->in_use |= v.filled;
		strcpy(l->id, v.group.id);
	}
	return r;
}

/* An array is whole as soon as each of its disks tells of it. Of LVM it is the volume that is made
 * last. */
static enum stripe_left judge(const struct stripe *s, const struct left *l, unsigned n)
{
	if (l->has == n && (s->kind == STRIPE_MD || l->in_use))
		return STRIPE_WHOLE;
	if (l->has && !l->in_use && (s->kind == STRIPE_LVM || l->has < l->there))
		return STRIPE_HALF;
	return l->has || l->there < n ? STRIPE_UNTOLD : STRIPE_GONE;
}

int stripe_left(struct stripe *s, const struct stripe_disks *d, const struct stop *stop,
		struct err *e)
{
	struct left l = { .there = 0 };
	enum stripe_left is;

	for (unsigned i = 0; i < d->n; i++) {
		int r = d->path[i] ? look_at(s, i, d->path[i], stop, &l, e) : 0;

		if (r)
			return r;
	}
	is = judge(s, &l, d->n);
	if (is == STRIPE_WHOLE)
		strcpy(s->id, l.id);
	return (int)is;
}

int stripe_take_down(const struct stripe *s, const struct stripe_disks *d, struct err *e)
{
	struct stripe now = *s;
	int r;

	if (s->kind == STRIPE_MD)
		md_unmake(s, d);
	else
		lvm_take_down(s, d);
	r = stripe_left(&now, d, NULL, e);
	if (r == STRIPE_HALF)
		r = err_set(e, -EIO, "the %s stripe %s was being made when login was killed, and "
			    "cannot be taken off its disks", stripe_kinds[s->kind], s->name);
	return r;
}

int stripe_wipe(const struct stripe_disks *d, const struct stop *stop, struct err *e)
{
	return RUN_DISKS(stop, d, e, "wipefs", "--quiet", "--all");
}

int stripe_stop(const struct stripe *s, const char *device, const struct stop *stop,
		struct err *e)
{
	int r;

	if (s->kind == STRIPE_MD)
		r = run_program(stop, NULL, e, "mdadm", "--stop", device, NULL);
	else
		r = run_program(stop, NULL, e, "vgchange", "--config", lvm_config(), "--activate",
				"n", s->name, NULL);
	return r ? err_prefix(e, "the stripe %s on %s", printable(s->name), device) : 0;
}
