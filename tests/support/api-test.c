// SPDX-License-Identifier: Apache-2.0
/* For tests/e2e/librftp.sh: uses librftp.so as another program would. "api-test SCENARIO URL..."
 * prints what is wrong, and its status is 0 if nothing is. Local files are in the working
 * directory. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rftp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static unsigned wrong;

#define CHECK(r, what)                                                                \
	do {                                                                          \
		if (!(what)) {                                                        \
			wrong++;                                                      \
			printf("line %d: %s: %s\n", __LINE__, #what, rftp_error(r));  \
		}                                                                     \
	} while (0)
/* The call returns exactly this code. */
#define GIVES(r, code, call)                                                          \
	do {                                                                          \
		int rc_ = (call);                                                     \
		if (rc_ != (code)) {                                                  \
			wrong++;                                                      \
			printf("line %d: %s: %d (%s), %s\n", __LINE__, #call, rc_,    \
			       strerror(rc_ < 0 ? -rc_ : 0), rftp_error(r));          \
		}                                                                     \
	} while (0)

static struct rftp *handle(void)
{
	struct rftp *r = rftp_new();

	if (!r)
		abort();
	GIVES(r, 0, rftp_set(r, "known-hosts", "known_hosts"));
	GIVES(r, 0, rftp_set(r, "accept-new", "yes"));
	GIVES(r, 0, rftp_set(r, "netrc", "/dev/null"));
	return r;
}

static struct rftp *opened(const char *url)
{
	struct rftp *r = handle();

	GIVES(r, 0, rftp_open(r, url));
	return r;
}

static bool same(const char *a, const char *b)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd), "cmp -- '%s' '%s'", a, b);
	return system(cmd) == 0;
}

/* ---- names ---- */

struct seen {
	unsigned n, dirs, links;
	bool found;
};

static int see(void *arg, const char *name, const struct rftp_stat *st)
{
	struct seen *s = arg;

	s->n++;
	s->dirs += S_ISDIR(st->mode);
	s->links += S_ISLNK(st->mode);
	s->found |= !strcmp(name, "a b%20c") && st->size == 6;
	return s->n == 100 ? 77 : 0;
}

