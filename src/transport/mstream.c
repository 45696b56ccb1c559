// SPDX-License-Identifier: Apache-2.0
/* The message stream: reads lines and frames from one buffer, writes whole messages. */
#include "transport/transport.h"

#include <pthread.h>
#include <stdatomic.h>

#define READ_BUFFER (64u << 10)
/* Enough for a line with a password: realloc moves a line that grows beyond this, and does not wipe
 * the old memory. */
#define LINE_ROOM 2048u
#define WRITE_TIMEOUT_MS (5 * 60 * 1000)
/* The pieces of a message up to this size are copied together and written in one call: one packet,
 * one TLS record. */
#define GATHER 4096u

/* Telnet, RFC 854. */
enum { SE = 240, SB = 250, WILL = 251, DONT = 254, IAC = 255 };

/* The state of the line reader in Telnet sequences. */
enum telnet { T_TEXT, T_IAC, T_OPTION, T_SUB, T_SUB_IAC };

struct mstream {
	/* Lock order: writing, then swap. */
	pthread_mutex_t writing;  /* one message at a time */
	pthread_mutex_t swap;     /* guards s against ms_abort while it is replaced */
	struct stream *s;
	atomic_bool aborted;
	atomic_int write_timeout;
	int write_error;          /* a message was cut short; guarded by writing */

	/* The reader's: */
	uint8_t *in;
	size_t in_pos, in_end;
	char *line;               /* the part that has arrived */
	size_t line_len, line_room;
	int line_error;           /* the reason to skip the line */
	enum telnet telnet;
	bool in_frame;            /* the head has been read; type and left are valid */
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

int ms_replace(struct mstream *m, struct stream *s)
{
	struct stream *old;

	/* Unread bytes, here or in the layers of the old stream. */
	if (m->in_pos < m->in_end || m->line_len || m->line_error || m->telnet != T_TEXT ||
	    m->in_frame || m->s->ops->pending(m->s))
		return -EPROTO;

	pthread_mutex_lock(&m->swap);
	old = m->s;
	m->s = s;
	if (atomic_load(&m->aborted))
		s->ops->abort(s);
	pthread_mutex_unlock(&m->swap);

	old->disowned = true;
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

/* Read at least one more byte into the buffer. 0 or a negative errno; the end of the stream is
 * -EPIPE. */
static int ms_fill(struct mstream *m, int timeout_ms)
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

/* Add a byte to the line, or note the reason to skip the line. */
static void ms_line_byte(struct mstream *m, uint8_t byte, size_t max)
{
	char *p;

	if (m->line_error)
		return;
	if (byte == 0) {
		m->line_error = -EILSEQ;
		return;
	}
	/* Accept one byte more than max - 1: it may be the CR, which does not count. */
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

/* Process one byte by the Telnet state machine. Commands are 240 and above. A lower byte after IAC
 * is text again: some peers send the data mark as urgent data, which the kernel removes from the
 * stream. True: the line ends. */
static bool ms_telnet_byte(struct mstream *m, uint8_t byte, size_t max)
{
	switch (m->telnet) {
	case T_IAC:
		m->telnet = T_TEXT;
		if (byte == IAC)
			ms_line_byte(m, byte, max);
		else if (byte == SB)
			m->telnet = T_SUB;
		else if (byte >= WILL && byte <= DONT)
			m->telnet = T_OPTION;
		else if (byte < SE)
			return ms_telnet_byte(m, byte, max);
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
	ms_line_byte(m, byte, max);
	return false;
}

ssize_t ms_read_line(struct mstream *m, char *line, size_t max, int timeout_ms)
{
	uint64_t end = ns_after(timeout_ms);
	int left, r;
	bool whole = false;
	size_t len;

	for (;;) {
		while (m->in_pos < m->in_end && !whole)
			whole = ms_telnet_byte(m, m->in[m->in_pos++], max);
		if (whole)
			break;
		left = timeout_ms < 0 ? -1 : ms_to(end);
		if (timeout_ms && !left)
			return -ETIMEDOUT;
		r = ms_fill(m, left);
		if (r < 0)
			return r;
	}

	len = m->line_len;
	r = m->line_error;
	m->line_len = 0;
	m->line_error = 0;
	if (len && m->line[len - 1] == '\r')
		len--;

	if (r || len >= max)
		return r ? r : -EMSGSIZE;
	if (len)
		memcpy(line, m->line, len);
	line[len] = '\0';
	return (ssize_t)len;
}

void ms_wipe(struct mstream *m)
{
	crypto_wipe(m->in, m->in_pos);
	if (m->line)
		crypto_wipe(m->line + m->line_len, m->line_room - m->line_len);
}

/* Returns the number of buffered bytes at in_pos, 1 to len; sleeps until there is one. Or a
 * negative errno. */
static ssize_t ms_available(struct mstream *m, size_t len, int timeout_ms)
{
	size_t n;

	while (m->in_pos == m->in_end) {
		int r = ms_fill(m, timeout_ms);

		if (r < 0)
			return r;
	}
	n = m->in_end - m->in_pos;
	return (ssize_t)(n < len ? n : len);
}

int ms_read(struct mstream *m, void *p, size_t len, int timeout_ms)
{
	while (len) {
		ssize_t n = ms_read_some(m, p, len, timeout_ms);

		if (n < 0)
			return (int)n;
		p = p ? (uint8_t *)p + n : NULL;
		len -= (size_t)n;
	}
	return 0;
}

int ms_skip(struct mstream *m, size_t len, int timeout_ms)
{
	return ms_read(m, NULL, len, timeout_ms);
}

ssize_t ms_read_some(struct mstream *m, void *p, size_t len, int timeout_ms)
{
	ssize_t n = ms_available(m, len, timeout_ms);

	if (n > 0 && p)
		memcpy(p, m->in + m->in_pos, (size_t)n);
	if (n > 0)
		m->in_pos += (size_t)n;
	return n;
}

int ms_read_frame(struct mstream *m, uint8_t *type, struct buf *payload, size_t max,
		  int timeout_ms)
{
	int r;

	if (!m->in_frame) {
		buf_reset(payload);
		while (m->in_end - m->in_pos < BULK_FRAME_HEAD) {
			r = ms_fill(m, timeout_ms);
			if (r < 0)
				return r;
		}
		r = bulk_frame_get(m->in + m->in_pos, max, &m->type, &m->left);
		if (r < 0)
			return r;
		m->in_pos += BULK_FRAME_HEAD;
		m->in_frame = true;
	}

	/* The buffer grows with the received bytes, not by the length in the head. */
	while (m->left) {
		ssize_t n = ms_available(m, m->left, timeout_ms);

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

static int ms_write_bytes(struct mstream *m, const uint8_t *p, size_t len)
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

	return ms_write_bytes(m, p, len);
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

		/* Copy until the first write has GATHER bytes; the rest of a piece is written
		 * without a copy. */
		part = GATHER - have < iov[i].iov_len ? GATHER - have : iov[i].iov_len;
		if (part)
			memcpy(first + have, p, part);
		have += part;
		if (part == iov[i].iov_len)
			continue;
		r = ms_write_bytes(m, first, have);
		if (!r)
			r = ms_write_bytes(m, p + part, iov[i].iov_len - part);
		if (r < 0)
			return r;
		have = 0;
	}
	return ms_write_bytes(m, first, have);
}

int ms_write_frame(struct mstream *m, uint8_t type, const void *p, size_t len)
{
	struct iovec iov = { .iov_base = (void *)p, .iov_len = len };

	return ms_write_framev(m, type, &iov, 1);
}
