// SPDX-License-Identifier: Apache-2.0
/* Messages of copies between two servers, and both ends of the client's conversation with each
 * server. */
#include "transfer/transfer.h"

#include "tests/support/codec.h"
#include "tests/support/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define PIN "SHA256:8ZJMhMApJAEzCUmsc5TLy6YiTvBqbmSvyKnfQGSpnu0"

static struct buf *new_buf(void)
{
	struct buf *b = buf_new(THIRD_BODY_MAX);

	assert_non_null(b);
	return b;
}

/* ---- messages ---- */

static char *const sources[] = { (char *)"/a/", (char *)"b\n\377", NULL };

static struct third_give some_give(void)
{
	return (struct third_give){
		.flags = THIRD_F_EACH_FILE, .connect_ms = 15000,
		.request = { .major = BULK_MAJOR, .minor = BULK_MINOR, .op = BULK_PUT,
			     .flags = BULK_F_RECURSIVE, .base = (char *)"/there/",
			     .sources = (char **)(uintptr_t)sources, .nsources = 2,
			     .offer = { .transports = TRANSPORT_TCP, .prot_min = PROT_SAFE } },
	};
}

static int get_give(struct buf *b, void *out)
{
	return third_give_get(b, out, NULL);
}

static void test_give(void **state)
{
	struct third_give g = some_give(), back;
	struct buf *b CLEANUP_BUF = new_buf();

	assert_int_equal(third_give_put(b, &g), 0);
	assert_int_equal(codec_truncations(b, get_give, &back, sizeof(back)), buf_len(b));
	assert_int_equal(third_give_get(b, &back, NULL), 0);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(back.flags, THIRD_F_EACH_FILE);
	assert_int_equal(back.connect_ms, 15000);
	assert_string_equal(back.request.base, "/there/");
	assert_string_equal(back.request.sources[1], sources[1]);
	assert_int_equal(back.request.offer.prot_min, PROT_SAFE);
	third_give_clear(&back);
}

/* A request must be a PUT, and name at least one source. */
static void test_give_refused(void **state)
{
	struct third_give g = some_give(), back;
	struct buf *get CLEANUP_BUF = new_buf(), *none CLEANUP_BUF = new_buf();
	struct buf *major CLEANUP_BUF = new_buf();
	struct err e = ERR_INIT;
	char theirs[24];

	g.request.op = BULK_GET;
	assert_int_equal(third_give_put(get, &g), 0);
	assert_int_equal(third_give_get(get, &back, NULL), -EBADMSG);
	assert_true(codec_all_zero(&back, sizeof(back)));
	g = some_give();
	g.request.nsources = 0;
	assert_int_equal(third_give_put(none, &g), 0);
	assert_int_equal(third_give_get(none, &back, NULL), -EBADMSG);
	g = some_give();
	g.request.major = BULK_MAJOR + 1;
	assert_int_equal(third_give_put(major, &g), 0);
	assert_int_equal(third_give_get(major, &back, &e), -EPROTONOSUPPORT);
	snprintf(theirs, sizeof(theirs), "%d.%d", BULK_MAJOR + 1, BULK_MINOR);
	assert_non_null(strstr(e.text, theirs));
}

/* A request with a path that is too long is refused, not sent with another path. */
static void test_long_paths(void **state)
{
	struct buf *b CLEANUP_BUF = new_buf();
	struct third_give g = some_give();
	char *path = malloc(BULK_PATH_MAX + 2);
	struct third_take t = { .pin = PIN, .base = path };
	struct third_file f = { .path = path }, back;

	memset(path, 'p', BULK_PATH_MAX + 1);
	path[BULK_PATH_MAX + 1] = '\0';
	g.request.base = path;
	assert_int_equal(third_give_put(b, &g), -EINVAL);
	assert_int_equal(third_take_put(b, &t), -EINVAL);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(third_file_put(b, &f), 0);
	assert_int_equal(third_file_get(b, &back), 0);
	assert_int_equal(strlen(back.path), BULK_PATH_MAX);
	third_file_clear(&back);
	free(path);
}

static int get_take(struct buf *b, void *out)
{
	return third_take_get(b, out, NULL);
}

