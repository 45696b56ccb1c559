// SPDX-License-Identifier: Apache-2.0
/* The shell's current server and directories, the URLs and paths that words mean from there, and
 * the commands for them. Most commands for files run an rftp command. */
#include "client/foreign/foreign.h"
#include "client/shell/shell.h"
#include "client/client.h"

#include <inttypes.h>
#include <pwd.h>

/* ---- paths ---- */

/* Remove ".", ".." and empty components from path, which begins with "/" or "~". */
static void path_normalize(char *path)
{
	char *begin = path + (*path == '~');
	bool directory = names_directory(begin);
	size_t n = path_append(begin, 0, begin);

	/* Keep a "/" at the end: it marks a directory, and the names of copies depend on it. */
	if (n ? directory : *path != '~')
		begin[n++] = '/';
	begin[n] = '\0';
}

char *shell_path(const struct shell *sh, const char *word, bool tilde)
{
	bool home = tilde && path_at_home(word);
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
		path_normalize(path);
	return path;
}

char *shell_url(const struct shell *sh, const char *word, bool tilde, struct err *e)
{
	CLEANUP_FREE char *path = NULL;
	char *url;

	if ((strstr(word, "://") || (strchr(word, ':') && word_names_section(word))) &&
	    word_is_remote(word)) {
		url = strdup(word);
	} else if (!sh->here.host) {
		shell_is_open(sh, e);
		return NULL;
	} else {
		path = shell_path(sh, word, tilde);
		url = path ? url_text(&sh->here, path) : NULL;
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
	err_set(e, -EINVAL, URL_EMPTY_WHY);
	return NULL;
}

/* ---- local words ---- */

char *shell_local(const struct shell_word *w, struct err *e)
{
	const char *colon = strchr(w->text, ':'), *prefix = "", *rest = w->text;
	CLEANUP_FREE char *user = NULL;
	const struct passwd *pw = NULL;
	char *path;

	if (w->tilde) { /* "~" or "~user" */
		rest = w->text + strcspn(w->text, "/");
		user = strndup(w->text + 1, (size_t)(rest - w->text - 1));
		prefix = user && !*user ? getenv("HOME") : NULL;
		if (user && !prefix) {
			pw = *user ? getpwnam(user) : getpwuid(getuid());
			prefix = pw ? pw->pw_dir : NULL;
		}
		if (user && !prefix) {
			err_set(e, -ENOENT, "there is no user \"%s\"", printable(w->text + 1));
			return NULL;
		}
	} else if (colon && strcmp(w->text, "null:") && strncmp(w->text, "zero:", 5) &&
		   !memchr(w->text, '/', (size_t)(colon - w->text))) {
		prefix = "./"; /* otherwise it would be HOST:PATH */
	}
	if (prefix && asprintf(&path, "%s%s", prefix, rest) >= 0)
		return path;
	err_sys(e, -ENOMEM, "%s", printable(w->text));
	return NULL;
}

/* ---- servers ---- */

/* The directory where a login to s starts: the quoted path in the reply to PWD (RFC 959, appendix
 * II); malloc'd. NULL with text. */
static char *server_home(struct server *s, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *path = NULL;
	const char *in;
	char *out;

	if (s->foreign) {
		path = strdup(s->foreign->home);
		if (!path)
			err_nomem(e);
		return steal_ptr(&path);
	}

	if (ftp_simple(s->client, FTP_PWD, NULL, &text, e) < 0)
		return NULL;

	in = strchr(text, '"');
	path = out = in ? strdup(in + 1) : NULL;
	for (in = in ? in + 1 : ""; path && *in && (in[0] != '"' || in[1] == '"'); in++) {
		in += *in == '"'; /* of two */
		*out++ = *in;
	}
	if (path && *in) {
		*out = '\0';
		if (*path == '/')
			return steal_ptr(&path);
	}
	err_set(e, -EBADMSG, "%s: the server's answer to PWD is not a path: %s",
		printable(s->url.host), printable(text));
	return NULL;
}

/* Change to directory word on s, the open server; if word is empty, to the home. */
static int change_directory(struct shell *sh, struct server *s, const char *word, bool tilde,
			    struct err *e)
{
	bool home = !*word || (tilde && path_at_home(word));
	CLEANUP_FREE char *text = NULL;
	CLEANUP_FREE char *path = NULL;
	struct ftp_facts f = { 0 };
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

	rc = server_stat(s, path, &f, e);
	if (rc == 0 && f.type != 'd' && f.type != 'c' && f.type != 'p')
		rc = err_sys(e, -ENOTDIR, "%s", printable(path));
	ftp_facts_clear(&f);
	if (rc)
		return rc;

	free(sh->before);
	sh->before = sh->here.path;
	sh->here.path = steal_ptr(&path);
	return 0;
}

/* Make p the open server; the previous one stays connected. */
static void set_open_server(struct shell *sh, struct url *p, char *home)
{
	url_clear(&sh->here);
	free(sh->home);
	free(sh->before);
	sh->before = NULL;
	sh->home = home;
	sh->here = *p;
	memset(p, 0, sizeof(*p));
}

/* With --json: print an event with the current server and directory. */
static void emit_here(const struct call *c, const char *event)
{
	CLEANUP_FREE char *url = NULL;
	json_t *obj;

	if (!c->json)
		return;
	url = url_text(&c->sh->here, c->sh->here.path);
	obj = json_pack("{s:s, s:s}", "event", event, "url", url ? url : "");
	json_set_name(obj, "path", c->sh->here.path);
	json_emit(stdout, obj);
}

/* Open the server p and change to directory path. Takes the strings of p. */
static enum exit_status open_server(struct call *c, struct url *p, const char *path)
{
	struct shell *sh = c->sh;
	struct url old = sh->here;
	struct err e = ERR_INIT;
	struct server *s;
	char *home;
	int rc;

	sh->here = *p;
	s = call_server(c, &e);
	home = s ? server_home(s, &e) : NULL;
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
	set_open_server(sh, p, home);
	rc = *path ? change_directory(sh, s, path, true, &e) : 0;
	call_done(c, s);
	emit_here(c, c->cmd->name);
	return rc ? failed(&e, false) : EXIT_DONE;
}

enum exit_status shell_open(struct call *c)
{
	const char *word = c->words[0], *port = c->nwords > 1 ? c->words[1] : NULL;
	/* A word that is not a URL is the name of a section of rftp.conf, or of a host. */
	bool is_url = strchr(word, '/') || (!port && strchr(word, ':')), section;
	CLEANUP_FREE char *path = NULL;
	CLEANUP_FREE char *url = NULL;
	enum exit_status status;
	struct err e = ERR_INIT;
	struct url p;
	uint16_t number;

	if (port && is_url)
		return call_usage(c, "a port is allowed only after the name of a host");
	if (port && url_parse_port(port, &number, &e))
		return call_usage(c, "%s", e.text);
	section = !is_url && !port && word_names_section(word);
	if (asprintf(&url, "%s%s%s%s", is_url || section ? "" : "rftp://", word,
		     port || section ? ":" : "", port ? port : "") < 0)
		return call_usage(c, NO_MEMORY);

	if (url_of_server(url, &p, &e))
		return call_usage(c, "%s", e.text);
	path = steal_ptr(&p.path);
	p.path = strdup("");
	status = open_server(c, &p, path);
	url_clear(&p);
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
	struct err e = ERR_INIT;

	if (shell_is_open(c->sh, &e))
		return true;
	log_error("%s", e.text);
	return false;
}

enum exit_status shell_user(struct call *c)
{
	CLEANUP_FREE char *url = NULL;
	struct url other = c->sh->here, p;
	struct err e = ERR_INIT;
	enum exit_status status;

	if (!is_open(c))
		return EXIT_CONNECT;

	other.user = c->words[0];
	url = url_text(&other, "");
	if (!url || url_parse(url, &p, &e))
		return call_usage(c, "%s", url ? e.text : NO_MEMORY);
	status = open_server(c, &p, "");
	url_clear(&p);
	return status;
}

enum exit_status shell_close(struct call *c)
{
	const struct job j = { .servers = &c->sh->kept };
	struct url none = { 0 };

	if (!is_open(c))
		return EXIT_CONNECT;
	servers_drop(j.servers, &c->sh->here);
	emit_here(c, "close");
	set_open_server(c->sh, &none, NULL);
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
		rc = !*word ? err_set(&e, -EINVAL, URL_EMPTY_WHY) :
		     change_directory(c->sh, s, strcmp(word, "-") ? word : c->sh->before, tilde, &e);
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

enum exit_status shell_lpwd(struct call *c)
{
	CLEANUP_FREE char *dir = getcwd(NULL, 0);
	struct err e = ERR_INIT;

	if (!dir) {
		err_sys(&e, -errno, "the directory here");
		return failed(&e, false);
	}
	emit_path_event(c->json, c->cmd->name, dir);
	if (!c->json)
		printf("%s\n", printable(dir));
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
	return c->json ? shell_lpwd(c) : EXIT_DONE;
}

/* ---- files on the open server ---- */

/* Append name, which is taken. name NULL: e has the error, or out of memory. */
static int call_add_name(struct names *names, char *name, struct err *e)
{
	if (!name)
		return e->code ? e->code : err_nomem(e);
	return names_add(names, name) ? err_nomem(e) : 0;
}

/* Call fn for each URL with its server. A failure is reported, and the next URL follows. */
static enum exit_status call_each_url(struct call *c, int first,
				      int (*fn)(struct job *j, struct server *s,
						const struct url *p, struct err *e))
{
	struct job j = { .servers = &c->sh->kept, .cmd = command_find("stat"), .arg = c,
			 .o.json = c->json };
	struct names urls = { 0 }, typed = { 0 };
	enum exit_status status;
	struct err e = ERR_INIT;
	struct option_args a;
	int rc = 0;

	for (int i = first; rc == 0 && i < c->nwords; i++)
		rc = shell_glob_remote(c, call_word(c, i), &urls, &typed, &e);

	if (rc || call_settings(c, ON_STAT, &a, &e)) {
		status = failed(&e, false);
	} else {
		j.args = &a;
		j.words = urls.all;
		j.nwords = (int)urls.n;
		j.typed = typed.all;
		status = each_url(&j, fn);
		free(a.settings);
	}
	names_clear(&urls);
	names_clear(&typed);
	return status;
}

static int rmdir_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	int rc = server_simple(s, FTP_RMD, server_path(p), e);

	if (rc == 0)
		emit_path_event(j->o.json, "rmdir", server_path(p));
	return rc;
}

enum exit_status shell_rmdir(struct call *c)
{
	return call_each_url(c, 0, rmdir_one);
}

static int size_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	struct ftp_facts f = { 0 };
	int rc = server_stat(s, server_path(p), &f, e);

	if (rc == 0 && (f.type == 'd' || !f.has_size))
		rc = err_set(e, -EISDIR, "%s is not a file with a size", printable(p->path));
	if (rc == 0 && j->o.json) {
		json_t *obj = json_pack("{s:s, s:I}", "event", "size", "bytes", (json_int_t)f.size);

		json_set_name(obj, "path", p->path);
		json_emit(stdout, obj);
	} else if (rc == 0) {
		printf("%" PRIu64 "\t%s\n", f.size, show_raw(stdout) ? server_shown(j, p) :
		       printable(server_shown(j, p)));
	}
	ftp_facts_clear(&f);
	return rc;
}

