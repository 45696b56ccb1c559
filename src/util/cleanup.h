// SPDX-License-Identifier: Apache-2.0
/* Scope attributes: what a local variable owns is given back when it leaves
 * scope, on every way out. Hand a thing on with steal_ptr()/steal_fd(). */
#ifndef RFTP_UTIL_CLEANUP_H
#define RFTP_UTIL_CLEANUP_H

#include <pthread.h>
#include <stdlib.h>

#define CLEANUP(fn) __attribute__((cleanup(fn)))
#define CLEANUP_FREE CLEANUP(cleanup_free)
#define CLEANUP_CLOSE CLEANUP(cleanup_close)
#define CLEANUP_UNLOCK CLEANUP(cleanup_unlock)

/* Declares that the lock is held until the end of the scope. */
#define LOCK_GUARD(name, mutex) \
	pthread_mutex_t *name CLEANUP_UNLOCK __attribute__((unused)) = lock_and_return(mutex)

#define steal_ptr(pp) ({ __typeof__(*(pp)) stolen_ = *(pp); *(pp) = NULL; stolen_; })

static inline int steal_fd(int *fd)
{
	int stolen = *fd;

	*fd = -1;
	return stolen;
}

static inline void cleanup_free(void *p)
{
	free(*(void **)p);
}

/* Closes *fd unless it is negative, and makes it -1; keeps errno. */
void cleanup_close(int *fd);

static inline void cleanup_unlock(pthread_mutex_t **m)
{
	if (*m)
		pthread_mutex_unlock(*m);
}

static inline pthread_mutex_t *lock_and_return(pthread_mutex_t *m)
{
	pthread_mutex_lock(m);
	return m;
}

#endif