static void test_names(const char *url)
{
	struct rftp *closed;
	struct rftp *r = opened(url);
	struct rftp_stat st = { .mode = 1 };
	struct seen s = { 0 };
	uint64_t space = 0;
	char hex[129];

	CHECK(r, !strcmp(rftp_path(r), "/names"));
	GIVES(r, -EXDEV, rftp_at(r, "rftp://127.0.0.1:1/a"));
	GIVES(r, -EINVAL, rftp_at(r, "/a"));
	CHECK(r, !strcmp(rftp_path(r), "/names"));
	strcpy(hex, url);
	strcpy(strstr(hex, "/names"), "/a%20b");
	GIVES(r, 0, rftp_at(r, hex));
	CHECK(r, !strcmp(rftp_path(r), "/a b"));
	GIVES(r, 0, rftp_mkdir(r, "/names/d/e/f/", 1));
	GIVES(r, 0, rftp_mkdir(r, "/names/d/e/f", 1));
	GIVES(r, -EEXIST, rftp_mkdir(r, "/names/d", 0));
	GIVES(r, -ENOENT, rftp_mkdir(r, "/names/x/y", 0));
	GIVES(r, 0, rftp_stat(r, "/names/d", &st));
	CHECK(r, S_ISDIR(st.mode) && st.has_mode);
	GIVES(r, -ENOENT, rftp_stat(r, "/names/nope", &st));
	CHECK(r, strstr(rftp_error(r), "No such file"));

	GIVES(r, 0, rftp_put(r, "small", "/names/a b%20c", 0));
	GIVES(r, 0, rftp_lstat(r, "/names/a b%20c", &st));
	CHECK(r, S_ISREG(st.mode) && st.size == 6 && st.mtime_s > 1000000000);
	GIVES(r, 0, rftp_chmod(r, "/names/a b%20c", 0640));
	GIVES(r, 0, rftp_stat(r, "/names/a b%20c", &st));
	CHECK(r, (st.mode & 07777) == 0640);
	GIVES(r, 0, rftp_lstat(r, "/names/link", &st));
	CHECK(r, S_ISLNK(st.mode));
	GIVES(r, 0, rftp_stat(r, "/names/link", &st));
	CHECK(r, S_ISREG(st.mode) && st.size == 6);
	GIVES(r, -ELOOP, rftp_stat(r, "/names/loop", &st));
	GIVES(r, 0, rftp_list(r, "/names", see, &s));
	CHECK(r, s.n == 4 && s.dirs == 1 && s.links == 2 && s.found);
	s.n = 99;
	GIVES(r, 77, rftp_list(r, "/names", see, &s));
	GIVES(r, -ENOENT, rftp_list(r, "/names/nope", see, &s));

	GIVES(r, 0, rftp_checksum(r, "/names/a b%20c", "md5", hex, sizeof(hex)));
	CHECK(r, !strcmp(hex, "b1946ac92492d2347c6235b4d2611184"));
	GIVES(r, 0, rftp_checksum(r, "/names/a b%20c", "ADLER32", hex, sizeof(hex)));
	CHECK(r, !strcmp(hex, "084b021f"));
	GIVES(r, 0, rftp_checksum(r, "/names/a b%20c", "sha256", hex, sizeof(hex)));
	CHECK(r, strlen(hex) == 64);
	GIVES(r, 0, rftp_checksum(r, "/names/a b%20c", "crc32c", hex, sizeof(hex)));
	GIVES(r, -ERANGE, rftp_checksum(r, "/names/a b%20c", "md5", hex, 32));
	GIVES(r, -EOPNOTSUPP, rftp_checksum(r, "/names/a b%20c", "md6", hex, sizeof(hex)));
	GIVES(r, -ENOENT, rftp_checksum(r, "/names/nope", "md5", hex, sizeof(hex)));
	GIVES(r, 0, rftp_space(r, "/names", &space));
	CHECK(r, space > 1000000);
	GIVES(r, -ENOENT, rftp_space(r, "/names/nope", &space));

	GIVES(r, 0, rftp_rename(r, "/names/a b%20c", "/names/d/g"));
	GIVES(r, -ENOENT, rftp_rename(r, "/names/a b%20c", "/names/d/g"));
	GIVES(r, -EISDIR, rftp_unlink(r, "/names/d/e"));
	GIVES(r, -ENOENT, rftp_unlink(r, "/names/nope"));
	closed = rftp_new();
	GIVES(closed, -EINVAL, rftp_unlink(closed, "/names/nope"));
	rftp_free(closed);
	GIVES(r, -ENOTEMPTY, rftp_rmdir(r, "/names/d"));
	GIVES(r, 0, rftp_rmdir(r, "/names/d/e/f"));
	GIVES(r, -ENOENT, rftp_rmdir(r, "/names/d/e/f"));
	GIVES(r, 0, rftp_unlink(r, "/names/d/g"));
	GIVES(r, 0, rftp_remove_tree(r, "/names/d"));
	GIVES(r, 0, rftp_remove_tree(r, "/names/link"));
	GIVES(r, -EINVAL, rftp_set(r, "no-such-option", "1"));
	GIVES(r, -EINVAL, rftp_set(r, "prot", "sometimes"));
	rftp_free(r);
}

/* ---- files and trees ---- */

struct counts {
	unsigned files, failed;
	int code;
};

static void count(void *arg, const char *path, uint64_t bytes, int error, const char *text)
{
	struct counts *c = arg;

	(void)path;
	(void)bytes;
	(void)text;
	c->files += !error;
	c->failed += error != 0;
	c->code = error ? error : c->code;
}

static void count_calls(void *arg, const struct rftp_progress *p)
{
	unsigned *n = arg;

	*n += p->seconds >= 0;
}

