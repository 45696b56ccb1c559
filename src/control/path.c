// SPDX-License-Identifier: Apache-2.0
/* What a path of the protocol means, as text. */
#include "control/session.h"

#include <stdlib.h>
#include <string.h>

/* Append the components of p to the absolute path in out of length n, which has room. */
static size_t append(char *out, size_t n, const char *p)
{
	while (*p) {
		size_t len = strcspn(p, "/");

		if (len == 2 && p[0] == '.' && p[1] == '.') {
			while (n > 0 && out[--n] != '/')
				;
		} else if (len && !(len == 1 && p[0] == '.')) {
			out[n++] = '/';
			memcpy(out + n, p, len);
			n += len;
		}
		p += len;
		p += strspn(p, "/");
	}
	return n;
}

char *ftp_path_resolve(const char *cwd, const char *home, const char *arg)
{
	size_t len = strlen(arg), n = 0;
	bool slash = len && arg[len - 1] == '/';
	const char *from = cwd;
	char *out;

	if (arg[0] == '/') {
		from = "";
	} else if (arg[0] == '~' && (arg[1] == '/' || !arg[1])) {
		from = home;
		arg++;
	}
	out = malloc(strlen(from) + len + 4);
	if (!out)
		return NULL;
	n = append(out, n, from);
	n = append(out, n, arg);
	if (n == 0 || slash)
		out[n++] = '/';
	out[n] = '\0';
	return out;
}
