// SPDX-License-Identifier: Apache-2.0
/* The bulk request, its reply, and the small messages in frames. */
#include "proto/bulk.h"

#include "tests/support/codec.h"
#include "tests/support/wire.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define ARRAY(a) (sizeof(a) / sizeof((a)[0]))

/* ---- request ---- */

static char *const two_sources[] = { (char *)"data/", (char *)"a\nb \377", NULL };

static struct bulk_request sample(void)
{
	struct bulk_request r = {
		.major = BULK_MAJOR, .minor = BULK_MINOR, .op = BULK_GET, .policy = POLICY_UPDATE,
		.flags = BULK_F_RECURSIVE | BULK_F_RESUME | BULK_F_HARDLINKS, .base = (char *)"/here/",
		.sources = (char **)(uintptr_t)two_sources, .nsources = 2, .rate = 125000000,
		.bench_ns = 5, .bench_bytes = UINT64_MAX, .has_key = true,
		.offer = { .transports = TRANSPORT_TCP, .nnics = 1 },
	};

	memset(r.nonce, 0x11, sizeof(r.nonce));
	memset(r.key, 0x22, sizeof(r.key));
	strcpy(r.offer.nics[0].name, "eth0");
	return r;
}

static struct buf *encoded(const struct bulk_request *r)
{
	struct buf *b = buf_new(BULK_REQUEST_MAX);

	assert_int_equal(bulk_request_put(b, r), 0);
	return b;
}

static int get_request(struct buf *b, void *out)
{
	return bulk_request_get(b, out, NULL);
}

static void test_request(void **state)
{
	struct bulk_request r = sample(), back;
	struct buf *b CLEANUP_BUF = encoded(&r);

	assert_int_equal(codec_truncations(b, get_request, &back, sizeof(back)), buf_len(b));
	assert_int_equal(bulk_request_get(b, &back, NULL), 0);
	assert_int_equal(buf_len(b), 0);
	assert_int_equal(back.major, BULK_MAJOR);
	assert_int_equal(back.minor, BULK_MINOR);
	assert_int_equal(back.op, BULK_GET);
	assert_int_equal(back.policy, POLICY_UPDATE);
	assert_int_equal(back.flags, r.flags);
	assert_string_equal(back.base, "/here/");
	assert_int_equal(back.nsources, 2);
	assert_string_equal(back.sources[0], two_sources[0]);
	assert_string_equal(back.sources[1], two_sources[1]);
	assert_null(back.sources[2]);
	assert_true(back.rate == r.rate && back.bench_ns == 5 && back.bench_bytes == UINT64_MAX);
	assert_memory_equal(back.nonce, r.nonce, 32);
	assert_true(back.has_key);
	assert_memory_equal(back.key, r.key, 32);
	assert_int_equal(back.offer.nnics, 1);
	assert_string_equal(back.offer.nics[0].name, "eth0");
	bulk_request_clear(&back);
	assert_true(codec_all_zero(&back, sizeof(back)));
}

static void test_request_filter(void **state)
{
	struct bulk_request r = sample(), back;
	struct err e = ERR_INIT;
	struct buf *b CLEANUP_BUF = NULL;
	bool include = false;

	r.flags |= BULK_F_FILTER;
	r.filter.size_least = 7;
	r.filter.size_most = UINT64_MAX;
	r.filter.newer_s = -5;
	r.filter.one_filesystem = true;
	assert_int_equal(filter_add(&r.filter, true, "*.[ch]", &e), 0);
	assert_int_equal(filter_add(&r.filter, false, "*", &e), 0);
	b = encoded(&r);

	assert_int_equal(codec_truncations(b, get_request, &back, sizeof(back)), buf_len(b));
	assert_int_equal(bulk_request_get(b, &back, &e), 0);
	assert_true(back.filter.size_least == 7 && back.filter.size_most == UINT64_MAX);
	assert_true(back.filter.newer_s == -5 && back.filter.one_filesystem);
	assert_int_equal(back.filter.n, 2);
	assert_string_equal(filter_pattern(&back.filter, 0, &include), "*.[ch]");
	assert_true(include);
	assert_true(filter_admits(&back.filter, "a.c", false));
	assert_false(filter_admits(&back.filter, "a.o", false));
	bulk_request_clear(&back);

	/* Without the flag the filter stays here. */
	r.flags &= ~(uint32_t)BULK_F_FILTER;
	buf_reset(b);
	assert_int_equal(bulk_request_put(b, &r), 0);
	assert_int_equal(bulk_request_get(b, &back, &e), 0);
	assert_false(filter_is_set(&back.filter));
	bulk_request_clear(&back);
	filter_clear(&r.filter);
}