static void test_files(const char *url)
{
	struct rftp *r = opened(url);
	struct counts c = { 0 };
	struct rftp_progress p;
	unsigned calls = 0;

	rftp_set_file(r, count, &c);
	rftp_set_progress(r, count_calls, &calls);
	GIVES(r, 0, rftp_put(r, "big", "/big", 0));
	CHECK(r, c.files == 1 && !c.failed && calls);
	rftp_result(r, &p);
	CHECK(r, p.files == 1 && p.bytes == 20000000 && !p.failed);
	GIVES(r, 0, rftp_get(r, "/big", "back", 0));
	CHECK(r, same("big", "back"));
	/* Nothing exists twice. */
	GIVES(r, -EEXIST, rftp_put(r, "small", "/big", RFTP_EXCLUSIVE));
	GIVES(r, -EEXIST, rftp_get(r, "/big", "small", RFTP_EXCLUSIVE));
	GIVES(r, 0, rftp_put(r, "small", "/fresh", RFTP_EXCLUSIVE));
	GIVES(r, 0, rftp_get(r, "/big", "back", 0));
	/* Parents. */
	GIVES(r, -ENOENT, rftp_put(r, "small", "/p/q/small", 0));
	GIVES(r, 0, rftp_put(r, "small", "/p/q/small", RFTP_PARENTS));
	GIVES(r, -ENOENT, rftp_get(r, "/big", "p/q/big", 0));
	GIVES(r, 0, rftp_get(r, "/big", "p/q/big", RFTP_PARENTS));
	CHECK(r, same("big", "p/q/big"));
	/* Trees. */
	GIVES(r, 0, rftp_put(r, "tree", "/tree", RFTP_RECURSIVE));
	GIVES(r, 0, rftp_get(r, "/tree", "tree-back", RFTP_RECURSIVE));
	/* Errors. */
	GIVES(r, -ENOENT, rftp_put(r, "nope", "/nope", 0));
	GIVES(r, -ENOENT, rftp_get(r, "/nope", "nope", 0));
	CHECK(r, strstr(rftp_error(r), "nope"));
	CHECK(r, access("nope", F_OK));
	CHECK(r, c.failed);
	GIVES(r, 0, rftp_get(r, "/fresh", "back", 0));
	CHECK(r, same("small", "back"));
	rftp_free(r);
}

/* ---- descriptors and ranges ---- */

static void *write_pipe(void *arg)
{
	static char data[100000];
	int *fds = arg;

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (char)(i * 7);
	for (int i = 0; i < 10; i++)
		if (write(fds[1], data, sizeof(data)) < 0)
			abort();
	close(fds[1]);
	return NULL;
}

static bool range_is(int fd, uint64_t offset, uint64_t length)
{
	static char got[1 << 20], want[1 << 20];
	int big = open("big", O_RDONLY);
	bool ok = pread(fd, got, sizeof(got), 0) == (ssize_t)length &&
		  pread(big, want, length, (off_t)offset) == (ssize_t)length &&
		  !memcmp(got, want, length);

	close(big);
	return ok;
}

/* Ranges of one version of a file: the file has another time, another size, or both; it is a
 * directory; it is gone. */
static void test_versions(struct rftp *r, int null)
{
	struct rftp_stat st, now, other;
	int fd = open("version", O_RDWR | O_CREAT | O_TRUNC, 0600);

	GIVES(r, 0, rftp_put(r, "big", "/version", 0));
	GIVES(r, 0, rftp_stat(r, "/version", &st));
	GIVES(r, 0, rftp_get_range(r, "/version", &st, 5, 1000, fd));
	CHECK(r, range_is(fd, 5, 1000));
	now = st;
	now.mtime_ns ^= 1;
	GIVES(r, -ESTALE, rftp_get_range(r, "/version", &now, 5, 1000, fd));
	now = st;
	now.mtime_s--;
	GIVES(r, -ESTALE, rftp_get_range(r, "/version", &now, 5, 1000, fd));
	now = st;
	now.size++;
	GIVES(r, -ESTALE, rftp_get_range(r, "/version", &now, 5, 1000, fd));
	GIVES(r, 0, rftp_put(r, "small", "/version", 0));
	GIVES(r, -ESTALE, rftp_get_range(r, "/version", &st, 0, 1, fd));
	GIVES(r, -ESTALE, rftp_get_range(r, "/version", &st, 19999999, 1, fd));
	CHECK(r, strstr(rftp_error(r), "another size or time"));
	CHECK(r, lseek(fd, 0, SEEK_END) == 1000); /* none of them has sent a byte */
	GIVES(r, 0, rftp_stat(r, "/", &other));
	GIVES(r, -ESTALE, rftp_get_range(r, "/", &other, 0, 1, null));
	GIVES(r, 0, rftp_unlink(r, "/version"));
	GIVES(r, -ENOENT, rftp_get_range(r, "/version", &st, 0, 1, null));
	close(fd);
}

