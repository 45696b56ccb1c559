// SPDX-License-Identifier: Apache-2.0
/* What is asked by the words of a command line, put to what a file asks. */
#include "iser_setup/plan_ask.h"

#include "iser_setup/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- reading ---- */

char *plan_text(const char *path, const char **name, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	ssize_t n;

	*name = strcmp(path, "-") ? path : "standard input";
	if (strcmp(path, "-") != 0) {
		size_t len;
		int r = read_file(path, ISER_PLAN_MAX, &text, &len);

		if (r) {
			err_sys(e, r, "%s", printable(path));
			return NULL;
		}
		n = (ssize_t)len;
	} else {
		text = malloc(ISER_PLAN_MAX + 1);
		n = text ? read_full(STDIN_FILENO, text, ISER_PLAN_MAX + 1) : -ENOMEM;
		if (n > ISER_PLAN_MAX)
			n = -EFBIG;
		if (n < 0) {
			err_sys(e, (int)n, "%s", *name);
			return NULL;
		}
		text[n] = '\0';
	}
	if (strlen(text) == (size_t)n)
		return steal_ptr(&text);
	err_set(e, -EINVAL, "%s has a NUL in it", printable(*name));
	return NULL;
}

/* ---- what was asked for by options ---- */

/* A path from here on, for those in a plan are read elsewhere; malloc'd. NULL: memory is out, or
 * there is no here. */
static char *whole_path(const char *path)
{
	CLEANUP_FREE char *here = *path == '/' ? NULL : getcwd(NULL, 0);
	char *out;

	if (*path == '/')
		return strdup(path);
	return here && asprintf(&out, "%s/%s", here, path) >= 0 ? out : NULL;
}

/* One option with its value; NULL: it was not given. */
static int set(struct spec *s, const char *option, const char *section, const char *key,
	       const char *value, struct err *e)
{
	if (!value || !spec_set(s, section, key, value, e))
		return 0;
	return err_prefix(e, "--%s", option);
}

static int set_path(struct spec *s, const char *option, const char *section, const char *key,
		    const char *value, struct err *e)
{
	CLEANUP_FREE char *path = value ? whole_path(value) : NULL;

	if (value && !path)
		return err_sys(e, errno ? -errno : -ENOMEM, "--%s %s", option, printable(value));
	return set(s, option, section, key, path, e);
}

static int set_list(struct spec *s, const char *option, const char *key,
		    const struct tool_list *l, struct err *e)
{
	for (unsigned i = 0; i < l->n; i++)
		if (set(s, option, "node *", key, l->word[i], e))
			return e->code;
	return 0;
}

/* "PATH:SIZE", of which spec_set wants "PATH SIZE". */
static int set_files(struct spec *s, const struct tool_list *l, struct err *e)
{
	for (unsigned i = 0; i < l->n; i++) {
		CLEANUP_FREE char *text = whole_path(l->word[i]);
		char *colon = text ? strrchr(text, ':') : NULL;

		if (!text)
			return err_set(e, -ENOMEM, "out of memory");
		if (!colon)
			return err_set(e, -EINVAL, "--file %s: its size is missing, as in "
				       "FILE:100G", printable(l->word[i]));
		*colon = ' ';
		if (set(s, "file", "node *", "file", text, e))
			return e->code;
	}
	return 0;
}

static int set_portals(struct spec *s, const struct tool_list *l, struct err *e)
{
	for (unsigned i = 0; i < l->n; i++) {
		const char *equals = strchr(l->word[i], '=');
		CLEANUP_FREE char *section = NULL;

		if (!equals)
			return err_set(e, -EINVAL, "--portal %s: is no NODE=ADDRESS",
				       printable(l->word[i]));
		if (asprintf(&section, "node %.*s", (int)(equals - l->word[i]), l->word[i]) < 0) {
			section = NULL; /* asprintf leaves it undefined */
			return err_set(e, -ENOMEM, "out of memory");
		}
		if (set(s, "portal", section, "portal", equals + 1, e))
			return e->code;
	}
	return 0;
}

/* For each initiator that the file says nothing else of. */
static int set_secret(struct spec *s, const char *option, const char *key, bool mutual,
		      const char *value, struct err *e)
{
	if (value && !s->n_initiators)
		return err_set(e, -EINVAL, "--%s is for initiators, and there are none: "
			       "--initiator names one", option);
	for (size_t i = 0; value && i < s->n_initiators; i++) {
		const struct spec_initiator *in = &s->initiators[i];
		CLEANUP_FREE char *section = NULL;
		int r;

		if (mutual ? in->mutual_secret : in->chap_secret)
			continue;
		if (asprintf(&section, "initiator %s", in->name) < 0) {
			section = NULL; /* asprintf leaves it undefined */
			return err_set(e, -ENOMEM, "out of memory");
		}
		r = strcmp(value, SPEC_GENERATE) ? set_path(s, option, section, key, value, e) :
		    set(s, option, section, key, value, e);
		if (r)
			return r;
	}
	return 0;
}

static int set_initiators(struct spec *s, const struct plan_options *o, struct err *e)
{
	for (unsigned i = 0; i < o->initiator.n; i++) {
		CLEANUP_FREE char *section = NULL;

		if (asprintf(&section, "initiator %s", o->initiator.word[i]) < 0) {
			section = NULL; /* asprintf leaves it undefined */
			return err_set(e, -ENOMEM, "out of memory");
		}
		if (spec_set(s, section, NULL, NULL, e))
			return err_prefix(e, "--initiator");
	}
	if (set_secret(s, "chap", "chap-secret", false, o->chap, e))
		return e->code;
	return set_secret(s, "mutual-chap", "mutual-secret", true, o->mutual, e);
}

int plan_ask_options(struct spec *s, const struct plan_options *o, struct err *e)
{
	if (o->node && (ids_parse(o->node, &s->only) || !ids_count(&s->only)))
		return err_set(e, -EINVAL, "--node %s: is no list of nodes, as 0,2-3",
			       printable(o->node));
	if (set(s, "name", "plan", "name", o->name, e) ||
	    set(s, "domain", "plan", "domain", o->domain, e) ||
	    set(s, "iqn", "plan", "iqn", o->iqn, e) ||
	    set_path(s, "secrets", "plan", "secrets", o->secrets, e) ||
	    set_path(s, "mounts", "plan", "mounts", o->mounts, e) ||
	    set(s, "open", "plan", "open", o->open ? "yes" : NULL, e) ||
	    set(s, "tcp", "plan", "tcp", o->tcp ? "yes" : NULL, e) ||
	    set_list(s, "tmpfs", "tmpfs", &o->tmpfs, e) ||
	    set_list(s, "ramdisk", "ramdisk", &o->ramdisk, e) || set_files(s, &o->file, e) ||
	    set_list(s, "block", "block", &o->block, e) ||
	    set(s, "policy", "node *", "policy", o->policy, e) ||
	    set(s, "write", "node *", "write", o->write, e) || set_portals(s, &o->portal, e))
		return e->code;
	return set_initiators(s, o, e);
}

int plan_ask_file(struct spec *s, const char *file, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	const char *name;

	text = plan_text(file, &name, e);
	return text ? spec_parse(s, name, text, e) : e->code;
}
