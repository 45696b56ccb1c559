// SPDX-License-Identifier: Apache-2.0
/* Reads rftp.conf through the table of options. */
#include "client/conf.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SYSTEM_CONF "/etc/rftp.conf"

struct reading {
	struct options *o;
	struct options other;  /* of hosts that are not meant: only checked */
	const char *host;
};

/* The options that section's lines set: NULL with text: there is no such section. */
static struct options *target_of(struct reading *r, const char *section, struct err *e)
{
	const char *pattern;

	if (!*section)
		return r->o;
	if (strncmp(section, "host", 4) || strspn(section + 4, " \t") == 0) {
		err_set(e, -EINVAL, "there is no section [%s], only [host NAME]",
			printable(section));
		return NULL;
	}
	pattern = section + 4 + strspn(section + 4, " \t");
	return r->host && !fnmatch(pattern, r->host, FNM_CASEFOLD) ? r->o : &r->other;
}

static int take(void *arg, const char *section, const char *key, const char *value,
		struct err *e)
{
	struct options *o = target_of(arg, section, e);
	const struct option_def *def;
	int rc;

	if (!o)
		return -EINVAL;
	if (!key)
		return 0;
	def = option_find(key, strlen(key));
	if (!def)
		return err_set(e, -EINVAL, "there is no setting \"%s\"", printable(key));
	if (!(def->where & IN_CONF))
		return err_set(e, -EINVAL, "\"%s\" is for the command line only", key);
	rc = option_set(o, def, value, e);
	if (rc)
		err_prefix(e, "%s", key);
	return rc;
}

/* must: a file that is not there is an error. */
static int read_one(const char *file, bool must, const char *host, struct options *o,
		    struct err *e)
{
	struct reading r = { .o = o, .host = host };
	int rc;

	options_default(&r.other);
	rc = conf_read(file, take, &r, e);
	options_clear(&r.other);
	if (rc == -ENOENT)
		return must ? err_sys(e, rc, "cannot read %s", printable(file)) : 0;
	return rc;
}

int conf_load(const char *file, const char *host, struct options *o, struct err *e)
{
	CLEANUP_FREE char *own = NULL;
	int rc;

	if (file)
		return read_one(file, true, host, o, e);
	rc = read_one(SYSTEM_CONF, false, host, o, e);
	if (rc)
		return rc;
	own = own_file("rftp.conf");
	return own ? read_one(own, false, host, o, e) : 0;
}

char *own_file(const char *name)
{
	const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	char *path = NULL;
	int n = -1;

	if (xdg && *xdg == '/')
		n = asprintf(&path, "%s/rftp/%s", xdg, name);
	else if (home && *home)
		n = asprintf(&path, "%s/.config/rftp/%s", home, name);
	return n < 0 ? NULL : path;
}