static void test_request_sync(void **state)
{
	struct bulk_request r = { .major = BULK_MAJOR, .flags = BULK_F_SYNC, .base = (char *)"x" };
	struct buf *b CLEANUP_BUF = buf_new(BULK_REQUEST_MAX);
	struct bulk_request back, onward;
	struct err e = ERR_INIT;

	r.sync = (struct bulk_sync){ SYNC_DELETE | SYNC_FORCE, 12345, (char *)".trash" };
	assert_int_equal(bulk_request_put(b, &r), 0);
	assert_int_equal(bulk_request_get(b, &back, &e), 0);
	assert_true(back.sync.flags == (SYNC_DELETE | SYNC_FORCE) && back.sync.most == 12345);
	assert_string_equal(back.sync.trash, ".trash");
	bulk_request_clear(&back);

	/* The sink of a copy between servers must protect what the filter leaves out. It needs no
	 * digests: the source reports them. */
	r.flags |= BULK_F_FILTER;
	bulk_request_onward(&r, &onward);
	assert_int_equal(onward.flags, r.flags);
	r.flags |= BULK_F_SUMS;
	strcpy(r.sum, "MD5");
	bulk_request_onward(&r, &onward);
	assert_int_equal(onward.flags, r.flags & ~BULK_F_SUMS);
	r.flags = BULK_F_SUMS;
	assert_int_equal(bulk_request_put(b, &r), 0);
	assert_int_equal(bulk_request_get(b, &back, &e), 0);
	assert_string_equal(back.sum, "MD5");
	bulk_request_clear(&back);
}

/* A peer's pattern has the same limits as a user's. */
static void test_request_filter_hostile(void **state)
{
	static const char *const patterns[] = { "[abc", "\0abc" };
	struct bulk_request r = sample(), back;

	r.flags |= BULK_F_FILTER;
	for (size_t i = 0; i < ARRAY(patterns); i++) {
		struct buf *b CLEANUP_BUF = NULL;
		struct err e = ERR_INIT;
		uint8_t *at;

		assert_int_equal(filter_add(&r.filter, false, "\1\2\3\4", &e), 0);
		b = encoded(&r);
		at = memmem(buf_ptr(b), buf_len(b), "\0\0\0\4\1\2\3\4", 8);
		assert_non_null(at);
		memcpy(at + 4, patterns[i], 4);
		assert_int_equal(bulk_request_get(b, &back, &e), -EBADMSG);
		filter_clear(&r.filter);
	}

	/* Too many rules. */
	for (unsigned i = 0; i < FILTER_RULES_MAX; i++) {
		struct err e = ERR_INIT;

		assert_int_equal(filter_add(&r.filter, false, "x", &e), 0);
	}
	{
		struct buf *b CLEANUP_BUF = encoded(&r);
		struct err e = ERR_INIT;
		uint8_t *at = memmem(buf_ptr(b), buf_len(b), "\0\0\x10\0", 4);

		assert_non_null(at);
		at[3] = 1;
		assert_int_equal(bulk_request_get(b, &back, &e), -EBADMSG);
		assert_int_equal(filter_add(&r.filter, false, "x", &e), -E2BIG);
	}
	filter_clear(&r.filter);
}

static void test_request_without(void **state)
{
	struct bulk_request r = sample(), back;
	struct buf *b CLEANUP_BUF = NULL;

	r.has_key = false;
	r.base = NULL;
	r.sources = NULL;
	r.nsources = 0;
	b = encoded(&r);
	/* A key is sent only if has_key is set. */
	assert_null(memmem(buf_ptr(b), buf_len(b), r.key, 4));
	assert_int_equal(bulk_request_get(b, &back, NULL), 0);
	assert_false(back.has_key);
	assert_true(codec_all_zero(back.key, sizeof(back.key)));
	assert_string_equal(back.base, "");
	assert_int_equal(back.nsources, 0);
	assert_non_null(back.sources);
	assert_null(back.sources[0]);
	bulk_request_clear(&back);
}

static void test_request_version(void **state)
{
	struct bulk_request r = sample(), back;
	struct err e = ERR_INIT;
	struct buf *b CLEANUP_BUF = NULL;
	char theirs[24], ours[24];
	size_t len;

	r.major = BULK_MAJOR + 1;
	r.minor = 7;
	b = encoded(&r);
	len = buf_len(b);
	assert_int_equal(bulk_request_get(b, &back, &e), -EPROTONOSUPPORT);
	snprintf(theirs, sizeof(theirs), "%d.7", BULK_MAJOR + 1);
	snprintf(ours, sizeof(ours), "%d.%d", BULK_MAJOR, BULK_MINOR);
	assert_non_null(strstr(e.text, theirs));
	assert_non_null(strstr(e.text, ours));
	assert_true(codec_all_zero(&back, sizeof(back)));
	assert_int_equal(buf_len(b), len);
}

/* The error for an unknown flag names its number, and is reported before any other part of a later
 * minor version is parsed. */
