// SPDX-License-Identifier: Apache-2.0
/* Where the shell is: servers, directories there and here, and what words mean from there. */
#include "client/foreign.h"
#include "client/shell.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- paths ---- */

/* Take "." and ".." and what is empty out of path, which begins with "/" or "~". */
static void tidy(char *path)
{
	char *begin = path + (*path == '~'), *out = begin, *in = begin;
	bool directory = false;

	while (*in) {
		size_t n;

		in += strspn(in, "/");
		n = strcspn(in, "/");
		directory = !n || (n == 1 && in[0] == '.') || (n == 2 && !strncmp(in, "..", 2));
		if (n == 2 && in[0] == '.' && in[1] == '.') {
			while (out > begin && *--out != '/')
				;
		} else if (!directory) {
			*out++ = '/';
			memmove(out, in, n);
			out += n;
		}
		in += n;
	}
	/* A "/" at the end says that it is a directory, which names may depend on. */
	if (out == begin ? *path != '~' : directory)
		*out++ = '/';
	*out = '\0';
}

static bool is_home(const char *word)
{
	return word[0] == '~' && (word[1] == '/' || !word[1]);
}

char *shell_path(const struct shell *sh, const char *word, bool tilde)
{
	bool home = tilde && is_home(word);
	char *path;
	int n;

	if (*word == '/' || home)
		n = asprintf(&path, "%s", word);
	else
		n = asprintf(&path, "%s%s%s", sh->here.path ? sh->here.path : "", *word ? "/" : "",
			     word);
	if (n < 0)
		return NULL;
	if (*path == '/' || home)
		tidy(path);
	return path;
}

char *shell_url(const struct shell *sh, const char *word, bool tilde, struct err *e)
{
	CLEANUP_FREE char *path = NULL;
	char *url;

	if (strstr(word, "://") && names_server(word)) {
		url = strdup(word);
	} else if (!sh->here.host) {
		err_set(e, -ENOTCONN, "no server is open: open URL");
		return NULL;
	} else {
		path = shell_path(sh, word, tilde);
		url = path ? place_url(&sh->here, path) : NULL;
	}
	if (!url)
		err_sys(e, -ENOMEM, "%s", printable(word));
	return url;
}

char *call_url(const struct call *c, int i, struct err *e)
{
	const struct shell_word *w = call_word(c, i);

	if (*w->text)
		return shell_url(c->sh, w->text, w->tilde, e);
	err_set(e, -EINVAL, "an empty word names no file");
	return NULL;
}

/* ---- local words ---- */

/* "~" or "~user" at the start of word, as a path; malloc'd. */
static char *home_of(const char *word, struct err *e)
{
	size_t n = strcspn(word, "/");
	CLEANUP_FREE char *user = strndup(word + 1, n - 1);
	const char *home = user && !*user ? getenv("HOME") : NULL;
	const struct passwd *pw;
	char *path;

	if (user && !home) {
		pw = *user ? getpwnam(user) : getpwuid(getuid());
		home = pw ? pw->pw_dir : NULL;
	}
	if (user && !home) {
		err_set(e, -ENOENT, "%s: there is no such user", printable(word));
		return NULL;
	}
	if (!user || asprintf(&path, "%s%s", home, word + n) < 0) {
		err_sys(e, -ENOMEM, "%s", printable(word));
		return NULL;
	}
	return path;
}

char *shell_local(const struct shell_word *w, struct err *e)
{
	const char *colon = strchr(w->text, ':');
	bool host = colon && strcmp(w->text, "null:") && strncmp(w->text, "zero:", 5) &&
		    !memchr(w->text, '/', (size_t)(colon - w->text));
	char *path;

	if (w->tilde)
		return home_of(w->text, e);
	if (asprintf(&path, "%s%s", host ? "./" : "", w->text) < 0) {
		err_sys(e, -ENOMEM, "%s", printable(w->text));
		return NULL;
	}
	return path;
}

/* ---- servers ---- */

