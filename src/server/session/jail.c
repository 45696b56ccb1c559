// SPDX-License-Identifier: Apache-2.0
/* System call filters: lists of calls, and rules about their arguments. */
#include "server/server.h"

#include <fcntl.h>
#include <poll.h>

struct refused_call {
	uint32_t arch;
	long call;
};

#ifdef HAVE_SECCOMP

#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41 /* since Linux 5.17; glibc's malloc uses it to name its memory */
#endif
/* RDMA_VERBS_IOCTL, used by all verbs; only src/rdma may include <rdma/...>. */
#define VERBS_REQUEST 0xc0181b01
#define TYPE_MASK 0xf /* the type of a socket, without SOCK_CLOEXEC and SOCK_NONBLOCK */

/* Calls about open descriptors, time, memory and threads. Without a vDSO, libc gets the time and
 * the processor number by one of several system calls. */
static const char *const basic_calls[] = {
	"read", "write", "readv", "writev", "recvmsg", "sendmsg", "recvfrom", "sendto",
	"close", "shutdown", "poll", "ppoll", "eventfd2",
	"getsockopt", "getsockname", "getpeername", "fstat", "newfstatat", "lseek",
	"munmap", "mremap", "madvise", "brk",
	"futex", "set_robust_list", "rseq", "sched_yield", "gettid", "getpid",
	"exit", "exit_group", "rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack",
	"restart_syscall", "clock_gettime", "clock_gettime64", "clock_getres",
	"clock_getres_time64", "clock_nanosleep", "clock_nanosleep_time64", "nanosleep",
	"gettimeofday", "time", "getcpu", "futex_time64", "ppoll_time64",
	"getrandom", "getuid", "geteuid", "getgid", "getegid", NULL
};

/* In a preauth process these fail with EPERM: libraries try them, but do not need them. */
static const char *const refused_calls[] = {
	"open", "openat", "access", "faccessat", "faccessat2", "stat", "lstat", "statx", "readlink",
	"readlinkat", "sysinfo", "uname", "sched_getaffinity", "membarrier", "socket",
	"connect", "ioctl", NULL
};

/* In a preauth process these fail with ENOSYS, so libc uses an older call. clone3(2) is here
 * because its arguments are in memory, where a filter cannot read them; those of clone(2) are in
 * registers. */
static const char *const unknown_calls[] = {
	"clone3", "close_range", "futex_waitv", "futex_wait", "futex_wake", "futex_requeue", NULL
};

static const char *const session_calls[] = {
	/* files */
	"open", "openat", "openat2", "access", "faccessat", "faccessat2", "stat", "lstat", "statx",
	"statfs", "fstatfs", "readlink", "readlinkat", "getdents64", "rename", "renameat",
	"renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat", "link", "linkat",
	"symlink", "symlinkat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat",
	"lchown", "utimensat", "truncate", "ftruncate", "fallocate", "fsync", "fdatasync",
	"sync_file_range", "syncfs", "fadvise64", "readahead", "flock", "pread64", "pwrite64",
	"preadv", "preadv2", "pwritev", "pwritev2", "sendfile", "splice", "tee", "vmsplice",
	"copy_file_range", "getxattr", "lgetxattr", "fgetxattr", "setxattr", "lsetxattr",
	"fsetxattr", "listxattr", "llistxattr", "flistxattr", "removexattr", "lremovexattr",
	"fremovexattr", "getcwd", "chdir", "fchdir", "umask",
	/* descriptors and sockets */
	"dup", "dup2", "dup3", "pipe2", "select", "pselect6", "epoll_create1", "epoll_ctl",
	"epoll_wait", "epoll_pwait", "epoll_pwait2", "eventfd", "bind", "listen", "connect",
	"accept", "accept4", "sendmmsg", "recvmmsg",
	/* memory and its nodes */
	"mlock", "mlock2", "munlock", "mbind", "get_mempolicy", "set_mempolicy", "mincore",
	"msync", "membarrier",
	/* io_uring(7) */
	"io_uring_setup", "io_uring_enter", "io_uring_register",
	/* scheduling */
	"sched_getaffinity", "sched_getscheduler", "sched_getparam", "sched_get_priority_max",
	"sched_get_priority_min", "set_tid_address",
	/* identity and limits */
	"getresuid", "getresgid", "getgroups", "getppid", "getpgrp", "getrlimit", "setrlimit",
	"getrusage", "sysinfo", "uname", "rt_sigpending",
	"rt_sigtimedwait", "rt_sigsuspend", NULL
};