static void test_request_unknown_flag(void **state)
{
	struct bulk_request r = sample(), back;
	struct err e = ERR_INIT;
	struct buf *b CLEANUP_BUF = NULL;
	size_t len;

	r.minor = BULK_MINOR + 1;
	r.flags |= 1u << 31;
	b = encoded(&r);
	len = buf_len(b);
	assert_int_equal(bulk_request_get(b, &back, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "0x80000000"));
	assert_true(codec_all_zero(&back, sizeof(back)));
	assert_int_equal(buf_len(b), len);
}

static void test_version_text(void **state)
{
	char text[BULK_VERSION_TEXT];
	struct bulk_version v;

	assert_int_equal(bulk_version_parse(bulk_version_text(text), &v), 0);
	assert_int_equal(v.major, BULK_MAJOR);
	assert_int_equal(v.minor, BULK_MINOR);
	/* This version accepts the features it announces and no others. */
	assert_int_equal(bulk_accept(v.major, v.minor, v.features, NULL), 0);
	for (unsigned bit = 0; bit < 32; bit++)
		assert_int_equal(bulk_accept(v.major, v.minor, 1u << bit, NULL),
				 v.features & 1u << bit ? 0 : -EPROTONOSUPPORT);
}

static void test_version_parse(void **state)
{
	static const struct { const char *text; int code; uint16_t major, minor; uint32_t features; }
	cases[] = {
		{ "2.7 modes,times", 0, 2, 7, BULK_F_MODES | BULK_F_TIMES },
		{ " 2.7  modes, later ,,into,", 0, 2, 7, BULK_F_MODES | BULK_F_INTO },
		{ "2.7", 0, 2, 7, 0 },
		{ "2.7 mode,timesx,MODES", 0, 2, 7, 0 },
		{ "", -EBADMSG, 0, 0, 0 }, { "1", -EBADMSG, 0, 0, 0 }, { "0.1 modes", -EBADMSG, 0, 0, 0 },
		{ "x.1", -EBADMSG, 0, 0, 0 }, { "1.x", -EBADMSG, 0, 0, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct bulk_version v = { 9, 9, 9 };

		assert_int_equal(bulk_version_parse(cases[i].text, &v), cases[i].code);
		assert_int_equal(v.major, cases[i].major);
		assert_int_equal(v.minor, cases[i].minor);
		assert_int_equal(v.features, cases[i].features);
	}
}

static void test_version_check(void **state)
{
	struct bulk_version v = { BULK_MAJOR, BULK_MINOR, BULK_F_MODES };
	struct err e = ERR_INIT;

	assert_int_equal(bulk_version_check(&v, BULK_F_MODES, &e), 0);
	assert_int_equal(bulk_version_check(&v, BULK_F_MODES | BULK_F_INPLACE | BULK_F_TIMES, &e),
			 -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "does not have: times,inplace;"));
	v.major++;
	assert_int_equal(bulk_version_check(&v, BULK_F_MODES, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, "update the older one"));
}

/* A later minor version may append fields; this one may not. */
static void test_request_appended(void **state)
{
	struct bulk_request r = sample(), back;
	struct buf *same CLEANUP_BUF = encoded(&r);
	struct buf *later CLEANUP_BUF = NULL;

	assert_int_equal(buf_put_u8(same, 0), 0);
	assert_int_equal(bulk_request_get(same, &back, NULL), -EBADMSG);
	assert_true(codec_all_zero(&back, sizeof(back)));

	r.minor = BULK_MINOR + 1;
	later = encoded(&r);
	assert_int_equal(buf_put(later, "later", 5), 0);
	assert_int_equal(bulk_request_get(later, &back, NULL), 0);
	assert_int_equal(buf_len(later), 0);
	bulk_request_clear(&back);
}

/* The fixed part has 108 bytes. Base, "/here/", and the number of sources follow. */
static void test_request_hostile(void **state)
{
	static const struct { size_t at; uint8_t value; } bad[] = {
		{ 4, BULK_BENCH_GET + 1 }, { 5, POLICIES }, { 6, 2 },
		{ 100, 1 }, { 101, 2 },    /* base longer than a path, than the message */
		{ 104, 0 },                /* NUL in base */
		{ 110, 0xff }, { 111, 1 }, /* more sources than bytes */
		{ 113, 3 }, { 113, 1 },    /* the offer parsed as a source, and the reverse */
		{ 115, 1 }, { 117, 200 },  /* first source too long */
		{ 118, 0 },                /* NUL in a source */
	};

	for (size_t i = 0; i < ARRAY(bad); i++) {
		struct bulk_request r = sample(), back;
		struct buf *b CLEANUP_BUF = encoded(&r);
		uint8_t wire[512];
		size_t len = buf_len(b), used;
		int err;

		memcpy(wire, buf_ptr(b), len);
		assert_memory_equal(wire + 104, "/here/\0\0\0\2\0\0\0\5data/", 19);
		wire[bad[i].at] = bad[i].value;
		err = codec_decode(wire, len, get_request, &back, sizeof(back), &used);
		assert_int_equal(err, -EBADMSG);
		assert_true(codec_all_zero(&back, sizeof(back)));
	}
}