/* The word of "open": a bare name is a host. malloc'd. */
static char *open_word(const struct call *c, struct err *e)
{
	const char *word = c->words[0], *port = c->nwords > 1 ? c->words[1] : NULL;
	uint64_t number;
	char *text;
	int n;

	if (strchr(word, '/') || (!port && strchr(word, ':'))) {
		if (port) {
			err_set(e, -EINVAL, "a port goes with a host alone");
			return NULL;
		}
		n = asprintf(&text, "%s", word);
	} else if (port && parse_uint(port, 1, UINT16_MAX, &number)) {
		err_set(e, -EINVAL, "\"%s\" is not a port (1 to 65535)", printable(port));
		return NULL;
	} else {
		n = asprintf(&text, "rftp://%s%s%s", word, port ? ":" : "", port ? port : "");
	}
	if (n >= 0)
		return text;
	err_sys(e, -ENOMEM, "%s", printable(word));
	return NULL;
}

/* The path between the quotes of a reply to PWD (RFC 959, appendix II); malloc'd. */
static char *quoted_path(const char *text)
{
	const char *from = strchr(text, '"');
	char *path = from ? strdup(from + 1) : NULL, *out = path;

	for (const char *in = from ? from + 1 : NULL; path && *in; in++) {
		if (in[0] == '"' && in[1] != '"') {
			*out = '\0';
			return path;
		}
		in += *in == '"';
		*out++ = *in;
	}
	free(path);
	return NULL;
}

/* Where a login to s starts; malloc'd. */
static char *ask_home(struct server *s, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	char *path;

	if (ftp_simple(s->client, FTP_PWD, NULL, &text, e) < 0)
		return NULL;
	path = quoted_path(text);
	if (!path || *path != '/') {
		err_set(e, -EBADMSG, "%s: the server's answer to PWD is no path: %s",
			printable(s->place.host), printable(text));
		free(path);
		return NULL;
	}
	return path;
}

static int check_directory(struct server *s, const char *path, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = ftp_stat(s->client, path, &f, e);

	if (rc == 0 && f.type != 'd' && f.type != 'c' && f.type != 'p')
		rc = err_set(e, -ENOTDIR, "%s is no directory", printable(path));
	ftp_facts_clear(&f);
	return rc;
}

static void move_to(struct shell *sh, char *path)
{
	free(sh->before);
	sh->before = sh->here.path;
	sh->here.path = path;
}

/* Goes to path on s, the open server: a directory below it, or its home. */
static int go(struct shell *sh, struct server *s, const char *word, bool tilde, struct err *e)
{
	bool home = !*word || (tilde && is_home(word));
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *path = NULL;
	size_t n;
	int rc;

	if (home && asprintf(&text, "%s%s", sh->home, *word ? word + 1 : "") < 0)
		return err_sys(e, -ENOMEM, "%s", printable(word));
	path = shell_path(sh, home ? text : word, false);
	if (!path)
		return err_sys(e, -ENOMEM, "%s", printable(word));
	n = strlen(path);
	if (n > 1 && path[n - 1] == '/')
		path[n - 1] = '\0';
	rc = check_directory(s, path, e);
	if (rc == 0)
		move_to(sh, steal_ptr(&path));
	return rc;
}

/* p is open from now on; what was before stays connected. */
static void settle(struct shell *sh, struct place *p, char *home)
{
	place_clear(&sh->here);
	free(sh->home);
	free(sh->before);
	sh->before = NULL;
	sh->home = home;
	sh->here = *p;
	memset(p, 0, sizeof(*p));
}

/* With --json: where the shell is now. */
static void emit_here(const struct call *c, const char *event)
{
	CLEANUP_FREE char *url = NULL;
	json_t *obj;

	if (!c->json)
		return;
	url = place_url(&c->sh->here, c->sh->here.path);
	obj = json_pack("{s:s, s:s}", "event", event, "url", url ? url : "");
	json_set_name(obj, "path", c->sh->here.path);
	json_emit(stdout, obj);
}

/* Takes what p holds over. path: where to go then. */
static enum exit_status open_place(struct call *c, struct place *p, const char *path)
{
	struct shell *sh = c->sh;
	struct place old = sh->here;
	struct err e = ERR_INIT;
	struct server *s;
	char *home;
	int rc;

	sh->here = *p;
	s = call_server(c, &e);
	home = s ? ask_home(s, &e) : NULL;
	sh->here = old;
	if (!home) {
		call_done(c, s);
		log_error("%s", e.text);
		return e.code == -EINVAL ? EXIT_USAGE : e.code == -EINTR ? EXIT_INTERRUPTED :
		       EXIT_CONNECT;
	}
	foreign_note(s);
	free(p->path);
	p->path = strdup(home);
	settle(sh, p, home);
	rc = *path ? go(sh, s, path, true, &e) : 0;
	call_done(c, s);
	emit_here(c, c->cmd->name);
	return rc ? failed(&e, false) : EXIT_DONE;
}

