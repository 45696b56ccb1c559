// SPDX-License-Identifier: Apache-2.0
/* Is this a build with a sanitizer? Its own threads and system calls must then be let happen. */
#ifndef RFTP_UTIL_SANITIZER_H
#define RFTP_UTIL_SANITIZER_H

#ifdef __has_feature /* clang */
#define SANITIZED_BY_CLANG (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
			    __has_feature(memory_sanitizer))
#else
#define SANITIZED_BY_CLANG 0
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || SANITIZED_BY_CLANG
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#endif