/* Only an attacker makes these calls, or a sanitizer, which inspects its own process. */
static const char *const deadly_unless_sanitized[] = {
	"ptrace", "process_vm_readv", "process_vm_writev", "fork", "vfork", "personality", NULL
};

/* Only an attacker makes these. */
static const char *const deadly_calls[] = {
	"execve", "execveat", "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid",
	"setgroups",
	"setfsuid", "setfsgid", "capset", "chroot", "pivot_root", "mount", "umount2", "move_mount",
	"open_tree", "fsopen", "fsmount", "fspick", "fsconfig", "mount_setattr", "unshare",
	"setns", "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load",
	"bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key",
	"open_by_handle_at", "reboot", "swapon", "swapoff", "sethostname", "setdomainname",
	"settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "iopl", "ioperm",
	"modify_ldt", "quotactl", "quotactl_fd", "acct", "syslog", "mknod", "mknodat",
	"pidfd_getfd", "pidfd_open", "pidfd_send_signal", "process_madvise", "process_mrelease",
	"kcmp", "lookup_dcookie", "nfsservctl", NULL
};

/* The flags of pthread_create(3), CLONE_DETACHED only in musl. Other flags, for namespaces or a
 * tracer, are not allowed. */
#define THREAD_FLAGS                                                                            \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |      \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID | CLONE_DETACHED)

/* Compare bits of argument n, which the kernel reads as int: the upper 32 bits are ignored. */
#define BITS(n, mask, value) { n, SCMP_CMP_MASKED_EQ, (uint32_t)(mask), (uint32_t)(value) }
#define INT(n, value) BITS(n, 0xffffffff, value)
#define NOTHING(n) { n, SCMP_CMP_EQ, 0, 0 }

/* A call is allowed if its arguments match all of args. Several rules may allow the same call. A
 * filter can compare numbers only: the memory behind a pointer can change before the kernel reads
 * it. */
struct arg_rule {
	const char *call;
	struct scmp_arg_cmp args[3];
	unsigned n;
};

#define ONE(...) { __VA_ARGS__ }, 1
#define TWO(...) { __VA_ARGS__ }, 2
#define THREE(...) { __VA_ARGS__ }, 3

static const struct arg_rule common_rules[] = {
	/* No executable memory. */
	{ "mmap", ONE(BITS(2, PROT_EXEC, 0)) },
	{ "mprotect", ONE(BITS(2, PROT_EXEC, 0)) },
	/* Threads, but no processes. */
	{ "clone", ONE({ 0, SCMP_CMP_MASKED_EQ, ~(uint64_t)THREAD_FLAGS | CLONE_THREAD,
			 CLONE_THREAD }) },
	/* Other commands set owner signals, leases, locks or seals: they are refused. */
	{ "fcntl", ONE(INT(1, F_GETFD)) },
	{ "fcntl", ONE(INT(1, F_SETFD)) },
	{ "fcntl", ONE(INT(1, F_GETFL)) },
	{ "fcntl", ONE(INT(1, F_SETFL)) },
	{ "fcntl", ONE(INT(1, F_DUPFD_CLOEXEC)) },
	{ "prctl", ONE(INT(0, PR_SET_NAME)) },
	{ "prctl", ONE(INT(0, PR_GET_NAME)) },
	{ "prctl", ONE(INT(0, PR_GET_DUMPABLE)) },
	{ "prctl", ONE(INT(0, PR_SET_VMA)) },
	{ "socketpair", ONE(INT(0, AF_UNIX)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_OOBINLINE)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_KEEPALIVE)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_NODELAY)) },
};

