// SPDX-License-Identifier: Apache-2.0
/* Maps errors to exit statuses. */
#include "client/exit.h"

#include <errno.h>
#include <stddef.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* What is not listed is an error of the files: EXIT_SOME_FAILED. */
static const struct {
	int code;
	bool lost;                     /* the connection went, not more */
	enum exit_status early, begun; /* before and after the transfer was agreed */
} table[] = {
	{ -EINTR, false, EXIT_INTERRUPTED, EXIT_INTERRUPTED },
	{ -ECANCELED, false, EXIT_INTERRUPTED, EXIT_INTERRUPTED },
	{ -EPIPE, true, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -ECONNRESET, true, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -ECONNABORTED, true, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -ETIMEDOUT, true, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -ENOTCONN, false, EXIT_CONNECT, EXIT_INTERRUPTED }, /* no server is open */
	{ -ECONNREFUSED, false, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -EHOSTUNREACH, false, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -ENETUNREACH, false, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -ENETDOWN, false, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -EPROTO, false, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -EBADMSG, false, EXIT_CONNECT, EXIT_INTERRUPTED },
	{ -EPROTONOSUPPORT, false, EXIT_CONNECT, EXIT_CONNECT },
	{ -EKEYREJECTED, false, EXIT_CONNECT, EXIT_CONNECT },
	{ -EKEYEXPIRED, false, EXIT_CONNECT, EXIT_CONNECT },
	{ -EAGAIN, false, EXIT_CONNECT, EXIT_INTERRUPTED }, /* the server says: later */
	{ -ENODEV, false, EXIT_CONNECT, EXIT_INTERRUPTED }, /* no RDMA device leads there */
};

enum exit_status exit_of(int code, bool begun)
{
	if (code == 0)
		return EXIT_DONE;
	for (size_t i = 0; i < COUNT(table); i++)
		if (table[i].code == code)
			return begun ? table[i].begun : table[i].early;
	return EXIT_SOME_FAILED;
}

bool exit_is_lost(int code)
{
	for (size_t i = 0; i < COUNT(table); i++)
		if (table[i].code == code)
			return table[i].lost;
	return false;
}

bool exit_is_damaged(int code)
{
	return code == -EPROTO || code == -EBADMSG;
}

enum exit_status exit_worse(enum exit_status a, enum exit_status b)
{
	return a > b ? a : b;
}
