// SPDX-License-Identifier: Apache-2.0
/* System calls of preauth and session processes. Each call is made by a process in its jail: it
 * works as usual, fails, or kills the process. */
#include "block/block.h"
#include "server/server.h"
#include "storage/storage.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pwd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#ifdef HAVE_VERBS
#include <rdma/rdma_user_ioctl_cmds.h>
#endif

/* The result of a call: 0, a positive errno, or one of these. */
enum {
	REACHED = -1,  /* the kernel handles the call, with any result */
	DIED = 1000,   /* plus the signal's number */
	ELSE = 2000,
	KILLED = DIED + SIGSYS,
};

/* ---- in a jail ---- */

typedef int (*jail_fn)(struct err *e);
typedef long (*deed)(const void *arg); /* 0 or a negative errno */

static int outcome(jail_fn jail, deed d, const void *arg)
{
	struct err e = ERR_INIT;
	long r = -ECHILD;
	int status, fd[2];
	pid_t pid;

	assert_int_equal(pipe(fd), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		alarm(60);
		if (jail(&e) < 0)
			_exit(99);
		r = d(arg);
		_exit(write(fd[1], &r, sizeof(r)) == sizeof(r) ? 0 : 98);
	}
	close(fd[1]);
	if (read(fd[0], &r, sizeof(r)) != sizeof(r))
		r = -ECHILD;
	close(fd[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFSIGNALED(status))
		return DIED + WTERMSIG(status);
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		return ELSE + status;
	return r < 0 ? (int)-r : 0;
}

static void expect(const char *what, jail_fn jail, deed d, const void *arg, int want)
{
	int got = outcome(jail, d, arg);

	/* The filter of sessions never returns EPERM; EPERM then means that the system forbids the
	 * call. */
	if (want == REACHED ? got >= DIED || got == ENOSYS || (got == EPERM && jail == jail_preauth) :
	    got != want)
		fail_msg("%s of a %s: %d, not %d", what,
			 jail == jail_preauth ? "preauth" : "session", got, want);
}

/* ---- single calls ---- */

/* Placeholders for arguments that are known only in the jailed process. */
#define SELF LONG_MIN
#define PARENT (LONG_MIN + 1)
#define ROOM (LONG_MIN + 2) /* the address of zeroed, writable memory */

struct call {
	const char *what;
	long nr, args[6];
	int preauth, session;
};

static long fill_in(long arg)
{
	static char room[4096];

	return arg == SELF ? getpid() : arg == PARENT ? getppid() :
	       arg == ROOM ? (long)(uintptr_t)room : arg;
}

static long make_call(const void *arg)
{
	const struct call *c = arg;
	long a[6];

	for (int i = 0; i < 6; i++)
		a[i] = fill_in(c->args[i]);
	return syscall(c->nr, a[0], a[1], a[2], a[3], a[4], a[5]) < 0 ? -errno : 0;
}

static void try_all(const struct call *c, size_t n)
{
	for (; n; n--, c++) {
		expect(c->what, jail_preauth, make_call, c, c->preauth);
		expect(c->what, jail_session, make_call, c, c->session);
	}
}
#define TRY(calls) try_all(calls, sizeof(calls) / sizeof((calls)[0]))

#define CALL(name, ...) #name, SYS_##name, { __VA_ARGS__ }

/* Calls that only an attacker makes, in either process. */
static const struct call attacks[] = {
	{ CALL(execve), KILLED, KILLED },
	{ CALL(setuid), KILLED, KILLED },
	{ CALL(setgroups), KILLED, KILLED },
	{ CALL(capset), KILLED, KILLED },
	{ CALL(chroot, ROOM), KILLED, KILLED },
	{ CALL(mount), KILLED, KILLED },
	{ CALL(unshare, CLONE_NEWUSER), KILLED, KILLED },
	{ CALL(setns), KILLED, KILLED },
	{ CALL(bpf), KILLED, KILLED },
	{ CALL(perf_event_open), KILLED, KILLED },
	{ CALL(userfaultfd), KILLED, KILLED },
	{ CALL(keyctl), KILLED, KILLED },
	{ CALL(add_key), KILLED, KILLED },
	{ CALL(open_by_handle_at), KILLED, KILLED },
	{ CALL(init_module), KILLED, KILLED },
	{ CALL(clock_settime), KILLED, KILLED },
	{ CALL(pidfd_open, PARENT), KILLED, KILLED },
	{ CALL(pidfd_getfd), KILLED, KILLED },
	{ CALL(pidfd_send_signal), KILLED, KILLED },
};

static void test_attacks(void **state)
{
	TRY(attacks);
}

static void test_others_are_not_reached(void **state)
{
	static const struct call calls[] = {
		{ CALL(kill, PARENT), KILLED, ENOSYS },
		{ CALL(kill, 0), KILLED, ENOSYS },
		{ CALL(kill, -1), KILLED, ENOSYS },
		{ CALL(tgkill, PARENT, PARENT), KILLED, ENOSYS },
		{ CALL(tkill, PARENT), KILLED, ENOSYS },
		{ CALL(rt_sigqueueinfo, PARENT, SIGUSR1, ROOM), KILLED, ENOSYS },
		{ CALL(rt_tgsigqueueinfo, PARENT, PARENT, SIGUSR1, ROOM), KILLED, ENOSYS },
		{ CALL(ptrace, 16, PARENT), KILLED, KILLED },
		{ CALL(process_vm_readv, PARENT), KILLED, KILLED },
		{ CALL(process_vm_writev, PARENT), KILLED, KILLED },
		{ CALL(prlimit64, PARENT, RLIMIT_NOFILE, 0, ROOM), KILLED, ENOSYS },
		{ CALL(prlimit64, PARENT, RLIMIT_NOFILE, ROOM), KILLED, ENOSYS },
		{ CALL(sched_setaffinity, PARENT, 8, ROOM), KILLED, ENOSYS },
		{ CALL(setpriority, PRIO_USER), KILLED, ENOSYS },
		{ CALL(move_pages, PARENT), KILLED, ENOSYS },
		{ CALL(migrate_pages, PARENT), KILLED, ENOSYS },
	};

	TRY(calls);
}

static void test_itself_is(void **state)
{
	static const struct call calls[] = {
		{ CALL(kill, SELF), 0, 0 },
		{ CALL(tgkill, SELF, SELF), 0, 0 },
		{ CALL(prlimit64, 0, RLIMIT_NOFILE, 0, ROOM), 0, 0 },
		{ CALL(prlimit64, SELF, RLIMIT_NOFILE, 0, ROOM), 0, 0 },
		/* the parent sets the limits of a preauth process */
		{ CALL(prlimit64, 0, RLIMIT_NOFILE, ROOM), KILLED, 0 },
		{ CALL(prlimit64, SELF, RLIMIT_NOFILE, ROOM), KILLED, ENOSYS },
		{ CALL(sched_getaffinity, 0, 1024, ROOM), EPERM, 0 },
		{ CALL(sched_setaffinity, 0, 8, ROOM), KILLED, REACHED },
		{ CALL(move_pages, 0), KILLED, REACHED },
	};

	TRY(calls);
}

/* A call that reaches the kernel fails with EINVAL. */
static void test_no_processes(void **state)
{
	static const struct call calls[] = {
		{ CALL(clone, SIGCHLD), KILLED, KILLED },
		{ CALL(clone, CLONE_VFORK | CLONE_VM | SIGCHLD), KILLED, KILLED },
		{ CALL(clone, CLONE_THREAD), REACHED, REACHED },
		{ CALL(clone, CLONE_THREAD | CLONE_NEWNS), KILLED, ENOSYS },
		{ CALL(clone, CLONE_THREAD | CLONE_NEWUSER), KILLED, ENOSYS },
		{ CALL(clone, CLONE_THREAD | CLONE_NEWPID), KILLED, ENOSYS },
		{ CALL(clone, CLONE_THREAD | CLONE_NEWNET), KILLED, ENOSYS },
		{ CALL(clone, CLONE_THREAD | CLONE_PTRACE), KILLED, ENOSYS },
		{ CALL(clone3, ROOM, 88), ENOSYS, ENOSYS },
#ifdef SYS_fork
		{ CALL(fork), KILLED, KILLED },
		{ CALL(vfork), KILLED, KILLED },
#endif
	};

	TRY(calls);
}

static void test_memory_is_written_or_run(void **state)
{
	enum { W = PROT_READ | PROT_WRITE, X = PROT_READ | PROT_EXEC, HOW = MAP_PRIVATE |
	       MAP_ANONYMOUS };
	static const struct call calls[] = {
		{ CALL(mmap, 0, 4096, W, HOW, -1), 0, 0 },
		{ CALL(mmap, 0, 4096, X, HOW, -1), KILLED, 0 }, /* RDMA drivers in user space */
		{ CALL(mmap, 0, 4096, W | X, HOW, -1), KILLED, ENOSYS },
		{ CALL(mprotect, 0, 0, W), 0, 0 },
		{ CALL(mprotect, 0, 0, X), KILLED, ENOSYS },
		{ CALL(pkey_mprotect, 0, 0, X, -1), KILLED, ENOSYS },
		{ CALL(personality, 0x0400000), KILLED, KILLED }, /* READ_IMPLIES_EXEC */
		{ CALL(memfd_create, ROOM), KILLED, ENOSYS },
	};

	TRY(calls);
}

static void test_options_of_processes_and_files(void **state)
{
	static const struct call calls[] = {
		{ CALL(prctl, PR_SET_NAME, ROOM), 0, 0 },
		{ CALL(prctl, PR_SET_DUMPABLE, 1), KILLED, ENOSYS },
		{ CALL(prctl, PR_SET_PTRACER, -1), KILLED, ENOSYS },
		{ CALL(prctl, PR_SET_SECCOMP, 2), KILLED, ENOSYS },
		{ CALL(prctl, PR_SET_MM), KILLED, ENOSYS },
		{ CALL(prctl, PR_SET_PDEATHSIG), KILLED, ENOSYS },
		{ CALL(seccomp), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_GETFD), 0, 0 },
		{ CALL(fcntl, 0, F_SETFD), 0, 0 },
		{ CALL(fcntl, 0, F_GETFL), 0, 0 },
		{ CALL(fcntl, 0, F_SETFL), REACHED, REACHED },
		{ CALL(fcntl, 0, F_DUPFD_CLOEXEC), 0, 0 },
		{ CALL(fcntl, 0, F_SETOWN, PARENT), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_SETOWN_EX, ROOM), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_SETSIG, SIGKILL), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_SETLEASE, F_RDLCK), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_NOTIFY, 1), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_ADD_SEALS, 1), KILLED, ENOSYS },
		{ CALL(fcntl, 0, F_SETPIPE_SZ, 1 << 20), KILLED, ENOSYS },
	};

	TRY(calls);
}

