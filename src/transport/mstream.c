// SPDX-License-Identifier: Apache-2.0
/* The message stream: lines and frames out of one buffer, whole messages in. */
#include "transport/transport.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define READ_BUFFER (64u << 10)
/* A line with a password does not outgrow it: what is left behind then is not wiped. */
#define LINE_ROOM 2048u
#define WRITE_TIMEOUT_MS (5 * 60 * 1000)
/* Up to here a message is copied together and leaves in one write: one packet, one TLS
 * record. */
#define GATHER 4096u

/* Telnet, RFC 854. */
enum { SE = 240, SB = 250, WILL = 251, DONT = 254, IAC = 255 };

/* Where in a Telnet sequence the line reader is. */
enum telnet { T_TEXT, T_IAC, T_OPTION, T_SUB, T_SUB_IAC };

struct mstream {
	/* Locks in the order they are taken: writing, then swap. */
	pthread_mutex_t writing;  /* one message at a time */
	pthread_mutex_t swap;     /* guards s against ms_abort while it is replaced */
	struct stream *s;
	atomic_bool aborted;
	atomic_int write_timeout;
	int write_error;          /* a message was cut short, so none may follow (writing) */

	/* the reader's */
	uint8_t *in;
	size_t in_pos, in_end;
	char *line;               /* as far as it has come */
	size_t line_len, line_room;
	int line_error;           /* why the line is being skipped */
	enum telnet telnet;
	bool in_frame;            /* the head has been taken; type and left are true */
	uint8_t type;
	uint32_t left;
};

struct mstream *ms_new(struct stream *s)
{
	struct mstream *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->in = malloc(READ_BUFFER);
	if (!m->in) {
		free(m);
		return NULL;
	}
	pthread_mutex_init(&m->writing, NULL);
	pthread_mutex_init(&m->swap, NULL);
	m->s = s;
	atomic_store(&m->write_timeout, WRITE_TIMEOUT_MS);
	return m;
}

void ms_free(struct mstream *m)
{
	if (!m)
		return;
	stream_free(m->s);
	crypto_wipe(m->in, READ_BUFFER); /* passwords, keys */
	free(m->in);
	if (m->line)
		crypto_wipe(m->line, m->line_room);
	free(m->line);
	pthread_mutex_destroy(&m->writing);
	pthread_mutex_destroy(&m->swap);
	free(m);
}

/* Bytes have come that nobody has read, here or in the old stream's layers. */
static bool unread(struct mstream *m)
{
	return m->in_pos < m->in_end || m->line_len || m->line_error || m->telnet != T_TEXT ||
	       m->in_frame || m->s->ops->pending(m->s);
}

int ms_replace(struct mstream *m, struct stream *s)
{
	struct stream *old;

	if (unread(m))
		return -EPROTO;
	pthread_mutex_lock(&m->swap);
	old = m->s;
	m->s = s;
	if (atomic_load(&m->aborted))
		s->ops->abort(s);
	pthread_mutex_unlock(&m->swap);
	old->ops->disown(old);
	stream_free(old);
	return 0;
}

void ms_abort(struct mstream *m)
{
	pthread_mutex_lock(&m->swap);
	if (!atomic_exchange(&m->aborted, true))
		m->s->ops->abort(m->s);
	pthread_mutex_unlock(&m->swap);
}

int ms_shutdown(struct mstream *m)
{
	LOCK_GUARD(guard, &m->writing);

	return m->s->ops->shutdown ? m->s->ops->shutdown(m->s) : 0;
}

bool ms_aborted(const struct mstream *m)
{
	return atomic_load(&m->aborted);
}

bool ms_readable(struct mstream *m)
{
	return m->in_pos < m->in_end || m->s->ops->pending(m->s);
}

int ms_write_timeout(struct mstream *m)
{
	return atomic_load(&m->write_timeout);
}

void ms_set_write_timeout(struct mstream *m, int ms)
{
	atomic_store(&m->write_timeout, ms);
}

/* ---- reading ---- */

