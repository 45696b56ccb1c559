// SPDX-License-Identifier: Apache-2.0
/* Reads the users file and the map of certificates; changes from root to a system user
 * (credentials(7), capabilities(7)). */
#include "server/auth/auth.h"
#include "crypto/crypto.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#define BLANKS " \t"

enum {
	FILE_MAX = 16 << 20,
	FIELDS_LEAST = 5,
	FIELDS = 6,
	NAME_LEN_MAX = 63,
};

/* ---- files ---- */

typedef int line_fn(void *arg, const char *line, struct err *e);

/* Call fn for each line until it returns a positive number, which is the result. strict: others
 * must not be able to write the file, and a negative result ends the loop, too. Otherwise a bad
 * line is logged and skipped, so that it does not lock out the users on later lines. what: the kind
 * of file, for messages. */
static int users_each_line(const char *what, const char *file, bool strict, line_fn *fn, void *arg,
			   struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len = 0;
	int rc = read_file(file, FILE_MAX, &text, &len);
	char *rest = text, *line;
	struct stat st;

	if (rc == 0 && strict && stat(file, &st) < 0)
		rc = -errno;
	if (rc < 0)
		return err_sys(e, rc, "%s %s", what, printable(file));
	rc = 0;
	if (strict && st.st_mode & 022)
		rc = err_set(e, -EPERM, "%s %s: others can write it (mode %04o): chmod go-w %s",
			     what, printable(file), st.st_mode & 07777, printable(file));
	for (unsigned n = 1; rc == 0 && (line = strsep(&rest, "\n")); n++) {
		struct err why = ERR_INIT;

		line[strcspn(line, "\r")] = '\0';
		rc = *line && *line != '#' ? fn(arg, line, &why) : 0;
		if (rc < 0 && strict)
			err_set(e, rc, "%s:%u: %s", printable(file), n, why.text);
		if (rc < 0 && !strict) {
			log_warn("%s:%u: %s", printable(file), n, why.text);
			rc = 0;
		}
	}
	crypto_wipe(text, len);
	return rc;
}

/* ---- users ---- */

void user_clear(struct user *u)
{
	free(u->name);
	if (u->hash)
		crypto_wipe(u->hash, strlen(u->hash));
	free(u->hash);
	free(u->root);
	free(u->home);
	free(u->system_user);
	memset(u, 0, sizeof(*u));
}

int user_parse(const char *line, struct user *u, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(line);
	char *field[FIELDS] = { NULL }, *rest = copy;
	int n = 0, rc;

	memset(u, 0, sizeof(*u));
	if (!copy)
		return err_nomem(e);
	copy[strcspn(copy, "\r\n")] = '\0';
	if (!*copy || *copy == '#')
		return 0;

	while (rest && n < FIELDS)
		field[n++] = strsep(&rest, ":");
	for (unsigned i = RIGHTS_RO; n >= FIELDS_LEAST && srv_rights_words[i]; i++)
		if (!strcmp(field[4], srv_rights_words[i]))
			u->rights = (enum rights)i;

	rc = -EINVAL;
	if (n < FIELDS_LEAST || rest)
		err_set(e, rc, "not of the form name:hash:root:home:rights[:system user]");
	else if (!*field[0] || strlen(field[0]) > NAME_LEN_MAX)
		err_set(e, rc, "the name is empty or longer than %d bytes", NAME_LEN_MAX);
	else if (*field[2] && *field[2] != '/')
		err_set(e, rc, "root \"%s\" does not begin with a slash", printable(field[2]));
	else if (field[5] && !*field[5])
		err_set(e, rc, "the system user is empty: remove the last colon");
	else if (*field[3] && *field[3] != '/')
		err_set(e, rc, "home \"%s\" does not begin with a slash", printable(field[3]));
	else if (!u->rights)
		err_set(e, rc, "rights \"%s\" are not ro, rw, nodelete or upload",
			printable(field[4]));
	else
		rc = 0;

	if (rc == 0) {
		u->name = strdup(field[0]);
		u->hash = strdup(field[1]);
		u->root = strdup(field[2]);
		u->home = strdup(*field[3] ? field[3] : "/");
		u->system_user = field[5] ? strdup(field[5]) : NULL;
		rc = u->name && u->hash && u->root && u->home && !u->system_user == !field[5] ?
		     1 : err_nomem(e);
	}
	if (rc < 0)
		user_clear(u);
	crypto_wipe(copy, strlen(line));
	return rc;
}