static void test_requests(void **state)
{
	static const struct call calls[] = {
		{ CALL(ioctl, -1, 0xc0181b01, ROOM), EPERM, EBADF }, /* verbs */
		{ CALL(ioctl, -1, FS_IOC_FIEMAP, ROOM), EPERM, EBADF },
		{ CALL(ioctl, -1, FIONREAD, ROOM), EPERM, EBADF },
		{ CALL(ioctl, -1, SIOCGIFNAME, ROOM), EPERM, EBADF },
		{ CALL(ioctl, -1, SIOCGIFINDEX, ROOM), EPERM, EBADF },
		{ CALL(ioctl, -1, TCGETS, ROOM), EPERM, EBADF },
		{ CALL(ioctl, -1, TIOCSTI, ROOM), EPERM, ENOSYS },
		/* the kernel uses the lower 32 bits only */
		{ CALL(ioctl, -1, 0x100000000 | TIOCSTI, ROOM), EPERM, ENOSYS },
		{ CALL(ioctl, -1, TIOCLINUX, ROOM), EPERM, ENOSYS },
		{ CALL(ioctl, -1, TIOCSCTTY), EPERM, ENOSYS },
		{ CALL(ioctl, -1, TCSETS, ROOM), EPERM, ENOSYS },
		{ CALL(ioctl, -1, FIOSETOWN, ROOM), EPERM, ENOSYS },
		{ CALL(ioctl, -1, SIOCSIFFLAGS, ROOM), EPERM, ENOSYS },
		{ CALL(ioctl, -1, FS_IOC_SETFLAGS, ROOM), EPERM, ENOSYS },
	};

	TRY(calls);
#ifdef HAVE_VERBS
	assert_int_equal((unsigned)RDMA_VERBS_IOCTL, 0xc0181b01);
#endif
}

