// SPDX-License-Identifier: Apache-2.0
/* Where the values of options come from: rftp.conf(5) with its sections, the environment, and the
 * command line. */
#include "client/options.h"

#include "proto/proto.h"

#include <ctype.h>
#include <fnmatch.h>
#include <limits.h>

#define SYSTEM_CONF "/etc/rftp.conf"

/* ---- files ---- */

#define SECTION_NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"
#define NO_URL "this section needs a line such as \"url = rftp://host/path\""

/* A file that is being read. */
struct conf_source {
	struct conf_reader reader;
	struct options *o;
	struct options other;      /* receives the sections that do not apply, to check them */
	const struct url *server;  /* host NULL: none */
	bool named;                /* only [NAME] sections apply */
	unsigned file;             /* FROM_SECOND, or 0 */
	unsigned no_url;           /* the line of the current [NAME], until its url is read; or 0 */
	const char *wanted;        /* the NAME whose url is wanted; NULL: none */
	struct url found;          /* this url; host NULL: not found */
};

/* In the origin of a value: the file is the second one, the user's own. */
#define FROM_SECOND (1u << 30)

static const char *config_file; /* of --config */

/* The sections that words have named, and their servers. */
static struct {
	char *name;
	struct url url;
} *sections;
static size_t nsections;

static bool section_is_of(const char *name, const struct url *server)
{
	for (size_t i = 0; i < nsections; i++)
		if (!strcmp(sections[i].name, name) && url_same_server(&sections[i].url, server))
			return true;
	return false;
}

static int conf_set_url(struct conf_source *r, const char *name, const char *value, struct err *e)
{
	struct url url;
	int rc = url_parse(value, &url, e);

	if (rc == 0 && !url_is_remote(&url))
		rc = err_set(e, -EINVAL, URL_LOCAL_WHY, printable(value));
	if (rc == 0 && r->wanted && !strcmp(r->wanted, name)) {
		url_clear(&r->found);
		r->found = url;
		return 0;
	}
	url_clear(&url);
	return rc ? err_prefix(e, "url") : 0;
}

static int conf_set_line(void *arg, const char *section, const char *key, const char *value,
			 struct err *e)
{
	struct conf_source *r = arg;
	size_t blanks = strncmp(section, "host", 4) ? 0 : strspn(section + 4, " \t");
	bool host = blanks, named = *section && !host, applies = !r->named;
	struct option_target t;

	if (!key && r->no_url) {
		r->reader.line = r->no_url;
		return err_set(e, -EINVAL, NO_URL);
	}
	if (named && (section[strspn(section, SECTION_NAME)] || strchr("._-", *section) ||
		      !strcmp(section, "host") || !strcmp(section, "zero") ||
		      !strcmp(section, "null")))
		return err_set(e, -EINVAL, "there is no section [%s], only [host PATTERN] and "
			       "[NAME] with a url", printable(section));

	if (!key) {
		r->no_url = named ? r->reader.line : 0;
		return 0;
	}
	if (named && !strcmp(key, "url")) {
		r->no_url = 0;
		return conf_set_url(r, section, value, e);
	}
	if (host)
		applies &= r->server->host && !fnmatch(section + 4 + blanks, r->server->host,
							FNM_CASEFOLD);
	else if (named)
		applies = r->named && section_is_of(section, r->server);
	t = options_target(applies ? r->o : &r->other);
	return option_set_key(&t, key, value, r->reader.line | r->file, e);
}

/* Read file; NULL: both files. */
static int conf_read_files(const char *file, struct conf_source *r, struct err *e)
{
	CLEANUP_FREE char *own = file ? NULL : own_file(OWN_CONFIG, "rftp.conf");
	const char *const files[] = { file ? file : SYSTEM_CONF, own };
	int rc = 0;

	r->reader = (struct conf_reader){ .fn = conf_set_line, .arg = r };
	for (size_t i = 0; rc == 0 && i < 2 && files[i]; i++) {
		options_default(&r->other);
		r->file = i ? FROM_SECOND : 0;
		r->no_url = 0;
		rc = conf_read_with(files[i], &r->reader, e);
		options_clear(&r->other);
		if (rc == -ENOENT && file)
			return err_path(e, rc, file, CANNOT_READ);
		if (rc == 0 && r->no_url)
			return err_set(e, -EINVAL, "%s:%u: " NO_URL, printable(files[i]),
				       r->no_url);
		if (rc == -ENOENT)
			rc = 0;
	}
	return rc;
}

int conf_load(const char *file, const struct url *p, struct options *o, struct err *e)
{
	struct conf_source r = { .o = o, .server = p };
	int rc = conf_read_files(file, &r, e);

	r.named = true;
	return rc || !p->host || !nsections ? rc : conf_read_files(file, &r, e);
}

void conf_use(const struct option_args *a)
{
	const struct setting *config = option_args_last(a, "config");

	config_file = config ? config->value : NULL;
}

/* Find the url of section name. 0 with *url, whose host is NULL if there is no such section; or a
 * negative errno with text. */