static void test_take(void **state)
{
	struct third_take t = { .prot_min = PROT_PRIVATE, .policy = POLICY_SKIP,
				.request_flags = BULK_F_RECURSIVE, .seconds = 7, .pin = PIN,
				.base = (char *)"/x/\xff y" }, back;
	struct buf *b CLEANUP_BUF = new_buf();

	assert_int_equal(third_take_put(b, &t), 0);
	assert_int_equal(codec_truncations(b, get_take, &back, sizeof(back)), buf_len(b));
	assert_int_equal(third_take_get(b, &back, NULL), 0);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(back.prot_min, PROT_PRIVATE);
	assert_int_equal(back.policy, POLICY_SKIP);
	assert_int_equal(back.request_flags, BULK_F_RECURSIVE);
	assert_int_equal(back.seconds, 7);
	assert_string_equal(back.pin, PIN);
	assert_string_equal(back.base, t.base);
	third_take_clear(&back);
}

/* The fixed part has 14 bytes; the length of the pin follows at offset 14. */
static void test_take_hostile(void **state)
{
	static const struct { size_t at; uint8_t value; int code; } bad[] = {
		{ 1, BULK_MAJOR + 1, -EPROTONOSUPPORT }, { 6, 0x80, -EPROTONOSUPPORT }, { 4, PROT_PRIVATE + 1, -EBADMSG },
		{ 5, POLICIES, -EBADMSG }, { 14, 0, -EBADMSG }, { 14, 64, -EBADMSG },
		{ 17, ' ', -EBADMSG }, { 17, 0x1b, -EBADMSG }, { 65, 1, -EBADMSG },
		{ 69, 0, -EBADMSG },
	};
	struct third_take t = { .pin = PIN, .base = (char *)"/xy" }, back;
	struct buf *b CLEANUP_BUF = new_buf();

	assert_int_equal(third_take_put(b, &t), 0);
	assert_int_equal(buf_len(b), 15 + strlen(PIN) + 4 + 3);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		uint8_t wire[128];
		size_t used;

		memcpy(wire, buf_ptr(b), buf_len(b));
		wire[bad[i].at] = bad[i].value;
		assert_int_equal(codec_decode(wire, buf_len(b), get_take, &back, sizeof(back),
					      &used), bad[i].code);
		assert_true(codec_all_zero(&back, sizeof(back)));
	}
	assert_int_equal(buf_put_u8(b, 0), 0);
	assert_int_equal(third_take_get(b, &back, NULL), -EBADMSG);
}

static int get_key(struct buf *b, void *out)
{
	return third_key_get(b, out);
}

static int get_door(struct buf *b, void *out)
{
	return third_door_get(b, out);
}

static void test_key_and_door(void **state)
{
	struct third_door d = { .port = 7321, .seconds = 60, .pin = PIN, .naddrs = 2,
				.addrs = { "sink.example", "2001:db8::1" } }, back;
	struct buf *k CLEANUP_BUF = new_buf(), *b CLEANUP_BUF = new_buf();
	char pin[THIRD_PIN_MAX + 1];

	memset(d.token, 0x5a, sizeof(d.token));
	assert_int_equal(third_key_put(k, PIN), 0);
	assert_int_equal(codec_truncations(k, get_key, pin, 1), buf_len(k));
	assert_int_equal(third_key_get(k, pin), 0);
	assert_string_equal(pin, PIN);
	assert_int_equal(third_door_put(b, &d), 0);
	assert_int_equal(codec_truncations(b, get_door, &back, sizeof(back)), buf_len(b));
	assert_int_equal(third_door_get(b, &back), 0);
	assert_int_equal(back.port, 7321);
	assert_int_equal(back.naddrs, 2);
	assert_string_equal(back.addrs[1], "2001:db8::1");
	assert_memory_equal(back.token, d.token, sizeof(d.token));
	d.naddrs = THIRD_ADDRESSES + 1;
	assert_int_equal(third_door_put(b, &d), -EINVAL);
}

static int get_progress(struct buf *b, void *out)
{
	static char text[THIRD_WORDS_MAX + 1];

	return third_progress_get(b, out, text);
}

static int get_file(struct buf *b, void *out)
{
	return third_file_get(b, out);
}

static int get_result(struct buf *b, void *out)
{
	return third_result_get(b, out);
}