/* At least one more byte in the buffer. The end of the stream is -EPIPE. */
static int fill(struct mstream *m, int timeout_ms)
{
	ssize_t n;

	if (m->in_pos == m->in_end)
		m->in_pos = m->in_end = 0;
	if (m->in_end == READ_BUFFER) {
		m->in_end -= m->in_pos;
		memmove(m->in, m->in + m->in_pos, m->in_end);
		m->in_pos = 0;
	}
	if (atomic_load(&m->aborted))
		return -ECANCELED;
	n = m->s->ops->read(m->s, m->in + m->in_end, READ_BUFFER - m->in_end, timeout_ms);
	if (n < 0)
		return (int)n;
	if (n == 0)
		return -EPIPE;
	m->in_end += (size_t)n;
	return 0;
}

/* Add a byte to the line, or note why there will be none. */
static void line_byte(struct mstream *m, uint8_t byte, size_t max)
{
	char *p;

	if (m->line_error)
		return;
	if (byte == 0) {
		m->line_error = -EILSEQ;
		return;
	}
	/* One more than max - 1: it may be the CR that does not count. */
	if (m->line_len >= max) {
		m->line_error = -EMSGSIZE;
		return;
	}
	if (m->line_len == m->line_room) {
		size_t room = m->line_room ? 2 * m->line_room : LINE_ROOM;

		p = realloc(m->line, room);
		if (!p) {
			m->line_error = -ENOMEM;
			return;
		}
		m->line = p;
		m->line_room = room;
	}
	m->line[m->line_len++] = (char)byte;
}

/* One byte through the Telnet automaton. Commands are 240 and up; a byte below behind
 * IAC is text again, for peers whose data mark came as urgent data and is gone.
 * True: the line is at its end. */
static bool take_byte(struct mstream *m, uint8_t byte, size_t max)
{
	switch (m->telnet) {
	case T_IAC:
		m->telnet = T_TEXT;
		if (byte == IAC)
			line_byte(m, byte, max);
		else if (byte == SB)
			m->telnet = T_SUB;
		else if (byte >= WILL && byte <= DONT)
			m->telnet = T_OPTION;
		else if (byte < SE)
			return take_byte(m, byte, max);
		return false;
	case T_OPTION:
		m->telnet = T_TEXT;
		return false;
	case T_SUB:
		if (byte == IAC)
			m->telnet = T_SUB_IAC;
		return false;
	case T_SUB_IAC:
		m->telnet = byte == SE ? T_TEXT : T_SUB;
		return false;
	case T_TEXT:
		break;
	}
	if (byte == IAC) {
		m->telnet = T_IAC;
		return false;
	}
	if (byte == '\n')
		return true;
	line_byte(m, byte, max);
	return false;
}

/* The line is at its end: give it out, and begin another. */
static ssize_t give_line(struct mstream *m, char *line, size_t max)
{
	size_t len = m->line_len;
	int error = m->line_error;

	m->line_len = 0;
	m->line_error = 0;
	if (error)
		return error;
	if (len && m->line[len - 1] == '\r')
		len--;
	if (len >= max)
		return -EMSGSIZE;
	if (len)
		memcpy(line, m->line, len);
	line[len] = '\0';
	return (ssize_t)len;
}

ssize_t ms_read_line(struct mstream *m, char *line, size_t max, int timeout_ms)
{
	uint64_t end = now_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) * 1000000;
	int left = timeout_ms, r;

	for (;;) {
		while (m->in_pos < m->in_end)
			if (take_byte(m, m->in[m->in_pos++], max))
				return give_line(m, line, max);
		if (timeout_ms > 0) {
			left = ms_to(end);
			if (!left)
				return -ETIMEDOUT;
		}
		r = fill(m, left);
		if (r < 0)
			return r;
	}
}

void ms_wipe(struct mstream *m)
{
	crypto_wipe(m->in, m->in_pos);
	if (m->line)
		crypto_wipe(m->line + m->line_len, m->line_room - m->line_len);
}

/* How many of the next len bytes, at least one, lie at in_pos now; a negative errno. */
static ssize_t some(struct mstream *m, size_t len, int timeout_ms)
{
	size_t n;

	while (m->in_pos == m->in_end) {
		int r = fill(m, timeout_ms);

		if (r < 0)
			return r;
	}
	n = m->in_end - m->in_pos;
	return (ssize_t)(n < len ? n : len);
}