enum exit_status shell_size(struct call *c)
{
	return call_each_url(c, 0, size_one);
}

static int chmod_one(struct job *j, struct server *s, const struct url *p, struct err *e)
{
	const struct call *c = j->arg;
	int rc = server_chmod(s, c->words[0], server_path(p), e);
	json_t *obj;

	if (rc == 0 && j->o.json) {
		obj = json_pack("{s:s, s:s}", "event", "chmod", "mode", c->words[0]);
		json_set_name(obj, "path", server_path(p));
		json_emit(stdout, obj);
	}
	return rc;
}

enum exit_status shell_chmod(struct call *c)
{
	size_t n = strspn(c->words[0], "01234567");

	if (!n || n > 4 || c->words[0][n])
		return call_usage(c, "a mode must be an octal number from 0 to 7777, not \"%s\"",
				  printable(c->words[0]));
	return call_each_url(c, 1, chmod_one);
}

/* ---- commands of rftp ---- */

enum answer { ANSWER_YES, ANSWER_NO, ANSWER_ALL, ANSWER_QUIT };

static enum answer ask_about(const char *command, const char *path, bool remote)
{
	static const char keys[] = "ynaq"; /* in the order of enum answer */
	CLEANUP_FREE char *decoded = NULL; /* if path is a URL */
	const char *name = name_tail(path);
	char question[512];

