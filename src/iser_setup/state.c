// SPDX-License-Identifier: Apache-2.0
/* Files that are whole or absent, and one lock for all of them: the targets of a host share its
 * CPU list, and two plans may want the same name. */
#include "iser_setup/state.h"

#include "iser_setup/names.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENVIRONMENT "RFTP_ISER_STATE"
#define LOCK_FILE "lock"
#define SUFFIX ".json"
#define LIO_SUFFIX ISER_LIO_SUFFIX /* before SUFFIX */
#define LOCK_LEFT 60        /* seconds: most of what who was killed has begun is done by then */
#define BOOT_FILE "/proc/sys/kernel/random/boot_id"
#define BOOT_MAX 64u

/* ---- where ---- */

static const char *state_dir(const char *dir)
{
	const char *env = getenv(ENVIRONMENT);

	return dir ? dir : env && *env ? env : ISER_STATE_DIR;
}

static bool ends_in(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n > m && !strcmp(text + n - m, end);
}

/* A name of the command line becomes part of a path. */
static int check_name(const char *name, struct err *e)
{
	const char *wrong = iser_plan_name_wrong(name);

	return wrong ? err_set(e, -EINVAL, "\"%s\" is no plan's name: it %s", printable(name),
			       wrong) : 0;
}

/* DIR/NAME.MORE.json; malloc'd. */
static char *file_of(const struct iser_state *s, const char *more)
{
	char *path;

	return asprintf(&path, "%s/%s%s" SUFFIX, s->dir, s->name, more) < 0 ? NULL : path;
}

char *iser_state_lio_file(const struct iser_state *s)
{
	return file_of(s, LIO_SUFFIX);
}

/* ---- the lock ---- */

/* Who could write into it would have us mount and remove what he likes. */
static int make_dir(const char *dir, struct err *e)
{
	CLEANUP_FREE char *above = strdup(dir);
	struct stat st;
	int r = above ? make_dirs(dirname(above), 0755) : -ENOMEM;

	if (!r && mkdir(dir, 0700) && errno != EEXIST)
		r = -errno;
	if (!r && stat(dir, &st))
		r = -errno;
	if (r)
		return err_sys(e, r, "%s, where it is kept what was applied", printable(dir));
	if (st.st_uid != geteuid() || st.st_mode & (S_IWGRP | S_IWOTH))
		return err_set(e, -EPERM, "%s: others may write there; chown root and chmod 700 "
			       "it, after a look at what is in it", printable(dir));
	return 0;
}

static int lock(struct iser_state *s, const struct lock_wait *wait, struct err *e)
{
	CLEANUP_FREE char *path = NULL;

	if (asprintf(&path, "%s/" LOCK_FILE, s->dir) < 0) {
		path = NULL;
		return err_set(e, -ENOMEM, "out of memory");
	}
	s->lock = iser_lock(&(struct lock_ask){
		.path = path, .left = LOCK_LEFT, .wait = *wait,
		.busy = "another rftp-iser is changing the targets of this host",
		.begun = "a program rftp-iser-lio",
	}, e);
	return s->lock < 0 ? s->lock : 0;
}

/* ---- boots ---- */

/* malloc'd; NULL with text. */
static char *boot_now(struct err *e)
{
	char *text = NULL;
	int r = read_file(BOOT_FILE, BOOT_MAX, &text, NULL);

	if (r) {
		err_sys(e, r, BOOT_FILE);
		return NULL;
	}
	text[strcspn(text, "\n")] = '\0';
	return text;
}

bool iser_state_restarted(const struct iser_state *s)
{
	CLEANUP_FREE char *now = boot_now(NULL);

	return *s->boot && now && strcmp(s->boot, now);
}

void iser_irqs_free(struct iser_irq *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].netdev);
		free(list[i].was);
		free(list[i].set);
	}
	free(list);
}

int iser_state_begin_boot(struct iser_state *s, struct err *e)
{
	char *now = boot_now(e);

	if (!now)
		return e ? e->code : -EIO;
	if (strcmp(s->boot, now)) {
		/* The kernel begins with its own again. */
		free(s->cpus);
		s->cpus = NULL;
		iser_irqs_free(s->irqs, s->n_irqs);
		s->irqs = NULL;
		s->n_irqs = 0;
	}
	free(s->boot);
	s->boot = now;
	return 0;
}

int iser_state_made(struct iser_state *s, const char *path)
{
	char **slot, *copy;

	for (size_t i = 0; i < s->n_made; i++)
		if (!strcmp(s->made[i], path))
			return 0;
	copy = strdup(path);
	slot = copy ? iser_plan_add(s->made, s->n_made) : NULL;
	if (!slot) {
		free(copy);
		return -ENOMEM;
	}
	*slot = copy;
	return 0;
}