static void test_request_paths(void **state)
{
	struct bulk_request r = sample(), back;
	struct buf *b CLEANUP_BUF = buf_new(BULK_REQUEST_MAX);
	char *path = malloc(BULK_PATH_MAX + 2);
	char *one[] = { path, NULL };

	memset(path, 'p', BULK_PATH_MAX + 1);
	path[BULK_PATH_MAX + 1] = '\0';
	r.base = path;
	assert_int_equal(bulk_request_put(b, &r), -EINVAL);
	r.base = NULL;
	r.sources = one;
	r.nsources = 1;
	assert_int_equal(bulk_request_put(b, &r), -EINVAL);
	path[BULK_PATH_MAX] = '\0';
	r.base = path;
	assert_int_equal(bulk_request_put(b, &r), 0);
	assert_int_equal(bulk_request_get(b, &back, NULL), 0);
	assert_string_equal(back.base, path);
	assert_string_equal(back.sources[0], path);
	bulk_request_clear(&back);
	free(path);
}

static void test_request_too_big(void **state)
{
	struct bulk_request r = sample();
	struct buf *b CLEANUP_BUF = buf_new(64u << 20);
	char **many = calloc(100000, sizeof(*many));

	for (int i = 0; i < 100000; i++)
		many[i] = (char *)"a path of some length, so that all are more than 4 MiB";
	r.sources = many;
	r.nsources = 100000;
	assert_int_equal(bulk_request_put(b, &r), -ENOBUFS);
	assert_int_equal(buf_len(b), 0);
	r.op = 9;
	r.nsources = 0;
	assert_int_equal(bulk_request_put(b, &r), -EINVAL);
	free(many);
}

/* ---- agreement ---- */

static int get_agree(struct buf *b, void *out)
{
	return bulk_agree_get(b, out, NULL);
}

static struct bulk_agree sample_agree(void)
{
	struct bulk_agree a = {
		.major = BULK_MAJOR, .minor = BULK_MINOR, .session = 0x0102030405060708,
		.agreement = { .transport = TRANSPORT_TCP, .op = OP_WRITE, .paths = 2 },
		.offer = { .transports = TRANSPORT_TCP }, .nports = 2,
	};

	memset(a.nonce, 0x33, sizeof(a.nonce));
	a.ports[0].port = 40000;
	a.ports[1].port = 65535;
	memset(a.ports[1].addr, 'a', sizeof(a.ports[1].addr) - 1);
	return a;
}

static void test_agree(void **state)
{
	struct bulk_agree a = sample_agree(), back;
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	assert_int_equal(bulk_agree_put(b, &a), 0);
	assert_int_equal(codec_truncations(b, get_agree, &back, sizeof(back)), buf_len(b));
	assert_int_equal(bulk_agree_get(b, &back, NULL), 0);
	assert_int_equal(buf_len(b), 0);
	assert_true(back.session == a.session);
	assert_memory_equal(back.nonce, a.nonce, 32);
	assert_true(agreement_equal(&back.agreement, &a.agreement));
	assert_int_equal(back.offer.transports, TRANSPORT_TCP);
	assert_int_equal(back.nports, 2);
	assert_string_equal(back.ports[0].addr, "");
	assert_int_equal(back.ports[0].port, 40000);
	assert_string_equal(back.ports[1].addr, a.ports[1].addr);
	assert_int_equal(back.ports[1].port, 65535);
}

static void test_agree_refused(void **state)
{
	struct bulk_agree a = sample_agree(), back;
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);
	struct err e = ERR_INIT;
	uint8_t wire[512];
	size_t len, used;
	char theirs[24];

	a.nports = NICS_MAX + 1;
	assert_int_equal(bulk_agree_put(b, &a), -EINVAL);
	a.nports = 2;
	a.major = BULK_MAJOR + 1;
	snprintf(theirs, sizeof(theirs), "%d.%d", BULK_MAJOR + 1, BULK_MINOR);
	assert_int_equal(bulk_agree_put(b, &a), 0);
	assert_int_equal(bulk_agree_get(b, &back, &e), -EPROTONOSUPPORT);
	assert_non_null(strstr(e.text, theirs));
	assert_true(codec_all_zero(&back, sizeof(back)));

	buf_reset(b);
	a.major = BULK_MAJOR;
	a.nports = 1;
	assert_int_equal(bulk_agree_put(b, &a), 0);
	len = buf_len(b);
	memcpy(wire, buf_ptr(b), len);
	/* At the end: u32 1, u16 port, u8 0. */
	assert_memory_equal(wire + len - 7, "\0\0\0\1\x9c\x40\0", 7);
	wire[len - 2] = wire[len - 3] = 0; /* port 0 */
	assert_int_equal(codec_decode(wire, len, get_agree, &back, sizeof(back), &used), -EBADMSG);
	assert_true(codec_all_zero(&back, sizeof(back)));
	wire[len - 2] = 1;
	assert_int_equal(codec_decode(wire, len, get_agree, &back, sizeof(back), &used), 0);
	wire[len - 4] = NICS_MAX + 1;
	assert_int_equal(codec_decode(wire, len, get_agree, &back, sizeof(back), &used), -EBADMSG);
	wire[len - 4] = 0; /* bytes are left over */
	assert_int_equal(codec_decode(wire, len, get_agree, &back, sizeof(back), &used), -EBADMSG);
}