struct user_search {
	const char *name;    /* NULL: every user */
	user_fn *fn;         /* for each, or NULL */
	void *arg;
	struct user *found;
};

static int user_on_line(void *arg, const char *line, struct err *e)
{
	struct user_search *s = arg;
	struct user u;
	int rc = user_parse(line, &u, e);

	if (rc <= 0)
		return rc;
	if (s->name && !strcmp(u.name, s->name)) {
		*s->found = u;
		return 1;
	}
	if (s->fn)
		s->fn(s->arg, &u);
	user_clear(&u);
	return 0;
}

int users_find(const char *file, const char *name, struct user *u, struct err *e)
{
	struct user_search s = { .name = name, .found = u };

	memset(u, 0, sizeof(*u));
	return users_each_line("users file", file, false, user_on_line, &s, e);
}

int users_verify(const char *file, user_fn *fn, void *arg, struct err *e)
{
	struct user_search s = { .fn = fn, .arg = arg };

	return users_each_line("users file", file, true, user_on_line, &s, e);
}

/* ---- certificates ---- */

void cert_line_clear(struct cert_line *c)
{
	free(c->pin);
	free(c->subject);
	free(c->user);
	memset(c, 0, sizeof(*c));
}

/* The quoted string at *rest; moves *rest past it. A backslash and the character after it are kept,
 * because subjects contain them. */
static char *cert_line_quoted(char **rest)
{
	char *from = *rest, *p;

	if (*from++ != '"')
		return NULL;
	for (p = from; *p && *p != '"'; p++)
		if (*p == '\\' && p[1])
			p++;
	if (!*p)
		return NULL;
	*p = '\0';
	*rest = p + 1;
	return from;
}

/* The word at *rest; moves *rest to the next word. */
static char *cert_line_word(char **rest)
{
	char *from = *rest;
	size_t n = strcspn(from, BLANKS);

	*rest = from + n + strspn(from + n, BLANKS);
	from[n] = '\0';
	return from;
}

static int cert_line_parse_name(char **rest, char **pin, char **subject, struct err *e)
{
	char *first = cert_line_word(rest);

	if (strcmp(first, "subject")) {
		*pin = first;
		return tls_is_pin(first) ? 0 :
		       err_set(e, -EINVAL, "\"%s\" is neither the word subject nor the pin of a key, "
			       "as in SHA256:...", printable(first));
	}
	*subject = cert_line_quoted(rest);
	if (!*subject || !**subject)
		return err_set(e, -EINVAL, "the subject is not in quotes, or is empty");
	if (!**rest || !strchr(BLANKS, **rest))
		return err_set(e, -EINVAL, "no user follows the subject");
	*rest += strspn(*rest, BLANKS);
	return 0;
}

int cert_line_parse(const char *line, struct cert_line *c, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(line);
	char *rest = copy, *pin = NULL, *subject = NULL, *user;
	int rc;

	memset(c, 0, sizeof(*c));
	if (!copy)
		return err_nomem(e);
	copy[strcspn(copy, "\r\n")] = '\0';
	rest += strspn(rest, BLANKS);
	if (!*rest || *rest == '#')
		return 0;

	rc = cert_line_parse_name(&rest, &pin, &subject, e);
	if (rc < 0)
		return rc;

	user = cert_line_word(&rest);
	if (!*user || strlen(user) > NAME_LEN_MAX)
		return err_set(e, -EINVAL, "the user's name is missing, or longer than %d bytes",
			       NAME_LEN_MAX);
	if (*rest)
		return err_set(e, -EINVAL, "unexpected \"%s\" after the user's name",
			       printable(rest));

	c->pin = pin ? strdup(pin) : NULL;
	c->subject = subject ? strdup(subject) : NULL;
	c->user = strdup(user);
	if ((c->pin || c->subject) && c->user)
		return 1;
	cert_line_clear(c);
	return err_nomem(e);
}

struct cert_search {
	const char *pin, *subject, *user; /* user NULL: only check the lines */
	bool have_ca;
};

static int cert_on_line(void *arg, const char *line, struct err *e)
{
	const struct cert_search *s = arg;
	struct cert_line c;
	int rc = cert_line_parse(line, &c, e);

	if (rc <= 0)
		return rc;
	rc = 0;
	if (!s->user && c.subject && !s->have_ca)
		rc = err_set(e, -EINVAL, "a subject proves nothing without --ca");
	else if (s->user && !strcmp(c.user, s->user))
		rc = (c.pin && s->pin && !strcmp(c.pin, s->pin)) ||
		     (c.subject && s->subject && !strcmp(c.subject, s->subject));
	cert_line_clear(&c);
	return rc;
}