static void test_streams(const char *url)
{
	static const struct { uint64_t at, n; } ranges[] = {
		{ 0, 1 }, { 0, 65536 }, { 1, 1 }, { 12345, 700000 }, { 19999999, 1 },
		{ 19000000, 1000000 },
	};
	struct rftp *r = opened(url);
	int fds[2], fd;
	int null = open("/dev/null", O_WRONLY);
	struct rftp_stat st;
	pthread_t t;

	if (pipe(fds))
		abort();
	pthread_create(&t, NULL, write_pipe, fds);
	GIVES(r, 0, rftp_put_fd(r, fds[0], "/stream", 0));
	pthread_join(t, NULL);
	close(fds[0]);
	GIVES(r, 0, rftp_stat(r, "/stream", &st));
	CHECK(r, st.size == 1000000);

	GIVES(r, 0, rftp_put(r, "big", "/big", 0));
	fd = open("streamed", O_RDWR | O_CREAT | O_TRUNC, 0600);
	GIVES(r, 0, rftp_get_fd(r, "/big", fd));
	close(fd);
	CHECK(r, same("big", "streamed"));
	for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++) {
		fd = open("range", O_RDWR | O_CREAT | O_TRUNC, 0600);
		GIVES(r, 0, rftp_get_range(r, "/big", NULL, ranges[i].at, ranges[i].n, fd));
		CHECK(r, range_is(fd, ranges[i].at, ranges[i].n));
		close(fd);
	}
	GIVES(r, -ERANGE, rftp_get_range(r, "/big", NULL, 20000000, 1, null));
	GIVES(r, -ERANGE, rftp_get_range(r, "/big", NULL, 19999999, 2, null));
	GIVES(r, -ENOENT, rftp_get_range(r, "/nope", NULL, 0, 2, null));
	test_versions(r, null);
	GIVES(r, -ENOENT, rftp_get_fd(r, "/nope", null));
	/* A reader that leaves: an error, and no signal. */
	if (pipe(fds))
		abort();
	close(fds[0]);
	GIVES(r, -EPIPE, rftp_get_fd(r, "/big", fds[1]) == 0 ? 0 : -EPIPE);
	close(fds[1]);
	GIVES(r, 0, rftp_stat(r, "/big", &st));
	rftp_free(r);
}

/* ---- two at once, cancel, time ---- */

struct worker {
	const char *url;
	unsigned number;
	unsigned before;
};

static void *work(void *arg)
{
	struct worker *w = arg;
	struct rftp *r = opened(w->url);
	char there[64], here[64];

	for (int i = 0; i < 3; i++) {
		snprintf(there, sizeof(there), "/at-once-%u-%d", w->number, i);
		snprintf(here, sizeof(here), "at-once-%u-%d", w->number, i);
		GIVES(r, 0, rftp_put(r, "big", there, 0));
		GIVES(r, 0, rftp_get(r, there, here, 0));
		CHECK(r, same("big", here));
	}
	/* All make the same parents. */
	for (int i = 0; i < 20; i++) {
		snprintf(there, sizeof(there), "/parents-%d/a/b/c", i);
		GIVES(r, 0, rftp_mkdir(r, there, 1));
	}
	rftp_free(r);
	return NULL;
}

