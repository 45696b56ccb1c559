// SPDX-License-Identifier: Apache-2.0
/* Complete reads and writes through pipes that are slow, small, interrupted or nonblocking; files
 * that are complete or absent; scope cleanup of descriptors. */
#include "tests/support/refuse-call.h"
#include "util/base.h"
#include "util/io.h"
#include "util/limits.h"
#include "util/thread.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[] = "/tmp/rftp-test-io-XXXXXX";

/* A path in the test's directory; the last sixteen results stay valid. */
static const char *at(const char *name)
{
	static char paths[16][256];
	static unsigned int turn;
	char *p = paths[turn++ % 16];

	snprintf(p, sizeof(paths[0]), "%s/%s", dir, name);
	return p;
}

static int make_temp(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int remove_temp(void **state)
{
	(void)state;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* ---- pipes ---- */

enum { PIPE_BYTES = 300000 }; /* more than a pipe holds */

struct far_end {
	int fd;
	bool reads;
	size_t done;
	unsigned char data[PIPE_BYTES];
};

/* Moves the bytes in small pieces of odd sizes, with pauses. */
static void *run_far_end(void *arg)
{
	struct far_end *f = arg;
	size_t piece;
	ssize_t n;

	while (f->done < PIPE_BYTES) {
		piece = f->done % 4099 + 1;
		if (piece > PIPE_BYTES - f->done)
			piece = PIPE_BYTES - f->done;
		if (f->done % 7 == 0)
			usleep(500);
		n = f->reads ? read(f->fd, f->data + f->done, piece) :
			       write(f->fd, f->data + f->done, piece);
		if (n <= 0)
			break;
		f->done += (size_t)n;
	}
	close(f->fd);
	return NULL;
}

static volatile sig_atomic_t ticks;

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
}

/* Signals without SA_RESTART make system calls fail with EINTR all the time. */
static void start_ticks(void)
{
	struct sigaction sa = { .sa_handler = on_tick };
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } };

	ticks = 0;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
}

static void stop_ticks(void)
{
	struct itimerval none = { { 0, 0 }, { 0, 0 } };

	setitimer(ITIMER_REAL, &none, NULL);
	signal(SIGALRM, SIG_IGN); /* one may still be pending */
}

static void fill(unsigned char *p, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		p[i] = (unsigned char)(i * 31 + i / 251);
}

static void check_pipe(bool we_read, bool nonblock)
{
	static unsigned char mine[PIPE_BYTES + 1];
	static struct far_end f;
	pthread_t t;
	int fds[2], ours;

	assert_int_equal(pipe(fds), 0);
	ours = fds[we_read ? 0 : 1];
	f = (struct far_end){ .fd = fds[we_read ? 1 : 0], .reads = !we_read };
	memset(mine, 0, sizeof(mine));
	fill(we_read ? f.data : mine, PIPE_BYTES);
	assert_int_equal(set_nonblock(ours, nonblock), 0);
	assert_int_equal(thread_start(&t, "far end", run_far_end, &f), 0);

	start_ticks();
	if (we_read) /* asks for more bytes than exist: short only at the end */
		assert_int_equal(read_full(ours, mine, sizeof(mine)), PIPE_BYTES);
	else
		assert_int_equal(write_full(ours, mine, PIPE_BYTES), 0);
	stop_ticks();
	pthread_join(t, NULL);
	assert_true(ticks > 0);
	assert_int_equal(f.done, PIPE_BYTES);
	assert_memory_equal(mine, f.data, PIPE_BYTES);
	close(ours);
}

static void test_pipes(void **state)
{
	(void)state;
	check_pipe(true, false);
	check_pipe(true, true);
	check_pipe(false, false);
	check_pipe(false, true);
}

static void test_errors(void **state)
{
	int fds[2];
	char c;

	(void)state;
	assert_int_equal(read_full(-1, &c, 1), -EBADF);
	assert_int_equal(write_full(-1, &c, 1), -EBADF);
	assert_int_equal(pread_full(-1, &c, 1, 0), -EBADF);
	assert_int_equal(pwrite_full(-1, "x", 1, 0), -EBADF);
	assert_int_equal(read_full(-1, &c, 0), 0);

	assert_int_equal(pipe(fds), 0);
	close(fds[0]);
	signal(SIGPIPE, SIG_IGN);
	assert_int_equal(write_full(fds[1], "x", 1), -EPIPE);
	signal(SIGPIPE, SIG_DFL);
	close(fds[1]);
}