int certs_allow(const char *file, const char *pin, const char *subject, const char *user,
		struct err *e)
{
	struct cert_search s = { .pin = pin, .subject = subject, .user = user };

	return users_each_line("certificates", file, false, cert_on_line, &s, e);
}

int certs_verify(const char *file, bool have_ca, struct err *e)
{
	struct cert_search s = { .have_ca = have_ca };

	return users_each_line("certificates", file, true, cert_on_line, &s, e);
}

/* ---- system users ---- */

void identity_clear(struct identity *id)
{
	free(id->groups);
	memset(id, 0, sizeof(*id));
}

void certificate_refused(const char *user, const char *peer, const char *pin, const char *why)
{
	log_warn("login of \"%s\" from %s by certificate %s: %s", printable(user), peer,
		 pin && *pin ? pin : "of unknown key", why);
}

int no_user(const char *name, int code, struct err *e)
{
	return err_set(e, code, "there is no user \"%s\"", printable(name));
}

int identity_of(const char *name, struct identity *id, struct err *e)
{
	const struct passwd *pw;
	const char *home;

	memset(id, 0, sizeof(*id));
	errno = 0;
	pw = getpwnam(name);
	if (!pw && (!errno || errno == ENOENT || errno == ESRCH))
		return no_user(name, -ENOENT, e);
	if (!pw)
		return err_sys(e, -errno, "user %s", printable(name));

	home = pw->pw_dir && *pw->pw_dir == '/' ? pw->pw_dir : "/";
	if (strlen(pw->pw_name) >= sizeof(id->name) || strlen(home) >= sizeof(id->home))
		return err_sys(e, -ENAMETOOLONG, "user %s", printable(name));
	strcpy(id->name, pw->pw_name);
	strcpy(id->home, home);
	id->uid = pw->pw_uid;
	id->gid = pw->pw_gid;

	/* The first call only counts the groups. */
	getgrouplist(id->name, id->gid, NULL, &id->ngroups);
	id->groups = calloc((size_t)id->ngroups + 1, sizeof(*id->groups));
	if (id->groups && id->ngroups <= IDENTITY_GROUPS &&
	    getgrouplist(id->name, id->gid, id->groups, &id->ngroups) >= 0)
		return 0;
	identity_clear(id);
	return err_sys(e, -ENOMEM, "groups of %s", printable(name));
}

int identity_assume(const struct identity *id, struct err *e)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { { 0 } };
	pid_t parent = getppid();
	bool changed = true;
	int signal = 0;
	uid_t u[3];
	gid_t g[3];

	prctl(PR_GET_PDEATHSIG, &signal);

	/* After this no capability can come back, not even by running a program, and not even for
	 * user 0. The bounding set is emptied before the change of user, because that needs
	 * CAP_SETPCAP. */
	for (unsigned long c = 0; prctl(PR_CAPBSET_READ, c) >= 0; c++)
		if (prctl(PR_CAPBSET_DROP, c) < 0)
			goto failed;
	if (setgroups((size_t)id->ngroups, id->groups) < 0 ||
	    setresgid(id->gid, id->gid, id->gid) < 0 ||
	    setresuid(id->uid, id->uid, id->uid) < 0 ||
	    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0 ||
	    syscall(SYS_capset, &head, none) < 0)
		goto failed;

	/* With a sanitizer the process stays dumpable: to find leaks, it traces itself. */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_DUMPABLE, SANITIZED, 0, 0, 0) < 0)
		goto failed;

	/* Check that the user and the groups have changed and cannot change back. */
	if (getresuid(&u[0], &u[1], &u[2]) < 0 || getresgid(&g[0], &g[1], &g[2]) < 0)
		goto failed;
	for (int i = 0; i < 3; i++)
		changed = changed && u[i] == id->uid && g[i] == id->gid;
	if (!changed || (id->uid != 0 && (setuid(0) == 0 || errno != EPERM))) {
		errno = EPERM;
		goto failed;
	}

	/* The kernel clears the parent death signal at a change of user. The parent may have ended
	 * before it is set again. */
	if (signal && prctl(PR_SET_PDEATHSIG, signal) < 0)
		goto failed;
	if (!signal || getppid() == parent)
		return 0;
	errno = EOWNERDEAD;
failed:
	return err_sys(e, -errno, "cannot become user %s", printable(id->name));
}