static void test_sockets(void **state)
{
	enum { TCP = IPPROTO_TCP, PACKETS = SOCK_SEQPACKET | SOCK_CLOEXEC };
	static const struct call calls[] = {
		{ CALL(socket, AF_INET, SOCK_STREAM | SOCK_CLOEXEC), EPERM, 0 },
		{ CALL(socket, AF_INET6, SOCK_STREAM | SOCK_NONBLOCK, TCP), EPERM, REACHED },
		{ CALL(socket, AF_INET, SOCK_DGRAM, IPPROTO_UDP), EPERM, 0 },
		{ CALL(socket, AF_INET6, SOCK_DGRAM), EPERM, REACHED },
		{ CALL(socket, AF_UNIX, SOCK_STREAM), EPERM, 0 },
		{ CALL(socket, AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), EPERM, 0 },
		{ CALL(socket, AF_NETLINK, SOCK_RAW, NETLINK_RDMA), EPERM, REACHED },
		{ CALL(socket, AF_INET, SOCK_RAW, IPPROTO_ICMP), EPERM, ENOSYS },
		{ CALL(socket, AF_INET6, SOCK_RAW, IPPROTO_ICMPV6), EPERM, ENOSYS },
		{ CALL(socket, AF_INET, SOCK_DGRAM, IPPROTO_ICMP), EPERM, ENOSYS },
		{ CALL(socket, AF_INET, SOCK_STREAM, IPPROTO_SCTP), EPERM, ENOSYS },
		{ CALL(socket, AF_PACKET, SOCK_RAW), EPERM, ENOSYS },
		{ CALL(socket, AF_NETLINK, SOCK_RAW, NETLINK_NETFILTER), EPERM, ENOSYS },
		{ CALL(socket, AF_NETLINK, SOCK_RAW, NETLINK_SOCK_DIAG), EPERM, ENOSYS },
		{ CALL(socket, AF_ALG, SOCK_SEQPACKET), EPERM, ENOSYS },
		{ CALL(socket, AF_VSOCK, SOCK_STREAM), EPERM, ENOSYS },
		{ CALL(socket, AF_BLUETOOTH, SOCK_RAW, 1), EPERM, ENOSYS },
		{ CALL(socketpair, AF_UNIX, PACKETS, 0, ROOM), 0, 0 },
		{ CALL(socketpair, AF_TIPC, PACKETS, 0, ROOM), KILLED, ENOSYS },
		{ CALL(setsockopt, -1, SOL_SOCKET, SO_KEEPALIVE, ROOM, 4), EBADF, EBADF },
		{ CALL(setsockopt, -1, TCP, TCP_NODELAY, ROOM, 4), EBADF, EBADF },
		{ CALL(setsockopt, -1, SOL_SOCKET, SO_SNDBUF, ROOM, 4), KILLED, EBADF },
		{ CALL(setsockopt, -1, SOL_SOCKET, SO_MAX_PACING_RATE, ROOM, 8), KILLED, EBADF },
		{ CALL(setsockopt, -1, TCP, TCP_CONGESTION, ROOM, 4), KILLED, EBADF },
		{ CALL(setsockopt, -1, IPPROTO_IP, IP_TOS, ROOM, 4), KILLED, EBADF },
		{ CALL(setsockopt, -1, SOL_SOCKET, SO_ATTACH_FILTER, ROOM, 16), KILLED, ENOSYS },
		{ CALL(setsockopt, -1, TCP, 31, ROOM, 4), KILLED, ENOSYS }, /* TCP_ULP */
		{ CALL(setsockopt, -1, IPPROTO_IP, 64, ROOM, 4), KILLED, ENOSYS }, /* iptables */
	};

	TRY(calls);
}