static void test_at_once(const char *url)
{
	struct worker w[3];
	pthread_t t[3];

	for (unsigned i = 0; i < 3; i++) {
		w[i] = (struct worker){ .url = url, .number = i };
		pthread_create(&t[i], NULL, work, &w[i]);
	}
	for (unsigned i = 0; i < 3; i++)
		pthread_join(t[i], NULL);
}

static void cancel_after(void *arg, const struct rftp_progress *p)
{
	if (p->bytes)
		rftp_cancel(arg);
}

static void *cancel_soon(void *arg)
{
	usleep(300000);
	rftp_cancel(arg);
	return NULL;
}

static void test_cancel(const char *url)
{
	struct rftp *r = opened(url);
	struct rftp_stat st;
	struct timespec a, b;
	pthread_t t;
	int fds[2];

	GIVES(r, 0, rftp_set(r, "rate", "5M"));
	rftp_set_progress(r, cancel_after, r);
	GIVES(r, -ECANCELED, rftp_put(r, "big", "/cancelled", 0));
	CHECK(r, !strcmp(rftp_error(r), "cancelled"));
	GIVES(r, -ECANCELED, rftp_stat(r, "/", &st));
	GIVES(r, -ECANCELED, rftp_put(r, "big", "/cancelled", 0));
	rftp_set_progress(r, NULL, NULL);
	rftp_uncancel(r);
	GIVES(r, -ENOENT, rftp_stat(r, "/cancelled", &st));
	GIVES(r, 0, rftp_set(r, "rate", "0"));
	GIVES(r, 0, rftp_put(r, "big", "/cancelled", 0));
	GIVES(r, 0, rftp_get(r, "/cancelled", "cancelled", 0));
	CHECK(r, same("big", "cancelled"));

	/* A put from a pipe that stays silent. */
	if (pipe(fds))
		abort();
	pthread_create(&t, NULL, cancel_soon, r);
	GIVES(r, -ECANCELED, rftp_put_fd(r, fds[0], "/silent", 0));
	pthread_join(t, NULL);
	rftp_uncancel(r);
	clock_gettime(CLOCK_MONOTONIC, &a);
	rftp_set_timeout(r, 500);
	GIVES(r, -ETIMEDOUT, rftp_put_fd(r, fds[0], "/silent", 0));
	clock_gettime(CLOCK_MONOTONIC, &b);
	CHECK(r, b.tv_sec - a.tv_sec <= 5);
	close(fds[0]);
	close(fds[1]);
	GIVES(r, 0, rftp_stat(r, "/cancelled", &st));
	rftp_free(r);
}

/* ---- logins and keys ---- */

static int trust(void *arg, const char *server, const char *pin)
{
	int *calls = arg;

	++*calls;
	return strchr(server, ':') && !strncmp(pin, "SHA256:", 7) && *calls > 1;
}

