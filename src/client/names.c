// SPDX-License-Identifier: Apache-2.0
/* Reads lists of names. */
#include "client/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int names_add(struct names *names, char *name)
{
	if (name && names->n + 1 >= names->room) {
		size_t room = names->room ? 2 * names->room : 64;
		char **all = reallocarray(names->all, room, sizeof(*all));

		if (all) {
			names->all = all;
			names->room = room;
		}
	}
	if (!name || names->n + 1 >= names->room) {
		free(name);
		return -ENOMEM;
	}
	names->all[names->n++] = name;
	names->all[names->n] = NULL;
	return 0;
}

void names_clear(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->all[i]);
	free(names->all);
	memset(names, 0, sizeof(*names));
}

/* Take out of name, in place, what names no component: "a//./b/" becomes "a/b". -EINVAL:
 * it climbs out. */
static int tidy(char *name)
{
	char *out = name, *in = name;

	while (*in) {
		size_t n = strcspn(in, "/");

		if (n == 2 && in[0] == '.' && in[1] == '.')
			return -EINVAL;
		if (n > 0 && !(n == 1 && in[0] == '.')) {
			if (out > name)
				*out++ = '/';
			memmove(out, in, n);
			out += n;
		}
		in += n;
		in += strspn(in, "/");
	}
	*out = '\0';
	return 0;
}

static int add_line(struct names *names, const char *file, const char *line, struct err *e)
{
	char *name = strdup(line);

	if (name && tidy(name)) {
		free(name);
		return err_set(e, -EINVAL, "%s: \"%s\" climbs out of the directory",
			       printable(file), printable(line));
	}
	if (name && !*name) { /* an empty line, or the directory itself */
		free(name);
		return 0;
	}
	if (names_add(names, name))
		return err_sys(e, -ENOMEM, "%s", printable(file));
	return 0;
}

static int read_all(FILE *in, const char *file, bool nul, struct names *names, struct err *e)
{
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	while (rc == 0 && (n = getdelim(&line, &room, nul ? '\0' : '\n', in)) > 0) {
		if (line[n - 1] == (nul ? '\0' : '\n'))
			line[--n] = '\0';
		if (strlen(line) != (size_t)n)
			rc = err_set(e, -EINVAL, "%s: holds NUL bytes: is -0 missing?",
				     printable(file));
		else
			rc = add_line(names, file, line, e);
	}
	if (rc == 0 && ferror(in))
		rc = err_sys(e, -errno, "cannot read %s", printable(file));
	return rc;
}

int names_read(const char *file, bool nul, struct names *names, struct err *e)
{
	bool standard = !strcmp(file, "-");
	FILE *in = standard ? stdin : fopen(file, "re");
	int rc;

	memset(names, 0, sizeof(*names));
	if (!in)
		return err_sys(e, -errno, "cannot read %s", printable(file));
	rc = read_all(in, standard ? "standard input" : file, nul, names, e);
	if (!standard)
		fclose(in);
	if (rc)
		names_clear(names);
	return rc;
}

const char *name_last(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

char *name_below(const char *dir, const char *name)
{
	size_t n = strlen(dir);
	char *path;

	if (asprintf(&path, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name) < 0)
		return NULL;
	return path;
}

bool names_directory(const char *path)
{
	const char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;

	return !*last || !strcmp(last, ".") || !strcmp(last, "..");
}