int ms_read(struct mstream *m, void *p, size_t len, int timeout_ms)
{
	uint8_t *to = p;

	while (len) {
		ssize_t n = some(m, len, timeout_ms);

		if (n < 0)
			return (int)n;
		memcpy(to, m->in + m->in_pos, (size_t)n);
		m->in_pos += (size_t)n;
		to += n;
		len -= (size_t)n;
	}
	return 0;
}

ssize_t ms_read_some(struct mstream *m, void *p, size_t len, int timeout_ms)
{
	ssize_t n = some(m, len, timeout_ms);

	if (n > 0) {
		memcpy(p, m->in + m->in_pos, (size_t)n);
		m->in_pos += (size_t)n;
	}
	return n;
}

int ms_skip(struct mstream *m, size_t len, int timeout_ms)
{
	while (len) {
		ssize_t n = some(m, len, timeout_ms);

		if (n < 0)
			return (int)n;
		m->in_pos += (size_t)n;
		len -= (size_t)n;
	}
	return 0;
}

static int frame_head(struct mstream *m, size_t max, int timeout_ms)
{
	int r;

	while (m->in_end - m->in_pos < BULK_FRAME_HEAD) {
		r = fill(m, timeout_ms);
		if (r < 0)
			return r;
	}
	r = bulk_frame_get(m->in + m->in_pos, max, &m->type, &m->left);
	if (r < 0)
		return r;
	m->in_pos += BULK_FRAME_HEAD;
	m->in_frame = true;
	return 0;
}

int ms_read_frame(struct mstream *m, uint8_t *type, struct buf *payload, size_t max,
		  int timeout_ms)
{
	int r;

	if (!m->in_frame) {
		buf_reset(payload);
		r = frame_head(m, max, timeout_ms);
		if (r < 0)
			return r;
	}
	/* The buffer grows as bytes come, not as the length promises. */
	while (m->left) {
		ssize_t n = some(m, m->left, timeout_ms);

		if (n < 0)
			return (int)n;
		r = buf_put(payload, m->in + m->in_pos, (size_t)n);
		if (r < 0)
			return r;
		m->in_pos += (size_t)n;
		m->left -= (uint32_t)n;
	}
	m->in_frame = false;
	*type = m->type;
	return 0;
}

/* ---- writing ---- */

static int write_all(struct mstream *m, const uint8_t *p, size_t len)
{
	while (len && !m->write_error) {
		ssize_t n;

		if (atomic_load(&m->aborted))
			return -ECANCELED;
		n = m->s->ops->write(m->s, p, len, atomic_load(&m->write_timeout));
		if (n < 0) {
			m->write_error = (int)n;
			break;
		}
		p += n;
		len -= (size_t)n;
	}
	return m->write_error;
}

int ms_write(struct mstream *m, const void *p, size_t len)
{
	LOCK_GUARD(held, &m->writing);

	return write_all(m, p, len);
}

int ms_write_framev(struct mstream *m, uint8_t type, const struct iovec *iov, int n)
{
	uint8_t first[GATHER];
	size_t have = BULK_FRAME_HEAD, total = 0, part;
	int i, r;

	for (i = 0; i < n; i++)
		total += iov[i].iov_len;
	if (n > MS_PIECES || total > UINT32_MAX)
		return -EMSGSIZE;
	bulk_frame_put(first, type, (uint32_t)total);

	LOCK_GUARD(held, &m->writing);
	for (i = 0; i < n; i++) {
		const uint8_t *p = iov[i].iov_base;

		/* Fill up the first write; what is left of a piece goes as it is. */
		part = GATHER - have < iov[i].iov_len ? GATHER - have : iov[i].iov_len;
		if (part)
			memcpy(first + have, p, part);
		have += part;
		if (part == iov[i].iov_len)
			continue;
		r = write_all(m, first, have);
		if (!r)
			r = write_all(m, p + part, iov[i].iov_len - part);
		if (r < 0)
			return r;
		have = 0;
	}
	return write_all(m, first, have);
}

int ms_write_frame(struct mstream *m, uint8_t type, const void *p, size_t len)
{
	struct iovec iov = { .iov_base = (void *)p, .iov_len = len };

	return ms_write_framev(m, type, &iov, 1);
}
