// SPDX-License-Identifier: Apache-2.0
/* Reads the users file and checks passwords against it. */
#include "server/users.h"
#include "crypto/crypto.h"
#include "server/option_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
	FILE_MAX = 16 << 20,
	FIELDS_LEAST = 5,
	FIELDS = 6,
	NAME_LEN_MAX = 63,
};

static void wipe(char *s)
{
	if (s)
		crypto_wipe(s, strlen(s));
}

void user_clear(struct user *u)
{
	free(u->name);
	wipe(u->hash);
	free(u->hash);
	free(u->root);
	free(u->home);
	free(u->system_user);
	memset(u, 0, sizeof(*u));
}

/* ---- one line ---- */

static int set_rights(struct user *u, const char *rights, struct err *e)
{
	for (unsigned i = RIGHTS_RO; srv_rights_words[i]; i++) {
		if (!strcmp(rights, srv_rights_words[i])) {
			u->rights = (enum rights)i;
			return 0;
		}
	}
	return err_set(e, -EINVAL, "rights \"%s\" are not ro, rw, nodelete or upload",
		       printable(rights));
}

static int check_fields(char *const field[FIELDS], struct err *e)
{
	if (!*field[0] || strlen(field[0]) > NAME_LEN_MAX)
		return err_set(e, -EINVAL, "the name is empty or longer than %d bytes",
			       NAME_LEN_MAX);
	if (*field[2] && *field[2] != '/')
		return err_set(e, -EINVAL, "root \"%s\" does not begin with a slash",
			       printable(field[2]));
	if (field[5] && !*field[5])
		return err_set(e, -EINVAL, "the system user is empty: leave the last colon away");
	if (*field[3] && *field[3] != '/')
		return err_set(e, -EINVAL, "home \"%s\" does not begin with a slash",
			       printable(field[3]));
	return 0;
}

static int fill_user(struct user *u, char *const field[FIELDS], struct err *e)
{
	int rc = check_fields(field, e);

	if (rc == 0)
		rc = set_rights(u, field[4], e);
	if (rc < 0)
		return rc;
	u->name = strdup(field[0]);
	u->hash = strdup(field[1]);
	u->root = strdup(field[2]);
	u->home = strdup(*field[3] ? field[3] : "/");
	u->system_user = field[5] ? strdup(field[5]) : NULL;
	if (u->name && u->hash && u->root && u->home && !u->system_user == !field[5])
		return 1;
	user_clear(u);
	return err_sys(e, -ENOMEM, "users");
}

/* line is cut to pieces. */
static int parse_in_place(char *line, struct user *u, struct err *e)
{
	char *field[FIELDS] = { NULL }, *rest = line;
	int n = 0;

	line[strcspn(line, "\r\n")] = '\0';
	if (!*line || *line == '#')
		return 0;
	while (rest && n < FIELDS)
		field[n++] = strsep(&rest, ":");
	if (n < FIELDS_LEAST || rest)
		return err_set(e, -EINVAL, "not of the form name:hash:root:home:rights, with "
			       ":system user behind it or not");
	return fill_user(u, field, e);
}

int user_parse(const char *line, struct user *u, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(line);
	int rc;

	memset(u, 0, sizeof(*u));
	if (!copy)
		return err_sys(e, -ENOMEM, "users");
	rc = parse_in_place(copy, u, e);
	crypto_wipe(copy, strlen(line));
	return rc;
}

/* ---- the file ---- */

/* Calls fn for each user, until it returns other than 0; then that. A bad line ends it
 * when strict; otherwise it must not lock out those behind it. */
static int each_user(const char *file, bool strict, int (*fn)(void *arg, struct user *u),
		     void *arg, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	int rc = read_file(file, FILE_MAX, &text, &len);
	unsigned line = 0;
	struct user u;
	char *rest = text, *next;

	if (rc < 0)
		return err_sys(e, rc, "users file %s", printable(file));
	for (rc = 0; rc == 0 && (next = strsep(&rest, "\n")); ) {
		line++;
		rc = user_parse(next, &u, e);
		if (rc < 0)
			err_prefix(e, "%s:%u", printable(file), line);
		if (rc < 0 && !strict) {
			log_warn("%s", e->text);
			rc = e->code = 0;
			*e->text = '\0'; /* it is no reason for anything */
		}
		if (rc > 0)
			rc = fn(arg, &u);
		user_clear(&u);
	}
	crypto_wipe(text, len);
	return rc;
}

struct wanted {
	const char *name;
	struct user *found;
};

static int is_wanted(void *arg, struct user *u)
{
	struct wanted *w = arg;

	if (strcmp(u->name, w->name))
		return 0;
	*w->found = *u;
	memset(u, 0, sizeof(*u));
	return 1;
}

int users_find(const char *file, const char *name, struct user *u, struct err *e)
{
	struct wanted w = { name, u };

	memset(u, 0, sizeof(*u));
	return each_user(file, false, is_wanted, &w, e);
}

int owner_writes(const char *what, const char *file, struct err *e)
{
	struct stat st;

	if (stat(file, &st) < 0)
		return err_sys(e, -errno, "%s %s", what, printable(file));
	if (st.st_mode & 022)
		return err_set(e, -EPERM, "%s %s can be written by others (mode %04o): chmod go-w %s",
			       what, printable(file), st.st_mode & 07777, printable(file));
	return 0;
}

static int any(void *arg, struct user *u)
{
	return 0;
}

int users_verify(const char *file, struct err *e)
{
	int rc = owner_writes("users file", file, e);

	return rc < 0 ? rc : each_user(file, true, any, NULL, e);
}
