// SPDX-License-Identifier: Apache-2.0
/* Filters: rules with patterns, and a matcher without backtracking: a pattern from the peer cannot
 * take more time than the product of both lengths. */
#include "util/filter.h"

#include "util/base.h"
#include "util/io.h"

#include <ctype.h>

/* ---- patterns ---- */

/* A part of a pattern: it matches one byte, or any number of them. */
struct token {
	enum { TOKEN_BYTE, TOKEN_ANY, TOKEN_CLASS, TOKEN_STAR, TOKEN_STARS } kind;
	uint8_t byte;              /* TOKEN_BYTE */
	const uint8_t *set;        /* TOKEN_CLASS: 32 bytes with a bit for each value */
};

struct filter_rule {
	bool include;
	bool dir_only;             /* the pattern ended with "/" */
	bool name_only;            /* match the last component */
	bool anywhere;             /* match from the start of each component */
	bool slash_before;         /* "**" at the start: "/" precedes the path */
	bool slash_behind;         /* "***" at the end: "/" follows a directory's path */
	size_t last;               /* match this many components at the end; 0: all */
	char *pattern;             /* as given */
	struct token *tokens;
	size_t ntokens;
	uint8_t *sets;             /* memory of the classes */
};

static void rule_clear(struct filter_rule *r)
{
	free(r->pattern);
	free(r->tokens);
	free(r->sets);
}

static void set_add(uint8_t *set, uint8_t from, uint8_t to)
{
	for (unsigned c = from; c <= to; c++)
		set[c / 8] |= (uint8_t)(1u << c % 8);
}

/* Add the class with this name, such as "alpha", to set. False: there is no such class. */
static bool set_add_named(uint8_t *set, const char *name, size_t len)
{
	static const struct { const char *name; int (*is)(int c); } classes[] = {
		{ "alnum", isalnum }, { "alpha", isalpha }, { "blank", isblank },
		{ "cntrl", iscntrl }, { "digit", isdigit }, { "graph", isgraph },
		{ "lower", islower }, { "print", isprint }, { "punct", ispunct },
		{ "space", isspace }, { "upper", isupper }, { "xdigit", isxdigit },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (strlen(classes[i].name) != len || memcmp(classes[i].name, name, len))
			continue;
		for (unsigned c = 0; c < 128; c++)
			if (classes[i].is((int)c))
				set_add(set, (uint8_t)c, (uint8_t)c);
		return true;
	}
	return false;
}

/* Parse the class after "[" into set. Returns the byte after its "]"; NULL: it does not close, or
 * has an unknown class in it. */
static const char *set_parse(uint8_t *set, const char *at)
{
	bool inverted = *at == '!' || *at == '^';
	const char *start, *end;

	at += inverted;
	for (start = at; *at && (*at != ']' || at == start);) {
		uint8_t low, high;

		if (at[0] == '[' && at[1] == ':' && (end = strstr(at + 2, ":]"))) {
			if (!set_add_named(set, at + 2, (size_t)(end - at) - 2))
				return NULL;
			at = end + 2;
			continue;
		}
		at += *at == '\\' && at[1];
		low = high = (uint8_t)*at++;
		if (at[0] == '-' && at[1] && at[1] != ']') {
			at++;
			at += *at == '\\' && at[1];
			high = (uint8_t)*at++;
		}
		set_add(set, low, high);
	}

	if (!*at)
		return NULL;
	for (int i = 0; inverted && i < 32; i++)
		set[i] = (uint8_t)~set[i];
	set['/' / 8] &= (uint8_t)~(1u << '/' % 8);
	return at + 1;
}

/* Make r's tokens. Without "*", "?" and "[" a backslash is an ordinary byte. */
static int rule_compile(struct filter_rule *r, const char *at, struct err *e)
{
	const bool wild = strpbrk(at, "*?[");
	size_t sets = 0;

	for (const char *s = at; (s = strchr(s, '[')); s++)
		sets++;
	r->tokens = calloc(strlen(at) + 1, sizeof(*r->tokens));
	r->sets = calloc(sets + 1, 32);
	if (!r->tokens || !r->sets)
		return err_nomem(e);

	sets = 0;
	while (*at) {
		struct token *t = &r->tokens[r->ntokens++];

		if (wild && *at == '*') {
			t->kind = at[1] == '*' ? TOKEN_STARS : TOKEN_STAR;
			at += strspn(at, "*");
		} else if (wild && *at == '?') {
			t->kind = TOKEN_ANY;
			at++;
		} else if (wild && *at == '[') {
			uint8_t *set = r->sets + 32 * sets++;

			t->kind = TOKEN_CLASS;
			t->set = set;
			at = set_parse(set, at + 1);
			if (!at)
				return err_set(e, -EINVAL, "\"[\" without its \"]\", or an unknown "
					       "class, in the pattern \"%s\"",
					       printable(r->pattern));
		} else {
			at += wild && *at == '\\' && at[1];
			t->byte = (uint8_t)*at++;
		}
	}
	return 0;
}