static void test_logins(const char *url)
{
	struct rftp *r = rftp_new();
	struct rftp_stat st;
	char user[256];
	int calls = 0;

	GIVES(r, -EINVAL, rftp_stat(r, "/", &st));
	GIVES(r, 0, rftp_set(r, "known-hosts", "other-known"));
	GIVES(r, 0, rftp_set(r, "netrc", "/dev/null"));
	GIVES(r, -EACCES, rftp_open(r, url));
	CHECK(r, access("other-known", F_OK));
	/* A key that cannot be saved would be trusted again and again, without a word. */
	GIVES(r, 0, rftp_set(r, "accept-new", "yes"));
	GIVES(r, 0, rftp_set(r, "known-hosts", "big/known"));
	GIVES(r, -EACCES, rftp_open(r, url));
	GIVES(r, 0, rftp_set(r, "accept-new", "no"));
	GIVES(r, 0, rftp_set(r, "known-hosts", "other-known"));
	rftp_set_trust(r, trust, &calls);
	GIVES(r, -EACCES, rftp_open(r, url));
	GIVES(r, 0, rftp_open(r, url));
	CHECK(r, calls == 2);
	GIVES(r, 0, rftp_open(r, url));
	CHECK(r, calls == 2);
	snprintf(user, sizeof(user), "rftp://alice@%s", url + strlen("rftp://"));
	GIVES(r, -EACCES, rftp_open(r, user));
	GIVES(r, 0, rftp_set_password(r, "wrong"));
	GIVES(r, -EACCES, rftp_open(r, user));
	GIVES(r, 0, rftp_set_password(r, "secret-of-alice"));
	GIVES(r, 0, rftp_open(r, user));
	GIVES(r, 0, rftp_stat(r, "/", &st));
	GIVES(r, -EINVAL, rftp_open(r, "/local/path"));
	GIVES(r, -EINVAL, rftp_open(r, "rftp://a:b@c/d"));
	GIVES(r, -ECONNREFUSED, rftp_open(r, "rftp://127.0.0.1:1/"));
	GIVES(r, -EPROTONOSUPPORT, rftp_open(r, "ftp://127.0.0.1/"));
	GIVES(r, -ECONNREFUSED, rftp_open(r, "rftp://127.0.0.1:1/"));
	rftp_free(r);
	rftp_free(NULL);
}

/* With the certificate alice.pem, and one of another CA. */
static void test_certificate(const char *url)
{
	struct rftp *r = handle();
	struct rftp_stat st;
	char user[256];

	snprintf(user, sizeof(user), "rftp://alice@%s", url + strlen("rftp://"));
	GIVES(r, 0, rftp_set(r, "cert", "strange.pem"));
	GIVES(r, 0, rftp_set(r, "key", "strange.key"));
	GIVES(r, -EACCES, rftp_open(r, user));
	GIVES(r, 0, rftp_set(r, "cert", "alice.pem"));
	GIVES(r, 0, rftp_set(r, "key", "alice.key"));
	GIVES(r, 0, rftp_open(r, user));
	GIVES(r, 0, rftp_stat(r, "/", &st));
	GIVES(r, 0, rftp_set(r, "ca", "ca.pem")); /* which has not signed the server's */
	GIVES(r, -EACCES, rftp_open(r, user));
	rftp_free(r);
}

/* Without rights on the server. */
static void test_rights(const char *url)
{
	struct rftp *r = opened(url);
	int rc;

	rc = rftp_put(r, "small", "/refused", 0);
	CHECK(r, rc == -EACCES || rc == -EPERM);
	rc = rftp_mkdir(r, "/refused", 0);
	CHECK(r, rc == -EACCES || rc == -EPERM);
	rc = rftp_unlink(r, "/file");
	CHECK(r, rc == -EACCES || rc == -EPERM);
	GIVES(r, 0, rftp_get(r, "/file", "got", 0));
	rftp_free(r);
}

/* ---- two servers ---- */

static void test_copy(const char *url, const char *other)
{
	struct rftp *r = opened(url), *s = opened(other);
	struct rftp_progress p;
	char a[129], b[129];

	GIVES(r, 0, rftp_put(r, "big", "/big", 0));
	GIVES(r, 0, rftp_copy(r, "/big", s, "/copied", 0));
	rftp_result(r, &p);
	CHECK(r, p.files == 1 && p.bytes == 20000000);
	GIVES(r, 0, rftp_checksum(r, "/big", "sha256", a, sizeof(a)));
	GIVES(s, 0, rftp_checksum(s, "/copied", "sha256", b, sizeof(b)));
	CHECK(r, !strcmp(a, b));
	GIVES(r, -EEXIST, rftp_copy(r, "/big", s, "/copied", RFTP_EXCLUSIVE));
	GIVES(r, 0, rftp_copy(r, "/big", s, "/u/v/big", RFTP_PARENTS));
	GIVES(r, -ENOENT, rftp_copy(r, "/nope", s, "/copied", 0));
	GIVES(r, 0, rftp_put(r, "tree", "/tree3", RFTP_RECURSIVE));
	GIVES(r, 0, rftp_copy(r, "/tree3", s, "/tree3", RFTP_RECURSIVE));
	GIVES(s, 0, rftp_get(s, "/tree3", "tree-third", RFTP_RECURSIVE));
	GIVES(r, -EINVAL, rftp_copy(r, "/big", r, "/self", 0));
	GIVES(r, 0, rftp_set(r, "rate", "5M"));
	rftp_set_progress(r, cancel_after, r);
	GIVES(r, -ECANCELED, rftp_copy(r, "/big", s, "/stopped", 0));
	rftp_uncancel(r);
	rftp_set_progress(r, NULL, NULL);
	GIVES(r, 0, rftp_set(r, "rate", "0"));
	GIVES(r, 0, rftp_copy(r, "/big", s, "/stopped", 0));
	GIVES(s, 0, rftp_checksum(s, "/stopped", "sha256", b, sizeof(b)));
	CHECK(r, !strcmp(a, b));
	rftp_free(s);
	rftp_free(r);
}

