// SPDX-License-Identifier: Apache-2.0
/* Listings of files as text and as JSON. */
#include "client/show.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

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

static void put_number(char *out, size_t n, bool has, uint64_t v, const char *without)
{
	if (has)
		snprintf(out, n, "%llu", (unsigned long long)v);
	else
		snprintf(out, n, "%s", without);
}

/* To the minute, or in full. */
static void put_time(char *out, size_t n, const struct ftp_facts *f, bool full)
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
	put_number(uid, sizeof(uid), f->has_owner, f->uid, "?");
	put_number(gid, sizeof(gid), f->has_owner, f->gid, "?");
	/* What is no file has none that could be known. */
	if (human && f->has_size)
		format_size(size, sizeof(size), f->size);
	else
		put_number(size, sizeof(size), f->has_size, f->size, f->type == 'f' ? "?" : "-");
	put_time(when, sizeof(when), f, false);
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
	put_time(text, sizeof(text), f, true);
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
