// SPDX-License-Identifier: Apache-2.0
/* Reading and writing extended attributes, and the attributes that must not be transferred. */
#include "storage/storage.h"

#include "proto/proto.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cmocka.h>

static char top[] = "/tmp/rftp-test-xattrs-XXXXXX";
static char a[64], b[64];

static bool has_xattrs(void)
{
	return !setxattr(a, "user.rftp-probe", "", 0, 0) && !removexattr(a, "user.rftp-probe");
}

/* The attributes of the file to transfer, opened as the walk opens it. */
static struct buf *get_all(const char *path, int want)
{
	struct buf *x = buf_new(2 * BULK_XATTRS_MAX);
	int fd = open(path, O_PATH | O_CLOEXEC);

	assert_non_null(x);
	assert_true(fd >= 0);
	assert_int_equal(xattrs_get(fd, x), want);
	close(fd);
	return x;
}

static int set_all(const char *path, const void *x, size_t len, struct err *e)
{
	int fd = open(path, O_RDWR | O_CLOEXEC), r;

	*e = (struct err)ERR_INIT;
	assert_true(fd >= 0);
	r = xattrs_set(fd, x, (uint32_t)len, "shown", e);
	close(fd);
	return r;
}

static int set_buf(const char *path, struct buf *x, struct err *e)
{
	return set_all(path, buf_ptr(x), buf_len(x), e);
}

static void test_round_trip(void **state)
{
	static const char binary[] = "\0\1\xff\n=";
	struct buf *x;
	struct err e;
	char v[16];

	(void)state;
	if (!has_xattrs()) {
		skip();
		return;
	}
	assert_int_equal(setxattr(a, "user.binary", binary, sizeof(binary), 0), 0);
	assert_int_equal(setxattr(a, "user.empty", "", 0, 0), 0);
	x = get_all(a, 0);
	assert_int_equal(set_buf(b, x, &e), 0);
	assert_int_equal(getxattr(b, "user.binary", v, sizeof(v)), sizeof(binary));
	assert_memory_equal(v, binary, sizeof(binary));
	assert_int_equal(getxattr(b, "user.empty", v, sizeof(v)), 0);
	buf_free(x);
}

static void test_none(void **state)
{
	struct buf *x;
	struct err e;

	(void)state;
	x = get_all(b, 0); /* also on a filesystem without attributes */
	assert_int_equal(set_buf(b, x, &e), 0);
	buf_free(x);
}

static void test_more_than_an_entry_carries(void **state)
{
	size_t half = BULK_XATTRS_MAX / 2;
	char *v = calloc(1, half);

	(void)state;
	if (!has_xattrs() || setxattr(a, "user.one", v, half, 0) ||
	    setxattr(a, "user.two", v, half, 0)) {
		removexattr(a, "user.one");
		free(v);
		skip();
		return;
	}
	buf_free(get_all(a, -E2BIG));
	removexattr(a, "user.one");
	removexattr(a, "user.two");
	free(v);
}

/* A peer may only set attributes that we would send: no capability, no label. */
static void test_what_must_not_travel(void **state)
{
	static const char *const names[] = { "security.capability", "security.selinux",
					     "trusted.overlay.opaque", "user", "system.nfs4_acl" };

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct buf *x = buf_new(1000);
		struct err e;

		assert_int_equal(bulk_xattr_put(x, names[i], "v", 1), 0);
		assert_int_equal(set_buf(b, x, &e), -EPERM);
		assert_non_null(strstr(e.text, names[i]));
		assert_non_null(strstr(e.text, "shown"));
		buf_free(x);
	}
}

/* Every truncation of valid attributes is refused. */
static void test_malformed(void **state)
{
	struct buf *x = buf_new(1000);
	struct err e;

	(void)state;
	if (!has_xattrs()) {
		buf_free(x);
		skip();
		return;
	}
	bulk_xattr_put(x, "user.cut", "value", 5);
	for (size_t len = 1; len < buf_len(x); len++) {
		assert_int_equal(set_all(b, buf_ptr(x), len, &e), -EBADMSG);
		assert_int_equal(getxattr(b, "user.cut", NULL, 0), -1);
	}
	assert_int_equal(set_buf(b, x, &e), 0);
	assert_int_equal(getxattr(b, "user.cut", NULL, 0), 5);
	buf_free(x);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(top))
		return -1;
	snprintf(a, sizeof(a), "%s/a", top);
	snprintf(b, sizeof(b), "%s/b", top);
	close(open(a, O_CREAT | O_WRONLY, 0600));
	close(open(b, O_CREAT | O_WRONLY, 0600));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	unlink(a);
	unlink(b);
	return rmdir(top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_more_than_an_entry_carries),
		cmocka_unit_test(test_what_must_not_travel),
		cmocka_unit_test(test_malformed),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