/* ---- a server that dies ---- */

static void kill_server(void *arg, const struct rftp_progress *p)
{
	long *server = arg; /* and its sessions */
	char cmd[80];

	if (!p->bytes || !*server)
		return;
	snprintf(cmd, sizeof(cmd), "kill -KILL %ld $(pgrep -P %ld)", *server, *server);
	*server = 0;
	if (system(cmd))
		abort();
}

static void test_loss(const char *url, const char *pid)
{
	struct rftp *r = opened(url);
	long server = atol(pid);
	int rc = 0;

	GIVES(r, 0, rftp_set(r, "retries", "0"));
	GIVES(r, 0, rftp_set(r, "rate", "5M"));
	rftp_set_progress(r, kill_server, &server);
	GIVES(r, -ECOMM, rftp_put(r, "big", "/lost", 0));
	/* The listener may live a moment longer. */
	for (int i = 0; i < 50 && (rc = rftp_unlink(r, "/lost")) == -ECOMM; i++)
		usleep(100000);
	CHECK(r, rc == -ECONNREFUSED);
	rftp_free(r);
}

/* The process is as before. */
static void check_process(mode_t mask, const struct rlimit *before)
{
	static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGXFSZ, SIGCHLD };
	mode_t now = umask(mask);
	struct rlimit files;

	if (now != mask) {
		printf("the umask has become %o\n", now);
		wrong++;
	}
	getrlimit(RLIMIT_NOFILE, &files);
	if (files.rlim_cur != before->rlim_cur) {
		printf("the limit of descriptors has become %ju\n", (uintmax_t)files.rlim_cur);
		wrong++;
	}
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction a;

		sigaction(signals[i], NULL, &a);
		if (a.sa_handler == SIG_DFL)
			continue;
		printf("signal %d is handled or ignored\n", signals[i]);
		wrong++;
	}
}

int main(int argc, char **argv)
{
	const char *name = argc > 2 ? argv[1] : "", *url = argc > 2 ? argv[2] : NULL;
	const char *more = argc > 3 ? argv[3] : "";
	struct rlimit files;

	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = 900;
	setrlimit(RLIMIT_NOFILE, &files);
	umask(027);
	signal(SIGHUP, SIG_DFL);
	if (!strcmp(name, "names"))
		test_names(url);
	else if (!strcmp(name, "files"))
		test_files(url);
	else if (!strcmp(name, "streams"))
		test_streams(url);
	else if (!strcmp(name, "at-once"))
		test_at_once(url);
	else if (!strcmp(name, "cancel"))
		test_cancel(url);
	else if (!strcmp(name, "logins"))
		test_logins(url);
	else if (!strcmp(name, "certificate"))
		test_certificate(url);
	else if (!strcmp(name, "rights"))
		test_rights(url);
	else if (!strcmp(name, "copy"))
		test_copy(url, more);
	else if (!strcmp(name, "loss"))
		test_loss(url, more);
	else
		return 2;
	check_process(027, &files);
	return wrong != 0;
}
