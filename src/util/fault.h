// SPDX-License-Identifier: Apache-2.0
/* Making things fail on purpose, as an environment variable says, so that tests can.
 *
 *   rules  := rule { ";" rule }
 *   rule   := POINT ":" action { ":" option }
 *           | BARE { ":" option }                   what it does is in its name
 *           | "kill:" SIGNAL ":at=" POINT { ":" option }     the same as POINT ":" SIGNAL
 *   action := an errno (ENOSPC) | a signal (SIGKILL), sent to the process
 *   option := "after=" SIZE    once so much has gone through the point; where a point
 *                              moves no bytes, each call counts as one
 *           | "rate=" P        with this probability, 0..1 or "5%"
 *           | "seed=" N        of the rule's own random numbers, 1 unless given: the
 *                              same calls fail in every run
 *           | "file=" PATH     only while PATH exists; the rule sleeps, and counts
 *                              nothing, without it. PATH has no ":" and no ";"
 *           | "count=" N       at most so many times
 *
 * The first rule that strikes decides. A signal that does not kill lets the
 * operation go on. POINT and BARE are the words of whoever has the hooks. */
#ifndef RFTP_UTIL_FAULT_H
#define RFTP_UTIL_FAULT_H

#include "util/err.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct fault_rule;

/* One layer's faults, a static object with the first four fields set. */
struct faults {
	const char *env;                 /* the variable's name */
	const char *const *points;       /* NULL at the end */
	const char *const *bare;         /* NULL at the end */
	bool *on;                        /* kept true while there are rules */
	pthread_mutex_t lock;            /* PTHREAD_MUTEX_INITIALIZER; guards the rest */
	struct fault_rule *rules;
	unsigned nrules;
};

/* Take these rules in place of those there are; NULL or "": none. 0, or a negative errno
 * with the reason in e and the old rules in force. Not while other threads meet hooks. */
int faults_set(struct faults *f, const char *text, struct err *e);
/* From the environment, in a constructor: before main, hence before any thread and any
 * use. A test whose rules are not understood must not go on without them: exits 2. */
void faults_from_env(struct faults *f);
/* A rule strikes at point, where so many bytes are to move (0: it moves none); its action
 * is in *code (negative errno) or *sig, or neither when it has none. Any thread. */
bool faults_reached(struct faults *f, const char *point, uint64_t bytes, int *code, int *sig);
/* The same with its action done: the negative errno to fail with (bare: that of a rule
 * without action), or 0 when nothing strikes or the signal let us live. Any thread. */
int faults_strike(struct faults *f, const char *point, uint64_t bytes, int bare);

#endif
