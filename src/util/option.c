// SPDX-License-Identifier: Apache-2.0
/* The option engine: kinds of values, configuration files, command lines, --help. */
#include "util/option.h"

#include "util/base.h"
#include "util/io.h"
#include "util/units.h"

#include <inttypes.h>

#define MS 1000000ull

/* ---- flags, constants and counts ---- */

static int set_flag(void *at, const struct option_def *d, const char *value, struct err *e)
{
	bool on = true;

	if (value && parse_bool(value, &on))
		return err_set(e, -EINVAL, "must be yes or no, not \"%s\"", printable(value));
	*(bool *)at = on;
	return 0;
}

static void show_flag(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	put(arg, *(const bool *)at ? "yes" : "no");
}

const struct option_kind option_flag = { set_flag, show_flag, NULL };

static int set_constant(void *at, const struct option_def *d, const char *value, struct err *e)
{
	bool on = false;
	int rc = set_flag(&on, d, value, e);

	if (rc == 0)
		*(unsigned *)at = on ? (unsigned)d->low : 0;
	return rc;
}

static void show_constant(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	if (*(const unsigned *)at == d->low)
		put(arg, "yes");
}

const struct option_kind option_constant = { set_constant, show_constant, NULL };

static int set_count(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t n;
	bool on;

	if (!value)
		++*(int *)at;
	else if (!parse_uint(value, d->low, d->high, &n))
		*(int *)at = (int)n;
	else if (!parse_bool(value, &on))
		*(int *)at = on;
	else
		return err_set(e, -EINVAL, "must be a number from %" PRIu64 " to %" PRIu64
			       ", not \"%s\"", d->low, d->high, printable(value));
	return 0;
}

static void clear_count(void *at)
{
	*(int *)at = 0;
}

static void show_count(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", *(const int *)at);
	put(arg, text);
}

const struct option_kind option_count = { set_count, show_count, clear_count };

static int set_nothing(void *at, const struct option_def *d, const char *value, struct err *e)
{
	return 0;
}

const struct option_kind option_nothing = { set_nothing, NULL, NULL };

/* ---- choices ---- */

static int set_choice(void *at, const struct option_def *d, const char *value, struct err *e)
{
	char all[128] = "";
	size_t n = 0;

	for (unsigned i = 0; d->words[i] && n < sizeof(all); i++) {
		if (!strcmp(d->words[i], value)) {
			*(unsigned *)at = i;
			return 0;
		}
		n += (size_t)snprintf(all + n, sizeof(all) - n, "%s%s",
				      !i ? "" : d->words[i + 1] ? ", " : " or ", d->words[i]);
	}

	return err_set(e, -EINVAL, "must be %s, not \"%s\"", all, printable(value));
}

static void show_choice(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	put(arg, d->words[*(const unsigned *)at]);
}

const struct option_kind option_choice = { set_choice, show_choice, NULL };

/* ---- numbers ---- */

/* The text form of a kind of number. */
struct quantity {
	int (*parse)(const char *s, uint64_t *n);
	const char *name, *example;
	const struct quantity_unit {
		uint64_t size;
		const char *name;
	} *units;                  /* largest first; size 0 ends the list */
};

static int parse_any_uint(const char *s, uint64_t *n)
{
	return parse_uint(s, 0, UINT64_MAX, n);
}

#define UNITS(...) (const struct quantity_unit []){ __VA_ARGS__, { 0 } }

static const struct quantity
	numbers = { parse_any_uint, "a number", "10", UNITS({ 1, "" }) },
	sizes = { parse_size, "a size", "64K or 1G",
		  UNITS({ 1ull << 40, "T" }, { 1 << 30, "G" }, { 1 << 20, "M" }, { 1 << 10, "K" },
			{ 1, "" }) },
	rates = { parse_rate, "a rate", "100M or 10Gbit", UNITS({ 1, "" }) },
	times = { parse_duration, "a time", "10s or 5m",
		  UNITS({ 24 * 3600000 * MS, "d" }, { 3600000 * MS, "h" }, { 60000 * MS, "m" },
			{ 1000 * MS, "s" }, { MS, "ms" }) };

static const struct quantity *quantity_of(const struct option_def *d)
{
	return d->kind == &option_size ? &sizes : d->kind == &option_rate ? &rates :
	       d->kind == &option_time ? &times : &numbers;
}

