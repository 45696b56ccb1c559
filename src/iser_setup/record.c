// SPDX-License-Identifier: Apache-2.0
/* Lines "name = value" between "# BEGIN RECORD" and "# END RECORD". */
#include "iser_setup/record.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define RECORD_MAX 65536u /* bytes; 3 KiB are usual */
#define LOCK_WAIT_MS 10000
#define LOCK_POLL_US 20000

static const char end_line[] = "# END RECORD";

/* ---- text ---- */

/* Does the line begin with "name = " or "name="? Its value is behind. */
static const char *value_of(const char *line, const char *name)
{
	size_t n = strlen(name);

	if (strncmp(line, name, n))
		return NULL;
	line += n;
	line += strspn(line, " \t");
	if (*line != '=')
		return NULL;
	return line + 1 + strspn(line + 1, " \t");
}

static bool is_set(const char *line, const struct record_setting *set, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (value_of(line, set[i].name))
			return true;
	return false;
}

static size_t room_for(const struct record_setting *set, size_t n)
{
	size_t room = 0;

	for (size_t i = 0; i < n; i++)
		room += set[i].value ? strlen(set[i].name) + strlen(set[i].value) + 4 : 0;
	return room;
}

static char *put_settings(char *to, const struct record_setting *set, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (set[i].value) {
			to = stpcpy(stpcpy(stpcpy(to, set[i].name), " = "), set[i].value);
			*to++ = '\n';
		}
	return to;
}

char *record_edit(const char *text, const struct record_setting *set, size_t n, struct err *e)
{
	char *out = malloc(strlen(text) + room_for(set, n) + 1), *to = out;
	bool ended = false;

	if (!out) {
		err_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	while (*text) {
		size_t len = strcspn(text, "\n");

		len += text[len] == '\n';
		if (!strncmp(text, end_line, strlen(end_line)) && !ended) {
			to = put_settings(to, set, n);
			ended = true;
		}
		if (!is_set(text, set, n))
			to = mempcpy(to, text, len);
		text += len;
	}
	*to = '\0';
	if (ended)
		return out;
	secret_free(out);
	err_set(e, -EBADMSG, "it has no line \"%s\"", end_line);
	return NULL;
}

static bool agrees(const char *value, size_t len, const char *want)
{
	static const char stars[] = "********", empty[] = "<empty>";
	const char *is_shown = want ? want : empty;

	if (len == strlen(is_shown) && !strncmp(value, is_shown, len))
		return true;
	return want && len == strlen(stars) && !strncmp(value, stars, len);
}

int record_check(const char *shown, const struct record_setting *set, size_t n, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		const char *line = shown, *value = NULL;

		while (line && !(value = value_of(line, set[i].name))) {
			line = strchr(line, '\n');
			line = line ? line + 1 : NULL;
		}
		if (value ? !agrees(value, strcspn(value, "\n"), set[i].value) : !!set[i].value)
			return err_set(e, -EBADMSG, "open-iscsi did not take %s", set[i].name);
	}
	return 0;
}

/* ---- files ---- */

static bool is_dir(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISDIR(st.st_mode);
}

void record_place_find(struct record_place *at, const char *root)
{
	char lib[sizeof(at->nodes)];

	snprintf(at->lock_dir, sizeof(at->lock_dir), "%s/run/lock/iscsi", root);
	snprintf(lib, sizeof(lib), "%s/var/lib/iscsi", root);
	snprintf(at->nodes, sizeof(at->nodes), "%s/var/lib/iscsi/nodes", root);
	if (is_dir(at->nodes))
		return;
	/* iscsiadm makes it with the first record, the package the directory above it. */
	snprintf(at->nodes, sizeof(at->nodes), "%s/etc/iscsi/nodes", root);
	if (is_dir(lib) && !is_dir(at->nodes))
		snprintf(at->nodes, sizeof(at->nodes), "%s/var/lib/iscsi/nodes", root);
}

static int path_of(const struct record_place *at, const struct login_target *t, const char *iface,
		   char *path, size_t room)
{
	int n = snprintf(path, room, "%s/%s/%s,%u,%u/%s", at->nodes, t->iqn, t->portal.address,
			 t->portal.port, t->tag, iface);

	return n < 0 || (size_t)n >= room ? -ENAMETOOLONG : 0;
}

int record_file(const struct record_place *at, const struct login_target *t, const char *iface,
		char *path, size_t room)
{
	int r = path_of(at, t, iface, path, room);
	struct stat st;

	return r ? r : stat(path, &st) ? -errno : 0;
}

/* iscsiadm makes both as we do: whoever can link the one to the other has the lock. */
static int lock(const struct record_place *at, char *held, size_t room, struct err *e)
{
	char file[200];
	CLEANUP_CLOSE int fd = -1;
	uint64_t until = ns_after(LOCK_WAIT_MS);
	int r = make_dirs(at->lock_dir, 0700);

	snprintf(file, sizeof(file), "%s/lock", at->lock_dir);
	snprintf(held, room, "%s/lock.write", at->lock_dir);
	fd = r ? -1 : open(file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_sys(e, r ? r : -errno, "open-iscsi's lock %s", file);
	while (link(file, held)) {
		if (errno != EEXIST)
			return err_sys(e, -errno, "open-iscsi's lock %s", held);
		if (now_ns() > until)
			return err_set(e, -EBUSY, "open-iscsi's database is locked: another "
				       "iscsiadm is at work, or was killed and left %s, which may "
				       "be removed then", held);
		usleep(LOCK_POLL_US);
	}
	return 0;
}

/* iscsiadm would take it for another record. The names are write_file_atomic's. */
static void drop_halves(const char *path)
{
	CLEANUP_FREE char *pattern = NULL;
	glob_t found;

	if (asprintf(&pattern, "%s.??????", path) < 0) {
		pattern = NULL;
		return;
	}
	if (glob(pattern, GLOB_NOSORT, NULL, &found))
		return;
	for (size_t i = 0; i < found.gl_pathc; i++)
		unlink(found.gl_pathv[i]);
	globfree(&found);
}

void record_drop_halves(const struct record_place *at, const struct login_target *t,
			const char *iface)
{
	char path[PATH_MAX];

	if (!path_of(at, t, iface, path, sizeof(path)))
		drop_halves(path);
}

static int edit_file(const char *path, const struct record_setting *set, size_t n, struct err *e)
{
	CLEANUP_SECRET char *text = NULL, *edited = NULL;
	int r = read_file(path, RECORD_MAX, &text, NULL);

	if (r)
		return err_sys(e, r, "the record %s", printable(path));
	edited = record_edit(text, set, n, e);
	if (!edited)
		return err_prefix(e, "the record %s", printable(path));
	return write_file_atomic(path, edited, strlen(edited), 0600, e);
}

int record_set(const struct record_place *at, const char *path, const struct record_setting *set,
	       size_t n, struct err *e)
{
	char held[200];
	int r = lock(at, held, sizeof(held), e);

	if (r)
		return r;
	drop_halves(path);
	r = edit_file(path, set, n, e);
	unlink(held);
	return r;
}
