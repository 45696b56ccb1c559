// SPDX-License-Identifier: Apache-2.0
/* Fault injection: the table of points, the parser of the rules, their effect. */
#include "util/fault.h"

#include "util/base.h"
#include "util/log.h"
#include "util/units.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>

#define ENVIRONMENT "RFTP_FAULT"
#define RULES_MAX 32
#define STALL_NS 100000000

/* The rule of a point names its action, an errno or a signal. An effect has no action. */
static const struct point {
	const char *name;
	bool effect;
} points[] = {
	/* storage */
	{ .name = "open" }, { .name = "read" }, { .name = "write" }, { .name = "sync" },
	{ .name = "rename" }, { .name = "mkdir" },
	{ .name = "commit" },  /* a complete file is about to get its name */
	{ .name = "journal" }, /* a record of a part's journal is about to be written */
	/* connections */
	{ .name = "connect" }, { .name = "accept" }, { .name = "send" }, { .name = "recv" },
	{ .name = "sendfile" },
	/* effects */
	{ "short-read", true }, { "short-write", true }, /* half of the bytes are moved */
	{ "corrupt", true },        /* flip a bit in the payload of an arriving block */
	{ "corrupt-head", true },   /* flip a bit in the number of an arriving block */
	{ "cut", true },            /* close a channel */
	{ "stall", true },          /* a path's thread sleeps for 100 ms */
	{ "lossy", true },          /* count all packets of a path as lost */
	{ "far", true },            /* take a round trip for 100 ms */
	/* RDMA only */
	{ "wrong-key", true },      /* use a remote key that the peer never announced */
	{ "wrong-place", true },    /* use a remote address outside of the peer's memory */
	{ "flip-message", true },   /* flip a bit in a list of credits or announcements */
	{ "lose-message", true },   /* do not send the list */
	{ "repeat-message", true }, /* send the list twice */
};

enum { POINTS = sizeof(points) / sizeof(points[0]) };

struct fault_rule {
	const struct point *point;
	int code;           /* negative errno, -ECONNRESET for an effect; 0: none */
	int sig;            /* 0: none */
	uint64_t after;
	uint64_t passed;    /* bytes or calls so far, while file exists */
	uint64_t threshold; /* the rate, in units of 2^-53 */
	uint64_t random;    /* state */
	uint64_t count;     /* how often the rule may still match */
	char *file;
};

bool faults_on;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the rest */
static struct fault_rule *rules;
static unsigned nrules;

/* ---- reading the rules ---- */

/* word: an errno (ENOSPC) or a signal (SIGKILL). */
static int set_action(struct fault_rule *r, const char *word, struct err *e)
{
	for (int i = 1; i < 4096; i++) {
		const char *name = strerrorname_np(i);
		const char *sig = i < NSIG ? sigabbrev_np(i) : NULL;

		if (name && strcmp(name, word) == 0)
			r->code = -i;
		if (sig && strncmp(word, "SIG", 3) == 0 && strcmp(sig, word + 3) == 0)
			r->sig = i;
	}

	if (r->sig == 0 && r->code == 0)
		return err_set(e, -EINVAL, "\"%s\" is neither an errno nor a signal",
			       printable(word));
	return 0;
}

static int set_point(struct fault_rule *r, const char *word, struct err *e)
{
	char all[512] = "";
	size_t len = 0;

	for (size_t i = 0; i < POINTS; i++) {
		r->point = &points[i];
		if (!strcmp(points[i].name, word))
			return 0;
		len += (size_t)snprintf(all + len, sizeof(all) - len, "%s%s%s", i ? ", " : "",
					points[i].name, points[i].effect ? "" : ":ACTION");
	}
	return err_set(e, -EINVAL, "\"%s\" is not a point: there are %s", printable(word), all);
}

/* "0.25", "1", "5%" in units of 2^-53. */
static int parse_probability(const char *s, uint64_t *threshold)
{
	char *end;
	double v = strtod(s, &end); /* the programs use the C locale for numbers */

	if (end > s && *end == '%') {
		v /= 100;
		end++;
	}
	if (end == s || *end || !(v >= 0 && v <= 1))
		return -EINVAL;
	*threshold = (uint64_t)(v * 9007199254740992.0);
	return 0;
}