/* n in the largest unit that needs no fraction. */
static const char *quantity_text(char out[32], const struct quantity *q, uint64_t n)
{
	const struct quantity_unit *u = q->units;

	while (u[1].size && (n < u->size || n % u->size))
		u++;
	snprintf(out, 32, "%" PRIu64 "%s", n / u->size, u->name);
	return out;
}

/* The error names the bounds, whether value is malformed or out of bounds. */
static int bad_quantity(const struct option_def *d, const char *value, struct err *e)
{
	const struct quantity *q = quantity_of(d);
	char text[100], low[32], high[32];

	quantity_text(low, q, d->low);
	quantity_text(high, q, d->high);
	if (d->high)
		snprintf(text, sizeof(text), " from %s to %s", low, high);
	else if (d->low > 1)
		snprintf(text, sizeof(text), " of at least %s", low);
	else
		snprintf(text, sizeof(text), " such as %s", q->example);
	return err_set(e, -EINVAL, "must be %s%s%s%s, not \"%s\"", q->name, text,
		       d->unset ? ", or " : "", d->unset ? d->unset : "", printable(value));
}

static int set_wide(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t n = 0;
	int rc = 0;

	if (!d->unset || strcmp(value, d->unset)) {
		rc = quantity_of(d)->parse(value, &n);
		if (rc == -ERANGE && !d->high)
			return err_set(e, -EINVAL, "\"%s\" is too large", printable(value));
		if (rc || n < d->low || (d->high && n > d->high))
			return bad_quantity(d, value, e);
	}

	*(uint64_t *)at = n;
	return 0;
}

static void show_quantity(const struct option_def *d, uint64_t n, option_put *put, void *arg)
{
	char text[32];

	put(arg, !n && d->unset ? d->unset : quantity_text(text, quantity_of(d), n));
}

static void show_wide(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	show_quantity(d, *(const uint64_t *)at, put, arg);
}

const struct option_kind option_size = { set_wide, show_wide, NULL };
const struct option_kind option_rate = { set_wide, show_wide, NULL };
const struct option_kind option_time = { set_wide, show_wide, NULL };

static int set_number(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t n;
	int rc = set_wide(&n, d, value, e);

	if (rc == 0)
		*(unsigned *)at = (unsigned)n;
	return rc;
}

static void show_number(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	show_quantity(d, *(const unsigned *)at, put, arg);
}

const struct option_kind option_number = { set_number, show_number, NULL };

static int set_tos_value(void *at, const struct option_def *d, const char *value, struct err *e)
{
	uint64_t tos;

	if (d->unset && !strcmp(value, d->unset)) {
		*(int *)at = -1;
		return 0;
	}
	if (parse_tos(value, &tos) < 0)
		return err_set(e, -EINVAL, "must be a number from 0 to 255 or a class such as cs1, "
			       "af41 or ef, not \"%s\"", printable(value));
	*(int *)at = (int)tos;
	return 0;
}

static void show_tos(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	int tos = *(const int *)at;

	if (tos < 0)
		put(arg, d->unset ? d->unset : "");
	else
		show_quantity(d, (uint64_t)tos, put, arg);
}

const struct option_kind option_tos = { set_tos_value, show_tos, NULL };

/* ---- strings ---- */

static void clear_string(void *at)
{
	free(*(char **)at);
	*(char **)at = NULL;
}

static int set_string(void *at, const struct option_def *d, const char *value, struct err *e)
{
	int rc = d->check ? d->check(value, e) : 0;
	char *copy;

	if (rc)
		return rc;
	copy = strdup(value);
	if (!copy)
		return err_nomem(e);
	clear_string(at);
	*(char **)at = copy;
	return 0;
}

static void show_string(const void *at, const struct option_def *d, option_put *put, void *arg)
{
	const char *s = *(char *const *)at;

	put(arg, s ? s : d->unset ? d->unset : "");
}

const struct option_kind option_string = { set_string, show_string, clear_string };

static int set_text(void *at, const struct option_def *d, const char *value, struct err *e)
{
	*(const char **)at = value;
	return 0;
}

const struct option_kind option_text = { set_text, show_string, NULL };

int option_too_often(int most, struct err *e)
{
	return err_set(e, -EINVAL, "may be given at most %d times", most);
}

static int add_text(void *at, const struct option_def *d, const char *value, struct err *e)
{
	struct option_texts *l = at;

	if (l->n == OPTION_TEXTS_MAX)
		return option_too_often(OPTION_TEXTS_MAX, e);
	l->word[l->n++] = value;
	return 0;
}

