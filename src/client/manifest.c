// SPDX-License-Identifier: Apache-2.0
/* Reads and writes manifests. */
#include "client/manifest.h"

#include "client/names.h"
#include "storage/storage.h"

#include <fcntl.h>
#include <jansson.h>
#include <sys/stat.h>

struct manifest {
	const char *alg;
	char *file, *part;   /* part NULL: standard output */
	FILE *out;
	bool json, any;      /* any: a file was added */
	int failed;          /* a negative errno */
};

static bool ends_in(const char *s, const char *end)
{
	size_t n = strlen(s), k = strlen(end);

	return n >= k && !strcmp(s + n - k, end);
}

static void manifest_free(struct manifest *m)
{
	free(m->file);
	free(m->part);
	free(m);
}

/* Create the part in m->file's directory. */
static int open_part(struct manifest *m)
{
	uint64_t random[2];
	struct stat st;
	int fd;

	/* A device or a pipe must not be replaced by a file. */
	if (!stat(m->file, &st) && !S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? -EISDIR : -EINVAL;
	/* With the name of a part, so that no walk copies it. */
	crypto_random(random, sizeof(random));
	if (asprintf(&m->part, "%.*s" PART_PREFIX "%016llx%016llx",
		     (int)(name_last(m->file) - m->file), m->file, (unsigned long long)random[0],
		     (unsigned long long)random[1]) < 0) {
		m->part = NULL;
		return -ENOMEM;
	}
	fd = open(m->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	m->out = fdopen(fd, "w");
	if (!m->out) {
		close(fd);
		unlink(m->part);
		return -ENOMEM;
	}
	return 0;
}

const char *digest_option(const char *alg, struct err *e)
{
	const char *name = digest_name(alg);

	if (!name)
		err_set(e, -EINVAL, "--alg %s: no such digest (rftp --help lists them)",
			printable(alg));
	return name;
}

struct manifest *manifest_new(const char *file, const char *alg, struct err *e)
{
	struct manifest *m;
	int rc;

	alg = digest_option(alg, e);
	if (!alg)
		return NULL;
	m = calloc(1, sizeof(*m));
	if (m)
		m->file = strdup(file);
	if (!m || !m->file) {
		free(m);
		err_nomem(e);
		return NULL;
	}
	m->alg = alg;
	m->json = ends_in(file, ".json") || ends_in(file, ".jsonl");
	m->out = strcmp(file, "-") ? NULL : stdout;
	rc = m->out ? 0 : open_part(m);
	if (!rc)
		return m;
	err_path(e, rc, file, CANNOT_WRITE);
	manifest_free(m);
	return NULL;
}

/* As coreutils: a name with a newline, a carriage return or a backslash is escaped, and the line
 * begins with a backslash. */
void manifest_line(FILE *out, const char *name, const char *hex)
{
	bool escape = strpbrk(name, "\\\n\r");

	if (!show_raw(out)) {
		fprintf(out, "%s  %s\n", hex, printable(name));
		return;
	}
	/* sha256sum -c reads standard input for the name "-". */
	fprintf(out, "%s%s  %s", escape ? "\\" : "", hex, strcmp(name, "-") ? "" : "./");
	for (; *name; name++) {
		switch (escape ? *name : 0) {
		case '\\':
			fputs("\\\\", out);
			break;
		case '\n':
			fputs("\\n", out);
			break;
		case '\r':
			fputs("\\r", out);
			break;
		default:
			putc(*name, out);
		}
	}
	putc('\n', out);
}

void manifest_add(struct manifest *m, const char *rel, const struct file_report *r)
{
	json_t *o;

	m->any = true;
	if (!m->json) {
		manifest_line(m->out, rel, r->sum);
		return;
	}
	o = json_pack("{s:I, s:I, s:I, s:s, s:s}", "size", (json_int_t)r->bytes, "mtime",
		      (json_int_t)r->mtime_s, "mtime_ns", (json_int_t)r->mtime_ns, "alg", m->alg,
		      "digest", r->sum);
	if (!o || json_set_name(o, "path", rel)) {
		json_decref(o);
		m->failed = -ENOMEM;
		return;
	}
	if (json_emit(m->out, o))
		m->failed = m->failed ? m->failed : -EIO;
}

int manifest_end(struct manifest *m, bool keep)
{
	int rc = m ? m->failed : 0;

	if (!m)
		return 0;
	if (!rc && (fflush(m->out) || ferror(m->out)))
		rc = -errno;
	if (m->part) {
		if (keep && !m->any && !access(m->file, F_OK)) {
			keep = false;
			log_info("%s stays as it is: no file was copied", printable(m->file));
		}
		if (!rc && fsync(fileno(m->out)))
			rc = -errno;
		if (fclose(m->out) && !rc)
			rc = -errno;
		if (!rc && keep && rename(m->part, m->file))
			rc = -errno;
		if (rc || !keep)
			unlink(m->part);
	}
	if (rc)
		log_error("%s: " CANNOT_WRITE ": %s", printable(m->file), strerror(-rc));
	manifest_free(m);
	return rc;
}

/* ---- reading ---- */

/* Undo the escapes of manifest_line(), in place. False: there is another one. */
static bool unescape(char *name)
{
	char *out = name;

	for (; *name; name++) {
		if (*name != '\\') {
			*out++ = *name;
			continue;
		}
		name++;
		if (*name != '\\' && *name != 'n' && *name != 'r')
			return false;
		*out++ = *name == 'n' ? '\n' : *name == 'r' ? '\r' : '\\';
	}
	*out = '\0';
	return true;
}

bool digest_fits(const char *alg, const char *hex)
{
	size_t n = strspn(hex, "0123456789abcdefABCDEF");

	return !hex[n] && digest_of_length(alg, n);
}

/* "HEX  name", "HEX *name", with a backslash before it if the name is escaped. */
static int parse_line(char *line, const char *alg, struct manifest_file *f)
{
	bool escaped = *line == '\\';
	char *name;
	size_t n;

	line += escaped;
	n = strspn(line, "0123456789abcdefABCDEF");
	name = line + n;
	if (!n || n >= sizeof(f->hex) || name[0] != ' ' || (name[1] != ' ' && name[1] != '*') ||
	    !name[2])
		return -EBADMSG;
	f->alg = digest_of_length(alg, n);
	if (!f->alg)
		return -EBADMSG;
	snprintf(f->hex, sizeof(f->hex), "%.*s", (int)n, line);
	name += 2;
	if (escaped && !unescape(name))
		return -EBADMSG;
	f->path = strdup(name);
	return f->path ? 0 : -ENOMEM;
}

static int parse_json(const char *line, struct manifest_file *f)
{
	json_t *o = json_loads(line, 0, NULL);
	const char *alg, *hex;
	int rc = -EBADMSG;

	if (o && !json_unpack(o, "{s:s, s:s}", "alg", &alg, "digest", &hex) &&
	    digest_name(alg) && digest_fits(digest_name(alg), hex)) {
		f->alg = digest_name(alg);
		strcpy(f->hex, hex);
		rc = json_get_name(o, "path", &f->path);
	}
	json_decref(o);
	return rc;
}

static int compare_files(const void *a, const void *b)
{
	return strcmp(((const struct manifest_file *)a)->path,
		      ((const struct manifest_file *)b)->path);
}

static int read_lines(FILE *in, const char *file, const char *alg, struct manifest_list *l,
		      struct err *e)
{
	CLEANUP_FREE char *line = NULL;
	size_t room = 0, number = 0;
	ssize_t n;

	while ((n = getline(&line, &room, in)) > 0) {
		struct manifest_file f = { .path = NULL };
		int rc;

		number++;
		if (line[n - 1] == '\n')
			line[--n] = '\0';
		if (!n)
			continue;
		rc = strlen(line) != (size_t)n ? -EBADMSG : *line == '{' ? parse_json(line, &f) :
		     parse_line(line, alg, &f);
		if (!rc && (*f.path == '/' || name_normalize(f.path) || !*f.path)) {
			free(f.path);
			return err_set(e, -EINVAL, "%s:%zu: the path is not below the directory",
				       printable(file), number);
		}
		if (!rc && !array_has_room(l->v, l->n, l->room))
			rc = -ENOMEM;
		if (rc) {
			free(f.path);
			return rc == -ENOMEM ? err_sys(e, rc, "%s", printable(file)) :
			       err_set(e, -EINVAL, "%s:%zu: not a line of a manifest",
				       printable(file), number);
		}
		l->v[l->n++] = f;
	}
	return ferror(in) ? err_path(e, -errno, file, CANNOT_READ) : 0;
}

int manifest_read(const char *file, const char *alg, struct manifest_list *l, struct err *e)
{
	bool standard = !strcmp(file, "-");
	FILE *in = standard ? stdin : fopen(file, "re");
	const char *name;
	int rc;

	memset(l, 0, sizeof(*l));
	if (!in)
		return err_path(e, -errno, file, CANNOT_READ);
	name = alg ? digest_option(alg, e) : NULL;
	rc = alg && !name ? -EINVAL :
	     read_lines(in, standard ? "standard input" : file, name, l, e);
	if (!standard)
		fclose(in);
	if (!rc && l->n)
		qsort(l->v, l->n, sizeof(*l->v), compare_files);
	for (size_t i = 1; !rc && i < l->n; i++)
		if (!strcmp(l->v[i - 1].path, l->v[i].path))
			rc = err_set(e, -EINVAL, "%s: \"%s\" is listed twice", printable(file),
				     printable(l->v[i].path));
	if (rc)
		manifest_list_clear(l);
	return rc;
}

void manifest_list_clear(struct manifest_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].path);
	free(l->v);
	memset(l, 0, sizeof(*l));
}
