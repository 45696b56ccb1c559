// SPDX-License-Identifier: Apache-2.0
/* Lists of names, the output of names and facts, and patterns of names. */
#include "client/names.h"
#include "client/foreign/foreign.h"
#include "client/servers.h"

#include <fnmatch.h>
#include <time.h>

int names_add(struct names *names, char *name)
{
	/* The list always has room for the NULL behind it. */
	if (!name || !array_has_room(names->all, names->n + !!names->all, names->room)) {
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

static int name_compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void names_sort(struct names *names)
{
	if (names->n)
		qsort(names->all, names->n, sizeof(*names->all), name_compare);
}

int name_normalize(char *name)
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

int names_read(const char *file, bool nul, struct names *names, struct err *e)
{
	bool standard = !strcmp(file, "-");
	FILE *in = standard ? stdin : fopen(file, "re");
	CLEANUP_FREE char *line = NULL;
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	memset(names, 0, sizeof(*names));
	if (!in)
		return err_path(e, -errno, file, CANNOT_READ);
	file = standard ? "standard input" : file;

	while (rc == 0 && (n = getdelim(&line, &room, nul ? '\0' : '\n', in)) > 0) {
		CLEANUP_FREE char *name = NULL;

		if (!nul)
			n = (ssize_t)line_trim(line, (size_t)n);
		else if (!line[n - 1])
			n--;
		name = strdup(line);
		if (strlen(line) != (size_t)n)
			rc = err_set(e, -EINVAL, "%s: contains a NUL: is -0 missing?",
				     printable(file));
		else if (name && name_normalize(name))
			rc = err_set(e, -EINVAL, "%s: \"%s\" climbs out of the directory",
				     printable(file), printable(line));
		else if (name && !*name) /* skip an empty line, or the directory itself */
			continue;
		else if (names_add(names, steal_ptr(&name)))
			rc = err_sys(e, -ENOMEM, "%s", printable(file));
	}
	if (rc == 0 && ferror(in))
		rc = err_path(e, -errno, file, CANNOT_READ);
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

const char *name_tail(const char *path)
{
	size_t n = strlen(path);

	while (n && path[n - 1] == '/')
		n--;
	while (n && path[n - 1] != '/')
		n--;
	return path + n;
}

char *name_trimmed(const char *path)
{
	char *bare = strdup(path);

	for (size_t n = bare ? strlen(bare) : 0; n > 1 && bare[n - 1] == '/'; n--)
		bare[n - 1] = '\0';
	return bare;
}

bool name_is_dots(const char *path)
{
	const char *last = name_tail(path);
	size_t n = strcspn(last, "/");

	return (n == 1 || n == 2) && !strncmp(last, "..", n);
}

bool names_directory(const char *path)
{
	const char *last = name_last(path);

	return !*last || !strcmp(last, ".") || !strcmp(last, "..");
}

size_t name_rel_at(const char *path)
{
	size_t n = strlen(path);

	return names_directory(path) ? n + (n && path[n - 1] != '/') :
	       (size_t)(name_last(path) - path);
}

/* ---- output ---- */

bool show_raw(FILE *out)
{
	return !isatty(fileno(out));
}

void show_mode(char out[11], const struct ftp_facts *f)
{
	static const char bits[] = "rwxrwxrwx";

	strcpy(out, "??????????");
	out[0] = f->type == 'd' ? 'd' : f->type == 'l' ? 'l' : f->type == 'f' ? '-' : '?';
	if (!f->has_mode)
		return;
	for (int i = 0; i < 9; i++)
		out[1 + i] = f->mode >> (8 - i) & 1 ? bits[i] : '-';
	if (f->mode & 04000)
		out[3] = f->mode & 0100 ? 's' : 'S';
	if (f->mode & 02000)
		out[6] = f->mode & 0010 ? 's' : 'S';
	if (f->mode & 01000)
		out[9] = f->mode & 0001 ? 't' : 'T';
}

static void format_number(char *out, size_t n, bool has, uint64_t v, const char *without)
{
	if (has)
		snprintf(out, n, "%llu", (unsigned long long)v);
	else
		snprintf(out, n, "%s", without);
}

/* Format the time to the minute; if full, with seconds and time zone. */
static void format_mtime(char *out, size_t n, const struct ftp_facts *f, bool full)
{
	time_t t = (time_t)f->mtime_s;
	struct tm tm;
	size_t len = 0;

	if (f->has_mtime && localtime_r(&t, &tm))
		len = full ? strftime(out, n, "%Y-%m-%d %H:%M:%S %z", &tm) :
			strftime(out, n, "%Y-%m-%d %H:%M", &tm);
	if (!len)
		snprintf(out, n, "?");
}

void show_name(FILE *out, const char *name, bool raw, char end)
{
	fputs(raw ? name : printable(name), out);
	putc(end, out);
}

void show_long(FILE *out, const struct ftp_facts *f, const char *name, bool raw, bool human)
{
	char mode[11], uid[24], gid[24], size[24], when[32];

	show_mode(mode, f);
	format_number(uid, sizeof(uid), f->has_owner, f->uid, "?");
	format_number(gid, sizeof(gid), f->has_owner, f->gid, "?");

	/* "?" is the unknown size of a file; other types have no size. */
	if (human && f->has_size)
		format_size(size, sizeof(size), f->size);
	else
		format_number(size, sizeof(size), f->has_size, f->size, f->type == 'f' ? "?" : "-");
	format_mtime(when, sizeof(when), f, false);
	fprintf(out, "%s %5s %5s %12s %16s ", mode, uid, gid, size, when);
	fputs(raw ? name : printable(name), out);
	if (f->target)
		fprintf(out, " -> %s", raw ? f->target : printable(f->target));
	putc('\n', out);
}

static const char *type_name(char type)
{
	switch (type) {
	case 'f':
		return "file";
	case 'd':
	case 'c':
	case 'p':
		return "directory";
	case 'l':
		return "link";
	default:
		return "other";
	}
}

void show_stat(FILE *out, const struct ftp_facts *f, const char *name)
{
	char text[64];

	fprintf(out, "%s\n  type      %s\n", printable(name), type_name(f->type));
	if (f->target)
		fprintf(out, "  target    %s\n", printable(f->target));
	if (f->has_size)
		fprintf(out, "  size      %llu (%s)\n", (unsigned long long)f->size,
			format_size(text, sizeof(text), f->size));
	show_mode(text, f);
	if (f->has_mode)
		fprintf(out, "  mode      %04o (%s)\n", f->mode, text);
	if (f->has_owner)
		fprintf(out, "  owner     %u\n  group     %u\n", f->uid, f->gid);
	format_mtime(text, sizeof(text), f, true);
	if (f->has_mtime)
		fprintf(out, "  modified  %s\n", text);
}

json_t *show_json(const char *event, const struct ftp_facts *f, const char *name)
{
	json_t *obj = json_pack("{s:s, s:s}", "event", event, "type", type_name(f->type));
	char mode[16];

	if (!obj)
		return NULL;
	json_set_name(obj, "name", name);
	if (f->target)
		json_set_name(obj, "target", f->target);
	if (f->has_size)
		json_object_set_new(obj, "size", json_integer((json_int_t)f->size));
	snprintf(mode, sizeof(mode), "%04o", f->mode);
	if (f->has_mode)
		json_object_set_new(obj, "mode", json_string(mode));
	if (f->has_owner) {
		json_object_set_new(obj, "uid", json_integer(f->uid));
		json_object_set_new(obj, "gid", json_integer(f->gid));
	}
	if (f->has_mtime) {
		json_object_set_new(obj, "mtime", json_integer(f->mtime_s));
		json_object_set_new(obj, "mtime_ns", json_integer(f->mtime_ns));
	}
	return obj;
}

/* ---- patterns of names on servers ---- */

/* A pattern with more matches is a typing error, or the server tries to fill our memory. */
#define NAMES_MOST 1000000

/* The search for one component of a pattern in one directory. */
struct glob_search {
	struct server *s;
	char *(*path_of)(void *arg, const char *name);
	void *arg;
	const char *pattern;
	const char *dir;         /* as typed in the pattern; "" for the present directory */
	bool only_dirs;
	bool last;               /* the last component of the pattern; there a link is not a
				  * directory */
	struct names *found;
};

/* Append the names in the directory path that match. */
static int glob_list(struct glob_search *g, const char *path, struct err *e)
{
	struct facts_list l = { 0 };
	int rc = server_list(g->s, path, &l, e);

	for (size_t i = 0; !rc && i < l.n; i++) {
		const struct ftp_facts *f = &l.all[i];

		if ((g->only_dirs && f->type != 'd' && (f->type != 'l' || g->last)) ||
		    fnmatch(g->pattern, f->name, FNM_PERIOD))
			continue;
		if (g->found->n >= NAMES_MOST)
			rc = err_set(e, -E2BIG, "%s: too many names", printable(path));
		else
			rc = names_add(g->found, *g->dir ? name_below(g->dir, f->name) :
				       strdup(f->name));
	}
	facts_clear(&l);
	return rc;
}

bool glob_is_pattern(const char *pattern)
{
	for (; *pattern; pattern++) {
		if (*pattern == '\\' && pattern[1])
			pattern++;
		else if (strchr(WILDCARDS, *pattern))
			return true;
	}
	return false;
}

/* Expand one component of the pattern in g->dir: append its matches, or, without a wildcard,
 * dir/name if it exists. known: append dir/name without asking the server. */
static int glob_directory(struct glob_search *g, bool wild, bool known, struct err *e)
{
	CLEANUP_FREE char *name = *g->dir && !wild ? name_below(g->dir, g->pattern) :
				  strdup(wild ? g->dir : g->pattern);
	CLEANUP_FREE char *path = name ? g->path_of(g->arg, name) : NULL;
	struct ftp_facts f = { 0 };
	int rc = path ? 0 : err_nomem(e);

	if (!rc && wild)
		return glob_list(g, path, e);
	if (!rc && !known)
		rc = server_stat(g->s, path, &f, e);
	ftp_facts_clear(&f);
	return rc ? rc : names_add(g->found, steal_ptr(&name));
}

/* Replace dirs by the matches of one component in each of them. typed: the user has typed dirs, so
 * a missing directory is an error. Otherwise dirs are matches, and one that is not a directory, or
 * cannot be listed, has no matches. */
static int glob_step(struct glob_search *g, struct names *dirs, char *component, bool typed,
		     struct err *e)
{
	bool wild = glob_is_pattern(component);
	struct names found = { 0 };
	char *out = component;
	int rc = 0;

	/* Without a wildcard it is a name: remove the backslashes. */
	for (const char *in = component; !wild && *in; in++) {
		in += *in == '\\' && in[1];
		*out++ = *in;
	}
	if (!wild)
		*out = '\0';

	g->pattern = component;
	g->found = &found;
	for (size_t i = 0; rc == 0 && i < dirs->n; i++) {
		struct err why = ERR_INIT;

		g->dir = dirs->all[i];
		rc = glob_directory(g, wild, typed, &why);
		if (!typed && (rc == -ENOENT || rc == -ENOTDIR || rc == -EACCES || rc == -EPERM))
			rc = 0;
		else if (rc && why.code)
			*e = why;
	}
	names_clear(dirs);
	*dirs = found;
	return rc;
}

int glob_there(struct server *s, const char *pattern, char *(*path_of)(void *arg, const char *name),
	       void *arg, struct names *found, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(pattern);
	struct glob_search g = { .s = s, .path_of = path_of, .arg = arg };
	bool typed = true;
	char *at = copy, *next;
	int rc;

	rc = copy ? names_add(found, strdup(*pattern == '/' ? "/" : "")) : -ENOMEM;
	for (at += at ? strspn(at, "/") : 0; rc == 0 && *at; at = next) {
		size_t n = strcspn(at, "/");
		bool wild;

		g.only_dirs = at[n] == '/';
		next = at + n + strspn(at + n, "/");
		g.last = !*next;
		at[n] = '\0';
		wild = glob_is_pattern(at);
		rc = glob_step(&g, found, at, typed, e);
		typed &= !wild;
	}

	for (size_t i = 0; rc == 0 && g.only_dirs && i < found->n; i++) {
		char *name;

		if (asprintf(&name, "%s/", found->all[i]) < 0) {
			rc = -ENOMEM;
		} else {
			free(found->all[i]);
			found->all[i] = name;
		}
	}
	if (rc == -ENOMEM)
		err_sys(e, rc, "names");
	if (rc == 0)
		names_sort(found);
	return rc;
}

/* ---- the URLs of a command ---- */

/* Parse word so that p's path is a pattern: in a URL, an encoded wildcard stands for itself, so it
 * gets a backslash. 0 or a negative errno. */
static int parse_pattern(const char *word, struct url *p)
{
	CLEANUP_FREE char *text = malloc(2 * strlen(word) + 1);
	struct err ignored = ERR_INIT;
	bool coded = strstr(word, "://");
	char *out = text;

	if (!text)
		return -ENOMEM;
	while (*word) {
		unsigned c = 0;

		if (coded && sscanf(word, "%%%2x", &c) == 1 && c && strchr(WILDCARDS "]\\", (int)c))
			out = stpcpy(out, "%5C");
		*out++ = *word++;
	}
	*out = '\0';
	return word_parse(text, p, &ignored);
}

static char *path_itself(void *arg, const char *name)
{
	(void)arg;
	return strdup(*name ? name : ".");
}

/* Append the URLs that match word, or, if there are none, word. */
static int expand_word(struct job *j, const char *word, struct names *all, struct err *e)
{
	struct names found = { 0 };
	struct server *s = NULL;
	struct url p = { 0 };
	int rc = 0;

	if (word_is_remote(word) && !parse_pattern(word, &p) && glob_is_pattern(p.path)) {
		s = server_take(j, &p, e);
		rc = s ? server_connect(s, e) : e->code;
		if (rc == 0)
			rc = glob_there(s, p.path, path_itself, NULL, &found, e);
		if (rc && rc != -ENOMEM && rc != -EINTR) { /* the command will report it */
			names_clear(&found);
			rc = 0;
		}
	}
	for (size_t i = 0; rc == 0 && i < found.n; i++)
		if (names_add(all, url_text(&p, found.all[i])))
			rc = err_nomem(e);
	if (rc == 0 && !found.n && names_add(all, strdup(word)))
		rc = err_nomem(e);
	server_give(j, s);
	url_clear(&p);
	names_clear(&found);
	return rc;
}

int glob_words(struct job *j, struct names *all, struct err *e)
{
	int rc = 0;

	for (int i = 0; rc == 0 && i < j->nwords; i++)
		rc = expand_word(j, j->words[i], all, e);
	return rc;
}