const struct option_kind option_texts = { add_text, NULL, NULL };

/* ---- rows ---- */

#define FOR_EACH_ROW(d, rows) \
	for (const struct option_def *d = (rows); d->name || d->help; d++) \
		if (d->name)

const struct option_def *option_find(const struct option_def *rows, const char *name)
{
	FOR_EACH_ROW(d, rows)
		if (!strcmp(d->name, name))
			return d;
	return NULL;
}

const struct option_def *option_letter(const struct option_def *rows, char letter, unsigned where)
{
	const struct option_def *other = NULL;

	FOR_EACH_ROW(d, rows) {
		if (!letter || d->letter != letter)
			continue;
		if (d->where & where)
			return d;
		other = other ? other : d;
	}

	return other;
}

/* The number of letters to insert, remove, replace or swap with the next one to turn a into b
 * (optimal string alignment). Words of 32 bytes and more differ from all others. */
static unsigned word_distance(const char *a, const char *b)
{
	unsigned d[32][32];
	size_t n = strlen(a), m = strlen(b);

	if (n > 31 || m > 31)
		return UINT_MAX;
	for (size_t i = 0; i <= n; i++) {
		for (size_t k = 0; k <= m; k++) {
			unsigned least = (unsigned)(i + k);

			if (i && k) {
				least = d[i - 1][k - 1] + (a[i - 1] != b[k - 1]);
				least = d[i - 1][k] + 1 < least ? d[i - 1][k] + 1 : least;
				least = d[i][k - 1] + 1 < least ? d[i][k - 1] + 1 : least;
			}
			if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1] &&
			    d[i - 2][k - 2] + 1 < least)
				least = d[i - 2][k - 2] + 1;
			d[i][k] = least;
		}
	}

	return d[n][m];
}

/* The word_distance() up to which a word is probably a mistyped name; 0: it is too short to tell. */
static unsigned near_most(const char *word)
{
	const size_t len = strlen(word);

	return len > 4 ? 2 : len > 2 ? 1 : 0;
}

bool word_is_near(const char *word, const char *name)
{
	return near_most(word) && word_distance(word, name) <= near_most(word);
}

const char *option_nearest(const struct option_def *rows, const char *word, unsigned where)
{
	const size_t len = strlen(word);
	unsigned best = near_most(word) ? near_most(word) + 1 : 0;
	const char *name = NULL;

	FOR_EACH_ROW(d, rows) {
		unsigned n = word_distance(word, d->name);

		if (where && !(d->where & where))
			continue;
		if (best && n > 2 && !strncmp(d->name, word, len))
			n = 2;
		if (n < best) {
			best = n;
			name = d->name;
		}
	}

	return name;
}

const char *option_value_name(const struct option_def *d, char out[80])
{
	size_t n = 0;

	snprintf(out, 80, "%s", d->arg ? d->arg : "");
	for (unsigned i = 0; d->words && d->words[i] && n < 80; i++)
		n += (size_t)snprintf(out + n, 80 - n, "%s%s", i ? "|" : "", d->words[i]);
	return out;
}

/* ---- values ---- */

int option_set(const struct option_target *t, const struct option_def *d, const char *value,
	       unsigned from, struct err *e)
{
	void *at = (char *)t->base + d->at;
	unsigned *before = t->from ? &t->from[d - t->rows] : NULL;
	char name[80];

	if (!value && d->arg)
		return err_set(e, -EINVAL, "needs a value (%s)", option_value_name(d, name));
	if (before && *before && *before != from && from == OPTION_ARGV && (d->where & OPTION_LIST))
		d->kind->clear(at);
	if (before)
		*before = from;
	if (value && !*value && from != OPTION_ARGV && d->kind->clear) {
		d->kind->clear(at);
		return 0;
	}
	if (value && !*value && !(d->where & OPTION_MAY_BE_EMPTY))
		return err_set(e, -EINVAL, "must not be empty");
	return d->kind->set(at, d, value, e);
}

int option_set_key(const struct option_target *t, const char *key, const char *value,
		   unsigned line, struct err *e)
{
	const struct option_def *d = option_find(t->rows, key);
	const char *near;
	int rc;

	if (!d) {
		near = option_nearest(t->rows, key, OPTION_IN_FILE);
		return err_set(e, -EINVAL, "there is no setting \"%s\"%s%s%s", printable(key),
			       near ? " (did you mean \"" : "", near ? near : "",
			       near ? "\"?)" : "");
	}
	if (!(d->where & OPTION_IN_FILE))
		return err_set(e, -EINVAL, "\"%s\" is for the command line only", key);
	rc = option_set(t, d, value, line, e);
	if (rc)
		err_prefix(e, "%s", key);
	return rc;
}

