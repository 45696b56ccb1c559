// SPDX-License-Identifier: Apache-2.0
/* Lines of the log as bytes for another process, and back: level, number of fields, text, and
 * each field's type, key and value, with lengths before what has one. */
#include "util/log_out.h"

#include "util/buf.h"
#include "util/cleanup.h"
#include "util/text.h"

#include <errno.h>
#include <string.h>

enum { TEXT_MAX = 4096, NAME_MAX_BYTES = 5000, KEY_MAX = 32, PEER_MAX = 80 };

/* ---- there ---- */

static int put_sized(struct buf *b, const char *s, size_t most)
{
	size_t len = strnlen(s, most);
	uint8_t size[2];
	int rc;

	put_be16(size, (uint16_t)len);
	rc = buf_put(b, size, sizeof(size));
	return rc ? rc : buf_put(b, s, len);
}

static int put_number(struct buf *b, uint64_t v)
{
	uint8_t bytes[8];

	put_be64(bytes, v);
	return buf_put(b, bytes, sizeof(bytes));
}

static int put_field(struct buf *b, const struct log_field *f)
{
	uint8_t type = (uint8_t)f->type;
	uint64_t bits;
	int rc = buf_put(b, &type, 1);

	memcpy(&bits, &f->real, sizeof(bits));
	if (!rc)
		rc = put_sized(b, f->key, KEY_MAX);
	if (!rc && f->type == LOG_IS_NAME)
		rc = put_sized(b, f->name, NAME_MAX_BYTES);
	else if (!rc)
		rc = put_number(b, f->type == LOG_IS_NUMBER ? f->number : bits);
	return rc;
}

size_t log_pack(uint8_t out[LOG_RECORD_MAX], const struct log_line *l)
{
	struct buf *b CLEANUP_BUF = buf_new(LOG_RECORD_MAX);
	uint8_t head[2] = { (uint8_t)l->level, 0 };
	size_t len;

	if (!b || buf_put(b, head, sizeof(head)) || put_sized(b, l->text, TEXT_MAX))
		return 0;
	len = buf_len(b);
	for (size_t i = 0; i < l->nfields && head[1] < LOG_FIELDS_MAX; i++) {
		if (l->fields[i].type == LOG_IS_NAME && !l->fields[i].name)
			continue;
		if (put_field(b, &l->fields[i]))
			break;
		head[1]++;
		len = buf_len(b);
	}
	memcpy(out, buf_ptr(b), len);
	out[1] = head[1];
	return len;
}

/* ---- here ---- */

struct unpacked {
	struct log_field fields[LOG_FIELDS_MAX + 1]; /* and one of ours */
	char text[PEER_MAX + TEXT_MAX + 1];
	char keys[LOG_FIELDS_MAX][KEY_MAX + 1];
	char names[LOG_RECORD_MAX + LOG_FIELDS_MAX]; /* each with its NUL */
	size_t used;                                 /* of names */
};

static int get_sized(struct buf *b, char *out, size_t most)
{
	uint8_t size[2];
	size_t len;
	int rc = buf_get(b, size, sizeof(size));

	if (rc)
		return rc;
	len = get_be16(size);
	if (len > most || buf_get(b, out, len))
		return -EPROTO;
	out[len] = '\0';
	return strlen(out) == len ? 0 : -EPROTO;
}

/* Members that we write ourselves are not to be had twice. */
static bool is_good_key(const char *key)
{
	static const char *const ours[] = { "time", "level", "pid", "ident", "message" };

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (!strcmp(key, ours[i]))
			return false;
	return *key && strspn(key, "abcdefghijklmnopqrstuvwxyz_") == strlen(key);
}

static int get_value(struct buf *b, struct unpacked *u, struct log_field *f)
{
	uint8_t bytes[8];
	uint64_t bits;

	if (f->type == LOG_IS_NAME) {
		f->name = u->names + u->used;
		if (get_sized(b, u->names + u->used, NAME_MAX_BYTES))
			return -EPROTO;
		u->used += strlen(f->name) + 1;
		return 0;
	}
	if (buf_get(b, bytes, sizeof(bytes)))
		return -EPROTO;
	bits = get_be64(bytes);
	f->number = bits;
	memcpy(&f->real, &bits, sizeof(bits));
	return 0;
}

static int get_fields(struct buf *b, struct unpacked *u, uint8_t n)
{
	for (uint8_t i = 0; i < n; i++) {
		struct log_field *f = &u->fields[i];
		uint8_t type;

		if (buf_get_u8(b, &type) || type > LOG_IS_REAL ||
		    get_sized(b, u->keys[i], KEY_MAX) || !is_good_key(u->keys[i]))
			return -EPROTO;
		*f = (struct log_field){ .key = u->keys[i], .type = (enum log_type)type };
		if (get_value(b, u, f))
			return -EPROTO;
	}
	return buf_len(b) ? -EPROTO : 0;
}

static int unpack(struct unpacked *u, struct log_line *l, const void *record, size_t len)
{
	struct buf *b CLEANUP_BUF = len <= LOG_RECORD_MAX ? buf_from(record, len) : NULL;
	uint8_t head[2];

	if (!b || buf_get(b, head, sizeof(head)) || head[0] > LOG_LV_DEBUG ||
	    head[1] > LOG_FIELDS_MAX || get_sized(b, u->text, TEXT_MAX) ||
	    get_fields(b, u, head[1]))
		return -EPROTO;
	one_line(u->text);
	l->level = (enum log_level)head[0];
	l->nfields = head[1];
	return 0;
}

/* What it says of it is left away. */
static void set_peer(struct unpacked *u, struct log_line *l, const char *peer)
{
	struct log_field ours = LOG_NAME("peer", peer);
	size_t n = 0, len = strnlen(peer, PEER_MAX - 3);

	for (size_t i = 0; i < l->nfields; i++)
		if (strcmp(u->fields[i].key, ours.key))
			u->fields[n++] = u->fields[i];
	u->fields[n++] = ours;
	l->nfields = n;
	if (strstr(u->text, peer))
		return;
	memmove(u->text + len + 2, u->text, strlen(u->text) + 1);
	memcpy(u->text, peer, len);
	memcpy(u->text + len, ": ", 2);
}

int log_relay(pid_t pid, const char *peer, const void *record, size_t len)
{
	struct unpacked u = { .used = 0 };
	struct log_line l = { .pid = pid, .text = u.text, .fields = u.fields };
	int rc = unpack(&u, &l, record, len);

	if (rc)
		return rc;
	if (peer)
		set_peer(&u, &l, peer);
	log_again(&l);
	return rc;
}