static void test_what_is_not_known(void **state)
{
	static const struct call calls[] = {
		{ "no call", 100000, { 0 }, KILLED, ENOSYS },
		{ CALL(io_uring_setup, 4, 0), KILLED, REACHED },
		{ CALL(io_uring_enter, -1), KILLED, REACHED },
		{ CALL(openat, AT_FDCWD, ROOM), EPERM, ENOENT },
#ifdef __x86_64__
		/* the x32 numbers of the same calls */
		{ "x32", 0x40000000 | SYS_getpid, { 0 }, KILLED, KILLED },
#endif
	};

	TRY(calls);
}

/* libc makes the first calls only where the kernel has no vDSO (user-mode Linux, "vdso=0"), others
 * only without rseq(2). With ENOSYS libraries fall back to older calls. */
static void test_calls_of_libc(void **state)
{
	static const struct call calls[] = {
#ifdef SYS_time
		{ CALL(time), 0, 0 },
#endif
		{ CALL(gettimeofday, ROOM), 0, 0 },
		{ CALL(clock_gettime, CLOCK_REALTIME, ROOM), 0, 0 },
		{ CALL(clock_getres, CLOCK_MONOTONIC, ROOM), 0, 0 },
		{ CALL(getcpu, ROOM), 0, 0 },
		{ CALL(clock_nanosleep, CLOCK_MONOTONIC, 0, ROOM), 0, 0 },
		{ CALL(nanosleep, ROOM), 0, 0 },
		{ CALL(getrandom, ROOM, 16), 0, 0 },
		{ CALL(futex, ROOM, 1, 1), 0, 0 }, /* FUTEX_WAKE */
		{ CALL(rseq), REACHED, REACHED },
		{ CALL(close_range, UINT_MAX, UINT_MAX), ENOSYS, ENOSYS },
#ifdef SYS_futex_waitv
		{ CALL(futex_waitv, ROOM), ENOSYS, ENOSYS },
#endif
	};

	TRY(calls);
}