void option_clear(const struct option_def *rows, void *base)
{
	FOR_EACH_ROW(d, rows)
		if (d->kind->clear)
			d->kind->clear((char *)base + d->at);
}

struct shown_row {
	FILE *out;
	const struct option_def *d;
	const char *source;
};

/* Quote a value that the configuration file's parser would otherwise change. */
static void show_line(void *arg, const char *value)
{
	struct shown_row *s = arg;
	bool quote = !*value || strpbrk(value, " \t\"#\\=");

	fprintf(s->out, "%s %s", s->d->name, quote ? "\"" : "");
	for (; *value; value++)
		fprintf(s->out, "%s%c", quote && (*value == '"' || *value == '\\') ? "\\" : "",
			*value);
	fprintf(s->out, "%s%s%s\n", quote ? "\"" : "", s->source ? "  # " : "",
		s->source ? s->source : "");
}

void option_show(FILE *out, const void *base, const struct option_def *d, const char *source)
{
	struct shown_row s = { out, d, source };

	d->kind->show((const char *)base + d->at, d, show_line, &s);
}

/* ---- configuration files ---- */

enum { CONF_MAX = 1 << 20 };

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static char *skip_blanks(char *s)
{
	while (is_blank(*s))
		s++;
	return s;
}

static void trim_end(char *s)
{
	size_t n = strlen(s);

	while (n && is_blank(s[n - 1]))
		s[--n] = '\0';
}

static bool is_end(const char *s)
{
	return *s == '\0' || *s == '#';
}

/* Decode a quoted value in place; s is the text after the opening quote. */
static int conf_unquote(char *s, struct err *e)
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

	if (!is_end(skip_blanks(s + 1)))
		return err_set(e, -EINVAL, "there is text behind the closing \"");
	*out = '\0';
	return 0;
}

static int conf_setting(struct conf_reader *r, const char *section, char *key, struct err *e)
{
	char *end = key + strcspn(key, " \t\r="), *value = skip_blanks(end);
	int rc;

	if (end == key)
		return err_set(e, -EINVAL, "there is no key before the \"=\"");
	if (*value == '=')
		value = skip_blanks(value + 1);
	*end = '\0'; /* only now: *end may be the "=" itself */
	if (*value == '"') {
		rc = conf_unquote(++value, e);
		if (rc)
			return rc;
	} else {
		/* A "#" begins a comment at the start of a word only: "pass#word" is a value. */
		for (char *p = value; *p; p++)
			if (*p == '#' && (p == value || is_blank(p[-1])))
				*p = '\0';
		trim_end(value);
		if (!*value)
			return err_set(e, -EINVAL,
				       "\"%s\" has no value (for an empty one write \"\")",
				       printable(key));
	}

	return r->fn(r->arg, section, key, value, e);
}

/* Parse a section header; *section gets its name, which the caller frees. */
static int conf_section(struct conf_reader *r, char **section, char *s, struct err *e)
{
	char *end = strchr(s, ']');

	if (!end)
		return err_set(e, -EINVAL, "the closing ] is missing");
	if (!is_end(skip_blanks(end + 1)))
		return err_set(e, -EINVAL, "there is text behind the ]");
	*end = '\0';
	s = skip_blanks(s);
	trim_end(s);
	if (!*s)
		return err_set(e, -EINVAL, "the section has no name");
	free(*section);
	*section = strdup(s);
	return *section ? r->fn(r->arg, *section, NULL, NULL, e) : err_nomem(e);
}

static int conf_line(struct conf_reader *r, char **section, char *line, struct err *e)
{
	line = skip_blanks(line);
	if (is_end(line))
		return 0;
	/* Other programs accept ";" comments, so name this mistake. */
	if (*line == ';')
		return err_set(e, -EINVAL, "a comment begins with \"#\", not with \";\"");
	if (*line == '[')
		return conf_section(r, section, line + 1, e);
	return conf_setting(r, *section ? *section : "", line, e);
}