void iser_state_unmade(struct iser_state *s, const char *path)
{
	size_t n = 0;

	for (size_t i = 0; i < s->n_made; i++)
		if (strcmp(s->made[i], path))
			s->made[n++] = s->made[i];
		else
			free(s->made[i]);
	s->n_made = n;
}

/* ---- plans ---- */

const struct iser_plan *iser_state_plan(const struct iser_state *s, size_t i)
{
	return !i ? s->applied : i == 1 ? s->applying : s->older[i - 2];
}

static bool same_plan(const struct iser_plan *a, const struct iser_plan *b)
{
	json_t *x = iser_plan_json(a), *y = iser_plan_json(b);
	bool same = x && y && json_equal(x, y);

	json_decref(x);
	json_decref(y);
	return same;
}

int iser_state_applying(struct iser_state *s, const struct iser_plan *want)
{
	json_t *json = iser_plan_json(want);
	struct iser_plan *copy = json ? iser_plan_unjson("the plan", json, NULL) : NULL;

	json_decref(json);
	if (!copy)
		return -ENOMEM;
	if (s->applying && !same_plan(s->applying, want)) {
		struct iser_plan **slot = iser_plan_add(s->older, s->n_older);

		if (!slot) {
			iser_plan_free(copy);
			return -ENOMEM;
		}
		*slot = steal_ptr(&s->applying);
	}
	iser_plan_free(s->applying);
	s->applying = copy;
	return 0;
}

static void drop_older(struct iser_state *s)
{
	for (size_t i = 0; i < s->n_older; i++)
		iser_plan_free(s->older[i]);
	free(s->older);
	s->older = NULL;
	s->n_older = 0;
}

void iser_state_applied(struct iser_state *s)
{
	drop_older(s);
	iser_plan_free(s->applied);
	s->applied = steal_ptr(&s->applying);
}

/* ---- open and close ---- */

int iser_state_open(struct iser_state *s, const char *dir, const char *name,
		    const struct lock_wait *change, struct err *e)
{
	int r;

	*s = (struct iser_state){ .dir = strdup(state_dir(dir)), .name = strdup(name),
				  .boot = strdup(""), .lock = -1 };
	if (!s->dir || !s->name || !s->boot)
		return err_set(e, -ENOMEM, "out of memory");
	r = check_name(name, e);
	if (!r && change)
		r = make_dir(s->dir, e);
	if (!r && change)
		r = lock(s, change, e);
	return r ? r : iser_state_load(s, e);
}

void iser_state_close(struct iser_state *s)
{
	free(s->dir);
	free(s->name);
	iser_plan_free(s->applied);
	iser_plan_free(s->applying);
	drop_older(s);
	free(s->boot);
	for (size_t i = 0; i < s->n_made; i++)
		free(s->made[i]);
	free(s->made);
	free(s->cpus);
	iser_irqs_free(s->irqs, s->n_irqs);
	cleanup_close(&s->lock);
	*s = (struct iser_state){ .lock = -1 };
}

int iser_state_remove(const struct iser_state *s, struct err *e)
{
	static const char *const files[] = { LIO_SUFFIX, "" }; /* what tells whose it is, last */

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		CLEANUP_FREE char *path = file_of(s, files[i]);

		if (!path)
			return err_set(e, -ENOMEM, "out of memory");
		if (unlink(path) && errno != ENOENT)
			return err_sys(e, -errno, "%s", printable(path));
	}
	return 0;
}

/* ---- which there are ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The name in a directory's entry; malloc'd. NULL: it is no state's. */
static char *name_of(const char *entry)
{
	size_t n = strlen(entry);
	char *name;

	if (*entry == '.' || !ends_in(entry, SUFFIX))
		return NULL;
	name = strndup(entry, n - strlen(SUFFIX));
	if (name && check_name(name, NULL)) {
		free(name);
		return NULL;
	}
	return name;
}

int iser_state_names(const char *dir, char ***names, size_t *n, struct err *e)
{
	struct dirent *entry;
	DIR *d = opendir(state_dir(dir));

	*names = NULL;
	*n = 0;
	if (!d && errno == ENOENT)
		return 0;
	if (!d)
		return err_sys(e, -errno, "%s", printable(state_dir(dir)));
	while ((entry = readdir(d))) {
		char *name = name_of(entry->d_name);
		char **slot = name ? iser_plan_add(*names, *n) : NULL;

		if (slot)
			*slot = name;
		else
			free(name);
	}
	closedir(d);
	if (*n)
		qsort(*names, *n, sizeof(**names), by_name);
	return 0;
}