/* ---- more than one call ---- */

/* 32-bit calls have other numbers; a kernel without 32-bit support raises a fault. */
static long call_of_32_bits(const void *arg)
{
	long r = 20; /* getpid */

#ifdef __x86_64__
	__asm__ volatile("int $0x80" : "+a"(r) : : "memory", "r8", "r9", "r10", "r11");
#endif
	return r < 0 ? r : 0;
}

static void test_other_numbers(void **state)
{
#ifdef __x86_64__
	int got = outcome(jail_preauth, call_of_32_bits, NULL);

	assert_true(got == KILLED || got == DIED + SIGSEGV);
	got = outcome(jail_session, call_of_32_bits, NULL);
	assert_true(got == KILLED || got == DIED + SIGSEGV);
#else
	(void)call_of_32_bits;
#endif
}

/* The filter applies to all threads, not only to the thread that installed it. */
static pthread_barrier_t filtered;

static void *forbidden(void *arg)
{
	pthread_barrier_wait(&filtered);
	syscall(SYS_unshare, 0);
	return arg;
}

static int jail_two_threads(struct err *e)
{
	pthread_t t;
	int rc;

	pthread_barrier_init(&filtered, NULL, 2);
	rc = -pthread_create(&t, NULL, forbidden, NULL);
	if (rc == 0)
		rc = jail_session(e);
	pthread_barrier_wait(&filtered);
	pthread_join(t, NULL);
	return rc;
}

static long nothing_more(const void *arg)
{
	return 0;
}

static void test_all_threads_are_in_it(void **state)
{
	assert_int_equal(outcome(jail_two_threads, nothing_more, NULL), KILLED);
}

/* ---- needs of the processes ---- */

static void *end_at_once(void *arg)
{
	return arg;
}

static long thread(const void *arg)
{
	pthread_t t;
	int rc = thread_start(&t, "thread", end_at_once, NULL);

	return rc ? rc : -pthread_join(t, NULL);
}