static int set_rule_option(struct fault_rule *r, char *word, struct err *e)
{
	char *value = strchr(word, '=');
	int ret = -EINVAL;

	if (!value)
		return err_set(e, -EINVAL, "\"%s\" is not an option; the options are after=, "
			       "rate=, seed=, file=, count=", printable(word));
	*value++ = '\0';
	if (strcmp(word, "after") == 0) {
		ret = parse_size(value, &r->after);
	} else if (strcmp(word, "rate") == 0) {
		ret = parse_probability(value, &r->threshold);
	} else if (strcmp(word, "seed") == 0) {
		ret = parse_uint(value, 0, UINT64_MAX, &r->random);
	} else if (strcmp(word, "count") == 0) {
		ret = parse_uint(value, 1, UINT64_MAX, &r->count);
	} else if (strcmp(word, "file") == 0 && *value) {
		free(r->file);
		r->file = strdup(value);
		ret = r->file ? 0 : -ENOMEM;
	}
	if (ret < 0)
		return err_set(e, ret, "\"%s=%s\" is not valid", printable(word),
			       printable(value));
	return 0;
}

/* Parse one rule; text is modified. */
static int parse_rule(char *text, struct fault_rule *r, struct err *e)
{
	char *rest = text;
	const char *word = strsep(&rest, ":");
	int ret;

	r->threshold = UINT64_MAX;
	r->random = 1;
	r->count = UINT64_MAX;
	ret = set_point(r, word, e);
	if (ret == 0 && r->point->effect)
		r->code = -ECONNRESET;
	else if (ret == 0 && !rest)
		ret = err_set(e, -EINVAL, "\"%s\" needs an errno or a signal", word);
	else if (ret == 0)
		ret = set_action(r, strsep(&rest, ":"), e);

	while (ret == 0 && rest)
		ret = set_rule_option(r, strsep(&rest, ":"), e);
	return ret;
}

static void free_rules(struct fault_rule *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free(list[i].file);
	free(list);
}

int faults_set(const char *text, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(text ? text : "");
	struct fault_rule *list = calloc(RULES_MAX, sizeof(*list));
	char *rest = copy, *word;
	unsigned n = 0;
	int ret = 0;

	if (!copy || !list) {
		free(list);
		return err_sys(e, -ENOMEM, ENVIRONMENT);
	}
	while (ret == 0 && (word = strsep(&rest, ";"))) {
		if (!*word)
			continue;
		if (n == RULES_MAX)
			ret = err_set(e, -E2BIG, "more than %d rules", RULES_MAX);
		else
			ret = parse_rule(word, &list[n++], e);
	}

	if (ret < 0) {
		free_rules(list, n);
		return ret;
	}

	LOCK_GUARD(held, &lock);
	free_rules(rules, nrules);
	rules = list;
	nrules = n;
	faults_on = n > 0;
	return 0;
}

/* Runs before main, when there is no other thread and no FAULT() has run. A test must not run
 * without the rules that it asked for, so an invalid rule ends the program. */
__attribute__((constructor)) static void read_environment(void)
{
	const char *text = secure_getenv(ENVIRONMENT);
	struct err e = ERR_INIT;

	if (text && faults_set(text, &e) < 0) {
		dprintf(STDERR_FILENO, ENVIRONMENT ": %s\n", e.text);
		_exit(2);
	}
}

/* ---- the effect ---- */

/* The first rule that matches an operation of this many bytes at point; NULL: none. */
static const struct fault_rule *find_rule(const char *point, uint64_t bytes)
{
	LOCK_GUARD(held, &lock);

	for (struct fault_rule *r = rules; r < rules + nrules; r++) {
		if (strcmp(r->point->name, point) != 0 || (r->file && access(r->file, F_OK) < 0))
			continue;
		r->passed += bytes ? bytes : 1;
		if (r->passed <= r->after || r->count == 0 ||
		    random_next(&r->random) >> 11 >= r->threshold)
			continue;
		r->count--;
		return r;
	}

	return NULL;
}

int fault_strike(const char *point, uint64_t bytes)
{
	const struct timespec stall = { .tv_nsec = STALL_NS };
	const struct fault_rule *r = find_rule(point, bytes);

	if (!r)
		return 0;
	if (r->sig) {
		log_debug("fault: SIG%s at %s", sigabbrev_np(r->sig), point);
		/* Signal the process, not this thread: our threads block signals. */
		kill(getpid(), r->sig);
		return 0;
	}
	if (r->point->effect)
		log_debug("fault: %s", point);
	else
		log_debug("fault: %s at %s", strerrorname_np(-r->code), point);
	if (strcmp(point, "stall") != 0)
		return r->code;
	nanosleep(&stall, NULL);
	return 0;
}

uint32_t fault_shorten(const char *point, uint32_t len)
{
	if (len < 2 || !fault_strike(point, len))
		return len;
	/* Whole pages if possible, so that direct I/O stays aligned. */
	return len >= 8192 ? len / 2 & ~4095u : len / 2;
}