	if (remote && !percent_decode(name, &decoded))
		name = decoded;
	snprintf(question, sizeof(question), "%s %s (yes, no, all, quit)? ", command,
		 printable(name));
	for (;;) {
		CLEANUP_FREE char *line = ask_line(question);
		const char *key;

		if (!line)
			return ANSWER_QUIT;
		if (!*line)
			return ANSWER_YES;
		key = strchr(keys, *line | 0x20);
		if (key)
			return (enum answer)(key - keys);
		fprintf(stderr, "yes or Enter copies it, no passes it over, all copies it and the "
			"rest, quit copies no more\n");
	}
}

/* Ask about each name, and remove those that the user does not want. False: none is left. */
static bool confirm_names(const struct call *c, bool remote, struct names *names)
{
	enum answer answer = ANSWER_YES;
	size_t kept = 0;

	if (!c->sh->terminal || !c->sh->asks)
		return true;
	for (size_t i = 0; i < names->n; i++) {
		if (answer != ANSWER_ALL && answer != ANSWER_QUIT)
			answer = ask_about(c->cmd->name, names->all[i], remote);
		if (answer == ANSWER_YES || answer == ANSWER_ALL)
			names->all[kept++] = names->all[i];
		else
			free(names->all[i]);
	}
	names->n = kept;
	return kept > 0;
}