/* The caller sees a timeout that it set itself. */
static void test_receive_timeout(void **state)
{
	struct timeval soon = { 0, 20000 };
	int fds[2];
	char c;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &soon, sizeof(soon));
	assert_int_equal(read_full(fds[0], &c, 1), -EAGAIN);
	close(fds[0]);
	close(fds[1]);
}

static void test_at_offsets(void **state)
{
	CLEANUP_CLOSE int fd = open(at("offsets"), O_RDWR | O_CREAT, 0600);
	char out[8];

	(void)state;
	assert_int_equal(pwrite_full(fd, "abcdef", 6, 10), 0);
	assert_int_equal(pread_full(fd, out, 4, 11), 4);
	assert_memory_equal(out, "bcde", 4);
	assert_int_equal(pread_full(fd, out, 8, 13), 3);
	assert_int_equal(pread_full(fd, out, 8, 16), 0);
	assert_int_equal(lseek(fd, 0, SEEK_CUR), 0);
}

static void test_poll(void **state)
{
	uint64_t start;
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(poll_fd(fds[0], POLLIN, 0), 0);
	start_ticks(); /* a signal every 2 ms must not extend the timeout */
	start = now_ns();
	assert_int_equal(poll_fd(fds[0], POLLIN, 50), 0);
	start = now_ns() - start;
	stop_ticks();
	assert_true(start >= 49000000);
	assert_true(start < 5000000000);
	assert_int_equal(write_full(fds[1], "x", 1), 0);
	assert_int_equal(poll_fd(fds[0], POLLIN, -1), 1);
	assert_int_equal(poll_fd(fds[0], POLLIN, 1000), 1);
	close(fds[0]);
	close(fds[1]);
}