static const struct arg_rule session_rules[] = {
	/* libibverbs loads the drivers of network cards. Memory may be executable or writable, not
	 * both. */
	{ "mmap", ONE(BITS(2, PROT_WRITE | PROT_EXEC, PROT_EXEC)) },
	{ "fcntl", ONE(INT(1, F_DUPFD)) },
	/* Only for this process: 0 means the calling process or thread. */
	{ "prlimit64", ONE(INT(0, 0)) },
	{ "sched_setaffinity", ONE(INT(0, 0)) },
	{ "move_pages", ONE(INT(0, 0)) },
	/* Verbs; the physical location of files; the bytes queued in a socket; names of network
	 * devices; isatty(3) for the log. */
	{ "ioctl", ONE(INT(1, VERBS_REQUEST)) },
	{ "ioctl", ONE(INT(1, FS_IOC_FIEMAP)) },
	{ "ioctl", ONE(INT(1, FIONREAD)) },
	{ "ioctl", ONE(INT(1, SIOCGIFNAME)) },
	{ "ioctl", ONE(INT(1, SIOCGIFINDEX)) },
	{ "ioctl", ONE(INT(1, TCGETS)) },
	/* AF_UNIX for name services; netlink to read network devices and routes. */
	{ "socket", ONE(INT(0, AF_UNIX)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, IPPROTO_TCP)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, IPPROTO_UDP)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_STREAM), INT(2, IPPROTO_TCP)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, 0)) },
	{ "socket", THREE(INT(0, AF_INET6), BITS(1, TYPE_MASK, SOCK_DGRAM), INT(2, IPPROTO_UDP)) },
	{ "socket", TWO(INT(0, AF_NETLINK), INT(2, NETLINK_ROUTE)) },
	{ "socket", TWO(INT(0, AF_NETLINK), INT(2, NETLINK_RDMA)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_REUSEADDR)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_SNDBUF)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_RCVBUF)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_LINGER)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_MAX_PACING_RATE)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_RCVTIMEO)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_SNDTIMEO)) },
	{ "setsockopt", TWO(INT(1, SOL_SOCKET), INT(2, SO_PASSCRED)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_KEEPIDLE)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_KEEPINTVL)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_KEEPCNT)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_USER_TIMEOUT)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_TCP), INT(2, TCP_CONGESTION)) },
	/* The resolver sets IP_RECVERR and IP_MTU_DISCOVER. */
	{ "setsockopt", TWO(INT(1, IPPROTO_IP), INT(2, IP_TOS)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IP), INT(2, IP_MTU_DISCOVER)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IP), INT(2, IP_RECVERR)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IPV6), INT(2, IPV6_V6ONLY)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IPV6), INT(2, IPV6_TCLASS)) },
	{ "setsockopt", TWO(INT(1, IPPROTO_IPV6), INT(2, IPV6_RECVERR)) },
	{ "setsockopt", ONE(INT(1, SOL_NETLINK)) },
};

#define RULES(rules) rules, sizeof(rules) / sizeof((rules)[0])

/* Add a rule for each call. A call that this processor architecture does not have is skipped. */
static int add_calls(scmp_filter_ctx f, uint32_t action, const char *const *names)
{
	int rc = 0;

	for (; rc == 0 && *names; names++) {
		int nr = seccomp_syscall_resolve_name(*names);

		if (nr != __NR_SCMP_ERROR && nr >= 0)
			rc = seccomp_rule_add(f, action, nr, 0);
	}
	return rc;
}

static int add_arg_rules(scmp_filter_ctx f, const struct arg_rule *r, size_t n)
{
	int rc = 0;

	for (; rc == 0 && n; n--, r++) {
		int nr = seccomp_syscall_resolve_name(r->call);

		if (nr != __NR_SCMP_ERROR && nr >= 0)
			rc = seccomp_rule_add_array(f, SCMP_ACT_ALLOW, nr, r->n, r->args);
	}
	return rc;
}

/* Rules for preauth processes and sessions. raise(3) and abort(3) use tgkill(2), which is allowed
 * for this process only. */
static int add_common(scmp_filter_ctx f)
{
	const struct arg_rule own[] = {
		{ "tgkill", ONE(INT(0, getpid())) },
		{ "kill", ONE(INT(0, getpid())) },
		{ "prlimit64", TWO(INT(0, getpid()), NOTHING(2)) },
	};
	int rc = add_calls(f, SCMP_ACT_ALLOW, basic_calls);

	if (rc == 0)
		rc = add_arg_rules(f, RULES(common_rules));
	return rc ? rc : add_arg_rules(f, RULES(own));
}

static int fill_front(scmp_filter_ctx f)
{
	static const struct arg_rule own_limits = { "prlimit64", TWO(INT(0, 0), NOTHING(2)) };
	int rc = add_common(f);

	if (rc == 0)
		rc = add_arg_rules(f, &own_limits, 1);
	if (rc == 0)
		rc = add_calls(f, SCMP_ACT_ERRNO(ENOSYS), unknown_calls);
	return rc ? rc : add_calls(f, SCMP_ACT_ERRNO(EPERM), refused_calls);
}

