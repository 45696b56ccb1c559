// SPDX-License-Identifier: Apache-2.0
/* Fault rules: read, and struck by. */
#include "util/fault.h"

#include "util/cleanup.h"
#include "util/log.h"
#include "util/random.h"
#include "util/units.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RULES_MAX 32

struct fault_rule {
	const char *point;  /* one of points or bare */
	int code;           /* negative errno; 0: none */
	int sig;            /* 0: none */
	uint64_t after;
	uint64_t passed;    /* bytes or calls so far, while awake */
	uint64_t threshold; /* of 2^53: the rate */
	uint64_t random;    /* state */
	uint64_t count;     /* times it may still strike */
	char *file;
};

/* ---- reading the rules ---- */

static const char *find_word(const char *const *words, const char *word)
{
	for (; *words; words++)
		if (strcmp(*words, word) == 0)
			return *words;
	return NULL;
}

/* "open, read, write" for messages. */
static void list_words(char *out, size_t n, const char *const *words)
{
	size_t len = strlen(out);

	for (; *words && len < n; words++)
		len += (size_t)snprintf(out + len, n - len, "%s%s", len ? ", " : "", *words);
}

static int find_errno(const char *word)
{
	const char *name;

	for (int i = 1; i < 4096; i++) {
		name = strerrorname_np(i);
		if (name && strcmp(name, word) == 0)
			return i;
	}
	return 0;
}

static int find_signal(const char *word)
{
	const char *name;

	if (strncmp(word, "SIG", 3) != 0)
		return 0;
	for (int i = 1; i < NSIG; i++) {
		name = sigabbrev_np(i);
		if (name && strcmp(name, word + 3) == 0)
			return i;
	}
	return 0;
}

static int set_action(struct fault_rule *r, const char *word, struct err *e)
{
	r->sig = find_signal(word);
	if (r->sig == 0)
		r->code = -find_errno(word);
	if (r->sig == 0 && r->code == 0)
		return err_set(e, -EINVAL, "\"%s\" is neither an errno nor a signal",
			       printable(word));
	return 0;
}

static int set_point(const struct faults *f, struct fault_rule *r, const char *word, struct err *e)
{
	char list[256] = "";

	r->point = find_word(f->points, word);
	if (r->point)
		return 0;
	list_words(list, sizeof(list), f->points);
	list_words(list, sizeof(list), f->bare);
	return err_set(e, -EINVAL, "\"%s\" is no point; there are %s", printable(word), list);
}

/* "0.25", "1", "5%" in units of 2^-53. By hand: strtod() heeds the locale. */
static int parse_rate_of_one(const char *s, uint64_t *threshold)
{
	double v = 0, unit = 1;
	const char *p = s;

	for (; *p >= '0' && *p <= '9'; p++)
		v = v * 10 + (*p - '0');
	if (*p == '.') {
		for (p++; *p >= '0' && *p <= '9'; p++)
			v += (*p - '0') * (unit /= 10);
	}
	if (p == s || (p == s + 1 && *s == '.'))
		return -EINVAL;
	if (*p == '%') {
		v /= 100;
		p++;
	}
	if (*p || v > 1)
		return -EINVAL;
	*threshold = (uint64_t)(v * 9007199254740992.0);
	return 0;
}

static int set_option(const struct faults *f, struct fault_rule *r, const char *word,
		      struct err *e)
{
	const char *value = strchr(word, '=');
	int ret = -EINVAL;

	if (!value)
		return err_set(e, -EINVAL, "\"%s\" is no option; there are after=, rate=, "
			       "seed=, file=, count=, at=", printable(word));
	value++;
	if (strncmp(word, "after=", 6) == 0) {
		ret = parse_size(value, &r->after);
	} else if (strncmp(word, "rate=", 5) == 0) {
		ret = parse_rate_of_one(value, &r->threshold);
	} else if (strncmp(word, "seed=", 5) == 0) {
		ret = parse_uint(value, 0, UINT64_MAX, &r->random);
	} else if (strncmp(word, "count=", 6) == 0) {
		ret = parse_uint(value, 1, UINT64_MAX, &r->count);
	} else if (strncmp(word, "at=", 3) == 0) {
		if (r->point)
			return err_set(e, -EINVAL, "\"%s\": at= goes with kill only",
				       printable(word));
		return set_point(f, r, value, e);
	} else if (strncmp(word, "file=", 5) == 0 && *value) {
		free(r->file);
		r->file = strdup(value);
		ret = r->file ? 0 : -ENOMEM;
	}
	if (ret < 0)
		return err_set(e, ret, "\"%s\" is not understood", printable(word));
	return 0;
}