static int section_find(const char *name, struct url *url, struct err *e)
{
	static const struct url none;
	struct conf_source r = { .o = &r.other, .server = &none, .wanted = name };
	int rc = conf_read_files(config_file, &r, e);

	if (rc)
		url_clear(&r.found);
	*url = r.found;
	return rc;
}

/* Remember that a word has named a section, whose server is that of url. */
static int section_note(const char *name, const struct url *url, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(name);
	CLEANUP_FREE char *text = url_text(url, "");
	void *more;
	int rc;

	if (section_is_of(name, url))
		return 0;
	more = reallocarray(sections, nsections + 1, sizeof(*sections));
	sections = more ? more : sections;
	if (!copy || !text || !more)
		return err_nomem(e);
	rc = url_parse(text, &sections[nsections].url, e);
	if (rc == 0)
		sections[nsections++].name = steal_ptr(&copy);
	return rc;
}

bool word_names_section(const char *word)
{
	CLEANUP_FREE char *name = strndup(word, strcspn(word, ":"));
	struct err ignored = ERR_INIT;
	struct url url = { 0 };
	bool yes = name && !section_find(name, &url, &ignored) && url.host;

	url_clear(&url);
	return yes;
}

int word_parse(const char *word, struct url *p, struct err *e)
{
	struct url url = { 0 };
	const char *base;
	char *path;
	int rc = url_parse(word, p, e);

	if (rc || p->kind != URL_SSH || p->user || !strncasecmp(word, "ssh://", 6))
		return rc;
	rc = section_find(p->host, &url, e);
	if (rc == 0 && url.host)
		rc = section_note(p->host, &url, e);
	if (rc == 0 && url.host) {
		/* With one slash between the URL and the path; "~" is the home, as in a URL. */
		base = *url.path || url.kind != URL_RFTP ? url.path : "/";
		path = *p->path == '~' ? strdup(p->path) :
		       name_below(base, p->path + (*base ? strspn(p->path, "/") : 0));
		rc = path ? 0 : err_sys(e, -ENOMEM, "%s", printable(word));
		free(url.path);
		url.path = path;
	}
	if (rc == 0 && !url.host)
		return 0;
	url_clear(p);
	if (rc)
		url_clear(&url);
	*p = url;
	return rc;
}

/* ---- the environment ---- */

/* The variable of d: "RFTP_CONNECT_TIMEOUT". */
static const char *env_name(const struct option_def *d, char out[64])
{
	snprintf(out, 64, "RFTP_%s", d->name);
	for (char *c = out + 5; *c; c++)
		*c = *c == '-' ? '_' : (char)toupper(*c);
	return out;
}

/* Set o from the variables of options that a file may have. An empty variable counts as unset. A
 * variable of another option is an error: a user might rely on RFTP_DRY_RUN. */
static int env_load(struct options *o, struct err *e)
{
	const struct option_target t = options_target(o);
	char name[64];

	for (const struct option_def *d = rftp_options; d->name || d->help; d++) {
		const char *value = d->name ? getenv(env_name(d, name)) : NULL;

		if (!value || !*value)
			continue;
		if (d->where & OPTION_IN_FILE) {
			if (option_set(&t, d, value, OPTION_ENV, e))
				return err_prefix(e, "%s", name);
		} else if (d->where & ON_ALL & ~(unsigned)ON_SHELL &&
			   !(d->where & (OPTION_BARE | NOT_IN_SHELL))) {
			return err_set(e, -EINVAL, "%s: --%s is for the command line only", name,
				       d->name);
		}
	}
	return 0;
}

void options_show(FILE *out, const struct option_args *a, const struct options *o)
{
	const struct setting *config = option_args_last(a, "config");
	CLEANUP_FREE char *own = own_file(OWN_CONFIG, "rftp.conf");
	char name[64], source[PATH_MAX + 32];

	for (const struct option_def *d = rftp_options; d->name || d->help; d++) {
		unsigned from = o->from[d - rftp_options];
		const char *file = config ? config->value : own && from & FROM_SECOND ? own :
				   SYSTEM_CONF;

		if (!from || !(d->where & OPTION_IN_FILE))
			continue;
		snprintf(source, sizeof(source), "%s:%u", printable(file), from & ~FROM_SECOND);
		option_show(out, o, d, from == OPTION_ARGV ? "command line" :
			    from == OPTION_ENV ? env_name(d, name) : source);
	}
}

/* ---- all together ---- */

int options_load(const struct option_args *a, const struct url *p, const struct options *first,
		 struct options *o, struct err *e)
{
	const struct setting *config = option_args_last(a, "config");
	const struct option_target t = options_target(o);
	int rc;

	options_default(o);
	if (first && filter_copy(&o->filter, &first->filter))
		return err_nomem(e);
	o->filter.fixed = first;
	rc = conf_load(config ? config->value : NULL, p, o, e);
	if (rc == 0)
		rc = env_load(o, e);
	if (rc == 0)
		rc = option_args_set(a, &t, e);
	o->recursive |= o->archive;
	if (first && first->sync)
		options_sync(o);
	if (rc)
		options_clear(o);
	return rc;
}