static long bytes(const void *arg)
{
	int fd[2];
	char c = 'x';

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd) < 0 || send(fd[0], &c, 1, 0) != 1 ||
	    recv(fd[1], &c, 1, 0) != 1 || shutdown(fd[0], SHUT_WR) < 0 || close(fd[0]) < 0)
		return -errno;
	return poll_fd(fd[1], POLLIN, 0) == 1 ? 0 : -EIO;
}

static long memory(const void *arg)
{
	char *p = malloc(1 << 20), *more = p ? realloc(p, 8 << 20) : NULL;

	if (!more)
		return -ENOMEM;
	memset(more, 1, 8 << 20);
	free(more);
	return 0;
}

static void ignore(int sig)
{
	(void)sig;
}

static long signals(const void *arg)
{
	signal(SIGUSR1, ignore);
	return -(raise(SIGUSR1) || pthread_kill(pthread_self(), SIGUSR1));
}

static long give_up(const void *arg)
{
	abort();
}

static long files(const void *arg)
{
	char name[] = "/tmp/rftp-test-jail-XXXXXX", c = 'x';
	int fd = mkostemp(name, O_CLOEXEC), dir = open("/tmp", O_RDONLY | O_DIRECTORY);
	struct stat st;

	if (fd < 0 || dir < 0 || write(fd, &c, 1) != 1 || fstat(fd, &st) < 0 || fsync(fd) < 0 ||
	    fchmod(fd, 0600) < 0 || ftruncate(fd, 4096) < 0 || rename(name, name) < 0 ||
	    pread(fd, &c, 1, 0) != 1 || stat(name, &st) < 0 || unlinkat(dir, name, 0) < 0)
		return -errno;
	return 0;
}

/* Looks up a user and a host by means of nsswitch.conf(5). */
static long names(const void *arg)
{
	struct addrinfo *a = NULL, hints = { .ai_socktype = SOCK_STREAM };

	if (!getpwuid(0) || getaddrinfo("localhost", "1", &hints, &a))
		return -EIO;
	freeaddrinfo(a);
	return 0;
}

/* Writes and reads back a block with the I/O engine of bulk transfers. */
static int there_and_back(struct io *io, int fd, struct block *b)
{
	struct io_op op = { .fd = fd, .data = block_payload(b), .len = b->cap, .block = b };
	struct io_op *done;

	for (int way = 0; way < 2; way++) {
		memset(block_payload(b), way ? 0 : 'x', op.len);
		op.write = way == 0;
		op.result = 0;
		if (io_submit(io, &op) < 0 || io_reap(io, &done, 1, 1) != 1 || op.result != op.len)
			return -EIO;
	}
	return memchr(block_payload(b), 0, op.len) ? -EIO : 0;
}

static long ring(const void *arg)
{
	const struct pool_config config = { .blocks = 1, .payload = BLOCK_MIN };
	char name[] = "/tmp/rftp-test-jail-XXXXXX";
	struct err e = ERR_INIT;
	struct pool *pool = pool_new(&config, &e);
	struct block *b = pool ? pool_get(pool) : NULL;
	struct io *io = b ? io_new(IO_URING, 4, &pool, 1, NULL, &e) : NULL;
	int fd = mkostemp(name, O_CLOEXEC), rc = -EIO;

	unlink(name);
	if (io)
		rc = strcmp(io_name(io), arg) ? -EOPNOTSUPP : there_and_back(io, fd, b);
	io_free(io);
	if (b)
		pool_put(b);
	pool_free(pool);
	close(fd);
	return rc;
}

static void test_io_uring(void **state)
{
	static const char *const kinds[] = { "io_uring+registered", "io_uring" };

	/* A process may be unable to register memory, or to use io_uring at all. */
	for (size_t i = 0; i < 2; i++)
		if (ring(kinds[i]) == 0) {
			expect(kinds[i], jail_session, ring, kinds[i], 0);
			return;
		}
	skip();
}