/* What a rule begins with: its point, and its action unless it is bare. */
static int parse_what(const struct faults *f, struct fault_rule *r, char **rest, struct err *e)
{
	const char *word = strsep(rest, ":");
	int ret;

	r->point = find_word(f->bare, word);
	if (r->point)
		return 0;
	ret = strcmp(word, "kill") == 0 ? 0 : set_point(f, r, word, e);
	if (ret < 0)
		return ret;
	if (!*rest)
		return err_set(e, -EINVAL, "\"%s\" lacks what is to happen: an errno or a "
			       "signal", word);
	return set_action(r, strsep(rest, ":"), e);
}

/* One rule; cuts text up. */
static int parse_rule(const struct faults *f, char *text, struct fault_rule *r, struct err *e)
{
	char *rest = text;
	int ret;

	r->threshold = UINT64_MAX;
	r->random = 1;
	r->count = UINT64_MAX;
	ret = parse_what(f, r, &rest, e);
	while (ret == 0 && rest)
		ret = set_option(f, r, strsep(&rest, ":"), e);
	if (ret == 0 && !r->point)
		ret = err_set(e, -EINVAL, "kill lacks at=POINT");
	return ret;
}

static void free_rules(struct fault_rule *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		free(list[i].file);
	free(list);
}

int faults_set(struct faults *f, const char *text, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(text ? text : "");
	struct fault_rule *list = calloc(RULES_MAX, sizeof(*list));
	char *rest = copy, *word;
	unsigned n = 0;
	int ret = 0;

	if (!copy || !list) {
		free(list);
		return err_sys(e, -ENOMEM, "%s", f->env);
	}
	while (ret == 0 && (word = strsep(&rest, ";"))) {
		if (!*word)
			continue;
		if (n == RULES_MAX)
			ret = err_set(e, -E2BIG, "more than %d rules", RULES_MAX);
		else
			ret = parse_rule(f, word, &list[n++], e);
	}
	if (ret < 0) {
		free_rules(list, n);
		return ret;
	}

	LOCK_GUARD(held, &f->lock);
	free_rules(f->rules, f->nrules);
	f->rules = list;
	f->nrules = n;
	*f->on = n > 0;
	return 0;
}

void faults_from_env(struct faults *f)
{
	const char *text = secure_getenv(f->env);
	struct err e = ERR_INIT;

	if (text && faults_set(f, text, &e) < 0) {
		dprintf(STDERR_FILENO, "%s: %s\n", f->env, e.text);
		_exit(2);
	}
}

/* ---- striking ---- */

/* Does r, whose point has been reached with so many bytes, strike? */
static bool strikes(struct fault_rule *r, uint64_t bytes)
{
	if (r->file && access(r->file, F_OK) < 0)
		return false;
	r->passed += bytes ? bytes : 1;
	if (r->passed <= r->after || r->count == 0)
		return false;
	if (random_next(&r->random) >> 11 >= r->threshold)
		return false;
	r->count--;
	return true;
}

bool faults_reached(struct faults *f, const char *point, uint64_t bytes, int *code, int *sig)
{
	LOCK_GUARD(held, &f->lock);

	for (unsigned i = 0; i < f->nrules; i++) {
		struct fault_rule *r = &f->rules[i];

		if (strcmp(r->point, point) != 0 || !strikes(r, bytes))
			continue;
		*code = r->code;
		*sig = r->sig;
		return true;
	}
	return false;
}

int faults_strike(struct faults *f, const char *point, uint64_t bytes, int bare)
{
	int code, sig;

	if (!faults_reached(f, point, bytes, &code, &sig))
		return 0;
	if (sig) {
		log_debug("fault: SIG%s at %s", sigabbrev_np(sig), point);
		/* To the process: a thread of ours has its signals blocked. */
		kill(getpid(), sig);
		return 0;
	}
	if (!code)
		code = bare;
	log_debug("fault: %s fails with %s", point, code ? strerrorname_np(-code) : "nothing");
	return code;
}
