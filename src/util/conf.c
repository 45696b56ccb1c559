// SPDX-License-Identifier: Apache-2.0
/* The reader of configuration files. */
#include "util/conf.h"

#include "util/cleanup.h"
#include "util/io.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { CONF_MAX = 1 << 20 };

struct conf {
	const char *name;
	struct conf_reader *r;
	struct err *e;
	char *section; /* owned */
};

static bool is_space(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *skip_space(char *s)
{
	while (is_space(*s))
		s++;
	return s;
}

static void trim_end(char *s)
{
	size_t n = strlen(s);

	while (n && is_space(s[n - 1]))
		s[--n] = '\0';
}

static bool at_end(const char *s)
{
	return *s == '\0' || *s == '#';
}

/* A "#" begins a comment at the start of a word only: "pass#word" is a value. */
static void cut_comment(char *s)
{
	char *p;

	for (p = s; *p; p++) {
		if (*p == '#' && (p == s || is_space(p[-1]))) {
			*p = '\0';
			return;
		}
	}
}

/* Undo the quotes of the text behind an opening one, in place. */
static int unquote(char *s, struct err *e)
{
	char *out = s;

	for (; *s != '"'; *out++ = *s++) {
		if (*s == '\\' && s[1] != '"' && s[1] != '\\')
			return err_set(e, -EINVAL, "in quotes only \\\" and \\\\ may follow a \\");
		if (*s == '\\')
			s++;
		if (*s == '\0')
			return err_set(e, -EINVAL, "the closing \" is missing");
	}
	if (!at_end(skip_space(s + 1)))
		return err_set(e, -EINVAL, "there is text behind the closing \"");
	*out = '\0';
	return 0;
}

/* The value that starts at s, without comment and quotes, in place. */
static int read_value(char *s, const char *key, char **value, struct err *e)
{
	*value = s;
	if (*s == '"') {
		*value = s + 1;
		return unquote(s + 1, e);
	}
	cut_comment(s);
	trim_end(s);
	if (!*s)
		return err_set(e, -EINVAL, "\"%s\" has no value (for an empty one write \"\")",
			       printable(key));
	return 0;
}

static int call_back(struct conf *c, const char *key, const char *value)
{
	int rc = c->r->fn(c->r->arg, c->section ? c->section : "", key, value, c->e);

	if (rc >= 0)
		return 0;
	if (c->e && c->e->code == 0)
		return err_sys(c->e, rc, "%s", printable(key ? key : c->section));
	return rc;
}

static int read_setting(struct conf *c, char *key)
{
	char *end = key + strcspn(key, " \t\r="), *s = skip_space(end), *value;
	int rc;

	if (end == key)
		return err_set(c->e, -EINVAL, "there is no key before the \"=\"");
	if (*s == '=')
		s = skip_space(s + 1);
	*end = '\0'; /* not before the "=" that may stand there was seen */
	rc = read_value(s, key, &value, c->e);
	return rc ? rc : call_back(c, key, value);
}

static int read_section(struct conf *c, char *s)
{
	char *end = strchr(s, ']');

	if (!end)
		return err_set(c->e, -EINVAL, "the closing ] is missing");
	if (!at_end(skip_space(end + 1)))
		return err_set(c->e, -EINVAL, "there is text behind the ]");
	*end = '\0';
	s = skip_space(s);
	trim_end(s);
	if (!*s)
		return err_set(c->e, -EINVAL, "the section has no name");
	free(c->section);
	c->section = strdup(s);
	return c->section ? call_back(c, NULL, NULL) : err_sys(c->e, -ENOMEM, "section");
}

static int read_line(struct conf *c, char *line)
{
	line = skip_space(line);
	if (at_end(line))
		return 0;
	/* Elsewhere it begins one. */
	if (*line == ';')
		return err_set(c->e, -EINVAL, "a comment begins with \"#\", not with \";\"");
	if (*line == '[')
		return read_section(c, line + 1);
	return read_setting(c, line);
}

/* 0: go on. */
static int wrong_line(struct conf *c, int rc)
{
	err_prefix(c->e, "%s:%u", printable(c->name), c->r->line);
	if (!c->r->bad || rc == -ENOMEM)
		return rc;
	c->r->bad(c->r->arg, c->e);
	*c->e = (struct err)ERR_INIT;
	return 0;
}

static int read_lines(struct conf *c, char *text)
{
	char *line;
	int rc;

	for (c->r->line = 1; (line = strsep(&text, "\n")); c->r->line++) {
		rc = read_line(c, line);
		if (rc)
			rc = wrong_line(c, rc);
		if (rc)
			return rc;
	}
	return 0;
}

static int parse(const char *name, const char *text, struct conf_reader *r, struct err *e)
{
	struct err own = ERR_INIT;
	struct conf c = { .name = name, .r = r, .e = e ? e : &own };
	CLEANUP_FREE char *copy = strdup(text);
	int rc;

	if (!copy)
		return err_sys(e, -ENOMEM, "%s", printable(name));
	rc = read_lines(&c, copy);
	free(c.section);
	return rc;
}

int conf_parse(const char *name, const char *text, conf_fn *fn, void *arg, struct err *e)
{
	struct conf_reader r = { .fn = fn, .arg = arg };

	return parse(name, text, &r, e);
}

int conf_read_with(const char *path, struct conf_reader *r, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len;
	int rc = read_file(path, CONF_MAX, &text, &len);

	if (rc == -ENOENT)
		return rc;
	if (rc)
		return err_sys(e, rc, "cannot read %s", printable(path));
	if (strlen(text) != len)
		return err_set(e, -EINVAL, "%s: holds a NUL byte: is it a text file?",
			       printable(path));
	return parse(path, text, r, e);
}

int conf_read(const char *path, conf_fn *fn, void *arg, struct err *e)
{
	struct conf_reader r = { .fn = fn, .arg = arg };

	return conf_read_with(path, &r, e);
}