static void test_agree_address(void **state)
{
	struct bulk_agree a = sample_agree(), back;
	struct buf *b CLEANUP_BUF = buf_new(BULK_FRAME_MAX);

	strcpy(a.ports[1].addr, "192.0.2.1\n");
	assert_int_equal(bulk_agree_put(b, &a), 0);
	assert_int_equal(bulk_agree_get(b, &back, NULL), -EBADMSG);
}

/* ---- frames ---- */

static void test_frame_head(void **state)
{
	static const struct { uint8_t p[8]; int err; uint8_t type; uint32_t length; } cases[] = {
		{ { BULK_AGREE, 0, 0, 0, 0, 0, 0, 5 }, 0, BULK_AGREE, 5 },
		{ { BULK_READY, 0, 0, 0, 0, 0x10, 0, 0 }, 0, BULK_READY, BULK_FRAME_MAX },
		{ { 17, 0, 0, 0, 0, 0, 0, 1 }, -EBADMSG, 0, 0 },
		{ { 19, 0, 0, 0, 0, 0, 0, 1 }, -EBADMSG, 0, 0 },
		{ { BULK_KEY, 0, 0, 0, 0, 0, 0, 1 }, 0, BULK_KEY, 1 },
		{ { BULK_END, 0, 0, 0, 0, 0x10, 0, 1 }, -EMSGSIZE, 0, 0 },
		{ { BULK_END, 0, 0, 0, 0xff, 0xff, 0xff, 0xff }, -EMSGSIZE, 0, 0 },
		{ { 0, 0, 0, 0, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
		{ { BULK_DIGEST, 0, 0, 0, 0, 0, 0, 1 }, 0, BULK_DIGEST, 1 },
		{ { BULK_REMOVED, 0, 0, 0, 0, 0, 0, 1 }, 0, BULK_REMOVED, 1 },
		{ { BULK_SUM, 0, 0, 0, 0, 0, 0, 1 }, 0, BULK_SUM, 1 },
		{ { BULK_SUM + 1, 0, 0, 0, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
		{ { 127, 0, 0, 0, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
		{ { 128, 0, 0, 0, 0, 0, 0, 9 }, 0, 128, 9 },
		{ { 255, 0, 0, 0, 0, 0, 0, 0 }, 0, 255, 0 },
		{ { 255, 1, 0, 0, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
		{ { 255, 0, 0, 0, 0, 0x10, 0, 1 }, -EMSGSIZE, 0, 0 },
		{ { BULK_END, 1, 0, 0, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
		{ { BULK_END, 0, 1, 0, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
		{ { BULK_END, 0, 0, 1, 0, 0, 0, 0 }, -EBADMSG, 0, 0 },
	};
	uint8_t p[BULK_FRAME_HEAD];

	for (size_t i = 0; i < ARRAY(cases); i++) {
		uint8_t type = 99;
		uint32_t length = 99;

		assert_int_equal(bulk_frame_get(cases[i].p, BULK_FRAME_MAX, &type, &length), cases[i].err);
		assert_int_equal(type, cases[i].type);
		assert_int_equal(length, cases[i].length);
	}
	bulk_frame_put(p, BULK_SENT, 0x01020304);
	assert_memory_equal(p, "\10\0\0\0\1\2\3\4", 8);
}

/* ---- small messages ---- */

struct verdict {
	uint64_t id;
	uint8_t verdict;
};

static int get_verdict(struct buf *b, void *out)
{
	struct verdict *v = out;

	memset(v, 0, sizeof(*v)); /* its padding */
	v->id = v->verdict = 0xa5;
	return bulk_verdict_get(b, &v->id, &v->verdict);
}

static void test_verdict(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(18);
	struct verdict v;
	size_t len;

	assert_int_equal(bulk_verdict_put(b, 5, VERDICT_RUNS), 0);
	assert_int_equal(codec_truncations(b, get_verdict, &v, sizeof(v)), 9);
	assert_int_equal(bulk_verdict_put(b, 6, VERDICT_SEND), 0);
	assert_int_equal(bulk_verdict_put(b, 7, VERDICT_SEND), -ENOBUFS);
	assert_int_equal(get_verdict(b, &v), 0);
	assert_true(v.id == 5 && v.verdict == VERDICT_RUNS);
	assert_int_equal(get_verdict(b, &v), 0);
	assert_true(v.id == 6 && v.verdict == VERDICT_SEND);

	for (int i = 0; i < 3; i++) {
		buf_reset(b);
		bulk_verdict_put(b, i == 0 ? 0 : 1, (uint8_t)(i == 1 ? 0 : VERDICT_LATER + i / 2));
		len = buf_len(b);
		assert_int_equal(get_verdict(b, &v), -EBADMSG);
		assert_true(codec_all_zero(&v, sizeof(v)));
		assert_int_equal(buf_len(b), len);
	}
}

struct sum {
	uint64_t id;
	char hex[BULK_SUM_MAX + 1];
};

static int get_sum(struct buf *b, void *out)
{
	struct sum *s = out;

	memset(s, 0, sizeof(*s));
	return bulk_sum_get(b, &s->id, s->hex);
}

static void test_sum(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(300);
	struct sum s;

	assert_int_equal(bulk_sum_put(b, 7, "00ff"), 0);
	assert_int_equal(codec_truncations(b, get_sum, &s, sizeof(s)), 8 + 1 + 4);
	assert_int_equal(get_sum(b, &s), 0);
	assert_true(s.id == 7 && !strcmp(s.hex, "00ff"));
	/* Not a number in lower-case hex, and no entry. */
	assert_int_equal(bulk_sum_put(b, 7, "00fF"), 0);
	assert_int_equal(get_sum(b, &s), -EBADMSG);
	buf_reset(b);
	assert_int_equal(bulk_sum_put(b, 0, "00"), 0);
	assert_int_equal(get_sum(b, &s), -EBADMSG);
}

static int get_removed(struct buf *b, void *out)
{
	int r = bulk_removed_get(b, out);

	if (!r)
		free(((struct bulk_removed *)out)->path);
	return r;
}

static void test_removed(void **state)
{
	const struct bulk_removed r = { .in_the_way = true, .bytes = 70000, .path = (char *)"a\n/" };
	struct buf *b CLEANUP_BUF = buf_new(100);
	struct bulk_removed back;

	assert_int_equal(bulk_removed_put(b, &r), 0);
	assert_int_equal(codec_truncations(b, get_removed, &back, sizeof(back)), 1 + 8 + 4 + 3);
	assert_int_equal(bulk_removed_get(b, &back), 0);
	assert_true(back.in_the_way && back.bytes == 70000);
	assert_string_equal(back.path, "a\n/");
	free(back.path);
}

/* A name that the source does not send has a parent, and nothing else. */
static void test_entry_name(void **state)
{
	struct bulk_entry e = { .type = ENTRY_NAME, .parent = 3, .name = "x" }, back;
	struct buf *b CLEANUP_BUF = buf_new(200);

	assert_int_equal(bulk_entry_put(b, &e), 0);
	assert_int_equal(bulk_entry_get(b, &back), 0);
	assert_true(back.type == ENTRY_NAME && back.parent == 3 && !back.id);
	assert_string_equal(back.name, "x");
	e.name = "..";
	assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	e.name = "x";
	e.id = 4;
	assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
	e.id = e.parent = 0;
	assert_int_equal(bulk_entry_put(b, &e), -EINVAL);
}

static int get_runs_head(struct buf *b, void *out)
{
	return bulk_runs_head_get(b, out);
}

struct run {
	uint64_t offset;
	uint32_t length;
	uint8_t digest[16];
};

static int get_run(struct buf *b, void *out)
{
	struct run *r = out;

	memset(r, 0, sizeof(*r)); /* its padding */
	return bulk_run_get(b, &r->offset, &r->length, r->digest);
}

static void test_runs(void **state)
{
	static const uint8_t digest[16] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 };
	static const struct { uint64_t offset; uint32_t length; } bad[] = {
		{ 0, 0 }, { 0, (64u << 20) + 1 }, { 0, UINT32_MAX }, { 1ull << 63, 1 }, { UINT64_MAX, 1 },
	};
	struct buf *b CLEANUP_BUF = buf_new(100);
	uint64_t id;
	struct run r;

	assert_int_equal(bulk_runs_head_put(b, 5), 0);
	assert_int_equal(codec_truncations(b, get_runs_head, &id, sizeof(id)), 8);
	assert_int_equal(get_runs_head(b, &id), 0);
	assert_true(id == 5);
	assert_int_equal(bulk_run_put(b, 77, 64u << 20, digest), 0);
	assert_int_equal(codec_truncations(b, get_run, &r, sizeof(r)), 28);
	assert_int_equal(get_run(b, &r), 0);
	assert_true(r.offset == 77 && r.length == 64u << 20);
	assert_memory_equal(r.digest, digest, 16);

	buf_reset(b);
	bulk_runs_head_put(b, 0);
	assert_int_equal(get_runs_head(b, &id), -EBADMSG);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		buf_reset(b);
		bulk_run_put(b, bad[i].offset, bad[i].length, digest);
		assert_int_equal(get_run(b, &r), -EBADMSG);
		assert_true(r.offset == 0 && r.length == 0);
	}
}

struct pair {
	uint64_t x, y;
};

static int get_pair(struct buf *b, void *out)
{
	struct pair *p = out;

	return bulk_pair_get(b, &p->x, &p->y);
}

static void test_pair(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(16);
	struct pair p;

	assert_int_equal(bulk_pair_put(b, 1, UINT64_MAX), 0);
	assert_int_equal(bulk_pair_put(b, 1, 1), -ENOBUFS);
	assert_int_equal(codec_truncations(b, get_pair, &p, sizeof(p)), 16);
	assert_int_equal(get_pair(b, &p), 0);
	assert_true(p.x == 1 && p.y == UINT64_MAX);
}

struct place_frame {
	uint64_t id, dev, ino;
};

static int get_place(struct buf *b, void *out)
{
	struct place_frame *p = out;

	return bulk_place_get(b, &p->id, &p->dev, &p->ino);
}

static void test_place(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(24);
	struct place_frame p;

	assert_int_equal(bulk_place_put(b, 7, 2, UINT64_MAX), 0);
	assert_int_equal(bulk_place_put(b, 1, 1, 1), -ENOBUFS);
	assert_int_equal(codec_truncations(b, get_place, &p, sizeof(p)), 24);
	assert_int_equal(get_place(b, &p), 0);
	assert_true(p.id == 7 && p.dev == 2 && p.ino == UINT64_MAX);
}

static int get_counts(struct buf *b, void *out)
{
	return bulk_counts_get(b, out);
}

static void test_counts(void **state)
{
	const struct bulk_counts c = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, UINT64_MAX };
	struct buf *b CLEANUP_BUF = buf_new(88);
	struct bulk_counts back;

	assert_int_equal(bulk_counts_put(b, &c), 0);
	assert_int_equal(buf_len(b), 88);
	assert_int_equal(codec_truncations(b, get_counts, &back, sizeof(back)), 88);
	assert_int_equal(bulk_counts_get(b, &back), 0);
	assert_memory_equal(&back, &c, sizeof(c));
}

/* ---- failures ---- */

static int get_failure(struct buf *b, void *out)
{
	return bulk_failure_get(b, out);
}

static void test_failure(void **state)
{
	struct bulk_failure f = { .id = 9, .code = -ENOSPC, .text = "disk \xe2\x82\xac full" };
	struct bulk_failure back;
	struct buf *b CLEANUP_BUF = buf_new(4096);

	assert_int_equal(bulk_failure_put(b, &f), 0);
	assert_memory_equal(buf_ptr(b), "\0\0\0\0\0\0\0\11\0\0\0\34\0\0\0\15disk", 20);
	assert_int_equal(codec_truncations(b, get_failure, &back, sizeof(back)), buf_len(b));
	assert_int_equal(bulk_failure_get(b, &back), 0);
	assert_true(back.id == 9);
	assert_int_equal(back.code, -ENOSPC);
	assert_string_equal(back.text, f.text);
}

static void test_failure_code(void **state)
{
	static const struct { uint32_t wire; int code; } in[] = {
		{ 0, -EIO }, { 1, -EPERM }, { 133, -133 }, { 134, -EIO }, { UINT32_MAX, -EIO },
		{ 0x80000000, -EIO },
	};
	static const struct { int code; uint32_t wire; } out[] = {
		{ 0, EIO }, { 5, EIO }, { -ENOENT, ENOENT }, { -4095, EIO }, { INT32_MIN, EIO },
	};

	for (size_t i = 0; i < ARRAY(in); i++) {
		struct buf *b CLEANUP_BUF = buf_new(64);
		struct bulk_failure f;

		buf_put_u64(b, 0);
		buf_put_u32(b, in[i].wire);
		buf_put_u32(b, 0);
		assert_int_equal(bulk_failure_get(b, &f), 0);
		assert_int_equal(f.code, in[i].code);
	}
	for (size_t i = 0; i < ARRAY(out); i++) {
		struct buf *b CLEANUP_BUF = buf_new(64);
		struct bulk_failure f = { .code = out[i].code };

		assert_int_equal(bulk_failure_put(b, &f), 0);
		assert_int_equal(get_be32(buf_ptr(b) + 8), out[i].wire);
	}
}

/* Terminals display a peer's text, so control sequences in it must not work. */
static void test_failure_text(void **state)
{
	static const struct { const char *wire; size_t len; const char *text; } cases[] = {
		{ "a\nb\x1b[2J\x7f", 8, "a?b?[2J?" },
		{ "a\0b", 3, "a?b" },
		{ "\xc2\x9b" "31m", 5, "??31m" },           /* C1: CSI */
		{ "\xc2\xa9", 2, "\xc2\xa9" },
		{ "\xff\xfe", 2, "??" },
		{ "\xc0\xaf", 2, "??" },                    /* overlong */
		{ "\xe0\x80\xaf", 3, "???" },
		{ "\xf0\x80\x80\xaf", 4, "????" },
		{ "\xed\xa0\x80", 3, "???" },               /* surrogate */
		{ "\xf4\x90\x80\x80", 4, "????" },          /* beyond U+10FFFF */
		{ "\xf0\x9f\x92\xbe", 4, "\xf0\x9f\x92\xbe" },
		{ "\xe2\x82", 2, "??" },                    /* cut */
		{ "\xe2\x82" "a", 3, "??a" },
		{ "\\x0a", 4, "\\x0a" },
	};

	for (size_t i = 0; i < ARRAY(cases); i++) {
		struct buf *b CLEANUP_BUF = buf_new(64);
		struct bulk_failure f;

		buf_put_u64(b, 1);
		buf_put_u32(b, EIO);
		buf_put_string(b, cases[i].wire, cases[i].len);
		assert_int_equal(bulk_failure_get(b, &f), 0);
		assert_string_equal(f.text, cases[i].text);
	}
}

static void test_failure_long(void **state)
{
	struct buf *b CLEANUP_BUF = buf_new(1 << 20);
	char *text = malloc(65537);
	struct bulk_failure f;

	memset(text, 'x', 65537);
	memcpy(text + 1021, "\xe2\x82\xac", 3); /* the limit is inside this character */
	buf_put_u64(b, 1);
	buf_put_u32(b, EIO);
	buf_put_string(b, text, 65536);
	assert_int_equal(bulk_failure_get(b, &f), 0);
	assert_int_equal(strlen(f.text), 1021);
	buf_put_u64(b, 1);
	buf_put_u32(b, EIO);
	buf_put_string(b, text, 65537);
	assert_int_equal(bulk_failure_get(b, &f), -EBADMSG);
	assert_true(codec_all_zero(&f, sizeof(f)));
	free(text);
}

/* Copies all bytes, also those of unknown later fields, except the fields listed here. */
static void test_onward(void **state)
{
	static const struct { size_t at, len; } own[] = {
#define OWN(field) { offsetof(struct bulk_request, field), sizeof(((struct bulk_request *)0)->field) }
		OWN(sources), OWN(nsources), OWN(pieces), OWN(bench_ns), OWN(bench_bytes),
		OWN(nonce), OWN(has_key), OWN(key),
		OWN(offer.storage), OWN(offer.no_crc), OWN(offer.cpus), OWN(offer.memory),
		OWN(offer.locked), OWN(offer.block_max), OWN(offer.channels_max), OWN(offer.nnics),
		OWN(offer.nics), OWN(offer.host),
#undef OWN
	};
	struct bulk_request from, to;
	uint8_t want[sizeof(from)];

	memset(&from, 0xa5, sizeof(from));
	memset(&to, 0, sizeof(to));
	bulk_request_onward(&from, &to);
	memset(want, 0xa5, sizeof(want));
	want[offsetof(struct bulk_request, op)] = BULK_PUT;
	/* The filter's flag is bit 16 of the flags, which are all set or not in this pattern. */
	((struct bulk_request *)want)->flags &= ~(uint32_t)BULK_F_FILTER;
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		memset(want + own[i].at, 0, own[i].len);
	assert_memory_equal(&to, want, sizeof(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_request),
		cmocka_unit_test(test_request_filter),
		cmocka_unit_test(test_request_filter_hostile),
		cmocka_unit_test(test_request_sync),
		cmocka_unit_test(test_removed),
		cmocka_unit_test(test_sum),
		cmocka_unit_test(test_entry_name),
		cmocka_unit_test(test_request_without),
		cmocka_unit_test(test_request_version),
		cmocka_unit_test(test_request_unknown_flag),
		cmocka_unit_test(test_version_text),
		cmocka_unit_test(test_version_parse),
		cmocka_unit_test(test_version_check),
		cmocka_unit_test(test_request_appended),
		cmocka_unit_test(test_request_hostile),
		cmocka_unit_test(test_request_paths),
		cmocka_unit_test(test_request_too_big),
		cmocka_unit_test(test_agree),
		cmocka_unit_test(test_agree_refused),
		cmocka_unit_test(test_agree_address),
		cmocka_unit_test(test_frame_head),
		cmocka_unit_test(test_verdict),
		cmocka_unit_test(test_runs),
		cmocka_unit_test(test_pair),
		cmocka_unit_test(test_place),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_failure),
		cmocka_unit_test(test_failure_code),
		cmocka_unit_test(test_failure_text),
		cmocka_unit_test(test_failure_long),
		cmocka_unit_test(test_onward),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