static int rule_make(struct filter_rule *r, const char *pattern, struct err *e)
{
	CLEANUP_FREE char *text = strdup(pattern);
	size_t len = strlen(pattern), slashes = 0;
	bool anchored, wild, stars;

	r->pattern = strdup(pattern);
	if (!text || !r->pattern)
		return err_nomem(e);

	r->dir_only = len > 1 && text[len - 1] == '/';
	if (r->dir_only)
		text[--len] = '\0';
	for (const char *s = text; (s = strchr(s, '/')); s++)
		slashes++;
	wild = strpbrk(text, "*?[");
	stars = wild && strstr(text, "**");
	anchored = text[0] == '/';

	r->name_only = !slashes && !stars;
	r->slash_before = stars && !strncmp(text, "**", 2);
	r->slash_behind = stars && len >= 3 && !strcmp(text + len - 3, "***");
	r->last = !anchored && slashes && !stars ? slashes + 1 : 0;
	r->anywhere = !anchored && stars && !r->slash_before;
	return rule_compile(r, text + anchored, e);
}

/* ---- matching ---- */

/* The tokens that may match the next byte, as bits. Bit ntokens: all have matched. */
struct states {
	uint64_t bits[(FILTER_PATTERN_MAX + 64) / 64];
	size_t words;              /* of bits that are in use */
};

/* A token that matches any number of bytes may match none. */
static void states_add(struct states *s, const struct filter_rule *r, size_t i)
{
	s->bits[i / 64] |= 1ull << i % 64;
	while (i < r->ntokens && r->tokens[i].kind >= TOKEN_STAR) {
		i++;
		s->bits[i / 64] |= 1ull << i % 64;
	}
}

static void token_step(const struct filter_rule *r, size_t i, uint8_t c, struct states *next)
{
	const struct token *t = &r->tokens[i];

	switch (t->kind) {
	case TOKEN_BYTE:
		if (c == t->byte)
			states_add(next, r, i + 1);
		break;
	case TOKEN_ANY:
		if (c != '/')
			states_add(next, r, i + 1);
		break;
	case TOKEN_CLASS:
		if (t->set[c / 8] >> c % 8 & 1)
			states_add(next, r, i + 1);
		break;
	case TOKEN_STAR:
		if (c != '/')
			states_add(next, r, i);
		break;
	case TOKEN_STARS:
		states_add(next, r, i);
		break;
	}
}

static void states_step(struct states *s, const struct filter_rule *r, uint8_t c)
{
	struct states next;

	next.words = s->words;
	memset(next.bits, 0, s->words * sizeof(next.bits[0]));
	for (size_t w = 0; w < s->words; w++)
		for (uint64_t left = s->bits[w]; left; left &= left - 1) {
			size_t i = w * 64 + (size_t)__builtin_ctzll(left);

			if (i < r->ntokens)
				token_step(r, i, c, &next);
		}
	memcpy(s->bits, next.bits, s->words * sizeof(next.bits[0]));
}

/* The last n components of path; NULL: it has fewer. */
static const char *last_components(const char *path, size_t n)
{
	const char *at = path + strlen(path);

	while (at > path && n)
		if (*--at == '/' && --n == 0)
			return at + 1;
	return n > 1 ? NULL : path;
}

static bool rule_matches(const struct filter_rule *r, const char *path, bool is_dir)
{
	const char *at = r->name_only ? last_components(path, 1) :
			 r->last ? last_components(path, r->last) : path;
	struct states s;

	if (!at || (r->dir_only && !is_dir))
		return false;

	s.words = r->ntokens / 64 + 1;
	memset(s.bits, 0, s.words * sizeof(s.bits[0]));
	states_add(&s, r, 0);
	if (r->slash_before)
		states_step(&s, r, '/');
	for (const char *c = at; *c; c++) {
		if (r->anywhere && c > at && c[-1] == '/')
			states_add(&s, r, 0);
		states_step(&s, r, (uint8_t)*c);
	}
	if (r->slash_behind && is_dir)
		states_step(&s, r, '/');
	return s.bits[r->ntokens / 64] >> r->ntokens % 64 & 1;
}