static void test_flags(void **state)
{
	int fds[2];

	(void)state;
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(set_nonblock(fds[0], true), 0);
	assert_true(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	assert_int_equal(set_nonblock(fds[0], false), 0);
	assert_false(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(set_nonblock(-1, true), -EBADF);
}

static void test_cleanup_close(void **state)
{
	int seen, kept;

	(void)state;
	{
		CLEANUP_CLOSE int gone = open("/dev/null", O_RDONLY);
		CLEANUP_CLOSE int handed_on = open("/dev/null", O_RDONLY);
		CLEANUP_CLOSE int none = -1;

		(void)none;
		seen = gone;
		kept = steal_fd(&handed_on);
		errno = ENOTTY;
	}
	assert_int_equal(errno, ENOTTY);
	assert_int_equal(fcntl(seen, F_GETFD), -1);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	close(kept);
	/* cleanup_close() sets the descriptor to -1: a second call must not close a number that
	 * another thread may use by then. */
	seen = open("/dev/null", O_RDONLY);
	cleanup_close(&seen);
	assert_int_equal(seen, -1);
	cleanup_close(&seen);
}

/* ---- files ---- */

static void test_read_file(void **state)
{
	static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 8192, 100000 };
	static unsigned char data[100000];
	size_t i, len;
	char *out;

	(void)state;
	fill(data, sizeof(data));
	for (i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		assert_int_equal(write_file_atomic(at("f"), data, sizes[i], 0600, NULL), 0);
		assert_int_equal(read_file(at("f"), sizes[i], &out, &len), 0);
		assert_int_equal(len, sizes[i]);
		assert_memory_equal(out, data, len);
		assert_int_equal(out[len], 0);
		free(out);
		assert_int_equal(read_file(at("f"), SIZE_MAX, &out, NULL), 0);
		free(out);
		if (sizes[i] == 0)
			continue;
		assert_int_equal(read_file(at("f"), sizes[i] - 1, &out, &len), -EFBIG);
		assert_null(out);
		assert_int_equal(len, 0);
	}
	assert_int_equal(read_file(at("absent"), 10, &out, &len), -ENOENT);
	assert_int_equal(read_file(dir, 10, &out, &len), -EISDIR);
	/* stat() reports 0 bytes for this file. */
	assert_int_equal(read_file("/proc/self/status", 100000, &out, &len), 0);
	assert_true(len > 100);
	free(out);
}

static int count_entries(const char *path)
{
	DIR *d = opendir(path);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void test_write_file_atomic(void **state)
{
	const char *sub = at("atomic"), *path = at("atomic/f");
	struct stat st;
	mode_t mask;
	char *out;

	(void)state;
	assert_int_equal(mkdir(sub, 0700), 0);
	mask = umask(077);
	assert_int_equal(write_file_atomic(path, "one", 3, 0644, NULL), 0);
	umask(mask);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0644);
	assert_int_equal(write_file_atomic(path, "second", 6, 0600, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(read_file(path, 100, &out, NULL), 0);
	assert_string_equal(out, "second");
	free(out);
	assert_int_equal(count_entries(sub), 1);

	assert_int_equal(write_file_atomic(at("nowhere/f"), "x", 1, 0600, NULL), -ENOENT);
	/* If the last step fails, no temporary file remains. */
	assert_int_equal(mkdir(at("atomic/d"), 0700), 0);
	assert_int_equal(write_file_atomic(at("atomic/d"), "x", 1, 0600, NULL), -EISDIR);
	assert_int_equal(count_entries(sub), 2);
}

static const char *content(const char *path)
{
	static char text[100];
	CLEANUP_CLOSE int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = '\0';
	return text;
}

/* Symbolic links stay, and their targets get the text; special files stay as they are. */
static void test_own_file_places(void **state)
{
	struct err e = ERR_INIT;
	struct stat st;
	char link[256];
	int p[2], fd;

	(void)state;
	assert_int_equal(mkdir(at("own"), 0700), 0);
	assert_int_equal(mkdir(at("own/there"), 0700), 0);
	assert_int_equal(symlink("there", at("own/dir")), 0);
	assert_int_equal(symlink("../own//dir/file", at("own/link")), 0);
	assert_int_equal(write_file_atomic(at("own/link"), "text", 4, 0600, &e), 0);
	assert_int_equal(lstat(at("own/link"), &st), 0);
	assert_true(S_ISLNK(st.st_mode));
	assert_string_equal(content(at("own/there/file")), "text");
	assert_int_equal(count_entries(at("own/there")), 1);
	fd = append_file_open(at("own/link"), 0600, &e);
	assert_true(fd >= 0);
	assert_int_equal(write_full(fd, "+", 1), 0);
	close(fd);
	assert_string_equal(content(at("own/there/file")), "text+");
	fd = append_file_open(at("own/dir/new"), 0640, &e);
	assert_true(fd >= 0);
	assert_int_equal(fcntl(fd, F_GETFL) & (O_NONBLOCK | O_APPEND), O_APPEND);
	close(fd);

	assert_int_equal(symlink("loop", at("own/loop")), 0);
	assert_int_equal(write_file_atomic(at("own/loop"), "x", 1, 0600, &e), -ELOOP);
	assert_int_equal(append_file_open(at("own/there/file/x"), 0600, &e), -ENOTDIR);

	/* Opening a FIFO without a reader would block for ever. */
	assert_int_equal(mkfifo(at("own/fifo"), 0600), 0);
	assert_int_equal(append_file_open(at("own/fifo"), 0600, &e), -ENXIO);
	assert_non_null(strstr(e.text, "own/fifo: cannot be written: it is neither"));
	assert_int_equal(write_file_atomic(at("own/fifo"), "x", 1, 0600, &e), -EINVAL);
	assert_int_equal(lstat(at("own/fifo"), &st), 0);
	assert_true(S_ISFIFO(st.st_mode));

	assert_int_equal(write_file_atomic("/dev/null", "x", 1, 0600, &e), 0);
	assert_int_equal(lstat("/dev/null", &st), 0);
	assert_true(S_ISCHR(st.st_mode));
	assert_int_equal(pipe(p), 0);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", p[1]);
	assert_int_equal(write_file_atomic(link, "by pipe", 7, 0600, &e), 0);
	assert_int_equal(read(p[0], link, sizeof(link)), 7);
	close(p[0]);
	close(p[1]);
}

/* In a directory where every user can create links and files. */
static void test_own_file_of_others(void **state)
{
	struct err e = ERR_INIT;
	int fd;

	(void)state;
	if (geteuid())
		skip();
	assert_int_equal(mkdir(at("public"), 0700), 0);
	assert_int_equal(chmod(at("public"), 01777), 0);
	assert_int_equal(write_file_atomic(at("target"), "mine", 4, 0600, &e), 0);
	assert_int_equal(symlink("../target", at("public/link")), 0);
	assert_int_equal(lchown(at("public/link"), 65534, 65534), 0);
	assert_int_equal(write_file_atomic(at("public/link"), "x", 1, 0600, &e), -EPERM);
	assert_non_null(strstr(e.text, "belongs to another user"));
	assert_int_equal(append_file_open(at("public/link"), 0600, &e), -EPERM);
	assert_string_equal(content(at("target")), "mine");
	assert_int_equal(symlink("..", at("public/up")), 0);
	assert_int_equal(lchown(at("public/up"), 65534, 65534), 0);
	assert_int_equal(append_file_open(at("public/up/target"), 0600, &e), -EPERM);
	/* The directory's owner could have put the file there itself, so its link is trusted. */
	assert_int_equal(chown(at("public"), 65534, 65534), 0);
	fd = append_file_open(at("public/up/target"), 0600, &e);
	assert_true(fd >= 0);
	close(fd);

	assert_int_equal(chown(at("public"), 0, 0), 0);
	assert_int_equal(write_file_atomic(at("public/theirs"), "x", 1, 0600, &e), 0);
	assert_int_equal(chown(at("public/theirs"), 65534, 65534), 0);
	assert_true(append_file_open(at("public/theirs"), 0600, &e) < 0);
}

static void test_own_dir(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(mkdir(at("outer"), 0700), 0);
	assert_int_equal(mkdir(at("outer/state"), 0700), 0);
	assert_int_equal(own_dir_check(at("outer/state"), &e), 0);
	assert_int_equal(chmod(at("outer/state"), 01777), 0);
	assert_int_equal(own_dir_check(at("outer/state"), &e), -EPERM);
	assert_non_null(strstr(e.text, "chmod go-w"));
	assert_int_equal(chmod(at("outer/state"), 0700), 0);
	assert_int_equal(chmod(at("outer"), 0777), 0);
	assert_int_equal(own_dir_check(at("outer/state"), &e), -EPERM);
	assert_int_equal(chmod(at("outer"), 01777), 0);
	assert_int_equal(own_dir_check(at("outer/state"), &e), 0);
	assert_int_equal(own_dir_check(at("outer/nothing"), &e), -ENOENT);
	if (geteuid())
		return;
	assert_int_equal(chown(at("outer/state"), 65534, 65534), 0);
	assert_int_equal(own_dir_check(at("outer/state"), &e), -EPERM);
	assert_non_null(strstr(e.text, "chown root"));
}

static void test_write_file_relative(void **state)
{
	char *old = getcwd(NULL, 0), *out;

	(void)state;
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(write_file_atomic("relative", "x", 1, 0600, NULL), 0);
	assert_int_equal(read_file("relative", 1, &out, NULL), 0);
	free(out);
	assert_int_equal(chdir(old), 0);
	free(old);
}

static void test_make_dirs(void **state)
{
	struct stat st;

	(void)state;
	assert_int_equal(make_dirs(at("m/a/b/c"), 0750), 0);
	assert_int_equal(stat(at("m/a/b/c"), &st), 0);
	assert_true(S_ISDIR(st.st_mode));
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(stat(at("m"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(make_dirs(at("m/a/b/c"), 0700), 0);
	assert_int_equal(stat(at("m"), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0750); /* existing directories keep their mode */
	assert_int_equal(make_dirs(at("m//x///y//"), 0700), 0);
	assert_int_equal(stat(at("m/x/y"), &st), 0);
	assert_int_equal(make_dirs("/", 0700), 0);
	assert_int_equal(make_dirs("", 0700), -ENOENT);

	assert_int_equal(write_file_atomic(at("m/file"), "", 0, 0600, NULL), 0);
	assert_int_equal(make_dirs(at("m/file"), 0700), -ENOTDIR);
	assert_int_equal(make_dirs(at("m/file/sub"), 0700), -ENOTDIR);
}

/* ---- standard descriptors ---- */

/* Runs in a child without the descriptors of the bit mask `closed`. Returns the error found, or
 * NULL. keep[] are copies of 0 to 2, at higher numbers. */
static const char *hold_without(unsigned closed, const int keep[3])
{
	int fresh CLEANUP_CLOSE = -1;
	char c;

	for (int fd = 0; fd < 3; fd++)
		if (closed >> fd & 1)
			close(fd);
	hold_standard_fds();
	for (int fd = 0; fd < 3; fd++) {
		struct stat is, was;

		if (fstat(fd, &is) || fstat(keep[fd], &was))
			return "one is closed";
		if (!(closed >> fd & 1)) {
			if (is.st_dev != was.st_dev || is.st_ino != was.st_ino)
				return "one that was open is another";
			continue;
		}
		if ((fd ? write(fd, "x", 1) : read(fd, &c, 1)) >= 0 || errno != EBADF)
			return "one that was closed can be used";
	}
	fresh = open("/dev/null", O_RDWR | O_CLOEXEC);
	return fresh < 3 ? "a new one takes the place of a standard one" : NULL;
}

static void test_hold_standard_fds(void **state)
{
	(void)state;
	for (unsigned closed = 0; closed < 8; closed++) {
		int said[2];
		char text[64] = "";
		pid_t pid;

		assert_int_equal(pipe2(said, O_CLOEXEC), 0);
		pid = fork();
		if (pid == 0) {
			static const char *const files[] = { dir, "/", "/dev" };
			const char *wrong;
			int keep[3];

			/* A different file for each descriptor, to identify it later. */
			for (int fd = 0; fd < 3; fd++) {
				keep[fd] = open(files[fd], O_RDONLY | O_CLOEXEC);
				dup2(keep[fd], fd);
			}
			wrong = hold_without(closed, keep);
			if (wrong)
				(void)!write(said[1], wrong, strlen(wrong));
			_exit(!!wrong);
		}
		close(said[1]);
		assert_true(pid > 0);
		assert_true(read_full(said[0], text, sizeof(text) - 1) >= 0);
		close(said[0]);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		if (*text)
			fail_msg("without %s%s%s: %s", closed & 1 ? "0 " : "", closed & 2 ? "1 " : "",
				 closed & 4 ? "2 " : "", text);
	}
}

/* Opens descriptors 20 to 27 and returns the ones that close_fds(from, to) leaves open, bit 0 for
 * descriptor 20. 256: the test cannot run. */
static int left_of(bool one_by_one, unsigned from, unsigned to)
{
	int status = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		int left = 0;

		for (int fd = 20; fd < 28; fd++)
			if (dup2(STDERR_FILENO, fd) < 0)
				kill(getpid(), SIGKILL);
		if (one_by_one && refuse_call(SYS_close_range, EPERM) < 0)
			kill(getpid(), SIGKILL);
		close_fds(from, to);
		for (int fd = 20; fd < 28; fd++)
			left |= (fcntl(fd, F_GETFD) >= 0) << (fd - 20);
		_exit(left);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

static void closes(bool one_by_one)
{
	assert_int_equal(left_of(one_by_one, 22, 24), 0xe3);
	assert_int_equal(left_of(one_by_one, 25, UINT_MAX), 0x1f);
	assert_int_equal(left_of(one_by_one, 23, 23), 0xf7);
	assert_int_equal(left_of(one_by_one, 24, 23), 0xff);
}

static void test_close_fds(void **state)
{
	(void)state;
	closes(false);
}

static void test_close_fds_one_by_one(void **state)
{
	(void)state;
	if (left_of(true, 28, 28) == 256)
		skip(); /* seccomp filters are not available */
	closes(true);
}

/* The second lock waits until the first one's descriptor is closed. Locking makes no file. */
static void *lock_again(void *arg)
{
	int fd = lock_file_open(at("locked/file"), NULL);

	__atomic_store_n((bool *)arg, true, __ATOMIC_RELEASE);
	return fd >= 0 && close(fd) == 0 ? NULL : arg;
}

static void test_lock_file(void **state)
{
	bool second = false;
	struct err e = ERR_INIT;
	pthread_t t;
	void *failed;
	int fd;

	(void)state;
	assert_int_equal(mkdir(at("locked"), 0700), 0);
	fd = lock_file_open(at("locked/file"), &e);
	assert_true(fd >= 0);
	assert_int_equal(thread_start(&t, "lock", lock_again, &second), 0);
	poll(NULL, 0, 50);
	assert_false(__atomic_load_n(&second, __ATOMIC_ACQUIRE));
	close(fd);
	pthread_join(t, &failed);
	assert_null(failed);
	assert_int_equal(rmdir(at("locked")), 0);
	assert_int_equal(lock_file_open(at("locked/file"), &e), -ENOENT);
	assert_non_null(strstr(e.text, "cannot lock the directory of "));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pipes),
		cmocka_unit_test(test_errors),
		cmocka_unit_test(test_receive_timeout),
		cmocka_unit_test(test_at_offsets),
		cmocka_unit_test(test_poll),
		cmocka_unit_test(test_flags),
		cmocka_unit_test(test_cleanup_close),
		cmocka_unit_test(test_read_file),
		cmocka_unit_test(test_write_file_atomic),
		cmocka_unit_test(test_lock_file),
		cmocka_unit_test(test_own_file_places),
		cmocka_unit_test(test_own_file_of_others),
		cmocka_unit_test(test_own_dir),
		cmocka_unit_test(test_write_file_relative),
		cmocka_unit_test(test_make_dirs),
		cmocka_unit_test(test_close_fds),
		cmocka_unit_test(test_close_fds_one_by_one),
		cmocka_unit_test(test_hold_standard_fds),
	};

	return cmocka_run_group_tests_name("io", tests, make_temp, remove_temp);
}