enum exit_status shell_open(struct call *c)
{
	struct err e = ERR_INIT;
	CLEANUP_FREE char *word = open_word(c, &e);
	CLEANUP_FREE char *path = NULL;
	enum exit_status status;
	struct place p;

	if (!word || place_of_server(word, &p, &e))
		return call_usage(c, "%s", e.text);
	path = steal_ptr(&p.path);
	p.path = strdup("");
	status = open_place(c, &p, path);
	place_clear(&p);
	return status;
}

enum exit_status shell_begin(struct shell *sh, const char *word)
{
	char *words[] = { (char *)(uintptr_t)word, NULL };
	struct call c = { .sh = sh, .cmd = shell_command_find("open"), .words = words,
			  .nwords = 1 };

	return shell_open(&c);
}

static bool is_open(const struct call *c)
{
	if (c->sh->here.host)
		return true;
	log_error("no server is open: open URL");
	return false;
}

enum exit_status shell_user(struct call *c)
{
	CLEANUP_FREE char *url = NULL;
	struct place other = c->sh->here, p;
	struct err e = ERR_INIT;
	enum exit_status status;

	if (!is_open(c))
		return EXIT_CONNECT;
	other.user = c->words[0];
	url = place_url(&other, "");
	if (!url || place_parse(url, &p, &e))
		return call_usage(c, "%s", url ? e.text : "out of memory");
	status = open_place(c, &p, "");
	place_clear(&p);
	return status;
}

enum exit_status shell_close(struct call *c)
{
	const struct job j = { .servers = c->sh->kept };
	struct place none = { 0 };

	if (!is_open(c))
		return EXIT_CONNECT;
	servers_drop(j.servers, &c->sh->here);
	emit_here(c, "close");
	settle(c->sh, &none, NULL);
	return EXIT_DONE;
}

enum exit_status shell_cd(struct call *c)
{
	const char *word = c->nwords ? c->words[0] : "~";
	bool tilde = !c->nwords || call_word(c, 0)->tilde;
	struct err e = ERR_INIT;
	struct server *s = call_server(c, &e);
	int rc;

	if (!s)
		return failed(&e, false);
	if (!strcmp(word, "-") && !c->sh->before)
		rc = err_set(&e, -EINVAL, "there is no directory to go back to");
	else
		rc = !*word ? err_set(&e, -EINVAL, "an empty word names no directory") :
		     go(c->sh, s, strcmp(word, "-") ? word : c->sh->before, tilde, &e);
	call_done(c, s);
	if (rc)
		return failed(&e, false);
	emit_here(c, "cd");
	return EXIT_DONE;
}

enum exit_status shell_pwd(struct call *c)
{
	if (!is_open(c))
		return EXIT_CONNECT;
	emit_here(c, "pwd");
	if (!c->json)
		printf("%s\n", printable(c->sh->here.path));
	return EXIT_DONE;
}

/* ---- here ---- */

static enum exit_status say_here(const struct call *c, const char *event)
{
	CLEANUP_FREE char *dir = getcwd(NULL, 0);
	struct err e = ERR_INIT;

	if (!dir) {
		err_sys(&e, -errno, "the directory here");
		return failed(&e, false);
	}
	if (c->json) {
		json_t *obj = json_pack("{s:s}", "event", event);

		json_set_name(obj, "path", dir);
		json_emit(stdout, obj);
	} else {
		printf("%s\n", printable(dir));
	}
	return EXIT_DONE;
}

enum exit_status shell_lcd(struct call *c)
{
	static const struct shell_word home = { .text = (char *)(uintptr_t)"~", .tilde = true };
	struct err e = ERR_INIT;
	CLEANUP_FREE char *dir = shell_local(c->nwords ? call_word(c, 0) : &home, &e);

	if (dir && chdir(dir))
		err_sys(&e, -errno, "%s", printable(dir));
	if (e.code)
		return failed(&e, false);
	return c->json ? say_here(c, "lcd") : EXIT_DONE;
}

enum exit_status shell_lpwd(struct call *c)
{
	return say_here(c, "lpwd");
}