static void test_results(void **state)
{
	struct transfer_progress p = { .entries = 1, .bytes = 2, .walked = true, .ns = 3,
				       .bottleneck = "sink" }, p_back;
	struct third_file f = { .code = -ENOSPC, .path = (char *)"/a\nb", .text = "full" }, f_back;
	struct third_result r = { .code = -EPIPE, .where = THIRD_OTHER, .text = "it went\x1b[2J",
				  .agreed = true, .of = {
				  .agreement = { .transport = TRANSPORT_RDMA, .block = 65536 },
				  .bytes = 9, .local = { .cpu_ns = 4 }, .nchannels = 2,
				  .channel_bytes = { 5, 6 }, .touched = 7, .resumable = true } };
	struct buf *a CLEANUP_BUF = new_buf(), *b CLEANUP_BUF = new_buf();
	struct buf *c CLEANUP_BUF = new_buf();
	struct third_result *back = malloc(sizeof(*back));

	assert_int_equal(third_progress_put(a, &p), 0);
	/* Before version 2.3 the message ended 4 bytes earlier. */
	assert_int_equal(codec_truncations(a, get_progress, &p_back, sizeof(p_back)),
			 buf_len(a) - 4);
	assert_int_equal(get_progress(a, &p_back), 0);
	assert_true(p_back.walked && p_back.bytes == 2 && p_back.ns == 3);
	assert_string_equal(p_back.bottleneck, "sink");

	assert_int_equal(third_file_put(b, &f), 0);
	assert_int_equal(codec_truncations(b, get_file, &f_back, sizeof(f_back)), buf_len(b));
	assert_int_equal(third_file_get(b, &f_back), 0);
	assert_int_equal(f_back.code, -ENOSPC);
	assert_string_equal(f_back.path, "/a\nb");
	third_file_clear(&f_back);

	assert_int_equal(third_result_put(c, &r), 0);
	/* Before version 2.1 the message ended 9 bytes earlier. */
	assert_int_equal(codec_truncations(c, get_result, back, sizeof(*back)), buf_len(c) - 9);
	assert_int_equal(third_result_get(c, back), 0);
	assert_int_equal(back->code, -EPIPE);
	assert_string_equal(back->text, "it went?[2J");
	assert_int_equal(back->of.agreement.transport, TRANSPORT_RDMA);
	assert_true(back->of.bytes == 9 && back->of.local.cpu_ns == 4 &&
		    back->of.channel_bytes[1] == 6);
	assert_true(back->of.touched == 7 && back->of.resumable);
	r.of.nchannels = CHANNELS_MAX + 1;
	assert_int_equal(third_result_put(c, &r), -EINVAL);
	free(back);
}

/* ---- the conversation ---- */

struct talk {
	struct mstream *server, *client;
	struct relay relay;
	char heard[256];     /* the calls of the client's callbacks */
};

static struct mstream *stream_of(int fd)
{
	struct stream *s = stream_plain(fd, fd);

	assert_non_null(s);
	return ms_new(s);
}

