// SPDX-License-Identifier: Apache-2.0
/* The shares of the stages in the time of a transfer. */
#include "transfer/xfer.h"

_Static_assert(SIDE_STATES == BULK_STATES, "all states are sent");

#define SAMPLE_NS 20000000ull
/* Samples older than about two seconds hardly count. */
#define DECAY_NS 2e9
/* No transfer takes ten years; sums of all states must not overflow. */
#define STATE_NS_MAX (INT64_MAX / (4 * SIDE_STATES))

void shares_init(struct shares *s)
{
	pthread_mutex_init(&s->lock, NULL);
}

void shares_destroy(struct shares *s)
{
	pthread_mutex_destroy(&s->lock);
}

/* The processor time of all readers or writers. */
static uint64_t files_cpu_ns(const struct file_threads *threads)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < threads->n && threads->at[i]; i++)
		sum += thread_cpu_ns(threads->at[i]->thread);
	return sum;
}

bool shares_due(struct xfer *x, struct side_sample *sample)
{
	const struct file_threads *threads = x->threads;
	struct shares *s = &x->shares;
	uint64_t now = now_ns(), most, cpu;
	bool first = !s->sampled_ns;

	*sample = (struct side_sample){ .ns = now - s->sampled_ns };
	if (sample->ns < SAMPLE_NS)
		return false;
	s->sampled_ns = now;
	LOCK_GUARD(guard, &s->lock);
	if (!s->on)
		return !first;
	most = min_u64(threads->n, cpus_allowed());
	cpu = files_cpu_ns(threads);
	sample->files_on_cpu = cpu > s->files_cpu_ns &&
			       (cpu - s->files_cpu_ns) * 2 > sample->ns * most;
	s->files_cpu_ns = cpu;
	for (uint32_t i = 0; i < x->nroutes; i++) {
		cpu = x->stages[i] ? stage_cpu_ns(x->stages[i]) : 0;
		sample->path_on_cpu |= cpu > s->path_cpu_ns[i] &&
				       (cpu - s->path_cpu_ns[i]) * 2 > sample->ns;
		s->path_cpu_ns[i] = cpu;
	}
	return !first;
}

void shares_run(struct shares *s, bool on)
{
	LOCK_GUARD(guard, &s->lock);

	s->on = on;
}

static void decay(double now[SIDE_STATES], uint64_t ns)
{
	double keep = DECAY_NS / (DECAY_NS + (double)ns);

	for (int i = 0; i < SIDE_STATES; i++)
		now[i] *= keep;
}

void shares_add(struct shares *s, enum side_state state, uint64_t ns)
{
	LOCK_GUARD(guard, &s->lock);

	s->here[state] += ns;
	decay(s->here_now, ns);
	s->here_now[state] += (double)ns;
}

int shares_put(struct shares *s, struct buf *p)
{
	LOCK_GUARD(guard, &s->lock);

	return bulk_stages_put(p, s->here);
}

int shares_get(struct shares *s, struct buf *p)
{
	LOCK_GUARD(guard, &s->lock);
	uint64_t v[SIDE_STATES], more[SIDE_STATES], sum = 0;

	if (bulk_stages_get(p, v))
		return -EBADMSG;
	for (int i = 0; i < SIDE_STATES; i++) {
		if (v[i] > STATE_NS_MAX)
			return -EBADMSG;
		more[i] = v[i] > s->there[i] ? v[i] - s->there[i] : 0;
		sum += more[i];
	}
	memcpy(s->there, v, sizeof(v));
	decay(s->there_now, sum);
	for (int i = 0; i < SIDE_STATES; i++)
		s->there_now[i] += (double)more[i];
	return 0;
}

void shares_combine(const uint64_t source[SIDE_STATES], const uint64_t sink[SIDE_STATES],
		    uint64_t out[STAGES])
{
	double busy = (double)sink[SIDE_STORAGE] + (double)sink[SIDE_CPU];
	double all = busy + (double)sink[SIDE_IDLE], k = all > 0 ? busy / all : 0;
	double flight = (double)source[SIDE_FLIGHT], credits = (double)source[SIDE_CREDITS];
	double at_sink = (flight + credits) * k;
	double on_cpu = busy > 0 ? (double)sink[SIDE_CPU] / busy : 0;

	memset(out, 0, STAGES * sizeof(*out));
	out[STAGE_NAMES] = source[SIDE_NAMES];
	out[STAGE_SOURCE_STORAGE] = source[SIDE_STORAGE];
	out[STAGE_SOURCE_CPU] = source[SIDE_CPU];
	out[STAGE_RATE] = source[SIDE_RATE];
	out[STAGE_CREDITS] = (uint64_t)(credits * (1 - k));
	out[STAGE_NETWORK] = (uint64_t)(flight * (1 - k));
	out[STAGE_SINK_CPU] = (uint64_t)(at_sink * on_cpu);
	out[STAGE_SINK_STORAGE] = (uint64_t)(at_sink * (1 - on_cpu));
}

void shares_of(struct shares *s, bool source, bool recent, uint64_t out[STAGES])
{
	uint64_t here[SIDE_STATES], there[SIDE_STATES];

	pthread_mutex_lock(&s->lock);
	for (int i = 0; i < SIDE_STATES; i++) {
		here[i] = recent ? (uint64_t)s->here_now[i] : s->here[i];
		there[i] = recent ? (uint64_t)s->there_now[i] : s->there[i];
	}
	pthread_mutex_unlock(&s->lock);
	shares_combine(source ? here : there, source ? there : here, out);
}
