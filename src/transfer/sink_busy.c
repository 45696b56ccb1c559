// SPDX-License-Identifier: Apache-2.0
/* Files whose part another writer holds. Mostly that is the session of a client that was
 * killed, or cut off, and has come again: its old session ends as soon as it knows. So they
 * wait aside, and no thread with them, until the part is free, until it is plain that the
 * other one is alive, or until a dead one would be gone. */
#include "transfer/sink.h"

#include <errno.h>

/* How often the part is tried. */
#define TRY_MS 100
/* A session that has lost its client may go on so long with what has arrived; who writes
 * after that is alive. */
#define DRAIN_MS 5000
/* And it holds the part so long when it must find out by the client's silence. */
#define HELD_MS (SILENCE_MS + 2 * ABORT_GRACE_MS)

static void say_waiting(const struct kfile *f)
{
	char *path CLEANUP_FREE = kfile_path(f);

	log_info("%s: another session holds it; waiting up to %d s for that to end",
		 printable(path ? path : f->name), HELD_MS / 1000);
}

/* Has the other one written since DRAIN_MS were over? */
static bool still_written(struct sink *s, struct kfile *f)
{
	struct part_spec spec = kfile_spec(s, f);
	struct timespec now;

	if (part_stamp(&spec, &now))
		return false; /* it has just been given up, or has its name */
	if (!f->busy_seen) {
		f->busy_seen = true;
		f->busy_stamp = now;
	}
	return now.tv_sec != f->busy_stamp.tv_sec || now.tv_nsec != f->busy_stamp.tv_nsec;
}

static bool worth_waiting(struct sink *s, struct kfile *f)
{
	uint64_t waited;

	if (!f->busy_ns) {
		f->busy_ns = now_ns();
		say_waiting(f);
	}
	waited = (now_ns() - f->busy_ns) / 1000000;
	return waited < DRAIN_MS || (waited < HELD_MS && !still_written(s, f));
}

bool busy_again(struct sink *s, struct kfile *f)
{
	if (!worth_waiting(s, f))
		return false;
	atomic_fetch_add(&f->refs, 1);
	LOCK_GUARD(guard, &s->job_lock);
	if (!s->later)
		s->later_ns = now_ns() + TRY_MS * 1000000ull;
	f->next = s->later;
	s->later = f;
	pthread_cond_signal(&s->job_more); /* we may be busy when its time comes */
	return true;
}

/* At the end, too: then they are seen off as all jobs are. */
void busy_due(struct sink *s)
{
	if (!s->later || (now_ns() < s->later_ns && !s->jobs_closed))
		return;
	*s->jobs_end = s->later;
	while (*s->jobs_end)
		s->jobs_end = &(*s->jobs_end)->next;
	s->later = NULL;
	pthread_cond_broadcast(&s->job_more);
}

void busy_wait(struct sink *s)
{
	cond_wait_until(&s->job_more, &s->job_lock, s->later ? s->later_ns : UINT64_MAX);
}
