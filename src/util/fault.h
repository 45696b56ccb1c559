// SPDX-License-Identifier: Apache-2.0
/* Fault injection for tests: the rules in the environment variable RFTP_FAULT make calls of storage
 * and of the network fail. It is compiled only with "configure --enable-faults"; in other builds
 * FAULT() is 0, and the programs contain no parser and no names of points.
 *
 *   rules  := rule { ";" rule }
 *   rule   := POINT ":" action { ":" option }
 *           | EFFECT { ":" option }
 *   action := an errno (ENOSPC) | a signal (SIGKILL), sent to the process
 *   option := "after=" SIZE    only after so many bytes have passed the point; a call
 *                              that moves no bytes counts as one
 *           | "rate=" P        with this probability, 0..1 or "5%"
 *           | "seed=" N        seed of the rule's random numbers, 1 by default: the
 *                              same calls fail in every run
 *           | "file=" PATH     only while PATH exists; without it the rule counts
 *                              nothing. PATH has no ":" and no ";"
 *           | "count=" N       at most so many times
 *
 * The first matching rule decides. After a signal that does not end the process the
 * operation continues. POINT and EFFECT are rows of the table in util/fault.c. */
#ifndef RFTP_UTIL_FAULT_H
#define RFTP_UTIL_FAULT_H

#ifdef ENABLE_FAULTS

#include "util/err.h"

#include <stdbool.h>
#include <stdint.h>

/* The negative errno that the operation at point must return instead of running, or 0. bytes: the
 * bytes that the operation will move; 0: none. Any thread. */
#define FAULT(point, bytes) (__builtin_expect(faults_on, 0) ? \
	fault_strike((point), (bytes)) : 0)
/* How many of len (>= 1) bytes the next read or write must request. Any thread. */
#define FAULT_SHORT(point, len) (__builtin_expect(faults_on, 0) ? \
	fault_shorten((point), (len)) : (len))

/* True while there are rules. */
extern bool faults_on;
int fault_strike(const char *point, uint64_t bytes);
uint32_t fault_shorten(const char *point, uint32_t len);

/* Replace the rules; NULL or "": no rules. 0, or a negative errno with text; on an error the old
 * rules stay. No other thread may use FAULT() meanwhile. */
int faults_set(const char *text, struct err *e);

#else
#define FAULT(point, bytes) ((void)(bytes), 0)
#define FAULT_SHORT(point, len) (len)
#endif

#endif