static void test_what_they_need(void **state)
{
	static const struct {
		const char *what;
		deed d;
		int preauth, session;
	} all[] = {
		{ "a thread", thread, 0, 0 },
		{ "bytes", bytes, 0, 0 },
		{ "memory", memory, 0, 0 },
		{ "signals", signals, 0, 0 },
		{ "abort", give_up, DIED + SIGABRT, DIED + SIGABRT },
		{ "files", files, EPERM, 0 },
		{ "names", names, EIO, 0 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		expect(all[i].what, jail_preauth, all[i].d, NULL, all[i].preauth);
		expect(all[i].what, jail_session, all[i].d, NULL, all[i].session);
	}
}

/* ---- choosing the tests ---- */

/* The reason for skipping all tests, or NULL. */
static const char *why_not(void)
{
	struct err e = ERR_INIT;
	int status;
	pid_t pid;

	if (getenv("UNIT_UNDER"))
		return "valgrind makes calls of its own";
	pid = fork();
	if (pid == 0)
		_exit(jail_session(&e) == -EOPNOTSUPP);
	if (waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return NULL;
	return "built without libseccomp, or this kernel filters no system calls";
}

/* The kernel rate-limits these records, so there may be none. */
static void test_refused_call(void **state)
{
	char text[JAIL_CALL_TEXT], want[JAIL_CALL_TEXT];
	struct err e = ERR_INIT;
	int status;
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (pid == 0) {
		if (jail_preauth(&e) < 0)
			_exit(99);
		syscall(SYS_personality, 0xffffffff);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS);
	assert_ptr_equal(jail_refused_call(pid, text), text);
	snprintf(want, sizeof(want), "%d (personality)", (int)SYS_personality);
	if (*text)
		assert_string_equal(text, want);
	else
		print_message("no record of the call in the kernel's log\n");
	assert_string_equal(jail_refused_call(getpid(), text), "");
}

/* Write a record like the kernel's, in which this process made the call. False: not root. */
static bool write_record(long long seconds)
{
	int kmsg CLEANUP_CLOSE = open("/dev/kmsg", O_WRONLY | O_CLOEXEC);
	char record[200];
	int n = snprintf(record, sizeof(record), "audit: type=1326 audit(%lld.000:1): uid=0 pid=%d "
			 "comm=\"test\" sig=31 arch=%x syscall=%d compat=0\n", seconds,
			 (int)getpid(), AUDIT_ARCH_X86_64, (int)SYS_personality);

	return kmsg >= 0 && write(kmsg, record, (size_t)n) == n;
}

static void test_old_record(void **state)
{
	char text[JAIL_CALL_TEXT], want[16];

	(void)state;
	if (!write_record((long long)time(NULL) - 3600))
		skip();
	assert_string_equal(jail_refused_call(getpid(), text), "");
	assert_true(write_record((long long)time(NULL)));
	snprintf(want, sizeof(want), "%d ", (int)SYS_personality);
	jail_refused_call(getpid(), text);
	if (*text) /* the kernel limits the rate of records */
		assert_memory_equal(text, want, strlen(want));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_refused_call),
		cmocka_unit_test(test_old_record),
		cmocka_unit_test(test_attacks),
		cmocka_unit_test(test_others_are_not_reached),
		cmocka_unit_test(test_itself_is),
		cmocka_unit_test(test_no_processes),
		cmocka_unit_test(test_memory_is_written_or_run),
		cmocka_unit_test(test_options_of_processes_and_files),
		cmocka_unit_test(test_requests),
		cmocka_unit_test(test_sockets),
		cmocka_unit_test(test_what_is_not_known),
		cmocka_unit_test(test_calls_of_libc),
		cmocka_unit_test(test_other_numbers),
		cmocka_unit_test(test_all_threads_are_in_it),
		cmocka_unit_test(test_what_they_need),
		cmocka_unit_test(test_io_uring),
	};
	/* Sanitizers make system calls of their own, so their builds use a looser filter. */
	const struct CMUnitTest loose[] = { cmocka_unit_test(test_attacks) };
	const char *why = why_not();

	if (why) {
		printf("1..0 # SKIP %s\n", why);
		return 0;
	}
	if (SANITIZED)
		return cmocka_run_group_tests_name("server-jail", loose, NULL, NULL);
	return cmocka_run_group_tests_name("server-jail", tests, NULL, NULL);
}