enum exit_status shell_rftp(struct call *c)
{
	const char *name = c->cmd->name;
	unsigned bits = c->cmd->bits;
	bool several = !strcmp(name, "mget") || !strcmp(name, "mput");
	bool is_copy = bits & ON_COPY;
	/* A pattern could match several files where one is meant. */
	bool expands = !(bits & (ON_MV | ON_BENCH));
	/* The destination; nwords or more: none is given. */
	int to = bits & ON_CP ? c->nwords - 1 : is_copy && !several ? 1 : c->nwords;
	struct names words = { 0 }, typed = { 0 };
	struct err e = ERR_INIT;
	int rc = 0;

	/* In ftp(1), "hash" without words switches progress marks on. */
	if ((bits & ON_HASH) && !c->nwords)
		return call_usage(c, "hash computes digests of files: name some (the progress of a "
				  "transfer is shown by set progress)");

	for (int i = 0; rc == 0 && i < c->nwords; i++) {
		const struct shell_word *w = call_word(c, i);

		/* A URL would hide the dots. */
		if ((bits & ON_RM) && name_is_dots(w->text) && !option_args_last(&c->args, "parts"))
			rc = err_set(&e, -EINVAL, NOT_REMOVED_WHY, printable(w->text));
		else if (i == to && (bits & ON_GET))
			rc = call_add_name(&words, shell_local(w, &e), &e);
		else if (i == to || !expands)
			rc = call_add_name(&words, call_url(c, i, &e), &e);
		else if (bits & ON_PUT)
			rc = shell_glob_local(w, &words, &e);
		else
			rc = shell_glob_remote(c, w, &words, is_copy ? NULL : &typed, &e);

		if (rc == 0 && (bits & ON_PUT) && i != to && c->sh->reads_stdin &&
		    !strcmp(w->text, "-"))
			rc = err_set(&e, -EINVAL, "the commands come from standard input: it "
				     "cannot be copied");
	}
	if (rc == 0 && several && !confirm_names(c, bits & ON_GET, &words)) {
		names_clear(&words);
		return EXIT_DONE;
	}

	/* The directory here, or the current one on the server. */
	if (rc == 0 && (is_copy ? to >= c->nwords : !c->nwords))
		rc = call_add_name(&words, bits & ON_GET ?
				   strdup(c->line->pipe && !several ? "-" : "./") :
				   shell_url(c->sh, is_copy ? "./" : "", false, &e), &e);
	if (rc == 0)
		return call_rftp(c, several ? name + 1 : bits & ON_STATUS ? "status" : name, &words,
				 &typed);
	names_clear(&words);
	names_clear(&typed);
	return failed(&e, false);
}