static int fill_session(scmp_filter_ctx f)
{
	int rc = add_calls(f, SCMP_ACT_KILL_PROCESS, deadly_calls);

	if (rc == 0)
		rc = add_calls(f, SCMP_ACT_KILL_PROCESS, deadly_unless_sanitized);

	/* On most architectures fork(3) calls clone(2). */
	if (rc == 0)
		rc = seccomp_rule_add(f, SCMP_ACT_KILL_PROCESS, SCMP_SYS(clone), 1,
				      SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
	if (rc == 0)
		rc = add_common(f);
	if (rc == 0)
		rc = add_calls(f, SCMP_ACT_ALLOW, session_calls);
	return rc ? rc : add_arg_rules(f, RULES(session_rules));
}

/* others: the action for calls without a rule. A sanitizer makes many kinds of calls: with one, all
 * calls but the deadly ones are allowed. */
static int load_filter(int (*fill)(scmp_filter_ctx f), uint32_t others, struct err *e)
{
	scmp_filter_ctx f = seccomp_init(SANITIZED ? SCMP_ACT_ALLOW : others);
	int rc;

	if (!f)
		return err_nomem(e);

	rc = SANITIZED ? add_calls(f, SCMP_ACT_KILL_PROCESS, deadly_calls) : fill(f);

	/* Filter all threads. A call of another ABI, for example of 32 bits, ends the process,
	 * because its number there differs from those in these lists. */
	if (rc == 0)
		rc = seccomp_attr_set(f, SCMP_FLTATR_CTL_TSYNC, 1);
	if (rc == 0)
		rc = seccomp_attr_set(f, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
	if (rc == 0)
		rc = seccomp_load(f);
	seccomp_release(f);

	if (rc == -EINVAL || rc == -ENOSYS)
		return err_set(e, -EOPNOTSUPP, "this kernel filters no system calls (seccomp)");
	return rc < 0 ? err_set(e, -EINVAL, "filter of system calls: %s", strerror(-rc)) : 0;
}

int jail_preauth(struct err *e)
{
	return load_filter(fill_front, SCMP_ACT_KILL_PROCESS, e);
}

/* clone3(2), and calls newer than the lists, fail with ENOSYS. */
int jail_session(struct err *e)
{
	return load_filter(fill_session, SCMP_ACT_ERRNO(ENOSYS), e);
}

static void call_text(struct refused_call r, char out[JAIL_CALL_TEXT])
{
	char *name = seccomp_syscall_resolve_num_arch(r.arch, (int)r.call);

	snprintf(out, JAIL_CALL_TEXT, "%ld (%.40s)", r.call, name ? name : "unknown");
	free(name);
}

#else

static void call_text(struct refused_call r, char out[JAIL_CALL_TEXT])
{
	snprintf(out, JAIL_CALL_TEXT, "%ld", r.call);
}

int jail_preauth(struct err *e)
{
	return err_set(e, -EOPNOTSUPP, "this build has no libseccomp");
}

int jail_session(struct err *e)
{
	return jail_preauth(e);
}

#endif

/* ---- refused calls ---- */

enum { RECORD_TRIES = 5, RECORD_MS = 2, RECORD_AGE_S = 60 };

/* Fill r from a record "...type=1326 audit(SECONDS... pid=P ... arch=A syscall=N ..." if P is pid. An
 * old record is of another process that had the same pid. */
static bool read_record(const char *record, pid_t pid, struct refused_call *r)
{
	const char *type = strstr(record, "type=1326 audit("), *p = type ? strstr(type, " pid=") : NULL;
	const char *arch = p ? strstr(p, " arch=") : NULL;
	const char *call = arch ? strstr(arch, " syscall=") : NULL;

	if (!call || strtol(p + 5, NULL, 10) != pid ||
	    strtoll(type + strlen("type=1326 audit("), NULL, 10) < time(NULL) - RECORD_AGE_S)
		return false;
	r->arch = (uint32_t)strtoul(arch + 6, NULL, 16);
	r->call = strtol(call + 9, NULL, 10);
	return true;
}

const char *jail_refused_call(pid_t pid, char out[JAIL_CALL_TEXT])
{
	int kmsg CLEANUP_CLOSE = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	struct refused_call r = { 0 };
	char record[8192];
	bool found = false;
	ssize_t n;

	for (int i = 0; kmsg >= 0 && !found && i < RECORD_TRIES; i++) {
		if (i)
			poll(NULL, 0, RECORD_MS);
		/* Each read(2) returns one record; EPIPE: records were overwritten. The last
		 * matching record counts. */
		while ((n = read(kmsg, record, sizeof(record) - 1)) > 0 ||
		       (n < 0 && (errno == EPIPE || errno == EINTR))) {
			record[n < 0 ? 0 : n] = '\0';
			found = read_record(record, pid, &r) || found;
		}
	}

	*out = '\0';
	if (found)
		call_text(r, out);
	return out;
}
