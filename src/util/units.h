// SPDX-License-Identifier: Apache-2.0
/* Sizes, rates and durations, as people write and read them. */
#ifndef RFTP_UTIL_UNITS_H
#define RFTP_UTIL_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "4096", "64K", "1M", "2G", "1T", "1P" (powers of 1024; "KB", "KiB" and lower case
 * too). 0; -EINVAL on anything else; -ERANGE beyond 64 bits. */
int parse_size(const char *s, uint64_t *bytes);
/* "10" (seconds), "30s", "5m", "1h", "200ms" in nanoseconds. 0; -EINVAL; -ERANGE. */
int parse_duration(const char *s, uint64_t *ns);

/* A time in seconds since 1970: "2026-01-31", "2026-01-31 12:00", "2026-01-31T12:00:30" (local
 * time; UTC with "Z" at the end), "@SECONDS" (negative before 1970), or an age before now such as
 * "90m", "36h", "7d". 0; -EINVAL; -ERANGE. */
int parse_moment(const char *s, int64_t now, int64_t *sec);

/* Bytes per second: a size ("100M"), or bits with "bit" ("10Gbit", powers of 1000); "/s" may
 * follow. 0; -EINVAL; -ERANGE. */
int parse_rate(const char *s, uint64_t *bytes_per_second);
/* A decimal number in [lo, hi]. 0; -EINVAL; -ERANGE. */
int parse_uint(const char *s, uint64_t lo, uint64_t hi, uint64_t *v);

/* An IP packet's type of service: 0 to 255, or its class by name: "cs0" to "cs7", "af11" to
 * "af43" (RFC 2474, 2597), "ef" (3246), "le" (8622). 0; -EINVAL; -ERANGE. */
int parse_tos(const char *s, uint64_t *byte);
/* n bytes as 2n hex digits, in upper or lower case. 0; -EINVAL. */
int parse_hex(const char *s, void *bytes, size_t n);
/* on|yes|true|1, off|no|false|0. 0; -EINVAL. */
int parse_bool(const char *s, bool *v);

/* Is word in list, such as "cpu,memory" or "cpu, memory"? list NULL: no. */
bool list_has(const char *list, const char *word);

/* "" for 1, otherwise "s", behind a noun. */
const char *plural(uint64_t n);

/* "1.5 GiB", "812 MiB/s", "1:02:03"; each writes at most n bytes with its NUL and returns out. */
char *format_size(char *out, size_t n, uint64_t bytes);
char *format_rate(char *out, size_t n, double bytes_per_second);
char *format_seconds(char *out, size_t n, double seconds);

#endif