int conf_parse(const char *name, const char *text, struct conf_reader *r, struct err *e)
{
	CLEANUP_FREE char *copy = strdup(text);
	CLEANUP_FREE char *section = NULL;
	char *rest = copy, *line;
	struct err own = ERR_INIT;
	int rc = 0;

	if (!copy)
		return err_sys(e, -ENOMEM, "%s", printable(name));
	e = e ? e : &own;
	for (r->line = 1; rc == 0 && (line = strsep(&rest, "\n")); r->line++) {
		rc = conf_line(r, &section, line, e);
		if (rc >= 0) {
			rc = 0;
			continue;
		}
		if (e->code == 0) {
			line = skip_blanks(line);
			err_sys(e, rc, "%s", printable(skip_blanks(line + (*line == '['))));
		}
		err_prefix(e, "%s:%u", printable(name), r->line);
		if (!r->bad || rc == -ENOMEM)
			return rc;
		r->bad(r->arg, e);
		*e = (struct err)ERR_INIT;
		rc = 0;
	}

	return rc;
}

int conf_read_with(const char *path, struct conf_reader *r, struct err *e)
{
	CLEANUP_FREE char *text = NULL;
	size_t len;
	int rc = read_file(path, CONF_MAX, &text, &len);

	if (rc == -ENOENT)
		return rc;
	if (rc)
		return err_path(e, rc, path, CANNOT_READ);
	if (strlen(text) != len)
		return err_set(e, -EINVAL, "%s: contains a NUL; is it a text file?",
			       printable(path));
	return conf_parse(path, text, r, e);
}

/* ---- command lines ---- */

struct parser {
	struct option_args *a;
	const struct option_syntax *s;
	char **next, **end;  /* the words after the current one */
};

static struct setting *add_setting(struct parser *p, const struct option_def *d, const char *value)
{
	struct setting *s = &p->a->settings[p->a->nsettings++];

	*s = (struct setting){ .def = d, .value = value };
	return s;
}

static bool is_word_of(const struct option_def *d, const char *word)
{
	for (const char *const *w = d->words; *w; w++)
		if (!strcmp(*w, word))
			return true;
	return false;
}

/* The next word of the command line is the option's value. */
static int add_next_word(struct parser *p, const struct option_def *d, char letter, struct err *e)
{
	char name[80];

	if (d->bare && (p->next == p->end || !is_word_of(d, *p->next))) {
		add_setting(p, d, d->bare)->letter = letter;
		return 0;
	}
	if (p->next == p->end)
		return err_set(e, -EINVAL, "--%s needs a value (%s)", d->name,
			       option_value_name(d, name));
	add_setting(p, d, *p->next++)->letter = letter;
	return 0;
}

const char *option_advice(const struct option_hint *hints, const char *typed)
{
	for (; hints && hints->typed; hints++)
		if (!strcmp(hints->typed, typed))
			return hints->advice;
	return NULL;
}

/* Find an option by its name or by a unique prefix of the name. */
static const struct option_def *find_abbreviated(const struct option_syntax *s, const char *name,
						 struct err *e)
{
	const struct option_def *found = option_find(s->rows, name);
	const char *near, *advice;
	char typed[64];

	if (found)
		return found;
	snprintf(typed, sizeof(typed), "--%s", name);
	advice = option_advice(s->hints, typed);
	if (advice) {
		err_set(e, -EINVAL, "there is no option %s (%s)", typed, advice);
		return NULL;
	}
	FOR_EACH_ROW(d, s->rows) {
		if (strncmp(d->name, name, strlen(name)))
			continue;
		if (found) {
			err_set(e, -EINVAL, "--%s is the beginning of several options: --%s, --%s",
				printable(name), found->name, d->name);
			return NULL;
		}
		found = d;
	}

	if (found)
		return found;
	near = option_nearest(s->rows, name, 0);
	err_set(e, -EINVAL, "there is no option %s (%s%s%s)", printable(typed),
		near ? "did you mean --" : s->help, near ? near : "",
		near ? "?" : " lists them");
	return NULL;
}

static int parse_name(struct parser *p, const char *word, struct err *e)
{
	size_t len = strcspn(word, "=");
	const struct option_def *d;
	char name[48];

	/* No option has a longer name. */
	snprintf(name, sizeof(name), "%.*s", (int)(len < 40 ? len : 40), word);
	d = find_abbreviated(p->s, name, e);
	if (!d)
		return -EINVAL;
	if (!word[len] && d->arg)
		return add_next_word(p, d, 0, e);
	if (word[len] && (d->where & OPTION_BARE))
		return err_set(e, -EINVAL, "--%s takes no value", d->name);
	add_setting(p, d, word[len] ? word + len + 1 : NULL);
	return 0;
}