bool filter_admits(const struct filter *f, const char *path, bool is_dir)
{
	for (size_t i = 0; i < f->n; i++)
		if (rule_matches(&f->rules[i], path, is_dir))
			return f->rules[i].include;
	return true;
}

bool filter_admits_file(const struct filter *f, uint64_t size, int64_t mtime_s)
{
	return size >= f->size_least && (!f->size_most || size <= f->size_most) &&
	       (!f->newer_s || mtime_s >= f->newer_s);
}

bool filter_is_set(const struct filter *f)
{
	return f && (f->n || f->size_least || f->size_most || f->newer_s || f->one_filesystem);
}

/* ---- lists of rules ---- */

int filter_add(struct filter *f, bool include, const char *pattern, struct err *e)
{
	struct filter_rule r = { .include = include };
	size_t len = strlen(pattern);
	int rc;

	if (!len || !strcmp(pattern, "/"))
		return err_set(e, -EINVAL, "a pattern needs a name");
	if (len > FILTER_PATTERN_MAX)
		return err_set(e, -EINVAL, "the pattern is longer than %u bytes",
			       FILTER_PATTERN_MAX);
	if (f->n == FILTER_RULES_MAX || f->bytes + len > FILTER_BYTES_MAX)
		return err_set(e, -E2BIG, "there are at most %u patterns, of %u bytes together",
			       FILTER_RULES_MAX, FILTER_BYTES_MAX);

	rc = rule_make(&r, pattern, e);
	if (rc == 0 && !array_has_room(f->rules, f->n, f->room))
		rc = err_nomem(e);
	if (rc) {
		rule_clear(&r);
		return rc;
	}
	f->rules[f->n++] = r;
	f->bytes += len;
	return 0;
}

static void filter_clear_rules(struct filter *f)
{
	for (size_t i = 0; i < f->n; i++)
		rule_clear(&f->rules[i]);
	f->n = f->bytes = 0;
}

int filter_add_text(struct filter *f, bool include, const char *text, struct err *e)
{
	if (!strcmp(text, "!"))
		filter_clear_rules(f);
	else if ((*text == '-' || *text == '+') && text[1] == ' ')
		return filter_add(f, *text == '+', text + 2, e);
	else
		return filter_add(f, include, text, e);
	return 0;
}

/* Append the rule of a line of a file. */
static int filter_add_line(struct filter *f, const char *line, struct err *e)
{
	static const struct { const char *word; bool include; } words[] = {
		{ "- ", false }, { "+ ", true }, { "exclude ", false }, { "include ", true },
	};

	if (!*line || *line == '#' || *line == ';')
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (!strncmp(line, words[i].word, strlen(words[i].word)))
			return filter_add(f, words[i].include, line + strlen(words[i].word), e);
	if (!strcmp(line, "!"))
		return filter_add_text(f, false, line, e);
	return err_set(e, -EINVAL, "\"%s\" is not \"- PATTERN\" or \"+ PATTERN\"", printable(line));
}

int filter_read(struct filter *f, const char *file, struct err *e)
{
	const bool standard = !strcmp(file, "-");
	FILE *in = standard ? stdin : fopen(file, "re");
	CLEANUP_FREE char *line = NULL;
	unsigned long number = 0;
	size_t room = 0;
	ssize_t n;
	int rc = 0;

	if (!in)
		return err_path(e, -errno, file, CANNOT_READ);
	while (rc == 0 && (errno = 0, n = getline(&line, &room, in)) >= 0) {
		number++;
		n = (ssize_t)line_trim(line, (size_t)n);
		rc = strlen(line) == (size_t)n ? filter_add_line(f, line, e) :
		     err_set(e, -EINVAL, "the line contains a NUL");
		if (rc)
			err_prefix(e, "%s:%lu", standard ? "standard input" : printable(file),
				   number);
	}
	if (rc == 0 && errno)
		rc = err_path(e, -errno, file, CANNOT_READ);
	if (!standard)
		fclose(in);
	return rc;
}

const char *filter_pattern(const struct filter *f, size_t i, bool *include)
{
	*include = f->rules[i].include;
	return f->rules[i].pattern;
}

int filter_copy(struct filter *to, const struct filter *from)
{
	struct err ignored = ERR_INIT;
	int rc = 0;

	*to = *from;
	to->rules = NULL;
	to->n = to->room = to->bytes = 0;
	for (size_t i = 0; rc == 0 && i < from->n; i++)
		rc = filter_add(to, from->rules[i].include, from->rules[i].pattern, &ignored);
	if (rc)
		filter_clear(to);
	return rc;
}

void filter_clear(struct filter *f)
{
	filter_clear_rules(f);
	free(f->rules);
	*f = (struct filter){ 0 };
}
