// SPDX-License-Identifier: Apache-2.0
/* Kernel threads as /proc tells of them (proc(5)): stat, status, comm. */
#include "iser_setup/threads.h"

#include "iser_setup/plan.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROC_MAX 65536u
#define KERNEL_THREAD 0x00200000u /* PF_KTHREAD, of the flags in stat */
#define STAT_FLAGS 6              /* fields behind the state */
#define STAT_LAST 36

static const char *const threads[] = { "iscsi_np", "iscsi_trx", THREAD_TX };

/* Of the InfiniBand stack, iSER's target and the target's core. */
static const char *const queues[] = {
	"ib-comp-unb-wq", "ib-comp-wq", "isert_comp_wq", "isert_login_wq", "isert_release_wq",
	"target_completion", "target_submission", "xcopy_wq",
};

static bool any_of(const char *name, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!strcmp(name, list[i]))
			return true;
	return false;
}

/* "kworker/1:2H-ib-comp-wq", or with a plus while it is at work. */
static bool is_ours(const char *comm, struct lio_thread *t)
{
	const char *queue = strpbrk(comm, "-+");

	t->worker = !strncmp(comm, "kworker/", strlen("kworker/"));
	if (t->worker && (!queue || !any_of(queue + 1, queues, sizeof(queues) / sizeof(*queues))))
		return false;
	if (!t->worker && !any_of(comm, threads, sizeof(threads) / sizeof(*threads)))
		return false;
	snprintf(t->name, sizeof(t->name), "%s", t->worker ? queue + 1 : comm);
	return true;
}

/* The nth field behind the state in "2 (kthreadd) S 0 ...", whose name may hold anything. */
static unsigned long long stat_field(const char *stat, unsigned nth)
{
	const char *at = strrchr(stat, ')');

	/* Behind the name are a blank and the state. */
	for (unsigned i = 0; at && i < nth + 1; i++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}

static int read_of(const char *proc, const char *pid, const char *file, char **text)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s/%s", proc, pid, file);
	return read_file(path, PROC_MAX, text, NULL);
}

/* false: it is none of these, or has ended. */
static bool read_thread(const char *proc, const char *pid, struct lio_thread *t)
{
	static const char list[] = "\nCpus_allowed_list:";
	CLEANUP_FREE char *comm = NULL, *stat = NULL, *status = NULL;
	const char *at;
	char cpus[IDS_MAX];

	memset(t, 0, sizeof(*t));
	if (read_of(proc, pid, "comm", &comm))
		return false;
	comm[strcspn(comm, "\n")] = '\0';
	if (!is_ours(comm, t) || read_of(proc, pid, "stat", &stat) ||
	    read_of(proc, pid, "status", &status) ||
	    !(stat_field(stat, STAT_FLAGS) & KERNEL_THREAD))
		return false;
	t->pid = atoi(pid);
	t->last = (unsigned)stat_field(stat, STAT_LAST);
	at = strstr(status, list);
	if (at) {
		at += sizeof(list) - 1;
		at += strspn(at, " \t");
		snprintf(cpus, sizeof(cpus), "%.*s", (int)strcspn(at, "\n"), at);
	}
	return at && !ids_parse(cpus, &t->cpus);
}

static int by_name(const void *a, const void *b)
{
	const struct lio_thread *x = a, *y = b;
	int r = strcmp(x->name, y->name);

	return r ? r : x->pid - y->pid;
}

int lio_threads_read(const char *proc, struct lio_threads *l, struct err *e)
{
	struct dirent *entry;
	int r = 0;
	DIR *d;

	*l = (struct lio_threads){ 0 };
	d = opendir(proc);
	if (!d)
		return err_sys(e, -errno, "%s", proc);
	while (!r && (entry = readdir(d))) {
		struct lio_thread t, *slot;

		if (entry->d_name[0] < '1' || entry->d_name[0] > '9' ||
		    !read_thread(proc, entry->d_name, &t))
			continue;
		slot = iser_plan_add(l->v, l->n);
		if (slot)
			*slot = t;
		else
			r = err_set(e, -ENOMEM, "out of memory");
	}
	closedir(d);
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_name);
	return r;
}

void lio_threads_clear(struct lio_threads *l)
{
	free(l->v);
	*l = (struct lio_threads){ 0 };
}