/* Several letters may follow one dash. The first letter with a value takes the rest of the word. */
static int parse_letters(struct parser *p, const char *word, struct err *e)
{
	const bool clustered = word[1];
	char text[3] = "-";

	for (; *word; word++) {
		const struct option_def *d = option_letter(p->s->rows, *word, 0);
		const char *advice;
		struct setting *s;

		text[1] = *word;
		advice = d ? NULL : option_advice(p->s->hints, text);
		if (advice)
			return err_set(e, -EINVAL, "there is no option %s (%s)", text, advice);
		if (!d)
			return err_set(e, -EINVAL, "there is no option %s (%s lists them; write "
				       "./-... for a file of such a name)", printable(text),
				       p->s->help);
		if (d->arg && !word[1])
			return add_next_word(p, d, *word, e);
		s = add_setting(p, d, d->arg ? word + 1 : NULL);
		s->letter = *word;
		s->clustered = clustered;
		if (d->arg)
			return 0;
	}

	return 0;
}

static int parse_argument(struct parser *p, char *word, struct err *e)
{
	struct option_args *a = p->a;

	if (word[0] != '-' || word[1] == '\0') {
		a->words[a->nwords++] = word;
		return 0;
	}
	if (word[1] != '-')
		return parse_letters(p, word + 1, e);
	if (word[2])
		return parse_name(p, word + 2, e);
	while (p->next < p->end)
		a->words[a->nwords++] = *p->next++;
	return 0;
}

int option_parse(struct option_args *a, const struct option_syntax *s, int argc, char **argv,
		 struct err *e)
{
	struct parser p = { a, s, argv + (argc > 0), argv + argc };
	size_t most = 0; /* each letter can be a setting */
	int rc = 0;

	memset(a, 0, sizeof(*a));
	for (char **w = p.next; w < p.end; w++)
		most += (*w)[0] == '-' ? strlen(*w) : 0;
	a->words = calloc((size_t)argc + 1, sizeof(*a->words));
	a->settings = calloc(most + 1, sizeof(*a->settings));
	if (!a->words || !a->settings)
		rc = err_nomem(e);
	while (rc == 0 && p.next < p.end)
		rc = parse_argument(&p, *p.next++, e);
	return rc;
}

void option_args_clear(struct option_args *a)
{
	free(a->settings);
	free(a->words);
	memset(a, 0, sizeof(*a));
}

const struct setting *option_args_last(const struct option_args *a, const char *name)
{
	for (int i = a->nsettings - 1; i >= 0; i--)
		if (!strcmp(a->settings[i].def->name, name))
			return &a->settings[i];
	return NULL;
}

int option_args_set(const struct option_args *a, const struct option_target *t, struct err *e)
{
	for (int i = 0; i < a->nsettings; i++) {
		const struct setting *s = &a->settings[i];
		int rc = option_set(t, s->def, s->value, OPTION_ARGV, e);

		if (rc) {
			err_prefix(e, "--%s", s->def->name);
			return rc;
		}
	}

	return 0;
}

const char *setting_text(const struct setting *s)
{
	static _Thread_local char text[64];

	if (s->letter)
		snprintf(text, sizeof(text), "-%c", s->letter);
	else
		snprintf(text, sizeof(text), "--%s", s->def->name);
	return text;
}

/* ---- help ---- */

void option_help(FILE *out, const struct option_def *rows, unsigned with, unsigned without)
{
	enum { LEFT = 27 }; /* columns of the option itself */
	const char *heading = NULL;
	char left[160], value[80];

	for (const struct option_def *d = rows; d->name || d->help; d++) {
		const char letter[] = { '-', d->letter, ',', ' ', '\0' };

		if (!d->name) {
			heading = d->help;
			continue;
		}
		if ((with != OPTION_ANY && !(d->where & with)) || (d->where & without))
			continue;
		if (heading)
			fprintf(out, "\n%s:\n", heading);
		heading = NULL;
		option_value_name(d, value);
		snprintf(left, sizeof(left), "%s--%s%s%s", d->letter ? letter : "    ", d->name,
			 *value ? " " : "", value);
		if (strlen(left) > LEFT) /* print the help text on its own line */
			fprintf(out, "  %s\n  %-*s  %s\n", left, LEFT, "", d->help);
		else
			fprintf(out, "  %-*s  %s\n", LEFT, left, d->help);
	}
}