static int set_up(void **state)
{
	struct talk *t = calloc(1, sizeof(*t));
	struct err e = ERR_INIT;
	int fds[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	t->server = stream_of(fds[0]);
	t->client = stream_of(fds[1]);
	assert_int_equal(relay_start(&t->relay, t->server, true, &e), 0);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct talk *t = *state;

	ms_free(t->client);
	ms_free(t->server);
	free(t);
	return 0;
}

static void hear(struct talk *t, const char *what)
{
	strncat(t->heard, what, sizeof(t->heard) - strlen(t->heard) - 1);
}

static void heard_started(void *arg, const struct agreement *a)
{
	hear(arg, a->transport == TRANSPORT_TCP ? "started " : "? ");
}

static void heard_progress(void *arg, const struct transfer_progress *p)
{
	hear(arg, p->bytes == 7 && !strcmp(p->bottleneck, "rate") ? "progress " : "? ");
}

static void heard_done(void *arg, const struct file_report *f)
{
	hear(arg, f->path);
	hear(arg, f->bytes == 5 && f->end == FILE_LEFT ? " done " : "? ");
}

static void heard_failed(void *arg, const char *path, int code, const char *text)
{
	hear(arg, path);
	hear(arg, code == -EACCES ? " failed: " : "? ");
	hear(arg, text);
}

static struct transfer_events listener(struct talk *t)
{
	return (struct transfer_events){ heard_started, heard_progress, heard_done, heard_failed,
					 t };
}

static void *leave_main(void *arg)
{
	struct relay_reader *r = arg;
	struct err e = ERR_INIT;

	assert_int_equal(relay_leave(r, &e), 0);
	return NULL;
}

static void test_told(void **state)
{
	struct talk *t = *state;
	struct transfer_events ev = relay_events(&t->relay), to = listener(t);
	struct agreement a = { .transport = TRANSPORT_TCP, .block = 65536 };
	struct transfer_progress p = { .bytes = 7, .bottleneck = "rate" };
	struct transfer_result *res = calloc(1, sizeof(*res)), *out;
	struct third_result *got = calloc(1, sizeof(*got));
	struct relay_reader r = { .ms = t->client, .ev = &to, .until = BULK_RESULT,
				  .p = new_buf() };
	struct err e = ERR_INIT;
	pthread_t leave;

	ev.started(ev.arg, &a);
	ev.progress(ev.arg, &p);
	ev.file_done(ev.arg, &(struct file_report){ .path = "/x", .bytes = 5, .plain = true,
						    .end = FILE_LEFT });
	ev.file_failed(ev.arg, "/y", -EACCES, "no");
	res->bytes = 11;
	res->nchannels = 1;
	res->channel_bytes[0] = 12;
	relay_result(&t->relay, res, 0, 0, "not shown");
	assert_int_equal(relay_read(&r, &e), 0);
	assert_string_equal(t->heard, "started progress /x done /y failed: no");
	assert_int_equal(third_result_get(r.p, got), 0);
	assert_string_equal(got->text, "");
	out = &got->of;
	assert_true(out->bytes == 11 && out->nchannels == 1 && out->channel_bytes[0] == 12);
	assert_int_equal(out->agreement.block, 65536);
	assert_int_equal(thread_start(&leave, "leave", leave_main, &r), 0);
	assert_int_equal(relay_end(&t->relay), 0);
	pthread_join(leave, NULL);
	/* No frame is left: the stream can carry command lines again. */
	assert_false(ms_readable(t->client));
	assert_false(ms_readable(t->server));
	buf_free(r.p);
	free(got);
	free(res);
}

static void test_stopped(void **state)
{
	struct talk *t = *state;

	assert_int_equal(poll_fd(t->relay.stop, POLLIN, 0), 0);
	relay_stop(t->client);
	assert_true(poll_fd(t->relay.stop, POLLIN, 10000) > 0);
	atomic_store(&t->relay.told, true);
	assert_int_equal(ms_write_frame(t->client, BULK_END, NULL, 0), 0);
	assert_int_equal(relay_end(&t->relay), 0);
}

/* A client that disconnects or sends nonsense stops the transfer. */
static void test_gone(void **state)
{
	struct talk *t = *state;

	ms_free(steal_ptr(&t->client));
	assert_true(poll_fd(t->relay.stop, POLLIN, 10000) > 0);
	assert_int_equal(relay_end(&t->relay), -EPIPE);
}

/* An END before the result is an error. */
static void test_end_early(void **state)
{
	struct talk *t = *state;

	assert_int_equal(ms_write_frame(t->client, BULK_END, NULL, 0), 0);
	assert_true(poll_fd(t->relay.stop, POLLIN, 10000) > 0);
	assert_int_equal(relay_end(&t->relay), -EPIPE);
}

static void test_nonsense(void **state)
{
	struct talk *t = *state;

	assert_int_equal(ms_write_frame(t->client, BULK_ENTRIES, "x", 1), 0);
	assert_true(poll_fd(t->relay.stop, POLLIN, 10000) > 0);
	assert_int_equal(relay_end(&t->relay), -EPIPE);
}

/* Frames that a server must not send. */
static void test_hostile(void **state)
{
	static const struct { uint8_t type; const char *payload; size_t len; } bad[] = {
		{ BULK_ENTRIES, "x", 1 }, { BULK_PROGRESS, "x", 1 }, { BULK_STARTED, "", 0 },
		{ BULK_FILE, "\0\0\0\0", 4 },
	};
	struct talk *t = *state;
	struct transfer_events to = listener(t);
	struct relay_reader r = { .ms = t->client, .ev = &to, .until = BULK_RESULT,
				  .p = new_buf() };

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct err e = ERR_INIT;

		assert_int_equal(ms_write_frame(t->server, bad[i].type, bad[i].payload,
						bad[i].len), 0);
		assert_int_equal(relay_read(&r, &e), -EPROTO);
	}
	assert_string_equal(t->heard, "");
	atomic_store(&t->relay.told, true);
	assert_int_equal(ms_write_frame(t->client, BULK_END, NULL, 0), 0);
	assert_int_equal(relay_end(&t->relay), 0);
	buf_free(r.p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_give),
		cmocka_unit_test(test_give_refused),
		cmocka_unit_test(test_long_paths),
		cmocka_unit_test(test_take),
		cmocka_unit_test(test_take_hostile),
		cmocka_unit_test(test_key_and_door),
		cmocka_unit_test(test_results),
		cmocka_unit_test_setup_teardown(test_told, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_gone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_end_early, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_nonsense, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_hostile, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
